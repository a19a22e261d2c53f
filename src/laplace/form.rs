//! The posterior covariance written down as numbers, for those who take it elsewhere.

use faer::{Accum, Mat, Side};

use super::structure::Precision;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, FailedPivot, column_slice, column_slice_mut, multiply, symmetric_eigen};
use crate::map::BlockCovariance;
use crate::memory;
use crate::prior::PriorPrecision;

/// G⁻¹ in a form from which J G⁻¹ Jᵀ is a sum of squares.
#[derive(Debug, Clone)]
pub enum CovarianceForm {
    /// G⁻¹ = C Cᵀ with C of D × R.
    Factor(Mat<f64>),
    /// Blocks of consecutive parameters, independent of each other.
    Blocks(Vec<BlockCovariance>),
    /// G = A + FFᵀ with A^(−½)F = U diag(s): G⁻¹ = A^(−½)(I − UUᵀ + U diag(1/(1 + s²)) Uᵀ)A^(−½).
    LowRank(LowRankForm),
}

/// See [`CovarianceForm::LowRank`].
#[derive(Debug, Clone)]
pub struct LowRankForm {
    /// The diagonal of A^(−½).
    pub roots: Vec<f64>,
    /// U, D × R, with orthonormal columns.
    pub directions: Mat<f64>,
    /// 1/√(1 + s²) of every column.
    pub shrinks: Vec<f64>,
}

/// Singular values below this share of the largest are rounding errors.
const ROUNDING: f64 = 1e-14;

/// C = L⁻ᵀ of G = LLᵀ, for any precision: D² numbers.
pub(super) fn of_matrix(precision: &(impl Precision + ?Sized)) -> Result<CovarianceForm> {
    let size = precision.n_params();
    memory::check("the posterior covariance", 3.0 * (size as f64).powi(2), "use the kron structure, or fewer weights")?;
    let mut root: Mat<f64> = Mat::identity(size, size);
    if let Some(factor) = precision.factor() {
        factor.solve_upper_many(root.as_mut());
        return Ok(CovarianceForm::Factor(root));
    }
    let mut cholesky = Cholesky::new(size);
    cholesky.matrix_mut().copy_from(&precision.to_matrix());
    cholesky.factor().map_err(|FailedPivot(pivot)| Error::NotPositiveDefinite {
        matrix: "the posterior precision",
        size,
        pivot,
        advice: "raise the prior precision",
    })?;
    cholesky.solve_upper_many(root.as_mut());
    Ok(CovarianceForm::Factor(root))
}

/// The form of A + FFᵀ, for a diagonal A.
pub(super) fn of_low_rank(prior: &PriorPrecision, mut factor: Mat<f64>) -> Result<CovarianceForm> {
    let (size, rank) = (factor.nrows(), factor.ncols());
    let mut roots = vec![1.0; size];
    prior.divide_by_root(&mut roots);
    for column in factor.col_iter_mut() {
        prior.divide_by_root(column_slice_mut(column));
    }
    let mut gram = Mat::zeros(rank, rank);
    multiply(gram.as_mut(), Accum::Replace, factor.transpose(), factor.as_ref());
    let eigen = symmetric_eigen(gram.as_ref(), "the low-rank factor")?;
    let largest = eigen.values.iter().copied().fold(0.0, f64::max);
    let kept: Vec<usize> = (0..rank).filter(|r| eigen.values[*r] > ROUNDING * largest).collect();
    let mut directions = Mat::zeros(size, kept.len());
    let vectors = Mat::from_fn(rank, kept.len(), |i, j| eigen.vectors[(i, kept[j])] / eigen.values[kept[j]].sqrt());
    multiply(directions.as_mut(), Accum::Replace, factor.as_ref(), vectors.as_ref());
    let shrinks = kept.iter().map(|r| 1.0 / (1.0 + eigen.values[*r]).sqrt()).collect();
    Ok(CovarianceForm::LowRank(LowRankForm { roots, directions: orthonormal(directions), shrinks }))
}

/// The same columns, orthonormal to working precision (they are nearly so already, the smallest least).
fn orthonormal(mut columns: Mat<f64>) -> Mat<f64> {
    let rank = columns.ncols();
    let mut gram = Mat::zeros(rank, rank);
    multiply(gram.as_mut(), Accum::Replace, columns.transpose(), columns.as_ref());
    let Ok(factor) = gram.llt(Side::Lower) else { return columns };
    let mut transposed = columns.transpose().to_owned();
    let factor = Cholesky::from_factor(factor.L().to_owned());
    factor.solve_lower_many(transposed.as_mut());
    columns = transposed.transpose().to_owned();
    columns
}

/// C of draws: G⁻¹ ≈ Σ vvᵀ/S.
pub(super) fn of_draws(draws: &[Vec<f64>]) -> CovarianceForm {
    let scale = 1.0 / (draws.len().max(1) as f64).sqrt();
    let size = draws.first().map_or(0, Vec::len);
    CovarianceForm::Factor(Mat::from_fn(size, draws.len(), |d, s| scale * draws[s][d]))
}

impl CovarianceForm {
    /// How many numbers it is.
    pub fn numbers(&self) -> f64 {
        match self {
            Self::Factor(factor) => (factor.nrows() * factor.ncols()) as f64,
            Self::LowRank(form) => (form.directions.nrows() * (form.directions.ncols() + 1)) as f64,
            Self::Blocks(blocks) => blocks.iter().map(block_numbers).sum(),
        }
    }

    /// G⁻¹, D × D.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::prelude::*;
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
    /// let laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
    /// let (covariance, precision) = (laplace.precision().form()?.to_matrix(), laplace.precision().to_matrix());
    /// let product: f64 = (0..2).map(|k| covariance[(0, k)] * precision[(k, 0)]).sum();
    /// assert!((product - 1.0).abs() < 1e-12);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn to_matrix(&self) -> Mat<f64> {
        match self {
            Self::Factor(factor) => factor * factor.transpose(),
            Self::LowRank(LowRankForm { roots, directions, shrinks }) => {
                let size = roots.len();
                let mut matrix: Mat<f64> = Mat::identity(size, size);
                for (column, shrink) in directions.col_iter().zip(shrinks) {
                    let column = column_slice(column);
                    for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
                        matrix[(i, j)] -= (1.0 - shrink * shrink) * column[i] * column[j];
                    }
                }
                Mat::from_fn(size, size, |i, j| roots[i] * matrix[(i, j)] * roots[j])
            }
            Self::Blocks(blocks) => {
                let size = blocks.iter().map(BlockCovariance::size).sum();
                let (mut matrix, mut start) = (Mat::zeros(size, size), 0);
                for block in blocks {
                    let white = block.whiten(Mat::<f64>::identity(block.size(), block.size()).as_ref());
                    let own = white.transpose() * &white;
                    matrix.as_mut().submatrix_mut(start, start, block.size(), block.size()).copy_from(&own);
                    start += block.size();
                }
                matrix
            }
        }
    }
}

fn block_numbers(block: &BlockCovariance) -> f64 {
    match block {
        BlockCovariance::Matrix(matrix) => {
            let (inputs, outputs) = (matrix.variances.nrows() as f64, matrix.variances.ncols() as f64);
            let bases = if matrix.bases.is_some() { inputs * inputs + outputs * outputs } else { 0.0 };
            bases + inputs * outputs + matrix.bias.as_ref().map_or(0.0, |bias| bias.len() as f64)
        }
        BlockCovariance::Diagonal(variances) => variances.len() as f64,
        BlockCovariance::Dense(factor) => (factor.size() as f64).powi(2),
        BlockCovariance::Fixed(_) => 0.0,
    }
}
