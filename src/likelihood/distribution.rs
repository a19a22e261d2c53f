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
pub(super) fn upper_gamma(a: f64, x: f64) -> f64 {
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

/// P(T ≤ t) of Student's t distribution with `freedom` degrees of freedom.
pub(super) fn student_cdf(freedom: f64, t: f64) -> f64 {
    if t.is_nan() {
        return t;
    }
    // The smaller argument keeps the digits of the tail, the other those of the middle.
    let square = t * t;
    let tail = match square < freedom {
        true => 0.5 - 0.5 * incomplete_beta(0.5, 0.5 * freedom, square / (freedom + square)),
        false => 0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + square)),
    };
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// I(x; a, b), the regularised incomplete beta function, by its continued fraction (the modified Lentz recurrence) on the
/// side where that converges fast.
pub(super) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    const MOST_TERMS: usize = 100_000;
    const TINY: f64 = 1e-300;
    if x.is_nan() {
        return x;
    }
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let log_front = a * x.ln() + b * (-x).ln_1p() + lgamma(a + b) - lgamma(a) - lgamma(b) - a.ln();
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for n in 1..MOST_TERMS {
        let m = n as f64;
        let mut change = 1.0;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change *= c * d;
        }
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    (log_front + fraction.ln()).exp().clamp(0.0, 1.0)
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
    fn the_incomplete_beta_function_is_a_binomial_tail_and_a_closed_t_distribution() {
        // I(p; k, n − k + 1) = P(at least k of n).
        for (n, p) in [(5, 0.3), (40, 0.07), (200, 0.6)] {
            let (mut below, mut log_choose) = (0.0, 0.0);
            for k in 0..n {
                let (successes, failures) = (f64::from(k), f64::from(n - k));
                below += f64::exp(log_choose + successes * f64::ln(p) + failures * f64::ln(1.0 - p));
                log_choose += (failures / (successes + 1.0)).ln();
                let found = incomplete_beta(successes + 1.0, failures, p);
                assert!((found - (1.0 - below)).abs() < 1e-12, "{k} of {n}: {found}, {}", 1.0 - below);
            }
        }
        // With 2 degrees of freedom ½ + t/(2√(2 + t²)), with 1 degree ½ + atan(t)/π.
        for t in [-30.0, -1.5, -1e-3, 0.0, 0.4, 2.0, 7.0] {
            let two = 0.5 + 0.5 * t / f64::sqrt(2.0 + t * t);
            assert!((student_cdf(2.0, t) - two).abs() < 1e-14, "{t}: {} for {two}", student_cdf(2.0, t));
            let one = 0.5 + f64::atan(t) / std::f64::consts::PI;
            assert!((student_cdf(1.0, t) - one).abs() < 1e-14, "{t}: {} for {one}", student_cdf(1.0, t));
        }
        assert!((student_cdf(1e3, 1.0) - normal_cdf(1.0)).abs() < 1e-3);
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
