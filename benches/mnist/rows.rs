//! The rows of the table: a posterior and its structure, tuned by evidence, and its scores.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::evaluate::{
    OodScores, TemperOptions, Uncertainties, auroc, expected_calibration_error,
};
use riemannian_laplace::internals::geodesic::{MetricBatch, MetricOptions};
use riemannian_laplace::internals::predict::{LatentGaussian, MonteCarlo, Prediction};
use riemannian_laplace::prelude::*;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::{Outcome, used};

/// Riemannian samples of the last layer.
const GEODESICS: usize = 16;
/// The images that the metric of their geodesics is made from (the velocities are those of all images).
const METRIC_IMAGES: usize = 5_500;
/// Draws from which the variances without a matrix are estimated.
const MATRIX_FREE_DRAWS: usize = 32;
/// Draws of a Monte Carlo link at each image.
const DRAWS: usize = 512;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    Map,
    LastLayerFull,
    LastLayerKronecker,
    Diagonal,
    Kronecker,
    /// Its prior precision tuned on images that were held out.
    KroneckerValidated,
    /// Its temperature tuned on images that were held out, and its prior precision by evidence.
    KroneckerTempered,
    LastLayerGeodesics,
    /// With the prior precision of the Kronecker row.
    MatrixFree,
}

impl Row {
    pub const ALL: [Self; 9] = [
        Self::Map,
        Self::LastLayerFull,
        Self::LastLayerKronecker,
        Self::Diagonal,
        Self::Kronecker,
        Self::KroneckerValidated,
        Self::KroneckerTempered,
        Self::LastLayerGeodesics,
        Self::MatrixFree,
    ];

