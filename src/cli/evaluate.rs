//! `rla evaluate`: scores of the predictions on data that were held out.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::internals::evaluate::{Curves, ood_auroc};
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::{Error, Laplace, Prediction, Scores};
use serde::Serialize;
use serde_json::{Map, Value};

use super::certificate::CertificateArgs;
use super::console::Console;
use super::data::{DataArgs, DataFile};
use super::failure::Failure;
use super::method::{Method, MethodArgs, name_of};
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
    /// Inputs that are unlike the data: how well the uncertainty tells them from --data (`ood_auroc`; ½ is chance)
    #[arg(long, value_name = "CSV")]
    ood: Option<PathBuf>,
    /// Also print calibration curves: coverage and mean width of intervals by level and the histogram of ranks, or the
    /// reliability curve of classes
    #[arg(long)]
    curves: bool,
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
With --curves also: intervals (level, coverage, mean_width) and pit_histogram (ten bins), or reliability (15 bins). With --ood
also ood_auroc.

--method all scores map, glm, nn and riemannian side by side (--json: one object each, and `best`, the name of the one with
the smallest nll). A method that is worse than the trained network alone is said to be so.

Example:
  rla evaluate --posterior posterior.safetensors --data test.csv --target y

Example, the network alone against linearised and sampled predictions, 100 samples each:
  rla evaluate --posterior posterior.safetensors --data test.csv --target y --method all";

/// One method's scores and what was asked for besides.
#[derive(Debug, Serialize)]
struct Scored {
    #[serde(skip)]
    method: Method,
    #[serde(flatten)]
    scores: Scores,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    curves: Option<Curves>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ood_auroc: Option<f64>,
    #[serde(skip)]
    samples: Option<SamplingReport>,
}

/// Runs the command.
pub fn run(args: &EvaluateArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_scorable()?;
    let laplace = args.posterior.load(console)?;
    let data = args.data.read_for_posterior(&laplace, console)?;
    data.check_against(&**laplace.model(), laplace.family().likelihood())?;
    let outside = args.ood.as_ref().map(|path| args.data.inputs_of(path, &laplace, console)).transpose()?;
    let mut all = Vec::new();
    for method in args.method.methods() {
        let library = args.method.library_method(method, &laplace, console)?;
        let _progress = console.spinner("predicting");
        let prediction = laplace.predict(data.dataset.inputs(), &library)?;
        let far = outside.as_ref().map(|inputs| laplace.predict(inputs, &library)).transpose()?;
        all.push(score(args, method, &prediction, far.as_ref(), &data)?);
    }
    let map_nll = match all.iter().find(|scored| scored.method == Method::Map) {
        Some(map) => map.scores.nll(),
        None => map_nll(&laplace, &data)?,
    };
    if args.json {
        print_json(&json(&all, args.method.is_all())?)?;
    } else {
        print(&text(args, &laplace, &all))?;
    }
    for scored in all.iter().filter(|scored| scored.scores.nll() > map_nll) {
        console.warn(format!(
            "--method {} predicts these data worse than the trained network alone: nll {} for {}",
            name_of(scored.method),
            short(scored.scores.nll()),
            short(map_nll)
        ));
    }
    all.iter().filter_map(|scored| scored.samples).try_for_each(|report| args.certificate.check(report))
}

fn score(
    args: &EvaluateArgs,
    method: Method,
    prediction: &Prediction,
    outside: Option<&Prediction>,
    data: &DataFile,
) -> Result<Scored, Failure> {
    let targets = data.dataset.targets();
    let scores = Scores::of(prediction, targets)?;
    if let Some((what, value)) = scores.not_finite() {
        let advice = "the predictions or the targets left the range of f64; check the scale of the data";
        return Err(Error::Overflow { what, value, advice }.into());
    }
    Ok(Scored {
        method,
        scores,
        curves: args.curves.then(|| Curves::of(prediction, targets)).transpose()?,
        ood_auroc: outside.map(|outside| ood_auroc(prediction, outside)).transpose()?,
        samples: prediction.samples,
    })
}

