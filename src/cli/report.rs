//! `rla report`: one page of HTML on a posterior and its predictions.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::internals::report::{Mood, Names, Report, ReportOptions};
use riemannian_laplace::internals::tensors::write_whole;
use riemannian_laplace::{Draws, Laplace, Link, Method};

use super::arguments;
use super::certificate::CertificateArgs;
use super::console::Console;
use super::data::OptionalDataArgs;
use super::draws::DrawArgs;
use super::failure::Failure;
use super::output::{OutputFile, print};
use super::posterior::PosteriorArgs;

/// Write a page on a posterior: can it be trusted, how good is it, what does it predict
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ReportArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    #[command(flatten)]
    data: OptionalDataArgs,
    /// The predictions to compare, separated by commas [default: all; without riemannian where the posterior has no
    /// training data]
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    method: Vec<MethodName>,
    #[command(flatten)]
    draws: DrawArgs,
    /// The probability that intervals should have
    #[arg(long, value_name = "P", default_value_t = 0.9, value_parser = arguments::share)]
    interval: f64,
    /// Score at most this many rows, evenly spaced
    #[arg(long, value_name = "N", default_value = "5000", value_parser = arguments::count)]
    max_rows: usize,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Where to write the page (HTML)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The ways to predict by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// The trained network alone, without uncertainty about its weights
    Map,
    /// The network linearised around its trained weights
    Glm,
    /// The network itself, averaged over draws of the weights
    Nn,
    /// The network itself, averaged over weights drawn along geodesics
    Riemannian,
}

const EXAMPLE: &str = "\
The page needs no network and no other file, follows the light or dark setting of the browser, and prints. It begins with \
a verdict in words; then come the scores of all predictions side by side, predictions beside observations, calibration, \
pictures of the predictions, the certificates of the geodesics, and what was fitted.

Without --data the training data inside the posterior are scored, and the page says so: such scores are too good.

Geodesics take most of the time. `rla sample` draws them once, and --samples-file uses them again; --method map,glm does \
without them.

Example:
  rla report --posterior posterior.safetensors --data test.csv --target y --out report.html";

/// Runs the command.
pub fn run(args: &ReportArgs, console: &Console) -> Result<(), Failure> {
    args.check()?;
    let mut inputs = vec![args.posterior.posterior.as_path()];
    inputs.extend(args.data.path());
    inputs.extend(args.draws.file());
    let out = OutputFile::at(&args.out, &inputs)?;
    let laplace = args.posterior.load(console)?;
    let data = args.data.read_for_posterior(&laplace, console)?;
    if let Some(data) = &data {
        data.check_against(&**laplace.model(), laplace.family().likelihood())?;
    } else {
        console.note("no --data: the training data inside the posterior are scored, and the page says so");
    }
    let methods = args.methods(&laplace, console)?;
    let samples = methods.iter().find_map(|method| match method {
        Method::Samples(samples) => Some(SamplingReport::of(samples)),
        _ => None,
    });
    let name = |path: &std::path::Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let names =
        Names { posterior: name(&args.posterior.posterior), data: args.data.path().map(name).unwrap_or_default() };
    let options = ReportOptions { methods, level: args.interval, max_rows: args.max_rows, ..Default::default() };
    let progress = console.spinner("writing the report");
    let report = Report::of(&laplace, &names, data.as_ref().map(|data| &data.dataset), &options, &progress)
        .map_err(Failure::about(&args.posterior.posterior))?;
    write_whole(out.path(), report.to_html().as_bytes())?;
    drop(progress);
    if !console.is_quiet() {
        print(&in_words(&report, &args.out))?;
    }
    samples.map_or(Ok(()), |report| args.certificate.check(report))
}

impl ReportArgs {
    /// Checks that the options fit together, before any file is read.
    fn check(&self) -> Result<(), Failure> {
        let names: Vec<String> = self
            .method
            .iter()
            .filter_map(ValueEnum::to_possible_value)
            .map(|value| value.get_name().to_string())
            .collect();
        self.draws.check(names.is_empty() || self.method.contains(&MethodName::Riemannian), &names.join(","))
    }

    /// The methods, with samples drawn or read.
    fn methods(&self, laplace: &Laplace, console: &Console) -> Result<Vec<Method>, Failure> {
        let mut names = self.method.clone();
        if names.is_empty() {
            names = MethodName::value_variants().to_vec();
            if laplace.data().is_none() && self.draws.file().is_none() {
                console
                    .note("the posterior has no training data, which geodesics need: the report is without riemannian");
                names.retain(|name| *name != MethodName::Riemannian);
            }
        }
        let mut methods = Vec::new();
        // In the order of their list, each once.
        for name in MethodName::value_variants().iter().filter(|name| names.contains(name)) {
            methods.push(match name {
                MethodName::Map => Method::Map,
                MethodName::Glm => Method::Glm(Link::default()),
                MethodName::Nn => Method::Nn(Draws::first(self.draws.count(), self.draws.seed())),
                MethodName::Riemannian => Method::Samples(Arc::new(self.draws.draw_or_read(laplace, console)?)),
            });
        }
        Ok(methods)
    }
}

/// The verdict, for the terminal.
fn in_words(report: &Report, out: &std::path::Path) -> String {
    let mut text = format!("{} written\n{}\n", out.display(), report.headline().1);
    for finding in report.findings().iter().filter(|finding| finding.mood != Mood::Good) {
        text += &format!("  {}: {}\n", finding.mood.word(), finding.words);
    }
    text
}
