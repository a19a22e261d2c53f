//! Binomial in the logit: k successes of n trials, log p(k | f) = log C(n, k) + k f − n log(1 + eᶠ), p = sigmoid f.
//!
//! n is a column of the data. H = n p(1−p), and z = √n times that of a Bernoulli trial.

use std::sync::Arc;

use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;

use super::distribution::incomplete_beta;
use super::poisson::LARGEST_COUNT;
use super::{
    Bernoulli, Known, Likelihood, Misfit, Registered, TargetError, TargetKind, TargetSummary, check_values, write,
};
use crate::elementary::{sigmoid, softplus};

/// Successes of a number of trials that is known of each row; of one trial where it is not.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Binomial, Likelihood};
///
/// // Three of four, each with probability ½.
/// let row = Binomial::default().at_row(&[4.0]).expect("a row of four trials");
/// assert!((row.log_density(&[3.0], &[0.0]) - 0.25_f64.ln()).abs() < 1e-14);
/// assert!(row.validate(&[5.0], 1).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binomial {
    trials: f64,
}

impl Default for Binomial {
    fn default() -> Self {
        Self { trials: 1.0 }
    }
}

impl Registered for Binomial {
    const HELP: &'static str = "Successes of a number of trials, which is a column of the data";

    fn start() -> Self {
        Self::default()
    }
}

impl Binomial {
    /// log C(n, k).
    fn log_choose(&self, k: f64) -> f64 {
        libm::lgamma(self.trials + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(self.trials - k + 1.0)
    }

    /// Every entry times √n.
    fn times_root(&self, values: &mut [f64]) {
        values.iter_mut().for_each(|value| *value *= self.trials.sqrt());
    }
}

impl Likelihood for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Count
    }

    fn known(&self) -> Vec<Known> {
        vec![Known::Trials]
    }

    fn at_row(&self, known: &[f64]) -> Option<Arc<dyn Likelihood>> {
        known.first().map(|trials| Arc::new(Self { trials: *trials }) as Arc<dyn Likelihood>)
    }

    fn trials(&self) -> f64 {
        self.trials
    }

    fn mean_function(&self) -> &'static str {
        "sigmoid"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        let most = self.trials.min(LARGEST_COUNT);
        let allowed = "a whole number from 0 to the number of trials";
        check_values(self, target, n_outputs, allowed, |y| (0.0..=most).contains(&y) && y.fract() == 0.0)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let times = |count: f64, value: f64| if count > 0.0 { count * value } else { 0.0 };
        let log_density = |(&k, &f): (&f64, &f64)| {
            if k > self.trials {
                return f64::NEG_INFINITY;
            }
            self.log_choose(k) - times(k, softplus(-f)) - times(self.trials - k, softplus(f))
        };
        target.iter().zip(outputs).map(log_density).sum()
    }

    /// At p = k/n.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        let largest = |k: &f64| self.log_density(&[*k], &[(k / (self.trials - k)).ln()]);
        Some(target.iter().map(largest).sum())
    }

    /// k − np, as k(1 − p) − (n − k)p.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let score = |(k, &f): (&f64, &f64)| k * sigmoid(-f) - (self.trials - k) * sigmoid(f);
        write(gradient, target.iter().zip(outputs).map(score));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        Bernoulli.fisher(outputs, fisher);
        fisher.iter_mut().for_each(|value| *value *= self.trials);
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        Bernoulli.whitening(outputs, whitening);
        self.times_root(whitening);
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        Bernoulli.whitened_force(outputs, first, second, force);
        self.times_root(force);
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let exists = Bernoulli.isometry(outputs, slopes, bends);
        self.times_root(slopes);
        self.times_root(bends);
        exists
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.trials * Bernoulli.fisher_quadratic(outputs, first)
    }

    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        let exists = Bernoulli.isometric(outputs, isometric);
        self.times_root(isometric);
        exists
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        Bernoulli.deviations(outputs, deviations);
        self.times_root(deviations);
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| self.trials * sigmoid(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        write(variance, outputs.iter().map(|&f| self.trials * sigmoid(f) * sigmoid(-f)));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            let successes = rand_distr::Binomial::new(self.trials as u64, sigmoid(f));
            *y = successes.map_or(0.0, |successes| successes.sample(generator) as f64);
        }
    }

    /// The regularised incomplete beta function I(1 − p; n − k, k + 1).
    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        let k = value.floor();
        match k {
            _ if k < 0.0 => 0.0,
            _ if k >= self.trials => 1.0,
            _ => incomplete_beta(self.trials - k, k + 1.0, sigmoid(-outputs[target])),
        }
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        ((sums.mean(output) + sums.half()) / (1.0 - sums.mean(output) + sums.half())).ln()
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Wide => None,
            Misfit::Narrow | Misfit::Uneven | Misfit::HeavyTails => {
                Some("The counts vary more than a binomial distribution's: add the inputs that explain the rest.")
            }
        }
    }
}
