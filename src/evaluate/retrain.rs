//! Training by a recipe: the same for a first training and for training again without some of the data.
//!
//! By default a network is trained so that it does not overfit. Where steps by the whole curvature are affordable, it goes to a
//! mode of its posterior under the prior that predicts held-out folds best ([`train_along_priors`]); beyond that Adam stops
//! where held-out rows gain nothing more ([`train_early_stopping`]). Which of them, and with how many folds, follows from a count
//! of multiply-adds, never from the clock.

use super::deviance::Deviances;
use super::prior_path::{NearlyLinear, PriorPath, PriorPathChoice, PriorPathOptions, train_along_priors};
use crate::data::Dataset;
use crate::error::{InvalidTraining, Result};
use crate::evidence::{EvidenceOptions, Free, ModeOptions, OnlineOptions, OnlineTraining, train_online};
use crate::laplace::{FitOptions, Laplace, PriorValues, Structure};
use crate::likelihood::Family;
use crate::map::{Group, Model};
use crate::network::{
    Activation, Architecture, Decay, EarlyStopped, Network, Procedure, Recipe, Training, TrainingOptions,
    held_out_rows, train_early_stopping, train_or_stop,
};
use crate::progress::Progress;

/// The most multiply-adds of a default training to a mode: about a minute on two cores.
const MOST_WORK: f64 = 3e12;
/// The most multiply-adds of a path that also tries new weights, which may take three times as long: some seconds.
const MOST_WORK_OF_NEW_WEIGHTS: f64 = 1e11;
/// The most weights of a default training to a mode.
const MOST_WEIGHTS: usize = 4000;
/// Multiply-adds a second of two cores, from below, for the times that are announced.
pub const WORK_PER_SECOND: f64 = 4e10;
/// Steps to a mode under one prior, on average.
const STEPS: f64 = 10.0;
/// Steps to the last mode, on average.
const LAST_STEPS: f64 = 40.0;
/// Ratios of the hidden layers' precision to the last one's that a default training tries.
const RATIOS: [f64; 3] = [1.0, 30.0, 1000.0];
/// Evaluations of the evidence for each parameter of a likelihood, on average.
const DISPERSION_EVALUATIONS: f64 = 60.0;
/// The part of the rows that early stopping holds out.
pub const HELD_OUT_PARTS: usize = 6;

/// What a recipe gave.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The network.
    pub network: Network,
    /// The recipe, with the prior precision and the noise that were found.
    pub recipe: Recipe,
    /// What the procedure did.
    pub outcome: Outcome,
    /// Deviances on the training rows.
    pub training: Deviances,
    /// Deviances on rows that were held out, where some were.
    pub held_out: Option<Deviances>,
    /// Whether it was interrupted before its end.
    pub interrupted: bool,
}

/// What a procedure did.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Along priors to a mode.
    Path(Box<PriorPath>),
    /// Adam, stopped early.
    Stopped(EarlyStopped),
    /// Adam as it was set.
    Adam(Training),
    /// Adam, tuned by the evidence.
    Evidence(Box<OnlineTraining>),
}

/// The default procedure for a network and so many rows.
pub fn default_procedure(architecture: &Architecture, rows: usize) -> Procedure {
    let plans = [(5, 5, 3), (3, 3, 3), (3, 3, 1), (5, 1, 1)];
    for (folds, folds_used, ratios) in plans {
        let few = architecture.n_params() <= MOST_WEIGHTS && rows >= 2 * folds;
        let fits = few && path_work(architecture, rows, (folds, folds_used, ratios)) <= MOST_WORK;
        if fits {
            let ratios = RATIOS.into_iter().take(ratios).collect();
            return Procedure::CrossValidated { folds, folds_used, ratios, cautious: true };
        }
    }
    if (2..10).contains(&rows) {
        // A fold of several of so few rows leaves too little to learn from.
        let ratios = RATIOS.to_vec();
        return Procedure::CrossValidated { folds: rows, folds_used: rows, ratios, cautious: true };
    }
    let batch_size = (rows / 100).clamp(32, 512);
    Procedure::EarlyStopping { epochs: 1000, learning_rate: 5e-3, weight_decay: 1e-5, batch_size }
}

