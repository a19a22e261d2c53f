//! The linearised prediction of a network whose outputs are means μ and log variances s: for each target y ~ N(μ, eˢ)
//! with (μ, s) ~ N(m, C).
//!
//! Given s, y is normal with mean m_μ + C_μs/C_ss (s − m_s) and variance C_μμ − C_μs²/C_ss + eˢ: a mixture of normals over
//! one variable. Its moments are closed forms, eˢ being log-normal: E y = m_μ, the epistemic variance C_μμ, and the
//! aleatoric variance E eˢ = e^(m_s + C_ss/2). Distribution function and density are sums over x = (s − m_s)/√C_ss.

use super::gaussian::HALF_LOG_TWO_PI;
use super::latent::{LatentPoint, PointMoments, log_sum_exp};
use super::normals::NormalMixture;

/// The nodes at which the log variance is evaluated for the distribution function: every 0.25 of its standard deviations,
/// as far as 6 of them. (The trapezoidal rule converges geometrically for a normal weight: nothing is left of its error.)
const NODE_STEP: f64 = 0.25;
const LAST_NODE: i32 = 24;

/// The Gaussian over mean and log variance of one target at one point.
struct NoisyTarget {
    mean: f64,
    log_variance: f64,
    /// √C_ss.
    spread: f64,
    /// C_μs/√C_ss: how much the mean moves with each standard deviation of s.
    slope: f64,
    /// C_μμ − C_μs²/C_ss.
    rest: f64,
}

impl NoisyTarget {
    fn new(latent: &LatentPoint, k: usize) -> Self {
        let s = latent.n_outputs() / 2 + k;
        let covariance = |i: usize, j: usize| latent.covariance(i, j);
        let spread = covariance(s, s).max(0.0).sqrt();
        let slope = if spread > 0.0 { covariance(k, s) / spread } else { 0.0 };
        let rest = (covariance(k, k) - slope * slope).max(0.0);
        Self { mean: latent.mean[k], log_variance: latent.mean[s], spread, slope, rest }
    }

    /// The mean and the log variance of y when s is x standard deviations above its mean.
    fn given(&self, x: f64) -> (f64, f64) {
        let (noise, rest) = (self.log_variance + self.spread * x, self.rest.ln());
        (self.mean + self.slope * x, noise.max(rest) + (-(noise - rest).abs()).exp().ln_1p())
    }

    fn mixture(&self) -> NormalMixture {
        if self.spread == 0.0 {
            let (mean, log_variance) = self.given(0.0);
            return NormalMixture::single(mean, (0.5 * log_variance).exp());
        }
        let density = |x: f64| (-0.5 * x * x).exp();
        let nodes = (-LAST_NODE..=LAST_NODE).map(|i| NODE_STEP * f64::from(i));
        let total: f64 = nodes.clone().map(density).sum();
        let component = |x: f64| {
            let (mean, log_variance) = self.given(x);
            (density(x) / total, (mean, (0.5 * log_variance).exp()))
        };
        NormalMixture::weighted(nodes.map(component).collect())
    }

    /// log ∫ N(y | given(x)) φ(x) dx by the trapezoidal rule in the log domain.
    ///
    /// With V the variance of y given x and e = y − m_μ, the integrand is below e⁻⁴⁰ of its value at x = 0 wherever ½x² −
    /// ½√C_ss |x| > ½e²/V(0) + ½(log V(0) − m_s) + 40. Between these ends a first pass finds the part where it exceeds e⁻⁴⁰
    /// of its maximum, and a second sums over that part.
    fn log_density(&self, y: f64) -> f64 {
        const NODES: usize = 1000;
        const NEGLIGIBLE: f64 = 40.0;
        let log_normal = |x: f64| {
            let (mean, log_variance) = self.given(x);
            let error = if y == mean { 0.0 } else { (y - mean) * (-0.5 * log_variance).exp() };
            -0.5 * (error * error + log_variance) - HALF_LOG_TWO_PI
        };
        if self.spread == 0.0 {
            return log_normal(0.0);
        }
        let log_integrand = |x: f64| log_normal(x) - 0.5 * x * x - HALF_LOG_TWO_PI;
        let (mean, log_variance) = self.given(0.0);
        let distance = if y == mean { 0.0 } else { ((y - mean) * (-0.5 * log_variance).exp()).powi(2) };
        let half = 0.5 * self.spread;
        let excess = distance + (log_variance - self.log_variance) + 2.0 * NEGLIGIBLE;
        let reach = half + (half * half + excess).sqrt();
        if !reach.is_finite() {
            return f64::NEG_INFINITY; // farther off than any f64 can express
        }
        let logs_between = |low: f64, high: f64| -> Vec<f64> {
            let step = (high - low) / NODES as f64;
            (0..=NODES).map(|i| log_integrand(low + i as f64 * step)).collect()
        };
        let coarse = logs_between(-reach, reach);
        let top = coarse.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let large = |value: &f64| *value > top - NEGLIGIBLE;
        let first = coarse.iter().position(large).map_or(0, |first| first.saturating_sub(1));
        let last = coarse.iter().rposition(large).map_or(NODES, |last| (last + 1).min(NODES));
        let place = |node: usize| reach * (2.0 * node as f64 / NODES as f64 - 1.0);
        let (low, high) = (place(first), place(last));
        log_sum_exp(logs_between(low, high)) + ((high - low) / NODES as f64).ln()
    }
}

