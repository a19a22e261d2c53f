//! Categorical in the logits: log p(y | f) = f_y − log Σ_j e^(f_j), y ∈ {0, …, C−1}, p = softmax f.
//!
//! Everything is measured from the most probable class t, with weights w_j = e^(f_j − f_t) ≤ 1 and the sum of the
//! others ρ = Σ_{j≠t} w_j: so 1 − p_t = ρ/(1 + ρ) and log p_t = −log(1 + ρ) keep their digits when ρ is far below
//! rounding, and so do means and variances of ḟ, f̈ once their entry t is subtracted.

use candle_core::{DType, Tensor};
use candle_nn::{loss, ops};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    GraphForm, Likelihood, Registered, TargetError, TargetKind, TargetSummary, at_least_outputs, check_width, write,
};
use crate::elementary::exp;

/// One of C classes, whose probabilities are the softmax of the outputs; a target is the class's index.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Categorical, Likelihood};
///
/// let outputs = [800.0, 0.0, 0.0];
/// assert_eq!(Categorical.log_density(&[1.0], &outputs), -800.0);
///
/// let mut mean = [0.0; 3];
/// Categorical.mean(&[0.0, 3.0_f64.ln(), 0.0], &mut mean);
/// assert!((mean[1] - 0.6).abs() < 1e-15);
///
/// let error = Categorical.validate(&[3.0], 3).unwrap_err();
/// assert!(error.to_string().contains("a whole number from 0 to 2"));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Categorical;

/// The softmax of logits, measured from the most probable class.
struct Softmax<'a> {
    logits: &'a [f64],
    /// The most probable class t, and its logit.
    top: usize,
    largest: f64,
    /// ρ = Σ_{j≠t} e^(f_j − f_t).
    others: f64,
}

impl<'a> Softmax<'a> {
    fn new(logits: &'a [f64]) -> Self {
        let first = (0, logits.first().copied().unwrap_or(f64::NAN));
        let larger = |best: (usize, f64), (k, &f)| if f > best.1 { (k, f) } else { best };
        let (top, largest) = logits.iter().enumerate().fold(first, larger);
        let weight = |(k, &f)| if k == top { 0.0 } else { exp(f - largest) };
        let others = logits.iter().enumerate().map(weight).sum();
        Self { logits, top, largest, others }
    }

    fn log_probability(&self, logit: f64) -> f64 {
        (logit - self.largest) - self.others.ln_1p()
    }

    fn probability(&self, logit: f64) -> f64 {
        exp(logit - self.largest) / (1.0 + self.others)
    }

    fn probabilities(&self) -> impl Iterator<Item = f64> {
        self.logits.iter().map(|&f| self.probability(f))
    }

    /// √p_k for every class, from half the log weight.
    fn roots(&self) -> impl Iterator<Item = f64> {
        let norm = (1.0 + self.others).sqrt();
        self.logits.iter().map(move |f| exp(0.5 * (f - self.largest)) / norm)
    }

    /// 1 − p_k, given p_k.
    fn complement(&self, class: usize, probability: f64) -> f64 {
        if class == self.top { self.others / (1.0 + self.others) } else { 1.0 - probability }
    }

    /// The entry of `values` at the most probable class.
    fn at_top(&self, values: &[f64]) -> f64 {
        values.get(self.top).copied().unwrap_or(f64::NAN)
    }
}

/// Writes the matrix with −`factor(x_k)`·x_j off the diagonal and `diagonal(k, x_k)` on it. The first row holds x until
/// the others are done.
fn write_rows(
    matrix: &mut [f64],
    softmax: &Softmax<'_>,
    x: impl Iterator<Item = f64>,
    factor: impl Fn(f64) -> f64,
    diagonal: impl Fn(usize, f64) -> f64,
) {
    let n = softmax.logits.len();
    let Some((first, rest)) = matrix.split_at_mut_checked(n) else { return };
    write(first, x);
    let Some(&x_0) = first.first() else { return };
    for ((k, &x_k), row) in first.iter().enumerate().skip(1).zip(rest.chunks_exact_mut(n)) {
        let factor = factor(x_k);
        write(row, first.iter().map(|x_j| -factor * x_j));
        row[k] = diagonal(k, x_k);
    }
    let factor = factor(x_0);
    first.iter_mut().for_each(|x_j| *x_j *= -factor);
    first[0] = diagonal(0, x_0);
}

impl Registered for Categorical {
    const HELP: &'static str = "Class labels 0, 1, …, C−1, or words";

    fn start() -> Self {
        Self
    }
}

/// −log softmax at the label.
fn nll(outputs: &Tensor, targets: &Tensor) -> candle_core::Result<Tensor> {
    loss::nll(&ops::log_softmax(outputs, 1)?, &targets.flatten_all()?.to_dtype(DType::U32)?)
}

