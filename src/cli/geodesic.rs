//! What the geodesic commands share: metrics by name, the integrator's settings, vectors in and geodesics out.

use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ndarray::Array2;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::geodesic::{
    Accuracy, END_BOUND, EndCheck, MetricBatch, MetricOptions, MetricSolver, Outcome,
};
use riemannian_laplace::internals::metric::{IterativeOptions, MatrixFreeOptions, SolverName};
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{GeodesicOptions, MetricName, Samples, Smoothing};
use serde::Serialize;

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::output::{Summary, counted, short};
use super::smoothing::warn_about_residuals;

/// Parses a metric to sample with.
pub fn metric() -> impl TypedValueParser<Value = MetricName> {
    metric_where(|_| true)
}

/// Parses a metric that has an exponential and a logarithmic map.
pub fn metric_with_maps() -> impl TypedValueParser<Value = MetricName> {
    metric_where(MetricName::has_maps)
}

fn metric_where(offered: fn(MetricName) -> bool) -> impl TypedValueParser<Value = MetricName> {
    let offered = MetricName::ALL.into_iter().filter(move |metric| offered(*metric));
    let values = offered.map(|metric| PossibleValue::new(metric.name()).help(meaning_of_metric(metric)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<MetricName>())
}

fn meaning_of_metric(metric: MetricName) -> &'static str {
    match metric {
        MetricName::Euclidean => "Straight lines: the classical Laplace approximation (ELA)",
        MetricName::Fisher => "The Fisher information plus the prior precision (RLA-F)",
        MetricName::Monge => "Identity plus the outer product of the log posterior's gradient (RLA-B)",
        MetricName::MongeLog => "The Monge metric with its bias removed by a logarithmic map (RLA-BLog)",
        MetricName::EmpiricalFisher => {
            "The sum of outer products of the data points' gradients, plus the prior precision"
        }
    }
}

fn integrator() -> impl TypedValueParser<Value = Integrator> {
    let values = Integrator::ALL.map(|integrator| PossibleValue::new(integrator.name()).help(meaning_of(integrator)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Integrator>())
}

fn meaning_of(integrator: Integrator) -> &'static str {
    match integrator {
        Integrator::Adams => "Adams, one evaluation per step",
        Integrator::Dopri5 => "Dormand–Prince 5(4)",
        Integrator::Dop853 => "Dormand–Prince 8(5,3), for tight tolerances",
        Integrator::Bosh3 => "Bogacki–Shampine 3(2), for loose tolerances",
    }
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
    /// Refine each geodesic until the relative change of vᵀGv is at most this
    #[arg(long, value_name = "D", allow_negative_numbers = true, value_parser = arguments::positive, conflicts_with_all = ["rtol", "atol"])]
    drift_target: Option<f64>,
    /// The integrator [default: adams for a drift target, dopri5 for fixed tolerances]
    #[arg(long, alias = "solver", value_name = "NAME", value_parser = integrator())]
    integrator: Option<Integrator>,
    /// Whether the end of each geodesic is compared at two tolerances, without which no path is certified, only the law
    #[arg(long, value_enum, default_value_t = EndCheckName::Auto)]
    end_check: EndCheckName,
    /// The most steps of one integration [default: 4096, or six times that for adams]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    max_steps: Option<usize>,
}

impl IntegratorArgs {
    /// The settings, with the paper's fixed tolerances by default.
    pub fn fixed_by_default(&self) -> Result<GeodesicOptions, Failure> {
        self.options(self.drift_target.is_none())
    }

    /// The settings, with a drift target by default.
    pub fn certified_by_default(&self) -> Result<GeodesicOptions, Failure> {
        self.options(self.rtol.is_some() || self.atol.is_some())
    }

