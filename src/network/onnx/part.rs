//! What the patterns find: parts of a network, each with the node it ends at and the parameters it takes from the file.

use super::constant::Constant;
use super::window::Window;
use crate::network::Activation;

/// One layer as the graph describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// Its parameters in the order of θ.
    pub parameters: Vec<Parameter>,
    /// The node that its output comes from.
    pub node: usize,
}

impl Part {
    /// The number of parameters, those of branches included.
    pub fn n_params(&self) -> usize {
        let own: usize = self.parameters.iter().map(|parameter| parameter.values.len()).sum();
        let inner: usize = match &self.kind {
            Kind::Residual { first, second } => first.iter().chain(second).map(Part::n_params).sum(),
            _ => 0,
        };
        own + inner
    }
}

/// A tensor of parameters, in PyTorch's orientation.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name of the initialiser.
    pub name: String,
    /// The initialiser or node that it comes from.
    pub origin: String,
    /// The values, last axis fastest.
    pub values: Vec<f64>,
}

impl From<&Constant> for Parameter {
    fn from(constant: &Constant) -> Self {
        Self { name: constant.name.clone(), origin: constant.origin.clone(), values: constant.values.clone() }
    }
}

/// The kinds of layers; shapes are those of one point, `[channels, height, width]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// W h + b.
    Linear {
        /// The width of h.
        inputs: usize,
        /// The width of the outputs.
        outputs: usize,
        /// Whether there is a b.
        bias: bool,
    },
    /// φ of every entry.
    Activation(Activation),
    /// A sum over windows.
    Convolution {
        /// The geometry.
        window: Window,
        /// The channels of the output.
        filters: usize,
        /// The groups of channels that do not mix.
        groups: usize,
        /// Whether there is a bias.
        bias: bool,
    },
    /// The mean over windows.
    AveragePool {
        /// The geometry.
        window: Window,
        /// Whether the padding's zeros count.
        counts_padding: bool,
    },
    /// The maximum over windows.
    MaxPool {
        /// The geometry.
        window: Window,
    },
    /// The mean of every channel.
    GlobalAveragePool {
        /// The number of channels.
        channels: usize,
        /// The number of entries of each.
        positions: usize,
    },
    /// (h − mean)/√(variance + ε) over the last axes of a point, times weight plus bias.
    LayerNorm {
        /// The number of entries of a point.
        inputs: usize,
        /// The last axes.
        shape: Vec<usize>,
        /// ε.
        epsilon: f64,
        /// Which of weight and bias there are.
        affine: Affine,
    },
    /// The same over groups of channels, with a weight and a bias per channel.
    GroupNorm {
        /// The number of groups.
        groups: usize,
        /// The number of channels.
        channels: usize,
        /// The number of entries of each.
        positions: usize,
        /// ε.
        epsilon: f64,
        /// Which of weight and bias there are.
        affine: Affine,
    },
    /// The same with constant means and variances per channel.
    BatchNorm {
        /// The number of entries of each channel.
        positions: usize,
        /// One mean per channel.
        mean: Vec<f64>,
        /// One variance per channel.
        variance: Vec<f64>,
        /// ε.
        epsilon: f64,
    },
    /// The sum of two branches from the same value; one of them may be empty.
    Residual {
        /// The branch whose parameters come first.
        first: Vec<Part>,
        /// The other.
        second: Vec<Part>,
    },
}

/// Which parameters a normalisation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    /// Whether there are weights.
    pub weight: bool,
    /// Whether there are biases.
    pub bias: bool,
}
