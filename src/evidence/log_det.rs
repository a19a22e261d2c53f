//! log det G − log det A as a function of (log α, log σ), with its gradient: from eigenvalues, or from factorisations.

use faer::Mat;

use crate::error::Result;
use crate::laplace::curvature::{Curvature, unit_gram};
use crate::likelihood::Family;
use crate::linalg::{Cholesky, eigenvalues};
use crate::map::DifferentiableMap;
use crate::memory;
use crate::network::Network;
use crate::prior::PriorPrecision;

/// What to do when the general form does not fit in memory.
const ADVICE: &str = "tune one prior precision and one sigma, which needs a single matrix, or raise `--max-memory`";

/// log det G − log det A and its gradient with respect to each log α and each log σ.
#[derive(Debug, Clone)]
pub(super) struct LogDetRatio {
    pub value: f64,
    pub by_log_alpha: Vec<f64>,
    pub by_log_sigma: Vec<f64>,
}

/// A way to evaluate the log determinant ratio.
pub(super) enum LogDet {
    /// Eigenvalues of the curvature at α = σ = 1; one α and one σ.
    Spectrum(Vec<f64>),
    /// Curvature matrices at σ = 1, one for all outputs or one for each; one α for each group of parameters.
    Weight { parts: Vec<Mat<f64>>, groups: Vec<usize> },
    /// Gram matrices at σ = 1, one for each α (rows numbered p·N + n); one σ for all outputs or one for each.
    Function { grams: Vec<Mat<f64>>, n_points: usize },
}

impl LogDet {
    /// The spectrum, for one α and one σ.
    pub fn spectrum(curvature: &Curvature, network: &Network, family: &Family) -> Result<Self> {
        let values = match curvature {
            Curvature::Weight(parts) => {
                let mut total = parts[0].clone();
                for part in &parts[1..] {
                    total += part;
                }
                eigenvalues(total.as_ref(), "the curvature")?
            }
            Curvature::Function(map) => {
                let variances = vec![1.0; network.architecture().layer_params().len()];
                let gram = unit_gram(map, network.parameters(), family, &variances)?;
                eigenvalues(gram.as_ref(), "the Gram matrix")?
            }
        };
        // The curvature is positive semidefinite: what rounding put below zero is zero.
        Ok(LogDet::Spectrum(values.into_iter().map(|value| value.max(0.0)).collect()))
    }

    /// The general form: `layers` tells whether each layer has an α of its own.
    pub fn general(curvature: &Curvature, network: &Network, family: &Family, layers: bool) -> Result<Self> {
        let groups = network.architecture().layer_params();
        match curvature {
            Curvature::Weight(parts) => {
                // The parts, the factor, its inverse and the inverse of the matrix.
                let numbers = (parts.len() + 3) as f64 * (parts[0].nrows() as f64).powi(2);
                memory::check("tuning in weight space", numbers, ADVICE)?;
                let groups = if layers { groups } else { vec![groups.iter().sum()] };
                Ok(LogDet::Weight { parts: parts.clone(), groups })
            }
            Curvature::Function(map) => {
                // A Gram matrix for each α, the factor, its inverse, and the inverse of the matrix as it is and scaled.
                let size = (map.n_points() * map.n_outputs()) as f64;
                let count = if layers { groups.len() + 4 } else { 5 };
                memory::check("tuning in function space", count as f64 * size * size, ADVICE)?;
                let unit = |variances: &[f64]| unit_gram(map, network.parameters(), family, variances);
                let grams = if layers {
                    let one_hot =
                        |layer| (0..groups.len()).map(|l| if l == layer { 1.0 } else { 0.0 }).collect::<Vec<_>>();
                    (0..groups.len()).map(|layer| unit(&one_hot(layer))).collect::<Result<_>>()?
                } else {
                    vec![unit(&vec![1.0; groups.len()])?]
                };
                Ok(LogDet::Function { grams, n_points: map.n_points() })
            }
        }
    }

    /// The value and gradient; `None` where a factorisation fails (far out in the hyperparameters).
    pub fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        match self {
            LogDet::Spectrum(eigenvalues) => Some(from_spectrum(eigenvalues, log_alpha, log_sigma)),
            LogDet::Weight { parts, groups } => from_precision(parts, groups, log_alpha, log_sigma),
            LogDet::Function { grams, n_points } => from_grams(grams, *n_points, log_alpha, log_sigma),
        }
    }
}

fn from_spectrum(eigenvalues: &[f64], log_alpha: &[f64], log_sigma: &[f64]) -> LogDetRatio {
    let scale = (log_alpha[0] + 2.0 * log_sigma.first().copied().unwrap_or(0.0)).exp();
    let (mut value, mut effective) = (0.0, 0.0);
    for eigenvalue in eigenvalues {
        value += (eigenvalue / scale).ln_1p();
        effective += eigenvalue / (eigenvalue + scale);
    }
    LogDetRatio { value, by_log_alpha: vec![-effective], by_log_sigma: vec![-2.0 * effective; log_sigma.len()] }
}

