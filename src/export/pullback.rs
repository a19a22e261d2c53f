//! The pull-back: the sensitivities of the value of every node that uncertain parameters move, from those of the outputs.
//!
//! Sensitivities are `[rows, outputs, width]`. As long as nothing that depends on the data has entered, they are one constant
//! matrix, outputs × width, and are computed here.

use faer::{Accum, Mat, MatRef};

use super::functions;
use super::network::{Forward, row_by_row, windows};
use super::products;
use super::sparse::Sparse;
use super::writer::{Name, Writer};
use crate::error::Result;
use crate::linalg::multiply;
use crate::network::graph::{Affine, Kind, ScaleShift, Softmax, Taps};

/// Sensitivities of a value.
#[derive(Debug, Clone)]
pub(super) enum Sensitivities {
    /// The same for all rows: outputs × width.
    Constant(Mat<f64>),
    /// `[rows, outputs, width]`.
    Computed(Name),
}

impl Sensitivities {
    /// As a value, `[rows or 1, outputs, width]`.
    pub(super) fn value(&self, w: &mut Writer) -> Name {
        match self {
            Self::Computed(name) => name.clone(),
            Self::Constant(matrix) => w.numbers(&[1, matrix.nrows(), matrix.ncols()], &row_by_row(matrix)),
        }
    }

    fn plus(self, w: &mut Writer, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(one), Self::Constant(other)) => Self::Constant(one + other),
            (one, other) => {
                let (one, other) = (one.value(w), other.value(w));
                Self::Computed(w.add(&one, &other))
            }
        }
    }

    /// S on the last axis.
    fn times(&self, w: &mut Writer, matrix: &Sparse) -> Self {
        match self {
            Self::Constant(deltas) => {
                let mut product = Mat::zeros(deltas.nrows(), matrix.outputs);
                for (output, input, weight) in &matrix.terms {
                    (0..deltas.nrows()).for_each(|k| product[(k, *output)] += weight * deltas[(k, *input)]);
                }
                Self::Constant(product)
            }
            Self::Computed(name) => Self::Computed(matrix.apply(w, name, 2)),
        }
    }
}

/// The sensitivities of every node's value; none where uncertain parameters do not move it.
pub(super) fn pull_back(w: &mut Writer, forward: &Forward<'_>) -> Result<Vec<Option<Sensitivities>>> {
    let graph = forward.graph;
    let mut moves: Vec<bool> = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        moves.push(forward.is_uncertain(index) || node.inputs.iter().any(|input| moves[*input]));
    }
    let mut all: Vec<Option<Sensitivities>> = vec![None; moves.len()];
    let p = graph.n_outputs();
    all[graph.output()] = Some(Sensitivities::Constant(Mat::identity(p, p)));
    for index in (0..moves.len()).rev().filter(|index| moves[*index]) {
        let Some(own) = all[index].clone() else { continue };
        for (which, input) in graph.nodes()[index].inputs.iter().enumerate().filter(|(_, input)| moves[**input]) {
            let given = one(w, forward, index, which, &own)?;
            all[*input] = Some(match all[*input].take() {
                None => given,
                Some(sum) => sum.plus(w, given),
            });
        }
    }
    Ok(all)
}

/// What the sensitivities of a node give to those of one input.
fn one(
    w: &mut Writer,
    forward: &Forward<'_>,
    index: usize,
    which: usize,
    own: &Sensitivities,
) -> Result<Sensitivities> {
    let (graph, inputs) = (forward.graph, forward.inputs(index));
    let node = &graph.nodes()[index];
    Ok(match &node.kind {
        Kind::Affine(affine) => through_weights(w, forward, affine, own),
        Kind::ScaleShift(scale) => through_scale(w, forward, scale, own),
        Kind::Elementwise(function) => {
            let value = &forward.values[index].name;
            match functions::slope(w, function, &inputs[0].name, value)? {
                None => own.clone(),
                Some(slope) => {
                    let slope = w.reshape(&slope, 1, &[1, graph.width(index)]);
                    let own = own.value(w);
                    Sensitivities::Computed(w.multiply(&own, &slope))
                }
            }
        }
        Kind::Bilinear(bilinear) => {
            let widths = [graph.width(node.inputs[0]), graph.width(node.inputs[1]), graph.width(index)];
            let (deltas, lead) = match own {
                Sensitivities::Computed(name) => (name.clone(), "nk"),
                Sensitivities::Constant(matrix) => {
                    (w.numbers(&[matrix.nrows(), matrix.ncols()], &row_by_row(matrix)), "k")
                }
            };
            let other = &inputs[1 - which].name;
            Sensitivities::Computed(products::backward(w, bilinear, which, (&deltas, lead), other, widths)?)
        }
        Kind::FixedLinear(fixed) => {
            let part = forward.parts(index, fixed).swap_remove(which).transposed();
            own.times(w, &part)
        }
        Kind::Softmax(softmax) => {
            let own = own.value(w);
            Sensitivities::Computed(through_softmax(w, softmax, &forward.values[index].name, &own))
        }
        other => return Err(super::refused(&format!("a node of the user's own ({})", other.description()))),
    })
}

