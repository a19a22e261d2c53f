//! What one does with a posterior besides predicting: promise intervals, choose what to measure, find the rows behind a prediction,
//! export.

use std::path::PathBuf;

use ndarray::Array3;
use numpy::{IntoPyArray, PyArray1, PyArray3, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riemannian_laplace::internals::conformal::{Conditions, Score};
use riemannian_laplace::internals::evaluate::Influence;
use riemannian_laplace::internals::export::Precision;
use riemannian_laplace::internals::predict::Promised;
use riemannian_laplace::{Acquisition, ExportOptions, Goal, SuggestOptions};

use crate::errors::{OrRaise, raise};
use crate::method::MethodSettings;
use crate::posterior::Posterior;
use crate::prediction::Prediction;
use crate::work::run;

type Array<'py> = PyReadonlyArray2<'py, f64>;

/// What rows are wanted for, by name.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct GoalSettings {
    goal: String,
    by: String,
    count: usize,
    costs: Option<Vec<f64>>,
    seed: u64,
}

impl GoalSettings {
    fn goal(&self, py: Python<'_>) -> PyResult<Goal> {
        let by = match self.by.as_str() {
            "improvement" => Acquisition::ExpectedImprovement,
            "bound" => Acquisition::UpperConfidenceBound,
            "thompson" => Acquisition::Thompson,
            other => {
                let message = format!("there is no acquisition `{other}`; use one of improvement, bound, thompson");
                return Err(raise(py, "InputError", message));
            }
        };
        match self.goal.as_str() {
            "uncertainty" => Ok(Goal::Uncertainty),
            "target" => Ok(Goal::Target),
            "label" => Ok(Goal::Label),
            "maximum" => Ok(Goal::Maximum(by)),
            "minimum" => Ok(Goal::Minimum(by)),
            other => {
                let message =
                    format!("there is no goal `{other}`; use one of uncertainty, target, maximum, minimum, label");
                Err(raise(py, "InputError", message))
            }
        }
    }
}

/// Rows of a pool to measure next: a dictionary for each, and how many were left out as measured and as too many.
#[pyfunction]
#[pyo3(signature = (posterior, pool, settings, target_inputs=None))]
pub fn suggest<'py>(
    py: Python<'py>,
    posterior: &Posterior,
    pool: Array<'_>,
    settings: GoalSettings,
    target_inputs: Option<Array<'_>>,
) -> PyResult<(Vec<Bound<'py, PyDict>>, usize, usize)> {
    let goal = settings.goal(py)?;
    let options = SuggestOptions {
        count: settings.count,
        target_inputs: target_inputs.map(|inputs| inputs.as_array().to_owned()),
        costs: settings.costs,
        seed: settings.seed,
    };
    let pool = pool.as_array().to_owned();
    let chosen = run(py, None, |_| posterior.laplace().suggest(&pool, goal, &options))?;
    let rows = chosen.rows.into_iter().map(|one| {
        let row = PyDict::new(py);
        row.set_item("row", one.row)?;
        row.set_item("score", one.score)?;
        row.set_item("mean", one.mean)?;
        row.set_item("standard_deviation", one.standard_deviation)?;
        row.set_item("deviation_alone", one.deviation_alone)?;
        Ok(row)
    });
    Ok((rows.collect::<PyResult<_>>()?, chosen.measured, chosen.cut))
}

/// What leaving each training row out would change: its own loss; raw outputs at inputs (rows × inputs × outputs); the mean loss over
/// inputs and targets.
#[pyfunction]
#[pyo3(signature = (posterior, inputs=None, targets=None))]
pub fn influence<'py>(
    py: Python<'py>,
    posterior: &Posterior,
    inputs: Option<Array<'_>>,
    targets: Option<Array<'_>>,
) -> PyResult<Bound<'py, PyDict>> {
    let laplace = posterior.laplace();
    let data = match (&inputs, targets) {
        (Some(inputs), Some(targets)) => Some(posterior.columns_of(inputs.clone(), targets).or_raise(py)?),
        _ => None,
    };
    let inputs = inputs.map(|inputs| inputs.as_array().to_owned());
    let (influence, outputs, loss) = run(py, None, |_| {
        let influence = Influence::of(laplace)?;
        let outputs = inputs.as_ref().map(|inputs| influence.on_outputs(laplace, inputs)).transpose()?;
        let loss = data.as_ref().map(|data| influence.on_loss(laplace, data)).transpose()?;
        Ok((influence, outputs, loss))
    })?;
    let found = PyDict::new(py);
    found.set_item("on_itself", PyArray1::from_vec(py, influence.of_itself))?;
    if let Some(outputs) = outputs {
        let p = laplace.model().n_outputs();
        let (rows, columns) = outputs.dim();
        let cube: Bound<'_, PyArray3<f64>> =
            Array3::from_shape_fn((rows, columns / p, p), |(n, t, k)| outputs[(n, t * p + k)]).into_pyarray(py);
        found.set_item("on_outputs", cube)?;
    }
    if let Some(loss) = loss {
        found.set_item("on_loss", PyArray1::from_vec(py, loss))?;
    }
    Ok(found)
}

/// The intervals (lower and upper ends) or sets (whether each class is inside) that a calibrated posterior promises.
#[pyfunction]
#[pyo3(signature = (posterior, prediction, method, level, sets=None))]
pub fn promised<'py>(
    py: Python<'py>,
    posterior: &Posterior,
    prediction: &Prediction,
    method: MethodSettings,
    level: Option<f64>,
    sets: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let score = match sets {
        None => None,
        Some("lac") => Some(Score::Lac),
        Some("aps") => Some(Score::Aps),
        Some(other) => {
            return Err(raise(py, "InputError", format!("there are no sets `{other}`; use one of lac, aps")));
        }
    };
    let (laplace, method) = (posterior.laplace(), method.parse(py)?);
    let level = level.or(laplace.calibration().map(|known| known.level)).unwrap_or(0.9);
    let at = Conditions::default();
    let promised = run(py, None, |_| laplace.promised(&prediction.prediction, &method, level, score, &at))?;
    match promised {
        Promised::Interval(lower, upper) => {
            Ok((lower.into_pyarray(py), upper.into_pyarray(py)).into_pyobject(py)?.into_any())
        }
        Promised::Set(inside) => Ok(inside.into_pyarray(py).into_any()),
    }
}

/// Writes a posterior as one ONNX graph; the names of its outputs.
#[pyfunction]
#[pyo3(signature = (posterior, path, method, *, precision, opset, level))]
pub fn export(
    py: Python<'_>,
    posterior: &Posterior,
    path: PathBuf,
    method: MethodSettings,
    precision: &str,
    opset: i64,
    level: f64,
) -> PyResult<Vec<&'static str>> {
    let precision = match precision {
        "f32" => Precision::F32,
        "f64" => Precision::F64,
        other => return Err(raise(py, "InputError", format!("there is no precision `{other}`; use one of f32, f64"))),
    };
    let method = method.parse(py)?;
    let options = ExportOptions::default().with_precision(precision).with_opset(opset).with_level(level);
    run(py, None, |_| {
        let graph = posterior.laplace().export(&method, options)?;
        graph.save(&path)?;
        Ok(graph.outputs().to_vec())
    })
}
