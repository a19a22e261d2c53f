//! Ordered classes by the cumulative logit: P(y ≤ k | f) = S_k = sigmoid(c_k − f) with thresholds 0 = c_0 < … < c_{K−2}. (The
//! first is 0, since the network's last bias moves all of them.)
//!
//! With S_{−1} = 0, S_{K−1} = 1 and g_k = S_k(1 − S_k): p_k = S_k − S_{k−1}, the score is s_k = S_k + S_{k−1} − 1, the observed
//! information g_k + g_{k−1}, and H = Σ p_k(g_k + g_{k−1}). Its derivative H′ = Σ p_k s_k (s_k² − 2(g_k + g_{k−1})) gives
//! z = √H f̈ + ½H′/√H ḟ².

use std::sync::Arc;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    Dispersion, Likelihood, NoiseError, Registered, TargetError, TargetKind, TargetSummary, check_parameters,
    check_values,
};
use crate::elementary::{sigmoid, softplus};

/// Bounds of the gaps between neighbouring thresholds.
const GAP: (f64, f64) = (1e-4, 50.0);
/// The width of the pieces over which √H is integrated, by Gauss and Legendre's rule of five points.
const PIECE: f64 = 0.5;
const LEGENDRE: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_1),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.906_179_845_938_664, 0.236_926_885_056_189_1),
];

/// A class from 0 to K − 1, whose order means something: a network's one output moves all of them along.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Likelihood, Ordinal};
///
/// let grades = Ordinal::new(&[2.0])?; // thresholds 0 and 2
/// let mut probabilities = [0.0; 3];
/// grades.mean(&[1.0], &mut probabilities);
/// assert!((probabilities[0] - 1.0 / (1.0 + 1.0_f64.exp())).abs() < 1e-15);
/// assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-15);
/// assert!(Ordinal::new(&[-1.0]).is_err());
/// # Ok::<(), riemannian_laplace::internals::likelihood::NoiseError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ordinal {
    /// One fewer than there are classes.
    thresholds: Vec<f64>,
}

/// What a class is at an output.
struct Class {
    log_p: f64,
    score: f64,
    /// −∂² log p/∂f².
    information: f64,
}

impl Ordinal {
    /// With these gaps between neighbouring thresholds: two fewer than there are classes.
    pub fn new(gaps: &[f64]) -> Result<Self, NoiseError> {
        let above = gaps.iter().scan(0.0, |sum, gap| {
            *sum += gap;
            Some(*sum)
        });
        let ordinal = Self { thresholds: std::iter::once(0.0).chain(above).collect() };
        check_parameters(&ordinal.dispersions())?;
        Ok(ordinal)
    }

    fn n_classes(&self) -> usize {
        self.thresholds.len() + 1
    }

    /// The upper and the lower threshold of a class less f, where it has them.
    fn ends(&self, class: usize, f: f64) -> (Option<f64>, Option<f64>) {
        let upper = self.thresholds.get(class).map(|c| c - f);
        let lower = class.checked_sub(1).and_then(|below| self.thresholds.get(below)).map(|c| c - f);
        (upper, lower)
    }

    /// p_k = S_k(1 − S_{k−1})(1 − e^{c_{k−1} − c_k}), without a difference of nearly equal numbers.
    fn class(&self, class: usize, f: f64) -> Class {
        let (upper, lower) = self.ends(class, f);
        let gap = match (upper, lower) {
            (Some(upper), Some(lower)) => (-(lower - upper).exp_m1()).ln(),
            _ => 0.0,
        };
        let log_p = gap - upper.map_or(0.0, |a| softplus(-a)) - lower.map_or(0.0, softplus);
        let score = lower.map_or(0.0, sigmoid) - upper.map_or(0.0, |a| sigmoid(-a));
        let slope = |a: f64| sigmoid(a) * sigmoid(-a);
        Class { log_p, score, information: upper.map_or(0.0, slope) + lower.map_or(0.0, slope) }
    }

    fn classes(&self, f: f64) -> impl Iterator<Item = Class> {
        (0..self.n_classes()).map(move |class| self.class(class, f))
    }

    /// H.
    fn information(&self, f: f64) -> f64 {
        self.classes(f).map(|class| class.log_p.exp() * class.information).sum()
    }

    /// H′.
    fn slope(&self, f: f64) -> f64 {
        let term = |class: Class| class.log_p.exp() * class.score * (class.score.powi(2) - 2.0 * class.information);
        self.classes(f).map(term).sum()
    }

    /// ∫ √H from the middle of the thresholds to f.
    fn distance(&self, f: f64) -> f64 {
        let middle = 0.5 * self.thresholds.last().copied().unwrap_or(0.0);
        let pieces = ((f - middle).abs() / PIECE).ceil().clamp(1.0, 1e4);
        let half = 0.5 * (f - middle) / pieces;
        let piece = |index: usize| -> f64 {
            let centre = middle + half * (2.0 * index as f64 + 1.0);
            LEGENDRE.iter().map(|(x, weight)| weight * self.information(centre + half * x).sqrt()).sum()
        };
        half * (0..pieces as usize).map(piece).sum::<f64>()
    }

