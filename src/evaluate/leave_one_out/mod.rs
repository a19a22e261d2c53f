//! Leave-one-out of the posterior at its weights: how well each training point is predicted by the others, without training
//! again. What the left-out point has taught the hidden units stays, so the score of an overfitted network is too good.
//!
//! elpd = Σₙ log p(yₙ | y₋ₙ) estimates what the log likelihood of as many new points would be. From samples θ_s of a
//! posterior it is Σₙ log Σ_s w_sn p(yₙ | θ_s) with Pareto smoothed weights w_sn ∝ 1/p(yₙ | θ_s); for the trained model
//! alone and the linearised posterior there are [closed forms](ClosedForms).
//!
//! What is scored is the approximation's own prediction, with its hyperparameters and its mode: not that of the exact
//! posterior. And it cannot see extrapolation: a left-out point is as near to the others as the data are.

mod advice;
mod cavity;
mod promise;
mod psis;

pub use cavity::ClosedForms;
pub use promise::Promise;
pub use psis::{SmoothedWeights, smooth_weights};

use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result, Unsupported, check_size};
use crate::geodesic::Samples;
use crate::laplace::Laplace;
use crate::predict::{
    Draws, Geodesics, Link, Method, MonteCarlo, SampledPredictive, SamplingReport, draw_weights, linearized,
    log_sum_exp,
};
use crate::progress::Progress;

/// k̂ beyond which the estimate at a point is unreliable.
pub const K_LIMIT: f64 = 0.7;

/// The share of points beyond [`K_LIMIT`] from which on a score by importance sampling is not compared with others.
pub const INCOMPARABLE_SHARE: f64 = 0.1;

/// How leave-one-out was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
    /// From the linearised posterior, without samples.
    ClosedForm,
    /// By Pareto smoothed importance sampling.
    Psis {
        /// The number of samples.
        samples: usize,
    },
}

impl Estimator {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Estimator::ClosedForm => "closed form",
            Estimator::Psis { .. } => "psis",
        }
    }
}

/// Leave-one-out of one method, point by point.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaveOneOut {
    /// The method: `map`, `glm`, `nn` or `riemannian`.
    pub method: String,
    /// How it was computed.
    pub estimator: Estimator,
    /// log p(yₙ | y₋ₙ), in the units of the data.
    pub pointwise: Vec<f64>,
    /// log p(yₙ | y), by the posterior of all data.
    pub with_all_data: Vec<f64>,
    /// The Pareto k̂ of each point's weights; in a closed form its leverage, which is the k̂ of infinitely many samples where
    /// the noise is Gaussian.
    pub k: Vec<f64>,
    /// The probability of smaller values than the observed one, for each target without its point: uniform where the
    /// predictions are calibrated. Classes have none.
    pub ranks: Option<Array2<f64>>,
}

/// A difference of two leave-one-out scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// elpd of the first less that of the second.
    pub difference: f64,
    /// Its standard error, from the differences point by point.
    pub standard_error: f64,
}

impl Comparison {
    /// Whether the difference exceeds twice its standard error.
    pub fn is_clear(&self) -> bool {
        self.difference.abs() > 2.0 * self.standard_error
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.2} ± {:.2} nats", self.difference, self.standard_error)
    }
}

impl LeaveOneOut {
    /// Σₙ log p(yₙ | y₋ₙ), in nats.
    pub fn elpd(&self) -> f64 {
        self.pointwise.iter().sum()
    }

    /// √(N Var log p(yₙ | y₋ₙ)), the standard error of [`elpd`](Self::elpd) as an estimate for other data.
    pub fn standard_error(&self) -> f64 {
        error_of_sum(self.pointwise.iter().copied())
    }

    /// Σₙ log p(yₙ | y) − elpd: the effective number of parameters.
    pub fn p_loo(&self) -> f64 {
        self.with_all_data.iter().sum::<f64>() - self.elpd()
    }

    /// The largest k̂.
    pub fn k_max(&self) -> f64 {
        self.k.iter().copied().fold(f64::NEG_INFINITY, |most, k| if k.is_nan() { k } else { most.max(k) })
    }

