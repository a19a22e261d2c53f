//! A likelihood from its density alone: scores by differences, and expectations by quadrature over y.
//!
//! H = Σ_y p(y | f) s(y) s(y)ᵀ over nodes y that cover the mass, R its Cholesky factor, and the Christoffel term from
//! differences of H. Slower than closed forms by the number of nodes, and accurate to about eight digits.

use std::fmt::Debug;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{Likelihood, TargetError, TargetKind, check_values};

/// Steps of differences: of the log density, and of what was made from differences.
const STEP: f64 = 6e-6;
const SECOND_STEP: f64 = 1e-3;
/// Nodes of real and positive targets on either side: at sinh of multiples of 0.1, which reaches far into tails.
const NODES: i32 = 110;
const NODE_STEP: f64 = 0.1;
/// Counts on either side of the centre, in spreads and at least.
const COUNT_SPREADS: f64 = 40.0;
const LEAST_COUNTS: f64 = 50.0;

/// A distribution of one target by its density.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Density, FromDensity, Likelihood, check_likelihood};
///
/// /// Laplace's distribution, smoothed: log p = −√(1 + (y − f)²) + const.
/// #[derive(Debug)]
/// struct Smooth;
///
/// impl Density for Smooth {
///     fn name(&self) -> &'static str {
///         "smooth"
///     }
///     fn log_density(&self, y: f64, outputs: &[f64]) -> f64 {
///         -(1.0 + (y - outputs[0]).powi(2)).sqrt() - 1.203_907_f64.ln() // ∫ e^−√(1 + x²) dx = 2K₁(1)
///     }
///     fn location(&self, outputs: &[f64]) -> (f64, f64) {
///         (outputs[0], 1.5)
///     }
/// }
///
/// check_likelihood(&FromDensity(Smooth), &[0.4], &[-0.3])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Density: Debug + Send + Sync + 'static {
    /// The name in messages and files.
    fn name(&self) -> &'static str;

    /// log p(y | f), normalised.
    fn log_density(&self, target: f64, outputs: &[f64]) -> f64;

    /// Where the mass is: its centre, and a length on its scale. Of no use to classes.
    fn location(&self, outputs: &[f64]) -> (f64, f64);

    /// What an observation is: a real number, a positive one, a count or a class.
    fn kind(&self) -> TargetKind {
        TargetKind::Real
    }

    /// The number of outputs that a network has for it.
    fn n_outputs(&self) -> usize {
        1
    }

    /// The number of classes, where targets are.
    fn n_classes(&self) -> usize {
        2
    }
}

/// The likelihood of a [`Density`].
#[derive(Debug)]
pub struct FromDensity<D>(pub D);

impl<D: Density> FromDensity<D> {
    /// Values of y with their probabilities, which add up to 1.
    fn nodes(&self, f: &[f64]) -> Vec<(f64, f64)> {
        let (centre, spread) = self.0.location(f);
        let points: Vec<(f64, f64)> = match self.0.kind() {
            TargetKind::Label | TargetKind::Answers => (0..self.0.n_classes()).map(|k| (k as f64, 1.0)).collect(),
            TargetKind::Count => {
                let reach = COUNT_SPREADS * spread + LEAST_COUNTS;
                let first = (centre - reach).max(0.0).floor();
                (0..(2.0 * reach) as usize).map(|k| (first + k as f64, 1.0)).collect()
            }
            TargetKind::Real => arcs().map(|(t, width)| (centre + spread * t, spread * width)).collect(),
            TargetKind::Positive => {
                let ratio = (spread / centre).min(3.0);
                let at = |(t, width): (f64, f64)| {
                    let y = centre * (ratio * t).exp();
                    (y, y * ratio * width)
                };
                arcs().filter(|(t, _)| (ratio * t).abs() < 200.0).map(at).collect()
            }
        };
        let weigh = |(y, width): (f64, f64)| (y, width * self.0.log_density(y, f).exp());
        let mut nodes: Vec<(f64, f64)> = points.into_iter().map(weigh).filter(|(_, p)| *p > 0.0).collect();
        let mass: f64 = nodes.iter().map(|(_, p)| p).sum();
        nodes.iter_mut().for_each(|(_, p)| *p /= mass);
        nodes
    }

    fn score(&self, y: f64, f: &[f64], score: &mut [f64]) {
        let mut moved = f.to_vec();
        for (k, score) in score.iter_mut().enumerate() {
            let mut at = |by: f64| {
                moved[k] = f[k] + by;
                self.0.log_density(y, &moved)
            };
            let (step, far) = (STEP * (1.0 + f[k].abs()), 2.0 * STEP * (1.0 + f[k].abs()));
            // Of order four, so that the step may be large beside rounding.
            *score = (8.0 * (at(step) - at(-step)) - (at(far) - at(-far))) / (12.0 * step);
            moved[k] = f[k];
        }
    }

