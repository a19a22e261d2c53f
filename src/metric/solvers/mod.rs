//! The ridge regression a = (A + J̃ᵀJ̃)⁻¹J̃ᵀz for rows J̃ that change from call to call, as in a geodesic's
//! acceleration.
//!
//! One file per solver. The algebra that they share with the fit is in `laplace`.

mod function_ridge;
mod iterative;
mod matrix_free;
mod report;
mod weight_ridge;

use std::sync::Arc;

use self::function_ridge::FunctionRidge;
use self::iterative::IterativeRidge;
pub use self::iterative::{Iterative, IterativeOptions, Space};
use self::matrix_free::MatrixFreeRidge;
pub use self::matrix_free::{MatrixFree, MatrixFreeOptions};
pub use self::report::SolverReport;
use self::weight_ridge::WeightRidge;
use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::{function_space, weight_space};
use crate::likelihood::{Likelihood, PointEvaluator};
use crate::linalg::Cholesky;
use crate::map::{Map, PulledBack, Rows, frozen_rows};
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
    /// The time on the path of the next solve: an iterative solver starts from what it knows of the times before.
    fn at_time(&mut self, _time: f64) {}
    /// Where the solver wants to know the speed ‖J̃v‖ of the whitened outputs before it solves; exact ones do not.
    fn speed_mut(&mut self) -> Option<&mut f64> {
        None
    }
    /// Whether the force is overwritten by (I + J̃A⁻¹J̃ᵀ)⁻¹z = z − J̃(solution).
    fn leaves_remainder(&self) -> bool {
        false
    }
    /// image ← J̃(solution), for the rows and the solution of the last solve.
    fn image(&mut self, rows: &mut PulledBack<'_>, solution: &[f64], image: &mut [f64]) {
        rows.times(solution, image);
    }
    /// The largest relative residual of the solves since the path began; zero for an exact solver.
    fn path_residual(&self) -> f64 {
        0.0
    }
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
    /// Conjugate gradients, which may factor a matrix now and then; needs a proper prior.
    Iterative(Arc<Iterative>),
    /// Conjugate gradients, no matrix; needs a proper prior.
    MatrixFree(Arc<MatrixFree>),
}

/// How a ridge regression was solved, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SolverName {
    /// A factored D × D matrix.
    WeightSpace,
    /// A factored M × M matrix.
    FunctionSpace,
    /// Conjugate gradients with D unknowns.
    WeightSpaceIteration,
    /// Conjugate gradients with M unknowns.
    FunctionSpaceIteration,
    /// Conjugate gradients with M unknowns that never form a matrix.
    MatrixFree,
}

impl SolverName {
    /// All of them.
    pub const ALL: [SolverName; 5] = [
        SolverName::WeightSpace,
        SolverName::FunctionSpace,
        SolverName::WeightSpaceIteration,
        SolverName::FunctionSpaceIteration,
        SolverName::MatrixFree,
    ];

    /// The name, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            SolverName::WeightSpace => "weight-space",
            SolverName::FunctionSpace => "function-space",
            SolverName::WeightSpaceIteration => "weight-space-cg",
            SolverName::FunctionSpaceIteration => "function-space-cg",
            SolverName::MatrixFree => "matrix-free",
        }
    }

    /// What it works with, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            SolverName::WeightSpace => "a factored matrix of weights × weights",
            SolverName::FunctionSpace => "a factored matrix of outputs × outputs",
            SolverName::WeightSpaceIteration => "conjugate gradients over the weights",
            SolverName::FunctionSpaceIteration => "conjugate gradients over the outputs",
            SolverName::MatrixFree => "conjugate gradients without a matrix",
        }
    }
}

impl std::fmt::Display for SolverName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// The smallest relative residual that is requested of an iteration: rounding would not allow less.
pub(super) const TIGHTEST: f64 = 1e-13;

/// Checks the residual and the number of products at which an iteration ends.
pub(super) fn check_iteration(tolerance: f64, max_products: usize) -> Result<()> {
    if !(tolerance > 0.0 && tolerance < 1.0) {
        return Err(Error::SolverTolerance(tolerance));
    }
    if max_products == 0 {
        return Err(Error::NoProducts);
    }
    Ok(())
}

/// Products of conjugate gradients per evaluation and decimal digit of the residual: 24 at 1e-3 on a path of digits
/// (64-32-10).
const PRODUCTS_PER_DIGIT: f64 = 8.0;
/// What conjugate gradients must save: below this factor the exact solver is as fast where a system is badly
/// conditioned, and needs no residual.
const WORTH_ITERATING: f64 = 1.5;

