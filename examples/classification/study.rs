//! One network per split, scored by every method on the rows it has not seen.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use riemannian_laplace::internals::evaluate::ClassScores;
use riemannian_laplace::internals::likelihood::{Bernoulli, Categorical};
use riemannian_laplace::internals::predict::MonteCarlo;
use riemannian_laplace::prelude::*;
use riemannian_laplace::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::datasets::{Classes, Split};

/// The share of the rows that a network is trained on.
const TRAINED: f64 = 0.75;
/// Draws of a Monte Carlo link at each point.
const DRAWS: usize = 2000;

/// A way to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// The network alone.
    Map,
    /// Linearised, all weights, the default link, which is the centred one: what `Method::default()` does.
    Default,
    /// Linearised, all weights, probit link.
    Probit,
    /// Linearised, all weights, Monte Carlo link.
    MonteCarlo,
    /// Linearised, all weights, Laplace bridge.
    Bridge,
    /// Linearised, the last layer alone, the default link.
    LastLayer,
    /// Linearised, Kronecker factors, the default link.
    Kronecker,
    /// Geodesics of the Fisher metric, all weights.
    RlaF,
}

impl Way {
    pub const ALL: [Self; 8] = [
        Self::Map,
        Self::Default,
        Self::Probit,
        Self::MonteCarlo,
        Self::Bridge,
        Self::LastLayer,
        Self::Kronecker,
        Self::RlaF,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "MAP",
            Self::Default => "linearised, centred (default)",
            Self::Probit => "linearised, probit",
            Self::MonteCarlo => "linearised, Monte Carlo",
            Self::Bridge => "linearised, bridge",
            Self::LastLayer => "last layer",
            Self::Kronecker => "Kronecker",
            Self::RlaF => "RLA-F",
        }
    }

    /// The name of its cells.
    pub fn key(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map_or(String::new(), |value| value.get_name().to_string())
    }

    /// The structure of the posterior, and which weights it is over.
    fn posterior(self) -> (Structure, Weights) {
        match self {
            Self::LastLayer => (Structure::Auto, Weights::LastLayer),
            Self::Kronecker => (Structure::Kronecker, Weights::All),
            _ => (Structure::Auto, Weights::All),
        }
    }

    fn method(self, set: Classes) -> Method {
        match self {
            Self::Map => Method::Map,
            Self::Default | Self::LastLayer | Self::Kronecker => Method::default(),
            Self::Probit => Method::Glm(Link::Probit),
            Self::MonteCarlo => Method::Glm(Link::MonteCarlo(MonteCarlo { samples: DRAWS, seed: 0 })),
            Self::Bridge => Method::Glm(Link::Bridge),
            Self::RlaF => Method::riemannian(if set == Classes::Digits { 30 } else { 100 }, 0),
        }
    }
}

/// What a way to predict scored on one split.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    pub nll: f64,
    pub ece: f64,
    pub accuracy: f64,
    /// Samples that failed or are uncertified.
    pub uncertified: usize,
    /// Fitting, tuning and predicting.
    pub seconds: f64,
}

/// A split and the network trained on it.
pub struct Trained {
    set: Classes,
    split: Split,
    network: Network,
    /// The exact posterior, tuned, and how long that took; several ways share it.
    exact: OnceCell<(Laplace, f64)>,
}

fn family(set: Classes) -> Family {
    if set.count() == 2 { Family::new(Bernoulli) } else { Family::new(Categorical) }
}

/// A network with tanh units; two classes have one output.
fn architecture(set: Classes) -> Result<Architecture> {
    let sizes: &[usize] = match set {
        Classes::TwoMoons => &[2, 16, 16, 1],
        Classes::Wine => &[13, 16, 3],
        Classes::BreastCancer => &[30, 16, 1],
        Classes::Digits => &[64, 32, 10],
    };
    Architecture::new(sizes, Activation::Tanh)
}

impl Trained {
    /// Trains in candle, from another start for each split. With a `file`, a network that is there is used instead, and
    /// a trained one is kept there.
    pub fn new(set: Classes, index: u64, epochs: usize, file: Option<&Path>) -> Result<Self> {
        let split = Split::random(&set.load()?, TRAINED, index)?;
        let network = match file.filter(|file| file.exists()) {
            Some(file) => Network::load(file, None)?,
            None => {
                let start = Network::random(architecture(set)?, index);
                let options = TrainingOptions { epochs, weight_decay: 1e-3, ..Default::default() };
                train(&start, &split.train, &family(set), &options, &())?.network
            }
        };
        if let Some(file) = file {
            network.save(file)?;
        }
        Ok(Self { set, split, network, exact: OnceCell::new() })
    }

    /// The posterior with its prior precision tuned on the evidence, and how long that took.
    fn fitted(&self, structure: Structure, weights: &Weights) -> Result<(Laplace, f64)> {
        let exact = structure == Structure::Auto && *weights == Weights::All;
        if let (true, Some(fitted)) = (exact, self.exact.get()) {
            return Ok(fitted.clone());
        }
        let begin = Instant::now();
        let network: Arc<dyn Model> = Arc::new(self.network.clone());
        let options = FitOptions { structure, ..Default::default() };
        let data = self.split.train.clone();
        let mut laplace = Laplace::fit_shared(weights.restrict(&network)?, data, family(self.set), &options)?;
        laplace.optimize(&EvidenceOptions::default())?;
        let fitted = (laplace, begin.elapsed().as_secs_f64());
        Ok(if exact { self.exact.get_or_init(|| fitted).clone() } else { fitted })
    }

    /// Fits, tunes, predicts and scores.
    pub fn score(&self, way: Way) -> Result<Cell> {
        let (structure, weights) = way.posterior();
        let (laplace, fitting) = self.fitted(structure, &weights)?;
        let begin = Instant::now();
        let prediction = laplace.predict(self.split.test.inputs(), &way.method(self.set))?;
        let seconds = fitting + begin.elapsed().as_secs_f64();
        let uncertified = prediction.samples.as_ref().map_or(0, |report| report.failed + report.uncertified);
        match Scores::of(&prediction, self.split.test.targets())? {
            Scores::Classes(ClassScores { nll, ece, accuracy, .. }) => {
                Ok(Cell { nll, ece, accuracy, uncertified, seconds })
            }
            _ => Err(Error::NoRows { what: "the classes".to_string() }),
        }
    }
}

/// The mean of the differences, and its standard error.
pub fn paired(first: &[f64], second: &[f64]) -> (f64, f64) {
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}
