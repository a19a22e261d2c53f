//! θ → ℓ(θ), the log posterior as a map with one output: its pullback metric I + ∇ℓ∇ℓᵀ is the Monge metric.

use std::sync::Arc;

use crate::map::{Evaluate, Jet, Map, SingleRow, single_row};
use crate::target::{Target, TargetEvaluator};

/// The log posterior of a target as a map.
#[derive(Debug, Clone)]
pub struct LogPosterior {
    target: Target,
}

impl LogPosterior {
    /// ℓ of this target.
    pub fn new(target: &Target) -> Self {
        Self { target: target.clone() }
    }
}

impl Map for LogPosterior {
    fn n_params(&self) -> usize {
        self.target.n_params()
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn groups(&self) -> Vec<usize> {
        self.target.map().groups()
    }

    fn evaluate(self: Arc<Self>, _: usize) -> Box<dyn Evaluate> {
        Box::new(LogPosteriorEvaluator { inner: self.target.evaluator(), single: SingleRow::new(self.groups()) })
    }

    fn evaluator_size(&self, _: usize) -> f64 {
        self.target.map().evaluator_size(1) + self.n_params() as f64
    }
}

/// One thread's buffers for a [`LogPosterior`], and the operations that need them.
struct LogPosteriorEvaluator {
    inner: TargetEvaluator,
    single: SingleRow,
}

impl Evaluate for LogPosteriorEvaluator {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        self.inner.move_to(theta);
        outputs[0] = self.inner.log_posterior_of_last(theta);
    }

    /// The metric of a graph does not depend on its height, which would cost a quarter of the evaluation: it is
    /// computed only on request.
    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        (jet.first[0], jet.second[0]) = self.inner.slope_and_bend(theta, velocity);
        if let Some(output) = jet.outputs.first_mut() {
            *output = self.inner.log_posterior_of_last(theta);
        }
    }

    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]) {
        self.inner.pull_back_gradient(theta, &mut self.single.row);
        self.single.row.iter_mut().for_each(|value| *value *= seeds[0]);
    }
}

single_row!(LogPosteriorEvaluator);
