//! A likelihood over all points at once, on unit-major arrays (entry (n, p) at `p·N + n`).
//!
//! With one output and a separable likelihood the arrays are handed over whole; otherwise point by point, each to the
//! likelihood of its point.

use super::{Likelihood, likelihood_of};
use crate::linalg::dot;
use crate::map::Jet;

/// One thread's buffers for a likelihood over N points, and the operations that need them.
#[derive(Debug, Clone)]
pub struct PointEvaluator {
    n_points: usize,
    outputs: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    vector: Vec<f64>,
    matrix: Vec<f64>,
}

/// Gathers entry n of each unit. Outputs that were not computed, because nothing depends on them, keep their old
/// values.
fn gather(from: &[f64], n: usize, n_points: usize, into: &mut [f64]) {
    if from.is_empty() {
        return;
    }
    for (p, value) in into.iter_mut().enumerate() {
        *value = from[p * n_points + n];
    }
}

/// Scatters a point's values to entry n of each unit.
fn scatter(from: &[f64], n: usize, n_points: usize, into: &mut [f64]) {
    for (p, value) in from.iter().enumerate() {
        into[p * n_points + n] = *value;
    }
}

impl PointEvaluator {
    /// An evaluator for N points of P outputs.
    pub fn new(n_points: usize, n_outputs: usize) -> Self {
        let zeros = vec![0.0; n_outputs];
        Self {
            n_points,
            outputs: zeros.clone(),
            first: zeros.clone(),
            second: zeros.clone(),
            vector: zeros,
            matrix: vec![0.0; n_outputs * n_outputs],
        }
    }

    fn whole(&self, likelihood: &dyn Likelihood) -> bool {
        self.outputs.len() == 1 && likelihood.is_separable()
    }

    /// log p(yₙ | fₙ) of point n, whose observation is `target`.
    pub fn log_density_at(&mut self, likelihood: &dyn Likelihood, target: &[f64], outputs: &[f64], n: usize) -> f64 {
        gather(outputs, n, self.n_points, &mut self.outputs);
        likelihood_of(likelihood, n).log_density(target, &self.outputs)
    }

    /// Σₙ log p(yₙ | fₙ), observations one after another.
    pub fn log_density(&mut self, likelihood: &dyn Likelihood, observations: &[f64], outputs: &[f64]) -> f64 {
        if self.whole(likelihood) {
            return likelihood.log_density(observations, outputs);
        }
        let width = observations.len() / self.n_points.max(1);
        let targets = observations.chunks_exact(width.max(1)).enumerate();
        targets.map(|(n, target)| self.log_density_at(likelihood, target, outputs, n)).sum()
    }

    /// The scores ∂ log p(yₙ | fₙ)/∂fₙ, observations one after another.
    pub fn scores(&mut self, likelihood: &dyn Likelihood, observations: &[f64], outputs: &[f64], scores: &mut [f64]) {
        if self.whole(likelihood) {
            likelihood.gradient(observations, outputs, scores);
            return;
        }
        let width = observations.len() / self.n_points.max(1);
        for (n, target) in observations.chunks_exact(width.max(1)).enumerate() {
            gather(outputs, n, self.n_points, &mut self.outputs);
            likelihood_of(likelihood, n).gradient(target, &self.outputs, &mut self.vector);
            scatter(&self.vector, n, self.n_points, scores);
        }
    }

    /// The sum over points of [`log_density_jet`](Self::log_density_jet).
    pub fn log_density_jets(
        &mut self,
        likelihood: &dyn Likelihood,
        observations: &[f64],
        jet: &Jet,
        scores: &[f64],
    ) -> (f64, f64) {
        let second = dot(scores, &jet.second) - self.observed_quadratic(likelihood, observations, jet);
        (dot(scores, &jet.first), second)
    }

    /// The first and second derivatives of log p(yₙ | fₙ) along a jet, gₙ·ḟₙ and gₙ·f̈ₙ − ḟₙᵀWₙḟₙ, with g the scores and
    /// W the observed information at the observation `target`.
    pub fn log_density_jet(
        &mut self,
        likelihood: &dyn Likelihood,
        target: &[f64],
        jet: &Jet,
        scores: &[f64],
        n: usize,
    ) -> (f64, f64) {
        self.gather_jet(jet, n);
        gather(scores, n, self.n_points, &mut self.vector);
        let (mut slope, mut bend) =
            (0.0, -likelihood_of(likelihood, n).observed_quadratic(target, &self.outputs, &self.first));
        for ((score, first), second) in self.vector.iter().zip(&self.first).zip(&self.second) {
            slope += score * first;
            bend += score * second;
        }
        (slope, bend)
    }

    /// The seeds R of every point (K = P columns): entry (n, p, k) at `(p·P + k)·N + n`.
    pub fn whitening(&mut self, likelihood: &dyn Likelihood, outputs: &[f64], seeds: &mut [f64]) {
        if self.whole(likelihood) {
            likelihood.deviations(outputs, seeds);
            return;
        }
        for n in 0..self.n_points {
            gather(outputs, n, self.n_points, &mut self.outputs);
            likelihood_of(likelihood, n).whitening(&self.outputs, &mut self.matrix);
            scatter(&self.matrix, n, self.n_points, seeds);
        }
    }

