//! The no-U-turn sampler (Hoffman and Gelman 2014, multinomial as in Betancourt 2017) on a target, through `nuts-rs`.
//!
//! Draws (θ, ρ) ∝ exp(ℓ(θ) − ½ρᵀM⁻¹ρ) by leapfrog steps; step size and mass matrix M are tuned in the warm-up, from
//! draws and gradients (Stan, which the paper used, tunes M from draws alone; both leave the posterior unchanged).

use std::collections::HashMap;
use std::fmt::{Debug, Display};

use ndarray::Array2;
use nuts_rs::rand::SeedableRng;
use nuts_rs::rand::rngs::ChaCha8Rng;
use nuts_rs::{
    Chain, CpuLogpFunc, CpuMath, CpuMathError, DiagNutsSettings, EuclideanAdaptOptions, HasDims, LogpError,
    LowRankNutsSettings, NutsSettings, Settings,
};
use rand::RngCore;
use rayon::prelude::*;
use serde::Serialize;

use super::diagnostics::Diagnostics;
use super::sample::{ChainReport, ReferenceSample};
use crate::error::{Error, InvalidChains, Result, check_size};
use crate::memory;
use crate::random::{Purpose, fill_standard_normal, stream};
use crate::target::{Target, TargetEvaluator};

/// Points tried for the start of a chain, as in Stan.
const STARTS_TRIED: usize = 100;

/// Iterations between two reports of progress.
const PROGRESS_BLOCK: usize = 100;

/// The form of the mass matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MassMatrix {
    /// Diagonal, as Stan's default (the default).
    #[default]
    Diagonal,
    /// Diagonal plus low rank: for parameters with strong correlations.
    LowRank,
}

/// Where the chains start. Starts should be spread more widely than the posterior, so that R̂ can detect what was
/// missed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start<'a> {
    /// θ ~ N(0, I).
    StandardNormal,
    /// θ ~ N(centre, deviation²·I).
    Around {
        /// The centre.
        centre: &'a [f64],
        /// The deviation in every direction, positive.
        deviation: f64,
    },
}

/// Settings of [`nuts`]; the default is the paper's, which is posteriordb's for reference posteriors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NutsOptions {
    /// The number of chains (default 10).
    pub chains: usize,
    /// Iterations of each chain that tune and are dropped (default 10,000).
    pub warmup: usize,
    /// Iterations of each chain after warm-up (default 20,000).
    pub draws: usize,
    /// One in this many of these is kept (default 10).
    pub thinning: usize,
    /// The mean acceptance rate that the step size is tuned to, between 0 and 1 (default 0.8, Stan's; the paper's for
    /// the banana is 0.95). Higher values are slower, and follow strongly curved densities better.
    pub target_accept: f64,
    /// Trajectories have fewer than 2^depth steps (default 10, Stan's).
    pub max_tree_depth: usize,
    /// The form of the mass matrix (default diagonal).
    pub mass_matrix: MassMatrix,
    /// The seed (default 0).
    pub seed: u64,
}

impl Default for NutsOptions {
    fn default() -> Self {
        Self::PAPER
    }
}

/// 2³⁰ steps of one trajectory take too long for any use, and their count still fits in 32 bits.
const DEEPEST_TREE: usize = 30;

impl NutsOptions {
    /// The paper's settings, the default.
    pub const PAPER: Self = Self {
        chains: 10,
        warmup: 10_000,
        draws: 20_000,
        thinning: 10,
        target_accept: 0.8,
        max_tree_depth: 10,
        mass_matrix: MassMatrix::Diagonal,
        seed: 0,
    };

    /// A short run for a first look: 4 chains of 1,000 draws after 1,000 of warm-up, all kept.
    pub fn quick() -> Self {
        Self { chains: 4, warmup: 1000, draws: 1000, thinning: 1, ..Self::default() }
    }

    /// The number of draws kept per chain.
    pub fn kept_per_chain(&self) -> usize {
        self.draws / self.thinning.max(1)
    }

    /// Iterations of all chains, warm-up included: the sum of what the progress callback receives.
    pub fn iterations(&self) -> usize {
        self.chains.saturating_mul(self.warmup.saturating_add(self.draws))
    }

