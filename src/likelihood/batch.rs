//! A likelihood over all points at once, on unit-major arrays (entry (n, p) at `p·N + n`).

use super::Likelihood;

/// One point's numbers, gathered from unit-major arrays.
#[derive(Debug, Clone)]
pub struct PointBuffers {
    n_points: usize,
    outputs: Vec<f64>,
    tangents: Vec<f64>,
    curvatures: Vec<f64>,
    vector: Vec<f64>,
    matrix: Vec<f64>,
}

/// Gathers entry n of each unit.
fn gather(from: &[f64], n: usize, n_points: usize, into: &mut [f64]) {
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

impl PointBuffers {
    /// Buffers for N points of P outputs.
    pub fn new(n_points: usize, n_outputs: usize) -> Self {
        let zeros = vec![0.0; n_outputs];
        Self {
            n_points,
            outputs: zeros.clone(),
            tangents: zeros.clone(),
            curvatures: zeros.clone(),
            vector: zeros,
            matrix: vec![0.0; n_outputs * n_outputs],
        }
    }

    /// The outputs at point n.
    pub fn outputs_at(&mut self, outputs: &[f64], n: usize) -> &[f64] {
        gather(outputs, n, self.n_points, &mut self.outputs);
        &self.outputs
    }

    /// The scores ∂ log p(yₙ | fₙ)/∂fₙ, with `target(n)` the observation at point n.
    pub fn scores<'t>(
        &mut self,
        likelihood: &dyn Likelihood,
        target: impl Fn(usize) -> &'t [f64],
        outputs: &[f64],
        scores: &mut [f64],
    ) {
        for n in 0..self.n_points {
            gather(outputs, n, self.n_points, &mut self.outputs);
            likelihood.gradient(target(n), &self.outputs, &mut self.vector);
            scatter(&self.vector, n, self.n_points, scores);
        }
    }

    /// The first and second derivative of log p(yₙ | fₙ) along a jet, gₙ·ḟₙ and gₙ·f̈ₙ − ḟₙᵀHₙḟₙ with g the scores.
    pub fn log_density_jet(
        &mut self,
        likelihood: &dyn Likelihood,
        jet: &crate::map::Jet,
        scores: &[f64],
        n: usize,
    ) -> (f64, f64) {
        self.gather_jet(jet, n);
        gather(scores, n, self.n_points, &mut self.vector);
        let (mut slope, mut curvature) = (0.0, -likelihood.fisher_quadratic(&self.outputs, &self.tangents));
        for ((score, tangent), bend) in self.vector.iter().zip(&self.tangents).zip(&self.curvatures) {
            slope += score * tangent;
            curvature += score * bend;
        }
        (slope, curvature)
    }

    /// The seeds R of every point (K = P columns): entry (n, p, k) at `(p·P + k)·N + n`.
    pub fn whitening(&mut self, likelihood: &dyn Likelihood, outputs: &[f64], seeds: &mut [f64]) {
        for n in 0..self.n_points {
            gather(outputs, n, self.n_points, &mut self.outputs);
            likelihood.whitening(&self.outputs, &mut self.matrix);
            scatter(&self.matrix, n, self.n_points, seeds);
        }
    }

    /// The whitened force z of every point: entry (n, k) at `k·N + n`.
    pub fn whitened_force(&mut self, likelihood: &dyn Likelihood, jet: &crate::map::Jet, force: &mut [f64]) {
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            likelihood.whitened_force(&self.outputs, &self.tangents, &self.curvatures, &mut self.vector);
            scatter(&self.vector, n, self.n_points, force);
        }
    }

    /// Σₙ ḟₙᵀHₙḟₙ.
    pub fn fisher_quadratic(&mut self, likelihood: &dyn Likelihood, jet: &crate::map::Jet) -> f64 {
        let mut sum = 0.0;
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            sum += likelihood.fisher_quadratic(&self.outputs, &self.tangents);
        }
        sum
    }

    /// Hₙḟₙ of every point, unit-major.
    pub fn momenta(&mut self, likelihood: &dyn Likelihood, jet: &crate::map::Jet, momenta: &mut [f64]) {
        for n in 0..self.n_points {
            self.gather_jet(jet, n);
            likelihood.fisher(&self.outputs, &mut self.matrix);
            for (row, value) in self.matrix.chunks_exact(self.tangents.len()).zip(&mut self.vector) {
                *value = row.iter().zip(&self.tangents).map(|(h, t)| h * t).sum();
            }
            scatter(&self.vector, n, self.n_points, momenta);
        }
    }

    fn gather_jet(&mut self, jet: &crate::map::Jet, n: usize) {
        gather(&jet.outputs, n, self.n_points, &mut self.outputs);
        gather(&jet.tangents, n, self.n_points, &mut self.tangents);
        gather(&jet.curvatures, n, self.n_points, &mut self.curvatures);
    }
}
