//! Integrals over a Gaussian of outputs: E and Var of y, log p(y), and the distribution of a target, by quadrature for
//! likelihoods that have no closed form.

use super::distribution::{normal_quantile, root};
use super::normals::NormalMixture;
use super::{Likelihood, TargetKind};

/// The nodes of a Gauss-Hermite rule: exact for polynomials up to degree 79.
const HERMITE_NODES: usize = 40;
/// The number of equally likely outputs over which distribution functions are averaged.
pub(super) const OUTPUTS: usize = 100;
/// ½ log 2π.
const HALF_LOG_TWO_PI: f64 = 0.9189385332046728;

/// A Gaussian over the P outputs at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentPoint {
    /// The means.
    pub mean: Vec<f64>,
    /// The covariance, row by row.
    pub covariance: Vec<f64>,
}

/// E(y), Var E(y | f) and E Var(y | f) of every component of y.
#[derive(Debug, Clone, PartialEq)]
pub struct PointMoments {
    /// E(y).
    pub mean: Vec<f64>,
    /// Var E(y | f): what more data would reduce.
    pub epistemic: Vec<f64>,
    /// E Var(y | f): what they would not.
    pub aleatoric: Vec<f64>,
}

impl LatentPoint {
    /// The number of outputs.
    pub fn n_outputs(&self) -> usize {
        self.mean.len()
    }

    /// The covariance of two outputs.
    pub fn covariance(&self, i: usize, j: usize) -> f64 {
        self.covariance[i * self.mean.len() + j]
    }

    /// The variance of an output.
    pub fn variance(&self, output: usize) -> f64 {
        self.covariance(output, output)
    }

    /// The standard deviation of an output.
    pub fn deviation(&self, output: usize) -> f64 {
        self.variance(output).max(0.0).sqrt()
    }

    /// The mean with one output moved by that many of its standard deviations.
    fn moved(&self, output: usize, by: f64) -> Vec<f64> {
        let mut outputs = self.mean.clone();
        outputs[output] += by * self.deviation(output);
        outputs
    }

    /// Equally likely values of an output, the others at their means.
    pub(super) fn equally_likely(&self, output: usize, count: usize) -> Vec<(f64, Vec<f64>)> {
        let weight = 1.0 / count as f64;
        let level = |i: usize| normal_quantile((i as f64 + 0.5) / count as f64);
        (0..count).map(|i| (weight, self.moved(output, level(i)))).collect()
    }

    /// The moments of y by Gauss-Hermite quadrature. Component k of y depends on output k alone, or all on the only output.
    pub(super) fn quadrature_moments(&self, likelihood: &dyn Likelihood) -> PointMoments {
        let p = self.n_outputs();
        let width = likelihood.n_means(p);
        let zeros = vec![0.0; width];
        let mut moments = PointMoments { mean: zeros.clone(), epistemic: zeros.clone(), aleatoric: zeros.clone() };
        let (mut mean, mut variance) = (zeros.clone(), zeros);
        for output in 0..p {
            let own = if p == 1 { 0..width } else { output..(output + 1).min(width) };
            for (node, weight) in hermite() {
                let f = self.moved(output, *node);
                likelihood.mean(&f, &mut mean);
                likelihood.variance(&f, &mut variance);
                for k in own.clone() {
                    moments.mean[k] += weight * mean[k];
                    moments.epistemic[k] += weight * mean[k] * mean[k];
                    moments.aleatoric[k] += weight * variance[k];
                }
            }
        }
        for (square, mean) in moments.epistemic.iter_mut().zip(&moments.mean) {
            *square = (*square - mean * mean).max(0.0);
        }
        moments
    }

    /// log p(y), target by target, each by quadrature over its own output.
    pub(super) fn quadrature_log_density(&self, likelihood: &dyn Likelihood, target: &[f64]) -> f64 {
        let p = self.n_outputs();
        if p == 1 {
            let largest = likelihood.largest_log_density(target);
            return log_mixture(|f| likelihood.log_density(target, &[f]), largest, self.mean[0], self.deviation(0));
        }
        // Σ_k log ∫ p(y_k | f_k): of the joint density, the other outputs at their means are divided out again.
        let at_mean = likelihood.log_density(target, &self.mean);
        let of_output = |output: usize| {
            let density = |f: f64| {
                let mut outputs = self.mean.clone();
                outputs[output] = f;
                likelihood.log_density(target, &outputs) - at_mean
            };
            log_mixture(density, None, self.mean[output], self.deviation(output))
        };
        at_mean + (0..p).map(of_output).sum::<f64>()
    }
}

