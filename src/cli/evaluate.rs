//! `rla evaluate`: scores of the predictions on data that were held out.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::internals::evaluate::{
    self, Curves, Detail, KeepUncertainty, ScoringOptions, auroc, score_over, uncertainty_over,
};
use riemannian_laplace::internals::predict::{self, SamplingReport};
use riemannian_laplace::{Batches, Error, Laplace, Scores};
use serde::Serialize;
use serde_json::{Map, Value};

use super::certificate::CertificateArgs;
use super::console::Console;
use super::data::DataArgs;
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
    let data = args.data.rows_for_posterior(&laplace, console)?;
    data.check_against(&**laplace.model(), laplace.family())?;
    let outside = args.ood.as_ref().map(|path| args.data.inputs_of(path, &laplace, console)).transpose()?;
    let asked = args.method.methods();
    let mut methods = Vec::new();
    for method in &asked {
        methods.push(args.method.library_method(*method, &laplace, console)?);
    }
    // Every method is compared with the trained network alone.
    let map = asked.iter().position(|method| *method == Method::Map).unwrap_or(methods.len());
    let asked_for = methods.clone();
    if map == methods.len() {
        methods.push(predict::Method::Map);
    }
    let (of_data, of_outside) = {
        let rows = |data: &dyn Batches| data.n_rows();
        let length = rows(data.batches()) + outside.as_deref().map_or(0, rows);
        let progress = console.bar("predicting", length);
        let options = ScoringOptions {
            detail: if args.curves { Detail::Curves } else { Detail::Scores },
            uncertainty: if outside.is_some() { KeepUncertainty::Yes } else { KeepUncertainty::No },
        };
        let scored = score_over(&laplace, data.batches(), &methods, options, &progress);
        let of_data = scored.map_err(|error| data.locate(error))?;
        let far = outside.as_deref().map(|rows| uncertainty_over(&laplace, rows, &asked_for, &progress)).transpose()?;
        (of_data, far.flatten())
    };
    // Of a team, the first rank has the scores and tells them.
    let Some(of_data) = of_data else { return Ok(()) };
    let mut all = Vec::new();
    for (index, ((method, library), scored)) in asked.into_iter().zip(&methods).zip(&of_data).enumerate() {
        let far = of_outside.as_ref().and_then(|far| far.get(index));
        all.push(Scored {
            method,
            scores: finite_scores(scored)?,
            curves: args.curves.then(|| scored.tally.curves()),
            ood_auroc: far.map(|far| auroc(&scored.uncertainty, far)).transpose()?,
            samples: match library {
                predict::Method::Samples(samples) => Some(SamplingReport::of(samples)),
                _ => None,
            },
        });
    }
    let map_nll = of_data.get(map).map_or(Ok(f64::INFINITY), |map| map.tally.scores().map(|scores| scores.nll()))?;
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

fn finite_scores(scored: &evaluate::Scored) -> Result<Scores, Failure> {
    let scores = scored.tally.scores()?;
    if let Some((what, value)) = scores.not_finite() {
        let advice = "the predictions or the targets left the range of f64; check the scale of the data";
        return Err(Error::Overflow { what, value, advice }.into());
    }
    Ok(scores)
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
