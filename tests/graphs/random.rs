//! Random graphs of all kinds of nodes, small enough for differences.

use ndarray::Array2;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use riemannian_laplace::internals::network::graph::{Function, GraphBuilder, Kind, Value, View, Window, size};
use riemannian_laplace::{Activation, Error, Model, Network};

use crate::common::normal_vector;

/// A graph in the making, with tensors that later nodes may use again.
struct Maker {
    graph: GraphBuilder,
    random: StdRng,
    views: Vec<View>,
}

impl Maker {
    fn tensor(&mut self, shape: &[usize]) -> Result<View, Error> {
        // Now and then one that is used already.
        let known: Vec<View> = self.views.iter().filter(|view| view.shape == shape).cloned().collect();
        if !known.is_empty() && self.random.random_bool(0.4) {
            return Ok(known[self.random.random_range(0..known.len())].clone());
        }
        let index = self.graph.tensors().len();
        let scale = 1.0 / (shape.last().copied().unwrap_or(1) as f64).sqrt();
        let values = normal_vector(size(shape), 1000 + index as u64).iter().map(|value| scale * value).collect();
        let view = self.graph.parameter(&format!("{}.{}", index / 2, index % 2), shape, values)?;
        self.views.push(view.clone());
        if let [rows, columns] = shape {
            let back: Vec<usize> = (0..*columns).flat_map(|j| (0..*rows).map(move |i| i * columns + j)).collect();
            self.views.push(view.select(vec![*columns, *rows], &back));
        }
        Ok(view)
    }

    /// Any value as tokens: [2, width].
    fn tokens(&mut self, value: Value) -> Result<Value, Error> {
        let width = size(self.graph.shape(value));
        match width % 2 {
            0 => self.graph.reshape(value, &[2, width / 2]),
            _ => self.graph.concat(&[value, value], 0).and_then(|both| self.graph.reshape(both, &[2, width])),
        }
    }

    fn smooth(&mut self, value: Value) -> Result<Value, Error> {
        let functions: [Function; 7] = [
            Activation::Tanh.into(),
            Activation::Silu.into(),
            Activation::Gelu.into(),
            Activation::Softplus.into(),
            Activation::Sin.into(),
            Function::Erf,
            Function::Cos,
        ];
        let which = self.random.random_range(0..functions.len());
        self.graph.function(value, functions[which].clone())
    }

    /// A positive value.
    fn positive(&mut self, value: Value) -> Result<Value, Error> {
        let squares = self.graph.function(value, Function::Power(2.0))?;
        self.graph.rescale(squares, 0.3, 0.7)
    }

