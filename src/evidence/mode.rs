//! Training to a mode of the posterior (MacKay 1992; Foresee and Hagan 1997): the prior precision A is given, and the noise
//! follows from the fit.
//!
//! Levenberg and Marquardt's method on −ℓ(θ) = −Σₙ log p(yₙ | fₙ(θ)) + ½θᵀAθ, with the generalised Gauss-Newton curvature:
//! θ ← θ + (JᵀHJ + (1 + κ)A)⁻¹∇ℓ, where κ falls after a step that gains and rises after one that does not. Every few steps
//! σ² ← ‖y − f‖²/(NP − γ), where γ are the effective parameters: the σ of greatest evidence at fixed γ. It never falls below a
//! hundred-thousandth of the targets' spread, which targets without any noise would have it do.
//!
//! The linearised posterior and the evidence describe a network at a mode. Adam comes near one slowly: where γ is some
//! hundreds, thousands of epochs end at weights whose gradient is that of an underfitted network. For networks of up to
//! some thousand weights, a step here costs about as much as a fit.

use ndarray::ArrayView1;

use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result, Unsupported};
use crate::laplace::{FitOptions, Laplace, PriorValues, Structure};
use crate::likelihood::Family;
use crate::network::Network;
use crate::prior::PriorPrecision;
use crate::progress::Progress;

/// Where κ starts, by what it falls and rises, and beyond what no step is worth trying.
const DAMPING: f64 = 1.0;
const FALL: f64 = 5.0;
const RISE: f64 = 4.0;
const LEAST_DAMPING: f64 = 1e-6;
const MOST_DAMPING: f64 = 1e12;
/// Steps from one look at σ to the next: γ costs as much as a step.
const NOISE_EVERY: usize = 3;
/// The relative change of σ² below which it has settled.
const SETTLED: f64 = 2e-3;
/// The least σ, in spreads of the targets: the square of its inverse is the condition of the precision, which must be one that
/// f64 can factor.
const LEAST_NOISE: f64 = 1e-5;

/// What becomes of σ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Noise {
    /// It follows from the fit, where the family has one, down to a hundred-thousandth of the targets' spread.
    #[default]
    Tuned,
    /// It stays as the family has it.
    Fixed,
}

/// Settings of [`train_to_mode`].
#[derive(Debug, Clone, PartialEq)]
pub struct ModeOptions {
    /// The prior precision, which stays (default: 1 for every parameter).
    pub prior_precision: PriorValues,
    /// What becomes of σ (default: it follows from the fit).
    pub noise: Noise,
    /// The most steps (default 100).
    pub steps: usize,
    /// The gain in log posterior of a step, in nats, below which the mode is reached (default 0.01).
    pub tolerance: f64,
    /// The structure of the curvature (default: exact).
    pub structure: Structure,
}

impl Default for ModeOptions {
    fn default() -> Self {
        let (prior_precision, noise, structure) = Default::default();
        Self { prior_precision, noise, steps: 100, tolerance: 0.01, structure }
    }
}

/// A network at a mode of its posterior.
#[derive(Debug, Clone)]
pub struct Mode {
    /// The network.
    pub network: Network,
    /// Its posterior, with the prior precision that was given and the σ that was found. It keeps the data.
    pub laplace: Laplace,
    /// The steps taken.
    pub steps: usize,
    /// The gain in log posterior of the last step, in nats.
    pub last_gain: f64,
    /// Whether the last step gained less than the tolerance, and σ had settled.
    pub converged: bool,
}

/// Trains a network to a mode of its posterior under a given prior, from the weights of `start`.
///
/// `progress` is told the steps done and the log posterior, and may cancel.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::internals::evidence::{ModeOptions, train_to_mode};
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, Network};
///
/// let inputs = Array2::from_shape_fn((40, 1), |(n, _)| n as f64 / 10.0 - 2.0);
/// let targets = inputs.mapv(|x| x.sin() + 0.1 * (37.0 * x).cos());
/// let data = Dataset::new(inputs, targets)?;
/// let start = Network::random(Architecture::new(&[1, 8, 1], Activation::Tanh)?, 0);
/// let mode = train_to_mode(&start, &data, &Family::gaussian(1.0)?, &ModeOptions::default(), &())?;
/// assert!(mode.converged);
/// let sigma = mode.laplace.sigma().map_or(1.0, |sigma| sigma[0]);
/// assert!(sigma > 0.05 && sigma < 0.15); // the noise is 0.1/√2
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn train_to_mode(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &ModeOptions,
    progress: &dyn Progress,
) -> Result<Mode> {
    check(family, options)?;
    let least = least_noise(data);
    let (mut network, mut family) = (start.clone(), family.clone());
    let (mut damping, mut last_gain, mut steps) = (DAMPING, f64::INFINITY, 0);
    loop {
        let laplace = posterior(&network, data, &family, options)?;
        let reached = last_gain < options.tolerance;
        let looks = reached || steps % NOISE_EVERY == 0 || steps == options.steps;
        let noise = if looks { tuned_noise(&laplace, options, least) } else { None };
        let settled = noise.as_ref().is_none_or(|tuned| (2.0 * (tuned.new / tuned.old).ln()).abs() < SETTLED);
        let converged = reached && settled;
        if converged || steps == options.steps {
            return Ok(Mode { network, laplace, steps, last_gain, converged });
        }
        // σ belongs to the weights at which it was found, so it moves before they do.
        let laplace = match noise {
            Some(tuned) if !settled => {
                family = family.with_sigma(&[tuned.new])?;
                let mut moved = laplace;
                moved.set_hyperparameters(&options.prior_precision, &[tuned.new])?;
                moved
            }
            _ => laplace,
        };
        let step = Step::find(&laplace, &mut damping)?;
        (steps, last_gain) = (steps + 1, step.gain);
        network = network.with_parameters(step.theta)?;
        progress.step(steps, step.log_posterior);
        if progress.is_cancelled() {
            return Err(Error::Cancelled);
        }
    }
}

