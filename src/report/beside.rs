//! The network beside a constant and a linear model: how much of the deviance each explains, of training rows and held-out ones.

use super::contents::{Beside, Explained};
use crate::data::Dataset;
use crate::error::Result;
use crate::evaluate::{Deviances, expected_linear_seconds, linear_model};
use crate::laplace::Laplace;
use crate::progress::Progress;

/// A linear model that would take longer than this (seconds, by counted work) is left out.
const MOST_SECONDS: f64 = 20.0;

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
        Ok(Explained { training: of(training.inputs(), training.targets())?, held_out: on_held_out })
    };
    let network = share(&|inputs| laplace.outputs(inputs))?;
    let (n_inputs, n_outputs) = (laplace.model().n_inputs(), laplace.model().n_outputs());
    let linear = match expected_linear_seconds((n_inputs, n_outputs), training.len()) < MOST_SECONDS {
        // What a linear model cannot do is no reason to have no report.
        true => match linear_model((n_inputs, n_outputs), training, family, 1, progress) {
            Ok(linear) => Some(share(&|inputs| linear.network.outputs(inputs.view()))?),
            Err(crate::error::Error::Cancelled) => return Err(crate::error::Error::Cancelled),
            Err(_) => None,
        },
        false => None,
    };
    Ok(Some(Beside { network, linear }))
}