/// The prior precisions of a default training: those of [`PriorPathOptions`], and stronger ones in front, which a linear model of
/// weak inputs needs.
pub fn cautious_precisions() -> Vec<f64> {
    let stronger = [2.5, 2.0].map(|power| 10f64.powf(power));
    stronger.into_iter().chain(PriorPathOptions::default().precisions).collect()
}

/// Multiply-adds of a path along priors, on average.
fn path_work(architecture: &Architecture, rows: usize, (folds, used, ratios): (usize, usize, usize)) -> f64 {
    // The stronger ones in front determine little and take few steps.
    let priors = PriorPathOptions::default().precisions.len() as f64;
    let share = 1.0 - 1.0 / folds as f64;
    let on_the_way = priors * STEPS * ratios as f64 * used as f64;
    on_the_way * step_work(architecture, share * rows as f64)
        + (priors * STEPS + LAST_STEPS) * step_work(architecture, rows as f64)
}

/// Multiply-adds of a step: the cheaper of weight space and function space.
fn step_work(architecture: &Architecture, rows: f64) -> f64 {
    let (params, outputs) = (architecture.n_params() as f64, architecture.n_outputs() as f64);
    let values = rows * outputs;
    let passes = 6.0 * values * params;
    let weights = 0.5 * values * params * params + params.powi(3) / 6.0;
    let widths = architecture.graph().tape_size(1, 1);
    passes + weights.min(values * values * widths + values.powi(3) / 6.0)
}

/// The seconds that a procedure takes, from above, by counted work.
pub fn expected_seconds(procedure: &Procedure, architecture: &Architecture, rows: usize) -> f64 {
    let passes = |epochs: usize| {
        let products = 6.0 * architecture.n_params() as f64;
        epochs as f64 * rows as f64 * products
    };
    let steps = |epochs: usize, batch: Option<usize>| {
        // A step of candle has a price of its own.
        const OF_STEP: f64 = 2e-4;
        epochs as f64 * rows.div_ceil(batch.unwrap_or(rows).max(1)) as f64 * OF_STEP
    };
    match procedure {
        Procedure::CrossValidated { folds, folds_used, ratios, .. } => {
            path_work(architecture, rows, (*folds, *folds_used, ratios.len())) / WORK_PER_SECOND
        }
        Procedure::EarlyStopping { batch_size, .. } => {
            // It rarely runs for longer than this.
            let epochs = 100;
            passes(epochs) / WORK_PER_SECOND + steps(epochs, Some(*batch_size))
        }
        Procedure::Adam { epochs, batch_size, .. } | Procedure::Evidence { epochs, batch_size, .. } => {
            passes(*epochs) / WORK_PER_SECOND + steps(*epochs, *batch_size)
        }
    }
}

/// Trains a network by a recipe, from the weights of `start`.
///
/// Where the likelihood has parameters of its own (thresholds, a degree of freedom, a dispersion), the evidence at the first
/// network finds them, and a second training is under what was found. Cancelled, Adam returns what there is (`interrupted`); a
/// path along priors ends with an error.
pub fn follow(
    recipe: &Recipe,
    start: &Network,
    data: &Dataset,
    family: &Family,
    progress: &dyn Progress,
) -> Result<Trained> {
    let family = &family.with_known(&data.schema().known_kinds())?;
    let first = follow_once(recipe, start, data, family, progress)?;
    if family.likelihood().dispersions().is_empty() || first.interrupted {
        return Ok(first);
    }
    let found = dispersions_at(&first, data, family, progress)?;
    let mut second = follow_once(recipe, start, data, &family.with_dispersions(&found)?, progress)?;
    second.recipe.dispersions = Some(found);
    Ok(second)
}

/// The parameters of the likelihood with the greatest evidence at a network: of the exact posterior, or of a diagonal one where
/// that would take longer than the training.
fn dispersions_at(trained: &Trained, data: &Dataset, family: &Family, progress: &dyn Progress) -> Result<Vec<f64>> {
    let values = |family: &Family| family.likelihood().dispersions().iter().map(|one| one.value).collect();
    let evaluations = DISPERSION_EVALUATIONS * family.likelihood().dispersions().len() as f64;
    let is_cheap = evaluations * step_work(trained.network.architecture(), data.len() as f64) < MOST_WORK;
    let structure = if is_cheap { Structure::Auto } else { Structure::Diagonal };
    let precisions = trained.recipe.prior_precision.clone().unwrap_or_else(|| typical_precisions(&trained.network));
    let options = FitOptions { prior_precision: PriorValues::from(precisions), structure, ..Default::default() };
    let mut laplace = Laplace::fit(trained.network.clone(), data.clone(), family.clone(), &options)?;
    let tuning = EvidenceOptions { prior: Free::Held, ..EvidenceOptions::for_posterior(&laplace) };
    laplace.optimize_watched(&tuning, progress)?;
    Ok(values(laplace.family()))
}

