//! Bernoulli in the logit: log p(y | f) = Σ_k (y_k f_k − log(1 + e^(f_k))), y_k ∈ {0, 1}, p = sigmoid f.

use candle_core::Tensor;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    GraphForm, Likelihood, Registered, TargetError, TargetKind, TargetSummary, check_values, write, write_diagonal,
    write_separable_isometry,
};
use crate::elementary::{exp, sigmoid, softplus, vectorized_sum};

/// Independent yes/no targets, one per output, whose log odds are the outputs.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Bernoulli, Likelihood};
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

/// √(p(1−p)) = u/(1 + u²), u = e^(−|f|/2).
#[inline(always)]
fn deviation(logit: f64) -> f64 {
    let u = exp(-0.5 * logit.abs());
    u / (1.0 + u * u)
}

/// p(1−p).
#[inline(always)]
fn bernoulli_variance(logit: f64) -> f64 {
    sigmoid(logit) * sigmoid(-logit)
}

impl Registered for Bernoulli {
    const HELP: &'static str = "0/1 targets, or two words";

    fn start() -> Self {
        Self
    }
}

/// −log p = max(f, 0) − f·y + log(1 + e^(−|f|)), summed over the outputs of a point.
fn loss(outputs: &Tensor, targets: &Tensor) -> candle_core::Result<Tensor> {
    let softplus = (outputs.relu()? + (outputs.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
    (softplus - (outputs * targets)?)?.sum(1)?.mean_all()
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
        vectorized_sum(
            target,
            outputs,
            #[inline(always)]
            |y, f| -softplus((1.0 - 2.0 * y) * f),
        )
    }

    /// 0, of a class that is certain.
    fn largest_log_density(&self, _: &[f64]) -> Option<f64> {
        Some(0.0)
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

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let jets = outputs.iter().zip(first).zip(second);
        write(
            force,
            jets.map(|((&f, &first), &second)| {
                // With u as above, 1 − 2p = −sign(f) (1 − u²)/(1 + u²).
                let u = exp(-0.5 * f.abs());
                let deviation = u / (1.0 + u * u);
                let skewness = ((u - 1.0) * (u + 1.0) / (1.0 + u * u)).copysign(-f);
                deviation * second + 0.5 * skewness * (deviation * first) * first
            }),
        );
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let derivatives = outputs.iter().map(|&f| {
            // u′ = √(p(1 − p)) and u″ = ½u′(1 − 2p).
            let root = deviation(f);
            (root, -0.5 * root * (0.5 * f).tanh())
        });
        write_separable_isometry(slopes, bends, derivatives);
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        vectorized_sum(
            outputs,
            first,
            #[inline(always)]
            |f, first| (deviation(f) * first) * (deviation(f) * first),
        )
    }

    /// 2 atan(e^(f/2)).
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        write(isometric, outputs.iter().map(|&f| 2.0 * exp(0.5 * f).atan()));
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        write(deviations, outputs.iter().map(|&f| deviation(f)));
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| sigmoid(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        write(variance, outputs.iter().map(|&f| bernoulli_variance(f)));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            *y = f64::from(u8::from(generator.random::<f64>() < sigmoid(f)));
        }
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Answers
    }

    fn graph_form(&self) -> Option<GraphForm> {
        Some(GraphForm::Logits)
    }

    fn mean_function(&self) -> &'static str {
        "sigmoid"
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        ((sums.mean(output) + sums.half()) / (1.0 - sums.mean(output) + sums.half())).ln()
    }

    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        Some(loss(outputs, targets))
    }
}