    /// ½H′/H, which stays finite where H underflows.
    fn half_log_slope(&self, f: f64) -> f64 {
        let information = self.information(f);
        if information > 0.0 { 0.5 * self.slope(f) / information } else { -0.5 * f.signum() }
    }
}

impl Registered for Ordinal {
    const HELP: &'static str = "Classes in a stated order: one output, and thresholds that are tuned";

    fn start() -> Self {
        Self { thresholds: vec![0.0] }
    }
}

impl Likelihood for Ordinal {
    fn name(&self) -> &'static str {
        "ordinal"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Label
    }

    fn has_logits(&self) -> bool {
        false
    }

    /// One, for however many classes.
    fn outputs_for(&self, _: usize) -> usize {
        1
    }

    fn n_targets(&self, _: usize) -> usize {
        1
    }

    fn n_means(&self, _: usize) -> usize {
        self.n_classes()
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        match n_outputs {
            1 => Ok(()),
            found => Err(TargetError::Outputs { likelihood: self.name(), expected: 1, found }),
        }
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        let classes = self.n_classes() as f64;
        check_values(
            self,
            target,
            n_outputs,
            "a class from 0 to K − 1, where K − 1 is the number of thresholds",
            |y| y >= 0.0 && y < classes && y.fract() == 0.0,
        )
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.class(target[0] as usize, outputs[0]).log_p
    }

    /// 0 of the first and the last class, which can be certain; that in the middle of its thresholds of any other.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        let class = target[0] as usize;
        Some(match (class.checked_sub(1).and_then(|k| self.thresholds.get(k)), self.thresholds.get(class)) {
            (Some(low), Some(high)) => self.class(class, 0.5 * (low + high)).log_p,
            _ => 0.0,
        })
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        gradient[0] = self.class(target[0] as usize, outputs[0]).score;
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        fisher[0] = self.information(outputs[0]);
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        information[0] = self.class(target[0] as usize, outputs[0]).information;
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        self.class(target[0] as usize, outputs[0]).information * first[0] * first[0]
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        whitening[0] = self.information(outputs[0]).sqrt();
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let root = self.information(outputs[0]).sqrt();
        force[0] = root * (second[0] + self.half_log_slope(outputs[0]) * first[0] * first[0]);
    }

    /// u′ = √H, u″ = ½H′/√H.
    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        slopes[0] = self.information(outputs[0]).sqrt();
        bends[0] = slopes[0] * self.half_log_slope(outputs[0]);
        true
    }

    /// ∫ √H.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        isometric[0] = self.distance(outputs[0]);
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.information(outputs[0]) * first[0] * first[0]
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        mean.iter_mut().zip(self.classes(outputs[0])).for_each(|(p, class)| *p = class.log_p.exp());
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.mean(outputs, variance);
        variance.iter_mut().for_each(|p| *p *= 1.0 - *p);
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        let level = generator.random::<f64>();
        let passed = self.thresholds.iter().filter(|threshold| level > sigmoid(*threshold - outputs[0]));
        target[0] = passed.count() as f64;
    }

    /// With one output for all points, the thresholds make the frequencies.
    fn constant_output(&self, sums: &TargetSummary<'_>, _: usize) -> f64 {
        // The f at which the expected score Σ counts s_k vanishes, which falls with f.
        let excess = |f: f64| -> f64 {
            sums.counts.iter().enumerate().map(|(class, count)| count * self.class(class, f).score).sum()
        };
        super::distribution::root(|f| -excess(f), -60.0, 60.0)
    }

    /// As many thresholds as the classes need, at the frequencies that a constant output would have.
    fn for_classes(&self, counts: &[f64]) -> Option<Arc<dyn Likelihood>> {
        let half = counts.iter().map(|count| count + 0.5);
        let total: f64 = half.clone().sum();
        let below = half.scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum / total)
        });
        let thresholds: Vec<f64> = below.take(counts.len().saturating_sub(1)).map(|p| (p / (1.0 - p)).ln()).collect();
        let gaps: Vec<f64> = thresholds.windows(2).map(|pair| (pair[1] - pair[0]).clamp(GAP.0, GAP.1)).collect();
        Some(Arc::new(Self::new(&gaps).ok()?))
    }

    /// The gaps between neighbouring thresholds.
    fn dispersions(&self) -> Vec<Dispersion> {
        let gap = |(k, pair): (usize, &[f64])| Dispersion::positive(&format!("gap {}", k + 1), pair[1] - pair[0], GAP);
        self.thresholds.windows(2).enumerate().map(gap).collect()
    }

    fn with_dispersions(&self, values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        Ok(Arc::new(Self::new(values)?))
    }
}
