//! Networks from ONNX files, by any exporter.
//!
//! The graph names layers and activations, so nothing need be guessed: from the output, each pattern of nodes
//! is one layer back, until the input. A sum of two branches is a residual block, an activation is known by its values
//! (so its form does not matter), and what no layer represents is refused by node and operator. θ lists the layers in
//! the order of the graph, each with its weight in PyTorch's orientation (`[outputs, inputs]` for a linear layer), then
//! its bias: PyTorch's `parameters_to_vector`, if the module uses its parameters in the order in which it defines them.

mod build;
mod chain;
mod constant;
mod graph;
mod messages;
mod node;
mod output;
mod part;
mod patterns;
mod scalar;
mod shapes;
mod window;

use std::fmt;
use std::path::Path;

use ndarray::Array2;
use prost::Message;

use self::graph::Graph;
use self::messages::ModelProto;
use super::{Activation, Architecture, Network};
use crate::error::{Error, OnnxError, Result};
use crate::likelihood::Family;
use crate::memory;
use crate::tensors;

/// A network from an ONNX file, and how its graph ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The network up to its raw outputs, which is what a likelihood takes.
    pub network: Network,
    /// The function of the raw outputs at the end of the graph, which is left out of the network.
    pub link: Option<OutputLink>,
    /// The names of the tensors of θ in the file, in order.
    pub names: Vec<String>,
    /// What a person should know of how the graph was read.
    pub notes: Vec<String>,
}

/// A last function that belongs to the likelihood rather than to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLink {
    /// Probabilities of classes: of a categorical likelihood.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
    /// Probabilities of 1: of a Bernoulli likelihood.
    Sigmoid,
    /// Rates: of a Poisson likelihood.
    Exp,
}

impl OutputLink {
    /// The name of the likelihood that it belongs to.
    pub fn likelihood(self) -> &'static str {
        match self {
            OutputLink::Softmax | OutputLink::LogSoftmax => "categorical",
            OutputLink::Sigmoid => "bernoulli",
            OutputLink::Exp => "poisson",
        }
    }
}

impl OutputLink {
    /// Replaces raw outputs, one row per point, by what the graph computed.
    pub fn apply(self, outputs: &mut Array2<f64>) {
        for mut row in outputs.rows_mut() {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = largest + row.iter().map(|f| (f - largest).exp()).sum::<f64>().ln();
            row.mapv_inplace(|f| match self {
                OutputLink::Softmax => (f - log_sum).exp(),
                OutputLink::LogSoftmax => f - log_sum,
                OutputLink::Sigmoid => Activation::Sigmoid.value(f),
                OutputLink::Exp => f.exp(),
            });
        }
    }
}

impl fmt::Display for OutputLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            OutputLink::Softmax => "softmax",
            OutputLink::LogSoftmax => "log_softmax",
            OutputLink::Sigmoid => "sigmoid",
            OutputLink::Exp => "exp",
        })
    }
}

impl Imported {
    /// The network whose outputs this likelihood takes: a link at the end belongs to its own likelihood, except that a
    /// sigmoid under a Gaussian one is an activation of the outputs like any other.
    pub fn for_family(self, family: &Family) -> Result<Network> {
        let likelihood = family.likelihood().name();
        match self.link {
            Some(OutputLink::Sigmoid) if matches!(likelihood, "gaussian" | "heteroscedastic") => {
                let mut layers = self.network.architecture().layers().to_vec();
                layers.push(Activation::Sigmoid.into());
                let network = Network::new(Architecture::of_layers(layers)?, self.network.parameters().to_vec())?;
                Ok(network.with_tensor_names(self.names))
            }
            Some(link) if link.likelihood() != likelihood => {
                Err(Error::Link { link: link.to_string(), belongs: link.likelihood(), likelihood })
            }
            _ => Ok(self.network),
        }
    }
}

impl Network {
    /// Reads a network from an ONNX file.
    ///
    /// Supported are linear layers, all [activations](Activation) however they are written, and residual sums; see
    /// `docs/models.md`. Anything else is refused by node and operator. The weights may be float or double, inside the
    /// file. Inputs of more than one axis per point are columns in row-major order.
    pub fn from_onnx(path: &Path) -> Result<Imported> {
        let bytes = tensors::read_bytes(path)?;
        // Decoding copies the weights, and so do the layers, as f64.
        let _copies = memory::reserve(
            &format!("reading {}", path.display()),
            3.0 * bytes.len() as f64 / 4.0,
            "allow more memory",
        )?;
        let model = ModelProto::decode(bytes.as_slice()).map_err(|error| {
            Error::Onnx(OnnxError::File { path: path.to_path_buf(), problem: format!("it is not a model: {error}") })
        })?;
        let graph = Graph::new(path, model)?;
        let scores = output::scores(&graph)?;
        let parts = chain::chain(&graph, &scores.value)?;
        let built = build::build(&graph, &parts)?;
        Ok(Imported { network: built.network, link: scores.link, names: built.names, notes: built.notes })
    }
}
