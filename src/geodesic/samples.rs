//! Samples with their certificates, and the joining of parts that were drawn separately.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array2, Axis, concatenate};

use super::certificate::Certificate;
use super::density::SampleDensities;
use super::exponential::Geodesic;
use super::keeper::Finished;
use super::name::MetricName;
use super::residuals::Residuals;
use super::subsampled::BatchReport;
use crate::error::{JoinError, Result};
use crate::metric::{Metric, Pullback, SolverName, SolverReport};
use crate::ode::Status;

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The geodesic was followed for unit time.
    Reached,
    /// The step limit was reached first.
    StepLimit,
    /// The path left the finite numbers, or the metric could not be factored on the way.
    NotFinite,
    /// RLA-BLog only: no velocity was found that leads to the Gaussian's draw.
    NoLogarithm,
}

impl Outcome {
    /// All outcomes, in the order of their codes.
    pub const ALL: [Outcome; 4] = [Outcome::Reached, Outcome::StepLimit, Outcome::NotFinite, Outcome::NoLogarithm];

    /// 0 reached, 1 step limit, 2 not finite, 3 no logarithm.
    pub fn code(self) -> i64 {
        match self {
            Outcome::Reached => 0,
            Outcome::StepLimit => 1,
            Outcome::NotFinite => 2,
            Outcome::NoLogarithm => 3,
        }
    }
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        match status {
            Status::Reached => Outcome::Reached,
            Status::StepLimit => Outcome::StepLimit,
            Status::NotFinite => Outcome::NotFinite,
        }
    }
}

/// End points of geodesics, one per row, each with its certificate. Failed ones are included, and marked as such.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The metric, if it has a name.
    pub metric: Option<MetricName>,
    /// The fingerprint of the posterior that they were drawn from, where it came from a file.
    pub posterior: Option<String>,
    /// The seed that the velocities were drawn with; none if they were given.
    pub seed: Option<u64>,
    /// Which samples of the seed these are (for given velocities, all).
    pub range: Range<usize>,
    /// θ at the end: samples × parameters.
    pub theta: Array2<f64>,
    /// θ̇ at the end.
    pub velocity: Array2<f64>,
    /// Evaluations of the acceleration.
    pub evaluations: Vec<usize>,
    /// The relative change of vᵀGv.
    pub drift: Vec<f64>,
    /// Its largest at accepted states on the way.
    pub path_drift: Vec<f64>,
    /// The distance of each end from the graph of the outputs (see [`Geodesic::off_graph`](super::Geodesic::off_graph)), where the metric has
    /// isometric outputs.
    pub off_graph: Option<Vec<f64>>,
    /// The error of each end, the largest at a data point in σ; infinite where it was not estimated.
    pub end_error: Vec<f64>,
    /// The largest relative residual of an iterative solver; 0 for an exact one.
    pub residual: Vec<f64>,
    /// Integrations, each at a tighter tolerance than the one before.
    pub attempts: Vec<usize>,
    /// Evaluations for the error of the end alone.
    pub check_evaluations: Vec<usize>,
    /// How each ended.
    pub outcome: Vec<Outcome>,
    /// What is certified of each.
    pub certificate: Vec<Option<Certificate>>,
    /// Whether anything is certified of each.
    pub certified: Vec<bool>,
    /// The width over which the metric rounds the network's kinks; none if it has no kinks, or they are not rounded.
    pub smoothing: Option<f64>,
    /// How far samples of a network with kinks are from the data, where their metric has data.
    pub residuals: Option<Residuals>,
    /// Where the parameters stand in the whole model, for a posterior over some of them.
    pub indices: Option<Vec<usize>>,
    /// How accelerations were solved for, if that is known.
    pub solver_name: Option<SolverName>,
    /// What an iterative solver did, if one was used.
    pub solver: Option<SolverReport>,
    /// How far a sub-sampled metric is from that of all data, if one was used.
    pub batch: Option<BatchReport>,
    /// Their importance weights, where they were asked for.
    pub density: Option<SampleDensities>,
}

