//! What `rla train` says: the network, how it was trained, and what it explains beside a constant and a linear model.

use std::path::Path;

use riemannian_laplace::internals::evaluate::{Deviances, Outcome, Trained, expected_linear_seconds, linear_model};
use riemannian_laplace::{Activation, Dataset, Family};
use serde::Serialize;

use super::announce::LEAST_SECONDS;
use super::classes::{self, ClassNames};
use super::console::Console;
use super::failure::Failure;
use super::online::{self, EvidenceReport};
use super::output::{Summary, short};
use super::prior_path::{self, CrossValidateReport};
use super::stoppable::Stoppable;

/// The share of the deviance by which a linear model is not only as good.
const CLEARLY_BETTER: f64 = 0.05;

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    n_params: usize,
    n_data: usize,
    n_inputs: usize,
    n_outputs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassNames>,
    activation: String,
    procedure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    /// Shares of a constant's deviance.
    explained: Explained,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained_linear: Option<Explained>,
    seconds: f64,
    #[serde(flatten)]
    evidence: Option<EvidenceReport>,
    #[serde(flatten)]
    cross_validated: Option<CrossValidateReport>,
}

/// 1 − Δ/Δ₀ on rows of training, and on rows that were held out.
#[derive(Debug, Clone, Copy, Serialize)]
struct Explained {
    training: f64,
    held_out: Option<f64>,
}

impl From<&Trained> for Explained {
    fn from(trained: &Trained) -> Self {
        let held_out = trained.held_out.as_ref().map(Deviances::explained);
        Self { training: trained.training.explained(), held_out }
    }
}

impl Explained {
    fn in_words(self) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match self.held_out {
            Some(held_out) => format!("{} training, {} held out", percent(self.training), percent(held_out)),
            None => format!("{} training", percent(self.training)),
        }
    }
}

/// A linear model of the same rows, unless the network is one, or this would take long.
pub fn linear_beside(
    trained: &Trained,
    data: &Dataset,
    family: &Family,
    console: &Console,
) -> Result<Option<Trained>, Failure> {
    let architecture = trained.network.architecture();
    let sizes = (architecture.n_inputs(), architecture.n_outputs());
    let is_linear = architecture.linear_layers().len() < 2;
    if is_linear || expected_linear_seconds(sizes, data.len()) > LEAST_SECONDS {
        return Ok(None);
    }
    let progress = Stoppable::bar(console, "a linear model to compare with", prior_path::most_priors(1));
    // The network is written: what fails here is no reason to fail.
    Ok(linear_model(sizes, data, family, trained.recipe.seed, &progress).ok())
}

/// Everything that is told.
pub struct Told<'a> {
    pub trained: &'a Trained,
    pub linear: Option<&'a Trained>,
    pub family: &'a Family,
    pub loss: Option<(f64, &'static str)>,
    pub data: &'a Dataset,
    pub path: &'a Path,
    pub seconds: f64,
}

impl Told<'_> {
    fn path_along_priors(&self) -> Option<&riemannian_laplace::internals::evaluate::PriorPath> {
        match &self.trained.outcome {
            Outcome::Path(path) => Some(path),
            _ => None,
        }
    }

    fn epochs(&self) -> Option<usize> {
        match &self.trained.outcome {
            Outcome::Adam(training) => Some(training.epochs),
            Outcome::Stopped(stopped) => Some(stopped.epochs),
            Outcome::Evidence(online) => online.history.last().map(|step| step.epoch),
            Outcome::Path(_) => None,
        }
    }

    /// For scripts.
    pub fn report(&self) -> Report {
        let architecture = self.trained.network.architecture();
        Report {
            n_params: architecture.n_params(),
            n_data: self.data.len(),
            n_inputs: architecture.n_inputs(),
            n_outputs: architecture.n_outputs(),
            classes: classes::of(self.data.schema(), self.family, architecture.n_outputs()),
            activation: architecture.activation().unwrap_or(Activation::Identity).to_string(),
            procedure: self.trained.recipe.procedure.in_words(),
            epochs: self.epochs(),
            loss: self.loss.map(|(value, _)| value),
            explained: self.trained.into(),
            explained_linear: self.linear.map(Explained::from),
            seconds: self.seconds,
            evidence: match &self.trained.outcome {
                Outcome::Evidence(online) => Some(online::report(online)),
                _ => None,
            },
            cross_validated: self.path_along_priors().map(prior_path::report),
        }
    }

    /// For people.
    pub fn summary(&self) -> Summary {
        let architecture = self.trained.network.architecture();
        let mut summary = Summary::new(format!("network {architecture} written to {}", self.path.display()));
        summary.row("parameters", architecture.n_params(), "");
        summary.row("data points", self.data.len(), "");
        classes::add_row(self.data.schema(), self.family, architecture.n_outputs(), &mut summary);
        summary.row("trained", self.trained.recipe.procedure.in_words(), "");
        if let Some(epochs) = self.epochs() {
            summary.row("epochs", epochs, "");
        }
        if let Some((value, meaning)) = self.loss {
            summary.row("loss", short(value), meaning);
        }
        match &self.trained.outcome {
            Outcome::Evidence(online) => online::summarize(online, &mut summary),
            Outcome::Path(path) => prior_path::summarize(path, &mut summary),
            Outcome::Stopped(stopped) => {
                summary.row("kept", format!("epoch {}", stopped.best_epoch), "of the smallest held-out loss");
            }
            Outcome::Adam(_) => {}
        }
        let meaning = "of the deviance (a constant explains 0 %)";
        summary.row("explained", Explained::from(self.trained).in_words(), meaning);
        if let Some(linear) = self.linear {
            let meaning = "the same by a linear model";
            summary.row("linear model", Explained::from(linear).in_words(), meaning);
        }
        summary.row("time", format!("{:.2} s", self.seconds), "");
        summary
    }

    /// What a user should know before the network is used.
    pub fn warn(&self, console: &Console) {
        let own = Explained::from(self.trained);
        let judged = own.held_out.unwrap_or(own.training);
        if judged <= 0.0 {
            let where_ = if own.held_out.is_some() { "held-out rows" } else { "its rows" };
            console.warn(format!(
                "the network explains {where_} no better than a constant: the inputs may say nothing about the target, or \
                 training did not succeed (standardise the columns, or leave out --epochs, --lr and --weight-decay)"
            ));
        } else if let Some(linear) = self.linear.map(Explained::from) {
            let theirs = linear.held_out.unwrap_or(linear.training);
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            if theirs > judged + CLEARLY_BETTER {
                let (theirs, judged) = (percent(theirs), percent(judged));
                console.warn(format!("a linear model explains more ({theirs} for {judged}); leave out --hidden"));
            } else if theirs > judged {
                let words =
                    "a linear model explains as much; without --hidden it is simpler, and its intervals are exact";
                console.note(words);
            }
        }
    }
}
