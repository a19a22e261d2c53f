//! The network: a sequence of layers, each in its own file; a candle [`Mlp`] for training, its frozen f64 form
//! [`Network`] for everything after, and the files in which both are stored.

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
#[allow(clippy::indexing_slicing, reason = "ranges are those of the layers in matrices made for the same sequence")]
mod curvature;
mod early_stopping;
#[allow(clippy::indexing_slicing, reason = "indices are those of the matrix made from the same array")]
mod features;
#[allow(
    clippy::indexing_slicing,
    reason = "positions and pixels are those of the layer, and the vector has an entry for each pair"
)]
mod in_candle;
pub mod layer;
#[allow(
    clippy::indexing_slicing,
    reason = "every size follows from the layer, and `Sequence::new` has compared each layer with the one before it"
)]
pub mod layers;
mod mlp;
pub mod onnx;
mod recipe;
#[allow(
    clippy::indexing_slicing,
    reason = "places, slots and tapes are made together in `Sequence::new` and `tapes`, one for each layer"
)]
mod sequence;
mod state_dict;
mod tape;
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
pub use curvature::OuterProducts;
pub use early_stopping::{EarlyStopped, held_out_rows, train_early_stopping};
pub use layer::{Layer, ParameterGroup};
pub use layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, LayerNorm, Linear, MaxPool2d, Residual, Smoothed,
    SmoothedMaxPool2d,
};
pub use mlp::Mlp;
pub use onnx::{Imported, OutputLink};
pub use recipe::{Procedure, RECIPE_KEY, Recipe};
pub use sequence::Sequence;
pub use state_dict::StatedLayer;
pub use tape::{Kept, Tape};
pub use trained::Network;
pub use training::{Decay, NUMBERS_PER_WEIGHT, Training, TrainingOptions, train, train_or_stop};
