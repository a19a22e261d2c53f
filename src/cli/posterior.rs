//! The posterior that `fit` wrote, as the other commands read it.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::Laplace;

use super::console::Console;
use super::failure::Failure;

/// The posterior to work with.
#[derive(Debug, Args)]
pub struct PosteriorArgs {
    /// The posterior that `rla fit` wrote
    #[arg(long, value_name = "FILE")]
    pub posterior: PathBuf,
}

impl PosteriorArgs {
    /// Reads the posterior.
    pub fn load(&self, console: &Console) -> Result<Laplace, Failure> {
        let _progress = console.spinner("loading the posterior");
        Laplace::load(&self.posterior).map_err(Failure::about(&self.posterior))
    }
}
