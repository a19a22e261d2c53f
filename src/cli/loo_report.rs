//! What `rla loo` says: the score, what it is worth, and what held-out rows or training again make of it.

use std::path::Path;

use riemannian_laplace::internals::evaluate::{
    Comparison, Estimator, LeaveOneOut, Promise, Refit, expected_refit_seconds, refit,
};
use riemannian_laplace::{Dataset, Error, Laplace};
use serde::Serialize;

use super::announce::announce;
use super::console::Console;
use super::failure::Failure;
use super::loo::Scored;
use super::output::{Summary, counted, short};
use super::stoppable::Stoppable;

/// What the score is, in every form.
const WHAT: &str = "leave-one-out of the posterior at these weights";

#[derive(Debug, Serialize)]
pub struct Report<'a> {
    what: &'static str,
    elpd_loo: Option<f64>,
    se: Option<f64>,
    p_loo: Option<f64>,
    k_max: f64,
    n_k_above_0_7: usize,
    pit_coverage_90: Option<f64>,
    method: &'a str,
    estimator: &'static str,
    n: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<usize>,
    best: &'a str,
    methods: Vec<MethodReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ComparisonReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refit: Option<RefitReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_out: Option<HeldOutReport>,
    pub advice: Vec<String>,
}

/// Another method on the same data, for the choice among them.
#[derive(Debug, Serialize)]
struct MethodReport<'a> {
    method: &'a str,
    elpd_loo: Option<f64>,
    /// Relative to the network alone.
    elpd_gain: Option<f64>,
    elpd_gain_se: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ComparisonReport {
    posterior: String,
    elpd_loo: Option<f64>,
    elpd_difference: Option<f64>,
    se_difference: Option<f64>,
    /// The better one, where the difference exceeds twice its error.
    better: Option<String>,
}

#[derive(Debug, Serialize)]
struct RefitReport {
    folds: usize,
    from: &'static str,
    elpd: f64,
    se: f64,
    coverage_90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ComparisonReport>,
}

#[derive(Debug, Serialize)]
struct HeldOutReport {
    n: usize,
    log_density: f64,
    se: f64,
    promised_log_density: f64,
    coverage_90: Option<f64>,
    promised_coverage_90: Option<f64>,
    agrees: bool,
}

/// Training again without parts of the data: of this posterior, and of the one it is compared with.
pub struct Refits {
    own: Refit,
    other: Option<(String, Refit)>,
}

impl Refits {
    /// Trains again.
    pub fn of(
        laplace: &Laplace,
        other: Option<&(&std::path::PathBuf, Laplace)>,
        folds: usize,
        seed: u64,
        console: &Console,
    ) -> Result<Self, Failure> {
        let mut seconds = expected_refit_seconds(laplace, folds)?;
        if let Some((_, other)) = other {
            seconds += expected_refit_seconds(other, folds)?;
        }
        announce(
            console,
            seconds,
            "training again",
            "fewer parts are faster (--refit 2), and the evidence takes no time",
        );
        let progress = Stoppable::bar(console, "training again", folds * (1 + usize::from(other.is_some())));
        let stopped = |error: Error| match error {
            Error::Cancelled => Failure::Stopped("interrupted: nothing is kept".to_string()),
            error => error.into(),
        };
        let own = refit(laplace, folds, seed, &progress).map_err(stopped)?;
        let other = match other {
            Some((path, other)) => {
                Some((path.display().to_string(), refit(other, folds, seed, &progress).map_err(stopped)?))
            }
            None => None,
        };
        Ok(Self { own, other })
    }

    fn report(&self, path: &Path) -> RefitReport {
        let comparison = self.other.as_ref().map(|(posterior, theirs)| {
            let difference = difference(&self.own.pointwise, &theirs.pointwise);
            compared(path, posterior, Some(theirs.elpd()), difference)
        });
        RefitReport {
            folds: self.own.folds,
            from: if self.own.from_recipe { "recipe" } else { "weights" },
            elpd: self.own.elpd(),
            se: self.own.standard_error(),
            coverage_90: self.own.coverage(0.9),
            comparison,
        }
    }
}

/// The sum of the differences, and its standard error.
fn difference(one: &[f64], other: &[f64]) -> Comparison {
    let differences: Vec<f64> = one.iter().zip(other).map(|(one, other)| one - other).collect();
    let difference: f64 = differences.iter().sum();
    let centre = difference / differences.len().max(1) as f64;
    let standard_error = differences.iter().map(|value| (value - centre).powi(2)).sum::<f64>().sqrt();
    Comparison { difference, standard_error }
}

