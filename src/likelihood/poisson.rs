//! Poisson in the log rate: log p(y | f) = Σ_k (y_k f_k − e^(f_k) − log y_k!), y_k ∈ {0, 1, 2, …}.

use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;

use super::{Likelihood, TargetError, check_values, write, write_diagonal, write_separable_isometry};
use crate::elementary::exp;

/// The largest count up to which every whole number is an f64: 2⁵³.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Independent counts, one per output, whose log rates are the outputs.
///
/// The rate eᶠ overflows for f > 709.78: then the mean, variance and Fisher information are +∞ and the log density is
/// −∞. Quantities made of √(eᶠ), or of eᶠ times something small, stay finite as long as their value can be represented.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Likelihood, Poisson};
///
/// // Three events at rate 2: e⁻² 2³/3!
/// let expected = ((-2.0_f64).exp() * 8.0 / 6.0).ln();
/// assert!((Poisson.log_density(&[3.0], &[2.0_f64.ln()]) - expected).abs() < 1e-15);
/// assert!(Poisson.validate(&[2.5], 1).is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Poisson;

/// x √r = x e^(f/2), zero for x = 0 whatever the rate.
#[inline(always)]
fn times_root_rate(x: f64, log_rate: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * exp(0.5 * log_rate) }
}

impl Likelihood for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a whole number from 0 to 2^53", |y| {
            (0.0..=LARGEST_COUNT).contains(&y) && y.fract() == 0.0
        })
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let log_density = |(&y, &f): (&f64, &f64)| {
            let events = if y > 0.0 { y * f } else { 0.0 }; // a rate of zero (f = −∞) may produce no events
            events - exp(f) - libm::lgamma(y + 1.0)
        };
        target.iter().zip(outputs).map(log_density).sum()
    }

    /// At the rate y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        let log_rates: Vec<f64> = target.iter().map(|y| y.ln()).collect();
        Some(self.log_density(target, &log_rates))
    }

    /// y − r.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        write(gradient, target.iter().zip(outputs).map(|(y, &f)| y - exp(f)));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|&f| exp(f)));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|&f| exp(0.5 * f)));
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let jets = outputs.iter().zip(first).zip(second);
        write(force, jets.map(|((&f, first), second)| times_root_rate(second + 0.5 * first * first, f)));
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let derivatives = outputs.iter().map(|&f| (exp(0.5 * f), 0.5 * exp(0.5 * f)));
        write_separable_isometry(slopes, bends, derivatives);
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        outputs.iter().zip(first).map(|(&f, &first)| times_root_rate(first, f).powi(2)).sum()
    }

    /// 2 e^(f/2).
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        write(isometric, outputs.iter().map(|&f| 2.0 * exp(0.5 * f)));
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        write(deviations, outputs.iter().map(|&f| exp(0.5 * f)));
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| exp(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.mean(outputs, variance);
    }

    /// A rate too large to draw from is returned itself: no nearby count can be told from it.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            let rate = exp(f);
            *y = match rand_distr::Poisson::new(rate) {
                Ok(distribution) => distribution.sample(generator),
                // This also covers a rate of zero.
                Err(_) => rate.round(),
            };
        }
    }
}
