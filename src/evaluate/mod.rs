//! Scores of predictions against observed targets, leave-one-out scores, tuning on held-out data.

mod calibration;
mod committee;
mod coverage;
mod curves;
mod deviance;
mod folded;
mod importance;
mod influence;
mod intervals;
mod leave_one_out;
mod outputs_hint;
mod outside;
mod prior_path;
mod prior_stop;
mod ranking;
mod refit;
mod retrain;
mod scores;
mod streamed;
mod tally;
mod tempering;
mod training_fit;
mod validation;

pub use calibration::{ReliabilityBin, expected_calibration_error, reliability_curve};
pub use committee::{Committee, Member, stacking_weights, train_committee};
pub use coverage::{Coverage, CoverageOptions, Share, Source as CoverageSource, coverage_over};
pub use curves::{COVERAGE_LEVELS, Curves};
pub use deviance::Deviances;
pub use folded::{FoldPosteriors, fold_scores, promised_by_folds};
pub use importance::{Importance, LogEvidence, Withheld};
pub use influence::Influence;
pub use intervals::{IntervalScore, interval_scores, rank_histogram};
pub use leave_one_out::{
    ClosedForms, Comparison, Estimator, INCOMPARABLE_SHARE, K_LIMIT, LeaveOneOut, Promise, SmoothedWeights,
    leave_one_out, smooth_weights,
};
pub use outputs_hint::OutputsLook;
pub use outside::{OodScores, Uncertainties, ood_scores};
pub use prior_path::{NearlyLinear, PriorPath, PriorPathChoice, PriorPathOptions, PriorPathStep, train_along_priors};
pub use ranking::auroc;
pub use refit::{Refit, expected_refit_seconds, refit};
pub use retrain::{
    Outcome, Trained, WORK_PER_SECOND, cautious_precisions, default_procedure, expected_linear_seconds,
    expected_seconds, follow, linear_model,
};
pub(crate) use scores::confidences;
pub use scores::{ClassScores, CountScores, RegressionScores, Scores};
pub use streamed::{KeepUncertainty, Scored, ScoringOptions, score_over, uncertainty_over};
pub use tally::{Detail, Tally};
pub use tempering::{TemperOptimum, TemperOptions, temper_on};
pub use training_fit::{TrainingError, TrainingFit};
pub use validation::{ValidationOptimum, ValidationOptions, optimize_on};
