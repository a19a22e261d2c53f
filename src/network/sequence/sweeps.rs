//! The loops over the layers: forwards for values and Taylor coefficients, backwards for sensitivities.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use rayon::prelude::*;

use super::{Sequence, n_points};
use crate::linalg::{add_products, add_scaled, column_slice, column_slice_mut, share, threads_are_free};
use crate::map::resize;
use crate::network::layer::{LayerVerbs, Verbs};
use crate::network::tape::{Kept, Tape};

/// Columns over which one thread sums; the sums of wider layers are added in the order of the columns.
const SUMMED_TOGETHER: usize = 256;

/// What one layer works on in a forward sweep.
struct Stage<'a> {
    inputs: MatRef<'a, f64>,
    outputs: MatMut<'a, f64>,
    kept: &'a mut Kept,
}

impl Sequence {
    /// The Taylor coefficients of the outputs after a forward sweep: N rows each.
    pub fn outputs<'a>(&self, tapes: &'a [Tape]) -> MatRef<'a, f64> {
        tapes[self.last_slot()].values.as_ref()
    }

    /// The place for the seeds (the sensitivities of the outputs) before they are pulled back: M rows.
    pub fn seeds_mut<'a>(&self, tapes: &'a mut [Tape]) -> MatMut<'a, f64> {
        tapes[self.last_slot()].sensitivities.as_mut()
    }

    /// The outputs.
    pub fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, tapes: &mut [Tape]) {
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate() {
            let stage = self.stage(index, 1, inputs, tapes);
            match layer.verbs() {
                Verbs::Elementwise(layer) => layer.forward(stage.outputs, stage.kept),
                Verbs::General(layer) => {
                    layer.forward(&theta[place.params.clone()], stage.inputs, stage.outputs, stage.kept);
                }
            }
        }
    }

    /// The outputs and their first two Taylor coefficients along a velocity.
    pub fn jet(&self, theta: &[f64], velocity: &[f64], inputs: MatRef<'_, f64>, tapes: &mut [Tape]) {
        self.sweep_jets(theta, velocity, inputs, tapes, &|_, _| false);
    }

    /// The same without what [`pull_back_with_seconds`](Self::pull_back_with_seconds) adds to the second coefficient of K
    /// rows at each point.
    pub fn partial_jet(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        columns: usize,
        tapes: &mut [Tape],
    ) {
        self.sweep_jets(theta, velocity, inputs, tapes, &|index, layer| leaves_seconds(index, layer, columns));
    }

    fn sweep_jets(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &mut [Tape],
        leaves: &dyn Fn(usize, &dyn LayerVerbs) -> bool,
    ) {
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate() {
            let stage = self.stage(index, 3, inputs, tapes);
            match layer.verbs() {
                Verbs::Elementwise(layer) => layer.jet(stage.outputs, stage.kept),
                Verbs::General(layer) => {
                    let (theta, velocity) = (&theta[place.params.clone()], &velocity[place.params.clone()]);
                    let Stage { inputs, outputs, kept } = stage;
                    match leaves(index, layer) {
                        true => layer.jet_of_slopes(theta, velocity, inputs, outputs, kept),
                        false => layer.jet(theta, velocity, inputs, outputs, kept),
                    }
                }
            }
        }
    }

    /// The outputs and their first Taylor coefficient along a velocity, with what
    /// [`pull_back_along`](Self::pull_back_along) needs.
    pub fn forward_along(&self, theta: &[f64], velocity: &[f64], inputs: MatRef<'_, f64>, tapes: &mut [Tape]) {
        self.forward_along_kinks(theta, velocity, inputs, tapes, &mut |_| {});
    }

    /// The same, showing the inputs z₀ and z₁ of every activation with a kink in the parameters (2N rows) on the way: one
    /// with parameters before it, in this sequence or (where the inputs move) outside.
    pub fn forward_along_kinks(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &mut [Tape],
        show: &mut dyn FnMut(MatRef<'_, f64>),
    ) {
        let inputs_move = inputs.nrows() > n_points(tapes);
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate() {
            let moves = inputs_move || place.params.end > 0;
            let stage = self.stage(index, 2, inputs, tapes);
            match layer.verbs() {
                Verbs::Elementwise(layer) => {
                    if moves && layer.has_kink() {
                        show(stage.outputs.as_ref());
                    }
                    layer.forward_along(stage.outputs, stage.kept);
                }
                Verbs::General(layer) => {
                    let (theta, velocity) = (&theta[place.params.clone()], &velocity[place.params.clone()]);
                    let (inputs, outputs) = (stage.inputs, stage.outputs);
                    if moves {
                        layer.forward_along_kinks(theta, velocity, inputs, outputs, stage.kept, show);
                    } else {
                        layer.forward_along(theta, velocity, inputs, outputs, stage.kept);
                    }
                }
            }
        }
    }

    /// Computes, from the seeds, the sensitivities of the outputs of every layer, and those of the inputs if they are
    /// wanted.
    pub fn pull_back(&self, theta: &[f64], tapes: &mut [Tape], inputs: Option<MatMut<'_, f64>>) {
        self.sweep_back(theta, tapes, inputs, &mut |_, _, _| {});
    }

    /// The same after [`partial_jet`](Self::partial_jet): adds what it left out of the second coefficients of the rows' outputs
    /// (M numbers), Σ δh₂ over the inputs of the layers that left them.
    pub fn pull_back_with_seconds(&self, theta: &[f64], columns: usize, tapes: &mut [Tape], seconds: &mut [f64]) {
        self.sweep_back(theta, tapes, None, &mut |index, layer, before| {
            if leaves_seconds(index, layer, columns) {
                add_seconds(before, seconds);
            }
        });
    }

    /// Shows the tape that holds the inputs of every layer after the first but the elementwise ones, with their
    /// sensitivities.
    fn sweep_back(
        &self,
        theta: &[f64],
        tapes: &mut [Tape],
        mut inputs: Option<MatMut<'_, f64>>,
        show: &mut dyn FnMut(usize, &dyn LayerVerbs, &Tape),
    ) {
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate().rev() {
            match layer.verbs() {
                Verbs::Elementwise(layer) => {
                    let (sensitivities, _, kept) = slot_and_kept(tapes, place.slot, index);
                    layer.pull_back(sensitivities.as_mut(), kept);
                    if let (0, Some(inputs)) = (index, inputs.as_mut()) {
                        inputs.copy_from(sensitivities.as_ref());
                    }
                }
                Verbs::General(layer) => {
                    let (before, rest) = tapes.split_at_mut(index);
                    let (target, own) = match index {
                        0 => (inputs.take(), &mut rest[0]),
                        _ => (Some(before[self.places[index - 1].slot].sensitivities.as_mut()), &mut rest[0]),
                    };
                    let theta = &theta[place.params.clone()];
                    layer.pull_back(theta, own.sensitivities.as_ref(), target, &mut own.kept);
                    if let Some(before) = index.checked_sub(1) {
                        show(index, layer, &tapes[self.places[before].slot]);
                    }
                }
            }
        }
    }

    /// [`pull_back`](Self::pull_back) together with the derivatives along a velocity, for seeds that do not move. If
    /// those of the inputs are wanted, they are a pair of sensitivities and derivatives.
    pub fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        tapes: &mut [Tape],
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
    ) {
        resize_along(tapes);
        tapes[self.last_slot()].sensitivities_along.as_mut().fill(0.0);
        self.pull_seeds_back_along(theta, velocity, tapes, inputs);
    }

    /// The same for seeds that move: a pair of sensitivities of the outputs and their derivatives.
    pub fn pull_back_moving(
        &self,
        theta: &[f64],
        velocity: &[f64],
        seeds: (MatRef<'_, f64>, MatRef<'_, f64>),
        tapes: &mut [Tape],
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
    ) {
        resize_along(tapes);
        let last = &mut tapes[self.last_slot()];
        last.sensitivities.copy_from(seeds.0);
        last.sensitivities_along.copy_from(seeds.1);
        self.pull_seeds_back_along(theta, velocity, tapes, inputs);
    }

    fn pull_seeds_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        tapes: &mut [Tape],
        mut inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
    ) {
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate().rev() {
            match layer.verbs() {
                Verbs::Elementwise(layer) => {
                    let (sensitivities, along, kept) = slot_and_kept(tapes, place.slot, index);
                    layer.pull_back_along(sensitivities.as_mut(), along.as_mut(), kept);
                    if let (0, Some(inputs)) = (index, inputs.as_mut()) {
                        inputs.0.copy_from(sensitivities.as_ref());
                        inputs.1.copy_from(along.as_ref());
                    }
                }
                Verbs::General(layer) => {
                    let (before, rest) = tapes.split_at_mut(index);
                    let target = match index {
                        0 => inputs.take(),
                        _ => {
                            let slot = &mut before[self.places[index - 1].slot];
                            Some((slot.sensitivities.as_mut(), slot.sensitivities_along.as_mut()))
                        }
                    };
                    let own = &mut rest[0];
                    let (theta, velocity) = (&theta[place.params.clone()], &velocity[place.params.clone()]);
                    let sensitivities = (own.sensitivities.as_ref(), own.sensitivities_along.as_ref());
                    layer.pull_back_along(theta, velocity, sensitivities, target, &mut own.kept);
                }
            }
        }
    }

    /// What layer `index` works on when this many Taylor coefficients are wanted.
    fn stage<'a>(
        &self,
        index: usize,
        coefficients: usize,
        inputs: MatRef<'a, f64>,
        tapes: &'a mut [Tape],
    ) -> Stage<'a> {
        let (n, slot) = (n_points(tapes), self.places[index].slot);
        let (before, rest) = tapes.split_at_mut(index);
        let own = &mut rest[0];
        let rows = coefficients * n;
        if slot < index {
            let outputs = before[slot].values.as_mut().get_mut(..rows, ..);
            return Stage { inputs: MatRef::from_column_major_slice(&[], 0, 0), outputs, kept: &mut own.kept };
        }
        let inputs = match index {
            0 => inputs,
            _ => before[self.places[index - 1].slot].values.as_ref(),
        };
        let inputs = inputs.get(..rows.min(inputs.nrows()), ..);
        let mut outputs = own.values.as_mut().get_mut(..rows, ..);
        if matches!(self.layers[index].verbs(), Verbs::Elementwise(_)) {
            copy_coefficients(inputs, outputs.rb_mut());
        }
        Stage { inputs, outputs, kept: &mut own.kept }
    }
}

