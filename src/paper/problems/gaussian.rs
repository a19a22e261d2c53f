//! The D-dimensional Gaussian N(0, diag s²): f(θ) = θ, observed as 0 (Yu et al. 2024, section 3 and "Bias of RLA-B").

use std::sync::Arc;

use faer::MatMut;
use ndarray::Array2;

use crate::error::{InvalidProblem, Result};
use crate::likelihood::Gaussian;
use crate::map::{Explicit, ExplicitMap, Jet};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// f(θ) = θ: one point with D outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Identity {
    size: usize,
}

impl Identity {
    /// The density N(0, diag s²) as a posterior under a flat prior.
    pub fn gaussian(deviations: &[f64]) -> Result<Target> {
        let noise =
            Gaussian::per_output(deviations.to_vec()).map_err(|_| InvalidProblem::Deviations(deviations.to_vec()))?;
        let size = deviations.len();
        let prior = Prior::gaussian(PriorPrecision::improper(size));
        Target::new(Arc::new(Explicit(Self { size })), Arc::new(noise), Array2::zeros((1, size)).view(), prior)
    }
}

impl ExplicitMap for Identity {
    fn n_params(&self) -> usize {
        self.size
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        self.size
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64]) {
        outputs.copy_from_slice(theta);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        if !jet.outputs.is_empty() {
            jet.outputs.copy_from_slice(theta);
        }
        jet.first.copy_from_slice(velocity);
        jet.second.fill(0.0);
    }

    fn jacobian(&self, _: &[f64], mut jacobian: MatMut<'_, f64>) {
        jacobian.fill(0.0);
        for d in 0..self.size {
            jacobian[(d, d)] = 1.0;
        }
    }
}
