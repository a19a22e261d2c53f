//! Normalisations: batch, layer, instance and group, as operators and as exporters write them out.

use super::{Step, unknown};
use crate::error::{Error, Result};
use crate::network::onnx::constant::Constant;
use crate::network::onnx::graph::Graph;
use crate::network::onnx::messages::NodeProto;
use crate::network::onnx::node::Attributes;
use crate::network::onnx::part::{Affine, Kind, Parameter};
use crate::network::onnx::shapes::reduced_axes;

/// Scale and shift with constant statistics.
pub fn batch(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let Some((input, [channels, rest @ ..])) = input_and_shape(graph, node) else {
        return before(graph, index);
    };
    if node.int("training_mode") == Some(1) {
        return Err(graph.refuse(index, "it is in training mode; export the network in evaluation mode"));
    }
    let list = |position: usize| per_channel(graph, index, position, *channels);
    let (weight, bias, mean, variance) = (list(1)?, list(2)?, list(3)?, list(4)?);
    let kind = Kind::BatchNorm {
        positions: rest.iter().product(),
        mean: mean.values.clone(),
        variance: variance.values.clone(),
        epsilon: epsilon(node),
    };
    Ok(Step::new(kind, vec![weight.into(), bias.into()], index, input))
}

/// Over the last axes of a point.
pub fn layer(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let Some((input, point)) = input_and_shape(graph, node) else { return before(graph, index) };
    let axis = node.int("axis").unwrap_or(-1);
    let first = usize::try_from(if axis < 0 { axis + point.len() as i64 } else { axis - 1 });
    let shape = first.ok().and_then(|first| point.get(first..)).filter(|shape| !shape.is_empty());
    let shape = shape.ok_or_else(|| last_axes(graph, index, point))?;
    let width: usize = shape.iter().product();
    // Ones and zeros that are no initialisers stand for parameters that the module does not have.
    let weight = Some(per_channel(graph, index, 1, width)?);
    let weight = weight.filter(|weight| !(graph.is_written(weight) && weight.is_uniform(1.0)));
    let bias = match node.input.get(2).filter(|name| !name.is_empty()) {
        Some(_) => Some(per_channel(graph, index, 2, width)?),
        None => None,
    };
    let bias = bias.filter(|bias| !(graph.is_written(bias) && bias.is_uniform(0.0)));
    let (affine, parameters) = affine(weight, bias);
    let inputs = point.iter().product();
    let kind = Kind::LayerNorm { inputs, shape: shape.to_vec(), epsilon: epsilon(node), affine };
    Ok(Step::new(kind, parameters, index, input))
}

/// Over each channel.
pub fn instance(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let Some((input, [channels, rest @ ..])) = input_and_shape(graph, node) else {
        return before(graph, index);
    };
    let (weight, bias) = (per_channel(graph, index, 1, *channels)?, per_channel(graph, index, 2, *channels)?);
    // Ones and zeros are what exporters write for a normalisation without parameters.
    let (affine, parameters) = match weight.is_uniform(1.0) && bias.is_uniform(0.0) {
        true => affine(None, None),
        false => affine(Some(weight), Some(bias)),
    };
    let kind = Kind::GroupNorm {
        groups: *channels,
        channels: *channels,
        positions: rest.iter().product(),
        epsilon: epsilon(node),
        affine,
    };
    Ok(Step::new(kind, parameters, index, input))
}

/// Over groups of channels, as one operator.
pub fn group(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let Some((input, [channels, rest @ ..])) = input_and_shape(graph, node) else {
        return before(graph, index);
    };
    let groups = usize::try_from(node.int("num_groups").unwrap_or(0)).unwrap_or(0);
    if groups == 0 || channels % groups != 0 {
        return Err(graph.refuse(index, format!("{groups} groups do not divide {channels} channels")));
    }
    let (weight, bias) = (per_channel(graph, index, 1, *channels)?, per_channel(graph, index, 2, *channels)?);
    let (affine, parameters) = affine(Some(weight), Some(bias));
    let positions = rest.iter().product();
    let kind = Kind::GroupNorm { groups, channels: *channels, positions, epsilon: epsilon(node), affine };
    Ok(Step::new(kind, parameters, index, input))
}

