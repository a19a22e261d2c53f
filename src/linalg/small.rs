//! Kernels for small matrices, where faer's blocked ones spend more on packing and on choosing blocks than on
//! arithmetic: for 31 × 31 from 150 rows (the paper's network), the product takes three quarters of faer's time and the
//! factor a third.

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};
use pulp::{Simd, WithSimd};

use super::{FailedPivot, column_slice, column_slice_mut};

/// Up to this size these kernels are faster.
pub(crate) const SMALL: usize = 48;

/// Rows and columns of a block of inner products: with those of the operands its sums fill 16 vector registers.
const BLOCK: (usize, usize) = (4, 3);

/// The lower triangle of XᵀX for a matrix X with few columns, stored one after another.
struct OwnProducts<'a> {
    columns: MatRef<'a, f64>,
    product: MatMut<'a, f64>,
}

/// The inner products of each of `left` with each of `right`, slices of equal length.
///
/// Plain loops of constant length, which the compiler unrolls; closures over arrays (`array::map`) are functions of their
/// own without the vector instructions, and cost twice the time wherever they are not inlined.
#[inline(always)]
fn block<S: Simd>(simd: S, left: [&[f64]; BLOCK.0], right: [&[f64]; BLOCK.1]) -> [[f64; BLOCK.1]; BLOCK.0] {
    let zero = simd.splat_f64s(0.0);
    let mut sums = [[zero; BLOCK.1]; BLOCK.0];
    let (mut left_heads, mut left_tails): ([&[S::f64s]; BLOCK.0], [&[f64]; BLOCK.0]) = ([&[]; BLOCK.0], [&[]; BLOCK.0]);
    let (mut right_heads, mut right_tails): ([&[S::f64s]; BLOCK.1], [&[f64]; BLOCK.1]) =
        ([&[]; BLOCK.1], [&[]; BLOCK.1]);
    let length = S::as_simd_f64s(left[0]).0.len();
    for r in 0..BLOCK.0 {
        let (head, tail) = S::as_simd_f64s(left[r]);
        (left_heads[r], left_tails[r]) = (&head[..length], tail);
    }
    for c in 0..BLOCK.1 {
        let (head, tail) = S::as_simd_f64s(right[c]);
        (right_heads[c], right_tails[c]) = (&head[..length], tail);
    }
    let mut y = [zero; BLOCK.1];
    for k in 0..length {
        for c in 0..BLOCK.1 {
            y[c] = right_heads[c][k];
        }
        for r in 0..BLOCK.0 {
            let x = left_heads[r][k];
            for c in 0..BLOCK.1 {
                sums[r][c] = simd.mul_add_e_f64s(x, y[c], sums[r][c]);
            }
        }
    }
    if !left_tails[0].is_empty() {
        for c in 0..BLOCK.1 {
            y[c] = simd.partial_load_f64s(right_tails[c]);
        }
        for r in 0..BLOCK.0 {
            let x = simd.partial_load_f64s(left_tails[r]);
            for c in 0..BLOCK.1 {
                sums[r][c] = simd.mul_add_e_f64s(x, y[c], sums[r][c]);
            }
        }
    }
    let mut products = [[0.0; BLOCK.1]; BLOCK.0];
    for r in 0..BLOCK.0 {
        for c in 0..BLOCK.1 {
            products[r][c] = simd.reduce_sum_f64s(sums[r][c]);
        }
    }
    products
}

impl WithSimd for OwnProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { columns, mut product } = self;
        let size = columns.ncols();
        // Past the last column, the last one is repeated; its products are discarded.
        let column = |index: usize| column_slice(columns.col(index.min(size - 1)));
        for i in (0..size).step_by(BLOCK.0) {
            let mut left: [&[f64]; BLOCK.0] = [&[]; BLOCK.0];
            for (r, slice) in left.iter_mut().enumerate() {
                *slice = column(i + r);
            }
            for j in (0..size.min(i + BLOCK.0)).step_by(BLOCK.1) {
                let mut right: [&[f64]; BLOCK.1] = [&[]; BLOCK.1];
                for (c, slice) in right.iter_mut().enumerate() {
                    *slice = column(j + c);
                }
                let products = block(simd, left, right);
                for (r, products) in products.iter().enumerate() {
                    for (c, value) in products.iter().enumerate() {
                        if i + r < size && j + c <= i + r {
                            product[(i + r, j + c)] = *value;
                        }
                    }
                }
            }
        }
    }
}