impl Samples {
    /// The ends of geodesics, with given velocities unless the caller says otherwise.
    pub(super) fn collect(geodesics: Vec<Arc<Finished>>, n_params: usize) -> Self {
        let matrix = |of: fn(&Geodesic) -> &Vec<f64>| {
            let mut matrix = Array2::zeros((geodesics.len(), n_params));
            for (mut row, finished) in matrix.rows_mut().into_iter().zip(&geodesics) {
                row.iter_mut().zip(of(&finished.0)).for_each(|(slot, value)| *slot = *value);
            }
            matrix
        };
        let (theta, velocity) = (matrix(|geodesic| &geodesic.theta), matrix(|geodesic| &geodesic.velocity));
        Self { theta, velocity, ..Self::collect_columns(&geodesics) }
    }

    /// The same without θ and velocities.
    pub(super) fn collect_columns(geodesics: &[Arc<Finished>]) -> Self {
        fn column<T>(geodesics: &[Arc<Finished>], of: impl Fn(&Geodesic, Outcome) -> T) -> Vec<T> {
            geodesics.iter().map(|finished| of(&finished.0, finished.1)).collect()
        }
        let certificate = column(geodesics, |geodesic, outcome| {
            geodesic.certificate.filter(|_| geodesic.certified && outcome == Outcome::Reached)
        });
        let off_graph: Option<Vec<f64>> = geodesics.iter().map(|one| one.0.off_graph).collect();
        Self {
            metric: None,
            posterior: None,
            seed: None,
            range: 0..geodesics.len(),
            theta: Array2::zeros((0, 0)),
            velocity: Array2::zeros((0, 0)),
            evaluations: column(geodesics, |geodesic, _| geodesic.evaluations),
            drift: column(geodesics, |geodesic, _| geodesic.drift),
            path_drift: column(geodesics, |geodesic, _| geodesic.path_drift),
            off_graph: off_graph.filter(|off_graph| !off_graph.is_empty()),
            end_error: column(geodesics, |geodesic, _| geodesic.end_error),
            residual: column(geodesics, |geodesic, _| geodesic.residual),
            attempts: column(geodesics, |geodesic, _| geodesic.attempts),
            check_evaluations: column(geodesics, |geodesic, _| geodesic.check_evaluations),
            outcome: column(geodesics, |_, outcome| outcome),
            certified: certificate.iter().map(Option::is_some).collect(),
            certificate,
            smoothing: None,
            residuals: None,
            indices: None,
            solver_name: None,
            solver: None,
            batch: None,
            density: None,
        }
    }

    /// A sample with this θ and velocity, as it was finished; none beyond the last.
    pub(super) fn finished(&self, row: usize, theta: &[f64], velocity: &[f64]) -> Option<Finished> {
        let outcome = *self.outcome.get(row)?;
        let geodesic = Geodesic {
            theta: theta.to_vec(),
            velocity: velocity.to_vec(),
            evaluations: *self.evaluations.get(row)?,
            check_evaluations: *self.check_evaluations.get(row)?,
            attempts: *self.attempts.get(row)?,
            drift: *self.drift.get(row)?,
            path_drift: *self.path_drift.get(row)?,
            residual: *self.residual.get(row)?,
            off_graph: self.off_graph.as_ref().and_then(|off_graph| off_graph.get(row).copied()),
            end_error: *self.end_error.get(row)?,
            status: match outcome {
                Outcome::Reached | Outcome::NoLogarithm => Status::Reached,
                Outcome::StepLimit => Status::StepLimit,
                Outcome::NotFinite => Status::NotFinite,
            },
            certificate: *self.certificate.get(row)?,
            certified: *self.certified.get(row)?,
        };
        Some((geodesic, outcome))
    }

