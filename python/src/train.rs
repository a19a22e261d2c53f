//! Training a small network with the engine's defaults.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use riemannian_laplace::internals::evaluate::{default_procedure, follow};
use riemannian_laplace::internals::network::Recipe;
use riemannian_laplace::{Activation, Architecture, Family};

use crate::errors::OrRaise;
use crate::fit::Columns;
use crate::network::Network;
use crate::work::run;

type Array<'py> = PyReadonlyArray2<'py, f64>;
/// A network, with the prior precision and the noise (in the units of the network) that training chose, where it did.
type Trained = (Network, Option<Vec<f64>>, Option<Vec<f64>>);

/// The network to train.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Plan {
    likelihood: String,
    /// The widths of all layers, inputs and outputs included.
    widths: Vec<usize>,
    activation: String,
    seed: u64,
}

/// Trains a network of these widths as `rla train` does by default: under a cross-validated prior, or stopped early.
#[pyfunction]
#[pyo3(signature = (inputs, targets, columns, plan, watch=None))]
pub fn train(
    py: Python<'_>,
    inputs: Array<'_>,
    targets: Array<'_>,
    columns: Columns,
    plan: Plan,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<Trained> {
    let family: Family = plan.likelihood.parse().or_raise(py)?;
    let activation: Activation = plan.activation.parse().map_err(riemannian_laplace::Error::from).or_raise(py)?;
    let architecture = Architecture::new(&plan.widths, activation).or_raise(py)?;
    let data = columns.dataset(inputs.as_array().to_owned(), targets.as_array().to_owned()).or_raise(py)?;
    let procedure = default_procedure(&architecture, data.len());
    let recipe =
        Recipe { seed: plan.seed, procedure, prior_precision: None, sigma: None, dispersions: None, folded: None };
    let start = riemannian_laplace::Network::random(architecture, plan.seed);
    let trained = run(py, watch, |progress| follow(&recipe, &start, &data, &family, progress))?;
    Ok((trained.network.into(), trained.recipe.prior_precision, trained.recipe.sigma))
}