    fn step(&mut self, value: Value, other: Value) -> Result<Value, Error> {
        let width = size(self.graph.shape(value));
        let flat = self.graph.reshape(value, &[width])?;
        match self.random.random_range(0..14) {
            0 | 1 => {
                let outputs = self.random.random_range(2..5);
                let (weight, bias) = (self.tensor(&[outputs, width])?, self.tensor(&[outputs])?);
                let bias = self.random.random_bool(0.7).then_some(bias);
                self.graph.linear(flat, &weight, bias.as_ref())
            }
            2 => {
                let tokens = self.tokens(flat)?;
                let width = self.graph.shape(tokens)[1];
                let (weight, bias) = (self.tensor(&[3, width])?, self.tensor(&[3])?);
                self.graph.linear(tokens, &weight, Some(&bias))
            }
            3 => {
                let image = self.graph.reshape(flat, &[1, 1, width])?;
                let (kernel, transposed) = (2.min(width), self.random.random_bool(0.5));
                let outputs = if transposed { 2 * (width - 1) + kernel } else { (width + 1 - kernel) / 2 + 1 };
                let window = Window {
                    image: [1, width],
                    kernel: [1, kernel],
                    stride: [1, 2],
                    padding: [0, usize::from(!transposed)],
                    dilation: [1, 1],
                    outputs: [1, outputs.clamp(1, 5)],
                    transposed,
                };
                let (weight, bias) = (self.tensor(&[2, kernel])?, self.tensor(&[2])?);
                self.graph.windows(image, window, 1, &weight, Some(&bias))
            }
            4 => {
                let (scale, shift) = (self.tensor(&[width])?, self.tensor(&[1])?);
                self.graph.scale_shift(flat, Some(&scale), Some(&shift))
            }
            5 | 6 => self.smooth(value),
            7 => {
                let positive = self.positive(value)?;
                let functions =
                    [Function::Log, Function::Sqrt, Function::Reciprocal, Function::Power(-0.5), Function::Atan];
                let which = self.random.random_range(0..functions.len() - 1);
                self.graph.function(positive, functions[which].clone())
            }
            8 => {
                let apart = size(self.graph.shape(other));
                let other = self.graph.reshape(other, &[apart, 1])?;
                let line = self.graph.reshape(flat, &[1, width])?;
                match apart * width <= 12 {
                    true => self.graph.mul(other, line),
                    false => self.graph.mul(flat, flat),
                }
            }
            9 => {
                let tokens = self.tokens(flat)?;
                let back = self.graph.transpose(tokens, &[1, 0])?;
                self.graph.matmul(tokens, back)
            }
            10 => {
                let tokens = self.tokens(flat)?;
                let axis = self.random.random_range(0..2);
                self.graph.softmax(tokens, axis)
            }
            11 => match size(self.graph.shape(other)) {
                apart if apart + width <= 10 => {
                    let other = self.graph.reshape(other, &[apart])?;
                    self.graph.concat(&[flat, other], 0)
                }
                _ => self.graph.rescale(flat, -0.7, 0.2),
            },
            12 => {
                let tokens = self.tokens(flat)?;
                let normal = self.graph.normalize(tokens, 0.1)?;
                self.graph.add(normal, tokens)
            }
            _ => {
                let weight = self.tensor(&[width])?;
                let value = self.graph.parameter_value(&weight)?;
                let products = self.graph.einsum(flat, value, ["i", "i", "i"])?;
                self.graph.function(products, Activation::Tanh)
            }
        }
    }
}

/// A graph with two outputs and a few dozen parameters.
pub fn random_graph(seed: u64) -> Network {
    let maker = Maker { graph: GraphBuilder::new(), random: StdRng::seed_from_u64(seed), views: Vec::new() };
    build(maker).unwrap_or_else(|error| panic!("graph {seed}: {error}"))
}

fn build(mut maker: Maker) -> Result<Network, Error> {
    let x = maker.graph.input(&[3]);
    let mut values = vec![x];
    if maker.random.random_bool(0.4) {
        let category = maker.graph.input(&[1]);
        let hot = maker.graph.node(Kind::OneHot(3), &[category], &[3])?;
        let table = maker.tensor(&[2, 3])?;
        let rows = maker.graph.linear(hot, &table, None)?;
        values.push(rows);
    }
    for _ in 0..maker.random.random_range(3..9) {
        let last = values[values.len() - 1];
        let from =
            if maker.random.random_bool(0.7) { last } else { values[maker.random.random_range(0..values.len())] };
        let other = values[maker.random.random_range(0..values.len())];
        let next = maker.step(from, other)?;
        if size(maker.graph.shape(next)) <= 12 {
            values.push(next);
        }
    }
    let last = values[values.len() - 1];
    let width = size(maker.graph.shape(last));
    let flat = maker.graph.reshape(last, &[width])?;
    let (weight, bias) = (maker.tensor(&[2, width])?, maker.tensor(&[2])?);
    let outputs = maker.graph.linear(flat, &weight, Some(&bias))?;
    maker.graph.finish(outputs)
}

/// Inputs for such a graph: real numbers, and a category where there is one.
pub fn inputs(network: &Network, points: usize, seed: u64) -> Array2<f64> {
    let values = normal_vector(3 * points, seed + 50);
    Array2::from_shape_fn((points, network.n_inputs()), |(n, i)| match i {
        3 => ((n as u64 + seed) % 3) as f64,
        _ => values[3 * n + i],
    })
}
