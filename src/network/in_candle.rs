//! A graph in operations that candle can differentiate, for training. Values are matrices with one row per point, as in the rest
//! of the crate.

use candle_core::{Module, Result, Tensor};

use super::Activation;
use super::graph::{Affine, Function, Graph, Indices, Kind, Rounded, Taps, Weight, Window, strided};

/// The outputs of a graph with these tensors of parameters, in the order of θ.
pub(super) fn forward(graph: &Graph, tensors: &[Tensor], inputs: &Tensor) -> Result<Tensor> {
    let theta = Theta { graph, tensors };
    let mut values: Vec<Tensor> = Vec::with_capacity(graph.nodes().len());
    for (index, node) in graph.nodes().iter().enumerate() {
        let input = |which: usize| -> Result<&Tensor> {
            let value = node.inputs.get(which).and_then(|input| values.get(*input));
            value.ok_or_else(|| candle_core::Error::Msg("a node without its input".to_string()))
        };
        let value = match &node.kind {
            Kind::Input(width) => inputs.narrow(1, graph.input_start(index), *width)?,
            Kind::Affine(affine) => self::affine(affine, &theta, input(0).ok(), inputs.dim(0)?)?,
            Kind::ScaleShift(scale_shift) => {
                let mut value = input(0)?.clone();
                if let Some(places) = &scale_shift.scale {
                    value = value.broadcast_mul(&theta.at(places)?)?;
                }
                match &scale_shift.shift {
                    Some(places) => value.broadcast_add(&theta.at(places)?)?,
                    None => value,
                }
            }
            Kind::Elementwise(function) => self::function(function, input(0)?)?,
            Kind::FixedLinear(fixed) => {
                let all: Vec<&Tensor> = (0..node.inputs.len()).map(input).collect::<Result<_>>()?;
                combine(&Tensor::cat(&all, 1)?, fixed.terms(), graph.width(index), fixed.offset())?
            }
            Kind::Bilinear(bilinear) => {
                let places = |steps: &[usize]| strided(&bilinear.sizes, steps);
                let left = select(input(0)?, &places(&bilinear.left))?;
                let products = (left * select(input(1)?, &places(&bilinear.right))?)?;
                let terms = places(&bilinear.out).into_iter().enumerate().map(|(entry, output)| (output, entry, 1.0));
                let mut terms: Vec<(usize, usize, f64)> = terms.collect();
                terms.sort_by_key(|term| term.0);
                combine(&products, terms.into_iter(), graph.width(index), None)?
            }
            Kind::Softmax(softmax) => {
                let value = input(0)?;
                let split = value.reshape((value.dim(0)?, softmax.outer, softmax.length, softmax.inner))?;
                candle_nn::ops::softmax(&split, 2)?.reshape(value.dims())?
            }
            Kind::OneHot(size) => {
                let value = input(0)?;
                let classes = Tensor::arange(0.0, *size as f64, value.device())?.to_dtype(value.dtype())?;
                let apart = value.unsqueeze(2)?.broadcast_sub(&classes)?;
                apart.eq(0.0)?.to_dtype(value.dtype())?.flatten_from(1)?
            }
            Kind::Custom(custom) => candle_core::bail!("{} cannot be trained with candle", custom.0.description()),
        };
        values.push(value);
    }
    match values.into_iter().nth(graph.output()) {
        Some(outputs) => Ok(outputs),
        None => candle_core::bail!("a graph without outputs"),
    }
}

/// The tensors of parameters.
struct Theta<'a> {
    graph: &'a Graph,
    tensors: &'a [Tensor],
}

impl Theta<'_> {
    /// Parameters by their places in θ, as a vector; all of them belong to one tensor.
    fn at(&self, places: &Indices) -> Result<Tensor> {
        let first = places.iter().next().unwrap_or(0);
        let own = self.graph.ranges().into_iter().zip(self.tensors).find(|(range, _)| range.contains(&first));
        let Some((range, tensor)) = own else { candle_core::bail!("a place beyond the parameters") };
        let flat = tensor.flatten_all()?;
        match places {
            Indices::Range(own) if *own == range => Ok(flat),
            _ => {
                let places: Vec<u32> = places.iter().map(|place| (place - range.start) as u32).collect();
                flat.index_select(&Tensor::new(places, flat.device())?, 0)
            }
        }
    }
}

fn affine(affine: &Affine, theta: &Theta<'_>, input: Option<&Tensor>, points: usize) -> Result<Tensor> {
    let bias = affine.bias.as_ref().map(|places| theta.at(places)).transpose()?;
    let (Some(weight), Some(input)) = (&affine.weight, input) else {
        return match bias {
            Some(bias) => bias.unsqueeze(0)?.broadcast_as((points, affine.outputs))?.contiguous(),
            None => candle_core::bail!("a node without parameters"),
        };
    };
    let weight = match weight {
        Weight::Parameters(places) => theta.at(places)?,
        Weight::Constants(constants) => Tensor::new(constants.as_slice(), input.device())?.to_dtype(input.dtype())?,
    };
    match &affine.taps {
        Taps::Blocks(1) => {
            candle_nn::Linear::new(weight.reshape((affine.outputs, affine.inputs))?, bias).forward(input)
        }
        Taps::Blocks(count) => {
            let blocks = input.reshape((points, *count, affine.inputs))?;
            let linear = candle_nn::Linear::new(weight.reshape((affine.outputs, affine.inputs))?, bias);
            linear.forward(&blocks)?.reshape((points, count * affine.outputs))
        }
        Taps::Windows { window, channels, groups } => {
            let outputs = convolve(affine, &weight, window, (*channels, *groups), input)?;
            let outputs = match bias {
                Some(bias) => outputs.broadcast_add(&bias.reshape((1, affine.outputs, 1))?)?,
                None => outputs,
            };
            outputs.flatten_from(1)
        }
    }
}

