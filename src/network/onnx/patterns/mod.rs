//! Patterns of nodes, one file per family of operators: each takes the value that a layer ends at and finds the layer
//! and the value that it starts from.

mod dense;
mod images;
mod normalization;

use super::graph::{Graph, is_standard};
use super::part::{Kind, Part};
use super::scalar;
use crate::error::{Error, Result};

/// One step back through the graph: the layer that ends at a value, if the values change, and where it starts.
#[derive(Debug)]
pub struct Step {
    /// The layer; `None` where only the shape changes.
    pub part: Option<Part>,
    /// The value that it starts from.
    pub input: String,
}

impl Step {
    fn new(kind: Kind, parameters: Vec<super::part::Parameter>, node: usize, input: &str) -> Self {
        Self { part: Some(Part { kind, parameters, node }), input: input.to_string() }
    }

    fn unchanged(input: &str) -> Self {
        Self { part: None, input: input.to_string() }
    }
}

/// What the node `index`, which computes `output`, ends: a layer, or nothing that is known.
pub fn step(graph: &Graph, index: usize, output: &str) -> Result<Step> {
    let node = graph.node(index);
    if !is_standard(node) {
        return Err(unknown(graph, index));
    }
    let found = match node.op_type.as_str() {
        "Gemm" => Some(dense::gemm(graph, index)?),
        "MatMul" => Some(dense::matmul(graph, index)?),
        "Conv" => Some(images::convolution(graph, index)?),
        "AveragePool" | "MaxPool" => Some(images::pool(graph, index)?),
        "GlobalAveragePool" => Some(images::global_average(graph, index)?),
        "ReduceMean" => Some(images::mean(graph, index)?),
        "BatchNormalization" => Some(normalization::batch(graph, index)?),
        "LayerNormalization" => Some(normalization::layer(graph, index)?),
        "InstanceNormalization" => Some(normalization::instance(graph, index)?),
        "GroupNormalization" => Some(normalization::group(graph, index)?),
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" => Some(reshape(graph, index, output)?),
        "Add" | "Mul" | "Div" => match dense::matmul_and_bias(graph, index)? {
            Some(step) => Some(step),
            None => normalization::written_out(graph, index)?,
        },
        _ => None,
    };
    if let Some(step) = found {
        return Ok(step);
    }
    let (activation, input) = scalar::activation(graph, output).ok_or_else(|| unknown(graph, index))?;
    match activation {
        crate::network::Activation::Identity => Ok(Step::unchanged(&input)),
        activation => Ok(Step::new(Kind::Activation(activation), Vec::new(), index, &input)),
    }
}

/// A change of shape that keeps the values of every point.
fn reshape(graph: &Graph, index: usize, output: &str) -> Result<Step> {
    let node = graph.node(index);
    let input = node.input.first().ok_or_else(|| unknown(graph, index))?;
    match (graph.width(input), graph.width(output)) {
        (Some(before), Some(after)) if before == after => Ok(Step::unchanged(graph.resolve(input))),
        // The operator before it is at fault.
        (None, _) if graph.producer(input).is_some() => Ok(Step::unchanged(graph.resolve(input))),
        _ => Err(graph.refuse(index, "it rearranges values within a point, or among points; no layer does")),
    }
}

/// The refusal of an operator that is not known, or used in a way that is not.
pub fn unknown(graph: &Graph, index: usize) -> Error {
    let node = graph.node(index);
    let problem = match node.op_type.as_str() {
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => {
            "it is neither part of a known layer or activation nor the sum of two branches of a residual block"
        }
        "LeakyRelu" | "PRelu" => "only a slope of 0.01 is known",
        "Elu" | "Celu" => "only alpha = 1 is known",
        "Softplus" | "Where" | "Greater" => "it is not a known activation, nor a part of one",
        "Softmax" | "LogSoftmax" => "it is known only at the end, over all outputs, as the link of a likelihood",
        "Scaler" => {
            "a scaler is not part of the network; export the network without it, and give its means and scales \
                     as the scaling of the data"
        }
        "LSTM" | "GRU" | "RNN" => "recurrent layers are not supported",
        "Attention" | "MultiHeadAttention" => "attention is not supported",
        "Dropout" => "it is in training mode; export the network in evaluation mode",
        _ => "this operator is not supported",
    };
    graph.refuse(index, problem)
}
