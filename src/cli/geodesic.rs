//! What the geodesic commands share: metrics by name, the integrator's settings, vectors in and geodesics out.

use std::collections::HashMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use ndarray::Array2;
use riemannian_laplace::geodesic::{
    Accuracy, GeodesicOptions, MetricBatch, MetricName, MetricOptions, MetricSolver, Outcome, Samples, SamplingMetric,
};
use riemannian_laplace::laplace::Laplace;
use riemannian_laplace::metric::MatrixFreeOptions;
use riemannian_laplace::ode::Method;
use riemannian_laplace::tensors::{self, TensorFile, Values};
use serde::Serialize;

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::output::{OutputFile, Summary, counted, short};

/// A Riemannian metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricArg {
    /// Straight lines: the classical Laplace approximation (ELA)
    Euclidean,
    /// The Fisher information plus the prior precision (RLA-F)
    Fisher,
    /// Identity plus the outer product of the log posterior's gradient (RLA-B)
    Monge,
    /// The sum of outer products of the data points' gradients, plus the prior precision
    EmpiricalFisher,
}

impl MetricArg {
    pub fn name(self) -> MetricName {
        match self {
            MetricArg::Euclidean => MetricName::Euclidean,
            MetricArg::Fisher => MetricName::Fisher,
            MetricArg::Monge => MetricName::Monge,
            MetricArg::EmpiricalFisher => MetricName::EmpiricalFisher,
        }
    }
}

/// A metric to sample with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SamplingMetricArg {
    /// Straight lines: the classical Laplace approximation (ELA)
    Euclidean,
    /// The Fisher information plus the prior precision (RLA-F)
    Fisher,
    /// Identity plus the outer product of the log posterior's gradient (RLA-B)
    Monge,
    /// The Monge metric with its bias removed by a logarithmic map (RLA-BLog)
    MongeLog,
    /// The sum of outer products of the data points' gradients, plus the prior precision
    EmpiricalFisher,
}

impl SamplingMetricArg {
    pub fn metric(self) -> SamplingMetric {
        match self {
            SamplingMetricArg::Euclidean => SamplingMetric::Plain(MetricName::Euclidean),
            SamplingMetricArg::Fisher => SamplingMetric::Plain(MetricName::Fisher),
            SamplingMetricArg::Monge => SamplingMetric::Plain(MetricName::Monge),
            SamplingMetricArg::EmpiricalFisher => SamplingMetric::Plain(MetricName::EmpiricalFisher),
            SamplingMetricArg::MongeLog => SamplingMetric::MongeLog,
        }
    }
}

/// The integrator by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SolverName {
    /// Adams, one evaluation a step
    Adams,
    /// Dormand-Prince 5(4)
    Dopri5,
    /// Dormand-Prince 8(5,3), for tight tolerances
    Dop853,
    /// Bogacki-Shampine 3(2), for loose ones
    Bosh3,
}

/// Settings of the integrator.
#[derive(Debug, Args)]
pub struct IntegratorArgs {
    /// Relative tolerance; fixes the tolerances instead of refining to a drift target [default: 1e-3]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = arguments::non_negative)]
    rtol: Option<f64>,
    /// Absolute tolerance; fixes the tolerances instead of refining to a drift target [default: 1e-6]
    #[arg(long, value_name = "A", allow_negative_numbers = true, value_parser = arguments::non_negative)]
    atol: Option<f64>,
    /// Refine each geodesic until vᵀGv changes by at most this, relatively
    #[arg(long, value_name = "D", allow_negative_numbers = true, value_parser = arguments::positive, conflicts_with_all = ["rtol", "atol"])]
    drift_target: Option<f64>,
    /// The integrator [default: adams for a drift target, dopri5 for fixed tolerances]
    #[arg(long, value_enum)]
    solver: Option<SolverName>,
    /// The most steps of one integration [default: 4096, of adams six times that]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    max_steps: Option<usize>,
}

impl IntegratorArgs {
    /// The settings, with fixed tolerances by default, as the paper has them.
    pub fn fixed_by_default(&self) -> Result<GeodesicOptions, Failure> {
        self.options(self.drift_target.is_none())
    }