/// A layer or group normalisation that is written out; `None` if the node is something else.
///
/// d/√(mean(d²) + ε) with d = x − mean(x), for a layer; Reshape, InstanceNormalization and Reshape, for groups. Either
/// may be followed by Mul with a weight, and that by Add with a bias.
pub fn written_out(graph: &Graph, index: usize) -> Result<Option<Step>> {
    let node = graph.node(index);
    let (mut core, mut weight, mut bias) = (node.first_output(), None, None);
    for (operator, parameter) in [("Add", &mut bias), ("Mul", &mut weight)] {
        if let Some((data, constant)) = graph.made_by(core, operator).and_then(|node| graph.data_and_constant(node)) {
            (core, *parameter) = (data, Some(constant));
        }
    }
    if bias.is_some() && weight.is_none() {
        return Ok(None);
    }
    let (affine, parameters) = affine(weight, bias);
    if let Some((input, epsilon, axes)) = standardised(graph, core) {
        let Some(point) = graph.shape(input) else { return Ok(None) };
        // The last axes, one after the other.
        let first = axes.first().copied().unwrap_or(point.len());
        let shape: Vec<usize> = point.iter().copied().skip(first).collect();
        let width: usize = shape.iter().product();
        let others = parameters.iter().any(|parameter| parameter.values.len() != width);
        if shape.is_empty() || others || axes != (first..point.len()).collect::<Vec<usize>>() {
            return Err(last_axes(graph, index, point));
        }
        let kind = Kind::LayerNorm { inputs: point.iter().product(), shape, epsilon, affine };
        return Ok(Some(Step::new(kind, parameters, index, input)));
    }
    let Some((input, epsilon, groups)) = weight.and_then(|_| grouped(graph, core)) else { return Ok(None) };
    let Some([channels, rest @ ..]) = graph.shape(input) else { return Ok(None) };
    // One number per channel: [channels, 1, 1].
    let fits = |constant: &Constant| {
        let lengths: Vec<usize> = constant.shape.iter().copied().skip_while(|&length| length == 1).collect();
        constant.values.len() == *channels
            && (*channels == 1 || lengths.len() == rest.len() + 1 && lengths.iter().skip(1).all(|&length| length == 1))
    };
    if channels % groups != 0 || !weight.into_iter().chain(bias).all(fits) {
        return Ok(None);
    }
    let positions = rest.iter().product();
    let kind = Kind::GroupNorm { groups, channels: *channels, positions, epsilon, affine };
    Ok(Some(Step::new(kind, parameters, index, input)))
}

