//! Networks: read from a file, or from a description of their layers.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayLike1, PyReadonlyArray2};
use pyo3::prelude::*;
use riemannian_laplace::{Activation, Family, Model, OutputLink};

use crate::errors::{OrRaise, raise};
use crate::work::run;

/// What a pickle keeps: the layers as JSON, and the weights.
type Recipe<'py> = (String, Bound<'py, PyArray1<f64>>);

/// A trained network with its weights.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct Network {
    pub(crate) network: riemannian_laplace::Network,
    /// What a person should know of how a file was read.
    notes: Vec<String>,
}

impl From<riemannian_laplace::Network> for Network {
    fn from(network: riemannian_laplace::Network) -> Self {
        Self { network, notes: Vec::new() }
    }
}

#[pymethods]
impl Network {
    /// Reads an ONNX file, for a likelihood by name.
    #[staticmethod]
    fn from_onnx(py: Python<'_>, path: PathBuf, likelihood: &str) -> PyResult<Self> {
        let family: Family = likelihood.parse().or_raise(py)?;
        run(py, None, move |_| {
            let imported = riemannian_laplace::Network::from_onnx(&path)?;
            let notes = imported.notes.clone();
            Ok(Self { network: imported.for_family(&family)?, notes })
        })
    }

    /// Reads safetensors; `activation` where the file does not name it.
    #[staticmethod]
    #[pyo3(signature = (path, activation=None))]
    fn from_safetensors(py: Python<'_>, path: PathBuf, activation: Option<&str>) -> PyResult<Self> {
        let parse = |name: &str| name.parse::<Activation>().map_err(riemannian_laplace::Error::from).or_raise(py);
        let activation = activation.map(parse).transpose()?;
        Ok(riemannian_laplace::Network::load(&path, activation).or_raise(py)?.into())
    }

    /// Reads safetensors whose layers are stated in order, such as `fc1:tanh`.
    #[staticmethod]
    fn from_layers(py: Python<'_>, path: PathBuf, layers: Vec<String>) -> PyResult<Self> {
        let stated: Result<Vec<_>, _> = layers.iter().map(|layer| layer.parse()).collect();
        let stated = stated.map_err(|error| raise(py, "InputError", format!("layers: {error}")))?;
        Ok(riemannian_laplace::Network::load_layers(&path, &stated).or_raise(py)?.into())
    }

    /// The network that a record describes, with these weights.
    #[staticmethod]
    fn from_record(py: Python<'_>, record: &str, parameters: PyArrayLike1<'_, f64>) -> PyResult<Self> {
        Ok(riemannian_laplace::Network::from_record(record, parameters.as_array().to_vec()).or_raise(py)?.into())
    }

    /// The layers as JSON.
    fn record(&self) -> Option<String> {
        self.network.record()
    }

    /// Writes the network as safetensors.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.network.save(&path).or_raise(py)
    }

    /// The raw outputs, one row per input.
    fn outputs<'py>(&self, py: Python<'py>, inputs: PyReadonlyArray2<'py, f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let inputs = inputs.as_array().to_owned();
        Ok(run(py, None, move |_| self.network.outputs(inputs.view()))?.into_pyarray(py))
    }

    /// Compares the outputs with those of the network's framework, after a link; the largest relative difference.
    #[pyo3(signature = (inputs, expected, link=None))]
    fn check_outputs(
        &self,
        py: Python<'_>,
        inputs: PyReadonlyArray2<'_, f64>,
        expected: PyReadonlyArray2<'_, f64>,
        link: Option<&str>,
    ) -> PyResult<f64> {
        let link = match link {
            None => None,
            Some("softmax") => Some(OutputLink::Softmax),
            Some("sigmoid") => Some(OutputLink::Sigmoid),
            Some(other) => return Err(raise(py, "InputError", format!("there is no link `{other}`"))),
        };
        let (inputs, expected) = (inputs.as_array().to_owned(), expected.as_array().to_owned());
        run(py, None, move |_| self.network.check_outputs(inputs.view(), expected.view(), link))
    }

    /// The flat weights θ̂.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.network.parameters())
    }

    /// The names and sizes of the tensors of θ̂, in order.
    #[getter]
    fn tensors(&self) -> Vec<(String, usize)> {
        self.network.tensors().into_iter().map(|tensor| (tensor.name, tensor.size)).collect()
    }

    /// The number of inputs per point.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.network.n_inputs()
    }

    /// The number of outputs per point.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.network.n_outputs()
    }

    /// The number of weights.
    #[getter]
    fn n_params(&self) -> usize {
        self.network.n_params()
    }

    /// The layers in words.
    #[getter]
    fn description(&self) -> String {
        self.network.architecture().to_string()
    }

    /// What a person should know of how a file was read.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn __repr__(&self) -> String {
        format!("Network({}, {} parameters)", self.network.architecture(), self.network.n_params())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Recipe<'py>)> {
        let record = self.network.record().unwrap_or_default();
        let make = py.get_type::<Self>().getattr("from_record")?;
        Ok((make, (record, self.parameters(py))))
    }
}