    /// Its name on the command line, and that of its file.
    pub fn key(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::LastLayerFull => "last-layer-full",
            Self::LastLayerKronecker => "last-layer-kronecker",
            Self::Diagonal => "diagonal",
            Self::Kronecker => "kronecker",
            Self::KroneckerValidated => "kronecker-validated",
            Self::KroneckerTempered => "kronecker-tempered",
            Self::LastLayerGeodesics => "last-layer-geodesics",
            Self::MatrixFree => "matrix-free",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "MAP",
            Self::LastLayerFull => "last layer, full",
            Self::LastLayerKronecker => "last layer, Kronecker",
            Self::Diagonal => "all weights, diagonal",
            Self::Kronecker => "all weights, Kronecker",
            Self::KroneckerValidated => "all weights, Kronecker, prior tuned on held-out images",
            Self::KroneckerTempered => "all weights, Kronecker, temperature tuned on held-out images",
            Self::LastLayerGeodesics => "last layer, RLA-F",
            Self::MatrixFree => "all weights, matrix-free",
        }
    }

    /// NLL, accuracy, ECE and AUROC of Ortega et al. (VaLLA), where they have such a row.
    pub fn published(self) -> Option<[f64; 4]> {
        match self {
            Self::Map => Some([0.0759, 0.9759, 0.0078, 0.905]),
            Self::LastLayerFull => Some([0.0814, 0.9759, 0.0152, 0.909]),
            Self::LastLayerKronecker => Some([0.0811, 0.9758, 0.0147, 0.909]),
            Self::Diagonal => Some([0.1430, 0.9736, 0.0716, 0.922]),
            Self::Kronecker => Some([0.0945, 0.9750, 0.0286, 0.949]),
            Self::KroneckerValidated | Self::KroneckerTempered | Self::LastLayerGeodesics | Self::MatrixFree => None,
        }
    }

    fn posterior(self) -> (Weights, Structure) {
        match self {
            Self::Map | Self::Diagonal => (Weights::All, Structure::Diagonal),
            Self::LastLayerFull | Self::LastLayerGeodesics => (Weights::LastLayer, Structure::WeightSpace),
            Self::LastLayerKronecker => (Weights::LastLayer, Structure::Kronecker),
            Self::Kronecker | Self::KroneckerValidated | Self::KroneckerTempered => {
                (Weights::All, Structure::Kronecker)
            }
            Self::MatrixFree => (Weights::All, Structure::MatrixFree(MATRIX_FREE_DRAWS)),
        }
    }

    /// Fits, tunes and, unless only the fit is wanted, predicts and scores. `known` is the prior precision of a row that is
    /// not tuned.
    pub fn compute(self, problem: &Problem, network: Network, known: Option<f64>, wanted: Wanted) -> Outcome<Cell> {
        let train = problem.train.clone();
        let (began, cpu) = (Instant::now(), used()?.1);
        let (weights, structure) = self.posterior();
        let model = weights.restrict(&(Arc::new(network) as Arc<dyn Model>))?;
        let options = FitOptions { structure, prior_precision: known.unwrap_or(1.0).into(), ..Default::default() };
        let mut laplace = Laplace::fit_shared(model, train, Problem::family(), &options)?;
        let fit = began.elapsed().as_secs_f64();
        match self {
            Self::Map => {}
            _ if known.is_some() => {}
            Self::KroneckerValidated => {
                let options = ValidationOptions {
                    link: Link::Probit,
                    grid: (10.0, 1e4),
                    grid_points: 7,
                    tolerance: 0.1,
                    ..Default::default()
                };
                laplace.optimize_on(&problem.held_out, &options, &())?;
            }
            _ => drop(laplace.optimize(&EvidenceOptions::default())?),
        }
        if self == Self::KroneckerTempered {
            laplace.temper_on(&problem.held_out, &TemperOptions::default(), &())?;
        }
        let tune = began.elapsed().as_secs_f64() - fit;
        let mut cell = Cell {
            parameters: laplace.parameters().len(),
            prior_precision: laplace.prior().values()[0],
            temperature: Some(laplace.temperature()),
            evidence: laplace.log_marginal_likelihood(),
            scores: Vec::new(),
            fit,
            tune,
            fit_cpu: Some(used()?.1 - cpu),
            sample: None,
            uncertified: None,
            peak_megabytes: 0.0,
            cpu_seconds: 0.0,
        };
        if wanted == Wanted::All {
            self.score(problem, &laplace, &mut cell)?;
        }
        Ok(cell)
    }

    /// Predicts 20,000 images and scores the predictions.
    fn score(self, problem: &Problem, laplace: &Laplace, cell: &mut Cell) -> Outcome {
        let method = match self {
            Self::Map => Method::Map,
            Self::LastLayerGeodesics => {
                let began = Instant::now();
                let batch = MetricBatch { size: METRIC_IMAGES.min(laplace.n_data()), redraw: false };
                let how = MetricOptions { batch: Some(batch), ..Default::default() };
                let sampler = SamplerOptions::first(GEODESICS);
                let samples = laplace.sample_riemannian_with(MetricName::Fisher, &how, &sampler, &())?;
                cell.sample = Some(began.elapsed().as_secs_f64());
                cell.uncertified = Some(samples.failed() + samples.uncertified());
                Method::Samples(Arc::new(samples))
            }
            _ => {
                let drawn = Link::MonteCarlo(MonteCarlo { samples: DRAWS, seed: 0 });
                let began = Instant::now();
                let predict = |inputs: &Array2<f64>| laplace.predict(inputs, &Method::Glm(drawn));
                let (inside, outside) = (predict(problem.test.inputs())?, predict(&problem.foreign)?);
                let seconds = began.elapsed().as_secs_f64();
                cell.scores.extend(linearized_scores(laplace, (&inside, &outside), problem, drawn, seconds)?);
                return Ok(());
            }
        };
        let began = Instant::now();
        let (inside, outside) =
            (laplace.predict(problem.test.inputs(), &method)?, laplace.predict(&problem.foreign, &method)?);
        let seconds = began.elapsed().as_secs_f64();
        let name = if self == Self::Map { "–".to_string() } else { format!("{GEODESICS} samples") };
        let apart = Uncertainties::of(&inside)?.tell_from(&Uncertainties::of(&outside)?)?;
        cell.scores.push(Score::of(&name, (&inside.mean, &outside.mean), apart, problem, seconds)?);
        Ok(())
    }
}

