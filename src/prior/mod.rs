//! The prior N(μ, A⁻¹) over the parameters: its precision A = diag(α) (or that of an earlier posterior), its mean μ, and the log density.

mod matrix;
mod mean;
mod precision;

pub use matrix::PriorMatrix;
pub use mean::PriorMean;
pub use precision::{PriorPrecision, PriorStructure};

use crate::error::{Result, check_size};
use crate::linalg::dot;

/// A log prior log π(θ) = −½ (θ−μ)ᵀA(θ−μ) + bᵀθ + const: Gaussian, flat (A = 0), or with a tilt b, to which the Jeffreys
/// prior of a volume-changing map such as the funnel's amounts.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    precision: PriorPrecision,
    mean: PriorMean,
    tilt: Option<Vec<f64>>,
}

impl Prior {
    /// N(0, A⁻¹).
    pub fn gaussian(precision: PriorPrecision) -> Self {
        Self { precision, mean: PriorMean::default(), tilt: None }
    }

    /// The same around the mean μ instead of zero.
    pub fn around(self, mean: PriorMean) -> Result<Self> {
        mean.check(self.precision.n_params())?;
        Ok(Self { mean, ..self })
    }

    /// The same with the tilt b, one number per parameter.
    pub fn tilted(precision: PriorPrecision, tilt: Vec<f64>) -> Result<Self> {
        check_size("length of the tilt", precision.n_params(), tilt.len())?;
        Ok(Self { tilt: Some(tilt), ..Self::gaussian(precision) })
    }

    /// A, which enters the Fisher metric.
    pub fn precision(&self) -> &PriorPrecision {
        &self.precision
    }

    /// μ.
    pub fn mean(&self) -> &PriorMean {
        &self.mean
    }

    /// The same prior with another precision.
    pub fn with_precision(&self, precision: PriorPrecision) -> Self {
        Self { precision, ..self.clone() }
    }

    /// The same prior over the groups of a map.
    pub fn for_groups(&self, groups: &[usize]) -> Result<Self> {
        Ok(self.with_precision(self.precision.for_groups(groups)?))
    }

    /// (θ − μ)ᵀA(θ − μ).
    pub fn scatter(&self, theta: &[f64]) -> f64 {
        self.precision.quadratic(&self.mean.deviations(theta))
    }

    fn tilt(&self) -> &[f64] {
        self.tilt.as_deref().unwrap_or_default()
    }

    /// log π(θ), normalised where the prior is proper and has no tilt.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        let constant = if self.precision.is_proper() && self.tilt.is_none() {
            0.5 * (self.precision.log_det() - theta.len() as f64 * (2.0 * std::f64::consts::PI).ln())
        } else {
            0.0
        };
        constant - 0.5 * self.scatter(theta) + dot_of_shorter(self.tilt(), theta)
    }

    /// gradient ← gradient + ∇ log π(θ).
    pub fn add_gradient(&self, theta: &[f64], gradient: &mut [f64]) {
        self.precision.for_each_group(|range, alpha| {
            for d in range {
                gradient[d] -= alpha * (theta[d] - self.mean.at(d));
            }
        });
        for (value, slope) in gradient.iter_mut().zip(self.tilt()) {
            *value += slope;
        }
    }

    /// The derivative of log π along a velocity.
    pub fn slope(&self, theta: &[f64], velocity: &[f64]) -> f64 {
        let mut sum = dot_of_shorter(self.tilt(), velocity);
        self.precision.for_each_group(|range, alpha| {
            let part = &velocity[range.clone()];
            sum -= alpha * (dot(&theta[range.clone()], part) - self.mean.dot(range, part));
        });
        sum
    }

    /// The second derivative of log π along a velocity, −vᵀAv.
    pub fn bend(&self, velocity: &[f64]) -> f64 {
        -self.precision.quadratic(velocity)
    }
}

/// Σ aᵢbᵢ over the entries that both have; without a tilt there are none.
fn dot_of_shorter(tilt: &[f64], theta: &[f64]) -> f64 {
    let length = tilt.len().min(theta.len());
    dot(&tilt[..length], &theta[..length])
}
