//! The mixture of several predictions, p(y | x) = Σₖ wₖ pₖ(y | x): those of posteriors around several modes of one network
//! (Eschenhagen et al. 2021), or of several networks.
//!
//! Each posterior describes one mode. Where modes disagree the mixture is wider than its parts: with means mₖ around m,
//! Var y = Σₖ wₖ Varₖ y + Σₖ wₖ (mₖ − m)², and the second term is epistemic.

use ndarray::{Array1, Array2, Array3, Axis};
use rand::Rng;

use super::log_sum_exp;
use super::prediction::{Prediction, Predictive, SamplingReport};
use super::summary::class_entropy;
use crate::error::{Error, Result, Unsupported, check_size};
use crate::random::{Purpose, stream};

/// A part of a mixture.
#[derive(Debug, Clone)]
pub struct MixturePart {
    /// Its share; all of them sum to 1.
    pub weight: f64,
    /// Its prediction.
    pub prediction: Prediction,
}

impl Prediction {
    /// The mixture of predictions at the same inputs, each with its weight (positive; relative to their sum). They must be of
    /// the same targets in the same units, under the same likelihood; its parameters (σ) may differ.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::prelude::*;
    ///
    /// let data = Dataset::new(array![[-1.0], [0.0], [1.0]], array![[1.1], [0.9], [0.4]])?;
    /// let predict = |seed| {
    ///     let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, seed);
    ///     let laplace = Laplace::fit(network, data.clone(), Family::gaussian(0.5)?, &FitOptions::default())?;
    ///     laplace.predict(&array![[2.0]], &Method::default())
    /// };
    /// let (one, other) = (predict(1)?, predict(2)?);
    /// let (a, b) = (one.mean[(0, 0)], other.mean[(0, 0)]);
    /// let mixture = Prediction::mixture(vec![(3.0, one), (1.0, other)])?;
    /// assert!((mixture.mean[(0, 0)] - (0.75 * a + 0.25 * b)).abs() < 1e-15);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn mixture(parts: Vec<(f64, Prediction)>) -> Result<Self> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::NoRows { what: "the predictions to mix".to_string() });
        };
        let (family, schema, shape) = (first.family().clone(), first.schema.clone(), first.mean.dim());
        let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
        for (row, (weight, part)) in parts.iter().enumerate() {
            check_size("number of predicted points", shape.0, part.mean.nrows())?;
            check_size("number of targets or classes", shape.1, part.mean.ncols())?;
            let same_likelihood = family.likelihood().name() == part.family().likelihood().name();
            if !same_likelihood || !schema.has_targets_of(&part.schema) {
                return Err(Error::Unsupported(Unsupported::MixtureOfDifferent));
            }
            if weight.is_nan() || *weight <= 0.0 || !total.is_finite() {
                return Err(Error::NotFinite { what: "the logarithm of the weight of a prediction", row, column: 0 });
            }
        }
        let parts: Vec<MixturePart> =
            parts.into_iter().map(|(weight, prediction)| MixturePart { weight: weight / total, prediction }).collect();
        let average = |value: &dyn Fn(&Prediction) -> Array2<f64>| {
            let terms = parts.iter().map(|part| part.weight * value(&part.prediction));
            terms.fold(Array2::<f64>::zeros(shape), |sum, term| sum + term)
        };
        let mean = average(&|part| part.mean.clone());
        let aleatoric_variance = average(&|part| part.aleatoric_variance.clone());
        let epistemic_variance =
            average(&|part| &part.epistemic_variance + &(&part.mean - &mean).mapv(|shift| shift * shift));
        let total_variance = &epistemic_variance + &aleatoric_variance;
        let entropy = family.has_classes().then(|| {
            let rows = mean.rows().into_iter();
            rows.map(|row| class_entropy(&family, &row.to_vec())).collect::<Array1<f64>>()
        });
        let mutual_information = entropy.as_ref().and_then(|entropy| {
            let known = parts.iter().map(|part| Some(part.weight * part.prediction.entropy_given_weights()?));
            let known = known.collect::<Option<Vec<Array1<f64>>>>()?;
            Some(known.iter().fold(entropy.clone(), |left, part| left - part).mapv(|value| value.max(0.0)))
        });
        Ok(Self {
            mean,
            epistemic_variance,
            aleatoric_variance,
            total_variance,
            entropy,
            mutual_information,
            samples: parts.iter().filter_map(|part| part.prediction.samples).reduce(SamplingReport::and),
            family,
            predictive: Predictive::Mixture(parts),
            schema,
            _reservation: None,
        })
    }

    /// The mean of H(y | θ) over the weights, where some were drawn.
    fn entropy_given_weights(&self) -> Option<Array1<f64>> {
        Some(self.entropy.as_ref()? - self.mutual_information.as_ref()?)
    }
}

/// log Σₖ wₖ pₖ, row by row.
pub(super) fn mixed_densities(parts: &[(f64, Array1<f64>)]) -> Array1<f64> {
    let rows = parts.first().map_or(0, |(_, logs)| logs.len());
    (0..rows).map(|row| log_sum_exp(parts.iter().map(|(weight, logs)| weight.ln() + logs[row]))).collect()
}

/// Draws of a mixture: each comes from a part of its own, by the weights, and each part has a seed of its own.
pub(super) fn draws_of_parts(
    parts: &[MixturePart],
    count: usize,
    seed: u64,
    draw: impl Fn(&Prediction, usize, u64) -> Result<Array3<f64>>,
) -> Result<Array3<f64>> {
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); parts.len()];
    let mut generator = stream(seed, Purpose::MixturePart, 0);
    for place in 0..count {
        let mut left: f64 = generator.random();
        let chosen = parts.iter().position(|part| {
            left -= part.weight;
            left < 0.0
        });
        places[chosen.unwrap_or(parts.len() - 1)].push(place);
    }
    let mut draws: Option<Array3<f64>> = None;
    for (index, (part, places)) in parts.iter().zip(places).enumerate() {
        let own = draw(&part.prediction, places.len(), seed.wrapping_add(index as u64))?;
        let (_, points, width) = own.dim();
        let all = draws.get_or_insert_with(|| Array3::zeros((count, points, width)));
        for (place, values) in places.into_iter().zip(own.axis_iter(Axis(0))) {
            all.index_axis_mut(Axis(0), place).assign(&values);
        }
    }
    draws.ok_or(Error::NoRows { what: "the predictions to mix".to_string() })
}
