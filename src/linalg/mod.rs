//! A thin layer over faer: the dense linear algebra that the geometry needs, in f64, with reused storage.
//!
//! Matrices are faer's column-major [`Mat`]. Symmetric matrices are read from their lower triangle.

mod arrays;
mod cholesky;
mod conjugate_gradients;
mod eigen;
mod elementwise;
mod low_rank;
mod number;
mod parts;
mod rounded;
mod small;
mod symmetric;
mod threads;

pub(crate) use arrays::{columns_of, first_not_finite, write_rows};
pub use cholesky::{Cholesky, FailedPivot};
pub use conjugate_gradients::{ConjugateGradients, Convergence, Iterate, StoppingRule};
pub use eigen::{SymmetricEigen, eigenvalues, symmetric_eigen};
pub use elementwise::{add_products, add_scaled, add_shifted_products, affine, dot, norm, products, scale_by, sum};
pub use low_rank::LowRankInverse;
pub use number::Number;
pub(crate) use parts::in_parts;
pub use rounded::{RoundedCholesky, RoundedFactor, rounded_inner_products, subtract_rounded};
pub(crate) use small::SMALL;
pub use small::instruction_set;
pub use symmetric::{
    PackedFactor, inverse_lower, mirror_lower, pack_lower, packed_diagonal, packed_length, trace_of_product,
    unpack_lower,
};
pub(crate) use threads::{lead, share, threads_are_free};

use std::sync::atomic::{AtomicU64, Ordering};

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, ColMut, ColRef, Mat, MatMut, MatRef, Par};

/// Multiply-adds below which a product is not worth sharing among threads. (One sample of width 300 on two threads: 1.25 s by the
/// clock, and 1.38 with five times as many.)
const PARALLEL_THRESHOLD: f64 = 4e6;

/// Products and triangular systems of at least this many multiply-adds are counted; for less, counting would show in the time.
const COUNTED: f64 = (1u64 << 14) as f64;
static WORK: AtomicU64 = AtomicU64::new(0);

/// The multiply-adds of the products and systems of this process so far, small ones left out: the count that
/// `docs/scaling.md` has formulas for.
pub fn multiply_adds() -> u64 {
    WORK.load(Ordering::Relaxed)
}

/// How faer may share a product of `work` multiply-adds among the threads of the current pool.
///
/// Inside a parallel loop over samples the pool is busy already, and products stay sequential.
pub fn parallelism(work: f64) -> Par {
    if work >= COUNTED {
        WORK.fetch_add(work as u64, Ordering::Relaxed);
    }
    if is_worth_sharing(work) { Par::rayon(0) } else { Par::Seq }
}

/// Whether threads are free to share products of `work` multiply-adds, and gain by it.
pub(crate) fn is_worth_sharing(work: f64) -> bool {
    work >= PARALLEL_THRESHOLD && threads_are_free()
}

/// Up to this many columns (of the left factor) or rows (of the product) a plain loop beats faer's blocked kernels.
const THIN: usize = 4;

/// The bytes that products of matrices keep on every thread that makes one, from the first product on.
pub const KEPT_BY_PRODUCTS: u64 = 64 << 20;

/// Makes a product on this thread, so that what products keep is there before other memory is promised.
pub fn warm_up() {
    let factor = Mat::<f64>::identity(96, 96);
    let mut product = Mat::zeros(96, 96);
    multiply(product.as_mut(), Accum::Replace, factor.as_ref(), factor.as_ref());
}

/// The message for a column that should be contiguous but is not.
const STRIDED: &str = "columns taken as slices belong to matrices whose columns are contiguous";

/// A column of a matrix whose columns are contiguous, as a slice.
///
/// Inside this crate only, where such matrices are owned, or blocks of rows and columns of owned ones; public functions
/// that take views check with [`by_columns`] first. Any other column is a bug in this crate and panics: a product
/// without that column would be a wrong number that nobody notices.
#[allow(clippy::expect_used, reason = "every caller passes columns of matrices that it owns or has checked; see above")]
pub(crate) fn column_slice<T>(column: ColRef<'_, T>) -> &[T] {
    column.try_as_col_major().map(ColRef::as_slice).expect(STRIDED)
}

/// As [`column_slice`], mutable.
#[allow(clippy::expect_used, reason = "every caller passes columns of matrices that it owns or has checked; see above")]
pub(crate) fn column_slice_mut<T>(column: ColMut<'_, T>) -> &mut [T] {
    column.try_as_col_major_mut().map(ColMut::as_slice_mut).expect(STRIDED)
}

