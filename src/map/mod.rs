//! What the user provides, and what the geometry sees of it: the [`Model`], and the differentiable [`Map`] θ → outputs
//! that it becomes when it is bound to inputs.
//!
//! All geometry of this crate is written against [`Map`] and a likelihood. A map takes D parameters to P outputs
//! at each of N points.
//!
//! Arrays over outputs are *unit-major*: entry (n, p) is at `p·N + n`, so that loops over the points run over
//! contiguous memory. Seeds R hold, for each point, K columns of length P: entry (n, p, k) is at `(p·K + k)·N + n`. The
//! M = N·K rows of J̃ = RᵀJ are numbered `k·N + n`.

mod blocks;
mod evaluator;
mod explicit;
mod function;
mod model;
mod restricted;
mod rows;
mod subset;
mod taylor;
mod weighted;

pub use blocks::{
    Bases, BlockCovariance, BlockShape, BlockSums, KroneckerFactors, MatrixCovariance, add_dense_point_covariances,
    add_dense_squares, add_dense_sums,
};
pub use evaluator::{Evaluated, Evaluator, PartlyEvaluated, PulledBack, frozen_rows, identity_seeds, jacobian};
pub use explicit::{Explicit, ExplicitMap};
pub use function::{FunctionModel, ParametricFunction};
pub use model::{Group, Model, Rounding};
pub use rows::{Rows, RowsAlong, Scratch, SingleRow, TileBuffers, dense_cross_gram, dense_curvature};
pub(crate) use rows::{resize, single_row};
pub use subset::{Cut, Features, Subset, SubsetPlace};
pub use taylor::Taylor;
pub use weighted::{weighted_cross_gram, weighted_gram};

use std::sync::Arc;

use crate::error::{Error, Result, Unsupported};

/// f, ḟ = Jv and f̈ = vᵀ∇²f v at every point, unit-major.
#[derive(Debug, Clone, Default)]
pub struct Jet {
    /// f: the outputs; empty when they were not requested.
    pub outputs: Vec<f64>,
    /// ḟ: their first derivative along the velocity.
    pub first: Vec<f64>,
    /// f̈: their second derivative along the velocity.
    pub second: Vec<f64>,
}

impl Jet {
    /// Storage for N points of P outputs.
    pub fn new(n_points: usize, n_outputs: usize) -> Self {
        Self { outputs: vec![0.0; n_points * n_outputs], ..Self::derivatives(n_points, n_outputs) }
    }

    /// Storage for ḟ and f̈ alone: a map need not compute f for it.
    pub fn derivatives(n_points: usize, n_outputs: usize) -> Self {
        let size = n_points * n_outputs;
        Self { outputs: Vec::new(), first: vec![0.0; size], second: vec![0.0; size] }
    }
}

/// A map from D parameters to P outputs at each of N points, with the derivatives that the geometry needs.
///
/// Maps are shared (`Arc`) and immutable; the numbers of an evaluation live in an [`Evaluator`], one per thread.
pub trait Map: Send + Sync + std::fmt::Debug {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// N, the number of points.
    fn n_points(&self) -> usize;
    /// P, the number of outputs at a point.
    fn n_outputs(&self) -> usize;
    /// The number of parameters in each group that may have its own prior precision (a network's layers).
    fn groups(&self) -> Vec<usize> {
        vec![self.n_params()]
    }
    /// An evaluator for seeds with K columns at each point. Callers use it through [`Evaluator`], whose types enforce
    /// the order of calls.
    fn evaluate(self: Arc<Self>, columns: usize) -> Box<dyn Evaluate>;
    /// The number of f64 values that an evaluator with K columns holds, for estimates before allocation.
    fn evaluator_size(&self, columns: usize) -> f64;
    /// Multiply-adds of [`Rows::gram`] with K columns; through dense rows unless there is a better way.
    fn gram_work(&self, columns: usize) -> f64 {
        let rows = (self.n_points() * columns) as f64;
        0.5 * rows * rows * self.n_params() as f64
    }
    /// Multiply-adds of [`Rows::times`], or of [`Rows::transpose_times`], with K columns; those of dense rows unless there
    /// is a better way.
    fn product_work(&self, columns: usize) -> f64 {
        (self.n_points() * columns) as f64 * self.n_params() as f64
    }
    /// Multiply-adds of [`Rows::curvature`] with K columns; through dense rows unless there is a better way.
    fn curvature_work(&self, columns: usize) -> f64 {
        let params = self.n_params() as f64;
        0.5 * (self.n_points() * columns) as f64 * params * params
    }
    /// Whether there is a [`Rows::rounded_curvature`] with K columns.
    fn rounds_curvature(&self, _columns: usize) -> bool {
        false
    }
    /// The number of f64 values that [`Rows::curvature`] takes from a [`Scratch`]: the dense rows unless there is a
    /// better way.
    fn curvature_size(&self, columns: usize) -> f64 {
        (self.n_points() * columns) as f64 * self.n_params() as f64
    }
    /// The derivatives along a velocity of the rows J̃ = RᵀJ at θ, for seeds R with K columns that do not move; `None`
    /// where the map has no second derivatives to offer.
    fn rows_along(
        self: Arc<Self>,
        _theta: &[f64],
        _velocity: &[f64],
        _seeds: &[f64],
        _columns: usize,
    ) -> Option<Box<dyn RowsAlong>> {
        None
    }
    /// The same map at some of its points, in the order given.
    fn at_points(&self, _points: &[usize]) -> Result<Arc<dyn Map>> {
        Err(Error::Unsupported(Unsupported::PartOfPoints))
    }
}

/// What a [`Map`] implements for its evaluations. The order of calls: [`outputs`](Self::outputs) or [`jet`](Self::jet)
/// at θ, then [`pull_back`](Self::pull_back) at the same θ (any number of times), then the verbs of [`Rows`]. Callers
/// hold an [`Evaluator`]; with it, no other order compiles.
pub trait Evaluate: Rows {
    /// f(θ).
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]);
    /// f (unless the jet has no room for it), ḟ and f̈ along a velocity, in one sweep.
    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet);
    /// Prepares the rows J̃ = RᵀJ for the given seeds R.
    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]);
    /// [`jet`](Self::jet), but of f̈ a part may be left to [`pull_back_with_rest`](Self::pull_back_with_rest), which has to
    /// follow.
    fn partial_jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.jet(theta, velocity, jet);
    }
    /// [`pull_back`](Self::pull_back) after [`partial_jet`](Self::partial_jet), adding Rᵀ times the part of f̈ that was left
    /// out: M numbers.
    fn pull_back_with_rest(&mut self, theta: &[f64], seeds: &[f64], _whitened: &mut [f64]) {
        self.pull_back(theta, seeds);
    }
}
