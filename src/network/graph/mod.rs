//! A network as a graph of a few kinds of nodes, from which all its derivatives follow.
//!
//! A value takes N points at once: a matrix with one column per entry of a point. Taylor coefficients h₀, h₁, h₂ along a
//! velocity are three blocks of N rows, one below the other, and the K blocks of M = N·K sensitivities likewise. Nodes are in
//! topological order: a node takes values of nodes before it. Values that no parameter moves are computed once, when the graph
//! is bound to inputs; all others by the sweeps of `sweeps.rs`, after which `products.rs` has everything about parameters.
//!
//! Parameters are written once. A tensor may be used by any number of nodes at any number of taps; the row of a seed is
//! Σ δ h ᵀ over all of them.

mod affine;
mod bilinear;
mod build;
mod bundle;
mod compose;
pub(super) mod curvature;
mod cut;
mod elementwise;
mod fixed;
mod indices;
mod node;
mod operator;
mod parametric;
mod places;
mod products;
mod quadratic;
mod rounded;
mod rows;
mod scale_shift;
mod softmax;
mod sweeps;
mod tape;
mod taps;
mod taylor;

pub use affine::{Affine, Weight};
pub use bilinear::Bilinear;
pub use build::{GraphBuilder, Term, Value, View, broadcast, broadcast_places, row_major, size, strided, transposed};
pub use curvature::OuterProducts;
pub use elementwise::Function;
pub use fixed::FixedLinear;
pub use indices::Indices;
pub use node::{Custom, Kind, Node, Start, Tensor};
pub use operator::{Operator, Seen};
pub use quadratic::Swept;
pub use rounded::Rounded;
pub use scale_shift::ScaleShift;
pub use softmax::Softmax;
pub use tape::{Kept, Tapes};
pub use taps::{Taps, Window};

use std::ops::Range;

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use self::bundle::Bundle;
use crate::error::{Error, Result};

/// Nodes in topological order, the tensors of parameters in the order of θ, and the node whose value are the outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Graph {
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
    output: usize,
    /// The width of every node's value.
    widths: Vec<usize>,
    /// Whether parameters move it.
    moves: Vec<bool>,
    /// How many nodes that move read it.
    readers: Vec<usize>,
    /// The node whose memory holds it: its own or, for an elementwise node that works in place, that of its input.
    slots: Vec<usize>,
    /// The first data column of an input.
    starts: Vec<usize>,
    bundles: Vec<Bundle>,
}

/// What a file holds of a graph.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
    output: usize,
}

impl TryFrom<Parts> for Graph {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<Self> {
        Self::new(parts.nodes, parts.tensors, parts.output)
    }
}

impl From<Graph> for Parts {
    fn from(graph: Graph) -> Self {
        Self { nodes: graph.nodes, tensors: graph.tensors, output: graph.output }
    }
}

