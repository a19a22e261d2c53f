//! What `fit` says about the network and its data: where nothing can be checked, this is what betrays a mistake.

use riemannian_laplace::Laplace;
use riemannian_laplace::internals::evaluate::{OutputsLook, TrainingError, TrainingFit};
use riemannian_laplace::internals::network::Procedure;
use serde::Serialize;

use super::console::Console;
use super::output::{OneOrMany, Summary, short, short_list};

/// The keys of `--json`.
#[derive(Debug, Serialize)]
pub struct TrainingFitReport {
    gradient_norm: f64,
    explained: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    train_rmse: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    train_accuracy: Option<f64>,
}

impl From<&TrainingFit> for TrainingFitReport {
    fn from(fit: &TrainingFit) -> Self {
        let (train_rmse, train_accuracy) = match &fit.error {
            TrainingError::Deviations { rmse, .. } => (Some(OneOrMany::from(rmse.as_slice())), None),
            TrainingError::Accuracy { accuracy, .. } => (None, Some(*accuracy)),
            TrainingError::Counts => (None, None),
        };
        Self { gradient_norm: fit.gradient_norm, explained: fit.explained, train_rmse, train_accuracy }
    }
}

/// Adds the rows of the summary.
pub fn add_rows(fit: &TrainingFit, summary: &mut Summary) {
    match &fit.error {
        TrainingError::Deviations { rmse, spread } => {
            let meaning = format!("on the training data, whose targets have spread {}", short_list(spread));
            summary.row("RMSE", short_list(rmse), meaning);
        }
        TrainingError::Accuracy { accuracy, most_frequent } => {
            let meaning = format!("on the training data; the most frequent class has {:.1} %", 100.0 * most_frequent);
            summary.row("accuracy", format!("{:.1} %", 100.0 * accuracy), meaning);
        }
        TrainingError::Counts => {}
    }
    summary.row("explained", format!("{:.1} %", 100.0 * fit.explained), "of the deviance of a constant");
    summary.row("gradient norm", short(fit.gradient_norm), "of the log likelihood at the weights; 0 at a mode");
}

/// Warns when the network does not look like one that was trained on these data: the likely causes first, which for a network
/// from `rla train` are about training, for another about how it was read.
pub fn warn(fit: &TrainingFit, laplace: &Laplace, console: &Console) {
    // What the outputs look like is the more telling, where they look like something else.
    if let Ok(Some(look)) = OutputsLook::of(laplace) {
        return console.warn(look.advice());
    }
    if fit.beats_constant() && fit.is_at_mode() {
        return;
    }
    let what = match fit.beats_constant() {
        false => "the network explains less of its data than a constant would".to_string(),
        true => format!("the network is not at a mode of its data ({})", what_is_off(fit)),
    };
    console.warn(format!("{what}; {}", causes(fit, laplace)));
}

/// What to do, by case.
fn causes(fit: &TrainingFit, laplace: &Laplace) -> &'static str {
    use Procedure::{Adam, CrossValidated, EarlyStopping, Evidence};
    let procedure = laplace.recipe().map(|recipe| &recipe.procedure);
    match (procedure, fit.beats_constant()) {
        (Some(_), _) if laplace.schema().scaling().is_none() => {
            "train it again without --no-standardize, or check that --data are the rows it was trained on"
        }
        (Some(Adam { .. } | Evidence { .. }), false) => {
            "check that --data are the rows it was trained on; if so, training failed: leave out --epochs, --lr and \
             --weight-decay, and `rla train` chooses for you"
        }
        (Some(Adam { .. } | Evidence { .. }), true) => {
            "train it for more --epochs or with a smaller --lr at the end, or leave these out: `rla train` then goes to a mode"
        }
        (Some(EarlyStopping { .. }), true) => {
            "it was stopped early, before a mode, so that it does not overfit: intervals hold as held-out rows say \
             (`rla report --data`)"
        }
        (Some(CrossValidated { .. }), _) => {
            "check that --data are the rows it was trained on, and that --prior-precision and --sigma are those of the training"
        }
        (Some(EarlyStopping { .. }), false) => "check that --data are the rows it was trained on",
        (None, _) => {
            "check the activations, the layers, the scaling and the order of the columns (--check compares with \
             outputs of your framework; ONNX leaves nothing to state); if these are right, train it longer"
        }
    }
}

fn what_is_off(fit: &TrainingFit) -> String {
    let share = format!(
        "a small change of its weights would remove {:.0} % of its misfit",
        100.0 * fit.gradient_norm.powi(2).min(1.0)
    );
    match fit.biased_outputs() {
        Some(score) => format!("{share}, and its errors are biased: their sum is {score:.1} times what chance allows"),
        None => share,
    }
}
