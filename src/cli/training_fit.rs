//! What `fit` says about the network and its data: where nothing can be checked, this is what betrays a mistake.

use riemannian_laplace::internals::evaluate::{TrainingError, TrainingFit};
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

/// Warns when the network does not look like one that was trained on these data.
pub fn warn(fit: &TrainingFit, console: &Console) {
    let advice = "check the activations, the layers, the scaling and the order of the columns (--check compares with \
                  outputs of your framework; ONNX leaves nothing to state)";
    if !fit.beats_constant() {
        console.warn(format!("the network explains less of its data than a constant would; {advice}"));
    } else if !fit.is_at_mode() {
        console.warn(format!("the network is not at a mode of its data ({}); {advice}", what_is_off(fit)));
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
