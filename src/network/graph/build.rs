//! Graphs in the making: values with a shape per point, and nodes that fit them.
//!
//! A value has the shape of one point, last axis fastest. Reshaping changes nothing but the shape, so it makes no node.

use super::Graph;
use super::affine::{Affine, Weight};
use super::bilinear::Bilinear;
use super::elementwise::Function;
use super::fixed::FixedLinear;
use super::indices::Indices;
use super::node::{Kind, Node, Start, Tensor};
use super::scale_shift::ScaleShift;
use super::softmax::Softmax;
use super::taps::{Taps, Window};
use crate::error::{Error, Result};
use crate::memory;
use crate::network::{Activation, Architecture, Network};

/// A value of a graph in the making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value(usize);

/// Some of the numbers of a parameter tensor, in any shape and order.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Their shape.
    pub shape: Vec<usize>,
    /// Their places in θ.
    pub places: Indices,
}

impl View {
    /// Entries of this view in another shape: entry i is entry `places[i]` of this one.
    pub fn select(&self, shape: Vec<usize>, places: &[usize]) -> Self {
        let places: Vec<usize> = places.iter().map(|place| self.places.get(*place)).collect();
        Self { shape, places: places.into() }
    }

    /// The same in another shape of the same size.
    pub fn reshaped(&self, shape: Vec<usize>) -> Self {
        Self { shape, places: self.places.clone() }
    }

    /// A matrix with its axes exchanged.
    pub fn transposed(&self) -> Result<Self> {
        let [rows, columns] = self.shape[..] else {
            return Err(refuse("a parameter", format!("has shape {:?}; only a matrix can be transposed", self.shape)));
        };
        let places: Vec<usize> = (0..columns).flat_map(|j| (0..rows).map(move |i| i * columns + j)).collect();
        Ok(self.select(vec![columns, rows], &places))
    }
}

/// One term of a constant linear combination: output ← weight · entry `entry` of input number `input`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The entry of the output.
    pub output: usize,
    /// Which input.
    pub input: usize,
    /// The entry of the input.
    pub entry: usize,
    /// The factor.
    pub weight: f64,
}

/// A graph in the making.
///
/// ```
/// use riemannian_laplace::internals::network::graph::GraphBuilder;
/// use riemannian_laplace::Activation;
///
/// // A gate: tanh(Ux) ∘ sigmoid(Vx), summed.
/// let mut graph = GraphBuilder::new();
/// let x = graph.input(&[2]);
/// let u = graph.parameter("u", &[3, 2], vec![0.5; 6])?;
/// let v = graph.parameter("v", &[3, 2], vec![-0.5; 6])?;
/// let (left, right) = (graph.linear(x, &u, None)?, graph.linear(x, &v, None)?);
/// let left = graph.function(left, Activation::Tanh)?;
/// let right = graph.function(right, Activation::Sigmoid)?;
/// let gated = graph.mul(left, right)?;
/// let sum = graph.reduce_sum(gated, &[0], false)?;
/// let network = graph.finish(sum)?;
/// assert_eq!((network.parameters().len(), graph_inputs(&network)), (12, 2));
/// # fn graph_inputs(network: &riemannian_laplace::Network) -> usize {
/// #     riemannian_laplace::Model::n_inputs(network)
/// # }
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    widths: Vec<usize>,
    tensors: Vec<Tensor>,
    theta: Vec<f64>,
    n_params: usize,
    /// The entries of all lists of indices.
    entries: f64,
    /// The node and the shape of every value.
    values: Vec<(usize, Vec<usize>)>,
}

pub(super) fn refuse(what: &str, problem: impl Into<String>) -> Error {
    Error::Architecture { what: what.to_string(), problem: problem.into() }
}

/// The product of the lengths of the axes.
pub fn size(shape: &[usize]) -> usize {
    shape.iter().fold(1, |size: usize, length| size.saturating_mul(*length))
}

