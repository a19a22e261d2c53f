//! A committee of networks from cross-validation (Krogh and Vedelsby 1995), with stacked priors (Yao et al. 2018).
//!
//! Cross-validation along priors α₁ > α₂ > … trains a network without each fold f under each prior. The committee keeps them:
//! p(y | x) = Σⱼ wⱼ 1/F Σ_f p(y | x, αⱼ, f), each the linearised posterior of what its network was trained on. The weights
//! are those of the greatest log density of the held-out data, Σₙ log Σⱼ wⱼ p(yₙ | xₙ, αⱼ, f(n)), which is concave in w.
//!
//! Why not one network at its mode with all data? A mode under a weak prior overfits in a way of its own, and its linearised
//! posterior takes the hidden units as known; a strong prior underfits. Members that have seen different data under
//! different priors disagree where that matters. The score of the weights is from data that no member has seen.

use ndarray::{Array2, ArrayView2};

use super::prior_path::{Path, PriorPathOptions, PriorPathStep, check};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::laplace::{FitOptions, Laplace, PriorValues};
use crate::likelihood::Family;
use crate::network::Network;
use crate::predict::{Method, Mixture, MixtureMember, Prediction, log_sum_exp};
use crate::progress::Progress;

/// The weight of a prior below which its networks are left out.
const NEGLIGIBLE: f64 = 0.01;
/// The gain in nats per row below which weights have converged, and the most steps towards it.
const GAIN: f64 = 1e-10;
const MOST_STEPS: usize = 10_000;

/// Posteriors that predict together.
#[derive(Debug, Clone)]
pub struct Committee {
    /// The members; their weights sum to 1.
    pub members: Vec<Member>,
    /// Every prior that was tried, in order.
    pub steps: Vec<PriorPathStep>,
    /// The mean log density of the data, each predicted by the members that have not seen it, in the units of the data.
    pub held_out: f64,
}

/// One posterior of a committee.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its share of the prediction.
    pub weight: f64,
    /// The posterior, of the data without a fold.
    pub laplace: Laplace,
}

/// Trains a committee: a network for each fold and prior, whose weights predict held-out data best.
///
/// `progress` is told the priors done and the mean log density of held-out data, and may cancel.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::internals::evaluate::{PriorPathOptions, train_committee};
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, Network};
///
/// let inputs = Array2::from_shape_fn((40, 1), |(n, _)| n as f64 / 10.0 - 2.0);
/// let targets = inputs.mapv(|x| (2.0 * x).sin() + 0.1 * (37.0 * x).cos());
/// let data = Dataset::new(inputs, targets)?;
/// let start = Network::random(Architecture::new(&[1, 8, 1], Activation::Tanh)?, 0);
/// let committee = train_committee(&start, &data, &Family::gaussian(1.0)?, &PriorPathOptions::default(), &())?;
/// // At least as good as the best prior alone.
/// assert!(committee.steps.iter().all(|step| step.held_out <= committee.held_out + 1e-6));
/// let prediction = committee.predict(data.inputs())?;
/// assert_eq!(prediction.mean.nrows(), 40);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn train_committee(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &PriorPathOptions,
    progress: &dyn Progress,
) -> Result<Committee> {
    check(data, options)?;
    let path = Path { start, options, progress, ratio: 1.0, done: 0 };
    let walk = path.walk(data, family)?;
    let densities = Array2::from_shape_fn((walk.stops.len(), data.len()), |(j, n)| walk.stops[j].densities[n]);
    let weights = kept(&stacking_weights(densities.view())?);
    let held_out = mixed(densities.view(), &weights).sum::<f64>() / data.len() as f64;
    let folds = path.folds(data, family)?;
    let mut members = Vec::new();
    for (stop, weight) in walk.stops.iter().zip(&weights).filter(|(_, weight)| **weight > 0.0) {
        for (near, fold) in stop.networks.iter().zip(&folds) {
            progress.check()?;
            let (prior_precision, structure) =
                (PriorValues::Shared(stop.step.prior_precision), options.on_the_way.structure);
            let fit = FitOptions { prior_precision, structure, ..Default::default() };
            let laplace = Laplace::fit(near.network.clone(), fold.training().clone(), near.family.clone(), &fit)?;
            members.push(Member { weight: weight / folds.len() as f64, laplace });
        }
    }
    Ok(Committee { members, steps: walk.steps(), held_out })
}