    /// Keeps what is known about the solver of their metric.
    pub(super) fn report_on(&mut self, metric: &Pullback) {
        self.solver_name = Some(metric.solver_name());
        self.solver = metric.solver_report();
    }

    /// The same, drawn with a seed.
    pub(super) fn drawn(self, seed: u64, range: Range<usize>) -> Self {
        Self { seed: Some(seed), range, ..self }
    }

    /// The largest drift on the way; NaN where one is.
    pub fn max_path_drift(&self) -> f64 {
        self.path_drift
            .iter()
            .fold(0.0, |most: f64, drift| if drift.is_nan() || most.is_nan() { f64::NAN } else { most.max(*drift) })
    }

    /// The largest distance from the graph among the samples that reached their end; NaN where one could not be computed,
    /// none where it is not defined.
    pub fn max_off_graph(&self) -> Option<f64> {
        let reached = self.off_graph.as_ref()?.iter().zip(&self.outcome);
        let reached = reached.filter(|(_, outcome)| **outcome == Outcome::Reached);
        Some(reached.fold(0.0, |most, (&off, _)| if off > most || off.is_nan() { off } else { most }))
    }

    /// The number of samples, failed ones included.
    pub fn len(&self) -> usize {
        self.outcome.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.outcome.is_empty()
    }

    /// Samples that did not reach their end.
    pub fn failed(&self) -> usize {
        self.outcome.iter().filter(|outcome| **outcome != Outcome::Reached).count()
    }

    /// Samples that reached their end without a certificate.
    pub fn uncertified(&self) -> usize {
        let reached = self.outcome.iter().zip(&self.certified);
        reached.filter(|(outcome, certified)| **outcome == Outcome::Reached && !**certified).count()
    }

    /// θ of the samples that reached their end.
    pub fn reached(&self) -> Array2<f64> {
        let reached = self.outcome.iter().enumerate().filter(|(_, outcome)| **outcome == Outcome::Reached);
        let rows: Vec<usize> = reached.map(|(row, _)| row).collect();
        self.theta.select(Axis(0), &rows)
    }

    /// The samples of these rows, in this order and any number of times. They are no range of a seed any more.
    pub fn select(&self, rows: &[usize]) -> Self {
        let (theta, velocity) = (self.theta.select(Axis(0), rows), self.velocity.select(Axis(0), rows));
        let mut selected = Self { seed: None, range: 0..rows.len(), theta, velocity, ..self.clone() };
        selected.pick_columns(self, rows);
        Self { density: None, ..selected }
    }

    /// Samples whose path is certified.
    pub fn path_certified(&self) -> usize {
        self.certificate.iter().filter(|certificate| **certificate == Some(Certificate::Path)).count()
    }

    /// The largest error of the end of a certified path, in σ at the data; none where no path is certified.
    pub fn max_end_error(&self) -> Option<f64> {
        let paths = self.end_error.iter().zip(&self.certificate);
        let paths = paths.filter(|(_, certificate)| **certificate == Some(Certificate::Path));
        paths.map(|(error, _)| *error).reduce(f64::max)
    }

    /// The mean number of evaluations for the error of the end, beside [`mean_evaluations`](Self::mean_evaluations).
    pub fn mean_check_evaluations(&self) -> f64 {
        self.check_evaluations.iter().sum::<usize>() as f64 / self.len().max(1) as f64
    }

    /// The mean number of evaluations: the paper's T.
    pub fn mean_evaluations(&self) -> f64 {
        self.evaluations.iter().sum::<usize>() as f64 / self.len().max(1) as f64
    }

    /// The largest drift among the samples that reached their end; NaN if one of them could not be computed.
    pub fn max_drift(&self) -> f64 {
        let reached = self.drift.iter().zip(&self.outcome).filter(|(_, outcome)| **outcome == Outcome::Reached);
        reached.fold(0.0, |largest, (&drift, _)| if drift > largest || drift.is_nan() { drift } else { largest })
    }

