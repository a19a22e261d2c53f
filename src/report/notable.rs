//! Rows worth a look, by number: the largest residuals, leverages and influences on their own prediction.

use ndarray::Array2;

use super::contents::{Notable, NotableRow};
use crate::data::Dataset;
use crate::error::Result;
use crate::evaluate::ClosedForms;
use crate::likelihood::TargetKind;
use crate::predict::Prediction;

/// The rows in each list.
const SHOWN: usize = 5;

/// Of the training rows, each predicted without itself.
pub(super) fn notable(closed: &ClosedForms, training: &Dataset) -> Result<Notable> {
    let loo = &closed.linearized;
    let prediction = &closed.linearized_prediction;
    let (prediction, targets) = prediction.beside(training.targets())?;
    let residuals = residuals(&prediction, &targets.to_owned());
    let influence: Vec<f64> =
        loo.with_all_data.iter().zip(&loo.pointwise).map(|(with, without)| with - without).collect();
    let row = |row: usize| NotableRow {
        row: row + 1,
        residual: residuals.get(row).copied().unwrap_or(f64::NAN),
        leverage: loo.k.get(row).copied(),
        influence: influence.get(row).copied(),
    };
    let list = |values: &[f64]| largest(values).into_iter().map(row).collect();
    Ok(Notable { residuals: list(&residuals), leverages: list(&loo.k), influences: list(&influence) })
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
