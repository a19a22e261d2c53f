//! The operators, one file for every family: a function from what is known of a node's inputs to what is known of its outputs.
//! A new operator is one function and one line of the table below.

mod attention;
mod elementwise;
mod images;
mod indexing;
mod normalization;
mod pooling;
mod products;
mod recurrent;
mod reductions;
mod shapes;
mod sizes;

use super::lowering::Lowering;
use super::node::Call;
use super::scalar::is_elementwise;
use super::tensor::Tensor;
use super::trouble::{Step, refuse};

/// The outputs of a node.
pub fn lower<'a>(low: &mut Lowering<'a>, call: &Call<'a>) -> Step<Vec<Tensor>> {
    let operator = call.node.op_type.as_str();
    if call.node.domain == "ai.onnx.ml" && operator == "Scaler" {
        return one(normalization::scaler(low, call));
    }
    if !call.node.is_standard() {
        return refuse("this operator is not supported");
    }
    match operator {
        // Changes of shape and order.
        "Identity" | "Dropout" => one(shapes::identity(low, call)),
        "Cast" | "CastLike" => one(sizes::cast(low, call)),
        "Reshape" => one(shapes::reshape(low, call)),
        "Flatten" => one(shapes::flatten(low, call)),
        "Squeeze" => one(shapes::squeeze(low, call)),
        "Unsqueeze" => one(shapes::unsqueeze(low, call)),
        "Transpose" => one(shapes::transpose(low, call)),
        "Slice" => one(shapes::slice(low, call)),
        "Split" => shapes::split(low, call),
        "Concat" => one(shapes::concat(low, call)),
        "Expand" => one(shapes::expand(low, call)),
        "Tile" => one(shapes::tile(low, call)),
        "Pad" => one(shapes::pad(low, call)),
        "DepthToSpace" | "SpaceToDepth" => one(shapes::depth_and_space(low, call)),
        // Constants and lengths of axes.
        "Constant" => one(sizes::constant(low, call)),
        "ConstantOfShape" => one(sizes::constant_of_shape(low, call)),
        "Shape" => one(sizes::shape(low, call)),
        "Size" => one(sizes::size(low, call)),
        "Range" => one(sizes::range(low, call)),
        // Entries by their indices.
        "Gather" => one(indexing::gather(low, call)),
        "OneHot" => one(indexing::one_hot(low, call)),
        "Trilu" => one(indexing::trilu(low, call)),
        "CumSum" => one(indexing::cumulative_sum(low, call)),
        // Products.
        "Gemm" => one(products::gemm(low, call)),
        "MatMul" => one(products::matmul(low, call)),
        "Einsum" => one(products::einsum(low, call)),
        "Attention" => one(attention::attention(low, call)),
        // Sums, means and maxima over axes.
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2"
        | "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp" => one(reductions::reduce(low, call)),
        "Softmax" | "LogSoftmax" => one(reductions::softmax(low, call)),
        // Normalisations.
        "BatchNormalization" => one(normalization::batch(low, call)),
        "LayerNormalization" | "RMSNormalization" => one(normalization::layer(low, call)),
        "InstanceNormalization" | "GroupNormalization" => one(normalization::group(low, call)),
        "LpNormalization" => one(normalization::unit_length(low, call)),
        // Images and signals.
        "Conv" => one(images::convolution(low, call)),
        "ConvTranspose" => one(images::transposed_convolution(low, call)),
        "AveragePool" | "MaxPool" => one(pooling::pool(low, call)),
        "GlobalAveragePool" | "GlobalMaxPool" => one(pooling::global_pool(low, call)),
        "Resize" | "Upsample" => one(pooling::resize(low, call)),
        // Recurrence.
        "RNN" | "GRU" | "LSTM" => recurrent::recurrent(low, call),
        _ if is_elementwise(call.node) => one(elementwise::elementwise(low, call)),
        "Loop" | "Scan" | "If" => refuse("its steps depend on the data; control flow is not supported"),
        _ => refuse("this operator is not supported"),
    }
}

fn one(result: Step<Tensor>) -> Step<Vec<Tensor>> {
    result.map(|tensor| vec![tensor])
}
