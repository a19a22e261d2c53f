//! The training data as features of a frozen front, computed once: for the fit of the weights behind it, and for what looks
//! at the same data after the fit.

use std::ops::Range;
use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use super::accumulate::{BATCH_NUMBERS, rows_at_once};
use super::fit::Laplace;
use super::problem::Problem;
use crate::data::{Batches, Dataset, blocks_at_once, row_blocks};
use crate::error::Result;
use crate::map::{Features, Model};
use crate::memory::{self, Reservation};

/// A part of a model and its data, both behind the front.
#[derive(Debug)]
pub(super) struct AtFeatures {
    /// What they were made of.
    whole: (Arc<dyn Model>, Arc<Dataset>),
    model: Arc<dyn Model>,
    data: Arc<Dataset>,
    _reservation: Reservation,
}

impl AtFeatures {
    /// The features of all data. `None` where nothing lies before the uncertain weights, where features would take more room
    /// than the inputs do, and where there is no room for them: then each pass over the data computes them again.
    pub(super) fn of(problem: &Problem, data: &Arc<Dataset>) -> Result<Option<Self>> {
        let Some((front, model)) = problem.model.behind_front() else { return Ok(None) };
        let (points, width) = (data.len(), front.n_features());
        if width > data.inputs().ncols() {
            return Ok(None);
        }
        let Ok(reservation) = memory::reserve("the features of the data", (points * width) as f64, "") else {
            return Ok(None);
        };
        let features = features_of(problem, &*front, data)?;
        let Ok(features) = Array2::from_shape_vec((points, width), features) else { return Ok(None) };
        let whole = (problem.model.clone(), data.clone());
        let data = Arc::new(Dataset::new(features, data.targets().clone())?);
        Ok(Some(Self { whole, model, data, _reservation: reservation }))
    }

    /// What is fitted, behind the front.
    pub(super) fn problem(&self, problem: &Problem) -> Problem {
        Problem { model: self.model.clone(), ..problem.clone() }
    }

    /// The features and the targets.
    pub(super) fn data(&self) -> &Arc<Dataset> {
        &self.data
    }
}

/// The features, row by row; threads share the blocks of rows.
fn features_of(problem: &Problem, front: &dyn Features, data: &Dataset) -> Result<Vec<f64>> {
    let rows = rows_at_once(&*problem.model, 0.0);
    let of_block = |block: &Range<usize>| -> Result<Vec<f64>> {
        let mut features = Vec::with_capacity(block.len() * front.n_features());
        for batch in data.batches(block.clone(), rows)? {
            features.extend(front.features(batch?.inputs.view())?.iter());
        }
        Ok(features)
    };
    let mut all = Vec::with_capacity(data.len() * front.n_features());
    for blocks in row_blocks(data.len()).chunks(blocks_at_once(3.0 * BATCH_NUMBERS)) {
        let parts: Vec<Result<Vec<f64>>> = match blocks {
            [block] => vec![of_block(block)],
            several => several.par_iter().map(of_block).collect(),
        };
        for part in parts {
            all.extend_from_slice(&part?);
        }
    }
    Ok(all)
}

impl Laplace {
    /// The same posterior as one of the layers behind a frozen front, with the features of its training data: for whatever
    /// needs outputs, and not the inputs themselves. `None` where the features were not kept.
    pub(crate) fn at_features(&self) -> Option<Self> {
        let features = self.features.as_ref()?;
        let (model, data) = &features.whole;
        let same = Arc::ptr_eq(model, &self.problem.model)
            && self.problem.data.as_ref().is_some_and(|own| Arc::ptr_eq(own, data));
        let problem = Problem { data: Some(features.data.clone()), ..features.problem(&self.problem) };
        same.then(|| Self { problem, features: None, ..self.clone() })
    }
}
