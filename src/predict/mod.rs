//! Predictions at new inputs: linearised (GLM), from samples of the weights, or from the trained model alone.
//!
//! [`predict`] is the one entry point: a [`Method`] in, a [`Prediction`] out.

mod bridge;
mod calibrated;
mod density;
mod ensemble;
mod epistemic;
mod functions;
mod linearized;
mod links;
mod method;
mod moments;
mod pointwise;
mod prediction;
mod sampled;
mod summary;

pub(crate) use crate::likelihood::{log_sum_exp, normal_quantile};
pub use calibrated::{CalibrationOptions, Promised};
pub use ensemble::MixturePart;
pub use linearized::{JointGaussian, LatentGaussian, linearized, linearized_joint};
pub use links::{Link, MonteCarlo};
pub use method::{ALLOWED_SHARE, Draws, Geodesics, Method, Mixture, MixtureMember, draw_weights, predict};
pub use moments::Moments;
pub(crate) use moments::moments;
pub use prediction::{Prediction, Predictive, SamplingReport};
pub use sampled::SampledPredictive;
