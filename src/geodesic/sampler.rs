//! The wrapped Gaussian: velocities v ~ N(0, Σ) at a base point, carried along geodesics (Yu et al. 2024, algorithms 1
//! and 2). Samples run in parallel; sample i of a seed has the same bits on any number of threads.

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::exponential::{ExponentialMap, Geodesic, GeodesicOptions};
use super::logarithm::{Logarithm, LogarithmOptions, LogarithmicMap};
use super::paraboloid::{GaussianLogarithm, GaussianLogarithmWorker};
use super::subsampled::BatchReport;
use crate::error::{Error, Result, check_size};
use crate::laplace::Precision;
use crate::memory::{self, Reservation};
use crate::metric::{Metric, SolverReport};
use crate::ode::Status;
use crate::random::{Purpose, stream};

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The geodesic was followed for unit time.
    Reached,
    /// The step limit was met before.
    StepLimit,
    /// The path left the finite numbers, or the metric could not be factored on it.
    NotFinite,
    /// RLA-BLog only: no velocity was found that leads to the Gaussian's draw.
    NoLogarithm,
}

impl Outcome {
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
            // No attempt ends as stopped: the last one goes to its end.
            Status::NotFinite | Status::Invalid | Status::Stopped => Outcome::NotFinite,
        }
    }
}

/// Settings of [`sample`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerOptions {
    /// The number of samples (default 500, the paper's for networks).
    pub samples: usize,
    /// The seed (default 0).
    pub seed: u64,
    /// Settings of each geodesic.
    pub geodesic: GeodesicOptions,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { samples: 500, seed: 0, geodesic: GeodesicOptions::default() }
    }
}

/// End points of geodesics, one a row, each with its certificate. Failed ones are here too, marked as such.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// θ at the end: samples × parameters.
    pub theta: Array2<f64>,
    /// θ̇ at the end.
    pub velocity: Array2<f64>,
    /// Evaluations of the acceleration.
    pub evaluations: Vec<usize>,
    /// The relative change of vᵀGv.
    pub drift: Vec<f64>,
    /// How each ended.
    pub outcome: Vec<Outcome>,
    /// Whether each reached its end with a drift within the target.
    pub certified: Vec<bool>,
    /// What the matrix-free solver did, where it was asked for.
    pub solver: Option<SolverReport>,
    /// How far a sub-sampled metric is from that of all data, where one was asked for.
    pub batch: Option<BatchReport>,
}

impl Samples {
    pub(super) fn collect(geodesics: Vec<(Geodesic, Outcome)>, n_params: usize) -> Self {
        let count = geodesics.len();
        let mut samples = Self {
            theta: Array2::zeros((count, n_params)),
            velocity: Array2::zeros((count, n_params)),
            evaluations: Vec::with_capacity(count),
            drift: Vec::with_capacity(count),
            outcome: Vec::with_capacity(count),
            certified: Vec::with_capacity(count),
            solver: None,
            batch: None,
        };
        for (row, (geodesic, outcome)) in geodesics.into_iter().enumerate() {
            samples.theta.row_mut(row).iter_mut().zip(&geodesic.theta).for_each(|(slot, value)| *slot = *value);
            samples.velocity.row_mut(row).iter_mut().zip(&geodesic.velocity).for_each(|(slot, value)| *slot = *value);
            samples.evaluations.push(geodesic.evaluations);
            samples.drift.push(geodesic.drift);
            samples.outcome.push(outcome);
            samples.certified.push(geodesic.certified);
        }
        samples
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

    /// Samples that reached their end with more drift than the target allows.
    pub fn uncertified(&self) -> usize {
        let reached = self.outcome.iter().zip(&self.certified);
        reached.filter(|(outcome, certified)| **outcome == Outcome::Reached && !**certified).count()
    }

    /// θ of the samples that reached their end.
    pub fn reached(&self) -> Array2<f64> {
        let rows: Vec<usize> = (0..self.len()).filter(|&row| self.outcome[row] == Outcome::Reached).collect();
        self.theta.select(Axis(0), &rows)
    }

    /// The mean number of evaluations: the paper's T.
    pub fn mean_evaluations(&self) -> f64 {
        self.evaluations.iter().sum::<usize>() as f64 / self.len().max(1) as f64
    }

    /// The largest drift among the samples that reached their end.
    pub fn max_drift(&self) -> f64 {
        let reached = self.drift.iter().zip(&self.outcome).filter(|(_, outcome)| **outcome == Outcome::Reached);
        reached.map(|(drift, _)| *drift).fold(0.0, f64::max)
    }
}

/// Calls `work` for every index: on all threads at once when there are at least as many indices as threads, otherwise one
/// after another, so that the matrix products of each may use all threads. Never both.
pub(super) fn for_each_index<W, T: Send>(
    count: usize,
    prepare: impl Fn() -> W + Sync + Send,
    work: impl Fn(&mut W, usize) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    if count < rayon::current_num_threads() {
        let mut worker = prepare();
        return (0..count).map(|index| work(&mut worker, index)).collect();
    }
    (0..count).into_par_iter().map_init(prepare, work).collect()
}

/// Reserves memory for two arrays of samples × parameters, once as they come and once put together.
pub(super) fn reserve_memory(samples: usize, n_params: usize) -> Result<Reservation> {
    let numbers = 4.0 * samples as f64 * n_params as f64;
    memory::reserve("the samples", numbers, "draw fewer at a time; sample i of a seed is always the same")
}

/// Draws from the wrapped Gaussian: v ~ N(0, P⁻¹) at `base`, followed along geodesics of `metric`.
///
/// `progress` is called after each sample, from any thread.
pub fn sample(
    metric: &dyn Metric,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    progress: &(dyn Fn() + Sync),
) -> Result<Samples> {
    let _reservation = reserve_memory(options.samples, base.len())?;
    check_size("number of parameters of the precision", metric.n_params(), precision.n_params())?;
    ExponentialMap::new(metric, options.geodesic)?;
    let draw = |(exponential, worker): &mut (Result<ExponentialMap<'_>>, _), index: usize| {
        let worker: &mut Box<dyn crate::laplace::PrecisionWorker + Send> = worker;
        let mut velocity = vec![0.0; base.len()];
        worker.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut velocity);
        let geodesic = follow(exponential, base, &velocity)?;
        progress();
        Ok(geodesic)
    };
    let prepare = || (ExponentialMap::new(metric, options.geodesic), precision.worker());
    Ok(Samples::collect(for_each_index(options.samples, prepare, draw)?, base.len()))
}

