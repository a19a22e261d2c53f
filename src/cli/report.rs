//! `rla report`: one page of HTML on a posterior and its predictions.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::conformal::Conditions;
use riemannian_laplace::internals::files::write_whole;
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::internals::report::{Made, Mood, Names, Report, ReportOptions};
use riemannian_laplace::{Draws, Laplace, Link, Method};

use super::announce::{announce_leave_one_out, announce_predicting};
use super::arguments;
use super::certificate::CertificateArgs;
use super::conditions;
use super::console::Console;
use super::data::OptionalDataArgs;
use super::draws::DrawArgs;
use super::failure::Failure;
use super::output::{OutputFile, print, print_json};
use super::posterior::PosteriorArgs;
use super::report_json::ReportJson;
use super::suggest::inputs as pool_inputs;

/// Write a page on a posterior: can it be trusted, how good is it, what does it predict
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ReportArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    #[command(flatten)]
    data: OptionalDataArgs,
    /// Rows that could be measured, to show where in input space they are least known: CSV with the input columns
    #[arg(long, value_name = "CSV")]
    pool: Option<PathBuf>,
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
    /// The title of the page [default: the posterior's file name]
    #[arg(long, value_name = "WORDS")]
    title: Option<String>,
    /// Where to write the page (HTML)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print every verdict and the numbers behind it as one JSON object
    #[arg(long)]
    json: bool,
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
a verdict in words: on overfitting (training, held-out, linear and constant in one row), on intervals of all levels and by fifths of \
the prediction and of the inputs that matter, with the cure, and on what leave-one-out promised beside held-out rows; then come the scores of all predictions side by side, predictions beside observations, calibration, \
whether intervals hold before and after `rla calibrate` (by thirds of the spread, and by the groups of --by), training rows that \
look wrong, pictures of the predictions, where --pool is least known, the certificates of the geodesics, and what was fitted.

Without --data the training data inside the posterior are scored, and the page says so: such scores are too good.

Geodesics take most of the time. `rla sample` draws them once, and --samples-file uses them again; --method map,glm does \
without them.

The page has the day on it: with SOURCE_DATE_EPOCH set it is the same on any day.

Keys of --json: title, posterior, version, date, command, seed, mood (good, note, care, problem), headline, findings (mood, about, \
words), scored_on, n, shown, scores (by method), overfitted, explained and explained_linear (training, held_out), promise, \
hold (as `rla evaluate` has it), suspicious (row, self_influence, given, expected), pool, coverage_by_fifths, r_squared, auroc, recall, constant_nll, rows.

Example:
  rla report --posterior posterior.safetensors --data test.csv --target y --out report.html";

/// Runs the command.
pub fn run(args: &ReportArgs, console: &Console) -> Result<(), Failure> {
    args.check()?;
    let mut inputs = vec![args.posterior.posterior.as_path()];
    inputs.extend(args.data.path());
    inputs.extend(args.pool.as_deref());
    inputs.extend(args.draws.file());
    let out = OutputFile::at(&args.out, &inputs)?;
    let laplace = args.posterior.load(console)?;
    let columns = conditions::Columns::of(&laplace);
    let data = args.data.given().map(|data| columns.read_with_data(&data, &laplace, console)).transpose()?;
    let pool = match &args.pool {
        Some(path) => {
            let everything = args.data.leave_out().with_all_columns();
            Some(pool_inputs(&everything.rows_for_posterior(path, &[], &columns.names(), &laplace, console)?)?)
        }
        None => None,
    };
    if data.is_none() {
        console.note("no --data: the training data inside the posterior are scored, and the page says so");
    }
    let rows = data.as_ref().map_or(laplace.n_data(), |(dataset, _)| dataset.len()).min(args.max_rows);
    announce_predicting(console, &laplace, rows);
    announce_leave_one_out(console, &laplace);
    let methods = args.methods(&laplace, console)?;
    let samples = methods.iter().find_map(|method| match method {
        Method::Samples(samples) => Some(SamplingReport::of(samples)),
        _ => None,
    });
    let name = |path: &std::path::Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let names =
        Names { posterior: name(&args.posterior.posterior), data: args.data.path().map(name).unwrap_or_default() };
    let made =
        Made { title: args.title.clone(), date: today(), command: Some(command()), seed: Some(args.draws.seed()) };
    let (held_out, conditions) = data.map_or((None, Conditions::default()), |(dataset, at)| (Some(dataset), at));
    let max_rows = args.max_rows;
    let options =
        ReportOptions { methods, level: args.interval, max_rows, conditions, pool, made, ..Default::default() };
    let progress = console.spinner("writing the report");
    let report = Report::of(&laplace, &names, held_out.as_ref(), &options, &progress)
        .map_err(Failure::about(&args.posterior.posterior))?;
    write_whole(out.path(), report.to_html().as_bytes())?;
    drop(progress);
    if args.json {
        print_json(&ReportJson::of(&report, held_out.is_some()))?;
    } else if !console.is_quiet() {
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

/// The command as it was given, without what changes nothing on the page: where it goes, and how fast.
fn command() -> String {
    const WITH_VALUE: [&str; 3] = ["--out", "--threads", "--max-memory"];
    const ALONE: [&str; 2] = ["--quiet", "--json"];
    let quoted = |word: String| if word.contains([' ', '\t', '"']) { format!("'{word}'") } else { word };
    let (mut words, mut skip) = (vec!["rla".to_string()], false);
    for word in std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()) {
        let is = |name: &&str| word == **name || word.starts_with(&format!("{name}="));
        if skip {
            skip = false;
        } else if WITH_VALUE.iter().any(&is) {
            skip = !word.contains('=');
        } else if !ALONE.iter().any(is) {
            words.push(quoted(word));
        }
    }
    words.join(" ")
}

/// The day (UTC), or that of SOURCE_DATE_EPOCH, for pages that must be the same on any day.
fn today() -> Option<String> {
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = match stated {
        Some(seconds) => seconds,
        None => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs(),
    };
    Some(date(seconds / 86_400))
}

/// The Gregorian date of a day since 1970-01-01, in eras of 400 years that begin in March.
fn date(day: u64) -> String {
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + u64::from(month <= 2))
}

/// The verdict, for the terminal.
fn in_words(report: &Report, out: &std::path::Path) -> String {
    let mut text = format!("{} written\n{}\n", out.display(), report.headline().1);
    for finding in report.findings().iter().filter(|finding| finding.mood != Mood::Good) {
        text += &format!("  {}: {}\n", finding.mood.word(), finding.words);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_have_their_dates() {
        for (day, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_454, "2026-01-01")] {
            assert_eq!(super::date(day), date);
        }
    }
}
