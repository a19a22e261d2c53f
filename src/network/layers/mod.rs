//! The layers, one file each: what a layer computes, the shape of its parameters, and its verbs.
//!
//! Image layers take the columns of their inputs as pixels in the order [channel, row, column], which is that of
//! PyTorch's `flatten`, so that flattening changes nothing.

mod activation;
mod avg_pool;
mod batch_norm;
mod conv2d;
mod group_norm;
mod identity;
mod image;
mod layer_norm;
pub mod linear;
mod max_pool;
mod normalization;
mod patches;
mod pooling;
mod residual;
mod scale_shift;
mod smoothed;
mod smoothed_max_pool;

pub use avg_pool::{AvgPool2d, GlobalAvgPool};
pub use batch_norm::BatchNorm;
pub use conv2d::Conv2d;
pub use group_norm::GroupNorm;
pub(super) use identity::Identity;
pub use image::Image;
pub(super) use image::Window;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use max_pool::MaxPool2d;
pub(super) use pooling::Pooling;
pub use residual::Residual;
pub use smoothed::Smoothed;
pub use smoothed_max_pool::SmoothedMaxPool2d;

use crate::linalg::{add_products, products};

/// Σ_k w_k δ_k at every point, for one unit: its sensitivities come in blocks of N.
fn weighted_sum<'a>(sensitivities: impl Iterator<Item = &'a [f64]>, weights: &[f64], column: &mut [f64]) {
    for (k, (deltas, factors)) in sensitivities.zip(weights.chunks_exact(column.len().max(1))).enumerate() {
        if k == 0 {
            products(deltas, factors, column);
        } else {
            add_products(deltas, factors, column);
        }
    }
}

/// Adds δ∘x to the rows of one parameter: M sensitivities in blocks of N, and x at the N points.
fn add_row_products(sensitivity: &[f64], values: &[f64], target: &mut [f64]) {
    let n = values.len().max(1);
    for (block, deltas) in target.chunks_exact_mut(n).zip(sensitivity.chunks_exact(n)) {
        add_products(deltas, values, block);
    }
}
