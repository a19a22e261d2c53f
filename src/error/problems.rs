//! Densities that do not exist.

/// What is wrong with the numbers that describe one of the problems of the paper.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProblem {
    /// Deviations of a Gaussian that are none.
    #[error("the deviations of the Gaussian are {0:?}; they must be positive, finite and at least one")]
    Deviations(Vec<f64>),
    /// A deviation of the funnel's second coordinate that is none.
    #[error("sigma of the funnel is {0}; it must be positive and finite")]
    FunnelSigma(f64),
    /// Variances of the squiggle that are none.
    #[error("the variances of the squiggle are {0:?}; they must be positive and finite")]
    SquiggleVariances([f64; 2]),
}
