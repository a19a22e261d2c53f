//! What an iterative solver has cost and how accurate it was.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::linalg::Convergence;

/// What iterative solves have cost and how accurate they were.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SolverReport {
    /// Systems solved: evaluations of the acceleration.
    pub solves: u64,
    /// Products with the system over all of them, including those for renewing a low-rank preconditioner.
    pub products: u64,
    /// The largest relative residual that a solve ended with.
    pub worst_residual: f64,
    /// Solves that ended above their tolerance.
    pub unconverged: u64,
    /// Columns of the low-rank preconditioner.
    pub rank: usize,
    /// Matrices that were factored to precondition with.
    pub factors: u64,
}

impl SolverReport {
    /// The mean number of products (conjugate-gradient iterations) per solve.
    pub fn mean_products(&self) -> f64 {
        self.products as f64 / self.solves.max(1) as f64
    }

    /// Adds another report to this one.
    pub(crate) fn merge(&mut self, other: &SolverReport) {
        self.solves += other.solves;
        self.products += other.products;
        self.worst_residual = self.worst_residual.max(other.worst_residual);
        self.unconverged += other.unconverged;
        self.rank = self.rank.max(other.rank);
        self.factors += other.factors;
    }

    /// One solve.
    pub(super) fn of(convergence: Convergence, rank: usize) -> Self {
        Self {
            solves: 1,
            products: convergence.products as u64,
            worst_residual: if convergence.residual.is_nan() { f64::INFINITY } else { convergence.residual },
            unconverged: u64::from(!convergence.converged),
            rank,
            factors: 0,
        }
    }
}

/// Sums and a maximum over all evaluators: the same on any number of threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    solves: AtomicU64,
    products: AtomicU64,
    /// The bits of a number that is not negative, which are ordered like the number.
    worst_residual: AtomicU64,
    unconverged: AtomicU64,
    factors: AtomicU64,
}

impl Tally {
    /// Adds a report.
    pub(super) fn record(&self, report: &SolverReport) {
        self.solves.fetch_add(report.solves, Ordering::Relaxed);
        self.products.fetch_add(report.products, Ordering::Relaxed);
        self.worst_residual.fetch_max(report.worst_residual.to_bits(), Ordering::Relaxed);
        self.unconverged.fetch_add(report.unconverged, Ordering::Relaxed);
        self.factors.fetch_add(report.factors, Ordering::Relaxed);
    }

    /// All reports so far.
    pub(super) fn report(&self, rank: usize) -> SolverReport {
        SolverReport {
            solves: self.solves.load(Ordering::Relaxed),
            products: self.products.load(Ordering::Relaxed),
            worst_residual: f64::from_bits(self.worst_residual.load(Ordering::Relaxed)),
            unconverged: self.unconverged.load(Ordering::Relaxed),
            rank,
            factors: self.factors.load(Ordering::Relaxed),
        }
    }
}