fn compared(path: &Path, posterior: &str, theirs: Option<f64>, comparison: Comparison) -> ComparisonReport {
    let better = match comparison.difference > 0.0 {
        true => path.display().to_string(),
        false => posterior.to_string(),
    };
    let known = comparison.difference.is_finite();
    ComparisonReport {
        posterior: posterior.to_string(),
        elpd_loo: theirs,
        elpd_difference: known.then_some(comparison.difference),
        se_difference: known.then_some(comparison.standard_error),
        better: (known && comparison.is_clear()).then_some(better),
    }
}

/// The promise of leave-one-out, and what held-out rows say.
pub struct HeldOut {
    promise: Promise,
}

impl HeldOut {
    /// Scores the rows by the method of the promise.
    pub fn of(laplace: &Laplace, loo: &LeaveOneOut, data: &Dataset) -> Result<Self, Failure> {
        Ok(Self { promise: Promise::of(laplace, loo, data)? })
    }
}

/// Everything that is told.
pub struct Told<'a> {
    pub path: &'a Path,
    pub scored: &'a Scored,
    pub comparison: Option<(String, LeaveOneOut, Comparison)>,
    pub refits: Option<Refits>,
    pub outcome: Option<HeldOut>,
}

/// A number where the score is one.
fn reliable(loo: &LeaveOneOut, value: f64) -> Option<f64> {
    loo.is_comparable().then_some(value)
}

impl Told<'_> {
    /// For scripts.
    pub fn report(&self) -> Report<'_> {
        let scored = self.scored;
        let loo = &scored.loo;
        let (promise, refits) = (self.outcome.as_ref(), self.refits.as_ref());
        Report {
            what: WHAT,
            elpd_loo: reliable(loo, loo.elpd()),
            se: reliable(loo, loo.standard_error()),
            p_loo: reliable(loo, loo.p_loo()),
            k_max: loo.k_max(),
            n_k_above_0_7: loo.unreliable(),
            pit_coverage_90: loo.coverage(0.9).and_then(|share| reliable(loo, share)),
            method: &loo.method,
            estimator: loo.estimator.name(),
            n: loo.pointwise.len(),
            samples: match loo.estimator {
                Estimator::Psis { samples } => Some(samples),
                Estimator::ClosedForm => None,
            },
            best: &scored.best().method,
            methods: scored.methods().into_iter().map(|other| self.gain(other)).collect(),
            comparison: self.comparison.as_ref().map(|(posterior, theirs, comparison)| {
                let known = loo.is_comparable() && theirs.is_comparable();
                let difference = if known { comparison.difference } else { f64::NAN };
                let comparison = Comparison { difference, ..*comparison };
                compared(self.path, posterior, reliable(theirs, theirs.elpd()), comparison)
            }),
            refit: refits.map(|refits| refits.report(self.path)),
            held_out: promise.map(|outcome| HeldOutReport {
                n: outcome.promise.n,
                log_density: outcome.promise.outcome,
                se: outcome.promise.error,
                promised_log_density: outcome.promise.promised,
                coverage_90: outcome.promise.coverage,
                promised_coverage_90: outcome.promise.promised_coverage,
                agrees: outcome.promise.agrees(),
            }),
            advice: self.advice(),
        }
    }

    /// A method beside the network alone.
    fn gain<'a>(&self, other: &'a LeaveOneOut) -> MethodReport<'a> {
        let closed = self.scored.closed.as_ref();
        let gain = closed.and_then(|closed| other.minus(&closed.map).ok()).filter(|_| other.is_comparable());
        MethodReport {
            method: &other.method,
            elpd_loo: reliable(other, other.elpd()),
            elpd_gain: gain.map(|gain| gain.difference),
            elpd_gain_se: gain.map(|gain| gain.standard_error),
        }
    }

    fn advice(&self) -> Vec<String> {
        let loo = &self.scored.loo;
        let mut advice = loo.advice();
        if loo.adapted_share().is_some() && self.refits.is_none() {
            advice.push(
                "train again without parts of the data with --refit 5, or give held-out rows with --data".to_string(),
            );
        }
        let best = self.scored.best();
        if best.method != loo.method
            && loo.is_comparable()
            && let Ok(ahead) = best.minus(loo)
        {
            let clear = if ahead.is_clear() { "" } else { ", less than twice its standard error" };
            advice.push(format!("--method {} is better by {ahead}{clear}", best.method));
        }
        advice
    }

    /// For people: a disagreement with held-out rows first.
    pub fn to_text(&self, report: &Report<'_>) -> String {
        let headline = match &report.held_out {
            Some(held_out) if !held_out.agrees => format!(
                "leave-one-out promises too much: {} nats a row, and held-out rows have {} ± {}\n",
                short(held_out.promised_log_density),
                short(held_out.log_density),
                short(held_out.se)
            ),
            Some(_) | None => String::new(),
        };
        headline + &self.summary(report).to_text()
    }

    fn summary(&self, report: &Report<'_>) -> Summary {
        let how = match report.samples {
            Some(samples) => format!("{}, {}", report.method, counted(samples, "sample")),
            None => format!("{}, closed form", report.method),
        };
        let mut summary = Summary::new(format!("{WHAT}, {} ({how})", self.path.display()));
        summary.row("n", report.n, "data points, each predicted by the others; the weights have seen all of them");
        match (report.elpd_loo, report.se, report.p_loo) {
            (Some(elpd), Some(se), Some(p_loo)) => {
                let meaning = format!("± {} nats: log likelihood of the points; greater is better", short(se));
                summary.row("elpd_loo", short(elpd), meaning);
                summary.row("p_loo", short(p_loo), "effective number of parameters");
            }
            _ => {
                summary.row("elpd_loo", "unknown", "k̂ > 0.7 at over a tenth of the points: there is no reliable number")
            }
        }
        let meaning = match self.scored.loo.estimator {
            Estimator::Psis { .. } => "the largest Pareto k̂; above 0.7 a point's score is unreliable",
            Estimator::ClosedForm => "the largest leverage: the Pareto k̂ of infinitely many draws under Gaussian noise",
        };
        summary.row("k_max", short(report.k_max), meaning);
        summary.row("n_k_above_0_7", report.n_k_above_0_7, "points whose score is unreliable");
        if let Some(coverage) = report.pit_coverage_90 {
            summary.row("pit_coverage_90", short(coverage), "share of left-out targets inside their 90 % interval");
        }
        for method in report.methods.iter().filter(|method| method.method != "map") {
            if let (Some(gain), Some(error)) = (method.elpd_gain, method.elpd_gain_se) {
                let name = if method.method == "glm" { "glm − map" } else { "riemannian − map" };
                summary.row(name, short(gain), format!("± {} nats: gain over the network alone", short(error)));
            }
        }
        summary.row("best", report.best, "of the methods above, by elpd_loo");
        if let Some(comparison) = &report.comparison {
            summarize_comparison(comparison, "elpd_loo", &mut summary);
        }
        if let Some(refit) = &report.refit {
            summarize_refit(refit, &mut summary);
        }
        if let Some(held_out) = &report.held_out {
            summarize_held_out(held_out, &mut summary);
        }
        summary
    }
}

