//! The log marginal likelihood as a function of the hyperparameters, with its derivatives.

use pyo3::prelude::*;
use riemannian_laplace::internals::evidence;

use crate::errors::OrRaise;

/// The evidence of a posterior at any prior precision and noise, without a new fit.
#[pyclass(frozen, module = "riemannian_laplace._core")]
pub struct Evidence {
    pub(crate) evidence: evidence::Evidence,
}

#[pymethods]
impl Evidence {
    /// The log marginal likelihood, and its derivatives by prior precision and by noise.
    fn evaluate(
        &self,
        py: Python<'_>,
        prior_precision: Vec<f64>,
        sigma: Vec<f64>,
    ) -> PyResult<(f64, Vec<f64>, Vec<f64>)> {
        let at = self.evidence.evaluate(&prior_precision, &sigma).or_raise(py)?;
        Ok((at.log_marginal_likelihood, at.by_prior_precision, at.by_sigma))
    }
}