/// log ∫ exp(g(m + s·x)) φ(x) dx by the trapezoidal rule in the log domain: a coarse pass finds where the integrand exceeds
/// e⁻⁴⁰ of its maximum, finer ones sum over that part.
///
/// With the largest g known, nothing beyond ½x² = g_max − g(m) + 40 counts; otherwise the reach grows until nothing does.
fn log_mixture(g: impl Fn(f64) -> f64, largest: Option<f64>, mean: f64, deviation: f64) -> f64 {
    const NODES: usize = 400;
    const NEGLIGIBLE: f64 = 40.0;
    let centre = g(mean);
    if deviation == 0.0 || centre.is_nan() {
        return centre;
    }
    let log_integrand = |x: f64| g(mean + deviation * x) - 0.5 * x * x - HALF_LOG_TWO_PI;
    let mut reach = (2.0 * (largest.map_or(0.0, |top| (top - centre).max(0.0)) + NEGLIGIBLE)).sqrt();
    if !reach.is_finite() {
        reach = 1e3;
    }
    let (mut low, mut high) = (-reach, reach);
    let mut result = f64::NEG_INFINITY;
    for _ in 0..4 {
        let step = (high - low) / NODES as f64;
        let logs: Vec<f64> = (0..=NODES).map(|i| log_integrand(low + i as f64 * step)).collect();
        result = log_sum_exp(logs.iter().copied()) + step.ln();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let large = |value: &f64| *value > top - NEGLIGIBLE;
        let first = logs.iter().position(large).map_or(0, |first| first.saturating_sub(1));
        let last = logs.iter().rposition(large).map_or(NODES, |last| (last + 1).min(NODES));
        if last - first > NODES / 2 {
            break;
        }
        (low, high) = (low + first as f64 * step, low + last as f64 * step);
    }
    result
}

/// log Σ exp of the terms, without overflow; −∞ when all of them are.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let terms: Vec<f64> = terms.into_iter().collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

/// Nodes x and weights w with E g(x) = Σ w g(x) for x ~ N(0, 1), exact for polynomials of degree 2n − 1.
///
/// The nodes are the roots of the orthonormal Hermite polynomial h_n, between those of h_{n−1}, by bisection; the weights
/// 1/Σ_k h_k(x)².
pub fn gauss_hermite(n: usize) -> Vec<(f64, f64)> {
    // h_{k+1} = (x h_k − √k h_{k−1})/√(k+1), h_0 = 1.
    let values = |x: f64, degree: usize| {
        let (mut before, mut last, mut squares) = (0.0, 1.0, 0.0);
        for k in 0..degree {
            squares += last * last;
            let next = (x * last - (k as f64).sqrt() * before) / ((k + 1) as f64).sqrt();
            (before, last) = (last, next);
        }
        (last, squares)
    };
    let mut roots: Vec<f64> = Vec::new();
    for degree in 1..=n {
        let end = 2.0 * (degree as f64).sqrt() + 1.0;
        let walls: Vec<f64> = [-end].into_iter().chain(roots).chain([end]).collect();
        roots = walls
            .windows(2)
            .map(|between| {
                let sign = values(between[1], degree).0.signum();
                root(|x| sign * values(x, degree).0, between[0], between[1])
            })
            .collect();
    }
    roots.into_iter().map(|x| (x, 1.0 / values(x, n).1)).collect()
}

fn hermite() -> &'static [(f64, f64)] {
    static NODES: std::sync::OnceLock<Vec<(f64, f64)>> = std::sync::OnceLock::new();
    NODES.get_or_init(|| gauss_hermite(HERMITE_NODES))
}

/// The distribution of one target at one point.
#[derive(Debug, Clone)]
pub enum Marginal<'a> {
    /// A mixture of normals.
    Normals(NormalMixture),
    /// A mixture of p(y | f) over outputs f.
    Outputs(OutputMixture<'a>),
}

/// Σ w p(y_k | f) over outputs f with their weights.
#[derive(Debug, Clone)]
pub struct OutputMixture<'a> {
    likelihood: &'a dyn Likelihood,
    target: usize,
    parts: Vec<(f64, Vec<f64>)>,
}

impl<'a> Marginal<'a> {
    /// The distribution of target k given outputs, each with its weight.
    pub fn given(likelihood: &'a dyn Likelihood, target: usize, parts: Vec<(f64, Vec<f64>)>) -> Self {
        let normals = parts.iter().map(|(weight, f)| likelihood.normal(f, target).map(|part| (*weight, part)));
        match normals.collect::<Option<Vec<_>>>() {
            Some(normals) => Marginal::Normals(NormalMixture::weighted(normals)),
            None => Marginal::Outputs(OutputMixture { likelihood, target, parts }),
        }
    }

