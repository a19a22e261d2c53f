//! Eigendecomposition M = U Λ Uᵀ of a symmetric matrix, on one thread: faer's parallel one rounds differently on
//! different numbers of threads, and tuned hyperparameters must not depend on that.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{Mat, MatMut, MatRef, Par};

use crate::error::{Error, Result};

/// Eigenvalues in ascending order and the eigenvectors as columns.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// λ₁ ≤ … ≤ λₙ.
    pub values: Vec<f64>,
    /// One eigenvector per column.
    pub vectors: Mat<f64>,
}

/// Decomposes a symmetric matrix, read from its lower triangle; `name` appears in the error.
///
/// ```
/// use faer::mat;
/// use riemannian_laplace::internals::linalg::symmetric_eigen;
/// let eigen = symmetric_eigen(mat![[2.0, 0.0], [1.0, 2.0]].as_ref(), "the example")?;
/// assert!((eigen.values[0] - 1.0).abs() < 1e-15 && (eigen.values[1] - 3.0).abs() < 1e-15);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn symmetric_eigen(matrix: MatRef<'_, f64>, name: &'static str) -> Result<SymmetricEigen> {
    let mut vectors = Mat::zeros(matrix.nrows(), matrix.nrows());
    let values = decompose(matrix, Some(vectors.as_mut()), name)?;
    Ok(SymmetricEigen { values, vectors })
}

/// The eigenvalues alone, in ascending order.
pub fn eigenvalues(matrix: MatRef<'_, f64>, name: &'static str) -> Result<Vec<f64>> {
    decompose(matrix, None, name)
}

fn decompose(matrix: MatRef<'_, f64>, vectors: Option<MatMut<'_, f64>>, name: &'static str) -> Result<Vec<f64>> {
    let size = matrix.nrows();
    let compute = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let scratch = self_adjoint_evd_scratch::<f64>(size, compute, Par::Seq, Default::default());
    let mut buffer = MemBuffer::new(scratch);
    let mut values: Diag<f64> = Diag::zeros(size);
    let stack = MemStack::new(&mut buffer);
    self_adjoint_evd(matrix, values.as_mut(), vectors, Par::Seq, stack, Default::default())
        .map_err(|_| Error::Eigen { matrix: name, size })?;
    Ok(values.column_vector().iter().copied().collect())
}