/// Mean and variances of y, in closed form.
pub(super) fn moments(latent: &LatentPoint) -> PointMoments {
    let targets = latent.n_outputs() / 2;
    let noise = |k: usize| (latent.mean[targets + k] + 0.5 * latent.variance(targets + k)).exp();
    PointMoments {
        mean: latent.mean[..targets].to_vec(),
        epistemic: (0..targets).map(|k| latent.variance(k)).collect(),
        aleatoric: (0..targets).map(noise).collect(),
    }
}

/// The distribution of target k.
pub(super) fn mixture(latent: &LatentPoint, k: usize) -> NormalMixture {
    NoisyTarget::new(latent, k).mixture()
}

/// log p(y), summed over the targets, each with its own mean and log variance.
pub(super) fn log_density(latent: &LatentPoint, target: &[f64]) -> f64 {
    target.iter().enumerate().map(|(k, y)| NoisyTarget::new(latent, k).log_density(*y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Gaussian over (μ, s) at one point.
    fn latent(mean: [f64; 2], covariance: [[f64; 2]; 2]) -> LatentPoint {
        LatentPoint { mean: mean.to_vec(), covariance: covariance.as_flattened().to_vec() }
    }

    fn log_density(latent: &LatentPoint, y: f64) -> f64 {
        super::log_density(latent, &[y])
    }

    #[test]
    fn densities_and_distribution_functions_agree_and_have_the_closed_moments() {
        let cases = [
            latent([0.4, -0.7], [[0.5, 0.0], [0.0, 0.3]]),
            latent([0.4, -0.7], [[0.5, 0.3], [0.3, 0.4]]),
            latent([0.4, -2.7], [[0.5, -0.69], [-0.69, 1.0]]),
        ];
        for latent in cases {
            let moments = moments(&latent);
            let (mixture, step) = (mixture(&latent, 0), 0.01);
            let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
            // The trapezoidal rule in y: the density is smooth on the scale of its narrowest normal, about 0.1.
            for i in -4000..=4000 {
                let y = 0.4 + step * f64::from(i);
                let density = step * log_density(&latent, y).exp();
                mass += density;
                mean += density * y;
                square += density * (y - 0.4).powi(2);
                if i % 500 == 0 {
                    assert!((mass - 0.5 * density - mixture.cumulative(y)).abs() < 1e-4, "at {y}");
                }
            }
            assert!((mass - 1.0).abs() < 1e-9, "{mass}");
            assert!((mean - 0.4).abs() < 1e-8, "{mean}");
            assert!((square / (moments.epistemic[0] + moments.aleatoric[0]) - 1.0).abs() < 1e-6, "{square}");
            let median = mixture.quantile(0.5);
            assert!((mixture.cumulative(median) - 0.5).abs() < 1e-14);
        }
    }

    #[test]
    fn certain_noise_is_that_of_a_gaussian() {
        let latent = latent([1.0, 0.25_f64.ln()], [[2.0, 0.0], [0.0, 0.0]]);
        let expected = -0.5 * (9.0 / 2.25 + 2.25_f64.ln()) - HALF_LOG_TWO_PI;
        assert!((log_density(&latent, 4.0) - expected).abs() < 1e-14);
        let crps = NormalMixture::single(1.0, 1.5).crps(4.0);
        assert!((mixture(&latent, 0).crps(4.0) - crps).abs() < 1e-15);
    }

    #[test]
    fn extreme_outputs_and_observations_give_no_nan() {
        for log_variance in [-1e4, -700.0, 0.0, 700.0, 1e4] {
            for spread in [0.0, 1e-300, 1.0, 1e4] {
                for y in [0.0, 1e-3, 1e10] {
                    let latent = latent([0.0, log_variance], [[0.1, 0.0], [0.0, spread]]);
                    let value = log_density(&latent, y);
                    assert!(
                        !value.is_nan() && value < f64::INFINITY,
                        "s = {log_variance}, var {spread}, y = {y}: {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_distant_observation_costs_its_logarithm_when_the_noise_is_uncertain() {
        // Where log σ² has variance 1, tails fall like a log-normal's, far slower than a normal's.
        let uncertain = latent([0.0, 0.0], [[0.0, 0.0], [0.0, 1.0]]);
        let certain = latent([0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]);
        assert!(log_density(&uncertain, 30.0) > -35.0 && log_density(&certain, 30.0) < -450.0);
        // By a sum over the normal quantiles of s.
        let sum: f64 = (-9000..=9000)
            .map(|i| {
                let s = 2e-3 * f64::from(i);
                (-0.5 * (900.0 * (-s).exp() + s + s * s) - 2.0 * HALF_LOG_TWO_PI).exp() * 2e-3
            })
            .sum();
        assert!((log_density(&uncertain, 30.0) - sum.ln()).abs() < 1e-10);
    }
}