/// Whether the columns are contiguous.
pub(crate) fn by_columns(matrix: MatRef<'_, f64>) -> bool {
    matrix.try_as_col_major().is_some()
}

/// Works on a copy with contiguous columns, and copies the result back.
pub(crate) fn through_columns(mut target: MatMut<'_, f64>, work: impl FnOnce(MatMut<'_, f64>)) {
    let mut copy = target.rb().to_owned();
    work(copy.as_mut());
    target.copy_from(&copy);
}

/// Sums over few columns: dst ← beta·dst + Σₖ lhsₖ·rhsₖ for each column of dst.
fn combine_columns(dst: MatMut<'_, f64>, accumulate: Accum, lhs: MatRef<'_, f64>, rhs: MatRef<'_, f64>) {
    for (j, column) in dst.col_iter_mut().enumerate() {
        let column = column_slice_mut(column);
        for (k, source) in lhs.col_iter().enumerate() {
            let (source, factor) = (column_slice(source), rhs[(k, j)]);
            if k == 0 && accumulate == Accum::Replace {
                affine(0.0, factor, source, column);
            } else {
                add_scaled(factor, source, column);
            }
        }
    }
}

/// Inner products with the columns of `rows`: dst ← beta·dst + rowsᵀ·rhs.
fn inner_products(mut dst: MatMut<'_, f64>, accumulate: Accum, rows: MatRef<'_, f64>, rhs: MatRef<'_, f64>) {
    for (j, column) in rhs.col_iter().enumerate() {
        let column = column_slice(column);
        for (i, row) in rows.col_iter().enumerate() {
            let product = dot(column_slice(row), column);
            dst[(i, j)] = if accumulate == Accum::Replace { product } else { dst[(i, j)] + product };
        }
    }
}

/// dst ← beta·dst + lhs·rhs, with beta 0 ([`Accum::Replace`]) or 1 ([`Accum::Add`]).
pub fn multiply(dst: MatMut<'_, f64>, accumulate: Accum, lhs: MatRef<'_, f64>, rhs: MatRef<'_, f64>) {
    if (1..=THIN).contains(&lhs.ncols()) && by_columns(lhs) && by_columns(dst.as_ref()) {
        return combine_columns(dst, accumulate, lhs, rhs);
    }
    if lhs.nrows() <= THIN && by_columns(lhs.transpose()) && by_columns(rhs) {
        return inner_products(dst, accumulate, lhs.transpose(), rhs);
    }
    let work = lhs.nrows() as f64 * lhs.ncols() as f64 * rhs.ncols() as f64;
    faer::linalg::matmul::matmul(dst, accumulate, lhs, rhs, 1.0, parallelism(work));
}

/// dst ← offsets + lhs·rhs, one offset per column (zero where there is none).
pub fn multiply_with_offsets(mut dst: MatMut<'_, f64>, offsets: &[f64], lhs: MatRef<'_, f64>, rhs: MatRef<'_, f64>) {
    let offset = |j: usize| offsets.get(j).copied().unwrap_or(0.0);
    if !by_columns(dst.rb()) {
        return through_columns(dst, |dst| multiply_with_offsets(dst, offsets, lhs, rhs));
    }
    if lhs.ncols() == 1 && by_columns(lhs) {
        let source = column_slice(lhs.col(0));
        in_parts(dst.nrows() * dst.ncols(), dst, |first, dst| {
            for (j, column) in (first..).zip(dst.col_iter_mut()) {
                affine(offset(j), rhs[(0, j)], source, column_slice_mut(column));
            }
        });
        return;
    }
    for (j, column) in dst.rb_mut().col_iter_mut().enumerate() {
        column_slice_mut(column).fill(offset(j));
    }
    multiply(dst, Accum::Add, lhs, rhs);
}

