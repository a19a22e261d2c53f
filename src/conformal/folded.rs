//! What a training by cross-validation keeps of its folds, in the model file's recipe.

use serde::{Deserialize, Serialize};

use super::Score;

/// The scores of rows by posteriors that have not seen them, and the networks of these.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Folded {
    /// For each kind of score, one list per row (fold after fold, each in the order of its `left_out`), one number per target.
    pub scores: Vec<(Score, Vec<Vec<f64>>)>,
    /// The networks.
    pub networks: Vec<FoldNetwork>,
}

/// A network that was trained without a fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoldNetwork {
    /// The rows of the training data that it has not seen, from zero.
    pub left_out: Vec<usize>,
    /// Its weights.
    pub theta: Vec<f64>,
    /// Its prior precision.
    pub prior_precision: Vec<f64>,
    /// Its noise, where the likelihood has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<Vec<f64>>,
}

impl Folded {
    /// What is wrong with it, where it comes from a file.
    pub fn problem(&self) -> Option<&'static str> {
        let rows: usize = self.networks.iter().map(|network| network.left_out.len()).sum();
        let width = self.scores.first().and_then(|(_, rows)| rows.first()).map_or(0, Vec::len);
        let is_whole = |all: &Vec<Vec<f64>>| {
            all.len() == rows && all.iter().all(|row| row.len() == width && row.iter().all(|score| !score.is_nan()))
        };
        (!self.scores.iter().all(|(_, all)| is_whole(all)) || width == 0).then_some("its folds do not go together")
    }
}
