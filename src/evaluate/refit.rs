//! K-fold cross-validation with training: each part of the data is predicted by a network that was trained without it.
//!
//! Leave-one-out at fixed weights keeps what the left-out point has taught the hidden units, so an overfitted network looks as
//! good as it does on its training data. Training again without the fold is the honest version. The training is the one that the
//! posterior's [recipe](crate::network::Recipe) states, from new initial weights; a posterior without a recipe goes from its
//! weights to a mode of the other folds, under its own prior and noise, which forgets less. Scaling is that of all data.

use ndarray::{Array2, Axis};
use rand::seq::SliceRandom;

use super::deviance::Deviances;
use super::prior_stop::mean;
use super::retrain::{expected_seconds, follow};
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result, Unsupported};
use crate::evidence::{ModeOptions, Noise, train_to_mode};
use crate::laplace::{FitOptions, Laplace, PriorValues};
use crate::likelihood::Family;
use crate::network::{Network, Procedure, Recipe};
use crate::predict::{Link, Prediction, Predictive, linearized};
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// The place of the folds' order among the shuffles.
const FOLDS: u64 = u64::MAX - 1;
/// Steps to a mode from the weights of a network without a recipe, for the time that is announced.
const STEPS: usize = 100;

/// The predictions of all data, each by a network that was trained without its fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Refit {
    /// The number of folds.
    pub folds: usize,
    /// Whether every network was trained by the recipe, from new weights.
    pub from_recipe: bool,
    /// log p(yₙ) without the fold of n, in the units of the data.
    pub pointwise: Vec<f64>,
    /// The probability of smaller values than the observed one; classes have none.
    pub ranks: Option<Array2<f64>>,
    /// The deviances of all data, each point by the network that was trained without its fold.
    pub deviances: Deviances,
}

impl Refit {
    /// Σₙ log p(yₙ | data without n's fold), in nats.
    pub fn elpd(&self) -> f64 {
        self.pointwise.iter().sum()
    }

    /// Its standard error as an estimate for other data.
    pub fn standard_error(&self) -> f64 {
        let centre = mean(&self.pointwise);
        self.pointwise.iter().map(|value| (value - centre).powi(2)).sum::<f64>().sqrt()
    }

    /// The share of targets inside the central interval of this probability.
    pub fn coverage(&self, level: f64) -> Option<f64> {
        let ranks = self.ranks.as_ref()?;
        let inside = ranks.iter().filter(|rank| (**rank - 0.5).abs() <= 0.5 * level).count();
        Some(inside as f64 / ranks.len().max(1) as f64)
    }
}

/// The seconds that [`refit`] takes, from above, by counted work.
pub fn expected_refit_seconds(laplace: &Laplace, folds: usize) -> Result<f64> {
    let network = whole_network(laplace)?;
    let rows = laplace.n_data() * (folds.max(2) - 1) / folds.max(2);
    let procedure = match laplace.recipe() {
        Some(recipe) => recipe.procedure.clone(),
        None => Procedure::CrossValidated { folds: STEPS, folds_used: 1, ratios: vec![1.0], cautious: false },
    };
    Ok(folds as f64 * expected_seconds(&procedure, network.architecture(), rows))
}

