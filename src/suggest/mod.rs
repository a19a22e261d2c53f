//! What to measure next: rows of a pool, chosen one after the other from the exact joint covariance of the linearised posterior.
//!
//! Let f ~ N(m, C) over all rows of the pool, and H = RRᵀ the Fisher information that one observation carries about its outputs.
//! Observing row i gives ½ log det(I + RᵢᵀCᵢᵢRᵢ) nats about the weights, and changes the covariance to
//!
//! C − C_·ᵢ Rᵢ (I + RᵢᵀCᵢᵢRᵢ)⁻¹ Rᵢᵀ C_ᵢ·,
//!
//! whatever its value (with Gaussian noise exactly, else at the present mode). So a batch is chosen greedily, each row with those
//! before it taken as known, and no two rows of it say the same.
//!
//! | goal | score of a row |
//! |---|---|
//! | uncertainty | ½ log det(I + RᵢᵀCᵢᵢRᵢ): the information gained about the weights |
//! | target | the mean over target inputs t of ½ log det(I + RₜᵀCₜₜRₜ) before, less after: expected predictive information gain (Bickford Smith et al. 2023) |
//! | maximum, minimum | expected improvement over the best mean so far, an upper confidence bound, or a Thompson draw |
//! | label | H(E p) − E H(p) under N(m, Cᵢᵢ): the mutual information between class and weights (BALD) |
//!
//! A score (of a bound or a draw its gain over the best mean) is divided by the row's cost, where rows have one.

mod joint;

use std::collections::HashSet;

use ndarray::Array2;
use rand_distr::{Distribution, StandardNormal};

use crate::conformal::{common_rows, row_fingerprint};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::Laplace;
use crate::predict::linearized;
use crate::random::{Purpose, stream};
use joint::Joint;

/// The most rows of a pool (times outputs) in one joint covariance; a larger pool is cut to those of the greatest marginal score.
const MOST_JOINT: usize = 3000;
/// Draws of the logits behind a mutual information: the same for every row, so that rows compare.
const DRAWS: usize = 256;

/// What rows are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To know the whole function better.
    Uncertainty,
    /// To predict better at given inputs.
    Target,
    /// To find the greatest value.
    Maximum(Acquisition),
    /// To find the smallest value.
    Minimum(Acquisition),
    /// To label classes.
    Label,
}

/// How a search for an optimum weighs what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acquisition {
    /// E max(f − best, 0), with the greatest mean at the training rows as the best.
    #[default]
    ExpectedImprovement,
    /// m + 2 sd.
    UpperConfidenceBound,
    /// The best row of one joint draw of the function; another draw for each row chosen.
    Thompson,
}

/// How to choose.
#[derive(Debug, Clone, Default)]
pub struct SuggestOptions {
    /// How many rows.
    pub count: usize,
    /// The inputs to predict better at, for [`Goal::Target`], in the units of the data.
    pub target_inputs: Option<Array2<f64>>,
    /// What measuring each row of the pool costs (default: all the same).
    pub costs: Option<Vec<f64>>,
    /// The seed of draws.
    pub seed: u64,
}

/// A row that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The row of the pool, from zero.
    pub row: usize,
    /// Its score when it was chosen, before it was divided by the cost.
    pub score: f64,
    /// What the posterior expects there, in the units of the data (for classes: of the logits).
    pub mean: Vec<f64>,
    /// The standard deviation of that, with the rows chosen before taken as measured.
    pub standard_deviation: Vec<f64>,
    /// The same before any was.
    pub deviation_alone: Vec<f64>,
}

/// What was chosen, and what was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestions {
    /// The rows, in the order in which they were chosen.
    pub rows: Vec<Suggestion>,
    /// Rows of the pool that are among the training rows.
    pub measured: usize,
    /// Rows that were left out because the pool is too large for one joint covariance.
    pub cut: usize,
}

