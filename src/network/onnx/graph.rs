//! The graph of a file: what every value is (a constant, a size, or data with a shape), found by one pass over the
//! nodes.
//!
//! The first axis of the data is the points, whatever its length; the shapes here are those of one point.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::constant::{Constant, fold};
use super::messages::{GraphProto, ModelProto, NodeProto};
use super::node::Attributes;
use super::shapes::{self, Settings};
use crate::error::{Error, OnnxError, Result};

/// What a name in the graph stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Known numbers.
    Constant(Constant),
    /// Lengths of axes of data.
    Sizes(Vec<Size>),
    /// Data, with the shape of one point; `None` where an operator is not known.
    Data(Option<Vec<usize>>),
}

/// The length of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The number of points.
    Points,
    /// Any other.
    Known(i64),
}

/// A graph whose values are known by kind and shape.
#[derive(Debug)]
pub struct Graph {
    path: PathBuf,
    nodes: Vec<NodeProto>,
    /// The node that computes a value.
    producers: HashMap<String, usize>,
    values: HashMap<String, Value>,
    /// Names for what another name stands for already.
    aliases: HashMap<String, String>,
    /// The data.
    pub input: String,
    /// The results, in the order of the file.
    pub outputs: Vec<String>,
    /// What shapes depend on besides the nodes.
    pub settings: Settings,
}

impl Graph {
    /// Reads the parts of a file that matter and finds out what every value is.
    pub fn new(path: &Path, model: ModelProto) -> Result<Self> {
        let refuse = |problem: String| Error::Onnx(OnnxError::File { path: path.to_path_buf(), problem });
        let graph = model.graph.ok_or_else(|| refuse("there is no graph in it".to_string()))?;
        let own = |set: &&super::messages::OperatorSetProto| matches!(set.domain.as_str(), "" | "ai.onnx");
        let version = model.opset_import.iter().find(own).map_or(1, |set| set.version);
        let mut values = HashMap::new();
        for tensor in &graph.initializer {
            // Class names and other tables of classifiers are of other types: only those that a layer uses matter.
            match Constant::read(tensor, &tensor.name) {
                Ok(constant) => values.insert(tensor.name.clone(), Value::Constant(constant)),
                Err(problem) if tensor.data_location != 0 => {
                    return Err(refuse(format!("initialiser `{}`: {problem}", tensor.name)));
                }
                Err(_) => values.insert(tensor.name.clone(), Value::Data(None)),
            };
        }
        let input = data_input(&graph, &values).map_err(refuse)?;
        let settings = Settings { version, points: input.points };
        values.insert(input.name.clone(), Value::Data(Some(input.shape)));
        let outputs = graph.output.iter().map(|output| output.name.clone()).collect();
        let mut whole = Self {
            path: path.to_path_buf(),
            producers: HashMap::new(),
            nodes: graph.node,
            values,
            aliases: HashMap::new(),
            input: input.name,
            outputs,
            settings,
        };
        for index in 0..whole.nodes.len() {
            whole.visit(index)?;
        }
        Ok(whole)
    }