/// Follows a geodesic for each row of `velocities`.
pub fn exponentials(
    metric: &dyn Metric,
    base: &[f64],
    velocities: ArrayView2<'_, f64>,
    options: GeodesicOptions,
    progress: &(dyn Fn() + Sync),
) -> Result<Samples> {
    check_size("length of a velocity", metric.n_params(), velocities.ncols())?;
    let _reservation = reserve_memory(velocities.nrows(), base.len())?;
    check_finite("the velocity", velocities)?;
    let rows = to_rows(velocities);
    let map = |exponential: &mut Result<ExponentialMap<'_>>, index: usize| {
        let geodesic = follow(exponential, base, &rows[index])?;
        progress();
        Ok(geodesic)
    };
    let geodesics = for_each_index(rows.len(), || ExponentialMap::new(metric, options), map)?;
    Ok(Samples::collect(geodesics, base.len()))
}

/// The velocity that leads to each row of `points`.
pub fn logarithms(
    metric: &dyn Metric,
    base: &[f64],
    points: ArrayView2<'_, f64>,
    options: LogarithmOptions,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Logarithm>> {
    check_size("length of a point", metric.n_params(), points.ncols())?;
    check_finite("the point", points)?;
    let rows = to_rows(points);
    let map = |logarithm: &mut Result<LogarithmicMap<'_>>, index: usize| {
        let solution = borrowed(logarithm)?.map(base, &rows[index])?;
        progress();
        Ok(solution)
    };
    for_each_index(rows.len(), || LogarithmicMap::new(metric, options), map)
}

/// RLA-BLog: draws θ̄ ~ N(base, P⁻¹), v = Log(θ̄) on the Gaussian's Monge manifold, then Exp(v) on the target's.
pub fn sample_monge_log(
    target_monge: &dyn Metric,
    logarithm: &GaussianLogarithm,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    progress: &(dyn Fn() + Sync),
) -> Result<Samples> {
    let _reservation = reserve_memory(options.samples, base.len())?;
    check_size("number of parameters of the precision", target_monge.n_params(), precision.n_params())?;
    ExponentialMap::new(target_monge, options.geodesic)?;
    let prepare = || (logarithm.worker(), ExponentialMap::new(target_monge, options.geodesic), precision.worker());
    let draw = |buffers: &mut (GaussianLogarithmWorker<'_>, Result<ExponentialMap<'_>>, _), index: usize| {
        let (logarithm, exponential, worker) = buffers;
        let worker: &mut Box<dyn crate::laplace::PrecisionWorker + Send> = worker;
        let mut offset = vec![0.0; base.len()];
        worker.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut offset);
        let solution = logarithm.map(&offset)?;
        let (geodesic, mut outcome) = follow(exponential, base, &solution.velocity)?;
        if !solution.converged {
            outcome = Outcome::NoLogarithm;
        }
        progress();
        Ok((geodesic, outcome))
    };
    Ok(Samples::collect(for_each_index(options.samples, prepare, draw)?, base.len()))
}

pub(super) fn follow(
    exponential: &mut Result<ExponentialMap<'_>>,
    base: &[f64],
    velocity: &[f64],
) -> Result<(Geodesic, Outcome)> {
    let geodesic = borrowed(exponential)?.map(base, velocity)?;
    let outcome = geodesic.status.into();
    Ok((geodesic, outcome))
}

/// The value, or the error that kept it from being made.
fn borrowed<T>(made: &mut Result<T>) -> Result<&mut T> {
    match made {
        Ok(value) => Ok(value),
        Err(error) => Err(std::mem::replace(error, Error::NoRows { what: "a worker that failed".to_string() })),
    }
}

fn to_rows(matrix: ArrayView2<'_, f64>) -> Vec<Vec<f64>> {
    matrix.rows().into_iter().map(|row| row.to_vec()).collect()
}

fn check_finite(what: &'static str, matrix: ArrayView2<'_, f64>) -> Result<()> {
    match matrix.indexed_iter().find(|(_, value)| !value.is_finite()) {
        Some(((row, column), _)) => Err(Error::NotFinite { what, row, column }),
        None => Ok(()),
    }
}
