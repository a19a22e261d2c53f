//! The sums of a fit as parts: what one rank, or one shard, has accumulated from its row blocks, and what it is as bytes.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;

use super::accumulate::Fit;
use super::problem::Problem;
use super::structure::{Curvature, SavedTensors, Structure};
use crate::error::{Error, Result, TeamError};
use crate::team::{Parts, pack_numbers, pack_tensors, unpack_numbers, unpack_tensors};
use crate::tensors::Tensor;

/// The tensor that holds the goodness of fit beside the curvature's own.
const FIT: &str = "goodness of fit";

/// How the sums of a problem's row blocks are combined.
pub(super) struct BlockSums<'a> {
    pub(super) problem: &'a Problem,
    pub(super) structure: Structure,
}

impl Parts for BlockSums<'_> {
    type Part = (Box<dyn Curvature>, Fit);

    fn merge(&self, sum: &mut Self::Part, later: Self::Part) -> Result<()> {
        sum.0.merge(later.0)?;
        sum.1.merge(&later.1);
        Ok(())
    }

    fn encode(&self, (curvature, fit): &Self::Part) -> Result<Vec<u8>> {
        let saved = curvature.save().ok_or(TeamError::NotShared {
            what: "this structure of the posterior",
            advice: "fit it in one process, or choose the Kronecker or the diagonal structure",
        })?;
        let fit = fit.numbers();
        let tensors = saved.iter().map(|tensor| (tensor.name.as_str(), &tensor.shape[..], &tensor.values[..]));
        Ok(pack_tensors(tensors.chain([(FIT, &[fit.len()][..], &fit[..])])))
    }

    fn decode(&self, message: &[u8]) -> Result<Self::Part> {
        let mut tensors = Received(unpack_tensors(message)?);
        let values = tensors.0.remove(FIT).ok_or(TeamError::Message)?.values;
        let none = Fit::none(&self.problem.family, self.problem.model.n_outputs());
        let fit = none.with_numbers(values).ok_or(TeamError::Message)?;
        Ok((self.structure.load_sums(self.problem, &mut tensors)?, fit))
    }
}

/// How the goodness of fit of a problem's row blocks is combined, by itself.
pub(super) struct FitSums<'a>(pub(super) &'a Problem);

impl Parts for FitSums<'_> {
    type Part = Fit;

    fn merge(&self, sum: &mut Fit, later: Fit) -> Result<()> {
        sum.merge(&later);
        Ok(())
    }

    fn encode(&self, fit: &Fit) -> Result<Vec<u8>> {
        Ok(pack_numbers(&fit.numbers()))
    }

    fn decode(&self, message: &[u8]) -> Result<Fit> {
        let none = Fit::none(&self.0.family, self.0.model.n_outputs());
        Ok(none.with_numbers(unpack_numbers(message)?).ok_or(TeamError::Message)?)
    }
}

/// Tensors of a message.
struct Received(BTreeMap<String, Tensor>);

impl SavedTensors for Received {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let tensor = self.0.remove(name).filter(|tensor| tensor.shape == shape);
        tensor.map(|tensor| tensor.values).ok_or_else(|| Error::from(TeamError::Message))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
