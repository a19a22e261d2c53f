//! `rla fit --temperature-on`: the temperature of the posterior, tuned on held-out data.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::evaluate::{TemperOptimum, TemperOptions};
use serde::Serialize;

use super::console::Console;
use super::data::DataArgs;
use super::failure::Failure;
use super::output::{Summary, short};

/// The held-out data that the temperature is tuned on.
#[derive(Debug, Args)]
pub struct TemperingArgs {
    /// Tune the temperature on held-out data, after the prior: by the negative log likelihood of the linearised
    /// prediction (for classes --link centred-probit) at the rows of this file, with the same columns as --data
    #[arg(long, value_name = "CSV", conflicts_with_all = ["temperature", "from", "shard"])]
    temperature_on: Option<PathBuf>,
}

/// What `--json` adds.
#[derive(Debug, Serialize)]
pub struct TemperingReport {
    tempered_validation_nll: f64,
    untempered_validation_nll: f64,
    tempered_map_validation_nll: f64,
    temperature_at_grid_edge: bool,
}

impl From<&TemperOptimum> for TemperingReport {
    fn from(optimum: &TemperOptimum) -> Self {
        Self {
            tempered_validation_nll: optimum.nll,
            untempered_validation_nll: optimum.nll_before,
            tempered_map_validation_nll: optimum.map_nll,
            temperature_at_grid_edge: optimum.at_edge.is_some(),
        }
    }
}

impl TemperingArgs {
    /// The file, if the option was given.
    pub fn path(&self) -> Option<&Path> {
        self.temperature_on.as_deref()
    }

    /// Tunes the temperature, and warns of an optimum at the grid's edge or worse than the network alone.
    pub fn temper(
        &self,
        data: &DataArgs,
        laplace: &mut Laplace,
        console: &Console,
    ) -> Result<Option<TemperOptimum>, Failure> {
        let Some(path) = self.path() else { return Ok(None) };
        let held_out = data.read_other(path, laplace, console)?;
        held_out.check_against(&**laplace.model(), laplace.family())?;
        let options = TemperOptions::default();
        let progress = console.spinner("tuning the temperature on the held-out data");
        let optimum = laplace.temper_on(&held_out.dataset, &options, &progress)?;
        drop(progress);
        if let Some(edge) = &optimum.at_edge {
            let (low, high) = options.grid;
            console.warn(format!(
                "the best temperature, {}, is at the end of the grid from {low:e} to {high:e}: the held-out data want a \
                 {} one, or do not depend on it",
                short(edge.value),
                if edge.value < (low * high).sqrt() { "lower" } else { "higher" },
            ));
        }
        if optimum.nll > optimum.map_nll {
            console.warn(format!(
                "the tempered posterior predicts {} worse than the trained network alone: nll {} for {}",
                path.display(),
                short(optimum.nll),
                short(optimum.map_nll),
            ));
        }
        Ok(Some(optimum))
    }
}

/// Adds what the tuning found to a summary.
pub fn summarize(optimum: &TemperOptimum, summary: &mut Summary) {
    let meaning = format!("per held-out data point; {} at temperature 1", short(optimum.nll_before));
    summary.row("tempered validation nll", short(optimum.nll), meaning);
    summary.row("map validation nll", short(optimum.map_nll), "the same of the trained network alone");
}
