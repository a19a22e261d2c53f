//! The acceleration without any matrix: (I + J̃A⁻¹J̃ᵀ)x = z by preconditioned conjugate gradients, for problems in which
//! both D and N·P are too large for an exact solver.
//!
//! A product with the system is a product with J̃ᵀ, a division by A and a product with J̃: O(N·D) for a network,
//! without any array of N·P × N·P or N·P × D numbers. The preconditioner is the low-rank inverse of the system at the
//! base point, computed once and shared by all evaluators; on a path that leads far from there it is renewed for the
//! price of a few products, whenever its age has cost as many. Each solve starts from the solution of the previous
//! evaluation on the same path.
//!
//! What the residual r = z − (I + J̃A⁻¹J̃ᵀ)x does to a geodesic is known exactly: the acceleration is wrong by δa with
//! Gδa = J̃ᵀr, hence ‖δa‖_G ≤ ‖r‖, and the squared speed drifts at the rate 2(J̃v)ᵀr.

use std::sync::Arc;

use super::report::{SolverReport, Tally};
use super::{RidgeSolver, TIGHTEST, check_base, check_iteration, rows_at_base};
use crate::error::Result;
use crate::likelihood::Likelihood;
use crate::linalg::{ConjugateGradients, LowRankInverse, StoppingRule};
use crate::map::{Map, PulledBack, Rows, Scratch};
use crate::memory;
use crate::prior::PriorPrecision;

/// The seed of the random test vectors behind a preconditioner: the same for every metric.
const PRECONDITIONER_SEED: u64 = 0x5eed;

/// Settings of the matrix-free solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixFreeOptions {
    /// The largest relative residual ‖z − (I + J̃A⁻¹J̃ᵀ)x‖/‖z‖ (default 1e-6). On a path whose integrator has a relative
    /// tolerance below ten times this, a tenth of that tolerance is used instead.
    pub tolerance: f64,
    /// The most columns of the preconditioner (default 512; fewer are used where fewer matter). Zero means no
    /// preconditioner.
    pub max_rank: usize,
    /// The most products with the system in one evaluation (default 2000).
    pub max_products: usize,
    /// Whether an evaluation starts from the solution of the previous one on the same path (default true).
    pub warm_start: bool,
    /// Whether the preconditioner is renewed along a path once its age has cost more products than a renewal takes
    /// (default true). This is the only thing that allocates memory after the first evaluation.
    pub refresh: bool,
}

impl Default for MatrixFreeOptions {
    fn default() -> Self {
        Self { tolerance: 1e-6, max_rank: 512, max_products: 2000, warm_start: true, refresh: true }
    }
}

/// The residual is kept at this share of the integrator's relative tolerance.
const SHARE_OF_TOLERANCE: f64 = 0.1;

impl MatrixFreeOptions {
    /// The settings for an integrator with this relative tolerance: a residual of at most a tenth of it.
    pub fn for_integrator(self, rtol: f64) -> Self {
        let share = (SHARE_OF_TOLERANCE * rtol).max(TIGHTEST);
        Self { tolerance: self.tolerance.min(share), ..self }
    }

    /// Checks that every setting is in its range.
    pub fn validate(&self) -> Result<()> {
        check_iteration(self.tolerance, self.max_products)
    }
}

/// What all solvers of a matrix-free metric share: settings, the preconditioner, and a tally.
#[derive(Debug)]
pub struct MatrixFree {
    options: MatrixFreeOptions,
    preconditioner: LowRankInverse,
    tally: Tally,
}

impl MatrixFree {
    /// Computes the preconditioner at `base`, where the geodesics start.
    pub fn new(
        map: &Arc<dyn Map>,
        likelihood: &dyn Likelihood,
        prior: &PriorPrecision,
        base: &[f64],
        options: MatrixFreeOptions,
    ) -> Result<Self> {
        options.validate()?;
        check_base(map, prior, base)?;
        let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
        // Test vectors, their images, and the eigenvectors computed from them.
        let room = (memory::limit() as f64 / 8.0 / (4 * n * p).max(1) as f64) as usize;
        let rank = options.max_rank.min(d).min(room);
        let rows = rows_at_base(map, likelihood, base)?;
        let (mut scaled, mut scratch) = (vec![0.0; d], Scratch::default());
        let preconditioner = LowRankInverse::of_kernel(n * p, rank, PRECONDITIONER_SEED, |u, product| {
            kernel_times(&*rows, &mut scratch, prior, &mut scaled, u, product);
        })?;
        let options = MatrixFreeOptions { max_rank: rank, ..options };
        Ok(Self { options, preconditioner, tally: Tally::default() })
    }

    /// The number of f64 values of one solver for a system of size M: those of the iteration, and those of a renewal.
    pub(super) fn solver_size(&self, m: f64, d: f64) -> f64 {
        let rank = (self.preconditioner.rank() + extra_columns(self.preconditioner.rank())) as f64;
        5.0 * m + d + if self.options.refresh && self.options.max_rank > 0 { 5.0 * m * rank } else { 0.0 }
    }

    /// All solves so far.
    pub fn report(&self) -> SolverReport {
        self.tally.report(self.preconditioner.rank())
    }
}

