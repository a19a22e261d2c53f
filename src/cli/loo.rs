//! `rla loo`: leave-one-out cross-validation of a posterior on its training data, without refitting.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ndarray::Axis;
use riemannian_laplace::internals::evaluate::{ClosedForms, Comparison, Estimator, LeaveOneOut};
use riemannian_laplace::internals::predict::{MonteCarlo, SamplingReport};
use riemannian_laplace::{Laplace, Link};
use serde::Serialize;

use super::certificate::CertificateArgs;
use super::console::Console;
use super::draws::DrawArgs;
use super::failure::Failure;
use super::output::{Columns, OutputFile, Summary, counted, print, print_json, short};
use super::posterior::PosteriorArgs;

/// Score a posterior on its own training data, each point predicted by the others
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct LooArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// Another posterior of the same data to compare with, by the same method
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Whose predictions are scored
    #[arg(long, value_enum, default_value_t = LooMethod::Glm)]
    method: LooMethod,
    #[command(flatten)]
    draws: DrawArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Where to write the scores of the single points (CSV)
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

/// What leave-one-out is computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LooMethod {
    /// The trained network alone, in closed form
    Map,
    /// The linearised posterior: in closed form, or from draws of the linearised outputs with --samples
    Glm,
    /// Riemannian samples, by Pareto smoothed importance sampling
    Riemannian,
}

impl LooMethod {
    fn name(self) -> &'static str {
        match self {
            LooMethod::Map => "map",
            LooMethod::Glm => "glm",
            LooMethod::Riemannian => "riemannian",
        }
    }
}

const EXAMPLE: &str = "\
What is estimated: the log likelihood of as many new data points (elpd_loo, in nats; greater is better) as this posterior \
predicts them, with its own mode and hyperparameters. It cannot see extrapolation: a point that is left out lies among \
the others.

Keys of --json: elpd_loo, se (its standard error), p_loo (effective parameters), k_max and n_k_above_0_7 (the Pareto k̂ of \
the points' weights, null below 21 samples; above 0.7 a point's score is unreliable; in closed form the leverage, which is the k̂ of infinitely \
many draws under Gaussian noise), pit_coverage_90 (share of left-out targets inside their 90 % intervals; null for classes), \
method, and estimator, n, samples, best, advice; with --compare also comparison. \
Columns of --out: log_density (without the point), log_density_with_all_data, k, and pit where there is one.

Example:
  rla loo --posterior posterior.safetensors

Example, two posteriors of the same data by their Riemannian samples:
  rla loo --posterior one.safetensors --compare other.safetensors --method riemannian --samples 200 --out pointwise.csv";

#[derive(Debug, Serialize)]
struct Report<'a> {
    elpd_loo: f64,
    se: f64,
    p_loo: f64,
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
    advice: Vec<String>,
}

/// Another method on the same data, for the choice among them.
#[derive(Debug, Serialize)]
struct MethodReport<'a> {
    method: &'a str,
    elpd_loo: f64,
    /// Relative to the network alone.
    elpd_gain: f64,
    elpd_gain_se: f64,
}

#[derive(Debug, Serialize)]
struct ComparisonReport {
    posterior: String,
    elpd_loo: f64,
    elpd_difference: f64,
    se_difference: f64,
    better: String,
}

/// Runs the command.
pub fn run(args: &LooArgs, console: &Console) -> Result<(), Failure> {
    args.draws.check(args.method == LooMethod::Riemannian, args.method.name())?;
    if args.compare.is_some() && args.draws.file().is_some() {
        let message = "--samples-file belongs to one posterior; leave out --compare, or let the samples be drawn";
        return Err(Failure::Usage(message.to_string()));
    }
    if args.method == LooMethod::Map && args.draws.count_is_given() {
        return Err(Failure::Usage("--method map needs no samples; leave out --samples".to_string()));
    }
    let out = match &args.out {
        Some(path) => {
            let mut inputs: Vec<&Path> = vec![&args.posterior.posterior];
            inputs.extend(args.compare.as_deref().into_iter().chain(args.draws.file()));
            Some(OutputFile::at(path, &inputs)?)
        }
        None => None,
    };
    let laplace = args.posterior.load(console)?;
    let other = match &args.compare {
        Some(path) => {
            let other = Laplace::load(path).map_err(Failure::about(path))?;
            check_same_data(&laplace, &other, path)?;
            Some((path, other))
        }
        None => None,
    };
    let scored = score(args, &laplace, &args.posterior.posterior, console)?;
    if let Some(file) = &out {
        file.write(|out| pointwise(&scored.loo).write_csv(out))?;
    }
    let comparison = match &other {
        Some((path, other)) => {
            let theirs = score(args, other, path, console)?.loo;
            let comparison = scored.loo.minus(&theirs)?;
            Some((path.display().to_string(), theirs, comparison))
        }
        None => None,
    };
    let report = report(args, &scored, comparison);
    if args.json {
        print_json(&report)?;
    } else {
        print(&summary(args, &scored, &report).to_text())?;
        report.advice.iter().for_each(|advice| console.warn(advice));
    }
    scored.sampling.map_or(Ok(()), |sampling| args.certificate.check(sampling))
}

