//! Gram matrices J̃ V J̃ᵀ for a diagonal V with one variance per group of parameters, which rows compute themselves, or
//! one per parameter, for which they need not know how.

use faer::{Accum, MatMut};

use super::{Rows, Scratch};
use crate::linalg::multiply_by_own_transpose;

/// The most numbers of dense rows that are kept at once for one Gram matrix: 512 MB.
const DENSE_NUMBERS: usize = 1 << 26;

/// Whether there is one variance for each parameter rather than for each group.
fn is_per_weight(rows: &dyn Rows, variances: &[f64]) -> bool {
    variances.len() == rows.n_params() && variances.len() != rows.group_sizes().len()
}

/// The lower triangle of J̃ V J̃ᵀ, with one variance per group or one per parameter.
///
/// With one per parameter, J̃V^½ is written out where it has at most 2²⁶ entries; otherwise each column is a product with
/// J̃ᵀ and one with J̃.
pub fn weighted_gram(rows: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
    if !is_per_weight(rows, variances) {
        return rows.gram(variances, gram, scratch);
    }
    let (m, d) = (rows.n_rows(), rows.n_params());
    if m.saturating_mul(d) > DENSE_NUMBERS {
        return by_products(rows, rows, variances, gram, scratch);
    }
    let mut scaled = scratch.matrix(m, d);
    rows.dense(scaled.as_mut());
    for (column, variance) in scaled.as_mut().col_iter_mut().zip(variances) {
        let deviation = variance.sqrt();
        column.iter_mut().for_each(|entry| *entry *= deviation);
    }
    multiply_by_own_transpose(gram, Accum::Replace, scaled.as_ref());
}

/// J̃ V J̃′ᵀ between these rows and those of the same model at other points, with one variance per group or one per
/// parameter.
pub fn weighted_cross_gram(
    rows: &dyn Rows,
    other: &dyn Rows,
    variances: &[f64],
    gram: MatMut<'_, f64>,
    scratch: &mut Scratch,
) {
    if is_per_weight(rows, variances) {
        by_products(rows, other, variances, gram, scratch);
    } else {
        rows.cross_gram(other, variances, gram, scratch);
    }
}

/// Column k of J̃ V J̃′ᵀ as J̃(V(J̃′ᵀe_k)).
fn by_products(rows: &dyn Rows, other: &dyn Rows, variances: &[f64], mut gram: MatMut<'_, f64>, scratch: &mut Scratch) {
    let (mut unit, mut row) = (vec![0.0; other.n_rows()], vec![0.0; rows.n_params()]);
    let mut product = vec![0.0; rows.n_rows()];
    for k in 0..other.n_rows() {
        unit[k] = 1.0;
        other.transpose_times(&unit, &mut row, scratch);
        unit[k] = 0.0;
        row.iter_mut().zip(variances).for_each(|(entry, variance)| *entry *= variance);
        rows.times(&row, &mut product, scratch);
        for (entry, value) in gram.as_mut().col_mut(k).iter_mut().zip(&product) {
            *entry = *value;
        }
    }
}
