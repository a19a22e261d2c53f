//! Negative binomial in the log mean: counts of mean μ = eᶠ and variance μ + aμ², which vary more than a Poisson
//! distribution's.
//!
//! log p(y | f) = Σ_k [Σ_{j<y} log(1 + aj) + y f − (y + 1/a) log(1 + aμ) − log y!]. With t = f + log a the Fisher information
//! is H = μ/(1 + aμ) = sigmoid(t)/a, the observed one μ(1 + ay)/(1 + aμ)², and z = √H (f̈ + ½ sigmoid(−t) ḟ²).

use std::sync::Arc;

use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;

use super::distribution::incomplete_beta;
use super::poisson::LARGEST_COUNT;
use super::{
    Dispersion, LatentPoint, Likelihood, Misfit, NoiseError, PointMoments, Registered, TargetError, TargetKind,
    TargetSummary, check_parameters, check_values, write, write_diagonal, write_separable_isometry,
};
use crate::elementary::{exp, sigmoid, softplus};

/// The least and greatest a: 1e-6 is a Poisson distribution for every count below a thousand.
const DISPERSION: (f64, f64) = (1e-6, 1e4);
/// Counts up to which Σ log(1 + aj) is summed term by term.
const SUMMED: f64 = 200.0;

/// Counts with log means as outputs, whose variance is μ + aμ².
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Likelihood, NegativeBinomial};
///
/// let counts = NegativeBinomial::new(0.5)?; // 1/a = 2: the second success, at odds 3/2 to each failure
/// let expected = (2.0 * 0.6_f64 * 0.6 * 0.4).ln(); // one failure before it, with μ = 4/3
/// assert!((counts.log_density(&[1.0], &[(4.0_f64 / 3.0).ln()]) - expected).abs() < 1e-14);
/// # Ok::<(), riemannian_laplace::internals::likelihood::NoiseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NegativeBinomial {
    a: f64,
}

impl NegativeBinomial {
    /// With the dispersion a.
    pub fn new(a: f64) -> Result<Self, NoiseError> {
        let counts = Self { a };
        check_parameters(&counts.dispersions())?;
        Ok(counts)
    }

    /// t = log aμ.
    fn logit(&self, f: f64) -> f64 {
        f + self.a.ln()
    }

    /// √H.
    fn root(&self, f: f64) -> f64 {
        (sigmoid(self.logit(f)) / self.a).sqrt()
    }

    /// Σ_{j<y} log(1 + aj) = log Γ(y + 1/a) − log Γ(1/a) + y log a.
    fn log_rising(&self, y: f64) -> f64 {
        if y <= SUMMED {
            return (0..y as u32).map(|j| (self.a * f64::from(j)).ln_1p()).sum();
        }
        libm::lgamma(y + 1.0 / self.a) - libm::lgamma(1.0 / self.a) + y * self.a.ln()
    }
}

impl Registered for NegativeBinomial {
    const HELP: &'static str = "Counts that vary more than Poisson's: variance μ + aμ², where a is tuned";

    fn start() -> Self {
        Self { a: 0.1 }
    }
}