    /// Finds out what the outputs of a node are.
    #[allow(
        clippy::indexing_slicing,
        reason = "indices of nodes come from counting the nodes, which never become fewer"
    )]
    fn visit(&mut self, index: usize) -> Result<()> {
        let node = self.nodes[index].clone();
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if self.values.contains_key(name) || self.producers.insert(name.clone(), index).is_some() {
                return Err(self.refuse(index, format!("its output `{name}` is computed twice")));
            }
        }
        let Some(output) = node.output.first().cloned() else { return Ok(()) };
        for name in node.output.iter().skip(1).filter(|name| !name.is_empty()) {
            self.values.insert(name.clone(), Value::Data(None));
        }
        if let Some(source) = self.alias(&node) {
            let source = self.resolve(source).to_string();
            self.aliases.insert(output, source);
            return Ok(());
        }
        // A constant in the type of the data is the same constant.
        if let ("CastLike", Some(constant)) =
            (node.op_type.as_str(), node.input.first().and_then(|name| self.constant(name)))
        {
            let renamed = Constant { name: output.clone(), ..constant.clone() };
            self.values.insert(output, Value::Constant(renamed));
            return Ok(());
        }
        let inputs: Vec<Option<&Value>> = node.input.iter().map(|name| self.value(name)).collect();
        let constants = inputs.iter().zip(&node.input).map(|(value, name)| match value {
            Some(Value::Constant(constant)) => Some(Some(constant)),
            _ if name.is_empty() => Some(None),
            _ => None,
        });
        let value = match constants.collect::<Option<Vec<Option<&Constant>>>>() {
            Some(constants) => fold(&node, &constants).map_or(Value::Data(None), Value::Constant),
            None => shapes::sizes(&node, &inputs)
                .unwrap_or_else(|| Value::Data(shapes::shape(&node, &inputs, self.settings))),
        };
        self.values.insert(output, value);
        Ok(())
    }

    /// The input that a node hands on unchanged, if it does: of data; copies of constants have a name of their own.
    fn alias<'a>(&self, node: &'a NodeProto) -> Option<&'a str> {
        let first = node.input.first()?;
        let is_data = matches!(self.value(first), Some(Value::Data(_)));
        let training = || match node.input.get(2).and_then(|name| self.constant(name)) {
            Some(constant) => !constant.is_uniform(0.0),
            None => node.input.get(2).is_some_and(|name| !name.is_empty()),
        };
        // 1, 10, 11 and 16: float, float16, double and bfloat16.
        let to_real = || matches!(node.int("to"), Some(1 | 10 | 11 | 16));
        let unchanged = match node.op_type.as_str() {
            "Identity" => true,
            "Cast" => to_real() && self.value(first) != Some(&Value::Data(None)),
            "Dropout" => !training(),
            _ => false,
        };
        (is_data && unchanged && is_standard(node)).then_some(first.as_str())
    }

    /// The name that a name stands for.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// What a name stands for.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(self.resolve(name))
    }

    /// The constant of this name, if it is one.
    pub fn constant(&self, name: &str) -> Option<&Constant> {
        match self.value(name) {
            Some(Value::Constant(constant)) => Some(constant),
            _ => None,
        }
    }

    /// The shape of one point of data of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        match self.value(name) {
            Some(Value::Data(Some(shape))) => Some(shape),
            _ => None,
        }
    }

    /// The number of values of one point.
    pub fn width(&self, name: &str) -> Option<usize> {
        self.shape(name).map(|shape| shape.iter().product())
    }

    /// Whether a constant is written into the graph by a node, rather than an initialiser.
    pub fn is_written(&self, constant: &Constant) -> bool {
        let node = self.producers.get(&constant.origin).map(|index| self.node(*index));
        node.is_some_and(|node| matches!(node.op_type.as_str(), "Constant" | "ConstantOfShape"))
    }

    /// The node that computes data, by its index.
    pub fn producer(&self, name: &str) -> Option<usize> {
        self.producers.get(self.resolve(name)).copied()
    }

    /// The node with this index.
    #[allow(
        clippy::indexing_slicing,
        reason = "indices of nodes come from counting the nodes, which never become fewer"
    )]
    pub fn node(&self, index: usize) -> &NodeProto {
        &self.nodes[index]
    }

    /// The node that computes data, if it has this operator of the standard set.
    pub fn made_by(&self, name: &str, operator: &str) -> Option<&NodeProto> {
        let node = self.node(self.producer(name)?);
        (node.op_type == operator && is_standard(node)).then_some(node)
    }

    /// The two inputs of a node as data and a constant, in either order.
    pub fn data_and_constant<'a>(&'a self, node: &'a NodeProto) -> Option<(&'a str, &'a Constant)> {
        let [a, b] = node.input.as_slice() else { return None };
        match (self.constant(a), self.constant(b)) {
            (None, Some(constant)) => Some((self.resolve(a), constant)),
            (Some(constant), None) => Some((self.resolve(b), constant)),
            _ => None,
        }
    }

    /// A refusal that names the node and its operator.
    #[allow(
        clippy::indexing_slicing,
        reason = "indices of nodes come from counting the nodes, which never become fewer"
    )]
    pub fn refuse(&self, index: usize, problem: impl Into<String>) -> Error {
        let node = &self.nodes[index];
        let name = [&node.name].into_iter().chain(&node.output).find(|name| !name.is_empty());
        let operator =
            if is_standard(node) { node.op_type.clone() } else { format!("{}.{}", node.domain, node.op_type) };
        Error::Onnx(OnnxError::Node {
            path: self.path.clone(),
            node: name.cloned().unwrap_or_else(|| format!("number {index}")).into(),
            operator: operator.into(),
            problem: problem.into(),
        })
    }

    /// A refusal of the file as a whole.
    pub fn refuse_file(&self, problem: impl Into<String>) -> Error {
        Error::Onnx(OnnxError::File { path: self.path.clone(), problem: problem.into() })
    }
}

/// Whether a node is of ONNX's own set of operators.
pub fn is_standard(node: &NodeProto) -> bool {
    matches!(node.domain.as_str(), "" | "ai.onnx")
}

/// The most values of one point.
const MOST_VALUES: usize = 1 << 32;

/// The data that a graph takes.
struct DataInput {
    name: String,
    /// The shape of one point.
    shape: Vec<usize>,
    /// The number of points, where it is fixed.
    points: Option<i64>,
}

fn data_input(graph: &GraphProto, values: &HashMap<String, Value>) -> std::result::Result<DataInput, String> {
    let mut inputs = graph.input.iter().filter(|input| !values.contains_key(&input.name));
    let input = inputs.next().ok_or("the graph has no input")?;
    if let Some(other) = inputs.next() {
        return Err(format!("the graph has several inputs (`{}`, `{}`); one is needed", input.name, other.name));
    }
    let shape = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()).and_then(|kind| kind.shape.as_ref());
    let lengths: Vec<i64> = shape.map_or(Vec::new(), |shape| shape.dim.iter().map(|axis| axis.dim_value).collect());
    let positive = |&length: &i64| usize::try_from(length).ok().filter(|&length| length > 0);
    let point: Option<Vec<usize>> = lengths.iter().skip(1).map(positive).collect();
    let size = |point: &Vec<usize>| point.iter().try_fold(1_usize, |size, axis| size.checked_mul(*axis));
    match point.filter(|point| !point.is_empty() && size(point).is_some_and(|size| size <= MOST_VALUES)) {
        Some(shape) => {
            let points = lengths.first().copied().filter(|&points| points > 0);
            Ok(DataInput { name: input.name.clone(), shape, points })
        }
        None => Err(format!(
            "the input `{}` has shape {lengths:?} (0: not fixed); its first axis must be the points, and every other of \
             fixed length: export with only the first axis dynamic",
            input.name
        )),
    }
}