/// The lower triangle of dst ← beta·dst + lhs·lhsᵀ.
pub fn multiply_by_own_transpose(dst: MatMut<'_, f64>, accumulate: Accum, lhs: MatRef<'_, f64>) {
    let columns = lhs.transpose();
    if lhs.nrows() <= SMALL && accumulate == Accum::Replace && by_columns(columns) {
        return small::own_products(columns, dst);
    }
    let work = 0.5 * lhs.nrows() as f64 * lhs.ncols() as f64 * lhs.nrows() as f64;
    triangular::matmul(
        dst,
        BlockStructure::TriangularLower,
        accumulate,
        lhs,
        BlockStructure::Rectangular,
        lhs.transpose(),
        BlockStructure::Rectangular,
        1.0,
        parallelism(work),
    );
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;

    #[test]
    fn products_are_the_same_whichever_way_the_matrices_are_stored() {
        for (rows, inner, columns) in [(5, 1, 3), (5, 3, 4), (3, 7, 2), (9, 9, 9)] {
            let lhs = Mat::from_fn(rows, inner, |i, k| ((3 * i + 5 * k) % 7) as f64 - 2.5);
            let rhs = Mat::from_fn(inner, columns, |k, j| ((2 * k + 7 * j) % 5) as f64 - 1.5);
            let offsets: Vec<f64> = (0..columns).map(|j| 0.5 * j as f64).collect();
            // Sums of few halves and quarters: exact in any order.
            let product =
                Mat::from_fn(rows, columns, |i, j| (0..inner).map(|k| lhs[(i, k)] * rhs[(k, j)]).sum::<f64>());
            let square = Mat::from_fn(rows, rows, |i, j| (0..inner).map(|k| lhs[(i, k)] * lhs[(j, k)]).sum::<f64>());
            let (left_rows, right_rows) = (lhs.transpose().to_owned(), rhs.transpose().to_owned());
            for left in [lhs.as_ref(), left_rows.transpose()] {
                for right in [rhs.as_ref(), right_rows.transpose()] {
                    let mut stored: [Mat<f64>; 2] = [Mat::zeros(rows, columns), Mat::zeros(columns, rows)];
                    let [by_columns, by_rows] = &mut stored;
                    for mut target in [by_columns.as_mut(), by_rows.as_mut().transpose_mut()] {
                        multiply(target.rb_mut(), Accum::Replace, left, right);
                        assert_eq!(target.rb().to_owned(), product);
                        multiply_with_offsets(target.rb_mut(), &offsets, left, right);
                        assert_eq!(
                            target.rb().to_owned(),
                            Mat::from_fn(rows, columns, |i, j| product[(i, j)] + offsets[j])
                        );
                    }
                }
                let mut stored: [Mat<f64>; 2] = [Mat::zeros(rows, rows), Mat::zeros(rows, rows)];
                let [by_columns, by_rows] = &mut stored;
                for mut target in [by_columns.as_mut(), by_rows.as_mut().transpose_mut()] {
                    multiply_by_own_transpose(target.rb_mut(), Accum::Replace, left);
                    for (i, j) in (0..rows).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                        assert_eq!(target[(i, j)], square[(i, j)]);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "contiguous")]
    fn a_strided_column_is_never_taken_for_an_empty_one() {
        let matrix: Mat<f64> = Mat::zeros(3, 3);
        column_slice(matrix.transpose().col(1));
    }

    /// The bits of large products and factors, which are shared among threads.
    fn bits(threads: usize) -> Vec<u64> {
        let matrix =
            |seed: usize| Mat::from_fn(420, 420, |i, j| (((i * 7 + j * 13 + seed) % 101) as f64 - 50.0) / 37.0);
        let (left, right) = (matrix(1), matrix(2));
        std::thread::spawn(move || {
            // A separate pool, to which this thread does not belong, as in a program that sets its number of threads.
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            assert!(pool.is_ok());
            let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
            let (mut product, mut square) = (Mat::zeros(420, 420), Mat::zeros(420, 420));
            faer::linalg::matmul::matmul(product.as_mut(), Accum::Replace, left.as_ref(), right.as_ref(), 1.0, par);
            triangular::matmul(
                square.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Replace,
                left.as_ref(),
                BlockStructure::Rectangular,
                left.transpose(),
                BlockStructure::Rectangular,
                1.0,
                par,
            );
            let lower = square
                .col_iter()
                .enumerate()
                .flat_map(|(j, column)| column.iter().skip(j).map(|value: &f64| value.to_bits()).collect::<Vec<u64>>());
            product
                .col_iter()
                .flat_map(|column| column.iter().map(|v: &f64| v.to_bits()).collect::<Vec<u64>>())
                .chain(lower)
                .collect()
        })
        .join()
        .unwrap_or_default()
    }

    #[test]
    fn products_have_the_same_bits_on_any_number_of_threads() {
        let one = bits(1);
        assert!(!one.is_empty());
        for threads in [2, 3, 4] {
            assert!(bits(threads) == one, "{threads} threads round differently");
        }
    }
}
