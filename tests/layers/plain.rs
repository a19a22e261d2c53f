//! Every layer's definition in plain loops at one point, and chains of image layers, normalisations and residual blocks.

use riemannian_laplace::{
    Activation, AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm, Linear, MaxPool2d,
    Residual,
};

use super::common::normal_vector;
use super::{linear, without_bias};

/// The outputs of a layer, which takes its parameters from the start of `rest`. Where the layer has pieces, `pieces`
/// gets the one that each of its values is on.
pub fn outputs(layer: &Layer, rest: &mut &[f64], h: &[f64], pieces: &mut Vec<usize>) -> Vec<f64> {
    match layer {
        Layer::Activation(activation) => {
            if matches!(activation, Activation::Relu | Activation::LeakyRelu | Activation::Elu) {
                pieces.extend(h.iter().map(|z| usize::from(*z > 0.0)));
            }
            h.iter().map(|z| activation.value(*z)).collect()
        }
        Layer::Linear(Linear { inputs, outputs, bias }) => {
            let (weights, biases) = (take(rest, inputs * outputs), take(rest, if *bias { *outputs } else { 0 }));
            let sum = |o: usize| (0..*inputs).map(|i| weights[o * inputs + i] * h[i]).sum::<f64>();
            (0..*outputs).map(|o| sum(o) + biases.get(o).copied().unwrap_or(0.0)).collect()
        }
        Layer::Conv2d(layer) => convolution(layer, rest, h),
        Layer::AvgPool2d(AvgPool2d { input, kernel, stride, padding, count_include_pad }) => {
            windows(*input, *kernel, *stride, *padding, |channel, pixels| {
                let sum: f64 = pixels.iter().map(|pixel| h[channel * input.pixels() + pixel]).sum();
                sum / if *count_include_pad { kernel[0] * kernel[1] } else { pixels.len() } as f64
            })
        }
        Layer::MaxPool2d(MaxPool2d { input, kernel, stride, padding }) => {
            windows(*input, *kernel, *stride, *padding, |channel, pixels| {
                let value = |pixel: &usize| h[channel * input.pixels() + pixel];
                let winner = pixels.iter().copied().reduce(|a, b| if value(&b) > value(&a) { b } else { a });
                let winner = winner.expect("a window over the image");
                pieces.push(winner);
                value(&winner)
            })
        }
        Layer::GlobalAvgPool(GlobalAvgPool { input }) => {
            h.chunks(input.pixels()).map(|channel| channel.iter().sum::<f64>() / channel.len() as f64).collect()
        }
        Layer::Flatten | Layer::Dropout => h.to_vec(),
        Layer::LayerNorm(layer) => {
            let size: usize = layer.shape.iter().product();
            let normalized = h.chunks(size).flat_map(|vector| standardized(vector, layer.eps)).collect();
            scaled(rest, (size, 1), (layer.weight, layer.bias), normalized)
        }
        Layer::GroupNorm(GroupNorm { input, groups, eps, weight, bias }) => {
            let normalized = h.chunks(input.size() / groups).flat_map(|group| standardized(group, *eps)).collect();
            scaled(rest, (input.channels, input.pixels()), (*weight, *bias), normalized)
        }
        Layer::BatchNorm(BatchNorm { input, mean, variance, eps, weight, bias }) => {
            let one = |j: usize| (h[j] - mean[j / input.pixels()]) / (variance[j / input.pixels()] + eps).sqrt();
            let normalized = (0..h.len()).map(one).collect();
            scaled(rest, (input.channels, input.pixels()), (*weight, *bias), normalized)
        }
        Layer::Residual(block) => {
            let (mut body, mut shortcut) = (h.to_vec(), h.to_vec());
            for layer in &block.body {
                body = outputs(layer, rest, &body, pieces);
            }
            for layer in &block.shortcut {
                shortcut = outputs(layer, rest, &shortcut, pieces);
            }
            body.iter().zip(&shortcut).map(|(a, b)| a + b).collect()
        }
        other => panic!("these tests do not know the layer {other}"),
    }
}

/// The first numbers of `rest`, which loses them.
fn take<'a>(rest: &mut &'a [f64], count: usize) -> &'a [f64] {
    let (first, others) = rest.split_at(count);
    *rest = others;
    first
}

