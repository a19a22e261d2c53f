//! Maps of few parameters, given by explicit formulas: outputs, jet and a dense Jacobian.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut};

use super::{Evaluate, Jet, Map, Rows, Scratch, dense_cross_gram};
use crate::linalg::multiply_by_own_transpose;

/// A map given by formulas for its outputs, its jet and its Jacobian. Wrap it in [`Explicit`] to use it.
pub trait ExplicitMap: Send + Sync + std::fmt::Debug {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// N, the number of points.
    fn n_points(&self) -> usize;
    /// P, the number of outputs at a point.
    fn n_outputs(&self) -> usize;
    /// f(θ), unit-major.
    fn outputs(&self, theta: &[f64], outputs: &mut [f64]);
    /// f (unless the jet has no room for it), ḟ and f̈ along a velocity.
    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet);
    /// The gradient of output p at point n, as row `p·N + n` of the matrix.
    fn jacobian(&self, theta: &[f64], jacobian: MatMut<'_, f64>);
}

/// An [`ExplicitMap`] as a [`Map`], with dense products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Explicit<E>(pub E);

/// The dense Jacobian and the rows J̃ᵀ of an [`Explicit`] map.
struct ExplicitEvaluator<E> {
    map: Arc<Explicit<E>>,
    jacobian: Mat<f64>,
    /// J̃ᵀ: each row of J̃ is a contiguous column.
    rows: Mat<f64>,
}

impl<E: ExplicitMap + 'static> Map for Explicit<E> {
    fn n_params(&self) -> usize {
        self.0.n_params()
    }

    fn n_points(&self) -> usize {
        self.0.n_points()
    }

    fn n_outputs(&self) -> usize {
        self.0.n_outputs()
    }

    fn evaluate(self: Arc<Self>, columns: usize) -> Box<dyn Evaluate> {
        let (d, n) = (self.n_params(), self.n_points());
        let jacobian = Mat::zeros(n * self.n_outputs(), d);
        Box::new(ExplicitEvaluator { map: self, jacobian, rows: Mat::zeros(d, n * columns) })
    }

    fn evaluator_size(&self, columns: usize) -> f64 {
        (self.n_points() * self.n_params()) as f64 * (self.n_outputs() + 2 * columns) as f64
    }
}

impl<E: ExplicitMap + 'static> Evaluate for ExplicitEvaluator<E> {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        self.map.0.outputs(theta, outputs);
    }

    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.map.0.jet(theta, velocity, jet);
    }

    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]) {
        let (n, p) = (self.map.n_points(), self.map.n_outputs());
        self.map.0.jacobian(theta, self.jacobian.as_mut());
        let columns = self.rows.ncols() / n.max(1);
        for k in 0..columns {
            for point in 0..n {
                for d in 0..self.map.n_params() {
                    let entry = (0..p)
                        .map(|output| {
                            seeds[(output * columns + k) * n + point] * self.jacobian[(output * n + point, d)]
                        })
                        .sum();
                    self.rows[(d, k * n + point)] = entry;
                }
            }
        }
    }
}

impl<E: ExplicitMap + 'static> Rows for ExplicitEvaluator<E> {
    fn n_rows(&self) -> usize {
        self.rows.ncols()
    }

    fn n_params(&self) -> usize {
        self.rows.nrows()
    }

    fn times(&self, direction: &[f64], product: &mut [f64], _: &mut Scratch) {
        for (row, value) in self.rows.col_iter().zip(product) {
            *value = row.iter().zip(direction).map(|(a, b)| a * b).sum();
        }
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], _: &mut Scratch) {
        product.fill(0.0);
        for (row, weight) in self.rows.col_iter().zip(weights) {
            for (value, entry) in product.iter_mut().zip(row.iter()) {
                *value += weight * entry;
            }
        }
    }

    fn dense(&self, mut rows: MatMut<'_, f64>) {
        rows.copy_from(self.rows.transpose());
    }

    fn gram(&self, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (m, d) = (self.n_rows(), self.n_params());
        let mut scaled = MatMut::from_column_major_slice_mut(scratch.numbers(m * d), m, d);
        scaled.copy_from(self.rows.transpose());
        let scale = variances[0].sqrt();
        for column in scaled.as_mut().col_iter_mut() {
            for value in column.iter_mut() {
                *value *= scale;
            }
        }
        multiply_by_own_transpose(gram, Accum::Replace, scaled.as_ref());
    }

    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, _: &mut Scratch) {
        dense_cross_gram(self, other, variances, gram);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