/// Whether a jet leaves the second coefficients of this layer's inputs to the sweep back. Those of the network's own inputs
/// are zero.
fn leaves_seconds(index: usize, layer: &dyn LayerVerbs, columns: usize) -> bool {
    index > 0 && layer.leaves_seconds(columns)
}

/// Adds Σ δh₂ over the columns of a tape.
fn add_seconds(tape: &Tape, seconds: &mut [f64]) {
    let n = tape.values.nrows() / 3;
    let add = |columns: Range<usize>, sums: &mut [f64]| {
        for column in columns {
            let deltas = column_slice(tape.sensitivities.col(column));
            let second = &column_slice(tape.values.col(column))[2 * n..];
            for (deltas, sums) in deltas.chunks_exact(n.max(1)).zip(sums.chunks_exact_mut(n.max(1))) {
                add_products(deltas, second, sums);
            }
        }
    };
    let width = tape.values.ncols();
    if width <= SUMMED_TOGETHER {
        return add(0..width, seconds);
    }
    let part = |start: usize| {
        let mut sums = vec![0.0; seconds.len()];
        add(start..(start + SUMMED_TOGETHER).min(width), &mut sums);
        sums
    };
    let starts: Vec<usize> = (0..width).step_by(SUMMED_TOGETHER).collect();
    let parts: Vec<Vec<f64>> = match threads_are_free() {
        true => share(|| starts.into_par_iter().map(part).collect()),
        false => starts.into_iter().map(part).collect(),
    };
    parts.iter().for_each(|part| add_scaled(1.0, part, seconds));
}

/// Room for the derivatives of sensitivities.
fn resize_along(tapes: &mut [Tape]) {
    for tape in tapes {
        resize(&mut tape.sensitivities_along, tape.sensitivities.nrows(), tape.sensitivities.ncols());
    }
}

/// The sensitivities and their derivatives in one layer's tape, and what the layer that works on them keeps.
fn slot_and_kept(tapes: &mut [Tape], slot: usize, index: usize) -> (&mut Mat<f64>, &mut Mat<f64>, &Kept) {
    let (before, rest) = tapes.split_at_mut(slot + 1);
    let Tape { sensitivities, sensitivities_along, kept, .. } = &mut before[slot];
    let kept = if index > slot { &rest[index - slot - 1].kept } else { kept };
    (sensitivities, sensitivities_along, kept)
}

/// Copies Taylor coefficients; those that the inputs lack are zero.
fn copy_coefficients(inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>) {
    for (input, output) in inputs.col_iter().zip(outputs.col_iter_mut()) {
        let (head, rest) = column_slice_mut(output).split_at_mut(inputs.nrows());
        head.copy_from_slice(column_slice(input));
        rest.fill(0.0);
    }
}
