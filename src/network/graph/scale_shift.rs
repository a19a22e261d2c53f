//! A factor and a summand of every column, γ∘h + β, each a parameter that several columns may share.
//!
//! z₀ = γh₀ + β, z₁ = γh₁ + γ̇h₀ + β̇, z₂ = γh₂ + γ̇h₁; δ pulls back to γδ, along a velocity to γδ̇ + γ̇δ; the gradients are
//! Σ δh and Σ δ over the columns that share a parameter.

use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::affine::row_products;
use super::indices::Indices;
use super::rows::NodeRows;
use crate::linalg::{add_products, add_scaled, affine, column_slice, column_slice_mut, dot};
use crate::map::Scratch;

/// The parameters of every column, by their places in θ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleShift {
    /// γ; one where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Indices>,
    /// β; zero where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Indices>,
}

impl ScaleShift {
    pub(super) fn width(&self, input: usize, n_params: usize) -> Result<usize, String> {
        let fits = |places: &Indices| places.len() == input && places.end() <= n_params;
        match [&self.scale, &self.shift].into_iter().flatten().all(fits) {
            true => Ok(input),
            false => Err(format!("has scales or shifts that do not fit {input} columns")),
        }
    }

    fn scale_of(&self, of: &[f64], column: usize, without: f64) -> f64 {
        self.scale.as_ref().map_or(without, |places| of[places.get(column)])
    }

    fn shift_of(&self, of: &[f64], column: usize) -> f64 {
        self.shift.as_ref().map_or(0.0, |places| of[places.get(column)])
    }

    /// Writes the Taylor coefficients of the outputs.
    pub(super) fn forward(
        &self,
        theta: &[f64],
        velocity: Option<&[f64]>,
        n: usize,
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
    ) {
        for (column, (input, output)) in inputs.col_iter().zip(outputs.col_iter_mut()).enumerate() {
            let (input, output) = (column_slice(input), column_slice_mut(output));
            let rows = input.len().min(output.len());
            let scale = self.scale_of(theta, column, 1.0);
            affine(self.shift_of(theta, column), scale, &input[..n], &mut output[..n]);
            affine(0.0, scale, &input[n..rows], &mut output[n..rows]);
            output[rows.max(n)..].fill(0.0);
            if let Some(velocity) = velocity {
                let still = rows.min(output.len() - n);
                add_scaled(self.scale_of(velocity, column, 0.0), &input[..still], &mut output[n..n + still]);
                let shift = self.shift_of(velocity, column);
                output[n..2 * n].iter_mut().for_each(|value| *value += shift);
            }
        }
    }

    /// The sensitivities of the inputs; with a velocity in place of θ (`moves`), what it adds to their derivatives.
    pub(super) fn pull_back(
        &self,
        of: &[f64],
        moves: bool,
        deltas: MatRef<'_, f64>,
        accumulate: Accum,
        target: MatMut<'_, f64>,
    ) {
        for (column, (deltas, target)) in deltas.col_iter().zip(target.col_iter_mut()).enumerate() {
            let (deltas, target) = (column_slice(deltas), column_slice_mut(target));
            let scale = self.scale_of(of, column, if moves { 0.0 } else { 1.0 });
            match accumulate {
                Accum::Replace => affine(0.0, scale, deltas, target),
                Accum::Add => add_scaled(scale, deltas, target),
            }
        }
    }

    /// Adds Σ δh and Σ δ for the parameters of a range of θ; without inputs, the shifts' part alone.
    pub(super) fn add_rows(
        &self,
        deltas: MatRef<'_, f64>,
        inputs: Option<MatRef<'_, f64>>,
        with_shift: bool,
        range: &std::ops::Range<usize>,
        mut target: MatMut<'_, f64>,
    ) {
        let column_of = |place: usize| -> Option<usize> { range.contains(&place).then(|| place - range.start) };
        for (column, deltas) in deltas.col_iter().enumerate() {
            let deltas = column_slice(deltas);
            if let (Some(places), Some(inputs)) = (&self.scale, inputs)
                && let Some(own) = column_of(places.get(column))
            {
                let target = column_slice_mut(target.rb_mut().col_mut(own));
                row_products(deltas, column_slice(inputs.col(column)), false, target);
            }
            if let Some(places) = self.shift.as_ref().filter(|_| with_shift)
                && let Some(own) = column_of(places.get(column))
            {
                add_scaled(1.0, deltas, column_slice_mut(target.rb_mut().col_mut(own)));
            }
        }
    }

    /// Adds the product of the rows with a direction.
    pub(super) fn times(&self, direction: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let n = rows.n_points().max(1);
        let change = scratch.numbers(n);
        for (column, (input, deltas)) in rows.inputs.col_iter().zip(rows.sensitivities.col_iter()).enumerate() {
            let (scale, shift) = (self.scale_of(direction, column, 0.0), self.shift_of(direction, column));
            affine(shift, scale, column_slice(input), change);
            for (block, deltas) in product.chunks_exact_mut(n).zip(rows.by_rows(deltas)) {
                add_products(deltas, change, block);
            }
        }
    }

    /// Adds Σₘ wₘ rowₘ for these inputs; without them, the shifts' part alone.
    pub(super) fn transpose_times(
        &self,
        weights: &[f64],
        rows: NodeRows<'_>,
        inputs: Option<MatRef<'_, f64>>,
        with_shift: bool,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        let n = rows.n_points().max(1);
        let weighted = scratch.numbers(n);
        for (column, deltas) in rows.sensitivities.col_iter().enumerate() {
            super::affine::weighted_sum(rows.by_rows(deltas), weights, weighted);
            if let (Some(places), Some(inputs)) = (&self.scale, inputs) {
                product[places.get(column)] += dot(weighted, column_slice(inputs.col(column)));
            }
            if let Some(places) = self.shift.as_ref().filter(|_| with_shift) {
                product[places.get(column)] += crate::linalg::sum(weighted);
            }
        }
    }
}
