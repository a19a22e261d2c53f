//! `rla sample`: weights from the Riemannian posterior, each with its certificate.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use riemannian_laplace::internals::geodesic::{MetricOptions, Run, Watch, write_samples};
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::internals::team::Shard;
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Error, GeodesicOptions, MetricName, SamplerOptions, Samples};
use serde::Serialize;

use super::arguments;
use super::certificate::CertificateArgs;
use super::console::Console;
use super::draws::SAMPLES;
use super::failure::Failure;
use super::geodesic::{self, CertificateReport, IntegratorArgs, MetricArgs, MetricReport};
use super::output::{OutputFile, Summary, counted, print, print_json, short};
use super::partial::{PartialArgs, partial_path};
use super::posterior::PosteriorArgs;
use super::sampling::{LimitArgs, Sampling};
use super::smoothing::{SampleSmoothingArgs, SmoothingReport};
use super::weights::{WeightArgs, WeightReport};

/// Draw weights from the Riemannian posterior
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct SampleArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The Riemannian metric
    #[arg(long, value_name = "METRIC", default_value_t = MetricName::Fisher, value_parser = geodesic::metric())]
    metric: MetricName,
    /// The number of samples
    #[arg(long, value_name = "S", default_value_t = SAMPLES, value_parser = arguments::samples)]
    samples: usize,
    /// The samples A, …, B − 1 of the seed, to be joined with others
    #[arg(long, value_name = "A..B", value_parser = arguments::range, conflicts_with = "samples")]
    range: Option<Range<usize>>,
    /// The I-th of N parts of the samples, to be joined with the others by `rla merge`
    #[arg(long, value_name = "I/N", conflicts_with = "range")]
    shard: Option<Shard>,
    /// The seed: sample i of a seed is the same in any range, on any number of threads
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    how: MetricArgs,
    #[command(flatten)]
    smoothing: SampleSmoothingArgs,
    #[command(flatten)]
    integrator: IntegratorArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    partial: PartialArgs,
    #[command(flatten)]
    weights: WeightArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Where to write the samples (safetensors)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print what was done as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Tensors written: theta [S,D], velocity [S,D] (at the end), nfev [S] (evaluations), drift [S] (relative change of vᵀGv), \
path_drift [S] (its largest on the way), off_graph [S] (distance from the graph of the whitened outputs, for all \
likelihoods but heteroscedastic), residual [S] (of an iterative solver), end_error [S] (error of the end: the largest at a data point in noise levels, inf where \
not estimated), status [S] (0 reached, 1 step or other limit, 2 not finite, 3 no logarithm), certificate [S] (2 path, 1 law, 0 \
neither), certified [S] (1: path or law), attempts [S], nfev_check [S] (evaluations for the error of the end alone). Metadata: \
metric, seed, range, smoothing, solver. A sample that failed is reported and counted, never dropped or replaced.

A certificate needs a drift within the target, on the way within five times it, a solver's residual within it, and an \
off_graph of at most 0.1. It certifies the *path* where the end differs by at most 0.1 noise levels at the data from that of an \
integration at another tolerance: the end is that of this velocity's geodesic. It certifies the *law* where the ends part \
however tight the tolerance is, and (unless --end-check always) with 50,000 weights or more: the distribution is right, and a \
single end is not reproducible. The comparison takes about two thirds of the evaluations again.

By default each geodesic is refined until it is certified; --rtol or --atol fix the tolerances instead.

Accelerations of the fisher metric are solved for by a factored matrix or, where that takes many times the work (counted, \
never timed), by conjugate gradients; the report says by which, and the largest residual. With so many weights and data \
points that no matrix fits, --metric-solver matrix-free gives the same geodesics without any; --metric-batch makes the metric of a \
part of the data and reports how far that is from all of it.

