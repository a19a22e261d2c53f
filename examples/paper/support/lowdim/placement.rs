//! An approximation of a target: a base point, a precision of the velocities there, and a metric to follow.

use clap::ValueEnum;
use riemannian_laplace::Progress;
use riemannian_laplace::Result;
use riemannian_laplace::internals::geodesic::{GaussianLogarithm, sample, sample_monge_log};
use riemannian_laplace::internals::laplace::WeightSpace;
use riemannian_laplace::internals::metric;
use riemannian_laplace::internals::paper::estimate::{euclidean_map, hausdorff_map, random_starts};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{GeodesicOptions, SamplerOptions, Samples};

/// The paper's methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Straight lines: the classical Laplace approximation.
    Ela,
    /// The Monge metric.
    RlaB,
    /// The Monge metric, with velocities corrected by a logarithmic map.
    #[value(name = "rla-blog")]
    RlaBLog,
    /// The Fisher metric.
    RlaF,
    /// The empirical Fisher metric.
    EmpiricalFisher,
}

impl Method {
    /// The four methods that the paper compares.
    pub const FOUR: [Self; 4] = [Self::Ela, Self::RlaB, Self::RlaBLog, Self::RlaF];
    /// With the supplement's.
    pub const ALL: [Self; 5] = [Self::Ela, Self::RlaB, Self::RlaBLog, Self::RlaF, Self::EmpiricalFisher];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ela => "ELA",
            Self::RlaB => "RLA-B",
            Self::RlaBLog => "RLA-BLog",
            Self::RlaF => "RLA-F",
            Self::EmpiricalFisher => "empirical Fisher",
        }
    }
}

/// Where an approximation is centred, and the precision of the Gaussian of its velocities.
#[derive(Debug, Clone)]
pub struct Placement {
    pub base: Vec<f64>,
    pub precision: WeightSpace,
}

/// The paper takes the best of this many optimisations from random starts.
const STARTS: usize = 20;

impl Placement {
    /// The maximum of the density, with its negative Hessian as precision.
    pub fn euclidean(target: &Target) -> Result<Self> {
        let base = euclidean_map(target, &random_starts(STARTS, target.map().n_params(), 1))?.theta;
        let hessian = target.evaluator().hessian(&base);
        let precision = WeightSpace::from_negative_hessian(hessian.as_ref(), target.prior().precision())?;
        Ok(Self { base, precision })
    }

    /// The maximum of the density with respect to the Fisher metric's volume, with the Fisher metric as precision.
    pub fn hausdorff(target: &Target) -> Result<Self> {
        Self::with_fisher(target, hausdorff_map(target, &random_starts(STARTS, target.map().n_params(), 1))?.theta)
    }

    /// A given point with the Fisher metric there.
    pub fn with_fisher(target: &Target, base: Vec<f64>) -> Result<Self> {
        let precision = metric::fisher(target).at(&base)?;
        Ok(Self { base, precision })
    }

    /// Samples of a method with the paper's fixed tolerances, rtol 1e-3 and atol 1e-6.
    pub fn draw(
        &self,
        target: &Target,
        method: Method,
        samples: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Samples> {
        let Self { base, precision } = self;
        let options =
            SamplerOptions { range: 0..samples, seed, geodesic: GeodesicOptions::with_tolerances(1e-3, 1e-6) };
        match method {
            Method::Ela => sample(&metric::euclidean(base.len()), base, precision, &options, progress),
            Method::RlaB => sample(&metric::monge(target), base, precision, &options, progress),
            Method::RlaBLog => {
                let logarithm = GaussianLogarithm::new(precision)?;
                sample_monge_log(&metric::monge(target), &logarithm, base, precision, &options, progress)
            }
            Method::RlaF => sample(&metric::fisher(target), base, precision, &options, progress),
            Method::EmpiricalFisher => sample(&metric::empirical_fisher(target), base, precision, &options, progress),
        }
    }
}
