//! The processes that carry out a command together: this one, or those that `mpirun` started.

use std::process::ExitCode;

use riemannian_laplace::internals::team::Team;

use super::console::say;
use super::failure::Failure;

/// This process among those that carry out the command.
#[derive(Debug)]
pub struct Crew {
    team: Team,
    #[cfg(feature = "mpi")]
    mpi: Option<std::sync::Arc<riemannian_laplace::internals::team::Mpi>>,
}

impl Crew {
    /// This process alone.
    fn alone() -> Self {
        Self {
            team: Team::alone(),
            #[cfg(feature = "mpi")]
            mpi: None,
        }
    }

    /// Those that `mpirun` started, or this process alone.
    #[cfg(feature = "mpi")]
    pub fn assemble() -> Result<Self, Failure> {
        use riemannian_laplace::internals::team::Mpi;

        if !Mpi::is_launched() {
            return Ok(Self::alone());
        }
        let mpi = std::sync::Arc::new(Mpi::start()?);
        Ok(Self { team: Team::new(mpi.clone()), mpi: Some(mpi) })
    }

    /// This process alone: the program was built without the feature `mpi`.
    #[cfg(not(feature = "mpi"))]
    pub fn assemble() -> Result<Self, Failure> {
        if std::env::var_os("OMPI_COMM_WORLD_SIZE").is_some_and(|size| size != "1") {
            return Err(Failure::Usage(
                "mpirun started several processes, but this program was built without MPI; build it with --features mpi"
                    .to_string(),
            ));
        }
        Ok(Self::alone())
    }

    /// Those who share the work.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Reports a failure, and ends the program; where one process failed, all end.
    pub fn finish(&self, outcome: Result<(), Failure>) -> ExitCode {
        let Err(failure) = outcome else { return ExitCode::SUCCESS };
        let who = if self.team.size() > 1 { format!("rank {}: ", self.team.rank()) } else { String::new() };
        say(format_args!("{who}error: {failure}"));
        for cause in failure.further_causes() {
            say(format_args!("  caused by: {cause}"));
        }
        let status = failure.exit_status();
        #[cfg(feature = "mpi")]
        if let Some(mpi) = &self.mpi {
            mpi.abort(status);
        }
        ExitCode::from(status)
    }
}
