//! The inverse of I + K for a positive semidefinite K that a few eigenvectors describe: a preconditioner.
//!
//! With K ≈ UΛUᵀ (r columns, λ₁ ≥ … ≥ λ_r), P⁻¹ = I + U diag((1 + λ)/(1 + λᵢ) − 1) Uᵀ takes the r largest eigenvalues
//! of I + K to 1 + λ and leaves the others unchanged: between 1 and 1 + λ, with λ = λ_r, or about 1, with λ = 0, when r
//! was large enough for all that matter. U and Λ come from products with K alone, by the randomised Nyström
//! approximation K ≈ (KΩ)(ΩᵀKΩ)⁻¹(KΩ)ᵀ (Frangella, Tropp and Udell 2023).

use faer::{Accum, Mat};

use super::{
    Cholesky, add_scaled, column_slice, column_slice_mut, dot, multiply, multiply_by_own_transpose, norm,
    symmetric_eigen,
};
use crate::error::{Error, Result};
use crate::random::{Purpose, fill_standard_normal, stream};

/// P⁻¹ ≈ (I + K)⁻¹, the identity except in r directions.
#[derive(Debug, Clone)]
pub struct LowRankInverse {
    /// U, one eigenvector per column.
    vectors: Mat<f64>,
    /// (1 + λ)/(1 + λᵢ) − 1.
    changes: Vec<f64>,
}

/// Columns of the first random test matrix; doubled until the spectrum is covered.
const FIRST_RANK: usize = 32;
/// Eigenvalues of K below this change I + K too little to be worth a column; when the smallest found is below it, K is
/// covered.
const NEGLIGIBLE: f64 = 0.5;
/// Multiply-adds, doubled, of a block of triangular solves; well below what is worth sharing among threads.
const SEQUENTIAL_WORK: usize = 1 << 23;
/// Eigenvalues below this share of the largest are rounding errors.
const ROUNDING: f64 = 1e-12;

impl LowRankInverse {
    /// P = I.
    pub fn identity(size: usize) -> Self {
        Self { vectors: Mat::zeros(size, 0), changes: Vec::new() }
    }

