//! The shape of a network and the order of its flat parameters.
//!
//! θ lists the layers in order, and for a linear layer the weight row by row (`[outputs, inputs]`), then the bias, as
//! PyTorch's `parameters_to_vector` does.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::graph::{Affine, Function, Graph, GraphBuilder, Kind, Tensor};
use super::{Activation, Layer, Linear, lower};
use crate::error::{Error, Result};

/// One linear layer z = W h + b and the place of its parameters in θ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearPlace {
    /// The width of h.
    pub inputs: usize,
    /// The width of z.
    pub outputs: usize,
    /// Whether there is a bias b.
    pub bias: bool,
    /// Where the layer's parameters start in θ.
    pub offset: usize,
}

impl LinearPlace {
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
    #[allow(clippy::indexing_slicing, reason = "θ is that of the architecture which this place belongs to")]
    pub fn weights<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.offset..self.offset + self.n_weights()]
    }

    /// The bias b within θ; empty without one.
    #[allow(clippy::indexing_slicing, reason = "θ is that of the architecture which this place belongs to")]
    pub fn biases<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.offset + self.n_weights()..self.offset + self.n_params()]
    }
}

/// The nodes of a network, from input to output, without the values of its parameters.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Linear};
///
/// // A multilayer perceptron: f(x) = W₂ tanh(W₁x + b₁) + b₂.
/// let architecture = Architecture::new(&[1, 10, 1], Activation::Tanh)?;
/// assert_eq!(architecture.n_params(), 31);
/// assert_eq!(architecture.to_string(), "1-10-1 tanh");
///
/// // Any chain of layers.
/// let layers = vec![
///     Linear::new(1, 10).into(),
///     Activation::Tanh.into(),
///     Linear::without_bias(10, 4).into(),
///     Activation::Relu.into(),
///     Linear::new(4, 1).into(),
/// ];
/// let architecture = Architecture::of_layers(layers)?;
/// assert_eq!(architecture.to_string(), "linear 1 → 10, tanh, linear 10 → 4 without bias, relu, linear 4 → 1");
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "Stored")]
pub struct Architecture {
    /// The layers that the graph was made of; none where it was made of nodes.
    layers: Vec<Layer>,
    graph: Arc<Graph>,
}

/// The nodes of a graph that is described by listing them.
const LISTED: usize = 10;

/// What a file holds: the layers, or the graph where there are none.
#[derive(Serialize)]
#[serde(untagged)]
enum Stored {
    Layers(Vec<Layer>),
    Graph(Graph),
}

impl TryFrom<serde_json::Value> for Architecture {
    type Error = Error;

    fn try_from(value: serde_json::Value) -> Result<Self> {
        let wrong = |error: serde_json::Error| Error::Architecture {
            what: "the description".to_string(),
            problem: format!("cannot be read: {error}"),
        };
        match value.is_array() {
            true => Self::of_layers(serde_json::from_value(value).map_err(wrong)?),
            false => Self::of_graph(serde_json::from_value(value).map_err(wrong)?),
        }
    }
}

impl From<Architecture> for Stored {
    fn from(architecture: Architecture) -> Self {
        match architecture.layers.is_empty() {
            true => Self::Graph((*architecture.graph).clone()),
            false => Self::Layers(architecture.layers),
        }
    }
}

impl Architecture {
    /// A multilayer perceptron of the given widths, input first, with a bias in every layer.
    pub fn new(sizes: &[usize], activation: Activation) -> Result<Self> {
        Self::with_biases(sizes, &vec![true; sizes.len().saturating_sub(1)], activation)
    }

    /// A multilayer perceptron with a bias only in the marked layers.
    pub fn with_biases(sizes: &[usize], biases: &[bool], activation: Activation) -> Result<Self> {
        let refuse = |problem: String| Error::Architecture { what: format!("layer sizes {sizes:?}"), problem };
        if sizes.len() < 2 || sizes.contains(&0) || biases.len() != sizes.len() - 1 {
            return Err(refuse("two or more positive widths are needed, with one bias flag per layer".to_string()));
        }
        let mut layers = Vec::with_capacity(2 * biases.len());
        for ((&inputs, &outputs), &bias) in sizes.iter().zip(sizes.iter().skip(1)).zip(biases) {
            if !layers.is_empty() {
                layers.push(Layer::Activation(activation));
            }
            layers.push(Layer::Linear(Linear { inputs, outputs, bias }));
        }
        Self::of_layers(layers).map_err(|error| match error {
            Error::Architecture { what, problem } => refuse(format!("{what} {problem}")),
            other => other,
        })
    }

