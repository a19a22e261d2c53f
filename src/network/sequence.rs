//! Layers in sequence, and the loops over them: forwards for values, backwards for sensitivities, and once through all
//! of them for products with the rows.
//!
//! The rows J̃ = RᵀJ of a sequence are never formed: each layer has its inputs h and the sensitivities δ of its outputs,
//! and its part of any product follows from these two.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef};

use super::curvature;
use super::layer::{Layer, LayerRows, LayerVerbs, ParameterGroup, Verbs};
use super::tape::{Kept, Tape};
use crate::error::{Error, Result};
use crate::linalg::{column_slice, column_slice_mut, multiply};
use crate::map::{BlockCovariance, BlockShape, BlockSums, Scratch, dense_curvature, resize};

/// A chain of layers, and the place of each layer's parameters.
///
/// The order of calls on the tapes: a forward sweep ([`forward`](Self::forward), [`jet`](Self::jet) or
/// [`forward_along`](Self::forward_along)), then seeds into [`seeds_mut`](Self::seeds_mut) and
/// [`pull_back`](Self::pull_back) or [`pull_back_along`](Self::pull_back_along), then any number of products, which
/// only read the tapes. All take the same `inputs`: N rows where they do not move, else the 3N of their Taylor
/// coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    layers: Vec<Layer>,
    places: Vec<Place>,
    inputs: usize,
}

/// A layer's place in its sequence.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    /// The width of its inputs.
    inputs: usize,
    /// The width of its outputs.
    outputs: usize,
    /// The layer whose tape holds its outputs: itself or, for an elementwise layer, the layer before it.
    slot: usize,
    /// Its parameters among those of the sequence.
    params: Range<usize>,
    /// Its groups among the prior groups of the sequence.
    groups: Range<usize>,
}

/// What one layer works on in a forward sweep.
struct Stage<'a> {
    inputs: MatRef<'a, f64>,
    outputs: MatMut<'a, f64>,
    kept: &'a mut Kept,
}

impl Sequence {
    /// A chain of layers, each as wide as the one before it, that has parameters.
    pub fn new(layers: Vec<Layer>) -> Result<Self> {
        let inputs = Self::known_inputs(&layers).ok_or_else(|| {
            let free = layers.iter().take_while(|layer| layer.verbs().n_inputs().is_none()).count();
            refusal(&layers, free, "needs a known number of inputs".to_string())
        })?;
        let sequence = Self::with_inputs(layers, inputs)?;
        match sequence.n_params() {
            0 => Err(refusal(&sequence.layers, sequence.layers.len(), "has no parameters".to_string())),
            _ => Ok(sequence),
        }
    }

    /// The width of the inputs of these layers, if any layer says it before the width changes.
    pub fn known_inputs(layers: &[Layer]) -> Option<usize> {
        layers.iter().find_map(|layer| layer.verbs().n_inputs())
    }

    /// A chain of layers, each as wide as the one before it and the first as wide as the inputs; there may be no
    /// parameters, as in a branch of a composite layer.
    pub fn with_inputs(layers: Vec<Layer>, inputs: usize) -> Result<Self> {
        let refuse = |index: usize, problem: String| refusal(&layers, index, problem);
        let (mut width, mut end, mut n_groups, mut slot) = (inputs, 0_usize, 0, 0);
        let mut places = Vec::with_capacity(layers.len());
        for (index, layer) in layers.iter().enumerate() {
            let verbs = layer.verbs();
            if let Some(problem) = verbs.problem() {
                return Err(refuse(index, problem));
            }
            if let Some(expected) = verbs.n_inputs().filter(|expected| *expected != width) {
                return Err(refuse(
                    index,
                    format!("takes {expected} inputs, but the layer before it has {width} outputs"),
                ));
            }
            let outputs = verbs.n_outputs(width);
            if width == 0 || outputs == 0 {
                return Err(refuse(index, "needs at least one input and one output".to_string()));
            }
            let sizes = verbs.parameter_groups();
            let count = sizes.iter().try_fold(end, |sum, group| sum.checked_add(group.checked_size()?));
            let count = count.ok_or_else(|| refuse(index, "has more parameters than can be counted".to_string()))?;
            if matches!(verbs, Verbs::General(_)) {
                slot = index;
            }
            let groups = n_groups..n_groups + verbs.prior_groups().len();
            n_groups = groups.end;
            places.push(Place { inputs: width, outputs, slot, params: end..count, groups });
            (width, end) = (outputs, count);
        }
        Ok(Self { layers, places, inputs })
    }

