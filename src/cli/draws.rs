//! The samples behind a prediction or a score: drawn along geodesics, or read from a file.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::internals::geodesic::{MetricOptions, read_samples};
use riemannian_laplace::{Laplace, MetricName, SamplerOptions, Samples};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::geodesic;
use super::output::counted;
use super::sampling::{LimitArgs, Sampling};
use super::smoothing::SampleSmoothingArgs;

/// Enough for a predictive mean and its interval: the standard error of a mean is a tenth of the spread over samples.
pub const SAMPLES: usize = 100;

/// Draws of the outputs alone, which cost next to nothing.
const OUTPUT_DRAWS: usize = 1000;

/// Which samples.
#[derive(Debug, Args)]
pub struct DrawArgs {
    /// The metric of --method riemannian [default: fisher]
    #[arg(long, value_name = "METRIC", value_parser = geodesic::metric())]
    metric: Option<MetricName>,
    /// The number of draws, where any are drawn [default: 100; of outputs alone 1000]
    #[arg(long, value_name = "S", value_parser = arguments::samples)]
    samples: Option<usize>,
    /// The seed of the draws; the same seed gives the same numbers on any number of threads
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The samples of --method riemannian, as `rla sample` wrote them, instead of drawing any
    #[arg(long, value_name = "FILE", conflicts_with_all = ["samples", "metric", "seed"])]
    samples_file: Option<PathBuf>,
    #[command(flatten)]
    smoothing: SampleSmoothingArgs,
}

impl DrawArgs {
    /// Checks that options of geodesics are given for geodesics alone; `method` is what was asked for instead.
    pub fn check(&self, follows_geodesics: bool, method: &str) -> Result<(), Failure> {
        let refuse = |option: &str, belongs: &str| {
            let message = format!("{option} belongs to {belongs}; leave it out with --method {method}");
            Err(Failure::Usage(message))
        };
        if self.metric.is_some() && !follows_geodesics {
            return refuse("--metric", "--method riemannian");
        }
        if self.smoothing.is_given() && (!follows_geodesics || self.samples_file.is_some()) {
            let message = "--smoothing belongs to the sampling of --method riemannian; leave it out otherwise";
            return Err(Failure::Usage(message.to_string()));
        }
        if self.samples_file.is_some() && !follows_geodesics {
            return refuse("--samples-file", "--method riemannian");
        }
        Ok(())
    }

    /// The file of samples, if any.
    pub fn file(&self) -> Option<&Path> {
        self.samples_file.as_deref()
    }

    /// The number of draws.
    pub fn count(&self) -> usize {
        self.samples.unwrap_or(SAMPLES)
    }

    /// The number of draws of the outputs alone.
    pub fn output_count(&self) -> usize {
        self.samples.unwrap_or(OUTPUT_DRAWS)
    }

    /// Whether a number of draws was given.
    pub fn count_is_given(&self) -> bool {
        self.samples.is_some()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The samples in words.
    pub fn describe(&self) -> String {
        match &self.samples_file {
            Some(path) => format!("samples of {}", path.display()),
            None => format!("{} metric, {} samples", self.metric(), self.count()),
        }
    }

    fn metric(&self) -> MetricName {
        self.metric.unwrap_or(MetricName::Fisher)
    }

    /// Draws the samples or reads them, and reports those that failed.
    pub fn draw_or_read(&self, laplace: &Laplace, console: &Console) -> Result<Samples, Failure> {
        let samples = match &self.samples_file {
            Some(path) => read_fitting(path, laplace, console)?,
            None => {
                self.smoothing.announce(laplace, self.metric(), console);
                let (team, limits) = (console.team(), LimitArgs::default());
                let range = team.share_of(0..self.count());
                let progress = Sampling::begin(console, range.len(), &limits);
                let how = MetricOptions { smoothing: self.smoothing.smoothing(), ..Default::default() };
                let options = SamplerOptions { range, seed: self.seed, ..Default::default() };
                let mine = match options.range.is_empty() {
                    true => None,
                    false => Some(laplace.sample_riemannian_with(self.metric(), &how, &options, &progress)?),
                };
                match mine {
                    Some(all) if team.size() == 1 => all,
                    mine => Samples::share(team, mine.as_ref())?,
                }
            }
        };
        geodesic::report_failures(&samples, console);
        Ok(samples)
    }
}

/// Reads samples and checks that they are of this posterior.
fn read_fitting(path: &Path, laplace: &Laplace, console: &Console) -> Result<Samples, Failure> {
    let samples = read_samples(path)?;
    let (expected, found) = (laplace.parameters().len(), samples.theta.ncols());
    if expected != found {
        let network = counted(expected, "parameter");
        let message = format!("{}: the network has {network}, the samples {found}", path.display());
        return Err(Failure::Usage(message));
    }
    let other = |what: &str| {
        let advice = "`rla sample` draws samples of this one";
        Err(Failure::Usage(format!("{}: the samples are of {what}; {advice}", path.display())))
    };
    if samples.indices.as_deref() != laplace.model().subset().map(|place| place.indices) {
        return other("other weights of the network");
    }
    match (samples.posterior.as_deref(), laplace.stored_fingerprint()) {
        (Some(one), Some(this)) if one != this => return other("another posterior"),
        (None, Some(_)) => {
            console.warn(format!("{} does not say of which posterior its samples are", path.display()));
        }
        _ => {}
    }
    Ok(samples)
}
