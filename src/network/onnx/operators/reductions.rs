//! Sums, means and maxima over axes, and softmax.

use crate::network::graph::{Function, broadcast_places};
use crate::network::onnx::lowering::{Lowering, NODE};
use crate::network::onnx::node::Call;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Constant, Content, Shape, Size, Tensor, axis_of};
use crate::network::onnx::trouble::{Step, refuse};

/// Any of them.
pub fn reduce(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let rank = tensor.shape.rank();
    let axes: Vec<usize> = match call.integers(1, "axes")?.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Step<_>>()?,
        None if call.node.int("noop_with_empty_axes") == Some(1) => return Ok(tensor.clone()),
        None => (0..rank).collect(),
    };
    let keep = call.node.int("keepdims").unwrap_or(1) == 1;
    let result = match tensor.as_constant() {
        Some(constant) => constants(low, &call.node.op_type, (tensor, constant), &axes)?,
        None => over(low, &call.node.op_type, tensor, &axes)?,
    };
    if keep {
        return Ok(result);
    }
    let sizes = result.shape.sizes();
    let kept: Vec<Size> = sizes.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, s)| *s).collect();
    low.reshape(&result, &kept)
}

/// The shape with these axes of length 1, and the place in it of every entry.
fn kept(low: &mut Lowering<'_>, shape: &Shape, axes: &[usize]) -> Step<(Shape, Vec<usize>)> {
    low.budget.spend(shape.size().saturating_mul(4))?;
    let kept = axes.iter().fold(shape.clone(), |shape, axis| shape.with_length(*axis, 1));
    let places = broadcast_places(&kept.lengths, &shape.lengths).unwrap_or_default();
    Ok((kept, places))
}

/// Of constants.
fn constants(low: &mut Lowering<'_>, operator: &str, from: (&Tensor, &Constant), axes: &[usize]) -> Step<Tensor> {
    let (tensor, constant) = from;
    let (shape, places) = kept(low, &tensor.shape, axes)?;
    let mut lists: Vec<Vec<f64>> = vec![Vec::new(); shape.size()];
    for (place, value) in places.iter().zip(constant.values.iter()) {
        if let Some(list) = lists.get_mut(*place) {
            list.push(*value);
        }
    }
    // A product of sizes may contain the number of points once.
    let counts = places.iter().enumerate().filter(|(entry, _)| constant.is_per_point(*entry)).count();
    let per_point = match (counts, operator) {
        (0, _) => None,
        (1, "ReduceProd") if shape.size() == 1 => Some([true].into()),
        _ => return refuse("it computes with the number of points"),
    };
    let sum = |list: &[f64]| list.iter().sum::<f64>();
    let value = |list: &Vec<f64>| match operator {
        "ReduceSum" => sum(list),
        "ReduceMean" => sum(list) / list.len() as f64,
        "ReduceProd" => list.iter().product(),
        "ReduceMax" => list.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "ReduceMin" => list.iter().copied().fold(f64::INFINITY, f64::min),
        "ReduceL1" => list.iter().map(|value| value.abs()).sum(),
        "ReduceL2" => list.iter().map(|value| value * value).sum::<f64>().sqrt(),
        "ReduceSumSquare" => list.iter().map(|value| value * value).sum(),
        "ReduceLogSum" => sum(list).ln(),
        _ => list.iter().map(|value| value.exp()).sum::<f64>().ln(),
    };
    let constant = Constant { values: lists.iter().map(value).collect(), whole: constant.whole, per_point };
    Ok(Tensor { shape, content: Content::Constant(constant) })
}

