//! The wrapped Gaussian: velocities v ~ N(0, Σ) at a base point, carried along geodesics (Yu et al. 2024, algorithms 1
//! and 2). Samples run in parallel; sample i of a seed has the same bits on any number of threads.

use std::ops::Range;
use std::sync::Arc;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::exponential::{ExponentialMap, Geodesic, GeodesicOptions};
use super::keeper::{Finished, Watch};
use super::logarithm::{Limited, Logarithm, LogarithmOptions, LogarithmicMap};
use super::paraboloid::{GaussianLogarithm, GaussianLogarithmEvaluator};
use super::samples::{Outcome, Samples};
use crate::error::{Error, Result, check_size};
use crate::laplace::Precision;
use crate::linalg::{lead, share};
use crate::memory::{self, Reservation};
use crate::metric::Metric;
use crate::ode::{self, Integrator};
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// Settings of [`sample`].
///
/// ```
/// use riemannian_laplace::SamplerOptions;
/// let options = SamplerOptions { seed: 7, ..SamplerOptions::first(100) };
/// assert_eq!(options.range, 0..100);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerOptions {
    /// Which samples of the seed (default 0..100). Sample i is the same in any range.
    pub range: Range<usize>,
    /// The seed (default 0).
    pub seed: u64,
    /// Settings of each geodesic.
    pub geodesic: GeodesicOptions,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { range: 0..100, seed: 0, geodesic: GeodesicOptions::default() }
    }
}

impl SamplerOptions {
    /// The first `count` samples, with default settings otherwise.
    pub fn first(samples: usize) -> Self {
        Self { range: 0..samples, ..Self::default() }
    }

    /// Checks that every setting is in its range.
    pub fn validate(&self) -> Result<()> {
        let Range { start, end } = self.range;
        if start > end {
            return Err(Error::BackwardRange { start, end });
        }
        self.geodesic.validate()
    }

    /// The number of threads that have something to do.
    pub(super) fn workers(&self) -> usize {
        rayon::current_num_threads().min(self.range.len())
    }
}

/// Calls `work` for every index: on all threads at once when there are at least as many indices as threads, otherwise
/// one after another, so that the matrix products of each may use all threads. Never both.
pub(super) fn for_each_index<W, T: Send>(
    range: Range<usize>,
    prepare: impl Fn() -> Result<W> + Sync + Send,
    work: impl Fn(&mut W, usize) -> Result<T> + Sync + Send,
) -> Result<Vec<T>> {
    if range.len() < rayon::current_num_threads() {
        return lead(|| {
            let mut worker = prepare()?;
            range.map(|index| work(&mut worker, index)).collect()
        });
    }
    // An evaluator that could not be created is tried again for the next index, and its error is reported there.
    let attempt = |worker: &mut Option<W>, index| {
        let worker = match worker {
            Some(worker) => worker,
            none => none.insert(prepare()?),
        };
        work(worker, index)
    };
    range.into_par_iter().map_init(|| None, |worker, index| share(|| attempt(worker, index))).collect()
}

/// Reserves memory for two arrays of samples × parameters, both as they arrive and once put together, and for the
/// integrators of all threads.
pub(super) fn reserve_memory(samples: usize, n_params: usize, integrator: Integrator) -> Result<Reservation> {
    let advice = "draw fewer at a time, in ranges that are joined later; sample i of a seed is always the same";
    let mut reservation = memory::reserve("the samples", 4.0 * samples as f64 * n_params as f64, advice)?;
    let workers = rayon::current_num_threads().min(samples);
    // The state, the velocity and the acceleration beside the integrator's own.
    let each = ode::Workspace::numbers(integrator, 2 * n_params) + 5.0 * n_params as f64;
    let what = format!("the integrators of {workers} threads");
    reservation.grow(&what, workers as f64 * each, "use fewer threads")?;
    Ok(reservation)
}

/// Draws from the wrapped Gaussian: v ~ N(0, P⁻¹) at `base`, followed along geodesics of `metric`.
///
/// `progress` advances by one with each sample, and may cancel the work.
pub fn sample(
    metric: &dyn Metric,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    progress: &dyn Progress,
) -> Result<Samples> {
    sample_watched(metric, base, precision, options, Watch::of(progress))
}

/// [`sample`], with samples kept as they are finished, and those of an earlier run not drawn again.
pub(super) fn sample_watched(
    metric: &dyn Metric,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    watch: Watch<'_>,
) -> Result<Samples> {
    options.validate()?;
    let _reservation = reserve_memory(options.range.len(), base.len(), options.geodesic.integrator)?;
    check_size("number of parameters of the precision", metric.n_params(), precision.n_params())?;
    let prepare = || exponential_map(metric, options.geodesic, watch.progress);
    let draw = |exponential: &mut ExponentialMap<'_>, index: usize| {
        watch.sample(index, base.len(), || {
            let mut velocity = vec![0.0; base.len()];
            precision.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut velocity);
            follow(exponential, base, &velocity)
        })
    };
    let geodesics: Vec<Arc<Finished>> = for_each_index(options.range.clone(), prepare, draw)?;
    Ok(Samples::collect(geodesics, base.len()).drawn(options.seed, options.range.clone()))
}

