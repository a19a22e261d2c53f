//! Errors between processes that share a task.

/// What went wrong between the processes of a team.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// A message to or from a process that does not exist.
    #[error("there is no rank {rank}: the ranks are 0 to {}", size.saturating_sub(1))]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// A message that is not what was expected.
    #[error("a message from another rank cannot be read: are all ranks the same program with the same options?")]
    Message,
    /// A process that ended before its message came.
    #[error("rank {rank} is gone; its own message says why")]
    Gone {
        /// The rank.
        rank: usize,
    },
    /// The message passing interface did not start.
    #[error("MPI could not be started; was the program started by the mpirun of the MPI that it was built with?")]
    NotStarted,
    /// A task that cannot be shared.
    #[error("{what} cannot be shared among ranks; {advice}")]
    NotShared {
        /// What.
        what: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// No part of a fit to join.
    #[error("there are no parts to join")]
    NoParts,
    /// Parts of different fits.
    #[error("parts {one} and {other} are of different fits: their networks, columns, priors or options differ")]
    OtherFit {
        /// One part.
        one: String,
        /// The other.
        other: String,
    },
    /// A part that is not there.
    #[error("part {part} of the fit is missing")]
    MissingPart {
        /// Which.
        part: String,
    },
    /// A part that is there twice.
    #[error("part {part} of the fit is given twice")]
    PartTwice {
        /// Which.
        part: String,
    },
}
