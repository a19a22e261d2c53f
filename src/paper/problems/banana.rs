//! The banana: yₙ ~ N(θ₁ + θ₂², σ_y²) with θ ~ N(0, σ_θ²I) (Yu et al. 2024, section 5.2).

use std::sync::Arc;

use faer::MatMut;
use ndarray::Array2;

use crate::error::Result;
use crate::likelihood::Gaussian;
use crate::map::{Explicit, ExplicitMap, Jet};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// f(θ) = θ₁ + θ₂², the same at each of N observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Banana {
    observations: usize,
}

impl Banana {
    /// The paper's σ_θ = σ_y.
    pub const DEVIATION: f64 = 2.0;

    /// The posterior given observations, with σ_θ = σ_y = 2.
    ///
    /// ```
    /// let target = riemannian_laplace::internals::paper::problems::Banana::target(&[1.0, 1.5])?;
    /// let value = target.evaluator().log_posterior(&[0.5, 0.7]);
    /// assert!(value.is_finite());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn target(observations: &[f64]) -> Result<Target> {
        let map = Arc::new(Explicit(Self { observations: observations.len() }));
        let noise = Gaussian::new(Self::DEVIATION)?;
        let prior = PriorPrecision::scalar(Self::DEVIATION.powi(-2), &[2])?;
        let observations = Array2::from_shape_fn((observations.len(), 1), |(n, _)| observations[n]);
        Target::new(map, Arc::new(noise), observations.view(), Prior::gaussian(prior))
    }
}

impl ExplicitMap for Banana {
    fn n_params(&self) -> usize {
        2
    }

    fn n_points(&self) -> usize {
        self.observations
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64]) {
        outputs.fill(theta[0] + theta[1] * theta[1]);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        if !jet.outputs.is_empty() {
            self.outputs(theta, &mut jet.outputs);
        }
        jet.first.fill(velocity[0] + 2.0 * theta[1] * velocity[1]);
        jet.second.fill(2.0 * velocity[1] * velocity[1]);
    }

    fn jacobian(&self, theta: &[f64], mut jacobian: MatMut<'_, f64>) {
        for n in 0..self.observations {
            jacobian[(n, 0)] = 1.0;
            jacobian[(n, 1)] = 2.0 * theta[1];
        }
    }
}