impl Committee {
    /// The mixture of the members' linearised predictions, in the units of the data.
    pub fn predict(&self, inputs: &Array2<f64>) -> Result<Prediction> {
        let parts =
            self.members.iter().map(|member| Ok((member.weight, member.laplace.predict(inputs, &Method::default())?)));
        Prediction::mixture(parts.collect::<Result<_>>()?)
    }

    /// The first member, and the way to predict with it that mixes in all others.
    pub fn into_method(self) -> Result<(Laplace, Method)> {
        let mut members = self.members.into_iter();
        let first = members.next().ok_or_else(|| Error::NoRows { what: "the committee".to_string() })?;
        let others = members.map(|member| MixtureMember {
            weight: member.weight,
            laplace: member.laplace,
            method: Method::default(),
        });
        let mixture = Mixture { weight: first.weight, method: Box::new(Method::default()), others: others.collect() };
        Ok((first.laplace, Method::Mixture(mixture)))
    }
}

/// The weights w of the greatest Σₙ log Σⱼ wⱼ pⱼₙ over the simplex, from log pⱼₙ (predictions × points): stacking of
/// predictive distributions (Yao et al. 2018), by the iteration wⱼ ← 1/N Σₙ wⱼ pⱼₙ/Σᵢ wᵢ pᵢₙ, which never loses.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::evaluate::stacking_weights;
/// // The first predicts three of four points with certainty and the last not at all, the second the other way round.
/// let low = f64::NEG_INFINITY;
/// let weights = stacking_weights(array![[0.0, 0.0, 0.0, low], [low, low, low, 0.0]].view())?;
/// assert!((weights[0] - 0.75).abs() < 1e-9);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn stacking_weights(log_densities: ArrayView2<'_, f64>) -> Result<Vec<f64>> {
    let (count, points) = log_densities.dim();
    if count == 0 || points == 0 {
        return Err(Error::NoRows { what: "the densities to stack".to_string() });
    }
    if let Some(((row, column), _)) = log_densities.indexed_iter().find(|(_, value)| value.is_nan()) {
        return Err(Error::NotFinite { what: "the log density", row, column });
    }
    let mut weights = vec![1.0 / count as f64; count];
    let mut before = f64::NEG_INFINITY;
    for _ in 0..MOST_STEPS {
        let mut next = vec![0.0; count];
        let mut score = 0.0;
        for (logs, mixture) in log_densities.columns().into_iter().zip(mixed(log_densities, &weights)) {
            // A point that no prediction allows says nothing about them.
            if mixture == f64::NEG_INFINITY {
                next.iter_mut().zip(&weights).for_each(|(next, weight)| *next += weight / points as f64);
                continue;
            }
            score += mixture / points as f64;
            for ((next, weight), log) in next.iter_mut().zip(&weights).zip(logs) {
                *next += weight * (log - mixture).exp() / points as f64;
            }
        }
        weights = next;
        if score - before < GAIN {
            break;
        }
        before = score;
    }
    Ok(weights)
}

/// log Σⱼ wⱼ pⱼₙ at each point.
fn mixed<'a>(log_densities: ArrayView2<'a, f64>, weights: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let points = log_densities.ncols();
    (0..points).map(move |n| {
        let terms = weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        log_sum_exp(terms.map(|(j, weight)| weight.ln() + log_densities[(j, n)]))
    })
}

/// The weights without negligible ones, which become zero.
fn kept(weights: &[f64]) -> Vec<f64> {
    let kept: Vec<f64> = weights.iter().map(|weight| if *weight < NEGLIGIBLE { 0.0 } else { *weight }).collect();
    let total: f64 = kept.iter().sum();
    kept.iter().map(|weight| weight / total).collect()
}