fn follow_once(
    recipe: &Recipe,
    start: &Network,
    data: &Dataset,
    family: &Family,
    progress: &dyn Progress,
) -> Result<Trained> {
    let outcome = match &recipe.procedure {
        Procedure::CrossValidated { folds, folds_used, ratios, cautious } => {
            let usual = PriorPathOptions::default();
            // A path that ends before its modes would stop the folds early, and not the network.
            let converged = ModeOptions { steps: 100, tolerance: 0.03, ..usual.on_the_way.clone() };
            let work = path_work(start.architecture(), data.len(), (*folds, *folds_used, ratios.len()));
            let looks_further = *cautious && work <= MOST_WORK_OF_NEW_WEIGHTS;
            let options = PriorPathOptions {
                nearly_linear: if looks_further { NearlyLinear::TryNewWeights } else { NearlyLinear::GoOn },
                folds: *folds,
                folds_used: Some(*folds_used),
                ratios: ratios.clone(),
                precisions: if *cautious { cautious_precisions() } else { usual.precisions },
                choice: if *cautious { PriorPathChoice::Simplest } else { PriorPathChoice::Best },
                on_the_way: if *cautious { converged } else { usual.on_the_way },
                seed: recipe.seed,
                ..Default::default()
            };
            Outcome::Path(Box::new(train_along_priors(start, data, family, &options, progress)?))
        }
        Procedure::EarlyStopping { .. } => return stop_early(recipe, start, data, family, progress),
        Procedure::Adam { .. } => {
            let options = adam_options(recipe).ok_or(InvalidTraining::NoEpochs)?;
            Outcome::Adam(train_or_stop(start, data, family, &options, progress)?)
        }
        Procedure::Evidence { burn_in, every, .. } => {
            let training = adam_options(recipe).ok_or(InvalidTraining::NoEpochs)?;
            let options = OnlineOptions { training, burn_in: *burn_in, every: *every, ..Default::default() };
            Outcome::Evidence(Box::new(train_online(start, data, family, &options, progress)?))
        }
    };
    Trained::of(recipe, outcome, data, family)
}

/// The settings of Adam in a recipe.
fn adam_options(recipe: &Recipe) -> Option<TrainingOptions> {
    let (epochs, learning_rate, weight_decay, decoupled, batch_size) = match &recipe.procedure {
        Procedure::Adam { epochs, learning_rate, weight_decay, decoupled, batch_size } => {
            (*epochs, *learning_rate, *weight_decay, *decoupled, *batch_size)
        }
        Procedure::Evidence { epochs, learning_rate, weight_decay, batch_size, .. } => {
            (*epochs, *learning_rate, *weight_decay, false, *batch_size)
        }
        Procedure::EarlyStopping { epochs, learning_rate, weight_decay, batch_size } => {
            (*epochs, *learning_rate, *weight_decay, false, Some(*batch_size))
        }
        Procedure::CrossValidated { .. } => return None,
    };
    let decay = if decoupled { Decay::Decoupled } else { Decay::L2 };
    Some(TrainingOptions { epochs, learning_rate, weight_decay, decay, batch_size, seed: recipe.seed })
}

