//! `rla predict`: means, variances and probabilities at new inputs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ndarray::{Array2, Axis};
use riemannian_laplace::Family;
use riemannian_laplace::Prediction;
use riemannian_laplace::Schema;
use riemannian_laplace::internals::predict::{LatentGaussian, SamplingReport};
use riemannian_laplace::{Error, Laplace, Method};

use super::arguments;
use super::certificate::CertificateArgs;
use super::console::{Console, Progress};
use super::data::{InputRows, LeaveOutArgs};
use super::failure::Failure;
use super::method::MethodArgs;
use super::output::{Columns, OutputFile, counted, print_with};
use super::posterior::PosteriorArgs;

/// Predict at new inputs, with uncertainty
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct PredictArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The inputs: CSV with a header; columns are matched by name with those of the training data
    #[arg(long, value_name = "CSV")]
    inputs: PathBuf,
    /// Columns of the file that are not inputs (separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    target: Vec<String>,
    #[command(flatten)]
    leave_out: LeaveOutArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// The probability that an observation lies between `lower` and `upper`
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = arguments::share, allow_negative_numbers = true)]
    interval: f64,
    /// Where to write the predictions (CSV, one row per input row) [default: standard output]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Columns (with _1, _2, … for several outputs):
  gaussian, heteroscedastic
                mean, epistemic_variance, aleatoric_variance, total_variance, lower, upper
  categorical   p0, p1, … (or the class names); and entropy, mutual_information where samples are drawn
  bernoulli     p1
  poisson       mean, total_variance, lower, upper
  --link none   f_mean_1, …, and the covariance f_cov_1_1, f_cov_1_2, …

Example:
  rla predict --posterior posterior.safetensors --inputs new.csv --out predictions.csv

Example, averaging 1000 sampled networks, on a file that also holds the target:
  rla predict --posterior posterior.safetensors --inputs test.csv --target y \\
      --method nn --samples 1000 --seed 7 --out predictions.csv";

/// The rows that are predicted at a time. The numbers of sampled methods do not depend on it.
const ROWS_AT_ONCE: usize = 4096;

/// Runs the command.
pub fn run(args: &PredictArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_single()?;
    let out = match args.out.as_deref() {
        Some(path) if path != Path::new("-") => {
            let mut inputs: Vec<&Path> = vec![&args.posterior.posterior, &args.inputs];
            inputs.extend(args.method.samples_file());
            Some(OutputFile::at(path, &inputs)?)
        }
        _ => None,
    };
    let laplace = args.posterior.load(console)?;
    let rows = args.leave_out.rows_for_posterior(&args.inputs, &args.target, &laplace, console)?;
    let method = args.method.prepare(&laplace, console)?;
    let outcome = {
        let job = Job { args, laplace: &laplace, method: &method, progress: console.bar("predicting", rows.n_rows()) };
        match &out {
            Some(file) => file.write(|out| job.write(&rows, out))?,
            None => print_with(|out| job.write(&rows, out))?,
        }
    };
    if outcome.not_finite > 0 {
        let count = outcome.not_finite;
        console.warn(format!("{count} predicted numbers are NaN or infinite: the outputs left the range of f64"));
    }
    if let Some(file) = &out {
        console.note(format!("{} written to {}", counted(rows.n_rows(), "prediction"), file.path().display()));
    }
    outcome.samples.map_or(Ok(()), |report| args.certificate.check(report))
}

/// Predictions that are made and written some rows at a time.
struct Job<'a> {
    args: &'a PredictArgs,
    laplace: &'a Laplace,
    method: &'a Method,
    progress: Progress,
}

/// What is said of all predictions.
#[derive(Default)]
struct Written {
    not_finite: usize,
    samples: Option<SamplingReport>,
}

