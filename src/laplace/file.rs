//! A posterior in one self-contained safetensors file, version 2: the model's weights, hyperparameters, the factored
//! precision, and the training data or, without them, the raw curvature sums. Loading reads and checks; it never
//! refits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::Array2;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::CurvatureKind;
use super::fit::{Fit, Laplace, checked_temperature};
use super::options::PriorValues;
use super::problem::Problem;
use super::structure::{SavedTensor, SavedTensors, Structure, damaged};
use crate::data::{Dataset, Schema};
use crate::error::{Error, Result, Unsupported, check_size, gigabytes};
use crate::likelihood::Family;
use crate::linalg::{PackedFactor, packed_diagonal, packed_length};
use crate::map::{Model, Subset};
use crate::memory;
use crate::network::Network;
use crate::prior::{Prior, PriorMatrix, PriorMean, PriorPrecision, PriorStructure};
use crate::tensors::{self, Tensor, TensorFile, Values};

/// The `format` entry of the metadata.
const FORMAT: &str = "riemannian-laplace posterior";
/// The tensor (I64) of a posterior over some of the parameters: which.
const INDICES: &str = "indices";
/// Beyond this, whole numbers are not exact in f64.
const MOST_INDICES: f64 = (1u64 << 53) as f64;
/// The version written and read.
const VERSION: u32 = 2;