/// A convolution by candle where it has it, else as patches times weights: `[point, output, position]`.
fn convolve(
    affine: &Affine,
    weight: &Tensor,
    window: &Window,
    (channels, groups): (usize, usize),
    input: &Tensor,
) -> Result<Tensor> {
    let (points, positions, outputs) = (input.dim(0)?, window.positions(), affine.outputs);
    let Window { image, kernel, stride, padding, dilation, .. } = *window;
    let same = |[rows, columns]: [usize; 2]| rows == columns;
    let usual = *window == Window::new(image, kernel, stride, padding, dilation);
    if usual && same(stride) && same(dilation) && same(padding) {
        let images = input.reshape((points, channels, image[0], image[1]))?;
        let weight = weight.reshape((outputs, channels / groups, kernel[0], kernel[1]))?;
        return images
            .conv2d(&weight, padding[0], stride[0], dilation[0], groups)?
            .reshape((points, outputs, positions));
    }
    let (own, taps, pixels) = (channels / groups, window.taps(), window.pixels());
    let zeros = Tensor::zeros((points, 1), input.dtype(), input.device())?;
    let framed = Tensor::cat(&[input, &zeros], 1)?;
    let weights = weight.reshape((groups, outputs / groups, own * taps))?;
    let mut parts = Vec::with_capacity(groups);
    for group in 0..groups {
        let column = |position: usize, channel: usize, tap: usize| {
            window.pixel(position, tap).map_or(channels * pixels, |pixel| (group * own + channel) * pixels + pixel)
        };
        let places = (0..positions).flat_map(|p| (0..own).flat_map(move |c| (0..taps).map(move |t| (p, c, t))));
        let places: Vec<usize> = places.map(|(p, c, t)| column(p, c, t)).collect();
        let patches = select(&framed, &places)?.reshape((points, positions, own * taps))?;
        parts.push(patches.broadcast_matmul(&weights.get(group)?.t()?)?.transpose(1, 2)?);
    }
    Tensor::cat(&parts, 1)
}

/// Columns of a matrix.
fn select(values: &Tensor, columns: &[usize]) -> Result<Tensor> {
    let columns: Vec<u32> = columns.iter().map(|column| *column as u32).collect();
    values.contiguous()?.index_select(&Tensor::new(columns, values.device())?, 1)
}

/// Σ weight·column for each output, from terms (output, column, weight) in the order of the outputs.
fn combine(
    values: &Tensor,
    terms: impl Iterator<Item = (usize, usize, f64)>,
    width: usize,
    offset: Option<&[f64]>,
) -> Result<Tensor> {
    // One round takes at most one term of every output.
    let mut rounds: Vec<Vec<(usize, usize, f64)>> = Vec::new();
    let (mut last, mut round) = (usize::MAX, 0);
    for term in terms {
        round = if term.0 == last { round + 1 } else { 0 };
        last = term.0;
        if rounds.len() == round {
            rounds.push(Vec::new());
        }
        if let Some(round) = rounds.get_mut(round) {
            round.push(term);
        }
    }
    let constant = |numbers: Vec<f64>| Tensor::new(numbers, values.device())?.to_dtype(values.dtype());
    let mut sum = match offset {
        Some(offset) => constant(offset.to_vec())?.unsqueeze(0)?.broadcast_as((values.dim(0)?, width))?.contiguous()?,
        None => Tensor::zeros((values.dim(0)?, width), values.dtype(), values.device())?,
    };
    for terms in rounds {
        let (mut columns, mut weights) = (vec![0; width], vec![0.0; width]);
        for (output, column, weight) in terms {
            if let (Some(slot), Some(factor)) = (columns.get_mut(output), weights.get_mut(output)) {
                (*slot, *factor) = (column, weight);
            }
        }
        sum = (sum + select(values, &columns)?.broadcast_mul(&constant(weights)?)?)?;
    }
    Ok(sum)
}

fn function(function: &Function, z: &Tensor) -> Result<Tensor> {
    match function {
        Function::Activation(activation) => activate(*activation, z),
        Function::Exp => z.exp(),
        Function::Log => z.log(),
        Function::Sqrt => z.sqrt(),
        Function::Reciprocal => z.recip(),
        Function::Power(2.0) => z.sqr(),
        Function::Power(-0.5) => z.sqrt()?.recip(),
        Function::Power(exponent) => z.powf(*exponent),
        Function::Erf => z.erf(),
        Function::Cos => z.cos(),
        Function::Step => z.gt(0.0)?.to_dtype(z.dtype()),
        Function::Rounded(rounded) => smoothed(rounded, z),
        Function::Atan => candle_core::bail!("atan cannot be trained with candle"),
    }
}

/// l(z)Φ(−z/ε) + r(z)Φ(z/ε), with the branches l and r of the function.
fn smoothed(rounded: &Rounded, z: &Tensor) -> Result<Tensor> {
    let widths = Tensor::new(rounded.widths(), z.device())?.to_dtype(z.dtype())?;
    let probability = (((z.broadcast_div(&widths)? / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?;
    let left = match rounded.function() {
        Function::Step => return Ok(probability),
        // Further right Φ(−z/ε) is zero, and eᶻ might be infinite.
        Function::Activation(Activation::Elu) => (z.broadcast_minimum(&(widths * 39.0)?)?.exp()? - 1.0)?,
        Function::Activation(hinge) => (z * hinge.slope_left_of_hinge().unwrap_or(0.0))?,
        _ => candle_core::bail!("a function without a kink"),
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
