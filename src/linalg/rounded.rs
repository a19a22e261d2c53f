//! A Cholesky factor for preconditioning, in f32.
//!
//! A preconditioner may be any fixed positive definite matrix near M⁻¹: with W near the inverse of its factor it is WᵀW, as
//! far from M⁻¹ as the digits of f32, while factors on a path differ from the matrices that they precondition in the
//! first. What it preconditions, and every vector outside of a solve, is f64, so that solutions and their errors are too:
//! rounding the factor changes by how many steps a solution is reached, not which one. What it gains is time: forming,
//! factoring and inverting in f32 takes 0.5 s where f64 takes 1.1 without the inverse (3,051 columns, 5,000 rows), and a
//! solve reads half of 9 million entries of 4 bytes, once.

use std::ops::{Add, Mul, Sub};

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::triangular_inverse;
use faer::{Mat, MatMut, MatRef};
use rayon::prelude::*;

use super::{Cholesky, column_slice, in_parts, parallelism, share, threads_are_free};
use crate::elementary::vectorized;

/// Columns that are taken together: each entry of a vector is then read and written once for all of them.
const PANEL: usize = 8;
/// Partial sums of each inner product.
const LANES: usize = 16;

/// A symmetric positive definite matrix in f32 and its factor, in half the time that [`Cholesky`] takes.
pub struct RoundedCholesky {
    lower: Mat<f32>,
    buffer: MemBuffer,
}

impl std::fmt::Debug for RoundedCholesky {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RoundedCholesky").field("lower", &self.lower).finish_non_exhaustive()
    }
}

impl RoundedCholesky {
    /// Storage for a matrix of this size.
    pub fn new(size: usize) -> Self {
        let scratch = llt::factor::cholesky_in_place_scratch::<f32>(size, parallelism(0.0), Default::default());
        Self { lower: Mat::zeros(size, size), buffer: MemBuffer::new(scratch) }
    }

    /// The matrix to be factored, of which the lower triangle is read.
    pub fn matrix_mut(&mut self) -> MatMut<'_, f32> {
        self.lower.as_mut()
    }

    /// Replaces the matrix by its factor. False where it is not positive definite in f32, as one may be that is so in f64.
    pub fn factor(&mut self) -> bool {
        let size = self.lower.nrows() as f64;
        let par = parallelism(size * size * size / 6.0);
        let stack = MemStack::new(&mut self.buffer);
        llt::factor::cholesky_in_place(self.lower.as_mut(), Default::default(), par, stack, Default::default()).is_ok()
    }
}

/// The inverse W = L⁻¹ of the factor of a positive definite matrix M = LLᵀ in f32: M⁻¹ = WᵀW, whatever the rounding a
/// positive definite matrix. It takes a Cholesky factorisation more than L, and a solve reads it once, where triangular
/// systems read L twice, and in parts that threads can share.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundedFactor {
    /// Wᵀ: row j of W is what is above and on the diagonal of column j.
    transposed: Mat<f32>,
}

/// The rows of W are taken in this many parts of about the same work, and their shares of a solution added in order.
const PARTS: usize = 4;
/// The least size for which parts are shared among threads.
const SHARED: usize = 1024;

impl RoundedFactor {
    /// No factor, with room for none.
    pub fn new() -> Self {
        Self { transposed: Mat::new() }
    }

    /// Takes over the factor. False, and not to be used, where an entry is beyond the range of f32.
    pub fn round(&mut self, factor: &Cholesky) -> bool {
        let lower = factor.lower();
        let entry = |i: usize, j: usize| if i < j { 0.0 } else { lower[(i, j)] as f32 };
        self.invert(Mat::from_fn(factor.size(), factor.size(), entry).as_ref())
    }

    /// The same of a factor made in f32.
    pub fn take(&mut self, factor: &RoundedCholesky) -> bool {
        self.invert(factor.lower.as_ref())
    }

    fn invert(&mut self, lower: MatRef<'_, f32>) -> bool {
        let size = lower.nrows();
        if (0..size).any(|j| !(lower[(j, j)] >= f32::MIN_POSITIVE && lower[(j, j)].is_finite())) {
            return false;
        }
        if self.transposed.nrows() != size {
            self.transposed = Mat::zeros(size, size);
        }
        let par = parallelism((size as f64).powi(3) / 6.0);
        triangular_inverse::invert_lower_triangular(self.transposed.as_mut().transpose_mut(), lower, par);
        // All entries of a row at once: stopping at the first takes ten times as long where all are finite.
        (0..size).all(|j| !self.row(j).iter().fold(false, |any, entry| any | !entry.is_finite()))
    }

    /// Row j of W, up to the diagonal.
    fn row(&self, j: usize) -> &[f32] {
        &column_slice(self.transposed.col(j))[..=j]
    }

