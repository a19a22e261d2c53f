//! Runs of the no-U-turn sampler to compare approximations with, in the sizes of the examples.

use ndarray::{Array2, ArrayView2, Axis};
use riemannian_laplace::internals::paper::reference::NutsOptions;

use super::Size;

/// The run whose draws a comparison of this size needs: the paper's at the paper's size. Smaller runs keep more draws
/// than are compared, so that R̂ and the effective sample size are meaningful.
pub fn nuts_options(size: Size, seed: u64) -> NutsOptions {
    let options = if size.reference < Size::FULL.reference { NutsOptions::quick() } else { NutsOptions::default() };
    NutsOptions { seed, ..options }
}

/// A second, independent run of half as many chains, for half as many draws: a repeat of a perfect method.
pub fn half_as_many(options: NutsOptions, seed: u64) -> NutsOptions {
    NutsOptions { chains: options.chains / 2, seed, ..options }
}

/// This many draws, evenly spaced; all of them if there are no more.
pub fn evenly(draws: ArrayView2<'_, f64>, count: usize) -> Array2<f64> {
    let count = count.min(draws.nrows());
    let rows: Vec<usize> = (0..count).map(|index| index * draws.nrows() / count).collect();
    draws.select(Axis(0), &rows)
}