/// Chooses rows of a pool, in the units of the data. Rows that were measured already are left out, where the posterior holds its
/// training data.
///
/// ```
/// use ndarray::{Array2, array};
/// use riemannian_laplace::internals::suggest::{Goal, SuggestOptions, suggest};
/// use riemannian_laplace::prelude::*;
///
/// // A line, measured at 0 and 1: what is least known is far from both, first on one side and then on the other.
/// let line = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![1.0, 0.0])?;
/// let data = Dataset::new(array![[0.0], [1.0]], array![[0.0], [1.0]])?;
/// let laplace = Laplace::fit(line, data, Family::gaussian(0.1)?, &FitOptions::default())?;
/// let pool = Array2::from_shape_fn((9, 1), |(n, _)| n as f64 - 3.0);
/// let chosen = suggest(&laplace, &pool, Goal::Uncertainty, &SuggestOptions { count: 2, ..Default::default() })?;
/// assert_eq!(chosen.rows.iter().map(|one| pool[(one.row, 0)]).collect::<Vec<_>>(), [5.0, -3.0]);
/// assert_eq!(chosen.measured, 2); // 0 and 1
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn suggest(laplace: &Laplace, pool: &Array2<f64>, goal: Goal, options: &SuggestOptions) -> Result<Suggestions> {
    let p = laplace.model().n_outputs();
    check_goal(laplace, goal, options)?;
    if let Some(costs) = &options.costs {
        check_size("number of costs", pool.nrows(), costs.len())?;
        crate::conformal::check_weights(costs)?;
    }
    let scaled = laplace.schema().scale_inputs(pool.view())?;
    // Whatever the network cannot take is reported by its row in the pool.
    laplace.outputs(&scaled)?;
    let measured = measured_rows(laplace, &scaled);
    let mut open: Vec<usize> = (0..pool.nrows()).filter(|row| !measured.contains(row)).collect();
    if open.is_empty() {
        return Err(Error::NoRows { what: "the pool without the rows that are measured already".to_string() });
    }
    let before = open.len();
    if open.len() * p > MOST_JOINT {
        open = most_uncertain(laplace, &scaled, open, (MOST_JOINT / p).max(options.count))?;
    }
    let cut = before - open.len();
    let candidates = scaled.select(ndarray::Axis(0), &open);
    let targets = match (&options.target_inputs, goal) {
        (Some(inputs), Goal::Target) => Some(laplace.schema().scale_inputs(inputs.view())?),
        _ => None,
    };
    let mut joint = Joint::of(laplace, &candidates, targets.as_ref())?;
    let mut search = Search { goal, seed: options.seed, best: best_mean(laplace, goal)?, draw: 0 };
    let (alone, mut taken, mut rows) = (joint.deviations(), HashSet::new(), Vec::new());
    while rows.len() < options.count.min(open.len()) {
        let scores = search.scores(&joint)?;
        let cost = |place: usize| options.costs.as_ref().map_or(1.0, |costs| costs[open[place]]);
        let value = |place: &usize| {
            // A value of the function may be negative: what a cost divides is its gain over the best mean.
            let start = if search.is_signed() && search.best.is_finite() { search.best } else { 0.0 };
            let gain = scores[*place] - start;
            if gain > 0.0 { gain / cost(*place) } else { gain * cost(*place) }
        };
        let places = (0..open.len()).filter(|place| !taken.contains(place));
        let Some(place) = places.reduce(|best, next| if value(&next) > value(&best) { next } else { best }) else {
            break;
        };
        taken.insert(place);
        rows.push(Suggestion {
            row: open[place],
            score: scores[place],
            mean: in_units(laplace, &joint.means(place), true)?,
            standard_deviation: in_units(laplace, &joint.deviations()[place], false)?,
            deviation_alone: in_units(laplace, &alone[place], false)?,
        });
        search.best = search.best.max(search.sign() * joint.means(place)[0]);
        joint.observe(place)?;
    }
    Ok(Suggestions { rows, measured: measured.len(), cut })
}

fn check_goal(laplace: &Laplace, goal: Goal, options: &SuggestOptions) -> Result<()> {
    let (has_classes, name) = (laplace.family().has_classes(), laplace.family().likelihood().name());
    let refuse = |goal: &'static str, instead: &'static str| {
        Err(Error::Unsupported(Unsupported::Goal { goal, likelihood: name, instead }))
    };
    match goal {
        Goal::Label if !has_classes => refuse("label", "uncertainty, which is the same for numbers"),
        Goal::Maximum(_) | Goal::Minimum(_) if has_classes => refuse("an optimum", "label or uncertainty"),
        Goal::Maximum(_) | Goal::Minimum(_)
            if laplace.family().likelihood().n_targets(laplace.model().n_outputs()) != 1 =>
        {
            refuse("an optimum of several targets", "uncertainty, or a posterior of one target")
        }
        Goal::Target if options.target_inputs.is_none() => {
            Err(Error::NoRows { what: "the target inputs of the goal `target`".to_string() })
        }
        _ => Ok(()),
    }
}

/// The rows of the pool (in the units of the model) that are training rows.
fn measured_rows(laplace: &Laplace, pool: &Array2<f64>) -> HashSet<usize> {
    let Some(data) = laplace.data() else { return HashSet::new() };
    let of = |inputs: &Array2<f64>| -> Vec<f64> {
        inputs.rows().into_iter().map(|row| row_fingerprint(row.iter())).collect()
    };
    common_rows(&of(pool), &of(data.inputs())).into_iter().collect()
}