    /// rhs ← (L Lᵀ)⁻¹ rhs, with room for a few vectors.
    pub fn solve(&self, rhs: &mut [f64], room: &mut Vec<f32>) {
        // Of the order of one, whatever the units: f32 has a narrow range.
        let scale = rhs.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        if scale == 0.0 || !scale.is_finite() {
            return rhs.iter_mut().for_each(|value| *value *= scale);
        }
        let size = rhs.len();
        room.clear();
        room.extend(rhs.iter().map(|value| (value / scale) as f32));
        room.resize((PARTS + 1) * size, 0.0);
        let (u, shares) = room.split_at_mut(size);
        if size >= SHARED && threads_are_free() {
            let parts = shares.par_chunks_mut(size).enumerate();
            share(|| parts.for_each(|(part, share)| self.add_part(part, u, share)));
        } else {
            shares.chunks_mut(size).enumerate().for_each(|(part, share)| self.add_part(part, u, share));
        }
        for (i, value) in rhs.iter_mut().enumerate() {
            *value = scale * (0..PARTS).map(|part| f64::from(shares[part * size + i])).sum::<f64>();
        }
    }

    /// The first row of a part: half of the work is above the root of a half of the rows.
    fn first_row(&self, part: usize) -> usize {
        let size = self.transposed.ncols();
        match part {
            PARTS => size,
            _ => (size as f64 * (part as f64 / PARTS as f64).sqrt()) as usize / PANEL * PANEL,
        }
    }

    /// share ← share + Σⱼ wⱼ(wⱼᵀu) over the rows wⱼ of a part.
    fn add_part(&self, part: usize, u: &[f32], share: &mut [f32]) {
        let (first, end) = (self.first_row(part), self.first_row(part + 1));
        let whole = first + (end - first) / PANEL * PANEL;
        for j in (first..whole).step_by(PANEL) {
            let rows: [&[f32]; PANEL] = std::array::from_fn(|k| self.row(j + k));
            let before = rows.map(|row| &row[..j]);
            let mut sums = inner_products(before, &u[..j]);
            for (k, row) in rows.iter().enumerate() {
                sums[k] += row[j..].iter().zip(&u[j..]).map(|(w, u)| w * u).sum::<f32>();
                share[j..].iter_mut().zip(&row[j..]).for_each(|(share, w)| *share += sums[k] * w);
            }
            subtract_columns(before, &sums.map(|sum| -sum), &mut share[..j]);
        }
        for j in whole..end {
            let sum = self.row(j).iter().zip(u).map(|(w, u)| w * u).sum::<f32>();
            share.iter_mut().zip(self.row(j)).for_each(|(share, w)| *share += sum * w);
        }
    }
}

impl Default for RoundedFactor {
    fn default() -> Self {
        Self::new()
    }
}

/// The columns of a panel that starts with column `first` of a matrix with `count` columns of this size; where fewer are
/// left, the last is taken for all the others.
fn panel_of(matrix: &[f32], size: usize, first: usize, count: usize) -> [&[f32]; PANEL] {
    std::array::from_fn(|k| {
        let column = (first + k).min(count - 1);
        &matrix[column * size..(column + 1) * size]
    })
}

/// The inner products of y with the first columns of a matrix in f32, as many as there are sums.
pub fn rounded_inner_products(matrix: &[f32], y: &[f64], sums: &mut [f64]) {
    let (size, count) = (y.len(), sums.len());
    in_parts(size * count, sums, |first, sums| {
        for (index, sums) in sums.chunks_mut(PANEL).enumerate() {
            let all = inner_products(panel_of(matrix, size, first + index * PANEL, count), y);
            sums.copy_from_slice(&all[..sums.len()]);
        }
    });
}

/// y ← y − Σₖ factorₖ·columnₖ, over the first columns of a matrix in f32, as many as there are factors.
pub fn subtract_rounded(matrix: &[f32], factors: &[f64], y: &mut [f64]) {
    let (size, count) = (y.len(), factors.len());
    in_parts(size * count, y, |first, y| {
        for (index, factors) in factors.chunks(PANEL).enumerate() {
            let mut padded = [0.0; PANEL];
            padded[..factors.len()].copy_from_slice(factors);
            let columns = panel_of(matrix, size, index * PANEL, count);
            subtract_columns(columns.map(|column| &column[first..first + y.len()]), &padded, y);
        }
    });
}

/// y ← y − Σₖ factorₖ·columnₖ.
fn subtract_columns<T: Term>(columns: [&[f32]; PANEL], factors: &[T], y: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let columns: [&[f32]; PANEL] = std::array::from_fn(|k| &columns[k][..y.len()]);
            let factors: [T; PANEL] = std::array::from_fn(|k| factors[k]);
            for i in 0..y.len() {
                let mut sum = T::default();
                for k in 0..PANEL {
                    sum = sum + factors[k] * T::from(columns[k][i]);
                }
                y[i] = y[i] - sum;
            }
        },
    );
}

