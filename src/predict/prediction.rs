//! The one result of predicting: moments, intervals, quantiles, class probabilities, draws, densities, and a report on
//! the samples behind it.

use std::sync::Arc;

use std::borrow::Cow;

use ndarray::{Array1, Array2, Array3, ArrayView2, Axis, CowArray, Ix2};

use super::ensemble::{MixturePart, draws_of_parts, mixed_densities};
use super::summary::class_entropy;
use super::{LatentGaussian, Link, Moments, MonteCarlo, SampledPredictive, moments};
use crate::data::{Schema, check_targets};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::geodesic::Samples;
use crate::likelihood::{Family, Marginal, likelihood_of};
use crate::memory::{self, Reservation};
use crate::random::{Purpose, stream};

/// How the samples behind a prediction ended. Failed ones do not enter it; uncertified ones do.
pub type SamplingReport = crate::error::SamplingCount;

impl SamplingReport {
    /// Counts.
    pub fn of(samples: &Samples) -> Self {
        Self { requested: samples.len(), failed: samples.failed(), uncertified: samples.uncertified() }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            requested: self.requested + other.requested,
            failed: self.failed + other.failed,
            uncertified: self.uncertified + other.uncertified,
        }
    }

    /// The share of samples that failed or are uncertified.
    pub fn failed_share(&self) -> f64 {
        (self.failed + self.uncertified) as f64 / self.requested.max(1) as f64
    }
}

/// The distribution behind a prediction.
#[derive(Debug, Clone)]
pub enum Predictive {
    /// One model: its raw outputs.
    Network {
        /// One row per input.
        outputs: Array2<f64>,
    },
    /// A Gaussian over the raw outputs, and the link for classes.
    Linearized {
        /// The Gaussian.
        latent: LatentGaussian,
        /// The link.
        link: Link,
    },
    /// A mixture over models.
    Sampled(SampledPredictive),
    /// A mixture of predictions; never empty.
    Mixture(Vec<MixturePart>),
}

/// A prediction: one row per input, one column per target (or class).
///
/// The variances are of the observation y (for classes: of each class's indicator): what more data would reduce
/// (epistemic), what they would not (aleatoric), and their sum.
#[derive(Debug, Clone)]
#[must_use]
pub struct Prediction {
    /// E(y): the mean, or the class probabilities.
    pub mean: Array2<f64>,
    /// Var E(y | θ).
    pub epistemic_variance: Array2<f64>,
    /// E Var(y | θ).
    pub aleatoric_variance: Array2<f64>,
    /// Var y.
    pub total_variance: Array2<f64>,
    /// The entropy of the class probabilities, where samples were drawn.
    pub entropy: Option<Array1<f64>>,
    /// The mutual information between class and weights, where samples were drawn.
    pub mutual_information: Option<Array1<f64>>,
    /// How the Riemannian samples ended, if there are any.
    pub samples: Option<SamplingReport>,
    pub(super) family: Family,
    pub(super) predictive: Predictive,
    pub(super) schema: Schema,
    /// The memory for all of it.
    pub(super) _reservation: Option<Arc<Reservation>>,
}

impl Prediction {
    /// Turns a distribution in the units of the model into a prediction in those of the data.
    pub(crate) fn new(
        family: Family,
        predictive: Predictive,
        samples: Option<SamplingReport>,
        schema: &Schema,
    ) -> Result<Self> {
        let moments = match &predictive {
            Predictive::Network { outputs } => {
                let (mean, variance) = moments(&family, outputs);
                Moments::from_parts(mean, Array2::zeros(variance.dim()), variance)
            }
            Predictive::Linearized { latent, link } => latent.moments(&family, *link)?,
            Predictive::Sampled(sampled) => sampled.moments(),
            Predictive::Mixture(parts) => {
                return Self::mixture(parts.iter().map(|part| (part.weight, part.prediction.clone())).collect());
            }
        };
        let Moments { mean, epistemic_variance, aleatoric_variance, total_variance, entropy, mutual_information } =
            moments;
        Ok(Self {
            mean: schema.restore_mean(mean.view())?,
            epistemic_variance: schema.restore_variance(epistemic_variance.view())?,
            aleatoric_variance: schema.restore_variance(aleatoric_variance.view())?,
            total_variance: schema.restore_variance(total_variance.view())?,
            entropy,
            mutual_information,
            samples,
            family,
            predictive,
            schema: schema.clone(),
            _reservation: None,
        })
    }

