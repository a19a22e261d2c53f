//! Ridge regressions in weight space: the D × D system (A + J̃ᵀJ̃)x = J̃ᵀz of rows that change along a geodesic.

use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef};

use super::RidgeSolver;
use crate::laplace::weight_space::factor_with_prior;
use crate::linalg::{
    Cholesky, RoundedCholesky, SMALL, column_slice, column_slice_mut, multiply, multiply_by_own_transpose,
};
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

/// The same in f32, for a preconditioner. False also where the rows have no curvature in f32, or the prior is a matrix.
pub(super) fn factor_rounded_rows(
    rows: &dyn Rows,
    scratch: &mut Scratch,
    prior: &PriorPrecision,
    cholesky: &mut RoundedCholesky,
) -> bool {
    if prior.matrix().is_some() || !rows.rounded_curvature(cholesky.matrix_mut(), scratch) {
        return false;
    }
    let mut matrix = cholesky.matrix_mut();
    prior.for_each_group(|range, alpha| range.for_each(|d| matrix[(d, d)] += alpha as f32));
    cholesky.factor()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::Array2;

    use super::super::rows_at_base;
    use super::*;
    use crate::likelihood::Gaussian;
    use crate::linalg::RoundedFactor;
    use crate::map::Model;
    use crate::network::{Activation, Architecture, Network};

    fn rows(sigma: f64) -> Result<(Box<dyn Rows>, PriorPrecision), crate::error::Error> {
        let network = Network::random(Architecture::new(&[3, 8, 6, 2], Activation::Tanh)?, 5);
        let inputs = Array2::from_shape_fn((1000, 3), |(n, i)| ((n * (3 * i + 7)) % 101) as f64 / 50.0 - 1.0);
        let map: Arc<dyn Map> = network.bind(inputs.view())?;
        assert!(map.rounds_curvature(2));
        let prior = PriorPrecision::scalar(1.0, &map.groups())?;
        Ok((rows_at_base(&map, &Gaussian::new(sigma)?, network.parameters())?, prior))
    }

    #[test]
    fn a_matrix_in_f32_is_that_in_f64_to_its_digits() -> Result<(), crate::error::Error> {
        let (rows, prior) = rows(0.5)?;
        let (size, mut scratch) = (rows.n_params(), Scratch::default());
        // From dense rows, not layer by layer.
        let mut dense = Mat::zeros(rows.n_rows(), size);
        rows.dense(dense.as_mut());
        let exact = dense.transpose() * &dense;
        let mut rounded = RoundedCholesky::new(size);
        assert!(rows.rounded_curvature(rounded.matrix_mut(), &mut scratch));
        for (i, j) in (0..size).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let error = (f64::from(rounded.matrix_mut()[(i, j)]) - exact[(i, j)]).abs();
            assert!(error <= 1e-5 * (exact[(i, i)] * exact[(j, j)]).sqrt(), "{i} {j}: {error:e}");
        }
        let (mut factor, x) = (RoundedFactor::new(), (0..size).map(|i| (i % 3) as f64 - 1.0).collect::<Vec<f64>>());
        assert!(factor_rounded_rows(&*rows, &mut scratch, &prior, &mut rounded) && factor.take(&rounded));
        let mut solved: Vec<f64> =
            (0..size).map(|i| x[i] + (0..size).map(|j| exact[(i, j)] * x[j]).sum::<f64>()).collect();
        factor.solve(&mut solved, &mut Vec::new());
        assert!(solved.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-2), "{solved:?}");
        Ok(())
    }

    #[test]
    fn a_matrix_beyond_the_range_of_f32_is_refused() -> Result<(), crate::error::Error> {
        let (rows, prior) = rows(1e-21)?;
        let (size, mut scratch) = (rows.n_params(), Scratch::default());
        let (mut rounded, mut factor) = (RoundedCholesky::new(size), RoundedFactor::new());
        assert!(!(factor_rounded_rows(&*rows, &mut scratch, &prior, &mut rounded) && factor.take(&rounded)));
        Ok(())
    }
}
