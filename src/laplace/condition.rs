//! The condition of the posterior precision, and what it leaves of the evidence.
//!
//! κ = λ_max(G)/λ_min(G), by iterations on the factored precision: λ_max from products with G, 1/λ_min from solves. The
//! Rayleigh quotient of a power iteration approaches from the inside, so κ is estimated from below, within a tenth on all
//! matrices that were tried. A log determinant by a factorisation is that of a matrix which differs from G by u‖G‖, with
//! u = 2⁻⁵³; an eigenvalue λ then loses uλ_max/λ of itself, the least one uκ. The evidence is therefore uncertain by about uκ
//! nats, and has log₁₀(|evidence|/uκ) digits.

use super::{Laplace, Precision, Structure};
use crate::linalg::norm;
use crate::random::{Purpose, fill_standard_normal, stream};

/// Products, and solves, at the most.
const MOST_ITERATIONS: usize = 60;
/// An iteration ends when it gains less than this.
const LEAST_GAIN: f64 = 1e-3;
/// Digits of a number in f64.
const MOST_DIGITS: f64 = 15.0;

/// The condition of G beyond which the evidence is told to be uncertain.
pub const LARGE_CONDITION: f64 = 1e12;

impl Laplace {
    /// λ_max/λ_min of the posterior precision G, estimated from below; none where solves are iterations themselves, or the
    /// estimate is not finite.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
    /// // G = 1 + diag(1 + 4 + 9, 3) in the coordinates of weight and bias, with 6 beside the diagonal.
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let data = Dataset::new(array![[1.0], [2.0], [3.0]], array![[1.1], [2.9], [5.0]])?;
    /// let laplace = Laplace::fit(network, data, Family::gaussian(1.0)?, &FitOptions::default())?;
    /// let (middle, radius) = (9.5, (5.5_f64 * 5.5 + 36.0).sqrt());
    /// let exact = (middle + radius) / (middle - radius);
    /// assert!((laplace.condition().unwrap() / exact - 1.0).abs() < 0.01);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn condition(&self) -> Option<f64> {
        let precision = &*self.precision;
        if matches!(self.structure(), Structure::MatrixFree(_)) {
            return None;
        }
        let greatest = dominant(precision, |precision, from, to| precision.times(from, to));
        let inverse = dominant(precision, |precision, from, to| precision.solve(from, to));
        Some(greatest * inverse).filter(|condition| condition.is_finite()).map(|condition| condition.max(1.0))
    }

    /// The decimal digits that the log marginal likelihood has in spite of the condition of G.
    pub fn evidence_digits(&self, condition: f64) -> f64 {
        let error = 0.5 * f64::EPSILON * condition;
        (self.log_marginal_likelihood().abs().max(1.0) / error).log10().floor().clamp(0.0, MOST_DIGITS)
    }
}

/// The largest eigenvalue of a positive operator, from below.
fn dominant(precision: &dyn Precision, apply: impl Fn(&dyn Precision, &[f64], &mut [f64])) -> f64 {
    let size = precision.n_params();
    let (mut vector, mut image) = (vec![0.0; size], vec![0.0; size]);
    fill_standard_normal(&mut stream(0, Purpose::Velocity, 0), &mut vector);
    let mut found = 0.0;
    for _ in 0..MOST_ITERATIONS {
        let length = norm(&vector).max(f64::MIN_POSITIVE);
        vector.iter_mut().for_each(|value| *value /= length);
        apply(precision, &vector, &mut image);
        // ‖Mv‖ is nearer to the eigenvalue than vᵀMv, and not above it either.
        let next = norm(&image);
        std::mem::swap(&mut vector, &mut image);
        if next - found <= LEAST_GAIN * next || !next.is_finite() {
            return next.max(found);
        }
        found = next;
    }
    found
}
