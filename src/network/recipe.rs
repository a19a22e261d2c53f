//! How a network was trained, kept with it so that it can be trained again without some of its data.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Decay, TrainingOptions};
use crate::conformal::Folded;
use crate::error::{Error, Result};
use crate::tensors::{self, Entry, TensorFile, Values};

/// The metadata entry of model files and posteriors that holds the recipe.
pub const RECIPE_KEY: &str = "recipe";

/// A training that can be repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The seed of the initial weights, of folds and of batches.
    pub seed: u64,
    /// What was done.
    pub procedure: Procedure,
    /// The prior precision that belongs to the weights: one value or one per layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_precision: Option<Vec<f64>>,
    /// The noise that was found, in the units of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<Vec<f64>>,
    /// The other parameters of the likelihood that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispersions: Option<Vec<f64>>,
    /// The left-out rows of a cross-validation, where it kept them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Folded>,
}

/// The ways to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Procedure {
    /// To a mode of the posterior, under the prior that predicts held-out folds best.
    CrossValidated {
        /// The folds.
        folds: usize,
        /// Those of them that are predicted.
        folds_used: usize,
        /// The ratios of the hidden layers' precision to the last one's.
        ratios: Vec<f64>,
        /// Whether the simplest prior that is not clearly worse is taken, with the noise of held-out rows.
        cautious: bool,
    },
    /// Adam with a held-out part, by which the learning rate falls and training ends.
    EarlyStopping {
        /// The largest number of epochs.
        epochs: usize,
        /// The learning rate at first.
        learning_rate: f64,
        /// λ.
        weight_decay: f64,
        /// Rows per step.
        batch_size: usize,
    },
    /// Adam with settings that were given.
    Adam {
        /// Passes over the data.
        epochs: usize,
        /// The learning rate.
        learning_rate: f64,
        /// λ.
        weight_decay: f64,
        /// Whether the decay is decoupled (AdamW).
        decoupled: bool,
        /// Rows per step; all without it.
        batch_size: Option<usize>,
    },
    /// Adam, with the prior and the noise tuned by the evidence on the way.
    Evidence {
        /// Passes over the data.
        epochs: usize,
        /// The learning rate.
        learning_rate: f64,
        /// λ of the burn-in.
        weight_decay: f64,
        /// Rows per step; all without it.
        batch_size: Option<usize>,
        /// Epochs before the first tuning.
        burn_in: usize,
        /// Epochs from one tuning to the next.
        every: usize,
    },
}

impl Procedure {
    /// Adam as it was set.
    pub fn adam(options: &TrainingOptions) -> Self {
        Procedure::Adam {
            epochs: options.epochs,
            learning_rate: options.learning_rate,
            weight_decay: options.weight_decay,
            decoupled: options.decay == Decay::Decoupled,
            batch_size: options.batch_size,
        }
    }

    /// In words.
    pub fn in_words(&self) -> String {
        match self {
            Procedure::CrossValidated { folds, folds_used, .. } if folds_used == folds => {
                format!("to a mode under a prior chosen by {folds}-fold cross-validation")
            }
            Procedure::CrossValidated { folds, .. } => {
                format!("to a mode under a prior chosen on one held-out part in {folds}")
            }
            Procedure::EarlyStopping { .. } => "Adam, stopped early by held-out rows".to_string(),
            Procedure::Adam { epochs, .. } => format!("Adam, {epochs} epochs, as the options say"),
            Procedure::Evidence { epochs, .. } => format!("Adam, {epochs} epochs, prior and noise by the evidence"),
        }
    }
}

impl Recipe {
    /// Adds the recipe to the metadata of a model file.
    pub fn attach(&self, path: &Path) -> Result<()> {
        let file = TensorFile::read(path)?;
        let mut metadata: BTreeMap<String, String> = file.metadata.clone();
        metadata.insert(RECIPE_KEY.to_string(), self.to_json(path)?);
        let entries: Vec<Entry<'_>> = file
            .tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
            .collect();
        tensors::write(path, &entries, metadata)
    }

    /// The recipe in a file's metadata, where it has one.
    pub fn from_metadata(path: &Path, text: Option<&String>) -> Result<Option<Self>> {
        let Some(text) = text else { return Ok(None) };
        let unusable = |problem: String| Error::Metadata { path: path.to_path_buf(), key: RECIPE_KEY, problem };
        let recipe: Self = serde_json::from_str(text).map_err(|error| unusable(format!("cannot be read: {error}")))?;
        let numbers = recipe.prior_precision.iter().chain(&recipe.sigma).flatten();
        if let Some(problem) = recipe.folded.as_ref().and_then(Folded::problem) {
            return Err(unusable(problem.to_string()));
        }
        match numbers.copied().find(|value| !(*value > 0.0 && value.is_finite())) {
            Some(value) => Err(unusable(format!("has {value}, which is not a positive number"))),
            None => Ok(Some(recipe)),
        }
    }

    /// The recipe of a model file.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let file = TensorFile::read_where(path, |_| false)?;
        Self::from_metadata(path, file.metadata.get(RECIPE_KEY))
    }

    /// As it is kept.
    pub fn to_json(&self, path: &Path) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Metadata {
            path: path.to_path_buf(),
            key: RECIPE_KEY,
            problem: format!("cannot be written: {error}"),
        })
    }
}