    /// The settings, with a drift target by default.
    pub fn certified_by_default(&self) -> Result<GeodesicOptions, Failure> {
        self.options(self.rtol.is_some() || self.atol.is_some())
    }

    fn options(&self, fixed: bool) -> Result<GeodesicOptions, Failure> {
        let accuracy = match (fixed, self.drift_target, Accuracy::default()) {
            (true, ..) => Accuracy::Tolerances { rtol: self.rtol.unwrap_or(1e-3), atol: self.atol.unwrap_or(1e-6) },
            (false, Some(target), Accuracy::Drift { attempts, .. }) => Accuracy::Drift { target, attempts },
            (false, _, default) => default,
        };
        let usual = if fixed { GeodesicOptions::with_tolerances(1e-3, 1e-6) } else { GeodesicOptions::default() };
        let method = match self.solver {
            Some(SolverName::Adams) => Method::Adams,
            Some(SolverName::Dopri5) => Method::Dopri5,
            Some(SolverName::Dop853) => Method::Dop853,
            Some(SolverName::Bosh3) => Method::Bosh3,
            None => usual.method,
        };
        let of_method = if method == Method::Adams {
            GeodesicOptions::default()
        } else {
            GeodesicOptions::with_tolerances(1e-3, 1e-6)
        };
        let max_steps = self.max_steps.unwrap_or(of_method.max_steps);
        let options = GeodesicOptions { accuracy, method, max_steps };
        options.validate()?;
        Ok(options)
    }
}

/// The solver of the metric by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricSolverName {
    /// A factored matrix: D × D, or N·P × N·P for N data points and P outputs, whichever is smaller
    Exact,
    /// Conjugate gradients without a matrix, for when both are too large for the memory
    MatrixFree,
}

/// How the metric is evaluated.
#[derive(Debug, Args)]
pub struct MetricArgs {
    /// How accelerations of the fisher and empirical-fisher metrics are solved for
    #[arg(long, value_enum, default_value_t = MetricSolverName::Exact)]
    metric_solver: MetricSolverName,
    /// Make the metric of B data points, scaled to stand for all [default: all]
    #[arg(long, value_name = "B")]
    metric_batch: Option<usize>,
    /// Draw the points of --metric-batch anew for every sample
    #[arg(long, requires = "metric_batch")]
    redraw: bool,
}

impl MetricArgs {
    pub fn options(&self) -> MetricOptions {
        let solver = match self.metric_solver {
            MetricSolverName::Exact => MetricSolver::Exact,
            MetricSolverName::MatrixFree => MetricSolver::MatrixFree(MatrixFreeOptions::default()),
        };
        let batch = self.metric_batch.map(|size| MetricBatch { size, redraw: self.redraw });
        MetricOptions { solver, batch }
    }
}

/// What `--json` says about a metric without matrices, or of a part of the data.
#[derive(Debug, Serialize)]
pub struct MetricReport {
    #[serde(flatten)]
    solver: Option<MatrixFreeReport>,
    #[serde(flatten)]
    batch: Option<PartReport>,
}

#[derive(Debug, Serialize)]
struct MatrixFreeReport {
    metric_solver: &'static str,
    mean_cg_iterations: f64,
    worst_cg_residual: f64,
    cg_unconverged: u64,
    preconditioner_rank: usize,
}

#[derive(Debug, Serialize)]
struct PartReport {
    metric_batch: usize,
    redraw: bool,
    mean_metric_residual: f64,
}

impl MetricReport {
    pub fn new(samples: &Samples) -> Self {
        let solver = samples.solver.map(|report| MatrixFreeReport {
            metric_solver: "matrix-free",
            mean_cg_iterations: report.mean_products(),
            worst_cg_residual: report.worst_residual,
            cg_unconverged: report.unconverged,
            preconditioner_rank: report.rank,
        });
        let batch = samples.batch.as_ref().map(|report| PartReport {
            metric_batch: report.batch.size,
            redraw: report.batch.redraw,
            mean_metric_residual: report.mean_residual(),
        });
        Self { solver, batch }
    }