    /// The whitened force z of every point: entry (n, k) at `k·N + n`.
    pub fn whitened_force(&mut self, likelihood: &dyn Likelihood, jet: &Jet, force: &mut [f64]) {
        if self.whole(likelihood) {
            likelihood.whitened_force(&jet.outputs, &jet.first, &jet.second, force);
            return;
        }
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            likelihood_of(likelihood, n).whitened_force(&self.outputs, &self.first, &self.second, &mut self.vector);
            scatter(&self.vector, n, self.n_points, force);
        }
    }

    /// The isometric outputs y(fₙ) of every point; false where the likelihood has none.
    pub fn isometric(&mut self, likelihood: &dyn Likelihood, outputs: &[f64], isometric: &mut [f64]) -> bool {
        if self.whole(likelihood) {
            return likelihood.isometric(outputs, isometric);
        }
        (0..self.n_points).all(|n| {
            gather(outputs, n, self.n_points, &mut self.outputs);
            let exist = likelihood_of(likelihood, n).isometric(&self.outputs, &mut self.vector);
            scatter(&self.vector, n, self.n_points, isometric);
            exist
        })
    }

    /// Their velocities ẏₙ = Rₙᵀḟₙ.
    pub fn isometric_velocity(&mut self, likelihood: &dyn Likelihood, jet: &Jet, velocity: &mut [f64]) {
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            likelihood_of(likelihood, n).whitening(&self.outputs, &mut self.matrix);
            self.vector.fill(0.0);
            for (row, first) in self.matrix.chunks_exact(self.first.len()).zip(&self.first) {
                self.vector.iter_mut().zip(row).for_each(|(sum, entry)| *sum += entry * first);
            }
            scatter(&self.vector, n, self.n_points, velocity);
        }
    }

    /// Adds what their accelerations have beyond the whitened force z.
    pub fn add_normal_force(&mut self, likelihood: &dyn Likelihood, jet: &Jet, force: &mut [f64]) {
        if self.whole(likelihood) {
            return likelihood.add_normal_force(&jet.outputs, &jet.first, force);
        }
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            gather(force, n, self.n_points, &mut self.vector);
            likelihood_of(likelihood, n).add_normal_force(&self.outputs, &self.first, &mut self.vector);
            scatter(&self.vector, n, self.n_points, force);
        }
    }

    /// Σₙ ḟₙᵀHₙḟₙ.
    pub fn fisher_quadratic(&mut self, likelihood: &dyn Likelihood, jet: &Jet) -> f64 {
        if self.whole(likelihood) {
            return likelihood.fisher_quadratic(&jet.outputs, &jet.first);
        }
        let mut sum = 0.0;
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            sum += likelihood_of(likelihood, n).fisher_quadratic(&self.outputs, &self.first);
        }
        sum
    }

    /// Σₙ ḟₙᵀWₙḟₙ, with W the observed information, observations one after another.
    fn observed_quadratic(&mut self, likelihood: &dyn Likelihood, observations: &[f64], jet: &Jet) -> f64 {
        if self.whole(likelihood) {
            return likelihood.observed_quadratic(observations, &jet.outputs, &jet.first);
        }
        let width = observations.len() / self.n_points.max(1);
        let mut sum = 0.0;
        for (n, target) in observations.chunks_exact(width.max(1)).enumerate() {
            self.gather_jet(jet, n);
            sum += likelihood_of(likelihood, n).observed_quadratic(target, &self.outputs, &self.first);
        }
        sum
    }

    /// Hₙḟₙ of every point, unit-major.
    pub fn momenta(&mut self, likelihood: &dyn Likelihood, jet: &Jet, momenta: &mut [f64]) {
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            likelihood_of(likelihood, n).fisher(&self.outputs, &mut self.matrix);
            for (row, value) in self.matrix.chunks_exact(self.first.len()).zip(&mut self.vector) {
                *value = row.iter().zip(&self.first).map(|(h, t)| h * t).sum();
            }
            scatter(&self.vector, n, self.n_points, momenta);
        }
    }

    /// ∂(½ḟₙᵀHₙḟₙ)/∂fₙ of every point at constant ḟₙ, unit-major.
    ///
    /// The derivative of a metric follows from its Christoffel term, ½∂_k(ḟᵀHḟ) = ḟ·C(e_k, ḟ), whose two arguments are
    /// told apart by polarisation: C(e, ḟ) = [C(ḟ + he) − C(ḟ − he)]/4h. (In a natural exponential family it is C(ḟ, ḟ).)
    pub fn energy_gradient(&mut self, likelihood: &dyn Likelihood, jet: &Jet, gradient: &mut [f64]) {
        let size = self.outputs.len();
        let mut moved = vec![0.0; size];
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            self.second.fill(0.0);
            likelihood_of(likelihood, n).whitening(&self.outputs, &mut self.matrix);
            let step = self.first.iter().fold(0.0, |greatest: f64, value| greatest.max(value.abs()));
            for k in 0..size {
                let mut sum = 0.0;
                for sign in [1.0, -1.0] {
                    moved.copy_from_slice(&self.first);
                    moved[k] += sign * step;
                    likelihood_of(likelihood, n).whitened_force(&self.outputs, &moved, &self.second, &mut self.vector);
                    let rows = self.matrix.chunks_exact(size).zip(&self.first);
                    sum += sign * rows.map(|(row, first)| first * dot(row, &self.vector)).sum::<f64>();
                }
                gradient[k * self.n_points + n] = if step > 0.0 { 0.25 * sum / step } else { 0.0 };
            }
        }
    }

    fn gather_jet(&mut self, jet: &Jet, n: usize) {
        gather(&jet.outputs, n, self.n_points, &mut self.outputs);
        gather(&jet.first, n, self.n_points, &mut self.first);
        gather(&jet.second, n, self.n_points, &mut self.second);
    }
}
