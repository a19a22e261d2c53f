//! The loops over the nodes: forwards for values and Taylor coefficients, backwards for sensitivities.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef};
use rayon::prelude::*;

use super::operator::Seen;
use super::parametric::Motion;
use super::tape::{Kept, Tapes};
use super::{Graph, Kind, elementwise};
use crate::error::Result;
use crate::linalg::{add_products, add_scaled, column_slice, column_slice_mut, share, threads_are_free};
use crate::map::resize;
use crate::memory::{self, Reservation};

/// Columns over which one thread sums; the sums of wider values are added in the order of the columns.
const SUMMED_TOGETHER: usize = 256;

/// What a forward sweep computes.
struct Sweep<'a> {
    motion: Motion<'a>,
    /// Taylor coefficients: one, two or three.
    coefficients: usize,
    /// The rows per point of the pull-back that adds what wide layers leave out of the second coefficients.
    leaves_for: Option<usize>,
}

impl Graph {
    /// Memory for N points with K rows each.
    pub fn tapes(&self, points: usize, columns: usize) -> Tapes {
        let matrix = |rows: usize| {
            let own = move |index: usize| match self.has_memory(index) {
                true => Mat::zeros(rows, self.widths[index]),
                false => Mat::new(),
            };
            (0..self.nodes.len()).map(own).collect()
        };
        Tapes {
            points,
            values: matrix(3 * points),
            sensitivities: matrix(points * columns),
            along: vec![Mat::new(); self.nodes.len()],
            kept: vec![Kept::nothing(); self.nodes.len()],
        }
    }

    fn has_memory(&self, index: usize) -> bool {
        self.moves[index] && self.slots[index] == index
    }

    /// The number of f64 values in this memory. The first sweep along a velocity adds at most as many again.
    pub fn tape_size(&self, points: usize, columns: usize) -> f64 {
        let mut numbers = 0.0;
        for (index, node) in self.nodes.iter().enumerate() {
            let width = self.widths[index] as f64;
            numbers += match (self.moves[index], &node.kind) {
                (false, _) => width * f64::from(u8::from(self.readers[index] > 0)),
                (true, Kind::Elementwise(_)) => width,
                (true, Kind::Affine(affine)) => {
                    let mixed = super::taylor::is_faster(points, affine.inputs, affine.group_outputs());
                    let windows = columns.max(3) * affine.room();
                    windows as f64 + if mixed { affine.inputs as f64 } else { 0.0 }
                }
                (true, _) => 0.0,
            };
            if self.has_memory(index) {
                numbers += width * (3 + columns) as f64;
            }
        }
        points as f64 * numbers
    }

    /// Asks for this memory: a network from a file may be large at a single point.
    pub fn reserve(&self, points: usize) -> Result<Reservation> {
        let what = format!("the values of the network's nodes at {points} data points");
        memory::reserve(&what, self.tape_size(points, 0), "use a smaller network")
    }

    /// The value of a node, with this many Taylor coefficients if it moves.
    fn value<'a>(&self, node: usize, coefficients: usize, still: &'a [Mat<f64>], tapes: &'a Tapes) -> MatRef<'a, f64> {
        match self.moves[node] {
            true => tapes.values[self.slots[node]].as_ref().get(..coefficients * tapes.points, ..),
            false => still[node].as_ref(),
        }
    }

