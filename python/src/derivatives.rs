//! A model whose outputs and derivatives Python computes.
//!
//! The Python object has the methods `points(inputs)`, whose result stands for the inputs from then on, `outputs([theta],
//! points)`, `jet([theta, velocity], points)` and `jacobian([theta], points)`. Outputs are an array of P × N; a jet has three of
//! them, f, ḟ and f̈; a Jacobian is P × N × D.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::ArrayView2;
use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use riemannian_laplace::internals::map::{Explicit, ExplicitMap, Group, Jet, Map};
use riemannian_laplace::{Error, Model, Result};

/// What Python raised last, for the error that the engine reports.
static FAILURE: Mutex<Option<PyErr>> = Mutex::new(None);

/// Takes what Python raised last.
pub fn take_failure() -> Option<PyErr> {
    FAILURE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A trained model whose derivatives are computed in Python.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct DerivedModel {
    pub(crate) model: Arc<Callbacks>,
}

#[pymethods]
impl DerivedModel {
    /// A Python object with the methods above, θ̂, the names and sizes of its tensors, the inputs and outputs of a point, and
    /// a few words.
    #[new]
    fn new(
        derivatives: Py<PyAny>,
        parameters: Vec<f64>,
        tensors: Vec<(String, usize)>,
        n_inputs: usize,
        n_outputs: usize,
        description: String,
    ) -> Self {
        let tensors = tensors.into_iter().map(|(name, size)| Group { name, size }).collect();
        let model = Callbacks { derivatives, parameters, tensors, n_inputs, n_outputs, description };
        Self { model: Arc::new(model) }
    }

    /// The number of outputs per point.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.model.n_outputs
    }

    /// Nothing: there is no file.
    #[getter]
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn __repr__(&self) -> String {
        format!("DerivedModel({}, {} parameters)", self.model.description, self.model.parameters.len())
    }
}

/// The same as the engine sees it.
pub struct Callbacks {
    derivatives: Py<PyAny>,
    parameters: Vec<f64>,
    tensors: Vec<Group>,
    n_inputs: usize,
    n_outputs: usize,
    description: String,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.description)
    }
}

/// The model as the engine's, which it may share.
#[derive(Debug, Clone)]
pub struct Shared(pub Arc<Callbacks>);

impl Model for Shared {
    fn parameters(&self) -> &[f64] {
        &self.0.parameters
    }

    fn groups(&self) -> Vec<Group> {
        vec![Group { name: "parameters".to_string(), size: self.0.parameters.len() }]
    }

    fn tensors(&self) -> Vec<Group> {
        self.0.tensors.clone()
    }

    fn n_inputs(&self) -> usize {
        self.0.n_inputs
    }

    fn n_outputs(&self) -> usize {
        self.0.n_outputs
    }

    fn bind(&self, inputs: ArrayView2<'_, f64>) -> Result<Arc<dyn Map>> {
        if inputs.ncols() != self.0.n_inputs {
            let what = "number of input columns".to_string();
            return Err(Error::Size { what, expected: self.0.n_inputs, found: inputs.ncols() });
        }
        let points = Python::attach(|py| {
            let inputs = PyArray2::from_array(py, &inputs);
            self.0.derivatives.call_method1(py, "points", (inputs,))
        });
        let points = points.map_err(|error| Error::Architecture {
            what: self.0.description.clone(),
            problem: format!("does not take these inputs: {error}"),
        })?;
        Ok(Arc::new(Explicit(AtPoints { model: Arc::clone(&self.0), points, n_points: inputs.nrows() })))
    }

    fn numbers_per_point(&self, columns: usize) -> f64 {
        (self.0.parameters.len() * (self.0.n_outputs + 2 * columns)) as f64
    }

    fn description(&self) -> String {
        self.0.description.clone()
    }
}

/// The model at N inputs.
struct AtPoints {
    model: Arc<Callbacks>,
    points: Py<PyAny>,
    n_points: usize,
}

impl fmt::Debug for AtPoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} at {} points", self.model, self.n_points)
    }
}

impl AtPoints {
    /// Calls a method with vectors and the points. What it raises is kept, and the numbers are NaN, which the engine reports.
    fn call(&self, method: &str, vectors: &[&[f64]], size: usize) -> Vec<f64> {
        let called = Python::attach(|py| -> PyResult<Vec<f64>> {
            let vectors: Vec<_> = vectors.iter().map(|vector| PyArray1::from_slice(py, vector)).collect();
            let result = self.model.derivatives.call_method1(py, method, (vectors, &self.points))?;
            let array: PyReadonlyArrayDyn<'_, f64> = result.extract(py)?;
            let numbers: Vec<f64> = array.as_array().iter().copied().collect();
            match numbers.len() == size {
                true => Ok(numbers),
                false => {
                    let message = format!("{method} gave {} numbers, not {size}", numbers.len());
                    Err(pyo3::exceptions::PyValueError::new_err(message))
                }
            }
        });
        called.unwrap_or_else(|error| {
            *FAILURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            vec![f64::NAN; size]
        })
    }

    fn size(&self) -> usize {
        self.n_points * self.model.n_outputs
    }
}

impl ExplicitMap for AtPoints {
    fn n_params(&self) -> usize {
        self.model.parameters.len()
    }

    fn n_points(&self) -> usize {
        self.n_points
    }

    fn n_outputs(&self) -> usize {
        self.model.n_outputs
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64]) {
        outputs.copy_from_slice(&self.call("outputs", &[theta], self.size()));
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        let numbers = self.call("jet", &[theta, velocity], 3 * self.size());
        let (values, derivatives) = numbers.split_at(self.size());
        let (first, second) = derivatives.split_at(self.size());
        if !jet.outputs.is_empty() {
            jet.outputs.copy_from_slice(values);
        }
        jet.first.copy_from_slice(first);
        jet.second.copy_from_slice(second);
    }

    fn jacobian(&self, theta: &[f64], mut jacobian: faer::MatMut<'_, f64>) {
        let params = self.n_params();
        let numbers = self.call("jacobian", &[theta], self.size() * params);
        for (row, entries) in numbers.chunks_exact(params.max(1)).enumerate() {
            entries.iter().enumerate().for_each(|(d, entry)| jacobian[(row, d)] = *entry);
        }
    }
}
