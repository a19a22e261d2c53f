//! Gaussian noise: log p(y | f) = −Σ_k (½((y_k − f_k)/σ_k)² + log σ_k + ½ log 2π).

use std::sync::Arc;

use candle_core::Tensor;
use candle_nn::loss;
use rand_chacha::ChaCha8Rng;

use super::distribution::normal_cdf;
use super::measured::Measured;
use super::{
    GraphForm, Known, LatentPoint, Likelihood, Misfit, NoiseError, NormalMixture, PointMoments, Registered,
    TargetError, at_least_outputs, check_values, write, write_diagonal, write_separable_isometry,
};
use crate::elementary::vectorized_sum;
use crate::error::{Error, Result as CrateResult};
use crate::linalg::{Cholesky, dot};
use crate::random::fill_standard_normal;

/// ½ log 2π.
pub(super) const HALF_LOG_TWO_PI: f64 = 0.9189385332046728;

/// y = f + σ ε, with one noise level σ for all outputs or one per output.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Gaussian, Likelihood};
///
/// let noise = Gaussian::new(0.5)?;
/// let expected = -0.5 * 4.0 - 0.5_f64.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
/// assert!((noise.log_density(&[2.0], &[1.0]) - expected).abs() < 1e-15);
///
/// let noise = Gaussian::per_output(vec![0.5, 2.0])?;
/// let mut variance = [0.0; 2];
/// noise.variance(&[1.0, 1.0], &mut variance);
/// assert_eq!(variance, [0.25, 4.0]);
/// assert!(noise.check_outputs(3).is_err());
/// assert!(Gaussian::new(-1.0).is_err());
/// # Ok::<(), riemannian_laplace::internals::likelihood::NoiseError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    /// One level for all outputs, or one per output; never empty.
    sigmas: Vec<f64>,
}

impl Gaussian {
    /// The same noise level for every output.
    pub fn new(sigma: f64) -> Result<Self, NoiseError> {
        Self::per_output(vec![sigma])
    }

    /// σ = 1 for every output.
    pub fn unit() -> Self {
        Self { sigmas: vec![1.0] }
    }

    /// One noise level per output. (A list of one applies to any number of outputs.)
    pub fn per_output(sigmas: Vec<f64>) -> Result<Self, NoiseError> {
        if sigmas.is_empty() {
            return Err(NoiseError::Empty);
        }
        match sigmas.iter().position(|sigma| !(sigma.is_finite() && *sigma > 0.0)) {
            Some(position) => Err(NoiseError::Level { position, value: sigmas[position] }),
            None => Ok(Self { sigmas }),
        }
    }

    /// The noise levels: one for all outputs, or one per output.
    pub fn sigmas(&self) -> &[f64] {
        &self.sigmas
    }

    /// σ_k for k = 0, 1, …, as many as there are outputs.
    fn levels(&self) -> impl Iterator<Item = f64> {
        self.sigmas.iter().copied().cycle()
    }

    /// σ of one output.
    fn level(&self, output: usize) -> f64 {
        self.sigmas[if self.sigmas.len() == 1 { 0 } else { output }]
    }
}

impl Registered for Gaussian {
    const HELP: &'static str = "Real targets with Gaussian noise";

    fn start() -> Self {
        Self::unit()
    }
}

