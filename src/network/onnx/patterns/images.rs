//! Layers of images: convolutions and pooling.

use super::{Step, unknown};
use crate::error::Result;
use crate::network::onnx::graph::Graph;
use crate::network::onnx::messages::NodeProto;
use crate::network::onnx::node::Attributes;
use crate::network::onnx::part::{Kind, Parameter};
use crate::network::onnx::shapes::reduced_axes;
use crate::network::onnx::window::Window;

/// A convolution over one or two axes.
pub fn convolution(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let weight = node.input.get(1).and_then(|name| graph.constant(name));
    let weight = weight.ok_or_else(|| graph.refuse(index, "its weights are not constant"))?;
    let input = data(graph, index)?;
    let Some(point) = graph.shape(input) else { return Ok(Step::unchanged(input)) };
    let window = Window::of(node, point, weight.shape.get(2..)).ok_or_else(|| no_window(graph, index, point))?;
    let groups = usize::try_from(node.int("group").unwrap_or(1)).unwrap_or(0);
    let [filters, channels, ..] = weight.shape[..] else { return Err(unknown(graph, index)) };
    if groups == 0 || channels.checked_mul(groups) != Some(window.channels) || filters % groups != 0 {
        let problem =
            format!("weights of shape {:?} in {groups} groups do not fit {} channels", weight.shape, window.channels);
        return Err(graph.refuse(index, problem));
    }
    let bias = match node.input.get(2).filter(|name| !name.is_empty()) {
        Some(name) => {
            let bias = graph.constant(name).filter(|bias| bias.values.len() == filters);
            Some(bias.ok_or_else(|| graph.refuse(index, format!("its bias is not {filters} constants")))?)
        }
        None => None,
    };
    let parameters = std::iter::once(weight).chain(bias).map(Parameter::from).collect();
    let kind = Kind::Convolution { window, filters, groups, bias: bias.is_some() };
    Ok(Step::new(kind, parameters, index, input))
}

/// The mean or the maximum over windows.
pub fn pool(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let input = data(graph, index)?;
    let Some(point) = graph.shape(input) else { return Ok(Step::unchanged(input)) };
    let window = Window::of(node, point, None).ok_or_else(|| no_window(graph, index, point))?;
    let kind = match node.op_type.as_str() {
        "MaxPool" => Kind::MaxPool { window },
        _ => Kind::AveragePool { window, counts_padding: node.int("count_include_pad") == Some(1) },
    };
    Ok(Step::new(kind, Vec::new(), index, input))
}

/// The mean of every channel.
pub fn global_average(graph: &Graph, index: usize) -> Result<Step> {
    let input = data(graph, index)?;
    match graph.shape(input) {
        Some([channels, rest @ ..]) => Ok(average(*channels, rest, index, input)),
        Some([]) => Err(unknown(graph, index)),
        None => Ok(Step::unchanged(input)),
    }
}

/// The same as a mean over all axes but the first.
pub fn mean(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let input = data(graph, index)?;
    let Some(point) = graph.shape(input) else { return Ok(Step::unchanged(input)) };
    let axes = reduced_axes(node, point.len(), node.input.get(1).and_then(|name| graph.constant(name)));
    let mut axes = axes.ok_or_else(|| graph.refuse(index, "it averages over points"))?;
    axes.sort_unstable();
    match point {
        [channels, rest @ ..] if axes == (1..point.len()).collect::<Vec<usize>>() => {
            Ok(average(*channels, rest, index, input))
        }
        _ => Err(graph.refuse(index, format!("a mean over these axes of a point of shape {point:?} is not supported"))),
    }
}

fn average(channels: usize, rest: &[usize], index: usize, input: &str) -> Step {
    let kind = Kind::GlobalAveragePool { channels, positions: rest.iter().product() };
    Step::new(kind, Vec::new(), index, input)
}

/// The first input. Where its shape is not known, the operator before it is at fault.
fn data(graph: &Graph, index: usize) -> Result<&str> {
    let node: &NodeProto = graph.node(index);
    let input = node.input.first().map(|name| graph.resolve(name)).ok_or_else(|| unknown(graph, index))?;
    if graph.shape(input).is_none() && graph.producer(input).is_none() {
        return Err(unknown(graph, index));
    }
    Ok(input)
}

fn no_window(graph: &Graph, index: usize, point: &[usize]) -> crate::error::Error {
    let problem = format!(
        "its window does not fit a point of shape {point:?}; one or two axes besides the channels are supported, with \
         whole windows only (no ceil_mode)"
    );
    graph.refuse(index, problem)
}
