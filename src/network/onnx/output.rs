//! The end of the graph: which output holds the scores, and the function that turns them into probabilities or rates.

use super::OutputLink;
use super::constant::{read, written};
use super::file::File;
use super::messages::{GraphProto, NodeProto};
use crate::error::Result;

/// The value that the likelihood takes, and the link after it that was left out.
pub struct Scores<'a> {
    /// The raw outputs.
    pub value: &'a str,
    /// What followed.
    pub link: Option<OutputLink>,
    /// The axis of a softmax.
    pub axis: Option<i64>,
}

/// Finds the scores among the outputs of a graph: of a classifier's labels and probabilities, the latter.
pub fn scores<'a>(file: &File<'a>, graph: &'a GraphProto) -> Result<Scores<'a>> {
    let candidates: Vec<&'a str> = file.outputs.iter().copied().filter(|name| !is_label(file, name)).collect();
    let output = match candidates[..] {
        [output] => output,
        [] => return Err(file.refuse_file("the graph has no output besides labels; one with scores is needed")),
        [first, second, ..] => {
            let problem = format!("the graph has several outputs (`{first}`, `{second}`); export it with one");
            return Err(file.refuse_file(problem));
        }
    };
    let value = plain(file, output);
    // scikit-learn writes [1 − p, p] for two classes.
    let probability = pair(file, graph, value).unwrap_or(value);
    let Some(node) = file.producer(probability).filter(|node| node.is_standard()) else {
        return Ok(Scores { value, link: None, axis: None });
    };
    let input = |node: &'a NodeProto| node.input.first().map_or("", |name| same(file, name));
    let linked = |link, node: &'a NodeProto| Scores { value: input(node), link: Some(link), axis: None };
    let softmax = |link, node: &'a NodeProto| {
        let axis = node.int("axis").unwrap_or(if file.version < 13 { 1 } else { -1 });
        Scores { axis: Some(axis), ..linked(link, node) }
    };
    Ok(match (node.op_type.as_str(), file.made_by(input(node), "Softmax")) {
        ("Softmax", _) => softmax(OutputLink::Softmax, node),
        ("LogSoftmax", _) => softmax(OutputLink::LogSoftmax, node),
        ("Log", Some(inner)) => softmax(OutputLink::LogSoftmax, inner),
        ("Sigmoid", _) => linked(OutputLink::Sigmoid, node),
        ("Exp", _) => linked(OutputLink::Exp, node),
        _ => Scores { value, link: None, axis: None },
    })
}

/// The value before anything that hands it on.
fn same<'a>(file: &File<'a>, name: &'a str) -> &'a str {
    back(file, name, |node| {
        // 1, 10, 11 and 16: float, float16, double and bfloat16.
        let real = node.op_type == "Cast" && matches!(node.int("to"), Some(1 | 10 | 11 | 16));
        node.is_standard() && (real || node.op_type == "Identity")
    })
}

/// The value before anything that only renames or reshapes it.
fn plain<'a>(file: &File<'a>, name: &'a str) -> &'a str {
    back(file, name, |node| {
        let operator = node.op_type.as_str();
        let reshape = matches!(operator, "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze");
        node.is_standard() && reshape || node.domain == "ai.onnx.ml" && operator == "ZipMap"
    })
}

/// The value before all nodes that are passed over.
fn back<'a>(file: &File<'a>, name: &'a str, passes: impl Fn(&NodeProto) -> bool) -> &'a str {
    let mut value = name;
    while let Some(node) = file.producer(value).filter(|node| passes(node)) {
        let Some(input) = node.input.first() else { break };
        value = input;
    }
    value
}

/// p in [1 − p, p].
fn pair<'a>(file: &File<'a>, graph: &'a GraphProto, value: &str) -> Option<&'a str> {
    let [negative, positive] = &file.made_by(value, "Concat")?.input[..] else { return None };
    let [one, other] = &file.made_by(negative, "Sub")?.input[..] else { return None };
    let initializer = graph.initializer.iter().find(|tensor| tensor.name == *one).and_then(|tensor| read(tensor).ok());
    let one = initializer.or_else(|| written(file.made_by(one, "Constant")?).ok())?;
    let ones = one.as_constant()?.values.iter().all(|value| *value == 1.0);
    let positive = same(file, positive);
    (ones && same(file, other) == positive && file.made_by(positive, "Sigmoid").is_some()).then_some(positive)
}

/// Whether an output is a label: what is left of scores after ArgMax or a comparison.
fn is_label(file: &File<'_>, output: &str) -> bool {
    let mut value = output;
    while let Some(node) = file.producer(value) {
        let next = match node.op_type.as_str() {
            "ArgMax" | "Binarizer" | "TopK" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => return true,
            "Cast" | "Reshape" | "Identity" | "Squeeze" => node.input.first(),
            "ArrayFeatureExtractor" => node.input.get(1),
            _ => None,
        };
        match next {
            Some(name) => value = name,
            None => return false,
        }
    }
    false
}
