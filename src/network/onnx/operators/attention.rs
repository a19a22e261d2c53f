//! Attention as one operator: softmax(Q Kᵀ·scale + mask) V.

use crate::network::Activation;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Constant, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

use super::products::multiply;
use super::reductions::along;

/// What softmax takes for no chance at all.
const MASKED: f64 = -1e30;

/// The operator of version 23, without a cache.
pub fn attention(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    if call.inputs.iter().skip(4).any(Option::is_some) || call.node.output.iter().skip(1).any(|name| !name.is_empty()) {
        return refuse("keys and values of earlier calls are not supported");
    }
    let whole = call.input(0)?.shape.rank() == 3;
    let heads = |name: &str| call.node.int(name).filter(|count| *count > 0);
    let query = by_heads(low, call.input(0)?, heads("q_num_heads"))?;
    let count = query.shape.length(1);
    let key = repeated(low, call.input(1)?, heads("kv_num_heads"), count)?;
    let value = repeated(low, call.input(2)?, heads("kv_num_heads"), count)?;
    let width = query.shape.length(3) as f64;
    let query = low.linear(&query, call.node.float("scale").unwrap_or(1.0 / width.sqrt()), 0.0)?;
    let turned = low.swapped(&key)?;
    let mut scores = multiply(low, &query, &turned)?;
    if let Some(cap) = call.node.float("softcap").filter(|cap| *cap > 0.0) {
        let inner = low.linear(&scores, 1.0 / cap, 0.0)?;
        let bounded = low.activation(&inner, Activation::Tanh)?;
        scores = low.linear(&bounded, cap, 0.0)?;
    }
    let masked = low.number(MASKED);
    if call.node.int("is_causal") == Some(1) {
        let (rows, columns) = (scores.shape.length(2), scores.shape.length(3));
        low.limit(rows.saturating_mul(columns))?;
        let seen = (0..rows).flat_map(|row| (0..columns).map(move |column| f64::from(column <= row)));
        let mask = Tensor::constant(vec![rows, columns], Constant::real(seen.collect()));
        scores = low.choose(&mask, &scores, &masked)?;
    }
    if let Some(mask) = call.optional(3) {
        let truth = mask.as_constant().is_some_and(|constant| constant.whole);
        scores = if truth { low.choose(mask, &scores, &masked)? } else { low.sum((&scores, 1.0), (mask, 1.0))? };
    }
    let weights = along(low, &scores, 3, false)?;
    let result = multiply(low, &weights, &value)?;
    if !whole {
        return Ok(result);
    }
    let moved = low.transpose(&result, &[0, 2, 1, 3])?;
    let sizes = moved.shape.sizes();
    let [points, tokens, heads, width] = sizes[..] else { return refuse("it needs heads") };
    low.reshape(&moved, &[points, tokens, Size::from(heads.number * width.number)])
}

/// `[points, heads, tokens, width]`.
fn by_heads(low: &mut Lowering<'_>, tensor: &Tensor, heads: Option<i64>) -> Step<Tensor> {
    let sizes = tensor.shape.sizes();
    match (&sizes[..], heads) {
        ([_, _, _, _], _) => Ok(tensor.clone()),
        ([points, tokens, width], Some(heads)) => {
            let split = [*points, *tokens, Size::from(heads), Size::from(width.number / heads)];
            let split = low.reshape(tensor, &split)?;
            low.transpose(&split, &[0, 2, 1, 3])
        }
        _ => refuse("it does not say how many heads it has"),
    }
}

/// The same with heads that several queries share written out.
fn repeated(low: &mut Lowering<'_>, tensor: &Tensor, heads: Option<i64>, count: usize) -> Step<Tensor> {
    let tensor = by_heads(low, tensor, heads)?;
    let own = tensor.shape.length(1);
    let each = count.checked_div(own).filter(|each| each * own == count).ok_or("its heads do not divide each other")?;
    let list = (0..count).map(|head| Some(head / each.max(1))).collect();
    low.pick(&tensor, &[None, Some(list), None, None], 0.0)
}