fn check(family: &Family, options: &ModeOptions) -> Result<()> {
    if options.steps == 0 {
        return Err(InvalidTraining::NoSteps.into());
    }
    if options.tolerance.is_nan() || options.tolerance <= 0.0 {
        return Err(InvalidTraining::Tolerance(options.tolerance).into());
    }
    match family.sigma() {
        Some(sigma) if sigma.len() > 1 && options.noise == Noise::Tuned => {
            Err(Error::Unsupported(Unsupported::OnlineSigmas { levels: sigma.len() }))
        }
        _ => Ok(()),
    }
}

fn posterior(network: &Network, data: &Dataset, family: &Family, options: &ModeOptions) -> Result<Laplace> {
    let (prior_precision, structure) = (options.prior_precision.clone(), options.structure);
    let options = FitOptions { prior_precision, structure, ..Default::default() };
    Laplace::fit(network.clone(), data.clone(), family.clone(), &options)
}

/// The least σ: where a network fits exactly, σ would run to zero, and no precision could be factored.
fn least_noise(data: &Dataset) -> f64 {
    let squares = |column: ArrayView1<'_, f64>| {
        let centre = column.mean().unwrap_or(0.0);
        column.iter().map(|y| (y - centre).powi(2)).sum::<f64>()
    };
    let (n_targets, rows) = (data.schema().targets().len(), data.len());
    let observed = data.targets().columns().into_iter().take(n_targets);
    let spread = (observed.map(squares).sum::<f64>() / (rows * n_targets).max(1) as f64).sqrt();
    LEAST_NOISE * if spread > 0.0 { spread } else { 1.0 }
}

/// σ as it is and as it should be.
struct TunedNoise {
    old: f64,
    new: f64,
}

/// σ² = ‖y − f‖²/(NP − γ), where σ is to be tuned.
fn tuned_noise(laplace: &Laplace, options: &ModeOptions, least: f64) -> Option<TunedNoise> {
    let (Noise::Tuned, Some([old])) = (options.noise, laplace.family().sigma()) else {
        return None;
    };
    let errors = laplace.goodness().squared_errors();
    let values = laplace.goodness().weight() * errors.len() as f64;
    // γ < NP, but may come near it by rounding.
    let free = (values - laplace.effective_parameters()).max(1e-3 * values);
    let new = (errors.iter().sum::<f64>() / free).sqrt();
    Some(TunedNoise { old: *old, new: new.max(least) })
}

/// A step that gains, or none.
struct Step {
    theta: Vec<f64>,
    log_posterior: f64,
    gain: f64,
}

impl Step {
    /// Raises the damping κ until the step gains; leaves it lower for the next.
    fn find(laplace: &Laplace, damping: &mut f64) -> Result<Self> {
        let target = laplace.target("training")?;
        let (mut evaluator, curvature) = (target.evaluator(), laplace.curvature()?);
        let (start, scales, size) = (laplace.parameters(), laplace.problem().scales(), laplace.parameters().len());
        let (mut gradient, mut direction) = (vec![0.0; size], vec![0.0; size]);
        let before = evaluator.gradient(start, &mut gradient);
        while *damping < MOST_DAMPING {
            // What cannot be factored for rounding can with more of the prior.
            let precision = match curvature.factor(&strengthened(laplace, 1.0 + *damping)?, &scales) {
                Err(Error::NotPositiveDefinite { .. }) => {
                    *damping *= RISE;
                    continue;
                }
                other => other?,
            };
            precision.solve(&gradient, &mut direction);
            let theta: Vec<f64> = start.iter().zip(&direction).map(|(from, step)| from + step).collect();
            let after = evaluator.log_posterior(&theta);
            if after >= before && theta.iter().all(|value| value.is_finite()) {
                *damping = (*damping / FALL).max(LEAST_DAMPING);
                return Ok(Self { theta, log_posterior: after, gain: after - before });
            }
            *damping *= RISE;
        }
        *damping = DAMPING;
        Ok(Self { theta: start.to_vec(), log_posterior: before, gain: 0.0 })
    }
}

/// The prior with its precisions multiplied.
fn strengthened(laplace: &Laplace, factor: f64) -> Result<PriorPrecision> {
    let prior = laplace.prior();
    let values = prior.values().iter().map(|value| factor * value).collect();
    PriorValues::with_structure(prior.structure(), values).over(prior.groups())
}