    /// The same for people.
    pub fn add_to(&self, summary: &mut Summary) {
        if let Some(report) = &self.solver {
            let meaning = "products with the system for one evaluation, without a matrix";
            summary.row("CG iterations", short(report.mean_cg_iterations), meaning);
            summary.row("CG residual", short(report.worst_cg_residual), "the worst of all evaluations, relative");
        }
        if let Some(report) = &self.batch {
            let meaning = format!("mean relative difference of vᵀGv, {} data points against all", report.metric_batch);
            summary.row("metric residual", short(report.mean_metric_residual), meaning);
        }
    }
}

/// Reads a matrix with one row a vector of parameters.
pub fn read_vectors(path: &Path, tensor: &str, laplace: &Laplace) -> Result<Array2<f64>, Failure> {
    let size = laplace.network().parameters().len();
    let meaning = format!("one row a vector of the network's {}", counted(size, "parameter"));
    let vectors = TensorFile::read_where(path, |name| name == tensor)?.take_rows(path, tensor, size, &meaning)?;
    let rows = vectors.shape[0];
    Array2::from_shape_vec((rows, size), vectors.values)
        .map_err(|error| Failure::Usage(format!("{}: tensor `{tensor}`: {error}", path.display())))
}

/// Writes end points, end velocities and certificates.
pub fn write_samples(file: &OutputFile, samples: &Samples, metric: &str) -> Result<(), Failure> {
    let (count, size) = samples.theta.dim();
    let theta: Vec<f64> = samples.theta.iter().copied().collect();
    let velocity: Vec<f64> = samples.velocity.iter().copied().collect();
    let evaluations: Vec<i64> = samples.evaluations.iter().map(|&value| value as i64).collect();
    let status: Vec<i64> = samples.outcome.iter().map(|outcome| outcome.code()).collect();
    let certified: Vec<i64> = samples.certified.iter().map(|&value| i64::from(value)).collect();
    let entries = [
        ("theta", vec![count, size], Values::Real(&theta)),
        ("velocity", vec![count, size], Values::Real(&velocity)),
        ("nfev", vec![count], Values::Integer(&evaluations)),
        ("drift", vec![count], Values::Real(&samples.drift)),
        ("status", vec![count], Values::Integer(&status)),
        ("certified", vec![count], Values::Integer(&certified)),
    ];
    let metadata = HashMap::from([("metric".to_string(), metric.to_string())]);
    Ok(tensors::write(file.path(), &entries, metadata)?)
}

/// Warns before geodesics of a network with kinks are followed.
pub fn warn_about_kinks(laplace: &Laplace, metric: SamplingMetric, console: &Console) {
    let architecture = laplace.network().architecture();
    if architecture.has_kinks() && metric != SamplingMetric::Plain(MetricName::Euclidean) {
        console.warn(format!(
            "{} has kinks: the metric jumps where a geodesic crosses one, so vᵀGv is not conserved and \
             the samples cannot be certified; look at their drift, or train with a smooth activation such as silu or gelu",
            architecture.activation().map_or("the network".to_string(), |activation| format!("the activation {activation}"))
        ));
    }
}

/// Says how many geodesics failed or could not be certified.
pub fn report_failures(samples: &Samples, console: &Console) {
    let count = |wanted: Outcome| samples.outcome.iter().filter(|outcome| **outcome == wanted).count();
    for (outcome, what) in [
        (Outcome::StepLimit, "reached the step limit (status 1); raise --max-steps or loosen the tolerances"),
        (Outcome::NotFinite, "left the range of finite numbers (status 2)"),
        (Outcome::NoLogarithm, "found no logarithm for their Gaussian draw (status 3)"),
    ] {
        let failed = count(outcome);
        if failed > 0 {
            console.warn(format!("{failed} of {} {what}", counted(samples.len(), "geodesic")));
        }
    }
    if let Some(report) = samples.solver.filter(|report| report.unconverged > 0) {
        console.warn(format!(
            "{} of {} by conjugate gradients ended above their tolerance, the worst with a relative residual of {:.1e}: \
             look at the drift, or raise the prior precision",
            report.unconverged,
            counted(report.solves as usize, "solve"),
            report.worst_residual
        ));
    }
    let uncertified = samples.uncertified();
    if uncertified > 0 {
        console.warn(format!(
            "{uncertified} of {} drift more than the target, the worst by {:.1e}: their end points are not reliable",
            counted(samples.len(), "geodesic"),
            samples.max_drift()
        ));
    }
}
