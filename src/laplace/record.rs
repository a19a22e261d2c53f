//! What a file says of a fit besides its numbers: the model, the likelihood, the prior, the structure, the columns. A
//! posterior and a part of a fit are described in the same words.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::Array2;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CurvatureKind;
use super::fit::checked_temperature;
use super::options::PriorValues;
use super::problem::Problem;
use super::structure::{Structure, damaged};
use crate::data::{Dataset, Schema};
use crate::error::{Error, PosteriorError, Result, TensorError, check_size};
use crate::likelihood::Family;
use crate::linalg::{PackedFactor, packed_diagonal, packed_length};
use crate::map::{Model, Subset};
use crate::network::Network;
use crate::prior::{Prior, PriorMatrix, PriorMean, PriorPrecision, PriorStructure};
use crate::tensors::{Entry, Tensor, TensorFile, Values};

/// The tensor (I64) of a posterior over some of the parameters: which.
pub(super) const INDICES: &str = "indices";
/// Beyond this, whole numbers are not exact in f64.
const MOST_WHOLE: f64 = (1u64 << 53) as f64;
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

/// A fit's description, to be written.
pub(super) struct Description<'a> {
    metadata: BTreeMap<String, String>,
    model: &'a dyn Model,
    prior: &'a Prior,
    matrix: Option<Vec<f64>>,
    indices: Option<Vec<i64>>,
}

impl<'a> Description<'a> {
    /// Of a problem, with its columns, its prior and its structure. The path is for messages.
    pub(super) fn new(
        path: &Path,
        problem: &'a Problem,
        schema: &Schema,
        prior: &'a Prior,
        structure: Structure,
    ) -> Result<Self> {
        let (model, precision) = (&*problem.model, prior.precision());
        let record = model
            .record()
            .ok_or_else(|| Error::Posterior(PosteriorError::NotSavable { model: model.description() }))?;
        let mut metadata: BTreeMap<String, String> = [
            ("model", record),
            ("likelihood", to_json(path, "likelihood", &problem.family)?),
            ("prior", to_json(path, "prior", &stored_values(precision))?),
            ("structure", structure.to_string()),
            ("n_data", problem.n_data.to_string()),
            ("schema", to_json(path, "schema", schema)?),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into();
        // What is as usual is left out, so that files of earlier releases and of this one agree.
        if problem.temperature != 1.0 {
            metadata.insert("temperature".to_string(), problem.temperature.to_string());
        }
        if problem.kind != CurvatureKind::default() {
            metadata.insert("curvature".to_string(), problem.kind.name().to_string());
        }
        if precision.is_earlier_posterior() {
            metadata.insert(ORIGIN.to_string(), POSTERIOR.to_string());
        }
        let subset = model.subset();
        if let Some(place) = &subset {
            metadata.insert("weights".to_string(), place.name.to_string());
        }
        let indices = subset.map(|place| place.indices.iter().map(|index| *index as i64).collect());
        Ok(Self { metadata, model, prior, matrix: precision.matrix().map(PriorMatrix::packed), indices })
    }

    /// The metadata of a file of this format and version.
    pub(super) fn metadata(&self, format: &str, version: u32) -> BTreeMap<String, String> {
        let mut metadata = self.metadata.clone();
        metadata.insert("format".to_string(), format.to_string());
        metadata.insert("version".to_string(), version.to_string());
        metadata
    }

    /// The tensors.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        let theta = all_parameters(self.model);
        let mut entries = vec![("theta", vec![theta.len()], Values::Real(theta))];
        let precision = self.prior.precision();
        match &self.matrix {
            Some(packed) => entries.push((MATRIX, vec![packed.len()], Values::Real(packed))),
            None if precision.structure() == PriorStructure::PerWeight => {
                entries.push((PRECISION, vec![precision.values().len()], Values::Real(precision.values())));
            }
            None => {}
        }
        if !self.prior.mean().is_zero() {
            let mean = self.prior.mean().values();
            entries.push((MEAN, vec![mean.len()], Values::Real(mean)));
        }
        if let Some(indices) = &self.indices {
            entries.push((INDICES, vec![indices.len()], Values::Integer(indices)));
        }
        entries
    }
}

/// A fit's description, as read; its problem has no data.
pub(super) struct Described {
    pub(super) problem: Problem,
    pub(super) schema: Schema,
    pub(super) prior: Prior,
    pub(super) structure: Structure,
}