/// The tensor of prior precisions, where each weight has its own.
const PRECISION: &str = "prior.precision";
/// The tensor of the factor of an earlier posterior that is the prior, a packed triangle.
const MATRIX: &str = "prior.cholesky";
/// The metadata entry that says where the prior comes from, where it was not given as numbers.
const ORIGIN: &str = "prior_origin";
/// Its value: an earlier posterior.
const POSTERIOR: &str = "posterior";
/// The tensor of the prior mean, where it is not zero: one number, or one per weight.
const MEAN: &str = "prior.mean";

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
        let json = |key: &'static str, value: serde_json::Result<String>| {
            value.map_err(|error| metadata_error(path, key, error.to_string()))
        };
        let model = self.model();
        let record = model.record().ok_or_else(|| Error::NotSavable { model: model.description() })?;
        let fit = match self.goodness() {
            Fit::SquaredErrors(errors) => FitRecord::SquaredErrors(errors.clone()),
            Fit::LogLikelihood(value) => FitRecord::LogLikelihood(*value),
        };
        let mut metadata: BTreeMap<String, String> = [
            ("format", FORMAT.to_string()),
            ("version", VERSION.to_string()),
            ("model", record),
            ("likelihood", json("likelihood", serde_json::to_string(self.family()))?),
            ("prior", json("prior", serde_json::to_string(stored_values(self.prior())))?),
            ("structure", self.precision().structure().to_string()),
            ("n_data", self.n_data().to_string()),
            ("fit", json("fit", serde_json::to_string(&fit))?),
            ("schema", json("schema", serde_json::to_string(self.schema()))?),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into();
        metadata.extend(attachment.metadata);
        // What is as usual is left out, so that files of earlier releases and of this one agree.
        if self.temperature() != 1.0 {
            metadata.insert("temperature".to_string(), self.temperature().to_string());
        }
        if self.curvature_kind() != CurvatureKind::default() {
            metadata.insert("curvature".to_string(), self.curvature_kind().name().to_string());
        }
        let mut saved: Vec<SavedTensor> = prefixed("factor.", self.precision().save());
        saved.extend(attachment.tensors);
        let (inputs, targets);
        let theta = all_parameters(&**model);
        let mut entries = vec![("theta", vec![theta.len()], Values::Real(theta))];
        let matrix = self.prior().matrix().map(PriorMatrix::packed);
        match &matrix {
            Some(packed) => entries.push((MATRIX, vec![packed.len()], Values::Real(packed))),
            None if self.prior().structure() == PriorStructure::PerWeight => {
                entries.push((PRECISION, vec![self.prior().values().len()], Values::Real(self.prior().values())));
            }
            None => {}
        }
        if self.prior().is_earlier_posterior() {
            metadata.insert(ORIGIN.to_string(), POSTERIOR.to_string());
        }
        if !self.prior_mean().is_zero() {
            let mean = self.prior_mean().values();
            entries.push((MEAN, vec![mean.len()], Values::Real(mean)));
        }
        let indices: Vec<i64>;
        if let Some(place) = model.subset() {
            indices = place.indices.iter().map(|index| *index as i64).collect();
            entries.push((INDICES, vec![indices.len()], Values::Integer(&indices)));
            metadata.insert("weights".to_string(), place.name.to_string());
        }
        match (contents, self.data()) {
            (Contents::TrainingData, Some(data)) => {
                inputs = data.inputs().iter().copied().collect::<Vec<f64>>();
                targets = data.targets().iter().copied().collect::<Vec<f64>>();
                entries.push(("inputs", vec![data.len(), data.inputs().ncols()], Values::Real(&inputs)));
                entries.push(("targets", vec![data.len(), data.targets().ncols()], Values::Real(&targets)));
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
        let stored = file.required(path, "fingerprint")?;
        let found = file.fingerprint().to_string();
        if stored != found {
            let problem = format!("is {stored}, but the contents have {found}: the file was altered or damaged");
            return Err(metadata_error(path, "fingerprint", problem));
        }
        let family: Family = from_json(path, &file, "likelihood")?;
        let fit: FitRecord = from_json(path, &file, "fit")?;
        let schema: Schema = from_json(path, &file, "schema")?;
        let record = file.required(path, "model")?.to_string();
        let theta = file.take(path, "theta")?;
        let network = Network::from_record(&record, theta.values)
            .map_err(|error| metadata_error(path, "model", format!("cannot be used: {error}")))?;
        let mut model: Arc<dyn Model> = Arc::new(network);
        if file.tensors.contains_key(INDICES) {
            let (indices, name) = (file.take(path, INDICES)?, file.required(path, "weights")?);
            model = Arc::new(Subset::of_shared(model, whole_numbers(path, &indices)?, name)?);
        }
        family.likelihood().check_outputs(model.n_outputs()).map_err(Error::Outputs)?;
        let prior = stored_prior(path, &mut file, &*model)?;
        let temperature = stored_temperature(path, &file)?;
        let structure = file.required(path, "structure")?;
        let structure = Structure::of_solver(structure)
            .ok_or_else(|| metadata_error(path, "structure", format!("is `{structure}`, which is not known")))?;
        let fit = match (fit, family.sigma()) {
            (FitRecord::SquaredErrors(errors), Some(_)) => {
                check_size("number of squared errors", model.n_outputs(), errors.len())?;
                Fit::SquaredErrors(errors)
            }
            (FitRecord::LogLikelihood(value), None) => Fit::LogLikelihood(value),
            (FitRecord::SquaredErrors(_), None) | (FitRecord::LogLikelihood(_), Some(_)) => {
                return Err(metadata_error(path, "fit", "does not belong to the likelihood".to_string()));
            }
        };
        let n_data = file.required(path, "n_data")?;
        let n_data = match n_data.parse() {
            Ok(count) if count > 0 => count,
            _ => return Err(metadata_error(path, "n_data", format!("is `{n_data}`, not a number of data points"))),
        };
        let data = if file.tensors.contains_key("inputs") {
            let inputs = matrix(path, "inputs", file.take(path, "inputs")?)?;
            let targets = matrix(path, "targets", file.take(path, "targets")?)?;
            check_size("number of rows of `inputs`", n_data, inputs.nrows())?;
            check_size("number of columns of `inputs`", model.n_inputs(), inputs.ncols())?;
            let data = Dataset::new(inputs, targets)?.with_schema(schema.clone())?;
            data.check_targets(family.likelihood(), model.n_outputs())?;
            Some(Arc::new(data))
        } else {
            check_size("number of input names", model.n_inputs(), schema.inputs().len())?;
            None
        };
        let without_data = data.is_none();
        let kind = stored_kind(path, &file)?;
        let problem = Problem { model, family, kind, temperature, n_data, data };
        let needed = structure.loaded_numbers(&problem);
        let advice = format!("a limit of {} would fit it", gigabytes(needed * 8e-9));
        memory::check(&format!("the {structure} posterior in {}", path.display()), needed, advice)?;
        let mut sums = Part { path, prefix: "sums.", file: &mut file };
        let curvature = if without_data { Some(structure.load_sums(&problem, &mut sums)?) } else { None };
        let mut factor = Part { path, prefix: "factor.", file: &mut file };
        let precision = structure.load(&problem, prior.precision(), &mut factor)?;
        Ok(Laplace::from_parts(problem, schema, prior, fit, curvature, precision))
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
        Err(Error::OtherModel { expected: posterior.model().description(), found: model.description() })
    }
}

/// The prior precisions that are written to the metadata: not those of single weights, which are a tensor.
fn stored_values(prior: &PriorPrecision) -> &[f64] {
    match prior.structure() {
        PriorStructure::Scalar | PriorStructure::PerLayer => prior.values(),
        PriorStructure::PerWeight => &[],
    }
}

fn stored_prior(path: &Path, file: &mut TensorFile, model: &dyn Model) -> Result<Prior> {
    let unusable = |error| metadata_error(path, "prior", format!("cannot be used: {error}"));
    let values: Vec<f64> = from_json(path, file, "prior")?;
    let (groups, size) = (model.group_sizes(), model.n_params());
    let is_earlier = file.metadata.get(ORIGIN).is_some_and(|origin| origin == POSTERIOR);
    let precision = if file.tensors.contains_key(MATRIX) {
        let packed = file.take(path, MATRIX)?.values;
        check_size("number of entries of the prior's factor", packed_length(size), packed.len())?;
        damaged(packed_diagonal(&packed, size))?;
        PriorPrecision::of_posterior(PackedFactor::packed(packed, size).into(), &groups)
    } else if file.tensors.contains_key(PRECISION) {
        let values = file.take(path, PRECISION)?.values;
        let of = if is_earlier { PriorPrecision::of_diagonal_posterior } else { PriorPrecision::per_weight };
        of(values, &groups)
    } else {
        PriorValues::from(values).over(&groups)
    };
    let prior = Prior::gaussian(precision.map_err(unusable)?);
    if !file.tensors.contains_key(MEAN) {
        return Ok(prior);
    }
    let mean = file.take(path, MEAN)?.values;
    let mean = if let [mean] = mean[..] { PriorMean::Shared(mean) } else { PriorMean::from(mean) };
    prior.around(mean).map_err(unusable)
}

fn stored_kind(path: &Path, file: &TensorFile) -> Result<CurvatureKind> {
    let Some(name) = file.metadata.get("curvature") else { return Ok(CurvatureKind::default()) };
    let unknown = || metadata_error(path, "curvature", format!("is `{name}`, which is not known"));
    CurvatureKind::of_name(name).ok_or_else(unknown)
}

fn stored_temperature(path: &Path, file: &TensorFile) -> Result<f64> {
    let Some(text) = file.metadata.get("temperature") else { return Ok(1.0) };
    let temperature = text.parse().ok().and_then(|value| checked_temperature(value).ok());
    temperature.ok_or_else(|| metadata_error(path, "temperature", format!("is `{text}`, not a positive number")))
}

/// θ̂ of the whole model, of which the posterior may cover a part.
fn all_parameters(model: &dyn Model) -> &[f64] {
    model.subset().map_or_else(|| model.parameters(), |place| place.all)
}

/// Indices of parameters.
fn whole_numbers(path: &Path, tensor: &Tensor) -> Result<Vec<usize>> {
    let number = |(index, value): (usize, &f64)| match *value {
        value if value >= 0.0 && value.fract() == 0.0 && value < MOST_INDICES => Ok(value as usize),
        value => Err(Error::TensorValue {
            path: path.to_path_buf(),
            tensor: INDICES.to_string(),
            index,
            value,
            requirement: "a whole number, at least 0",
        }),
    };
    tensor.values.iter().enumerate().map(number).collect()
}

fn prefixed(prefix: &str, tensors: Vec<SavedTensor>) -> Vec<SavedTensor> {
    tensors.into_iter().map(|tensor| SavedTensor { name: format!("{prefix}{}", tensor.name), ..tensor }).collect()
}

/// The tensors of a file whose names share a prefix.
struct Part<'a> {
    path: &'a Path,
    prefix: &'static str,
    file: &'a mut TensorFile,
}

