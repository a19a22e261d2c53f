//! Changes of shape and order: of constants, parameters and data alike.

use crate::network::graph::Indices;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::tensor::{Constant, Content, Origin, Points, Shape, Size, Tensor, axis_of, product};
use crate::network::onnx::trouble::{Step, refuse};

/// What is handed on unchanged.
pub fn identity(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let training = call.optional(2).map(|tensor| low.constant(tensor)).transpose()?;
    match training.is_some_and(|training| training.values.iter().any(|value| *value != 0.0)) {
        true => refuse("it is in training mode; export the network in evaluation mode"),
        false => call.input(0).cloned(),
    }
}

/// The sizes in a constant list.
fn sizes(tensor: &Tensor) -> Step<Vec<Size>> {
    match tensor.as_constant() {
        Some(constant) => Ok((0..constant.values.len()).map(|place| constant.size(place)).collect()),
        None => refuse("it takes a shape that is computed from the data"),
    }
}

/// Any lengths; 0 copies one, and −1 is what is left.
pub fn reshape(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let mut target = match call.optional(1) {
        Some(list) => sizes(list)?,
        None => call.node.ints("shape").unwrap_or_default().into_iter().map(Size::from).collect(),
    };
    let own = tensor.shape.sizes();
    if call.node.int("allowzero") != Some(1) {
        for (size, own) in target.iter_mut().zip(&own).filter(|(size, _)| size.number == 0) {
            *size = *own;
        }
    }
    if let Some(free) = target.iter().position(|size| size.number == -1) {
        let named = target.iter().any(|size| size.per_point);
        // What is left is a multiple of the points, unless they are named or their number is known.
        let (per_point, count) = match (tensor.shape.points, low.file.points) {
            (Some(_), Some(count)) if !named => (false, count),
            (Some(_), None) if !named => (true, 1),
            _ => (false, 1),
        };
        let mut others = target.iter().enumerate().filter(|(place, _)| *place != free);
        let others = others.try_fold(1_i64, |size, (_, other)| size.checked_mul(other.number)).unwrap_or(0);
        let total = i64::try_from(tensor.shape.size().saturating_mul(count)).unwrap_or(i64::MAX);
        let number = total.checked_div(others).unwrap_or(0);
        if let Some(size) = target.get_mut(free) {
            *size = Size { number, per_point };
        }
    }
    low.reshape(tensor, &target)
}

/// Two axes.
pub fn flatten(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let (rank, axis) = (tensor.shape.rank(), call.node.int("axis").unwrap_or(1));
    let axis = if axis == rank as i64 { rank } else { axis_of(axis, rank)? };
    let sizes = tensor.shape.sizes();
    let (before, after) = sizes.split_at_checked(axis).unwrap_or_default();
    let merged = |part: &[Size]| Size {
        number: part.iter().fold(1, |size: i64, own| size.saturating_mul(own.number)),
        per_point: part.iter().any(|own| own.per_point),
    };
    low.reshape(tensor, &[merged(before), merged(after)])
}

/// Without axes of length 1.
pub fn squeeze(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let single = low.file.points == Some(1);
    let sizes = tensor.shape.sizes();
    let is_one = |size: &Size| size.number == 1 && (!size.per_point || single);
    let gone: Vec<usize> = match call.integers(1, "axes")? {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, sizes.len())).collect::<Step<_>>()?,
        None => (0..sizes.len()).filter(|axis| sizes.get(*axis).is_some_and(is_one)).collect(),
    };
    if gone.iter().any(|axis| !sizes.get(*axis).is_some_and(is_one)) {
        return refuse("it leaves out an axis that is longer than 1");
    }
    let kept = sizes.iter().enumerate().filter(|(axis, _)| !gone.contains(axis));
    let kept: Vec<Size> = kept.map(|(_, size)| *size).collect();
    low.reshape(tensor, &kept)
}

