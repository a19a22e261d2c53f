//! The network: a sequence of layers, each in its own file; a candle [`Mlp`] for training, its frozen f64 form
//! [`Network`] for everything after, and the files in which both are stored.

pub mod activation;
mod architecture;
mod bound;
mod builder;
mod check;
mod curvature;
mod features;
mod in_candle;
pub mod layer;
pub mod layers;
mod mlp;
pub mod onnx;
mod sequence;
mod state_dict;
mod tape;
mod trained;
mod training;
mod variables;
mod widths;

pub use crate::error::{InvalidTraining, StateDictProblem, UnknownActivation};
pub use activation::Activation;
pub use architecture::{Architecture, LinearPlace};
pub use bound::NetworkMap;
pub use builder::{NetworkBuilder, PointShape};
pub use check::CHECK_TOLERANCE;
pub use curvature::OuterProducts;
pub use layer::{Layer, ParameterGroup};
pub use layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, LayerNorm, Linear, MaxPool2d, Residual, Smoothed,
    SmoothedMaxPool2d,
};
pub use mlp::Mlp;
pub use onnx::{Imported, OutputLink};
pub use sequence::Sequence;
pub use state_dict::StatedLayer;
pub use tape::{Kept, Tape};
pub use trained::Network;
pub use training::{Decay, Training, TrainingOptions, train};
