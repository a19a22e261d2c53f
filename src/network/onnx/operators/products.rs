//! Products of matrices: linear layers, attention, contractions.

use crate::network::graph::View;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Content, Points, Shape, Size, Tensor, product};
use crate::network::onnx::trouble::{Step, refuse};

/// α A B + β C, with A and B transposed or not.
pub fn gemm(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (a, b, node) = (call.input(0)?, call.input(1)?, call.node);
    let (alpha, beta) = (node.float("alpha").unwrap_or(1.0), node.float("beta").unwrap_or(1.0));
    let a = if node.int("transA") == Some(1) { low.transpose(a, &[1, 0])? } else { a.clone() };
    let turned = node.int("transB") == Some(1);
    let offset = call.optional(2).filter(|_| beta != 0.0);
    if let [outputs, _] = if turned { b.shape.lengths.clone() } else { b.shape.permuted(&[1, 0]).lengths }[..] {
        let bias = offset.filter(|bias| alpha == 1.0 && beta == 1.0 && is_bias(bias, outputs));
        if let (Content::Data(..), Content::Parameter(_), 2) = (&a.content, &b.content, a.shape.rank()) {
            let product = linear(low, &a, b, turned, bias)?;
            return finish(low, product, offset.filter(|_| bias.is_none()), (alpha, beta));
        }
    }
    let b = if turned { low.transpose(b, &[1, 0])? } else { b.clone() };
    let product = multiply(low, &a, &b)?;
    finish(low, product, offset, (alpha, beta))
}

fn finish(low: &mut Lowering<'_>, product: Tensor, offset: Option<&Tensor>, (alpha, beta): (f64, f64)) -> Step<Tensor> {
    match offset {
        Some(offset) => low.sum((&product, alpha), (offset, beta)),
        None => low.linear(&product, alpha, 0.0),
    }
}

/// One number for each output.
fn is_bias(bias: &Tensor, outputs: usize) -> bool {
    let last = bias.shape.lengths.last().is_some_and(|last| *last == outputs);
    matches!(bias.content, Content::Parameter(_)) && last && bias.shape.size() == outputs
}

/// A B. A sum of the product by a matrix of parameters with a bias, and nothing else that reads it, is one linear layer.
pub fn matmul<'a>(low: &mut Lowering<'a>, call: &Call<'a>) -> Step<Tensor> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (Content::Data(..), Content::Parameter(_), [_, outputs]) = (&a.content, &b.content, &b.shape.lengths[..])
    else {
        return multiply(low, a, b);
    };
    let name = call.node.output.first().map_or("", String::as_str);
    let reader = low.file.only_reader(name).filter(|(_, node)| node.op_type == "Add" && node.is_standard());
    let bias = reader.and_then(|(_, node)| node.input.iter().find(|other| *other != name));
    let bias = bias.and_then(|other| low.named(other)).cloned();
    let bias = bias.filter(|bias| is_bias(bias, *outputs) && bias.shape.rank() <= a.shape.rank());
    let result = linear(low, a, b, false, bias.as_ref())?;
    if let (Some(_), Some((index, node))) = (&bias, reader) {
        low.done.insert(index);
        node.output.iter().for_each(|output| low.define(output, result.clone()));
    }
    Ok(result)
}

/// A layer W h + b over the last axis of data; W is `[outputs, inputs]`, or the other way round if it is not `turned`.
fn linear(low: &mut Lowering<'_>, data: &Tensor, weight: &Tensor, turned: bool, bias: Option<&Tensor>) -> Step<Tensor> {
    data.shape.axis(-1)?;
    let beside = low.initializer(weight);
    let role = if turned { Role::Weight } else { Role::InputsFirst };
    let Some(view) = low.view(weight, role, None)? else { return refuse("its weights are no parameters") };
    let view = if turned { view } else { view.transposed()? };
    let bias = bias.map(|bias| low.view(bias, Role::Shift, beside)).transpose()?.flatten();
    layer(low, data, &view, bias.as_ref())
}

