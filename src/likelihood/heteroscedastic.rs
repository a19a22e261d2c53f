//! Gaussian noise whose level is an output of its own: log p(y | μ, s) = −½ Σ_k ((y_k − μ_k)² e^(−s_k) + s_k + log 2π),
//! s = log σ².
//!
//! A network with T targets has the P = 2T outputs (μ_1, …, μ_T, s_1, …, s_T): the means come first, in the order of the
//! target columns, as two heads of width T would be concatenated. For each target the Fisher metric is
//!
//! ds² = e^(−s) dμ² + ½ ds²,
//!
//! a hyperbolic plane, so that no coordinates make it flat, and the Christoffel term is C(ḟ, ḟ) = (−e^(−s) ṡμ̇, ½e^(−s) μ̇²).
//! This is no exponential family in (μ, s): the observed information depends on y and is indefinite wherever y ≠ μ, with
//! determinant −½(y − μ)² e^(−2s); its expectation is the Fisher information.

use candle_core::Tensor;
use rand_chacha::ChaCha8Rng;

use super::distribution::normal_cdf;
use super::gaussian::HALF_LOG_TWO_PI;
use super::{
    GraphForm, LatentPoint, Likelihood, Misfit, NormalMixture, PointMoments, Registered, TargetError, check_values,
    noisy, write_diagonal,
};
use crate::elementary::exp;
use crate::error::Result as CrateResult;
use crate::random::fill_standard_normal;

/// y = μ + e^(s/2) ε, where the outputs are the means μ of all targets, then their log variances s.
///
/// Quantities made of e^(−s/2) are finite for |s| < 1,400; the variance eˢ overflows for s > 709.78 and the Fisher
/// information e^(−s) for s < −709.78.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Heteroscedastic, Likelihood};
///
/// let outputs = [1.0, 0.25_f64.ln()]; // mean 1, variance ¼
/// let expected = -0.5 * 4.0 - 0.5_f64.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
/// assert!((Heteroscedastic.log_density(&[2.0], &outputs) - expected).abs() < 1e-15);
///
/// let mut fisher = [0.0; 4];
/// Heteroscedastic.fisher(&outputs, &mut fisher);
/// assert_eq!(fisher, [4.0, 0.0, 0.0, 0.5]);
/// assert!(Heteroscedastic.check_outputs(3).is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heteroscedastic;

/// x e^(−s/2), zero for x = 0 whatever the variance.
#[inline(always)]
fn over_deviation(x: f64, log_variance: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * exp(-0.5 * log_variance) }
}

/// The means and the log variances among the outputs; likewise their derivatives, and entries of gradients and forces.
fn halves(outputs: &[f64]) -> (&[f64], &[f64]) {
    outputs.split_at(outputs.len() / 2)
}

/// Each target's residual y − μ, with its log variance.
fn residuals<'a>(target: &'a [f64], outputs: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let (means, log_variances) = halves(outputs);
    target.iter().zip(means).zip(log_variances).map(|((y, mean), s)| (y - mean, *s))
}

impl Registered for Heteroscedastic {
    const HELP: &'static str = "Real targets with Gaussian noise whose level depends on the inputs; the network has two \
                                outputs per target, the means of all targets and then their log variances";

    fn start() -> Self {
        Self
    }
}

/// ½((y − μ)² e^(−s) + s), summed over the targets of a point.
fn loss(outputs: &Tensor, targets: &Tensor) -> candle_core::Result<Tensor> {
    let n_targets = targets.dim(1)?;
    let (means, log_variances) = (outputs.narrow(1, 0, n_targets)?, outputs.narrow(1, n_targets, n_targets)?);
    let squares = ((targets - means)?.sqr()? * log_variances.neg()?.exp()?)?;
    (squares + log_variances)?.sum(1)?.mean_all()? * 0.5
}