impl GraphBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shape of a point of a value.
    pub fn shape(&self, value: Value) -> &[usize] {
        self.values.get(value.0).map_or(&[], |(_, shape)| shape)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The parameters so far.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The tensors of parameters so far.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Asks for the memory of lists with this many more entries, before they are made.
    pub fn count(&mut self, entries: usize) -> Result<()> {
        self.entries += entries as f64;
        // An entry of a list, and the term that it is made from.
        memory::reserve("the nodes of the network", 6.0 * self.entries, "use a smaller network").map(drop)
    }

    fn value(&mut self, node: usize, shape: Vec<usize>) -> Value {
        self.values.push((node, shape));
        Value(self.values.len() - 1)
    }

    fn width_of(&self, value: Value) -> usize {
        size(self.shape(value))
    }

    /// Adds a node; its width must be the size of the shape.
    pub fn node(&mut self, kind: Kind, inputs: &[Value], shape: &[usize]) -> Result<Value> {
        let what = || format!("node {} ({})", self.nodes.len(), kind.description());
        let known = |value: &Value| self.values.get(value.0).map(|(node, _)| *node);
        let inputs: Option<Vec<usize>> = inputs.iter().map(known).collect();
        let inputs = inputs.ok_or_else(|| refuse(&what(), "takes a value of another graph"))?;
        let widths: Vec<usize> = inputs.iter().filter_map(|node| self.widths.get(*node).copied()).collect();
        let width = kind.width(&widths, self.n_params).map_err(|problem| refuse(&what(), problem))?;
        if width != size(shape) {
            return Err(refuse(&what(), format!("has {width} values for a shape of {shape:?}")));
        }
        self.nodes.push(Node { kind, inputs });
        self.widths.push(width);
        Ok(self.value(self.nodes.len() - 1, shape.to_vec()))
    }

    /// The next columns of the data, as points of this shape.
    pub fn input(&mut self, shape: &[usize]) -> Value {
        self.nodes.push(Node { kind: Kind::Input(size(shape)), inputs: Vec::new() });
        self.widths.push(size(shape));
        self.value(self.nodes.len() - 1, shape.to_vec())
    }

    /// A new tensor of parameters, the next in θ. Its name without what follows the last dot says what it belongs to.
    pub fn parameter(&mut self, name: &str, shape: &[usize], values: Vec<f64>) -> Result<View> {
        let stem = |name: &str| name.rsplit_once('.').map(|(stem, _)| stem.to_string());
        let owner = match self.tensors.last() {
            Some(last) if stem(name).is_some() && stem(&last.name) == stem(name) => last.owner,
            Some(last) => last.owner + 1,
            None => 0,
        };
        self.tensor(Tensor { name: name.to_string(), shape: shape.to_vec(), owner, start: Start::Zero }, values)
    }

    /// The same with all that is known of the tensor.
    pub fn tensor(&mut self, tensor: Tensor, values: Vec<f64>) -> Result<View> {
        let what = || format!("the parameter `{}`", tensor.name);
        if tensor.checked_size() != Some(values.len()) {
            let problem = format!("has {} values for a shape of {:?}", values.len(), tensor.shape);
            return Err(refuse(&what(), problem));
        }
        self.theta.extend(values);
        self.declare(tensor)
    }

    /// The same without values, for graphs that are given θ later.
    pub fn declare(&mut self, tensor: Tensor) -> Result<View> {
        let end = tensor.checked_size().and_then(|size| self.n_params.checked_add(size));
        let end = end.ok_or_else(|| refuse("the network", "has more parameters than can be counted"))?;
        let view = View { shape: tensor.shape.clone(), places: Indices::Range(self.n_params..end) };
        self.n_params = end;
        self.tensors.push(tensor);
        Ok(view)
    }

    /// The same entries in another shape.
    pub fn reshape(&mut self, value: Value, shape: &[usize]) -> Result<Value> {
        let (node, width) = match self.values.get(value.0) {
            Some((node, old)) => (*node, size(old)),
            None => return Err(refuse("a reshape", "takes a value of another graph")),
        };
        match size(shape) == width {
            true => Ok(self.value(node, shape.to_vec())),
            false => Err(refuse("a reshape", format!("cannot give {width} values the shape {shape:?}"))),
        }
    }

    /// W h + b over the last axis, at every place of the others; W is `[outputs, inputs]`.
    pub fn linear(&mut self, value: Value, weight: &View, bias: Option<&View>) -> Result<Value> {
        let [outputs, inputs] = weight.shape[..] else {
            return Err(refuse(
                "a linear layer",
                format!("needs a weight matrix, not one of shape {:?}", weight.shape),
            ));
        };
        self.linear_with(value, (outputs, inputs), Weight::Parameters(weight.places.clone()), bias)
    }

    /// The same with a constant matrix, `[outputs, inputs]` row by row.
    pub fn linear_constant(&mut self, value: Value, outputs: usize, weights: Vec<f64>) -> Result<Value> {
        let inputs = self.shape(value).last().copied().unwrap_or(1);
        self.linear_with(value, (outputs, inputs), Weight::Constants(weights), None)
    }

    fn linear_with(
        &mut self,
        value: Value,
        (outputs, inputs): (usize, usize),
        weight: Weight,
        bias: Option<&View>,
    ) -> Result<Value> {
        let Some((last, others)) = self.shape(value).split_last() else {
            return Err(refuse("a linear layer", "needs an axis to multiply"));
        };
        if *last != inputs {
            return Err(refuse("a linear layer", format!("takes {inputs} inputs, but has {last}")));
        }
        let (taps, shape) = (Taps::Blocks(size(others)), [others, &[outputs]].concat());
        let bias = bias.map(|bias| bias.places.clone());
        self.node(Kind::Affine(Affine { inputs, outputs, weight: Some(weight), bias, taps }), &[value], &shape)
    }

    /// Every position of a window over an image `[channels, rows, columns]`: W is `[outputs, channels/groups · taps]` (groups of
    /// outputs one after the other), b one number per output. The result is `[outputs, rows, columns]`.
    pub fn windows(
        &mut self,
        value: Value,
        window: Window,
        groups: usize,
        weight: &View,
        bias: Option<&View>,
    ) -> Result<Value> {
        let ([channels, ..], [outputs, inputs]) = (self.shape(value), &weight.shape[..]) else {
            return Err(refuse("a convolution", "needs an image and a matrix of weights"));
        };
        let (channels, outputs, inputs) = (*channels, *outputs, *inputs);
        if groups == 0 || !channels.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            let problem = format!("cannot split {channels} input and {outputs} output channels into {groups} groups");
            return Err(refuse("a convolution", problem));
        }
        let taps = Taps::Windows { window, channels, groups };
        let shape = [outputs, window.outputs[0], window.outputs[1]];
        let weight = Some(Weight::Parameters(weight.places.clone()));
        let bias = bias.map(|bias| bias.places.clone());
        self.node(Kind::Affine(Affine { inputs, outputs, weight, bias, taps }), &[value], &shape)
    }

    /// Parameters as a value that is the same at every point.
    pub fn parameter_value(&mut self, view: &View) -> Result<Value> {
        let (outputs, bias) = (size(&view.shape), Some(view.places.clone()));
        self.node(
            Kind::Affine(Affine { inputs: 0, outputs, weight: None, bias, taps: Taps::Blocks(1) }),
            &[],
            &view.shape,
        )
    }

    /// γ∘h + β, each (where there is one) with a shape that broadcasts to that of the value.
    pub fn scale_shift(&mut self, value: Value, scale: Option<&View>, shift: Option<&View>) -> Result<Value> {
        let shape = self.shape(value).to_vec();
        self.count(2 * size(&shape))?;
        let places = |view: &View| -> Result<Indices> {
            let from = broadcast_places(&view.shape, &shape)
                .ok_or_else(|| refuse("a scale or shift", format!("has shape {:?} for {shape:?}", view.shape)))?;
            Ok(from.into_iter().map(|place| view.places.get(place)).collect::<Vec<usize>>().into())
        };
        let scale = scale.map(places).transpose()?;
        let shift = shift.map(places).transpose()?;
        self.node(Kind::ScaleShift(ScaleShift { scale, shift }), &[value], &shape)
    }

    /// φ of every entry.
    pub fn function(&mut self, value: Value, function: impl Into<Function>) -> Result<Value> {
        let shape = self.shape(value).to_vec();
        match function.into() {
            Function::Activation(Activation::Identity) => Ok(value),
            function => self.node(Kind::Elementwise(function), &[value], &shape),
        }
    }

    /// Constant linear combinations of entries of values, plus constants (none: zeros).
    pub fn combine(
        &mut self,
        inputs: &[Value],
        shape: &[usize],
        terms: Vec<Term>,
        offset: Option<Vec<f64>>,
    ) -> Result<Value> {
        let widths: Vec<usize> = inputs.iter().map(|value| self.width_of(*value)).collect();
        let fixed = FixedLinear::new(&widths, size(shape), terms, offset)
            .map_err(|problem| refuse("a linear combination", problem))?;
        self.node(Kind::FixedLinear(fixed), inputs, shape)
    }

    /// Entries of a value in another order or shape: entry i is entry `entries[i]`, or zero where there is none.
    pub fn select(&mut self, value: Value, shape: &[usize], entries: &[Option<usize>]) -> Result<Value> {
        let own =
            |(output, entry): (usize, &Option<usize>)| entry.map(|entry| Term { output, input: 0, entry, weight: 1.0 });
        let whole = entries.iter().enumerate().all(|(place, entry)| *entry == Some(place));
        if whole && entries.len() == self.width_of(value) {
            return self.reshape(value, shape);
        }
        self.combine(&[value], shape, entries.iter().enumerate().filter_map(own).collect(), None)
    }

    /// Σ wᵢ xᵢ of values whose shapes broadcast to each other.
    pub fn weighted_sum(&mut self, inputs: &[(Value, f64)]) -> Result<Value> {
        let mut shape: Vec<usize> = Vec::new();
        for (value, _) in inputs {
            shape = broadcast(&shape, self.shape(*value)).ok_or_else(|| {
                refuse("a sum", format!("has values of shapes {shape:?} and {:?}", self.shape(*value)))
            })?;
        }
        self.count(inputs.len().saturating_mul(size(&shape)))?;
        let mut terms = Vec::new();
        for (input, (value, weight)) in inputs.iter().enumerate() {
            let entries = broadcast_places(self.shape(*value), &shape).unwrap_or_default();
            let term = |(output, entry)| Term { output, input, entry, weight: *weight };
            terms.extend(entries.into_iter().enumerate().map(term));
        }
        let values: Vec<Value> = inputs.iter().map(|(value, _)| *value).collect();
        self.combine(&values, &shape, terms, None)
    }

    /// a + b.
    pub fn add(&mut self, a: Value, b: Value) -> Result<Value> {
        self.weighted_sum(&[(a, 1.0), (b, 1.0)])
    }

    /// a − b.
    pub fn sub(&mut self, a: Value, b: Value) -> Result<Value> {
        self.weighted_sum(&[(a, 1.0), (b, -1.0)])
    }

    /// factors∘x + offsets with constants that broadcast to the shape of x, or to which x broadcasts: their shape, factors
    /// (none: ones) and offsets (none: zeros).
    pub fn affine_constant(
        &mut self,
        value: Value,
        shape: &[usize],
        factors: Option<&[f64]>,
        offsets: Option<&[f64]>,
    ) -> Result<Value> {
        let own = self.shape(value).to_vec();
        let whole = broadcast(&own, shape)
            .ok_or_else(|| refuse("a constant", format!("of shape {shape:?} meets values of shape {own:?}")))?;
        self.count(2 * size(&whole))?;
        let entries = broadcast_places(&own, &whole).unwrap_or_default();
        let places = broadcast_places(shape, &whole).unwrap_or_default();
        let of = |constants: &[f64], place: usize| constants.get(place).copied().unwrap_or(0.0);
        let weight = |output: usize| factors.map_or(1.0, |factors| places.get(output).map_or(0.0, |p| of(factors, *p)));
        let term = |(output, entry)| Term { output, input: 0, entry, weight: weight(output) };
        let terms = entries.into_iter().enumerate().map(term).collect();
        let offsets = offsets.map(|offsets| places.iter().map(|place| of(offsets, *place)).collect());
        self.combine(&[value], &whole, terms, offsets)
    }

    /// x·factor + offset.
    pub fn rescale(&mut self, value: Value, factor: f64, offset: f64) -> Result<Value> {
        let offsets = (offset != 0.0).then_some([offset]);
        self.affine_constant(value, &[1], Some(&[factor]), offsets.as_ref().map(|offset| offset.as_slice()))
    }

    /// The sum over these axes.
    pub fn reduce_sum(&mut self, value: Value, axes: &[usize], keep: bool) -> Result<Value> {
        self.reduce(value, axes, keep, 1.0)
    }

    /// The mean over these axes.
    pub fn reduce_mean(&mut self, value: Value, axes: &[usize], keep: bool) -> Result<Value> {
        let count = axes.iter().filter_map(|axis| self.shape(value).get(*axis)).product::<usize>().max(1);
        self.reduce(value, axes, keep, 1.0 / count as f64)
    }

    fn reduce(&mut self, value: Value, axes: &[usize], keep: bool, weight: f64) -> Result<Value> {
        let shape = self.shape(value).to_vec();
        let kept: Vec<usize> =
            shape.iter().enumerate().map(|(axis, length)| if axes.contains(&axis) { 1 } else { *length }).collect();
        self.count(size(&shape))?;
        let outputs = broadcast_places(&kept, &shape).unwrap_or_default();
        let term = |(entry, output)| Term { output, input: 0, entry, weight };
        let sum = self.combine(&[value], &kept, outputs.into_iter().enumerate().map(term).collect(), None)?;
        let short: Vec<usize> =
            shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, length)| *length).collect();
        if keep { Ok(sum) } else { self.reshape(sum, &short) }
    }

    /// The axes in another order: axis i of the result is axis `axes[i]`.
    pub fn transpose(&mut self, value: Value, axes: &[usize]) -> Result<Value> {
        let shape = self.shape(value).to_vec();
        self.count(2 * size(&shape))?;
        let (shape, entries) = transposed(&shape, axes)
            .ok_or_else(|| refuse("a transpose", format!("of axes {axes:?} does not fit shape {shape:?}")))?;
        let entries: Vec<Option<usize>> = entries.into_iter().map(Some).collect();
        self.select(value, &shape, &entries)
    }

    /// Values joined along an axis.
    pub fn concat(&mut self, inputs: &[Value], axis: usize) -> Result<Value> {
        let problem = |shape: &[usize]| refuse("a concatenation", format!("has a value of shape {shape:?}"));
        let Some(first) = inputs.first() else { return Err(refuse("a concatenation", "of nothing")) };
        let mut shape = self.shape(*first).to_vec();
        let (before, after) = match shape.split_at_checked(axis) {
            Some((before, [_, after @ ..])) => (size(before), size(after)),
            _ => return Err(problem(&shape)),
        };
        let lengths: Vec<usize> =
            inputs.iter().map(|value| self.shape(*value).get(axis).copied().unwrap_or(0)).collect();
        for (value, length) in inputs.iter().zip(&lengths) {
            if let Some(own) = shape.get_mut(axis) {
                *own = *length;
            }
            if self.shape(*value) != shape {
                return Err(problem(self.shape(*value)));
            }
        }
        let total: usize = lengths.iter().sum();
        self.count(total.saturating_mul(before).saturating_mul(after))?;
        let mut terms = Vec::new();
        let mut start = 0;
        for (input, length) in lengths.iter().enumerate() {
            let block = length * after;
            for entry in 0..before * block {
                let output = (entry / block.max(1) * total + start) * after + entry % block.max(1);
                terms.push(Term { output, input, entry, weight: 1.0 });
            }
            start += length;
        }
        if let Some(own) = shape.get_mut(axis) {
            *own = total;
        }
        self.combine(inputs, &shape, terms, None)
    }

    /// a∘b of values whose shapes broadcast to each other.
    pub fn mul(&mut self, a: Value, b: Value) -> Result<Value> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let shape = broadcast(&left, &right)
            .ok_or_else(|| refuse("a product", format!("has values of shapes {left:?} and {right:?}")))?;
        let axes = shape.len();
        let strides = |own: &[usize]| broadcast_strides(own, &shape);
        let bilinear =
            Bilinear { sizes: shape.clone(), left: strides(&left), right: strides(&right), out: strides(&shape) };
        debug_assert_eq!(bilinear.out.len(), axes);
        self.node(Kind::Bilinear(bilinear), &[a, b], &shape)
    }

    /// The product of matrices over the last two axes; the axes before them broadcast. (A value with one axis is refused:
    /// give it a second.)
    pub fn matmul(&mut self, a: Value, b: Value) -> Result<Value> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let problem = || refuse("a product of matrices", format!("has values of shapes {left:?} and {right:?}"));
        let ([batch_a @ .., rows, inner], [batch_b @ .., other, columns]) = (&left[..], &right[..]) else {
            return Err(problem());
        };
        let batch = broadcast(batch_a, batch_b).filter(|_| inner == other).ok_or_else(problem)?;
        let strides = |own: &[usize], factor: usize| -> Vec<usize> {
            broadcast_strides(own, &batch).into_iter().map(|stride| stride * factor).collect()
        };
        let bilinear = Bilinear {
            sizes: [&batch[..], &[*rows, *columns, *inner]].concat(),
            left: [strides(batch_a, rows * inner), vec![*inner, 0, 1]].concat(),
            right: [strides(batch_b, inner * columns), vec![0, 1, *columns]].concat(),
            out: [strides(&batch, rows * columns), vec![*columns, 1, 0]].concat(),
        };
        self.node(Kind::Bilinear(bilinear), &[a, b], &[&batch[..], &[*rows, *columns]].concat())
    }

    /// Σ a∘b over letters that the result lacks, as in Einstein's convention: `left`, `right` and `out` name the axes.
    pub fn einsum(&mut self, a: Value, b: Value, [left, right, out]: [&str; 3]) -> Result<Value> {
        let shapes = [self.shape(a).to_vec(), self.shape(b).to_vec()];
        let problem = || {
            refuse(
                "an einsum",
                format!("`{left},{right}->{out}` does not fit shapes {:?} and {:?}", shapes[0], shapes[1]),
            )
        };
        let mut letters: Vec<(char, usize)> = Vec::new();
        for (names, shape) in [left, right].iter().zip(&shapes) {
            if names.chars().count() != shape.len() {
                return Err(problem());
            }
            for (name, length) in names.chars().zip(shape) {
                match letters.iter().find(|(known, _)| *known == name) {
                    Some((_, other)) if other != length => return Err(problem()),
                    Some(_) => {}
                    None => letters.push((name, *length)),
                }
            }
        }
        let length = |name: char| letters.iter().find(|(known, _)| *known == name).map(|(_, length)| *length);
        let shape: Vec<usize> = out.chars().map(length).collect::<Option<_>>().ok_or_else(problem)?;
        // Axes of the result come first, so that each of its columns is summed at a time.
        let outer = out.chars().filter_map(|name| Some((name, length(name)?)));
        let inner = letters.iter().copied().filter(|(name, _)| !out.contains(*name));
        let order: Vec<(char, usize)> = outer.chain(inner).collect();
        let strides = |names: &str, shape: &[usize]| -> Vec<usize> {
            let own = row_major(shape);
            let stride =
                |letter: char| names.chars().zip(&own).filter(|(name, _)| *name == letter).map(|(_, s)| s).sum();
            order.iter().map(|(letter, _)| stride(*letter)).collect()
        };
        let bilinear = Bilinear {
            sizes: order.iter().map(|(_, length)| *length).collect(),
            left: strides(left, &shapes[0]),
            right: strides(right, &shapes[1]),
            out: strides(out, &shape),
        };
        self.node(Kind::Bilinear(bilinear), &[a, b], &shape)
    }

    /// eᶻ/Σeᶻ over an axis.
    pub fn softmax(&mut self, value: Value, axis: usize) -> Result<Value> {
        let shape = self.shape(value).to_vec();
        let Some((before, [length, after @ ..])) = shape.split_at_checked(axis) else {
            return Err(refuse("a softmax", format!("over axis {axis} does not fit shape {shape:?}")));
        };
        let softmax = Softmax { outer: size(before), length: *length, inner: size(after) };
        self.node(Kind::Softmax(softmax), &[value], &shape)
    }

    /// The larger of a and b: a + relu(b − a).
    pub fn max(&mut self, a: Value, b: Value) -> Result<Value> {
        let apart = self.sub(b, a)?;
        let excess = self.function(apart, Activation::Relu)?;
        self.add(a, excess)
    }

    /// The largest over the entries of each list, one list for every entry of the result: a chain of hinges, of which the first
    /// of several equal ones wins. All lists have at least one entry.
    pub fn max_over(&mut self, value: Value, shape: &[usize], lists: &[Vec<usize>]) -> Result<Value> {
        let first: Vec<Option<usize>> = lists.iter().map(|list| list.first().copied()).collect();
        if first.contains(&None) {
            return Err(refuse("a maximum", "over nothing"));
        }
        let mut largest = self.select(value, shape, &first)?;
        for place in 1..lists.iter().map(Vec::len).max().unwrap_or(0) {
            let others = lists.iter().enumerate().filter_map(|(output, list)| Some((output, *list.get(place)?)));
            let others: Vec<(usize, usize)> = others.collect();
            let term = |output, input, entry, weight| Term { output, input, entry, weight };
            let apart = others.iter().enumerate();
            let apart = apart.flat_map(|(at, (output, entry))| [term(at, 0, *entry, 1.0), term(at, 1, *output, -1.0)]);
            let apart = self.combine(&[value, largest], &[others.len()], apart.collect(), None)?;
            let excess = self.function(apart, Activation::Relu)?;
            let own = (0..lists.len()).map(|output| term(output, 0, output, 1.0));
            let added = others.iter().enumerate().map(|(at, (output, _))| term(*output, 1, at, 1.0));
            largest = self.combine(&[largest, excess], shape, own.chain(added).collect(), None)?;
        }
        Ok(largest)
    }

    /// (h − ⟨h⟩)/√(Var h + ε) over the last axis.
    pub fn normalize(&mut self, value: Value, epsilon: f64) -> Result<Value> {
        let last = self.shape(value).len().saturating_sub(1);
        let mean = self.reduce_mean(value, &[last], true)?;
        let centred = self.sub(value, mean)?;
        self.normalize_rms(centred, epsilon)
    }

    /// h/√(⟨h²⟩ + ε) over the last axis.
    pub fn normalize_rms(&mut self, value: Value, epsilon: f64) -> Result<Value> {
        let last = self.shape(value).len().saturating_sub(1);
        let squares = self.function(value, Function::Power(2.0))?;
        let mean = self.reduce_mean(squares, &[last], true)?;
        let shifted = self.rescale(mean, 1.0, epsilon)?;
        let inverse = self.function(shifted, Function::Power(-0.5))?;
        self.mul(value, inverse)
    }

    /// The network whose outputs are the entries of this value.
    pub fn finish(self, output: Value) -> Result<Network> {
        let theta = self.theta.clone();
        Network::new(Architecture::of_graph(self.graph(output)?)?, theta)
    }

    /// The graph alone.
    pub fn graph(self, output: Value) -> Result<Graph> {
        let node = self.values.get(output.0).map_or(usize::MAX, |(node, _)| *node);
        Graph::new(self.nodes, self.tensors, node)
    }
}

