//! `rla calibrate`: intervals and sets with a guarantee, from rows that were held out.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::internals::conformal::Conditions;
use riemannian_laplace::internals::evaluate::{Coverage, CoverageOptions, coverage_over};
use riemannian_laplace::internals::predict::CalibrationOptions;
use riemannian_laplace::{Contents, Dataset, Laplace, Method};
use serde::Serialize;

use super::arguments;
use super::certificate::CertificateArgs;
use super::committee::Members;
use super::conditions;
use super::console::Console;
use super::coverage_text;
use super::data::DataArgs;
use super::failure::Failure;
use super::method::{MethodArgs, name_of, sampling_report};
use super::output::{OutputFile, counted, print, print_json};
use super::posterior::PosteriorArgs;

/// Calibrate intervals or sets on rows that were held out, with a guarantee
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct CalibrateArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    #[command(flatten)]
    options: LevelArgs,
    /// Where to write the calibrated posterior (of a committee: the folder)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

/// What is promised, and for whom.
#[derive(Debug, Args)]
pub struct LevelArgs {
    /// The probability with which an observation is to be inside
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = arguments::share, allow_negative_numbers = true)]
    level: f64,
    /// A column whose values are groups: coverage holds in each of them. It need not be an input; `predict` and `evaluate`
    /// then need it, too
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// A column of weights: how much likelier a row is where predictions are made than among these rows, up to a factor
    /// (a stated covariate shift). `predict` and `evaluate` then need it, too
    #[arg(long, value_name = "COLUMN")]
    weights_column: Option<String>,
}

const EXAMPLE: &str = "\
Split conformal: the scores of n rows that the network has not seen say how wide an interval must be, so that a new row of the \
same kind is inside with probability at least --level, whatever the network and the posterior are worth. Scores are \
|y − mean| / standard deviation (gaussian, heteroscedastic), |u − ½| with the predictive distribution function u (counts), and \
for classes 1 − p_y (lac, the smallest sets) and the probability of all classes that are likelier (aps, sets that grow where the \
network is unsure); `rla predict --sets` chooses. The guarantee holds on average over rows, or in each group of --by, for the \
method and settings that were calibrated. Refused: fewer than 1/(1 − level) − 1 rows (in a group), rows that the posterior was \
fitted to, other columns.

Example:
  rla calibrate --posterior posterior.safetensors --data held_out.csv --target y --out calibrated.safetensors
  rla predict --posterior calibrated.safetensors --inputs new.csv --out predictions.csv

Example, every method at once, coverage in each region, and how it holds on a test set:
  rla calibrate --posterior posterior.safetensors --data held_out.csv --method all --by region \\
      --out calibrated.safetensors
  rla evaluate --posterior calibrated.safetensors --data test.csv --method all";

#[derive(Debug, Serialize)]
struct Report {
    n: usize,
    level: f64,
    groups: usize,
    methods: Vec<Calibrated>,
}

#[derive(Debug, Serialize)]
struct Calibrated {
    method: String,
    /// On the calibration rows themselves.
    intervals: Vec<Coverage>,
}