/// The rows of greatest marginal variance, in their order.
fn most_uncertain(laplace: &Laplace, pool: &Array2<f64>, rows: Vec<usize>, count: usize) -> Result<Vec<usize>> {
    let variances = linearized(laplace, &pool.select(ndarray::Axis(0), &rows))?.variance().sum_axis(ndarray::Axis(1));
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| variances[*b].total_cmp(&variances[*a]));
    order.truncate(count);
    order.sort_unstable();
    Ok(order.into_iter().map(|place| rows[place]).collect())
}

/// The greatest (or, negated, smallest) mean at the training rows; −∞ without them.
fn best_mean(laplace: &Laplace, goal: Goal) -> Result<f64> {
    let sign = if let Goal::Minimum(_) = goal { -1.0 } else { 1.0 };
    match laplace.data() {
        Some(data) if matches!(goal, Goal::Maximum(_) | Goal::Minimum(_)) => {
            let means = laplace.outputs(data.inputs())?;
            Ok(means.column(0).iter().fold(f64::NEG_INFINITY, |best, mean| best.max(sign * mean)))
        }
        _ => Ok(f64::NEG_INFINITY),
    }
}

/// Outputs or deviations in the units of the data, where each output is a target.
fn in_units(laplace: &Laplace, values: &[f64], are_means: bool) -> Result<Vec<f64>> {
    if laplace.family().sigma().is_none() {
        return Ok(values.to_vec());
    }
    if !are_means {
        let scales = laplace.schema().restore_deviations(&vec![1.0; values.len()]);
        return Ok(values.iter().zip(scales).map(|(value, scale)| value * scale).collect());
    }
    let row = Array2::from_shape_fn((1, values.len()), |(_, k)| values[k]);
    Ok(laplace.schema().restore_mean(row.view())?.row(0).to_vec())
}

/// The state of a search.
struct Search {
    goal: Goal,
    seed: u64,
    best: f64,
    draw: u64,
}

impl Search {
    fn sign(&self) -> f64 {
        if let Goal::Minimum(_) = self.goal { -1.0 } else { 1.0 }
    }

    /// Whether scores are values of the function, and not gains.
    fn is_signed(&self) -> bool {
        use Acquisition::{Thompson, UpperConfidenceBound};
        matches!(
            self.goal,
            Goal::Maximum(Thompson | UpperConfidenceBound) | Goal::Minimum(Thompson | UpperConfidenceBound)
        )
    }

    fn scores(&mut self, joint: &Joint) -> Result<Vec<f64>> {
        match self.goal {
            Goal::Uncertainty => joint.each(|place| joint.information(place)),
            Goal::Target => joint.predictive_gains(),
            Goal::Label => {
                let normals = normals(self.seed, DRAWS * joint.n_outputs());
                joint.each(|place| joint.mutual_information(place, &normals))
            }
            Goal::Maximum(acquisition) | Goal::Minimum(acquisition) => self.optimum(acquisition, joint),
        }
    }

    fn optimum(&mut self, acquisition: Acquisition, joint: &Joint) -> Result<Vec<f64>> {
        let (sign, best) = (self.sign(), self.best);
        let deviations = joint.deviations();
        match acquisition {
            Acquisition::ExpectedImprovement => {
                joint.each(|place| Ok(improvement(sign * joint.means(place)[0] - best, deviations[place][0])))
            }
            Acquisition::UpperConfidenceBound => {
                joint.each(|place| Ok(sign * joint.means(place)[0] + 2.0 * deviations[place][0]))
            }
            Acquisition::Thompson => {
                self.draw += 1;
                let normals = normals(self.seed.wrapping_add(self.draw), joint.n_rows());
                Ok(joint.draw(&normals)?.into_iter().map(|value| sign * value).collect())
            }
        }
    }
}

fn normals(seed: u64, count: usize) -> Vec<f64> {
    let mut generator = stream(seed, Purpose::PredictiveDraw, 0);
    (0..count).map(|_| StandardNormal.sample(&mut generator)).collect()
}

/// E max(g + s z, 0) for z ~ N(0, 1): g Φ(g/s) + s φ(g/s). Infinite where there is nothing to improve on.
fn improvement(gain: f64, deviation: f64) -> f64 {
    if gain == f64::INFINITY || deviation <= 0.0 {
        return gain.max(0.0);
    }
    let z = gain / deviation;
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    gain * 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) + deviation * density
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_improvement_is_its_integral() {
        for (gain, deviation) in [(-1.0, 0.5), (0.0, 1.0), (0.7, 2.0), (-6.0, 1.0)] {
            let step = 1e-3;
            let term = |i: i32| {
                let z = -10.0 + step * (f64::from(i) + 0.5);
                f64::max(gain + deviation * z, 0.0) * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
            };
            let integral: f64 = (0..20_000).map(term).sum::<f64>() * step;
            // The kink costs the midpoint rule h²/8 times the jump of the slope.
            assert!((improvement(gain, deviation) - integral).abs() < 1e-6, "{gain} {deviation}");
        }
    }
}