    /// H, row by row.
    fn information(&self, f: &[f64]) -> Vec<f64> {
        let p = f.len();
        let (mut sum, mut score) = (vec![0.0; p * p], vec![0.0; p]);
        for (y, weight) in self.nodes(f) {
            self.score(y, f, &mut score);
            for (i, row) in sum.chunks_exact_mut(p).enumerate() {
                row.iter_mut().zip(&score).for_each(|(entry, other)| *entry += weight * score[i] * other);
            }
        }
        sum
    }

    /// ∂H along a direction.
    fn information_along(&self, f: &[f64], direction: &[f64]) -> Vec<f64> {
        let length = direction.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        if length == 0.0 {
            return vec![0.0; f.len() * f.len()];
        }
        let step = SECOND_STEP / length;
        let at = |by: f64| {
            let moved: Vec<f64> = f.iter().zip(direction).map(|(f, d)| f + by * d).collect();
            self.information(&moved)
        };
        let (near, far) = ((at(step), at(-step)), (at(2.0 * step), at(-2.0 * step)));
        let entry = |k: usize| (8.0 * (near.0[k] - near.1[k]) - (far.0[k] - far.1[k])) / (12.0 * step);
        (0..near.0.len()).map(entry).collect()
    }

    /// Σ p g(y).
    fn average(&self, f: &[f64], g: impl Fn(f64) -> f64) -> f64 {
        self.nodes(f).into_iter().map(|(y, p)| p * g(y)).sum()
    }
}

/// sinh t and what it covers.
fn arcs() -> impl Iterator<Item = (f64, f64)> {
    (-NODES..=NODES).map(|i| {
        let t = NODE_STEP * f64::from(i);
        (t.sinh(), NODE_STEP * t.cosh())
    })
}

/// The lower Cholesky factor, row by row; zero where nothing is left.
fn factor(matrix: &[f64], p: usize) -> Vec<f64> {
    let mut root = vec![0.0; p * p];
    for i in 0..p {
        for j in 0..=i {
            let left = matrix[i * p + j] - (0..j).map(|k| root[i * p + k] * root[j * p + k]).sum::<f64>();
            root[i * p + j] = match (i == j, root[j * p + j]) {
                (true, _) => left.max(0.0).sqrt(),
                (false, 0.0) => 0.0,
                (false, pivot) => left / pivot,
            };
        }
    }
    root
}

