//! Scores of predictions against observed targets, and distances between sample sets, as the paper computes them.

mod calibration;
mod ranking;
mod scores;
mod training_fit;
pub mod wasserstein;

pub use calibration::expected_calibration_error;
pub use ranking::auroc;
pub use scores::{ClassScores, RegressionScores, Scores};
pub use training_fit::{TrainingError, TrainingFit};
