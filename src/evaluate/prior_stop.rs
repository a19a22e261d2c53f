//! A prior on a path, and the networks that were trained under it without each fold: what held-out rows say of them.

use super::deviance::Deviances;
use super::prior_path::{Fold, PriorPathChoice, PriorPathStep, Walker};
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result};
use crate::evidence::Mode;
use crate::laplace::Laplace;
use crate::likelihood::Family;
use crate::map::Model;
use crate::network::Network;
use crate::predict::{LatentGaussian, Link, linearized};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// The factor by which modes of one kind differ in effective parameters: all data determine more than a part of them, and a nearly
/// linear network a few more than a linear one.
pub(super) const SAME_KIND: f64 = 1.5;
/// Effective parameters below which a strong prior has left nothing of a network but its mean.
pub(super) const COLLAPSED: f64 = 1.5;

/// A prior, the log densities of all data under it, fold by fold, and the folds' networks.
pub(super) struct Stop {
    pub step: PriorPathStep,
    pub densities: Vec<f64>,
    pub networks: Vec<NearMode>,
    /// The mean over folds of s²σ² with s² = mean rₙ²/(vₙ + σ²), for one Gaussian noise.
    pub noise: Option<f64>,
    /// The mean of the effective parameters over the folds.
    pub effective: f64,
    /// Of all held-out rows.
    pub deviances: Deviances,
}

impl Stop {
    /// From a prior precision, its ratio, and the folds' networks.
    pub fn new((prior_precision, ratio): (f64, f64), networks: Vec<NearMode>, choice: PriorPathChoice) -> Self {
        let mean_of = |of: &dyn Fn(&NearMode) -> f64| mean(&networks.iter().map(of).collect::<Vec<_>>());
        let has_noise = networks.iter().all(|near| near.misfits.is_some());
        let noise = has_noise.then(|| mean_of(&|near| near.misfits.as_ref().map_or(f64::NAN, Misfits::noise)));
        let of_widened = noise.filter(|_| choice == PriorPathChoice::Simplest);
        let densities: Vec<f64> = networks.iter().flat_map(|near| near.densities_with(of_widened)).collect();
        let step = PriorPathStep { prior_precision, ratio, held_out: mean(&densities) };
        let effective = mean_of(&|near| near.effective);
        let mut deviances = Deviances::default();
        networks.iter().for_each(|near| deviances += near.deviances);
        Self { step, densities, networks, noise, effective, deviances }
    }

    /// Whether a mode on all data is of the kind that held-out rows have judged: not of far more effective parameters.
    pub fn is_like(&self, mode: &Mode) -> bool {
        mode.laplace.effective_parameters() <= SAME_KIND * self.effective.max(COLLAPSED)
    }

    /// The network and noise of the greatest log posterior with all data.
    pub fn walker(&self, data: &Dataset) -> Result<Walker> {
        let mut best: Option<(f64, &NearMode)> = None;
        for near in &self.networks {
            let value = near.target(data)?.evaluator().log_posterior(near.network.parameters());
            if best.is_none_or(|(greatest, _)| value > greatest) {
                best = Some((value, near));
            }
        }
        let (_, near) = best.ok_or(InvalidTraining::Precisions)?;
        Ok(Walker::new(data, &near.network, &near.family))
    }
}

/// A network that was trained without its fold, near a mode of its posterior, and what the rows of the fold say of it.
pub(super) struct NearMode {
    pub network: Network,
    pub family: Family,
    pub prior: PriorPrecision,
    densities: Vec<f64>,
    deviances: Deviances,
    effective: f64,
    misfits: Option<Misfits>,
}

impl NearMode {
    /// Predicts the fold.
    pub fn of(mode: Mode, fold: &Fold) -> Result<Self> {
        let Mode { network, laplace, .. } = mode;
        let held_out = fold.held_out();
        let latent = linearized(&laplace, held_out.inputs())?;
        let training = fold.training().targets();
        Ok(Self {
            network,
            densities: log_densities(&laplace, &latent, held_out)?,
            deviances: Deviances::of(laplace.family(), &latent.mean, held_out.targets(), training),
            effective: laplace.effective_parameters(),
            misfits: Misfits::of(&laplace, &latent, held_out),
            family: laplace.family().clone(),
            prior: laplace.prior().clone(),
        })
    }