/// Σ W(o, c, i, j) h(c, y·s + i·d − p, x·s + j·d − p) + b(o).
fn convolution(layer: &Conv2d, rest: &mut &[f64], h: &[f64]) -> Vec<f64> {
    let Conv2d { input, outputs, kernel, stride, padding, dilation, groups, bias } = *layer;
    let channels = input.channels / groups;
    let weights = take(rest, outputs * channels * kernel[0] * kernel[1]);
    let biases = take(rest, if bias { outputs } else { 0 });
    let size = |axis: usize, length: usize| {
        (length + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1
    };
    let mut values = Vec::new();
    for o in 0..outputs {
        for (y, x) in (0..size(0, input.height)).flat_map(|y| (0..size(1, input.width)).map(move |x| (y, x))) {
            let mut sum = biases.get(o).copied().unwrap_or(0.0);
            for (c, i, j) in triples(channels, kernel[0], kernel[1]) {
                let row = (y * stride[0] + i * dilation[0]) as isize - padding[0] as isize;
                let column = (x * stride[1] + j * dilation[1]) as isize - padding[1] as isize;
                let inside = |at: isize, length: usize| (0..length as isize).contains(&at);
                if inside(row, input.height) && inside(column, input.width) {
                    let channel = o / (outputs / groups) * channels + c;
                    let pixel = row as usize * input.width + column as usize;
                    let weight = weights[((o * channels + c) * kernel[0] + i) * kernel[1] + j];
                    sum += weight * h[channel * input.pixels() + pixel];
                }
            }
            values.push(sum);
        }
    }
    values
}

fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

/// A number for every channel and position of a window, from the pixels below it.
fn windows(
    input: Image,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    mut value: impl FnMut(usize, &[usize]) -> f64,
) -> Vec<f64> {
    let lengths = [input.height, input.width];
    let count = |axis: usize| (lengths[axis] + 2 * padding[axis] - kernel[axis]) / stride[axis] + 1;
    let mut values = Vec::new();
    for (channel, y, x) in triples(input.channels, count(0), count(1)) {
        let mut pixels = Vec::new();
        for (i, j) in (0..kernel[0]).flat_map(|i| (0..kernel[1]).map(move |j| (i, j))) {
            let (row, column) = (y * stride[0] + i, x * stride[1] + j);
            let inside = |at: usize, axis: usize| (padding[axis]..padding[axis] + lengths[axis]).contains(&at);
            if inside(row, 0) && inside(column, 1) {
                pixels.push((row - padding[0]) * input.width + column - padding[1]);
            }
        }
        values.push(value(channel, &pixels));
    }
    values
}

/// (h − mean)/√(variance + ε).
fn standardized(values: &[f64], eps: f64) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean) / (variance + eps).sqrt()).collect()
}

/// γ x̂ + β: `count` parameters, each for `run` consecutive values, over and over.
fn scaled(rest: &mut &[f64], (count, run): (usize, usize), (scale, shift): (bool, bool), values: Vec<f64>) -> Vec<f64> {
    let scales = take(rest, if scale { count } else { 0 });
    let shifts = take(rest, if shift { count } else { 0 });
    let at = |j: usize| (j / run) % count;
    let one = |(j, value): (usize, &f64)| {
        scales.get(at(j)).copied().unwrap_or(1.0) * value + shifts.get(at(j)).copied().unwrap_or(0.0)
    };
    values.iter().enumerate().map(one).collect()
}

fn residual(body: Vec<Layer>, shortcut: Vec<Layer>) -> Layer {
    Residual::new(body, shortcut).expect("branches that fit").into()
}

/// Running statistics of this many channels.
fn batch_norm(input: Image) -> BatchNorm {
    let mean = normal_vector(input.channels, 71);
    let variance = normal_vector(input.channels, 72).iter().map(|value| 2.0 + value * value).collect();
    BatchNorm::new(input, mean, variance)
}

