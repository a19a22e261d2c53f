//! Gamma in the log mean: positive targets of mean μ = eᶠ whose standard deviation is a fixed share 1/√k of it.
//!
//! log p(y | f) = Σ_k [k log k − log Γ(k) − kf + (k−1) log y − k y e⁻ᶠ]. The Fisher information is the shape k everywhere, so
//! the output metric is flat and z = √k f̈; the observed information is k y e⁻ᶠ.

use std::sync::Arc;

use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;

use super::distribution::upper_gamma;
use super::{
    Dispersion, LatentPoint, Likelihood, Misfit, NoiseError, PointMoments, Registered, TargetError, TargetKind,
    TargetSummary, check_parameters, check_values, write, write_diagonal, write_separable_isometry,
};
use crate::elementary::exp;
use crate::linalg::dot;

/// The least and greatest shape: noise of three times the mean, and of a thousandth of it.
const SHAPE: (f64, f64) = (0.1, 1e6);

/// Positive targets with log means as outputs and noise in proportion to the mean: costs, durations, concentrations.
///
/// It is what generalised linear models offer for positive targets, with the log link that practice uses. A log-normal
/// model is a Gaussian one of log y, for which nothing new is needed; here the output is the log of the mean, not the mean
/// of the log.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Gamma, Likelihood};
///
/// let exponential = Gamma::new(1.0)?; // log p = −log μ − y/μ
/// assert!((exponential.log_density(&[3.0], &[2.0_f64.ln()]) + 2.0_f64.ln() + 1.5).abs() < 1e-15);
/// assert!(exponential.validate(&[0.0], 1).is_err());
/// # Ok::<(), riemannian_laplace::internals::likelihood::NoiseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    shape: f64,
}

impl Gamma {
    /// With the shape k: the standard deviation is 1/√k of the mean.
    pub fn new(shape: f64) -> Result<Self, NoiseError> {
        let noise = Self { shape };
        check_parameters(&noise.dispersions())?;
        Ok(noise)
    }

    fn one(&self, y: f64, f: f64) -> f64 {
        // log(y/μ) − y/μ is at most −1, so nothing cancels for large shapes but the constant.
        let ratio = y.ln() - f;
        let constant = self.shape * self.shape.ln() - libm::lgamma(self.shape);
        constant + self.shape * (ratio - exp(ratio)) - y.ln()
    }
}

impl Registered for Gamma {
    const HELP: &'static str = "Positive targets whose noise is in proportion to their mean; the shape is tuned";

    fn start() -> Self {
        Self { shape: 1.0 }
    }
}

impl Likelihood for Gamma {
    fn name(&self) -> &'static str {
        "gamma"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Positive
    }

    fn mean_function(&self) -> &'static str {
        "exp"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a positive finite number", |y| y > 0.0 && y.is_finite())
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        target.iter().zip(outputs).map(|(y, f)| self.one(*y, *f)).sum()
    }

    /// At the mean y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        Some(target.iter().map(|y| self.one(*y, y.ln())).sum())
    }

    /// k(y/μ − 1).
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        write(gradient, target.iter().zip(outputs).map(|(y, f)| self.shape * (y.ln() - f).exp_m1()));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|_| self.shape));
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let entries = target.iter().zip(outputs).map(|(y, f)| self.shape * exp(y.ln() - f));
        write_diagonal(information, outputs.len(), entries);
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let term = |((y, f), first): ((&f64, &f64), &f64)| self.shape * exp(y.ln() - f) * first * first;
        target.iter().zip(outputs).zip(first).map(term).sum()
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|_| self.shape.sqrt()));
    }

    fn whitened_force(&self, _: &[f64], _: &[f64], second: &[f64], force: &mut [f64]) {
        let root = self.shape.sqrt();
        write(force, second.iter().map(|second| root * second));
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        write_separable_isometry(slopes, bends, outputs.iter().map(|_| (self.shape.sqrt(), 0.0)));
        true
    }

    fn fisher_quadratic(&self, _: &[f64], first: &[f64]) -> f64 {
        self.shape * dot(first, first)
    }

    /// √k f.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        let root = self.shape.sqrt();
        write(isometric, outputs.iter().map(|f| root * f));
        true
    }

    fn has_constant_fisher(&self) -> bool {
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, _: &[f64], deviations: &mut [f64]) {
        deviations.fill(self.shape.sqrt());
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| exp(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        write(variance, outputs.iter().map(|&f| exp(2.0 * f) / self.shape));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            let noise = rand_distr::Gamma::new(self.shape, 1.0 / self.shape);
            *y = exp(f) * noise.map_or(f64::NAN, |noise| noise.sample(generator));
        }
    }

    /// The regularised incomplete gamma function P(k, ky/μ).
    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        1.0 - upper_gamma(self.shape, self.shape * exp(value.ln() - outputs[target]))
    }

    /// The mean eᶠ is log-normal: E μ = e^{m + v/2}, E μ² = e^{2m + 2v}.
    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        let outputs = 0..latent.n_outputs();
        let mean: Vec<f64> = outputs.clone().map(|k| (latent.mean[k] + 0.5 * latent.variance(k)).exp()).collect();
        let epistemic = outputs.map(|k| latent.variance(k).exp_m1() * mean[k] * mean[k]).collect::<Vec<f64>>();
        let noise = |(mean, spread): (&f64, &f64)| (mean * mean + spread) / self.shape;
        let aleatoric = mean.iter().zip(&epistemic).map(noise).collect();
        Some(PointMoments { mean, epistemic, aleatoric })
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        sums.mean(output).ln()
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Wide | Misfit::Narrow => Some("Tune the shape: the noise is another share of the mean."),
            Misfit::Uneven | Misfit::HeavyTails => {
                Some("The noise is not in proportion to the mean: try a heteroscedastic likelihood of the logarithm.")
            }
        }
    }

    fn dispersions(&self) -> Vec<Dispersion> {
        vec![Dispersion::positive("shape", self.shape, SHAPE)]
    }

    fn with_dispersions(&self, values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        match *values {
            [shape] => Ok(Arc::new(Self::new(shape)?)),
            _ => Err(NoiseError::Count { likelihood: self.name(), expected: 1, found: values.len() }),
        }
    }
}
