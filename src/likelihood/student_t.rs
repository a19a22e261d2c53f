//! Student's t noise: log p(y | f) = Σ_k [log Γ((ν+1)/2) − log Γ(ν/2) − ½ log πν − log s − ½(ν+1) log(1 + (y_k − f_k)²/νs²)].
//!
//! The Fisher information (ν+1)/((ν+3)s²) is the same everywhere, so the output metric is flat, its Christoffel symbols
//! vanish and z = √H f̈. The observed information (ν+1)(νs² − e²)/(νs² + e²)², e = y − f, is negative for outliers.

use std::sync::Arc;

use candle_core::Tensor;
use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;

use super::distribution::student_cdf;
use super::{
    Dispersion, LatentPoint, Likelihood, NoiseError, PointMoments, Registered, TargetError, check_parameters,
    check_values, write, write_diagonal, write_separable_isometry,
};
use crate::elementary::vectorized_sum;
use crate::linalg::dot;

/// The least and greatest ν: the variance is finite from 2 on, and 1,000 is Gaussian to three digits.
const FREEDOM: (f64, f64) = (2.1, 1e3);
/// The least and greatest scale.
const SCALE: (f64, f64) = (1e-10, 1e10);

/// y = f + s ε with ε of a t distribution with ν degrees of freedom: outliers cost their logarithm, not their square.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Likelihood, StudentT};
///
/// let heavy = StudentT::new(3.0, 0.5)?;
/// let mut variance = [0.0];
/// heavy.variance(&[1.0], &mut variance);
/// assert_eq!(variance, [0.75]); // s² ν/(ν − 2)
/// assert!(heavy.log_density(&[100.0], &[0.0]) > -25.0);
/// assert!(StudentT::new(1.0, 0.5).is_err());
/// # Ok::<(), riemannian_laplace::internals::likelihood::NoiseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentT {
    freedom: f64,
    scale: f64,
}

impl StudentT {
    /// With ν degrees of freedom and the scale s.
    pub fn new(freedom: f64, scale: f64) -> Result<Self, NoiseError> {
        let noise = Self { freedom, scale };
        check_parameters(&noise.dispersions())?;
        Ok(noise)
    }

    /// √H = √((ν+1)/(ν+3))/s.
    fn root(&self) -> f64 {
        ((self.freedom + 1.0) / (self.freedom + 3.0)).sqrt() / self.scale
    }

    /// log p of a residual of 0.
    fn top(&self) -> f64 {
        let half = 0.5 * self.freedom;
        libm::lgamma(half + 0.5)
            - libm::lgamma(half)
            - 0.5 * (std::f64::consts::PI * self.freedom).ln()
            - self.scale.ln()
    }
}

impl Registered for StudentT {
    const HELP: &'static str =
        "Real targets with outliers: Student's t noise, whose degrees of freedom and scale are tuned";

    fn start() -> Self {
        Self { freedom: 4.0, scale: 1.0 }
    }
}

impl Likelihood for StudentT {
    fn name(&self) -> &'static str {
        "student-t"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a finite number", f64::is_finite)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let (freedom, scale) = (self.freedom, self.scale);
        let misfit = vectorized_sum(target, outputs, |y, f| (((y - f) / scale).powi(2) / freedom).ln_1p());
        target.len() as f64 * self.top() - 0.5 * (freedom + 1.0) * misfit
    }

    /// At f = y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        Some(target.len() as f64 * self.top())
    }

    /// (ν+1)e/(νs² + e²).
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let score = |(y, f): (&f64, &f64)| {
            let error = (y - f) / self.scale;
            (self.freedom + 1.0) * error / (self.freedom + error * error) / self.scale
        };
        write(gradient, target.iter().zip(outputs).map(score));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|_| self.root() * self.root()));
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let entries =
            (0..outputs.len()).map(|k| self.observed_quadratic(&target[k..=k], &outputs[k..=k], &[1.0]));
        write_diagonal(information, outputs.len(), entries);
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|_| self.root()));
    }

    fn whitened_force(&self, _: &[f64], _: &[f64], second: &[f64], force: &mut [f64]) {
        let root = self.root();
        write(force, second.iter().map(|second| root * second));
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        write_separable_isometry(slopes, bends, outputs.iter().map(|_| (self.root(), 0.0)));
        true
    }

    fn fisher_quadratic(&self, _: &[f64], first: &[f64]) -> f64 {
        self.root() * self.root() * dot(first, first)
    }

    /// √H f.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        let root = self.root();
        write(isometric, outputs.iter().map(|f| root * f));
        true
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let term = |((y, f), first): ((&f64, &f64), &f64)| {
            let (error, step) = ((y - f) / self.scale, first / self.scale);
            let total = self.freedom + error * error;
            (self.freedom + 1.0) * (self.freedom - error * error) / total * (step * step / total)
        };
        target.iter().zip(outputs).zip(first).map(term).sum()
    }

    fn has_constant_fisher(&self) -> bool {
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, _: &[f64], deviations: &mut [f64]) {
        deviations.fill(self.root());
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().copied());
    }

    fn variance(&self, _: &[f64], variance: &mut [f64]) {
        variance.fill(self.scale * self.scale * self.freedom / (self.freedom - 2.0));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, f) in target.iter_mut().zip(outputs) {
            // ν is within its bounds, so the distribution exists.
            let noise = rand_distr::StudentT::new(self.freedom).map_or(f64::NAN, |noise| noise.sample(generator));
            *y = f + self.scale * noise;
        }
    }

    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        student_cdf(self.freedom, (value - outputs[target]) / self.scale)
    }

    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        let mut aleatoric = vec![0.0; latent.n_outputs()];
        self.variance(&latent.mean, &mut aleatoric);
        let epistemic = (0..latent.n_outputs()).map(|k| latent.variance(k)).collect();
        Some(PointMoments { mean: latent.mean.clone(), epistemic, aleatoric })
    }

    /// −log p with ν and s as they are, without the constant.
    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        let loss = || {
            let squares = (targets - outputs)?.sqr()?;
            let logs = ((squares * (1.0 / (self.freedom * self.scale * self.scale)))? + 1.0)?.log()?;
            logs.sum(1)?.mean_all()? * (0.5 * (self.freedom + 1.0))
        };
        Some(loss())
    }

    fn loss_in_units(&self, loss: f64, n_targets: usize, scales: Option<&[f64]>) -> (f64, &'static str) {
        let shift: f64 = scales.unwrap_or_default().iter().map(|scale| scale.ln()).sum();
        (loss - n_targets as f64 * self.top() + shift, "mean negative log likelihood of the last epoch")
    }

    fn dispersions(&self) -> Vec<Dispersion> {
        vec![
            Dispersion::positive("nu", self.freedom, FREEDOM),
            Dispersion::positive("scale", self.scale, SCALE).in_units_of_targets(),
        ]
    }

    fn with_dispersions(&self, values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        match *values {
            [freedom, scale] => Ok(Arc::new(Self::new(freedom, scale)?)),
            _ => Err(NoiseError::Count { likelihood: self.name(), expected: 2, found: values.len() }),
        }
    }
}