/// With more axes of length 1.
pub fn unsqueeze(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let axes = call.integers(1, "axes")?.ok_or("it names no axes")?;
    let rank = tensor.shape.rank() + axes.len();
    let new: Vec<usize> = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Step<_>>()?;
    let mut own = tensor.shape.sizes().into_iter();
    let size = |axis: usize| if new.contains(&axis) { Some(Size::from(1)) } else { own.next() };
    let sizes: Option<Vec<Size>> = (0..rank).map(size).collect();
    low.reshape(tensor, &sizes.ok_or("it names an axis twice")?)
}

/// The axes in another order.
pub fn transpose(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let rank = tensor.shape.rank();
    let axes: Vec<usize> = match call.node.ints("perm") {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Step<_>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    match sorted.iter().copied().eq(0..rank) {
        true => low.transpose(tensor, &axes),
        false => refuse(format!("its axes {axes:?} are not those of a tensor with {rank}")),
    }
}

/// Entries from a first to a last in steps, along axes.
pub fn slice(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let bounds = |place: usize, name: &str| -> Step<Option<Vec<Size>>> {
        match call.optional(place) {
            Some(list) => sizes(list).map(Some),
            None => Ok(call.node.ints(name).map(|list| list.into_iter().map(Size::from).collect())),
        }
    };
    let starts = bounds(1, "starts")?.ok_or("it has no starts")?;
    let ends = bounds(2, "ends")?.ok_or("it has no ends")?;
    let axes = call.integers(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.integers(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut lists = vec![None; tensor.shape.rank()];
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let axis = axis_of(*axis, tensor.shape.rank())?;
        let length = tensor.shape.length(axis) as i64;
        if tensor.shape.holds_points(axis) {
            // Up to the end, whatever the number of points.
            let whole =
                start.number == 0 && *step == 1 && (end.number == i64::MAX || end.per_point && end.number == length);
            let known = low.file.points.and_then(|count| length.checked_mul(count as i64));
            let whole = whole || start.number == 0 && *step == 1 && known.is_some_and(|known| end.number >= known);
            match whole || start.number == 0 && *step == 1 && end.number >= i64::from(i32::MAX) {
                true => continue,
                false => return refuse("it selects some of the points"),
            }
        }
        if start.per_point || end.per_point {
            return refuse("it selects entries by the number of points");
        }
        if let Some(list) = lists.get_mut(axis) {
            *list = Some(range(start.number, end.number, *step, length)?);
        }
    }
    low.pick(tensor, &lists, 0.0)
}

/// The places from a start to an end in steps.
fn range(start: i64, end: i64, step: i64, length: i64) -> Step<Vec<Option<usize>>> {
    let from_end = |bound: i64| if bound < 0 { bound.saturating_add(length) } else { bound };
    let (start, end) = match step {
        1.. => (from_end(start).clamp(0, length), from_end(end).clamp(0, length)),
        ..0 => (from_end(start).clamp(-1, length - 1), from_end(end).clamp(-1, length - 1)),
        0 => return refuse("it has steps of zero"),
    };
    let places = std::iter::successors(Some(start), |place| place.checked_add(step));
    let inside = places.take_while(|place| if step > 0 { *place < end } else { *place > end });
    Ok(inside.map(|place| usize::try_from(place).ok()).collect())
}

/// Parts along an axis.
pub fn split(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Vec<Tensor>> {
    let tensor = call.input(0)?;
    let axis = tensor.shape.axis(call.node.int("axis").unwrap_or(0))?;
    let (length, count) = (tensor.shape.length(axis), call.node.output.len().max(1));
    let lengths: Vec<usize> = match call.integers(1, "split")? {
        Some(lengths) => lengths.iter().map(|length| usize::try_from(*length).unwrap_or(0)).collect(),
        None => {
            let part = length.div_ceil(count);
            (0..count).map(|place| part.min(length.saturating_sub(place * part))).collect()
        }
    };
    if lengths.iter().fold(0_usize, |sum, part| sum.saturating_add(*part)) != length {
        return refuse(format!("its parts {lengths:?} do not add up to {length}"));
    }
    let mut start = 0;
    let mut next = |part: usize| {
        start += part;
        low.part(tensor, axis, start - part..start)
    };
    lengths.into_iter().map(&mut next).collect()
}

/// Tensors joined along an axis.
pub fn concat(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let parts = call.all();
    let axis = call.node.int("axis").ok_or("it names no axis")?;
    join(low, &parts, axis)
}

/// The same for any list of tensors.
pub fn join(low: &mut Lowering<'_>, parts: &[Tensor], axis: i64) -> Step<Tensor> {
    let Some(first) = parts.first() else { return refuse("it joins nothing") };
    if parts.iter().any(|part| part.shape.rank() != first.shape.rank()) {
        return refuse("it joins tensors with different numbers of axes");
    }
    let axis = axis_of(axis, first.shape.rank())?;
    // Lengths along the axis may differ; everything else must be the same, the points included.
    let flat: Vec<Tensor> = parts.iter().map(|part| template(&part.shape, axis)).collect();
    let (shape, _) = low.join(&flat.iter().collect::<Vec<_>>())?;
    shape.axis(axis as i64)?;
    let mut fitted = Vec::with_capacity(parts.len());
    for part in parts {
        let own = low.beside(part, &shape, axis)?;
        if own.shape.lengths != shape.with_length(axis, own.shape.length(axis)).lengths {
            return refuse(format!("it joins tensors of shapes {:?} and {:?}", shape.lengths, own.shape.lengths));
        }
        fitted.push(own);
    }
    let total = fitted.iter().map(|part| part.shape.length(axis)).fold(0, usize::saturating_add);
    let shape = shape.with_length(axis, total);
    low.budget.spend(shape.size().saturating_mul(4))?;
    let constants: Option<Vec<&Constant>> = fitted.iter().map(Tensor::as_constant).collect();
    let parameters: Option<Vec<&Indices>> = fitted.iter().map(Tensor::as_parameter).collect();
    let content = match (constants, parameters) {
        (Some(constants), _) => {
            let flags = constants.iter().flat_map(|own| (0..own.values.len()).map(|place| own.is_per_point(place)));
            Content::Constant(Constant {
                values: constants.iter().flat_map(|own| own.values.iter().copied()).collect(),
                whole: constants.iter().all(|own| own.whole),
                per_point: Some(flags.collect()),
            })
        }
        (_, Some(parameters)) => {
            Content::Parameter(parameters.iter().flat_map(|own| own.iter()).collect::<Vec<usize>>().into())
        }
        _ => {
            let values = fitted.iter().map(|part| low.value(part)).collect::<Step<Vec<_>>>()?;
            let kind = |part: &Tensor| if let Content::Data(_, own) = part.content { own } else { Origin::Computed };
            let origin = fitted.first().map(kind).filter(|own| fitted.iter().all(|part| kind(part) == *own));
            let value = low.graph.concat(&values, axis)?;
            return Ok(Tensor { shape, content: Content::Data(value, origin.unwrap_or(Origin::Computed)) });
        }
    };
    // Of all entries one after the other, blocks of the parts in turn for every index of the axes before.
    let outer = product(shape.lengths.get(..axis).unwrap_or_default()).unwrap_or(0);
    let mut places = Vec::with_capacity(shape.size());
    for block in 0..outer {
        let mut start = 0;
        for size in fitted.iter().map(|part| part.shape.size()) {
            let length = size / outer;
            places.extend((start + block * length..start + (block + 1) * length).map(Some));
            start += size;
        }
    }
    let flat = Tensor { shape: Shape::still(vec![places.len()]), content };
    low.entries(&flat, shape, &places, 0.0)
}

/// Something without values, with the lengths of all axes but one.
fn template(shape: &Shape, axis: usize) -> Tensor {
    Tensor { shape: shape.with_length(axis, 1), content: Content::Constant(Constant::real(Vec::new())) }
}

impl Lowering<'_> {
    /// A part that is the same at every point, in the shape that it has beside others.
    fn beside(&mut self, part: &Tensor, shape: &Shape, axis: usize) -> Step<Tensor> {
        let (None, Some(points)) = (part.shape.points, shape.points) else { return Ok(part.clone()) };
        let (_, fitted) = self.join(&[part, &template(shape, axis)])?;
        let own = fitted.into_iter().next().unwrap_or_else(|| part.clone());
        self.spread(&own, points)
    }

    /// What is the same at every point, along an axis of the points.
    fn spread(&mut self, tensor: &Tensor, points: Points) -> Step<Tensor> {
        let spread = match tensor.shape.length(points.axis) {
            1 => self.along(tensor, points.axis, vec![Some(0); points.before * points.after])?,
            _ => tensor.clone(),
        };
        Ok(Tensor { shape: Shape { points: Some(points), ..spread.shape }, content: spread.content })
    }
}

/// Axes of length 1 repeated to another length.
pub fn expand(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (tensor, target) = (call.input(0)?, sizes(call.input(1)?)?);
    let rank = tensor.shape.rank().max(target.len());
    let mut own = vec![Size::from(1); rank - tensor.shape.rank()];
    own.extend(tensor.shape.sizes());
    let tensor = low.reshape(tensor, &own)?;
    let mut lists = vec![None; rank];
    let mut points = None;
    for (place, size) in target.iter().enumerate() {
        let axis = rank - target.len() + place;
        let length = tensor.shape.length(axis);
        let count = low.file.points.and_then(|count| i64::try_from(count).ok());
        let written = count.and_then(|count| size.number.checked_mul(if size.per_point { count } else { 1 }));
        if tensor.shape.holds_points(axis) {
            let all = count.and_then(|count| count.checked_mul(length as i64));
            let whole = size.per_point && size.number == length as i64 || all.is_some() && written == all;
            match whole || size.number == 1 && !size.per_point {
                true => continue,
                false => return refuse("it repeats points"),
            }
        }
        if size.number == 1 && !size.per_point {
            continue;
        }
        if size.per_point {
            if written == Some(length as i64) && length > 1 {
                // Written out already, for the only number of points that the graph is for.
                continue;
            }
            if size.number != 1 || length != 1 {
                return refuse("it repeats values for points that are joined with another axis");
            }
            points = Some(Points { axis, before: 1, after: 1 });
            continue;
        }
        let count = usize::try_from(size.number).ok().filter(|count| length == 1 || length == *count);
        let count = count.ok_or_else(|| format!("it cannot repeat {length} values to {}", size.number))?;
        low.budget.spend(count)?;
        if let Some(list) = lists.get_mut(axis) {
            *list = Some((0..count).map(|place| Some(if length == 1 { 0 } else { place })).collect());
        }
    }
    let expanded = low.pick(&tensor, &lists, 0.0)?;
    match points {
        None => Ok(expanded),
        Some(_) if expanded.shape.points.is_some() => refuse("it repeats points for points"),
        Some(points) => low.spread(&expanded, points),
    }
}

/// The whole tensor several times.
pub fn tile(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (tensor, repeats) = (call.input(0)?, sizes(call.input(1)?)?);
    let mut lists = vec![None; tensor.shape.rank()];
    let mut points = None;
    for (axis, (list, repeat)) in lists.iter_mut().zip(&repeats).enumerate() {
        let length = tensor.shape.length(axis);
        if repeat.per_point && repeat.number == 1 && length == 1 && tensor.shape.points.is_none() {
            points = Some(Points { axis, before: 1, after: 1 });
            continue;
        }
        let count = usize::try_from(repeat.number).ok().filter(|_| !repeat.per_point);
        let count = count.filter(|count| *count == 1 || !tensor.shape.holds_points(axis));
        let count = count.ok_or("it repeats points")?;
        low.budget.spend(length.saturating_mul(count))?;
        *list = (count != 1).then(|| (0..length * count).map(|place| Some(place % length.max(1))).collect());
    }
    let tiled = low.pick(tensor, &lists, 0.0)?;
    points.map_or(Ok(tiled.clone()), |points| low.spread(&tiled, points))
}

/// More entries around those that are there: a number, the nearest, or reflected ones.
pub fn pad(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let pads = call.integers(1, "pads")?.ok_or("it has no pads")?;
    let rank = tensor.shape.rank();
    let axes: Vec<usize> = match call.integers(3, "axes")? {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Step<_>>()?,
        None => (0..rank).collect(),
    };
    let fill = match call.optional(2) {
        Some(value) => low.constant(value)?.values.first().copied().unwrap_or(0.0),
        None => call.node.float("value").unwrap_or(0.0),
    };
    let mode = call.node.word("mode");
    let (before, after) = pads.split_at_checked(axes.len()).ok_or("it has too few pads")?;
    let mut lists = vec![None; rank];
    for ((axis, before), after) in axes.iter().zip(before).zip(after) {
        if (*before, *after) == (0, 0) {
            continue;
        }
        let axis = tensor.shape.axis(*axis as i64)?;
        let length = tensor.shape.length(axis) as i64;
        let total = length.saturating_add(*before).saturating_add(*after);
        let total = usize::try_from(total).ok().filter(|_| *before > i64::MIN);
        low.budget.spend(total.ok_or_else(|| format!("its pads leave nothing of an axis of length {length}"))?)?;
        let place = |place: i64| match mode.as_str() {
            "edge" => Some(place.clamp(0, length - 1)),
            "wrap" => Some(place.rem_euclid(length.max(1))),
            "reflect" => {
                let period = (2 * (length - 1)).max(1);
                let folded = place.rem_euclid(period);
                Some(folded.min(period - folded))
            }
            _ => (0..length).contains(&place).then_some(place),
        };
        if let Some(list) = lists.get_mut(axis) {
            let places = (-*before..length.saturating_add(*after)).map(place);
            *list = Some(places.map(|place| place.and_then(|place| usize::try_from(place).ok())).collect());
        }
    }
    low.pick(tensor, &lists, fill)
}

/// Channels to pixels and back.
pub fn depth_and_space(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let tensor = call.input(0)?;
    let sizes = tensor.shape.sizes();
    let [points, channels, height, width] = sizes[..] else { return refuse("it needs an image") };
    let block = call.node.int("blocksize").filter(|block| *block > 0).ok_or("it has no block size")?;
    let (of, square) = (|number: i64| Size::from(number), block.saturating_mul(block));
    let (few, many) = (of(channels.number / square), of(channels.number.saturating_mul(square)));
    let large = [height, width].map(|size| of(size.number.saturating_mul(block)));
    let small = [height, width].map(|size| of(size.number / block));
    let (split, axes, joined) = match (call.node.op_type.as_str(), call.node.word("mode").as_str()) {
        ("SpaceToDepth", _) => (
            [points, channels, small[0], of(block), small[1], of(block)],
            [0, 3, 5, 1, 2, 4],
            [points, many, small[0], small[1]],
        ),
        (_, "CRD") => {
            ([points, few, of(block), of(block), height, width], [0, 1, 4, 2, 5, 3], [points, few, large[0], large[1]])
        }
        _ => {
            ([points, of(block), of(block), few, height, width], [0, 3, 4, 1, 5, 2], [points, few, large[0], large[1]])
        }
    };
    let split = low.reshape(tensor, &split)?;
    let moved = low.transpose(&split, &axes)?;
    low.reshape(&moved, &joined)
}
