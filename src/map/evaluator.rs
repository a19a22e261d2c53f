//! Evaluations of a map in the one order that makes sense, enforced by types: evaluated at θ, pulled back, multiplied.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut};

use super::{Evaluate, Jet, Map, Rows, Scratch, weighted_gram};
use crate::error::Result;

/// One thread's buffers for a [`Map`], and the operations that need them.
///
/// ```
/// use std::sync::Arc;
/// use ndarray::array;
/// use riemannian_laplace::internals::map::{Evaluator, identity_seeds};
/// use riemannian_laplace::Model;
/// use riemannian_laplace::{Activation, Architecture, Network};
///
/// // f(x) = 3x + 1 at x = 0 and x = 2: J = [[0, 1], [2, 1]].
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![3.0, 1.0])?;
/// let map = network.bind(array![[0.0], [2.0]].view())?;
/// let (mut evaluator, mut outputs) = (Evaluator::new(&map, 1), [0.0; 2]);
/// let evaluated = evaluator.outputs(network.parameters(), &mut outputs);
/// let mut product = [0.0; 2];
/// evaluated.pull_back(&identity_seeds(2, 1)).times(&[10.0, 1.0], &mut product);
/// assert_eq!((outputs, product), ([1.0, 7.0], [1.0, 21.0]));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub struct Evaluator {
    inner: Box<dyn Evaluate>,
    scratch: Scratch,
}

impl Evaluator {
    /// An evaluator for seeds with K columns at each point.
    pub fn new(map: &Arc<dyn Map>, columns: usize) -> Self {
        Self { inner: map.clone().evaluate(columns), scratch: Scratch::default() }
    }

    /// f(θ).
    pub fn outputs<'e>(&'e mut self, theta: &'e [f64], outputs: &mut [f64]) -> Evaluated<'e> {
        self.inner.outputs(theta, outputs);
        Evaluated { evaluator: self, theta }
    }

    /// f, ḟ and f̈ along a velocity, in one sweep.
    pub fn jet<'e>(&'e mut self, theta: &'e [f64], velocity: &[f64], jet: &mut Jet) -> Evaluated<'e> {
        self.inner.jet(theta, velocity, jet);
        Evaluated { evaluator: self, theta }
    }

    /// f, ḟ and what a sweep back does not give more cheaply of f̈.
    ///
    /// Every layer adds to f̈ where it bends, and a sweep back weighs what was added before it. So with
    /// [`PartlyEvaluated::pull_back`], which is to follow in any case, a hidden layer saves the product of its weights with
    /// the second derivatives of its inputs: one of seven products with its size in an acceleration.
    pub fn partial_jet<'e>(&'e mut self, theta: &'e [f64], velocity: &[f64], jet: &mut Jet) -> PartlyEvaluated<'e> {
        self.inner.partial_jet(theta, velocity, jet);
        PartlyEvaluated { evaluator: self, theta }
    }
}

/// A map evaluated at θ.
pub struct Evaluated<'e> {
    evaluator: &'e mut Evaluator,
    theta: &'e [f64],
}

impl<'e> Evaluated<'e> {
    /// The rows J̃ = RᵀJ at this θ for the given seeds R.
    pub fn pull_back(self, seeds: &[f64]) -> PulledBack<'e> {
        let Evaluator { inner, scratch } = self.evaluator;
        inner.pull_back(self.theta, seeds);
        PulledBack { rows: &**inner, scratch }
    }
}

/// A map evaluated at θ, but for a part of f̈.
pub struct PartlyEvaluated<'e> {
    evaluator: &'e mut Evaluator,
    theta: &'e [f64],
}

impl<'e> PartlyEvaluated<'e> {
    /// The rows J̃ = RᵀJ at this θ for the given seeds R; adds Rᵀ times the part of f̈ that was left out to `whitened`.
    pub fn pull_back(self, seeds: &[f64], whitened: &mut [f64]) -> PulledBack<'e> {
        let Evaluator { inner, scratch } = self.evaluator;
        inner.pull_back_with_rest(self.theta, seeds, whitened);
        PulledBack { rows: &**inner, scratch }
    }
}

/// The rows J̃ at the θ of the last evaluation.
pub struct PulledBack<'e> {
    rows: &'e dyn Rows,
    scratch: &'e mut Scratch,
}

impl PulledBack<'_> {
    /// J̃ u.
    pub fn times(&mut self, direction: &[f64], product: &mut [f64]) {
        self.rows.times(direction, product, self.scratch);
    }

    /// J̃ᵀ w.
    pub fn transpose_times(&mut self, weights: &[f64], product: &mut [f64]) {
        self.rows.transpose_times(weights, product, self.scratch);
    }

    /// The lower triangle of J̃ V J̃ᵀ, with one variance per group of parameters or one per parameter.
    pub fn gram(&mut self, variances: &[f64], gram: MatMut<'_, f64>) {
        weighted_gram(self.rows, variances, gram, self.scratch);
    }

    /// The lower triangle of J̃ᵀJ̃, replaced or added to.
    pub fn curvature(&mut self, accumulate: Accum, target: MatMut<'_, f64>) {
        self.rows.curvature(accumulate, target, self.scratch);
    }

    /// J̃ as a dense M × D matrix.
    pub fn dense(&self, rows: MatMut<'_, f64>) {
        self.rows.dense(rows);
    }

    /// The rows, and room for products with them.
    pub fn parts(&mut self) -> (&dyn Rows, &mut Scratch) {
        (self.rows, self.scratch)
    }
}

/// The rows J̃ at θ, kept: `seeds` computes R from the outputs there.
pub fn frozen_rows(
    map: &Arc<dyn Map>,
    theta: &[f64],
    columns: usize,
    seeds: impl FnOnce(&[f64]) -> Result<Vec<f64>>,
) -> Result<Box<dyn Rows>> {
    let mut evaluator = map.clone().evaluate(columns);
    let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
    evaluator.outputs(theta, &mut outputs);
    evaluator.pull_back(theta, &seeds(&outputs)?);
    Ok(evaluator)
}

/// The seeds R = I (K = P columns), with which J̃ is the plain Jacobian, rows numbered `p·N + n`.
pub fn identity_seeds(n_points: usize, n_outputs: usize) -> Vec<f64> {
    let mut seeds = vec![0.0; n_points * n_outputs * n_outputs];
    for p in 0..n_outputs {
        seeds[(p * n_outputs + p) * n_points..][..n_points].fill(1.0);
    }
    seeds
}

/// The Jacobian of all outputs at θ: row `p·N + n` is the gradient of output p at point n.
pub fn jacobian(map: &Arc<dyn Map>, theta: &[f64]) -> Mat<f64> {
    let (n, p) = (map.n_points(), map.n_outputs());
    let mut evaluator = Evaluator::new(map, p);
    let mut outputs = vec![0.0; n * p];
    let rows = evaluator.outputs(theta, &mut outputs).pull_back(&identity_seeds(n, p));
    let mut jacobian = Mat::zeros(n * p, map.n_params());
    rows.dense(jacobian.as_mut());
    jacobian
}
