//! `rla evaluate`: scores of the predictions on data that were held out.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::internals::conformal::Conditions;
use riemannian_laplace::internals::evaluate::{
    self, Coverage, CoverageOptions, Curves, Detail, KeepUncertainty, OodScores, ScoringOptions, coverage_over,
    score_over, uncertainty_over,
};
use riemannian_laplace::internals::predict::{self, SamplingReport};
use riemannian_laplace::{Batches, Error, Laplace, Scores};
use serde::Serialize;
use serde_json::{Map, Value};

use super::announce::announce_predicting;
use super::arguments;
use super::certificate::CertificateArgs;
use super::committee::Members;
use super::conditions;
use super::console::Console;
use super::coverage_text;
use super::data::DataArgs;
use super::failure::Failure;
use super::method::{Method, MethodArgs, name_of, sampling_report};
use super::output::{print, print_json, short};
use super::posterior::PosteriorArgs;
use super::promise::Sets;
use super::score_text::{curves_in_words, in_columns, in_rows, items};
use super::source::Source;

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
    /// Inputs that are unlike the data: how well the uncertainty tells them from --data; ½ is chance (`ood_auroc`, and
    /// `ood_auroc_epistemic`, `ood_auroc_logits` below)
    #[arg(long, value_name = "CSV")]
    ood: Option<PathBuf>,
    /// Also print calibration curves: coverage and mean width of intervals by level and the histogram of ranks, or the
    /// reliability curve of classes
    #[arg(long)]
    curves: bool,
    /// Also print how intervals, or sets of classes, of this level hold: coverage with its binomial error, mean width or number
    /// of classes, coverage by tercile of the predicted spread and by group. A calibrated posterior shows it anyway, at its own
    /// level and beside the intervals as fitted
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "0.9", value_parser = arguments::share)]
    intervals: Option<f64>,
    /// The sets of classes of a calibrated posterior [default: lac]
    #[arg(long, value_enum, value_name = "WHAT")]
    sets: Option<Sets>,
    /// Print the scores as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Scores:
  real and positive targets  n, mse, rmse, nll, crps, coverage_90
  classes                    n, nll, accuracy, brier, ece
  counts                     n, mse, rmse, nll, coverage_90
The nll of sampled networks is that of their mixture, −mean_n log mean_s p(y_n | θ_s). \
With --curves also: intervals (level, coverage, mean_width) and pit_histogram (ten bins), or reliability (15 bins). With --ood \
also how well three scores of a point tell those inputs from the data: ood_auroc, by the entropy of the mean probabilities (or \
the variance of y), the score that papers usually give; ood_auroc_epistemic, by what more data would remove, the mutual \
information between class and weights (or the epistemic variance); ood_auroc_logits, for classes, by the variance of the logits, \
which a saturated softmax does not hide. map has the first alone.

--method all scores map, glm, nn and riemannian side by side, a line each, and names the best, whose nll is the smallest by more \
than two paired standard errors over rows; otherwise there is no clear difference (--json: one object each, `best`, which is then \
null, `smallest_nll`, `runner_up`, `gain` and `gain_se` in nats a row). A method that is worse than the trained network alone is \
said to be so.

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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    outside: Option<OodScores>,
    #[serde(rename = "hold", skip_serializing_if = "Vec::is_empty")]
    coverage: Vec<Coverage>,
    #[serde(skip)]
    samples: Option<SamplingReport>,
}