/// With G = A + Σ_p C_p/σ_p²: ∂/∂log α_l = tr(G⁻¹A_l) − D_l and ∂/∂log σ_p = −2 tr(G⁻¹C_p)/σ_p².
fn from_precision(parts: &[Mat<f64>], groups: &[usize], log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
    let size = parts[0].nrows();
    let prior = PriorPrecision::per_group(log_alpha.iter().map(|value| value.exp()).collect(), groups).ok()?;
    let sigma_of = |part: usize| if log_sigma.len() > 1 { part } else { 0 };
    let weight = |part: usize| (-2.0 * log_sigma.get(sigma_of(part)).copied().unwrap_or(0.0)).exp();
    let weights: Vec<f64> = (0..parts.len()).map(weight).collect();
    let mut cholesky = Cholesky::new(size);
    let mut matrix = cholesky.matrix_mut();
    for (part, weight) in parts.iter().zip(&weights) {
        matrix += faer::Scale(*weight) * part;
    }
    prior.add_to_diagonal(matrix);
    cholesky.factor().ok()?;
    let inverse = inverse(&cholesky);
    let mut by_log_alpha = Vec::new();
    prior.for_each_group(|range, alpha| {
        let size = range.len() as f64;
        by_log_alpha.push(alpha * range.map(|d| inverse[(d, d)]).sum::<f64>() - size);
    });
    let mut by_log_sigma = vec![0.0; log_sigma.len()];
    for (index, (part, weight)) in parts.iter().zip(&weights).enumerate().filter(|_| !log_sigma.is_empty()) {
        by_log_sigma[sigma_of(index)] -= 2.0 * weight * trace_of_product(&inverse, part);
    }
    Some(LogDetRatio { value: cholesky.log_det() - prior.log_det(), by_log_alpha, by_log_sigma })
}

/// With S = I + K, K = Σ_l D_σ K_l D_σ/α_l: ∂/∂log α_l = −tr(S⁻¹ D_σK_lD_σ)/α_l and, for the rows r of output p,
/// ∂/∂log σ_p = −2 Σ_r (S⁻¹K)_rr = −2 Σ_r (1 − S⁻¹_rr).
fn from_grams(grams: &[Mat<f64>], n_points: usize, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
    let size = grams[0].nrows();
    let output_of = |row: usize| if log_sigma.len() > 1 { row / n_points } else { 0 };
    let scales: Vec<f64> =
        (0..size).map(|row| (-log_sigma.get(output_of(row)).copied().unwrap_or(0.0)).exp()).collect();
    let mut cholesky = Cholesky::new(size);
    let mut matrix = cholesky.matrix_mut();
    for c in 0..size {
        for r in c..size {
            let entry: f64 = grams.iter().zip(log_alpha).map(|(gram, log)| gram[(r, c)] * (-log).exp()).sum();
            matrix[(r, c)] = scales[r] * entry * scales[c];
        }
        matrix[(c, c)] += 1.0;
    }
    cholesky.factor().ok()?;
    let inverse = inverse(&cholesky);
    let mut scaled_inverse = inverse.clone();
    for c in 0..size {
        for r in c..size {
            scaled_inverse[(r, c)] *= scales[r] * scales[c];
        }
    }
    let by_log_alpha =
        grams.iter().zip(log_alpha).map(|(gram, log)| -(-log).exp() * trace_of_product(&scaled_inverse, gram));
    let mut by_log_sigma = vec![0.0; log_sigma.len()];
    for row in (0..size).filter(|_| !log_sigma.is_empty()) {
        by_log_sigma[output_of(row)] -= 2.0 * (1.0 - inverse[(row, row)]);
    }
    Some(LogDetRatio { value: cholesky.log_det(), by_log_alpha: by_log_alpha.collect(), by_log_sigma })
}

/// M⁻¹, lower triangle.
fn inverse(cholesky: &Cholesky) -> Mat<f64> {
    let size = cholesky.size();
    let mut root: Mat<f64> = Mat::identity(size, size);
    cholesky.solve_lower_many(root.as_mut());
    let mut inverse = Mat::zeros(size, size);
    crate::linalg::multiply_by_own_transpose(inverse.as_mut(), faer::Accum::Replace, root.transpose());
    inverse
}

/// tr(XY) of two symmetric matrices given by their lower triangles.
fn trace_of_product(x: &Mat<f64>, y: &Mat<f64>) -> f64 {
    let mut sum = 0.0;
    for c in 0..x.ncols() {
        sum += x[(c, c)] * y[(c, c)];
        for r in c + 1..x.nrows() {
            sum += 2.0 * x[(r, c)] * y[(r, c)];
        }
    }
    sum
}