/// What is computed of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    Fit,
}

/// The scores of a linearised prediction under every link. What it knows of its ignorance (mutual information, from the
/// draws of one, and the variance of the logits) is the same for all.
pub fn linearized_scores(
    laplace: &Laplace,
    (inside, outside): (&Prediction, &Prediction),
    problem: &Problem,
    drawn: Link,
    seconds: f64,
) -> Outcome<Vec<Score>> {
    let apart = Uncertainties::of(inside)?.tell_from(&Uncertainties::of(outside)?)?;
    let latents = inside.latent()?.zip(outside.latent()?).ok_or("no logits")?;
    let of = |link: Link| {
        let classes = |latent: &LatentGaussian| latent.moments(laplace.family(), link).map(|found| found.mean);
        let means = (classes(&latents.0)?, classes(&latents.1)?);
        Score::of(link.name(), (&means.0, &means.1), apart, problem, seconds)
    };
    [Link::Centred, Link::CentredProbit, Link::Probit, drawn].into_iter().map(of).collect()
}

/// The scores of one way to predict.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Score {
    pub link: String,
    pub nll: f64,
    pub accuracy: f64,
    pub ece: f64,
    /// Clothes against digits, by the entropy of the predicted classes.
    pub auroc: f64,
    /// By the mutual information between class and weights, and by the variance of the logits.
    #[serde(default)]
    pub auroc_epistemic: Option<f64>,
    #[serde(default)]
    pub auroc_logits: Option<f64>,
    /// Of predicting 20,000 images (by the link with draws, where there are several).
    pub seconds: f64,
}

impl Score {
    /// Of class probabilities at the test images and at foreign ones.
    fn of(
        link: &str,
        (inside, outside): (&Array2<f64>, &Array2<f64>),
        apart: OodScores,
        problem: &Problem,
        seconds: f64,
    ) -> Outcome<Self> {
        let (mut nll, mut confidences, mut correct) = (0.0, Vec::new(), Vec::new());
        for (row, label) in inside.rows().into_iter().zip(problem.test.targets()) {
            let best = (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best });
            nll -= row[*label as usize].ln();
            confidences.push(row[best]);
            correct.push(best == *label as usize);
        }
        let entropy = |p: &f64| if *p > 0.0 { -p * p.ln() } else { 0.0 };
        let entropies =
            |rows: &Array2<f64>| rows.map_axis(Axis(1), |row| row.iter().map(entropy).sum::<f64>()).to_vec();
        let count = correct.len() as f64;
        Ok(Self {
            link: link.to_string(),
            nll: nll / count,
            accuracy: correct.iter().filter(|correct| **correct).count() as f64 / count,
            ece: expected_calibration_error(&confidences, &correct, 15),
            auroc: auroc(&entropies(inside), &entropies(outside))?,
            auroc_epistemic: apart.ood_auroc_epistemic,
            auroc_logits: apart.ood_auroc_logits,
            seconds,
        })
    }
}

/// A finished row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    pub parameters: usize,
    pub prior_precision: f64,
    #[serde(default)]
    pub temperature: Option<f64>,
    pub evidence: f64,
    pub scores: Vec<Score>,
    /// Seconds of the fit, of tuning, and of drawing samples.
    pub fit: f64,
    pub tune: f64,
    pub sample: Option<f64>,
    /// Processor seconds of the fit and of tuning.
    #[serde(default)]
    pub fit_cpu: Option<f64>,
    pub uncertified: Option<usize>,
    /// Of the process that computed the row, the data included.
    pub peak_megabytes: f64,
    pub cpu_seconds: f64,
}

impl Cell {
    /// One that was finished before.
    pub fn read(path: &Path) -> Outcome<Option<Self>> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
            Err(_) => Ok(None),
        }
    }

    /// Keeps it, whole or not at all.
    pub fn write(&self, path: &Path) -> Outcome {
        let unfinished = path.with_extension("tmp");
        std::fs::write(&unfinished, serde_json::to_string_pretty(self)?)?;
        Ok(std::fs::rename(unfinished, path)?)
    }
}