impl Likelihood for NegativeBinomial {
    fn name(&self) -> &'static str {
        "negative-binomial"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Count
    }

    fn mean_function(&self) -> &'static str {
        "exp"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a whole number from 0 to 2^53", |y| {
            (0.0..=LARGEST_COUNT).contains(&y) && y.fract() == 0.0
        })
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let log_density = |(&y, &f): (&f64, &f64)| {
            let events = if y > 0.0 { y * f } else { 0.0 };
            self.log_rising(y) + events - (y + 1.0 / self.a) * softplus(self.logit(f)) - libm::lgamma(y + 1.0)
        };
        target.iter().zip(outputs).map(log_density).sum()
    }

    /// At the mean y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        Some(target.iter().map(|y| if *y > 0.0 { self.log_density(&[*y], &[y.ln()]) } else { 0.0 }).sum())
    }

    /// (y − μ)/(1 + aμ).
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let score = |(y, &f): (&f64, &f64)| y * sigmoid(-self.logit(f)) - sigmoid(self.logit(f)) / self.a;
        write(gradient, target.iter().zip(outputs).map(score));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|&f| sigmoid(self.logit(f)) / self.a));
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let entries = (0..outputs.len()).map(|k| self.observed_quadratic(&target[k..=k], &outputs[k..=k], &[1.0]));
        write_diagonal(information, outputs.len(), entries);
    }

    /// μ(1 + ay)/(1 + aμ)² = H (1 + ay) sigmoid(−t).
    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let term = |((y, &f), first): ((&f64, &f64), &f64)| {
            (self.root(f) * first).powi(2) * (1.0 + self.a * y) * sigmoid(-self.logit(f))
        };
        target.iter().zip(outputs).zip(first).map(term).sum()
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|&f| self.root(f)));
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let jets = outputs.iter().zip(first).zip(second);
        let entry = |((&f, first), second): ((&f64, &f64), &f64)| {
            self.root(f) * (second + 0.5 * sigmoid(-self.logit(f)) * first * first)
        };
        write(force, jets.map(entry));
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let derivatives = outputs.iter().map(|&f| (self.root(f), 0.5 * self.root(f) * sigmoid(-self.logit(f))));
        write_separable_isometry(slopes, bends, derivatives);
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        outputs.iter().zip(first).map(|(&f, first)| (self.root(f) * first).powi(2)).sum()
    }

    /// 2 asinh(√a e^(f/2))/√a.
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        let root = self.a.sqrt();
        write(isometric, outputs.iter().map(|&f| 2.0 * exp(0.5 * self.logit(f)).asinh() / root));
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        write(deviations, outputs.iter().map(|&f| self.root(f)));
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| exp(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        write(variance, outputs.iter().map(|&f| exp(f) * (1.0 + self.a * exp(f))));
    }

    /// A Poisson count whose rate is drawn from a gamma distribution of mean μ and shape 1/a.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            let rate =
                rand_distr::Gamma::new(1.0 / self.a, self.a * exp(f)).map_or(0.0, |rates| rates.sample(generator));
            *y = match rand_distr::Poisson::new(rate) {
                Ok(counts) => counts.sample(generator),
                // A rate of zero, or one too large to draw from.
                Err(_) => rate.round(),
            };
        }
    }

    /// The regularised incomplete beta function I(1/(1 + aμ); 1/a, y + 1).
    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        if value < 0.0 {
            return 0.0;
        }
        incomplete_beta(1.0 / self.a, value.floor() + 1.0, sigmoid(-self.logit(outputs[target])))
    }

    /// The mean eᶠ is log-normal: E μ = e^{m + v/2}, E μ² = e^{2m + 2v}.
    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        let outputs = 0..latent.n_outputs();
        let mean: Vec<f64> = outputs.clone().map(|k| (latent.mean[k] + 0.5 * latent.variance(k)).exp()).collect();
        let epistemic = outputs.map(|k| latent.variance(k).exp_m1() * mean[k] * mean[k]).collect::<Vec<f64>>();
        let noise = |(mean, spread): (&f64, &f64)| mean + self.a * (mean * mean + spread);
        let aleatoric = mean.iter().zip(&epistemic).map(noise).collect();
        Some(PointMoments { mean, epistemic, aleatoric })
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        (sums.mean(output) + sums.half()).ln()
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Wide => Some("Tune the dispersion: the counts vary less than it has it."),
            Misfit::Narrow => Some("Tune the dispersion: the counts vary more than it has it."),
            Misfit::Uneven | Misfit::HeavyTails => Some("Add the inputs that explain why some counts are so large."),
        }
    }

    fn dispersions(&self) -> Vec<Dispersion> {
        vec![Dispersion::positive("a", self.a, DISPERSION)]
    }

    fn with_dispersions(&self, values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        match *values {
            [a] => Ok(Arc::new(Self::new(a)?)),
            _ => Err(NoiseError::Count { likelihood: self.name(), expected: 1, found: values.len() }),
        }
    }
}
