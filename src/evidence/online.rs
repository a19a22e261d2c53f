//! Online evidence training (Immer et al. 2021): the weights and the hyperparameters learn together.
//!
//! Training alternates with tuning: some epochs of the optimiser on the log posterior with the current prior precision α
//! and noise σ, then a Laplace fit at the current weights and a step of (log α, log σ) towards the maximum of its
//! evidence. So the weights end at a mode of the posterior whose prior the evidence chose, which a network trained with
//! a weight decay of the user's choice does not.

use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result, Unsupported};
use crate::evidence::{EvidenceOptions, optimize};
use crate::laplace::{FitOptions, Laplace, PriorValues, Structure};
use crate::likelihood::Family;
use crate::network::{Decay, Network, TrainingOptions, train};
use crate::progress::Progress;

/// Settings of [`train_online`].
#[derive(Debug, Clone, PartialEq)]
pub struct OnlineOptions {
    /// The optimiser's settings; `epochs` counts all of them, and `weight_decay` is that of the burn-in alone: afterwards
    /// the prior decides. The decay is always the prior's, ½λ‖θ‖² in the loss.
    pub training: TrainingOptions,
    /// Epochs before the first tuning (default 500).
    pub burn_in: usize,
    /// Epochs from one tuning to the next (default 100).
    pub every: usize,
    /// How far each tuning moves the log hyperparameters towards the maximum of the evidence: from just above 0 to 1, all
    /// the way (default 1).
    pub step: f64,
    /// The structure of the posterior whose evidence is maximised (default: exact).
    pub structure: Structure,
}

impl Default for OnlineOptions {
    fn default() -> Self {
        let training = TrainingOptions { epochs: 2000, ..Default::default() };
        Self { training, burn_in: 500, every: 100, step: 1.0, structure: Structure::default() }
    }
}

/// One tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct OnlineStep {
    /// The epochs run before it.
    pub epoch: usize,
    /// The mean loss over all data, without the decay.
    pub loss: f64,
    /// α after the tuning.
    pub prior_precision: f64,
    /// σ after the tuning, in the units of the model; none for families without noise.
    pub sigma: Option<f64>,
    /// The log evidence with these hyperparameters.
    pub log_marginal_likelihood: f64,
}

/// What online training found.
#[derive(Debug, Clone)]
pub struct OnlineTraining {
    /// The network of the greatest evidence.
    pub network: Network,
    /// Its mean loss over all data, without the decay.
    pub loss: f64,
    /// Its posterior, with the hyperparameters tuned. It keeps the data.
    pub laplace: Laplace,
    /// Every tuning, in order.
    pub history: Vec<OnlineStep>,
}

/// Trains a network and tunes prior precision and noise as it learns.
///
/// The network returned is that of the greatest evidence among all tunings, each counted with its hyperparameters at
/// their maximum. `progress` is told the epochs done, and may cancel.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::internals::evidence::{OnlineOptions, train_online};
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, Network, TrainingOptions};
///
/// let inputs = Array2::from_shape_fn((40, 1), |(n, _)| n as f64 / 10.0 - 2.0);
/// let targets = inputs.mapv(|x| x.sin() + 0.1 * (37.0 * x).cos());
/// let data = Dataset::new(inputs, targets)?;
/// let start = Network::random(Architecture::new(&[1, 8, 1], Activation::Tanh)?, 0);
/// let training = TrainingOptions { epochs: 600, ..Default::default() };
/// let options = OnlineOptions { training, burn_in: 300, ..Default::default() };
/// let trained = train_online(&start, &data, &Family::gaussian(1.0)?, &options, &())?;
/// assert_eq!(trained.history.len(), 4); // after 300, 400, 500 and 600 epochs
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn train_online(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &OnlineOptions,
    progress: &dyn Progress,
) -> Result<OnlineTraining> {
    check(family, options)?;
    let (mut network, mut weight_decay) = (start.clone(), options.training.weight_decay);
    let mut current: Option<Hyperparameters> = None;
    let (mut history, mut best): (Vec<OnlineStep>, Option<OnlineTraining>) = (Vec::new(), None);
    let mut done = 0;
    let total = options.training.epochs;
    let mut next = options.burn_in.clamp(1, total);
    loop {
        let chunk = TrainingOptions {
            epochs: next - done,
            weight_decay,
            decay: Decay::L2,
            // Another order of the mini-batches in every chunk.
            seed: options.training.seed.wrapping_add(done as u64),
            ..options.training.clone()
        };
        let trained = train(&network, data, family, &chunk, &Part { whole: progress, done })?;
        done = next;
        let tuned = tune(&trained.network, data, family, options.structure)?;
        let optimum = Hyperparameters::of(&tuned);
        let stepped = current.map_or(optimum, |current| current.towards(optimum, options.step));
        current = Some(stepped);
        weight_decay = stepped.weight_decay(data);
        history.push(OnlineStep {
            epoch: done,
            loss: trained.loss,
            prior_precision: stepped.log_alpha.exp(),
            sigma: stepped.log_sigma.map(f64::exp),
            log_marginal_likelihood: tuned.log_marginal_likelihood(),
        });
        let evidence = tuned.log_marginal_likelihood();
        if best.as_ref().is_none_or(|best| evidence > best.laplace.log_marginal_likelihood()) {
            let (network, loss) = (trained.network.clone(), trained.loss);
            best = Some(OnlineTraining { network, loss, laplace: tuned, history: Vec::new() });
        }
        network = trained.network;
        if done == total {
            break;
        }
        next = (done + options.every).min(total);
    }
    match best {
        Some(best) => Ok(OnlineTraining { history, ..best }),
        None => Err(InvalidTraining::NoEpochs.into()),
    }
}

