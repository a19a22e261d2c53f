//! The measures of a repeat: its distance to exact samples, and its cost.

use std::error::Error;

use ndarray::{ArrayView2, Axis};
use riemannian_laplace::Samples;
use riemannian_laplace::internals::paper::wasserstein::{TransportError, TransportOptions, wasserstein1};
use serde::{Deserialize, Serialize};

/// One repeat of one method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// W1 of the samples that reached their end, to exact samples.
    pub distance: f64,
    /// T, the mean number of evaluations per sample.
    pub evaluations: f64,
    /// Wall-clock time per sample, with all threads at work.
    pub milliseconds: f64,
    /// Samples that did not reach their end.
    pub failed: usize,
}

impl Score {
    /// Scores samples that took the given seconds in all, in the coordinates of the reference: all, or the first ones.
    pub fn of(samples: &Samples, seconds: f64, reference: ArrayView2<'_, f64>) -> Result<Self, Box<dyn Error>> {
        let milliseconds = 1e3 * seconds / samples.len() as f64;
        let reached = samples.reached();
        let distance = distance(reached.view().split_at(Axis(1), reference.ncols()).0, reference)?;
        Ok(Self { distance, evaluations: samples.mean_evaluations(), milliseconds, failed: samples.failed() })
    }

    /// A set of exact samples, which cost nothing that is counted here.
    pub fn of_exact(exact: ArrayView2<'_, f64>, reference: ArrayView2<'_, f64>) -> Result<Self, Box<dyn Error>> {
        Ok(Self { distance: distance(exact, reference)?, evaluations: 0.0, milliseconds: 0.0, failed: 0 })
    }
}

/// The exact Wasserstein-1 distance between two sets of points, one per row. The accepted relative gap of 1e-6 is far
/// below the digits reported.
pub fn distance(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>) -> Result<f64, TransportError> {
    let flat = |points: ArrayView2<'_, f64>| points.iter().copied().collect::<Vec<f64>>();
    let options = TransportOptions { tolerance: 1e-6, ..Default::default() };
    Ok(wasserstein1(&flat(a), &flat(b), a.ncols(), &options)?.distance)
}