/// The score that was asked for, and those that come with it.
struct Scored {
    loo: LeaveOneOut,
    /// The network alone and the linearised posterior, where they have closed forms.
    closed: Option<ClosedForms>,
    sampling: Option<SamplingReport>,
}

impl Scored {
    /// The methods that were scored, in the order of their cost.
    fn methods(&self) -> Vec<&LeaveOneOut> {
        let mut methods: Vec<&LeaveOneOut> = Vec::new();
        if let Some(closed) = &self.closed {
            methods.extend([&closed.map, &closed.linearized]);
        }
        match methods.iter_mut().find(|loo| loo.method == self.loo.method) {
            Some(same) => *same = &self.loo,
            None => methods.push(&self.loo),
        }
        methods
    }

    /// The best of those that may be compared; where none may, the one that was asked for.
    fn best(&self) -> &LeaveOneOut {
        LeaveOneOut::best(self.methods()).unwrap_or(&self.loo)
    }
}

fn score(args: &LooArgs, laplace: &Laplace, path: &Path, console: &Console) -> Result<Scored, Failure> {
    let about = Failure::about(path);
    let progress = console.spinner("leaving out one point after another");
    // An approximate structure may have none; samples do without.
    let closed = ClosedForms::of(laplace, Link::default());
    drop(progress);
    let by_samples = args.method == LooMethod::Riemannian || args.draws.count_is_given();
    let (closed, why) = match closed {
        Ok(closed) => (Some(closed), None),
        Err(error) if by_samples && laplace.data().is_some() => {
            console.note(format!("no closed form to compare with: {error}"));
            (None, None)
        }
        Err(error) => (None, Some(error)),
    };
    if let Some(error) = why {
        return Err(about(error));
    }
    let mut sampling = None;
    let loo = match (args.method, &closed) {
        (LooMethod::Map, Some(closed)) => closed.map.clone(),
        (LooMethod::Glm, Some(closed)) if !by_samples => closed.linearized.clone(),
        (LooMethod::Map | LooMethod::Glm, _) => {
            let draws = MonteCarlo { samples: args.draws.output_count(), seed: args.draws.seed() };
            LeaveOneOut::of_linearized_draws(laplace, draws).map_err(&about)?
        }
        (LooMethod::Riemannian, _) => {
            let samples = args.draws.draw_or_read(laplace, console)?;
            sampling = Some(SamplingReport::of(&samples));
            LeaveOneOut::of_samples(laplace, &samples).map_err(&about)?
        }
    };
    Ok(Scored { loo, closed, sampling })
}

/// Differences point by point need the same points.
fn check_same_data(one: &Laplace, other: &Laplace, path: &Path) -> Result<(), Failure> {
    let targets =
        |laplace: &Laplace| laplace.data().map(|data| laplace.schema().restore_mean(data.targets().view())).transpose();
    if let (Some(ours), Some(theirs)) = (targets(one)?, targets(other)?) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        if ours.dim() != theirs.dim() || !ours.iter().zip(&theirs).all(near) {
            let message = format!("{}: its training targets are not those of --posterior, row by row", path.display());
            return Err(Failure::Usage(message));
        }
    }
    Ok(())
}

