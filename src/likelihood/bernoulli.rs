//! Bernoulli in the logit: log p(y | f) = Σ_k (y_k f_k − log(1 + e^(f_k))), y_k ∈ {0, 1}, p = sigmoid f.

use super::{Likelihood, TargetError, check_values, write, write_diagonal};
use crate::elementary::{exp, sigmoid, softplus, tanh};

/// Independent yes/no targets, one for each output, whose log odds are the outputs.
///
/// ```
/// use riemannian_laplace::likelihood::{Bernoulli, Likelihood};
///
/// assert_eq!(Bernoulli.log_density(&[0.0], &[800.0]), -800.0);
///
/// let mut whitening = [0.0];
/// Bernoulli.whitening(&[800.0], &mut whitening); // √(p(1−p)), where p(1−p) itself underflows
/// assert!((whitening[0] / (-400.0_f64).exp() - 1.0).abs() < 1e-15);
///
/// let error = Bernoulli.validate(&[0.5], 1).unwrap_err();
/// assert_eq!(error.to_string(), "bernoulli target 0.5 (position 0) cannot be observed; it must be 0 or 1");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bernoulli;

/// √(p(1−p)) = e^(−|f|/2)/(1 + e^(−|f|)).
fn deviation(logit: f64) -> f64 {
    exp(-0.5 * logit.abs()) / (1.0 + exp(-logit.abs()))
}

/// 1 − 2p = −tanh(f/2).
fn skewness(logit: f64) -> f64 {
    -tanh(0.5 * logit)
}

/// p(1−p).
fn bernoulli_variance(logit: f64) -> f64 {
    sigmoid(logit) * sigmoid(-logit)
}

impl Likelihood for Bernoulli {
    fn name(&self) -> &'static str {
        "bernoulli"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "0 or 1", |y| y == 0.0 || y == 1.0)
    }

    /// −Σ log(1 + e^(±f)), with the sign that makes the observed outcome likely when ±f is negative.
    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        target.iter().zip(outputs).map(|(y, f)| -softplus((1.0 - 2.0 * y) * f)).sum()
    }

    /// y − p, as 1 − p = sigmoid(−f) or −p.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let score = |(y, f): (&f64, &f64)| {
            let sign = 1.0 - 2.0 * y;
            -sign * sigmoid(sign * f)
        };
        write(gradient, target.iter().zip(outputs).map(score));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|&f| bernoulli_variance(f)));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|&f| deviation(f)));
    }

    fn whitened_force(&self, outputs: &[f64], tangents: &[f64], curvatures: &[f64], force: &mut [f64]) {
        let jets = outputs.iter().zip(tangents).zip(curvatures);
        write(
            force,
            jets.map(|((&f, &tangent), &curvature)| {
                let deviation = deviation(f);
                deviation * curvature + 0.5 * skewness(f) * (deviation * tangent) * tangent
            }),
        );
    }

    fn fisher_quadratic(&self, outputs: &[f64], tangents: &[f64]) -> f64 {
        outputs.iter().zip(tangents).map(|(&f, tangent)| (deviation(f) * tangent).powi(2)).sum()
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| sigmoid(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        write(variance, outputs.iter().map(|&f| bernoulli_variance(f)));
    }
}