    /// The largest eigenvalues of K, at most `max_rank` of them and no more than matter relative to I. `times` writes K
    /// u. Costs one product per column tried, at most twice the columns kept.
    ///
    /// ```
    /// use riemannian_laplace::internals::linalg::LowRankInverse;
    /// // K = diag(99, 0, 0)
    /// let inverse = LowRankInverse::of_kernel(3, 3, 0, |u, product| {
    ///     product.fill(0.0);
    ///     product[0] = 99.0 * u[0];
    /// })?;
    /// let (mut solved, mut buffer) = ([0.0; 3], vec![0.0; inverse.rank()]);
    /// inverse.apply(&[1.0, 1.0, 1.0], &mut buffer, &mut solved);
    /// assert!((solved[0] - 0.01).abs() < 1e-12 && (solved[1] - 1.0).abs() < 1e-12);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn of_kernel(
        size: usize,
        max_rank: usize,
        seed: u64,
        mut times: impl FnMut(&[f64], &mut [f64]),
    ) -> Result<Self> {
        let max_rank = max_rank.min(size);
        if max_rank == 0 {
            return Ok(Self::identity(size));
        }
        let (mut tests, mut images): (Mat<f64>, Mat<f64>) = (Mat::zeros(size, 0), Mat::zeros(size, 0));
        let mut rank = FIRST_RANK.min(max_rank);
        loop {
            let known = tests.ncols();
            tests.resize_with(size, rank, |_, _| 0.0);
            images.resize_with(size, rank, |_, _| 0.0);
            for index in known..rank {
                let test = column_slice_mut(tests.col_mut(index));
                fill_random_direction(seed, index, test);
                times(test, column_slice_mut(images.col_mut(index)));
            }
            let (inverse, covered) = Self::nystrom(&tests, &images)?;
            if covered || rank == max_rank {
                return Ok(inverse);
            }
            rank = (2 * rank).min(max_rank);
        }
    }

    /// The eigenvectors of (KΩ)(ΩᵀKΩ)⁻¹(KΩ)ᵀ, and whether the smallest eigenvalue is negligible.
    fn nystrom(tests: &Mat<f64>, images: &Mat<f64>) -> Result<(Self, bool)> {
        let (size, rank) = (tests.nrows(), tests.ncols());
        let magnitude = images.norm_l2();
        if !magnitude.is_finite() {
            return Err(Error::NotFinite { what: "a product with the whitened Jacobian", row: 0, column: 0 });
        }
        if magnitude == 0.0 {
            return Ok((Self::identity(size), true));
        }
        // A shift K + νI keeps the small system positive definite when K has fewer directions than Ω; it is taken back
        // from the eigenvalues.
        let mut shift = 1e-14 * magnitude;
        let (mut shifted, mut system) = (Mat::zeros(size, rank), Cholesky::new(rank));
        let mut core = Mat::zeros(rank, rank);
        loop {
            for ((target, image), test) in shifted.col_iter_mut().zip(images.col_iter()).zip(tests.col_iter()) {
                let sources = column_slice(image).iter().zip(column_slice(test));
                for (value, (image, test)) in column_slice_mut(target).iter_mut().zip(sources) {
                    *value = image + shift * test;
                }
            }
            multiply(core.as_mut(), Accum::Replace, tests.transpose(), shifted.as_ref());
            system.matrix_mut().copy_from(&core);
            match system.factor() {
                Ok(()) => break,
                Err(_) if shift < 1e-6 * magnitude => shift *= 100.0,
                Err(failed) => {
                    return Err(Error::NotPositiveDefinite {
                        matrix: "a projection of the Gram matrix J̃A⁻¹J̃ᵀ",
                        size: rank,
                        pivot: failed.0,
                        advice: "check the data and the network's outputs for extreme values",
                    });
                }
            }
        }
        // K + νI ≈ LLᵀ with Lᵀ = C⁻¹(KΩ + νΩ)ᵀ; its eigenvectors are those of the small LᵀL, mapped by L.
        let mut root = shifted.transpose().to_owned();
        // In blocks that are never shared among threads, so that the bits do not depend on the number of threads.
        let block = (SEQUENTIAL_WORK / (rank * rank)).max(1);
        for start in (0..size).step_by(block) {
            let end = (start + block).min(size);
            system.solve_lower_many(root.as_mut().get_mut(.., start..end));
        }
        multiply_by_own_transpose(core.as_mut(), Accum::Replace, root.as_ref());
        let eigen = symmetric_eigen(core.as_ref(), "the Gram matrix J̃A⁻¹J̃ᵀ, projected")?;
        let largest = eigen.values.last().copied().unwrap_or_default();
        let value = |index: usize| (eigen.values[index] - shift).max(0.0);
        let floor = NEGLIGIBLE.max(ROUNDING * largest);
        let first = (0..rank).find(|&index| value(index) > floor).unwrap_or(rank);
        let mut vectors = Mat::zeros(size, rank - first);
        let kept = eigen.vectors.as_ref().get(.., first..);
        multiply(vectors.as_mut(), Accum::Replace, root.transpose(), kept);
        for column in vectors.col_iter_mut() {
            let column = column_slice_mut(column);
            let length = norm(column);
            column.iter_mut().for_each(|value| *value /= length);
        }
        let least = if first == 0 { value(0) } else { 0.0 };
        let changes = (first..rank).map(|index| (1.0 + least) / (1.0 + value(index)) - 1.0).collect();
        Ok((Self { vectors, changes }, first > 0))
    }

    /// The same for another K close to the one this was made for, from its products with the r vectors and with `extra`
    /// random ones: one step of subspace iteration, r + `extra` products.
    pub fn refreshed(&self, extra: usize, seed: u64, mut times: impl FnMut(&[f64], &mut [f64])) -> Result<Self> {
        let (size, known) = (self.vectors.nrows(), self.rank());
        let rank = (known + extra).min(size);
        let mut tests: Mat<f64> = Mat::zeros(size, rank);
        let mut images: Mat<f64> = Mat::zeros(size, rank);
        for index in 0..rank {
            let test = column_slice_mut(tests.col_mut(index));
            if index < known {
                test.copy_from_slice(column_slice(self.vectors.col(index)));
            } else {
                fill_random_direction(seed, index, test);
            }
            times(test, column_slice_mut(images.col_mut(index)));
        }
        Ok(Self::nystrom(&tests, &images)?.0)
    }

    /// r, the number of directions.
    pub fn rank(&self) -> usize {
        self.changes.len()
    }

    /// solved ← P⁻¹u, with a buffer of r numbers.
    pub fn apply(&self, u: &[f64], buffer: &mut [f64], solved: &mut [f64]) {
        for ((share, column), change) in buffer.iter_mut().zip(self.vectors.col_iter()).zip(&self.changes) {
            *share = change * dot(column_slice(column), u);
        }
        solved.copy_from_slice(u);
        for (share, column) in buffer.iter().zip(self.vectors.col_iter()) {
            add_scaled(*share, column_slice(column), solved);
        }
    }
}

/// A random unit vector, the `index`-th of its seed.
fn fill_random_direction(seed: u64, index: usize, direction: &mut [f64]) {
    fill_standard_normal(&mut stream(seed, Purpose::Preconditioner, index as u64), direction);
    let length = norm(direction);
    direction.iter_mut().for_each(|value| *value /= length);
}
