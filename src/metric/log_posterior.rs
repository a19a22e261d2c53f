//! θ → ℓ(θ), the log posterior as a map with one output: its pullback metric I + ∇ℓ∇ℓᵀ is the Monge metric.

use faer::MatMut;

use crate::map::{DifferentiableMap, Jet, SingleRow};
use crate::target::{Target, TargetWorkspace};

/// The log posterior of a target as a map.
#[derive(Debug)]
pub struct LogPosterior<'a, M> {
    target: &'a Target<M>,
}

impl<M> Copy for LogPosterior<'_, M> {}

impl<M> Clone for LogPosterior<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, M: DifferentiableMap> LogPosterior<'a, M> {
    /// ℓ of this target.
    pub fn new(target: &'a Target<M>) -> Self {
        Self { target }
    }
}

impl<M: DifferentiableMap> DifferentiableMap for LogPosterior<'_, M> {
    type Workspace = (TargetWorkspace<M::Workspace>, SingleRow);

    fn n_params(&self) -> usize {
        self.target.map.n_params()
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn groups(&self) -> Vec<usize> {
        self.target.map.groups()
    }

    fn workspace(&self, _: usize) -> Self::Workspace {
        (self.target.workspace(), SingleRow::new(self.groups()))
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], (inner, _): &mut Self::Workspace) {
        outputs[0] = self.target.log_posterior(theta, inner);
        self.target.fill_scores(inner);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, (inner, _): &mut Self::Workspace) {
        // The metric of a graph does not depend on its height, which would cost a quarter of the evaluation.
        jet.outputs[0] = f64::NAN;
        (jet.tangents[0], jet.curvatures[0]) = self.target.slope_and_curvature(theta, velocity, inner);
    }

    fn pull_back(&self, theta: &[f64], seeds: &[f64], (inner, single): &mut Self::Workspace) {
        let map = &self.target.map;
        map.pull_back(theta, &inner.scores, &mut inner.map);
        map.transpose_times(&inner.ones, &mut inner.map, &mut single.row);
        self.target.prior.add_gradient(theta, &mut single.row);
        single.row.iter_mut().for_each(|value| *value *= seeds[0]);
    }

    fn rows(&self, (_, single): &mut Self::Workspace, rows: MatMut<'_, f64>) {
        single.rows(rows);
    }

    fn times(&self, direction: &[f64], (_, single): &mut Self::Workspace, product: &mut [f64]) {
        single.times(direction, product);
    }

    fn transpose_times(&self, weights: &[f64], (_, single): &mut Self::Workspace, product: &mut [f64]) {
        single.transpose_times(weights, product);
    }

    fn gram(&self, variances: &[f64], (_, single): &mut Self::Workspace, gram: MatMut<'_, f64>) {
        single.gram(variances, gram);
    }

    fn workspace_size(&self, _: usize) -> f64 {
        self.target.map.workspace_size(1) + self.n_params() as f64
    }
}