/// Convolutions, pooling, normalisations and residual blocks, with every setting that they have.
pub fn chains() -> Vec<Vec<Layer>> {
    use Activation::{Relu, Sigmoid, Silu, Softplus, Tanh};
    let image = Image::new;
    let conv = Conv2d::new;
    let framed = Conv2d { padding: [1, 1], ..conv(image(1, 4, 4), 2, [3, 3]) };
    let grouped = Conv2d { groups: 2, stride: [2, 2], bias: false, ..conv(image(2, 5, 4), 4, [3, 2]) };
    let uneven =
        Conv2d { groups: 2, stride: [2, 1], padding: [0, 1], dilation: [1, 2], ..conv(image(4, 5, 4), 2, [2, 2]) };
    let dilated = Conv2d { dilation: [2, 2], padding: [1, 1], ..conv(image(1, 5, 4), 3, [2, 2]) };
    let overlapping = AvgPool2d { stride: [1, 2], padding: [1, 1], ..AvgPool2d::new(image(2, 4, 4), [3, 2]) };
    let of_pixels = AvgPool2d { count_include_pad: false, ..overlapping };
    let winners = MaxPool2d { stride: [1, 2], padding: [1, 0], ..MaxPool2d::new(dilated.output(), [2, 3]) };
    let same = Conv2d { padding: [1, 1], ..conv(image(2, 3, 3), 2, [3, 3]) };
    let halved = Conv2d { stride: [2, 2], padding: [1, 1], ..conv(image(2, 3, 3), 3, [3, 3]) };
    let shortcut = Conv2d { stride: [2, 2], bias: false, ..conv(image(2, 3, 3), 3, [1, 1]) };
    vec![
        vec![framed.into(), Tanh.into(), AvgPool2d::new(image(2, 4, 4), [2, 2]).into(), Layer::Flatten, linear(8, 2)],
        vec![
            grouped.into(),
            Silu.into(),
            Conv2d { groups: 4, ..conv(image(4, 2, 2), 4, [2, 2]) }.into(),
            Tanh.into(),
            linear(4, 1),
        ],
        vec![uneven.into(), Softplus.into(), GlobalAvgPool::new(uneven.output()).into(), linear(2, 2)],
        vec![dilated.into(), Silu.into(), winners.into(), linear(winners.output().size(), 2)],
        vec![framed.into(), overlapping.into(), Tanh.into(), linear(overlapping.output().size(), 1)],
        vec![of_pixels.into(), linear(of_pixels.output().size(), 3), Tanh.into(), linear(3, 2)],
        vec![MaxPool2d::new(image(1, 4, 4), [2, 2]).into(), linear(4, 2), Tanh.into(), linear(2, 1)],
        vec![linear(3, 6), LayerNorm::new(6).into(), Tanh.into(), linear(6, 2)],
        vec![
            LayerNorm { inputs: 6, weight: false, bias: false, ..LayerNorm::new(3) }.into(),
            linear(6, 4),
            LayerNorm { inputs: 4, shape: vec![1, 2], eps: 0.1, bias: false, ..LayerNorm::new(2) }.into(),
            linear(4, 2),
        ],
        vec![
            conv(image(1, 3, 3), 4, [2, 2]).into(),
            GroupNorm::new(image(4, 2, 2), 2).into(),
            Silu.into(),
            Layer::Flatten,
            Layer::Dropout,
            linear(16, 2),
        ],
        vec![GroupNorm { bias: false, ..GroupNorm::new(image(2, 2, 2), 2) }.into(), Tanh.into(), linear(8, 1)],
        vec![linear(2, 4), batch_norm(image(4, 1, 1)).into(), Sigmoid.into(), linear(4, 2)],
        vec![
            conv(image(1, 3, 3), 2, [2, 2]).into(),
            BatchNorm { weight: false, ..batch_norm(image(2, 2, 2)) }.into(),
            Tanh.into(),
            linear(8, 1),
        ],
        vec![
            linear(2, 3),
            residual(vec![linear(3, 4), Tanh.into(), linear(4, 3)], Vec::new()),
            Silu.into(),
            linear(3, 2),
        ],
        vec![residual(vec![Tanh.into(), linear(2, 3)], vec![without_bias(2, 3)]), linear(3, 2)],
        vec![
            same.into(),
            batch_norm(image(2, 3, 3)).into(),
            residual(
                vec![
                    Silu.into(),
                    residual(vec![same.into(), Tanh.into()], vec![Layer::Dropout]),
                    halved.into(),
                    GroupNorm::new(halved.output(), 1).into(),
                ],
                vec![shortcut.into(), batch_norm(shortcut.output()).into()],
            ),
            Tanh.into(),
            GlobalAvgPool::new(halved.output()).into(),
            linear(3, 2),
        ],
        vec![
            linear(2, 3),
            residual(vec![linear(3, 3), Relu.into()], vec![Sigmoid.into()]),
            residual(vec![Tanh.into()], vec![linear(3, 3)]),
            linear(3, 1),
        ],
    ]
}
