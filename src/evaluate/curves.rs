//! Calibration in more than one number: what a reliability diagram or a histogram of ranks shows.

use ndarray::Array2;
use serde::Serialize;

use super::tally::{Detail, Tally};
use super::{IntervalScore, ReliabilityBin};
use crate::error::Result;
use crate::predict::Prediction;

/// The levels at which coverage is reported.
pub const COVERAGE_LEVELS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
/// Bins of the histogram of ranks.
pub(super) const RANK_BINS: usize = 10;

/// How a prediction is calibrated, by kind of target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Curves {
    /// Real targets and counts.
    Intervals {
        /// Coverage and mean width of the central intervals, by level.
        intervals: Vec<IntervalScore>,
        /// How many observations have a rank P(y < observed) in each tenth.
        pit_histogram: Vec<usize>,
    },
    /// Classes.
    Reliability {
        /// Confidence and accuracy, in 15 bins of confidence.
        reliability: Vec<ReliabilityBin>,
    },
}

impl Curves {
    /// The curves of a prediction.
    pub fn of(prediction: &Prediction, targets: &Array2<f64>) -> Result<Self> {
        Ok(Tally::of(prediction, targets, Detail::Curves)?.curves())
    }
}
