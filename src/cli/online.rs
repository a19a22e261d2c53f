//! `rla train --evidence`: weights, prior precision and noise learn together.

use clap::Args;
use riemannian_laplace::internals::evidence::{OnlineOptions, OnlineTraining, train_online};
use riemannian_laplace::{Dataset, Family, Network, Progress, TrainingOptions};
use serde::Serialize;

use super::arguments;
use super::failure::Failure;
use super::output::{Summary, counted, short};

/// Training by evidence.
#[derive(Debug, Args)]
pub struct EvidenceArgs {
    /// Tune prior precision and noise by the marginal likelihood during training: the prior then replaces
    /// --weight-decay, which holds for the burn-in alone
    #[arg(long, conflicts_with = "decay")]
    evidence: bool,
    /// Epochs before --evidence tunes for the first time [default: a quarter of them]
    #[arg(long, value_name = "N", requires = "evidence", value_parser = arguments::count)]
    burn_in: Option<usize>,
    /// Epochs from one tuning of --evidence to the next
    #[arg(long, value_name = "N", requires = "evidence", default_value = "100", value_parser = arguments::count)]
    every: usize,
}

/// What `--json` adds.
#[derive(Debug, Serialize)]
pub struct EvidenceReport {
    log_marginal_likelihood: f64,
    prior_precision: f64,
    sigma: Option<f64>,
}

impl EvidenceArgs {
    /// Trains and tunes, if that was asked for.
    pub fn train(
        &self,
        start: &Network,
        data: &Dataset,
        family: &Family,
        training: &TrainingOptions,
        progress: &dyn Progress,
    ) -> Result<Option<OnlineTraining>, Failure> {
        if !self.evidence {
            return Ok(None);
        }
        let burn_in = self.burn_in.unwrap_or(training.epochs / 4).max(1);
        let options = OnlineOptions { training: training.clone(), burn_in, every: self.every, ..Default::default() };
        Ok(Some(train_online(start, data, family, &options, progress)?))
    }
}

/// What was found, in the units of the data.
pub fn report(online: &OnlineTraining) -> EvidenceReport {
    EvidenceReport {
        log_marginal_likelihood: online.laplace.log_marginal_likelihood(),
        prior_precision: online.laplace.prior().values().first().copied().unwrap_or(f64::NAN),
        sigma: online.laplace.sigma().and_then(|sigma| sigma.first().copied()),
    }
}

/// Adds what was found to a summary.
pub fn summarize(online: &OnlineTraining, summary: &mut Summary) {
    let found = report(online);
    let tunings = counted(online.history.len(), "tuning");
    summary.row(
        "log marginal likelihood",
        short(found.log_marginal_likelihood),
        format!("nats, the greatest of {tunings}: these weights were kept"),
    );
    summary.row("prior precision", short(found.prior_precision), "tuned; fit --optimize finds it again");
    if let Some(sigma) = found.sigma {
        summary.row("sigma", short(sigma), "tuned; noise, in units of the target");
    }
}
