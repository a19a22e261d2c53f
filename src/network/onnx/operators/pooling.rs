//! Means and maxima over windows, and images in other sizes.

use crate::network::graph::{Term, row_major};
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::tensor::{Tensor, axis_of};
use crate::network::onnx::trouble::{Step, refuse};

use super::images::Geometry;
use super::reductions::{largest, over};

/// The mean or the maximum over windows.
pub fn pool(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let data = call.input(0)?;
    let geometry = Geometry::new(call.node, &data.shape, None)?;
    let (window, shape) = (&geometry.window, geometry.shape(geometry.channels, &data.shape));
    let work = shape.size().saturating_mul(window.taps());
    low.budget.spend(work.saturating_mul(8))?;
    let below: Vec<Vec<usize>> = (0..window.positions()).map(|position| window.pixels_below(position).collect()).collect();
    let maps = (0..geometry.images * geometry.channels).map(|map| map * window.pixels());
    if call.node.op_type == "MaxPool" {
        let lists: Vec<Vec<usize>> = maps
            .flat_map(|start| below.iter().map(move |list| list.iter().map(|pixel| start + pixel).collect()))
            .collect();
        return largest(low, data, shape, &lists);
    }
    let counts_padding = call.node.int("count_include_pad") == Some(1);
    let count = |(position, list): (usize, &Vec<usize>)| match counts_padding {
        true => inside(&geometry, position),
        false => list.len(),
    };
    let counts: Vec<usize> = below.iter().enumerate().map(count).collect();
    let mut terms = Vec::with_capacity(work);
    for (map, start) in maps.enumerate() {
        for (position, (list, count)) in below.iter().zip(&counts).enumerate() {
            let (output, weight) = (map * below.len() + position, 1.0 / (*count).max(1) as f64);
            terms.extend(list.iter().map(|pixel| Term { output, input: 0, entry: start + pixel, weight }));
        }
    }
    let value = low.value(data)?;
    let value = low.graph.combine(&[value], &shape.lengths, terms, None)?;
    Ok(low.data(value, shape))
}

/// How many taps of a window are inside of the image or its padding.
#[allow(clippy::indexing_slicing, reason = "axes are 0 and 1, and every array has an entry for each")]
fn inside(geometry: &Geometry, position: usize) -> usize {
    let window = &geometry.window;
    let columns = window.outputs[1].max(1);
    let at = [position / columns, position % columns];
    let on_axis = |axis: usize| {
        let end = window.image[axis] + window.padding[axis] + geometry.behind[axis];
        let tap = |tap: &usize| at[axis] * window.stride[axis] + tap * window.dilation[axis] < end;
        (0..window.kernel[axis]).filter(tap).count()
    };
    on_axis(0) * on_axis(1)
}

/// The mean or the maximum of every channel.
pub fn global_pool(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let data = call.input(0)?;
    let axes: Vec<usize> = (2..data.shape.rank()).collect();
    over(low, if call.node.op_type == "GlobalMaxPool" { "ReduceMax" } else { "ReduceMean" }, data, &axes)
}

