//! `rla train --cross-validate`: the network at its mode under the prior that predicts held-out data best.

use clap::Args;
use riemannian_laplace::internals::evaluate::{
    Committee, PriorPath, PriorPathOptions, cautious_precisions, train_committee,
};
use riemannian_laplace::internals::network::Procedure;
use riemannian_laplace::{Dataset, Family, Network, Progress};
use serde::Serialize;

use super::arguments;
use super::failure::Failure;
use super::output::{OneOrMany, Summary, counted, short, short_list};

/// Training along priors.
#[derive(Debug, Args)]
pub struct CrossValidateArgs {
    /// Choose the prior precision by cross-validation, and train to a mode of the posterior by Newton steps in place of
    /// Adam; σ follows from the fit. For networks of up to some thousand weights
    #[arg(long, conflicts_with_all = ["evidence", "decay", "epochs", "lr", "weight_decay", "batch_size"])]
    cross_validate: bool,
    /// The parts of the data for --cross-validate, each of which is predicted by the others
    #[arg(long, value_name = "N", requires = "cross_validate", default_value = "3", value_parser = arguments::count)]
    folds: usize,
    /// Keep all networks of --cross-validate as a committee of posteriors, mixed by how well they predict rows that they have
    /// not seen; --out is then a folder, which `rla predict` and `rla evaluate` take as --posterior
    #[arg(long, requires = "cross_validate")]
    committee: bool,
}

/// What `--json` adds.
#[derive(Debug, Serialize)]
pub struct CrossValidateReport {
    steps: usize,
    converged: bool,
    log_likelihood: f64,
    prior_precision: OneOrMany,
    sigma: Option<f64>,
    held_out_log_likelihood: f64,
    /// Every prior precision that was tried, and its log likelihood of held-out data.
    path: Vec<(f64, f64)>,
}

impl CrossValidateArgs {
    /// What was asked for, as a procedure.
    pub fn procedure(&self) -> Option<Procedure> {
        (self.cross_validate && !self.committee).then(|| Procedure::CrossValidated {
            folds: self.folds,
            folds_used: self.folds,
            ratios: vec![1.0],
            cautious: false,
        })
    }

    /// Whether a committee was asked for.
    pub fn wants_committee(&self) -> bool {
        self.committee
    }

    /// Trains a committee.
    pub fn train_committee(
        &self,
        start: &Network,
        data: &Dataset,
        family: &Family,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Committee, Failure> {
        Ok(train_committee(start, data, family, &self.options(seed), progress)?)
    }

    fn options(&self, seed: u64) -> PriorPathOptions {
        PriorPathOptions { folds: self.folds, seed, ..Default::default() }
    }
}

/// The priors that a path tries at most.
pub fn most_priors(ratios: usize) -> usize {
    ratios * cautious_precisions().len()
}

/// What was found, in the units of the data.
pub fn report(path: &PriorPath) -> CrossValidateReport {
    let laplace = &path.mode.laplace;
    CrossValidateReport {
        steps: path.mode.steps,
        converged: path.mode.converged,
        log_likelihood: laplace.log_likelihood(),
        prior_precision: laplace.prior().values().into(),
        sigma: laplace.sigma().and_then(|sigma| sigma.first().copied()),
        held_out_log_likelihood: path.best.held_out,
        path: path.steps.iter().map(|step| (step.prior_precision, step.held_out)).collect(),
    }
}

/// Adds what was found to a summary.
pub fn summarize(path: &PriorPath, summary: &mut Summary) {
    let found = report(path);
    let reached = match found.converged {
        true => "at a mode of the posterior".to_string(),
        false => format!("near a mode of the posterior: the last step gained {} nats", short(path.mode.last_gain)),
    };
    summary.row("steps", found.steps, reached);
    summary.row("log likelihood", short(found.log_likelihood), "nats, of the training data");
    let tried = counted(found.path.len(), "prior");
    summary.row(
        "held-out log likelihood",
        short(found.held_out_log_likelihood),
        format!("nats per row, best of {tried}"),
    );
    let values = path.mode.laplace.prior().values();
    let per_layer = if values.len() > 1 { "one per layer; " } else { "" };
    summary.row("prior precision", short_list(values), format!("{per_layer}kept in the file, and taken by fit"));
    if let Some(sigma) = found.sigma {
        summary.row("sigma", short(sigma), "noise, in units of the target; kept in the file, and taken by fit");
    }
}
