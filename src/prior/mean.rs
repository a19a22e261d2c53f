//! The prior mean μ of N(μ, A⁻¹): one number for all parameters, zero unless given, or one per parameter.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result, check_size};
use crate::linalg::dot;

/// μ, the point that the prior draws the parameters to.
///
/// ```
/// use riemannian_laplace::internals::prior::PriorMean;
/// let mean = PriorMean::from(vec![1.0, 2.0]);
/// assert_eq!(*mean.deviations(&[4.0, 2.5]), [3.0, 0.5]);
/// assert!(PriorMean::default().is_zero());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum PriorMean {
    /// The same for every parameter.
    Shared(f64),
    /// One per parameter.
    PerWeight(Arc<[f64]>),
}

impl Default for PriorMean {
    /// Zero.
    fn default() -> Self {
        PriorMean::Shared(0.0)
    }
}

impl From<f64> for PriorMean {
    fn from(value: f64) -> Self {
        PriorMean::Shared(value)
    }
}

impl From<Vec<f64>> for PriorMean {
    fn from(values: Vec<f64>) -> Self {
        PriorMean::PerWeight(values.into())
    }
}

impl PriorMean {
    /// Checks that there is one finite number, or one per parameter.
    pub fn check(&self, n_params: usize) -> Result<()> {
        let values = self.values();
        if let PriorMean::PerWeight(values) = self {
            check_size("number of prior means", n_params, values.len())?;
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(column) => Err(Error::NotFinite { what: "the prior mean", row: 0, column }),
            None => Ok(()),
        }
    }

    /// The single number, or one per parameter.
    pub fn values(&self) -> &[f64] {
        match self {
            PriorMean::Shared(value) => std::slice::from_ref(value),
            PriorMean::PerWeight(values) => values,
        }
    }

    /// Whether μ = 0.
    pub fn is_zero(&self) -> bool {
        self.values().iter().all(|value| *value == 0.0)
    }

    /// θ − μ.
    pub fn deviations<'a>(&self, theta: &'a [f64]) -> Cow<'a, [f64]> {
        match self {
            PriorMean::Shared(0.0) => Cow::Borrowed(theta),
            PriorMean::Shared(mean) => theta.iter().map(|value| value - mean).collect(),
            PriorMean::PerWeight(means) => theta.iter().zip(means.iter()).map(|(value, mean)| value - mean).collect(),
        }
    }

    /// μ of parameter d.
    pub(super) fn at(&self, d: usize) -> f64 {
        match self {
            PriorMean::Shared(mean) => *mean,
            PriorMean::PerWeight(means) => means[d],
        }
    }

    /// Σ μ_d u_d over the parameters of a range, of which `part` holds the u_d.
    pub(super) fn dot(&self, range: std::ops::Range<usize>, part: &[f64]) -> f64 {
        match self {
            PriorMean::Shared(0.0) => 0.0,
            PriorMean::Shared(mean) => mean * part.iter().sum::<f64>(),
            PriorMean::PerWeight(means) => dot(&means[range], part),
        }
    }
}
