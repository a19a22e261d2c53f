//! Predictions at new inputs: linearised (GLM), from samples of the weights, or from the trained model alone.
//!
//! [`predict`] is the one entry point: a [`Method`] in, a [`Prediction`] out.

mod bridge;
mod calibrated;
mod density;
mod distribution;
mod ensemble;
mod epistemic;
mod functions;
mod heteroscedastic;
mod linearized;
mod links;
mod method;
mod mixture;
mod moments;
mod pointwise;
mod prediction;
mod sampled;
mod summary;

pub use calibrated::{CalibrationOptions, Promised};
pub(crate) use distribution::normal_quantile;
pub use ensemble::MixturePart;
pub use linearized::{JointGaussian, LatentGaussian, linearized, linearized_joint};
pub use links::{Link, MonteCarlo};
pub use method::{ALLOWED_SHARE, Draws, Geodesics, Method, Mixture, MixtureMember, draw_weights, predict};
pub use moments::Moments;
pub(crate) use moments::moments;
pub use prediction::{Prediction, Predictive, SamplingReport};
pub use sampled::SampledPredictive;

/// log Σ exp of the terms, without overflow; −∞ when all of them are.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let terms: Vec<f64> = terms.into_iter().collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}