    fn check(&self) -> std::result::Result<(), InvalidChains> {
        if self.chains == 0 {
            return Err(InvalidChains::NoChains);
        }
        if self.thinning == 0 || self.draws < self.thinning {
            return Err(InvalidChains::Thinning { thinning: self.thinning, draws: self.draws });
        }
        if !(self.target_accept > 0.0 && self.target_accept < 1.0) {
            return Err(InvalidChains::TargetAcceptance(self.target_accept));
        }
        if !(1..=DEEPEST_TREE).contains(&self.max_tree_depth) {
            return Err(InvalidChains::TreeDepth { depth: self.max_tree_depth, most: DEEPEST_TREE });
        }
        Ok(())
    }
}

/// Draws from a posterior with the no-U-turn sampler, chains in parallel.
///
/// Chain c of a seed has the same draws on any number of threads. `progress` is called from any thread with the number
/// of iterations done since its last call; they sum to [`NutsOptions::iterations`].
///
/// ```
/// use riemannian_laplace::internals::paper::problems::Identity;
/// use riemannian_laplace::internals::paper::reference::{NutsOptions, Start, nuts};
///
/// let target = Identity::gaussian(&[1.0, 10.0])?;
/// let sample = nuts(&target, Start::StandardNormal, &NutsOptions::quick(), &|_| ())?;
/// let convergence = sample.verdict()?; // an error if the chains disagree
/// assert!(convergence.r_hat <= 1.01);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn nuts(
    target: &Target,
    start: Start<'_>,
    options: &NutsOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<ReferenceSample> {
    options.check()?;
    let n_params = target.n_params();
    check_start(start, n_params)?;
    let numbers = 3.0 * options.chains as f64 * options.kept_per_chain() as f64 * n_params as f64;
    let advice = "keep fewer: raise the thinning";
    let _reservation = memory::reserve("the draws of the no-U-turn sampler", numbers, advice)?;

    let run = |chain: usize| {
        let run = ChainRun { target, start, options, progress, chain };
        match options.mass_matrix {
            MassMatrix::Diagonal => run.sample(DiagNutsSettings::default()),
            MassMatrix::LowRank => run.sample(LowRankNutsSettings::default()),
        }
    };
    let chains: Result<Vec<_>> = (0..options.chains).into_par_iter().with_max_len(1).map(run).collect();
    let (values, reports): (Vec<Vec<f64>>, Vec<ChainReport>) = chains?.into_iter().unzip();
    let rows = options.chains * options.kept_per_chain();
    let values = values.concat();
    let draws = Array2::from_shape_fn((rows, n_params), |(row, column)| values[row * n_params + column]);
    let diagnostics = Diagnostics::of(draws.view(), options.chains)?;
    Ok(ReferenceSample { draws, reports, diagnostics })
}

fn check_start(start: Start<'_>, n_params: usize) -> Result<()> {
    let Start::Around { centre, deviation } = start else { return Ok(()) };
    check_size("number of parameters of the starting point", n_params, centre.len())?;
    if let Some(column) = centre.iter().position(|value| !value.is_finite()) {
        return Err(Error::NotFinite { what: "the starting point", row: 0, column });
    }
    if !(deviation > 0.0 && deviation.is_finite()) {
        return Err(InvalidChains::StartDeviation(deviation).into());
    }
    Ok(())
}

/// One chain, and what it needs.
struct ChainRun<'a> {
    target: &'a Target,
    start: Start<'a>,
    options: &'a NutsOptions,
    progress: &'a (dyn Fn(usize) + Sync),
    chain: usize,
}

