//! θ → log p(yₙ | fₙ(θ)) for every n, as a map with one output at each point: its pullback metric is the empirical
//! Fisher.

use std::any::Any;
use std::sync::Arc;

use faer::{Accum, MatMut};

use crate::map::{Evaluate, Jet, Map, Rows, Scratch};
use crate::target::{Target, TargetEvaluator};

/// The N log likelihoods of a target as a map.
#[derive(Debug, Clone)]
pub struct LogLikelihoods {
    target: Target,
}

impl LogLikelihoods {
    /// The log likelihoods of this target.
    pub fn new(target: &Target) -> Self {
        Self { target: target.clone() }
    }
}

impl Map for LogLikelihoods {
    fn n_params(&self) -> usize {
        self.target.n_params()
    }

    fn n_points(&self) -> usize {
        self.target.map().n_points()
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn groups(&self) -> Vec<usize> {
        self.target.map().groups()
    }

    fn evaluate(self: Arc<Self>, _: usize) -> Box<dyn Evaluate> {
        let (inner, n_points) = (self.target.evaluator(), self.n_points());
        let weighted = vec![0.0; n_points * self.target.map().n_outputs()];
        Box::new(LogLikelihoodsEvaluator { inner, n_points, weighted })
    }

    fn evaluator_size(&self, _: usize) -> f64 {
        self.target.map().evaluator_size(1)
    }

    fn gram_work(&self, _: usize) -> f64 {
        self.target.map().gram_work(1)
    }

    fn product_work(&self, _: usize) -> f64 {
        self.target.map().product_work(1)
    }

    fn curvature_work(&self, _: usize) -> f64 {
        self.target.map().curvature_work(1)
    }

    fn curvature_size(&self, _: usize) -> f64 {
        self.target.map().curvature_size(1)
    }
}

/// One thread's buffers for [`LogLikelihoods`], and the operations that need them.
struct LogLikelihoodsEvaluator {
    inner: TargetEvaluator,
    n_points: usize,
    /// The scores multiplied by the seeds.
    weighted: Vec<f64>,
}

impl Evaluate for LogLikelihoodsEvaluator {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        self.inner.move_to(theta);
        for (n, value) in outputs.iter_mut().enumerate() {
            *value = self.inner.log_density_of_last(n);
        }
    }

    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.inner.move_along(theta, velocity);
        for n in 0..self.n_points {
            (jet.first[n], jet.second[n]) = self.inner.point_jet(n);
            if let Some(output) = jet.outputs.get_mut(n) {
                *output = self.inner.log_density_of_last(n);
            }
        }
    }

    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]) {
        let units = self.inner.scores().chunks_exact(seeds.len().max(1));
        for (scores, weighted) in units.zip(self.weighted.chunks_exact_mut(seeds.len().max(1))) {
            for ((weighted, score), seed) in weighted.iter_mut().zip(scores).zip(seeds) {
                *weighted = score * seed;
            }
        }
        self.inner.map().pull_back(theta, &self.weighted);
    }
}

impl Rows for LogLikelihoodsEvaluator {
    fn n_rows(&self) -> usize {
        self.n_points
    }
    fn n_params(&self) -> usize {
        self.inner.rows().n_params()
    }
    fn group_sizes(&self) -> Vec<usize> {
        self.inner.rows().group_sizes()
    }
    fn times(&self, direction: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        self.inner.rows().times(direction, product, scratch);
    }
    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        self.inner.rows().transpose_times(weights, product, scratch);
    }
    fn normal_times(&self, direction: &[f64], image: &mut [f64], product: &mut [f64], scratch: &mut Scratch) {
        self.inner.rows().normal_times(direction, image, product, scratch);
    }
    fn dense(&self, rows: MatMut<'_, f64>) {
        self.inner.rows().dense(rows);
    }
    fn gram(&self, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        self.inner.rows().gram(variances, gram, scratch);
    }
    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        self.inner.rows().cross_gram(other, variances, gram, scratch);
    }
    fn curvature(&self, accumulate: Accum, target: MatMut<'_, f64>, scratch: &mut Scratch) {
        self.inner.rows().curvature(accumulate, target, scratch);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