/// Other sizes of some axes, by the nearest entry or by interpolation between two.
pub fn resize(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (data, node) = (call.input(0)?, call.node);
    let old = node.op_type == "Upsample" || low.file.version < 11;
    let rank = data.shape.rank();
    let axes: Vec<usize> = match node.ints("axes") {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Step<_>>()?,
        None => (0..rank).collect(),
    };
    let list = |low: &mut Lowering<'_>, place: usize| -> Step<Vec<f64>> {
        match call.optional(place) {
            Some(tensor) => Ok(tensor.as_constant().map(|own| own.values.to_vec()).filter(|own| own.is_empty()).map_or_else(|| constant_or_sizes(low, tensor), Ok)?),
            None => Ok(Vec::new()),
        }
    };
    let scales = match node.floats("scales") {
        Some(scales) => scales,
        None => list(low, if old { 1 } else { 2 })?,
    };
    let sizes = if old { Vec::new() } else { list(low, 3)? };
    let settings = Settings {
        mode: node.word("mode"),
        coordinates: if old { "asymmetric".to_string() } else { node.word("coordinate_transformation_mode") },
        nearest: if old { "floor".to_string() } else { node.word("nearest_mode") },
    };
    let keeps = matches!(node.word("keep_aspect_ratio_policy").as_str(), "" | "stretch");
    if node.int("antialias") == Some(1) || !keeps || !matches!(settings.mode.as_str(), "" | "nearest" | "linear") {
        return refuse("only plain resizing by the nearest entry or linear interpolation is supported");
    }
    let mut result = data.clone();
    for (place, axis) in axes.into_iter().enumerate() {
        let length = data.shape.length(axis);
        let (count, scale) = match (sizes.get(place), scales.get(place)) {
            (Some(size), _) => (*size, size / length as f64),
            (None, Some(scale)) => ((length as f64 * scale).floor(), *scale),
            (None, None) => return refuse("it has neither scales nor sizes for every axis"),
        };
        if count == length as f64 && scale == 1.0 || data.shape.holds_points(axis) && scales.get(place).is_none_or(|s| *s == 1.0) {
            continue;
        }
        if !(1.0..=f64::from(1 << 24)).contains(&count) {
            return refuse(format!("it has an axis of length {count}"));
        }
        let sources = (0..count as usize).map(|index| settings.sources(index, (count, length as f64, scale))).collect();
        result = resample(low, &result, axis, sources)?;
    }
    Ok(result)
}

/// Numbers of a constant in which the number of points may stand for the axis of the points.
fn constant_or_sizes(low: &Lowering<'_>, tensor: &Tensor) -> Step<Vec<f64>> {
    match tensor.as_constant() {
        Some(constant) => Ok(constant.values.to_vec()),
        None => low.constant(tensor).map(|constant| constant.values.to_vec()),
    }
}

/// How entries of the result are taken from the source.
struct Settings {
    mode: String,
    coordinates: String,
    nearest: String,
}

impl Settings {
    /// The places in the source, with their weights, of an entry of the result.
    fn sources(&self, index: usize, (count, length, scale): (f64, f64, f64)) -> Vec<(usize, f64)> {
        let index = index as f64;
        let half = (index + 0.5) / scale - 0.5;
        let at = match self.coordinates.as_str() {
            "asymmetric" => index / scale,
            "align_corners" => if count > 1.0 { index * (length - 1.0) / (count - 1.0) } else { 0.0 },
            "pytorch_half_pixel" if count <= 1.0 => 0.0,
            "half_pixel_symmetric" => half + 0.5 * length * (1.0 - count / (scale * length)),
            _ => half,
        };
        let inside = |place: f64| place.clamp(0.0, length - 1.0) as usize;
        if self.mode == "linear" {
            let (first, part) = (at.floor(), at - at.floor());
            return vec![(inside(first), 1.0 - part), (inside(first + 1.0), part)];
        }
        let place = match self.nearest.as_str() {
            "floor" => at.floor(),
            "ceil" => at.ceil(),
            "round_prefer_ceil" => (at + 0.5).floor(),
            _ => (at - 0.5).ceil(),
        };
        vec![(inside(place), 1.0)]
    }
}

/// Weighted sums of entries along an axis, one list for every entry of the result.
pub fn resample(low: &mut Lowering<'_>, tensor: &Tensor, axis: usize, lists: Vec<Vec<(usize, f64)>>) -> Step<Tensor> {
    let axis = tensor.shape.axis(axis as i64)?;
    let shape = tensor.shape.with_length(axis, lists.len());
    let stride = row_major(&tensor.shape.lengths).get(axis).copied().unwrap_or(1);
    let (outer, length) = (tensor.shape.size() / (stride * tensor.shape.length(axis)).max(1), tensor.shape.length(axis));
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    low.budget.spend(shape.size().saturating_mul(most).saturating_mul(4))?;
    let mut terms = Vec::new();
    for (place, inner) in (0..outer).flat_map(|block| (0..lists.len()).map(move |place| (block, place))) {
        for (source, weight) in lists.get(inner).into_iter().flatten() {
            let (from, to) = ((place * length + source) * stride, (place * lists.len() + inner) * stride);
            terms.extend((0..stride).map(|rest| Term { output: to + rest, input: 0, entry: from + rest, weight: *weight }));
        }
    }
    let value = low.value(tensor)?;
    let value = low.graph.combine(&[value], &shape.lengths, terms, None)?;
    Ok(low.data(value, shape))
}
