//! What the drift cannot see: whether samples still fit the data, beside the linearised draws with the same velocities.
//!
//! The measure is the root mean deviance √(2/M Σₙ (max_f log p(yₙ | f) − log p(yₙ | fₙ))) over data and samples: for a
//! Gaussian exactly the root mean square of the residuals in units of σ, for classes √(2·mean negative log likelihood).

use rayon::prelude::*;

use super::samples::{Outcome, Samples};
use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::likelihood::{PointEvaluator, likelihood_of};
use crate::map::{Evaluator, Jet};
use crate::random::{Purpose, stream};

/// The residuals at the training data: of the samples, and of the linearised model with the same velocities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residuals {
    /// The root mean deviance of the samples that reached their end, by the model itself.
    pub sampled: f64,
    /// The same of f̂ + Jv.
    pub linearized: f64,
    /// The number of samples.
    pub samples: usize,
}

/// Samples whose residual exceeds the linearised one by more than this factor have left the data: the width of the
/// smoothing is too large, or the metric was not smoothed.
pub const RESIDUAL_LIMIT: f64 = 1.1;

impl Residuals {
    /// The samples' residual relative to the linearised one.
    pub fn ratio(&self) -> f64 {
        self.sampled / self.linearized
    }

    /// Whether the samples have left the data.
    pub fn exceed_linearized(&self) -> bool {
        self.ratio().is_nan() || self.ratio() > RESIDUAL_LIMIT
    }

    /// Those of the samples of two parts together.
    pub(super) fn merge(&mut self, other: &Residuals) {
        let total = (self.samples + other.samples) as f64;
        let mean = |a: f64, b: f64| ((a * a * self.samples as f64 + b * b * other.samples as f64) / total).sqrt();
        self.sampled = mean(self.sampled, other.sampled);
        self.linearized = mean(self.linearized, other.linearized);
        self.samples += other.samples;
    }

    /// Of samples drawn with a seed; `None` where none reached its end, or where the likelihood has no largest density
    /// to compare with.
    pub(super) fn of(laplace: &Laplace, samples: &Samples) -> Result<Option<Self>> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "residuals of samples" })?;
        let Some(seed) = samples.seed else { return Ok(None) };
        let family = laplace.family();
        let (likelihood, observed) = family.of_rows(data.targets().view(), laplace.model().n_outputs());
        let largest = observed
            .rows()
            .into_iter()
            .enumerate()
            .map(|(n, target)| likelihood_of(&*likelihood, n).largest_log_density(&target.to_vec()));
        let Some(largest) = largest.sum::<Option<f64>>() else { return Ok(None) };
        let map = laplace.model().bind(data.inputs().view())?;
        let observations: Vec<f64> = observed.iter().copied().collect();
        let weights: f64 = family.weights(data.targets().view(), laplace.model().n_outputs()).iter().sum();
        let (base, n, p) = (laplace.parameters(), map.n_points(), map.n_outputs());
        let reached: Vec<usize> = (0..samples.len()).filter(|&row| samples.outcome[row] == Outcome::Reached).collect();
        let deviances: Vec<(f64, f64)> = reached
            .par_iter()
            .map_init(
                || (Evaluator::new(&map, 1), PointEvaluator::new(n, p), Jet::new(n, p)),
                |(evaluator, points, jet), &row| {
                    let mut deviance =
                        |outputs: &[f64]| 2.0 * (largest - points.log_density(&*likelihood, &observations, outputs));
                    evaluator.outputs(&samples.theta.row(row).to_vec(), &mut jet.outputs);
                    let sampled = deviance(&jet.outputs);
                    let mut velocity = vec![0.0; base.len()];
                    let index = (samples.range.start + row) as u64;
                    laplace.precision().sample(&mut stream(seed, Purpose::Velocity, index), &mut velocity);
                    evaluator.jet(base, &velocity, jet);
                    jet.outputs.iter_mut().zip(&jet.first).for_each(|(output, first)| *output += first);
                    (sampled, deviance(&jet.outputs))
                },
            )
            .collect();
        if deviances.is_empty() {
            return Ok(None);
        }
        let count = deviances.len() as f64 * weights * observed.ncols() as f64;
        let root_mean = |sum: f64| (sum / count).sqrt();
        Ok(Some(Self {
            sampled: root_mean(deviances.iter().map(|deviance| deviance.0).sum()),
            linearized: root_mean(deviances.iter().map(|deviance| deviance.1).sum()),
            samples: deviances.len(),
        }))
    }
}