/// One thread's solver and the state of its path.
#[derive(Debug)]
pub(super) struct MatrixFreeRidge {
    shared: Arc<MatrixFree>,
    solver: ConjugateGradients,
    /// x, which the next evaluation starts from.
    solution: Vec<f64>,
    /// D numbers: A⁻¹J̃ᵀu.
    scaled: Vec<f64>,
    /// One number per column of the preconditioner.
    shares: Vec<f64>,
    /// The preconditioner of this path, where the shared one has become too old.
    renewed: Option<LowRankInverse>,
    renewals: u64,
    /// Products that a solve takes while the preconditioner is new.
    when_new: Option<usize>,
    /// Products beyond that since it was computed.
    excess: usize,
    tolerance: f64,
    worst_residual: f64,
    report: SolverReport,
}

impl MatrixFreeRidge {
    pub(super) fn new(shared: Arc<MatrixFree>, size: usize, n_params: usize) -> Self {
        let (rank, tolerance) = (shared.preconditioner.rank(), shared.options.tolerance);
        Self {
            solver: ConjugateGradients::new(size),
            solution: vec![0.0; size],
            scaled: vec![0.0; n_params],
            shares: vec![0.0; rank],
            renewed: None,
            renewals: 0,
            when_new: None,
            excess: 0,
            tolerance,
            worst_residual: 0.0,
            report: SolverReport { rank, ..Default::default() },
            shared,
        }
    }

    /// Renews the preconditioner for the current rows, if the old one has cost as many products as a renewal takes.
    fn renew(&mut self, rows: &mut PulledBack<'_>, prior: &PriorPrecision) {
        let present = self.renewed.as_ref().unwrap_or(&self.shared.preconditioner);
        let MatrixFreeOptions { refresh, max_rank, .. } = self.shared.options;
        let extra = extra_columns(present.rank()).min(max_rank.saturating_sub(present.rank()));
        let price = present.rank() + extra;
        if !refresh || max_rank == 0 || self.excess < price {
            return;
        }
        let scaled = &mut self.scaled;
        let (rows, scratch) = rows.parts();
        let renewed = present.refreshed(extra, self.renewals, |u, product| {
            kernel_times(rows, scratch, prior, scaled, u, product);
        });
        self.count(&SolverReport { products: price as u64, ..Default::default() });
        // If it cannot be computed (because of an overflow, say), the old one is kept.
        if let Ok(renewed) = renewed {
            self.renewals += 1;
            self.renewed = Some(renewed);
        }
        (self.when_new, self.excess) = (None, 0);
    }

    fn count(&mut self, report: &SolverReport) {
        self.shared.tally.record(report);
        self.report.merge(report);
    }

    /// x with (I + J̃A⁻¹J̃ᵀ)x = z.
    fn solve_system(&mut self, rows: &mut PulledBack<'_>, prior: &PriorPrecision, force: &[f64]) {
        self.renew(rows, prior);
        let Self { shared, solver, solution, scaled, shares, renewed, tolerance, .. } = self;
        let preconditioner = renewed.as_ref().unwrap_or(&shared.preconditioner);
        if !shared.options.warm_start {
            solution.fill(0.0);
        }
        shares.resize(preconditioner.rank(), 0.0);
        let rule = StoppingRule { tolerance: *tolerance, max_products: shared.options.max_products };
        let (rows, scratch) = rows.parts();
        let convergence = solver.solve(
            force,
            solution,
            rule,
            |u, product| {
                kernel_times(rows, scratch, prior, scaled, u, product);
                product.iter_mut().zip(u).for_each(|(value, u)| *value += u);
            },
            |u, solved| preconditioner.apply(u, shares, solved),
        );
        // A force that is not finite means that the path left the finite numbers; it says nothing about the solver.
        if convergence.products > 0 || convergence.converged {
            let this = SolverReport::of(convergence, preconditioner.rank());
            self.worst_residual = self.worst_residual.max(this.worst_residual);
            self.count(&this);
            let when_new = *self.when_new.get_or_insert(convergence.products);
            self.excess += convergence.products.saturating_sub(when_new);
        }
    }
}

impl RidgeSolver for MatrixFreeRidge {
    fn solve(
        &mut self,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        force: &mut [f64],
        solution: &mut [f64],
    ) -> bool {
        self.solve_system(rows, prior, force);
        rows.transpose_times(&self.solution, solution);
        prior.divide(solution);
        true
    }

    fn begin_path(&mut self, rtol: f64) {
        self.forget();
        self.tolerance = self.shared.options.for_integrator(rtol).tolerance;
        self.worst_residual = 0.0;
    }

    fn path_residual(&self) -> f64 {
        self.worst_residual
    }

    fn forget(&mut self) {
        self.solution.fill(0.0);
        (self.renewed, self.renewals, self.when_new, self.excess) = (None, 0, None, 0);
    }

    fn report(&self) -> Option<SolverReport> {
        Some(self.report)
    }
}

/// Random columns in addition to the known ones when a preconditioner is renewed, for directions that have become
/// important along the path.
fn extra_columns(rank: usize) -> usize {
    (rank / 8).max(4)
}

/// J̃A⁻¹J̃ᵀu.
fn kernel_times(
    rows: &dyn Rows,
    scratch: &mut Scratch,
    prior: &PriorPrecision,
    scaled: &mut [f64],
    u: &[f64],
    product: &mut [f64],
) {
    rows.transpose_times(u, scaled, scratch);
    prior.divide(scaled);
    rows.times(scaled, product, scratch);
}