/// x, ε and the axes in (x − mean(x))/√(mean((x − mean(x))²) + ε).
fn standardised<'a>(graph: &'a Graph, output: &str) -> Option<(&'a str, f64, Vec<usize>)> {
    let (centred, root) = match graph.made_by(output, "Div") {
        Some(node) => (graph.resolve(node.first_input()), graph.resolve(node.input.get(1)?)),
        None => {
            let [a, b] = graph.made_by(output, "Mul")?.input.as_slice() else { return None };
            let inverse = |name: &str| graph.made_by(name, "Reciprocal").map(|node| graph.resolve(node.first_input()));
            match (inverse(a), inverse(b)) {
                (Some(root), None) => (graph.resolve(b), root),
                (None, Some(root)) => (graph.resolve(a), root),
                _ => return None,
            }
        }
    };
    let (variance, epsilon) =
        graph.data_and_constant(graph.made_by(graph.made_by(root, "Sqrt")?.input.first()?, "Add")?)?;
    let mean = graph.made_by(variance, "ReduceMean")?;
    let squared = graph.node(graph.producer(mean.input.first()?)?);
    let is_square = match squared.op_type.as_str() {
        "Pow" => {
            graph.constant(squared.input.get(1)?)?.scalar() == Some(2.0)
                && graph.resolve(squared.first_input()) == centred
        }
        "Mul" => squared.input.iter().all(|name| graph.resolve(name) == centred),
        _ => false,
    };
    let difference = graph.made_by(centred, "Sub")?;
    let input = graph.resolve(difference.input.first()?);
    let own_mean = graph.made_by(difference.input.get(1)?, "ReduceMean")?;
    let point = graph.shape(input)?;
    let axes =
        |node: &NodeProto| reduced_axes(node, point.len(), node.input.get(1).and_then(|name| graph.constant(name)));
    let mut over = axes(mean)?;
    over.sort_unstable();
    let mut same = axes(own_mean)?;
    same.sort_unstable();
    let whole = is_square && over == same && graph.resolve(own_mean.input.first()?) == input;
    whole.then_some((input, decimal(epsilon.scalar()?), over))
}

/// x, ε and the number of groups in Reshape(InstanceNormalization(Reshape(x))).
fn grouped<'a>(graph: &'a Graph, output: &str) -> Option<(&'a str, f64, usize)> {
    let restored = graph.made_by(output, "Reshape")?;
    let normalised = graph.made_by(restored.input.first()?, "InstanceNormalization")?;
    let split = graph.made_by(normalised.input.first()?, "Reshape")?;
    let input = graph.resolve(split.input.first()?);
    let plain = graph.constant(normalised.input.get(1)?)?.is_uniform(1.0)
        && graph.constant(normalised.input.get(2)?)?.is_uniform(0.0);
    let same = graph.shape(input)? == graph.shape(output)?;
    let [groups, _] = graph.shape(split.first_output())? else { return None };
    (plain && same).then(|| (input, epsilon(normalised), *groups))
}

fn affine(weight: Option<&Constant>, bias: Option<&Constant>) -> (Affine, Vec<Parameter>) {
    let affine = Affine { weight: weight.is_some(), bias: bias.is_some() };
    (affine, weight.into_iter().chain(bias).map(Parameter::from).collect())
}

fn input_and_shape<'a>(graph: &'a Graph, node: &'a NodeProto) -> Option<(&'a str, &'a [usize])> {
    let input = graph.resolve(node.input.first()?);
    Some((input, graph.shape(input)?))
}

/// Where the shape of the input is not known, the operator before this one is at fault.
fn before(graph: &Graph, index: usize) -> Result<Step> {
    let input = graph.node(index).input.first().map(|name| graph.resolve(name));
    match input.filter(|name| graph.producer(name).is_some()) {
        Some(name) => Ok(Step::unchanged(name)),
        None => Err(unknown(graph, index)),
    }
}

/// One constant per channel.
fn per_channel(graph: &Graph, index: usize, position: usize, channels: usize) -> Result<&Constant> {
    let constant = graph.node(index).input.get(position).and_then(|name| graph.constant(name));
    constant.filter(|constant| constant.values.len() == channels).ok_or_else(|| {
        graph.refuse(index, format!("its input {position} is not {channels} constants, one per channel"))
    })
}

fn last_axes(graph: &Graph, index: usize, point: &[usize]) -> Error {
    let problem = format!("it normalises over axes of a point of shape {point:?} that are not its last ones");
    graph.refuse(index, problem)
}

fn epsilon(node: &NodeProto) -> f64 {
    decimal(node.float("epsilon").unwrap_or(1e-5))
}

/// The shortest decimal number that rounds to this f32: ε is written as 1e-5 and stored as 9.999999747e-6.
fn decimal(value: f64) -> f64 {
    let single = value as f32;
    match f64::from(single) == value {
        true => single.to_string().parse().unwrap_or(value),
        false => value,
    }
}