impl<D: Density> Likelihood for FromDensity<D> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn kind(&self) -> TargetKind {
        self.0.kind()
    }

    fn has_logits(&self) -> bool {
        false
    }

    fn outputs_for(&self, _: usize) -> usize {
        self.0.n_outputs()
    }

    fn n_targets(&self, _: usize) -> usize {
        1
    }

    fn n_means(&self, _: usize) -> usize {
        if self.0.kind() == TargetKind::Label { self.0.n_classes() } else { 1 }
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        let expected = self.0.n_outputs();
        match n_outputs == expected {
            true => Ok(()),
            false => Err(TargetError::Outputs { likelihood: self.name(), expected, found: n_outputs }),
        }
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        let (kind, classes) = (self.0.kind(), self.0.n_classes() as f64);
        let is_whole = |y: f64| y >= 0.0 && y.fract() == 0.0;
        let allowed = match kind {
            TargetKind::Real => "a finite number",
            TargetKind::Positive => "a positive number",
            TargetKind::Count => "a whole number from 0",
            TargetKind::Label | TargetKind::Answers => "a class, a whole number from 0",
        };
        check_values(self, target, n_outputs, allowed, |y| match kind {
            TargetKind::Real => y.is_finite(),
            TargetKind::Positive => y > 0.0 && y.is_finite(),
            TargetKind::Count => is_whole(y) && y.is_finite(),
            TargetKind::Label | TargetKind::Answers => is_whole(y) && y < classes,
        })
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.0.log_density(target[0], outputs)
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        self.score(target[0], outputs, gradient);
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        fisher.copy_from_slice(&self.information(outputs));
    }

    /// −∂s by differences, symmetrised.
    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let p = outputs.len();
        let (mut up, mut down, mut moved) = (vec![0.0; p], vec![0.0; p], outputs.to_vec());
        for i in 0..p {
            moved[i] = outputs[i] + SECOND_STEP;
            self.score(target[0], &moved, &mut up);
            moved[i] = outputs[i] - SECOND_STEP;
            self.score(target[0], &moved, &mut down);
            moved[i] = outputs[i];
            for j in 0..p {
                information[i * p + j] = (down[j] - up[j]) / (2.0 * SECOND_STEP);
            }
        }
        for (i, j) in (0..p).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let mean = 0.5 * (information[i * p + j] + information[j * p + i]);
            (information[i * p + j], information[j * p + i]) = (mean, mean);
        }
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let p = outputs.len();
        let mut information = vec![0.0; p * p];
        self.observed_information(target, outputs, &mut information);
        let row = |(row, v): (&[f64], &f64)| v * row.iter().zip(first).map(|(h, w)| h * w).sum::<f64>();
        information.chunks_exact(p).zip(first).map(row).sum()
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        whitening.copy_from_slice(&factor(&self.information(outputs), outputs.len()));
    }

    /// z = R⁻¹(H f̈ + C), with C_k = (Ḣḟ)_k − ½ḟᵀ(∂_kH)ḟ.
    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let p = outputs.len();
        let (information, along) = (self.information(outputs), self.information_along(outputs, first));
        let root = factor(&information, p);
        let times = |matrix: &[f64], k: usize, v: &[f64]| -> f64 {
            matrix[k * p..(k + 1) * p].iter().zip(v).map(|(h, v)| h * v).sum()
        };
        for k in 0..p {
            let mut direction = vec![0.0; p];
            direction[k] = 1.0;
            let slope = self.information_along(outputs, &direction);
            let energy: f64 = (0..p).map(|i| first[i] * times(&slope, i, first)).sum();
            let total = times(&information, k, second) + times(&along, k, first) - 0.5 * energy;
            let done: f64 = (0..k).map(|j| root[k * p + j] * force[j]).sum();
            force[k] = if root[k * p + k] > 0.0 { (total - done) / root[k * p + k] } else { 0.0 };
        }
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        let (information, p) = (self.information(outputs), outputs.len());
        let row = |(row, v): (&[f64], &f64)| v * row.iter().zip(first).map(|(h, w)| h * w).sum::<f64>();
        information.chunks_exact(p).zip(first).map(row).sum()
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        if self.0.kind() == TargetKind::Label {
            mean.iter_mut().enumerate().for_each(|(k, p)| *p = self.0.log_density(k as f64, outputs).exp());
            return;
        }
        mean[0] = self.average(outputs, |y| y);
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        if self.0.kind() == TargetKind::Label {
            self.mean(outputs, variance);
            variance.iter_mut().for_each(|p| *p *= 1.0 - *p);
            return;
        }
        let mean = self.average(outputs, |y| y);
        variance[0] = self.average(outputs, |y| (y - mean).powi(2));
    }

    /// By the distribution function over the nodes, linear between them where targets are no whole numbers.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        let (level, nodes) = (generator.random::<f64>(), self.nodes(outputs));
        let (mut below, mut before) = (0.0, nodes.first().map_or(0.0, |(y, _)| *y));
        for (index, (y, p)) in nodes.iter().enumerate() {
            // The mass of a node lies around it, half of it up to its place.
            let up_to = if self.0.kind().is_whole() { below + p } else { below + 0.5 * p };
            if level <= up_to || index + 1 == nodes.len() {
                let share = if up_to > below { (level - below) / (up_to - below) } else { 1.0 };
                target[0] = if self.0.kind().is_whole() { *y } else { before + share.clamp(0.0, 1.0) * (y - before) };
                return;
            }
            let next = nodes.get(index + 1).map_or(*y, |(next, _)| *next);
            if !self.0.kind().is_whole() && level <= below + p {
                let share = (level - up_to) / (below + p - up_to);
                target[0] = y + 0.5 * share * (next - y);
                return;
            }
            (below, before) = (below + p, if self.0.kind().is_whole() { *y } else { 0.5 * (y + next) });
        }
    }

    fn cumulative(&self, outputs: &[f64], _: usize, value: f64) -> f64 {
        if self.0.kind().is_whole() {
            return self.average(outputs, |y| f64::from(u8::from(y <= value)));
        }
        // The rule that integrates the density, between halves of its cells.
        let (nodes, mut below) = (self.nodes(outputs), 0.0);
        for (index, (y, p)) in nodes.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|i| nodes.get(i)).map_or(*y, |(before, _)| *before);
            let next = nodes.get(index + 1).map_or(*y, |(next, _)| *next);
            let (low, high) = (0.5 * (before + y), 0.5 * (y + next));
            if value < high {
                let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
                return below + share * p;
            }
            below += p;
        }
        1.0
    }
}
