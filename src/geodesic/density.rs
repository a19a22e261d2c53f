//! The density of a sample: importance weights of geodesics, from the determinant of the exponential map.
//!
//! Samples are θ = Exp(v) with v ~ N(0, P⁻¹), so that their density is N(v; 0, P⁻¹)/|det ∂Exp(v)/∂v| where Exp is one to
//! one, and log w = log π(θ) − log N(v; 0, P⁻¹) + log |det ∂Exp(v)/∂v| with the unnormalised posterior π, likelihood times
//! prior. The mean weight is the evidence. Where a geodesic passes a conjugate point, Exp is not one to one, several
//! velocities may lead to the same θ, and the weights are not those of the samples.

use std::ops::Range;

use super::jacobi::{JacobiField, JacobiFields, JacobiOptions};
use super::name::{MetricName, names_where};
use super::sampler::for_each_index;
use crate::error::{Error, Result, Unsupported};
use crate::laplace::{Laplace, Precision};
use crate::metric::{self, Pullback};
use crate::ode::Status;
use crate::progress::Progress;
use crate::random::{Purpose, stream};
use crate::target::Target;

/// More parameters than this take hours: D fields of 2D numbers each beside every geodesic.
pub const MOST_PARAMETERS: usize = 500;

/// The weights of samples, one entry each.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleDensities {
    /// log w, with likelihood and prior normalised; NaN where the geodesic did not reach its end.
    pub log_weight: Vec<f64>,
    /// Conjugate points on the way.
    pub conjugate: Vec<usize>,
}

/// The weights of samples `range` of a seed from the posterior of a network, for the metric that they follow.
///
/// Each geodesic is integrated again, with its Jacobi fields and at a tighter tolerance: at most 500 parameters, and no
/// smoothed kinks.
pub fn sample_densities(
    laplace: &Laplace,
    metric: MetricName,
    range: Range<usize>,
    seed: u64,
    progress: &dyn Progress,
) -> Result<SampleDensities> {
    check_weights(laplace, metric)?;
    let target = laplace.target("the weights of samples")?;
    let pullback = match metric {
        MetricName::Fisher => metric::fisher(&target),
        MetricName::Monge => metric::monge(&target),
        MetricName::EmpiricalFisher => metric::empirical_fisher(&target),
        MetricName::Euclidean | MetricName::MongeLog => metric::euclidean(laplace.parameters().len()),
    };
    densities(&target, &pullback, laplace.parameters(), &**laplace.precision(), range, seed, progress)
}

/// Whether samples of this posterior along geodesics of this metric can have weights, before any work is done.
pub fn check_weights(laplace: &Laplace, metric: MetricName) -> Result<()> {
    if !metric.has_maps() {
        let metrics = names_where(MetricName::has_maps);
        return Err(Error::Unsupported(Unsupported::NoMaps { metric: metric.name(), metrics }));
    }
    let found = laplace.parameters().len();
    if found > MOST_PARAMETERS {
        return Err(Error::Unsupported(Unsupported::ManyFields { found, most: MOST_PARAMETERS }));
    }
    if laplace.model().has_kinks() && metric != MetricName::Euclidean {
        return Err(Error::Unsupported(Unsupported::KinkedFields));
    }
    Ok(())
}

/// The weights of the wrapped Gaussian with precision P at `base` along geodesics of a metric, under a target.
pub fn densities(
    target: &Target,
    metric: &Pullback,
    base: &[f64],
    precision: &dyn Precision,
    range: Range<usize>,
    seed: u64,
    progress: &dyn Progress,
) -> Result<SampleDensities> {
    let d = base.len();
    let log_det = log_det(precision)?;
    let constant = 0.5 * (d as f64 * (2.0 * std::f64::consts::PI).ln() - log_det);
    let prepare =
        || Ok((JacobiFields::new(metric, JacobiOptions::default(), progress)?, target.evaluator(), vec![0.0; d]));
    let weigh = |buffers: &mut (JacobiFields<'_>, crate::target::TargetEvaluator, Vec<f64>), index: usize| {
        let (fields, target, product) = buffers;
        let mut velocity = vec![0.0; d];
        precision.sample(&mut stream(seed, Purpose::Velocity, index as u64), &mut velocity);
        let JacobiField { theta, log_det, conjugate, status, .. } = fields.follow(base, &velocity)?;
        precision.times(&velocity, product);
        let energy = 0.5 * crate::linalg::dot(&velocity, product);
        let log_weight = match status {
            Status::Reached => target.log_posterior(&theta) + constant + energy + log_det,
            Status::StepLimit | Status::NotFinite => f64::NAN,
        };
        progress.advance();
        Ok((log_weight, conjugate))
    };
    let (log_weight, conjugate) = for_each_index(range, prepare, weigh)?.into_iter().unzip();
    Ok(SampleDensities { log_weight, conjugate })
}

/// log det P.
fn log_det(precision: &dyn Precision) -> Result<f64> {
    let size = precision.n_params();
    let mut cholesky = crate::linalg::Cholesky::new(size);
    let matrix = precision.to_matrix();
    let mut target = cholesky.matrix_mut();
    (0..size).for_each(|j| (j..size).for_each(|i| target[(i, j)] = matrix[(i, j)]));
    cholesky.factor().map_err(|pivot| Error::NotPositiveDefinite {
        matrix: "the posterior precision",
        size,
        pivot: pivot.0,
        advice: "raise the prior precision",
    })?;
    Ok(cholesky.log_det())
}
