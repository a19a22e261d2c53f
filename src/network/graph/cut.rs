//! A graph cut in two: what the first parameters compute, and the rest as a graph of its own.

use super::Graph;
use super::build::Term;
use super::fixed::FixedLinear;
use super::indices::Indices;
use super::node::{Kind, Node};
use super::places::with_places;

impl Graph {
    /// The part of the graph that the parameters from `start` on do not move, whose outputs are the inputs of the second: the
    /// part that they move. `None` where nothing lies before them, or where the second part has parameters of the first.
    pub fn cut(&self, start: usize) -> Option<(Graph, Graph)> {
        let mut behind: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let (before, after) = sides(&node.kind, start);
            let moved = after || node.inputs.iter().any(|input| behind[*input]);
            if moved && before {
                return None;
            }
            behind.push(moved);
        }
        let mut crossing: Vec<usize> = Vec::new();
        for (node, _) in self.nodes.iter().zip(&behind).filter(|(_, behind)| **behind) {
            for input in node.inputs.iter().filter(|input| !behind[**input]) {
                if !crossing.contains(input) {
                    crossing.push(*input);
                }
            }
        }
        if crossing.is_empty() {
            return None;
        }
        let split = self.tensors.iter().zip(self.ranges()).take_while(|(_, range)| range.start < start).count();
        let front = self.front(&behind, &crossing, split)?;
        let inputs = crossing.iter().map(|value| Node { kind: Kind::Input(self.widths[*value]), inputs: Vec::new() });
        let (mut nodes, mut places) = (inputs.collect(), vec![usize::MAX; self.nodes.len()]);
        crossing.iter().enumerate().for_each(|(place, value)| places[*value] = place);
        self.take_nodes(|index| behind[index], start, &mut nodes, &mut places);
        let head = Graph::new(nodes, self.tensors[split..].to_vec(), places[self.output]).ok()?;
        Some((front, head))
    }

    /// The graph whose outputs are these values, one after the other.
    fn front(&self, behind: &[bool], values: &[usize], tensors: usize) -> Option<Graph> {
        let (mut nodes, mut places) = (Vec::new(), vec![usize::MAX; self.nodes.len()]);
        self.take_nodes(|index| !behind[index], 0, &mut nodes, &mut places);
        let inputs: Vec<usize> = values.iter().map(|value| places[*value]).collect();
        let output = match inputs[..] {
            [output] => output,
            _ => {
                let widths: Vec<usize> = values.iter().map(|value| self.widths[*value]).collect();
                let entries = widths.iter().enumerate().flat_map(|(input, width)| (0..*width).map(move |e| (input, e)));
                let term = |(output, (input, entry))| Term { output, input, entry, weight: 1.0 };
                let terms = entries.enumerate().map(term).collect();
                let joined = FixedLinear::new(&widths, widths.iter().sum(), terms, None).ok()?;
                nodes.push(Node { kind: Kind::FixedLinear(joined), inputs });
                nodes.len() - 1
            }
        };
        Graph::new(nodes, self.tensors[..tensors].to_vec(), output).ok()
    }

    /// Appends some of the nodes, with θ starting at `start`, and notes their places.
    fn take_nodes(&self, taken: impl Fn(usize) -> bool, start: usize, nodes: &mut Vec<Node>, places: &mut [usize]) {
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| taken(*index)) {
            places[index] = nodes.len();
            let inputs = node.inputs.iter().map(|input| places[*input]).collect();
            nodes.push(Node { kind: moved_by(&node.kind, start), inputs });
        }
    }
}

/// Whether a node has parameters before `start`, and from it on.
fn sides(kind: &Kind, start: usize) -> (bool, bool) {
    kind.places().fold((false, false), |(before, after), places| match places {
        Indices::Range(range) => (before || range.start < start, after || range.end > start),
        Indices::List(list) => {
            (before || list.iter().any(|place| *place < start), after || list.iter().any(|place| *place >= start))
        }
    })
}

/// The node with θ starting at `start`.
fn moved_by(kind: &Kind, start: usize) -> Kind {
    with_places(kind, |places| match places {
        Indices::Range(range) => Indices::Range(range.start - start..range.end - start),
        Indices::List(list) => Indices::List(list.iter().map(|place| place - start).collect()),
    })
}
