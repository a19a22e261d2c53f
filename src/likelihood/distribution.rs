//! Distribution functions: of a normal variable with its quantiles, and of counts.

use libm::{erfc, lgamma};

/// Counts beyond which a distribution function is that of a normal variable to more digits than the series gives.
const MANY: f64 = 1e6;

/// Φ(z).
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// The z with Φ(z) = `level`.
pub(crate) fn normal_quantile(level: f64) -> f64 {
    // Φ(±39) is 0 and 1 to the last bit.
    root(|z| normal_cdf(z) - level, -39.0, 39.0)
}

/// The point where an increasing function changes its sign, by bisection to the last bits.
pub(super) fn root(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// P(y ≤ count) for y ~ Poisson(rate): the regularised upper incomplete gamma function Q(count + 1, rate).
pub(super) fn poisson_cdf(count: f64, rate: f64) -> f64 {
    if count < 0.0 {
        return 0.0;
    }
    if rate <= 0.0 {
        return 1.0;
    }
    if rate == f64::INFINITY {
        return 0.0;
    }
    let a = count.floor() + 1.0;
    if a > MANY {
        // Wilson and Hilferty (1931): the cube root of a gamma variable is nearly normal; the error falls like 1/a.
        let z = ((rate / a).cbrt() - (1.0 - 1.0 / (9.0 * a))) * 3.0 * a.sqrt();
        return normal_cdf(-z);
    }
    upper_gamma(a, rate)
}

/// Q(a, x), by its series for x < a + 1 and by its continued fraction beyond (the modified Lentz recurrence).
fn upper_gamma(a: f64, x: f64) -> f64 {
    const MOST_TERMS: usize = 100_000;
    let log_front = a * x.ln() - x - lgamma(a);
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..MOST_TERMS {
            term *= x / (a + n as f64);
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        return (1.0 - (log_front + sum.ln()).exp()).clamp(0.0, 1.0);
    }
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut fraction = d;
    for n in 1..MOST_TERMS {
        let factor = -(n as f64) * (n as f64 - a);
        b += 2.0;
        d = factor * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + factor / c;
        if c.abs() < TINY {
            c = TINY;
        }
        let change = c * d;
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    ((log_front + fraction.ln()).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Marginal, Poisson};
    use super::*;

    /// The mixture of Poissons with these weights and rates.
    fn mixture(rates: &[(f64, f64)]) -> Marginal<'static> {
        Marginal::given(&Poisson, 0, rates.iter().map(|(weight, rate)| (*weight, vec![rate.ln()])).collect())
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (level, z) in [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (0.05, -1.644_853_626_951_472_7)] {
            assert!((normal_quantile(level) - z).abs() < 1e-14, "{level}");
        }
    }

    #[test]
    fn the_poisson_distribution_function_is_the_sum_of_its_probabilities() {
        for rate in [0.1, 1.0, 7.5, 40.0, 900.0] {
            let (mut sum, mut log_probability) = (0.0, -rate);
            for count in 0..(3.0 * rate + 20.0) as usize {
                if count > 0 {
                    log_probability += f64::ln(rate / count as f64);
                }
                sum += f64::exp(log_probability);
                // The logarithms of Γ and of powers near rate·log rate round at 1e-16 relative to themselves.
                assert!((poisson_cdf(count as f64, rate) - sum).abs() < 1e-11, "{count} at {rate}");
            }
        }
    }

    #[test]
    fn large_rates_join_smoothly_and_infinite_ones_have_no_quantile() {
        for shift in [-2.0, -0.5, 0.0, 1.0, 3.0] {
            let rate = MANY + shift * MANY.sqrt();
            // On both sides of the switch: a step of one count is a thousandth of a deviation.
            let (below, above) = (poisson_cdf(MANY - 1.0, rate), poisson_cdf(MANY, rate));
            assert!(above >= below && above - below < 1e-3, "{shift}: {below}, {above}");
        }
        let quantile = |rate: f64, level: f64| mixture(&[(1.0, rate)]).quantile(level);
        let median = quantile(1e10, 0.5);
        assert!((median - 1e10).abs() < 10.0, "{median}");
        assert_eq!(quantile(f64::INFINITY, 0.5), f64::INFINITY);
        assert!(quantile(f64::NAN, 0.5).is_nan());
    }

    #[test]
    fn quantiles_of_a_mixture_invert_its_distribution_function() {
        for level in [0.01, 0.3, 0.5, 0.9] {
            let rates = [(0.2, 0.5), (0.5, 3.0), (0.3, 20.0)];
            let count = mixture(&rates).quantile(level);
            let at = |count: f64| rates.iter().map(|(weight, rate)| weight * poisson_cdf(count, *rate)).sum::<f64>();
            assert!(at(count) >= level && at(count - 1.0) < level, "{level}");
        }
    }
}
