//! One task: the data in the network's units, the fitted posterior, and the scores of a method on it.

use std::time::Instant;

use ndarray::{Array2, ArrayView2};
use riemannian_laplace::Dataset;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::Progress;
use riemannian_laplace::Result;
use riemannian_laplace::SamplerOptions;
use riemannian_laplace::Scores;
use riemannian_laplace::internals::evaluate::RegressionScores;
use riemannian_laplace::internals::predict::{self};
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{FitOptions, Laplace};
use riemannian_laplace::{Link, Prediction};
use serde::{Deserialize, Serialize};

use super::method::Method;
use crate::experiment::{Scaling, Split, data_folder};

/// The units that the network sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Units {
    /// As measured
    Raw,
    /// Mean 0 and deviation 1 on the training data
    Standardised,
}

impl Units {
    pub const BOTH: [Self; 2] = [Units::Raw, Units::Standardised];

    pub fn name(self) -> &'static str {
        match self {
            Units::Raw => "raw",
            Units::Standardised => "standardised",
        }
    }

    /// The paper's weight decay in training.
    pub fn weight_decay(self) -> f64 {
        match self {
            Units::Raw => 1e-5,
            Units::Standardised => 1e-4,
        }
    }
}

/// A task of the paper.
pub struct Task {
    pub split: Split,
    pub units: Units,
    pub scaling: Scaling,
    /// In the network's units, as are the test data.
    pub train: Dataset,
    pub test: Dataset,
    pub posterior: Laplace,
}

/// One repeat of one method.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// MSE and NLL on the test points in original units; nothing if every sample failed.
    pub scores: Option<(f64, f64)>,
    /// What geodesics cost and how accurate they are.
    pub geodesics: Option<Geodesics>,
}

/// The geodesics of one repeat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Geodesics {
    /// Evaluations of the acceleration per sample: T.
    pub evaluations: f64,
    /// The largest drift among samples that reached their end.
    pub drift: f64,
    /// Seconds per sample, with all threads at work.
    pub seconds: f64,
    pub samples: usize,
    /// Samples that did not reach their end.
    pub failed: usize,
    /// Samples that reached their end with more drift than a drift target allows.
    pub uncertified: usize,
}

impl Task {
    /// Starts from the network stored with the data, trained by the paper's recipe.
    pub fn load(split: Split, units: Units) -> Result<Self> {
        let file = if units == Units::Raw { "raw" } else { "std" };
        let path = data_folder().join(format!("snelson_map_{}_{file}.safetensors", split.name()));
        let network = Network::load(&path, Some(Activation::Tanh))?;
        Self::with(split, units, |data| tuned(network, data))
    }

    /// Starts from the posterior that `fit` returns for the training data, in the network's units.
    pub fn with(split: Split, units: Units, fit: impl FnOnce(&Dataset) -> Result<Laplace>) -> Result<Self> {
        let (train, test) = split.load()?;
        let scaling = if units == Units::Standardised { Scaling::of(&train) } else { Scaling::NONE };
        let (train, test) = (scaling.apply(&train)?, scaling.apply(&test)?);
        let posterior = fit(&train)?;
        Ok(Self { split, units, scaling, train, test, posterior })
    }

    /// `complete raw`
    pub fn name(&self) -> String {
        format!("{} {}", self.split.name(), self.units.name())
    }

    /// The deviation of the noise in original units.
    pub fn noise(&self) -> f64 {
        let sigma = self.posterior.family().sigma().unwrap_or_default();
        sigma.first().map_or(f64::NAN, |sigma| sigma * self.scaling.y.1)
    }

    /// One repeat of a method other than NUTS, and the weights that it sampled (no rows where it samples none).
    pub fn run(
        &self,
        method: Method,
        samples: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<(Run, Array2<f64>)> {
        let none = || Array2::zeros((0, self.posterior.parameters().len()));
        let without_samples = |method: predict::Method| {
            let scores = self.in_original_units(&self.posterior.predict(self.test.inputs(), &method)?)?;
            Ok((Run { scores, geodesics: None }, none()))
        };
        match method {
            Method::Map => without_samples(predict::Method::Map),
            Method::Linearized => without_samples(predict::Method::Glm(Link::Probit)),
            _ => {
                let (weights, geodesics) = self.draw(method, samples, seed, progress)?;
                Ok((Run { scores: self.score(weights.view())?, geodesics }, weights))
            }
        }
    }

    fn draw(
        &self,
        method: Method,
        samples: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<(Array2<f64>, Option<Geodesics>)> {
        let Some((metric, geodesic)) = method.geodesics() else {
            return Ok((self.posterior.sample(samples, seed)?, None));
        };
        let start = Instant::now();
        let options = SamplerOptions { range: 0..samples, seed, geodesic };
        let drawn = self.posterior.sample_riemannian(metric, &options, progress)?;
        let geodesics = Geodesics {
            evaluations: drawn.mean_evaluations(),
            drift: drawn.max_drift(),
            seconds: start.elapsed().as_secs_f64() / samples.max(1) as f64,
            samples,
            failed: drawn.failed(),
            uncertified: drawn.uncertified(),
        };
        Ok((drawn.reached(), Some(geodesics)))
    }

    /// MSE and NLL of sampled weights on the test points, in original units; none without samples.
    pub fn score(&self, weights: ArrayView2<'_, f64>) -> Result<Option<(f64, f64)>> {
        if weights.nrows() == 0 {
            return Ok(None);
        }
        self.in_original_units(&Prediction::of_weights(&self.posterior, weights, self.test.inputs())?)
    }

    /// MSE and NLL of a prediction at the test points: y = m + s·y′ multiplies the MSE by s² and adds log s to the NLL.
    fn in_original_units(&self, prediction: &Prediction) -> Result<Option<(f64, f64)>> {
        let deviation = self.scaling.y.1;
        Ok(match Scores::of(prediction, self.test.targets())? {
            Scores::Regression(RegressionScores { mse, nll, .. }) => {
                Some((mse * deviation.powi(2), nll + deviation.ln()))
            }
            _ => None,
        })
    }
}

/// Fits the posterior and tunes prior precision and noise.
pub fn tuned(network: Network, data: &Dataset) -> Result<Laplace> {
    let mut posterior = Laplace::fit(network, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
    posterior.optimize(&EvidenceOptions::default())?;
    Ok(posterior)
}