/// Follows one geodesic per row of `velocities`.
pub fn exponentials(
    metric: &dyn Metric,
    base: &[f64],
    velocities: ArrayView2<'_, f64>,
    options: GeodesicOptions,
    progress: &dyn Progress,
) -> Result<Samples> {
    check_size("length of a velocity", metric.n_params(), velocities.ncols())?;
    let _reservation = reserve_memory(velocities.nrows(), base.len(), options.integrator)?;
    check_finite("the velocity", velocities)?;
    let rows = to_rows(velocities);
    let prepare = || exponential_map(metric, options, progress);
    let map = |exponential: &mut ExponentialMap<'_>, index: usize| {
        let geodesic = follow(exponential, base, &rows[index])?;
        progress.advance();
        Ok(geodesic)
    };
    Ok(Samples::collect(for_each_index(0..rows.len(), prepare, map)?.into_iter().map(Arc::new).collect(), base.len()))
}

/// The velocity that leads to each row of `points`. A point that is not solved within its limits has no numbers, and has not
/// converged.
pub fn logarithms(
    metric: &dyn Metric,
    base: &[f64],
    points: ArrayView2<'_, f64>,
    options: LogarithmOptions,
    progress: &dyn Progress,
) -> Result<Vec<Logarithm>> {
    check_size("length of a point", metric.n_params(), points.ncols())?;
    check_finite("the point", points)?;
    let rows = to_rows(points);
    let map = |(): &mut (), index: usize| {
        let limited = Limited::begin(progress, &options);
        let solution = LogarithmicMap::new(metric, options)?.watched_by(&limited).map(base, &rows[index]);
        let solution = match solution {
            Err(Error::Cancelled) if !progress.is_cancelled() => Logarithm::unsolved(base.len()),
            solution => solution?,
        };
        progress.advance();
        Ok(solution)
    };
    for_each_index(0..rows.len(), || Ok(()), map)
}

/// RLA-BLog: draws θ̄ ~ N(base, P⁻¹), v = Log(θ̄) on the Gaussian's Monge manifold, then Exp(v) on the target's.
pub fn sample_monge_log(
    target_monge: &dyn Metric,
    logarithm: &GaussianLogarithm,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    progress: &dyn Progress,
) -> Result<Samples> {
    sample_monge_log_watched(target_monge, logarithm, base, precision, options, Watch::of(progress))
}

/// [`sample_monge_log`], with samples kept as they are finished, and those of an earlier run not drawn again.
pub(super) fn sample_monge_log_watched(
    target_monge: &dyn Metric,
    logarithm: &GaussianLogarithm,
    base: &[f64],
    precision: &dyn Precision,
    options: &SamplerOptions,
    watch: Watch<'_>,
) -> Result<Samples> {
    options.validate()?;
    let _reservation = reserve_memory(options.range.len(), base.len(), options.geodesic.integrator)?;
    check_size("number of parameters of the precision", target_monge.n_params(), precision.n_params())?;
    let prepare = || {
        let exponential = exponential_map(target_monge, options.geodesic, watch.progress)?;
        Ok((logarithm.evaluator(), exponential))
    };
    let draw = |buffers: &mut (GaussianLogarithmEvaluator<'_>, ExponentialMap<'_>), index: usize| {
        watch.progress.check()?;
        let (logarithm, exponential) = buffers;
        watch.sample(index, base.len(), || {
            let mut offset = vec![0.0; base.len()];
            precision.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut offset);
            let solution = logarithm.map(&offset)?;
            let (geodesic, outcome) = follow(exponential, base, &solution.velocity)?;
            Ok((geodesic, if solution.converged { outcome } else { Outcome::NoLogarithm }))
        })
    };
    let geodesics = for_each_index(options.range.clone(), prepare, draw)?;
    Ok(Samples::collect(geodesics, base.len()).drawn(options.seed, options.range.clone()))
}

/// An exponential map that `progress` may cancel.
pub(super) fn exponential_map<'a>(
    metric: &'a dyn Metric,
    options: GeodesicOptions,
    progress: &'a dyn Progress,
) -> Result<ExponentialMap<'a>> {
    Ok(ExponentialMap::new(metric, options)?.watched_by(progress))
}

pub(super) fn follow(
    exponential: &mut ExponentialMap<'_>,
    base: &[f64],
    velocity: &[f64],
) -> Result<(Geodesic, Outcome)> {
    let geodesic = exponential.map(base, velocity)?;
    let outcome = geodesic.status.into();
    Ok((geodesic, outcome))
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
