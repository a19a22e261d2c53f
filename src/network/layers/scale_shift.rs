//! The scale γ and shift β of normalised values: z = γ x̂ + β, the parameters of every normalisation.
//!
//! Columns share parameters: column j has parameter (j/run) mod count, which is one per channel (run = pixels) or one
//! per feature (run = 1). Along a velocity z₀ = γ x̂₀ + β, z₁ = γ x̂₁ + γ̇ x̂₀ + β̇, z₂ = γ x̂₂ + γ̇ x̂₁. Sensitivities pull
//! back to γδ, along a velocity to γδ̇ + γ̇δ, and the gradients with respect to γ and β are Σδx̂ and Σδ over the columns
//! of a parameter. Neither has the form of a matrix.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef};

use super::{add_row_products, weighted_sum};
use crate::linalg::{
    add_scaled, affine, column_slice, column_slice_mut, dot, multiply, multiply_by_own_transpose, sum,
};
use crate::map::Scratch;

/// Which columns share a scale and a shift, and which of the two there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScaleShift {
    /// The number of scales, and of shifts.
    pub count: usize,
    /// The number of consecutive columns with the same parameter.
    pub run: usize,
    /// Whether there are scales.
    pub scale: bool,
    /// Whether there are shifts.
    pub shift: bool,
}

/// What the parameters' rows are computed from: x̂ (N rows) and δ (M rows).
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub normalized: MatRef<'a, f64>,
    pub sensitivities: MatRef<'a, f64>,
}

impl ScaleShift {
    /// The scale and shift of a column.
    pub fn parameter_of(&self, column: usize) -> usize {
        (column / self.run.max(1)) % self.count.max(1)
    }

