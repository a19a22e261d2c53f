//! Leave-one-out cross-validation, point by point.

use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use riemannian_laplace::internals::evaluate;

use crate::errors::OrRaise;

/// Leave-one-out of one way to predict: every data point predicted by the others, without refitting.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct LeaveOneOut {
    pub(crate) loo: evaluate::LeaveOneOut,
}

#[pymethods]
impl LeaveOneOut {
    /// Σ log p(yₙ | y₋ₙ), in nats; greater is better.
    #[getter]
    fn elpd_loo(&self) -> f64 {
        self.loo.elpd()
    }

    /// Its standard error.
    #[getter]
    fn se(&self) -> f64 {
        self.loo.standard_error()
    }

    /// The effective number of parameters.
    #[getter]
    fn p_loo(&self) -> f64 {
        self.loo.p_loo()
    }

    /// The largest Pareto k̂; above 0.7 a point's score is unreliable.
    #[getter]
    fn k_max(&self) -> f64 {
        self.loo.k_max()
    }

    /// The number of points whose score is unreliable.
    #[getter]
    fn n_k_above_0_7(&self) -> usize {
        self.loo.unreliable()
    }

    /// The share of left-out targets inside their 90 % intervals; none for classes.
    #[getter]
    fn pit_coverage_90(&self) -> Option<f64> {
        self.loo.coverage(0.9)
    }

    /// The method: map, glm, nn or riemannian.
    #[getter]
    fn method(&self) -> String {
        self.loo.method.clone()
    }

    /// How it was computed: in closed form, or by importance sampling.
    #[getter]
    fn estimator(&self) -> &'static str {
        self.loo.estimator.name()
    }

    /// log p(yₙ | y₋ₙ) of each point.
    #[getter]
    fn pointwise<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.loo.pointwise)
    }

    /// log p(yₙ | y) of each point, by the posterior of all data.
    #[getter]
    fn with_all_data<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.loo.with_all_data)
    }

    /// The Pareto k̂ of each point.
    #[getter]
    fn k<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.loo.k)
    }

    /// The probability of smaller values than the observed ones, each without its point; none for classes.
    #[getter]
    fn pit<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray2<f64>>> {
        self.loo.ranks.as_ref().map(|ranks| PyArray2::from_array(py, ranks))
    }

    /// What to do about scores that are unreliable or poor.
    #[getter]
    fn advice(&self) -> Vec<String> {
        self.loo.advice()
    }

    /// The difference of elpd from another one on the same data, and its standard error.
    fn minus(&self, py: Python<'_>, other: &Self) -> PyResult<(f64, f64)> {
        let comparison = self.loo.minus(&other.loo).or_raise(py)?;
        Ok((comparison.difference, comparison.standard_error))
    }

    fn __repr__(&self) -> String {
        let loo = &self.loo;
        format!(
            "LeaveOneOut({}, elpd {:.2} ± {:.2}, p {:.2})",
            loo.method,
            loo.elpd(),
            loo.standard_error(),
            loo.p_loo()
        )
    }
}