    /// The Taylor coefficients of the outputs after a forward sweep: N rows each.
    pub fn outputs<'a>(&self, tapes: &'a Tapes) -> MatRef<'a, f64> {
        tapes.values[self.slots[self.output]].as_ref()
    }

    /// The place for the seeds (the sensitivities of the outputs) before they are pulled back: M rows.
    pub fn seeds_mut<'a>(&self, tapes: &'a mut Tapes) -> MatMut<'a, f64> {
        tapes.sensitivities[self.slots[self.output]].as_mut()
    }

    /// The outputs.
    pub fn forward(&self, theta: &[f64], still: &[Mat<f64>], tapes: &mut Tapes) {
        let sweep = Sweep { motion: Motion { theta, velocity: None }, coefficients: 1, leaves_for: None };
        self.sweep(&sweep, still, tapes, &mut |_, _| {});
    }

    /// The outputs and their first two Taylor coefficients along a velocity. Where K is given, without what
    /// [`pull_back`](Self::pull_back) then adds to the second coefficient of K rows at each point.
    pub fn jet(
        &self,
        theta: &[f64],
        velocity: &[f64],
        leaves_for: Option<usize>,
        still: &[Mat<f64>],
        tapes: &mut Tapes,
    ) {
        let sweep = Sweep { motion: Motion { theta, velocity: Some(velocity) }, coefficients: 3, leaves_for };
        self.sweep(&sweep, still, tapes, &mut |_, _| {});
    }

    /// The outputs and their first Taylor coefficient along a velocity, with what
    /// [`pull_back_along`](Self::pull_back_along) needs. Shows the inputs z₀ and z₁ of every node with a kink (2N rows).
    pub fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        still: &[Mat<f64>],
        tapes: &mut Tapes,
        show: &mut dyn FnMut(MatRef<'_, f64>),
    ) {
        let sweep = Sweep { motion: Motion { theta, velocity: Some(velocity) }, coefficients: 2, leaves_for: None };
        self.sweep(&sweep, still, tapes, &mut |index, values| {
            if self.nodes[index].kind.has_kink() {
                show(values);
            }
        });
    }

    /// Shows the arguments of every elementwise node.
    fn sweep(
        &self,
        sweep: &Sweep<'_>,
        still: &[Mat<f64>],
        tapes: &mut Tapes,
        show: &mut dyn FnMut(usize, MatRef<'_, f64>),
    ) {
        let (points, coefficients) = (tapes.points, sweep.coefficients);
        for index in (0..self.nodes.len()).filter(|index| self.moves[*index]) {
            let (node, slot) = (&self.nodes[index], self.slots[index]);
            let mut own = std::mem::replace(&mut tapes.values[slot], Mat::new());
            let mut kept = std::mem::replace(&mut tapes.kept[index], Kept::nothing());
            let mut outputs = own.as_mut().get_mut(..coefficients * points, ..);
            let input = |which: usize| self.value(node.inputs[which], coefficients, still, tapes);
            match &node.kind {
                Kind::Elementwise(function) => {
                    if slot == index {
                        outputs.copy_from(input(0));
                    }
                    show(index, outputs.as_ref());
                    function.forward(points, outputs, &mut kept);
                }
                kind => {
                    let inputs: Vec<MatRef<'_, f64>> = (0..node.inputs.len()).map(input).collect();
                    if let Some(own) = kind.parametric() {
                        let leaves = sweep.leaves_for.is_some_and(|columns| self.leaves_seconds(index, columns));
                        let nothing = MatRef::from_column_major_slice(&[], points, 0);
                        let h = inputs.first().copied().unwrap_or(nothing);
                        own.forward(sweep.motion, points, h, outputs, &mut kept, leaves);
                    } else if let Some(operator) = kind.operator() {
                        operator.forward(points, &inputs, outputs.rb_mut());
                    }
                }
            }
            tapes.values[slot] = own;
            tapes.kept[index] = kept;
        }
    }

    /// Whether a jet leaves the second coefficients of this node's inputs to the sweep back: they weigh as the sensitivities
    /// of its inputs do, as long as no other node adds to those.
    fn leaves_seconds(&self, index: usize, columns: usize) -> bool {
        let node = &self.nodes[index];
        let Kind::Affine(affine) = &node.kind else { return false };
        let alone = |input: &usize| self.moves[*input] && self.readers[*input] == 1;
        affine.leaves_seconds(columns) && node.inputs.iter().all(alone) && !node.inputs.is_empty()
    }

    /// Computes, from the seeds, the sensitivities of the value of every node. After a jet that left second coefficients out,
    /// adds them to those of the rows' outputs (M numbers): Σ δh₂ over the inputs of the nodes that left them.
    pub fn pull_back(
        &self,
        theta: &[f64],
        still: &[Mat<f64>],
        tapes: &mut Tapes,
        left_out: Option<(usize, &mut [f64])>,
    ) {
        self.sweep_back(theta, None, still, tapes, left_out);
    }

    /// [`pull_back`](Self::pull_back) together with the derivatives along the velocity of the sweep before, for seeds that do
    /// not move.
    pub fn pull_back_along(&self, theta: &[f64], velocity: &[f64], still: &[Mat<f64>], tapes: &mut Tapes) {
        for (along, own) in tapes.along.iter_mut().zip(&tapes.sensitivities) {
            resize(along, own.nrows(), own.ncols());
        }
        tapes.along[self.slots[self.output]].fill(0.0);
        self.sweep_back(theta, Some(velocity), still, tapes, None);
    }

    fn sweep_back(
        &self,
        theta: &[f64],
        velocity: Option<&[f64]>,
        still: &[Mat<f64>],
        tapes: &mut Tapes,
        mut left_out: Option<(usize, &mut [f64])>,
    ) {
        let mut written = vec![false; self.nodes.len()];
        for index in (0..self.nodes.len()).rev().filter(|index| self.moves[*index]) {
            let (node, slot) = (&self.nodes[index], self.slots[index]);
            let mut own = std::mem::replace(&mut tapes.sensitivities[slot], Mat::new());
            let mut moving = std::mem::replace(&mut tapes.along[slot], Mat::new());
            if let Kind::Elementwise(_) = node.kind {
                match velocity {
                    None => elementwise::pull_back(own.as_mut(), &tapes.kept[index]),
                    Some(_) => elementwise::pull_back_along(own.as_mut(), moving.as_mut(), &tapes.kept[index]),
                }
            }
            for (which, input) in node.inputs.iter().enumerate().filter(|(_, input)| self.moves[**input]) {
                let to = self.slots[*input];
                if to == slot {
                    continue;
                }
                let accumulate = if std::mem::replace(&mut written[to], true) { Accum::Add } else { Accum::Replace };
                let mut target = std::mem::replace(&mut tapes.sensitivities[to], Mat::new());
                let motion = Motion { theta, velocity };
                self.pull_one((index, which), motion, &[own.as_ref()], (accumulate, &mut target), (still, tapes));
                tapes.sensitivities[to] = target;
                if velocity.is_some() {
                    let mut target = std::mem::replace(&mut tapes.along[to], Mat::new());
                    let deltas = [moving.as_ref(), own.as_ref()];
                    self.pull_one((index, which), motion, &deltas, (accumulate, &mut target), (still, tapes));
                    tapes.along[to] = target;
                }
                if let Some((_, seconds)) = left_out.as_mut().filter(|left| self.leaves_seconds(index, left.0)) {
                    add_seconds(tapes.points, &tapes.values[to], &tapes.sensitivities[to], seconds);
                }
            }
            tapes.sensitivities[slot] = own;
            tapes.along[slot] = moving;
        }
    }

    /// What `[δ]` of a node give to δ of one input, or `[δ̇, δ]` to δ̇.
    fn pull_one(
        &self,
        (index, which): (usize, usize),
        motion: Motion<'_>,
        deltas: &[MatRef<'_, f64>],
        (mut accumulate, target): (Accum, &mut Mat<f64>),
        (still, tapes): (&[Mat<f64>], &mut Tapes),
    ) {
        let node = &self.nodes[index];
        for (order, delta) in deltas.iter().enumerate() {
            if let Some(own) = node.kind.parametric() {
                own.pull_back(motion, order, *delta, accumulate, target.as_mut(), &mut tapes.kept[index]);
            } else if let Some(operator) = node.kind.operator() {
                if accumulate == Accum::Replace {
                    target.col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
                }
                let value = |node: usize| self.value(node, deltas.len(), still, tapes);
                let inputs: Vec<MatRef<'_, f64>> = node.inputs.iter().map(|input| value(*input)).collect();
                let seen = Seen { points: tapes.points, inputs: &inputs, value: value(index) };
                operator.pull_back(which, order, &seen, *delta, target.as_mut());
            } else if order == 0 {
                // What an elementwise node does to its sensitivities is done to them before.
                add_or_copy(*delta, accumulate, target.as_mut());
            }
            accumulate = Accum::Add;
        }
    }
}

fn add_or_copy(source: MatRef<'_, f64>, accumulate: Accum, target: MatMut<'_, f64>) {
    for (source, target) in source.col_iter().zip(target.col_iter_mut()) {
        let (source, target) = (column_slice(source), column_slice_mut(target));
        match accumulate {
            Accum::Replace => target.copy_from_slice(source),
            Accum::Add => add_scaled(1.0, source, target),
        }
    }
}

/// Adds Σ δh₂ over the columns of a value.
fn add_seconds(n: usize, values: &Mat<f64>, sensitivities: &Mat<f64>, seconds: &mut [f64]) {
    let add = |columns: Range<usize>, sums: &mut [f64]| {
        for column in columns {
            let deltas = column_slice(sensitivities.col(column));
            let second = &column_slice(values.col(column))[2 * n..];
            for (deltas, sums) in deltas.chunks_exact(n.max(1)).zip(sums.chunks_exact_mut(n.max(1))) {
                add_products(deltas, second, sums);
            }
        }
    };
    let width = values.ncols();
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