The metric of a relu or leaky_relu network jumps at its kinks. Its samples follow the metric of the network with relu(x) \
rounded to x·Φ(x/ε), where ε is --smoothing times the spread of each unit's input over data and posterior; their \
certificates are about that metric, and predictions are by the network itself. Whether the width is small enough shows \
in the residual at the training data: a warning says when it exceeds 1.1 times that of the linearised network. \
--smoothing none follows the metric as it is, and no such sample can be certified. elu is rounded in the same way.

While a run goes on, finished samples are saved to OUT.partial. When it is interrupted (Ctrl-C, SIGTERM, --max-time), those \
that are running are dropped, the others saved, and the exit status is 130; the same command with --resume goes on.

--weights-of-samples adds log_weight [S], the logarithm of posterior over sampling density (likelihood and prior \
normalised), and conjugate [S], the conjugate points passed; --json then also has weights_k, effective_share, largest_share, \
conjugate, log_evidence and log_evidence_error, or withheld, the reason why there is none (networks, as a rule). It takes all \
Jacobi fields beside each geodesic: for up to 500 weights.

Example:
  rla sample --posterior posterior.safetensors --metric fisher --samples 100 --out samples.safetensors

Example, after an interruption:
  rla sample --posterior posterior.safetensors --metric fisher --samples 100 --out samples.safetensors --resume

Example, a logistic regression (a network without hidden layers): its evidence, and samples of its posterior itself:
  rla sample --posterior posterior.safetensors --samples 1000 --weights-of-samples \\
      --resampled exact.safetensors --out samples.safetensors";

#[derive(Debug, Serialize)]
struct Report {
    samples: usize,
    failed: usize,
    uncertified: usize,
    mean_nfev: f64,
    max_drift: f64,
    max_path_drift: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_off_graph: Option<f64>,
    seconds_per_sample: f64,
    #[serde(flatten)]
    certificates: CertificateReport,
    #[serde(flatten)]
    metric: MetricReport,
    #[serde(flatten)]
    smoothing: Option<SmoothingReport>,
    #[serde(flatten)]
    weights: Option<WeightReport>,
}

impl SampleArgs {
    /// Which samples.
    fn range(&self) -> Result<Range<usize>, Failure> {
        let range = match (&self.range, self.shard) {
            (Some(range), _) => range.clone(),
            (None, Some(shard)) => shard.of(self.samples),
            (None, None) => 0..self.samples,
        };
        match range.is_empty() {
            true => Err(Failure::Usage(format!("--shard: {} have no such part", counted(self.samples, "sample")))),
            false => Ok(range),
        }
    }

    /// Everything that the samples depend on, by name.
    fn identity(&self, posterior: Option<&String>, how: &MetricOptions, options: &SamplerOptions) -> Run {
        let Range { start, end } = options.range;
        let entries = [
            ("version", env!("CARGO_PKG_VERSION").to_string()),
            ("posterior", posterior.cloned().unwrap_or_default()),
            ("metric", self.metric.to_string()),
            ("seed", options.seed.to_string()),
            ("range", format!("{start}..{end}")),
        ];
        let mut run: Run = entries.map(|(key, value)| (key.to_string(), value)).into();
        run.extend(options.geodesic.settings());
        run.extend(how.settings());
        run
    }
}

