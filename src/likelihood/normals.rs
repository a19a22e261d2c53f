//! Mixtures of normal distributions: the predictive distribution of a real target. Distribution function, quantiles and
//! the continuous ranked probability score.

use super::distribution::{normal_cdf, normal_quantile, root};

/// One component of a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normal {
    /// Its share; all of them sum to 1.
    pub weight: f64,
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

/// Σ wᵢ N(mᵢ, sᵢ²); never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalMixture(pub(super) Vec<Normal>);

impl NormalMixture {
    /// N(mean, deviation²).
    pub fn single(mean: f64, deviation: f64) -> Self {
        Self(vec![Normal { weight: 1.0, mean, deviation }])
    }

    /// Components (mean, deviation), each with its weight.
    pub fn weighted(components: Vec<(f64, (f64, f64))>) -> Self {
        Self(components.into_iter().map(|(weight, (mean, deviation))| Normal { weight, mean, deviation }).collect())
    }

    /// P(y ≤ x).
    pub fn cumulative(&self, x: f64) -> f64 {
        self.0.iter().map(|c| c.weight * normal_cdf((x - c.mean) / c.deviation)).sum()
    }

    /// The x with P(y ≤ x) = `level`.
    pub fn quantile(&self, level: f64) -> f64 {
        let z = normal_quantile(level);
        let quantiles = self.0.iter().map(|c| c.mean + z * c.deviation);
        let ends = quantiles.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), q| (low.min(q), high.max(q)));
        match self.0[..] {
            [_] => ends.0,
            // The quantile of the mixture lies between those of its components.
            _ => root(|x| self.cumulative(x) - level, ends.0, ends.1),
        }
    }

    /// The continuous ranked probability score ∫ (P(y ≤ x) − 1{observed ≤ x})² dx = E|Y − observed| − ½E|Y − Y′|, in
    /// closed form (Grimit et al. 2006).
    pub fn crps(&self, observed: f64) -> f64 {
        let mut score = 0.0;
        for (i, a) in self.0.iter().enumerate() {
            score += a.weight * mean_distance(a.mean - observed, a.deviation);
            score -= 0.5 * a.weight * a.weight * mean_distance(0.0, std::f64::consts::SQRT_2 * a.deviation);
            for b in &self.0[..i] {
                let deviation = a.deviation.hypot(b.deviation);
                score -= a.weight * b.weight * mean_distance(a.mean - b.mean, deviation);
            }
        }
        score
    }
}

/// E|X| for X ~ N(mean, deviation²): mean·(2Φ(z) − 1) + 2·deviation·φ(z), z = mean/deviation.
fn mean_distance(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.abs();
    }
    let z = mean / deviation;
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    mean * libm::erf(z * std::f64::consts::FRAC_1_SQRT_2) + 2.0 * deviation * density
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixture() -> NormalMixture {
        let components = [(0.2, -2.0, 0.3), (0.5, 0.5, 1.1), (0.3, 4.0, 0.05)];
        NormalMixture(components.map(|(weight, mean, deviation)| Normal { weight, mean, deviation }).to_vec())
    }

    #[test]
    fn quantiles_invert_the_distribution_function() {
        for level in [0.01, 0.3, 0.5, 0.9] {
            assert!((mixture().cumulative(mixture().quantile(level)) - level).abs() < 1e-14, "{level}");
            let single = NormalMixture::single(1.0, 2.0);
            assert_eq!(single.quantile(level), 1.0 + 2.0 * normal_quantile(level));
        }
    }

    #[test]
    fn the_ranked_probability_score_is_its_integral() {
        let step = 1e-4;
        for observed in [-3.0, 0.4, 4.1] {
            let square = |i: i32| {
                let x = -8.0 + step * (f64::from(i) + 0.5);
                (mixture().cumulative(x) - if observed <= x { 1.0 } else { 0.0 }).powi(2)
            };
            let integral: f64 = (0..160_000).map(square).sum::<f64>() * step;
            // The jump at the observation lies on the boundary of a cell, so the midpoint rule errs by h²/24 times the
            // greatest slope of the integrand, about 16.
            assert!((mixture().crps(observed) - integral).abs() < 1e-7, "{observed}");
        }
        // Gneiting and Raftery (2007): (√2 − 1)/√π for a standard normal at its mean.
        let expected = (std::f64::consts::SQRT_2 - 1.0) / std::f64::consts::PI.sqrt();
        assert!((NormalMixture::single(0.0, 1.0).crps(0.0) - expected).abs() < 1e-15);
    }
}
