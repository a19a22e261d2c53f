//! Linear layers: Gemm, and MatMul with or without Add.

use super::Step;
use crate::error::Result;
use crate::network::onnx::constant::Constant;
use crate::network::onnx::graph::Graph;
use crate::network::onnx::node::Attributes;
use crate::network::onnx::part::{Kind, Parameter};

/// α x W + β b, with W transposed or not.
pub fn gemm(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    let (alpha, beta) = (node.float("alpha").unwrap_or(1.0), node.float("beta").unwrap_or(1.0));
    let transposed = node.int("transB").unwrap_or(0) == 1;
    if node.int("transA").unwrap_or(0) == 1 {
        return Err(graph.refuse(index, "it transposes the data"));
    }
    let bias = match node.input.get(2).filter(|name| !name.is_empty() && beta != 0.0) {
        Some(name) => Some(graph.constant(name).ok_or_else(|| graph.refuse(index, "its third input is not constant"))?),
        None => None,
    };
    let input = node.input.first().map_or("", String::as_str);
    linear(graph, index, (input, node.input.get(1)), transposed, bias, (alpha, beta))
}

/// x W.
pub fn matmul(graph: &Graph, index: usize) -> Result<Step> {
    let node = graph.node(index);
    linear(graph, index, (node.first_input(), node.input.get(1)), false, None, (1.0, 1.0))
}

/// x W + b; `None` if the node is something else.
pub fn matmul_and_bias(graph: &Graph, index: usize) -> Result<Option<Step>> {
    let node = graph.node(index);
    let Some((data, bias)) = graph.data_and_constant(node).filter(|_| node.op_type == "Add") else { return Ok(None) };
    let Some(product) = graph.made_by(data, "MatMul") else { return Ok(None) };
    linear(graph, index, (product.first_input(), product.input.get(1)), false, Some(bias), (1.0, 1.0)).map(Some)
}

fn linear(
    graph: &Graph,
    index: usize,
    (input, weight): (&str, Option<&String>),
    transposed: bool,
    bias: Option<&Constant>,
    (alpha, beta): (f64, f64),
) -> Result<Step> {
    let weight = weight.and_then(|name| graph.constant(name)).filter(|weight| weight.shape.len() == 2);
    let weight = weight.ok_or_else(|| {
        graph.refuse(
            index,
            "it multiplies by something other than a constant matrix of weights (attention, bilinear layers)",
        )
    })?;
    let oriented = if transposed { Some(weight.clone()) } else { weight.transposed() };
    let oriented = oriented.ok_or_else(|| graph.refuse(index, "its weights are not a matrix"))?;
    let [outputs, inputs] = oriented.shape[..] else { return Err(graph.refuse(index, "its weights are not a matrix")) };
    match graph.shape(input) {
        Some([width]) if *width == inputs => {}
        // The operator before it is at fault.
        None if graph.producer(input).is_some() => {}
        Some(shape) => {
            let problem = format!("its weights take {inputs} inputs, and one point has shape {shape:?}");
            return Err(graph.refuse(index, problem));
        }
        None => return Err(graph.refuse(index, "its first input is not the data")),
    }
    if let Some(bias) =
        bias.filter(|bias| bias.values.len() != outputs || bias.shape.last().is_some_and(|&last| last != outputs))
    {
        let problem = format!("its bias has shape {:?}; {outputs} outputs take [{outputs}]", bias.shape);
        return Err(graph.refuse(index, problem));
    }
    let scaled = |constant: &Constant, factor: f64| {
        let parameter = Parameter::from(constant);
        Parameter { values: parameter.values.iter().map(|value| factor * value).collect(), ..parameter }
    };
    let parameters = std::iter::once(scaled(&oriented, alpha)).chain(bias.map(|bias| scaled(bias, beta))).collect();
    let kind = Kind::Linear { inputs, outputs, bias: bias.is_some() };
    Ok(Step::new(kind, parameters, index, graph.resolve(input)))
}