impl Likelihood for Gaussian {
    fn name(&self) -> &'static str {
        "gaussian"
    }

    fn graph_form(&self) -> Option<GraphForm> {
        Some(GraphForm::Normal)
    }

    /// One column of noise for each target; σ, which must be one for all, is added to it.
    fn with_known(&self, known: &[Known]) -> Option<Arc<dyn Likelihood>> {
        let (all_noise, one) = (known.iter().all(|known| *known == Known::Noise), self.sigmas.len() == 1);
        let measured = (all_noise && one).then(|| Measured::new(self.sigmas[0], known.len()))?;
        Some(Arc::new(measured.ok()?))
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        at_least_outputs(self.name(), 1, n_outputs)?;
        match self.sigmas.len() {
            1 => Ok(()),
            levels if levels == n_outputs => Ok(()),
            levels => Err(TargetError::NoiseLevels { levels, outputs: n_outputs }),
        }
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a finite number", f64::is_finite)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        if let [sigma] = self.sigmas[..] {
            let squares = vectorized_sum(
                target,
                outputs,
                #[inline(always)]
                |y, f| (y - f) * (y - f),
            );
            return -0.5 * squares / sigma / sigma - target.len() as f64 * (sigma.ln() + HALF_LOG_TWO_PI);
        }
        let log_density = |((y, f), sigma): ((&f64, &f64), f64)| {
            let residual = (y - f) / sigma;
            -0.5 * residual * residual - sigma.ln() - HALF_LOG_TWO_PI
        };
        target.iter().zip(outputs).zip(self.levels()).map(log_density).sum()
    }

    /// At f = y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        Some(self.log_density(target, target))
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let residuals = target.iter().zip(outputs).map(|(y, f)| y - f);
        match self.sigmas[..] {
            [sigma] => write(gradient, residuals.map(|residual| residual / sigma / sigma)),
            _ => write(gradient, residuals.zip(self.levels()).map(|(residual, sigma)| residual / sigma / sigma)),
        }
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), self.levels().map(|sigma| 1.0 / sigma / sigma));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), self.levels().map(|sigma| 1.0 / sigma));
    }

    fn whitened_force(&self, _: &[f64], _: &[f64], second: &[f64], force: &mut [f64]) {
        match self.sigmas[..] {
            [sigma] => write(force, second.iter().map(|second| second / sigma)),
            _ => write(force, second.iter().zip(self.levels()).map(|(second, sigma)| second / sigma)),
        }
    }

    fn isometry(&self, _: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        write_separable_isometry(slopes, bends, self.levels().map(|sigma| (1.0 / sigma, 0.0)));
        true
    }

    fn fisher_quadratic(&self, _: &[f64], first: &[f64]) -> f64 {
        match self.sigmas[..] {
            [sigma] => dot(first, first) / sigma / sigma,
            _ => first.iter().zip(self.levels()).map(|(first, sigma)| (first / sigma).powi(2)).sum(),
        }
    }

    /// f/σ.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        write(isometric, outputs.iter().zip(self.levels()).map(|(f, sigma)| f / sigma));
        true
    }

    fn has_constant_fisher(&self) -> bool {
        true
    }

    fn is_separable(&self) -> bool {
        self.sigmas.len() == 1
    }

    fn deviations(&self, _: &[f64], deviations: &mut [f64]) {
        // Called only with one noise level.
        deviations.fill(1.0 / self.sigmas[0]);
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().copied());
    }

    fn variance(&self, _: &[f64], variance: &mut [f64]) {
        write(variance, self.levels().map(|sigma| sigma * sigma));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        fill_standard_normal(generator, target);
        for ((y, f), sigma) in target.iter_mut().zip(outputs).zip(self.levels()) {
            *y = f + sigma * *y;
        }
    }

    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        normal_cdf((value - outputs[target]) / self.level(target))
    }

    fn normal(&self, outputs: &[f64], target: usize) -> Option<(f64, f64)> {
        Some((outputs[target], self.level(target)))
    }

    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        let outputs = 0..latent.n_outputs();
        Some(PointMoments {
            mean: latent.mean.clone(),
            epistemic: outputs.clone().map(|k| latent.variance(k)).collect(),
            aleatoric: outputs.map(|k| self.level(k) * self.level(k)).collect(),
        })
    }

    /// log N(y | m, C + diag σ²), over all outputs together.
    fn closed_log_density(&self, latent: &LatentPoint, target: &[f64]) -> CrateResult<Option<f64>> {
        let p = latent.n_outputs();
        let mut cholesky = Cholesky::new(p);
        let mut matrix = cholesky.matrix_mut();
        for i in 0..p {
            for j in 0..=i {
                matrix[(i, j)] = latent.covariance(i, j);
            }
            matrix[(i, i)] += self.level(i) * self.level(i);
        }
        cholesky.factor().map_err(|pivot| Error::NotPositiveDefinite {
            matrix: "the predictive covariance",
            size: p,
            pivot: pivot.0,
            advice: "raise sigma or the prior precision",
        })?;
        let mut error: Vec<f64> = target.iter().zip(&latent.mean).map(|(y, mean)| y - mean).collect();
        cholesky.solve_lower(&mut error);
        let distance: f64 = error.iter().map(|value| value * value).sum();
        Ok(Some(-0.5 * (distance + cholesky.log_det() + p as f64 * (2.0 * std::f64::consts::PI).ln())))
    }

    fn closed_mixture(&self, latent: &LatentPoint, target: usize) -> Option<NormalMixture> {
        let variance = latent.variance(target) + self.level(target) * self.level(target);
        Some(NormalMixture::single(latent.mean[target], variance.sqrt()))
    }

    /// Σ (y − f)², whatever σ.
    fn deviance(&self, target: &[f64], outputs: &[f64]) -> f64 {
        target.iter().zip(outputs).map(|(y, f)| (y - f).powi(2)).sum()
    }

    /// The mean squared error.
    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        Some(loss::mse(outputs, targets))
    }

    /// Several standardised targets have no common unit.
    fn loss_in_units(&self, loss: f64, _: usize, scales: Option<&[f64]>) -> (f64, &'static str) {
        match scales {
            None => (loss, "mean squared error of the last epoch"),
            Some([scale]) => (loss * scale * scale, "mean squared error of the last epoch"),
            Some(_) => (loss, "mean squared error of the last epoch, targets standardised"),
        }
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Uneven | Misfit::HeavyTails => {
                Some("Try a heteroscedastic likelihood, whose noise depends on the inputs")
            }
            Misfit::Narrow => Some(
                "The noise is underestimated, or these data differ from those of training: the default training finds the \
                 noise on held-out rows, and a fit can be tuned on such rows.",
            ),
            Misfit::Wide => None,
        }
    }

    fn noise_levels(&self) -> Option<&[f64]> {
        Some(&self.sigmas)
    }

    fn with_noise_levels(&self, sigma: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        Ok(Arc::new(Self::per_output(sigma.to_vec())?))
    }
}
