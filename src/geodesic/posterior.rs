//! Geodesics of a fitted network by the metric's name: the Riemannian side of a [`Laplace`] approximation.
//!
//! Networks with kinks (relu, leaky_relu, elu): samples follow the metric of the network with its kinks rounded
//! ([`Smoothing`]), and their certificates are about that metric. Where the metric is left as it is, it jumps at every
//! kink a geodesic crosses, vᵀGv is not conserved, and no tolerance can change that: such geodesics are integrated once,
//! within the step limit, and their drift is reported unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::ArrayView2;

use super::exponential::{Accuracy, GeodesicOptions};
use super::keeper::Watch;
use super::logarithm::{Logarithm, LogarithmOptions};
use super::name::{MetricName, names_where};
use super::paraboloid::GaussianLogarithm;
use super::residuals::Residuals;
use super::sampler::{SamplerOptions, exponentials, logarithms, sample_monge_log_watched, sample_watched};
use super::samples::Samples;
use super::smoothing::{self, Smoothing};
use super::subsampled::{MetricBatch, Subsampling, SumOverData, of_all_data};
use crate::error::{Error, Result, Unsupported};
use crate::laplace::{Laplace, Precision};
use crate::memory;
use crate::metric::{self, IterativeOptions, MatrixFreeOptions, Metric, Pullback, Space};
use crate::progress::Progress;

/// How the accelerations of a metric are computed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MetricSolver {
    /// Whichever takes the least work, counted in multiply-adds: a factored matrix or conjugate gradients.
    #[default]
    Auto,
    /// By a factored matrix, D × D or N·P × N·P.
    Exact,
    /// By conjugate gradients along each path, with D or N·P unknowns, that factor a matrix now and then.
    Iterative(IterativeOptions),
    /// By conjugate gradients, without a matrix: for when both are too large for the memory.
    MatrixFree(MatrixFreeOptions),
}

/// How the metric of [`sample_posterior`] is evaluated; by default by the cheapest solver and with all data.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MetricOptions {
    /// The solver.
    pub solver: MetricSolver,
    /// The part of the data that the metric is made from (the velocities still come from the posterior of all data).
    pub batch: Option<MetricBatch>,
    /// How it rounds the kinks of a network that has any.
    pub smoothing: Smoothing,
}

impl MetricOptions {
    /// Every setting by name, as text by which runs are told apart.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |name: &str, value: String| settings.insert(name.to_string(), value);
        set("metric_solver", self.solver.name().to_string());
        match self.solver {
            MetricSolver::Auto | MetricSolver::Exact => {}
            MetricSolver::Iterative(IterativeOptions { space, tolerance, max_products }) => {
                set("cg_space", space.map_or("smaller", Space::name).to_string());
                set("cg_tolerance", tolerance.to_string());
                set("cg_products", max_products.to_string());
            }
            MetricSolver::MatrixFree(MatrixFreeOptions { tolerance, max_products, max_rank, warm_start, refresh }) => {
                set("cg_tolerance", tolerance.to_string());
                set("cg_products", max_products.to_string());
                set("cg_rank", max_rank.to_string());
                set("cg_warm_start", warm_start.to_string());
                set("cg_refresh", refresh.to_string());
            }
        }
        if let Some(MetricBatch { size, redraw }) = self.batch {
            set("metric_batch", size.to_string());
            set("redraw", redraw.to_string());
        }
        let smoothing = match self.smoothing {
            Smoothing::Default => "default".to_string(),
            Smoothing::Width(width) => width.to_string(),
            Smoothing::None => "none".to_string(),
        };
        set("smoothing", smoothing);
        settings
    }
}

impl MetricSolver {
    /// The name, as the program has it.
    pub const fn name(self) -> &'static str {
        match self {
            MetricSolver::Auto => "auto",
            MetricSolver::Exact => "exact",
            MetricSolver::Iterative(_) => "iterative",
            MetricSolver::MatrixFree(_) => "matrix-free",
        }
    }
}

/// A solver for geodesics of a certain accuracy.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathSolver<'a> {
    solver: MetricSolver,
    /// The relative tolerance at which paths are first integrated.
    rtol: f64,
    /// A precision that the metric is near to where geodesics start.
    precision: Option<&'a Arc<dyn Precision>>,
}

impl<'a> PathSolver<'a> {
    /// The metric with this solver, after checking that `workers` evaluators fit in memory.
    pub(super) fn apply(self, metric: Pullback, base: &[f64], workers: usize) -> Result<Pullback> {
        let metric = match self.precision {
            Some(precision) => metric.starting_near(precision.clone()),
            None => metric,
        };
        let metric = match self.solver {
            MetricSolver::Auto => metric.with_cheapest_solver(base, self.rtol)?,
            MetricSolver::Exact => metric,
            MetricSolver::Iterative(options) => metric.with_iteration(base, options)?,
            MetricSolver::MatrixFree(options) => metric.with_matrix_free(base, options)?,
        };
        let advice = match self.solver {
            MetricSolver::Auto | MetricSolver::Exact | MetricSolver::Iterative(_) => {
                "use the matrix-free solver, make the metric from a part of the data, or use fewer threads"
            }
            MetricSolver::MatrixFree(_) => "make the metric from a part of the data, or use fewer threads",
        };
        let what = format!("the metric, evaluated on {workers} threads,");
        memory::check(&what, workers as f64 * metric.evaluator_size(), advice)?;
        Ok(metric)
    }

