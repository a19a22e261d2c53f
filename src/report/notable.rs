//! Rows worth a look, by number: those that look wrong, the largest residuals, leverages and influences on their own prediction.

use ndarray::Array2;

use super::contents::{Notable, NotableRow, Suspicious};
use super::number;
use super::words::percent;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::evaluate::{ClosedForms, Influence};
use crate::laplace::Laplace;
use crate::likelihood::TargetKind;
use crate::predict::Prediction;

/// The rows in each list.
const SHOWN: usize = 5;

/// Of the training rows, each predicted without itself.
pub(super) fn notable(laplace: &Laplace, closed: &ClosedForms, training: &Dataset) -> Result<Notable> {
    let loo = &closed.linearized;
    let prediction = &closed.linearized_prediction;
    let (prediction, targets) = prediction.beside(training.targets())?;
    let targets = targets.to_owned();
    let residuals = residuals(&prediction, &targets);
    let influence: Vec<f64> =
        loo.with_all_data.iter().zip(&loo.pointwise).map(|(with, without)| with - without).collect();
    let row = |row: usize| NotableRow {
        row: row + 1,
        residual: residuals.get(row).copied().unwrap_or(f64::NAN),
        leverage: loo.k.get(row).copied(),
        influence: influence.get(row).copied(),
    };
    let list = |values: &[f64]| largest(values).into_iter().map(row).collect();
    Ok(Notable {
        suspicious: suspicious(laplace, &prediction, &targets)?,
        residuals: list(&residuals),
        leverages: list(&loo.k),
        influences: list(&influence),
    })
}

/// The training rows of the greatest self-influence, beside what the others predict there; none where it cannot be computed.
fn suspicious(laplace: &Laplace, without: &Prediction, targets: &Array2<f64>) -> Result<Vec<Suspicious>> {
    let influence = match Influence::of(laplace) {
        Ok(influence) => influence,
        Err(Error::Leverage { .. } | Error::NotFinite { .. } | Error::NoTrainingData { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let of = |row: usize| {
        let (given, expected) = given_and_expected(laplace, without, targets, row);
        Suspicious { row: row + 1, self_influence: influence.of_itself[row], given, expected }
    };
    Ok(influence.most_suspicious(SHOWN).into_iter().map(of).collect())
}

/// The target of a row, and what is predicted there, in words.
fn given_and_expected(
    laplace: &Laplace,
    prediction: &Prediction,
    targets: &Array2<f64>,
    row: usize,
) -> (String, String) {
    let (schema, kind) = (laplace.schema(), laplace.family().likelihood().kind());
    let class = |target: usize, class: usize| {
        let name = schema.classes_of(target).and_then(|names| names.get(class)).cloned();
        name.unwrap_or_else(|| class.to_string())
    };
    let (mut given, mut expected) = (Vec::new(), Vec::new());
    for (target, y) in targets.row(row).iter().enumerate() {
        match kind {
            TargetKind::Label => {
                let probabilities = prediction.mean.row(row);
                let best =
                    (0..probabilities.len()).fold(0, |a, b| if probabilities[b] > probabilities[a] { b } else { a });
                given.push(class(target, *y as usize));
                expected.push(format!("{} with {}", class(target, best), percent(probabilities[best])));
            }
            TargetKind::Answers => {
                let p = prediction.mean[(row, target)];
                let (best, p) = if p >= 0.5 { (1, p) } else { (0, 1.0 - p) };
                given.push(class(target, *y as usize));
                expected.push(format!("{} with {}", class(target, best), percent(p)));
            }
            TargetKind::Real | TargetKind::Positive | TargetKind::Count => {
                let deviation = prediction.total_variance[(row, target)].sqrt();
                given.push(number(*y));
                expected.push(format!("{} ± {}", number(prediction.mean[(row, target)]), number(deviation)));
            }
        }
    }
    (given.join(", "), expected.join(", "))
}

/// The worst predicted of the scored rows.
pub(super) fn worst(prediction: &Prediction, targets: &Array2<f64>) -> Vec<NotableRow> {
    let residuals = residuals(prediction, targets);
    let row = |row: usize| NotableRow { row: row + 1, residual: residuals[row], leverage: None, influence: None };
    largest(&residuals).into_iter().map(row).collect()
}

/// |y − mean| in standard deviations of the prediction, the largest of a row's targets; of classes 1 − p(class).
fn residuals(prediction: &Prediction, targets: &Array2<f64>) -> Vec<f64> {
    let deviations = prediction.standard_deviation();
    let of_row = |row: usize| match prediction.family().likelihood().kind() {
        TargetKind::Label => {
            1.0 - targets.get((row, 0)).and_then(|label| prediction.mean.get((row, *label as usize))).unwrap_or(&0.0)
        }
        TargetKind::Answers => {
            let pairs = targets.row(row).to_vec().into_iter().zip(prediction.mean.row(row).to_vec());
            pairs.map(|(y, p)| (y - p).abs()).fold(0.0, f64::max)
        }
        TargetKind::Real | TargetKind::Positive | TargetKind::Count => {
            let of = |(k, y): (usize, &f64)| (y - prediction.mean[(row, k)]).abs() / deviations[(row, k)];
            targets.row(row).iter().enumerate().map(of).fold(0.0, f64::max)
        }
    };
    (0..targets.nrows()).map(of_row).collect()
}

/// The places of the largest values, in order.
fn largest(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).filter(|row| values[*row].is_finite()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    order.truncate(SHOWN);
    order
}