impl Described {
    /// Takes it from a file.
    pub(super) fn read(path: &Path, file: &mut TensorFile) -> Result<Self> {
        let family: Family = from_json(path, file, "likelihood")?;
        let schema: Schema = from_json(path, file, "schema")?;
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
        check_size("number of input names", model.n_inputs(), schema.inputs().len())?;
        let prior = stored_prior(path, file, &*model)?;
        let temperature = stored_temperature(path, file)?;
        let structure = file.required(path, "structure")?;
        let structure = Structure::of_solver(structure)
            .ok_or_else(|| metadata_error(path, "structure", format!("is `{structure}`, which is not known")))?;
        let n_data = file.required(path, "n_data")?;
        let n_data = match n_data.parse() {
            Ok(count) if count > 0 && count <= MOST_WHOLE as usize => count,
            _ => return Err(metadata_error(path, "n_data", format!("is `{n_data}`, not a number of data points"))),
        };
        let kind = stored_kind(path, file)?;
        Ok(Self { problem: Problem { model, family, kind, temperature, n_data, data: None }, schema, prior, structure })
    }
}

/// Compares a file's fingerprint with its contents.
pub(super) fn check_fingerprint(path: &Path, file: &TensorFile) -> Result<()> {
    let (stored, found) = (file.required(path, "fingerprint")?, file.fingerprint());
    if stored == found {
        return Ok(());
    }
    let problem = format!("is {stored}, but the contents have {found}: the file was altered or damaged");
    Err(metadata_error(path, "fingerprint", problem))
}

/// The data points in a file, of which there must be so many.
pub(super) fn read_data(
    path: &Path,
    file: &mut TensorFile,
    problem: &Problem,
    schema: &Schema,
    n_rows: usize,
) -> Result<Dataset> {
    let inputs = matrix(path, "inputs", file.take(path, "inputs")?)?;
    let targets = matrix(path, "targets", file.take(path, "targets")?)?;
    check_size("number of rows of `inputs`", n_rows, inputs.nrows())?;
    check_size("number of columns of `inputs`", problem.model.n_inputs(), inputs.ncols())?;
    let data = Dataset::new(inputs, targets)?.with_schema(schema.clone())?;
    data.check_targets(&problem.family, problem.model.n_outputs())?;
    Ok(data)
}

/// A value of the metadata as JSON.
pub(super) fn to_json(path: &Path, key: &'static str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| metadata_error(path, key, error.to_string()))
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
pub(super) fn all_parameters(model: &dyn Model) -> &[f64] {
    model.subset().map_or_else(|| model.parameters(), |place| place.all)
}

/// Indices of parameters.
fn whole_numbers(path: &Path, tensor: &Tensor) -> Result<Vec<usize>> {
    let number = |(index, value): (usize, &f64)| match *value {
        value if value >= 0.0 && value.fract() == 0.0 && value < MOST_WHOLE => Ok(value as usize),
        value => Err(Error::Tensor(TensorError::Value {
            path: path.to_path_buf(),
            tensor: INDICES.to_string(),
            index,
            value,
            requirement: "a whole number, at least 0",
        })),
    };
    tensor.values.iter().enumerate().map(number).collect()
}

pub(super) fn metadata_error(path: &Path, key: &'static str, problem: String) -> Error {
    Error::Metadata { path: path.to_path_buf(), key, problem }
}

pub(super) fn from_json<T: DeserializeOwned>(path: &Path, file: &TensorFile, key: &'static str) -> Result<T> {
    let text = file.required(path, key)?;
    serde_json::from_str(text).map_err(|error| metadata_error(path, key, format!("cannot be read: {error}")))
}

fn matrix(path: &Path, name: &str, tensor: Tensor) -> Result<Array2<f64>> {
    let shape_error = |found: Vec<usize>| {
        Error::Tensor(TensorError::Shape {
            path: path.to_path_buf(),
            tensor: name.to_string(),
            found,
            expected: "expected one row per data point".into(),
        })
    };
    match tensor.shape[..] {
        [rows, columns] => {
            Array2::from_shape_vec((rows, columns), tensor.values).map_err(|_| shape_error(vec![rows, columns]))
        }
        _ => Err(shape_error(tensor.shape)),
    }
}
