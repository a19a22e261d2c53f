//! Geodesics: the exponential map with its certificate, the logarithmic map, and samples of the wrapped Gaussian.

mod exponential;
mod logarithm;
mod sampler;

pub use exponential::{Accuracy, ExponentialMap, Geodesic, GeodesicOptions};
pub use logarithm::{Logarithm, LogarithmOptions, LogarithmicMap};
pub use sampler::{Outcome, SamplerOptions, Samples, exponentials, logarithms, sample, sample_monge_log};