/// The lower triangle of product ← XᵀX, with the columns of X one after another in memory.
pub(super) fn own_products(columns: MatRef<'_, f64>, product: MatMut<'_, f64>) {
    if columns.ncols() > 0 {
        pulp::Arch::new().dispatch(OwnProducts { columns, product });
    }
}

/// Vectors of a column that are summed at once.
const GROUP: usize = 4;
/// Columns are padded with zeros to a multiple of this: a group of the widest vectors.
const PADDING: usize = 32;

/// Room for the factor of a small matrix; none for a matrix that is not small.
pub(super) fn room(size: usize) -> Vec<f64> {
    if size <= SMALL { vec![0.0; size * size.next_multiple_of(PADDING)] } else { Vec::new() }
}

/// The Cholesky factor of a matrix whose columns are padded with zeros: from each column, all those to its left are
/// subtracted while it stays in registers. Entries above the diagonal have no meaning and no effect.
struct Factor<'a> {
    columns: &'a mut [f64],
    size: usize,
}

impl WithSimd for Factor<'_> {
    type Output = Result<(), FailedPivot>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let height = self.size.next_multiple_of(PADDING);
        let group = GROUP * S::F64_LANES;
        for j in 0..self.size {
            let (done, rest) = self.columns.split_at_mut(j * height);
            let first = j / group * group;
            let current = &mut rest[..height];
            for start in (first..height).step_by(group) {
                let vectors = S::as_mut_simd_f64s(&mut current[start..start + group]).0;
                let mut sums = [simd.splat_f64s(0.0); GROUP];
                sums.copy_from_slice(vectors);
                for column in done.chunks_exact(height) {
                    let factor = simd.splat_f64s(-column[j]);
                    let left = S::as_simd_f64s(&column[start..start + group]).0;
                    for (sum, left) in sums.iter_mut().zip(left) {
                        *sum = simd.mul_add_e_f64s(factor, *left, *sum);
                    }
                }
                vectors.copy_from_slice(&sums);
            }
            let pivot = current[j];
            if !(pivot > 0.0 && pivot.is_finite()) {
                return Err(FailedPivot(j));
            }
            let inverse = simd.splat_f64s(1.0 / pivot.sqrt());
            for value in S::as_mut_simd_f64s(&mut current[first..]).0 {
                *value = simd.mul_f64s(*value, inverse);
            }
        }
        Ok(())
    }
}

/// Replaces a matrix (its lower triangle) by its Cholesky factor.
pub(super) fn factor(lower: MatMut<'_, f64>, room: &mut [f64]) -> Result<(), FailedPivot> {
    factor_by(|work| pulp::Arch::new().dispatch(work), lower, room)
}

