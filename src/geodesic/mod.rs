//! Geodesics: the exponential map with its certificate, the logarithmic map, and samples of the wrapped Gaussian.

mod exponential;
mod logarithm;
mod paraboloid;
mod posterior;
mod sampler;
mod subsampled;

pub use exponential::{Accuracy, ExponentialMap, Geodesic, GeodesicOptions};
pub use logarithm::{Logarithm, LogarithmOptions, LogarithmicMap};
pub use paraboloid::{GaussianLogarithm, GaussianLogarithmWorker};
pub use posterior::{MetricName, MetricOptions, MetricSolver, SamplingMetric};
pub use sampler::{Outcome, SamplerOptions, Samples, exponentials, logarithms, sample, sample_monge_log};
pub use subsampled::{BatchReport, MetricBatch};