fn check(family: &Family, options: &OnlineOptions) -> Result<()> {
    if options.training.epochs == 0 || options.every == 0 {
        return Err(InvalidTraining::NoEpochs.into());
    }
    if !(options.step > 0.0 && options.step <= 1.0) {
        return Err(InvalidTraining::HyperparameterStep(options.step).into());
    }
    match family.sigma() {
        Some(sigma) if sigma.len() > 1 => Err(Error::Unsupported(Unsupported::OnlineSigmas { levels: sigma.len() })),
        _ => Ok(()),
    }
}

/// The posterior at the current weights, its hyperparameters at the maximum of the evidence.
fn tune(network: &Network, data: &Dataset, family: &Family, structure: Structure) -> Result<Laplace> {
    let options = FitOptions { prior_precision: PriorValues::default(), structure, ..Default::default() };
    let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
    optimize(&mut laplace, &EvidenceOptions::default(), &())?;
    Ok(laplace)
}

/// log α, and log σ for a family with noise.
#[derive(Debug, Clone, Copy)]
struct Hyperparameters {
    log_alpha: f64,
    log_sigma: Option<f64>,
    outputs: usize,
}

impl Hyperparameters {
    fn of(laplace: &Laplace) -> Self {
        let first = |values: &[f64]| values.first().map(|value| value.ln());
        Self {
            log_alpha: first(laplace.prior().values()).unwrap_or(0.0),
            log_sigma: laplace.family().sigma().and_then(first),
            outputs: laplace.model().n_outputs(),
        }
    }

    /// A step towards the optimum, in the logarithms.
    fn towards(self, optimum: Self, step: f64) -> Self {
        let between = |from: f64, to: f64| from + step * (to - from);
        Self {
            log_alpha: between(self.log_alpha, optimum.log_alpha),
            log_sigma: self.log_sigma.zip(optimum.log_sigma).map(|(from, to)| between(from, to)),
            outputs: self.outputs,
        }
    }

    /// The λ that makes the training loss plus ½λ‖θ‖² proportional to the negative log posterior: α/N where the loss is
    /// the mean negative log likelihood, 2ασ²/(NP) where it is the mean squared error.
    fn weight_decay(self, data: &Dataset) -> f64 {
        let (alpha, n) = (self.log_alpha.exp(), data.len() as f64);
        match self.log_sigma {
            Some(log_sigma) => 2.0 * alpha * (2.0 * log_sigma).exp() / (n * self.outputs as f64),
            None => alpha / n,
        }
    }
}

/// The progress of one chunk of epochs, as part of the whole.
struct Part<'a> {
    whole: &'a dyn Progress,
    done: usize,
}

impl Progress for Part<'_> {
    fn step(&self, done: usize, value: f64) {
        self.whole.step(self.done + done, value);
    }

    fn is_cancelled(&self) -> bool {
        self.whole.is_cancelled()
    }
}
