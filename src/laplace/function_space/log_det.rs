//! log det S as a function of the hyperparameters, S = I + J̃A⁻¹J̃ᵀ: from one Gram matrix per α or, with one α per parameter,
//! from dense rows.

use faer::{Accum, Mat};

use super::factor_with_identity;
use crate::laplace::{LogDet, LogDetRatio};
use crate::linalg::{Cholesky, inverse_lower, multiply_by_own_transpose, trace_of_product};

/// 1/s of every row (numbered p·N + n), and the index of its scale: one for all outputs, or one per output.
fn row_scales(log_scales: &[f64], size: usize, n_points: usize) -> (Vec<f64>, impl Fn(usize) -> usize) {
    let several = log_scales.len() > 1;
    let level_of = move |row: usize| if several { row / n_points } else { 0 };
    let scales = (0..size).map(|row| (-log_scales.get(level_of(row)).copied().unwrap_or(0.0)).exp()).collect();
    (scales, level_of)
}

/// ∂ log det S/∂log s_p = −2 Σ_r (S⁻¹K)_rr = −2 Σ_r (1 − S⁻¹_rr) over the rows r of output p, K = S − I.
fn by_log_scale(inverse: &Mat<f64>, levels: usize, level_of: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut derivatives = vec![0.0; levels];
    for row in (0..inverse.nrows()).filter(|_| levels > 0) {
        derivatives[level_of(row)] -= 2.0 * (1.0 - inverse[(row, row)]);
    }
    derivatives
}

/// Dense rows at unit scale (numbered p·N + n), for one α per parameter.
pub(super) struct DenseRows {
    pub(super) rows: Mat<f64>,
    pub(super) n_points: usize,
}

impl LogDet for DenseRows {
    /// With B = D_s J̃ A^(−½), D_s the rows' 1/s, and S = I + BBᵀ = LLᵀ: ∂/∂log α_d = −‖(L⁻¹B)_d‖², column by column.
    fn evaluate(&self, log_alpha: &[f64], log_scales: &[f64]) -> Option<LogDetRatio> {
        let size = self.rows.nrows();
        let (scales, level_of) = row_scales(log_scales, size, self.n_points);
        let mut scaled = self.rows.clone();
        for (column, log) in scaled.col_iter_mut().zip(log_alpha) {
            let deviation = (-0.5 * log).exp();
            column.iter_mut().zip(&scales).for_each(|(entry, scale)| *entry *= deviation * scale);
        }
        let mut cholesky = Cholesky::new(size);
        multiply_by_own_transpose(cholesky.matrix_mut(), Accum::Replace, scaled.as_ref());
        factor_with_identity(&mut cholesky).ok()?;
        cholesky.solve_lower_many(scaled.as_mut());
        let by_log_alpha = scaled.col_iter().map(|column| -column.squared_norm_l2()).collect();
        let by_log_sigma = match log_scales {
            [] => Vec::new(),
            levels => by_log_scale(&inverse_lower(&cholesky), levels.len(), level_of),
        };
        Some(LogDetRatio { value: cholesky.log_det(), by_log_alpha, by_log_sigma })
    }
}

/// Gram matrices at unit scale, one per α (rows numbered p·N + n); one scale for all outputs, or one per output.
pub(super) struct Grams {
    pub(super) grams: Vec<Mat<f64>>,
    pub(super) n_points: usize,
}

impl LogDet for Grams {
    /// With S = I + K, K = Σ_l D_s K_l D_s/α_l: ∂/∂log α_l = −tr(S⁻¹ D_sK_lD_s)/α_l.
    fn evaluate(&self, log_alpha: &[f64], log_scales: &[f64]) -> Option<LogDetRatio> {
        let size = self.grams.first()?.nrows();
        let (scales, level_of) = row_scales(log_scales, size, self.n_points);
        let mut cholesky = Cholesky::new(size);
        let mut matrix = cholesky.matrix_mut();
        for c in 0..size {
            for r in c..size {
                let entry: f64 = self.grams.iter().zip(log_alpha).map(|(gram, log)| gram[(r, c)] * (-log).exp()).sum();
                matrix[(r, c)] = scales[r] * entry * scales[c];
            }
        }
        factor_with_identity(&mut cholesky).ok()?;
        let inverse = inverse_lower(&cholesky);
        let mut scaled_inverse = inverse.clone();
        for c in 0..size {
            for r in c..size {
                scaled_inverse[(r, c)] *= scales[r] * scales[c];
            }
        }
        let by_log_alpha =
            self.grams.iter().zip(log_alpha).map(|(gram, log)| -(-log).exp() * trace_of_product(&scaled_inverse, gram));
        let by_log_sigma = by_log_scale(&inverse, log_scales.len(), level_of);
        Some(LogDetRatio { value: cholesky.log_det(), by_log_alpha: by_log_alpha.collect(), by_log_sigma })
    }
}
