//! Scores of predictions against observed targets, as the paper computes them.

mod calibration;
mod scores;

pub use calibration::expected_calibration_error;
pub use scores::{ClassScores, RegressionScores, Scores};
