//! The ways to predict, and the one function that uses them.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::prediction::{Prediction, Predictive, SamplingReport};
use super::{Link, SampledPredictive, linearized};
use crate::error::{Error, Result, Unsupported};
use crate::geodesic::{MetricName, MetricOptions, SamplerOptions, Samples, sample_posterior};
use crate::laplace::{BATCH_NUMBERS, Laplace};
use crate::likelihood::Family;
use crate::memory::{self, Reservation};
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// The share of samples that may fail or be uncertified before a prediction is refused.
pub const ALLOWED_SHARE: f64 = 0.05;

/// How weights become predictions.
#[derive(Debug, Clone)]
pub enum Method {
    /// The trained model alone, without uncertainty about its weights.
    Map,
    /// The model linearised around its trained weights: an exact Gaussian over the outputs, and a link for classes.
    Glm(Link),
    /// The model itself, averaged over draws θ ~ N(θ̂, G⁻¹).
    Nn(Draws),
    /// The model itself, averaged over weights drawn along geodesics.
    Riemannian(Geodesics),
    /// The model itself, averaged over samples drawn earlier.
    Samples(Arc<Samples>),
    /// The mixture with the predictions of other posteriors, such as those around other modes.
    Mixture(Mixture),
}

/// The prediction of a posterior mixed with those of others ([`Prediction::mixture`]).
#[derive(Debug, Clone)]
pub struct Mixture {
    /// The weight of the posterior itself, relative to all.
    pub weight: f64,
    /// How it predicts.
    pub method: Box<Method>,
    /// The other posteriors, of the same columns.
    pub others: Arc<[MixtureMember]>,
}

/// Another posterior of a [`Mixture`].
#[derive(Debug, Clone)]
pub struct MixtureMember {
    /// Its weight, relative to all.
    pub weight: f64,
    /// The posterior.
    pub laplace: Laplace,
    /// How it predicts.
    pub method: Method,
}

impl Mixture {
    fn predict(&self, laplace: &Laplace, inputs: &Array2<f64>, progress: &dyn Progress) -> Result<Prediction> {
        let mut parts = vec![(self.weight, predict(laplace, inputs, &self.method, progress)?)];
        for other in self.others.iter() {
            if other.laplace.schema().inputs() != laplace.schema().inputs() {
                return Err(Error::Unsupported(Unsupported::MixtureOfDifferent));
            }
            parts.push((other.weight, predict(&other.laplace, inputs, &other.method, progress)?));
        }
        Prediction::mixture(parts)
    }
}

impl Default for Method {
    /// Linearised, with the default link.
    fn default() -> Self {
        Method::Glm(Link::default())
    }
}

impl Method {
    /// The name on the command line: `map`, `glm`, `nn` or `riemannian`; `mixture` where posteriors are mixed.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Map => "map",
            Method::Glm(_) => "glm",
            Method::Nn(_) => "nn",
            Method::Riemannian(_) | Method::Samples(_) => "riemannian",
            Method::Mixture(_) => "mixture",
        }
    }

    /// The method with all that its predictions depend on, in words: a calibration holds for the same alone.
    pub fn signature(&self, family: &Family) -> String {
        let drawn = |range: &Range<usize>, seed: u64| format!("samples {}..{} of seed {seed}", range.start, range.end);
        match self {
            Method::Glm(Link::MonteCarlo(settings)) if family.has_classes() => {
                format!("glm, mc, {}", drawn(&(0..settings.samples), settings.seed))
            }
            Method::Glm(link) if family.has_classes() => format!("glm, {}", link.name()),
            Method::Map | Method::Glm(_) => self.name().to_string(),
            Method::Nn(draws) => format!("nn, {}", drawn(&draws.range, draws.seed)),
            Method::Riemannian(geodesics) => {
                let sampler = &geodesics.sampler;
                format!("riemannian, {}, {}", geodesics.metric, drawn(&sampler.range, sampler.seed))
            }
            Method::Samples(samples) => {
                let metric = samples.metric.map_or("a metric without a name", MetricName::name);
                match samples.seed {
                    Some(seed) => format!("riemannian, {metric}, {}", drawn(&samples.range, seed)),
                    None => format!("riemannian, {metric}, {} given samples", samples.len()),
                }
            }
            Method::Mixture(mixture) => {
                let own = mixture.method.signature(family);
                format!("a mixture of {}: {own}", mixture.others.len() + 1)
            }
        }
    }

    /// Riemannian samples `0..count` of a seed with the Fisher metric.
    pub fn riemannian(count: usize, seed: u64) -> Self {
        Method::Riemannian(Geodesics {
            sampler: SamplerOptions { seed, ..SamplerOptions::first(count) },
            ..Default::default()
        })
    }
}

/// Draws of the weights, as a range of a seeded stream: draw i is the same in any range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws {
    /// Which draws.
    pub range: Range<usize>,
    /// The seed.
    pub seed: u64,
}

impl Draws {
    /// Draws `0..count`.
    pub fn first(count: usize, seed: u64) -> Self {
        Self { range: 0..count, seed }
    }
}

/// Geodesics to draw, and the share of them that may fail.
#[derive(Debug, Clone)]
pub struct Geodesics {
    /// The metric (default: Fisher).
    pub metric: MetricName,
    /// How it is evaluated (default: exactly, with all data).
    pub how: MetricOptions,
    /// Which samples, and the settings of each.
    pub sampler: SamplerOptions,
    /// The share of samples that may fail or be uncertified (default: 5 %). Beyond it [`predict`] returns
    /// [`Error::Uncertified`]; 1 lets everything pass, and the prediction's report tells how many failed.
    pub allow_uncertified: f64,
}

