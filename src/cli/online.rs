//! `rla train --evidence`: weights, prior precision and noise learn together.

use clap::Args;
use riemannian_laplace::TrainingOptions;
use riemannian_laplace::internals::evidence::OnlineTraining;
use riemannian_laplace::internals::network::Procedure;
use serde::Serialize;

use super::arguments;
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
    /// Whether it was asked for.
    pub fn is_asked_for(&self) -> bool {
        self.evidence
    }

    /// What was asked for, as a procedure.
    pub fn procedure(&self, training: &TrainingOptions) -> Option<Procedure> {
        self.evidence.then(|| Procedure::Evidence {
            epochs: training.epochs,
            learning_rate: training.learning_rate,
            weight_decay: training.weight_decay,
            batch_size: training.batch_size,
            burn_in: self.burn_in.unwrap_or(training.epochs / 4).max(1),
            every: self.every,
        })
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
    summary.row("prior precision", short(found.prior_precision), "tuned; kept in the file, and taken by fit");
    if let Some(sigma) = found.sigma {
        summary.row("sigma", short(sigma), "tuned; noise, in units of the target");
    }
}