    fn scales<'a>(&self, theta: &'a [f64]) -> Option<&'a [f64]> {
        self.scale.then(|| &theta[..self.count])
    }

    fn shifts<'a>(&self, theta: &'a [f64]) -> Option<&'a [f64]> {
        self.shift.then(|| &theta[theta.len() - self.count..])
    }

    /// The number of parameters.
    pub fn n_params(&self) -> usize {
        self.count.saturating_mul(usize::from(self.scale) + usize::from(self.shift))
    }

    /// Replaces the Taylor coefficients of x̂ by those of z; θ moves if there is a velocity.
    pub fn forward(&self, theta: &[f64], velocity: Option<&[f64]>, points: usize, values: MatMut<'_, f64>) {
        let at = |values: Option<&[f64]>, column: usize, otherwise: f64| {
            values.map_or(otherwise, |values| values[self.parameter_of(column)])
        };
        for (j, column) in values.col_iter_mut().enumerate() {
            let column = column_slice_mut(column);
            let scale = at(self.scales(theta), j, 1.0);
            let scale_change = velocity.map_or(0.0, |velocity| at(self.scales(velocity), j, 0.0));
            let blocks = column.len() / points.max(1);
            for block in (0..blocks).rev() {
                let (lower, upper) = column[..(block + 1) * points].split_at_mut(block * points);
                upper.iter_mut().for_each(|value| *value *= scale);
                if block > 0 && velocity.is_some() {
                    add_scaled(scale_change, &lower[(block - 1) * points..], upper);
                }
                let shift = match block {
                    0 => at(self.shifts(theta), j, 0.0),
                    1 => velocity.map_or(0.0, |velocity| at(self.shifts(velocity), j, 0.0)),
                    _ => 0.0,
                };
                upper.iter_mut().for_each(|value| *value += shift);
            }
        }
    }

    /// Writes γδ.
    pub fn pull_back(&self, theta: &[f64], sensitivities: MatRef<'_, f64>, target: MatMut<'_, f64>) {
        for (j, (column, deltas)) in target.col_iter_mut().zip(sensitivities.col_iter()).enumerate() {
            let scale = self.scales(theta).map_or(1.0, |scales| scales[self.parameter_of(j)]);
            affine(0.0, scale, column_slice(deltas), column_slice_mut(column));
        }
    }

    /// Adds γ̇δ to what [`pull_back`](Self::pull_back) made of δ̇.
    pub fn add_change(&self, velocity: &[f64], sensitivities: MatRef<'_, f64>, target: MatMut<'_, f64>) {
        let Some(changes) = self.scales(velocity) else { return };
        for (j, (column, deltas)) in target.col_iter_mut().zip(sensitivities.col_iter()).enumerate() {
            add_scaled(changes[self.parameter_of(j)], column_slice(deltas), column_slice_mut(column));
        }
    }

    /// Adds Σδx̂ to the rows of the scales.
    pub fn add_scale_rows(&self, pair: Pair<'_>, mut target: MatMut<'_, f64>) {
        if !self.scale {
            return;
        }
        for (j, (deltas, values)) in pair.sensitivities.col_iter().zip(pair.normalized.col_iter()).enumerate() {
            let target = column_slice_mut(target.rb_mut().col_mut(self.parameter_of(j)));
            add_row_products(column_slice(deltas), column_slice(values), target);
        }
    }

    /// Writes the rows: M × parameters.
    pub fn rows(&self, pair: Pair<'_>, mut target: MatMut<'_, f64>) {
        target.fill(0.0);
        self.add_scale_rows(pair, target.rb_mut());
        if self.shift {
            let first = self.n_params() - self.count;
            for (j, deltas) in pair.sensitivities.col_iter().enumerate() {
                let target = column_slice_mut(target.rb_mut().col_mut(first + self.parameter_of(j)));
                add_scaled(1.0, column_slice(deltas), target);
            }
        }
    }

    /// Adds the product of the rows with a direction.
    pub fn times(&self, direction: &[f64], pair: Pair<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let change = scratch.numbers(pair.normalized.nrows());
        for (j, (deltas, values)) in pair.sensitivities.col_iter().zip(pair.normalized.col_iter()).enumerate() {
            let parameter = self.parameter_of(j);
            let scale = self.scales(direction).map_or(0.0, |scales| scales[parameter]);
            let shift = self.shifts(direction).map_or(0.0, |shifts| shifts[parameter]);
            affine(shift, scale, column_slice(values), change);
            add_row_products(column_slice(deltas), change, product);
        }
    }

    /// Adds Σₘ wₘ Σδx̂ to the scales' part of a product, and the sums of δ to the shifts'.
    pub fn add_transpose_times(&self, weights: &[f64], pair: Pair<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let weighted = scratch.numbers(pair.normalized.nrows());
        for (j, (deltas, values)) in pair.sensitivities.col_iter().zip(pair.normalized.col_iter()).enumerate() {
            let parameter = self.parameter_of(j);
            weighted_sum(column_slice(deltas).chunks_exact(weighted.len().max(1)), weights, weighted);
            if self.scale {
                product[parameter] += dot(weighted, column_slice(values));
            }
            if self.shift {
                product[self.n_params() - self.count + parameter] += sum(weighted);
            }
        }
    }

    /// The same for the scales alone.
    pub fn add_scale_transpose_times(
        &self,
        weights: &[f64],
        pair: Pair<'_>,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        if self.scale {
            Self { shift: false, ..*self }.add_transpose_times(weights, pair, scratch, &mut product[..self.count]);
        }
    }

    /// Adds the products of the rows, times a variance, to the lower triangle of a Gram matrix.
    pub fn gram(&self, variance: f64, pair: Pair<'_>, scratch: &mut Scratch, gram: MatMut<'_, f64>) {
        let mut rows = scratch.matrix(pair.sensitivities.nrows(), self.n_params());
        self.scaled_rows(variance.sqrt(), pair, rows.rb_mut());
        multiply_by_own_transpose(gram, Accum::Add, rows.rb());
    }

    /// Adds the products with the rows at other points, times a variance.
    pub fn cross_gram(
        &self,
        variance: f64,
        pair: Pair<'_>,
        other: Pair<'_>,
        scratch: &mut Scratch,
        gram: MatMut<'_, f64>,
    ) {
        let (count, m, others) = (self.n_params(), pair.sensitivities.nrows(), other.sensitivities.nrows());
        let (left, right) = scratch.numbers((m + others) * count).split_at_mut(m * count);
        let mut left = MatMut::from_column_major_slice_mut(left, m, count);
        let mut right = MatMut::from_column_major_slice_mut(right, others, count);
        self.scaled_rows(variance, pair, left.rb_mut());
        self.scaled_rows(1.0, other, right.rb_mut());
        multiply(gram, Accum::Add, left.rb(), right.rb().transpose());
    }

    fn scaled_rows(&self, factor: f64, pair: Pair<'_>, mut target: MatMut<'_, f64>) {
        self.rows(pair, target.rb_mut());
        for column in target.col_iter_mut() {
            column_slice_mut(column).iter_mut().for_each(|value| *value *= factor);
        }
    }
}