/// The same with weights `[outputs, inputs]` in θ.
pub fn layer(low: &mut Lowering<'_>, data: &Tensor, weight: &View, bias: Option<&View>) -> Step<Tensor> {
    let value = low.value(data)?;
    let result = low.graph.linear(value, weight, bias)?;
    let last = data.shape.rank().saturating_sub(1);
    let outputs = weight.shape.first().copied().unwrap_or(0);
    Ok(low.data(result, data.shape.with_length(last, outputs)))
}

/// W h + b over the last axis of data, with weights `[outputs, inputs]` and biases of any kind.
pub fn dense(low: &mut Lowering<'_>, data: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Step<Tensor> {
    let parameters = |tensor: &Tensor| matches!(tensor.content, Content::Parameter(_));
    if parameters(weight) && bias.is_none_or(parameters) {
        return linear(low, data, weight, true, bias);
    }
    let turned = low.swapped(weight)?;
    let product = multiply(low, data, &turned)?;
    match bias {
        Some(bias) => low.sum((&product, 1.0), (bias, 1.0)),
        None => Ok(product),
    }
}

/// A B of any two tensors.
pub fn multiply(low: &mut Lowering<'_>, a: &Tensor, b: &Tensor) -> Step<Tensor> {
    // A vector is a matrix with one row or one column, which the result lacks.
    if a.shape.rank() == 1 {
        let row = low.with_axis(a, 0)?;
        let result = multiply(low, &row, b)?;
        return low.without_axis(&result, -2);
    }
    if b.shape.rank() == 1 {
        let column = low.with_axis(b, 1)?;
        let result = multiply(low, a, &column)?;
        return low.without_axis(&result, -1);
    }
    a.shape.axis(-1)?;
    b.shape.axis(-2)?;
    match (&a.content, &b.content) {
        (Content::Data(..), Content::Parameter(_)) if b.shape.rank() == 2 => linear(low, a, b, false, None),
        (Content::Data(..), Content::Constant(constant)) if b.shape.rank() == 2 && b.shape.points.is_none() => {
            let [inputs, outputs] = b.shape.lengths[..] else { return refuse("it needs a matrix") };
            let turned = (0..outputs).flat_map(|o| (0..inputs).map(move |i| i * outputs + o));
            let weights = turned.filter_map(|place| constant.values.get(place).copied()).collect();
            let value = low.value(a)?;
            let result = low.graph.linear_constant(value, outputs, weights)?;
            Ok(low.data(result, a.shape.with_length(a.shape.rank() - 1, outputs)))
        }
        // A B = (Bᵀ Aᵀ)ᵀ, where the matrix that does not depend on the data comes second.
        (Content::Constant(_) | Content::Parameter(_), Content::Data(..)) if a.shape.rank() == 2 => {
            let (turned, matrix) = (low.swapped(b)?, low.swapped(a)?);
            let result = multiply(low, &turned, &matrix)?;
            low.swapped(&result)
        }
        _ => matrices(low, a, b),
    }
}