/// Of data and parameters, with axes of length 1 in the place of those that are gone.
pub fn over(low: &mut Lowering<'_>, operator: &str, tensor: &Tensor, axes: &[usize]) -> Step<Tensor> {
    if axes.iter().any(|axis| tensor.shape.holds_points(*axis)) {
        return refuse("it works along the axis of the points, so one point would depend on others");
    }
    let (shape, places) = kept(low, &tensor.shape, axes)?;
    match operator {
        "ReduceSum" | "ReduceMean" => {
            let value = low.value(tensor)?;
            let result = match operator {
                "ReduceSum" => low.graph.reduce_sum(value, axes, true)?,
                _ => low.graph.reduce_mean(value, axes, true)?,
            };
            Ok(low.data(result, shape))
        }
        "ReduceMax" => {
            let mut lists: Vec<Vec<usize>> = vec![Vec::new(); shape.size()];
            for (entry, place) in places.iter().enumerate() {
                lists.get_mut(*place).into_iter().for_each(|list| list.push(entry));
            }
            largest(low, tensor, shape, &lists)
        }
        "ReduceMin" => {
            let negative = low.linear(tensor, -1.0, 0.0)?;
            let largest = over(low, "ReduceMax", &negative, axes)?;
            low.linear(&largest, -1.0, 0.0)
        }
        "ReduceL1" => {
            let sizes = low.magnitude(tensor)?;
            over(low, "ReduceSum", &sizes, axes)
        }
        "ReduceSumSquare" | "ReduceL2" => {
            let squares = low.apply(tensor, Function::Power(2.0))?;
            let sum = over(low, "ReduceSum", &squares, axes)?;
            if operator == "ReduceL2" { low.apply(&sum, Function::Sqrt) } else { Ok(sum) }
        }
        "ReduceLogSum" => {
            let sum = over(low, "ReduceSum", tensor, axes)?;
            low.apply(&sum, Function::Log)
        }
        "ReduceLogSumExp" => {
            // m + log Σ exp(x − m), with the largest for m so that nothing overflows.
            let largest = over(low, "ReduceMax", tensor, axes)?;
            let below = low.sum((tensor, 1.0), (&largest, -1.0))?;
            let powers = low.apply(&below, Function::Exp)?;
            let sum = over(low, "ReduceLogSum", &powers, axes)?;
            low.sum((&largest, 1.0), (&sum, 1.0))
        }
        _ => refuse("a product over an axis of computed values is not supported"),
    }
}

/// The largest of the entries of every list.
pub fn largest(low: &mut Lowering<'_>, tensor: &Tensor, shape: Shape, lists: &[Vec<usize>]) -> Step<Tensor> {
    if lists.iter().any(Vec::is_empty) {
        return refuse("it takes the maximum of nothing");
    }
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    // Every link of the chain is three nodes.
    low.budget.spend(most.saturating_mul(lists.len().saturating_mul(16).saturating_add(3 * NODE)))?;
    let value = low.value(tensor)?;
    let result = low.graph.max_over(value, &shape.lengths, lists)?;
    Ok(low.data(result, shape))
}

/// eᶻ/Σeᶻ over an axis, or its logarithm.
pub fn softmax(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let old = low.file.version < 13;
    let axis = tensor.shape.axis(call.node.int("axis").unwrap_or(if old { 1 } else { -1 }))?;
    let log = call.node.op_type == "LogSoftmax";
    if old && axis + 1 < tensor.shape.rank() {
        // Before version 13 it went over this axis and all after it.
        let sizes = tensor.shape.sizes();
        let rest = sizes.get(axis..).unwrap_or_default().iter().map(|size| size.number).product::<i64>();
        let joined = [sizes.get(..axis).unwrap_or_default(), &[Size::from(rest)]].concat();
        let flat = low.reshape(tensor, &joined)?;
        let result = along(low, &flat, axis, log)?;
        return low.reshape(&result, &sizes);
    }
    along(low, tensor, axis, log)
}

/// The same for an axis.
pub fn along(low: &mut Lowering<'_>, tensor: &Tensor, axis: usize, log: bool) -> Step<Tensor> {
    let value = low.value(tensor)?;
    let value = low.graph.softmax(value, axis)?;
    let result = low.data(value, tensor.shape.clone());
    if log { low.apply(&result, Function::Log) } else { Ok(result) }
}
