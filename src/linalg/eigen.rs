//! Eigendecomposition M = U Λ Uᵀ of a symmetric matrix.

use faer::{Mat, MatRef, Side};

use crate::error::{Error, Result};

/// Eigenvalues in ascending order and the eigenvectors as columns.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// λ₁ ≤ … ≤ λₙ.
    pub values: Vec<f64>,
    /// One eigenvector a column.
    pub vectors: Mat<f64>,
}

/// Decomposes a symmetric matrix, read from its lower triangle; `name` appears in the error.
pub fn symmetric_eigen(matrix: MatRef<'_, f64>, name: &'static str) -> Result<SymmetricEigen> {
    let failed = |_| Error::Eigen { matrix: name, size: matrix.nrows() };
    let decomposition = matrix.self_adjoint_eigen(Side::Lower).map_err(failed)?;
    let values = decomposition.S().column_vector().iter().copied().collect();
    Ok(SymmetricEigen { values, vectors: decomposition.U().to_owned() })
}

/// The eigenvalues alone, in ascending order.
pub fn eigenvalues(matrix: MatRef<'_, f64>, name: &'static str) -> Result<Vec<f64>> {
    matrix.self_adjoint_eigenvalues(Side::Lower).map_err(|_| Error::Eigen { matrix: name, size: matrix.nrows() })
}
