//! Geodesics of a fitted network by the metric's name: the Riemannian side of [`Laplace`].
//!
//! Networks with kinks (relu, leaky_relu): the metric jumps at every kink a geodesic crosses, hundreds of times on its
//! way, so vᵀGv is not conserved and no tolerance mends that. Such geodesics are integrated once, within the step limit,
//! and their drift is reported as it is; a smooth activation (silu, gelu, softplus) gives a posterior that can be
//! certified.

use ndarray::ArrayView2;

use super::exponential::{Accuracy, GeodesicOptions};
use super::logarithm::{Logarithm, LogarithmOptions};
use super::paraboloid::GaussianLogarithm;
use super::sampler::{SamplerOptions, Samples, exponentials, logarithms, sample, sample_monge_log};
use super::subsampled::{MetricBatch, Subsampling, of_all_data};
use crate::error::{Error, Result, Unsupported};
use crate::laplace::Laplace;
use crate::map::DifferentiableMap;
use crate::memory;
use crate::metric::{self, MatrixFreeOptions, Metric, Pullback};

/// A Riemannian metric on the weights of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricName {
    /// Straight lines.
    Euclidean,
    /// G = Σₙ JₙᵀHₙJₙ + A (RLA-F).
    Fisher,
    /// G = I + ∇ℓ∇ℓᵀ (RLA-B).
    Monge,
    /// G = Σₙ sₙsₙᵀ + A.
    EmpiricalFisher,
}

/// A way to draw from the wrapped Gaussian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingMetric {
    /// v ~ N(0, G⁻¹), then the exponential map of a metric.
    Plain(MetricName),
    /// RLA-BLog: the logarithm on the Gaussian's Monge manifold, then the exponential map on the target's.
    MongeLog,
}

/// How the accelerations of a metric are solved for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MetricSolver {
    /// By a factored matrix, D × D or N·P × N·P.
    #[default]
    Exact,
    /// By conjugate gradients, without a matrix: when both are too large for the memory.
    MatrixFree(MatrixFreeOptions),
}

/// How the metric of [`Laplace::sample_riemannian_with`] is evaluated; by default exactly and with all data.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MetricOptions {
    /// The solver.
    pub solver: MetricSolver,
    /// A part of the data that the metric is made of (the velocities still come from the posterior of all).
    pub batch: Option<MetricBatch>,
}

impl MetricSolver {
    /// The metric with this solver, after checking that `workers` evaluators fit in memory.
    pub(super) fn apply<M: DifferentiableMap>(
        self,
        metric: Pullback<M>,
        base: &[f64],
        workers: usize,
    ) -> Result<Pullback<M>> {
        let metric = match self {
            MetricSolver::Exact => metric,
            MetricSolver::MatrixFree(options) => metric.with_matrix_free(base, options)?,
        };
        let advice = match self {
            MetricSolver::Exact => "use the matrix-free solver, a part of the data, or fewer threads",
            MetricSolver::MatrixFree(_) => "use a part of the data or fewer threads",
        };
        let what = format!("the metric, evaluated on {workers} threads,");
        memory::check(&what, workers as f64 * metric.evaluator_size(), advice)?;
        Ok(metric)
    }

    /// The solver with a residual that neither the tolerance nor the drift target will notice.
    fn for_accuracy(self, accuracy: Accuracy) -> Self {
        let rtol = match accuracy {
            Accuracy::Tolerances { rtol, .. } => rtol,
            // The tolerance starts at a tenth of the target and may be tightened a few times.
            Accuracy::Drift { target, .. } => 1e-2 * target,
        };
        match self {
            MetricSolver::Exact => MetricSolver::Exact,
            MetricSolver::MatrixFree(options) => MetricSolver::MatrixFree(options.for_integrator(rtol)),
        }
    }
}

impl MetricName {
    fn name(self) -> &'static str {
        match self {
            MetricName::Euclidean => "Euclidean",
            MetricName::Fisher => "Fisher",
            MetricName::Monge => "Monge",
            MetricName::EmpiricalFisher => "empirical Fisher",
        }
    }
}

impl SamplingMetric {
    fn refuse(self, what: &'static str) -> Error {
        let metric = match self {
            SamplingMetric::Plain(name) => name.name(),
            SamplingMetric::MongeLog => "Monge",
        };
        Error::Unsupported(Unsupported::MetricOption { what, metric })
    }
}

