//! Weight matrices at taps: z_t = W h_t + b for every tap t, with parameters θ or constants for W.
//!
//! Along θ + tv, with W + tV and b + t v_b, inputs h₀ + h₁t + h₂t² give the sums
//!
//! z₀ = W h₀ + b, z₁ = W h₁ + V h₀ + v_b, z₂ = W h₂ + V h₁.
//!
//! Sensitivities δ of z pull back to Wᵀδ, along v to Wᵀδ̇ + Vᵀδ; the gradients with respect to W and b are Σ_t δ_t h_tᵀ and Σ_t δ_t.

use std::ops::Range;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::indices::Indices;
use super::rows::NodeRows;
use super::tape::Kept;
use super::taps::Taps;
use super::taylor::{self, Parameters};
use crate::linalg::{
    add_products, add_scaled, add_shifted_products, column_slice, column_slice_mut, in_parts, multiply,
    multiply_with_offsets, products, sum,
};
use crate::map::{Scratch, resize};
use crate::network::Linear;

/// Matrices of weights at taps; the formulas are at the top of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// The length of h_t; zero where there is a bias alone.
    pub inputs: usize,
    /// The length of z_t, over all groups.
    pub outputs: usize,
    /// W, `[outputs, inputs]` row by row, the groups one after the other.
    pub weight: Option<Weight>,
    /// The places of b in θ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<Indices>,
    /// Where h_t and z_t are.
    pub taps: Taps,
}

/// The numbers of a weight matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Parameters, by their places in θ.
    Parameters(Indices),
    /// Constants.
    Constants(Vec<f64>),
}

/// The matrices and biases of all groups: of θ, of a velocity, or of a direction.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    /// W row by row; empty where there is none, or it does not move.
    weights: &'a [f64],
    /// b; empty where there is none.
    biases: &'a [f64],
}

/// θ and a velocity of an affine node.
#[derive(Clone, Copy)]
pub(super) struct Motion<'a> {
    pub(super) theta: &'a [f64],
    pub(super) velocity: Option<&'a [f64]>,
}

/// The numbers at these places: a part of θ, or gathered into the room.
fn gathered<'a>(places: &Indices, of: &'a [f64], room: &'a mut Vec<f64>) -> &'a [f64] {
    match places {
        Indices::Range(range) => &of[range.clone()],
        Indices::List(list) => {
            room.clear();
            room.extend(list.iter().map(|place| of[*place]));
            room
        }
    }
}

impl Affine {
    /// What a linear layer of a network is called.
    pub fn description(&self) -> String {
        let bias = if self.bias.is_some() { "" } else { " without bias" };
        match self.taps {
            _ if self.weight.is_none() => format!("{} parameters", self.outputs),
            Taps::Blocks(1) => format!("linear {} → {}{bias}", self.inputs, self.outputs),
            Taps::Blocks(count) => format!("linear {} → {}{bias} at {count} places", self.inputs, self.outputs),
            Taps::Windows { window, channels, .. } => {
                let [rows, columns] = window.kernel;
                let name = if window.transposed { "transposed convolution" } else { "convolution" };
                format!("{name} {rows}×{columns}, {channels} → {}{bias}", self.outputs)
            }
        }
    }

    /// The linear layer that this is, if its parameters are those of θ from `offset` on, which is moved past them.
    pub(in super::super) fn as_linear(&self, offset: &mut usize) -> Option<Linear> {
        let (start, middle) = (*offset, *offset + self.inputs.checked_mul(self.outputs)?);
        let weight = Weight::Parameters(Indices::Range(start..middle));
        let bias = Indices::Range(middle..middle + self.outputs);
        let own = self.weight.as_ref() == Some(&weight) && self.bias.as_ref().is_none_or(|own| *own == bias);
        *offset = middle + self.bias.as_ref().map_or(0, Indices::len);
        let Self { inputs, outputs, .. } = *self;
        (own && self.is_single()).then(|| Linear { inputs, outputs, bias: self.bias.is_some() })
    }

    pub(super) fn has_params(&self) -> bool {
        self.bias.is_some() || matches!(self.weight, Some(Weight::Parameters(_)))
    }

