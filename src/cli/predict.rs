//! `rla predict`: means, variances and probabilities at new inputs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ndarray::{Array2, Axis};
use riemannian_laplace::Family;
use riemannian_laplace::Prediction;
use riemannian_laplace::Schema;
use riemannian_laplace::internals::data::{Batch, Pieces};
use riemannian_laplace::internals::predict::{LatentGaussian, SamplingReport};
use riemannian_laplace::internals::team::{Team, TeamError};
use riemannian_laplace::{Batches, Error, Laplace, Method};

use super::arguments;
use super::certificate::CertificateArgs;
use super::committee::Members;
use super::console::{Console, Progress};
use super::data::LeaveOutArgs;
use super::failure::Failure;
use super::method::{MethodArgs, sampling_report};
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
    let members = Members::load(&args.posterior, console)?;
    members.check(&args.method)?;
    let laplace = &members.laplace;
    let rows = args.leave_out.rows_for_posterior(&args.inputs, &args.target, laplace, console)?;
    let method = members.method(&args.method, args.method.single(), console)?;
    let outcome = {
        let progress = console.bar("predicting", rows.n_rows());
        let job = Job { args, laplace, method: &method, progress, team: console.team() };
        match &out {
            _ if !console.team().is_first() => return job.write(&*rows, &mut std::io::sink()).map(|_| ()),
            Some(file) => file.write(|out| job.write(&*rows, out))?,
            None => print_with(|out| job.write(&*rows, out))?,
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

/// Predictions that are made and written some rows at a time, by the ranks of a team in turn.
struct Job<'a> {
    args: &'a PredictArgs,
    laplace: &'a Laplace,
    method: &'a Method,
    progress: Progress,
    team: &'a Team,
}

/// What is said of all predictions.
#[derive(Default)]
struct Written {
    not_finite: usize,
    samples: Option<SamplingReport>,
}

impl Job<'_> {
    /// Writes all predictions at the first rank; the others send theirs to it.
    fn write(&self, rows: &dyn Batches, out: &mut dyn Write) -> Result<Written, Failure> {
        let mut written = Written { samples: sampling_report(self.method), not_finite: 0 };
        let broken = |source| Failure::from(Error::Write { path: PathBuf::from("the predictions"), source });
        let (mut pieces, places, mut taken) = (Pieces::of(rows), Pieces::of(rows), 0);
        self.team.in_turn(
            pieces.count(),
            |piece| self.predict(pieces.get(piece)?),
            |message| {
                let (not_finite, text) =
                    message.split_first_chunk::<8>().ok_or(TeamError::Message).map_err(Error::from)?;
                written.not_finite += u64::from_le_bytes(*not_finite) as usize;
                out.write_all(text).map_err(broken)?;
                self.progress.advance_by(places.rows(taken).len());
                taken += 1;
                Ok(())
            },
        )?;
        Ok(written)
    }

    /// Predictions at some rows: how many numbers are not finite, and the lines of the CSV, after its header if these are
    /// the first rows.
    fn predict(&self, batch: Batch<'_>) -> Result<Vec<u8>, Failure> {
        let prediction = self.laplace.predict(&batch.inputs.into_owned(), self.method)?;
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
        let mut message = (columns.count_not_finite() as u64).to_le_bytes().to_vec();
        if batch.first_row == 0 {
            message.extend(columns.header());
        }
        message.extend(columns.rows());
        Ok(message)
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