    /// The log densities of the fold with another σ², by which all variances are scaled.
    fn densities_with(&self, noise: Option<f64>) -> Vec<f64> {
        let (Some(misfits), Some(noise)) = (&self.misfits, noise) else { return self.densities.clone() };
        let factor = noise / misfits.square;
        let gain = |ratio: &f64| -0.5 * (ratio / factor - ratio + factor.ln());
        let targets = misfits.ratios.len() / self.densities.len().max(1);
        let rows = self.densities.iter().zip(misfits.ratios.chunks(targets.max(1))).zip(&misfits.weights);
        rows.map(|((density, ratios), weight)| density + weight * ratios.iter().map(gain).sum::<f64>()).collect()
    }

    /// The log posterior with all data, under the fold's prior and noise.
    fn target(&self, data: &Dataset) -> Result<Target> {
        let map = self.network.bind(data.inputs().view())?;
        Target::of_rows(map, &self.family, data.targets().view(), Prior::gaussian(self.prior.clone()))
    }
}

/// σ², and r²/(v + σ²) of the held-out targets, for one Gaussian noise.
struct Misfits {
    square: f64,
    ratios: Vec<f64>,
    /// How often each row counts, 1 on average.
    weights: Vec<f64>,
}

impl Misfits {
    fn of(laplace: &Laplace, latent: &LatentGaussian, held_out: &Dataset) -> Option<Self> {
        let [sigma] = laplace.family().sigma()? else { return None };
        let square = sigma * sigma;
        let of = |((row, output), target): ((usize, usize), &f64)| {
            (target - latent.mean[(row, output)]).powi(2) / (latent.covariance[(row, output, output)] + square)
        };
        let observed = laplace.family().observed(held_out.targets().view(), latent.mean.ncols());
        Some(Self { square, ratios: observed.indexed_iter().map(of).collect(), weights: weights(laplace, held_out) })
    }

    /// s²σ².
    fn noise(&self) -> f64 {
        let targets = self.ratios.len() / self.weights.len().max(1);
        let rows = self.ratios.chunks(targets.max(1)).zip(&self.weights);
        let sum: f64 = rows.map(|(ratios, weight)| weight * ratios.iter().sum::<f64>()).sum();
        sum / self.ratios.len() as f64 * self.square
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the mean of the differences is negative by more than so many of its standard errors.
pub(super) fn is_worse(densities: &[f64], best: &[f64], errors: f64) -> bool {
    let differences: Vec<f64> = densities.iter().zip(best).map(|(here, there)| here - there).collect();
    let centre = mean(&differences);
    let variance = differences.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / differences.len() as f64;
    centre < -errors * (variance / differences.len() as f64).sqrt()
}

/// log p(y | x) of held-out data by the linearised posterior, in the units of the data.
fn log_densities(laplace: &Laplace, latent: &LatentGaussian, held_out: &Dataset) -> Result<Vec<f64>> {
    let densities = latent.log_densities(laplace.family(), Link::default(), held_out.targets())?;
    let shift = laplace.schema().log_density_shift();
    match densities.iter().position(|value| value.is_nan()) {
        Some(row) => Err(Error::NotFinite { what: "the log density of a held-out point", row, column: 0 }),
        None => {
            let rows = densities.iter().zip(weights(laplace, held_out));
            Ok(rows.map(|(value, weight)| weight * (value + shift)).collect())
        }
    }
}

/// How often each row counts, 1 on average.
fn weights(laplace: &Laplace, data: &Dataset) -> Vec<f64> {
    let weights = laplace.family().weights(data.targets().view(), laplace.model().n_outputs());
    let centre = mean(&weights);
    weights.into_iter().map(|weight| if centre > 0.0 { weight / centre } else { 1.0 }).collect()
}
