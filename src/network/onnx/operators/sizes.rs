//! Constants, and the lengths of axes that exporters leave to be computed.

use crate::network::onnx::constant::{INT32, INT64, is_real, is_whole, read, written, BOOL};
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::tensor::{Constant, Content, Origin, Points, Shape, Size, Tensor, product};
use crate::network::onnx::trouble::{Step, refuse};

/// Numbers in a node. They are parameters where the file has no initialisers.
pub fn constant(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = written(call.node)?;
    match tensor.as_constant() {
        Some(constant) if low.constants_are_parameters && !constant.whole && constant.values.len() > 1 => {
            let name = call.node.output.first().map_or("", String::as_str);
            Ok(low.parameters.add(name, tensor.shape.lengths.clone(), constant.values.to_vec()))
        }
        _ => Ok(tensor),
    }
}

/// One number in any shape.
pub fn constant_of_shape(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let Some(sizes) = call.input(0)?.as_constant() else { return refuse("it takes a shape that is computed from the data") };
    let sizes: Vec<Size> = (0..sizes.values.len()).map(|place| sizes.size(place)).collect();
    let value = call.node.tensor("value").map(read).transpose()?;
    let (number, whole) = match value.as_ref().and_then(Tensor::as_constant) {
        Some(constant) => (constant.values.first().copied().unwrap_or(0.0), constant.whole),
        None => (0.0, false),
    };
    let lengths: Option<Vec<usize>> = sizes.iter().map(|size| usize::try_from(size.number).ok()).collect();
    let lengths = lengths.ok_or("it has an axis of negative length")?;
    let points = sizes.iter().position(|size| size.per_point);
    let points = points.map(|axis| Points { axis, before: 1, after: lengths.get(axis).copied().unwrap_or(1) });
    let count = product(&lengths).unwrap_or(usize::MAX);
    low.limit(count)?;
    let constant = Constant { values: vec![number; count].into(), whole, per_point: None };
    Ok(Tensor { shape: Shape { lengths, points }, content: Content::Constant(constant) })
}

/// The lengths of the axes.
pub fn shape(_: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let sizes = call.input(0)?.shape.sizes();
    let length = sizes.len() as i64;
    let place = |name: &str, default: i64| {
        let bound = call.node.int(name).unwrap_or(default);
        (if bound < 0 { bound.saturating_add(length) } else { bound }).clamp(0, length) as usize
    };
    Ok(Tensor::of_sizes(sizes.get(place("start", 0)..place("end", length)).unwrap_or_default()))
}

/// The number of entries.
pub fn size(_: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let shape = &call.input(0)?.shape;
    let size = Size { number: i64::try_from(shape.size()).unwrap_or(i64::MAX), per_point: shape.points.is_some() };
    Ok(Tensor::constant(Vec::new(), Constant::of_sizes(&[size])))
}

/// Numbers from a start in steps.
pub fn range(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let bounds: Vec<Constant> =
        (0..3).map(|place| call.input(place).and_then(|tensor| low.constant(tensor))).collect::<Step<_>>()?;
    let numbers: Vec<f64> = bounds.iter().filter_map(|bound| bound.values.first().copied()).collect();
    let [start, limit, step] = numbers[..] else { return refuse("it has no bounds") };
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() {
        return refuse("it has no end");
    }
    low.limit(count as usize)?;
    let values: Vec<f64> = (0..count as usize).map(|place| start + place as f64 * step).collect();
    let whole = bounds.iter().all(|bound| bound.whole);
    Ok(Tensor::constant(vec![values.len()], Constant { values: values.into(), whole, per_point: None }))
}

/// Another type of elements: real numbers stay as they are, constants become whole numbers, and columns categories.
pub fn cast(_: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let like = || match call.optional(1).map(|like| &like.content) {
        Some(Content::Constant(constant)) if constant.whole => INT64,
        Some(Content::Data(_, Origin::Integer | Origin::Category)) => INT64,
        _ => 1,
    };
    let kind = match call.node.op_type.as_str() {
        "CastLike" => like(),
        _ => call.node.int("to").and_then(|kind| i32::try_from(kind).ok()).unwrap_or(0),
    };
    let content = match &tensor.content {
        Content::Constant(constant) if is_real(kind) => Content::Constant(Constant { whole: false, ..constant.clone() }),
        Content::Constant(constant) if is_whole(kind) => {
            let number = |value: &f64| if kind == BOOL { f64::from(*value != 0.0) } else { value.trunc() };
            let values = constant.values.iter().map(number).collect();
            Content::Constant(Constant { values, whole: true, ..constant.clone() })
        }
        Content::Data(value, Origin::Column) if matches!(kind, INT32 | INT64) => Content::Data(*value, Origin::Category),
        Content::Data(value, Origin::Integer) if is_real(kind) => Content::Data(*value, Origin::Computed),
        Content::Data(_, Origin::Category) if is_real(kind) => {
            return refuse("it computes with columns that the graph rounds to whole numbers; they can only look up rows of a table");
        }
        Content::Data(_, Origin::Integer | Origin::Category) if is_whole(kind) => tensor.content.clone(),
        content if is_real(kind) => content.clone(),
        _ => return refuse("it rounds computed values, and so has no derivatives"),
    };
    Ok(Tensor { shape: tensor.shape.clone(), content })
}