/// Wᵀδ at every tap, added up where taps overlap.
fn through_weights(w: &mut Writer, forward: &Forward<'_>, affine: &Affine, own: &Sensitivities) -> Sensitivities {
    let (groups, taps) = (affine.taps.groups(), affine.taps.count());
    let outputs = affine.outputs / groups.max(1);
    let weights = forward.weights(affine);
    if let (Sensitivities::Constant(deltas), Taps::Blocks(1)) = (own, affine.taps) {
        let matrix = MatRef::from_row_major_slice(&weights, outputs, affine.inputs);
        let mut product = Mat::zeros(deltas.nrows(), affine.inputs);
        multiply(product.as_mut(), Accum::Replace, deltas.as_ref(), matrix);
        return Sensitivities::Constant(product);
    }
    let deltas = own.value(w);
    if affine.taps == Taps::Blocks(1) {
        let weights = w.numbers(&[outputs, affine.inputs], &weights);
        return Sensitivities::Computed(w.matmul(&deltas, &weights));
    }
    let deltas = deltas_at_taps(w, affine, &deltas);
    let weights = w.numbers(&[groups, outputs, affine.inputs], &weights);
    let product = w.matmul(&deltas, &weights);
    let flat = w.reshape(&product, 2, &[groups * taps * affine.inputs]);
    Sensitivities::Computed(match affine.taps {
        Taps::Blocks(_) => flat,
        Taps::Windows { .. } => windows(affine, forward.input_width(affine)).transposed().apply(w, &flat, 2),
    })
}

/// δ at the taps: `[rows, k, groups, taps, outputs]`.
pub(super) fn deltas_at_taps(w: &mut Writer, affine: &Affine, deltas: &Name) -> Name {
    let (groups, taps) = (affine.taps.groups(), affine.taps.count());
    let outputs = affine.outputs / groups.max(1);
    match affine.taps {
        Taps::Blocks(_) => w.reshape(deltas, 2, &[groups, taps, outputs]),
        Taps::Windows { .. } => {
            let shaped = w.reshape(deltas, 2, &[groups, outputs, taps]);
            w.exchange_last(&shaped, 5)
        }
    }
}

fn through_scale(w: &mut Writer, forward: &Forward<'_>, node: &ScaleShift, own: &Sensitivities) -> Sensitivities {
    let Some(places) = &node.scale else { return own.clone() };
    let scales: Vec<f64> = places.iter().map(|place| forward.parameters.theta[place]).collect();
    let terms = scales.iter().enumerate().map(|(column, scale)| (column, column, *scale)).collect();
    own.times(w, &Sparse { inputs: scales.len(), outputs: scales.len(), terms })
}

/// p∘(δ − p·δ) along the axis of the softmax.
fn through_softmax(w: &mut Writer, softmax: &Softmax, value: &Name, deltas: &Name) -> Name {
    let lengths = [softmax.outer, softmax.length, softmax.inner];
    let p = w.reshape(value, 1, &[1, lengths[0], lengths[1], lengths[2]]);
    let deltas = w.reshape(deltas, 2, &lengths);
    let weighted = w.multiply(&p, &deltas);
    let sums = w.sum(&weighted, 3, true);
    let apart = w.subtract(&deltas, &sums);
    let product = w.multiply(&p, &apart);
    w.reshape(&product, 2, &[lengths.iter().product()])
}
