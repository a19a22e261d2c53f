//! Pareto smoothed importance sampling (Vehtari et al. 2024), as ArviZ does it.
//!
//! The largest M = ⌈min(S/5, 3√S)⌉ of S importance ratios are replaced by the expected order statistics of a generalised
//! Pareto distribution fitted to them. Its shape k̂ says how far the estimate can be trusted: the variance of the ratios is
//! finite below ½, and estimates are useful up to about 0.7.

/// Importance weights with a smoothed tail.
#[derive(Debug, Clone, PartialEq)]
pub struct SmoothedWeights {
    /// log w_s, with Σ w_s = 1.
    pub log_weights: Vec<f64>,
    /// k̂, the shape of the tail; infinite where there are too few different ratios to estimate it (S ≤ 20).
    pub k: f64,
}

impl SmoothedWeights {
    /// 1/Σ w²: how many equal weights these are worth.
    pub fn effective_size(&self) -> f64 {
        1.0 / self.log_weights.iter().map(|log| (2.0 * log).exp()).sum::<f64>()
    }

    /// The largest weight, as a share of all.
    pub fn largest_share(&self) -> f64 {
        self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp()
    }
}

/// The fewest ratios in a tail to which a distribution is fitted.
const FEWEST: usize = 5;

/// Smooths and normalises importance ratios, given as logarithms.
///
/// ```
/// use riemannian_laplace::internals::evaluate::smooth_weights;
/// // Ratios of a Pareto variable with shape ½, at the quantiles (s − ½)/S.
/// let ratios: Vec<f64> = (0..4000).map(|s| -0.5 * ((f64::from(s) + 0.5) / 4000.0).ln()).collect();
/// assert!((smooth_weights(&ratios).k - 0.5).abs() < 0.02);
/// ```
pub fn smooth_weights(log_ratios: &[f64]) -> SmoothedWeights {
    let count = log_ratios.len();
    let top = log_ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        // Infinite ratios outweigh all others.
        let tops = log_ratios.iter().filter(|ratio| **ratio == top).count().max(1) as f64;
        let log_weights =
            log_ratios.iter().map(|ratio| if *ratio == top { -tops.ln() } else { f64::NEG_INFINITY }).collect();
        return SmoothedWeights { log_weights, k: f64::INFINITY };
    }
    let mut logs: Vec<f64> = log_ratios.iter().map(|ratio| ratio - top).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| logs[*a].total_cmp(&logs[*b]));
    let size = count as f64;
    let length = (size / 5.0).min(3.0 * size.sqrt()).ceil() as usize;
    let cutoff = logs[order[count.saturating_sub(length + 1)]].max(f64::MIN_POSITIVE.ln());
    // Ties with the cutoff belong to the body.
    let tail: Vec<usize> = order.into_iter().filter(|index| logs[*index] > cutoff).collect();
    let excesses: Vec<f64> = tail.iter().map(|index| logs[*index].exp() - cutoff.exp()).collect();
    let fit = if tail.len() < FEWEST { None } else { Pareto::fit(&excesses) };
    if let Some(pareto) = fit {
        for (rank, index) in tail.iter().enumerate() {
            let level = (rank as f64 + 0.5) / tail.len() as f64;
            // No weight exceeds the largest raw one.
            logs[*index] = (pareto.quantile(level) + cutoff.exp()).ln().min(0.0);
        }
    }
    let total = logs.iter().map(|log| log.exp()).sum::<f64>().ln();
    logs.iter_mut().for_each(|log| *log -= total);
    SmoothedWeights { log_weights: logs, k: fit.map_or(f64::INFINITY, |pareto| pareto.k) }
}

/// A generalised Pareto distribution on [0, ∞): P(X > x) = (1 + kx/σ)^(−1/k).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pareto {
    k: f64,
    sigma: f64,
}