/// A B of computed values; the axes before the last two broadcast.
fn matrices(low: &mut Lowering<'_>, a: &Tensor, b: &Tensor) -> Step<Tensor> {
    // The axes before, as if they were all.
    let batch = |tensor: &Tensor| {
        let rank = tensor.shape.rank() - 2;
        let points = tensor.shape.points.filter(|points| points.axis < rank);
        let lengths = tensor.shape.lengths.get(..rank).unwrap_or_default().to_vec();
        let size = product(&lengths).unwrap_or(0);
        let constant = crate::network::onnx::tensor::Constant::real(vec![0.0; size]);
        Tensor { shape: Shape { lengths, points }, content: Content::Constant(constant) }
    };
    let (left, right) = (batch(a), batch(b));
    low.budget.spend(left.shape.size().saturating_add(right.shape.size()))?;
    let (mut shape, _) = low.join(&[&left, &right])?;
    let rank = shape.rank();
    let inner = |tensor: &Tensor, from_end: usize| {
        let axis = tensor.shape.rank() - from_end;
        (tensor.shape.length(axis), tensor.shape.points.filter(|points| points.axis == axis))
    };
    let ((rows, first), (columns, second)) = (inner(a, 2), inner(b, 1));
    let placed = |points: Option<Points>, axis: usize| points.map(|points| Points { axis, ..points });
    let found: Vec<Points> =
        [shape.points, placed(first, rank), placed(second, rank + 1)].into_iter().flatten().collect();
    if found.len() > 1 {
        return refuse("it multiplies values of different points with each other");
    }
    shape.lengths.extend([rows, columns]);
    shape.points = found.first().copied();
    if shape.points.is_none() {
        low.budget.work(shape.size().saturating_mul(a.shape.length(a.shape.rank() - 1)))?;
    }
    let (left, right) = (low.value(a)?, low.value(b)?);
    let result = low.graph.matmul(left, right)?;
    Ok(low.data(result, shape))
}

impl Lowering<'_> {
    /// With one more axis of length 1.
    pub fn with_axis(&mut self, tensor: &Tensor, axis: usize) -> Step<Tensor> {
        let mut sizes = tensor.shape.sizes();
        sizes.insert(axis.min(sizes.len()), Size::from(1));
        self.reshape(tensor, &sizes)
    }

    /// Without an axis of length 1.
    pub fn without_axis(&mut self, tensor: &Tensor, axis: i64) -> Step<Tensor> {
        let axis = tensor.shape.axis(axis)?;
        let mut sizes = tensor.shape.sizes();
        sizes.remove(axis);
        self.reshape(tensor, &sizes)
    }

    /// With the last two axes exchanged.
    pub fn swapped(&mut self, tensor: &Tensor) -> Step<Tensor> {
        let rank = tensor.shape.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(rank.saturating_sub(1), rank.saturating_sub(2));
        self.transpose(tensor, &axes)
    }
}

/// Sums of products over named axes.
pub fn einsum(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let equation: String = call.node.word("equation").split_whitespace().collect();
    let (inputs, output) = equation.split_once("->").ok_or("it does not say which axes its result has")?;
    let names: Vec<&str> = inputs.split(',').collect();
    if !equation.chars().all(|letter| letter.is_ascii_alphabetic() || matches!(letter, ',' | '-' | '>')) {
        return refuse(format!("its equation `{equation}` is not of letters alone"));
    }
    let operands = call.all();
    for (names, tensor) in names.iter().zip(&operands) {
        if names.len() != tensor.shape.rank() {
            return refuse(format!("its equation `{equation}` does not fit its inputs"));
        }
    }
    match (&names[..], &operands[..]) {
        ([names], [tensor]) => contraction(low, (names, tensor), output),
        ([left, right], [a, b]) => pair(low, (left, a), (right, b), output),
        _ => refuse("more than two inputs are not supported"),
    }
}

/// Sums over axes of one tensor.
fn contraction(low: &mut Lowering<'_>, (names, tensor): (&str, &Tensor), output: &str) -> Step<Tensor> {
    let gone: Vec<usize> =
        names.char_indices().filter(|(_, name)| !output.contains(*name)).map(|(axis, _)| axis).collect();
    if gone.iter().any(|axis| tensor.shape.holds_points(*axis)) {
        return refuse("it sums over the points");
    }
    let value = low.value(tensor)?;
    let sum = low.graph.reduce_sum(value, &gone, true)?;
    let shape = gone.iter().fold(tensor.shape.clone(), |shape, axis| shape.with_length(*axis, 1));
    let sum = low.data(sum, shape);
    let axes: Option<Vec<usize>> = output.chars().map(|name| names.find(name)).collect();
    let axes = axes.filter(|axes| axes.len() + gone.len() == names.len()).ok_or("its equation repeats an axis")?;
    let order: Vec<usize> = axes.iter().chain(&gone).copied().collect();
    let moved = low.transpose(&sum, &order)?;
    let sizes = moved.shape.sizes();
    low.reshape(&moved, sizes.get(..axes.len()).unwrap_or_default())
}

