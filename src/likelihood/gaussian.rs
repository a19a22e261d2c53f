//! Gaussian noise: log p(y | f) = −Σ_k (½((y_k − f_k)/σ_k)² + log σ_k + ½ log 2π).

use rand_chacha::ChaCha8Rng;

use super::{
    Likelihood, NoiseError, TargetError, at_least_outputs, check_values, write, write_diagonal,
    write_separable_isometry,
};
use crate::elementary::vectorized_sum;
use crate::linalg::dot;
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
}

impl Likelihood for Gaussian {
    fn name(&self) -> &'static str {
        "gaussian"
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
}