    /// A chain of layers, each as wide as the one before it, that has at least one parameter.
    pub fn of_layers(layers: Vec<Layer>) -> Result<Self> {
        let mut graph = GraphBuilder::new();
        let inputs = lower::inputs(&mut graph, &layers)?;
        let outputs = lower::chain(&mut graph, &layers, "", inputs)?;
        if graph.tensors().is_empty() {
            let what = "the list of layers".to_string();
            return Err(Error::Architecture { what, problem: "has no parameters".to_string() });
        }
        Ok(Self { graph: Arc::new(graph.graph(outputs)?), layers })
    }

    /// A graph; one that is a chain of linear layers and activations is known by its layers.
    pub fn of_graph(graph: Graph) -> Result<Self> {
        match chain_of(&graph) {
            Some(layers) => Self::of_layers(layers),
            None => Ok(Self { layers: Vec::new(), graph: Arc::new(graph) }),
        }
    }

    /// The layers from input to output; none where the network was not made of layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The nodes with their verbs.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The linear layers from input to output that take a whole value.
    pub fn linear_layers(&self) -> Vec<LinearPlace> {
        let place = |(affine, range): (&Affine, Range<usize>)| LinearPlace {
            inputs: affine.inputs,
            outputs: affine.outputs,
            bias: range.len() > affine.inputs * affine.outputs,
            offset: range.start,
        };
        self.graph.single_matrices().map(place).collect()
    }

    /// The activation of a plain multilayer perceptron, that is, of linear layers with the same activation between
    /// them; identity if there is only one layer, and `None` for any other network.
    pub fn activation(&self) -> Option<Activation> {
        let mut common = None;
        for (index, layer) in self.layers().iter().enumerate() {
            match layer {
                Layer::Linear(_) if index % 2 == 0 => {}
                Layer::Activation(activation) if index % 2 == 1 => {
                    if common.is_some_and(|common| common != *activation) {
                        return None;
                    }
                    common = Some(*activation);
                }
                _ => return None,
            }
        }
        (self.layers().len() % 2 == 1).then_some(common.unwrap_or(Activation::Identity))
    }

    /// Whether the outputs have kinks as functions of the parameters (relu, leaky_relu after a linear layer). Then f̈
    /// is zero almost everywhere while J jumps, so no Riemannian metric built from J is smooth.
    pub fn has_kinks(&self) -> bool {
        self.graph.has_kinks()
    }

    /// D, the number of parameters.
    pub fn n_params(&self) -> usize {
        self.graph.n_params()
    }

    /// The number of inputs.
    pub fn n_inputs(&self) -> usize {
        self.graph.n_inputs()
    }

    /// P, the number of outputs.
    pub fn n_outputs(&self) -> usize {
        self.graph.n_outputs()
    }

    /// The widths before and after the linear layers, input first: `[1, 10, 1]`.
    pub fn sizes(&self) -> Vec<usize> {
        std::iter::once(self.n_inputs()).chain(self.linear_layers().iter().map(|layer| layer.outputs)).collect()
    }

    /// The number of parameters of each layer that has any, in order: the groups of a per-layer prior.
    pub fn layer_params(&self) -> Vec<usize> {
        self.graph.groups()
    }

    /// The tensors of parameters in the order of θ, named as in a PyTorch `nn.Sequential` of the layers: `0.weight`.
    pub fn parameter_groups(&self) -> Vec<Tensor> {
        self.graph.tensors().to_vec()
    }
}

/// The layers of a graph that is a chain of linear layers and activations, with θ in the same order.
fn chain_of(graph: &Graph) -> Option<Vec<Layer>> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut offset = 0;
    for (index, node) in graph.nodes().iter().enumerate() {
        if node.inputs.iter().copied().ne(index.checked_sub(1)) {
            return None;
        }
        match &node.kind {
            Kind::Input(_) if index == 0 => {}
            Kind::Elementwise(Function::Activation(activation)) => layers.push(Layer::Activation(*activation)),
            Kind::Affine(affine) => {
                layers.push(Layer::Linear(affine.as_linear(&mut offset)?));
            }
            _ => return None,
        }
    }
    (graph.output() + 1 == graph.nodes().len() && offset == graph.n_params()).then_some(layers)
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(activation) = self.activation() {
            let sizes: Vec<String> = self.sizes().iter().map(usize::to_string).collect();
            return write!(formatter, "{} {activation}", sizes.join("-"));
        }
        let (inputs, outputs, nodes) = (self.n_inputs(), self.n_outputs(), self.graph.nodes());
        let parts: Vec<String> = match self.layers.is_empty() {
            true if nodes.len() > LISTED => vec![format!("graph of {} nodes, {inputs} → {outputs}", nodes.len())],
            true => nodes.iter().skip(1).map(|node| node.kind.description()).collect(),
            false => self.layers().iter().map(Layer::to_string).collect(),
        };
        formatter.write_str(&parts.join(", "))
    }
}
