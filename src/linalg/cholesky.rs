//! Cholesky factorisation M = L Lᵀ with storage that is reused from one matrix to the next.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::triangular_solve;
use faer::{Mat, MatMut, MatRef};

use super::{parallelism, small};

/// The index of the first pivot that is not positive (or not a number).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedPivot(pub usize);

/// A symmetric positive definite matrix and its factor: fill [`Cholesky::matrix_mut`] (lower triangle), then
/// [`Cholesky::factor`], then solve.
///
/// ```
/// use riemannian_laplace::internals::linalg::Cholesky;
/// let mut cholesky = Cholesky::new(2);
/// let mut matrix = cholesky.matrix_mut();
/// (matrix[(0, 0)], matrix[(1, 0)], matrix[(1, 1)]) = (4.0, 2.0, 3.0);
/// cholesky.factor().unwrap();
/// let mut x = [2.0, 3.0];
/// cholesky.solve(&mut x);
/// assert!((x[0] - 0.0).abs() < 1e-15 && (x[1] - 1.0).abs() < 1e-15);
/// assert!((cholesky.log_det() - 8f64.ln()).abs() < 1e-15);
/// ```
pub struct Cholesky {
    lower: Mat<f64>,
    buffer: MemBuffer,
    /// For the factor of a small matrix.
    room: Vec<f64>,
}

impl std::fmt::Debug for Cholesky {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cholesky").field("lower", &self.lower).finish_non_exhaustive()
    }
}

impl Clone for Cholesky {
    fn clone(&self) -> Self {
        let mut copy = Cholesky::new(self.size());
        copy.lower.copy_from(&self.lower);
        copy
    }
}

impl Cholesky {
    /// Storage for a matrix of this size.
    pub fn new(size: usize) -> Self {
        let scratch = llt::factor::cholesky_in_place_scratch::<f64>(size, parallelism(0.0), Default::default());
        Self { lower: Mat::zeros(size, size), buffer: MemBuffer::new(scratch), room: small::room(size) }
    }

    /// A factor L that is known already (its lower triangle is read).
    pub fn from_factor(lower: Mat<f64>) -> Self {
        Self { lower, buffer: MemBuffer::new(Default::default()), room: Vec::new() }
    }

    /// The number of rows.
    pub fn size(&self) -> usize {
        self.lower.nrows()
    }

    /// The matrix to be factored, of which the lower triangle is read.
    pub fn matrix_mut(&mut self) -> MatMut<'_, f64> {
        self.lower.as_mut()
    }

    /// The factor L in the lower triangle (after [`Cholesky::factor`]); the entries above the diagonal are meaningless.
    pub fn lower(&self) -> MatRef<'_, f64> {
        self.lower.as_ref()
    }

    /// Replaces the matrix by its factor. No regularisation is added: a pivot that is not positive is an error.
    pub fn factor(&mut self) -> Result<(), FailedPivot> {
        if self.size() <= small::SMALL {
            return small::factor(self.lower.as_mut(), &mut self.room);
        }
        let size = self.size() as f64;
        let outcome = llt::factor::cholesky_in_place(
            self.lower.as_mut(),
            Default::default(),
            parallelism(size * size * size / 6.0),
            MemStack::new(&mut self.buffer),
            Default::default(),
        );
        match outcome {
            Ok(_) => match (0..self.size()).find(|&i| !self.lower[(i, i)].is_finite()) {
                None => Ok(()),
                Some(index) => Err(FailedPivot(index)),
            },
            Err(llt::factor::LltError::NonPositivePivot { index }) => Err(FailedPivot(index)),
        }
    }

    /// rhs ← M⁻¹ rhs for one right-hand side.
    pub fn solve(&self, rhs: &mut [f64]) {
        self.solve_lower(rhs);
        self.solve_upper(rhs);
    }

    /// rhs ← L⁻¹ rhs.
    pub fn solve_lower(&self, rhs: &mut [f64]) {
        let rows = rhs.len();
        self.solve_lower_many(MatMut::from_column_major_slice_mut(rhs, rows, 1));
    }

    /// rhs ← L⁻ᵀ rhs.
    pub fn solve_upper(&self, rhs: &mut [f64]) {
        let rows = rhs.len();
        self.solve_upper_many(MatMut::from_column_major_slice_mut(rhs, rows, 1));
    }

    /// Rhs ← L⁻¹ Rhs, column by column.
    pub fn solve_lower_many(&self, rhs: MatMut<'_, f64>) {
        let par = parallelism(0.5 * (self.size() * self.size()) as f64 * rhs.ncols() as f64);
        triangular_solve::solve_lower_triangular_in_place(self.lower.as_ref(), rhs, par);
    }

    /// Rhs ← L⁻ᵀ Rhs, column by column.
    pub fn solve_upper_many(&self, rhs: MatMut<'_, f64>) {
        let par = parallelism(0.5 * (self.size() * self.size()) as f64 * rhs.ncols() as f64);
        triangular_solve::solve_upper_triangular_in_place(self.lower.transpose(), rhs, par);
    }

    /// log det M = 2 Σᵢ log Lᵢᵢ.
    pub fn log_det(&self) -> f64 {
        2.0 * (0..self.size()).map(|i| self.lower[(i, i)].ln()).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_pivot_is_reported_with_its_index() {
        let mut cholesky = Cholesky::new(2);
        let mut matrix = cholesky.matrix_mut();
        (matrix[(0, 0)], matrix[(1, 0)], matrix[(1, 1)]) = (1.0, 2.0, 1.0);
        assert_eq!(cholesky.factor(), Err(FailedPivot(1)));
    }

    #[test]
    fn a_matrix_that_is_not_finite_is_refused() {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut cholesky = Cholesky::new(2);
            let mut matrix = cholesky.matrix_mut();
            (matrix[(0, 0)], matrix[(1, 0)], matrix[(1, 1)]) = (1.0, 0.0, bad);
            assert!(cholesky.factor().is_err());
        }
    }
}
