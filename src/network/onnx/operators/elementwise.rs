//! Operators that work entry by entry.

use crate::network::graph::broadcast_places;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::messages::NodeProto;
use crate::network::onnx::node::Call;
use crate::network::onnx::recognise::Operand;
use crate::network::onnx::scalar::{self, Plain};
use crate::network::onnx::tensor::{Constant, Content, Origin, Shape, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

/// Any of them.
pub fn elementwise(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let inputs: Vec<Option<Tensor>> = call.inputs.iter().map(|input| input.as_ref().map(|own| plain(low, own))).collect();
    if inputs.iter().flatten().all(|tensor| tensor.as_constant().is_some()) {
        return fold(low, call.node, &inputs);
    }
    let origin = origin(call.node, &inputs)?;
    let present: Vec<&Tensor> = inputs.iter().flatten().collect();
    let (shape, _) = low.join(&present)?;
    let operands: Option<Vec<Operand>> = inputs.iter().map(|input| operand(input.as_ref(), &shape)).collect();
    let known = match &operands {
        Some(operands) if scalar::activation(call.node).is_none() => {
            low.recipes.recognise(low.file.nodes, call.index, operands)
        }
        _ => None,
    };
    let mut result = match known {
        Some((activation, source)) => {
            let value = low.graph.function(source, activation)?;
            low.data(value, shape)
        }
        None => scalar::evaluate(low, call.node, &inputs)?,
    };
    if let Content::Data(value, own) = &mut result.content {
        if let Some(operands) = operands.filter(|operands| !operands.contains(&Operand::Value(*value))) {
            low.recipes.add(*value, call.index, operands);
        }
        *own = origin;
    }
    Ok(result)
}

/// A single number in an initialiser is a constant, unless PyTorch wrote it.
fn plain(low: &Lowering<'_>, tensor: &Tensor) -> Tensor {
    let single = !low.file.pytorch && tensor.shape.size() == 1 && matches!(tensor.content, Content::Parameter(_));
    match low.constant(tensor) {
        Ok(constant) if single => Tensor { shape: tensor.shape.clone(), content: Content::Constant(constant) },
        _ => tensor.clone(),
    }
}

/// An input as it enters a function of single numbers; `None` if it does not.
fn operand(input: Option<&Tensor>, shape: &Shape) -> Option<Operand> {
    let Some(tensor) = input else { return Some(Operand::Missing) };
    match (&tensor.content, tensor.as_number()) {
        (Content::Data(value, _), _) if tensor.shape == *shape => Some(Operand::Value(*value)),
        (_, Some(number)) => Some(Operand::Number(number)),
        _ => None,
    }
}

/// Whole numbers stay whole under some operators.
fn origin(node: &NodeProto, inputs: &[Option<Tensor>]) -> Step<Origin> {
    let whole = |tensor: &Tensor| match &tensor.content {
        Content::Data(_, origin) => matches!(origin, Origin::Integer | Origin::Category),
        Content::Constant(constant) => constant.whole,
        Content::Parameter(_) => false,
    };
    let category = |tensor: &Tensor| matches!(tensor.content, Content::Data(_, Origin::Category));
    let operator = node.op_type.as_str();
    match inputs.iter().flatten().all(whole) {
        true if matches!(operator, "Add" | "Sub" | "Mul") => {
            let rounds = inputs.iter().flatten().any(category);
            Ok(if rounds { Origin::Category } else { Origin::Integer })
        }
        true if operator == "Div" => refuse("it divides whole numbers of the data and rounds"),
        _ if inputs.iter().flatten().any(category) => {
            refuse("it computes with columns that the graph rounds to whole numbers; they can only look up rows of a table")
        }
        _ => Ok(Origin::Computed),
    }
}

/// The result on constants.
pub fn fold(low: &mut Lowering<'_>, node: &NodeProto, inputs: &[Option<Tensor>]) -> Step<Tensor> {
    let present: Vec<&Tensor> = inputs.iter().flatten().collect();
    let (shape, _) = low.join(&present)?;
    low.limit(shape.size())?;
    // An operator on a number costs several.
    low.budget.spend(shape.size().saturating_mul(8))?;
    let place = |tensor: &Tensor| broadcast_places(&tensor.shape.lengths, &shape.lengths).unwrap_or_default();
    let places: Vec<Vec<usize>> = inputs.iter().map(|input| input.as_ref().map(place).unwrap_or_default()).collect();
    let constants: Vec<Option<&Constant>> = inputs.iter().map(|input| input.as_ref()?.as_constant()).collect();
    let whole = stays_whole(node, &constants);
    let (mut values, mut flags) = (Vec::with_capacity(shape.size()), Vec::new());
    for entry in 0..shape.size() {
        let pairs = constants.iter().zip(&places);
        let own: Vec<Option<(&Constant, usize)>> =
            pairs.map(|(constant, places)| Some(((*constant)?, *places.get(entry)?))).collect();
        let per_point = own.iter().flatten().any(|(constant, place)| constant.is_per_point(*place));
        let (value, flag) = if per_point {
            let sizes: Vec<Size> = own.iter().flatten().map(|(constant, place)| constant.size(*place)).collect();
            let size = size(node, &sizes, low.file.points).ok_or("it computes with the number of points")?;
            (size.number as f64, size.per_point)
        } else {
            let number = |own: &Option<(&Constant, usize)>| own.and_then(|(constant, place)| constant.values.get(place).copied());
            let numbers: Vec<Option<f64>> = own.iter().map(number).collect();
            let value = scalar::evaluate(&mut Plain, node, &numbers)?;
            (if whole && node.op_type == "Div" { value.trunc() } else { value }, false)
        };
        values.push(value);
        flags.push(flag);
    }
    let per_point = flags.contains(&true).then(|| flags.into());
    Ok(Tensor { shape, content: Content::Constant(Constant { values: values.into(), whole, per_point }) })
}

fn stays_whole(node: &NodeProto, inputs: &[Option<&Constant>]) -> bool {
    let from = match node.op_type.as_str() {
        "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Equal" | "Not" | "And" | "Or" | "IsNaN" => return true,
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Max" | "Min" | "Abs" | "Neg" | "Sum" | "Pow" | "Clip" | "Sign" => 0,
        "Where" => 1,
        _ => return false,
    };
    inputs.iter().skip(from).flatten().all(|constant| constant.whole)
}

/// Arithmetic with sizes of which some are multiples of the number of points.
fn size(node: &NodeProto, sizes: &[Size], fixed: Option<usize>) -> Option<Size> {
    let first = *sizes.first()?;
    let second = sizes.get(1).copied();
    let plain = |number: i64| Some(Size { number, per_point: false });
    let whole = |size: Size| match (size.per_point, fixed) {
        (false, _) => Some(size.number),
        (true, Some(count)) => size.number.checked_mul(i64::try_from(count).ok()?),
        (true, None) => None,
    };
    match node.op_type.as_str() {
        "Add" | "Sum" if second?.number == 0 => Some(first),
        "Add" | "Sum" if first.number == 0 => second,
        "Add" | "Sum" if first.per_point == second?.per_point => {
            Some(Size { number: first.number.checked_add(second?.number)?, ..first })
        }
        "Sub" if second?.number == 0 => Some(first),
        "Sub" if first.per_point == second?.per_point => {
            Some(Size { number: first.number.checked_sub(second?.number)?, ..first })
        }
        "Mul" if !(first.per_point && second?.per_point) => Some(Size {
            number: first.number.checked_mul(second?.number)?,
            per_point: first.per_point || second?.per_point,
        }),
        "Div" if first.number.checked_rem(second?.number)? == 0 && (first.per_point || !second?.per_point) => {
            Some(Size { number: first.number / second?.number, per_point: first.per_point != second?.per_point })
        }
        // No number of points is −1, and no other number stands for it.
        "Equal" => plain(i64::from(match (whole(first), second.and_then(whole)) {
            (Some(one), Some(other)) => one == other,
            _ => Some(first) == second,
        })),
        "Max" if first.number >= second?.number => Some(first),
        "Max" if second?.number >= first.number && second?.per_point => second,
        "Where" => sizes.get(if first.number != 0 { 1 } else { 2 }).copied(),
        "Floor" | "Ceil" | "Round" | "Abs" => Some(first),
        _ => None,
    }
}
