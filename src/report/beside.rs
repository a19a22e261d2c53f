//! The network beside a constant and a linear model: how much of the deviance each explains, of training rows and held-out ones.

use super::contents::{Beside, Explained};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::evaluate::{Deviances, expected_linear_seconds, expected_refit_seconds, linear_model, refit};
use crate::laplace::Laplace;
use crate::progress::Progress;

/// A linear model that would take longer than this (seconds, by counted work) is left out.
const MOST_SECONDS: f64 = 20.0;

/// Without held-out rows the network is trained again without each of so many parts, where that takes less than this (seconds, by
/// counted work).
const PARTS: usize = 5;
const MOST_REFIT_SECONDS: f64 = 10.0;

/// The explained shares; `held_out` are in their own units.
pub(super) fn beside(laplace: &Laplace, held_out: Option<&Dataset>, progress: &dyn Progress) -> Result<Option<Beside>> {
    let Some(training) = laplace.data() else { return Ok(None) };
    let (family, schema) = (laplace.family(), laplace.schema());
    let held_out = match held_out {
        Some(data) => {
            let inputs = schema.scale_inputs(data.inputs().view())?;
            let targets = schema.scale_targets(data.targets().view())?;
            Some((inputs, targets))
        }
        None => None,
    };
    let share = |outputs: &dyn Fn(&ndarray::Array2<f64>) -> Result<ndarray::Array2<f64>>| -> Result<Explained> {
        let of = |inputs: &ndarray::Array2<f64>, targets: &ndarray::Array2<f64>| -> Result<f64> {
            Ok(Deviances::of(family, &outputs(inputs)?, targets, training.targets()).explained())
        };
        let on_held_out = held_out.as_ref().map(|(inputs, targets)| of(inputs, targets)).transpose()?;
        Ok(Explained { training: of(training.inputs(), training.targets())?, held_out: on_held_out, refits: None })
    };
    let mut network = share(&|inputs| laplace.outputs(inputs))?;
    if held_out.is_none() {
        network.refits = refits(laplace, progress)?;
    }
    let (n_inputs, n_outputs) = (laplace.model().n_inputs(), laplace.model().n_outputs());
    let linear = match expected_linear_seconds((n_inputs, n_outputs), training.len()) < MOST_SECONDS {
        // What a linear model cannot do is no reason to have no report.
        true => match linear_model((n_inputs, n_outputs), training, family, 1, progress) {
            Ok(linear) => {
                let explained = share(&|inputs| linear.network.outputs(inputs.view()))?;
                let by_folds = linear.held_out.filter(|_| held_out.is_none());
                Some(Explained { refits: by_folds.as_ref().map(Deviances::explained), ..explained })
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(_) => None,
        },
        false => None,
    };
    Ok(Some(Beside { network, linear }))
}

/// The share of the deviance that is explained of rows left out, by networks that were trained again by the recipe of this one.
/// What the training rows themselves show cannot tell: the weights have seen them.
fn refits(laplace: &Laplace, progress: &dyn Progress) -> Result<Option<f64>> {
    let quick = || expected_refit_seconds(laplace, PARTS).is_ok_and(|seconds| seconds < MOST_REFIT_SECONDS);
    if laplace.recipe().is_none() || laplace.n_data() < 2 * PARTS || !quick() {
        return Ok(None);
    }
    match refit(laplace, PARTS, 0, progress) {
        Ok(refit) => Ok(Some(refit.deviances.explained())),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        // What cannot be trained again is no reason to have no report.
        Err(_) => Ok(None),
    }
}