impl Ridge {
    /// The exact solver with fewer multiply-adds.
    pub fn cheaper(map: &dyn Map, prior: &PriorPrecision) -> Self {
        let function = prior.is_proper() && function_space::work(map, prior) < weight_space::work(map);
        if function { Ridge::FunctionSpace } else { Ridge::WeightSpace }
    }

    /// The solver with the least work, counted in multiply-adds, for paths from `base` at this relative tolerance: one
    /// of the exact ones, or conjugate gradients where both are dearer by far. Nothing is timed: the same problem always
    /// gets the same solver. `near` is the factor of a matrix near the metric's at `base`, if one is known.
    pub fn cheapest(
        map: &Arc<dyn Map>,
        likelihood: &dyn Likelihood,
        prior: &PriorPrecision,
        base: &[f64],
        near: Option<&Cholesky>,
        rtol: f64,
    ) -> Result<Self> {
        let exact = Self::cheaper(&**map, prior);
        let exact_work = match exact {
            Ridge::FunctionSpace => function_space::work(&**map, prior),
            _ => weight_space::work(&**map),
        };
        let options = IterativeOptions::default();
        let products = PRODUCTS_PER_DIGIT * -options.residual(rtol).log10();
        if !prior.is_proper() || exact_work < WORTH_ITERATING * products * iterative::product_work(&**map) {
            return Ok(exact);
        }
        Ok(Ridge::Iterative(Arc::new(Iterative::new(map, likelihood, prior, base, near, options)?)))
    }

    /// The name of the solver.
    pub fn name(&self) -> SolverName {
        match self {
            Ridge::WeightSpace => SolverName::WeightSpace,
            Ridge::FunctionSpace => SolverName::FunctionSpace,
            Ridge::MatrixFree(_) => SolverName::MatrixFree,
            Ridge::Iterative(shared) => match shared.space() {
                Space::Weights => SolverName::WeightSpaceIteration,
                Space::Functions => SolverName::FunctionSpaceIteration,
            },
        }
    }

    /// What an iterative solver has cost and how accurate it was, over all evaluators; none for an exact solver.
    pub fn report(&self) -> Option<SolverReport> {
        match self {
            Ridge::WeightSpace | Ridge::FunctionSpace => None,
            Ridge::Iterative(shared) => Some(shared.report()),
            Ridge::MatrixFree(shared) => Some(shared.report()),
        }
    }

    /// One thread's solver for the rows of this map.
    pub fn solver(&self, map: &dyn Map) -> Box<dyn RidgeSolver> {
        let (m, d) = (map.n_points() * map.n_outputs(), map.n_params());
        match self {
            Ridge::WeightSpace => Box::new(WeightRidge::new(map)),
            Ridge::FunctionSpace => Box::new(FunctionRidge::new(m)),
            Ridge::Iterative(shared) => Box::new(IterativeRidge::new(shared.clone())),
            Ridge::MatrixFree(shared) => Box::new(MatrixFreeRidge::new(shared.clone(), m, d)),
        }
    }

    /// The number of f64 values that one solver holds.
    pub fn solver_size(&self, map: &dyn Map) -> f64 {
        let (n, d) = (map.n_points() as f64, map.n_params() as f64);
        let m = n * map.n_outputs() as f64;
        match self {
            Ridge::WeightSpace => weight_ridge::numbers(map),
            Ridge::FunctionSpace => m * m + 2.0 * n * n,
            Ridge::Iterative(shared) => shared.solver_size(map),
            Ridge::MatrixFree(shared) => shared.solver_size(m, d),
        }
    }
}

/// What conjugate gradients ask of the point where geodesics start and of the prior.
pub(super) fn check_base(map: &Arc<dyn Map>, prior: &PriorPrecision, base: &[f64]) -> Result<()> {
    check_size("length of the base point", map.n_params(), base.len())?;
    if prior.is_proper() { Ok(()) } else { Err(Error::Unsupported(Unsupported::ImproperMatrixFree)) }
}

/// The whitened rows J̃ at that point.
pub(super) fn rows_at_base(map: &Arc<dyn Map>, likelihood: &dyn Likelihood, base: &[f64]) -> Result<Box<dyn Rows>> {
    let (n, p) = (map.n_points(), map.n_outputs());
    frozen_rows(map, base, p, |outputs| {
        let mut seeds = vec![0.0; n * p * p];
        PointEvaluator::new(n, p).whitening(likelihood, outputs, &mut seeds);
        Ok(seeds)
    })
}