    /// The layers from input to output.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The place of each layer's parameters among those of the sequence; empty where there are none.
    pub fn param_ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.places.iter().map(|place| place.params.clone())
    }

    /// The number of parameters.
    pub fn n_params(&self) -> usize {
        self.places.last().map_or(0, |place| place.params.end)
    }

    /// The width of the inputs.
    pub fn n_inputs(&self) -> usize {
        self.inputs
    }

    /// The width of the outputs.
    pub fn n_outputs(&self) -> usize {
        self.places.last().map_or(self.inputs, |place| place.outputs)
    }

    /// The tensors of parameters in the order of θ, each named by its layer's number: `0.weight`.
    pub fn parameter_groups(&self) -> Vec<ParameterGroup> {
        let named = |(index, layer): (usize, &Layer)| {
            let name = move |group: ParameterGroup| ParameterGroup { name: format!("{index}.{}", group.name), ..group };
            layer.verbs().parameter_groups().into_iter().map(name).collect::<Vec<ParameterGroup>>()
        };
        self.layers.iter().enumerate().flat_map(named).collect()
    }

    /// The number of parameters in each group that may have its own prior precision: the layers with parameters.
    pub fn prior_groups(&self) -> Vec<usize> {
        self.layers.iter().flat_map(|layer| layer.verbs().prior_groups()).collect()
    }

    /// Whether the outputs have kinks as functions of the parameters.
    pub fn has_kinks(&self) -> bool {
        self.layers.iter().zip(&self.places).any(|(layer, place)| place.params.end > 0 && layer.verbs().has_kink())
    }

    /// Tapes for N points with K rows each, one per layer.
    pub fn tapes(&self, points: usize, columns: usize) -> Vec<Tape> {
        let tape = |(index, (layer, place)): (usize, (&Layer, &Place))| {
            let width = if place.slot == index { place.outputs } else { 0 };
            let rows = |count: usize| if width > 0 { count } else { 0 };
            Tape {
                values: Mat::zeros(rows(3 * points), width),
                sensitivities: Mat::zeros(rows(points * columns), width),
                sensitivities_along: Mat::new(),
                kept: match layer.verbs() {
                    Verbs::Elementwise(layer) => layer.kept(place.inputs, points),
                    Verbs::General(layer) => layer.kept(place.inputs, points, columns),
                },
            }
        };
        self.layers.iter().zip(&self.places).enumerate().map(tape).collect()
    }

    /// The number of f64 values in these tapes. The first sweep along a velocity adds at most as many again.
    pub fn tape_size(&self, points: usize, columns: usize) -> f64 {
        let size = |(index, (layer, place)): (usize, (&Layer, &Place))| {
            let width = if place.slot == index { place.outputs as f64 } else { 0.0 };
            let kept = match layer.verbs() {
                Verbs::Elementwise(layer) => layer.kept_size(place.inputs, points),
                Verbs::General(layer) => layer.kept_size(place.inputs, points, columns),
            };
            points as f64 * width * (3 + columns) as f64 + kept
        };
        self.layers.iter().zip(&self.places).enumerate().map(size).sum()
    }

    /// The number of f64 values per point that the verbs take from a [`Scratch`], apart from those of Gram matrices.
    pub fn scratch_width(&self) -> usize {
        let width = |layer: &Layer| match layer.verbs() {
            Verbs::Elementwise(_) => 0,
            Verbs::General(layer) => layer.scratch_width(),
        };
        self.layers.iter().map(width).max().unwrap_or(0)
    }

    /// Multiply-adds of [`gram`](Self::gram) at N points with K rows each.
    pub fn gram_work(&self, points: usize, columns: usize) -> f64 {
        let work = |layer: &Layer| match layer.verbs() {
            Verbs::Elementwise(_) => 0.0,
            Verbs::General(layer) => layer.gram_work(points, columns),
        };
        self.layers.iter().map(work).sum()
    }

    /// The layers with parameters.
    fn layers_with_params(&self) -> impl Iterator<Item = (&dyn LayerVerbs, &Place)> {
        self.layers.iter().zip(&self.places).filter_map(|(layer, place)| match layer.verbs() {
            Verbs::General(layer) if !place.params.is_empty() => Some((layer, place)),
            Verbs::General(_) | Verbs::Elementwise(_) => None,
        })
    }

    /// Multiply-adds of [`times`](Self::times), or of [`transpose_times`](Self::transpose_times), at N points with K rows
    /// each.
    pub fn product_work(&self, points: usize, columns: usize) -> f64 {
        self.layers_with_params().map(|(layer, _)| layer.product_work(points, columns)).sum()
    }

    /// Multiply-adds of [`curvature`](Self::curvature) at N points with K rows each.
    pub fn curvature_work(&self, points: usize, columns: usize) -> f64 {
        let rows = (points * columns) as f64;
        let mut work = 0.0;
        for (index, (layer, place)) in self.layers_with_params().enumerate() {
            work += match layer.outer_products() {
                Some(own) => curvature::work(own, None, points, columns),
                None => 0.5 * rows * (place.params.len() as f64).powi(2),
            };
            for (earlier, before) in self.layers_with_params().take(index) {
                work += match (layer.outer_products(), earlier.outer_products()) {
                    (Some(own), Some(other)) => curvature::work(own, Some(other), points, columns),
                    _ => rows * place.params.len() as f64 * before.params.len() as f64,
                };
            }
        }
        work
    }

    /// The number of f64 values that [`curvature`](Self::curvature) takes from a [`Scratch`]: tiles and, where a layer's
    /// rows are not outer products, the rows of two layers.
    pub fn curvature_size(&self, points: usize, columns: usize) -> f64 {
        let dense = self.layers_with_params().any(|(layer, _)| layer.outer_products().is_none());
        let widest = self.places.iter().map(|place| place.params.len()).max().unwrap_or(0);
        let rows = if dense { 2.0 * (points * columns) as f64 * widest as f64 } else { 0.0 };
        curvature::buffer_size(points) + rows
    }

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
        for (index, (layer, place)) in self.layers.iter().zip(&self.places).enumerate() {
            let stage = self.stage(index, 3, inputs, tapes);
            match layer.verbs() {
                Verbs::Elementwise(layer) => layer.jet(stage.outputs, stage.kept),
                Verbs::General(layer) => {
                    let (theta, velocity) = (&theta[place.params.clone()], &velocity[place.params.clone()]);
                    layer.jet(theta, velocity, stage.inputs, stage.outputs, stage.kept);
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

    /// The same layers with every kink in the parameters rounded over the next of the widths, in the order of
    /// [`forward_along_kinks`](Self::forward_along_kinks); `None` where a kink cannot be rounded.
    pub(super) fn smoothed(&self, inputs_move: bool, widths: &mut dyn Iterator<Item = Vec<f64>>) -> Option<Vec<Layer>> {
        let smooth = |(index, (layer, place)): (usize, (&Layer, &Place))| {
            let moves = inputs_move || place.params.end > 0;
            // Within a sequence, inputs of a layer other than the first come with their motion.
            if moves { layer.smoothed(inputs_move || index > 0, widths) } else { Some(layer.clone()) }
        };
        self.layers.iter().zip(&self.places).enumerate().map(smooth).collect()
    }

    /// Computes, from the seeds, the sensitivities of the outputs of every layer, and those of the inputs if they are
    /// wanted.
    pub fn pull_back(&self, theta: &[f64], tapes: &mut [Tape], mut inputs: Option<MatMut<'_, f64>>) {
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

    /// The rows J̃ as a dense M × D matrix.
    pub fn rows(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.rows(rows, target.rb_mut().get_mut(.., place.params.clone()));
        }
    }

    /// The columns of the rows with these indices, in ascending order.
    pub fn columns(&self, indices: &[usize], inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        let mut start = 0;
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            let end = indices.partition_point(|index| *index < place.params.end);
            let own: Vec<usize> = indices[start..end].iter().map(|index| index - place.params.start).collect();
            if !own.is_empty() {
                layer.columns(rows, &own, target.rb_mut().get_mut(.., start..end));
            }
            start = end;
        }
    }

    /// Adds J̃ u.
    pub fn times(
        &self,
        direction: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.times(&direction[place.params.clone()], rows, scratch, product);
        }
    }

    /// Writes J̃ᵀ w.
    pub fn transpose_times(
        &self,
        weights: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.transpose_times(weights, rows, scratch, &mut product[place.params.clone()]);
        }
    }

    /// Adds the lower triangle of J̃ V J̃ᵀ, with one variance per prior group.
    pub fn gram(
        &self,
        variances: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.gram(&variances[place.groups.clone()], rows, scratch, gram.rb_mut());
        }
    }

    /// The lower triangle of J̃ᵀJ̃, block by block of two layers: written, or added.
    pub fn curvature(
        &self,
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        accumulate: Accum,
        scratch: &mut Scratch,
        mut target: MatMut<'_, f64>,
    ) {
        for (index, (layer, place, rows)) in self.with_params(inputs, tapes).enumerate() {
            let own = layer.outer_products();
            let block = target.rb_mut().get_mut(place.params.clone(), place.params.clone());
            match own {
                Some(own) => curvature::own_block((own, rows), accumulate, scratch, block),
                None => {
                    let write = |target: MatMut<'_, f64>| layer.rows(rows, target);
                    let n_rows = rows.sensitivities.nrows();
                    dense_curvature(n_rows, place.params.len(), write, accumulate, block, scratch);
                }
            }
            for (earlier, before, others) in self.with_params(inputs, tapes).take(index) {
                let block = target.rb_mut().get_mut(place.params.clone(), before.params.clone());
                match (own, earlier.outer_products()) {
                    (Some(own), Some(other)) => {
                        curvature::cross_block((own, rows), (other, others), accumulate, scratch, block);
                    }
                    _ => {
                        let n_rows = rows.sensitivities.nrows();
                        let (left, right) = scratch.two_rows(n_rows, place.params.len(), before.params.len());
                        layer.rows(rows, left.as_mut());
                        earlier.rows(others, right.as_mut());
                        multiply(block, accumulate, left.transpose(), right.as_ref());
                    }
                }
            }
        }
    }

    /// Adds J̃ V J̃′ᵀ, with the rows of the same layers at other points; the pairs are inputs and tapes.
    pub fn cross_gram(
        &self,
        variances: &[f64],
        rows: (MatRef<'_, f64>, &[Tape]),
        others: (MatRef<'_, f64>, &[Tape]),
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        let others = self.with_params(others.0, others.1);
        for ((layer, place, rows), (_, _, others)) in self.with_params(rows.0, rows.1).zip(others) {
            layer.cross_gram(&variances[place.groups.clone()], rows, others, scratch, gram.rb_mut());
        }
    }

    /// The blocks of all parameters, in the order of θ.
    pub fn blocks(&self) -> Vec<BlockShape> {
        let blocks = |layer: &Layer| match layer.verbs() {
            Verbs::Elementwise(_) => Vec::new(),
            Verbs::General(layer) => layer.blocks(),
        };
        self.layers.iter().flat_map(blocks).collect()
    }

    /// Adds the curvature of the blocks, in the order of [`blocks`](Self::blocks).
    pub fn kronecker(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut sums: &mut [BlockSums]) {
        for (layer, _, rows) in self.with_params(inputs, tapes) {
            let (own, rest) = sums.split_at_mut(layer.blocks().len().min(sums.len()));
            layer.kronecker(rows, own);
            sums = rest;
        }
    }

    /// Adds Σₘ rowₘ∘rowₘ.
    pub fn add_squares(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], sums: &mut [f64]) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.add_squares(rows, &mut sums[place.params.clone()]);
        }
    }

    /// Adds the covariances of the rows at each point, for a covariance in blocks as those of [`blocks`](Self::blocks).
    pub fn add_point_covariances(
        &self,
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        mut blocks: &[BlockCovariance],
        covariances: &mut [f64],
    ) {
        for (layer, _, rows) in self.with_params(inputs, tapes) {
            let (own, rest) = blocks.split_at(layer.blocks().len().min(blocks.len()));
            layer.add_point_covariances(rows, own, covariances);
            blocks = rest;
        }
    }

    /// The derivatives of the rows along the velocity as a dense M × D matrix.
    pub fn rows_along(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.rows_along(rows, target.rb_mut().get_mut(.., place.params.clone()));
        }
    }

    /// Writes Σₘ wₘ d(rowₘ)/dt.
    pub fn transpose_times_along(
        &self,
        weights: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.transpose_times_along(weights, rows, scratch, &mut product[place.params.clone()]);
        }
    }

    fn last_slot(&self) -> usize {
        self.places.last().map_or(0, |place| place.slot)
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

    /// The layers that have parameters, and what their rows are computed from.
    fn with_params<'a>(
        &'a self,
        inputs: MatRef<'a, f64>,
        tapes: &'a [Tape],
    ) -> impl Iterator<Item = (&'a dyn LayerVerbs, &'a Place, LayerRows<'a>)> {
        let n = n_points(tapes);
        self.layers.iter().zip(&self.places).zip(tapes).enumerate().filter_map(
            move |(index, ((layer, place), tape))| {
                let Verbs::General(layer) = layer.verbs() else { return None };
                let inputs = match index {
                    0 => inputs,
                    _ => tapes[self.places[index - 1].slot].values.as_ref(),
                };
                let rows = LayerRows {
                    coefficients: inputs,
                    inputs: inputs.get(..n, ..),
                    inputs_along: (inputs.nrows() > n).then(|| inputs.get(n..2 * n, ..)),
                    sensitivities: tape.sensitivities.as_ref(),
                    sensitivities_along: tape.sensitivities_along.as_ref(),
                    kept: &tape.kept,
                };
                (!place.params.is_empty()).then_some((layer, place, rows))
            },
        )
    }
}

/// Why these layers are refused, with the layer at fault.
fn refusal(layers: &[Layer], index: usize, problem: String) -> Error {
    let list = || "the list of layers".to_string();
    Error::Architecture {
        what: layers.get(index).map_or_else(list, |layer| format!("layer {index} ({layer})")),
        problem,
    }
}

/// Room for the derivatives of sensitivities.
fn resize_along(tapes: &mut [Tape]) {
    for tape in tapes {
        resize(&mut tape.sensitivities_along, tape.sensitivities.nrows(), tape.sensitivities.ncols());
    }
}

/// N. The first layer's outputs are in its own tape.
fn n_points(tapes: &[Tape]) -> usize {
    tapes.first().map_or(0, |tape| tape.values.nrows() / 3)
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
