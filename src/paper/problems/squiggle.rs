//! The squiggle: φ⁻¹(θ) = (θ₁, θ₂ + sin aθ₁) ~ N(0, S), a Gaussian in disguise (Yu et al. 2024, section 4.3.2).

use std::sync::Arc;

use faer::MatMut;
use ndarray::Array2;

use crate::error::{InvalidProblem, Result};
use crate::likelihood::Gaussian;
use crate::map::{Explicit, ExplicitMap, Jet};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// The squiggle with wave number a and S = diag(s₁, s₂).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Squiggle {
    /// The wave number a.
    pub frequency: f64,
    /// The diagonal of S.
    pub variances: [f64; 2],
}

impl Squiggle {
    /// The version of the paper's main text: a = 1.5, S = diag(5, 0.05).
    pub const MAIN: Self = Self { frequency: 1.5, variances: [5.0, 0.05] };
    /// The difficult version of the supplement: a = 1.5, S = diag(10, 0.001).
    pub const DIFFICULT: Self = Self { frequency: 1.5, variances: [10.0, 0.001] };

    /// The density as a posterior: μ = 0 observed through φ⁻¹ with noise S, under the Jeffreys prior (which is flat,
    /// since φ preserves volumes).
    pub fn target(self) -> Result<Target> {
        let deviations = self.variances.iter().map(|variance| variance.sqrt()).collect();
        let noise = Gaussian::per_output(deviations).map_err(|_| InvalidProblem::SquiggleVariances(self.variances))?;
        let prior = Prior::gaussian(PriorPrecision::improper(2));
        Target::new(Arc::new(Explicit(self)), Arc::new(noise), Array2::zeros((1, 2)).view(), prior)
    }

    /// φ(ψ): from the Gaussian's coordinates to θ.
    pub fn forward(self, psi: [f64; 2]) -> [f64; 2] {
        [psi[0], psi[1] - (self.frequency * psi[0]).sin()]
    }

    /// φ⁻¹(θ).
    pub fn inverse(self, theta: [f64; 2]) -> [f64; 2] {
        [theta[0], theta[1] + (self.frequency * theta[0]).sin()]
    }

    /// The exponential map in closed form: φ(φ⁻¹(θ) + Dφ⁻¹(θ)v).
    pub fn exponential(self, theta: [f64; 2], velocity: [f64; 2]) -> [f64; 2] {
        let psi = self.inverse(theta);
        let slope = self.frequency * (self.frequency * theta[0]).cos();
        self.forward([psi[0] + velocity[0], psi[1] + slope * velocity[0] + velocity[1]])
    }
}

impl ExplicitMap for Squiggle {
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
        let a = self.frequency;
        let (sine, cosine) = (a * theta[0]).sin_cos();
        jet.first.copy_from_slice(&[velocity[0], velocity[1] + a * cosine * velocity[0]]);
        jet.second.copy_from_slice(&[0.0, -a * a * sine * velocity[0] * velocity[0]]);
    }

    fn jacobian(&self, theta: &[f64], mut jacobian: MatMut<'_, f64>) {
        jacobian[(0, 0)] = 1.0;
        jacobian[(0, 1)] = 0.0;
        jacobian[(1, 0)] = self.frequency * (self.frequency * theta[0]).cos();
        jacobian[(1, 1)] = 1.0;
    }
}
