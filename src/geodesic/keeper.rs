//! Finished samples, kept as they come, so that an interruption costs only those that were running.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::sync::Arc;

use super::exponential::Geodesic;
use super::samples::Outcome;
use crate::error::{Result, check_size};
use crate::progress::Progress;

/// A finished sample: its geodesic, and how it ended.
pub type Finished = (Geodesic, Outcome);

/// What finished samples are given to, and samples of an earlier run are taken from. All methods may be called from any
/// thread; `()` keeps nothing.
pub trait Keeper: Sync {
    /// The sample with this index, where an earlier run finished it.
    fn find(&self, _index: usize) -> Option<Arc<Finished>> {
        None
    }

    /// Takes a sample that was finished just now.
    fn keep(&self, _index: usize, _finished: &Arc<Finished>) {}
}

impl Keeper for () {}

/// Who is told of a run: of its progress, and of every finished sample.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Its progress, which may cancel it.
    pub progress: &'a dyn Progress,
    /// Its samples.
    pub keeper: &'a dyn Keeper,
}

impl<'a> Watch<'a> {
    /// Progress alone.
    pub fn of(progress: &'a dyn Progress) -> Self {
        Self { progress, keeper: &() }
    }

    /// The sample of an earlier run, which must have as many parameters, or a new one, which is kept.
    pub(super) fn sample(
        self,
        index: usize,
        n_params: usize,
        draw: impl FnOnce() -> Result<Finished>,
    ) -> Result<Arc<Finished>> {
        let finished = match self.keeper.find(index) {
            Some(finished) => {
                for part in [&finished.0.theta, &finished.0.velocity] {
                    check_size("number of parameters of a saved sample", n_params, part.len())?;
                }
                finished
            }
            None => {
                let finished = Arc::new(draw()?);
                self.keeper.keep(index, &finished);
                finished
            }
        };
        self.progress.advance();
        Ok(finished)
    }
}
