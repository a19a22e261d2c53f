//! Shapes of data and arithmetic with them, as far as exporters leave it to be computed.

use super::constant::{Constant, shape_after};
use super::graph::{Size, Value, is_standard};
use super::messages::NodeProto;
use super::node::Attributes;
use super::window::Window;

/// What shapes depend on besides the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The version of the operators.
    pub version: i64,
    /// The number of points, where the graph is for one number only.
    pub points: Option<i64>,
}

/// The output of a node that computes with the lengths of axes; `None` if it does something else.
pub fn sizes(node: &NodeProto, inputs: &[Option<&Value>]) -> Option<Value> {
    let first = inputs.first().copied().flatten();
    let constant = |index: usize| match inputs.get(index).copied().flatten() {
        Some(Value::Constant(constant)) => constant.integers(),
        _ => None,
    };
    let list = |value: Option<&Value>| match value {
        Some(Value::Sizes(sizes)) => Some(sizes.clone()),
        Some(Value::Constant(constant)) => Some(constant.integers()?.into_iter().map(Size::Known).collect()),
        _ => None,
    };
    let name = node.output.first()?;
    let result = match (node.op_type.as_str(), first) {
        ("Shape", Some(Value::Data(Some(shape)))) => {
            let whole: Vec<Size> =
                std::iter::once(Size::Points).chain(shape.iter().map(|&length| Size::Known(length as i64))).collect();
            let start = node.int("start").map_or(0, |start| within(start, whole.len()));
            let end = node.int("end").map_or(whole.len(), |end| within(end, whole.len()));
            whole.get(start..end)?.to_vec()
        }
        ("Gather", Some(Value::Sizes(sizes))) => {
            let length = sizes.len() as i64;
            let entry = |index: i64| sizes.get(usize::try_from(if index < 0 { index + length } else { index }).ok()?);
            constant(1)?.into_iter().map(|index| entry(index).copied()).collect::<Option<Vec<Size>>>()?
        }
        ("Slice", Some(Value::Sizes(sizes))) => {
            let starts = constant(1).or_else(|| node.ints("starts"))?;
            let ends = constant(2).or_else(|| node.ints("ends"))?;
            if constant(4).is_some_and(|steps| steps != [1]) {
                return None;
            }
            sizes.get(within(*starts.first()?, sizes.len())..within(*ends.first()?, sizes.len()))?.to_vec()
        }
        ("Unsqueeze" | "Squeeze" | "Cast" | "Identity", Some(Value::Sizes(sizes))) => sizes.clone(),
        // A list of sizes stays one.
        ("Reshape", Some(Value::Sizes(sizes))) if constant(1)? == [-1] => sizes.clone(),
        ("Concat", _) if inputs.iter().any(|value| matches!(value, Some(Value::Sizes(_)))) => {
            inputs.iter().map(|value| list(*value)).collect::<Option<Vec<Vec<Size>>>>()?.concat()
        }
        _ => return None,
    };
    // Without the number of points it is an ordinary constant.
    let known = |size: &Size| match size {
        Size::Known(length) => Some(*length),
        Size::Points => None,
    };
    match result.iter().map(known).collect::<Option<Vec<i64>>>() {
        Some(numbers) => {
            let scalar = node.op_type == "Gather"
                && matches!(inputs.get(1), Some(Some(Value::Constant(index))) if index.shape.is_empty());
            let list = Constant::list(name, &numbers);
            Some(Value::Constant(Constant { shape: if scalar { Vec::new() } else { list.shape.clone() }, ..list }))
        }
        None => Some(Value::Sizes(result)),
    }
}

/// An index from the start, or from the end where it is negative, as a place in a list of this length.
fn within(index: i64, length: usize) -> usize {
    let length = length as i64;
    (if index < 0 { index.saturating_add(length) } else { index }).clamp(0, length) as usize
}