    /// The solver, with a residual too small to affect the tolerance or the drift target.
    fn new(solver: MetricSolver, options: &GeodesicOptions, n_params: usize) -> Self {
        let rtol = match options.accuracy {
            Accuracy::Tolerances { rtol, .. } => rtol,
            // The tolerance starts at a tenth of the target and may be tightened a few times.
            Accuracy::Drift { target, .. } => 1e-2 * target,
        };
        let solver = match solver {
            MetricSolver::MatrixFree(options) => MetricSolver::MatrixFree(options.for_integrator(rtol)),
            MetricSolver::Auto | MetricSolver::Exact | MetricSolver::Iterative(_) => solver,
        };
        Self { solver, rtol: options.first_tolerances(n_params).0, precision: None }
    }

    /// The same for a metric that is near the precision of this posterior where geodesics start.
    fn near(self, laplace: &'a Laplace) -> Self {
        Self { precision: Some(laplace.precision()), ..self }
    }

    /// The one that only provides speeds: no matrix and no preconditioner is needed.
    pub(super) fn for_speeds() -> Self {
        let options = MatrixFreeOptions { max_rank: 0, ..Default::default() };
        Self { solver: MetricSolver::MatrixFree(options), rtol: 1.0, precision: None }
    }
}

/// Samples of the Riemannian posterior, each with its certificate; [`Samples::solver`] and [`Samples::batch`] report on
/// a metric that is evaluated without matrices, or made from a part of the data.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Dataset;
/// use riemannian_laplace::internals::geodesic::{MetricBatch, MetricOptions, MetricSolver};
/// use riemannian_laplace::MetricName;
/// use riemannian_laplace::internals::geodesic::sample_posterior;
/// use riemannian_laplace::SamplerOptions;
/// use riemannian_laplace::internals::metric::MatrixFreeOptions;
/// use riemannian_laplace::{FitOptions, Laplace};
/// use riemannian_laplace::Family;
/// use riemannian_laplace::{Activation, Architecture, Network};
///
/// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
/// let how = MetricOptions {
///     solver: MetricSolver::MatrixFree(MatrixFreeOptions::default()),
///     batch: Some(MetricBatch { size: 2, redraw: true }),
///     ..Default::default()
/// };
/// let samples = sample_posterior(&laplace, MetricName::Fisher, &how, &SamplerOptions::first(3), &())?;
/// assert!(samples.solver.is_some_and(|report| report.worst_residual <= 1e-6));
/// assert!(samples.batch.is_some_and(|report| report.mean_residual() < 2.0));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn sample_posterior(
    laplace: &Laplace,
    metric: MetricName,
    how: &MetricOptions,
    options: &SamplerOptions,
    progress: &dyn Progress,
) -> Result<Samples> {
    sample_posterior_watched(laplace, metric, how, options, Watch::of(progress))
}

/// [`sample_posterior`], with samples given to a [`Keeper`](super::Keeper) as they are finished, and those that it has from
/// an earlier run taken from it.
pub fn sample_posterior_watched(
    laplace: &Laplace,
    metric: MetricName,
    how: &MetricOptions,
    options: &SamplerOptions,
    watch: Watch<'_>,
) -> Result<Samples> {
    check_options(metric, how)?;
    let width = how.smoothing.for_samples(laplace, metric)?;
    let options = SamplerOptions { geodesic: for_network(laplace, width, options.geodesic), ..options.clone() };
    let posterior = smoothing::posterior(laplace, metric, width)?;
    let (base, precision) = (posterior.parameters(), &**posterior.precision());
    let sum_over_data = |name| {
        let target = &posterior.target(metric.needs())?;
        let solver = PathSolver::new(how.solver, &options.geodesic, base.len());
        if let Some(batch) = how.batch {
            return Subsampling { target, name, batch, solver, base, precision }.sample(&options, watch);
        }
        let metric = of_all_data(target, name, solver.near(&posterior), base, options.workers())?;
        let mut samples = sample_watched(&metric, base, precision, &options, watch)?;
        samples.report_on(&metric);
        Ok(samples)
    };
    let samples = match metric {
        MetricName::Euclidean => sample_watched(&metric::euclidean(base.len()), base, precision, &options, watch)?,
        MetricName::Fisher => sum_over_data(SumOverData::Fisher)?,
        MetricName::EmpiricalFisher => sum_over_data(SumOverData::EmpiricalFisher)?,
        MetricName::Monge => {
            let target = posterior.target(metric.needs())?;
            sample_watched(&metric::monge(&target), base, precision, &options, watch)?
        }
        MetricName::MongeLog => {
            let target = posterior.target(metric.needs())?;
            let logarithm = GaussianLogarithm::new(precision)?;
            sample_monge_log_watched(&metric::monge(&target), &logarithm, base, precision, &options, watch)?
        }
    };
    let residuals = match laplace.model().has_kinks() && metric != MetricName::Euclidean {
        true => Residuals::of(laplace, &samples)?,
        false => None,
    };
    Ok(Samples { metric: Some(metric), smoothing: width, residuals, indices: indices(laplace), ..samples })
}

