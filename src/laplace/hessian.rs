//! The exact Hessian of the log likelihood: −∇²Σₙ log pₙ = Σₙ JₙᵀIₙJₙ − Σₙ rₙ∇²fₙ, with I the observed information of
//! the outputs and r the scores.
//!
//! The second sum comes from its products with the unit vectors, each a sweep through the network along that direction;
//! where a map has no such products, from jets by polarisation.

use std::sync::Arc;

use faer::{Accum, Mat};
use ndarray::ArrayView2;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, PointEvaluator, likelihood_of};
use crate::linalg::{dot, multiply};
use crate::map::{Evaluator, Jet, Map, Scratch, identity_seeds};

/// Columns of the second sum that are computed at once.
const COLUMNS: usize = 64;

/// Adds the negative Hessian of the log likelihood at θ to a D × D matrix; with `output`, the share of one output of a
/// likelihood that is a sum over them.
pub(super) fn add_negative_hessian(
    map: &Arc<dyn Map>,
    theta: &[f64],
    likelihood: &dyn Likelihood,
    targets: ArrayView2<'_, f64>,
    output: Option<usize>,
    sum: &mut Mat<f64>,
) -> Result<()> {
    let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
    let counts = |index: usize| output.is_none_or(|output| output == index);
    let (mut outputs, mut scores) = (vec![0.0; n * p], vec![0.0; n * p]);
    let mut evaluator = Evaluator::new(map, p);
    let evaluated = evaluator.outputs(theta, &mut outputs);
    let mut jacobian = Mat::zeros(n * p, d);
    evaluated.pull_back(&identity_seeds(n, p)).dense(jacobian.as_mut());
    drop(evaluator);

    let observations: Vec<f64> = targets.iter().copied().collect();
    PointEvaluator::new(n, p).scores(likelihood, &observations, &outputs, &mut scores);
    let mut informed = Mat::zeros(n * p, d);
    let (mut information, mut point) = (vec![0.0; p * p], vec![0.0; p]);
    for (row, target) in targets.rows().into_iter().enumerate() {
        point.iter_mut().enumerate().for_each(|(k, value)| *value = outputs[k * n + row]);
        likelihood_of(likelihood, row).observed_information(&target.to_vec(), &point, &mut information);
        for (a, b) in (0..p).flat_map(|a| (0..p).map(move |b| (a, b))).filter(|(a, b)| counts(*a) && counts(*b)) {
            for column in 0..d {
                informed[(a * n + row, column)] += information[a * p + b] * jacobian[(b * n + row, column)];
            }
        }
    }
    multiply(sum.as_mut(), Accum::Add, jacobian.transpose(), informed.as_ref());
    drop((jacobian, informed));

    (0..p).filter(|k| !counts(*k)).for_each(|k| scores[k * n..(k + 1) * n].fill(0.0));
    for start in (0..d).step_by(COLUMNS) {
        let end = (start + COLUMNS).min(d);
        let columns: Vec<Vec<f64>> =
            (start..end).into_par_iter().map(|index| second_derivatives(map, theta, &scores, index)).collect();
        for (column, values) in (start..end).zip(&columns) {
            for row in column..d {
                sum[(row, column)] -= values[row];
            }
        }
    }
    match (0..d).flat_map(|column| (column..d).map(move |row| (row, column))).find(|at| !sum[*at].is_finite()) {
        Some((row, column)) => Err(Error::NotFinite { what: "the Hessian of the log likelihood", row, column }),
        None => Ok(()),
    }
}

/// Column `index` of Σₙ rₙ∇²fₙ, from its diagonal entry on.
pub(crate) fn second_derivatives(map: &Arc<dyn Map>, theta: &[f64], scores: &[f64], index: usize) -> Vec<f64> {
    let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
    let (mut direction, mut column) = (vec![0.0; d], vec![0.0; d]);
    direction[index] = 1.0;
    if let Some(rows) = map.clone().rows_along(theta, &direction, scores, 1) {
        rows.transpose_times(&vec![1.0; n], &mut column, &mut Scratch::default());
        return column;
    }
    let (mut evaluator, mut jet) = (map.clone().evaluate(1), Jet::new(n, p));
    let mut bend = |direction: &[f64]| {
        evaluator.jet(theta, direction, &mut jet);
        dot(scores, &jet.second)
    };
    column[index] = bend(&direction);
    for other in index + 1..d {
        direction[other] = 1.0;
        let plus = bend(&direction);
        direction[other] = -1.0;
        column[other] = 0.25 * (plus - bend(&direction));
        direction[other] = 0.0;
    }
    column
}
