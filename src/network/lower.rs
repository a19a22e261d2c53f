//! What a layer becomes in a graph.

use super::graph::{GraphBuilder, Start, Tensor, Term, Value, View, Window};
use super::layers::{AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, LayerNorm, Linear, MaxPool2d};
use super::layers::{Layer, Residual, known_inputs};
use crate::error::{Error, Result};

/// Adds a chain of layers to a graph, whose tensors are named `prefix0.weight`, `prefix0.bias`, …
pub(super) fn chain(graph: &mut GraphBuilder, layers: &[Layer], prefix: &str, mut value: Value) -> Result<Value> {
    for (index, layer) in layers.iter().enumerate() {
        let refuse = |problem: String| Error::Architecture { what: format!("layer {index} ({layer})"), problem };
        let width = super::graph::size(graph.shape(value));
        if let Some(problem) = layer.problem() {
            return Err(refuse(problem));
        }
        if let Some(expected) = layer.n_inputs().filter(|expected| *expected != width) {
            return Err(refuse(format!("takes {expected} inputs, but the layer before it has {width} outputs")));
        }
        let parts = Parts { graph, name: format!("{prefix}{index}.") };
        value = lower(parts, layer, value).map_err(|error| match error {
            Error::Architecture { problem, .. } => refuse(problem),
            other => other,
        })?;
    }
    Ok(value)
}

/// The tensors of parameters of a layer with inputs of this width.
pub(super) fn tensors(layer: &Layer, inputs: usize) -> Result<Vec<Tensor>> {
    let mut graph = GraphBuilder::new();
    let value = graph.input(&[inputs]);
    let parts = Parts { graph: &mut graph, name: String::new() };
    lower(parts, layer, value)?;
    Ok(graph.tensors().to_vec())
}

/// The data of a chain, as wide as its first layer that says it.
pub(super) fn inputs(graph: &mut GraphBuilder, layers: &[Layer]) -> Result<Value> {
    match known_inputs(layers) {
        Some(0) => {
            let what = layers.first().map_or_else(String::new, |layer| format!("layer 0 ({layer})"));
            Err(Error::Architecture { what, problem: "needs at least one input and one output".to_string() })
        }
        Some(width) => Ok(graph.input(&[width])),
        None => {
            let what = "the list of layers".to_string();
            Err(Error::Architecture { what, problem: "needs a known number of inputs".to_string() })
        }
    }
}

/// A graph, and what the tensors of the next layer are called.
struct Parts<'a> {
    graph: &'a mut GraphBuilder,
    name: String,
}

impl Parts<'_> {
    /// A tensor of the layer; all of them belong together.
    fn tensor(&mut self, kind: &str, shape: &[usize], start: Start) -> Result<View> {
        let name = format!("{}{kind}", self.name);
        let tensors = self.graph.tensors();
        let owner = match tensors.last() {
            Some(last) if last.name.strip_suffix("weight").is_some_and(|stem| stem == self.name) => last.owner,
            Some(last) => last.owner + 1,
            None => 0,
        };
        self.graph.declare(Tensor { name, shape: shape.to_vec(), owner, start })
    }

    /// Scales and shifts of this shape, with the value in a shape to which they broadcast.
    fn scale_shift(&mut self, value: Value, shape: &[usize], ones: usize, [scale, shift]: [bool; 2]) -> Result<Value> {
        let wide = |view: View| {
            let shape = view.shape.iter().copied().chain(std::iter::repeat_n(1, ones)).collect();
            view.reshaped(shape)
        };
        let scale = scale.then(|| self.tensor("weight", shape, Start::One).map(wide)).transpose()?;
        let shift = shift.then(|| self.tensor("bias", shape, Start::Zero).map(wide)).transpose()?;
        match (&scale, &shift) {
            (None, None) => Ok(value),
            _ => self.graph.scale_shift(value, scale.as_ref(), shift.as_ref()),
        }
    }
}

fn lower(mut parts: Parts<'_>, layer: &Layer, value: Value) -> Result<Value> {
    match layer {
        Layer::Linear(layer) => linear(parts, layer, value),
        Layer::Activation(activation) => parts.graph.function(value, *activation),
        Layer::Smoothed(rounded) => parts.graph.function(value, rounded.clone()),
        Layer::Conv2d(layer) => convolution(parts, layer, value),
        Layer::AvgPool2d(layer) => average(parts.graph, layer, value),
        Layer::MaxPool2d(MaxPool2d { input, .. }) => {
            let Layer::MaxPool2d(layer) = layer else { return Ok(value) };
            let (window, output) = (layer.window(), layer.output());
            parts.graph.count(output.size().saturating_mul(4 * window.taps()))?;
            let lists: Vec<Vec<usize>> = (0..input.channels)
                .flat_map(|c| (0..window.positions()).map(move |t| (c, t)))
                .map(|(c, t)| window.pixels_below(t).map(|pixel| c * input.pixels() + pixel).collect())
                .collect();
            parts.graph.max_over(value, &output.shape(), &lists)
        }
        Layer::GlobalAvgPool(GlobalAvgPool { input }) => {
            let pixels = parts.graph.reshape(value, &[input.channels, input.pixels()])?;
            parts.graph.reduce_mean(pixels, &[1], false)
        }
        Layer::Flatten | Layer::Dropout => {
            let width = super::graph::size(parts.graph.shape(value));
            parts.graph.reshape(value, &[width])
        }
        Layer::LayerNorm(LayerNorm { inputs, shape, eps, weight, bias }) => {
            let size = super::graph::size(shape);
            let vectors = parts.graph.reshape(value, &[inputs / size.max(1), size])?;
            let normal = parts.graph.normalize(vectors, *eps)?;
            let whole: Vec<usize> = std::iter::once(inputs / size.max(1)).chain(shape.iter().copied()).collect();
            let normal = parts.graph.reshape(normal, &whole)?;
            parts.scale_shift(normal, shape, 0, [*weight, *bias])
        }
        Layer::GroupNorm(GroupNorm { input, groups, eps, weight, bias }) => {
            let split = parts.graph.reshape(value, &[*groups, input.size() / (*groups).max(1)])?;
            let normal = parts.graph.normalize(split, *eps)?;
            let channels = parts.graph.reshape(normal, &[input.channels, input.pixels()])?;
            parts.scale_shift(channels, &[input.channels], 1, [*weight, *bias])
        }
        Layer::BatchNorm(layer) => batch_norm(parts, layer, value),
        Layer::Residual(block) => {
            let branch = |graph: &mut GraphBuilder, name: &str, layers: &[Layer]| {
                let value = chain(graph, layers, &format!("{}{name}.", parts.name), value);
                value.map_err(|error| match error {
                    Error::Architecture { what, problem } => {
                        residual_problem(format!("has a {name} whose {what} {problem}"))
                    }
                    other => other,
                })
            };
            let body = branch(parts.graph, "body", &block.body)?;
            let shortcut = branch(parts.graph, "shortcut", &block.shortcut)?;
            let width = |value: Value| super::graph::size(parts.graph.shape(value));
            let (outputs, others) = (width(body), width(shortcut));
            if outputs != others {
                let problem = format!("has {outputs} outputs in its body, but {others} in its shortcut");
                return Err(residual_problem(problem));
            }
            let (body, shortcut) = (parts.graph.reshape(body, &[outputs])?, parts.graph.reshape(shortcut, &[outputs])?);
            parts.graph.add(body, shortcut)
        }
    }
}

