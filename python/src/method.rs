//! Ways to predict by name, as Python states them.

use std::sync::Arc;

use pyo3::prelude::*;
use riemannian_laplace::internals::predict::MonteCarlo;
use riemannian_laplace::{Draws, Link, Method};

use crate::errors::raise;
use crate::samples::Samples;

/// A link by name, with the draws of Monte Carlo.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct LinkSettings {
    name: String,
    samples: usize,
    seed: u64,
}

impl LinkSettings {
    /// The engine's link.
    pub fn parse(&self, py: Python<'_>) -> PyResult<Link> {
        match self.name.as_str() {
            "centred" => Ok(Link::Centred),
            "probit" => Ok(Link::Probit),
            "bridge" => Ok(Link::Bridge),
            "mc" => Ok(Link::MonteCarlo(MonteCarlo { samples: self.samples, seed: self.seed })),
            other => {
                let message = format!("there is no link `{other}`; use one of probit, mc, bridge, centred");
                Err(raise(py, "InputError", message))
            }
        }
    }
}

/// A way to predict by name; the samples of `riemannian` are drawn already.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct MethodSettings {
    name: String,
    link: LinkSettings,
    n_samples: usize,
    seed: u64,
    samples: Option<Py<Samples>>,
}

impl MethodSettings {
    /// The engine's method.
    pub fn parse(&self, py: Python<'_>) -> PyResult<Method> {
        match (self.name.as_str(), &self.samples) {
            ("map", _) => Ok(Method::Map),
            ("glm", _) => Ok(Method::Glm(self.link.parse(py)?)),
            ("nn", _) => Ok(Method::Nn(Draws::first(self.n_samples, self.seed))),
            ("riemannian", Some(samples)) => Ok(Method::Samples(Arc::clone(&samples.get().samples))),
            (other, _) => {
                let message = format!("there is no pred_type `{other}`; use one of glm, nn, riemannian, map");
                Err(raise(py, "InputError", message))
            }
        }
    }
}
