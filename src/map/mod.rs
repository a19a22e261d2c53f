//! The differentiable map θ → outputs: values, second-order jets, and the pulled-back rows J̃ = RᵀJ.
//!
//! All geometry of this crate is written against [`DifferentiableMap`] and a
//! [`Likelihood`](crate::likelihood::Likelihood). A map takes D parameters to P outputs at each of N points.
//!
//! Arrays over outputs are *unit-major*: entry (n, p) stands at `p·N + n`, so that loops over the points run over
//! contiguous memory. Seeds R hold, for each point, K columns of length P: entry (n, p, k) stands at
//! `(p·K + k)·N + n`. The M = N·K rows of J̃ = RᵀJ are numbered `k·N + n`.

mod explicit;

pub use explicit::{Explicit, ExplicitMap, ExplicitWorkspace, SingleRow};

use faer::{Mat, MatMut};

/// f, ḟ = Jv and f̈ = vᵀ∇²f v at every point, unit-major.
#[derive(Debug, Clone, Default)]
pub struct Jet {
    /// f: the outputs.
    pub outputs: Vec<f64>,
    /// ḟ: their first derivative along the velocity.
    pub tangents: Vec<f64>,
    /// f̈: their second derivative along the velocity.
    pub curvatures: Vec<f64>,
}

impl Jet {
    /// Storage for N points of P outputs.
    pub fn new(n_points: usize, n_outputs: usize) -> Self {
        let size = n_points * n_outputs;
        Self { outputs: vec![0.0; size], tangents: vec![0.0; size], curvatures: vec![0.0; size] }
    }
}

/// A map from D parameters to P outputs at each of N points, with the derivatives the geometry needs.
///
/// The order of calls on a workspace: [`outputs`](Self::outputs) or [`jet`](Self::jet) at θ, then
/// [`pull_back`](Self::pull_back) at the same θ, then any number of products with the rows J̃.
pub trait DifferentiableMap: Sync {
    /// Buffers reused from one evaluation to the next.
    type Workspace: Send;

    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// N, the number of points.
    fn n_points(&self) -> usize;
    /// P, the number of outputs at a point.
    fn n_outputs(&self) -> usize;
    /// The number of parameters in each group that may have a prior precision of its own (a network's layers).
    fn groups(&self) -> Vec<usize> {
        vec![self.n_params()]
    }
    /// Buffers for seeds with K columns at each point.
    fn workspace(&self, columns: usize) -> Self::Workspace;
    /// f(θ).
    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut Self::Workspace);
    /// f, ḟ and f̈ along a velocity, in one sweep.
    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut Self::Workspace);
    /// Prepares the rows J̃ = RᵀJ for the given seeds R.
    fn pull_back(&self, theta: &[f64], seeds: &[f64], workspace: &mut Self::Workspace);
    /// J̃ as a dense M × D matrix.
    fn rows(&self, workspace: &mut Self::Workspace, rows: MatMut<'_, f64>);
    /// J̃ u.
    fn times(&self, direction: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]);
    /// J̃ᵀ w.
    fn transpose_times(&self, weights: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]);
    /// The lower triangle of J̃ V J̃ᵀ, with V the diagonal matrix of prior variances, one for each group.
    fn gram(&self, variances: &[f64], workspace: &mut Self::Workspace, gram: MatMut<'_, f64>);
    /// f64 numbers a workspace with K columns holds, for estimates before allocation.
    fn workspace_size(&self, columns: usize) -> f64;
    /// Multiply-adds of [`gram`](Self::gram) with K columns; through dense rows unless there is a better way.
    fn gram_work(&self, columns: usize) -> f64 {
        let rows = (self.n_points() * columns) as f64;
        0.5 * rows * rows * self.n_params() as f64
    }
}

impl<M: DifferentiableMap> DifferentiableMap for &M {
    type Workspace = M::Workspace;

    fn n_params(&self) -> usize {
        (**self).n_params()
    }
    fn n_points(&self) -> usize {
        (**self).n_points()
    }
    fn n_outputs(&self) -> usize {
        (**self).n_outputs()
    }
    fn groups(&self) -> Vec<usize> {
        (**self).groups()
    }
    fn workspace(&self, columns: usize) -> Self::Workspace {
        (**self).workspace(columns)
    }
    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut Self::Workspace) {
        (**self).outputs(theta, outputs, workspace);
    }
    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut Self::Workspace) {
        (**self).jet(theta, velocity, jet, workspace);
    }
    fn pull_back(&self, theta: &[f64], seeds: &[f64], workspace: &mut Self::Workspace) {
        (**self).pull_back(theta, seeds, workspace);
    }
    fn rows(&self, workspace: &mut Self::Workspace, rows: MatMut<'_, f64>) {
        (**self).rows(workspace, rows);
    }
    fn times(&self, direction: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]) {
        (**self).times(direction, workspace, product);
    }
    fn transpose_times(&self, weights: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]) {
        (**self).transpose_times(weights, workspace, product);
    }
    fn gram(&self, variances: &[f64], workspace: &mut Self::Workspace, gram: MatMut<'_, f64>) {
        (**self).gram(variances, workspace, gram);
    }
    fn workspace_size(&self, columns: usize) -> f64 {
        (**self).workspace_size(columns)
    }
    fn gram_work(&self, columns: usize) -> f64 {
        (**self).gram_work(columns)
    }
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
pub fn jacobian<M: DifferentiableMap>(map: &M, theta: &[f64]) -> Mat<f64> {
    let (n, p) = (map.n_points(), map.n_outputs());
    let mut workspace = map.workspace(p);
    map.outputs(theta, &mut vec![0.0; n * p], &mut workspace);
    map.pull_back(theta, &identity_seeds(n, p), &mut workspace);
    let mut rows = Mat::zeros(n * p, map.n_params());
    map.rows(&mut workspace, rows.as_mut());
    rows
}
