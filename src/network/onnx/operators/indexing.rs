//! Entries by their indices: constant ones, and rows of a table by columns of the data.

use crate::network::graph::{Kind, row_major};
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Constant, Content, Origin, Size, Tensor, axis_of};
use crate::network::onnx::trouble::{Step, refuse};

use super::pooling::resample;
use super::products::{layer, multiply};

/// Entries along an axis.
pub fn gather(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (tensor, indices) = (call.input(0)?, call.input(1)?);
    let axis = axis_of(call.node.int("axis").unwrap_or(0), tensor.shape.rank())?;
    let Some(constant) = indices.as_constant() else { return rows(low, tensor, indices, axis) };
    if tensor.shape.holds_points(axis) && low.file.points != Some(1) {
        return refuse("it selects some of the points");
    }
    let length = tensor.shape.length(axis) as i64;
    let place = |index: &f64| {
        let index = *index as i64;
        let place = if index < 0 { index.saturating_add(length) } else { index };
        usize::try_from(place).ok().filter(|_| place < length).map(Some)
    };
    let places: Option<Vec<Option<usize>>> = constant.values.iter().map(place).collect();
    let places = places.ok_or_else(|| format!("it has an index beyond the length {length} of axis {axis}"))?;
    let mut lists = vec![None; tensor.shape.rank()];
    if let Some(list) = lists.get_mut(axis) {
        *list = Some(places);
    }
    let picked = low.pick(tensor, &lists, 0.0)?;
    let sizes = picked.shape.sizes();
    let (before, after) = (sizes.get(..axis).unwrap_or_default(), sizes.get(axis + 1..).unwrap_or_default());
    low.reshape(&picked, &[before, &indices.shape.sizes(), after].concat())
}

/// One of several columns is 1, for every whole number of the data.
fn indicators(low: &mut Lowering<'_>, indices: &Tensor, count: usize) -> Step<Tensor> {
    let Content::Data(value, Origin::Integer | Origin::Category) = indices.content else {
        return refuse("its indices are computed; only columns of the data can be indices");
    };
    let mut shape = indices.shape.clone();
    shape.lengths.push(count);
    low.budget.spend(shape.size())?;
    let value = low.graph.node(Kind::OneHot(count), &[value], &shape.lengths)?;
    Ok(low.data(value, shape))
}

/// Rows of a table by columns of the data: an embedding.
fn rows(low: &mut Lowering<'_>, table: &Tensor, indices: &Tensor, axis: usize) -> Step<Tensor> {
    if table.shape.points.is_some() || axis != 0 {
        return refuse("it looks up entries of computed values by the data; only rows of a table can be looked up");
    }
    let count = table.shape.length(0);
    let rest = table.shape.sizes().get(1..).unwrap_or_default().to_vec();
    let width: i64 = rest.iter().map(|size| size.number).product();
    let chosen = indicators(low, indices, count)?;
    let matrix = low.reshape(table, &[Size::from(count as i64), Size::from(width)])?;
    let result = match low.view(&matrix, Role::Weight, None)? {
        Some(view) => layer(low, &chosen, &view.transposed()?, None)?,
        None => multiply(low, &chosen, &matrix)?,
    };
    low.reshape(&result, &[indices.shape.sizes(), rest].concat())
}

/// Indicators of whole numbers, in any two values.
pub fn one_hot(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (depth, values) = (low.constant(call.input(1)?)?, low.constant(call.input(2)?)?);
    let (Some(depth), [off, on]) = (depth.values.first(), &values.values[..]) else { return refuse("it has no depth") };
    if !matches!(call.node.int("axis"), None | Some(-1)) {
        return refuse("its new axis is not the last, which is not supported");
    }
    let chosen = indicators(low, call.input(0)?, (*depth).clamp(0.0, 1e9) as usize)?;
    low.linear(&chosen, on - off, *off)
}

/// The entries above or below a diagonal.
pub fn trilu(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let diagonal = call.integers(1, "k")?.and_then(|list| list.first().copied()).unwrap_or(0);
    let (rows, columns) = (tensor.shape.axis(-2)?, tensor.shape.axis(-1)?);
    let upper = call.node.int("upper").unwrap_or(1) == 1;
    let strides = row_major(&tensor.shape.lengths);
    let index = |place: usize, axis: usize| {
        (place / strides.get(axis).copied().unwrap_or(1).max(1) % tensor.shape.length(axis).max(1)) as i64
    };
    low.budget.spend(tensor.shape.size().saturating_mul(4))?;
    let kept = |place: usize| {
        let above = index(place, columns).saturating_sub(index(place, rows));
        (if upper { above >= diagonal } else { above <= diagonal }).then_some(place)
    };
    let places: Vec<Option<usize>> = (0..tensor.shape.size()).map(kept).collect();
    low.entries(tensor, tensor.shape.clone(), &places, 0.0)
}

/// Sums of all entries up to each, along an axis.
pub fn cumulative_sum(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let axis = call.integers(1, "axis")?.and_then(|list| list.first().copied()).unwrap_or(0);
    let axis = tensor.shape.axis(axis)?;
    let length = tensor.shape.length(axis);
    let (reverse, exclusive) = (call.node.int("reverse") == Some(1), call.node.int("exclusive") == Some(1));
    low.budget.spend(length.saturating_mul(length))?;
    let list = |place: usize| {
        let before = move |other: &usize| match (reverse, exclusive) {
            (false, false) => *other <= place,
            (false, true) => *other < place,
            (true, false) => *other >= place,
            (true, true) => *other > place,
        };
        (0..length).filter(before).map(|other| (other, 1.0)).collect()
    };
    let lists: Vec<Vec<(usize, f64)>> = (0..length).map(list).collect();
    let Some(constant) = tensor.as_constant() else { return resample(low, tensor, axis, lists) };
    let stride = row_major(&tensor.shape.lengths).get(axis).copied().unwrap_or(1);
    let value = |place: usize| {
        let (index, base) = (place / stride % length.max(1), place - place / stride % length.max(1) * stride);
        let sources = lists.get(index).into_iter().flatten();
        sources.filter_map(|(source, _)| constant.values.get(base + source * stride)).sum::<f64>()
    };
    let values = (0..tensor.shape.size()).map(value).collect();
    let content = Content::Constant(Constant { values, whole: constant.whole, per_point: None });
    Ok(Tensor { shape: tensor.shape.clone(), content })
}