/// Runs the command.
pub fn run(args: &SampleArgs, console: &Console) -> Result<(), Failure> {
    let out = OutputFile::at(&args.out, &[&args.posterior.posterior])?;
    let others = [&args.posterior.posterior, &args.out, &partial_path(&args.out, console.team())];
    let resampled = args.weights.check(&others.map(PathBuf::as_path))?;
    let geodesic = GeodesicOptions { limits: args.limits.of_geodesic(), ..args.integrator.certified_by_default()? };
    let team = console.team();
    // Of a team each rank draws its part of the range, and keeps its own checkpoint.
    let options = SamplerOptions { range: team.share_of(args.range()?), seed: args.seed, geodesic };
    let how = args.how.options(args.smoothing.smoothing());
    let laplace = args.posterior.load(console)?;
    args.weights.check_possible(&laplace, args.metric, &how)?;
    let posterior = TensorFile::stored_fingerprint(&args.posterior.posterior)?;
    let partial = args.partial.open(
        out.path(),
        args.identity(posterior.as_ref(), &how, &options),
        options.range.len(),
        console,
    )?;
    args.smoothing.announce(&laplace, args.metric, console);
    let start = Instant::now();
    let asked = console.signals().ask_first();
    let mine = match options.range.is_empty() {
        true => None,
        false => {
            let progress = Sampling::begin(console, options.range.len(), &args.limits);
            let watch = Watch { progress: &progress, keeper: partial.keeper() };
            let samples = match laplace.sample_riemannian_watched(args.metric, &how, &options, watch) {
                Err(Error::Cancelled) => {
                    let why = progress.stopped_by();
                    drop(progress);
                    return Err(partial.stopped(why));
                }
                samples => samples.map_err(Failure::about(&args.posterior.posterior))?,
            };
            drop(progress);
            let mut samples = Samples { posterior, ..samples };
            args.weights.attach(&laplace, args.metric, &mut samples, console)?;
            Some(samples)
        }
    };
    let gathered = if team.size() == 1 { mine } else { Samples::gather(team, mine.as_ref())? };
    let Some(samples) = gathered else {
        // The checkpoint is kept until the first rank has written all samples.
        team.wait()?;
        return Ok(partial.done(console)?);
    };
    let seconds = start.elapsed().as_secs_f64();
    let weights = args.weights.report(&laplace, &samples, console)?;
    // If this fails, nothing has replaced anything, and --resume goes on to it.
    args.weights.resample(resampled.as_ref(), &samples, console)?;
    write_samples(out.path(), &samples)?;
    team.wait()?;
    partial.done(console)?;
    drop(asked);
    geodesic::report_failures(&samples, console);
    let ends = SamplingReport::of(&samples);
    let report = Report {
        samples: samples.len(),
        failed: samples.failed(),
        uncertified: samples.uncertified(),
        mean_nfev: samples.mean_evaluations(),
        max_drift: samples.max_drift(),
        max_path_drift: samples.max_path_drift(),
        max_off_graph: samples.max_off_graph(),
        seconds_per_sample: seconds / samples.len() as f64,
        certificates: CertificateReport::new(&samples),
        metric: MetricReport::new(&samples),
        smoothing: SmoothingReport::new(&samples),
        weights,
    };
    if args.json {
        print_json(&report)?;
        return args.certificate.check(ends);
    }
    if console.is_quiet() {
        return args.certificate.check(ends);
    }
    let mut summary = Summary::new(format!("{} samples written to {}", args.metric, args.out.display()));
    summary.row("samples", report.samples, "");
    summary.row("failed", report.failed, "did not reach the end of their geodesic");
    summary.row("uncertified", report.uncertified, "reached it without a certificate");
    report.certificates.add_to(&mut summary);
    summary.row("mean nfev", short(report.mean_nfev), "evaluations of the acceleration per sample");
    summary.row("max drift", short(report.max_drift), "relative change of vᵀGv, which a geodesic conserves");
    summary.row("on the way", short(report.max_path_drift), "the largest drift at states along the path");
    if let Some(off) = report.max_off_graph {
        summary.row("off graph", short(off), "root mean square of outputs less those carried along, in noise levels");
    }
    report.metric.add_to(&mut summary);
    if let Some(report) = &report.smoothing {
        report.add_to(&mut summary);
    }
    if let Some(report) = &report.weights {
        report.add_to(&mut summary);
    }
    summary.row("time", format!("{seconds:.2} s"), format!("{} s per sample", short(report.seconds_per_sample)));
    print(&summary.to_text())?;
    args.certificate.check(ends)
}