    /// The number of points whose k̂ exceeds 0.7 (or is not a number).
    pub fn unreliable(&self) -> usize {
        self.k.iter().filter(|k| k.is_nan() || **k > K_LIMIT).count()
    }

    /// Whether the score may be compared with others: a closed form may; one by importance sampling where k̂ exceeds 0.7 at
    /// no more than a tenth of the points. Where the samples are too few for the effective parameters, none of them looks
    /// like the posterior without the point, and the score is that of a prediction which has seen it: too good.
    pub fn is_comparable(&self) -> bool {
        match self.estimator {
            Estimator::ClosedForm => true,
            Estimator::Psis { .. } => self.unreliable() as f64 <= INCOMPARABLE_SHARE * self.k.len() as f64,
        }
    }

    /// The one of the greatest elpd, among those that may be compared.
    pub fn best<'a>(scores: impl IntoIterator<Item = &'a LeaveOneOut>) -> Option<&'a LeaveOneOut> {
        let comparable = scores.into_iter().filter(|loo| loo.is_comparable() && loo.elpd().is_finite());
        comparable.fold(None, |best: Option<&LeaveOneOut>, loo| match best {
            Some(best) if best.elpd() >= loo.elpd() => Some(best),
            _ => Some(loo),
        })
    }

    /// The share of targets inside the central interval of this probability, each without its point. Classes have none.
    pub fn coverage(&self, level: f64) -> Option<f64> {
        let ranks = self.ranks.as_ref()?;
        let inside = ranks.iter().filter(|rank| (**rank - 0.5).abs() <= 0.5 * level).count();
        Some(inside as f64 / ranks.len().max(1) as f64)
    }

    /// The elpd of this method less that of another on the same data.
    pub fn minus(&self, other: &LeaveOneOut) -> Result<Comparison> {
        check_size("number of left-out points", self.pointwise.len(), other.pointwise.len())?;
        let differences = self.pointwise.iter().zip(&other.pointwise).map(|(one, other)| one - other);
        Ok(Comparison { difference: differences.clone().sum(), standard_error: error_of_sum(differences) })
    }

    /// Leave-one-out from log p(yₙ | θ_s): samples × points.
    ///
    /// ```
    /// use ndarray::Array2;
    /// use riemannian_laplace::internals::evaluate::LeaveOneOut;
    /// // 200 samples of the mean of one observation at 0: log p = −θ²/2, θ at normal quantiles.
    /// let log_likelihoods = Array2::from_shape_fn((200, 1), |(s, _)| -0.5 * (0.01 * s as f64 - 1.0).powi(2));
    /// let loo = LeaveOneOut::of_log_likelihoods(log_likelihoods.view())?;
    /// assert!(loo.elpd() < log_likelihoods.mean().unwrap());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn of_log_likelihoods(log_likelihoods: ArrayView2<'_, f64>) -> Result<Self> {
        Ok(Self::weighted(log_likelihoods, 1.0, &vec![1.0; log_likelihoods.ncols()])?.0)
    }

    /// The same with likelihoods to the power 1/T in the posterior and with points that count several times, and the weights of
    /// the samples: samples × points.
    fn weighted(log_likelihoods: ArrayView2<'_, f64>, temperature: f64, counts: &[f64]) -> Result<(Self, Array2<f64>)> {
        let (samples, points) = log_likelihoods.dim();
        if samples == 0 {
            return Err(Error::NoRows { what: "the samples".to_string() });
        }
        if let Some(((row, column), _)) = log_likelihoods.indexed_iter().find(|(_, value)| value.is_nan()) {
            return Err(Error::NotFinite { what: "the log likelihood", row, column });
        }
        let mut weights = Array2::zeros((samples, points));
        let mut loo = Self {
            method: String::new(),
            estimator: Estimator::Psis { samples },
            pointwise: Vec::with_capacity(points),
            with_all_data: Vec::with_capacity(points),
            k: Vec::with_capacity(points),
            ranks: None,
        };
        for ((logs, mut weights), count) in log_likelihoods.columns().into_iter().zip(weights.columns_mut()).zip(counts)
        {
            let ratios: Vec<f64> = logs.iter().map(|log| -count * log / temperature).collect();
            let smoothed = smooth_weights(&ratios);
            let left_out = log_sum_exp(smoothed.log_weights.iter().zip(logs).map(|(weight, log)| weight + log));
            loo.pointwise.push(count * left_out);
            loo.with_all_data.push(count * (log_sum_exp(logs.iter().copied()) - (samples as f64).ln()));
            loo.k.push(smoothed.k);
            weights.iter_mut().zip(&smoothed.log_weights).for_each(|(weight, log)| *weight = log.exp());
        }
        Ok((loo, weights))
    }

    /// Leave-one-out of models sampled at the training data of a posterior.
    fn of_sampled(laplace: &Laplace, method: &str, sampled: &SampledPredictive) -> Result<Self> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "leave-one-out" })?;
        let log_likelihoods = sampled.log_likelihoods(data.targets())?;
        let counts = laplace.family().weights(data.targets().view(), laplace.model().n_outputs());
        let (loo, weights) = Self::weighted(log_likelihoods.view(), laplace.temperature(), &counts)?;
        let shift = laplace.schema().log_density_shift();
        let in_units = |logs: Vec<f64>| logs.into_iter().zip(&counts).map(|(log, count)| log + count * shift).collect();
        Ok(Self {
            method: method.to_string(),
            ranks: sampled.weighted_ranks(data.targets(), weights.view())?,
            pointwise: in_units(loo.pointwise),
            with_all_data: in_units(loo.with_all_data),
            ..loo
        })
    }

    /// Leave-one-out from samples of the weights, one model per row.
    pub fn of_weights(laplace: &Laplace, method: &str, weights: ArrayView2<'_, f64>) -> Result<Self> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "leave-one-out" })?;
        let sampled = SampledPredictive::new(&**laplace.model(), laplace.family(), weights, data.inputs())?;
        Self::of_sampled(laplace, method, &sampled)
    }

    /// Leave-one-out from Riemannian samples; failed ones do not count.
    pub fn of_samples(laplace: &Laplace, samples: &Samples) -> Result<Self> {
        let reached = samples.reached();
        if reached.nrows() == 0 {
            return Err(Error::NoSamples { requested: samples.len() });
        }
        Self::of_weights(laplace, "riemannian", reached.view())
    }

    /// Leave-one-out of the linearised posterior by importance sampling, from draws of the linearised outputs and with the
    /// likelihood of these. There is no need for it, except to check the [closed form](ClosedForms).
    pub fn of_linearized_draws(laplace: &Laplace, draws: MonteCarlo) -> Result<Self> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "leave-one-out" })?;
        let sampled = linearized(laplace, data.inputs())?.sampled(laplace.family(), draws)?;
        Self::of_sampled(laplace, "glm", &sampled)
    }
}

