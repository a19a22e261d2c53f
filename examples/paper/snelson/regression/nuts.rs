//! The no-U-turn sampler on a task's posterior, chain by chain so that each can be saved, and whether its predictions
//! have converged. The weights need not converge: hidden units can be permuted and their signs flipped.

use std::time::Instant;

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::paper::reference::{
    ChainReport, Convergence, Diagnostics, NutsOptions, ReferenceSample, Refusal, Start, nuts,
};
use riemannian_laplace::internals::predict::SampledPredictive;
use riemannian_laplace::{Error, Result};
use serde::{Deserialize, Serialize};

use super::task::Task;

/// One chain: its kept draws, and how it went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Chain {
    draws: Vec<Vec<f64>>,
    seconds: f64,
    step_size: f64,
    transitions: usize,
    divergences: usize,
    depth_limited: usize,
    gradients: usize,
}

impl Chain {
    /// Runs chain number `index`; it starts at a draw of N(0, I), about as wide as Stan's starts.
    pub fn run(task: &Task, options: &NutsOptions, index: usize, progress: &(dyn Fn(usize) + Sync)) -> Result<Self> {
        let target = task.posterior.target("NUTS")?;
        let options = NutsOptions { chains: 1, seed: options.seed + index as u64, ..*options };
        let start = Instant::now();
        let sample = nuts(&target, Start::StandardNormal, &options, progress)?;
        let report = sample.reports.first().ok_or(Error::NoSamples { requested: options.draws })?;
        Ok(Self {
            draws: sample.draws.rows().into_iter().map(|row| row.to_vec()).collect(),
            seconds: start.elapsed().as_secs_f64(),
            step_size: report.step_size,
            transitions: report.transitions,
            divergences: report.divergences,
            depth_limited: report.depth_limited,
            gradients: report.gradients,
        })
    }

    fn report(&self) -> ChainReport {
        ChainReport {
            step_size: self.step_size,
            transitions: self.transitions,
            divergences: self.divergences,
            depth_limited: self.depth_limited,
            gradients: self.gradients,
        }
    }
}

/// All chains, with the diagnostics of the weights (in the sample) and of the predictions at the test points.
pub struct Reference {
    pub sample: ReferenceSample,
    pub predictions: Diagnostics,
    /// Seconds per gradient on one thread.
    pub seconds_per_gradient: f64,
    /// Seconds of all chains, added.
    pub seconds: f64,
}

impl Reference {
    pub fn of(task: &Task, chains: &[Chain]) -> Result<Self> {
        let rows: Vec<&Vec<f64>> = chains.iter().flat_map(|chain| &chain.draws).collect();
        let columns = task.posterior.parameters().len();
        let draws = Array2::from_shape_fn((rows.len(), columns), |(row, column)| rows[row][column]);
        let diagnostics = Diagnostics::of(draws.view(), chains.len())?;
        let sample = ReferenceSample { draws, reports: chains.iter().map(Chain::report).collect(), diagnostics };
        let (posterior, inputs) = (&task.posterior, task.test.inputs());
        let sampled = SampledPredictive::new(&**posterior.model(), posterior.family(), sample.draws.view(), inputs)?;
        let outputs = sampled.outputs().index_axis(Axis(2), 0);
        let predictions = sample.diagnostics_of(outputs)?;
        let seconds = chains.iter().map(|chain| chain.seconds).sum::<f64>();
        let seconds_per_gradient = seconds / sample.gradients().max(1) as f64;
        Ok(Self { sample, predictions, seconds_per_gradient, seconds })
    }

    /// Whether the draws may be called a reference for the predictions.
    pub fn verdict(&self) -> std::result::Result<Convergence, Refusal> {
        self.sample.verdict_on(&self.predictions)
    }

    /// Draws r, r + repeats, …, at most `samples` of them, evenly spaced: repeats share no draws.
    pub fn pick(&self, repeat: usize, repeats: usize, samples: usize) -> Array2<f64> {
        let rows: Vec<usize> = (repeat..self.sample.draws.nrows()).step_by(repeats.max(1)).collect();
        let count = samples.min(rows.len());
        let picked: Vec<usize> = (0..count).map(|index| rows[index * rows.len() / count]).collect();
        self.sample.draws.select(Axis(0), &picked)
    }
}
