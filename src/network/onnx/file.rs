//! The parts of a file that matter, checked once: every value is computed once, before it is used.

use std::collections::HashMap;
use std::path::Path;

use super::constant::{self, is_real, is_whole};
use super::marks::{Mark, Marks};
use super::messages::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use super::parameters::Parameters;
use super::tensor::{Origin, Points, Shape, Tensor, product};
use super::trouble::Trouble;
use crate::error::{Error, OnnxError, Result};

/// A value: the node that computes it, if one does, how many nodes read it, and one of them.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    producer: Option<usize>,
    readers: usize,
    reader: usize,
}

/// A file whose names are known.
pub struct File<'a> {
    path: &'a Path,
    /// The nodes, each after those that it depends on.
    pub nodes: &'a [NodeProto],
    /// The names of the outputs.
    pub outputs: Vec<&'a str>,
    /// The version of the operators.
    pub version: i64,
    /// Whether an initialiser with a single number may be a parameter: other exporters store constants so.
    pub single_parameters: bool,
    /// The number of points that the graph is for, if it is for one only.
    pub points: Option<usize>,
    /// The initialisers that are parameters, where the exporter says so.
    pub marks: Option<Marks<'a>>,
    /// Names are looked up once; from then on a value is a number.
    numbers: HashMap<&'a str, usize>,
    values: Vec<Named>,
    /// Why initialisers are not read.
    unread: HashMap<&'a str, String>,
    /// The inputs of all nodes one after the other, `None` where one is left out, and where those of each node start.
    arguments: Vec<Option<usize>>,
    starts: Vec<usize>,
}

/// An input: its name, the shape of a point, and whether it holds whole numbers.
pub struct Input<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape.
    pub shape: Shape,
    /// Whole numbers or not.
    pub origin: Origin,
}

/// The most columns of the data.
const MOST_VALUES: usize = 1 << 31;

impl<'a> File<'a> {
    /// Checks the names of a model's graph.
    pub fn new(path: &'a Path, model: &'a ModelProto) -> Result<(Self, &'a GraphProto)> {
        let refuse = |problem: String| Error::Onnx(OnnxError::File { path: path.to_path_buf(), problem });
        let graph = model.graph.as_ref().ok_or_else(|| refuse("there is no graph in it".to_string()))?;
        let own = model.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let marks = Marks::new(graph);
        let notes = marks.is_some();
        let given = graph.initializer.iter().map(|tensor| tensor.name.as_str());
        let given = given.chain(graph.input.iter().map(|input| input.name.as_str()));
        let mut file = Self {
            path,
            nodes: &graph.node,
            outputs: graph.output.iter().map(|output| output.name.as_str()).collect(),
            version: own.map_or(1, |set| set.version),
            single_parameters: model.producer_name == "pytorch" && (notes || !keeps_constants(graph)),
            points: None,
            marks,
            numbers: HashMap::with_capacity(graph.node.len() + graph.initializer.len()),
            values: Vec::with_capacity(graph.node.len() + graph.initializer.len()),
            unread: HashMap::new(),
            arguments: Vec::new(),
            starts: Vec::with_capacity(graph.node.len() + 1),
        };
        for name in given {
            file.define(name, None);
        }
        for (index, node) in graph.node.iter().enumerate() {
            file.starts.push(file.arguments.len());
            for name in &node.input {
                let number = file.numbers.get(name.as_str()).copied().filter(|_| !name.is_empty());
                match number.and_then(|number| file.values.get_mut(number)) {
                    Some(value) => (value.readers, value.reader) = (value.readers + 1, index),
                    None if name.is_empty() => {}
                    None => return Err(file.refuse(index, format!("its input `{name}` is not computed before it"))),
                }
                file.arguments.push(number);
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if !file.define(name, Some(index)) {
                    return Err(file.refuse(index, format!("its output `{name}` is computed twice")));
                }
            }
        }
        file.starts.push(file.arguments.len());
        Ok((file, graph))
    }

