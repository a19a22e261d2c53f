//! The ridge regression of the metric's accelerations through the M × M matrix of rows that change.

use super::RidgeSolver;
use crate::laplace::function_space::factor_rows;
use crate::linalg::Cholesky;
use crate::map::PulledBack;
use crate::prior::{PriorPrecision, PriorStructure};

/// The ridge regression with an M × M system for rows that change: A⁻¹J̃ᵀ(I + J̃A⁻¹J̃ᵀ)⁻¹z.
pub(super) struct FunctionRidge {
    cholesky: Cholesky,
    variances: Vec<f64>,
    /// A⁻¹ times those of the rows, where A is a number.
    weights: Vec<f64>,
}

impl FunctionRidge {
    pub(super) fn new(n_rows: usize) -> Self {
        Self { cholesky: Cholesky::new(n_rows), variances: Vec::new(), weights: Vec::new() }
    }
}

impl RidgeSolver for FunctionRidge {
    fn solve(
        &mut self,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        force: &mut [f64],
        solution: &mut [f64],
    ) -> bool {
        prior.write_variances(&mut self.variances);
        let (rows, scratch) = rows.parts();
        if !factor_rows(rows, scratch, &self.variances, &mut self.cholesky) {
            return false;
        }
        self.cholesky.solve(force);
        match (prior.structure(), prior.matrix(), self.variances.first()) {
            // M multiplications, and no pass over the D weights.
            (PriorStructure::Scalar, None, Some(variance)) => {
                self.weights.clear();
                self.weights.extend(force.iter().map(|weight| variance * weight));
                rows.transpose_times(&self.weights, solution, scratch);
            }
            _ => {
                rows.transpose_times(force, solution, scratch);
                prior.divide(solution);
            }
        }
        true
    }

    fn leaves_remainder(&self) -> bool {
        true
    }
}