/// Leave-one-out of a way to predict: in closed form for the trained model alone and the linearised posterior, from
/// samples otherwise.
pub fn leave_one_out(laplace: &Laplace, method: &Method, progress: &dyn Progress) -> Result<LeaveOneOut> {
    match method {
        Method::Map => Ok(ClosedForms::of(laplace, Link::default())?.map),
        Method::Glm(link) => Ok(ClosedForms::of(laplace, *link)?.linearized),
        Method::Nn(draws) => of_draws(laplace, draws),
        Method::Riemannian(Geodesics { metric, how, sampler, allow_uncertified }) => {
            let samples = crate::geodesic::sample_posterior(laplace, *metric, how, sampler, progress)?;
            let report = SamplingReport::of(&samples);
            if report.failed_share() > *allow_uncertified {
                return Err(Error::Uncertified { report, allowed: *allow_uncertified });
            }
            LeaveOneOut::of_samples(laplace, &samples)
        }
        Method::Samples(samples) => LeaveOneOut::of_samples(laplace, samples),
        Method::Mixture(_) => Err(Error::Unsupported(Unsupported::MixtureLeaveOneOut)),
    }
}

fn of_draws(laplace: &Laplace, draws: &Draws) -> Result<LeaveOneOut> {
    LeaveOneOut::of_weights(laplace, "nn", draw_weights(laplace, draws)?.view())
}

/// √(N Var), with the variance of N values about their mean.
fn error_of_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count.max(1.0);
    values.map(|value| (value - mean).powi(2)).sum::<f64>().sqrt()
}
