//! The Laplace bridge (MacKay 1998; Hobbhahn et al. 2022): from a Gaussian over logits to the Dirichlet distribution with
//! α_k = (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k, on logits that sum to zero: conditioned on that (as in these papers), or
//! with their mean subtracted.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::links::is_binary;
use super::{LatentGaussian, Moments, log_sum_exp};
use crate::likelihood::Family;

impl LatentGaussian {
    /// The moments of the bridge's Dirichlet distributions.
    pub(super) fn bridge(&self, family: &Family) -> Moments {
        self.bridge_moments(|t, k| match is_binary(family) {
            true => (self.binary_bridge(t, k), Some(1)),
            false => (self.class_bridge(t), None),
        })
    }

    /// The means and variances of Dirichlet distributions: for output k of a point, the distribution and, unless it is k
    /// itself, the class whose probability is meant.
    pub(super) fn bridge_moments(&self, dirichlet: impl Fn(usize, usize) -> (Dirichlet, Option<usize>)) -> Moments {
        let (points, p) = self.mean.dim();
        let (mut mean, mut epistemic) = (Array2::zeros((points, p)), Array2::zeros((points, p)));
        for t in 0..points {
            for k in 0..p {
                let (dirichlet, class) = dirichlet(t, k);
                mean[(t, k)] = dirichlet.log_probabilities[class.unwrap_or(k)].exp();
                epistemic[(t, k)] = mean[(t, k)] * (1.0 - mean[(t, k)]) * dirichlet.spread;
            }
        }
        let aleatoric = Array2::from_shape_fn(mean.dim(), |at| (mean[at] * (1.0 - mean[at]) - epistemic[at]).max(0.0));
        Moments::from_parts(mean, epistemic, aleatoric)
    }

    /// The bridge of one yes/no answer: two classes with logits (0, f), centred: (−f/2, f/2).
    pub(super) fn binary_bridge(&self, t: usize, k: usize) -> Dirichlet {
        let (half, quarter) = (0.5 * self.mean[(t, k)], 0.25 * self.covariance[(t, k, k)]);
        Dirichlet::bridge(&[-half, half], &[quarter, quarter])
    }

    /// The bridge of the classes at a point, from logits that sum to zero already.
    pub(super) fn plain_bridge(&self, t: usize) -> Dirichlet {
        let variances: Vec<f64> = (0..self.mean.ncols()).map(|k| self.covariance[(t, k, k)].max(0.0)).collect();
        Dirichlet::bridge(&self.mean.row(t).to_vec(), &variances)
    }

    /// The bridge of the classes at a point, from logits conditioned on their sum being zero.
    pub(super) fn class_bridge(&self, t: usize) -> Dirichlet {
        let (logits, variances) = centred(self.mean.row(t), self.covariance.index_axis(ndarray::Axis(0), t));
        Dirichlet::bridge(&logits, &variances)
    }
}

/// Logits and variances after conditioning on their sum being zero.
fn centred(mean: ArrayView1<'_, f64>, covariance: ArrayView2<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let row_sums: Vec<f64> = covariance.rows().into_iter().map(|row| row.sum()).collect();
    let (total, sum): (f64, f64) = (row_sums.iter().sum(), mean.sum());
    // When the sum is certain (up to rounding), it carries no information about the logits: the same amount is
    // subtracted from each.
    let count = row_sums.len() as f64;
    let rounding = 4.0 * count * f64::EPSILON * covariance.iter().map(|value| value.abs()).sum::<f64>();
    let share = |k: usize| if total > rounding { row_sums[k] / total } else { 1.0 / count };
    let logits = mean.iter().enumerate().map(|(k, m)| m - share(k) * sum).collect();
    let variances = (0..row_sums.len()).map(|k| (covariance[(k, k)] - share(k) * row_sums[k]).max(0.0)).collect();
    (logits, variances)
}

/// A Dirichlet distribution over class probabilities, given by its means p and the factor that multiplies p(1 − p) in
/// their variances.
pub(super) struct Dirichlet {
    pub log_probabilities: Vec<f64>,
    /// 1/(1 + Σα).
    spread: f64,
}

impl Dirichlet {
    /// The Laplace bridge from centred logits. Where a variance vanishes, the distribution is a point mass.
    fn bridge(logits: &[f64], variances: &[f64]) -> Self {
        let count = logits.len() as f64;
        if variances.iter().any(|variance| *variance <= 0.0) {
            let normaliser = log_sum_exp(logits.iter().copied());
            return Self { log_probabilities: logits.iter().map(|f| f - normaliser).collect(), spread: 0.0 };
        }
        let log_inverse_sum = log_sum_exp(logits.iter().map(|f| -f));
        let log_concentration = |(f, variance): (&f64, &f64)| {
            // log(1 − 2/K + eʷ) with w ≥ −2 log K, without overflow.
            let log_weight = f + log_inverse_sum - 2.0 * count.ln();
            log_weight + ((1.0 - 2.0 / count) * (-log_weight).exp()).ln_1p() - variance.ln()
        };
        let log_concentrations: Vec<f64> = logits.iter().zip(variances).map(log_concentration).collect();
        let log_total = log_sum_exp(log_concentrations.iter().copied());
        let log_probabilities = log_concentrations.iter().map(|value| value - log_total).collect();
        Self { log_probabilities, spread: 1.0 / (1.0 + log_total.exp()) }
    }
}