    /// The mixture of several, each with its share; none where there are none, or of different likelihoods.
    pub fn mixed(parts: Vec<(f64, Self)>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let (share, mut all) = parts.next()?;
        all.scale(share);
        for (share, mut part) in parts {
            part.scale(share);
            match (&mut all, part) {
                (Marginal::Normals(all), Marginal::Normals(part)) => all.0.extend(part.0),
                (Marginal::Outputs(all), Marginal::Outputs(part)) => all.parts.extend(part.parts),
                _ => return None,
            }
        }
        Some(all)
    }

    fn scale(&mut self, share: f64) {
        match self {
            Marginal::Normals(mixture) => mixture.0.iter_mut().for_each(|part| part.weight *= share),
            Marginal::Outputs(mixture) => mixture.parts.iter_mut().for_each(|part| part.0 *= share),
        }
    }

    /// P(y ≤ value).
    pub fn cumulative(&self, value: f64) -> f64 {
        match self {
            Marginal::Normals(mixture) => mixture.cumulative(value),
            Marginal::Outputs(mixture) => mixture.cumulative(value),
        }
    }

    /// P(y < value) + ½P(y = value): uniform where the prediction is calibrated.
    pub fn rank(&self, value: f64) -> f64 {
        match self {
            Marginal::Normals(mixture) => mixture.cumulative(value),
            Marginal::Outputs(mixture) => mixture.rank(value),
        }
    }

    /// The least y with P(· ≤ y) ≥ `level`.
    pub fn quantile(&self, level: f64) -> f64 {
        match self {
            Marginal::Normals(mixture) => mixture.quantile(level),
            Marginal::Outputs(mixture) => mixture.quantile(level),
        }
    }

    /// The continuous ranked probability score ∫ (P(y ≤ x) − 1{observed ≤ x})² dx.
    pub fn crps(&self, observed: f64) -> f64 {
        match self {
            Marginal::Normals(mixture) => mixture.crps(observed),
            Marginal::Outputs(mixture) => mixture.crps(observed),
        }
    }
}

/// The distribution function of a mixture over equally likely outputs has plateaus at round levels such as 0.95: one that is
/// reached up to the rounding of its sum is reached.
pub(crate) const LEVEL_ROUNDING: f64 = 1e-10;
/// Counts beyond which whole numbers can no longer be told apart.
const MOST_COUNTS: f64 = 9e15;
/// The levels of the quantiles between which a score is integrated, and the pieces between two of them.
const SCORE_LEVELS: [f64; 13] = [1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99, 0.999, 0.9999];
const SCORE_PIECES: usize = 12;