impl Likelihood for Heteroscedastic {
    fn name(&self) -> &'static str {
        "heteroscedastic"
    }

    fn n_targets(&self, n_outputs: usize) -> usize {
        n_outputs / 2
    }

    fn n_means(&self, n_outputs: usize) -> usize {
        n_outputs / 2
    }

    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        if n_outputs >= 2 && n_outputs.is_multiple_of(2) {
            return Ok(());
        }
        Err(TargetError::UnpairedOutputs { likelihood: self.name(), found: n_outputs })
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a finite number", f64::is_finite)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let log_density = |(residual, s)| -0.5 * (over_deviation(residual, s).powi(2) + s) - HALF_LOG_TWO_PI;
        residuals(target, outputs).map(log_density).sum()
    }

    /// ((y − μ) e^(−s), ½(y − μ)² e^(−s) − ½).
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let (by_mean, by_log_variance) = gradient.split_at_mut(outputs.len() / 2);
        let slots = by_mean.iter_mut().zip(by_log_variance);
        for ((by_mean, by_log_variance), (residual, s)) in slots.zip(residuals(target, outputs)) {
            let whitened = over_deviation(residual, s);
            *by_mean = over_deviation(whitened, s);
            *by_log_variance = 0.5 * (whitened - 1.0) * (whitened + 1.0);
        }
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        let (means, log_variances) = halves(outputs);
        let precisions = log_variances.iter().map(|s| exp(-s));
        write_diagonal(fisher, outputs.len(), precisions.chain(means.iter().map(|_| 0.5)));
    }

    /// −∂²log p: e^(−s) in the mean, (y − μ) e^(−s) across, ½(y − μ)² e^(−s) in the log variance.
    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let (p, t) = (outputs.len(), outputs.len() / 2);
        information.fill(0.0);
        for (k, (residual, s)) in residuals(target, outputs).enumerate() {
            let whitened = over_deviation(residual, s);
            let across = over_deviation(whitened, s);
            information[k * p + k] = exp(-s);
            information[k * p + t + k] = across;
            information[(t + k) * p + k] = across;
            information[(t + k) * p + t + k] = 0.5 * whitened * whitened;
        }
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        let (means, log_variances) = halves(outputs);
        let precisions = log_variances.iter().map(|s| exp(-0.5 * s));
        let roots = means.iter().map(|_| std::f64::consts::FRAC_1_SQRT_2);
        write_diagonal(whitening, outputs.len(), precisions.chain(roots));
    }

    /// (e^(−s/2) (μ̈ − ṡμ̇), (s̈ + e^(−s) μ̇²)/√2).
    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let t = outputs.len() / 2;
        for k in 0..t {
            let (s, mean_slope, slope) = (outputs[t + k], first[k], first[t + k]);
            force[k] = over_deviation(second[k] - slope * mean_slope, s);
            force[t + k] = (second[t + k] + over_deviation(mean_slope, s).powi(2)) * std::f64::consts::FRAC_1_SQRT_2;
        }
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        let ((_, log_variances), (mean_slopes, slopes)) = (halves(outputs), halves(first));
        let terms = log_variances.iter().zip(mean_slopes).zip(slopes);
        terms.map(|((s, mean_slope), slope)| over_deviation(*mean_slope, *s).powi(2) + 0.5 * slope * slope).sum()
    }

    /// e^(−s) (μ̇² + 2(y − μ)μ̇ṡ + ½(y − μ)²ṡ²).
    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let (mean_slopes, slopes) = halves(first);
        let terms = residuals(target, outputs).zip(mean_slopes).zip(slopes);
        terms
            .map(|(((residual, s), mean_slope), slope)| {
                let (u, v) = (over_deviation(*mean_slope, s), over_deviation(residual, s) * slope);
                u * u + 2.0 * u * v + 0.5 * v * v
            })
            .sum()
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        mean.copy_from_slice(halves(outputs).0);
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        variance.iter_mut().zip(halves(outputs).1).for_each(|(entry, s)| *entry = exp(*s));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        fill_standard_normal(generator, target);
        let (means, log_variances) = halves(outputs);
        for ((y, mean), s) in target.iter_mut().zip(means).zip(log_variances) {
            *y = mean + exp(0.5 * s) * *y;
        }
    }

    fn graph_form(&self) -> Option<GraphForm> {
        Some(GraphForm::NormalWithLogVariance)
    }

    fn outputs_for(&self, n_targets: usize) -> usize {
        2 * n_targets
    }

    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        let (means, log_variances) = halves(outputs);
        normal_cdf((value - means[target]) * (-0.5 * log_variances[target]).exp())
    }

    fn normal(&self, outputs: &[f64], target: usize) -> Option<(f64, f64)> {
        let (means, log_variances) = halves(outputs);
        Some((means[target], (0.5 * log_variances[target]).exp()))
    }

    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        Some(noisy::moments(latent))
    }

    fn closed_log_density(&self, latent: &LatentPoint, target: &[f64]) -> CrateResult<Option<f64>> {
        Ok(Some(noisy::log_density(latent, target)))
    }

    fn closed_mixture(&self, latent: &LatentPoint, target: usize) -> Option<NormalMixture> {
        Some(noisy::mixture(latent, target))
    }

    /// Outputs that are variances have no best value: the squared error of the means.
    fn deviance(&self, target: &[f64], outputs: &[f64]) -> f64 {
        target.iter().zip(outputs).map(|(y, f)| (y - f).powi(2)).sum()
    }

    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        Some(loss(outputs, targets))
    }

    /// The loss leaves out ½ log 2π of each target, and is that of the standardised ones.
    fn loss_in_units(&self, loss: f64, n_targets: usize, scales: Option<&[f64]>) -> (f64, &'static str) {
        let constants = 0.5 * (2.0 * std::f64::consts::PI).ln() * n_targets as f64;
        let shift: f64 = scales.unwrap_or_default().iter().map(|scale| scale.ln()).sum();
        (loss + constants + shift, "mean negative log likelihood of the last epoch")
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Uneven | Misfit::HeavyTails => Some("More data or more hidden units may help"),
            Misfit::Narrow | Misfit::Wide => None,
        }
    }

    /// A scaling multiplies the means and adds 2 log scale to the log variances.
    fn output_in_units(&self, output: usize, (shifts, scales): (&[f64], &[f64])) -> (f64, f64) {
        match output.checked_sub(scales.len()) {
            None => (shifts[output], scales[output]),
            Some(target) => (2.0 * scales[target].ln(), 1.0),
        }
    }
}
