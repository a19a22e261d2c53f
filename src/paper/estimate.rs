//! Where the approximation is centred: the Euclidean MAP, or the Hausdorff MAP, which does not depend on the
//! parametrisation: the maximum of log π(θ) − ½ log det G(θ) (Yu et al. 2024, section 4.3.1).

use rand_distr::{Distribution, StandardNormal};

use crate::error::Result;
use crate::metric::fisher;
use crate::optimize::{BfgsOptions, MultistartMinimum, minimize_multistart};
use crate::random::{Purpose, stream};
use crate::target::Target;

/// Starts for an optimiser, θ ~ N(0, I): start i of a seed is always the same. The paper takes the best of 20.
pub fn random_starts(count: usize, n_params: usize, seed: u64) -> Vec<Vec<f64>> {
    let start = |index| {
        let mut generator = stream(seed, Purpose::Start, index as u64);
        (0..n_params).map(|_| StandardNormal.sample(&mut generator)).collect()
    };
    (0..count).map(start).collect()
}

/// The point of highest density, and how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct PointEstimate {
    /// The best point.
    pub theta: Vec<f64>,
    /// The (unnormalised) log density there: ℓ, or ℓ − ½ log det G.
    pub log_density: f64,
    /// Every run that ended at a finite value; its objective is the negative log density.
    pub runs: MultistartMinimum,
}

impl From<MultistartMinimum> for PointEstimate {
    fn from(runs: MultistartMinimum) -> Self {
        Self { theta: runs.best.point.clone(), log_density: -runs.best.value, runs }
    }
}

/// The maximum of the log posterior, the best of several BFGS runs.
///
/// ```
/// use riemannian_laplace::internals::paper::estimate::{euclidean_map, hausdorff_map, random_starts};
/// use riemannian_laplace::internals::paper::problems::Funnel;
///
/// let target = Funnel::PAPER.target()?;
/// let starts = random_starts(5, 2, 0);
/// let euclidean = euclidean_map(&target, &starts)?;
/// let hausdorff = hausdorff_map(&target, &starts)?;
/// assert!((euclidean.theta[1] + 4.5).abs() < 1e-6); // −σ²/2: deep in the neck
/// assert!(hausdorff.theta[1].abs() < 1e-6); // the centre of the Gaussian in disguise
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn euclidean_map(target: &Target, starts: &[Vec<f64>]) -> Result<PointEstimate> {
    let mut evaluator = target.evaluator();
    let mut objective = |theta: &[f64], gradient: &mut [f64]| {
        let value = evaluator.gradient(theta, gradient);
        gradient.iter_mut().for_each(|entry| *entry = -*entry);
        -value
    };
    Ok(minimize_multistart(&mut objective, starts, &BfgsOptions::default())?.into())
}

/// The maximum of the density with respect to the Fisher metric's volume, the best of several BFGS runs. Each
/// evaluation costs D² jets: for targets of few parameters.
pub fn hausdorff_map(target: &Target, starts: &[Vec<f64>]) -> Result<PointEstimate> {
    let metric = fisher(target);
    let (mut volumes, mut evaluator) = (metric.pullback_evaluator(), target.evaluator());
    let mut volume = vec![0.0; target.n_params()];
    let mut objective = |theta: &[f64], gradient: &mut [f64]| {
        let value = evaluator.gradient(theta, gradient);
        let half_log_det = volumes.half_log_det(theta, &mut volume);
        for (entry, volume) in gradient.iter_mut().zip(&volume) {
            *entry = volume - *entry;
        }
        half_log_det - value
    };
    Ok(minimize_multistart(&mut objective, starts, &BfgsOptions::default())?.into())
}