impl Graph {
    /// Checks nodes and tensors, leaves out what the outputs do not depend on, and plans the sweeps.
    pub fn new(nodes: Vec<Node>, tensors: Vec<Tensor>, output: usize) -> Result<Self> {
        let n_params = tensors.iter().try_fold(0_usize, |sum, tensor| sum.checked_add(tensor.checked_size()?));
        let n_params = n_params.ok_or_else(|| refuse("the network", "has more parameters than can be counted"))?;
        let mut widths: Vec<usize> = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let what = || format!("node {index} ({})", node.kind.description());
            let inputs: Option<Vec<usize>> = node.inputs.iter().map(|input| widths.get(*input).copied()).collect();
            let inputs = inputs.ok_or_else(|| refuse(&what(), "takes a value that is not computed before it"))?;
            widths.push(node.kind.width(&inputs, n_params).map_err(|problem| refuse(&what(), problem))?);
        }
        if output >= nodes.len() {
            return Err(refuse("the network", "has no node for its outputs"));
        }
        let (nodes, widths, output) = without_unused(nodes, widths, output);
        let mut moves: Vec<bool> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            moves.push(node.kind.is_parametric() || node.inputs.iter().any(|input| moves[*input]));
        }
        if n_params == 0 || !moves[output] {
            return Err(refuse("the network", "has no parameters that its outputs depend on"));
        }
        let mut readers = vec![0; nodes.len()];
        for (node, _) in nodes.iter().zip(&moves).filter(|(_, moves)| **moves) {
            node.inputs.iter().for_each(|input| readers[*input] += 1);
        }
        readers[output] += 1;
        let mut starts = vec![0; nodes.len()];
        let mut next = 0;
        for (index, node) in nodes.iter().enumerate() {
            if let Kind::Input(width) = node.kind {
                starts[index] = next;
                next += width;
            }
        }
        let slots = slots(&nodes, &moves, &readers);
        let bundles = bundle::bundles(&nodes, &tensors);
        Ok(Self { nodes, tensors, output, widths, moves, readers, slots, starts, bundles })
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The tensors of parameters, in the order of θ.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The width of a node's value.
    pub fn width(&self, node: usize) -> usize {
        self.widths[node]
    }

    /// The node whose value are the outputs.
    pub fn output(&self) -> usize {
        self.output
    }

    /// The first data column of an input.
    pub fn input_start(&self, node: usize) -> usize {
        self.starts[node]
    }

    /// D.
    pub fn n_params(&self) -> usize {
        self.tensors.iter().map(Tensor::size).sum()
    }

    /// The number of data columns.
    pub fn n_inputs(&self) -> usize {
        let width = |(node, width): (&Node, &usize)| if matches!(node.kind, Kind::Input(_)) { *width } else { 0 };
        self.nodes.iter().zip(&self.widths).map(width).sum()
    }

    /// P.
    pub fn n_outputs(&self) -> usize {
        self.widths[self.output]
    }

    /// The place of every tensor in θ.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        ranges(&self.tensors)
    }

    /// The number of parameters of each owner, in order: the groups of a per-layer prior.
    pub fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for tensor in &self.tensors {
            match groups.last_mut() {
                Some((owner, size)) if *owner == tensor.owner => *size += tensor.size(),
                _ => groups.push((tensor.owner, tensor.size())),
            }
        }
        groups.into_iter().map(|(_, size)| size).collect()
    }

    /// The nodes with a weight matrix of their own that they use once, and the place of it and its bias in θ.
    pub fn single_matrices(&self) -> impl Iterator<Item = (&Affine, Range<usize>)> {
        self.bundles.iter().filter_map(|bundle| match bundle.uses {
            bundle::Uses::Single { node, .. } => match &self.nodes[node].kind {
                Kind::Affine(affine) => Some((affine, bundle.range.clone())),
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether the outputs have kinks as functions of the parameters.
    pub fn has_kinks(&self) -> bool {
        self.nodes.iter().zip(&self.moves).any(|(node, moves)| *moves && node.kind.has_kink())
    }

    /// Whether a file can hold the graph.
    pub fn can_be_saved(&self) -> bool {
        !self.nodes.iter().any(|node| matches!(node.kind, Kind::Custom(_) | Kind::Elementwise(Function::Rounded(_))))
    }

    /// The same graph with the kinks of each node that moves rounded over these widths, in the order of the nodes; `None` if
    /// there are too few.
    pub fn rounded(&self, mut widths: impl Iterator<Item = Vec<f64>>) -> Option<Self> {
        let mut graph = self.clone();
        for (node, moves) in graph.nodes.iter_mut().zip(&self.moves) {
            if let (Kind::Elementwise(function), true) = (&mut node.kind, moves)
                && function.has_kink()
            {
                *function = Function::Rounded(Rounded::new(function.clone(), widths.next()?)?);
            }
        }
        Some(graph)
    }

    /// The nodes that parameters do not move, at N points: empty matrices for those that do, and for those that no node that
    /// moves reads.
    pub fn still_values(&self, inputs: MatRef<'_, f64>) -> Result<Vec<Mat<f64>>> {
        let points = inputs.nrows();
        let mut values: Vec<Mat<f64>> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let mut own = Mat::zeros(if self.moves[index] { 0 } else { points }, self.widths[index]);
            if !self.moves[index] {
                self.still_value(index, inputs, &values, &mut own)?;
            }
            debug_assert!(node.inputs.iter().all(|input| *input < index));
            values.push(own);
        }
        for (value, readers) in values.iter_mut().zip(&self.readers) {
            if *readers == 0 {
                *value = Mat::new();
            }
        }
        Ok(values)
    }

    /// The column of the data that a column of a node's value is a copy of; the first of several.
    fn data_column(&self, index: usize, column: usize) -> usize {
        let node = &self.nodes[index];
        let Kind::FixedLinear(fixed) = &node.kind else { return self.starts[index] + column };
        let Some((_, mut place, _)) = fixed.terms().find(|(target, _, _)| *target == column) else { return column };
        for input in &node.inputs {
            match place.checked_sub(self.widths[*input]) {
                Some(rest) => place = rest,
                None => return self.data_column(*input, place),
            }
        }
        column
    }

    fn still_value(&self, index: usize, data: MatRef<'_, f64>, values: &[Mat<f64>], own: &mut Mat<f64>) -> Result<()> {
        let (node, points) = (&self.nodes[index], data.nrows());
        let inputs: Vec<MatRef<'_, f64>> = node.inputs.iter().map(|input| values[*input].as_ref()).collect();
        let mut kept = Kept::nothing();
        match &node.kind {
            Kind::Input(width) => own.copy_from(data.get(.., self.starts[index]..self.starts[index] + width)),
            Kind::OneHot(size) => one_hot(*size, inputs[0], own).map_err(|error| match error {
                Error::Category { row, column, value, size } => {
                    let column = self.data_column(node.inputs[0], column);
                    Error::Category { row, column, value, size }
                }
                other => other,
            })?,
            Kind::Elementwise(function) => {
                own.copy_from(inputs[0]);
                function.forward(points, own.as_mut(), &mut kept);
            }
            kind => {
                if let Some(constants) = kind.parametric() {
                    let motion = parametric::Motion { theta: &[], velocity: None };
                    constants.forward(motion, points, inputs[0], own.as_mut(), &mut kept, false);
                } else if let Some(operator) = kind.operator() {
                    operator.forward(points, &inputs, own.as_mut());
                }
            }
        }
        Ok(())
    }
}

fn refuse(what: &str, problem: impl Into<String>) -> Error {
    build::refuse(what, problem)
}

/// The place of every tensor in θ.
fn ranges(tensors: &[Tensor]) -> Vec<Range<usize>> {
    let place = |end: &mut usize, tensor: &Tensor| {
        let start = *end;
        *end += tensor.size();
        Some(start..*end)
    };
    tensors.iter().scan(0, place).collect()
}

/// Leaves out the nodes that the output does not depend on; inputs stay, since data columns are counted by them.
fn without_unused(nodes: Vec<Node>, widths: Vec<usize>, output: usize) -> (Vec<Node>, Vec<usize>, usize) {
    let mut used = vec![false; nodes.len()];
    used[output] = true;
    for (index, node) in nodes.iter().enumerate().rev() {
        used[index] |= matches!(node.kind, Kind::Input(_));
        if used[index] {
            node.inputs.iter().for_each(|input| used[*input] = true);
        }
    }
    let mut places = vec![0; nodes.len()];
    let (mut kept, mut kept_widths) = (Vec::new(), Vec::new());
    for (index, (mut node, width)) in nodes.into_iter().zip(widths).enumerate() {
        if used[index] {
            places[index] = kept.len();
            node.inputs.iter_mut().for_each(|input| *input = places[*input]);
            kept.push(node);
            kept_widths.push(width);
        }
    }
    (kept, kept_widths, places[output])
}

/// Where every value is kept: an elementwise node replaces its input where nothing else reads it.
fn slots(nodes: &[Node], moves: &[bool], readers: &[usize]) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..nodes.len()).collect();
    for (index, node) in nodes.iter().enumerate() {
        if let (Kind::Elementwise(_), [input]) = (&node.kind, &node.inputs[..]) {
            let needed = nodes[*input].kind.operator().is_some_and(Operator::needs_value);
            if moves[*input] && readers[*input] == 1 && !needed {
                slots[index] = slots[*input];
            }
        }
    }
    slots
}

/// The columns [x = 0], …, [x = size − 1] of every column.
fn one_hot(size: usize, input: MatRef<'_, f64>, own: &mut Mat<f64>) -> Result<()> {
    own.fill(0.0);
    for (column, values) in input.col_iter().enumerate() {
        for (row, value) in values.iter().enumerate() {
            if value.fract() != 0.0 || *value < 0.0 || *value >= size as f64 {
                return Err(Error::Category { row, column, value: *value, size });
            }
            own[(row, column * size + *value as usize)] = 1.0;
        }
    }
    Ok(())
}