fn residual_problem(problem: String) -> Error {
    Error::Architecture { what: "a residual block".to_string(), problem }
}

impl Residual {
    /// The sum of two sequences of layers with the same inputs and equally many outputs. An empty shortcut is the identity.
    pub fn new(body: Vec<Layer>, shortcut: Vec<Layer>) -> Result<Self> {
        let layer = Layer::Residual(Self { body, shortcut });
        if let Some(problem) = layer.problem() {
            return Err(residual_problem(problem));
        }
        tensors(&layer, layer.n_inputs().unwrap_or(0))?;
        match layer {
            Layer::Residual(block) => Ok(block),
            _ => Err(residual_problem("is none".to_string())),
        }
    }
}

fn linear(mut parts: Parts<'_>, layer: &Linear, value: Value) -> Result<Value> {
    let Linear { inputs, outputs, bias } = *layer;
    let start = Start::Uniform(1.0 / (inputs as f64).sqrt());
    let weight = parts.tensor("weight", &[outputs, inputs], start)?;
    let bias = bias.then(|| parts.tensor("bias", &[outputs], start)).transpose()?;
    let flat = parts.graph.reshape(value, &[inputs])?;
    parts.graph.linear(flat, &weight, bias.as_ref())
}

fn convolution(mut parts: Parts<'_>, layer: &Conv2d, value: Value) -> Result<Value> {
    let (length, outputs) = (layer.patch_length(), layer.outputs);
    let start = Start::Uniform(1.0 / (length as f64).sqrt());
    let [rows, columns] = layer.kernel;
    let shape = [outputs, layer.input.channels / layer.groups.max(1), rows, columns];
    let weight = parts.tensor("weight", &shape, start)?.reshaped(vec![outputs, length]);
    let bias = layer.bias.then(|| parts.tensor("bias", &[outputs], start)).transpose()?;
    let image = parts.graph.reshape(value, &layer.input.shape())?;
    parts.graph.windows(image, layer.window(), layer.groups, &weight, bias.as_ref())
}

fn average(graph: &mut GraphBuilder, layer: &AvgPool2d, value: Value) -> Result<Value> {
    let AvgPool2d { input, count_include_pad, .. } = *layer;
    average_windows(graph, value, input, layer.window(), count_include_pad)
}

/// The mean of every channel below the positions of a window; padding counts as zeros, or not at all.
fn average_windows(
    graph: &mut GraphBuilder,
    value: Value,
    input: Image,
    window: Window,
    counts_padding: bool,
) -> Result<Value> {
    let positions = window.positions();
    graph.count(positions.saturating_mul(input.channels).saturating_mul(window.taps()))?;
    let mut terms = Vec::new();
    for position in 0..positions {
        let count = if counts_padding { window.taps() } else { window.pixels_below(position).count() };
        for (channel, pixel) in (0..input.channels).flat_map(|c| window.pixels_below(position).map(move |p| (c, p))) {
            let (output, entry) = (channel * positions + position, channel * input.pixels() + pixel);
            terms.push(Term { output, input: 0, entry, weight: 1.0 / count as f64 });
        }
    }
    graph.combine(&[value], &[input.channels, window.outputs[0], window.outputs[1]], terms, None)
}

fn batch_norm(mut parts: Parts<'_>, layer: &BatchNorm, value: Value) -> Result<Value> {
    let Image { channels, .. } = layer.input;
    let factors: Vec<f64> = layer.variance.iter().map(|variance| 1.0 / (variance + layer.eps).sqrt()).collect();
    let offsets: Vec<f64> = layer.mean.iter().zip(&factors).map(|(mean, factor)| -mean * factor).collect();
    let split = parts.graph.reshape(value, &[channels, layer.input.pixels()])?;
    let normal = parts.graph.affine_constant(split, &[channels, 1], Some(&factors), Some(&offsets))?;
    parts.scale_shift(normal, &[channels], 1, [layer.weight, layer.bias])
}