fn report<'a>(args: &LooArgs, scored: &'a Scored, comparison: Option<(String, LeaveOneOut, Comparison)>) -> Report<'a> {
    let loo = &scored.loo;
    let gain = |other: &'a LeaveOneOut| {
        let comparison = scored.closed.as_ref().and_then(|closed| other.minus(&closed.map).ok());
        MethodReport {
            method: &other.method,
            elpd_loo: other.elpd(),
            elpd_gain: comparison.map_or(f64::NAN, |comparison| comparison.difference),
            elpd_gain_se: comparison.map_or(f64::NAN, |comparison| comparison.standard_error),
        }
    };
    let mut advice = loo.advice();
    let best = scored.best();
    if best.method != loo.method
        && let Ok(ahead) = best.minus(loo)
    {
        let clear = if ahead.is_clear() { "" } else { ", less than twice its standard error" };
        advice.push(format!("--method {} is better by {ahead}{clear}", best.method));
    }
    Report {
        elpd_loo: loo.elpd(),
        se: loo.standard_error(),
        p_loo: loo.p_loo(),
        k_max: loo.k_max(),
        n_k_above_0_7: loo.unreliable(),
        pit_coverage_90: loo.coverage(0.9),
        method: &loo.method,
        estimator: loo.estimator.name(),
        n: loo.pointwise.len(),
        samples: match loo.estimator {
            Estimator::Psis { samples } => Some(samples),
            Estimator::ClosedForm => None,
        },
        best: &best.method,
        methods: scored.methods().into_iter().map(gain).collect(),
        comparison: comparison.map(|(posterior, theirs, comparison)| ComparisonReport {
            better: match comparison.difference > 0.0 {
                true => args.posterior.posterior.display().to_string(),
                false => posterior.clone(),
            },
            posterior,
            elpd_loo: theirs.elpd(),
            elpd_difference: comparison.difference,
            se_difference: comparison.standard_error,
        }),
        advice,
    }
}

fn summary(args: &LooArgs, scored: &Scored, report: &Report<'_>) -> Summary {
    let path = args.posterior.posterior.display();
    let how = match report.samples {
        Some(samples) => format!("{}, {}", report.method, counted(samples, "sample")),
        None => format!("{}, closed form", report.method),
    };
    let mut summary = Summary::new(format!("leave-one-out of {path} ({how})"));
    summary.row("n", report.n, "data points, each predicted by the others");
    let meaning = format!("± {} nats: log likelihood of the points; greater is better", short(report.se));
    summary.row("elpd_loo", short(report.elpd_loo), meaning);
    summary.row("p_loo", short(report.p_loo), "effective number of parameters");
    let meaning = match scored.loo.estimator {
        Estimator::Psis { .. } => "the largest Pareto k̂; above 0.7 a point's score is unreliable",
        Estimator::ClosedForm => "the largest leverage: the Pareto k̂ of infinitely many draws under Gaussian noise",
    };
    summary.row("k_max", short(report.k_max), meaning);
    summary.row("n_k_above_0_7", report.n_k_above_0_7, "points whose score is unreliable");
    if let Some(coverage) = report.pit_coverage_90 {
        summary.row("pit_coverage_90", short(coverage), "share of left-out targets inside their 90 % interval");
    }
    for method in &report.methods {
        if method.method != "map" && !method.elpd_gain.is_nan() {
            let name = if method.method == "glm" { "glm − map" } else { "riemannian − map" };
            let meaning = format!("± {} nats: gain over the network alone", short(method.elpd_gain_se));
            summary.row(name, short(method.elpd_gain), meaning);
        }
    }
    summary.row("best", report.best, "of the methods above, by elpd_loo");
    if let Some(comparison) = &report.comparison {
        let meaning = format!(
            "± {} nats: elpd_loo less the {} of {}",
            short(comparison.se_difference),
            short(comparison.elpd_loo),
            comparison.posterior
        );
        summary.row("difference", short(comparison.elpd_difference), meaning);
    }
    summary
}

/// The columns of `--out`; with several targets one `pit` each.
fn pointwise(loo: &LeaveOneOut) -> Columns<'_> {
    let mut columns = Columns::default();
    columns.add("log_density".to_string(), (&loo.pointwise[..]).into());
    columns.add("log_density_with_all_data".to_string(), (&loo.with_all_data[..]).into());
    columns.add("k".to_string(), (&loo.k[..]).into());
    if let Some(ranks) = &loo.ranks {
        let several = ranks.ncols() > 1;
        for (target, column) in ranks.axis_iter(Axis(1)).enumerate() {
            columns.add(if several { format!("pit_{}", target + 1) } else { "pit".to_string() }, column);
        }
    }
    columns
}