    /// Keeps the memory that was reserved for it.
    pub(super) fn holding(self, reservation: Reservation) -> Self {
        Self { _reservation: Some(Arc::new(reservation)), ..self }
    }

    /// The distribution behind the prediction, in the units of the model.
    pub fn predictive(&self) -> &Predictive {
        &self.predictive
    }

    /// The likelihood; of a mixture that of its first part.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// The Gaussian over the raw outputs of a linearised prediction, in the units of the data and without observation
    /// noise; none for the other methods.
    pub fn latent(&self) -> Result<Option<LatentGaussian>> {
        let Predictive::Linearized { latent, .. } = &self.predictive else { return Ok(None) };
        let n_targets = self.schema.targets().len();
        let scales = self.schema.restore_deviations(&vec![1.0; n_targets]);
        let shifts = self.schema.restore_mean(Array2::zeros((1, n_targets)).view())?.into_raw_vec_and_offset().0;
        if scales.iter().all(|scale| *scale == 1.0) && shifts.iter().all(|shift| *shift == 0.0) {
            return Ok(Some(latent.clone()));
        }
        let likelihood = self.family.likelihood();
        let units: Vec<(f64, f64)> =
            (0..self.n_outputs()).map(|output| likelihood.output_in_units(output, (&shifts, &scales))).collect();
        Ok(Some(LatentGaussian {
            mean: Array2::from_shape_fn(latent.mean.dim(), |(t, k)| units[k].0 + units[k].1 * latent.mean[(t, k)]),
            covariance: Array3::from_shape_fn(latent.covariance.dim(), |(t, i, j)| {
                units[i].1 * latent.covariance[(t, i, j)] * units[j].1
            }),
        }))
    }

    /// P, the number of the model's outputs.
    pub fn n_outputs(&self) -> usize {
        match &self.predictive {
            Predictive::Network { outputs } => outputs.ncols(),
            Predictive::Linearized { latent, .. } => latent.mean.ncols(),
            Predictive::Sampled(sampled) => sampled.outputs().dim().2,
            Predictive::Mixture(parts) => parts.first().map_or(0, |part| part.prediction.n_outputs()),
        }
    }

    /// One number per point that grows with the uncertainty of its prediction: the entropy of the class probabilities, or
    /// the variance of y, summed over the targets.
    pub fn uncertainty(&self) -> Array1<f64> {
        match self.family.has_classes() {
            true => {
                let rows = self.mean.rows();
                rows.into_iter().map(|row| class_entropy(&self.family, &row.to_vec())).collect()
            }
            false => self.total_variance.sum_axis(Axis(1)),
        }
    }

    /// √Var y.
    pub fn standard_deviation(&self) -> Array2<f64> {
        self.total_variance.mapv(f64::sqrt)
    }

    /// The class probabilities, one column per class; none for regression and counts. A Bernoulli output has one
    /// column, the probability of 1.
    pub fn class_probabilities(&self) -> Option<&Array2<f64>> {
        self.family.has_classes().then_some(&self.mean)
    }