impl ChainRun<'_> {
    /// The kept draws, one after another, and how it went.
    fn sample<A>(&self, mut settings: NutsSettings<EuclideanAdaptOptions<A>>) -> Result<(Vec<f64>, ChainReport)>
    where
        A: Debug + Copy + Default + Serialize,
        NutsSettings<EuclideanAdaptOptions<A>>: Settings,
    {
        let Self { target, options, chain, .. } = *self;
        settings.num_tune = options.warmup as u64;
        settings.num_draws = options.draws as u64;
        settings.maxdepth = options.max_tree_depth as u64;
        settings.adapt_options.step_size_settings.target_accept = options.target_accept;

        // Two streams per chain: its starts, and the key of its sampler's own generator.
        let mut key = [0; 32];
        stream(options.seed, Purpose::ChainKey, chain as u64).fill_bytes(&mut key);
        let mut density = Density { n_params: target.n_params(), evaluator: target.evaluator() };
        let start = self.first_point(&mut density)?;
        let math = CpuMath::new(density);
        let mut sampler = settings
            .new_chain(chain as u64, math, &mut ChaCha8Rng::from_seed(key))
            .map_err(|error| self.failed(0, &error))?;
        sampler.set_position(&start).map_err(|error| self.failed(0, &error))?;

        let mut report =
            ChainReport { step_size: 0.0, transitions: options.draws, divergences: 0, depth_limited: 0, gradients: 0 };
        let mut kept = Vec::with_capacity(options.kept_per_chain() * start.len());
        let full_tree = (1_u64 << options.max_tree_depth) - 1;
        let iterations = options.warmup + options.draws;
        for iteration in 0..iterations {
            let (draw, info) = sampler.draw().map_err(|error| self.failed(iteration, &error))?;
            report.gradients += info.num_gradients as usize;
            if iteration >= options.warmup {
                report.step_size += info.step_size / options.draws as f64;
                report.divergences += usize::from(info.diverging);
                report.depth_limited += usize::from(info.num_steps >= full_tree);
                if (iteration - options.warmup + 1).is_multiple_of(options.thinning) {
                    kept.extend_from_slice(&draw);
                }
            }
            let done = (iteration + 1) % PROGRESS_BLOCK;
            if done == 0 || iteration + 1 == iterations {
                (self.progress)(if done == 0 { PROGRESS_BLOCK } else { done });
            }
        }
        Ok((kept, report))
    }

    fn failed(&self, iteration: usize, error: &dyn Display) -> Error {
        Error::ChainFailed { chain: self.chain, iteration, reason: format!("{error:#}") }
    }

    /// The first of the chain's random points from which it can move.
    fn first_point(&self, density: &mut Density) -> Result<Vec<f64>> {
        let mut generator = stream(self.options.seed, Purpose::ChainStart, self.chain as u64);
        let mut point = vec![0.0; self.target.n_params()];
        let mut gradient = point.clone();
        for _ in 0..STARTS_TRIED {
            fill_standard_normal(&mut generator, &mut point);
            if let Start::Around { centre, deviation } = self.start {
                point.iter_mut().zip(centre).for_each(|(value, centre)| *value = centre + deviation * *value);
            }
            // The first mass matrix is scaled by the gradient, which therefore must not vanish.
            if density.logp(&point, &mut gradient).is_ok() && gradient.iter().all(|entry| *entry != 0.0) {
                return Ok(point);
            }
        }
        Err(Error::NoStart { chain: self.chain, tried: STARTS_TRIED })
    }
}

/// ℓ(θ) in the form that `nuts-rs` needs.
struct Density {
    n_params: usize,
    evaluator: TargetEvaluator,
}

/// ℓ(θ) or its gradient left the finite numbers: the sampler counts a divergence and continues elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("the log posterior or its gradient is not finite")]
struct NotFinite;

impl LogpError for NotFinite {
    fn is_recoverable(&self) -> bool {
        true
    }
}

impl HasDims for Density {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([("unconstrained_parameter".to_string(), self.n_params as u64)])
    }
}

impl CpuLogpFunc for Density {
    type LogpError = NotFinite;
    type FlowParameters = ();
    type ExpandedVector = ();

    fn dim(&self) -> usize {
        self.n_params
    }

    fn logp(&mut self, position: &[f64], gradient: &mut [f64]) -> std::result::Result<f64, NotFinite> {
        let value = self.evaluator.gradient(position, gradient);
        let finite = value.is_finite() && gradient.iter().all(|entry| entry.is_finite());
        if finite { Ok(value) } else { Err(NotFinite) }
    }

    fn expand_vector<R>(&mut self, _: &mut R, _: &[f64]) -> std::result::Result<(), CpuMathError>
    where
        R: nuts_rs::rand::Rng + ?Sized,
    {
        Ok(())
    }
}
