//! The low-rank precision G = A + FFᵀ with F of D × R: everything follows from S = I + FᵀA⁻¹F (R × R), as in function
//! space.

use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::form::{self, CovarianceForm};
use super::low_rank::saved_factor;
use super::structure::{Precision, SavedTensor, Structure, damaged};
use crate::error::{Error, Result, Unsupported};
use crate::linalg::{
    Cholesky, FailedPivot, add_scaled, column_slice, column_slice_mut, dot, inverse_lower, multiply,
    multiply_by_own_transpose,
};
use crate::prior::PriorPrecision;
use crate::random::fill_standard_normal;

/// Numbers in the Jacobian rows of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 21) as f64;

/// The precision A + FFᵀ and the factor of S.
#[derive(Debug, Clone)]
pub struct LowRank {
    factor: Mat<f64>,
    system: Cholesky,
    prior: PriorPrecision,
    rank: usize,
}

impl LowRank {
    /// A + FFᵀ, of which `rank` eigenvalues were asked for.
    pub(super) fn new(factor: Mat<f64>, prior: &PriorPrecision, rank: usize) -> Result<Self> {
        if !prior.is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperPrior));
        }
        let (size, count) = (factor.nrows(), factor.ncols());
        let mut scaled = factor.clone();
        for column in scaled.col_iter_mut() {
            prior.divide_by_root(column_slice_mut(column));
        }
        let mut system = Cholesky::new(count);
        multiply_by_own_transpose(system.matrix_mut(), Accum::Replace, scaled.transpose());
        let mut matrix = system.matrix_mut();
        (0..count).for_each(|r| matrix[(r, r)] += 1.0);
        system.factor().map_err(|FailedPivot(pivot)| Error::NotPositiveDefinite {
            matrix: "the low-rank posterior precision",
            size,
            pivot,
            advice: "raise the prior precision, or check the data and the network's outputs for extreme values",
        })?;
        damaged((0..count).map(|r| system.lower()[(r, r)]))?;
        Ok(Self { factor, system, prior: prior.clone(), rank })
    }

    /// Fᵀu.
    fn project(&self, vector: &[f64]) -> Vec<f64> {
        self.factor.col_iter().map(|column| dot(column_slice(column), vector)).collect()
    }

    /// target += weight·Fw.
    fn add_expanded(&self, weight: f64, coefficients: &[f64], target: &mut [f64]) {
        for (column, coefficient) in self.factor.col_iter().zip(coefficients) {
            add_scaled(weight * coefficient, column_slice(column), target);
        }
    }

    /// A⁻¹(b − FS⁻¹FᵀA⁻¹b).
    fn solve_once(&self, rhs: &[f64], solution: &mut [f64]) {
        solution.copy_from_slice(rhs);
        self.prior.divide(solution);
        let mut coefficients = self.project(solution);
        self.system.solve(&mut coefficients);
        solution.copy_from_slice(rhs);
        self.add_expanded(-1.0, &coefficients, solution);
        self.prior.divide(solution);
    }
}

impl Precision for LowRank {
    fn n_params(&self) -> usize {
        self.factor.nrows()
    }

    fn log_det_ratio(&self) -> f64 {
        self.system.log_det()
    }

    /// R − tr S⁻¹.
    fn effective_parameters(&self) -> f64 {
        let inverse = inverse_lower(&self.system);
        (0..self.system.size()).map(|r| 1.0 - inverse[(r, r)]).sum()
    }

    fn structure(&self) -> Structure {
        Structure::LowRank(self.rank)
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        product.copy_from_slice(direction);
        self.prior.multiply(product);
        self.add_expanded(1.0, &self.project(direction), product);
    }

    /// With one step of refinement: the difference cancels where the data outweigh the prior.
    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        self.solve_once(rhs, solution);
        let (mut residual, mut correction) = (vec![0.0; rhs.len()], vec![0.0; rhs.len()]);
        self.times(solution, &mut residual);
        residual.iter_mut().zip(rhs).for_each(|(value, rhs)| *value = rhs - *value);
        self.solve_once(&residual, &mut correction);
        add_scaled(1.0, &correction, solution);
    }

    /// A^(−½)ε₁ + A⁻¹FS⁻¹(ε₂ − FᵀA^(−½)ε₁).
    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        fill_standard_normal(generator, draw);
        self.prior.divide_by_root(draw);
        let mut coefficients = vec![0.0; self.system.size()];
        fill_standard_normal(generator, &mut coefficients);
        coefficients.iter_mut().zip(self.project(draw)).for_each(|(value, known)| *value -= known);
        self.system.solve(&mut coefficients);
        let mut change = vec![0.0; draw.len()];
        self.add_expanded(1.0, &coefficients, &mut change);
        self.prior.divide(&mut change);
        add_scaled(1.0, &change, draw);
    }

    /// rᵀA⁻¹r + sᵀs with s = S⁻¹FᵀA⁻¹Cᵀ and r = Cᵀ − Fs: a sum of squares, without cancellation.
    fn covariance(&self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        let mut rest = rows.transpose().to_owned();
        let mut scaled = rest.clone();
        for column in scaled.col_iter_mut() {
            self.prior.divide(column_slice_mut(column));
        }
        let mut solved = Mat::zeros(self.system.size(), rest.ncols());
        multiply(solved.as_mut(), Accum::Replace, self.factor.transpose(), scaled.as_ref());
        for column in solved.col_iter_mut() {
            self.system.solve(column_slice_mut(column));
        }
        for (column, coefficients) in rest.col_iter_mut().zip(solved.col_iter()) {
            let column = column_slice_mut(column);
            self.add_expanded(-1.0, column_slice(coefficients), column);
            self.prior.divide_by_root(column);
        }
        multiply(covariance.rb_mut(), Accum::Replace, rest.transpose(), rest.as_ref());
        multiply(covariance, Accum::Add, solved.transpose(), solved.as_ref());
    }

    fn points_at_once(&self, n_outputs: usize, _: f64) -> usize {
        (BLOCK_NUMBERS / (self.n_params() * n_outputs).max(1) as f64) as usize
    }

    fn form(&self) -> Result<CovarianceForm> {
        match self.prior.is_earlier_posterior() {
            true => form::of_matrix(self),
            false => form::of_low_rank(&self.prior, self.factor.clone()),
        }
    }

    fn size_in_words(&self) -> String {
        format!("{} directions of {}", self.factor.ncols(), self.n_params())
    }

    fn save(&self) -> Vec<SavedTensor> {
        saved_factor("", &self.factor).to_vec()
    }
}
