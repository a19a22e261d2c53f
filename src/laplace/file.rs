//! A posterior in one self-contained safetensors file, version 2: the model's weights, hyperparameters, the factored
//! precision, and the training data or, without them, the raw curvature sums. Loading reads and checks; it never
//! refits.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::accumulate::{Fit, FitSums};
use super::calibrated;
use super::fit::Laplace;
use super::record::{
    Described, Description, INDICES, all_parameters, check_fingerprint, from_json, metadata_error, read_data, to_json,
};
use super::shard;
use super::structure::{SavedTensor, SavedTensors};
use crate::error::{Error, PosteriorError, Result, TensorError, Unsupported, check_size, gigabytes};
use crate::map::Model;
use crate::memory;
use crate::network::{RECIPE_KEY, Recipe};
use crate::tensors::{self, TensorFile, Values};

/// The `format` entry of the metadata.
pub const POSTERIOR_FORMAT: &str = "riemannian-laplace posterior";
/// The version written and read.
const VERSION: u32 = 2;
/// The key of the weight of all rows, where rows have weights.
const TOTAL_WEIGHT: &str = "total_weight";

/// What a saved posterior holds besides the weights, the hyperparameters and the factored precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// The training data: the file can do everything, Riemannian metrics included.
    #[default]
    TrainingData,
    /// The raw curvature sums instead of the data, for posteriors that must not carry the data: enough for predictions,
    /// Euclidean samples and other hyperparameters.
    Curvature,
}

/// The goodness of fit, as stored in the metadata.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FitRecord {
    SquaredErrors(Vec<f64>),
    LogLikelihood(f64),
}

/// What a posterior's file carries for its owner; nothing here reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachment {
    /// Entries of the metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tensors.
    pub tensors: Vec<SavedTensor>,
}

impl Laplace {
    /// Writes the posterior; the file appears whole or not at all.
    pub fn save(&self, path: &Path, contents: Contents) -> Result<()> {
        self.save_with(path, contents, Attachment::default())
    }

    /// Writes the posterior with an attachment.
    pub(crate) fn save_with(&self, path: &Path, contents: Contents, attachment: Attachment) -> Result<()> {
        let fit = match &self.goodness().sums {
            FitSums::SquaredErrors(errors) => FitRecord::SquaredErrors(errors.clone()),
            FitSums::LogLikelihood(value) => FitRecord::LogLikelihood(*value),
        };
        let structure = self.precision().structure();
        let description = Description::new(path, self.problem(), self.schema(), &self.prior, structure)?;
        let mut metadata = description.metadata(POSTERIOR_FORMAT, VERSION);
        metadata.insert("fit".to_string(), to_json(path, "fit", &fit)?);
        if self.family().has_weights() {
            metadata.insert(TOTAL_WEIGHT.to_string(), to_json(path, TOTAL_WEIGHT, &self.goodness().weight())?);
        }
        if let Some(recipe) = self.recipe() {
            metadata.insert(RECIPE_KEY.to_string(), recipe.to_json(path)?);
        }
        metadata.extend(attachment.metadata);
        let mut saved: Vec<SavedTensor> = prefixed("factor.", self.precision().save());
        saved.extend(attachment.tensors);
        if let Some(calibration) = self.calibration() {
            let (record, tensors) = calibrated::save(path, calibration)?;
            metadata.insert(calibrated::KEY.to_string(), record);
            saved.extend(tensors);
        }
        let (inputs, targets);
        let mut entries = description.entries();
        match (contents, self.data()) {
            (Contents::TrainingData, Some(data)) => {
                (inputs, targets) = (data.inputs().as_standard_layout(), data.targets().as_standard_layout());
                let (inputs, targets) = (inputs.as_slice().unwrap_or_default(), targets.as_slice().unwrap_or_default());
                entries.push(("inputs", vec![data.len(), data.inputs().ncols()], Values::Real(inputs)));
                entries.push(("targets", vec![data.len(), data.targets().ncols()], Values::Real(targets)));
            }
            (Contents::TrainingData, None) | (Contents::Curvature, _) => {
                let sums = self.curvature()?.save();
                let solver = self.precision().structure().solver();
                let sums = sums.ok_or(Error::Unsupported(Unsupported::SaveWithoutData(solver)))?;
                saved.extend(prefixed("sums.", sums));
            }
        }
        for tensor in &saved {
            entries.push((tensor.name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)));
        }
        metadata.insert("fingerprint".to_string(), tensors::fingerprint(&entries, &metadata));
        tensors::write(path, &entries, metadata)
    }

    /// Reads a posterior.
    pub fn load(path: &Path) -> Result<Self> {
        let mut file = TensorFile::read_with_integers(path, INDICES)?;
        check_format(path, &file)?;
        check_fingerprint(path, &file)?;
        let fit: FitRecord = from_json(path, &file, "fit")?;
        let recipe = Recipe::from_metadata(path, file.metadata.get(RECIPE_KEY))?;
        let Described { mut problem, schema, prior, structure } = Described::read(path, &mut file)?;
        let sums = match (fit, problem.family.sigma()) {
            (FitRecord::SquaredErrors(errors), Some(_)) => {
                check_size("number of squared errors", problem.model.n_outputs(), errors.len())?;
                FitSums::SquaredErrors(errors)
            }
            (FitRecord::LogLikelihood(value), None) => FitSums::LogLikelihood(value),
            (FitRecord::SquaredErrors(_), None) | (FitRecord::LogLikelihood(_), Some(_)) => {
                return Err(metadata_error(path, "fit", "does not belong to the likelihood".to_string()));
            }
        };
        let weight = match problem.family.has_weights() {
            true => from_json(path, &file, TOTAL_WEIGHT)?,
            false => problem.n_data as f64,
        };
        let fit = Fit { sums, weight };
        if file.tensors.contains_key("inputs") {
            let data = read_data(path, &mut file, &problem, &schema, problem.n_data)?;
            problem.data = Some(Arc::new(data));
        }
        let n_targets = problem.family.likelihood().n_targets(problem.model.n_outputs());
        let calibration = calibrated::load(path, &mut file, n_targets)?;
        let without_data = problem.data.is_none();
        let needed = structure.loaded_numbers(&problem);
        let advice = format!("a limit of {} would fit it", gigabytes(needed * 8e-9));
        memory::check(&format!("the {structure} posterior in {}", path.display()), needed, advice)?;
        let mut sums = Part { path, prefix: "sums.", file: &mut file };
        let curvature = if without_data { Some(structure.load_sums(&problem, &mut sums)?) } else { None };
        let mut factor = Part { path, prefix: "factor.", file: &mut file };
        let precision = structure.load(&problem, prior.precision(), &mut factor)?;
        let mut laplace = Laplace::from_parts(problem, schema, prior, fit, curvature, precision);
        laplace.set_recipe(recipe);
        laplace.set_calibration(calibration);
        laplace.stored = file.metadata.get(tensors::FINGERPRINT).cloned();
        Ok(laplace)
    }

    /// Reads a posterior and checks that it was fitted to this model.
    pub fn load_for(path: &Path, model: &dyn Model) -> Result<Self> {
        let posterior = Self::load(path)?;
        let same = all_parameters(&**posterior.model()) == all_parameters(model)
            && posterior.model().record() == model.record()
            && model.subset().is_none_or(|_| posterior.parameters() == model.parameters());
        if same {
            return Ok(posterior);
        }
        Err(Error::Posterior(PosteriorError::OtherModel {
            expected: posterior.model().description(),
            found: model.description(),
        }))
    }
}