impl Laplace {
    /// Calls `work` with the metric of that name.
    fn with_metric<T>(&self, name: MetricName, work: impl FnOnce(&dyn Metric) -> Result<T>) -> Result<T> {
        if name == MetricName::Euclidean {
            return work(&metric::euclidean(self.network().parameters().len()));
        }
        let target = self.target(name.name())?;
        match name {
            MetricName::Fisher => work(&metric::fisher(&target)),
            MetricName::Monge => work(&metric::monge(&target)),
            _ => work(&metric::empirical_fisher(&target)),
        }
    }

    /// Where tightening the tolerance cannot help, it is not tried.
    fn for_network(&self, options: GeodesicOptions) -> GeodesicOptions {
        match options.accuracy {
            Accuracy::Drift { target, .. } if self.network().architecture().has_kinks() => {
                GeodesicOptions { accuracy: Accuracy::Drift { target, attempts: 1 }, ..options }
            }
            _ => options,
        }
    }

    /// Samples of the Riemannian posterior, each with its certificate.
    pub fn sample_riemannian(
        &self,
        metric: SamplingMetric,
        options: &SamplerOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Samples> {
        self.sample_riemannian_with(metric, &MetricOptions::default(), options, progress)
    }

    /// The same with a metric that is evaluated without matrices, or made of a part of the data; what that did is in
    /// [`Samples::solver`] and [`Samples::batch`].
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::data::Dataset;
    /// use riemannian_laplace::geodesic::{MetricBatch, MetricName, MetricOptions, MetricSolver};
    /// use riemannian_laplace::geodesic::{SamplerOptions, SamplingMetric};
    /// use riemannian_laplace::laplace::{FitOptions, Laplace};
    /// use riemannian_laplace::likelihood::Family;
    /// use riemannian_laplace::metric::MatrixFreeOptions;
    /// use riemannian_laplace::network::{Activation, Architecture, Network};
    ///
    /// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
    /// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
    /// let how = MetricOptions {
    ///     solver: MetricSolver::MatrixFree(MatrixFreeOptions::default()),
    ///     batch: Some(MetricBatch { size: 2, redraw: true }),
    /// };
    /// let fisher = SamplingMetric::Plain(MetricName::Fisher);
    /// let options = SamplerOptions { samples: 3, ..Default::default() };
    /// let samples = laplace.sample_riemannian_with(fisher, &how, &options, &|| ())?;
    /// assert!(samples.solver.is_some_and(|report| report.worst_residual <= 1e-6));
    /// assert!(samples.batch.is_some_and(|report| report.mean_residual() < 2.0));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn sample_riemannian_with(
        &self,
        metric: SamplingMetric,
        how: &MetricOptions,
        options: &SamplerOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Samples> {
        let options = SamplerOptions { geodesic: self.for_network(options.geodesic), ..*options };
        let (base, precision) = (self.network().parameters(), self.precision());
        let solver = how.solver.for_accuracy(options.geodesic.accuracy);
        let workers = rayon::current_num_threads().min(options.samples);
        match metric {
            SamplingMetric::Plain(name @ (MetricName::Fisher | MetricName::EmpiricalFisher)) => {
                let target = &self.target(name.name())?;
                if let Some(batch) = how.batch {
                    return Subsampling { target, name, batch, solver, base, precision }.sample(&options, progress);
                }
                let metric = of_all_data(target, name, solver, base, workers)?;
                let mut samples = sample(&*metric, base, precision, &options, progress)?;
                samples.solver = metric.solver_report();
                Ok(samples)
            }
            _ if how.solver != MetricSolver::Exact => Err(metric.refuse("the matrix-free solver")),
            _ if how.batch.is_some() => Err(metric.refuse("a part of the data")),
            SamplingMetric::Plain(name) => {
                self.with_metric(name, |metric| sample(metric, base, precision, &options, progress))
            }
            SamplingMetric::MongeLog => {
                let target = self.target("Monge")?;
                let logarithm = GaussianLogarithm::new(precision)?;
                sample_monge_log(&metric::monge(&target), &logarithm, base, precision, &options, progress)
            }
        }
    }

    /// The geodesics from θ̂ with the given velocities, one a row.
    pub fn exponential_map(
        &self,
        metric: MetricName,
        velocities: ArrayView2<'_, f64>,
        options: GeodesicOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Samples> {
        let options = self.for_network(options);
        let base = self.network().parameters();
        self.with_metric(metric, |metric| exponentials(metric, base, velocities, options, progress))
    }

    /// The velocities that lead from θ̂ to the given points, one a row.
    pub fn logarithmic_map(
        &self,
        metric: MetricName,
        points: ArrayView2<'_, f64>,
        options: LogarithmOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Logarithm>> {
        let base = self.network().parameters();
        self.with_metric(metric, |metric| logarithms(metric, base, points, options, progress))
    }
}
