//! Geodesics: the exponential map with its certificate, the logarithmic map, and samples of the wrapped Gaussian.

mod attempt;
mod certificate;
mod checkpoint;
mod columns;
mod density;
mod exponential;
mod file;
mod graph;
mod jacobi;
mod keeper;
mod logarithm;
mod name;
mod paraboloid;
mod posterior;
mod refinement;
mod residuals;
mod sampler;
mod samples;
mod share;
mod smoothing;
mod subsampled;

pub use crate::error::{JoinError, UnknownMetric};
pub use certificate::{Certificate, END_BOUND, EndCheck, OFF_GRAPH_BOUND};
pub use checkpoint::{Checkpoint, Run};
pub use density::{MOST_PARAMETERS, SampleDensities, check_weights, densities, sample_densities};
pub use exponential::{Accuracy, DRIFT_TARGET, ExponentialMap, Geodesic, GeodesicLimits, GeodesicOptions};
pub use file::{read_samples, write_samples};
pub use jacobi::{JacobiField, JacobiFields, JacobiOptions};
pub use keeper::{Finished, Keeper, Watch};
pub use logarithm::{Logarithm, LogarithmOptions, LogarithmicMap};
pub use name::MetricName;
pub use paraboloid::{GaussianLogarithm, GaussianLogarithmEvaluator};
pub use posterior::{
    MetricOptions, MetricSolver, exponential_map, logarithmic_map, sample_posterior, sample_posterior_watched,
};
pub use residuals::{RESIDUAL_LIMIT, Residuals};
pub use sampler::{SamplerOptions, exponentials, logarithms, sample, sample_monge_log};
pub use samples::{Outcome, Samples};
pub use smoothing::{SMOOTHING_WIDTH, Smoothing};
pub use subsampled::{BatchReport, MetricBatch};