fn summarize_comparison(comparison: &ComparisonReport, what: &str, summary: &mut Summary) {
    let theirs = comparison.elpd_loo.map_or("unknown".to_string(), short);
    match (comparison.elpd_difference, comparison.se_difference) {
        (Some(difference), Some(error)) => {
            let clear = if comparison.better.is_some() { "" } else { "; no clear difference" };
            let meaning =
                format!("± {} nats: {what} less the {theirs} of {}{clear}", short(error), comparison.posterior);
            summary.row("difference", short(difference), meaning);
        }
        _ => summary.row("difference", "unknown", "one of the scores is not reliable"),
    }
}

fn summarize_refit(refit: &RefitReport, summary: &mut Summary) {
    let how = match refit.from {
        "recipe" => "trained again by its recipe",
        _ => "trained on from its weights",
    };
    let meaning = format!("± {} nats: each of {} parts predicted by a network {how}", short(refit.se), refit.folds);
    summary.row("elpd_refit", short(refit.elpd), meaning);
    if let Some(coverage) = refit.coverage_90 {
        summary.row("refit_coverage_90", short(coverage), "share of targets of these parts inside their 90 % interval");
    }
    if let Some(comparison) = &refit.comparison {
        summarize_comparison(comparison, "elpd_refit", summary);
    }
}

fn summarize_held_out(held_out: &HeldOutReport, summary: &mut Summary) {
    let promised = short(held_out.promised_log_density);
    let meaning = format!("± {} nats a row on {} held-out rows; promised {promised}", short(held_out.se), held_out.n);
    summary.row("outcome", short(held_out.log_density), meaning);
    if let (Some(share), Some(promised)) = (held_out.coverage_90, held_out.promised_coverage_90) {
        let meaning = format!("of held-out targets inside their 90 % interval; promised {}", short(promised));
        summary.row("coverage_90", short(share), meaning);
    }
}
