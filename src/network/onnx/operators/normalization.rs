//! Normalisations, and the affine maps after them.

use crate::network::graph::Function;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Constant, Content, Shape, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

use super::reductions::over;

fn epsilon(call: &Call<'_>) -> f64 {
    call.node.decimal("epsilon", 1e-5)
}

/// γ h + β.
fn affine(low: &mut Lowering<'_>, data: &Tensor, scale: Option<&Tensor>, shift: Option<&Tensor>) -> Step<Tensor> {
    let parameter = |tensor: &Tensor| matches!(tensor.content, Content::Parameter(_));
    if let (Some(scale), Some(shift)) = (scale.filter(|own| parameter(own)), shift.filter(|own| parameter(own))) {
        let value = low.value(data)?;
        let (scale, shift) = (low.view(scale, Role::Scale, None)?, low.view(shift, Role::Shift, None)?);
        let result = low.graph.scale_shift(value, scale.as_ref(), shift.as_ref())?;
        return Ok(low.data(result, data.shape.clone()));
    }
    let scaled = scale.map(|scale| low.product(data, scale)).transpose()?.unwrap_or_else(|| data.clone());
    shift.map(|shift| low.sum((&scaled, 1.0), (shift, 1.0))).transpose().map(|shifted| shifted.unwrap_or(scaled))
}

/// One number for each channel, as a tensor that broadcasts to `[points, channels, …]`.
fn per_channel(low: &mut Lowering<'_>, tensor: &Tensor, shape: &Shape) -> Step<Tensor> {
    let channels = shape.length(1);
    if tensor.shape.size() != channels {
        return refuse(format!("it has {} numbers for {channels} channels", tensor.shape.size()));
    }
    let mut sizes = vec![Size::from(1); shape.rank().saturating_sub(1)];
    if let Some(first) = sizes.first_mut() {
        first.number = channels as i64;
    }
    low.reshape(tensor, &sizes)
}

/// With constant means and variances for each channel.
pub fn batch(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    if call.node.int("training_mode") == Some(1) {
        return refuse("it is in training mode; export the network in evaluation mode");
    }
    let data = call.input(0)?;
    data.shape.axis(1)?;
    let (mean, variance) = (low.constant(call.input(3)?)?, low.constant(call.input(4)?)?);
    let inverse = |variance: &f64| 1.0 / (variance + epsilon(call)).sqrt();
    let factors: Vec<f64> = variance.values.iter().map(inverse).collect();
    let offsets: Vec<f64> = factors.iter().zip(mean.values.iter()).map(|(factor, mean)| -factor * mean).collect();
    let list = |values: Vec<f64>| Tensor::constant(vec![values.len()], Constant::real(values));
    let (factors, offsets) = (per_channel(low, &list(factors), &data.shape)?, per_channel(low, &list(offsets), &data.shape)?);
    let (low_factors, low_offsets) = (low.constant(&factors)?, low.constant(&offsets)?);
    low.budget.spend(data.shape.size().saturating_mul(4))?;
    let value = low.value(data)?;
    let lengths = &factors.shape.lengths;
    let value = low.graph.affine_constant(value, lengths, Some(&low_factors.values), Some(&low_offsets.values))?;
    let centred = low.data(value, data.shape.clone());
    let (scale, shift) = (per_channel(low, call.input(1)?, &data.shape)?, per_channel(low, call.input(2)?, &data.shape)?);
    affine(low, &centred, Some(&scale), Some(&shift))
}

/// Over the last axes, with or without the mean.
pub fn layer(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let data = call.input(0)?;
    let first = data.shape.axis(call.node.int("axis").unwrap_or(-1))?;
    if call.node.output.iter().skip(1).any(|name| !name.is_empty()) {
        return refuse("its means and deviations are used as well, which is not supported");
    }
    let sizes = data.shape.sizes();
    let (before, over) = sizes.split_at_checked(first).unwrap_or_default();
    if over.iter().any(|size| size.per_point) {
        return refuse("it normalises over the points");
    }
    let width = over.iter().map(|size| size.number).product::<i64>();
    let flat = low.reshape(data, &[before, &[Size::from(width)]].concat())?;
    let normalised = normalise(low, &flat, epsilon(call), call.node.op_type == "LayerNormalization")?;
    let normalised = low.reshape(&normalised, &sizes)?;
    affine(low, &normalised, call.optional(1), call.optional(2))
}