impl OutputMixture<'_> {
    fn cumulative(&self, value: f64) -> f64 {
        self.parts.iter().map(|(weight, f)| weight * self.likelihood.cumulative(f, self.target, value)).sum()
    }

    fn rank(&self, value: f64) -> f64 {
        self.parts.iter().map(|(weight, f)| weight * self.likelihood.rank(f, self.target, value)).sum()
    }

    fn quantile(&self, level: f64) -> f64 {
        match self.likelihood.kind().is_whole() {
            true => self.whole_quantile(level),
            false => self.real_quantile(level),
        }
    }

    /// The smallest count whose distribution function reaches the level.
    fn whole_quantile(&self, level: f64) -> f64 {
        let level = level - LEVEL_ROUNDING;
        let mut high = 1.0;
        while self.cumulative(high) < level {
            if high > MOST_COUNTS {
                return f64::INFINITY;
            }
            high *= 2.0;
        }
        if self.cumulative(high).is_nan() {
            return f64::NAN;
        }
        let mut low = -1.0; // never reached
        while high - low > 1.0 {
            let middle = f64::floor(0.5 * (low + high));
            if self.cumulative(middle) < level { low = middle } else { high = middle }
        }
        high
    }

    /// By regula falsi (with halved ends) between values that enclose it.
    fn real_quantile(&self, level: f64) -> f64 {
        let (centre, spread) = self.location();
        let excess = |y: f64| self.cumulative(y) - level;
        let positive = self.likelihood.kind() == TargetKind::Positive;
        let (mut low, mut high) = (if positive { 0.0 } else { centre - spread }, centre + spread);
        let mut width = spread;
        while !positive && excess(low) > 0.0 && width < f64::MAX / 4.0 {
            width *= 2.0;
            low = centre - width;
        }
        width = spread;
        while excess(high) < 0.0 && width < f64::MAX / 4.0 {
            width *= 2.0;
            high = centre + width;
        }
        let (mut at_low, mut at_high) = (excess(low), excess(high));
        let mut side = 0;
        for _ in 0..200 {
            let middle = (at_high * low - at_low * high) / (at_high - at_low);
            if !(low < middle && middle < high) || high - low < 1e-13 * (low.abs() + high.abs()) {
                break;
            }
            let at = excess(middle);
            if at == 0.0 {
                return middle;
            }
            if at < 0.0 {
                if side == -1 {
                    at_high *= 0.5;
                }
                (low, at_low, side) = (middle, at, -1);
            } else {
                if side == 1 {
                    at_low *= 0.5;
                }
                (high, at_high, side) = (middle, at, 1);
            }
        }
        if at_high - at_low != 0.0 { (at_high * low - at_low * high) / (at_high - at_low) } else { 0.5 * (low + high) }
    }

    /// A value in the middle of the distribution, and a distance on its scale.
    fn location(&self) -> (f64, f64) {
        let width = self.likelihood.n_means(self.parts.first().map_or(1, |(_, f)| f.len()));
        let mut buffer = vec![0.0; width];
        let mut ends = (f64::INFINITY, f64::NEG_INFINITY);
        for (_, f) in &self.parts {
            self.likelihood.mean(f, &mut buffer);
            ends = (ends.0.min(buffer[self.target]), ends.1.max(buffer[self.target]));
        }
        let centre = 0.5 * (ends.0 + ends.1);
        let spread = (ends.1 - ends.0).max(1e-3 * centre.abs()).max(1e-6);
        (centre, spread)
    }

    /// ∫ (F − 1{observed ≤ x})² dx, with F linear between points that lie densely between its quantiles.
    fn crps(&self, observed: f64) -> f64 {
        let ends: Vec<f64> = SCORE_LEVELS.iter().map(|level| self.quantile(*level)).collect();
        let piece = |between: &[f64]| {
            let (low, step) = (between[0], (between[1] - between[0]) / SCORE_PIECES as f64);
            (0..SCORE_PIECES).map(move |i| low + i as f64 * step).collect::<Vec<f64>>()
        };
        let mut points: Vec<f64> =
            ends.windows(2).flat_map(piece).chain(ends.last().copied()).chain([observed]).collect();
        points.sort_by(f64::total_cmp);
        let knots: Vec<(f64, f64)> = points.into_iter().map(|x| (x, self.cumulative(x))).collect();
        let square = |between: &[(f64, f64)]| {
            let ((x, u), (end, v)) = (between[0], between[1]);
            let (a, b) = if x >= observed { (u - 1.0, v - 1.0) } else { (u, v) };
            (end - x) * (a * a + a * b + b * b) / 3.0
        };
        knots.windows(2).map(square).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_integrates_polynomials_against_a_standard_normal() {
        let rule = gauss_hermite(12);
        let moment = |power: i32| rule.iter().map(|(x, w)| w * x.powi(power)).sum::<f64>();
        // E x²ᵏ = (2k − 1)!!, as far as degree 23.
        for (power, expected) in
            [(0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0), (12, 10_395.0), (22, 13_749_310_575.0)]
        {
            assert!((moment(power) - expected).abs() <= 1e-12 * f64::max(expected, 1.0), "{power}: {}", moment(power));
        }
        // The mean of a log-normal variable.
        let mean: f64 = gauss_hermite(HERMITE_NODES).iter().map(|(x, w)| w * (1.5 * x).exp()).sum();
        assert!((mean / (1.125_f64).exp() - 1.0).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn a_normal_density_under_a_normal_variable_is_normal() {
        for (y, deviation, sigma) in [(0.3, 1.0, 1.0), (5.0, 0.1, 0.01), (-40.0, 2.0, 1e-3), (1.0, 1e-4, 3.0)] {
            let g = |f: f64| -0.5 * ((y - f) / sigma).powi(2) - f64::ln(sigma) - HALF_LOG_TWO_PI;
            let largest = -f64::ln(sigma) - HALF_LOG_TWO_PI;
            let total = f64::hypot(deviation, sigma);
            let expected = -0.5 * (y / total).powi(2) - total.ln() - HALF_LOG_TWO_PI;
            let found = log_mixture(g, Some(largest), 0.0, deviation);
            assert!((found - expected).abs() < 1e-9, "{y} {deviation} {sigma}: {found} for {expected}");
        }
    }
}