/// Sums of products of two tensors.
fn pair(low: &mut Lowering<'_>, left: (&str, &Tensor), right: (&str, &Tensor), output: &str) -> Step<Tensor> {
    let ((a_names, a), (b_names, b)) = (left, right);
    let letter = |(names, tensor): (&str, &Tensor)| {
        tensor.shape.points.and_then(|points| Some((names.chars().nth(points.axis)?, points)))
    };
    let (first, second) = (letter(left), letter(right));
    let along = first.or(second);
    let apart = first.is_some() && second.is_some() && first.map(|own| own.0) != second.map(|own| own.0);
    if apart || along.is_some_and(|(name, _)| !output.contains(name)) {
        return refuse("it sums over the points, or multiplies values of different points with each other");
    }
    let layer = match (&a.content, &b.content) {
        (Content::Data(..), Content::Parameter(_)) => by_parameters(low, left, right, output)?,
        (Content::Parameter(_), Content::Data(..)) => by_parameters(low, right, left, output)?,
        _ => None,
    };
    if let Some(layer) = layer {
        return Ok(layer);
    }
    let (one, other) = (low.value(a)?, low.value(b)?);
    let value = low.graph.einsum(one, other, [a_names, b_names, output])?;
    let lengths = low.graph.shape(value).to_vec();
    let place = |(name, points): (char, Points)| output.find(name).map(|axis| Points { axis, ..points });
    Ok(low.data(value, Shape { lengths, points: along.and_then(place) }))
}

/// A linear layer, where every axis of the parameters is either summed over or new; `None` if it is something else.
fn by_parameters(
    low: &mut Lowering<'_>,
    (names, data): (&str, &Tensor),
    (own, weight): (&str, &Tensor),
    output: &str,
) -> Step<Option<Tensor>> {
    let place = |names: &str, letters: &[char]| -> Vec<usize> {
        letters.iter().filter_map(|letter| names.find(*letter)).collect()
    };
    let summed: Vec<char> = own.chars().filter(|name| names.contains(*name)).collect();
    let new: Vec<char> = own.chars().filter(|name| !names.contains(*name)).collect();
    let kept: Vec<char> = names.chars().filter(|name| !summed.contains(name)).collect();
    let fits = summed.iter().all(|name| !output.contains(*name)) && kept.len() + new.len() == output.len();
    if !fits || summed.is_empty() || kept.iter().chain(&new).any(|name| !output.contains(*name)) {
        return Ok(None);
    }
    let order = [place(names, &kept), place(names, &summed)].concat();
    let moved = low.transpose(data, &order)?;
    let sizes = moved.shape.sizes();
    let (kept_sizes, summed_sizes) = sizes.split_at_checked(kept.len()).unwrap_or_default();
    let inputs: i64 = summed_sizes.iter().map(|size| size.number).product();
    let rows = low.reshape(&moved, &[kept_sizes, &[Size::from(inputs)]].concat())?;
    let turned = low.transpose(weight, &[place(own, &new), place(own, &summed)].concat())?;
    let new_sizes = turned.shape.sizes().get(..new.len()).unwrap_or_default().to_vec();
    let outputs: i64 = new_sizes.iter().map(|size| size.number).product();
    let matrix = low.reshape(&turned, &[Size::from(outputs), Size::from(inputs)])?;
    let result = linear(low, &rows, &matrix, true, None)?;
    let result = low.reshape(&result, &[kept_sizes, &new_sizes[..]].concat())?;
    let letters = [kept, new].concat();
    let axes: Vec<usize> = output.chars().filter_map(|name| letters.iter().position(|own| *own == name)).collect();
    low.transpose(&result, &axes).map(Some)
}