/// The geodesics from θ̂ with the given velocities, one per row.
pub fn exponential_map(
    laplace: &Laplace,
    metric: MetricName,
    smoothing: Smoothing,
    velocities: ArrayView2<'_, f64>,
    options: GeodesicOptions,
    progress: &dyn Progress,
) -> Result<Samples> {
    let width = smoothing.for_maps(laplace, metric)?;
    let (base, options) = (laplace.parameters(), for_network(laplace, width, options));
    let sum_over_data = |name| {
        let target = &smoothing::target(laplace, metric, width)?;
        let solver = PathSolver::new(MetricSolver::Auto, &options, base.len()).near(laplace);
        let workers = rayon::current_num_threads().min(velocities.nrows());
        let metric = of_all_data(target, name, solver, base, workers)?;
        let mut ends = exponentials(&metric, base, velocities, options, progress)?;
        ends.report_on(&metric);
        Ok::<Samples, Error>(ends)
    };
    let ends = match metric {
        MetricName::Fisher => sum_over_data(SumOverData::Fisher)?,
        MetricName::EmpiricalFisher => sum_over_data(SumOverData::EmpiricalFisher)?,
        _ => with_metric(laplace, metric, width, |metric| exponentials(metric, base, velocities, options, progress))?,
    };
    Ok(Samples { metric: Some(metric), smoothing: width, indices: indices(laplace), ..ends })
}

/// The place of a part's parameters in the whole model.
fn indices(laplace: &Laplace) -> Option<Vec<usize>> {
    laplace.model().subset().map(|place| place.indices.to_vec())
}

/// The velocities that lead from θ̂ to the given points, one per row.
pub fn logarithmic_map(
    laplace: &Laplace,
    metric: MetricName,
    smoothing: Smoothing,
    points: ArrayView2<'_, f64>,
    options: LogarithmOptions,
    progress: &dyn Progress,
) -> Result<Vec<Logarithm>> {
    let (base, width) = (laplace.parameters(), smoothing.for_maps(laplace, metric)?);
    with_metric(laplace, metric, width, |metric| logarithms(metric, base, points, options, progress))
}

/// Calls `work` with the metric of that name, its kinks rounded over a width if there is one.
fn with_metric<T>(
    laplace: &Laplace,
    name: MetricName,
    width: Option<f64>,
    work: impl FnOnce(&dyn Metric) -> Result<T>,
) -> Result<T> {
    let target = || smoothing::target(laplace, name, width);
    match name {
        MetricName::Euclidean => work(&metric::euclidean(laplace.parameters().len())),
        MetricName::Fisher => work(&metric::fisher(&target()?)),
        MetricName::Monge => work(&metric::monge(&target()?)),
        MetricName::EmpiricalFisher => work(&metric::empirical_fisher(&target()?)),
        MetricName::MongeLog => {
            let metrics = names_where(MetricName::has_maps);
            Err(Error::Unsupported(Unsupported::NoMaps { metric: name.name(), metrics }))
        }
    }
}

/// Checks that the metric can be evaluated as asked.
fn check_options(metric: MetricName, how: &MetricOptions) -> Result<()> {
    let what = match (how.solver, how.batch) {
        (MetricSolver::MatrixFree(_), _) => "the matrix-free solver",
        (MetricSolver::Iterative(_), _) => "the iterative solver",
        (MetricSolver::Auto | MetricSolver::Exact, Some(_)) => "a part of the data",
        (MetricSolver::Auto | MetricSolver::Exact, None) => return Ok(()),
    };
    if metric.is_sum_over_data() {
        return Ok(());
    }
    let metrics = names_where(MetricName::is_sum_over_data);
    Err(Error::Unsupported(Unsupported::MetricOption { what, metrics, metric: metric.name() }))
}

/// Tightening the tolerance is not tried where it cannot help.
fn for_network(laplace: &Laplace, width: Option<f64>, options: GeodesicOptions) -> GeodesicOptions {
    match options.accuracy {
        Accuracy::Drift { target, .. } if laplace.model().has_kinks() && width.is_none() => {
            GeodesicOptions { accuracy: Accuracy::Drift { target, attempts: 1 }, ..options }
        }
        Accuracy::Drift { .. } | Accuracy::Tolerances { .. } => options,
    }
}
