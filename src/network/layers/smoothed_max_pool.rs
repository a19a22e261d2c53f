//! Max pooling with its kinks rounded, the layer of a network whose metric is smooth.
//!
//! The largest of several values is a chain of hinges, max(a, b) = a + relu(b − a), and each of them is rounded as relu
//! is: max_ε(a, b) = a + (b − a)Φ((b − a)/ε), with a the rounded maximum of the taps before b, and its own width ε for
//! every tap but the first. As ε → 0 it is the maximum itself. With s = φ′ the slope of a hinge, its sensitivity δ goes
//! to b as sδ and to a as (1 − s)δ.

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};

use super::max_pool::MaxPool2d;
use super::smoothed::hinge;
use crate::linalg::{add_products, add_scaled, column_slice, column_slice_mut};
use crate::map::resize;
use crate::network::activation::loops::{replace_tangent, replace_taylor, replace_with_slope};
use crate::network::layer::LayerVerbs;
use crate::network::tape::Kept;

/// The Taylor coefficients of a second-order jet.
const COEFFICIENTS: usize = 3;

/// Max pooling whose kinks are rounded over a width of its own for every tap of a window but the first.
///
/// Such layers are made by [`Model::smoothed`](crate::map::Model::smoothed), for the metric alone, and are never saved.
#[derive(Debug, Clone, PartialEq)]
pub struct SmoothedMaxPool2d {
    pool: MaxPool2d,
    /// The input columns below every output.
    below: Vec<Vec<usize>>,
    /// ε of each hinge, output by output and tap by tap.
    widths: Vec<f64>,
}

impl SmoothedMaxPool2d {
    /// The pooling with its kinks rounded, one positive width per hinge; `None` if their number is wrong.
    pub fn new(pool: MaxPool2d, widths: Vec<f64>) -> Option<Self> {
        debug_assert!(widths.iter().all(|width| *width > 0.0));
        let below = pool.columns_below();
        (widths.len() == n_hinges(&below)).then_some(Self { pool, below, widths })
    }

    /// The pooling that is rounded.
    pub fn pool(&self) -> &MaxPool2d {
        &self.pool
    }

    /// ε of each hinge.
    pub fn widths(&self) -> &[f64] {
        &self.widths
    }

    /// The input columns below every output, in the order of its hinges.
    pub(in super::super) fn below(&self) -> &[Vec<usize>] {
        &self.below
    }

    /// Folds the taps of every window into its output. `round` replaces the coefficients of b − a by those of the hinge,
    /// given its number; what the inputs lack is zero.
    fn fold(
        &self,
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        room: &mut [f64],
        mut round: impl FnMut(usize, &mut [f64]),
    ) {
        let mut hinge = 0;
        for (columns, output) in self.below.iter().zip(outputs.rb_mut().col_iter_mut()) {
            let output = column_slice_mut(output);
            output.fill(0.0);
            for (tap, column) in columns.iter().enumerate() {
                let input = column_slice(inputs.col(*column));
                if tap == 0 {
                    output[..input.len()].copy_from_slice(input);
                    continue;
                }
                let difference = &mut room[..output.len()];
                difference.iter_mut().zip(output.iter()).for_each(|(slot, value)| *slot = -value);
                add_scaled(1.0, input, &mut difference[..input.len()]);
                round(hinge, difference);
                add_scaled(1.0, difference, output);
                hinge += 1;
            }
        }
    }
}

/// The number of hinges: taps that are not the first of their window.
fn n_hinges(below: &[Vec<usize>]) -> usize {
    below.iter().map(|columns| columns.len().saturating_sub(1)).sum()
}

/// Takes a share s∘δ of sensitivities away and adds it to a target, block by block of N points.
fn share(slopes: &[f64], sensitivities: &mut [f64], target: &mut [f64]) {
    let n = slopes.len().max(1);
    for (deltas, target) in sensitivities.chunks_exact_mut(n).zip(target.chunks_exact_mut(n)) {
        for ((delta, target), slope) in deltas.iter_mut().zip(target).zip(slopes) {
            let part = slope * *delta;
            *target += part;
            *delta -= part;
        }
    }
}

impl LayerVerbs for SmoothedMaxPool2d {
    fn description(&self) -> String {
        format!("smoothed max pooling {} → {}", self.pool.input, self.pool.output())
    }

    fn problem(&self) -> Option<String> {
        self.pool.problem()
    }

    fn n_inputs(&self) -> Option<usize> {
        self.pool.n_inputs()
    }

    fn n_outputs(&self, inputs: usize) -> usize {
        self.pool.n_outputs(inputs)
    }

    /// The slopes of all hinges, and room for a column of coefficients or of sensitivities and their derivatives.
    fn kept(&self, _inputs: usize, points: usize, columns: usize) -> Kept {
        Kept::matrix(points, self.widths.len()).with_room(points * columns.max(COEFFICIENTS), 2)
    }

