//! From nodes to a chain of parts: steps back from the output to the input, in which a sum of two branches is one step
//! to the value where they part.

use std::collections::{BTreeSet, HashMap};

use super::graph::Graph;
use super::part::{Kind, Part};
use super::patterns::{Step, step, unknown};
use crate::error::{Error, Result};

/// The layers between the input and a value, in order.
pub fn chain(graph: &Graph, output: &str) -> Result<Vec<Part>> {
    let output = graph.resolve(output);
    let mut steps = Steps { graph, known: HashMap::new() };
    // Nodes are in the order of evaluation: when a sum is looked at, the steps of its branches are known.
    for index in needed(graph, output) {
        if let Ok(step) = steps.look(index) {
            steps.known.insert(index, step);
        }
    }
    let walk = steps.walk(output);
    match walk.stopped {
        // Recurrence and attention say more than the slicing around them.
        Some(index) => Err(steps.refusal(telling(graph, output).unwrap_or(index))),
        None if walk.ends_at(graph) => Ok(walk.parts(0..walk.places.len())),
        None => Err(graph.refuse_file(format!("the output `{output}` does not depend on the input `{}`", graph.input))),
    }
}

/// The nodes that a value depends on, in order.
fn needed(graph: &Graph, output: &str) -> BTreeSet<usize> {
    let mut nodes = BTreeSet::new();
    let mut open: Vec<usize> = graph.producer(output).into_iter().collect();
    while let Some(index) = open.pop() {
        if nodes.insert(index) {
            let inputs = graph.node(index).input.iter().filter(|name| graph.constant(name).is_none());
            open.extend(inputs.filter_map(|name| graph.producer(name)));
        }
    }
    nodes
}

/// The first node that a value depends on that gives a foreign kind of layer away: recurrence or attention.
fn telling(graph: &Graph, output: &str) -> Option<usize> {
    let foreign = ["LSTM", "GRU", "RNN", "Attention", "MultiHeadAttention", "Loop", "Scan", "If", "Softmax"];
    let tells = |index: &usize| {
        let node = graph.node(*index);
        let product_of_data = node.op_type == "MatMul" && node.input.iter().all(|name| graph.constant(name).is_none());
        product_of_data || foreign.contains(&node.op_type.as_str())
    };
    needed(graph, output).into_iter().find(tells)
}

/// The steps that are known, by the node that they end at.
struct Steps<'a> {
    graph: &'a Graph,
    known: HashMap<usize, Step>,
}

/// The way back from a value: the values on it, each with the part that ends there, as far as it is known.
struct Walk<'a> {
    places: Vec<(&'a str, Option<&'a Part>)>,
    /// The node at which no step is known.
    stopped: Option<usize>,
}

impl Walk<'_> {
    /// The parts in these places, in the order of evaluation.
    fn parts(&self, places: std::ops::Range<usize>) -> Vec<Part> {
        self.places.get(places).unwrap_or_default().iter().rev().filter_map(|(_, part)| part.cloned()).collect()
    }

    fn ends_at(&self, graph: &Graph) -> bool {
        self.places.last().is_some_and(|(name, _)| *name == graph.input)
    }
}

impl<'a> Steps<'a> {
    /// The step that ends at a node.
    fn look(&self, index: usize) -> Result<Step> {
        let graph = self.graph;
        let output = graph.node(index).output.first().ok_or_else(|| unknown(graph, index))?;
        let found = step(graph, index, output);
        match found {
            Err(refusal) => self.residual(index, output).unwrap_or(Err(refusal)),
            found => found,
        }
    }

    /// The way back from a value, until the input or a node that is not understood.
    fn walk<'b>(&'b self, from: &'b str) -> Walk<'b> {
        let (mut places, mut value) = (Vec::new(), self.graph.resolve(from));
        loop {
            let Some(index) = self.graph.producer(value) else {
                places.push((value, None));
                return Walk { places, stopped: None };
            };
            let step = self
                .known
                .get(&index)
                .filter(|_| self.graph.node(index).output.first().is_some_and(|name| name == value));
            let Some(step) = step else {
                places.push((value, None));
                return Walk { places, stopped: Some(index) };
            };
            places.push((value, step.part.as_ref()));
            value = &step.input;
        }
    }

    /// Why there is no step at a node.
    fn refusal(&self, index: usize) -> Error {
        self.look(index).err().unwrap_or_else(|| unknown(self.graph, index))
    }

    /// The sum of two branches; `None` if the node is something else.
    fn residual(&self, index: usize, output: &str) -> Option<Result<Step>> {
        let graph = self.graph;
        let node = graph.node(index);
        let [a, b] = node.input.as_slice() else { return None };
        let shape = graph.shape(output);
        let data = |name: &str| graph.constant(name).is_none();
        if !matches!(node.op_type.as_str(), "Add" | "Sum") || !data(a) || !data(b) {
            return None;
        }
        let (a, b) = (self.walk(a), self.walk(b));
        let place = |name: &str| a.places.iter().position(|(other, _)| *other == name);
        let common = b.places.iter().enumerate().find_map(|(end, (name, _))| Some((place(name)?, end)));
        let Some((end_a, end_b)) = common else {
            // Every way that is understood ends at the input, so one of the two is not.
            let stopped = a.stopped.or(b.stopped);
            return Some(Err(stopped.map_or_else(|| unknown(graph, index), |node| self.refusal(node))));
        };
        if shape.is_none() || node.input.iter().any(|input| graph.shape(input) != shape) {
            return Some(Err(graph.refuse(index, "the two branches that it adds have different shapes")));
        }
        let fork = b.places.get(end_b).map_or("", |(name, _)| name).to_string();
        let branches = [a.parts(0..end_a), b.parts(0..end_b)];
        if branches.iter().all(Vec::is_empty) {
            return Some(Err(graph.refuse(index, "it adds a value to itself")));
        }
        let [first, second] = branches;
        // In the order in which the graph evaluates the parameters; a branch without any comes last.
        let earliest = |parts: &[Part]| parts.iter().filter(|part| part.n_params() > 0).map(|part| part.node).min();
        let swap = match (earliest(&first), earliest(&second)) {
            (Some(first), Some(second)) => second < first,
            (None, Some(_)) => true,
            (None, None) => first.is_empty(),
            (Some(_), None) => false,
        };
        let (first, second) = if swap { (second, first) } else { (first, second) };
        let part = Part { kind: Kind::Residual { first, second }, parameters: Vec::new(), node: index };
        Some(Ok(Step { part: Some(part), input: fork }))
    }
}
