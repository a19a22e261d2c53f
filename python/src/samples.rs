//! Samples of the Riemannian posterior, with their certificates.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use riemannian_laplace::internals::geodesic::{Outcome, read_samples, write_samples};

use crate::errors::OrRaise;

/// End points of geodesics, one per row. Failed ones are included, and marked as such.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct Samples {
    pub(crate) samples: Arc<riemannian_laplace::Samples>,
}

impl From<riemannian_laplace::Samples> for Samples {
    fn from(samples: riemannian_laplace::Samples) -> Self {
        Self { samples: Arc::new(samples) }
    }
}

#[pymethods]
impl Samples {
    /// Reads samples that :meth:`save` or `rla sample` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(read_samples(&path).or_raise(py)?.into())
    }

    /// Writes the samples as safetensors, as `rla sample` does.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        write_samples(&path, &self.samples).or_raise(py)
    }

    /// Weights at the end: samples × parameters.
    #[getter]
    fn theta<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        PyArray2::from_array(py, &self.samples.theta)
    }

    /// Velocities at the end.
    #[getter]
    fn velocity<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        PyArray2::from_array(py, &self.samples.velocity)
    }

    /// Evaluations of the acceleration.
    #[getter]
    fn nfev<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.samples.evaluations.iter().map(|count| *count as i64).collect::<Vec<i64>>().into_pyarray(py)
    }

    /// The relative change of vᵀGv.
    #[getter]
    fn drift<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.samples.drift)
    }

    /// Its largest on the way.
    #[getter]
    fn path_drift<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.samples.path_drift)
    }

    /// The error of each end: the largest at a data point in noise levels; inf where it was not estimated.
    #[getter]
    fn end_error<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.samples.end_error)
    }

    /// What is certified of each: "path", "law" or None.
    #[getter]
    fn certificate(&self) -> Vec<Option<&'static str>> {
        self.samples.certificate.iter().map(|certificate| certificate.map(|certificate| certificate.name())).collect()
    }

    /// 0 reached, 1 step limit, 2 not finite, 3 no logarithm.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.samples.outcome.iter().map(|outcome| outcome.code()).collect::<Vec<i64>>().into_pyarray(py)
    }

    /// Whether each is certified.
    #[getter]
    fn certified<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_slice(py, &self.samples.certified)
    }

    /// Which samples reached the end of their geodesic.
    #[getter]
    fn reached<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let reached = self.samples.outcome.iter().map(|outcome| *outcome == Outcome::Reached);
        reached.collect::<Vec<bool>>().into_pyarray(py)
    }

    /// The metric by name.
    #[getter]
    fn metric(&self) -> Option<&'static str> {
        self.samples.metric.map(|metric| metric.name())
    }

    /// The seed of the velocities.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.samples.seed
    }

    /// The width over which the metric rounds kinks.
    #[getter]
    fn smoothing(&self) -> Option<f64> {
        self.samples.smoothing
    }

    /// Samples that did not reach their end.
    #[getter]
    fn failed(&self) -> usize {
        self.samples.failed()
    }

    /// Samples that reached it without a certificate.
    #[getter]
    fn uncertified(&self) -> usize {
        self.samples.uncertified()
    }

    /// Root mean deviances at the training data, of the samples and of the linearised network, and whether the samples
    /// have left the data; for networks with kinks.
    #[getter]
    fn residuals(&self) -> Option<(f64, f64, bool)> {
        let residuals = self.samples.residuals?;
        Some((residuals.sampled, residuals.linearized, residuals.exceed_linearized()))
    }

    fn __len__(&self) -> usize {
        self.samples.len()
    }

    fn __repr__(&self) -> String {
        let (samples, metric) = (&self.samples, self.metric().unwrap_or("given"));
        format!(
            "Samples({} of {} parameters, metric {metric}, {} failed, {} uncertified)",
            samples.len(),
            samples.theta.ncols(),
            samples.failed(),
            samples.uncertified()
        )
    }
}
