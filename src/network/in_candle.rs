//! Every layer in operations that candle can differentiate, for training. Inputs and outputs are matrices with one row
//! per point, as in the rest of the crate.

use candle_core::{Module, Result, Tensor};

use super::layer::Layer;
use super::layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, LayerNorm, MaxPool2d, Pooling, Smoothed,
    SmoothedMaxPool2d, Window,
};
use super::{Activation, Linear};

/// The outputs of a sequence of layers, which takes its tensors of parameters from `tensors`, in the order of θ.
pub(super) fn forward<'a>(
    layers: &[Layer],
    tensors: &mut impl Iterator<Item = &'a Tensor>,
    inputs: &Tensor,
) -> Result<Tensor> {
    let mut hidden = inputs.clone();
    for layer in layers {
        hidden = match layer {
            Layer::Linear(layer) => linear(layer, tensors, &hidden)?,
            Layer::Activation(activation) => activate(*activation, &hidden)?,
            Layer::Smoothed(layer) => smoothed(layer, &hidden)?,
            Layer::Conv2d(layer) => convolve(layer, tensors, &hidden)?,
            Layer::AvgPool2d(layer) => average(layer, &hidden)?,
            Layer::MaxPool2d(layer) => largest(layer, &hidden)?,
            Layer::SmoothedMaxPool2d(layer) => rounded_largest(layer, &hidden)?,
            Layer::GlobalAvgPool(GlobalAvgPool { input }) => {
                hidden.reshape((hidden.dim(0)?, input.channels, input.pixels()))?.mean(2)?
            }
            Layer::Flatten | Layer::Dropout => hidden,
            Layer::LayerNorm(layer) => layer_norm(layer, tensors, &hidden)?,
            Layer::GroupNorm(layer) => group_norm(layer, tensors, &hidden)?,
            Layer::BatchNorm(layer) => batch_norm(layer, tensors, &hidden)?,
            Layer::Residual(block) => {
                let body = forward(block.body(), tensors, &hidden)?;
                body.add(&forward(block.shortcut(), tensors, &hidden)?)?
            }
        };
    }
    Ok(hidden)
}

/// The next tensor of parameters, if the layer has it.
fn next<'a>(tensors: &mut impl Iterator<Item = &'a Tensor>, wanted: bool) -> Result<Option<Tensor>> {
    if !wanted {
        return Ok(None);
    }
    match tensors.next() {
        Some(tensor) => Ok(Some(tensor.clone())),
        None => candle_core::bail!("the network has fewer tensors than its layers need"),
    }
}

/// The next tensor of parameters.
fn weights<'a>(tensors: &mut impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
    match next(tensors, true)? {
        Some(tensor) => Ok(tensor),
        None => candle_core::bail!("the network has fewer tensors than its layers need"),
    }
}

fn linear<'a>(layer: &Linear, tensors: &mut impl Iterator<Item = &'a Tensor>, hidden: &Tensor) -> Result<Tensor> {
    let (weight, bias) = (weights(tensors)?, next(tensors, layer.bias)?);
    candle_nn::Linear::new(weight, bias).forward(hidden)
}

/// The rows of a matrix as images.
fn as_images(hidden: &Tensor, image: Image) -> Result<Tensor> {
    hidden.reshape((hidden.dim(0)?, image.channels, image.height, image.width))
}

fn convolve<'a>(layer: &Conv2d, tensors: &mut impl Iterator<Item = &'a Tensor>, hidden: &Tensor) -> Result<Tensor> {
    let (weight, bias) = (weights(tensors)?, next(tensors, layer.bias)?);
    let Conv2d { stride, padding, dilation, groups, .. } = *layer;
    let images = as_images(hidden, layer.input)?;
    let same = |pair: [usize; 2]| pair[0] == pair[1];
    let outputs = if same(stride) && same(dilation) && same(padding) {
        images.conv2d(&weight, padding[0], stride[0], dilation[0], groups)?
    } else {
        convolve_by_patches(layer, &weight, hidden)?
    };
    let outputs = match bias {
        Some(bias) => outputs.broadcast_add(&bias.reshape((1, layer.outputs, 1, 1))?)?,
        None => outputs,
    };
    outputs.flatten_from(1)
}

