//! Parameters whose rows belong together: what quadratic verbs (Gram matrices, curvature, Kronecker factors) go by.

use std::ops::Range;

use super::affine::Weight;
use super::curvature::OuterProducts;
use super::indices::Indices;
use super::node::{Kind, Node, Tensor};
use crate::map::BlockShape;

/// Consecutive parameters, and the nodes that use them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bundle {
    /// Their place in θ.
    pub(super) range: Range<usize>,
    /// Their place among the groups that may have a prior precision of their own.
    pub(super) group: usize,
    pub(super) uses: Uses,
}

/// How parameters are used.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Uses {
    /// A weight matrix, and its bias after it, by one node at one tap: rows are outer products δ ⊗ (h, 1).
    Single { shape: OuterProducts, node: usize },
    /// A weight matrix at several taps, or by several nodes, as a group of each: rows are sums of outer products.
    Matrix {
        inputs: usize,
        outputs: usize,
        /// Whether θ has it as `[inputs, outputs]`.
        transposed: bool,
        nodes: Vec<(usize, usize)>,
    },
    /// Any other way.
    Other { nodes: Vec<usize> },
}

impl Bundle {
    pub(super) fn shape(&self) -> BlockShape {
        match &self.uses {
            Uses::Single { shape: OuterProducts { inputs, outputs, bias }, .. } => {
                BlockShape::Matrix { outputs: *outputs, inputs: *inputs, bias: *bias }
            }
            Uses::Matrix { inputs, outputs, transposed, .. } => {
                let (rows, columns) = if *transposed { (*inputs, *outputs) } else { (*outputs, *inputs) };
                BlockShape::Matrix { outputs: rows, inputs: columns, bias: false }
            }
            Uses::Other { .. } => BlockShape::Dense { size: self.range.len() },
        }
    }

    /// The nodes that use these parameters.
    pub(super) fn nodes(&self) -> Vec<usize> {
        match &self.uses {
            Uses::Single { node, .. } => vec![*node],
            Uses::Matrix { nodes, .. } => {
                let mut nodes: Vec<usize> = nodes.iter().map(|(node, _)| *node).collect();
                nodes.dedup();
                nodes
            }
            Uses::Other { nodes } => nodes.clone(),
        }
    }
}

/// One use of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// As a weight matrix in the order of θ, or with its axes exchanged.
    Weight { node: usize, transposed: bool },
    /// As the bias of a node, in the order of θ.
    Bias { node: usize },
    /// Any other.
    Other { node: usize },
}

impl Use {
    fn node(self) -> usize {
        match self {
            Self::Weight { node, .. } | Self::Bias { node } | Self::Other { node } => node,
        }
    }
}

/// The bundles of all parameters, in the order of θ.
pub(super) fn bundles(nodes: &[Node], tensors: &[Tensor]) -> Vec<Bundle> {
    let ranges = super::ranges(tensors);
    let uses = uses(nodes, &ranges);
    let (mut bundles, mut group) = (Vec::new(), 0);
    let mut merged = false;
    for (index, (tensor, range)) in tensors.iter().zip(&ranges).enumerate() {
        if index > 0 && tensors[index - 1].owner != tensor.owner {
            group += 1;
        }
        if std::mem::take(&mut merged) {
            continue;
        }
        let next = uses.get(index + 1).map_or(&[][..], Vec::as_slice);
        match matrix_uses(nodes, &uses[index]) {
            Some((node, false)) if single(nodes, node) && uses[index].len() == 1 => {
                let Kind::Affine(affine) = &nodes[node].kind else { continue };
                let same_group = tensors.get(index + 1).is_some_and(|next| next.owner == tensor.owner);
                merged = same_group && next == [Use::Bias { node }];
                let end = if merged { ranges[index + 1].end } else { range.end };
                let shape = OuterProducts { inputs: affine.inputs, outputs: affine.outputs, bias: merged };
                bundles.push(Bundle { range: range.start..end, group, uses: Uses::Single { shape, node } });
            }
            Some((node, transposed)) => {
                let Kind::Affine(affine) = &nodes[node].kind else { continue };
                let (inputs, outputs) = (affine.inputs, affine.group_outputs());
                for part in 0..affine.taps.groups() {
                    let start = range.start + part * inputs * outputs;
                    let nodes = uses[index].iter().map(|own| (own.node(), part)).collect();
                    let uses = Uses::Matrix { inputs, outputs, transposed, nodes };
                    bundles.push(Bundle { range: start..start + inputs * outputs, group, uses });
                }
            }
            None => {
                let mut nodes: Vec<usize> = uses[index].iter().map(|own| own.node()).collect();
                nodes.dedup();
                bundles.push(Bundle { range: range.clone(), group, uses: Uses::Other { nodes } });
            }
        }
    }
    bundles
}