/// Runs the command.
pub fn run(args: &EvaluateArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_scorable()?;
    let members = Members::load(&args.posterior, console)?;
    members.check(&args.method)?;
    let laplace = &members.laplace;
    let columns = conditions::Columns::of(laplace);
    let data = args.data.rows_beside(laplace, &columns.names(), console)?;
    data.check_against(&**laplace.model(), laplace.family())?;
    let outside = args.ood.as_ref().map(|path| args.data.inputs_of(path, laplace, console)).transpose()?;
    let asked = args.method.methods();
    if asked.contains(&Method::Glm) {
        announce_predicting(console, laplace, data.batches().n_rows());
    }
    let mut methods = Vec::new();
    for method in &asked {
        methods.push(members.method(&args.method, *method, console)?);
    }
    // Every method is compared with the trained network alone.
    let map = asked.iter().position(|method| *method == Method::Map).unwrap_or(methods.len());
    let asked_for = methods.clone();
    if map == methods.len() {
        methods.push(members.method(&args.method, Method::Map, console)?);
    }
    let (of_data, of_outside) = {
        let rows = |data: &dyn Batches| data.n_rows();
        let length = rows(data.batches()) + outside.as_deref().map_or(0, rows);
        let progress = console.bar("predicting", length);
        let options = ScoringOptions {
            detail: if args.curves { Detail::Curves } else { Detail::Scores },
            uncertainty: if outside.is_some() { KeepUncertainty::Yes } else { KeepUncertainty::No },
        };
        let scored = score_over(laplace, data.batches(), &methods, options, &progress);
        let of_data = scored.map_err(|error| data.locate(error))?;
        let far = outside.as_deref().map(|rows| uncertainty_over(laplace, rows, &asked_for, &progress)).transpose()?;
        (of_data, far.flatten())
    };
    let coverage = coverage(args, laplace, &data, &columns, &asked_for, console)?;
    // Of a team, the first rank has the scores and tells them.
    let Some(of_data) = of_data else { return Ok(()) };
    let mut all = Vec::new();
    for (index, ((method, library), scored)) in asked.into_iter().zip(&methods).zip(&of_data).enumerate() {
        let far = scored.uncertainty.as_ref().zip(of_outside.as_ref().and_then(|far| far.get(index)));
        all.push(Scored {
            method,
            scores: finite_scores(scored)?,
            curves: args.curves.then(|| scored.tally.curves()),
            outside: far.map(|(near, far)| near.tell_from(far)).transpose()?,
            coverage: coverage.get(index).cloned().unwrap_or_default(),
            samples: sampling_report(library),
        });
    }
    let best = Best::of(&all, &of_data)?;
    if args.json {
        print_json(&json(&all, best.as_ref().filter(|_| args.method.is_all()))?)?;
    } else {
        print(&text(args, &members, &all, best.as_ref()))?;
    }
    if let Some(alone) = of_data.get(map) {
        for (scored, own) in all.iter().zip(&of_data) {
            warn_if_worse(scored, own.gain_over(map, alone)?, members.count(), console);
        }
    }
    all.iter().filter_map(|scored| scored.samples).try_for_each(|report| args.certificate.check(report))
}

/// How intervals or sets hold, where that was asked for or the posterior is calibrated.
fn coverage(
    args: &EvaluateArgs,
    laplace: &Laplace,
    data: &Source,
    columns: &conditions::Columns,
    methods: &[predict::Method],
    console: &Console,
) -> Result<Vec<Vec<Coverage>>, Failure> {
    if args.intervals.is_none() && laplace.calibration().is_none() {
        return Ok(Vec::new());
    }
    let at = match data.rows() {
        Some(rows) => columns.read(rows)?,
        None => Conditions::default(),
    };
    let options = CoverageOptions { level: args.intervals, score: args.sets.map(Sets::score), at };
    let progress = console.bar("intervals", data.batches().n_rows());
    let all = coverage_over(laplace, data.batches(), methods, &options, &progress);
    Ok(all.map_err(|error| data.locate(error))?.unwrap_or_default())
}

fn finite_scores(scored: &evaluate::Scored) -> Result<Scores, Failure> {
    let scores = scored.tally.scores()?;
    if let Some((what, value)) = scores.not_finite() {
        let advice = "the predictions or the targets left the range of f64; check the scale of the data";
        return Err(Error::Overflow { what, value, advice }.into());
    }
    Ok(scores)
}

/// Says that a method predicts worse than the trained network alone, and whether that is clear.
fn warn_if_worse(scored: &Scored, (gain, error): (f64, f64), members: usize, console: &Console) {
    if gain >= 0.0 || scored.method == Method::Map {
        return;
    }
    let networks = if members > 1 { "networks" } else { "network" };
    let name = name_of(scored.method);
    let difference = format!("by {} ± {} nats a row", short(-gain), short(error));
    match gain < -CLEAR * error {
        true => console
            .warn(format!("--method {name} predicts these data worse than the trained {networks} alone: {difference}")),
        false => console.note(format!(
            "--method {name} is no clear difference to the trained {networks} alone: worse {difference}"
        )),
    }
}

