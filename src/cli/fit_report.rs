//! What `rla fit --json` prints.

use std::collections::BTreeMap;

use riemannian_laplace::internals::evaluate::{ClosedForms, TemperOptimum, TrainingFit};
use riemannian_laplace::internals::evidence::AtBound;
use riemannian_laplace::internals::laplace::LARGE_CONDITION;
use riemannian_laplace::{EvidenceOptimum, Laplace, ValidationOptimum};
use serde::Serialize;

use super::classes::{self, ClassNames};
use super::console::Console;
use super::fit_score::ScoreReport;
use super::follow::Origin;
use super::output::{OneOrMany, short};
use super::tempering::TemperingReport;
use super::training_fit::TrainingFitReport;
use super::validation::ValidationReport;

/// What is said about a posterior besides its evidence.
pub struct Checks {
    pub fit: Option<TrainingFit>,
    pub scores: Option<ClosedForms>,
    pub tempering: Option<TemperOptimum>,
    /// Of the posterior precision.
    pub condition: Option<f64>,
}

/// Says when the condition of the posterior precision takes digits of the evidence.
pub fn warn_of_condition(laplace: &Laplace, condition: Option<f64>, console: &Console) {
    let Some(condition) = condition.filter(|condition| *condition > LARGE_CONDITION) else { return };
    console.warn(format!(
        "the condition number of the posterior precision is {condition:.1e}: about {:.0} digits of the log marginal likelihood \
         hold, and differences below {} nats mean nothing; standardised inputs, a greater prior precision or a larger sigma \
         lower it",
        laplace.evidence_digits(condition),
        short(0.5 * f64::EPSILON * condition),
    ));
}

/// The outcome of --optimize.
pub enum Tuning {
    /// It was not requested.
    Off,
    /// There was nothing to tune: every value was given.
    NothingFree,
    /// The optimum.
    Done(EvidenceOptimum),
    /// The optimum of --optimize-on.
    OnHeldOut(ValidationOptimum),
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    n_params: usize,
    n_data: usize,
    n_outputs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassNames>,
    log_likelihood: f64,
    log_marginal_likelihood: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_marginal_likelihood_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    products: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    prior_precision: Option<OneOrMany>,
    prior_mean: OneOrMany,
    temperature: f64,
    sigma: Option<OneOrMany>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    dispersions: BTreeMap<String, f64>,
    log_det_ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence_digits: Option<f64>,
    effective_parameters: f64,
    solver: &'static str,
    structure: String,
    curvature: &'static str,
    seconds: f64,
    #[serde(flatten)]
    fit: Option<TrainingFitReport>,
    #[serde(flatten)]
    scores: Option<ScoreReport>,
    #[serde(flatten)]
    tuning: Option<TuningReport>,
    #[serde(flatten)]
    validation: Option<ValidationReport>,
    #[serde(flatten)]
    tempering: Option<TemperingReport>,
}

#[derive(Debug, Serialize)]
struct TuningReport {
    converged: bool,
    at_bound: Vec<BoundReport>,
}

#[derive(Debug, Serialize)]
struct BoundReport {
    parameter: &'static str,
    index: usize,
    value: f64,
}

/// The report of a posterior.
pub fn report(laplace: &Laplace, origin: Origin, checks: &Checks, tuning: &Tuning, seconds: f64) -> Report {
    let bound = |bound: &AtBound| BoundReport { parameter: bound.parameter, index: bound.index, value: bound.value };
    Report {
        n_params: laplace.model().n_params(),
        n_data: laplace.n_data(),
        n_outputs: laplace.model().n_outputs(),
        classes: classes::of(laplace.schema(), laplace.family(), laplace.model().n_outputs()),
        log_likelihood: laplace.log_likelihood(),
        log_marginal_likelihood: laplace.log_marginal_likelihood(),
        log_marginal_likelihood_error: laplace.log_marginal_likelihood_error(),
        products: laplace.precision().estimates().map(|estimates| estimates.products),
        from: origin.word(),
        prior_precision: laplace.prior().matrix().is_none().then(|| laplace.prior().values().into()),
        prior_mean: laplace.prior_mean().values().into(),
        temperature: laplace.temperature(),
        sigma: laplace.sigma().map(|sigma| OneOrMany::from(sigma.as_slice())),
        dispersions: laplace.dispersions().into_iter().collect(),
        log_det_ratio: laplace.log_det_ratio(),
        condition: checks.condition,
        evidence_digits: checks.condition.map(|condition| laplace.evidence_digits(condition)),
        effective_parameters: laplace.effective_parameters(),
        solver: laplace.structure().solver(),
        structure: laplace.structure().in_words(),
        curvature: laplace.curvature_kind().name(),
        seconds,
        fit: checks.fit.as_ref().map(TrainingFitReport::from),
        scores: checks.scores.as_ref().map(ScoreReport::from),
        tuning: match tuning {
            Tuning::Off | Tuning::OnHeldOut(_) => None,
            Tuning::NothingFree => Some(TuningReport { converged: true, at_bound: Vec::new() }),
            Tuning::Done(optimum) => Some(TuningReport {
                converged: optimum.converged,
                at_bound: optimum.at_bound.iter().map(bound).collect(),
            }),
        },
        validation: match tuning {
            Tuning::OnHeldOut(optimum) => Some(optimum.into()),
            Tuning::Off | Tuning::NothingFree | Tuning::Done(_) => None,
        },
        tempering: checks.tempering.as_ref().map(TemperingReport::from),
    }
}