/// A convolution whose axes have different strides, which candle does not have: patches times weights.
fn convolve_by_patches(layer: &Conv2d, weight: &Tensor, hidden: &Tensor) -> Result<Tensor> {
    let (points, output, length) = (hidden.dim(0)?, layer.output(), layer.patch_length());
    let below = below_window(&layer.window(), layer.input, hidden, 0.0)?;
    // [point, group, channel, position, tap] → [point, group, position, channel, tap].
    let (positions, taps) = (layer.positions(), layer.window().taps());
    let shape = vec![points, layer.groups, layer.input.channels / layer.groups, positions, taps];
    let patches = below.reshape(shape)?.transpose(2, 3)?.contiguous()?;
    let patches = patches.reshape((points, layer.groups, positions, length))?;
    let weights = weight.reshape((layer.groups, layer.outputs / layer.groups, length))?;
    let weights = weights.transpose(1, 2)?.contiguous()?;
    let mut outputs = Vec::with_capacity(layer.groups);
    for group in 0..layer.groups {
        let patches = patches.narrow(1, group, 1)?.squeeze(1)?.contiguous()?;
        outputs.push(patches.broadcast_matmul(&weights.get(group)?)?.transpose(1, 2)?);
    }
    Tensor::cat(&outputs, 1)?.reshape((points, output.channels, output.height, output.width))
}

/// The values below every tap of a window, [point, channel · positions · taps]; `padding` where there is none.
fn below_window(window: &Window, image: Image, hidden: &Tensor, padding: f64) -> Result<Tensor> {
    let (points, size, pixels) = (hidden.dim(0)?, image.size(), image.pixels());
    let frame = Tensor::full(padding, (points, 1), hidden.device())?.to_dtype(hidden.dtype())?;
    let mut columns = Vec::with_capacity(image.channels * window.positions() * window.taps());
    for channel in 0..image.channels {
        for position in 0..window.positions() {
            let column = |tap| window.pixel(position, tap).map_or(size, |pixel| channel * pixels + pixel) as u32;
            columns.extend((0..window.taps()).map(column));
        }
    }
    let columns = Tensor::new(columns, hidden.device())?;
    Tensor::cat(&[hidden, &frame], 1)?.contiguous()?.index_select(&columns, 1)
}

/// Average pooling as a product with the matrix of its factors.
fn average(layer: &AvgPool2d, hidden: &Tensor) -> Result<Tensor> {
    let (points, image) = (hidden.dim(0)?, layer.input);
    let (pixels, positions) = (image.pixels(), layer.output().pixels());
    let mut factors = vec![0.0; pixels * positions];
    layer.for_each_in_channel(|position, pixel, factor| factors[pixel * positions + position] = factor);
    let factors = Tensor::from_vec(factors, (pixels, positions), hidden.device())?.to_dtype(hidden.dtype())?;
    hidden.reshape((points * image.channels, pixels))?.matmul(&factors)?.reshape((points, image.channels * positions))
}

fn largest(layer: &MaxPool2d, hidden: &Tensor) -> Result<Tensor> {
    let below = below_window(&layer.window(), layer.input, hidden, f64::NEG_INFINITY)?;
    below.reshape((hidden.dim(0)?, layer.output().size(), layer.window().taps()))?.max(2)
}

/// a + (b − a)Φ((b − a)/ε) over the taps of every window in turn.
fn rounded_largest(layer: &SmoothedMaxPool2d, hidden: &Tensor) -> Result<Tensor> {
    let mut widths = layer.widths().iter();
    let mut outputs = Vec::with_capacity(layer.below().len());
    for columns in layer.below() {
        let mut largest: Option<Tensor> = None;
        for column in columns {
            let value = hidden.narrow(1, *column, 1)?;
            largest = Some(match (largest, &mut widths) {
                (None, _) => value,
                (Some(before), widths) => {
                    let difference = (value - &before)?;
                    let width = widths.next().copied().unwrap_or(1.0) * std::f64::consts::SQRT_2;
                    let probability = (((&difference / width)?.erf()? + 1.0)? * 0.5)?;
                    (before + (difference * probability)?)?
                }
            });
        }
        outputs.extend(largest);
    }
    Tensor::cat(&outputs, 1)
}

/// Values of the last axis, centred and divided by √(variance + ε).
fn normalize(values: &Tensor, eps: f64) -> Result<Tensor> {
    let last = values.rank() - 1;
    let centred = values.broadcast_sub(&values.mean_keepdim(last)?)?;
    let variance = centred.sqr()?.mean_keepdim(last)?;
    centred.broadcast_div(&(variance + eps)?.sqrt()?)
}

