//! Networks from ONNX files, by any exporter.
//!
//! Every operator becomes nodes of a [graph](crate::network::graph), one after the other, in one pass over the file. What a name stands for is a
//! constant, parameters or data, and one axis of it may hold the points. A function of single numbers is known by its values,
//! so the form in which an exporter writes an activation does not matter, and what has no derivatives is refused by node and
//! operator. θ lists the parameters in the order in which the graph uses them, a weight in PyTorch's orientation (`[outputs,
//! inputs]` for a linear layer) before its bias: PyTorch's `parameters_to_vector`, if the module uses its parameters in the
//! order in which it defines them.

mod arithmetic;
mod budget;
mod constant;
mod file;
mod lowering;
mod marks;
pub(crate) mod messages;
mod node;
mod operators;
mod output;
mod parameters;
mod recognise;
mod scalar;
mod size;
mod tensor;
mod trouble;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use ndarray::Array2;
use prost::Message;

use self::file::File;
use self::lowering::Lowering;
use self::messages::ModelProto;
use self::output::Scores;
use self::tensor::{Shape, Tensor};
use super::graph::{Graph, GraphBuilder, Kind, Node};
use super::{Activation, Architecture, Network};
use crate::error::{Error, OnnxError, Result};
use crate::files::{self, READING_ADVICE};
use crate::likelihood::{Entry, Family, REGISTER, TargetKind};
use crate::memory;

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
    /// Probabilities of classes.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
    /// Probabilities of 1: of yes/no answers.
    Sigmoid,
    /// Rates: of counts.
    Exp,
}

impl OutputLink {
    /// The function from outputs to means that it is, or whose logarithm it is.
    fn mean_function(self) -> &'static str {
        match self {
            OutputLink::Softmax | OutputLink::LogSoftmax => "softmax",
            OutputLink::Sigmoid => "sigmoid",
            OutputLink::Exp => "exp",
        }
    }

    /// The name of the first likelihood that it belongs to.
    pub fn likelihood(self) -> &'static str {
        let family = |entry: &Entry| entry.family();
        let mut families = REGISTER.iter().map(family);
        let own = families.find(|family| family.likelihood().mean_function() == self.mean_function());
        own.map_or("", |family| family.likelihood().name())
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
        let likelihood = family.likelihood();
        match self.link {
            Some(OutputLink::Sigmoid) if likelihood.kind() == TargetKind::Real => {
                let graph = self.network.architecture().graph();
                let mut nodes = graph.nodes().to_vec();
                nodes.push(Node { kind: Kind::Elementwise(Activation::Sigmoid.into()), inputs: vec![graph.output()] });
                let output = nodes.len() - 1;
                let graph = Graph::new(nodes, graph.tensors().to_vec(), output)?;
                let network = Network::new(Architecture::of_graph(graph)?, self.network.parameters().to_vec())?;
                Ok(network.with_tensor_names(self.names))
            }
            Some(link) if link.mean_function() != likelihood.mean_function() => {
                let (belongs, likelihood) = (link.likelihood(), likelihood.name());
                Err(Error::Link { link: link.to_string(), belongs, likelihood })
            }
            _ => Ok(self.network),
        }
    }
}

impl Network {
    /// Reads a network from an ONNX file.
    ///
    /// The operators are listed in `docs/models.md`; anything else is refused by node and operator. The weights may be float
    /// or double, inside the file. Inputs of more than one axis per point are columns in row-major order, and several inputs
    /// take them one after the other.
    pub fn from_onnx(path: &Path) -> Result<Imported> {
        Self::from_onnx_bytes(&files::read_bytes(path)?, path)
    }

    /// The same from the bytes of a file. Messages name the path; nothing is read from it.
    pub fn from_onnx_bytes(bytes: &[u8], path: &Path) -> Result<Imported> {
        let refuse = |problem: String| Error::Onnx(OnnxError::File { path: path.to_path_buf(), problem });
        let (nodes, most) = (size::nodes(bytes), size::MOST_NODES);
        if nodes > most {
            let count = format!("its nodes and the values that they take are {nodes}; at most {most} are read");
            return Err(refuse(count));
        }
        // Decoding copies the weights, and so does the graph, as f64.
        let copies = size::decoded(bytes) as f64 + 4.0 * bytes.len() as f64;
        let _copies = memory::reserve(&format!("reading {}", path.display()), copies / 8.0, READING_ADVICE)?;
        let model = ModelProto::decode(bytes).map_err(|error| refuse(format!("it is not a model: {error}")))?;
        let (mut file, graph) = File::new(path, &model)?;
        let scores = output::scores(&file, graph)?;
        let mut parameters = parameters::Parameters::default();
        let values = file.initializers(graph, &mut parameters)?;
        let inputs = file.inputs(graph, &values)?;
        let mut lowering = Lowering {
            file: &file,
            graph: GraphBuilder::new(),
            values: vec![None; file.count()],
            constants_are_parameters: parameters.is_empty(),
            parameters,
            budget: budget::Budget::new(bytes.len()),
            recipes: recognise::Recipes::default(),
            done: HashSet::new(),
        };
        values.into_iter().for_each(|(name, tensor)| lowering.define(name, tensor));
        lowering.inputs(inputs);
        lowering.run(scores.value)?;
        finish(lowering, &scores)
    }
}

/// The network up to its scores.
fn finish(mut low: Lowering<'_>, scores: &Scores<'_>) -> Result<Imported> {
    let file = low.file;
    let refuse = |problem: String| file.refuse_file(problem);
    let output = low.named(scores.value).cloned();
    let Some(Tensor { shape: Shape { lengths, points: Some(points) }, .. }) = output.clone() else {
        return Err(refuse(format!("the output `{}` does not depend on the input", scores.value)));
    };
    let outside = lengths.iter().take(points.axis).product::<usize>() * points.before;
    if outside != 1 {
        return Err(refuse(format!("the first axis of the output `{}` is not the points", scores.value)));
    }
    if let Some(axis) = scores.axis {
        let over = tensor::axis_of(axis, lengths.len()).ok().and_then(|axis| lengths.get(axis));
        if over.copied() != tensor::product(&lengths) {
            return Err(refuse("a last softmax is known only over all outputs of a point".to_string()));
        }
    }
    let Some(output) = output else { return Err(refuse("the graph has no output".to_string())) };
    let value = low.value(&output).map_err(|trouble| file.trouble(usize::MAX, trouble))?;
    let names: Vec<String> = low.graph.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let network = low.graph.finish(value).map_err(|error| match error {
        Error::Architecture { what, problem } => refuse(format!("{what} {problem}")),
        other => other,
    })?;
    let network = network.with_tensor_names(names.clone());
    Ok(Imported { network, link: scores.link, names, notes: low.parameters.notes })
}