    fn kept_size(&self, _inputs: usize, points: usize, columns: usize) -> f64 {
        points as f64 * (self.widths.len() + 2 * columns.max(COEFFICIENTS)) as f64
    }

    fn forward(&self, _theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        let (room, slopes) = (&mut kept.room, &mut kept.matrix);
        self.fold(inputs, outputs, column_slice_mut(room.as_mut().col_mut(0)), |index, difference| {
            let slopes = column_slice_mut(slopes.as_mut().col_mut(index));
            replace_with_slope(hinge(0.0, self.widths[index]), difference, slopes);
        });
    }

    fn jet(
        &self,
        _theta: &[f64],
        _velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        let (room, slopes) = (&mut kept.room, &mut kept.matrix);
        self.fold(inputs, outputs, column_slice_mut(room.as_mut().col_mut(0)), |index, difference| {
            let slopes = column_slice_mut(slopes.as_mut().col_mut(index));
            let (z0, rest) = difference.split_at_mut(slopes.len());
            let (z1, z2) = rest.split_at_mut(slopes.len());
            replace_taylor(hinge(0.0, self.widths[index]), [z0, z1, z2], slopes);
        });
    }

    fn pull_back(
        &self,
        _theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: Option<MatMut<'_, f64>>,
        kept: &mut Kept,
    ) {
        let Some(mut inputs) = inputs else { return };
        inputs.fill(0.0);
        let mut hinge = 0;
        for (columns, deltas) in self.below.iter().zip(sensitivities.col_iter()) {
            let deltas = column_slice(deltas);
            let rest = &mut column_slice_mut(kept.room.as_mut().col_mut(0))[..deltas.len()];
            rest.copy_from_slice(deltas);
            // From the last tap to the second, each takes its share of what is left; the first takes the rest.
            for (tap, column) in columns.iter().enumerate().rev() {
                let target = column_slice_mut(inputs.rb_mut().col_mut(*column));
                match tap {
                    0 => add_scaled(1.0, rest, target),
                    _ => share(column_slice(kept.matrix.col(hinge + tap - 1)), rest, target),
                }
            }
            hinge += columns.len().saturating_sub(1);
        }
    }

    fn forward_along(
        &self,
        _theta: &[f64],
        _velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        resize(&mut kept.along, kept.matrix.nrows(), kept.matrix.ncols());
        let (room, slopes, bends) = (&mut kept.room, &mut kept.matrix, &mut kept.along);
        self.fold(inputs, outputs, column_slice_mut(room.as_mut().col_mut(0)), |index, difference| {
            let slopes = column_slice_mut(slopes.as_mut().col_mut(index));
            let bends = column_slice_mut(bends.as_mut().col_mut(index));
            let (z0, z1) = difference.split_at_mut(slopes.len());
            replace_tangent(hinge(0.0, self.widths[index]), [z0, z1], slopes, bends);
        });
    }

    fn pull_back_along(
        &self,
        _theta: &[f64],
        _velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        kept: &mut Kept,
    ) {
        let Some((mut inputs, mut along)) = inputs else { return };
        inputs.fill(0.0);
        along.fill(0.0);
        let n = kept.matrix.nrows().max(1);
        let mut hinge = 0;
        let deltas = sensitivities.0.col_iter().zip(sensitivities.1.col_iter());
        for (columns, (deltas, moving)) in self.below.iter().zip(deltas) {
            let (first, second) = kept.room.as_mut().split_at_col_mut(1);
            let rest = &mut column_slice_mut(first.col_mut(0))[..deltas.nrows()];
            let rest_along = &mut column_slice_mut(second.col_mut(0))[..deltas.nrows()];
            rest.copy_from_slice(column_slice(deltas));
            rest_along.copy_from_slice(column_slice(moving));
            for (tap, column) in columns.iter().enumerate().rev() {
                let target = column_slice_mut(inputs.rb_mut().col_mut(*column));
                let target_along = column_slice_mut(along.rb_mut().col_mut(*column));
                if tap == 0 {
                    add_scaled(1.0, rest, target);
                    add_scaled(1.0, rest_along, target_along);
                    continue;
                }
                let slopes = column_slice(kept.matrix.col(hinge + tap - 1));
                let bends = column_slice(kept.along.col(hinge + tap - 1));
                share(slopes, rest_along, target_along);
                // ṡδ goes to b and comes from a.
                let blocks = rest.chunks_exact(n).zip(rest_along.chunks_exact_mut(n));
                for ((deltas, moving), target) in blocks.zip(target_along.chunks_exact_mut(n)) {
                    add_products(deltas, bends, target);
                    for ((moving, delta), bend) in moving.iter_mut().zip(deltas).zip(bends) {
                        *moving -= delta * bend;
                    }
                }
                share(slopes, rest, target);
            }
            hinge += columns.len().saturating_sub(1);
        }
    }
}
