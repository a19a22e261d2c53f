//! Gaussian noise of which a part is known for each row: y = f + √(s² + σ²) ε, with s from the data and σ tuned (or 0).

use std::sync::Arc;

use candle_core::Tensor;
use rand_chacha::ChaCha8Rng;

use super::{
    Dispersion, Gaussian, Known, LatentPoint, Likelihood, Misfit, NoiseError, NormalMixture, PointMoments, TargetError,
    check_parameters,
};
use crate::error::Result as CrateResult;

/// The least and greatest σ; the least stands for none.
const EXTRA: (f64, f64) = (1e-10, 1e10);

/// Measurements with their own standard deviations, and noise of standard deviation σ besides. New inputs, at which nothing has
/// been measured, have the latter alone.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Known, Likelihood};
/// use riemannian_laplace::Family;
///
/// let family = Family::gaussian(4.0)?.with_known(&[Known::Noise])?;
/// let mut fisher = [0.0];
/// family.of_row(&[0.7, 3.0], 1).likelihood.fisher(&[0.0], &mut fisher);
/// assert!((fisher[0] - 1.0 / 25.0).abs() < 1e-15);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub(super) struct Measured {
    sigma: f64,
    targets: usize,
    /// Noise σ alone.
    rest: Gaussian,
}

impl Measured {
    /// With a column of noise for each target, and σ besides.
    pub fn new(sigma: f64, targets: usize) -> Result<Self, NoiseError> {
        let sigma = if sigma == 0.0 { EXTRA.0 } else { sigma };
        let measured = Self { sigma, targets, rest: Gaussian::new(sigma)? };
        check_parameters(&measured.dispersions())?;
        Ok(measured)
    }
}

/// Without known noise that of a Gaussian.
impl Likelihood for Measured {
    fn name(&self) -> &'static str {
        self.rest.name()
    }

    fn known(&self) -> Vec<Known> {
        vec![Known::Noise; self.targets]
    }

    fn at_row(&self, known: &[f64]) -> Option<Arc<dyn Likelihood>> {
        let sigmas = known.iter().map(|noise| noise.hypot(self.sigma)).collect();
        Some(Arc::new(Gaussian::per_output(sigmas).ok()?))
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        match n_outputs == self.targets {
            true => Ok(()),
            false => Err(TargetError::NoiseLevels { levels: self.targets, outputs: n_outputs }),
        }
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        self.rest.validate(target, n_outputs)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.rest.log_density(target, outputs)
    }

    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        self.rest.largest_log_density(target)
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        self.rest.gradient(target, outputs, gradient);
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        self.rest.fisher(outputs, fisher);
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        self.rest.whitening(outputs, whitening);
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        self.rest.whitened_force(outputs, first, second, force);
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        self.rest.isometry(outputs, slopes, bends)
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.rest.fisher_quadratic(outputs, first)
    }

    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        self.rest.isometric(outputs, isometric)
    }

    fn has_constant_fisher(&self) -> bool {
        true
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        self.rest.mean(outputs, mean);
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.rest.variance(outputs, variance);
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        self.rest.draw(outputs, generator, target);
    }

    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        self.rest.cumulative(outputs, target, value)
    }

    fn normal(&self, outputs: &[f64], target: usize) -> Option<(f64, f64)> {
        self.rest.normal(outputs, target)
    }

    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        self.rest.closed_moments(latent)
    }

    fn closed_log_density(&self, latent: &LatentPoint, target: &[f64]) -> CrateResult<Option<f64>> {
        self.rest.closed_log_density(latent, target)
    }

    fn closed_mixture(&self, latent: &LatentPoint, target: usize) -> Option<NormalMixture> {
        self.rest.closed_mixture(latent, target)
    }

    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        self.rest.training_loss(outputs, targets)
    }

    fn loss_in_units(&self, loss: f64, n_targets: usize, scales: Option<&[f64]>) -> (f64, &'static str) {
        self.rest.loss_in_units(loss, n_targets, scales)
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Wide => Some("The known noise is overstated."),
            Misfit::Narrow => Some("The known noise is understated: tune sigma, which is added to it."),
            Misfit::Uneven | Misfit::HeavyTails => None,
        }
    }

    fn dispersions(&self) -> Vec<Dispersion> {
        vec![Dispersion::positive("sigma", self.sigma, EXTRA).in_units_of_targets()]
    }

    fn with_dispersions(&self, values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        match *values {
            [sigma] => Ok(Arc::new(Self::new(sigma, self.targets)?)),
            _ => Err(NoiseError::Count { likelihood: self.name(), expected: 1, found: values.len() }),
        }
    }
}
