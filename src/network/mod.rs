//! The network: a sequence of layers, each with a file of its own; a candle [`Mlp`] for training, its frozen f64 form
//! [`Network`] for everything after, and the files both are kept in.

pub mod activation;
mod activation_layer;
mod architecture;
mod bound;
pub mod layer;
pub mod linear;
mod mlp;
mod sequence;
mod tape;
mod trained;
mod training;

pub use crate::error::{InvalidTraining, UnknownActivation};
pub use activation::Activation;
pub use architecture::{Architecture, LinearPlace};
pub use bound::NetworkMap;
pub use layer::{Layer, ParameterGroup};
pub use linear::Linear;
pub use mlp::Mlp;
pub use sequence::Sequence;
pub use tape::{Kept, Tape};
pub use trained::Network;
pub use training::{Decay, Training, TrainingOptions, train};
