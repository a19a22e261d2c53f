//! Neal's funnel in two dimensions: φ⁻¹(θ) = (θ₁e^(−θ₂/2), θ₂/σ) ~ N(0, I) (Yu et al. 2024, supplement "Funnel").

use std::sync::Arc;

use faer::MatMut;
use ndarray::Array2;

use crate::error::{InvalidProblem, Result};
use crate::likelihood::Gaussian;
use crate::map::{Explicit, ExplicitMap, Jet};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// The funnel θ₂ ~ N(0, σ²), θ₁ | θ₂ ~ N(0, e^θ₂).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Funnel {
    /// σ, the deviation of θ₂.
    pub sigma: f64,
}

impl Funnel {
    /// The paper's: σ = 3.
    pub const PAPER: Self = Self { sigma: 3.0 };

    /// The density as a posterior: 0 observed through φ⁻¹ with unit noise, under the Jeffreys prior
    /// |det Dφ⁻¹| = e^(−θ₂/2)/σ.
    pub fn target(self) -> Result<Target> {
        if !(self.sigma > 0.0 && self.sigma.is_finite()) {
            return Err(InvalidProblem::FunnelSigma(self.sigma).into());
        }
        let prior = Prior::tilted(PriorPrecision::improper(2), vec![0.0, -0.5])?;
        Target::new(Arc::new(Explicit(self)), Arc::new(Gaussian::unit()), Array2::zeros((1, 2)).view(), prior)
    }

    /// φ(ψ): from the Gaussian's coordinates to θ.
    pub fn forward(self, psi: [f64; 2]) -> [f64; 2] {
        let theta_2 = self.sigma * psi[1];
        [(0.5 * theta_2).exp() * psi[0], theta_2]
    }

    /// φ⁻¹(θ).
    pub fn inverse(self, theta: [f64; 2]) -> [f64; 2] {
        [theta[0] * (-0.5 * theta[1]).exp(), theta[1] / self.sigma]
    }

    /// The exponential map in closed form: φ(φ⁻¹(θ) + Dφ⁻¹(θ)v).
    pub fn exponential(self, theta: [f64; 2], velocity: [f64; 2]) -> [f64; 2] {
        let psi = self.inverse(theta);
        let shrink = (-0.5 * theta[1]).exp();
        let first = shrink * (velocity[0] - 0.5 * theta[0] * velocity[1]);
        self.forward([psi[0] + first, psi[1] + velocity[1] / self.sigma])
    }
}

impl ExplicitMap for Funnel {
    fn n_params(&self) -> usize {
        2
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        2
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64]) {
        outputs.copy_from_slice(&self.inverse([theta[0], theta[1]]));
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        if !jet.outputs.is_empty() {
            self.outputs(theta, &mut jet.outputs);
        }
        let shrink = (-0.5 * theta[1]).exp();
        let [v1, v2] = [velocity[0], velocity[1]];
        jet.first.copy_from_slice(&[shrink * (v1 - 0.5 * theta[0] * v2), v2 / self.sigma]);
        jet.second.copy_from_slice(&[shrink * (0.25 * theta[0] * v2 * v2 - v1 * v2), 0.0]);
    }

    fn jacobian(&self, theta: &[f64], mut jacobian: MatMut<'_, f64>) {
        let shrink = (-0.5 * theta[1]).exp();
        jacobian[(0, 0)] = shrink;
        jacobian[(0, 1)] = -0.5 * theta[0] * shrink;
        jacobian[(1, 0)] = 0.0;
        jacobian[(1, 1)] = 1.0 / self.sigma;
    }
}
