//! Poisson in the log rate: log p(y | f) = Σ_k (y_k f_k − e^(f_k) − log y_k!), y_k ∈ {0, 1, 2, …}.

use candle_core::Tensor;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;

use super::distribution::poisson_cdf;
use super::latent::{LatentPoint, PointMoments, log_sum_exp};
use super::{
    GraphForm, Likelihood, Misfit, Registered, TargetError, TargetKind, TargetSummary, check_values, write,
    write_diagonal, write_separable_isometry,
};
use crate::elementary::exp;
use crate::error::Result as CrateResult;

/// The largest count up to which every whole number is an f64: 2⁵³.
pub(super) const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;
/// The number of equally likely rates over which distribution functions are averaged.
const RATES: usize = 400;

/// Independent counts, one per output, whose log rates are the outputs.
///
/// The rate eᶠ overflows for f > 709.78: then the mean, variance and Fisher information are +∞ and the log density is
/// −∞. Quantities made of √(eᶠ), or of eᶠ times something small, stay finite as long as their value can be represented.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Likelihood, Poisson};
///
/// // Three events at rate 2: e⁻² 2³/3!
/// let expected = ((-2.0_f64).exp() * 8.0 / 6.0).ln();
/// assert!((Poisson.log_density(&[3.0], &[2.0_f64.ln()]) - expected).abs() < 1e-15);
/// assert!(Poisson.validate(&[2.5], 1).is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Poisson;

/// x √r = x e^(f/2), zero for x = 0 whatever the rate.
#[inline(always)]
fn times_root_rate(x: f64, log_rate: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * exp(0.5 * log_rate) }
}

impl Registered for Poisson {
    const HELP: &'static str = "Counts";

    fn start() -> Self {
        Self
    }
}

/// −log p without log y!, summed over the outputs of a point.
fn loss(outputs: &Tensor, targets: &Tensor) -> candle_core::Result<Tensor> {
    (outputs.exp()? - (outputs * targets)?)?.sum(1)?.mean_all()
}