impl Likelihood for Categorical {
    fn name(&self) -> &'static str {
        "categorical"
    }

    fn n_targets(&self, _: usize) -> usize {
        1
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        at_least_outputs(self.name(), 2, n_outputs)
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_width(self, target, n_outputs)?;
        match target.iter().find(|y| class_of(**y, n_outputs).is_none()) {
            Some(&value) => Err(TargetError::Class { value, classes: n_outputs }),
            None => Ok(()),
        }
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let label = target.first().and_then(|&y| class_of(y, outputs.len()));
        label.map_or(f64::NAN, |label| Softmax::new(outputs).log_probability(outputs[label]))
    }

    /// 0, of a class that is certain.
    fn largest_log_density(&self, _: &[f64]) -> Option<f64> {
        Some(0.0)
    }

    /// e_y − p, with 1 − p_y as the sum of the others.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let softmax = Softmax::new(outputs);
        let label = target.first().and_then(|&y| class_of(y, outputs.len()));
        let score = |(k, p)| if Some(k) == label { softmax.complement(k, p) } else { -p };
        write(gradient, softmax.probabilities().enumerate().map(score));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        let softmax = Softmax::new(outputs);
        write_rows(fisher, &softmax, softmax.probabilities(), |p| p, |k, p| p * softmax.complement(k, p));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        let softmax = Softmax::new(outputs);
        write_rows(whitening, &softmax, softmax.roots(), |r| r * r, |k, r| r * softmax.complement(k, r * r));
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let softmax = Softmax::new(outputs);
        let (first_at_top, second_at_top) = (softmax.at_top(first), softmax.at_top(second));
        write(force, softmax.roots());
        let mean_over = |values: &[f64], origin: f64| -> f64 {
            force.iter().zip(values).map(|(root, value)| root * root * (value - origin)).sum()
        };
        let first_mean = mean_over(first, first_at_top);
        let second_mean = mean_over(second, second_at_top);
        let centred = |first: f64| (first - first_at_top) - first_mean;
        let variance: f64 = force.iter().zip(first).map(|(root, &first)| (root * centred(first)).powi(2)).sum();
        for ((entry, &first), second) in force.iter_mut().zip(first).zip(second) {
            let bend = centred(first).powi(2) - variance;
            *entry *= ((second - second_at_top) - second_mean) + 0.5 * bend;
        }
    }

    /// Var_p ḟ in one pass: class by class, the weighted mean moves and the weighted squares grow by a positive term.
    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let count = outputs.len();
        let softmax = Softmax::new(outputs);
        let root = |k: usize| softmax.roots().nth(k).unwrap_or(0.0);
        let p = |k: usize| root(k).powi(2);
        let unit = |i: usize, j: usize| f64::from(u8::from(i == j));
        for k in 0..count {
            for i in 0..count {
                slopes[k * count + i] = root(k) * (unit(k, i) - p(i));
                for j in 0..count {
                    let product = 0.5 * (unit(k, i) - p(i)) * (unit(k, j) - p(j));
                    bends[(k * count + i) * count + j] = root(k) * (product - p(j) * (unit(i, j) - p(i)));
                }
            }
        }
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        let softmax = Softmax::new(outputs);
        let origin = softmax.at_top(first);
        let (mut weights, mut mean, mut squares) = (1.0, 0.0, 0.0); // the most probable class, at 0
        for (k, (f, first)) in outputs.iter().zip(first).enumerate() {
            if k != softmax.top {
                let weight = exp(f - softmax.largest);
                let offset = (first - origin) - mean;
                let share = weight / (weights + weight);
                squares += weights * share * offset * offset;
                mean += share * offset;
                weights += weight;
            }
        }
        squares / weights
    }

    /// 2√p, on a sphere.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        write(isometric, Softmax::new(outputs).roots().map(|root| 2.0 * root));
        true
    }

    /// −½Var_p(ḟ)√p: the centripetal acceleration on the sphere of radius 2.
    fn add_normal_force(&self, outputs: &[f64], first: &[f64], force: &mut [f64]) {
        let factor = -0.5 * self.fisher_quadratic(outputs, first);
        for (entry, root) in force.iter_mut().zip(Softmax::new(outputs).roots()) {
            *entry += factor * root;
        }
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, Softmax::new(outputs).probabilities());
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        let softmax = Softmax::new(outputs);
        let products = softmax.probabilities().enumerate().map(|(k, p)| p * softmax.complement(k, p));
        write(variance, products);
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        let mut rest = generator.random::<f64>();
        let mut label = outputs.len().saturating_sub(1);
        for (class, probability) in Softmax::new(outputs).probabilities().enumerate() {
            if rest < probability {
                label = class;
                break;
            }
            rest -= probability;
        }
        target.fill(label as f64);
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Label
    }

    fn graph_form(&self) -> Option<GraphForm> {
        Some(GraphForm::Logits)
    }

    fn mean_function(&self) -> &'static str {
        "softmax"
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        (sums.counts.get(output).copied().unwrap_or(0.0) + 0.5).ln()
    }

    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        Some(nll(outputs, targets))
    }
}

/// The class that a label denotes.
fn class_of(label: f64, classes: usize) -> Option<usize> {
    let is_class = label >= 0.0 && label < classes as f64 && label.fract() == 0.0;
    is_class.then_some(label as usize)
}