/// Early stopping, and the deviances of its parts.
fn stop_early(
    recipe: &Recipe,
    start: &Network,
    data: &Dataset,
    family: &Family,
    progress: &dyn Progress,
) -> Result<Trained> {
    let (watched, learnt) = held_out_rows(data.len(), HELD_OUT_PARTS, recipe.seed);
    let (held_out, training) = (data.select(&watched)?, data.select(&learnt)?);
    let options = adam_options(recipe).ok_or(InvalidTraining::NoEpochs)?;
    let stopped = train_early_stopping(start, (&training, &held_out), family, &options, progress)?;
    let of = |part: &Dataset| -> Result<Deviances> {
        let outputs = stopped.network.outputs(part.inputs().view())?;
        Ok(Deviances::of(family, &outputs, part.targets(), training.targets()))
    };
    let (on_training, on_held_out) = (of(&training)?, of(&held_out)?);
    // σ of new rows: that of the held-out ones. The squared errors are the deviance.
    let outputs = stopped.network.architecture().n_outputs();
    let counts = family.weights(held_out.targets().view(), outputs).iter().sum::<f64>();
    let values = counts * outputs as f64;
    let sigma = family.sigma().map(|_| vec![(on_held_out.model / values).sqrt().max(f64::MIN_POSITIVE)]);
    let recipe = Recipe { sigma, prior_precision: Some(typical_precisions(&stopped.network)), ..recipe.clone() };
    Ok(Trained {
        network: stopped.network.clone(),
        interrupted: stopped.interrupted,
        outcome: Outcome::Stopped(stopped),
        training: on_training,
        held_out: Some(on_held_out),
        recipe,
    })
}

/// The prior of each layer under which its weights are typical: their number over their sum of squares.
fn typical_precisions(network: &Network) -> Vec<f64> {
    let mut rest = network.parameters();
    let of_layer = |group: Group| {
        let (own, others) = rest.split_at(group.size.min(rest.len()));
        rest = others;
        let squares: f64 = own.iter().map(|weight| weight * weight).sum();
        own.len().max(1) as f64 / squares.max(f64::MIN_POSITIVE)
    };
    network.groups().into_iter().map(of_layer).collect()
}

impl Trained {
    fn of(recipe: &Recipe, outcome: Outcome, data: &Dataset, family: &Family) -> Result<Self> {
        let (network, laplace, held_out, interrupted) = match &outcome {
            Outcome::Path(path) => (&path.mode.network, Some(&path.mode.laplace), Some(path.held_out), false),
            Outcome::Evidence(online) => (&online.network, Some(&online.laplace), None, false),
            Outcome::Adam(trained) => (&trained.network, None, None, trained.interrupted),
            Outcome::Stopped(stopped) => (&stopped.network, None, None, stopped.interrupted),
        };
        let network = network.clone();
        let recipe = with_hyperparameters(recipe, laplace);
        let folded = if let Outcome::Path(path) = &outcome { path.folded.clone() } else { None };
        let recipe = Recipe { folded, ..recipe };
        let outputs = network.outputs(data.inputs().view())?;
        let training = Deviances::of(family, &outputs, data.targets(), data.targets());
        Ok(Self { network, recipe, outcome, training, held_out, interrupted })
    }
}

/// The recipe with what was found.
fn with_hyperparameters(recipe: &Recipe, laplace: Option<&Laplace>) -> Recipe {
    let prior = laplace.map(|laplace| laplace.prior().values().to_vec());
    let sigma = laplace.and_then(|laplace| laplace.family().sigma().map(<[f64]>::to_vec));
    Recipe { prior_precision: prior, sigma, ..recipe.clone() }
}

/// A linear model (ridge, logistic or Poisson regression) of so many inputs and outputs, trained by the same rules.
pub fn linear_model(
    sizes: (usize, usize),
    data: &Dataset,
    family: &Family,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Trained> {
    let (architecture, procedure) = linear_plan(sizes, data.len())?;
    let recipe = Recipe { seed, procedure, prior_precision: None, sigma: None, dispersions: None, folded: None };
    follow(&recipe, &Network::random(architecture, seed), data, family, progress)
}

/// The seconds that [`linear_model`] takes, from above.
pub fn expected_linear_seconds(sizes: (usize, usize), rows: usize) -> f64 {
    match linear_plan(sizes, rows) {
        Ok((architecture, procedure)) => expected_seconds(&procedure, &architecture, rows),
        Err(_) => f64::INFINITY,
    }
}

fn linear_plan((n_inputs, n_outputs): (usize, usize), rows: usize) -> Result<(Architecture, Procedure)> {
    let architecture = Architecture::new(&[n_inputs, n_outputs], Activation::Identity)?;
    let procedure = match default_procedure(&architecture, rows) {
        Procedure::CrossValidated { folds, folds_used, .. } => {
            Procedure::CrossValidated { folds, folds_used, ratios: vec![1.0], cautious: true }
        }
        other => other,
    };
    Ok((architecture, procedure))
}