/// The shape of one point of a node's output; `None` where it is not known.
pub fn shape(node: &NodeProto, inputs: &[Option<&Value>], settings: Settings) -> Option<Vec<usize>> {
    if !is_standard(node) {
        return None;
    }
    let data = |index: usize| match inputs.get(index).copied().flatten() {
        Some(Value::Data(Some(shape))) => Some(shape.as_slice()),
        _ => None,
    };
    let constant = |index: usize| match inputs.get(index).copied().flatten() {
        Some(Value::Constant(constant)) => Some(constant),
        _ => None,
    };
    match node.op_type.as_str() {
        "Gemm" => {
            let [rows, columns] = constant(1)?.shape[..] else { return None };
            Some(vec![if node.int("transB") == Some(1) { rows } else { columns }])
        }
        "MatMul" => {
            let [_, columns] = constant(1)?.shape[..] else { return None };
            let (_, before) = data(0)?.split_last()?;
            Some(before.iter().copied().chain([columns]).collect())
        }
        "Conv" => {
            let filters = *constant(1)?.shape.first()?;
            let window = Window::of(node, data(0)?, constant(1)?.shape.get(2..))?;
            Some(window.shape(filters))
        }
        "MaxPool" | "AveragePool" => {
            let window = Window::of(node, data(0)?, None)?;
            Some(window.shape(*data(0)?.first()?))
        }
        "GlobalAveragePool" => {
            Some(data(0)?.iter().enumerate().map(|(axis, &length)| if axis == 0 { length } else { 1 }).collect())
        }
        "ReduceMean" => {
            let axes = reduced_axes(node, data(0)?.len(), constant(1))?;
            let kept = node.int("keepdims").unwrap_or(1) == 1;
            let length = |(axis, &length): (usize, &usize)| match axes.contains(&axis) {
                true => kept.then_some(1),
                false => Some(length),
            };
            Some(data(0)?.iter().enumerate().filter_map(length).collect())
        }
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
            reshaped(node, data(0)?, inputs.get(1).copied().flatten(), settings.points)
        }
        "Transpose" => {
            let axes = node.ints("perm")?;
            axes.iter()
                .enumerate()
                .all(|(index, &axis)| axis == index as i64)
                .then(|| data(0).map(<[usize]>::to_vec))?
        }
        "Softmax" | "LogSoftmax" if settings.version >= 13 || data(0)?.len() == 1 => data(0).map(<[usize]>::to_vec),
        "BatchNormalization" | "LayerNormalization" | "InstanceNormalization" | "GroupNormalization" => {
            data(0).map(<[usize]>::to_vec)
        }
        _ => broadcast(inputs),
    }
}

/// The axes of a point over which a node averages; `None` if it averages over points.
pub fn reduced_axes(node: &NodeProto, rank: usize, input: Option<&Constant>) -> Option<Vec<usize>> {
    let axes = input.and_then(Constant::integers).or_else(|| node.ints("axes"))?;
    let place = |axis: i64| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis - 1 }).ok();
    axes.into_iter().map(place).collect::<Option<Vec<usize>>>().filter(|axes| axes.iter().all(|&axis| axis < rank))
}

/// The shape of a point after an operator that keeps the values of each point, in their order.
fn reshaped(node: &NodeProto, point: &[usize], argument: Option<&Value>, fixed: Option<i64>) -> Option<Vec<usize>> {
    // Any number of points must do: two of them are tried.
    let at = |points: i64| -> Option<Vec<usize>> {
        let whole: Vec<usize> = std::iter::once(points as usize).chain(point.iter().copied()).collect();
        let argument = match argument {
            Some(Value::Constant(constant)) => {
                let mut lengths = constant.integers()?;
                if let Some(first) =
                    lengths.first_mut().filter(|first| node.op_type == "Reshape" && Some(**first) == fixed)
                {
                    *first = points;
                }
                Some(lengths)
            }
            Some(Value::Sizes(sizes)) => {
                let length = |size: &Size| match size {
                    Size::Points => points,
                    Size::Known(length) => *length,
                };
                Some(sizes.iter().map(length).collect())
            }
            Some(Value::Data(_)) => return None,
            None => node.ints("axes"),
        };
        let shape = shape_after(node, &whole, argument)?;
        shape.split_first().filter(|(first, _)| **first == points as usize).map(|(_, rest)| rest.to_vec())
    };
    // Lengths no network has, so that no axis of a point is mistaken for the points.
    let (first, second) = (at(1_000_003)?, at(1_000_033)?);
    (first == second).then_some(first)
}

/// The shape of one point when arrays of different shapes meet, entry by entry.
fn broadcast(inputs: &[Option<&Value>]) -> Option<Vec<usize>> {
    let mut result: Option<Vec<usize>> = None;
    for value in inputs.iter().copied().flatten() {
        if let Value::Data(shape) = value {
            result = Some(match result {
                None => shape.clone()?,
                Some(other) => joined(&other, shape.as_ref()?)?,
            });
        }
    }
    let point = result?;
    inputs.iter().copied().flatten().try_fold(point, |point, value| match value {
        Value::Constant(constant) => {
            // An axis for the points must not be there, or be of length 1.
            let own = match constant.shape.len().cmp(&(point.len() + 1)) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => constant.shape.strip_prefix(&[1])?,
                std::cmp::Ordering::Less => &constant.shape[..],
            };
            let missing = point.len() - own.len();
            let padded: Vec<usize> = std::iter::repeat_n(1, missing).chain(own.iter().copied()).collect();
            joined(&point, &padded)
        }
        Value::Sizes(_) => None,
        Value::Data(_) => Some(point),
    })
}

fn joined(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let pair = |(&a, &b): (&usize, &usize)| match (a, b) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    };
    (one.len() == other.len()).then(|| one.iter().zip(other).map(pair).collect::<Option<Vec<usize>>>())?
}
