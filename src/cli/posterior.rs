//! The posterior that `fit` wrote, as the other commands read it.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::Laplace;

use super::console::Console;
use super::failure::Failure;

/// The posterior to work with.
#[derive(Debug, Args)]
pub struct PosteriorArgs {
    /// The posterior that `rla fit` wrote (for `predict` and `evaluate` also the folder of `rla train --committee`)
    #[arg(long, value_name = "FILE")]
    pub posterior: PathBuf,
}

impl PosteriorArgs {
    /// Reads the posterior.
    pub fn load(&self, console: &Console) -> Result<Laplace, Failure> {
        if self.posterior.join("committee.json").is_file() {
            let folder = self.posterior.display();
            let advice = "`rla predict` and `rla evaluate` take it, this command one of its members";
            return Err(Failure::Usage(format!(
                "{folder} is a committee: {advice}, such as {folder}/member-01.safetensors"
            )));
        }
        let _progress = console.spinner("loading the posterior");
        Laplace::load(&self.posterior).map_err(Failure::about(&self.posterior))
    }
}

/// A relative residual of conjugate gradients above this is told.
const LARGE_RESIDUAL: f64 = 1e-2;

/// Warns where conjugate gradients did not converge.
pub fn warn_of_residual(laplace: &Laplace, console: &Console) {
    if let Some(estimates) = laplace.precision().estimates().filter(|known| known.worst_residual > LARGE_RESIDUAL) {
        console.warn(format!(
            "conjugate gradients did not converge: a relative residual of {:.1e} is left, and draws and variances are \
             that rough; a greater prior precision or a larger sigma makes the system easier",
            estimates.worst_residual
        ));
    }
}

/// Says how well variances are known that are estimated from draws.
pub fn note_of_error(laplace: &Laplace, console: &Console) {
    if let Some(estimates) = laplace.precision().estimates() {
        console.note(format!(
            "variances are estimated from {} draws of the weights: their standard error is {:.0} %",
            estimates.draws,
            100.0 * estimates.variance_error
        ));
    }
}