    /// Joins parts of one seeded stream, in any order, into one.
    ///
    /// ```
    /// use riemannian_laplace::internals::geodesic::sample;
    /// use riemannian_laplace::{SamplerOptions, Samples};
    /// use riemannian_laplace::internals::metric;
    /// # use riemannian_laplace::internals::paper::problems::Squiggle;
    /// # let target = Squiggle::MAIN.target()?;
    /// # let base = [0.0, 0.0];
    /// let fisher = metric::fisher(&target);
    /// let precision = fisher.at(&base)?;
    /// let draw = |range| sample(&fisher, &base, &precision, &SamplerOptions { range, ..Default::default() }, &());
    /// assert_eq!(Samples::join([draw(0..3)?, draw(3..8)?])?, draw(0..8)?);
    /// assert!(Samples::join([draw(0..3)?, draw(4..8)?]).is_err());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn join(parts: impl IntoIterator<Item = Samples>) -> Result<Samples> {
        let mut parts: Vec<Samples> = parts.into_iter().collect();
        parts.sort_by_key(|part| (part.range.start, part.range.end));
        let first = parts.first().ok_or(JoinError::Nothing)?;
        for (one, other) in parts.iter().zip(parts.iter().skip(1)) {
            one.check_followed_by(other)?;
        }
        let range = first.range.start..parts.last().map_or(first.range.end, |last| last.range.end);
        let rows = |of: fn(&Samples) -> &Array2<f64>| {
            let views: Vec<_> = parts.iter().map(|part| of(part).view()).collect();
            concatenate(Axis(0), &views).map_err(|_| JoinError::Ragged)
        };
        let (theta, velocity) = (rows(|part| &part.theta)?, rows(|part| &part.velocity)?);
        let mut whole = Samples { range, theta, velocity, residuals: None, solver: None, batch: None, ..first.clone() };
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                whole.append_columns(&part);
            }
            if let Some(report) = part.solver {
                whole.solver.get_or_insert_with(SolverReport::default).merge(&report);
            }
            if let Some(residuals) = part.residuals {
                match &mut whole.residuals {
                    Some(whole) => whole.merge(&residuals),
                    none => *none = Some(residuals),
                }
            }
            if let Some(report) = part.batch {
                match &mut whole.batch {
                    Some(batch) => batch.residuals.extend(report.residuals),
                    none => *none = Some(report),
                }
            }
        }
        Ok(whole)
    }

    /// Checks that another part directly follows this one.
    fn check_followed_by(&self, next: &Samples) -> std::result::Result<(), JoinError> {
        if self.posterior != next.posterior {
            return Err(JoinError::Posterior);
        }
        if self.seed != next.seed {
            return Err(JoinError::Seed(describe(self.seed), describe(next.seed)));
        }
        if self.metric != next.metric {
            return Err(JoinError::Metric(describe(self.metric), describe(next.metric)));
        }
        if self.smoothing != next.smoothing {
            return Err(JoinError::Smoothing(describe(self.smoothing), describe(next.smoothing)));
        }
        if self.theta.ncols() != next.theta.ncols() {
            return Err(JoinError::Parameters(self.theta.ncols(), next.theta.ncols()));
        }
        if self.indices != next.indices {
            return Err(JoinError::Indices);
        }
        if self.batch.as_ref().map(|report| report.batch) != next.batch.as_ref().map(|report| report.batch) {
            return Err(JoinError::Batch);
        }
        if self.density.is_some() != next.density.is_some() {
            return Err(JoinError::Weights);
        }
        if self.range.end > next.range.start {
            return Err(JoinError::Overlap(self.range.clone(), next.range.clone()));
        }
        if self.range.end < next.range.start {
            return Err(JoinError::Gap(self.range.end..next.range.start));
        }
        Ok(())
    }
}

fn describe(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_string(), |value| value.to_string())
}
