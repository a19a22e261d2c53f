//! The prior: precision A = diag(α), one α for all parameters or one per group of them (a network's layers).

use faer::MatMut;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, check_size};
use crate::linalg::dot;

/// A = diag(α) over groups of consecutive parameters.
///
/// ```
/// use riemannian_laplace::internals::prior::PriorPrecision;
/// let prior = PriorPrecision::per_group(vec![1.0, 4.0], &[2, 1])?;
/// assert_eq!(prior.quadratic(&[1.0, 2.0, 3.0]), 1.0 + 4.0 + 4.0 * 9.0);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorPrecision {
    /// One value, or one per group.
    values: Vec<f64>,
    groups: Vec<usize>,
}

impl PriorPrecision {
    /// The same precision α > 0 for every parameter.
    pub fn scalar(value: f64, groups: &[usize]) -> Result<Self> {
        Self::checked(vec![value], groups)
    }

    /// One precision α > 0 per group.
    pub fn per_group(values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        check_size("number of prior precisions", groups.len(), values.len())?;
        Self::checked(values, groups)
    }

    /// A = I.
    pub fn identity(groups: &[usize]) -> Self {
        Self { values: vec![1.0], groups: groups.to_vec() }
    }

    /// No prior term: A = 0.
    pub fn improper(n_params: usize) -> Self {
        Self { values: vec![0.0], groups: vec![n_params] }
    }

    /// The same prior over the groups of a map: a single value fits any groups with the same total number of
    /// parameters; one value per group fits only the same groups.
    pub fn for_groups(&self, groups: &[usize]) -> Result<Self> {
        check_size("number of parameters of the prior", groups.iter().sum(), self.n_params())?;
        if self.values.len() > 1 && self.groups != groups {
            return Err(Error::PriorGroups { prior: self.groups.clone(), model: groups.to_vec() });
        }
        Ok(Self { values: self.values.clone(), groups: groups.to_vec() })
    }

    fn checked(values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        match values.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
            Some(position) => Err(Error::PriorPrecision { position, value: values[position] }),
            None => Ok(Self { values, groups: groups.to_vec() }),
        }
    }

    /// The single value, or one per group.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The number of parameters in each group.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// D.
    pub fn n_params(&self) -> usize {
        self.groups.iter().sum()
    }

    /// Whether every precision is positive.
    pub fn is_proper(&self) -> bool {
        self.values.iter().all(|value| *value > 0.0)
    }

    /// α of a group.
    pub fn of_group(&self, group: usize) -> f64 {
        if self.values.len() == 1 { self.values[0] } else { self.values[group] }
    }

    /// The prior variance 1/α of each group.
    pub fn variances(&self) -> Vec<f64> {
        (0..self.groups.len()).map(|group| 1.0 / self.of_group(group)).collect()
    }

    /// The same, into a reused vector.
    pub fn write_variances(&self, variances: &mut Vec<f64>) {
        variances.clear();
        variances.extend((0..self.groups.len()).map(|group| 1.0 / self.of_group(group)));
    }

    /// Calls `visit` with each group's range of parameters and its α.
    pub fn for_each_group(&self, mut visit: impl FnMut(std::ops::Range<usize>, f64)) {
        let mut start = 0;
        for (group, size) in self.groups.iter().enumerate() {
            visit(start..start + size, self.of_group(group));
            start += size;
        }
    }

    /// u ← s(α) ∘ u, with a factor that depends on the group's α.
    fn scale(&self, vector: &mut [f64], factor: impl Fn(f64) -> f64) {
        self.for_each_group(|range, alpha| {
            let factor = factor(alpha);
            vector[range].iter_mut().for_each(|value| *value *= factor);
        });
    }

    /// u ← A u.
    pub fn multiply(&self, vector: &mut [f64]) {
        self.scale(vector, |alpha| alpha);
    }

    /// u ← A⁻¹ u.
    pub fn divide(&self, vector: &mut [f64]) {
        self.scale(vector, |alpha| 1.0 / alpha);
    }

    /// u ← A^(−½) u: a standard normal vector becomes a draw from the prior.
    pub fn divide_by_root(&self, vector: &mut [f64]) {
        self.scale(vector, |alpha| 1.0 / alpha.sqrt());
    }

    /// uᵀAu.
    pub fn quadratic(&self, vector: &[f64]) -> f64 {
        let mut sum = 0.0;
        self.for_each_group(|range, alpha| sum += alpha * dot(&vector[range.clone()], &vector[range]));
        sum
    }

    /// log det A.
    pub fn log_det(&self) -> f64 {
        let mut sum = 0.0;
        self.for_each_group(|range, alpha| sum += range.len() as f64 * alpha.ln());
        sum
    }

    /// M ← M + A.
    pub fn add_to_diagonal(&self, mut matrix: MatMut<'_, f64>) {
        self.for_each_group(|range, alpha| {
            for d in range {
                matrix[(d, d)] += alpha;
            }
        });
    }
}

/// A log prior log π(θ) = −½ θᵀAθ + bᵀθ + const: Gaussian, flat (A = 0), or with a tilt b, to which the Jeffreys prior
/// of a volume-changing map such as the funnel's amounts.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    precision: PriorPrecision,
    tilt: Option<Vec<f64>>,
}

impl Prior {
    /// N(0, A⁻¹).
    pub fn gaussian(precision: PriorPrecision) -> Self {
        Self { precision, tilt: None }
    }

    /// The same with the tilt b, one number per parameter.
    pub fn tilted(precision: PriorPrecision, tilt: Vec<f64>) -> Result<Self> {
        check_size("length of the tilt", precision.n_params(), tilt.len())?;
        Ok(Self { precision, tilt: Some(tilt) })
    }

    /// A, which enters the Fisher metric.
    pub fn precision(&self) -> &PriorPrecision {
        &self.precision
    }

    /// The same prior over the groups of a map.
    pub fn for_groups(&self, groups: &[usize]) -> Result<Self> {
        Ok(Self { precision: self.precision.for_groups(groups)?, tilt: self.tilt.clone() })
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
        constant - 0.5 * self.precision.quadratic(theta) + dot_of_shorter(self.tilt(), theta)
    }

    /// gradient ← gradient + ∇ log π(θ).
    pub fn add_gradient(&self, theta: &[f64], gradient: &mut [f64]) {
        self.precision.for_each_group(|range, alpha| {
            for d in range {
                gradient[d] -= alpha * theta[d];
            }
        });
        for (value, slope) in gradient.iter_mut().zip(self.tilt()) {
            *value += slope;
        }
    }

    /// The derivative of log π along a velocity.
    pub fn slope(&self, theta: &[f64], velocity: &[f64]) -> f64 {
        let mut sum = dot_of_shorter(self.tilt(), velocity);
        self.precision.for_each_group(|range, alpha| sum -= alpha * dot(&theta[range.clone()], &velocity[range]));
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