    fn options(&self, fixed: bool) -> Result<GeodesicOptions, Failure> {
        let fixed_tolerances = GeodesicOptions::with_tolerances(self.rtol.unwrap_or(1e-3), self.atol.unwrap_or(1e-6));
        let usual = if fixed { fixed_tolerances } else { GeodesicOptions::default() };
        let accuracy = match (usual.accuracy, self.drift_target) {
            (Accuracy::Drift { attempts, .. }, Some(target)) => Accuracy::Drift { target, attempts },
            (accuracy, _) => accuracy,
        };
        let integrator = self.integrator.unwrap_or(usual.integrator);
        let of_integrator = if integrator == Integrator::Adams { GeodesicOptions::default() } else { fixed_tolerances };
        let max_steps = self.max_steps.unwrap_or(of_integrator.max_steps);
        let end_check = self.end_check.value();
        let options = GeodesicOptions { accuracy, integrator, max_steps, end_check, ..usual };
        options.validate()?;
        Ok(options)
    }
}

/// When ends are compared at two tolerances, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EndCheckName {
    /// With fewer than 50,000 weights
    Auto,
    /// Always, for two thirds more evaluations
    Always,
    /// Never
    Never,
}

impl EndCheckName {
    fn value(self) -> EndCheck {
        match self {
            EndCheckName::Auto => EndCheck::Auto,
            EndCheckName::Always => EndCheck::Always,
            EndCheckName::Never => EndCheck::Never,
        }
    }
}

/// What `--json` prints about certificates and what they cost.
#[derive(Debug, Serialize)]
pub struct CertificateReport {
    certified_path: usize,
    certified_law: usize,
    /// Of certified paths, in σ at the data.
    max_end_error: Option<f64>,
    mean_nfev_check: f64,
    mean_attempts: f64,
}

impl CertificateReport {
    pub fn new(samples: &Samples) -> Self {
        let certified = samples.certified.iter().filter(|certified| **certified).count();
        let certified_path = samples.path_certified();
        Self {
            certified_path,
            certified_law: certified - certified_path,
            max_end_error: samples.max_end_error(),
            mean_nfev_check: samples.mean_check_evaluations(),
            mean_attempts: samples.attempts.iter().sum::<usize>() as f64 / samples.len().max(1) as f64,
        }
    }

    /// The same for people.
    pub fn add_to(&self, summary: &mut Summary) {
        let (path, law) = (self.certified_path, self.certified_law);
        summary.row("path certified", path, "the end is that of this velocity's geodesic, to the error below");
        summary.row(
            "law certified",
            law,
            "speed and graph kept; the distribution is right, single ends are not reproducible",
        );
        if let Some(error) = self.max_end_error {
            summary.row(
                "end error",
                short(error),
                "the largest of a certified path: outputs at the data, in noise levels",
            );
        }
        summary.row(
            "nfev of check",
            short(self.mean_nfev_check),
            "further evaluations per sample, for the error of the end",
        );
    }
}

/// The solver of the metric by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricSolverName {
    /// Whichever of the others (but the last) takes the fewest multiply-adds
    Auto,
    /// A factored matrix: D × D, or N·P × N·P for N data points and P outputs, whichever is cheaper
    Exact,
    /// Conjugate gradients over the weights or the outputs, whichever are fewer, that factor a matrix now and then
    Iterative,
    /// Conjugate gradients without a matrix, for when both are too large for the memory
    MatrixFree,
}

/// How the metric is evaluated.
#[derive(Debug, Args)]
pub struct MetricArgs {
    /// How accelerations of the fisher and empirical-fisher metrics are computed
    #[arg(long, value_enum, default_value_t = MetricSolverName::Auto)]
    metric_solver: MetricSolverName,
    /// Make the metric from B data points, scaled to represent all [default: all]
    #[arg(long, value_name = "B")]
    metric_batch: Option<usize>,
    /// Draw new points of --metric-batch for every sample
    #[arg(long, requires = "metric_batch")]
    redraw: bool,
}

