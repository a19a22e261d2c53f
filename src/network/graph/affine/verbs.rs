//! The verbs of weight matrices at taps.

use std::ops::Range;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};

use super::{Affine, Weight};
use crate::linalg::{
    add_products, add_scaled, add_shifted_products, column_slice, column_slice_mut, in_parts, multiply, products, sum,
};
use crate::map::Scratch;
use crate::network::graph::indices::Indices;
use crate::network::graph::parametric::{Motion, Parametric};
use crate::network::graph::rows::NodeRows;
use crate::network::graph::tape::Kept;
use crate::network::graph::taylor::{Parameters, sums};

impl Parametric for Affine {
    fn places(&self) -> [Option<&Indices>; 2] {
        let weights = match &self.weight {
            Some(Weight::Parameters(places)) => Some(places),
            _ => None,
        };
        [weights, self.bias.as_ref()]
    }

    /// `leaves` is about W h₂.
    fn forward(
        &self,
        motion: Motion<'_>,
        points: usize,
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        kept: &mut Kept,
        leaves: bool,
    ) {
        self.reserve_room(outputs.nrows(), kept);
        let mut kept_weights = std::mem::take(&mut kept.weights);
        let [room, moving] = &mut kept_weights;
        let (mut biases, mut moving_biases) = (Vec::new(), Vec::new());
        let theta = self.numbers(motion.theta, [room, &mut biases]);
        let velocity = motion.velocity.map(|velocity| self.changes(velocity, [moving, &mut moving_biases]));
        for place in self.taps.places() {
            let parameters = self.group(theta, place.0);
            let change = velocity.map(|velocity| self.group(velocity, place.0));
            let mut vectors = std::mem::replace(&mut kept.vectors, Mat::new());
            let h = self.taps.inputs(place, self.inputs, inputs, vectors.as_mut());
            if self.taps.are_blocks() {
                let own = place.1 * self.outputs..(place.1 + 1) * self.outputs;
                sums((parameters, change), points, h, outputs.rb_mut().get_mut(.., own), kept, leaves);
            } else {
                let mut room = std::mem::replace(&mut kept.outputs, Mat::new());
                sums((parameters, change), points, h, room.as_mut().get_mut(..outputs.nrows(), ..), kept, leaves);
                for (output, column) in room.col_iter().enumerate() {
                    let target = self.taps.output_column(place, self.group_outputs(), output);
                    let target = column_slice_mut(outputs.rb_mut().col_mut(target));
                    target.copy_from_slice(&column_slice(column)[..target.len()]);
                }
                kept.outputs = room;
            }
            kept.vectors = vectors;
        }
        kept.weights = kept_weights;
    }

    fn pull_back(
        &self,
        motion: Motion<'_>,
        order: usize,
        deltas: MatRef<'_, f64>,
        accumulate: Accum,
        mut target: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        if order > 0 && matches!(self.weight, Some(Weight::Constants(_))) {
            return;
        }
        self.reserve_room(deltas.nrows(), kept);
        if accumulate == Accum::Replace && !self.taps.are_blocks() {
            target.fill(0.0);
        }
        let mut biases = Vec::new();
        let Kept { weights: [room, _], vectors, outputs, .. } = kept;
        let numbers = self.numbers(motion.of_order(order), [room, &mut biases]);
        for place in self.taps.places() {
            let weights = self.group(numbers, place.0).weights.transpose();
            let deltas = self.taps.outputs(place, self.group_outputs(), deltas, outputs.as_mut());
            if self.taps.are_blocks() {
                let own = target.rb_mut().get_mut(.., place.1 * self.inputs..(place.1 + 1) * self.inputs);
                multiply(own, accumulate, deltas, weights);
            } else {
                let mut vectors = vectors.as_mut().get_mut(..deltas.nrows(), ..);
                multiply(vectors.rb_mut(), Accum::Replace, deltas, weights);
                self.taps.add_inputs(place, vectors.rb(), target.rb_mut());
            }
        }
    }

    fn add_rows(&self, rows: NodeRows<'_>, range: &Range<usize>, fresh: bool, mut target: MatMut<'_, f64>) {
        let deltas = rows.sensitivities;
        let column = |place: usize| range.contains(&place).then(|| place - range.start);
        let outputs = self.group_outputs();
        let [weights, biases] = self.places().map(|places| places.filter(|places| overlaps(places, range)));
        if let Some(places) = weights {
            for group in 0..self.taps.groups() {
                let columns = self.taps.columns(group, self.inputs);
                for output in self.outputs_within(places, range, group) {
                    let first = (group * outputs + output) * self.inputs;
                    for input in 0..self.inputs {
                        let Some(own) = column(places.get(first + input)) else { continue };
                        let target = column_slice_mut(target.rb_mut().col_mut(own));
                        // All taps of one weight while its column is in the cache.
                        for (tap, columns) in columns.iter().enumerate() {
                            if let Some(from) = columns[input] {
                                let delta = self.taps.output_column((group, tap), outputs, output);
                                let h = column_slice(rows.inputs.col(from));
                                row_products(column_slice(deltas.col(delta)), h, fresh, target);
                            }
                        }
                    }
                }
            }
        }
        let Some(places) = biases.filter(|_| rows.with_bias) else { return };
        for place in self.taps.places() {
            for output in 0..outputs {
                let deltas = column_slice(deltas.col(self.taps.output_column(place, outputs, output)));
                if let Some(column) = column(places.get(place.0 * outputs + output)) {
                    let target = column_slice_mut(target.rb_mut().col_mut(column));
                    if fresh { target.copy_from_slice(deltas) } else { add_scaled(1.0, deltas, target) }
                }
            }
        }
    }