impl Job<'_> {
    fn write(&self, rows: &InputRows, out: &mut dyn Write) -> Result<Written, Failure> {
        let mut written = Written::default();
        let broken = |source| Failure::from(Error::Write { path: PathBuf::from("the predictions"), source });
        for (index, inputs) in rows.parts(ROWS_AT_ONCE)?.enumerate() {
            let inputs = inputs?;
            let prediction = self.laplace.predict(&inputs, self.method)?;
            let (latent, covariances, interval);
            let columns = if self.args.method.wants_latent() {
                latent = prediction
                    .latent()?
                    .ok_or_else(|| Failure::Usage("--link none belongs to --method glm".to_string()))?;
                covariances = flat_covariances(&latent);
                latent_columns(&latent, &covariances)
            } else {
                interval = match prediction.class_probabilities() {
                    Some(_) => None,
                    None => Some(prediction.interval(self.args.interval)?),
                };
                prediction_columns(&prediction, interval.as_ref(), self.laplace.schema())
            };
            if index == 0 {
                columns.write_header(out).map_err(broken)?;
            }
            columns.write_rows(out).map_err(broken)?;
            written.not_finite += columns.count_not_finite();
            written.samples = prediction.samples;
            self.progress.advance_by(inputs.nrows());
        }
        Ok(written)
    }
}

/// Adds one column per output, with a suffix when there are several.
fn add_outputs<'a>(columns: &mut Columns<'a>, name: &str, values: &'a Array2<f64>) {
    let several = values.ncols() > 1;
    for (output, column) in values.columns().into_iter().enumerate() {
        let name = if several { format!("{name}_{}", output + 1) } else { name.to_string() };
        columns.add(name, column);
    }
}

fn prediction_columns<'a>(
    prediction: &'a Prediction,
    interval: Option<&'a (Array2<f64>, Array2<f64>)>,
    schema: &Schema,
) -> Columns<'a> {
    let mut columns = Columns::default();
    match prediction.family() {
        Family::Gaussian(_) | Family::Heteroscedastic(_) => {
            add_outputs(&mut columns, "mean", &prediction.mean);
            add_outputs(&mut columns, "epistemic_variance", &prediction.epistemic_variance);
            add_outputs(&mut columns, "aleatoric_variance", &prediction.aleatoric_variance);
            add_outputs(&mut columns, "total_variance", &prediction.total_variance);
        }
        Family::Categorical(_) => {
            for (class, column) in prediction.mean.columns().into_iter().enumerate() {
                let name = schema.classes().and_then(|classes| classes.get(class));
                columns.add(name.cloned().unwrap_or_else(|| format!("p{class}")), column);
            }
            if let (Some(entropy), Some(information)) = (&prediction.entropy, &prediction.mutual_information) {
                columns.add("entropy".to_string(), entropy.view());
                columns.add("mutual_information".to_string(), information.view());
            }
        }
        Family::Bernoulli(_) => add_outputs(&mut columns, "p1", &prediction.mean),
        Family::Poisson(_) => {
            add_outputs(&mut columns, "mean", &prediction.mean);
            add_outputs(&mut columns, "total_variance", &prediction.total_variance);
        }
    }
    if let Some((lower, upper)) = interval {
        add_outputs(&mut columns, "lower", lower);
        add_outputs(&mut columns, "upper", upper);
    }
    columns
}

/// The covariances, one row per point.
fn flat_covariances(latent: &LatentGaussian) -> Array2<f64> {
    let (points, p, _) = latent.covariance.dim();
    let mut flat = Array2::zeros((points, p * p));
    flat.iter_mut().zip(&latent.covariance).for_each(|(entry, covariance)| *entry = *covariance);
    flat
}

fn latent_columns<'a>(latent: &'a LatentGaussian, covariances: &'a Array2<f64>) -> Columns<'a> {
    let mut columns = Columns::default();
    let outputs = latent.mean.ncols();
    for (output, column) in latent.mean.columns().into_iter().enumerate() {
        columns.add(format!("f_mean_{}", output + 1), column);
    }
    for (index, column) in covariances.axis_iter(Axis(1)).enumerate() {
        columns.add(format!("f_cov_{}_{}", index / outputs + 1, index % outputs + 1), column);
    }
    columns
}