/// The shape that two shapes broadcast to, as NumPy does.
pub fn broadcast(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let axes = one.len().max(other.len());
    let length = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(axes).map_or(1, |axis| shape[axis]);
    let joined = |axis: usize| match (length(one, axis), length(other, axis)) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    };
    (0..axes).map(joined).collect()
}

/// The steps between entries along each axis, last axis fastest.
pub fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides: Vec<usize> = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// The steps in an array of one shape along the axes of the shape that it broadcasts to.
fn broadcast_strides(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let strides = row_major(own);
    let missing = shape.len() - own.len().min(shape.len());
    let stride = |axis: usize| match axis.checked_sub(missing) {
        Some(axis) if own[axis] > 1 => strides[axis],
        _ => 0,
    };
    (0..shape.len()).map(stride).collect()
}

/// For every entry of a shape, the entry of an array that broadcasts to it; `None` if it does not.
pub fn broadcast_places(own: &[usize], shape: &[usize]) -> Option<Vec<usize>> {
    (broadcast(own, shape).as_deref() == Some(shape)).then(|| strided(shape, &broadcast_strides(own, shape)))
}

/// Σ index·stride for every index of a shape, last axis fastest.
pub fn strided(shape: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    for (length, stride) in shape.iter().zip(strides) {
        places = places.iter().flat_map(|place| (0..*length).map(move |index| place + index * stride)).collect();
    }
    places
}

/// The shape with its axes in another order, and the entry that stands at each place; `None` if these are not its axes.
pub fn transposed(shape: &[usize], axes: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..shape.len()) {
        return None;
    }
    let strides = row_major(shape);
    let lengths: Vec<usize> = axes.iter().map(|axis| shape[*axis]).collect();
    let steps: Vec<usize> = axes.iter().map(|axis| strides[*axis]).collect();
    let entries = strided(&lengths, &steps);
    Some((lengths, entries))
}
