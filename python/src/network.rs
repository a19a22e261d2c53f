//! Networks: read from a file, or from a description of their layers.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayLike1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riemannian_laplace::{Activation, Family, Imported, Model, OutputLink};

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
    /// The function at the end of a file's graph that belongs to the likelihood, and is left out.
    link: Option<OutputLink>,
}

impl From<riemannian_laplace::Network> for Network {
    fn from(network: riemannian_laplace::Network) -> Self {
        Self { network, notes: Vec::new(), link: None }
    }
}

impl Network {
    /// A network that was read, up to the outputs that this likelihood takes.
    fn imported(imported: Imported, family: &Family) -> riemannian_laplace::Result<Self> {
        let notes = imported.notes.clone();
        let nodes = imported.network.architecture().graph().nodes().len();
        let link = imported.link;
        let network = imported.for_family(family)?;
        // A link that is an activation under this likelihood is part of the network now.
        let kept = network.architecture().graph().nodes().len() != nodes;
        Ok(Self { network, notes, link: link.filter(|_| !kept) })
    }
}

#[pymethods]
impl Network {
    /// Reads an ONNX file, for a likelihood by name.
    #[staticmethod]
    fn from_onnx(py: Python<'_>, path: PathBuf, likelihood: &str) -> PyResult<Self> {
        let family: Family = likelihood.parse().or_raise(py)?;
        run(py, None, move |_| Self::imported(riemannian_laplace::Network::from_onnx(&path)?, &family))
    }

    /// The same from the bytes of a file, which messages call by this name.
    #[staticmethod]
    fn from_onnx_bytes(py: Python<'_>, bytes: Vec<u8>, name: PathBuf, likelihood: &str) -> PyResult<Self> {
        let family: Family = likelihood.parse().or_raise(py)?;
        run(py, None, move |_| Self::imported(riemannian_laplace::Network::from_onnx_bytes(&bytes, &name)?, &family))
    }

    /// The same function over other tensors of parameters, of these names and shapes: what was parameter i is now parameter
    /// `places[i]`, and parameters with one place become one.
    fn with_tensors(
        &self,
        py: Python<'_>,
        tensors: Vec<(String, Vec<usize>)>,
        places: PyArrayLike1<'_, i64>,
        parameters: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let places: Vec<usize> =
            places.as_array().iter().map(|place| usize::try_from(*place).unwrap_or(usize::MAX)).collect();
        let parameters = parameters.as_array().to_vec();
        let network = run(py, None, |_| self.network.with_tensors(&tensors, &places, parameters))?;
        Ok(Self { network, notes: Vec::new(), link: self.link })
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

    /// Compares the outputs with those of the network's framework, after a link (by default that of the file); the largest
    /// relative difference.
    #[pyo3(signature = (inputs, expected, link=None))]
    fn check_outputs(
        &self,
        py: Python<'_>,
        inputs: PyReadonlyArray2<'_, f64>,
        expected: PyReadonlyArray2<'_, f64>,
        link: Option<&str>,
    ) -> PyResult<f64> {
        let link = match link {
            None => self.link,
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
