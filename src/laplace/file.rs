//! A posterior in one self-contained safetensors file: weights, hyperparameters, and the training data (from which the
//! curvature is rebuilt exactly) or, without them, the curvature itself.

use std::collections::BTreeMap;
use std::path::Path;

use faer::Mat;
use ndarray::Array2;
use serde::de::DeserializeOwned;

use super::curvature::Curvature;
use super::{Fit, FitOptions, Laplace, SolverChoice};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::likelihood::Family;
use crate::linalg::mirror_lower;
use crate::network::{Architecture, Network};
use crate::prior::PriorPrecision;
use crate::tensors::{self, Tensor, TensorFile, Values};

/// What the `format` entry of the metadata says.
const FORMAT: &str = "riemannian-laplace posterior";
/// The version written; every version up to it is read.
const VERSION: u32 = 1;

/// What a saved posterior holds beside weights and hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// The training data: the file can do everything, Riemannian metrics included.
    #[default]
    TrainingData,
    /// The D × D curvature instead of the data, for posteriors that must not carry them: predictions and Euclidean
    /// samples only.
    Curvature,
}

impl Laplace {
    /// Writes the posterior; the file appears whole or not at all.
    pub fn save(&self, path: &Path, contents: Contents) -> Result<()> {
        let json = |key: &'static str, value: serde_json::Result<String>| {
            value.map_err(|error| Error::Metadata { path: path.to_path_buf(), key, problem: error.to_string() })
        };
        let metadata = BTreeMap::from([
            ("format".to_string(), FORMAT.to_string()),
            ("version".to_string(), VERSION.to_string()),
            ("fingerprint".to_string(), self.network.fingerprint()),
            ("architecture".to_string(), json("architecture", serde_json::to_string(self.network.architecture()))?),
            ("likelihood".to_string(), json("likelihood", serde_json::to_string(&self.family))?),
            ("prior".to_string(), json("prior", serde_json::to_string(&self.prior))?),
            ("solver".to_string(), self.precision().solver().to_string()),
            ("n_data".to_string(), self.n_data.to_string()),
        ]);
        let theta = self.network.parameters();
        let mut entries = vec![("theta", vec![theta.len()], Values::Real(theta))];
        let (inputs, targets, curvatures);
        let (log_likelihood, errors);
        let names: Vec<String> =
            (0..self.network.architecture().n_outputs()).map(|p| format!("curvature.{p}")).collect();
        match (contents, &self.data, &self.curvature) {
            (Contents::TrainingData, Some(data), _) => {
                inputs = data.inputs().iter().copied().collect::<Vec<f64>>();
                targets = data.targets().iter().copied().collect::<Vec<f64>>();
                entries.push(("inputs", vec![data.len(), data.inputs().ncols()], Values::Real(&inputs)));
                entries.push(("targets", vec![data.len(), data.targets().ncols()], Values::Real(&targets)));
            }
            (_, _, Curvature::Weight(parts)) => {
                curvatures = parts.iter().map(flatten).collect::<Vec<_>>();
                for (name, values) in names.iter().zip(&curvatures) {
                    entries.push((name.as_str(), vec![theta.len(), theta.len()], Values::Real(values)));
                }
                match &self.fit {
                    Fit::SquaredErrors(values) => {
                        errors = values.clone();
                        entries.push(("squared_errors", vec![errors.len()], Values::Real(&errors)));
                    }
                    Fit::LogLikelihood(value) => {
                        log_likelihood = [*value];
                        entries.push(("log_likelihood", vec![1], Values::Real(&log_likelihood)));
                    }
                }
            }
            (_, _, Curvature::Function(_)) => {
                return Err(Error::Setting {
                    name: "the solver",
                    value: "function-space".to_string(),
                    requirement: "weight-space when the posterior is saved without its training data",
                });
            }
        }
        tensors::write(path, &entries, metadata)
    }

    /// Reads a posterior. The curvature is rebuilt from the training data, or taken from the file.
    pub fn load(path: &Path) -> Result<Self> {
        let mut file = TensorFile::read(path)?;
        check_format(path, &file)?;
        let architecture: Architecture = from_json(path, &file, "architecture")?;
        let family: Family = from_json(path, &file, "likelihood")?;
        let prior: PriorPrecision = from_json(path, &file, "prior")?;
        if prior.values().is_empty() {
            return Err(metadata_error(path, "prior", "holds no values".to_string()));
        }
        let theta = file.take(path, "theta")?;
        let network = Network::new(architecture, theta.values)?;
        let stored = file.required(path, "fingerprint")?;
        if stored != network.fingerprint() {
            let found = network.fingerprint();
            let problem =
                format!("is {stored}, but that of the weights in the file is {found}: it was altered or damaged");
            return Err(metadata_error(path, "fingerprint", problem));
        }
        let prior = match prior.values() {
            [value] => PriorPrecision::scalar(*value, &network.architecture().layer_params()),
            values => PriorPrecision::per_group(values.to_vec(), &network.architecture().layer_params()),
        };
        let prior = prior.map_err(|error| metadata_error(path, "prior", format!("cannot be used: {error}")))?;
        if !file.tensors.contains_key("inputs") {
            return Self::from_curvature(path, file, network, family, prior);
        }
        let inputs = matrix(path, "inputs", file.take(path, "inputs")?)?;
        let targets = matrix(path, "targets", file.take(path, "targets")?)?;
        let solver = match file.required(path, "solver")? {
            "weight-space" => SolverChoice::WeightSpace,
            "function-space" => SolverChoice::FunctionSpace,
            other => return Err(metadata_error(path, "solver", format!("is `{other}`, which is not known"))),
        };
        let options = FitOptions { prior_precision: prior.values().to_vec(), solver };
        Laplace::fit(network, Dataset::new(inputs, targets)?, family, &options)
    }

    /// Reads a posterior and checks that it was fitted to this network.
    pub fn load_for(path: &Path, network: &Network) -> Result<Self> {
        let posterior = Self::load(path)?;
        let (expected, found) = (posterior.network.fingerprint(), network.fingerprint());
        if expected == found { Ok(posterior) } else { Err(Error::Fingerprint { expected, found }) }
    }

    fn from_curvature(
        path: &Path,
        mut file: TensorFile,
        network: Network,
        family: Family,
        prior: PriorPrecision,
    ) -> Result<Self> {
        let (size, n_outputs) = (network.parameters().len(), network.architecture().n_outputs());
        family.likelihood().check_outputs(n_outputs).map_err(Error::Outputs)?;
        // One matrix for all outputs; or one for each, which serve a common σ as well.
        let split = super::curvature::sigmas(&family).len() > 1 || file.tensors.contains_key("curvature.1");
        let mut parts = Vec::new();
        for part in 0..if split { n_outputs } else { 1 } {
            let name = format!("curvature.{part}");
            let tensor = file.take_rows(path, &name, size, "one row and column a parameter")?;
            if tensor.shape[0] != size {
                let expected = format!("expected [{size}, {size}]");
                return Err(Error::TensorShape {
                    path: path.to_path_buf(),
                    tensor: name,
                    found: tensor.shape,
                    expected,
                });
            }
            parts.push(Mat::from_fn(size, size, |i, j| tensor.values[i * size + j]));
        }
        let fit = match family {
            Family::Gaussian(_) => {
                let errors = file.take(path, "squared_errors")?;
                crate::error::check_size("number of squared errors", n_outputs, errors.values.len())?;
                Fit::SquaredErrors(errors.values)
            }
            _ => Fit::LogLikelihood(file.take(path, "log_likelihood")?.values.iter().sum()),
        };
        let n_data = file.required(path, "n_data")?;
        let n_data = match n_data.parse() {
            Ok(count) if count > 0 => count,
            _ => return Err(metadata_error(path, "n_data", format!("is `{n_data}`, not a number of data points"))),
        };
        let curvature = Curvature::Weight(parts);
        let posterior = curvature.posterior(&network, &family, &prior)?;
        Ok(Self { network, data: None, n_data, family, prior, fit, curvature, posterior })
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
            let problem = format!("is missing: this is not a `{FORMAT}` file; `rla fit` writes one");
            return Err(metadata_error(path, "format", problem));
        }
    }
    let version = file.required(path, "version")?;
    match version.parse::<u32>() {
        Ok(number) if (1..=VERSION).contains(&number) => Ok(()),
        _ => Err(metadata_error(path, "version", format!("is {version}; this program reads up to {VERSION}"))),
    }
}

fn from_json<T: DeserializeOwned>(path: &Path, file: &TensorFile, key: &'static str) -> Result<T> {
    let text = file.required(path, key)?;
    serde_json::from_str(text).map_err(|error| metadata_error(path, key, format!("cannot be read: {error}")))
}

/// A symmetric matrix, row by row, from its lower triangle.
fn flatten(matrix: &Mat<f64>) -> Vec<f64> {
    let mut full = matrix.clone();
    mirror_lower(&mut full);
    full.col_iter().flat_map(|column| column.iter().copied().collect::<Vec<f64>>()).collect()
}

fn matrix(path: &Path, name: &str, tensor: Tensor) -> Result<Array2<f64>> {
    let shape_error = |found: Vec<usize>| Error::TensorShape {
        path: path.to_path_buf(),
        tensor: name.to_string(),
        found,
        expected: "expected one row a data point".to_string(),
    };
    match tensor.shape[..] {
        [rows, columns] => {
            Array2::from_shape_vec((rows, columns), tensor.values).map_err(|_| shape_error(vec![rows, columns]))
        }
        _ => Err(shape_error(tensor.shape)),
    }
}
