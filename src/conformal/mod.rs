//! Split conformal prediction: intervals and sets that contain y with probability at least 1 − α, whatever the model.
//!
//! A *score* s(x, y) says how badly y fits the prediction at x. Let s₁ … s_n be those of rows that the model has not seen, and q
//! the ⌈(1 − α)(n + 1)⌉-th smallest of them. If these rows and a new one are exchangeable, then
//!
//! P(s(x, y) ≤ q) ≥ 1 − α, and at most 1 − α + 1/(n + 1) where no two scores are equal,
//!
//! so {y : s(x, y) ≤ q} is an interval (or a set of classes) with that coverage. The probability is over the calibration rows
//! *and* the new one: it holds on average over inputs, not at each of them, unless coverage is asked for in each group.
//! References: Vovk, Gammerman and Shafer (2005); Lei et al. (2018), normalised scores; Sadinle, Lei and Wasserman (2019), LAC;
//! Romano, Sesia and Candès (2020), APS; Tibshirani et al. (2019), weights under covariate shift.
//!
//! This folder is arithmetic on scores. `predict` makes them from predictions, and turns thresholds into intervals and sets.

mod calibration;
mod classes;
mod folded;
mod quantile;
mod rows;

pub use crate::error::CalibrationError;
pub(crate) use calibration::check_weights;
pub use calibration::{Calibrated, Calibration, Conditions, Groups, Thresholds};
pub use classes::{adaptive_scores, tie_breaker};
pub use folded::{FoldNetwork, Folded};
pub use quantile::{Ranked, needed_rows};
pub use rows::{common_rows, row_fingerprint};
pub(crate) use rows::{fingerprints, repeated_share};

use serde::{Deserialize, Serialize};

/// How badly an observation fits a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// |y − E y| / √Var y, for real targets: the interval is E y ± q √Var y.
    Normalized,
    /// |u − ½| with u = P(Y < y) + ½ P(Y = y) under the prediction, for counts and other targets with a distribution function.
    Rank,
    /// 1 − p_y, for classes: the sets are as small as possible on average (least ambiguous classifier).
    Lac,
    /// Σ {p_k : p_k > p_y} + U p_y, for classes: the sets grow where the prediction is unsure (adaptive prediction sets).
    Aps,
}

impl Score {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Score::Normalized => "normalized",
            Score::Rank => "rank",
            Score::Lac => "lac",
            Score::Aps => "aps",
        }
    }
}