impl Default for Geodesics {
    fn default() -> Self {
        Self {
            metric: MetricName::Fisher,
            how: MetricOptions::default(),
            sampler: SamplerOptions::default(),
            allow_uncertified: ALLOWED_SHARE,
        }
    }
}

impl Geodesics {
    /// The samples, and how they ended; an error where too many failed.
    pub(crate) fn draw(&self, laplace: &Laplace, progress: &dyn Progress) -> Result<(Samples, SamplingReport)> {
        let samples = sample_posterior(laplace, self.metric, &self.how, &self.sampler, progress)?;
        let report = SamplingReport::of(&samples);
        if report.failed_share() > self.allow_uncertified {
            return Err(Error::Uncertified { report, allowed: self.allow_uncertified });
        }
        Ok((samples, report))
    }
}

/// Predicts at the rows of `inputs`, in the units of the data: where the schema has a scaling, it is applied to the
/// inputs and undone in the prediction.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Dataset;
/// use riemannian_laplace::{FitOptions, Laplace};
/// use riemannian_laplace::Family;
/// use riemannian_laplace::{Activation, Architecture, Network};
/// use riemannian_laplace::internals::predict::predict;
/// use riemannian_laplace::Method;
///
/// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
/// let inputs = array![[0.5], [5.0]];
/// for method in [Method::Map, Method::default(), Method::riemannian(20, 0)] {
///     let prediction = predict(&laplace, &inputs, &method, &())?;
///     let (lower, upper) = prediction.interval(0.9)?;
///     assert!(lower[(0, 0)] < prediction.mean[(0, 0)] && prediction.mean[(0, 0)] < upper[(0, 0)]);
/// }
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn predict(
    laplace: &Laplace,
    inputs: &Array2<f64>,
    method: &Method,
    progress: &dyn Progress,
) -> Result<Prediction> {
    let (family, schema) = (laplace.family(), laplace.schema());
    let reservation = reserve(laplace, inputs.nrows(), method)?;
    let scaled = &schema.scale_inputs(inputs.view())?;
    let (predictive, report) = match method {
        Method::Map => (Predictive::Network { outputs: laplace.outputs(scaled)? }, None),
        Method::Glm(link) => (Predictive::Linearized { latent: linearized(laplace, scaled)?, link: *link }, None),
        Method::Nn(draws) => {
            let weights = draw_weights(laplace, draws)?;
            (mixture(laplace, weights.view(), scaled)?, None)
        }
        Method::Riemannian(geodesics) => {
            let (samples, report) = geodesics.draw(laplace, progress)?;
            (of_samples(laplace, &samples, scaled)?, Some(report))
        }
        Method::Samples(samples) => (of_samples(laplace, samples, scaled)?, Some(SamplingReport::of(samples))),
        Method::Mixture(mixture) => return mixture.predict(laplace, inputs, progress),
    };
    Ok(Prediction::new(family.clone(), predictive, report, schema)?.holding(reservation))
}

/// The memory for a prediction: the inputs as given and scaled, the outputs with their covariances, four moments in the
/// units of the model and of the data, two ends of an interval, and one batch of evaluations.
fn reserve(laplace: &Laplace, points: usize, method: &Method) -> Result<Reservation> {
    let (model, n) = (laplace.model(), points as f64);
    let p = model.n_outputs() as f64;
    let covariances = if let Method::Glm(_) = method { p * p } else { 0.0 };
    let batch = (n * model.numbers_per_point(model.n_outputs())).min(BATCH_NUMBERS);
    let numbers = n * (2.0 * model.n_inputs() as f64 + covariances + 11.0 * p) + batch;
    memory::reserve(&format!("predicting at {points} points"), numbers, "predict fewer points at a time")
}

impl Prediction {
    /// The prediction of the mixture over the given weights, one model per row, however they were drawn.
    pub fn of_weights(laplace: &Laplace, weights: ArrayView2<'_, f64>, inputs: &Array2<f64>) -> Result<Self> {
        let schema = laplace.schema();
        let inputs = schema.scale_inputs(inputs.view())?;
        Self::new(laplace.family().clone(), mixture(laplace, weights, &inputs)?, None, schema)
    }
}

/// The mixture over the samples that reached the end of their geodesic.
fn of_samples(laplace: &Laplace, samples: &Samples, inputs: &Array2<f64>) -> Result<Predictive> {
    let reached = samples.reached();
    if reached.nrows() == 0 {
        return Err(Error::NoSamples { requested: samples.len() });
    }
    mixture(laplace, reached.view(), inputs)
}

fn mixture(laplace: &Laplace, weights: ArrayView2<'_, f64>, inputs: &Array2<f64>) -> Result<Predictive> {
    Ok(Predictive::Sampled(SampledPredictive::new(&**laplace.model(), laplace.family(), weights, inputs)?))
}

/// Draws θ ~ N(θ̂, G⁻¹), one per row. Draw i of a seed is the same in any range and on any number of threads; it is θ̂
/// plus the velocity of Riemannian sample i (unless the metric rounds kinks, which has a precision of its own).
pub fn draw_weights(laplace: &Laplace, draws: &Draws) -> Result<Array2<f64>> {
    let theta = laplace.parameters();
    let count = draws.range.len();
    let _reservation = memory::reserve("the samples", count as f64 * theta.len() as f64, "draw fewer samples")?;
    let mut weights = Array2::zeros((count, theta.len()));
    let rows = weights.as_slice_mut().unwrap_or_default().par_chunks_mut(theta.len().max(1));
    rows.zip(draws.range.clone()).for_each(|(row, index)| {
        laplace.precision().sample(&mut stream(draws.seed, Purpose::Velocity, index as u64), row);
        row.iter_mut().zip(theta).for_each(|(value, centre)| *value += centre);
    });
    Ok(weights)
}