fn single(nodes: &[Node], node: usize) -> bool {
    matches!(&nodes[node].kind, Kind::Affine(affine) if affine.is_single())
}

/// The first node and the orientation, if all uses are those of one weight matrix in the same way.
fn matrix_uses(nodes: &[Node], uses: &[Use]) -> Option<(usize, bool)> {
    let Some(Use::Weight { node, transposed }) = uses.first().copied() else { return None };
    let shape = |node: usize| match &nodes[node].kind {
        Kind::Affine(affine) => (affine.inputs, affine.outputs, affine.taps.groups()),
        _ => (0, 0, 0),
    };
    let same = |own: &Use| matches!(own, Use::Weight { node: other, transposed: way } if *way == transposed && shape(*other) == shape(node));
    let whole = !transposed || shape(node).2 == 1;
    (uses.iter().all(same) && whole).then_some((node, transposed))
}

/// The uses of every tensor.
fn uses(nodes: &[Node], ranges: &[Range<usize>]) -> Vec<Vec<Use>> {
    let mut uses = vec![Vec::new(); ranges.len()];
    // All places of a view belong to one tensor; one that does not is a use of every tensor that it touches.
    let tensors = |places: &Indices| -> Vec<usize> {
        let touched = |range: &Range<usize>| match places {
            Indices::Range(own) => own.start < range.end && range.start < own.end,
            Indices::List(list) => list.iter().any(|place| range.contains(place)),
        };
        match places {
            Indices::Range(own) => {
                let first = ranges.partition_point(|range| range.end <= own.start);
                (first..ranges.len()).take_while(|index| touched(&ranges[*index])).collect()
            }
            Indices::List(_) => (0..ranges.len()).filter(|index| touched(&ranges[*index])).collect(),
        }
    };
    for (node, own) in nodes.iter().enumerate() {
        match &own.kind {
            Kind::Affine(affine) => {
                if let Some(Weight::Parameters(places)) = &affine.weight {
                    for tensor in tensors(places) {
                        let (whole, range) = (*places == Indices::Range(ranges[tensor].clone()), &ranges[tensor]);
                        let way =
                            if whole { Some(false) } else { exchanged(places, range, affine.outputs).then_some(true) };
                        uses[tensor].push(match way {
                            Some(transposed) => Use::Weight { node, transposed },
                            None => Use::Other { node },
                        });
                    }
                }
                for tensor in affine.bias.as_ref().map(tensors).unwrap_or_default() {
                    let whole = affine.bias == Some(Indices::Range(ranges[tensor].clone()));
                    uses[tensor].push(if whole { Use::Bias { node } } else { Use::Other { node } });
                }
            }
            Kind::ScaleShift(scale_shift) => {
                for places in [&scale_shift.scale, &scale_shift.shift].into_iter().flatten() {
                    tensors(places).into_iter().for_each(|tensor| uses[tensor].push(Use::Other { node }));
                }
            }
            _ => {}
        }
    }
    uses
}

/// Whether these places are those of the whole tensor with its axes exchanged.
fn exchanged(places: &Indices, range: &Range<usize>, outputs: usize) -> bool {
    let inputs = places.len() / outputs.max(1);
    let place = |index: usize| range.start + index % inputs.max(1) * outputs + index / inputs.max(1);
    places.len() == range.len() && places.iter().enumerate().all(|(index, own)| own == place(index))
}