    /// The central interval that contains y with probability `level`: its lower and upper ends.
    pub fn interval(&self, level: f64) -> Result<(Array2<f64>, Array2<f64>)> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::QuantileLevel(level));
        }
        let mut ends = self.quantiles(&[0.5 * (1.0 - level), 0.5 * (1.0 + level)])?.into_iter();
        match (ends.next(), ends.next()) {
            (Some(lower), Some(upper)) => Ok((lower, upper)),
            _ => Err(Error::QuantileLevel(level)),
        }
    }

    /// Quantiles of y (noise included), one matrix per level. Classes have none.
    pub fn quantiles(&self, levels: &[f64]) -> Result<Vec<Array2<f64>>> {
        if let Some(level) = levels.iter().find(|level| !(**level > 0.0 && **level < 1.0)) {
            return Err(Error::QuantileLevel(*level));
        }
        if self.family.has_classes() {
            return Err(Error::Unsupported(Unsupported::ClassQuantiles));
        }
        let mut quantiles = vec![Array2::zeros(self.mean.dim()); levels.len()];
        for (t, k) in ndarray::indices(self.mean.dim()) {
            let marginal = self.marginal(t, k);
            for (into, level) in quantiles.iter_mut().zip(levels) {
                into[(t, k)] = marginal.quantile(*level);
            }
        }
        quantiles.iter().map(|at| self.schema.restore_mean(at.view())).collect()
    }

    /// The distribution of a target at a point, in the units of the model: not of classes.
    pub(crate) fn marginal(&self, t: usize, k: usize) -> Marginal<'_> {
        let likelihood = likelihood_of(self.family.likelihood(), t);
        match &self.predictive {
            Predictive::Network { outputs } => Marginal::given(likelihood, k, vec![(1.0, outputs.row(t).to_vec())]),
            Predictive::Linearized { latent, .. } => likelihood.marginal_under(&latent.at(t), k),
            Predictive::Sampled(sampled) => {
                let weight = 1.0 / sampled.outputs().dim().0 as f64;
                let outputs = sampled.outputs().outer_iter().map(|f| (weight, f.row(t).to_vec()));
                Marginal::given(likelihood, k, outputs.collect())
            }
            Predictive::Mixture(parts) => {
                let parts = parts.iter().map(|part| (part.weight, part.prediction.marginal(t, k)));
                Marginal::mixed(parts.collect()).unwrap_or_else(|| Marginal::given(likelihood, k, Vec::new()))
            }
        }
    }

    /// P(y < observed) of each target: the probability integral transform, uniform where the prediction is calibrated. Half
    /// of a count's own probability counts as below it. Classes have none.
    pub fn ranks(&self, targets: &Array2<f64>) -> Result<Option<Array2<f64>>> {
        check_targets(targets, &self.family, self.mean.nrows(), self.n_outputs())?;
        if self.family.has_classes() {
            return Ok(None);
        }
        let (here, targets) = self.beside(targets)?;
        let scaled = self.schema.scale_targets(targets.view())?;
        let rank = |(t, k): (usize, usize)| here.marginal(t, k).rank(scaled[(t, k)]);
        Ok(Some(Array2::from_shape_fn(targets.dim(), rank)))
    }

    /// The probability that the predictive distribution of a real target gives to smaller values than the observed one,
    /// and its continuous ranked probability score in the units of the data. `targets` must have been checked.
    pub(crate) fn ranks_and_crps(&self, targets: &Array2<f64>) -> Result<(Array2<f64>, Array2<f64>)> {
        let scaled = self.schema.scale_targets(targets.view())?;
        let scales = self.schema.restore_deviations(&vec![1.0; targets.ncols()]);
        let (mut ranks, mut scores) = (Array2::zeros(targets.dim()), Array2::zeros(targets.dim()));
        for ((t, k), y) in scaled.indexed_iter() {
            let marginal = self.marginal(t, k);
            ranks[(t, k)] = marginal.rank(*y);
            scores[(t, k)] = scales[k] * marginal.crps(*y);
        }
        Ok((ranks, scores))
    }

    /// Draws of y: draws × points × target columns. Draw i of sampled predictions comes from network i mod S at every
    /// point, so that it is one function; linearised draws are independent from point to point.
    pub fn draws(&self, count: usize, seed: u64) -> Result<Array3<f64>> {
        if let Predictive::Mixture(parts) = &self.predictive {
            return draws_of_parts(parts, count, seed, Prediction::draws);
        }
        let (points, p) = (self.mean.nrows(), self.n_outputs());
        let likelihood = self.family.likelihood();
        let width = likelihood.n_targets(p);
        memory::check("the draws", count as f64 * (points * width) as f64, "ask for fewer draws or points at a time")?;
        let mut draws = Array3::zeros((count, points, width));
        if count == 0 {
            return Ok(draws);
        }
        let mut target = vec![0.0; width];
        let mut write = |draws: &mut Array3<f64>, generator: &mut _, place: (usize, usize), f: &[f64]| {
            likelihood_of(likelihood, place.1).draw(f, generator, &mut target);
            target.iter().enumerate().for_each(|(k, value)| draws[(place.0, place.1, k)] = *value);
        };
        let mut generators: Vec<_> = (0..points).map(|t| stream(seed, Purpose::PredictiveDraw, t as u64)).collect();
        match &self.predictive {
            Predictive::Linearized { latent, .. } => {
                let mut next = vec![0; points];
                latent.for_each_draw(MonteCarlo { samples: count, seed }, |t, f| {
                    write(&mut draws, &mut generators[t], (next[t], t), f);
                    next[t] += 1;
                })?;
            }
            Predictive::Network { outputs } => {
                for (t, f) in outputs.rows().into_iter().enumerate() {
                    let f = f.to_vec();
                    (0..count).for_each(|i| write(&mut draws, &mut generators[t], (i, t), &f));
                }
            }
            Predictive::Sampled(sampled) => {
                let outputs = sampled.outputs();
                for t in 0..points {
                    for i in 0..count {
                        let f: Vec<f64> = (0..p).map(|k| outputs[(i % outputs.dim().0, t, k)]).collect();
                        write(&mut draws, &mut generators[t], (i, t), &f);
                    }
                }
            }
            Predictive::Mixture(_) => {} // drawn above
        }
        self.restore(draws)
    }

    /// Draws of targets, or of their means, in the units of the data.
    pub(super) fn restore(&self, mut draws: Array3<f64>) -> Result<Array3<f64>> {
        for mut draw in draws.outer_iter_mut() {
            let restored = self.schema.restore_mean(draw.view())?;
            draw.assign(&restored);
        }
        Ok(draws)
    }

    /// log p(yₜ) at each point: of the model alone, of the linked Gaussian, or of the mixture, log 1/S Σ_s p(yₜ | θ_s).
    pub fn log_densities(&self, targets: &Array2<f64>) -> Result<Array1<f64>> {
        check_targets(targets, &self.family, self.mean.nrows(), self.n_outputs())?;
        let (here, targets) = self.beside(targets)?;
        let scaled = self.schema.scale_targets(targets.view())?;
        Ok(here.scaled_log_densities(&scaled)? + self.schema.log_density_shift())
    }

    /// The prediction at rows of which more is known than the inputs, such as their noise, and the targets among the columns of
    /// these rows (in the units of the data): what it is compared with.
    pub(crate) fn beside<'a>(&'a self, rows: &'a Array2<f64>) -> Result<(Cow<'a, Self>, CowArray<'a, f64, Ix2>)> {
        let (p, n_targets) = (self.n_outputs(), self.family.likelihood().n_targets(self.n_outputs()));
        if rows.ncols() <= n_targets {
            return Ok((Cow::Borrowed(self), rows.view().into()));
        }
        let observed = self.family.observed(rows.view(), p).into();
        if self.family.likelihood().known().is_empty() {
            return Ok((Cow::Borrowed(self), observed));
        }
        let schema =
            if rows.ncols() < self.family.row_width(p) { self.schema.without_weights() } else { self.schema.clone() };
        let scaled = schema.scale_targets(rows.view())?;
        Ok((Cow::Owned(self.at_known(scaled.view())?), observed))
    }

    /// The same at rows of which the noise or the number of trials is known: one column for each of the schema's, in its units.
    pub fn with_known(&self, known: ArrayView2<'_, f64>) -> Result<Self> {
        let n_targets = self.family.likelihood().n_targets(self.n_outputs());
        check_size("number of columns of known values", self.family.likelihood().known().len(), known.ncols())?;
        let mut rows = Array2::zeros((known.nrows(), n_targets + known.ncols()));
        rows.view_mut().split_at(Axis(1), n_targets).1.assign(&known);
        let scaled = self.schema.without_weights().scale_targets(rows.view())?;
        self.at_known(scaled.view())
    }

    /// The same with what is known of the rows, in the units of the model.
    fn at_known(&self, rows: ArrayView2<'_, f64>) -> Result<Self> {
        let family = self.family.at_rows(rows, self.n_outputs());
        let predictive = match &self.predictive {
            Predictive::Sampled(sampled) => Predictive::Sampled(sampled.with_family(&family)),
            Predictive::Mixture(parts) => {
                let part = |part: &MixturePart| Ok((part.weight, part.prediction.at_known(rows)?));
                return Self::mixture(parts.iter().map(part).collect::<Result<_>>()?);
            }
            other @ (Predictive::Network { .. } | Predictive::Linearized { .. }) => other.clone(),
        };
        Self::new(family, predictive, self.samples, &self.schema)
    }

    fn scaled_log_densities(&self, targets: &Array2<f64>) -> Result<Array1<f64>> {
        match &self.predictive {
            Predictive::Network { outputs } => {
                let likelihood = self.family.likelihood();
                let rows = outputs.rows().into_iter().zip(targets.rows()).enumerate();
                Ok(rows.map(|(t, (f, y))| likelihood_of(likelihood, t).log_density(&y.to_vec(), &f.to_vec())).collect())
            }
            Predictive::Linearized { latent, link } => latent.log_densities(&self.family, *link, targets),
            Predictive::Sampled(sampled) => sampled.log_densities(targets),
            Predictive::Mixture(parts) => {
                let logs = |part: &MixturePart| Ok((part.weight, part.prediction.scaled_log_densities(targets)?));
                Ok(mixed_densities(&parts.iter().map(logs).collect::<Result<Vec<_>>>()?))
            }
        }
    }
}
