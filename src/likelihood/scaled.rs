//! A likelihood whose log density, and with it the Fisher information, is multiplied by a constant.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use super::{Likelihood, TargetError, TargetKind};

/// p(y | f)ˢ, up to its constant: H, C and the gradient are multiplied by s, R and z by √s. A batch of |B| data points
/// with s = N/|B| represents all N.
///
/// ```
/// use std::sync::Arc;
/// use riemannian_laplace::internals::likelihood::{Bernoulli, Likelihood, Scaled};
/// let (mut plain, mut scaled) = ([0.0], [0.0]);
/// Bernoulli.fisher(&[0.3], &mut plain);
/// Scaled::new(Arc::new(Bernoulli), 4.0).fisher(&[0.3], &mut scaled);
/// assert_eq!(scaled[0], 4.0 * plain[0]);
/// ```
#[derive(Debug, Clone)]
pub struct Scaled {
    likelihood: Arc<dyn Likelihood>,
    scale: f64,
}

impl Scaled {
    /// The likelihood to the power `scale` ≥ 0.
    pub fn new(likelihood: Arc<dyn Likelihood>, scale: f64) -> Self {
        Self { likelihood, scale }
    }

    fn multiply(values: &mut [f64], factor: f64) {
        values.iter_mut().for_each(|value| *value *= factor);
    }
}

impl Likelihood for Scaled {
    fn name(&self) -> &'static str {
        self.likelihood.name()
    }

    fn kind(&self) -> TargetKind {
        self.likelihood.kind()
    }

    fn n_targets(&self, n_outputs: usize) -> usize {
        self.likelihood.n_targets(n_outputs)
    }

    fn n_means(&self, n_outputs: usize) -> usize {
        self.likelihood.n_means(n_outputs)
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        self.likelihood.check_outputs(n_outputs)
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        self.likelihood.validate(target, n_outputs)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.scale * self.likelihood.log_density(target, outputs)
    }

    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        self.likelihood.largest_log_density(target).map(|largest| self.scale * largest)
    }

    fn deviance(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.scale * self.likelihood.deviance(target, outputs)
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        self.likelihood.gradient(target, outputs, gradient);
        Self::multiply(gradient, self.scale);
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        self.likelihood.fisher(outputs, fisher);
        Self::multiply(fisher, self.scale);
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        self.likelihood.observed_information(target, outputs, information);
        Self::multiply(information, self.scale);
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        self.likelihood.whitening(outputs, whitening);
        Self::multiply(whitening, self.scale.sqrt());
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        self.likelihood.whitened_force(outputs, first, second, force);
        Self::multiply(force, self.scale.sqrt());
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let exists = self.likelihood.isometry(outputs, slopes, bends);
        Self::multiply(slopes, self.scale.sqrt());
        Self::multiply(bends, self.scale.sqrt());
        exists
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.scale * self.likelihood.fisher_quadratic(outputs, first)
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        self.scale * self.likelihood.observed_quadratic(target, outputs, first)
    }

    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        let exists = self.likelihood.isometric(outputs, isometric);
        Self::multiply(isometric, self.scale.sqrt());
        exists
    }

    fn add_normal_force(&self, outputs: &[f64], first: &[f64], force: &mut [f64]) {
        let root = self.scale.sqrt();
        if root == 0.0 {
            return;
        }
        Self::multiply(force, 1.0 / root);
        self.likelihood.add_normal_force(outputs, first, force);
        Self::multiply(force, root);
    }

    fn has_constant_fisher(&self) -> bool {
        self.likelihood.has_constant_fisher()
    }

    fn is_separable(&self) -> bool {
        self.likelihood.is_separable()
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        self.likelihood.deviations(outputs, deviations);
        Self::multiply(deviations, self.scale.sqrt());
    }

    /// That of the likelihood itself: a power changes the weight of an observation, not its location.
    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        self.likelihood.mean(outputs, mean);
    }

    /// That of the likelihood itself.
    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.likelihood.variance(outputs, variance);
    }

    /// That of the likelihood itself.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        self.likelihood.draw(outputs, generator, target);
    }
}
