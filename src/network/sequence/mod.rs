//! Layers in sequence, and the loops over them: forwards for values, backwards for sensitivities, and once through all
//! of them for products with the rows.
//!
//! The rows J̃ = RᵀJ of a sequence are never formed: each layer has its inputs h and the sensitivities δ of its outputs,
//! and its part of any product follows from these two.

mod products;
mod sweeps;

use std::ops::Range;

use faer::Mat;

use super::curvature;
use super::layer::{Layer, LayerVerbs, ParameterGroup, Verbs};
use super::tape::Tape;
use crate::error::{Error, Result};

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

    /// The number of f64 values per point that the verbs take from a [`Scratch`](crate::map::Scratch), apart from those of
    /// Gram matrices.
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

    /// The number of f64 values that [`curvature`](Self::curvature) takes from a [`Scratch`](crate::map::Scratch): tiles
    /// and, where a layer's rows are not outer products, the rows of two layers.
    pub fn curvature_size(&self, points: usize, columns: usize) -> f64 {
        let dense = self.layers_with_params().any(|(layer, _)| layer.outer_products().is_none());
        let widest = self.places.iter().map(|place| place.params.len()).max().unwrap_or(0);
        let rows = if dense { 2.0 * (points * columns) as f64 * widest as f64 } else { 0.0 };
        curvature::buffer_size(points) + rows
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

    fn last_slot(&self) -> usize {
        self.places.last().map_or(0, |place| place.slot)
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

/// N. The first layer's outputs are in its own tape.
fn n_points(tapes: &[Tape]) -> usize {
    tapes.first().map_or(0, |tape| tape.values.nrows() / 3)
}
