//! `rla fit --optimize-on`: prior precision and sigma tuned on held-out data.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::evaluate::{ValidationOptimum, ValidationOptions};
use riemannian_laplace::internals::evidence::Free;
use serde::Serialize;

use super::console::Console;
use super::data::DataArgs;
use super::failure::Failure;
use super::output::{Summary, counted, short};

/// The held-out data to tune on.
#[derive(Debug, Args)]
pub struct ValidationArgs {
    /// Tune prior precision and sigma on held-out data instead: by the negative log likelihood of the linearised
    /// prediction (default link) at the rows of this file, with the same columns as --data
    #[arg(long, value_name = "CSV", conflicts_with_all = ["optimize", "from"])]
    optimize_on: Option<PathBuf>,
}

/// What `--json` adds.
#[derive(Debug, Serialize)]
pub struct ValidationReport {
    validation_nll: f64,
    map_validation_nll: f64,
    at_grid_edge: bool,
}

impl From<&ValidationOptimum> for ValidationReport {
    fn from(optimum: &ValidationOptimum) -> Self {
        Self {
            validation_nll: optimum.nll,
            map_validation_nll: optimum.map_nll,
            at_grid_edge: optimum.at_edge.is_some(),
        }
    }
}

impl ValidationArgs {
    /// The file, if the option was given.
    pub fn path(&self) -> Option<&Path> {
        self.optimize_on.as_deref()
    }

    /// Tunes what was not given, and warns of an optimum at the grid's edge or worse than the network alone.
    pub fn tune(
        &self,
        data: &DataArgs,
        [prior, sigma]: [Free; 2],
        laplace: &mut Laplace,
        console: &Console,
    ) -> Result<Option<ValidationOptimum>, Failure> {
        let Some(path) = self.path() else { return Ok(None) };
        let held_out = data.read_other(path, laplace, console)?;
        held_out.check_against(&**laplace.model(), laplace.family())?;
        if prior == Free::Held
            && (sigma == Free::Held || laplace.family().sigma().is_none() && laplace.dispersions().is_empty())
        {
            console.note("--optimize-on has nothing to tune: every value was given");
        }
        let options = ValidationOptions { prior, sigma, ..Default::default() };
        let progress = console.spinner("tuning on the held-out data");
        let optimum = laplace.optimize_on(&held_out.dataset, &options, &progress)?;
        drop(progress);
        if let Some(edge) = &optimum.at_edge {
            let (low, high) = options.grid;
            console.warn(format!(
                "the best prior precision, {}, is at the end of the grid from {low:e} to {high:e}: the held-out data want \
                 {} than that, or do not depend on it",
                short(edge.value),
                if edge.value < 1.0 { "less" } else { "more" },
            ));
        }
        if optimum.is_worse_than_map() {
            console.warn(format!(
                "the tuned posterior predicts {} worse than the trained network alone: nll {} for {}",
                path.display(),
                short(optimum.nll),
                short(optimum.map_nll),
            ));
        }
        Ok(Some(optimum))
    }
}

/// Adds what the tuning found to a summary.
pub fn summarize(optimum: &ValidationOptimum, summary: &mut Summary) {
    let meaning = "negative log likelihood per held-out data point, in nats; smaller is better";
    summary.row("validation nll", short(optimum.nll), meaning);
    summary.row("map validation nll", short(optimum.map_nll), "the same of the trained network alone");
    let outcome = if optimum.at_edge.is_some() { "at the grid's edge" } else { "inside the grid" };
    summary.row("tuning", outcome, counted(optimum.evaluations, "evaluation"));
}