/// Standard errors from which on a difference is clear.
const CLEAR: f64 = 2.0;

/// The method with the smallest negative log likelihood, and its gain over the next.
struct Best {
    method: Method,
    next: Method,
    gain: f64,
    error: f64,
}

impl Best {
    fn of(all: &[Scored], of_data: &[evaluate::Scored]) -> Result<Option<Self>, Failure> {
        let mut order: Vec<usize> = (0..all.len().min(of_data.len())).collect();
        let nll = |index: &usize| all.get(*index).map_or(f64::INFINITY, |scored| scored.scores.nll());
        order.sort_by(|a, b| nll(a).total_cmp(&nll(b)));
        let [first, second, ..] = order[..] else { return Ok(None) };
        let (Some(one), Some(other)) = (of_data.get(first), of_data.get(second)) else { return Ok(None) };
        let (gain, error) = one.gain_over(second, other)?;
        let method = |index: usize| all.get(index).map_or(Method::Map, |scored| scored.method);
        Ok(Some(Self { method: method(first), next: method(second), gain, error }))
    }

    fn is_clear(&self) -> bool {
        self.gain > CLEAR * self.error
    }

    fn in_words(&self) -> String {
        let (name, next) = (name_of(self.method), name_of(self.next));
        let by = format!("by {} ± {} nats a row over {next}", short(self.gain), short(self.error));
        match self.is_clear() {
            true => format!("best by nll: {name}, {by}\n"),
            false => format!("best by nll: no clear difference ({name} has the smallest, {by})\n"),
        }
    }
}

/// The scores of one method, or one object per method and the name of the best.
fn json(all: &[Scored], best: Option<&Best>) -> Result<Value, Failure> {
    let value = |scored: &Scored| {
        let failed = |error: serde_json::Error| Error::Write { path: "standard output".into(), source: error.into() };
        serde_json::to_value(scored).map_err(|error| Failure::from(failed(error)))
    };
    match (all, best) {
        ([scored], None) => value(scored),
        _ => {
            let mut object = Map::new();
            for scored in all {
                object.insert(name_of(scored.method), value(scored)?);
            }
            if let Some(best) = best {
                object.insert("best".to_string(), best.is_clear().then(|| name_of(best.method)).into());
                object.insert("smallest_nll".to_string(), name_of(best.method).into());
                object.insert("runner_up".to_string(), name_of(best.next).into());
                object.insert("gain".to_string(), best.gain.into());
                object.insert("gain_se".to_string(), best.error.into());
            }
            Ok(Value::Object(object))
        }
    }
}

fn text(args: &EvaluateArgs, members: &Members, all: &[Scored], best: Option<&Best>) -> String {
    let kind = if members.count() > 1 { format!("a committee of {}: ", members.count()) } else { String::new() };
    let title = format!("scores of {kind}{}", args.posterior.posterior.display());
    let describe = |scored: &Scored| args.method.describe(scored.method, members.laplace.family());
    let scores = |scored: &Scored| items(&scored.scores, scored.outside.as_ref());
    let curves = |scored: &Scored| scored.curves.as_ref().map(curves_in_words).unwrap_or_default();
    let hold =
        |scored: &Scored| coverage_text::lines(&name_of(scored.method), &scored.coverage, members.laplace.family());
    let (Some(best), true) = (best, args.method.is_all()) else {
        let alone = |scored| {
            in_rows(format!("{title} ({})", describe(scored)), &scores(scored)) + &curves(scored) + &hold(scored)
        };
        return all.iter().map(alone).collect();
    };
    let line = |scored: &Scored| {
        let (name, described) = (name_of(scored.method), describe(scored));
        let settings = described.strip_prefix(&name).unwrap_or(&described).trim_start_matches(", ").to_string();
        (name, scores(scored), settings)
    };
    let mut text = in_columns(title, &all.iter().map(line).collect::<Vec<_>>());
    for scored in all.iter().filter(|scored| scored.curves.is_some()) {
        text += &format!("calibration of {}\n{}", name_of(scored.method), curves(scored));
    }
    text += &all.iter().map(hold).collect::<String>();
    text + &best.in_words()
}
