//! θ → log p(yₙ | fₙ(θ)) for every n, as a map with one output a point: its pullback metric is the empirical Fisher.

use faer::MatMut;

use crate::map::{DifferentiableMap, Jet};
use crate::target::{Target, TargetWorkspace};

/// The N log likelihoods of a target as a map.
#[derive(Debug)]
pub struct LogLikelihoods<'a, M> {
    target: &'a Target<M>,
}

impl<M> Copy for LogLikelihoods<'_, M> {}

impl<M> Clone for LogLikelihoods<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, M: DifferentiableMap> LogLikelihoods<'a, M> {
    /// The log likelihoods of this target.
    pub fn new(target: &'a Target<M>) -> Self {
        Self { target }
    }
}

impl<M: DifferentiableMap> DifferentiableMap for LogLikelihoods<'_, M> {
    type Workspace = TargetWorkspace<M::Workspace>;

    fn n_params(&self) -> usize {
        self.target.map.n_params()
    }

    fn n_points(&self) -> usize {
        self.target.map.n_points()
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn groups(&self) -> Vec<usize> {
        self.target.map.groups()
    }

    fn workspace(&self, _: usize) -> Self::Workspace {
        self.target.workspace()
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], inner: &mut Self::Workspace) {
        self.target.map.outputs(theta, &mut inner.jet.outputs, &mut inner.map);
        self.target.fill_scores(inner);
        for (n, value) in outputs.iter_mut().enumerate() {
            *value = self.target.log_density_of_last(n, inner);
        }
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, inner: &mut Self::Workspace) {
        self.target.map.jet(theta, velocity, &mut inner.jet, &mut inner.map);
        self.target.fill_scores(inner);
        for n in 0..self.n_points() {
            (jet.tangents[n], jet.curvatures[n]) = self.target.point_jet(n, inner);
            jet.outputs[n] = self.target.log_density_of_last(n, inner);
        }
    }

    fn pull_back(&self, theta: &[f64], seeds: &[f64], inner: &mut Self::Workspace) {
        for unit in inner.scores.chunks_exact_mut(seeds.len().max(1)) {
            for (score, seed) in unit.iter_mut().zip(seeds) {
                *score *= seed;
            }
        }
        self.target.map.pull_back(theta, &inner.scores, &mut inner.map);
    }

    fn rows(&self, inner: &mut Self::Workspace, rows: MatMut<'_, f64>) {
        self.target.map.rows(&mut inner.map, rows);
    }

    fn times(&self, direction: &[f64], inner: &mut Self::Workspace, product: &mut [f64]) {
        self.target.map.times(direction, &mut inner.map, product);
    }

    fn transpose_times(&self, weights: &[f64], inner: &mut Self::Workspace, product: &mut [f64]) {
        self.target.map.transpose_times(weights, &mut inner.map, product);
    }

    fn gram(&self, variances: &[f64], inner: &mut Self::Workspace, gram: MatMut<'_, f64>) {
        self.target.map.gram(variances, &mut inner.map, gram);
    }

    fn workspace_size(&self, _: usize) -> f64 {
        self.target.map.workspace_size(1)
    }

    fn gram_work(&self, _: usize) -> f64 {
        self.target.map.gram_work(1)
    }
}
