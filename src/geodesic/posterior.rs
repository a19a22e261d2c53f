//! Geodesics of a fitted network by the metric's name: the Riemannian side of [`Laplace`].
//!
//! Networks with kinks (relu, leaky_relu): the metric jumps at every kink a geodesic crosses, hundreds of times on its
//! way, so vᵀGv is not conserved and no tolerance mends that. Such geodesics are integrated once, within the step limit,
//! and their drift is reported as it is; a smooth activation (silu, gelu, softplus) gives a posterior that can be
//! certified.

use ndarray::ArrayView2;

use super::exponential::{Accuracy, GeodesicOptions};
use super::logarithm::{Logarithm, LogarithmOptions};
use super::paraboloid::GaussianLogarithm;
use super::sampler::{SamplerOptions, Samples, exponentials, logarithms, sample, sample_monge_log};
use crate::error::Result;
use crate::laplace::Laplace;
use crate::metric::{self, Metric};

/// A Riemannian metric on the weights of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricName {
    /// Straight lines.
    Euclidean,
    /// G = Σₙ JₙᵀHₙJₙ + A (RLA-F).
    Fisher,
    /// G = I + ∇ℓ∇ℓᵀ (RLA-B).
    Monge,
    /// G = Σₙ sₙsₙᵀ + A.
    EmpiricalFisher,
}

/// A way to draw from the wrapped Gaussian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingMetric {
    /// v ~ N(0, G⁻¹), then the exponential map of a metric.
    Plain(MetricName),
    /// RLA-BLog: the logarithm on the Gaussian's Monge manifold, then the exponential map on the target's.
    MongeLog,
}

impl MetricName {
    fn name(self) -> &'static str {
        match self {
            MetricName::Euclidean => "Euclidean",
            MetricName::Fisher => "Fisher",
            MetricName::Monge => "Monge",
            MetricName::EmpiricalFisher => "empirical Fisher",
        }
    }
}

impl Laplace {
    /// Calls `work` with the metric of that name.
    fn with_metric<T>(&self, name: MetricName, work: impl FnOnce(&dyn Metric) -> Result<T>) -> Result<T> {
        if name == MetricName::Euclidean {
            return work(&metric::euclidean(self.network().parameters().len()));
        }
        let target = self.target(name.name())?;
        match name {
            MetricName::Fisher => work(&metric::fisher(&target)),
            MetricName::Monge => work(&metric::monge(&target)),
            _ => work(&metric::empirical_fisher(&target)),
        }
    }

    /// Where tightening the tolerance cannot help, it is not tried.
    fn for_network(&self, options: GeodesicOptions) -> GeodesicOptions {
        match options.accuracy {
            Accuracy::Drift { target, .. } if self.network().architecture().has_kinks() => {
                GeodesicOptions { accuracy: Accuracy::Drift { target, attempts: 1 }, ..options }
            }
            _ => options,
        }
    }

    /// Samples of the Riemannian posterior, each with its certificate.
    pub fn sample_riemannian(
        &self,
        metric: SamplingMetric,
        options: &SamplerOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Samples> {
        let options = SamplerOptions { geodesic: self.for_network(options.geodesic), ..*options };
        let (base, precision) = (self.network().parameters(), self.precision());
        match metric {
            SamplingMetric::Plain(name) => {
                self.with_metric(name, |metric| sample(metric, base, precision, &options, progress))
            }
            SamplingMetric::MongeLog => {
                let target = self.target("Monge")?;
                let logarithm = GaussianLogarithm::new(precision)?;
                sample_monge_log(&metric::monge(&target), &logarithm, base, precision, &options, progress)
            }
        }
    }

    /// The geodesics from θ̂ with the given velocities, one a row.
    pub fn exponential_map(
        &self,
        metric: MetricName,
        velocities: ArrayView2<'_, f64>,
        options: GeodesicOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Samples> {
        let options = self.for_network(options);
        let base = self.network().parameters();
        self.with_metric(metric, |metric| exponentials(metric, base, velocities, options, progress))
    }

    /// The velocities that lead from θ̂ to the given points, one a row.
    pub fn logarithmic_map(
        &self,
        metric: MetricName,
        points: ArrayView2<'_, f64>,
        options: LogarithmOptions,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Logarithm>> {
        let base = self.network().parameters();
        self.with_metric(metric, |metric| logarithms(metric, base, points, options, progress))
    }
}
