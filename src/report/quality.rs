//! How good the shown prediction is in the words of its field: R², or AUROC and recall by class, beside a constant.

use ndarray::Array2;

use super::contents::Quality;
use crate::error::Result;
use crate::evaluate::auroc;
use crate::laplace::Laplace;
use crate::likelihood::{Family, TargetKind, TargetSummary};
use crate::predict::Prediction;

/// Of the scored rows.
pub(super) fn quality(laplace: &Laplace, prediction: &Prediction, targets: &Array2<f64>) -> Result<Quality> {
    let training = match laplace.data() {
        Some(data) => {
            let observed = prediction.family().observed(data.targets().view(), laplace.model().n_outputs());
            Some(laplace.schema().restore_targets(observed)?)
        }
        None => None,
    };
    Ok(Quality {
        r_squared: if prediction.family().has_classes() { Vec::new() } else { r_squared(prediction, targets) },
        auroc: areas(prediction, targets),
        recall: recall(prediction, targets),
        constant_nll: training.and_then(|training| constant_nll(prediction.family(), &training, targets)),
    })
}

/// 1 − Σ(y − mean)²/Σ(y − ȳ)² of each target.
fn r_squared(prediction: &Prediction, targets: &Array2<f64>) -> Vec<f64> {
    let of = |(k, column): (usize, ndarray::ArrayView1<'_, f64>)| {
        let centre = column.mean().unwrap_or(0.0);
        let spread: f64 = column.iter().map(|y| (y - centre).powi(2)).sum();
        let errors: f64 = column.iter().zip(prediction.mean.column(k)).map(|(y, mean)| (y - mean).powi(2)).sum();
        1.0 - errors / spread.max(f64::MIN_POSITIVE)
    };
    targets.columns().into_iter().enumerate().map(of).collect()
}

/// The probability of each class, and whether a row is of it: by class, or by target for 0/1.
fn class_columns(prediction: &Prediction, targets: &Array2<f64>) -> Vec<(Vec<f64>, Vec<bool>)> {
    match prediction.family().likelihood().kind() {
        TargetKind::Label => (0..prediction.mean.ncols())
            .map(|class| {
                let is = targets.column(0).iter().map(|label| *label as usize == class).collect();
                (prediction.mean.column(class).to_vec(), is)
            })
            .collect(),
        TargetKind::Answers => (0..targets.ncols())
            .map(|k| (prediction.mean.column(k).to_vec(), targets.column(k).iter().map(|y| *y > 0.5).collect()))
            .collect(),
        _ => Vec::new(),
    }
}

/// The mean area under the ROC curve, each class against the rest, over the classes that occur.
fn areas(prediction: &Prediction, targets: &Array2<f64>) -> Option<f64> {
    let area = |(scores, is): (Vec<f64>, Vec<bool>)| {
        let part = |wanted: bool| -> Vec<f64> {
            scores.iter().zip(&is).filter(|(_, is)| **is == wanted).map(|(score, _)| *score).collect()
        };
        auroc(&part(false), &part(true)).ok()
    };
    let areas: Vec<f64> = class_columns(prediction, targets).into_iter().filter_map(area).collect();
    (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
}

/// The share of each class's rows that are predicted as it; none where it does not occur.
fn recall(prediction: &Prediction, targets: &Array2<f64>) -> Vec<Option<f64>> {
    let share = |right: usize, of: usize| (of > 0).then(|| right as f64 / of as f64);
    match prediction.family().likelihood().kind() {
        TargetKind::Label => {
            let classes = prediction.mean.ncols();
            let (mut right, mut of) = (vec![0; classes], vec![0; classes]);
            for (p, label) in prediction.mean.rows().into_iter().zip(targets.column(0)) {
                let best = (0..classes).fold(0, |best, k| if p[k] > p[best] { k } else { best });
                if let (Some(count), Some(hits)) = (of.get_mut(*label as usize), right.get_mut(*label as usize)) {
                    *count += 1;
                    *hits += usize::from(best == *label as usize);
                }
            }
            right.into_iter().zip(of).map(|(right, of)| share(right, of)).collect()
        }
        TargetKind::Answers if targets.ncols() == 1 => {
            let of_class = |wanted: bool| {
                let rows = targets.column(0).to_vec().into_iter().zip(prediction.mean.column(0).to_vec());
                let rows: Vec<f64> = rows.filter(|(y, _)| (*y > 0.5) == wanted).map(|(_, p)| p).collect();
                share(rows.iter().filter(|p| (**p >= 0.5) == wanted).count(), rows.len())
            };
            vec![of_class(false), of_class(true)]
        }
        _ => Vec::new(),
    }
}

/// −mean log p(y) of what knows the training targets and no inputs: their Gaussian, their frequencies or their mean rate.
fn constant_nll(family: &Family, training: &Array2<f64>, targets: &Array2<f64>) -> Option<f64> {
    let n = training.nrows() as f64;
    let of_column = |k: usize| -> Option<f64> {
        let (known, column) = (training.column(k), targets.column(k));
        let centre = known.mean()?;
        let likelihood = family.likelihood();
        let summary = TargetSummary { n, means: &[centre], counts: &[] };
        let nll = |y: &f64| match likelihood.kind() {
            TargetKind::Real => {
                let variance = known.iter().map(|y| (y - centre).powi(2)).sum::<f64>() / n;
                0.5 * ((2.0 * std::f64::consts::PI * variance).ln() + (y - centre).powi(2) / variance)
            }
            TargetKind::Positive | TargetKind::Count => {
                -likelihood.log_density(&[*y], &[likelihood.constant_output(&summary, 0)])
            }
            TargetKind::Answers => -(if *y > 0.5 { centre } else { 1.0 - centre }).ln(),
            TargetKind::Label => -((known.iter().filter(|label| *label == y).count() as f64 + 0.5) / (n + 0.5)).ln(),
        };
        Some(column.iter().map(nll).sum::<f64>() / column.len().max(1) as f64)
    };
    let total: f64 = (0..targets.ncols()).map(of_column).sum::<Option<f64>>()?;
    total.is_finite().then_some(total)
}
