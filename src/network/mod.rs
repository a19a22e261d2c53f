//! The network: a candle [`Mlp`] for training, its frozen f64 form [`Network`] for everything after, and the files
//! both are kept in.

pub mod activation;
mod architecture;
mod mlp;
mod trained;
mod training;

pub use activation::{Activation, UnknownActivation};
pub use architecture::{Architecture, Layer};
pub use mlp::Mlp;
pub use trained::Network;
pub use training::{Decay, Training, TrainingOptions, train};
