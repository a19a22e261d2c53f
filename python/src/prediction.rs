//! Predictions: moments, intervals, draws, densities and scores.

use ndarray::{Array2, Array3};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riemannian_laplace::Scores;

use crate::errors::OrRaise;
use crate::work::run;

/// A prediction: one row per input, one column per target or class.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct Prediction {
    pub(crate) prediction: riemannian_laplace::Prediction,
}

type Matrix<'py> = Bound<'py, PyArray2<f64>>;

#[pymethods]
impl Prediction {
    /// The mean of y, or the class probabilities.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> Matrix<'py> {
        PyArray2::from_array(py, &self.prediction.mean)
    }

    /// What more data would reduce.
    #[getter]
    fn epistemic_variance<'py>(&self, py: Python<'py>) -> Matrix<'py> {
        PyArray2::from_array(py, &self.prediction.epistemic_variance)
    }

    /// What more data would not reduce.
    #[getter]
    fn aleatoric_variance<'py>(&self, py: Python<'py>) -> Matrix<'py> {
        PyArray2::from_array(py, &self.prediction.aleatoric_variance)
    }

    /// Their sum.
    #[getter]
    fn total_variance<'py>(&self, py: Python<'py>) -> Matrix<'py> {
        PyArray2::from_array(py, &self.prediction.total_variance)
    }

    /// The root of the total variance.
    #[getter]
    fn standard_deviation<'py>(&self, py: Python<'py>) -> Matrix<'py> {
        self.prediction.standard_deviation().into_pyarray(py)
    }

    /// The entropy of the class probabilities, where samples were drawn.
    #[getter]
    fn entropy<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.prediction.entropy.as_ref().map(|entropy| PyArray1::from_array(py, entropy))
    }

    /// The mutual information of class and weights, where samples were drawn.
    #[getter]
    fn mutual_information<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.prediction.mutual_information.as_ref().map(|information| PyArray1::from_array(py, information))
    }

    /// How many Riemannian samples were requested, failed, and are uncertified.
    #[getter]
    fn samples(&self) -> Option<(usize, usize, usize)> {
        self.prediction.samples.as_ref().map(|report| (report.requested, report.failed, report.uncertified))
    }

    /// The Gaussian over the raw outputs of a linearised prediction, without observation noise: mean and covariances.
    fn latent<'py>(&self, py: Python<'py>) -> PyResult<Option<(Matrix<'py>, Bound<'py, PyArray3<f64>>)>> {
        let latent = self.prediction.latent().or_raise(py)?;
        Ok(latent.map(|latent| (latent.mean.into_pyarray(py), latent.covariance.into_pyarray(py))))
    }

    /// The interval that contains y with this probability.
    fn interval<'py>(&self, py: Python<'py>, level: f64) -> PyResult<(Matrix<'py>, Matrix<'py>)> {
        let (lower, upper) = run(py, None, |_| self.prediction.interval(level))?;
        Ok((lower.into_pyarray(py), upper.into_pyarray(py)))
    }

    /// Quantiles of y, one matrix per level.
    fn quantiles<'py>(&self, py: Python<'py>, levels: Vec<f64>) -> PyResult<Vec<Matrix<'py>>> {
        let quantiles: Vec<Array2<f64>> = run(py, None, |_| self.prediction.quantiles(&levels))?;
        Ok(quantiles.into_iter().map(|quantile| quantile.into_pyarray(py)).collect())
    }

    /// Draws of y, noise included: draws × points × targets.
    fn draws<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let draws: Array3<f64> = run(py, None, |_| self.prediction.draws(count, seed))?;
        Ok(draws.into_pyarray(py))
    }

    /// Draws of the mean of y given the weights (probabilities, for classes): draws × points × targets or classes.
    fn mean_draws<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let draws: Array3<f64> = run(py, None, |_| self.prediction.mean_draws(count, seed))?;
        Ok(draws.into_pyarray(py))
    }

    /// log p(y) at each point.
    fn log_densities<'py>(
        &self,
        py: Python<'py>,
        targets: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let targets = targets.as_array().to_owned();
        Ok(run(py, None, move |_| self.prediction.log_densities(&targets))?.into_pyarray(py))
    }

    /// Scores at the observed targets.
    fn scores<'py>(&self, py: Python<'py>, targets: PyReadonlyArray2<'py, f64>) -> PyResult<Bound<'py, PyDict>> {
        let targets = targets.as_array().to_owned();
        let scores = run(py, None, move |_| Scores::of(&self.prediction, &targets))?;
        let values = PyDict::new(py);
        match scores {
            Scores::Regression(scores) => {
                values.set_item("n", scores.n)?;
                values.set_item("mse", scores.mse)?;
                values.set_item("rmse", scores.rmse)?;
                values.set_item("nll", scores.nll)?;
                values.set_item("crps", scores.crps)?;
                values.set_item("coverage_90", scores.coverage_90)?;
            }
            Scores::Classes(scores) => {
                values.set_item("n", scores.n)?;
                values.set_item("nll", scores.nll)?;
                values.set_item("accuracy", scores.accuracy)?;
                values.set_item("brier", scores.brier)?;
                values.set_item("ece", scores.ece)?;
            }
            Scores::Counts(scores) => {
                values.set_item("n", scores.n)?;
                values.set_item("mse", scores.mse)?;
                values.set_item("rmse", scores.rmse)?;
                values.set_item("nll", scores.nll)?;
                values.set_item("coverage_90", scores.coverage_90)?;
            }
        }
        Ok(values)
    }

    fn __repr__(&self) -> String {
        let (points, columns) = self.prediction.mean.dim();
        let what = if self.prediction.class_probabilities().is_some() { "classes" } else { "targets" };
        format!("Prediction({points} points, {columns} {what})")
    }
}