    pub(super) fn width(&self, input: usize, n_params: usize) -> Result<usize, String> {
        if let Taps::Windows { window, .. } = &self.taps
            && let Some(problem) = window.problem()
        {
            return Err(problem);
        }
        let groups = self.taps.groups();
        if groups == 0 || !self.outputs.is_multiple_of(groups) {
            return Err(format!("cannot split {} outputs into {groups} groups", self.outputs));
        }
        let entries = self.outputs.checked_mul(self.inputs);
        let found = match &self.weight {
            Some(Weight::Parameters(places)) if places.end() > n_params => {
                return Err("has weights beyond θ".to_string());
            }
            Some(Weight::Parameters(places)) => places.len(),
            Some(Weight::Constants(constants)) => constants.len(),
            None => 0,
        };
        if entries != Some(found) {
            return Err(format!("has {found} weights for {} outputs and {} inputs", self.outputs, self.inputs));
        }
        if self.bias.as_ref().is_some_and(|bias| bias.len() != self.outputs || bias.end() > n_params) {
            return Err(format!("has a bias that does not fit {} outputs", self.outputs));
        }
        match self.taps.input_width(self.inputs) {
            Some(width) if width == input => Ok(self.outputs.saturating_mul(self.taps.count())),
            Some(width) => Err(format!("takes {width} inputs, but the layer before it has {input} outputs")),
            None => Err("has windows that do not fit its inputs".to_string()),
        }
    }

    /// The outputs of a group.
    pub(super) fn group_outputs(&self) -> usize {
        self.outputs / self.taps.groups()
    }