/// log ∫ Poisson(y | e^f) N(f | m, v) df, by the trapezoidal rule in x = (f − m)/√v.
///
/// The integrand is log-concave, with its maximum where √v(y − e^f) = x, and there it has the width w = 1/√(1 + v e^f).
/// The rule runs as far as the integrand exceeds e⁻⁴⁰ of its maximum. Its error falls like exp(−2πd/h) with the width d
/// of the strip in which the integrand is tame: w for its Gaussian part and π/2 in f for exp(−e^f), hence the step.
fn log_poisson_mixture(y: f64, mean: f64, variance: f64) -> f64 {
    const NEGLIGIBLE: f64 = 40.0;
    const MOST_NODES: f64 = 20_000.0;
    let deviation = variance.max(0.0).sqrt();
    let log_integrand = |x: f64| Poisson.log_density(&[y], &[mean + deviation * x]) - 0.5 * x * x;
    if deviation == 0.0 {
        return log_integrand(0.0);
    }
    // The maximum lies between x = 0 and the point where e^f = y (with f = −750 in place of log 0), and closer to 0
    // than √v
    // |y − e^m|.
    let slope = |x: f64| deviation * (y - (mean + deviation * x).exp()) - x;
    let balance = if y > 0.0 { y.ln() } else { mean.min(-750.0) };
    let reach = ((balance - mean).abs() / deviation).min(deviation * (y - mean.exp()).abs());
    let (mut low, mut high) = if balance >= mean { (0.0, reach) } else { (-reach, 0.0) };
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let (place, top) = (high, log_integrand(high));
    let width = 1.0 / (1.0 + variance * (mean + deviation * place).exp()).sqrt();
    let extent = |direction: f64| {
        let mut distance = width;
        while log_integrand(place + direction * distance) > top - NEGLIGIBLE {
            distance *= 1.5;
        }
        distance
    };
    let (left, right) = (extent(-1.0), extent(1.0));
    let step = (width / 3.0).min(0.2 / deviation).max((left + right) / MOST_NODES);
    let nodes = ((left + right) / step).ceil() as usize;
    let terms = (0..=nodes).map(|i| log_integrand(place - left + i as f64 * step));
    log_sum_exp(terms) + step.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

impl Likelihood for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        check_values(self, target, n_outputs, "a whole number from 0 to 2^53", |y| {
            (0.0..=LARGEST_COUNT).contains(&y) && y.fract() == 0.0
        })
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let log_density = |(&y, &f): (&f64, &f64)| {
            let events = if y > 0.0 { y * f } else { 0.0 }; // a rate of zero (f = −∞) may produce no events
            events - exp(f) - libm::lgamma(y + 1.0)
        };
        target.iter().zip(outputs).map(log_density).sum()
    }

    /// At the rate y.
    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        let log_rates: Vec<f64> = target.iter().map(|y| y.ln()).collect();
        Some(self.log_density(target, &log_rates))
    }

    /// y − r.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        write(gradient, target.iter().zip(outputs).map(|(y, &f)| y - exp(f)));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        write_diagonal(fisher, outputs.len(), outputs.iter().map(|&f| exp(f)));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        write_diagonal(whitening, outputs.len(), outputs.iter().map(|&f| exp(0.5 * f)));
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let jets = outputs.iter().zip(first).zip(second);
        write(force, jets.map(|((&f, first), second)| times_root_rate(second + 0.5 * first * first, f)));
    }

    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        let derivatives = outputs.iter().map(|&f| (exp(0.5 * f), 0.5 * exp(0.5 * f)));
        write_separable_isometry(slopes, bends, derivatives);
        true
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        outputs.iter().zip(first).map(|(&f, &first)| times_root_rate(first, f).powi(2)).sum()
    }

    /// 2 e^(f/2).
    fn isometric(&self, outputs: &[f64], isometric: &mut [f64]) -> bool {
        write(isometric, outputs.iter().map(|&f| 2.0 * exp(0.5 * f)));
        true
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        write(deviations, outputs.iter().map(|&f| exp(0.5 * f)));
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        write(mean, outputs.iter().map(|&f| exp(f)));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.mean(outputs, variance);
    }

    /// A rate too large to draw from is returned itself: no nearby count can be told from it.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        for (y, &f) in target.iter_mut().zip(outputs) {
            let rate = exp(f);
            *y = match rand_distr::Poisson::new(rate) {
                Ok(distribution) => distribution.sample(generator),
                // This also covers a rate of zero.
                Err(_) => rate.round(),
            };
        }
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Count
    }

    fn graph_form(&self) -> Option<GraphForm> {
        Some(GraphForm::LogRate)
    }

    fn mean_function(&self) -> &'static str {
        "exp"
    }

    fn cumulative(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        poisson_cdf(value, outputs[target].exp())
    }

    /// The rate e^f is log-normal: E = e^{m + v/2}, Var = (e^v − 1) e^{2m + v}.
    fn closed_moments(&self, latent: &LatentPoint) -> Option<PointMoments> {
        let rate = |k: usize| (latent.mean[k] + 0.5 * latent.variance(k)).exp();
        let mean: Vec<f64> = (0..latent.n_outputs()).map(rate).collect();
        let spread = |(k, mean): (usize, &f64)| latent.variance(k).exp_m1() * mean * mean;
        Some(PointMoments { epistemic: mean.iter().enumerate().map(spread).collect(), aleatoric: mean.clone(), mean })
    }

    fn closed_log_density(&self, latent: &LatentPoint, target: &[f64]) -> CrateResult<Option<f64>> {
        let at = |(k, y): (usize, &f64)| log_poisson_mixture(*y, latent.mean[k], latent.variance(k));
        Ok(Some(target.iter().enumerate().map(at).sum()))
    }

    fn n_nodes(&self) -> usize {
        RATES
    }

    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        (sums.mean(output) + sums.half()).ln()
    }

    fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        Some(loss(outputs, targets))
    }

    fn loss_in_units(&self, loss: f64, _: usize, _: Option<&[f64]>) -> (f64, &'static str) {
        (loss, "mean negative log likelihood of the last epoch, without log y!")
    }

    fn cure(&self, misfit: Misfit) -> Option<&'static str> {
        Some(match misfit {
            Misfit::Wide => "The counts vary less than a Poisson distribution has it.",
            Misfit::Narrow | Misfit::Uneven | Misfit::HeavyTails => {
                "The counts vary more than a Poisson distribution has it: model log(1 + count) with a heteroscedastic \
                 likelihood, or add the inputs that explain the rest."
            }
        })
    }
}
