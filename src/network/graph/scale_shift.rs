//! A factor and a summand of every column, γ∘h + β, each a parameter that several columns may share.
//!
//! z₀ = γh₀ + β, z₁ = γh₁ + γ̇h₀ + β̇, z₂ = γh₂ + γ̇h₁; δ pulls back to γδ, along a velocity to γδ̇ + γ̇δ; the gradients are
//! Σ δh and Σ δ over the columns that share a parameter.

use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::affine::verbs::{row_products, weighted_sum};
use super::indices::Indices;
use super::parametric::{Motion, Parametric};
use super::rows::NodeRows;
use super::tape::Kept;
use crate::linalg::{add_products, add_scaled, affine, column_slice, column_slice_mut, dot, sum};
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
}

impl Parametric for ScaleShift {
    fn places(&self) -> [Option<&Indices>; 2] {
        [self.scale.as_ref(), self.shift.as_ref()]
    }

    fn forward(
        &self,
        motion: Motion<'_>,
        n: usize,
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        _kept: &mut Kept,
        _leaves: bool,
    ) {
        for (column, (input, output)) in inputs.col_iter().zip(outputs.col_iter_mut()).enumerate() {
            let (input, output) = (column_slice(input), column_slice_mut(output));
            let rows = input.len().min(output.len());
            let scale = self.scale_of(motion.theta, column, 1.0);
            affine(self.shift_of(motion.theta, column), scale, &input[..n], &mut output[..n]);
            affine(0.0, scale, &input[n..rows], &mut output[n..rows]);
            output[rows.max(n)..].fill(0.0);
            if let Some(velocity) = motion.velocity {
                let still = rows.min(output.len() - n);
                add_scaled(self.scale_of(velocity, column, 0.0), &input[..still], &mut output[n..n + still]);
                let shift = self.shift_of(velocity, column);
                output[n..2 * n].iter_mut().for_each(|value| *value += shift);
            }
        }
    }

    fn pull_back(
        &self,
        motion: Motion<'_>,
        order: usize,
        deltas: MatRef<'_, f64>,
        accumulate: Accum,
        target: MatMut<'_, f64>,
        _kept: &mut Kept,
    ) {
        for (column, (deltas, target)) in deltas.col_iter().zip(target.col_iter_mut()).enumerate() {
            let (deltas, target) = (column_slice(deltas), column_slice_mut(target));
            let scale = self.scale_of(motion.of_order(order), column, if order > 0 { 0.0 } else { 1.0 });
            match accumulate {
                Accum::Replace => affine(0.0, scale, deltas, target),
                Accum::Add => add_scaled(scale, deltas, target),
            }
        }
    }

    fn add_rows(&self, rows: NodeRows<'_>, range: &std::ops::Range<usize>, fresh: bool, mut target: MatMut<'_, f64>) {
        if fresh {
            target.fill(0.0);
        }
        let column_of = |place: usize| -> Option<usize> { range.contains(&place).then(|| place - range.start) };
        for (column, deltas) in rows.sensitivities.col_iter().enumerate() {
            let deltas = column_slice(deltas);
            if let Some(own) = self.scale.as_ref().and_then(|places| column_of(places.get(column))) {
                let target = column_slice_mut(target.rb_mut().col_mut(own));
                row_products(deltas, column_slice(rows.inputs.col(column)), false, target);
            }
            let shift = self.shift.as_ref().filter(|_| rows.with_bias);
            if let Some(own) = shift.and_then(|places| column_of(places.get(column))) {
                add_scaled(1.0, deltas, column_slice_mut(target.rb_mut().col_mut(own)));
            }
        }
    }

    fn times(&self, direction: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
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

    fn transpose_times(&self, weights: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let n = rows.n_points().max(1);
        let weighted = scratch.numbers(n);
        for (column, deltas) in rows.sensitivities.col_iter().enumerate() {
            weighted_sum(rows.by_rows(deltas), weights, weighted);
            if let Some(places) = &self.scale {
                product[places.get(column)] += dot(weighted, column_slice(rows.inputs.col(column)));
            }
            if let Some(places) = self.shift.as_ref().filter(|_| rows.with_bias) {
                product[places.get(column)] += sum(weighted);
            }
        }
    }
}
