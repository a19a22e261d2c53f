//! What a run of the no-U-turn sampler returns.

use ndarray::{Array2, ArrayView2};

use super::diagnostics::{Convergence, Diagnostics, Refusal};
use crate::error::{Result, check_size};

/// How one chain went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainReport {
    /// The mean step size after warm-up (each transition varies it by up to 10 %).
    pub step_size: f64,
    /// Transitions after warm-up whose energy error exceeded 1000 or whose density was not finite. They point at
    /// regions the sampler cannot enter.
    pub divergences: usize,
    /// Transitions after warm-up whose trajectory reached the deepest tree allowed.
    pub depth_limited: usize,
    /// Gradients of the log posterior, warm-up included.
    pub gradients: usize,
}

/// Draws from the posterior, with the evidence that they are.
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

    /// Whether the run may be called a reference for every parameter: the worst R̂ and the least effective sample sizes,
    /// or why not. See [`Diagnostics::verdict`].
    pub fn verdict(&self) -> std::result::Result<Convergence, Refusal> {
        self.diagnostics.verdict().map_err(|refusal| Refusal { divergences: self.divergences(), ..refusal })
    }

    /// The diagnostics of functions of the draws, one a column, one row for each kept draw: for a network, whose weights
    /// are not identifiable, its predictions at test points.
    pub fn diagnostics_of(&self, values: ArrayView2<'_, f64>) -> Result<Diagnostics> {
        check_size("number of draws", self.draws.nrows(), values.nrows())?;
        Diagnostics::of(values, self.chains())
    }
}