/// γ x̂ + β with parameters along the second of the axes [point, parameter, rest].
fn scale_shift<'a>(
    tensors: &mut impl Iterator<Item = &'a Tensor>,
    (scale, shift): (bool, bool),
    normalized: Tensor,
) -> Result<Tensor> {
    let (scale, shift) = (next(tensors, scale)?, next(tensors, shift)?);
    let along = |parameter: Tensor| parameter.reshape((1, parameter.elem_count(), 1));
    let scaled = match scale {
        Some(scale) => normalized.broadcast_mul(&along(scale)?)?,
        None => normalized,
    };
    match shift {
        Some(shift) => scaled.broadcast_add(&along(shift)?),
        None => Ok(scaled),
    }
}

fn layer_norm<'a>(
    layer: &LayerNorm,
    tensors: &mut impl Iterator<Item = &'a Tensor>,
    hidden: &Tensor,
) -> Result<Tensor> {
    let (points, size) = (hidden.dim(0)?, layer.size());
    let vectors = points * (layer.inputs / size);
    let normalized = normalize(&hidden.reshape((vectors, size))?, layer.eps)?;
    let parameters = (layer.weight, layer.bias);
    scale_shift(tensors, parameters, normalized.reshape((vectors, size, 1))?)?.reshape((points, layer.inputs))
}

fn group_norm<'a>(
    layer: &GroupNorm,
    tensors: &mut impl Iterator<Item = &'a Tensor>,
    hidden: &Tensor,
) -> Result<Tensor> {
    let (points, image) = (hidden.dim(0)?, layer.input);
    let normalized = normalize(&hidden.reshape((points, layer.groups, image.size() / layer.groups))?, layer.eps)?;
    let channels = normalized.reshape((points, image.channels, image.pixels()))?;
    scale_shift(tensors, (layer.weight, layer.bias), channels)?.reshape((points, image.size()))
}

fn batch_norm<'a>(
    layer: &BatchNorm,
    tensors: &mut impl Iterator<Item = &'a Tensor>,
    hidden: &Tensor,
) -> Result<Tensor> {
    let (points, image) = (hidden.dim(0)?, layer.input);
    let constant = |values: Vec<f64>| -> Result<Tensor> {
        Tensor::from_vec(values, (1, image.channels, 1), hidden.device())?.to_dtype(hidden.dtype())
    };
    let roots = layer.variance.iter().map(|variance| (variance + layer.eps).sqrt()).collect();
    let channels = hidden.reshape((points, image.channels, image.pixels()))?;
    let normalized = channels.broadcast_sub(&constant(layer.mean.clone())?)?.broadcast_div(&constant(roots)?)?;
    scale_shift(tensors, (layer.weight, layer.bias), normalized)?.reshape((points, image.size()))
}

/// l(z)Φ(−z/ε) + r(z)Φ(z/ε), with the branches l and r of the activation.
fn smoothed(layer: &Smoothed, z: &Tensor) -> Result<Tensor> {
    let widths = Tensor::from_slice(layer.widths(), layer.widths().len(), z.device())?.to_dtype(z.dtype())?;
    let probability = (((z.broadcast_div(&widths)? / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?;
    let left = match layer.activation().slope_left_of_hinge() {
        Some(slope) => (z * slope)?,
        // Further right Φ(−z/ε) is zero, and eᶻ might be infinite.
        None => (z.broadcast_minimum(&(widths * 39.0)?)?.exp()? - 1.0)?,
    };
    (z * &probability)? + (left * (1.0 - probability)?)?
}

/// φ on a tensor, in operations candle can differentiate.
fn activate(activation: Activation, z: &Tensor) -> Result<Tensor> {
    match activation {
        Activation::Identity => Ok(z.clone()),
        Activation::Tanh => z.tanh(),
        Activation::Relu => z.relu(),
        Activation::Sigmoid => candle_nn::ops::sigmoid(z),
        // log(1 + eᶻ) = max(z, 0) + log(1 + e^(−|z|)): exact for both tails.
        Activation::Softplus => z.relu()? + (z.abs()?.neg()?.exp()? + 1.0)?.log()?,
        Activation::Silu => z.silu(),
        // ½z(1 + erf(z/√2)) and z sigmoid(2√(2/π)(z + 0.044715 z³)), written out: the gradients of candle's own gelu
        // and gelu_erf use constants of six digits.
        Activation::Gelu => (z * 0.5)? * ((z / std::f64::consts::SQRT_2)?.erf()? + 1.0)?,
        Activation::GeluTanh => {
            let cubic = (((z.sqr()? * 0.044715)? + 1.0)? * z)?;
            z * candle_nn::ops::sigmoid(&(cubic * (2.0 * (2.0 / std::f64::consts::PI).sqrt()))?)?
        }
        Activation::Elu => z.elu(1.0),
        Activation::LeakyRelu => candle_nn::ops::leaky_relu(z, 0.01),
        Activation::Sin => z.sin(),
    }
}