    /// U h_t + u_b at every point and tap, then its products with every
    /// sensitivity.
    fn times(&self, direction: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (n, outputs) = (rows.n_points(), self.group_outputs());
        let (mut room, mut biases) = (Vec::new(), Vec::new());
        let numbers = self.changes(direction, [&mut room, &mut biases]);
        let gathers = if self.taps.are_blocks() { 0 } else { self.inputs };
        let (mut vectors, mut moved) = scratch.matrix(n, gathers + outputs).split_at_col_mut(gathers);
        for place in self.taps.places() {
            let Parameters { weights, biases } = self.group(numbers, place.0);
            if weights.nrows() > 0 {
                let h = self.taps.inputs(place, self.inputs, rows.inputs, vectors.rb_mut());
                multiply(moved.rb_mut(), Accum::Replace, h, weights);
            } else {
                moved.rb_mut().col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
            }
            for (output, change) in moved.rb().col_iter().enumerate() {
                let (change, bias) = (column_slice(change), biases.get(output).copied().unwrap_or(0.0));
                let column = rows.sensitivities.col(self.taps.output_column(place, outputs, output));
                for (block, deltas) in product.chunks_exact_mut(n.max(1)).zip(rows.by_rows(column)) {
                    add_shifted_products(1.0, bias, change, deltas, block);
                }
            }
        }
    }

    /// Σ_k w_k δ_k at every point and tap, then its outer products with the inputs.
    fn transpose_times(&self, weights: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (n, outputs) = (rows.n_points(), self.group_outputs());
        let gathers = if self.taps.are_blocks() { 0 } else { self.inputs };
        let (mut vectors, mut weighted) = scratch.matrix(n, gathers + outputs).split_at_col_mut(gathers);
        let [entries_of, biases] = self.places();
        let biases = biases.filter(|_| rows.with_bias);
        let mut sums = vec![0.0; if biases.is_some() { outputs } else { 0 }];
        for place in self.taps.places() {
            self.weighted_deltas(place, weights, rows, weighted.rb_mut(), &mut sums);
            if let Some(places) = biases {
                let own = (0..outputs).map(|output| places.get(place.0 * outputs + output));
                own.zip(&sums).for_each(|(place, sum)| product[place] += sum);
            }
            let Some(places) = entries_of else { continue };
            let h = self.taps.inputs(place, self.inputs, rows.inputs, vectors.rb_mut());
            let (first, entries) = (place.0 * outputs * self.inputs, outputs * self.inputs);
            match places.part(first..first + entries) {
                Indices::Range(range) => {
                    let own = MatMut::from_column_major_slice_mut(&mut product[range], self.inputs, outputs);
                    multiply(own, Accum::Add, h.transpose(), weighted.rb());
                }
                Indices::List(list) => {
                    let mut own = Mat::zeros(self.inputs, outputs);
                    multiply(own.as_mut(), Accum::Replace, h.transpose(), weighted.rb());
                    let entries = own.col_iter().flat_map(|column| column.iter());
                    list.iter().zip(entries).for_each(|(place, value)| product[*place] += value);
                }
            }
        }
    }
}

impl Affine {
    /// Σ_k w_k δ_k of a group at a tap, at every point, and their sums over the points.
    fn weighted_deltas(
        &self,
        place: (usize, usize),
        weights: &[f64],
        rows: NodeRows<'_>,
        weighted: MatMut<'_, f64>,
        sums: &mut [f64],
    ) {
        let outputs = self.group_outputs();
        let numbers = rows.sensitivities.nrows() * outputs;
        let column = |first: usize, output: usize| {
            rows.sensitivities.col(self.taps.output_column(place, outputs, first + output))
        };
        if sums.is_empty() {
            in_parts(numbers, weighted, |first, weighted| {
                for (output, target) in weighted.col_iter_mut().enumerate() {
                    weighted_sum(rows.by_rows(column(first, output)), weights, column_slice_mut(target));
                }
            });
        } else {
            in_parts(numbers, (weighted, sums), |first, (weighted, sums)| {
                for ((output, target), total) in weighted.col_iter_mut().enumerate().zip(sums) {
                    let target = column_slice_mut(target);
                    weighted_sum(rows.by_rows(column(first, output)), weights, target);
                    *total = sum(target);
                }
            });
        }
    }
}

/// Whether any of these places is in the range; they all belong to one tensor, as the range does.
fn overlaps(places: &Indices, range: &Range<usize>) -> bool {
    match places {
        Indices::Range(own) => own.start < range.end && range.start < own.end,
        Indices::List(list) => list.iter().any(|place| range.contains(place)),
    }
}

/// Σ_k w_k δ_k at every point, for one unit: its sensitivities come in blocks of N.
pub(in super::super) fn weighted_sum<'a>(
    sensitivities: impl Iterator<Item = &'a [f64]>,
    weights: &[f64],
    column: &mut [f64],
) {
    for (k, (deltas, factors)) in sensitivities.zip(weights.chunks_exact(column.len().max(1))).enumerate() {
        if k == 0 {
            products(deltas, factors, column);
        } else {
            add_products(deltas, factors, column);
        }
    }
}

/// Writes or adds δ∘x to the rows of one parameter: M sensitivities in blocks of N, and x at the N points.
pub(in super::super) fn row_products(sensitivity: &[f64], values: &[f64], fresh: bool, target: &mut [f64]) {
    let n = values.len().max(1);
    for (block, deltas) in target.chunks_exact_mut(n).zip(sensitivity.chunks_exact(n)) {
        if fresh { products(deltas, values, block) } else { add_products(deltas, values, block) }
    }
}
