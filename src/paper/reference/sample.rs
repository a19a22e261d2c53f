//! What a run of the no-U-turn sampler returns.

use ndarray::{Array2, ArrayView2};

use super::diagnostics::{Convergence, Diagnostics, LIMITS, MOST_DIVERGENT};
use crate::error::{Refusal, Result, check_size};

/// How one chain went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainReport {
    /// The mean step size after warm-up (each transition varies it by up to 10 %).
    pub step_size: f64,
    /// Transitions after warm-up.
    pub transitions: usize,
    /// Transitions after warm-up whose energy error exceeded 1000 or whose density was not finite. They indicate
    /// regions that the sampler cannot enter.
    pub divergences: usize,
    /// Transitions after warm-up whose trajectory reached the deepest tree allowed.
    pub depth_limited: usize,
    /// Gradients of the log posterior, warm-up included.
    pub gradients: usize,
}

/// Draws from the posterior, with the diagnostics that support them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceSample {
    /// The kept draws, chain after chain: draws × D.
    pub draws: Array2<f64>,
    /// How each chain went.
    pub reports: Vec<ChainReport>,
    /// R̂ and effective sample sizes of every parameter.
    pub diagnostics: Diagnostics,
}

impl ReferenceSample {
    /// The number of chains.
    pub fn chains(&self) -> usize {
        self.reports.len()
    }

    /// Transitions after warm-up, of all chains.
    pub fn transitions(&self) -> usize {
        self.reports.iter().map(|report| report.transitions).sum()
    }

    /// Divergent transitions after warm-up, of all chains.
    pub fn divergences(&self) -> usize {
        self.reports.iter().map(|report| report.divergences).sum()
    }

    /// Transitions after warm-up that reached the deepest tree allowed, of all chains.
    pub fn depth_limited(&self) -> usize {
        self.reports.iter().map(|report| report.depth_limited).sum()
    }

    /// Gradients of the log posterior, of all chains, warm-up included.
    pub fn gradients(&self) -> usize {
        self.reports.iter().map(|report| report.gradients).sum()
    }

    /// Whether the run may be called a reference for every parameter: [`Diagnostics::verdict`], and at most
    /// [`MOST_DIVERGENT`] of the transitions divergent. Returns the worst R̂ and the least effective sample sizes, or
    /// why not.
    pub fn verdict(&self) -> std::result::Result<Convergence, Refusal> {
        self.verdict_on(&self.diagnostics)
    }

    /// The same for functions of the draws, whose [`diagnostics`](Self::diagnostics_of) are given.
    pub fn verdict_on(&self, diagnostics: &Diagnostics) -> std::result::Result<Convergence, Refusal> {
        let (divergences, transitions) = (self.divergences(), self.transitions());
        let quantity = diagnostics.worst_r_hat().map_or(0, |(worst, _)| worst);
        let found = diagnostics.verdict().map_err(|refusal| Refusal { divergences, transitions, ..refusal })?;
        if divergences as f64 <= MOST_DIVERGENT * transitions as f64 {
            return Ok(found);
        }
        let (r_hat, bulk_ess) = (found.r_hat, found.bulk_ess);
        Err(Refusal { quantity, r_hat, bulk_ess, divergences, transitions, limits: LIMITS })
    }

    /// The diagnostics of functions of the draws, one column per function and one row per kept draw: for a network,
    /// whose weights are not identifiable, its predictions at test points.
    pub fn diagnostics_of(&self, values: ArrayView2<'_, f64>) -> Result<Diagnostics> {
        check_size("number of draws", self.draws.nrows(), values.nrows())?;
        Diagnostics::of(values, self.chains())
    }
}
