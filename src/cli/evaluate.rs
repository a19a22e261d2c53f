//! `rla evaluate`: scores of the predictions on data that were held out.

use clap::Args;
use riemannian_laplace::Scores;

use super::certificate::CertificateArgs;
use super::console::Console;
use super::data::DataArgs;
use super::failure::Failure;
use super::method::MethodArgs;
use super::output::{Summary, print, print_json, short};
use super::posterior::PosteriorArgs;

/// Score predictions against observed targets
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct EvaluateArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Print the scores as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Scores:
  gaussian, heteroscedastic n, mse, rmse, nll, crps, coverage_90
  categorical, bernoulli    n, nll, accuracy, brier, ece
  poisson                   n, nll
The nll of sampled networks is that of their mixture, −mean_n log mean_s p(y_n | θ_s).

Example:
  rla evaluate --posterior posterior.safetensors --data test.csv --target y

Example, the network alone against 100 sampled networks:
  rla evaluate --posterior posterior.safetensors --data test.csv --target y --method map
  rla evaluate --posterior posterior.safetensors --data test.csv --target y --method nn";

/// Runs the command.
pub fn run(args: &EvaluateArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_scorable()?;
    let laplace = args.posterior.load(console)?;
    let data = args.data.read_for_posterior(&laplace, console)?;
    let family = laplace.family();
    data.check_against(&**laplace.model(), family.likelihood())?;
    let prediction = args.method.predict(&laplace, data.dataset.inputs(), console)?;
    let scores = Scores::of(&prediction, data.dataset.targets())?;
    let certified = || prediction.samples.map_or(Ok(()), |report| args.certificate.check(report));
    if args.json {
        print_json(&scores)?;
        return certified();
    }
    let method = args.method.describe(family);
    let mut summary = Summary::new(format!("scores of {} ({method})", args.posterior.posterior.display()));
    let nll = "negative log likelihood per data point, in nats; smaller is better";
    match scores {
        Scores::Regression(scores) => {
            summary.row("n", scores.n, "data points");
            summary.row("mse", short(scores.mse), "mean squared error of the predictive mean");
            summary.row("rmse", short(scores.rmse), "its square root, in units of the target");
            summary.row("nll", short(scores.nll), nll);
            summary.row(
                "crps",
                short(scores.crps),
                "ranked probability score, in units of the target; smaller is better",
            );
            summary.row(
                "coverage_90",
                short(scores.coverage_90),
                "share of targets inside their central 90 % interval",
            );
        }
        Scores::Classes(scores) => {
            summary.row("n", scores.n, "data points");
            summary.row("nll", short(scores.nll), nll);
            summary.row("accuracy", short(scores.accuracy), "share of data points whose most probable class is right");
            summary.row("brier", short(scores.brier), "squared error of the probabilities; smaller is better");
            summary.row("ece", short(scores.ece), "expected calibration error, 15 bins; smaller is better");
        }
        Scores::Counts { n, nll: value } => {
            summary.row("n", n, "data points");
            summary.row("nll", short(value), nll);
        }
    }
    print(&summary.to_text())?;
    certified()
}