fn map_nll(laplace: &Laplace, data: &DataFile) -> Result<f64, Failure> {
    let prediction = laplace.predict(data.dataset.inputs(), &riemannian_laplace::Method::Map)?;
    Ok(Scores::of(&prediction, data.dataset.targets())?.nll())
}

/// The method with the smallest negative log likelihood.
fn best(all: &[Scored]) -> Option<Method> {
    let smaller = |a: &&Scored, b: &&Scored| a.scores.nll().total_cmp(&b.scores.nll());
    all.iter().min_by(smaller).map(|scored| scored.method)
}

/// The scores of one method, or one object per method and the name of the best.
fn json(all: &[Scored], named: bool) -> Result<Value, Failure> {
    let value = |scored: &Scored| {
        let failed = |error: serde_json::Error| Error::Write { path: "standard output".into(), source: error.into() };
        serde_json::to_value(scored).map_err(|error| Failure::from(failed(error)))
    };
    match all {
        [scored] if !named => value(scored),
        _ => {
            let mut object = Map::new();
            for scored in all {
                object.insert(name_of(scored.method), value(scored)?);
            }
            object.insert("best".to_string(), best(all).map(name_of).into());
            Ok(Value::Object(object))
        }
    }
}

fn text(args: &EvaluateArgs, laplace: &Laplace, all: &[Scored]) -> String {
    let mut text = String::new();
    for scored in all {
        let method = args.method.describe(scored.method, laplace.family());
        let mut summary = Summary::new(format!("scores of {} ({method})", args.posterior.posterior.display()));
        add_scores(&scored.scores, &mut summary);
        if let Some(auroc) = scored.ood_auroc {
            summary.row("ood_auroc", short(auroc), "how well uncertainty tells --ood from --data; ½ is chance");
        }
        text += &summary.to_text();
        if let Some(curves) = &scored.curves {
            text += &curves_in_words(curves);
        }
    }
    if let (Some(best), true) = (best(all), args.method.is_all()) {
        text += &format!("best by nll: {}\n", name_of(best));
    }
    text
}

fn add_scores(scores: &Scores, summary: &mut Summary) {
    let nll = "negative log likelihood per data point, in nats; smaller is better";
    match scores {
        Scores::Regression(scores) => {
            summary.row("n", scores.n, "data points");
            summary.row("mse", short(scores.mse), "mean squared error of the predictive mean");
            summary.row("rmse", short(scores.rmse), "its square root, in units of the target");
            summary.row("nll", short(scores.nll), nll);
            let meaning = "ranked probability score, in units of the target; smaller is better";
            summary.row("crps", short(scores.crps), meaning);
            let meaning = "share of targets inside their central 90 % interval";
            summary.row("coverage_90", short(scores.coverage_90), meaning);
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
            summary.row("nll", short(*value), nll);
        }
    }
}

fn curves_in_words(curves: &Curves) -> String {
    let mut text = String::new();
    match curves {
        Curves::Intervals { intervals, pit_histogram } => {
            for interval in intervals {
                text += &format!(
                    "  {:3.0} % intervals contain {:5.1} % and are {} wide on average\n",
                    100.0 * interval.level,
                    100.0 * interval.coverage,
                    short(interval.mean_width)
                );
            }
            let counts: Vec<String> = pit_histogram.iter().map(ToString::to_string).collect();
            text += &format!("  ranks by tenths (flat is calibrated): {}\n", counts.join(" "));
        }
        Curves::Reliability { reliability } => {
            for bin in reliability.iter().filter(|bin| bin.count > 0) {
                text += &format!(
                    "  confidence {:5.1} %: {:5.1} % right, of {}\n",
                    100.0 * bin.confidence,
                    100.0 * bin.accuracy,
                    bin.count
                );
            }
        }
    }
    text
}
