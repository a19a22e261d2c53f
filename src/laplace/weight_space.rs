//! Weight space: the D × D precision G = A + J̃ᵀJ̃ and its Cholesky factor. Right when D is not large.

use faer::{Accum, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::precision::{Precision, PrecisionWorker};
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, FailedPivot, mirror_lower, multiply, multiply_by_own_transpose};
use crate::prior::PriorPrecision;
use crate::random::fill_standard_normal;

/// A dense precision matrix, factored.
///
/// ```
/// use faer::mat;
/// use riemannian_laplace::laplace::{Precision, WeightSpace};
/// use riemannian_laplace::prior::PriorPrecision;
///
/// let prior = PriorPrecision::scalar(1.0, &[2])?;
/// let posterior = WeightSpace::new(mat![[3.0, 0.0], [0.0, 0.0]].as_ref(), &prior)?; // G = diag(4, 1)
/// assert!((posterior.log_det_ratio() - 4f64.ln()).abs() < 1e-15);
/// assert!((posterior.effective_parameters() - 0.75).abs() < 1e-15);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WeightSpace {
    precision: Mat<f64>,
    cholesky: Cholesky,
    prior: PriorPrecision,
}

impl WeightSpace {
    /// G = curvature + A, with the curvature's lower triangle read.
    pub fn new(curvature: MatRef<'_, f64>, prior: &PriorPrecision) -> Result<Self> {
        let mut precision = curvature.to_owned();
        prior.add_to_diagonal(precision.as_mut());
        let advice = "raise the prior precision, or check the data and the network's outputs for extreme values";
        Self::factored(precision, prior.clone(), "the posterior precision", advice)
    }

    /// G = −∇²ℓ(θ̂), the choice of the classical Laplace approximation, with A the prior's share of it.
    pub fn from_negative_hessian(hessian: MatRef<'_, f64>, prior: &PriorPrecision) -> Result<Self> {
        let precision = Mat::from_fn(hessian.nrows(), hessian.ncols(), |i, j| -hessian[(i, j)]);
        let advice =
            "the point is not a strict maximum of the log posterior: optimise further, or use the Fisher precision";
        Self::factored(precision, prior.clone(), "the negative Hessian", advice)
    }

    fn factored(
        mut precision: Mat<f64>,
        prior: PriorPrecision,
        matrix: &'static str,
        advice: &'static str,
    ) -> Result<Self> {
        mirror_lower(&mut precision);
        let size = precision.nrows();
        let mut cholesky = Cholesky::new(size);
        cholesky.matrix_mut().copy_from(&precision);
        let not_definite = |FailedPivot(pivot)| Error::NotPositiveDefinite { matrix, size, pivot, advice };
        cholesky.factor().map_err(not_definite)?;
        Ok(Self { precision, cholesky, prior })
    }

    /// G.
    pub fn matrix(&self) -> MatRef<'_, f64> {
        self.precision.as_ref()
    }

    /// The factor of G.
    pub fn cholesky(&self) -> &Cholesky {
        &self.cholesky
    }

    /// G⁻¹.
    pub fn covariance_matrix(&self) -> Mat<f64> {
        let size = self.n_params();
        let mut inverse_root = Mat::identity(size, size);
        self.cholesky.solve_lower_many(inverse_root.as_mut());
        let mut covariance = Mat::zeros(size, size);
        multiply_by_own_transpose(covariance.as_mut(), Accum::Replace, inverse_root.transpose());
        mirror_lower(&mut covariance);
        covariance
    }
}

impl Precision for WeightSpace {
    fn n_params(&self) -> usize {
        self.precision.nrows()
    }

    fn log_det_ratio(&self) -> f64 {
        self.cholesky.log_det() - self.prior.log_det()
    }

    fn effective_parameters(&self) -> f64 {
        let covariance = self.covariance_matrix();
        let mut prior_share = 0.0;
        self.prior.for_each_group(|range, alpha| {
            prior_share += alpha * range.map(|d| covariance[(d, d)]).sum::<f64>();
        });
        self.n_params() as f64 - prior_share
    }

    fn solver(&self) -> &'static str {
        "weight-space"
    }

    fn worker(&self) -> Box<dyn PrecisionWorker + Send + '_> {
        Box::new(WeightSpaceWorker { posterior: self })
    }
}

struct WeightSpaceWorker<'a> {
    posterior: &'a WeightSpace,
}

impl PrecisionWorker for WeightSpaceWorker<'_> {
    fn times(&mut self, direction: &[f64], product: &mut [f64]) {
        let size = direction.len();
        let direction = MatRef::from_column_major_slice(direction, size, 1);
        let product = MatMut::from_column_major_slice_mut(product, size, 1);
        multiply(product, Accum::Replace, self.posterior.precision.as_ref(), direction);
    }

    fn solve(&mut self, rhs: &[f64], solution: &mut [f64]) {
        solution.copy_from_slice(rhs);
        self.posterior.cholesky.solve(solution);
    }

    /// v = L⁻ᵀε.
    fn sample(&mut self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        fill_standard_normal(generator, draw);
        self.posterior.cholesky.solve_upper(draw);
    }

    /// (L⁻¹Cᵀ)ᵀ(L⁻¹Cᵀ).
    fn covariance(&mut self, rows: MatRef<'_, f64>, covariance: MatMut<'_, f64>) {
        let mut solved = rows.transpose().to_owned();
        self.posterior.cholesky.solve_lower_many(solved.as_mut());
        multiply(covariance, Accum::Replace, solved.transpose(), solved.as_ref());
    }
}
