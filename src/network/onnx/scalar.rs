//! Activations: functions of one number, whatever operators an exporter writes them with.
//!
//! The nodes between a value and an earlier one, if they compute entry by entry and with single numbers as constants,
//! are a function of one number. It is recognised by its values: the activation that it equals, to 1e-6, at points
//! between −30 and 30. So gelu by Erf, x·Sigmoid(x), Softplus with its threshold, or a chain of Mul, Pow and Tanh are
//! all read without a list of the forms they may take.

use std::collections::{BTreeSet, HashMap};

use super::graph::{Graph, Value, is_standard};
use super::messages::NodeProto;
use super::node::Attributes;
use crate::network::Activation;

/// The most nodes that an activation may be made of.
const MOST_NODES: usize = 40;
/// The largest difference to an activation at a point z, relative to 1 + |z|: constants are stored as f32.
const TOLERANCE: f64 = 1e-6;

/// The activation that a value is of an earlier one, and that one.
pub fn activation(graph: &Graph, output: &str) -> Option<(Activation, String)> {
    let shape = graph.shape(output)?;
    let place = |name: &str| (graph.producer(name).map_or(0, |index| index + 1), name.to_string());
    // What the value depends on, latest first: a single value is a candidate.
    let mut frontier = BTreeSet::from([place(graph.resolve(output))]);
    for _ in 0..MOST_NODES {
        let (_, latest) = frontier.pop_last()?;
        let node = graph.node(graph.producer(&latest)?);
        if !is_elementwise(node) {
            return None;
        }
        for name in node.input.iter().filter(|name| !name.is_empty()) {
            match graph.value(name)? {
                Value::Constant(constant) => constant.scalar().map(|_| ())?,
                Value::Data(Some(own)) if own == shape => {
                    frontier.insert(place(graph.resolve(name)));
                }
                Value::Data(_) | Value::Sizes(_) => return None,
            }
        }
        if frontier.len() == 1 {
            let (_, candidate) = frontier.first()?;
            if let Some(activation) = recognise(graph, output, candidate) {
                return Some((activation, candidate.clone()));
            }
        }
    }
    None
}

/// The activation with the values of the function that leads from one value to another.
fn recognise(graph: &Graph, output: &str, input: &str) -> Option<Activation> {
    let probes = (-120..=120).map(|step| 0.25 * f64::from(step) + 0.01);
    let values: Vec<(f64, f64)> = probes
        .map(|z| Some((z, evaluate(graph, graph.resolve(output), &mut HashMap::from([(input.to_string(), z)]))?)))
        .collect::<Option<_>>()?;
    let equals = |activation: &Activation| {
        values.iter().all(|&(z, value)| (activation.value(z) - value).abs() <= TOLERANCE * (1.0 + z.abs()))
    };
    Activation::ALL.into_iter().find(equals)
}

/// The number that a value has when those already known have theirs.
fn evaluate(graph: &Graph, name: &str, known: &mut HashMap<String, f64>) -> Option<f64> {
    if let Some(value) = known.get(name) {
        return Some(*value);
    }
    if let Some(constant) = graph.constant(name) {
        return constant.scalar();
    }
    let node = graph.node(graph.producer(name)?);
    let inputs = node.input.iter().map(|input| match input.is_empty() {
        true => Some(f64::NAN),
        false => evaluate(graph, graph.resolve(input), known),
    });
    let inputs: Vec<f64> = inputs.collect::<Option<_>>()?;
    let value = apply(node, &inputs)?;
    known.insert(name.to_string(), value);
    Some(value)
}

fn is_elementwise(node: &NodeProto) -> bool {
    // Any number will do: what matters is whether the operator is known.
    is_standard(node) && apply(node, &[0.5, 0.5, 0.5]).is_some()
}

/// An operator on single numbers.
fn apply(node: &NodeProto, inputs: &[f64]) -> Option<f64> {
    let x = *inputs.first()?;
    let second = || inputs.get(1).copied();
    let truth = |condition: bool| if condition { 1.0 } else { 0.0 };
    let alpha = |default: f64| node.float("alpha").unwrap_or(default);
    Some(match node.op_type.as_str() {
        "Add" => x + second()?,
        "Sub" => x - second()?,
        "Mul" => x * second()?,
        "Div" => x / second()?,
        "Pow" => x.powf(second()?),
        "Max" => inputs.iter().copied().fold(x, f64::max),
        "Min" => inputs.iter().copied().fold(x, f64::min),
        "Greater" => truth(x > second()?),
        "GreaterOrEqual" => truth(x >= second()?),
        "Less" => truth(x < second()?),
        "LessOrEqual" => truth(x <= second()?),
        "Not" => truth(x == 0.0),
        "Where" => {
            if x == 0.0 {
                *inputs.get(2)?
            } else {
                second()?
            }
        }
        // A bound that is left out is NaN here, which `max` and `min` pass over.
        "Clip" if node.attribute.is_empty() => {
            x.max(second().unwrap_or(f64::NAN)).min(inputs.get(2).copied().unwrap_or(f64::NAN))
        }
        "Neg" => -x,
        "Abs" => x.abs(),
        "Exp" => x.exp(),
        "Log" => x.ln(),
        "Sqrt" => x.sqrt(),
        "Reciprocal" => x.recip(),
        "Erf" => libm::erf(x),
        "Sin" => x.sin(),
        "Cos" => x.cos(),
        "Sign" => truth(x > 0.0) - truth(x < 0.0),
        "Tanh" => x.tanh(),
        "Relu" => x.max(0.0),
        "Sigmoid" => Activation::Sigmoid.value(x),
        "Softplus" => Activation::Softplus.value(x),
        "Swish" => x * Activation::Sigmoid.value(alpha(1.0) * x),
        "Elu" => {
            if x > 0.0 {
                x
            } else {
                alpha(1.0) * x.exp_m1()
            }
        }
        "Celu" => x.max(0.0) + (alpha(1.0) * (x / alpha(1.0)).exp_m1()).min(0.0),
        "LeakyRelu" => {
            if x > 0.0 {
                x
            } else {
                alpha(0.01) * x
            }
        }
        "PRelu" => {
            if x > 0.0 {
                x
            } else {
                second()? * x
            }
        }
        "Gelu" => match node.word("approximate").as_deref() {
            None | Some("none") => Activation::Gelu.value(x),
            Some("tanh") => Activation::GeluTanh.value(x),
            Some(_) => return None,
        },
        _ => return None,
    })
}
