//! Activations by their values, whatever operators an exporter writes them with.
//!
//! The nodes between a value and an earlier one, if they compute entry by entry and with single numbers as constants, are a
//! function of one number: the activation that it equals, to 1e-6, at points between −30 and 30. So gelu by Erf, x·Sigmoid(x),
//! Softplus with its threshold, or a chain of Mul, Pow and Tanh are read without a list of the forms they may take.

use std::collections::HashMap;

use super::messages::NodeProto;
use super::scalar::{Plain, evaluate};
use crate::network::Activation;
use crate::network::graph::Value;

/// The most nodes that an activation may be made of.
const MOST_NODES: usize = 40;
/// The largest difference to an activation at a point z, relative to 1 + |z|: constants are stored as f32.
const TOLERANCE: f64 = 1e-6;
/// How many operators are evaluated for a graph before it is lowered as it stands.
const MOST_EVALUATIONS: usize = 10_000_000;

/// An input of an operator that works entry by entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// A number.
    Number(f64),
    /// A value of the graph.
    Value(Value),
    /// Left out.
    Missing,
}

/// How values were computed.
#[derive(Debug, Default)]
pub struct Recipes {
    /// By the value: the number of the recipe, the node, and its operands.
    known: HashMap<Value, (usize, usize, Vec<Operand>)>,
    evaluations: usize,
}

impl Recipes {
    /// Remembers that a node computes a value from these.
    pub fn add(&mut self, value: Value, node: usize, operands: Vec<Operand>) {
        let order = self.known.len() + 1;
        self.known.entry(value).or_insert((order, node, operands));
    }

    /// The activation that the result of a node is of an earlier value, and that one.
    pub fn recognise(&mut self, nodes: &[NodeProto], node: usize, operands: &[Operand]) -> Option<(Activation, Value)> {
        let mut frontier: Vec<Value> = Vec::new();
        let mut path = vec![(node, operands.to_vec(), None)];
        extend(&mut frontier, operands);
        for _ in 0..MOST_NODES {
            if let [source] = frontier[..] {
                if let Some(activation) = self.matching(nodes, &path, source) {
                    return Some((activation, source));
                }
            }
            // What depends on others goes first.
            let order = |value: &Value| self.known.get(value).map_or(0, |known| known.0);
            let place = (0..frontier.len()).max_by_key(|place| frontier.get(*place).map(order))?;
            let latest = frontier.swap_remove(place);
            let (_, node, operands) = self.known.get(&latest)?;
            extend(&mut frontier, operands);
            path.push((*node, operands.clone(), Some(latest)));
        }
        None
    }

    /// The activation with the values of the function from a source to the first entry of the path.
    fn matching(
        &mut self,
        nodes: &[NodeProto],
        path: &[(usize, Vec<Operand>, Option<Value>)],
        source: Value,
    ) -> Option<Activation> {
        let mut candidates: Vec<Activation> = Activation::ALL.to_vec();
        // From the middle outwards in steps that miss no kink; most functions fail at the first points.
        for step in (0..241).map(|step: i32| if step % 2 == 0 { step / 2 } else { -(step + 1) / 2 }) {
            self.evaluations += path.len();
            if self.evaluations > MOST_EVALUATIONS {
                return None;
            }
            let z = 0.25 * f64::from(step) + 0.01;
            let mut known = vec![(source, z)];
            let mut last = z;
            for (node, operands, value) in path.iter().rev() {
                let number = |operand: &Operand| match operand {
                    Operand::Number(number) => Some(*number),
                    Operand::Value(value) => known.iter().find(|(own, _)| own == value).map(|(_, number)| *number),
                    Operand::Missing => None,
                };
                let inputs: Vec<Option<f64>> = operands.iter().map(number).collect();
                last = evaluate(&mut Plain, nodes.get(*node)?, &inputs).ok()?;
                known.extend(value.map(|value| (value, last)));
            }
            candidates.retain(|activation| (activation.value(z) - last).abs() <= TOLERANCE * (1.0 + z.abs()));
            if candidates.is_empty() {
                return None;
            }
        }
        candidates.first().copied()
    }
}

fn extend(frontier: &mut Vec<Value>, operands: &[Operand]) {
    for operand in operands {
        if let Operand::Value(value) = operand {
            if !frontier.contains(value) {
                frontier.push(*value);
            }
        }
    }
}
