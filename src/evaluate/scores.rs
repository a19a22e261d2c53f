//! Mean squared error, negative log likelihood, ranked probability score, coverage, accuracy, Brier score and calibration
//! error.

use ndarray::Array2;
use serde::Serialize;

use super::tally::{Detail, Tally};
use crate::error::Result;
use crate::likelihood::TargetKind;
use crate::predict::Prediction;

/// Bins of the calibration error.
pub(super) const BINS: usize = 15;

/// Scores of a regression.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegressionScores {
    /// Test points.
    pub n: usize,
    /// Mean squared error of the predictive mean.
    pub mse: f64,
    /// Its square root.
    pub rmse: f64,
    /// −mean log p(y).
    pub nll: f64,
    /// The mean continuous ranked probability score, in the units of the target.
    pub crps: f64,
    /// The share of targets inside their central 90 % interval.
    pub coverage_90: f64,
}

/// Scores of a classification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassScores {
    /// Test points.
    pub n: usize,
    /// −mean log p(y).
    pub nll: f64,
    /// The share of points whose most probable class is right.
    pub accuracy: f64,
    /// Mean Σ_k (p_k − 1{y = k})² (for 0/1 targets: mean (p − y)²).
    pub brier: f64,
    /// Expected calibration error, 15 bins.
    pub ece: f64,
}

/// The scores of a prediction, by kind of target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scores {
    /// Real targets.
    Regression(RegressionScores),
    /// Class labels and 0/1 targets.
    Classes(ClassScores),
    /// Counts.
    Counts(CountScores),
}

/// Scores of counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountScores {
    /// Test points.
    pub n: usize,
    /// Mean squared error of the predictive mean.
    pub mse: f64,
    /// Its square root.
    pub rmse: f64,
    /// −mean log p(y).
    pub nll: f64,
    /// The share of counts inside their central 90 % interval, whose ends are counts: at least 0.9 where the prediction is right.
    pub coverage_90: f64,
}

impl Scores {
    /// The first score that is NaN or infinite, by name.
    pub fn not_finite(&self) -> Option<(&'static str, f64)> {
        let scores = match self {
            Scores::Regression(scores) => vec![
                ("mse", scores.mse),
                ("rmse", scores.rmse),
                ("nll", scores.nll),
                ("crps", scores.crps),
                ("coverage_90", scores.coverage_90),
            ],
            Scores::Classes(scores) => {
                vec![("nll", scores.nll), ("accuracy", scores.accuracy), ("brier", scores.brier), ("ece", scores.ece)]
            }
            Scores::Counts(scores) => {
                vec![
                    ("mse", scores.mse),
                    ("rmse", scores.rmse),
                    ("nll", scores.nll),
                    ("coverage_90", scores.coverage_90),
                ]
            }
        };
        scores.into_iter().find(|(_, value)| !value.is_finite())
    }

    /// The negative log likelihood, which all kinds have.
    pub fn nll(&self) -> f64 {
        match self {
            Scores::Regression(scores) => scores.nll,
            Scores::Classes(scores) => scores.nll,
            Scores::Counts(scores) => scores.nll,
        }
    }

    /// Scores of a prediction. The NLL of the model alone is −meanₙ log p(yₙ | f(xₙ, θ̂)); of a mixture over sampled
    /// models −meanₙ log mean_s p(yₙ | θ_s); of a linearised prediction that of N(mean, J G⁻¹Jᵀ + σ²), of the linked
    /// class probabilities, or of the Poisson mixture over a log-normal rate (by quadrature).
    pub fn of(prediction: &Prediction, targets: &Array2<f64>) -> Result<Self> {
        Tally::of(prediction, targets, Detail::Scores)?.scores()
    }
}

/// −Σ w log p(y | x)/Σ w over rows with weights w, 1 unless they have others.
pub(super) fn mean_nll(prediction: &Prediction, rows: &Array2<f64>) -> Result<f64> {
    let weights = prediction.family().weights(rows.view(), prediction.n_outputs());
    let total: f64 = weights.iter().sum();
    let sum: f64 = prediction.log_densities(rows)?.iter().zip(&weights).map(|(log, weight)| weight * log).sum();
    Ok(-sum / total)
}

/// The probability of the most probable class, and whether it came true, at each point (and output, of 0/1 targets). Targets
/// must have been checked.
pub(crate) fn confidences(prediction: &Prediction, targets: &Array2<f64>) -> (Vec<f64>, Vec<bool>) {
    if prediction.family().likelihood().kind() == TargetKind::Answers {
        let outcomes = prediction.mean.iter().zip(targets);
        return outcomes.map(|(p, y)| (p.max(1.0 - p), (*p >= 0.5) == (*y > 0.5))).unzip();
    }
    let rows = prediction.mean.rows().into_iter().zip(targets.column(0));
    rows.map(|(p, y)| {
        let best = (0..p.len()).fold(0, |best, k| if p[k] > p[best] { k } else { best });
        (p[best], best == *y as usize)
    })
    .unzip()
}
