//! The temperature on held-out data: the T of the posterior prior · likelihood^(1/T) that minimises the negative log
//! likelihood of the linearised prediction there, with the prior as it is.
//!
//! With many weights a linearised posterior is far too wide for good probabilities. A larger prior precision narrows it
//! everywhere alike, down to the network alone. A lower temperature narrows it where data are, and keeps what is uncertain
//! away from them: T·(TA + C)⁻¹, C the curvature, is a small multiple of what a weak prior gives.

use ndarray::Array2;

use super::scores::mean_nll;
use crate::data::Dataset;
use crate::error::{AtBound, Error, Result};
use crate::laplace::Laplace;
use crate::optimize::golden_section;
use crate::predict::{Link, Method, predict};
use crate::progress::Progress;

/// Settings of [`temper_on`].
#[derive(Debug, Clone, PartialEq)]
pub struct TemperOptions {
    /// How probabilities follow from logits (default: [`Link::CentredProbit`], which depends on the size of the variances
    /// for any number of classes).
    pub link: Link,
    /// The ends of the grid of temperatures (default: 1e-5 and 1).
    pub grid: (f64, f64),
    /// The number of its points, evenly spaced in the logarithm (default: 11, two per decade).
    pub grid_points: usize,
    /// Refinement ends when log T is known to this accuracy (default: 0.1).
    pub tolerance: f64,
}

impl Default for TemperOptions {
    fn default() -> Self {
        Self { link: Link::CentredProbit, grid: (1e-5, 1.0), grid_points: 11, tolerance: 0.1 }
    }
}

/// The outcome of [`temper_on`].
#[derive(Debug, Clone, PartialEq)]
pub struct TemperOptimum {
    /// The best temperature.
    pub temperature: f64,
    /// The held-out negative log likelihood per data point of the tempered posterior, in the units of the data.
    pub nll: f64,
    /// That of the posterior as it was.
    pub nll_before: f64,
    /// That of the trained model alone.
    pub map_nll: f64,
    /// The temperature, if the best one lies at an end of the grid: the true optimum may be beyond.
    pub at_edge: Option<AtBound>,
    /// Evaluations of the held-out likelihood.
    pub evaluations: usize,
}

/// Tunes the temperature of a posterior on held-out data (in the units of its data), and gives it that temperature. Prior
/// precision and σ stay as they are; tune them first.
///
/// ```
/// use ndarray::{Array2, array};
/// use riemannian_laplace::internals::evaluate::TemperOptions;
/// use riemannian_laplace::internals::likelihood::Categorical;
/// use riemannian_laplace::prelude::*;
///
/// let data = |count: usize| {
///     let inputs = Array2::from_shape_fn((count, 1), |(n, _)| 4.0 * n as f64 / count as f64 - 2.0);
///     let targets = inputs.mapv(|x| f64::from(x > 0.0));
///     Dataset::new(inputs, targets)
/// };
/// let network = Network::new(Architecture::new(&[1, 2], Activation::Identity)?, vec![-4.0, 4.0, 0.0, 0.0])?;
/// let mut laplace = Laplace::fit(network, data(30)?, Family::new(Categorical), &FitOptions::default())?;
/// let optimum = laplace.temper_on(&data(47)?, &TemperOptions::default(), &())?;
/// assert!(optimum.nll <= optimum.nll_before && optimum.temperature == laplace.temperature());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn temper_on(
    laplace: &mut Laplace,
    held_out: &Dataset,
    options: &TemperOptions,
    progress: &dyn Progress,
) -> Result<TemperOptimum> {
    let (low, high) = options.grid;
    if !(low > 0.0 && low < high && high.is_finite() && options.grid_points >= 2) {
        return Err(Error::Bounds { low, high });
    }
    let method = Method::Glm(options.link);
    let map_nll = nll(laplace, held_out, &Method::Map)?;
    let nll_before = nll(laplace, held_out, &method)?;
    let (mut trial, mut evaluations, mut best) = (laplace.clone(), 0, (f64::INFINITY, high.ln()));
    let mut at = |log: f64| -> Result<f64> {
        progress.check()?;
        evaluations += 1;
        let value = match trial.set_temperature(log.exp()) {
            Err(Error::NotPositiveDefinite { .. }) => f64::INFINITY,
            outcome => outcome.and_then(|()| nll(&trial, held_out, &method))?,
        };
        progress.step(evaluations, value);
        if value < best.0 {
            best = (value, log);
        }
        // A search cannot go on from what is no number.
        Ok(if value.is_nan() { f64::INFINITY } else { value })
    };
    let step = (high / low).ln() / (options.grid_points - 1) as f64;
    let mut place = (f64::INFINITY, high.ln());
    for index in 0..options.grid_points {
        let log = low.ln() + step * index as f64;
        let value = at(log)?;
        if value < place.0 {
            place = (value, log);
        }
    }
    golden_section(((place.1 - step).max(low.ln()), (place.1 + step).min(high.ln())), options.tolerance, at)?;
    let (nll, log) = best;
    let is_at_edge = log < low.ln() + 2.0 * options.tolerance || log > high.ln() - 2.0 * options.tolerance;
    let temperature = log.exp();
    laplace.set_temperature(temperature)?;
    let at_edge = is_at_edge.then_some(AtBound { parameter: "temperature", index: 0, value: temperature });
    Ok(TemperOptimum { temperature, nll, nll_before, map_nll, at_edge, evaluations })
}

/// −mean log p(y | x).
fn nll(laplace: &Laplace, held_out: &Dataset, method: &Method) -> Result<f64> {
    let inputs: &Array2<f64> = held_out.inputs();
    let prediction = predict(laplace, inputs, method, &())?;
    mean_nll(&prediction, held_out.targets())
}