    /// Gives a name a number; whether it had none.
    fn define(&mut self, name: &'a str, producer: Option<usize>) -> bool {
        let new = self.numbers.insert(name, self.values.len()).is_none();
        self.values.push(Named { producer, ..Named::default() });
        new
    }

    /// The number of a value.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The values that a node takes; `None` where one is left out.
    pub fn arguments(&self, node: usize) -> &[Option<usize>] {
        let bounds = self.starts.get(node).zip(self.starts.get(node + 1));
        bounds.and_then(|(start, end)| self.arguments.get(*start..*end)).unwrap_or_default()
    }

    /// Why a value is not known, as the rest of a sentence that starts with it.
    pub fn unread(&self, name: &str) -> &str {
        self.unread.get(name).map_or("is of a kind that is not read", String::as_str)
    }

    fn named(&self, name: &str) -> Option<&Named> {
        self.values.get(self.number(name)?)
    }

    /// The node that computes a value.
    pub fn producer(&self, name: &str) -> Option<&'a NodeProto> {
        self.nodes.get(self.named(name)?.producer?)
    }

    /// The node that computes a value, if it has this operator of the standard set.
    pub fn made_by(&self, name: &str, operator: &str) -> Option<&'a NodeProto> {
        self.producer(name).filter(|node| node.op_type == operator && node.is_standard())
    }

    /// The only node that reads a value.
    pub fn only_reader(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        let value = self.named(name).filter(|value| value.readers == 1 && !self.outputs.contains(&name))?;
        Some((value.reader, self.nodes.get(value.reader)?))
    }

    /// Which nodes a value depends on.
    pub fn needed(&self, output: &str) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        let mut open: Vec<usize> = self.named(output).and_then(|value| value.producer).into_iter().collect();
        while let Some(node) = open.pop() {
            if let Some(needed) = needed.get_mut(node).filter(|needed| !**needed) {
                *needed = true;
                let values = self.arguments(node).iter().flatten().filter_map(|number| self.values.get(*number));
                open.extend(values.filter_map(|value| value.producer));
            }
        }
        needed
    }

    /// A refusal that names the node and its operator.
    pub fn refuse(&self, index: usize, problem: impl Into<String>) -> Error {
        let node = self.nodes.get(index).cloned().unwrap_or_default();
        let name = [&node.name].into_iter().chain(&node.output).find(|name| !name.is_empty());
        let operator = match node.is_standard() {
            true => node.op_type.clone(),
            false => format!("{}.{}", node.domain, node.op_type),
        };
        Error::Onnx(OnnxError::Node {
            path: self.path.to_path_buf(),
            node: name.cloned().unwrap_or_else(|| format!("number {index}")).into(),
            operator: operator.into(),
            problem: problem.into(),
        })
    }

    /// The error of a node that made trouble, with the ways out of it.
    pub fn trouble(&self, index: usize, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Other(error) => error,
            Trouble::Refused(problem) => self.refuse(index, format!("{problem}. {WAYS_OUT}")),
        }
    }

    /// A refusal of the file as a whole.
    pub fn refuse_file(&self, problem: impl Into<String>) -> Error {
        Error::Onnx(OnnxError::File { path: self.path.to_path_buf(), problem: problem.into() })
    }

    /// The values of the initialisers: constants and parameters.
    pub fn initializers(
        &mut self,
        graph: &'a GraphProto,
        parameters: &mut Parameters,
    ) -> Result<HashMap<&'a str, Tensor>> {
        let mut values = HashMap::with_capacity(graph.initializer.len());
        let mut computed = Vec::new();
        for tensor in &graph.initializer {
            let value = match constant::read(tensor) {
                Ok(value) => value,
                Err(problem) if tensor.data_location != 0 => {
                    return Err(self.refuse_file(format!("initialiser `{}`: {problem}", tensor.name)));
                }
                // Class names and other tables of classifiers: only those that a layer uses matter.
                Err(problem) => {
                    self.unread.insert(&tensor.name, problem);
                    continue;
                }
            };
            let mark = self.marks.as_ref().map_or(Mark::Parameter, |marks| marks.of(&tensor.name));
            let numbers = value.as_constant().filter(|_| is_real(tensor.data_type) && mark != Mark::Constant);
            let value = match (mark, numbers.map(|constant| constant.values.to_vec())) {
                (Mark::Computed(source), Some(numbers)) => {
                    computed.push((tensor.name.as_str(), source, value.shape.lengths.clone(), numbers));
                    continue;
                }
                (_, Some(numbers)) => parameters.add(&tensor.name, value.shape.lengths, numbers),
                (_, None) => value,
            };
            if values.insert(tensor.name.as_str(), value).is_some() {
                return Err(self.refuse_file(format!("initialiser `{}` is there twice", tensor.name)));
            }
        }
        for (name, source, lengths, numbers) in computed {
            let tied = values.get(source).and_then(|source| parameters.rearranged(source, &lengths, &numbers));
            let problem = || {
                format!(
                    "initialiser `{name}` was computed from the parameter `{source}`, which is there too; export with optimize=False"
                )
            };
            values.insert(name, tied.ok_or_else(|| self.refuse_file(problem()))?);
        }
        Ok(values)
    }

    /// The inputs in order, of which one axis each holds the points: the one without a fixed length, else the first.
    pub fn inputs(&mut self, graph: &'a GraphProto, given: &HashMap<&'a str, Tensor>) -> Result<Vec<Input<'a>>> {
        let inputs: Vec<&ValueInfoProto> =
            graph.input.iter().filter(|input| !given.contains_key(input.name.as_str())).collect();
        if inputs.is_empty() {
            return Err(self.refuse_file("the graph has no input"));
        }
        let mut fixed = Vec::new();
        let mut found = Vec::new();
        for input in inputs {
            let kind = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
            let lengths: Vec<i64> = kind
                .and_then(|kind| kind.shape.as_ref())
                .map_or(Vec::new(), |shape| shape.dim.iter().map(|axis| axis.dim_value).collect());
            let shape = data_shape(&lengths).ok_or_else(|| {
                self.refuse_file(format!(
                    "the input `{}` has shape {lengths:?} (0: not fixed); one axis must be the points, and every other of \
                     fixed length: export with only the first axis dynamic",
                    input.name
                ))
            })?;
            fixed.push(shape.points.and_then(|points| lengths.get(points.axis)).copied().unwrap_or(0));
            let whole = kind.is_some_and(|kind| is_whole(kind.elem_type));
            let origin = if whole { Origin::Integer } else { Origin::Column };
            found.push(Input { name: &input.name, shape, origin });
        }
        let total = found.iter().try_fold(0_usize, |sum, input| sum.checked_add(input.shape.size()));
        if total.is_none_or(|total| total > MOST_VALUES) {
            return Err(self.refuse_file(format!("its inputs have more than {MOST_VALUES} values for every point")));
        }
        let first = fixed.first().copied().filter(|first| *first > 0 && fixed.iter().all(|other| other == first));
        self.points = first.and_then(|first| usize::try_from(first).ok());
        Ok(found)
    }
}

/// Whether PyTorch's current exporter wrote the nodes: it has constants among the initialisers, while the older one writes
/// them as nodes.
fn keeps_constants(graph: &GraphProto) -> bool {
    graph.node.iter().any(|node| node.name.starts_with("node_"))
}

/// How to go on with a network that is not read.
const WAYS_OUT: &str = "What now: fit the last layer alone, over features computed beforehand; or, in Python, let torch \
                        differentiate the network (derivatives=\"torch\")";

/// The shape of the points of an input with these lengths, 0 for one that is not fixed.
fn data_shape(lengths: &[i64]) -> Option<Shape> {
    let axis = lengths.iter().position(|length| *length <= 0).unwrap_or(0);
    let length = |(place, length): (usize, &i64)| match place == axis {
        true => Some(1),
        false => usize::try_from(*length).ok().filter(|length| *length > 0),
    };
    let lengths: Vec<usize> = lengths.iter().enumerate().map(length).collect::<Option<_>>()?;
    product(&lengths)?;
    (!lengths.is_empty()).then_some(Shape { lengths, points: Some(Points { axis, before: 1, after: 1 }) })
}