pub(super) fn prefixed(prefix: &str, tensors: Vec<SavedTensor>) -> Vec<SavedTensor> {
    tensors.into_iter().map(|tensor| SavedTensor { name: format!("{prefix}{}", tensor.name), ..tensor }).collect()
}

/// The tensors of a file whose names share a prefix.
pub(super) struct Part<'a> {
    pub(super) path: &'a Path,
    pub(super) prefix: &'a str,
    pub(super) file: &'a mut TensorFile,
}

impl SavedTensors for Part<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.file.take(self.path, &name)?;
        if tensor.shape == shape {
            return Ok(tensor.values);
        }
        let expected = format!("expected {shape:?}");
        Err(Error::Tensor(TensorError::Shape {
            path: self.path.to_path_buf(),
            tensor: name,
            found: tensor.shape,
            expected: expected.into(),
        }))
    }

    fn has(&self, name: &str) -> bool {
        self.file.tensors.contains_key(&format!("{}{name}", self.prefix))
    }
}

fn check_format(path: &Path, file: &TensorFile) -> Result<()> {
    match file.metadata.get("format").map(String::as_str) {
        Some(POSTERIOR_FORMAT) => {}
        Some(shard::FORMAT) => {
            let problem = "is that of a part of a fit; join all parts to a posterior first";
            return Err(metadata_error(path, "format", problem.to_string()));
        }
        Some(other) => return Err(metadata_error(path, "format", format!("is `{other}`, not `{POSTERIOR_FORMAT}`"))),
        None => {
            let problem =
                format!("is missing: this is not a `{POSTERIOR_FORMAT}` file; save a fitted posterior to make one");
            return Err(metadata_error(path, "format", problem));
        }
    }
    let version = file.required(path, "version")?;
    match version.parse::<u32>() {
        Ok(VERSION) => Ok(()),
        Ok(1) => {
            let problem = "is 1, written by an earlier release without the factored precision; fit the model again";
            Err(metadata_error(path, "version", problem.to_string()))
        }
        _ => Err(metadata_error(path, "version", format!("is {version}; this release reads version {VERSION}"))),
    }
}