/// [`factor`] compiled for one instruction set.
fn factor_by(
    run: impl Fn(Factor<'_>) -> Result<(), FailedPivot>,
    mut lower: MatMut<'_, f64>,
    room: &mut [f64],
) -> Result<(), FailedPivot> {
    let size = lower.nrows();
    if size == 0 {
        return Ok(());
    }
    let height = size.next_multiple_of(PADDING);
    for (j, (column, target)) in lower.rb_mut().col_iter_mut().zip(room.chunks_exact_mut(height)).enumerate() {
        target[..j].fill(0.0);
        target[j..size].copy_from_slice(&column_slice_mut(column)[j..]);
    }
    run(Factor { columns: room, size })?;
    for (j, (column, source)) in lower.col_iter_mut().zip(room.chunks_exact(height)).enumerate() {
        column_slice_mut(column)[j..].copy_from_slice(&source[j..size]);
    }
    Ok(())
}

/// The vector instructions that this machine has and the kernels use.
///
/// ```
/// assert!(["AVX-512", "AVX2 and FMA", "baseline"].contains(&riemannian_laplace::internals::linalg::instruction_set()));
/// ```
pub fn instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if pulp::x86::V4::try_new().is_some() {
            return "AVX-512";
        }
        if pulp::x86::V3::try_new().is_some() {
            return "AVX2 and FMA";
        }
    }
    "baseline"
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::linalg::matmul::matmul;
    use faer::{Accum, Mat, Par};

    fn columns(rows: usize, size: usize) -> Mat<f64> {
        Mat::from_fn(rows, size, |i, j| ((i * 29 + j * 53 + i * j * 7) % 97) as f64 / 48.0 - 1.0)
    }

    /// Runs a kernel with each instruction set that this processor has, narrow ones too.
    fn with_every_width(
        mut kernel: impl FnMut(&dyn Fn(OwnProducts<'_>), &dyn Fn(Factor<'_>) -> Result<(), FailedPivot>),
    ) {
        let scalar = pulp::Scalar::new();
        kernel(&|work| scalar.vectorize(work), &|work| scalar.vectorize(work));
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = pulp::x86::V3::try_new() {
                kernel(&|work| Simd::vectorize(simd, work), &|work| Simd::vectorize(simd, work));
            }
            if let Some(simd) = pulp::x86::V4::try_new() {
                kernel(&|work| Simd::vectorize(simd, work), &|work| Simd::vectorize(simd, work));
            }
        }
    }

    #[test]
    fn own_products_are_inner_products() {
        for (rows, size) in [(0, 3), (1, 1), (5, 2), (8, 4), (150, 31), (33, 48)] {
            let x = columns(rows, size);
            with_every_width(|own_products, _| {
                let mut product = Mat::from_fn(size, size, |_, _| f64::NAN);
                own_products(OwnProducts { columns: x.as_ref(), product: product.as_mut() });
                for i in 0..size {
                    for j in 0..size {
                        let exact: f64 = (0..rows).map(|n| x[(n, i)] * x[(n, j)]).sum();
                        let sizes: f64 = (0..rows).map(|n| (x[(n, i)] * x[(n, j)]).abs()).sum();
                        // Two orders of summation differ by the rounding of each term and each sum.
                        let bound = 2.0 * rows as f64 * f64::EPSILON * sizes;
                        assert!(j > i || (product[(i, j)] - exact).abs() <= bound, "{rows} rows, ({i}, {j})");
                        assert!(j <= i || product[(i, j)].is_nan(), "the upper triangle is not touched");
                    }
                }
            });
        }
    }

    #[test]
    fn the_factor_squared_is_the_matrix() {
        for size in [1, 2, 7, 8, 9, 31, 48] {
            let x = columns(2 * size + 3, size);
            let mut matrix = Mat::zeros(size, size);
            matmul(matrix.as_mut(), Accum::Replace, x.transpose(), x.as_ref(), 1.0, Par::Seq);
            with_every_width(|_, by_this_width| {
                let mut lower = matrix.clone();
                assert_eq!(factor_by(by_this_width, lower.as_mut(), &mut room(size)), Ok(()));
                for i in 0..size {
                    for j in 0..=i {
                        let square: f64 = (0..=j).map(|k| lower[(i, k)] * lower[(j, k)]).sum();
                        // Backward stability: n eps times the diagonal (Higham 2002, theorem 10.3).
                        let bound = 2.0 * (size + 2) as f64 * f64::EPSILON * (matrix[(i, i)] * matrix[(j, j)]).sqrt();
                        assert!((square - matrix[(i, j)]).abs() <= bound, "size {size}, ({i}, {j})");
                        assert!(i == j || lower[(j, i)] == matrix[(j, i)], "the upper triangle is not touched");
                    }
                }
            });
        }
    }

    #[test]
    fn the_first_pivot_that_is_not_positive_is_named() {
        for (index, bad) in [(0, 0.0), (3, -1.0), (9, f64::NAN), (10, f64::INFINITY)] {
            let mut matrix = Mat::identity(11, 11);
            matrix[(index, index)] = bad;
            assert_eq!(factor(matrix.as_mut(), &mut room(11)), Err(FailedPivot(index)));
        }
    }
}