/// The inner product of each column with y.
fn inner_products<T: Term>(columns: [&[f32]; PANEL], y: &[T]) -> [T; PANEL] {
    vectorized(
        #[inline(always)]
        || {
            // Arrays, so that the partial sums stay in registers.
            let (y, y_rest) = y.as_chunks::<LANES>();
            let rest = columns.map(|column| &column[LANES * y.len()..LANES * y.len() + y_rest.len()]);
            let columns = columns.map(|column| &column.as_chunks::<LANES>().0[..y.len()]);
            let mut sums = [[T::default(); LANES]; PANEL];
            for (i, y) in y.iter().enumerate() {
                for (sums, column) in sums.iter_mut().zip(&columns) {
                    for ((sum, entry), y) in sums.iter_mut().zip(&column[i]).zip(y) {
                        *sum = *sum + T::from(*entry) * *y;
                    }
                }
            }
            for (sums, rest) in sums.iter_mut().zip(&rest) {
                for ((sum, entry), y) in sums.iter_mut().zip(*rest).zip(y_rest) {
                    *sum = *sum + T::from(*entry) * *y;
                }
            }
            sums.map(|mut sums| {
                let mut width = LANES;
                while width > 1 {
                    width /= 2;
                    for lane in 0..width {
                        sums[lane] = sums[lane] + sums[lane + width];
                    }
                }
                sums[0]
            })
        },
    )
}

/// The numbers of a vector that columns in f32 are multiplied with.
trait Term: Copy + Default + From<f32> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {}

impl<T: Copy + Default + From<f32> + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Term for T {}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;

    #[test]
    fn a_solve_undoes_products_with_the_factor_whatever_its_size() {
        for size in [0, 1, 7, 8, 9, 24, 61, 90] {
            // Quarters: exact in f32.
            let entry = |i: usize, j: usize| if i == j { 4.0 } else { ((3 * i + 5 * j) % 7) as f64 / 4.0 - 0.75 };
            let lower = Mat::from_fn(size, size, |i, j| if i < j { f64::NAN } else { entry(i, j) });
            let mut factor = RoundedFactor::new();
            assert!(factor.round(&Cholesky::from_factor(lower)));
            let x: Vec<f64> = (0..size).map(|i| (i % 5) as f64 - 2.0).collect();
            let half: Vec<f64> = (0..size).map(|j| (j..size).map(|i| entry(i, j) * x[i]).sum()).collect();
            let mut rhs: Vec<f64> = (0..size).map(|i| (0..=i).map(|j| entry(i, j) * half[j]).sum()).collect();
            factor.solve(&mut rhs, &mut Vec::new());
            assert!(rhs.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-3), "size {size}");
        }
    }

    #[test]
    fn products_with_columns_are_those_of_plain_loops_on_any_number_of_threads() {
        for (size, count) in [(0, 3), (1, 1), (15, 9), (16, 8), (33, 20), (401, 150)] {
            // Small whole numbers: sums are exact in any order.
            let matrix: Vec<f32> = (0..size * count).map(|k| ((3 * k + k / 7) % 11) as f32 - 5.0).collect();
            let column = |k: usize| matrix[k * size..(k + 1) * size].iter().map(|entry| f64::from(*entry));
            let y: Vec<f64> = (0..size).map(|i| (i % 6) as f64 - 2.0).collect();
            let factors: Vec<f64> = (0..count).map(|k| (k % 5) as f64 - 1.0).collect();
            let products = || {
                let (mut sums, mut rest) = (vec![0.0; count], y.clone());
                rounded_inner_products(&matrix, &y, &mut sums);
                subtract_rounded(&matrix, &factors, &mut rest);
                (sums, rest)
            };
            let sums = (0..count).map(|k| column(k).zip(&y).map(|(a, b)| a * b).sum());
            let mut rest = y.clone();
            for (k, factor) in factors.iter().enumerate() {
                rest.iter_mut().zip(column(k)).for_each(|(rest, entry)| *rest -= factor * entry);
            }
            let expected = (sums.collect::<Vec<f64>>(), rest);
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
            assert_eq!(products(), expected, "{size} {count}");
            assert_eq!(alone.install(products), expected, "{size} {count}");
        }
    }

    #[test]
    fn what_f32_cannot_hold_is_refused() {
        for entry in [1e39, 1e-46, f64::NAN] {
            let mut factor = RoundedFactor::new();
            assert!(!factor.round(&Cholesky::from_factor(Mat::from_fn(1, 1, |_, _| entry))));
        }
    }
}
