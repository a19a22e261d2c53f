//! The shape of a multilayer perceptron and the order of its flat parameters.
//!
//! θ lists the layers in order: the weight row by row (`[outputs, inputs]`), then the bias, as PyTorch's
//! `parameters_to_vector` does.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Activation;
use crate::error::{Error, Result};

/// One linear layer z = W h + b and where its parameters stand in θ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The width of h.
    pub inputs: usize,
    /// The width of z.
    pub outputs: usize,
    /// Whether there is a bias b.
    pub bias: bool,
    /// Where the layer's parameters start in θ.
    pub offset: usize,
}

impl Layer {
    /// The number of entries of W.
    pub fn n_weights(&self) -> usize {
        self.inputs * self.outputs
    }

    /// The number of parameters, bias included.
    pub fn n_params(&self) -> usize {
        self.n_weights() + if self.bias { self.outputs } else { 0 }
    }

    /// The layer's place in θ.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.n_params()
    }

    /// The weights W within θ, row by row.
    pub fn weights<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.offset..self.offset + self.n_weights()]
    }

    /// The bias b within θ; empty without one.
    pub fn biases<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.offset + self.n_weights()..self.offset + self.n_params()]
    }
}

/// Layer sizes and the activation between them: f(x) = W_L φ(… φ(W_1 x + b_1) …) + b_L.
///
/// ```
/// use riemannian_laplace::network::{Activation, Architecture};
/// let architecture = Architecture::new(&[1, 10, 1], Activation::Tanh)?;
/// assert_eq!(architecture.n_params(), 31);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Record")]
pub struct Architecture {
    layers: Vec<Layer>,
    activation: Activation,
}

/// An architecture as a file has it: every field is redundant or wrong until checked.
#[derive(Deserialize)]
struct Record {
    layers: Vec<Layer>,
    activation: Activation,
}

impl TryFrom<Record> for Architecture {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        let sizes: Vec<usize> = record.layers.first().map(|layer| layer.inputs).into_iter().collect();
        let sizes: Vec<usize> = sizes.into_iter().chain(record.layers.iter().map(|layer| layer.outputs)).collect();
        let biases: Vec<bool> = record.layers.iter().map(|layer| layer.bias).collect();
        let architecture = Self::with_biases(&sizes, &biases, record.activation)?;
        if architecture.layers != record.layers {
            return Err(Error::Setting {
                name: "the list of layers",
                value: format!("{:?}", record.layers),
                requirement: "a chain, each layer as wide as the one before it and starting where that ends",
            });
        }
        Ok(architecture)
    }
}

impl Architecture {
    /// A network of the given widths, input first, with a bias in every layer.
    pub fn new(sizes: &[usize], activation: Activation) -> Result<Self> {
        Self::with_biases(sizes, &vec![true; sizes.len().saturating_sub(1)], activation)
    }

    /// A network that has a bias only in the layers marked so.
    pub fn with_biases(sizes: &[usize], biases: &[bool], activation: Activation) -> Result<Self> {
        let refuse = |requirement| Error::Setting { name: "layer sizes", value: format!("{sizes:?}"), requirement };
        if sizes.len() < 2 || sizes.contains(&0) || biases.len() != sizes.len() - 1 {
            return Err(refuse("two or more positive widths, with one bias flag per layer"));
        }
        let mut offset: usize = 0;
        let mut layers = Vec::with_capacity(biases.len());
        for (widths, &bias) in sizes.windows(2).zip(biases) {
            let layer = Layer { inputs: widths[0], outputs: widths[1], bias, offset };
            let end =
                layer.outputs.checked_mul(layer.inputs.saturating_add(1)).and_then(|count| count.checked_add(offset));
            end.ok_or_else(|| refuse("so small that the parameters can be counted"))?;
            offset += layer.n_params();
            layers.push(layer);
        }
        Ok(Self { layers, activation })
    }

    /// The layers from input to output.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The activation between the layers.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// Whether the outputs have kinks as functions of the parameters (relu, leaky_relu between layers). There f̈ is zero
    /// almost everywhere while J jumps, so that no Riemannian metric made of J is smooth.
    pub fn has_kinks(&self) -> bool {
        self.layers.len() > 1 && matches!(self.activation, Activation::Relu | Activation::LeakyRelu)
    }

    /// D, the number of parameters.
    pub fn n_params(&self) -> usize {
        self.layers.iter().map(Layer::n_params).sum()
    }

    /// The number of inputs.
    pub fn n_inputs(&self) -> usize {
        self.layers[0].inputs
    }

    /// P, the number of outputs.
    pub fn n_outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    /// The widths, input first: `[1, 10, 1]`.
    pub fn sizes(&self) -> Vec<usize> {
        std::iter::once(self.n_inputs()).chain(self.layers.iter().map(|layer| layer.outputs)).collect()
    }

    /// The number of parameters of each layer, in order: the groups of a per-layer prior.
    pub fn layer_params(&self) -> Vec<usize> {
        self.layers.iter().map(Layer::n_params).collect()
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<String> = self.sizes().iter().map(usize::to_string).collect();
        write!(formatter, "{} {}", sizes.join("-"), self.activation)
    }
}