fn normalise(low: &mut Lowering<'_>, data: &Tensor, epsilon: f64, centred: bool) -> Step<Tensor> {
    low.budget.spend(data.shape.size().saturating_mul(16))?;
    let value = low.value(data)?;
    let value = match centred {
        true => low.graph.normalize(value, epsilon)?,
        false => low.graph.normalize_rms(value, epsilon)?,
    };
    Ok(low.data(value, data.shape.clone()))
}

/// Over groups of channels, or each channel.
pub fn group(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let data = call.input(0)?;
    let sizes = data.shape.sizes();
    let channels = data.shape.length(data.shape.axis(1)?);
    let instance = call.node.op_type == "InstanceNormalization";
    let groups = match instance {
        true => channels,
        false => usize::try_from(call.node.int("num_groups").unwrap_or(0)).unwrap_or(0),
    };
    if groups == 0 || channels % groups != 0 || sizes.iter().skip(1).any(|size| size.per_point) {
        return refuse(format!("{groups} groups do not divide {channels} channels"));
    }
    let rest = data.shape.lengths.iter().skip(1).product::<usize>() / groups;
    let first = sizes.first().copied().ok_or("it needs channels")?;
    let flat = low.reshape(data, &[first, Size::from(groups as i64), Size::from(rest as i64)])?;
    let normalised = normalise(low, &flat, epsilon(call), true)?;
    let normalised = low.reshape(&normalised, &sizes)?;
    let (scale, shift) = (call.input(1)?, call.input(2)?);
    // Ones and zeros are what exporters write for a normalisation without parameters.
    let uniform = |tensor: &Tensor, value: f64| -> Step<bool> {
        Ok(low.constant(tensor)?.values.iter().all(|own| *own == value))
    };
    if instance && low.file.marks.is_none() && uniform(scale, 1.0).unwrap_or(false) && uniform(shift, 0.0).unwrap_or(false) {
        return Ok(normalised);
    }
    let mut spread = |tensor: &Tensor| -> Step<Tensor> {
        if tensor.shape.size() == channels {
            return per_channel(low, tensor, &data.shape);
        }
        // In version 18 there was one number for each group.
        let (own, each) = (tensor.shape.size(), channels / groups);
        let list: Vec<Option<usize>> = (0..channels).map(|channel| Some(channel / each).filter(|g| *g < own)).collect();
        let wide = low.pick(tensor, &[Some(list)], 0.0)?;
        per_channel(low, &wide, &data.shape)
    };
    let (scale, shift) = (spread(scale)?, spread(shift)?);
    affine(low, &normalised, Some(&scale), Some(&shift))
}

/// h/‖h‖ over an axis.
pub fn unit_length(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let data = call.input(0)?;
    let axis = data.shape.axis(call.node.int("axis").unwrap_or(-1))?;
    let norm = if call.node.int("p") == Some(1) { "ReduceL1" } else { "ReduceL2" };
    let length = over(low, norm, data, &[axis])?;
    let inverse = low.apply(&length, Function::Reciprocal)?;
    low.product(data, &inverse)
}

/// (x − offset)·scale, as scikit-learn scales its inputs.
pub fn scaler(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let list = |name: &str, default: f64| {
        let values = call.node.floats(name).unwrap_or_else(|| vec![default]);
        Tensor::constant(vec![values.len()], Constant::real(values))
    };
    let centred = low.sum((call.input(0)?, 1.0), (&list("offset", 0.0), -1.0))?;
    low.product(&centred, &list("scale", 1.0))
}
