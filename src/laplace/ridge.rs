//! The ridge regression a = (A + J̃ᵀJ̃)⁻¹J̃ᵀz for rows J̃ that change from call to call, as in a geodesic's
//! acceleration.
//!
//! Each structure that can solve it has a solver in its own file, next to the algebra that it shares with the
//! posterior.

use std::sync::Arc;

use super::matrix_free::{MatrixFree, MatrixFreeRidge, SolverReport};
use super::{function_space, weight_space};
use crate::map::{Map, PulledBack};
use crate::prior::PriorPrecision;

/// One thread's solver for changing rows; nothing is allocated after the first solve.
pub trait RidgeSolver: Send {
    /// solution ← (A + J̃ᵀJ̃)⁻¹J̃ᵀz. Overwrites the force z. False where the system is not positive definite.
    fn solve(
        &mut self,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        force: &mut [f64],
        solution: &mut [f64],
    ) -> bool;
    /// Starts a new path, integrated at this relative tolerance: an iterative solver drops what it remembers.
    fn begin_path(&mut self, _rtol: f64) {}
    /// The next solve depends on its arguments alone.
    fn forget(&mut self) {}
    /// What an iterative solver has cost and how accurate it was; none for an exact solver.
    fn report(&self) -> Option<SolverReport> {
        None
    }
}

/// How the ridge regression is solved. The exact solvers give the same answer.
#[derive(Debug, Clone)]
pub enum Ridge {
    /// A D × D system.
    WeightSpace,
    /// An M × M system; needs a proper prior.
    FunctionSpace,
    /// Conjugate gradients, no matrix; needs a proper prior.
    MatrixFree(Arc<MatrixFree>),
}

impl Ridge {
    /// The exact solver with fewer multiply-adds.
    pub fn cheaper(map: &dyn Map, prior: &PriorPrecision) -> Self {
        let function = prior.is_proper() && function_space::work(map, prior) < weight_space::work(map);
        if function { Ridge::FunctionSpace } else { Ridge::WeightSpace }
    }

    /// One thread's solver for the rows of this map.
    pub fn solver(&self, map: &dyn Map) -> Box<dyn RidgeSolver> {
        let (m, d) = (map.n_points() * map.n_outputs(), map.n_params());
        match self {
            Ridge::WeightSpace => Box::new(weight_space::WeightRidge::new(d)),
            Ridge::FunctionSpace => Box::new(function_space::FunctionRidge::new(m)),
            Ridge::MatrixFree(shared) => Box::new(MatrixFreeRidge::new(shared.clone(), m, d)),
        }
    }

    /// The number of f64 values that one solver holds.
    pub fn solver_size(&self, map: &dyn Map) -> f64 {
        let (n, d) = (map.n_points() as f64, map.n_params() as f64);
        let m = n * map.n_outputs() as f64;
        match self {
            Ridge::WeightSpace => map.curvature_size(map.n_outputs()) + d * d,
            Ridge::FunctionSpace => m * m + 2.0 * n * n,
            Ridge::MatrixFree(shared) => shared.solver_size(m, d),
        }
    }
}
