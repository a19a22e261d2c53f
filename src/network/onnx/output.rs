//! The end of the graph: which output holds the scores, and the function that turns them into probabilities or rates.

use super::OutputLink;
use super::graph::{Graph, is_standard};
use super::node::Attributes;
use crate::error::Result;

/// The value that the likelihood takes, and the link after it that was left out.
pub struct Scores {
    /// The raw outputs.
    pub value: String,
    /// What followed.
    pub link: Option<OutputLink>,
}

/// Finds the scores among the outputs of a graph: of a classifier's labels and probabilities, the latter.
pub fn scores(graph: &Graph) -> Result<Scores> {
    let candidates: Vec<&str> =
        graph.outputs.iter().map(String::as_str).filter(|name| !is_label(graph, name)).collect();
    let output = match candidates[..] {
        [output] => output,
        [] => return Err(graph.refuse_file("the graph has no output besides labels; one with scores is needed")),
        [first, second, ..] => {
            let problem = format!("the graph has several outputs (`{first}`, `{second}`); export it with one");
            return Err(graph.refuse_file(problem));
        }
    };
    let value = plain(graph, output);
    // scikit-learn writes [1 − p, p] for two classes.
    let probability = pair(graph, value).unwrap_or(value);
    let node = graph.producer(probability).map(|index| (index, graph.node(index)));
    let Some((index, node)) = node.filter(|(_, node)| is_standard(node)) else {
        return Ok(Scores { value: value.to_string(), link: None });
    };
    let input = node.input.first().map_or("", |name| graph.resolve(name));
    let softmax = |link, index: usize, input: &str| match graph.shape(input) {
        Some([_]) => Ok(Scores { value: input.to_string(), link: Some(link) }),
        _ => Err(graph.refuse(index, "it is known only over all outputs of a point")),
    };
    match node.op_type.as_str() {
        "Softmax" if last_axis(node.int("axis")) => softmax(OutputLink::Softmax, index, input),
        "LogSoftmax" if last_axis(node.int("axis")) => softmax(OutputLink::LogSoftmax, index, input),
        "Log" if graph.made_by(input, "Softmax").is_some_and(|inner| last_axis(inner.int("axis"))) => {
            let inner = graph.made_by(input, "Softmax").and_then(|inner| inner.input.first());
            softmax(OutputLink::LogSoftmax, index, inner.map_or("", |name| graph.resolve(name)))
        }
        "Sigmoid" => Ok(Scores { value: input.to_string(), link: Some(OutputLink::Sigmoid) }),
        "Exp" => Ok(Scores { value: input.to_string(), link: Some(OutputLink::Exp) }),
        _ => Ok(Scores { value: value.to_string(), link: None }),
    }
}

fn last_axis(axis: Option<i64>) -> bool {
    matches!(axis, None | Some(-1 | 1))
}

/// The value before anything that only renames or reshapes it.
fn plain<'a>(graph: &'a Graph, output: &'a str) -> &'a str {
    let mut value = graph.resolve(output);
    while let Some(node) = graph.producer(value).map(|index| graph.node(index)) {
        let Some(input) = node.input.first().map(|name| graph.resolve(name)) else { break };
        let reshape = matches!(node.op_type.as_str(), "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze");
        let same =
            reshape && is_standard(node) && graph.width(input).is_some() && graph.width(input) == graph.width(value);
        let table = node.domain == "ai.onnx.ml" && node.op_type == "ZipMap";
        if !same && !table {
            break;
        }
        value = input;
    }
    value
}

/// p in [1 − p, p].
fn pair<'a>(graph: &'a Graph, value: &str) -> Option<&'a str> {
    let [negative, positive] = graph.made_by(value, "Concat")?.input.as_slice() else { return None };
    let difference = graph.made_by(negative, "Sub")?;
    let one = graph.constant(difference.input.first()?)?.is_uniform(1.0);
    let positive = graph.resolve(positive);
    (one && graph.resolve(difference.input.get(1)?) == positive && graph.made_by(positive, "Sigmoid").is_some())
        .then_some(positive)
}

/// Whether an output is a label: what is left of scores after ArgMax or a comparison.
fn is_label(graph: &Graph, output: &str) -> bool {
    let mut value = graph.resolve(output);
    while let Some(node) = graph.producer(value).map(|index| graph.node(index)) {
        let next = match node.op_type.as_str() {
            "ArgMax" | "Binarizer" | "TopK" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => return true,
            "Cast" | "Reshape" | "Identity" | "Squeeze" => node.input.first(),
            "ArrayFeatureExtractor" => node.input.get(1),
            _ => None,
        };
        match next {
            Some(name) => value = graph.resolve(name),
            None => return false,
        }
    }
    false
}
