//! Ridge regressions in weight space: the D × D system (A + J̃ᵀJ̃)x = J̃ᵀz of rows that change along a geodesic.

use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef};

use super::ridge::RidgeSolver;
use super::weight_space::factor_with_prior;
use crate::linalg::{Cholesky, SMALL, column_slice, column_slice_mut, multiply, multiply_by_own_transpose};
use crate::map::{Map, PulledBack, Rows, Scratch};
use crate::prior::PriorPrecision;

/// Factors A + J̃ᵀJ̃ for the given rows. False where it is not positive definite.
pub(super) fn factor_rows(
    rows: &dyn Rows,
    scratch: &mut Scratch,
    prior: &PriorPrecision,
    cholesky: &mut Cholesky,
) -> bool {
    rows.curvature(Accum::Replace, cholesky.matrix_mut(), scratch);
    factor_with_prior(cholesky, prior).is_ok()
}

/// The ridge regression with a D × D system for rows that change.
pub(super) struct WeightRidge {
    cholesky: Cholesky,
    bordered: Option<Bordered>,
}

/// The dense rows with the force as one more column, [J̃ z], and the products of its columns. Where D is small, a product
/// with z beside those of the columns costs nothing, while J̃ᵀz of its own takes a tenth of an evaluation.
struct Bordered {
    columns: Mat<f64>,
    products: Mat<f64>,
}

impl Bordered {
    /// For the rows of this map, unless they are many columns or the map has a better way than dense rows.
    fn new(map: &dyn Map) -> Option<Self> {
        let (m, d) = (map.n_points() * map.n_outputs(), map.n_params());
        let dense_work = 0.5 * m as f64 * (d * d) as f64;
        let serves = d < SMALL && map.curvature_work(map.n_outputs()) >= dense_work;
        serves.then(|| Self { columns: Mat::zeros(m, d + 1), products: Mat::zeros(d + 1, d + 1) })
    }

    /// matrix ← J̃ᵀJ̃ (its lower triangle) and gradient ← J̃ᵀz.
    fn multiply(&mut self, rows: &dyn Rows, force: &[f64], mut matrix: MatMut<'_, f64>, gradient: &mut [f64]) {
        let d = gradient.len();
        rows.dense(self.columns.get_mut(.., ..d));
        column_slice_mut(self.columns.col_mut(d)).copy_from_slice(force);
        multiply_by_own_transpose(self.products.as_mut(), Accum::Replace, self.columns.transpose());
        for (j, gradient) in gradient.iter_mut().enumerate() {
            let source = &column_slice(self.products.col(j))[j..];
            column_slice_mut(matrix.rb_mut().col_mut(j))[j..].copy_from_slice(&source[..d - j]);
            *gradient = source[d - j];
        }
    }
}

/// The number of f64 values that the solver holds.
pub(super) fn numbers(map: &dyn Map) -> f64 {
    let d = map.n_params() as f64;
    map.curvature_size(map.n_outputs()) + (map.n_points() * map.n_outputs()) as f64 + 2.0 * (d + 1.0) * (d + 1.0)
}

impl WeightRidge {
    /// For the rows of this map.
    pub(super) fn new(map: &dyn Map) -> Self {
        Self { cholesky: Cholesky::new(map.n_params()), bordered: Bordered::new(map) }
    }
}

impl RidgeSolver for WeightRidge {
    fn solve(
        &mut self,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        force: &mut [f64],
        solution: &mut [f64],
    ) -> bool {
        let (inner, scratch) = rows.parts();
        let factored = match &mut self.bordered {
            Some(bordered) => {
                bordered.multiply(inner, force, self.cholesky.matrix_mut(), solution);
                factor_with_prior(&mut self.cholesky, prior).is_ok()
            }
            None => {
                let factored = factor_rows(inner, scratch, prior, &mut self.cholesky);
                if factored {
                    inner.transpose_times(force, solution, scratch);
                }
                factored
            }
        };
        if factored {
            self.cholesky.solve(solution);
        }
        factored
    }

    fn image(&mut self, rows: &mut PulledBack<'_>, solution: &[f64], image: &mut [f64]) {
        match &self.bordered {
            Some(Bordered { columns, .. }) => {
                let (m, d) = (image.len(), solution.len());
                let image = MatMut::from_column_major_slice_mut(image, m, 1);
                let solution = MatRef::from_column_major_slice(solution, d, 1);
                multiply(image, Accum::Replace, columns.get(.., ..d), solution);
            }
            None => rows.times(solution, image),
        }
    }
}