/// Trains again without each of the folds, and predicts it by the linearised posterior.
pub fn refit(laplace: &Laplace, folds: usize, seed: u64, progress: &dyn Progress) -> Result<Refit> {
    let data = laplace.data().ok_or(Error::NoTrainingData { what: "training again without a fold" })?;
    if folds < 2 || folds > data.len() {
        return Err(InvalidTraining::Folds { folds, rows: data.len() }.into());
    }
    let network = whole_network(laplace)?;
    let mut rows: Vec<usize> = (0..data.len()).collect();
    rows.shuffle(&mut stream(seed, Purpose::Shuffle, FOLDS));
    let mut pointwise = vec![0.0; data.len()];
    let mut ranks: Option<Array2<f64>> = None;
    let mut deviances = Deviances::default();
    for fold in 0..folds {
        progress.check()?;
        let part = |inside: bool| -> Vec<usize> {
            let places = rows.iter().enumerate().filter(|(place, _)| (place % folds == fold) == inside);
            places.map(|(_, row)| *row).collect()
        };
        let (held_out, training) = (part(true), part(false));
        let (test, training) = (data.select(&held_out)?, data.select(&training)?);
        let posterior = trained_without(laplace, &network, &training, progress)?;
        let outputs = posterior.outputs(test.inputs())?;
        deviances += Deviances::of(laplace.family(), &outputs, test.targets(), training.targets());
        let prediction = predict_glm(&posterior, &test)?;
        let targets = laplace.schema().restore_targets(test.targets().view())?;
        for (row, value) in held_out.iter().zip(prediction.log_densities(&targets)?) {
            pointwise[*row] = value;
        }
        if let Some(own) = prediction.ranks(&targets)? {
            let all = ranks.get_or_insert_with(|| Array2::zeros((data.len(), own.ncols())));
            for (row, values) in held_out.iter().zip(own.axis_iter(Axis(0))) {
                all.row_mut(*row).assign(&values);
            }
        }
        progress.advance();
    }
    Ok(Refit { folds, from_recipe: laplace.recipe().is_some(), pointwise, ranks, deviances })
}

/// The network of a posterior over all of its weights.
fn whole_network(laplace: &Laplace) -> Result<Network> {
    let model = laplace.model();
    match (model.subset(), model.record()) {
        (None, Some(record)) => Network::from_record(&record, model.parameters().to_vec()),
        _ => Err(Error::Unsupported(Unsupported::RefitOfPart)),
    }
}

/// The posterior of a network that was trained on these data, by the rules of another posterior.
fn trained_without(
    laplace: &Laplace,
    network: &Network,
    training: &Dataset,
    progress: &dyn Progress,
) -> Result<Laplace> {
    let own = (PriorValues::of(laplace.prior()), laplace.family().clone());
    let (network, prior_precision, family) = match laplace.recipe() {
        Some(recipe) => {
            let start = Network::random(network.architecture().clone(), recipe.seed);
            let trained = follow(recipe, &start, training, laplace.family(), progress)?;
            if trained.interrupted {
                return Err(Error::Cancelled);
            }
            let (prior, family) = match is_of_training(laplace, recipe) {
                true => found(&trained.recipe, own)?,
                false => own,
            };
            (trained.network, prior, family)
        }
        None => {
            let (prior_precision, family) = own;
            let options =
                ModeOptions { prior_precision: prior_precision.clone(), noise: Noise::Fixed, ..Default::default() };
            let mode = train_to_mode(network, training, &family, &options, progress)?;
            (mode.network, prior_precision, family)
        }
    };
    let options = FitOptions {
        prior_precision,
        temperature: laplace.temperature(),
        curvature: laplace.curvature_kind(),
        ..Default::default()
    };
    Laplace::fit(network, training.clone(), family, &options)
}

/// Whether a posterior has the prior and the noise that its network was trained with, and not others.
fn is_of_training(laplace: &Laplace, recipe: &Recipe) -> bool {
    let prior = recipe.prior_precision.as_deref().is_some_and(|values| values == laplace.prior().values());
    prior && recipe.sigma.as_deref() == laplace.family().sigma()
}

/// The prior and the noise that training found, where it found some.
fn found(recipe: &Recipe, (prior, family): (PriorValues, Family)) -> Result<(PriorValues, Family)> {
    let family = match &recipe.sigma {
        Some(sigma) => family.with_sigma(sigma)?,
        None => family,
    };
    Ok((recipe.prior_precision.clone().map_or(prior, PriorValues::from), family))
}

fn predict_glm(laplace: &Laplace, data: &Dataset) -> Result<Prediction> {
    let latent = linearized(laplace, data.inputs())?;
    let predictive = Predictive::Linearized { latent, link: Link::default() };
    Prediction::new(laplace.family().clone(), predictive, None, laplace.schema())
}