/// Runs the command.
pub fn run(args: &CalibrateArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_scorable()?;
    let mut members = Members::load(&args.posterior, console)?;
    members.check(&args.method)?;
    let out = match members.count() {
        1 => Some(OutputFile::at(&args.out, &[&args.posterior.posterior, &args.data.data])?),
        _ => {
            members.check_folder(&args.posterior.posterior, &args.out)?;
            None
        }
    };
    let mut methods = Vec::new();
    for method in args.method.methods() {
        methods.push(members.method(&args.method, method, console)?);
    }
    let (dataset, at) = args.options.read(&args.data, &members.laplace, console)?;
    {
        let progress = console.bar("calibrating", dataset.len() * methods.len());
        let options = args.options.options(&at);
        let common = members.laplace.calibrate(&dataset, &methods, options, &progress);
        tell_overlap(&members.laplace, common.map_err(Failure::about(&args.data.data))?, console);
    }
    let laplace = &members.laplace;
    let options = CoverageOptions { level: Some(args.options.level), at: at.clone(), ..Default::default() };
    let coverage = coverage_over(laplace, &dataset, &methods, &options, &())?.unwrap_or_default();
    match &out {
        Some(out) => laplace.save(out.path(), contents(laplace))?,
        None => members.write_calibrated(&args.posterior.posterior, &args.out)?,
    }
    let names: Vec<String> = args.method.methods().into_iter().map(name_of).collect();
    let groups = laplace.calibration().and_then(|known| known.groups.as_ref()).map_or(0, |groups| groups.names.len());
    if args.json {
        let methods = names.into_iter().zip(coverage).map(|(method, intervals)| Calibrated { method, intervals });
        print_json(&Report { n: dataset.len(), level: args.options.level, groups, methods: methods.collect() })?;
    } else if !console.is_quiet() {
        let rows = counted(dataset.len(), "row");
        let title =
            format!("calibrated on {rows} of {}, written to {}\n", args.data.data.display(), args.out.display());
        let text: String = names
            .iter()
            .zip(&coverage)
            .map(|(name, coverage)| coverage_text::lines(name, coverage, laplace.family()))
            .collect();
        let note = "  These are the calibration rows themselves: after calibration their coverage is the level by construction.\n";
        print(&(title + &text + note))?;
    }
    methods.iter().filter_map(sampling_report).try_for_each(|report| args.certificate.check(report))
}

/// What the posterior's file holds, and goes on holding.
pub fn contents(laplace: &Laplace) -> Contents {
    if laplace.data().is_some() { Contents::TrainingData } else { Contents::Curvature }
}

/// Says how many rows are training rows, or that they could not be compared with these.
fn tell_overlap(laplace: &Laplace, common: usize, console: &Console) {
    if common > 0 {
        console.warn(format!(
            "{} the posterior was fitted to, too: fine where rows repeat by nature, as those of the training data do; else \
             intervals are too narrow",
            if common == 1 { "1 calibration row is a row".to_string() } else { format!("{common} calibration rows are rows") }
        ));
    }
    if laplace.data().is_none() {
        console.note(
            "the posterior does not hold its training data: it could not be checked that the calibration rows are not among them",
        );
    }
}

impl LevelArgs {
    /// Reads the calibration rows, in the units of the file, with the group and the weight of each.
    pub fn read(
        &self,
        data: &DataArgs,
        laplace: &Laplace,
        console: &Console,
    ) -> Result<(Dataset, Conditions), Failure> {
        let wanted = conditions::Columns { groups: self.by.clone(), weights: self.weights_column.clone() };
        wanted.read_with_data(data, laplace, console)
    }

    /// The options of the library.
    pub fn options(&self, at: &Conditions) -> CalibrationOptions {
        CalibrationOptions {
            level: self.level,
            groups: self.by.clone().zip(at.groups.clone()),
            weights: self.weights_column.clone().zip(at.weights.clone()),
        }
    }
}

/// `rla fit --calibrate-on`.
#[derive(Debug, Args)]
pub struct CalibrateOnArgs {
    /// Rows that were held out, with the same columns as --data: 90 % intervals or sets of --method map and glm then hold with
    /// a guarantee (`rla calibrate` does the same later, for other methods and levels)
    #[arg(long, value_name = "CSV", conflicts_with = "shard")]
    calibrate_on: Option<PathBuf>,
}

impl CalibrateOnArgs {
    /// The file, if the option was given.
    pub fn path(&self) -> Option<&Path> {
        self.calibrate_on.as_deref()
    }

    /// Calibrates.
    pub fn calibrate(&self, data: &DataArgs, laplace: &mut Laplace, console: &Console) -> Result<(), Failure> {
        let Some(path) = self.path() else { return Ok(()) };
        let held_out = data.read_other(path, laplace, console)?;
        held_out.check_against(&**laplace.model(), laplace.family())?;
        let methods = [Method::Map, Method::default()];
        let progress = console.bar("calibrating", held_out.dataset.len() * methods.len());
        let common = laplace.calibrate(&held_out.dataset, &methods, CalibrationOptions::default(), &progress);
        tell_overlap(laplace, common.map_err(Failure::about(path))?, console);
        Ok(())
    }
}