impl Pareto {
    /// The estimate of Zhang and Stephens (2009) from at least [`FEWEST`] increasing values: the mean of b = −k/σ under
    /// their data-dependent prior, and k pulled towards ½ as if by ten further values. None where it is not a number.
    fn fit(values: &[f64]) -> Option<Self> {
        const PRIOR_SCALE: f64 = 3.0;
        const PRIOR_COUNT: f64 = 10.0;
        let (count, size) = (values.len(), values.len() as f64);
        let (quartile, largest) = (values[(size / 4.0 + 0.5) as usize - 1], values[count - 1]);
        let points = 30 + size.sqrt() as usize;
        let mean_log = |b: f64| values.iter().map(|value| (-b * value).ln_1p()).sum::<f64>() / size;
        let grid: Vec<f64> = (1..=points)
            .map(|point| {
                let shift = 1.0 - (points as f64 / (point as f64 - 0.5)).sqrt();
                1.0 / largest + shift / (PRIOR_SCALE * quartile)
            })
            .collect();
        let log_likelihoods: Vec<f64> = grid
            .iter()
            .map(|b| {
                let k = mean_log(*b);
                size * ((-b / k).ln() - k - 1.0)
            })
            .collect();
        let top = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_likelihoods.iter().map(|log| (log - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        // What rounding leaves of a weight does not count.
        let kept = weights.iter().zip(&grid).filter(|(weight, _)| **weight >= 10.0 * f64::EPSILON * total);
        let (mass, sum) = kept.fold((0.0, 0.0), |(mass, sum), (weight, b)| (mass + weight, sum + weight * b));
        let b = sum / mass;
        let k = mean_log(b);
        let pareto = Self { k: (size * k + 0.5 * PRIOR_COUNT) / (size + PRIOR_COUNT), sigma: -k / b };
        (pareto.k.is_finite() && pareto.sigma > 0.0 && pareto.sigma.is_finite()).then_some(pareto)
    }

    /// The x with P(X ≤ x) = `level`.
    fn quantile(self, level: f64) -> f64 {
        let exponential = -(-level).ln_1p();
        let standard = if self.k.abs() < f64::EPSILON { exponential } else { (self.k * exponential).exp_m1() / self.k };
        self.sigma * standard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_distribution_function() {
        for k in [-0.4, 0.0, 0.3, 1.2] {
            let pareto = Pareto { k, sigma: 2.5 };
            for level in [0.01, 0.5, 0.99] {
                let x = pareto.quantile(level);
                let beyond = if k == 0.0 { (-x / 2.5_f64).exp() } else { (1.0 + k * x / 2.5).powf(-1.0 / k) };
                assert!((1.0 - beyond - level).abs() < 1e-12, "k = {k}, level {level}");
            }
        }
    }

    #[test]
    fn a_pareto_tail_is_recovered_apart_from_the_pull_towards_one_half() {
        for k in [-0.3, 0.1, 0.9] {
            let pareto = Pareto { k, sigma: 0.7 };
            let values: Vec<f64> = (0..5000).map(|i| pareto.quantile((f64::from(i) + 0.5) / 5000.0)).collect();
            let fit = Pareto::fit(&values).unwrap();
            // The pull moves k by (½ − k)·10/5010 < 0.002; the quantiles stop short of the largest values.
            assert!((fit.k - k).abs() < 0.02 && (fit.sigma - 0.7).abs() < 0.02, "{k}: {fit:?}");
        }
    }

    #[test]
    fn weights_sum_to_one_and_keep_the_order_of_their_ratios() {
        let ratios: Vec<f64> = (0..300).map(|i| f64::from((i * 7919) % 300) * 0.02).collect();
        let smoothed = smooth_weights(&ratios);
        let sum: f64 = smoothed.log_weights.iter().map(|log| log.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        for (i, j) in (0..300).zip(1..300) {
            assert_eq!(ratios[i] < ratios[j], smoothed.log_weights[i] < smoothed.log_weights[j]);
        }
        assert!(smoothed.effective_size() <= 300.0 && smoothed.largest_share() >= 1.0 / 300.0);
    }

    #[test]
    fn few_equal_or_infinite_ratios_are_not_smoothed() {
        let third = -(3_f64.ln());
        assert_eq!(smooth_weights(&[1.0; 3]), SmoothedWeights { log_weights: vec![third; 3], k: f64::INFINITY });
        let one = smooth_weights(&[0.0, f64::INFINITY, 3.0]);
        assert_eq!(one.log_weights, [f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY]);
        assert_eq!(smooth_weights(&[f64::NEG_INFINITY, 0.0]).log_weights, [f64::NEG_INFINITY, 0.0]);
        assert!(smooth_weights(&[]).log_weights.is_empty());
        assert_eq!(smooth_weights(&[-3.0]).log_weights, [0.0]);
    }
}