impl MetricArgs {
    pub fn options(&self, smoothing: Smoothing) -> MetricOptions {
        let solver = match self.metric_solver {
            MetricSolverName::Auto => MetricSolver::Auto,
            MetricSolverName::Exact => MetricSolver::Exact,
            MetricSolverName::Iterative => MetricSolver::Iterative(IterativeOptions::default()),
            MetricSolverName::MatrixFree => MetricSolver::MatrixFree(MatrixFreeOptions::default()),
        };
        let batch = self.metric_batch.map(|size| MetricBatch { size, redraw: self.redraw });
        MetricOptions { solver, batch, smoothing }
    }
}

/// What `--json` prints about the metric's solver, and about a metric from a part of the data.
#[derive(Debug, Serialize)]
pub struct MetricReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_solver: Option<&'static str>,
    #[serde(skip)]
    meaning: &'static str,
    #[serde(flatten)]
    solver: Option<IterationReport>,
    #[serde(flatten)]
    batch: Option<PartReport>,
}

#[derive(Debug, Serialize)]
struct IterationReport {
    mean_cg_iterations: f64,
    worst_cg_residual: f64,
    cg_unconverged: u64,
    preconditioner_rank: usize,
    preconditioner_factors: u64,
}

#[derive(Debug, Serialize)]
struct PartReport {
    metric_batch: usize,
    redraw: bool,
    mean_metric_residual: f64,
}

impl MetricReport {
    pub fn new(samples: &Samples) -> Self {
        let solver = samples.solver.map(|report| IterationReport {
            mean_cg_iterations: report.mean_products(),
            worst_cg_residual: report.worst_residual,
            cg_unconverged: report.unconverged,
            preconditioner_rank: report.rank,
            preconditioner_factors: report.factors,
        });
        let batch = samples.batch.as_ref().map(|report| PartReport {
            metric_batch: report.batch.size,
            redraw: report.batch.redraw,
            mean_metric_residual: report.mean_residual(),
        });
        let name = samples.solver_name;
        let (metric_solver, meaning) = (name.map(SolverName::name), name.map_or("", SolverName::meaning));
        Self { metric_solver, meaning, solver, batch }
    }

    /// The same for people.
    pub fn add_to(&self, summary: &mut Summary) {
        if let Some(name) = self.metric_solver {
            summary.row("solver", name, self.meaning);
        }
        if let Some(report) = &self.solver {
            let meaning = "products with the system per evaluation";
            summary.row("CG iterations", short(report.mean_cg_iterations), meaning);
            summary.row("CG residual", short(report.worst_cg_residual), "the worst of all evaluations, relative");
        }
        if let Some(report) = &self.batch {
            let meaning = format!("mean relative difference of vᵀGv, {} data points against all", report.metric_batch);
            summary.row("metric residual", short(report.mean_metric_residual), meaning);
        }
    }
}

/// Reads a matrix in which each row is a vector of parameters.
pub fn read_vectors(path: &Path, tensor: &str, laplace: &Laplace) -> Result<Array2<f64>, Failure> {
    let size = laplace.parameters().len();
    let meaning = format!("each row is a vector of the network's {}", counted(size, "parameter"));
    let vectors = TensorFile::read_where(path, |name| name == tensor)?.take_rows(path, tensor, size, &meaning)?;
    let rows = vectors.values.len() / size.max(1);
    Array2::from_shape_vec((rows, size), vectors.values)
        .map_err(|error| Failure::Usage(format!("{}: tensor `{tensor}`: {error}", path.display())))
}

/// Reports how many geodesics failed or could not be certified.
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
        let worst = match samples.max_drift() {
            drift if drift.is_nan() => "a drift that could not be computed".to_string(),
            drift => format!("a drift of up to {drift:.1e}"),
        };
        console.warn(format!(
            "{uncertified} of {} are uncertified, with {worst}, or because their end depends on the tolerance by more than \
             {END_BOUND} σ at the data: they are not reliable",
            counted(samples.len(), "geodesic"),
        ));
    }
    warn_about_residuals(samples, console);
}
