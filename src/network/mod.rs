//! The network: a [`graph`] of a few kinds of nodes, with layers as short names for common parts of one; a candle [`Mlp`] for
//! training, its frozen f64 form [`Network`] for everything after, and the files in which both are stored.

#[allow(clippy::indexing_slicing, reason = "slices are cut to the length of the shortest before the loops")]
pub mod activation;
mod architecture;
#[allow(
    clippy::indexing_slicing,
    reason = "buffers are made for the points and outputs of the map; columns of faer hold at least the rows asked for"
)]
mod bound;
mod builder;
#[allow(clippy::indexing_slicing, reason = "every array is made with the rows and outputs that are compared before")]
mod check;
mod early_stopping;
#[allow(clippy::indexing_slicing, reason = "indices are those of the matrix made from the same array")]
mod features;
#[allow(
    clippy::indexing_slicing,
    reason = "`Graph::new` has compared every node with the widths of its inputs, and every place with the number of parameters"
)]
pub mod graph;
mod in_candle;
mod layers;
mod lower;
mod mlp;
pub mod onnx;
mod recipe;
mod state_dict;
mod trained;
mod training;
mod variables;
#[allow(
    clippy::indexing_slicing,
    reason = "indices are those of the matrix made from the same array, and one entry for each activation"
)]
mod widths;

pub use crate::error::{InvalidTraining, OnnxError, StateDictProblem, UnknownActivation};
pub use activation::Activation;
pub use architecture::{Architecture, LinearPlace};
pub use bound::NetworkMap;
pub use builder::{NetworkBuilder, PointShape};
pub use check::CHECK_TOLERANCE;
pub use early_stopping::{EarlyStopped, held_out_rows, train_early_stopping};
pub use graph::{Rounded, Tensor as ParameterGroup};
pub use layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm, Linear, MaxPool2d, Residual,
};
pub use mlp::Mlp;
pub use onnx::{Imported, OutputLink};
pub use recipe::{Procedure, RECIPE_KEY, Recipe};
pub use state_dict::StatedLayer;
pub use trained::Network;
pub use training::{Decay, NUMBERS_PER_WEIGHT, Training, TrainingOptions, train, train_or_stop};
