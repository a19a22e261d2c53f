//! The parts of a file that matter, checked once: every value is computed once, before it is used.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::constant::{self, is_real, is_whole};
use super::marks::{Mark, Marks};
use super::messages::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use super::parameters::Parameters;
use super::tensor::{Origin, Points, Shape, Tensor, product};
use super::trouble::Trouble;
use crate::error::{Error, OnnxError, Result};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// An initialiser or an input.
    Given,
    /// A node.
    Node(usize),
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
    /// Whether PyTorch wrote it, whose initialisers are parameters even where they hold a single number.
    pub pytorch: bool,
    /// The number of points that the graph is for, if it is for one only.
    pub points: Option<usize>,
    /// The initialisers that are parameters, where the exporter says so.
    pub marks: Option<Marks<'a>>,
    sources: HashMap<&'a str, Source>,
    /// How many nodes read a value, and one of them.
    readers: HashMap<&'a str, (usize, usize)>,
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
        let given = graph.initializer.iter().map(|tensor| tensor.name.as_str());
        let given = given.chain(graph.input.iter().map(|input| input.name.as_str()));
        let mut file = Self {
            path,
            nodes: &graph.node,
            outputs: graph.output.iter().map(|output| output.name.as_str()).collect(),
            version: own.map_or(1, |set| set.version),
            pytorch: model.producer_name == "pytorch",
            points: None,
            marks: Marks::new(graph),
            sources: given.map(|name| (name, Source::Given)).collect(),
            readers: HashMap::new(),
        };
        for (index, node) in graph.node.iter().enumerate() {
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                if !file.sources.contains_key(name.as_str()) {
                    return Err(file.refuse(index, format!("its input `{name}` is not computed before it")));
                }
                let (count, reader) = file.readers.entry(name).or_default();
                (*count, *reader) = (*count + 1, index);
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if file.sources.insert(name, Source::Node(index)).is_some() {
                    return Err(file.refuse(index, format!("its output `{name}` is computed twice")));
                }
            }
        }
        Ok((file, graph))
    }

    /// The node that computes a value.
    pub fn producer(&self, name: &str) -> Option<&'a NodeProto> {
        match self.sources.get(name) {
            Some(Source::Node(index)) => self.nodes.get(*index),
            _ => None,
        }
    }

    /// The node that computes a value, if it has this operator of the standard set.
    pub fn made_by(&self, name: &str, operator: &str) -> Option<&'a NodeProto> {
        self.producer(name).filter(|node| node.op_type == operator && node.is_standard())
    }

    /// The only node that reads a value.
    pub fn only_reader(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        match self.readers.get(name) {
            Some((1, index)) if !self.outputs.contains(&name) => Some((*index, self.nodes.get(*index)?)),
            _ => None,
        }
    }

    /// Which nodes a value depends on.
    pub fn needed(&self, output: &'a str) -> Vec<bool> {
        let mut names = HashSet::from([output]);
        let mut needed = vec![false; self.nodes.len()];
        for (node, needed) in self.nodes.iter().zip(&mut needed).rev() {
            if node.output.iter().any(|name| names.contains(name.as_str())) {
                *needed = true;
                names.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
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
        &self,
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
                Err(_) => continue,
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
                format!("initialiser `{name}` was computed from the parameter `{source}`, which is there too; export with optimize=False")
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
            let lengths: Vec<i64> = kind.and_then(|kind| kind.shape.as_ref()).map_or(Vec::new(), |shape| {
                shape.dim.iter().map(|axis| axis.dim_value).collect()
            });
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
