//! Maps of few parameters, given by explicit formulas: outputs, jet and a dense Jacobian.

use faer::{Accum, Mat, MatMut};

use super::{DifferentiableMap, Jet};
use crate::linalg::{dot, multiply_by_own_transpose};

/// A map given by formulas for its outputs, its jet and its Jacobian. Wrap it in [`Explicit`] to use it.
pub trait ExplicitMap: Sync {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// N, the number of points.
    fn n_points(&self) -> usize;
    /// P, the number of outputs at a point.
    fn n_outputs(&self) -> usize;
    /// f(θ), unit-major.
    fn outputs(&self, theta: &[f64], outputs: &mut [f64]);
    /// f, ḟ and f̈ along a velocity.
    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet);
    /// The gradient of output p at point n, as row `p·N + n` of the matrix.
    fn jacobian(&self, theta: &[f64], jacobian: MatMut<'_, f64>);
}

/// An [`ExplicitMap`] as a [`DifferentiableMap`], with dense products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Explicit<E>(pub E);

/// The dense Jacobian and the rows J̃ᵀ of an [`Explicit`] map.
#[derive(Debug, Clone)]
pub struct ExplicitWorkspace {
    jacobian: Mat<f64>,
    /// J̃ᵀ: one row of J̃ a column, contiguous.
    rows: Mat<f64>,
    scaled: Mat<f64>,
}

impl<E: ExplicitMap> DifferentiableMap for Explicit<E> {
    type Workspace = ExplicitWorkspace;

    fn n_params(&self) -> usize {
        self.0.n_params()
    }

    fn n_points(&self) -> usize {
        self.0.n_points()
    }

    fn n_outputs(&self) -> usize {
        self.0.n_outputs()
    }

    fn workspace(&self, columns: usize) -> ExplicitWorkspace {
        let (d, n) = (self.n_params(), self.n_points());
        ExplicitWorkspace {
            jacobian: Mat::zeros(n * self.n_outputs(), d),
            rows: Mat::zeros(d, n * columns),
            scaled: Mat::zeros(n * columns, d),
        }
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], _: &mut ExplicitWorkspace) {
        self.0.outputs(theta, outputs);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, _: &mut ExplicitWorkspace) {
        self.0.jet(theta, velocity, jet);
    }

    fn pull_back(&self, theta: &[f64], seeds: &[f64], workspace: &mut ExplicitWorkspace) {
        let (n, p) = (self.n_points(), self.n_outputs());
        self.0.jacobian(theta, workspace.jacobian.as_mut());
        let columns = workspace.rows.ncols() / n.max(1);
        for k in 0..columns {
            for point in 0..n {
                for d in 0..self.n_params() {
                    let entry = (0..p)
                        .map(|output| {
                            seeds[(output * columns + k) * n + point] * workspace.jacobian[(output * n + point, d)]
                        })
                        .sum();
                    workspace.rows[(d, k * n + point)] = entry;
                }
            }
        }
    }

    fn rows(&self, workspace: &mut ExplicitWorkspace, mut rows: MatMut<'_, f64>) {
        rows.copy_from(workspace.rows.transpose());
    }

    fn times(&self, direction: &[f64], workspace: &mut ExplicitWorkspace, product: &mut [f64]) {
        for (row, value) in workspace.rows.col_iter().zip(product) {
            *value = row.iter().zip(direction).map(|(a, b)| a * b).sum();
        }
    }

    fn transpose_times(&self, weights: &[f64], workspace: &mut ExplicitWorkspace, product: &mut [f64]) {
        product.fill(0.0);
        for (row, weight) in workspace.rows.col_iter().zip(weights) {
            for (value, entry) in product.iter_mut().zip(row.iter()) {
                *value += weight * entry;
            }
        }
    }

    fn gram(&self, variances: &[f64], workspace: &mut ExplicitWorkspace, gram: MatMut<'_, f64>) {
        workspace.scaled.copy_from(workspace.rows.transpose());
        let scale = variances[0].sqrt();
        for column in workspace.scaled.col_iter_mut() {
            for value in column.iter_mut() {
                *value *= scale;
            }
        }
        multiply_by_own_transpose(gram, Accum::Replace, workspace.scaled.as_ref());
    }

    fn workspace_size(&self, columns: usize) -> f64 {
        (self.n_points() * self.n_params()) as f64 * (self.n_outputs() + 2 * columns) as f64
    }
}

/// A single dense row: the gradient of a map with one output at one point.
#[derive(Debug, Clone)]
pub struct SingleRow {
    /// The row J̃.
    pub row: Vec<f64>,
    groups: Vec<usize>,
}

impl SingleRow {
    /// A row of zeros over groups of parameters of the given sizes.
    pub fn new(groups: Vec<usize>) -> Self {
        Self { row: vec![0.0; groups.iter().sum()], groups }
    }

    /// J̃ as a 1 × D matrix.
    pub fn rows(&self, mut rows: MatMut<'_, f64>) {
        for (d, value) in self.row.iter().enumerate() {
            rows[(0, d)] = *value;
        }
    }

    /// J̃ u.
    pub fn times(&self, direction: &[f64], product: &mut [f64]) {
        product[0] = dot(&self.row, direction);
    }

    /// J̃ᵀ w.
    pub fn transpose_times(&self, weights: &[f64], product: &mut [f64]) {
        for (value, entry) in product.iter_mut().zip(&self.row) {
            *value = weights[0] * entry;
        }
    }

    /// Σ_g V_g ‖row_g‖² over the groups of parameters.
    pub fn gram(&self, variances: &[f64], mut gram: MatMut<'_, f64>) {
        let (mut start, mut sum) = (0, 0.0);
        for (size, variance) in self.groups.iter().zip(variances) {
            let part = &self.row[start..start + size];
            sum += variance * dot(part, part);
            start += size;
        }
        gram[(0, 0)] = sum;
    }
}