    /// The numbers of θ; those of the weights are gathered where θ has them in another order.
    fn numbers<'a>(&'a self, of: &'a [f64], rooms: [&'a mut Vec<f64>; 2]) -> Numbers<'a> {
        let [room, other] = rooms;
        let weights = match &self.weight {
            Some(Weight::Parameters(places)) => gathered(places, of, room),
            Some(Weight::Constants(constants)) => constants,
            None => &[],
        };
        Numbers { weights, biases: self.bias.as_ref().map_or(&[], |places| gathered(places, of, other)) }
    }

    /// The same of a velocity, where constants do not move.
    fn changes<'a>(&'a self, of: &'a [f64], rooms: [&'a mut Vec<f64>; 2]) -> Numbers<'a> {
        let numbers = self.numbers(of, rooms);
        match self.weight {
            Some(Weight::Constants(_)) => Numbers { weights: &[], ..numbers },
            _ => numbers,
        }
    }

    /// Wᵀ of a group, inputs × outputs.
    fn group<'a>(&self, numbers: Numbers<'a>, group: usize) -> Parameters<'a> {
        let (inputs, outputs) = (self.inputs, self.group_outputs());
        let entries = inputs * outputs;
        let weights = match numbers.weights.is_empty() {
            true => MatRef::from_column_major_slice(&[], 0, outputs),
            false => MatRef::from_column_major_slice(&numbers.weights[group * entries..][..entries], inputs, outputs),
        };
        let biases = numbers.biases.get(group * outputs..(group + 1) * outputs).unwrap_or(&[]);
        Parameters { weights, biases }
    }

    /// The numbers per point that its verbs take for vectors and outputs at a window.
    pub(super) fn room(&self) -> usize {
        if self.taps.are_blocks() { 0 } else { self.inputs + self.group_outputs() }
    }

    fn reserve_room(&self, rows: usize, kept: &mut Kept) {
        if !self.taps.are_blocks() && kept.vectors.nrows() < rows {
            resize(&mut kept.vectors, rows, self.inputs);
            resize(&mut kept.outputs, rows, self.group_outputs());
        }
    }

    /// Writes the Taylor coefficients of the outputs (one, two or three blocks of N rows). Where `leaves` is set, z₂ is without
    /// W h₂, which the sweep back adds.
    pub(super) fn forward(
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
            let h = match self.weight {
                Some(_) => self.taps.inputs(place, self.inputs, inputs, vectors.as_mut()),
                None => MatRef::from_column_major_slice(&[], points, 0),
            };
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

    /// The sensitivities of the inputs: those of the outputs times W, written or added.
    pub(super) fn pull_back(
        &self,
        of: &[f64],
        moves: bool,
        deltas: MatRef<'_, f64>,
        accumulate: Accum,
        mut target: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        if moves && matches!(self.weight, Some(Weight::Constants(_))) {
            return;
        }
        self.reserve_room(deltas.nrows(), kept);
        if accumulate == Accum::Replace && !self.taps.are_blocks() {
            target.fill(0.0);
        }
        let mut biases = Vec::new();
        let Kept { weights: [room, _], vectors, outputs, .. } = kept;
        let numbers = self.numbers(of, [room, &mut biases]);
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

    /// Whether, with K rows at each point to be pulled back afterwards, it is cheaper for a jet to leave out W h₂, and to weigh
    /// h₂ with the sensitivities of the inputs instead: that saves N·inputs·outputs multiply-adds for N·K·inputs that no cache
    /// sees twice.
    pub(super) fn leaves_seconds(&self, columns: usize) -> bool {
        self.taps.are_blocks() && self.outputs >= 8 * columns
    }

    /// Whether the rows of its parameters are outer products at a single tap.
    pub(super) fn is_single(&self) -> bool {
        self.taps == Taps::Blocks(1)
    }

    /// Adds (or writes, where this is all there is) Σ_t δ_t h_tᵀ and Σ_t δ_t for the parameters of a range of θ; without
    /// inputs, the biases' part alone.
    pub(super) fn add_rows(
        &self,
        deltas: MatRef<'_, f64>,
        inputs: Option<MatRef<'_, f64>>,
        with_bias: bool,
        range: &Range<usize>,
        fresh: bool,
        mut target: MatMut<'_, f64>,
    ) {
        let column = |place: usize| range.contains(&place).then(|| place - range.start);
        let outputs = self.group_outputs();
        if let (Some(Weight::Parameters(places)), Some(source)) = (&self.weight, inputs)
            && overlaps(places, range)
        {
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
                                let h = column_slice(source.col(from));
                                row_products(column_slice(deltas.col(delta)), h, fresh, target);
                            }
                        }
                    }
                }
            }
        }
        let Some(places) = self.bias.as_ref().filter(|places| with_bias && overlaps(places, range)) else { return };
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

    /// The outputs of a group whose weights may be in a range of θ.
    fn outputs_within(&self, places: &Indices, range: &Range<usize>, group: usize) -> Range<usize> {
        let outputs = self.group_outputs();
        let Indices::Range(own) = places else { return 0..outputs };
        let start = own.start + group * outputs * self.inputs;
        let output = |place: usize| (place.saturating_sub(start) / self.inputs.max(1)).min(outputs);
        let end = range.end.saturating_sub(start).div_ceil(self.inputs.max(1)).min(outputs);
        output(range.start)..end
    }

    /// Adds the product of the rows with a direction: U h_t + u_b at every point and tap, then its products with every
    /// sensitivity.
    pub(super) fn times(&self, direction: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
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

    /// Adds Σₘ wₘ rowₘ for these inputs (without them, the biases' part alone): Σ_k w_k δ_k at every point and tap, then its
    /// outer products with the inputs.
    pub(super) fn transpose_times(
        &self,
        weights: &[f64],
        rows: NodeRows<'_>,
        inputs: Option<MatRef<'_, f64>>,
        with_bias: bool,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        let (n, outputs) = (rows.n_points(), self.group_outputs());
        let gathers = if self.taps.are_blocks() { 0 } else { self.inputs };
        let (mut vectors, mut weighted) = scratch.matrix(n, gathers + outputs).split_at_col_mut(gathers);
        let mut sums = vec![0.0; if with_bias && self.bias.is_some() { outputs } else { 0 }];
        for place in self.taps.places() {
            self.weighted_deltas(place, weights, rows, weighted.rb_mut(), &mut sums);
            if let Some(places) = self.bias.as_ref().filter(|_| with_bias) {
                let own = (0..outputs).map(|output| places.get(place.0 * outputs + output));
                own.zip(&sums).for_each(|(place, sum)| product[place] += sum);
            }
            let (Some(Weight::Parameters(places)), Some(source)) = (&self.weight, inputs) else { continue };
            let h = self.taps.inputs(place, self.inputs, source, vectors.rb_mut());
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
pub(super) fn weighted_sum<'a>(sensitivities: impl Iterator<Item = &'a [f64]>, weights: &[f64], column: &mut [f64]) {
    for (k, (deltas, factors)) in sensitivities.zip(weights.chunks_exact(column.len().max(1))).enumerate() {
        if k == 0 {
            products(deltas, factors, column);
        } else {
            add_products(deltas, factors, column);
        }
    }
}

/// Writes or adds δ∘x to the rows of one parameter: M sensitivities in blocks of N, and x at the N points.
pub(super) fn row_products(sensitivity: &[f64], values: &[f64], fresh: bool, target: &mut [f64]) {
    let n = values.len().max(1);
    for (block, deltas) in target.chunks_exact_mut(n).zip(sensitivity.chunks_exact(n)) {
        if fresh { products(deltas, values, block) } else { add_products(deltas, values, block) }
    }
}

/// Writes z₀, z₁ and z₂ of one tap, as many of them as the outputs have room for.
fn sums(
    (parameters, change): (Parameters<'_>, Option<Parameters<'_>>),
    n: usize,
    inputs: MatRef<'_, f64>,
    mut outputs: MatMut<'_, f64>,
    kept: &mut Kept,
    leaves: bool,
) {
    let (rows, moving) = (outputs.nrows(), inputs.nrows() > n);
    let weights = parameters.weights;
    let (h0, mut z0) = (inputs.get(..n, ..), outputs.rb_mut().get_mut(..n, ..));
    let Some(change) = change else {
        return plain_sums(parameters, n, inputs, outputs);
    };
    if rows == n {
        return multiply_with_offsets(z0, parameters.biases, h0, weights);
    }
    if !moving || rows == 2 * n {
        multiply_with_offsets(z0.rb_mut(), parameters.biases, h0, weights);
        let mut z1 = outputs.rb_mut().get_mut(n..2 * n, ..);
        multiply_with_offsets(z1.rb_mut(), change.biases, part_of(h0, change.weights), change.weights);
        if moving {
            multiply(z1, Accum::Add, inputs.get(n..2 * n, ..), weights);
        }
        let second = outputs.get_mut(2 * n.., ..);
        return in_parts(second.nrows() * second.ncols(), second, |_, second| {
            second.col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
        });
    }
    let slopes = inputs.get(..2 * n, ..);
    let wide = taylor::is_faster(n, weights.nrows(), weights.ncols()) && change.weights.nrows() > 0;
    if wide && taylor::three_products(parameters, change, slopes, outputs.rb_mut(), kept) {
        if !leaves {
            multiply(outputs.get_mut(2 * n.., ..), Accum::Add, inputs.get(2 * n.., ..), weights);
        }
        return;
    }
    for (o, column) in outputs.rb_mut().col_iter_mut().enumerate() {
        let (z0, rest) = column_slice_mut(column).split_at_mut(n);
        let (z1, z2) = rest.split_at_mut(n);
        z0.fill(parameters.biases.get(o).copied().unwrap_or(0.0));
        z1.fill(change.biases.get(o).copied().unwrap_or(0.0));
        z2.fill(0.0);
    }
    let own = if leaves { 2 * n } else { 3 * n };
    multiply(outputs.rb_mut().get_mut(..own, ..), Accum::Add, inputs.get(..own, ..), weights);
    if change.weights.nrows() > 0 {
        multiply(outputs.get_mut(n.., ..), Accum::Add, slopes, change.weights);
    }
}

/// No columns where the weights do not move.
fn part_of<'a>(inputs: MatRef<'a, f64>, weights: MatRef<'_, f64>) -> MatRef<'a, f64> {
    inputs.get(.., ..weights.nrows())
}

/// The same for parameters that do not move: W on every coefficient, and b.
fn plain_sums(parameters: Parameters<'_>, n: usize, inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>) {
    let rows = outputs.nrows().min(inputs.nrows());
    multiply_with_offsets(
        outputs.rb_mut().get_mut(..n, ..),
        parameters.biases,
        inputs.get(..n, ..),
        parameters.weights,
    );
    multiply(outputs.rb_mut().get_mut(n..rows, ..), Accum::Replace, inputs.get(n..rows, ..), parameters.weights);
    outputs.get_mut(rows.max(n).., ..).fill(0.0);
}