impl SavedTensors for Part<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.file.take(self.path, &name)?;
        if tensor.shape == shape {
            return Ok(tensor.values);
        }
        let expected = format!("expected {shape:?}");
        Err(Error::TensorShape { path: self.path.to_path_buf(), tensor: name, found: tensor.shape, expected })
    }

    fn has(&self, name: &str) -> bool {
        self.file.tensors.contains_key(&format!("{}{name}", self.prefix))
    }
}

fn metadata_error(path: &Path, key: &'static str, problem: String) -> Error {
    Error::Metadata { path: path.to_path_buf(), key, problem }
}

fn check_format(path: &Path, file: &TensorFile) -> Result<()> {
    match file.metadata.get("format").map(String::as_str) {
        Some(FORMAT) => {}
        Some(other) => return Err(metadata_error(path, "format", format!("is `{other}`, not `{FORMAT}`"))),
        None => {
            let problem = format!("is missing: this is not a `{FORMAT}` file; save a fitted posterior to make one");
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

fn from_json<T: DeserializeOwned>(path: &Path, file: &TensorFile, key: &'static str) -> Result<T> {
    let text = file.required(path, key)?;
    serde_json::from_str(text).map_err(|error| metadata_error(path, key, format!("cannot be read: {error}")))
}

fn matrix(path: &Path, name: &str, tensor: Tensor) -> Result<Array2<f64>> {
    let shape_error = |found: Vec<usize>| Error::TensorShape {
        path: path.to_path_buf(),
        tensor: name.to_string(),
        found,
        expected: "expected one row per data point".to_string(),
    };
    match tensor.shape[..] {
        [rows, columns] => {
            Array2::from_shape_vec((rows, columns), tensor.values).map_err(|_| shape_error(vec![rows, columns]))
        }
        _ => Err(shape_error(tensor.shape)),
    }
}
