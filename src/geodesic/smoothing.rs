//! Metrics of networks with kinks (relu, leaky_relu; elu, whose second derivative jumps): geodesics are those of the network with its kinks rounded, and
//! everything else belongs to the network itself.
//!
//! At a kink the Fisher metric jumps. Ignoring it is wrong, not merely inaccurate: vᵀGv grows a hundred times along the
//! smooth pieces. The right limit is a law at the crease, by which a geodesic changes its direction when it crosses
//! (`tests/kinks/crease.rs` states and integrates it), and the geodesics of the rounded network converge to it as the
//! width goes to zero. Evidence, linearised predictions and the predictions of end points are those of the network with its
//! kinks.
//!
//! Samples start with velocities from the precision of the rounded network at θ̂, which is the metric there. The two
//! precisions differ most in weights of units that no data point switches on, which the network's own posterior leaves
//! to the prior and the rounded metric does not: with velocities from there, samples leave the data (docs/results/relu.md).

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array2;

use super::name::MetricName;
use crate::error::{Error, Result, Unsupported};
use crate::laplace::Laplace;
use crate::map::{Model, Rounding};
use crate::random::{Purpose, stream};
use crate::target::Target;

/// The width, in units of the spread of each unit's input, over which kinks are rounded by default. docs/results/relu.md has the
/// study that it was chosen from.
pub const SMOOTHING_WIDTH: f64 = 0.05;

/// Posterior draws from which the spread of each unit's input is measured: enough for a width within a fifth.
const DRAWS: usize = 32;

/// Whether, and over which width, the metric rounds the kinks of a network that has any.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Smoothing {
    /// Samples: over [`SMOOTHING_WIDTH`]. Exponential and logarithmic maps of given vectors: not at all.
    #[default]
    Default,
    /// Over ε_j = c·√(variance of unit j's input over the data + its mean posterior variance).
    Width(f64),
    /// Not at all: the metric jumps, vᵀGv is not conserved, and no tolerance can change that.
    None,
}

impl Smoothing {
    /// The width for samples; `None` where the metric is left as it is.
    pub(super) fn for_samples(self, laplace: &Laplace, metric: MetricName) -> Result<Option<f64>> {
        self.width(Some(SMOOTHING_WIDTH), laplace, metric)
    }

    /// The width for exponential and logarithmic maps.
    pub(super) fn for_maps(self, laplace: &Laplace, metric: MetricName) -> Result<Option<f64>> {
        self.width(None, laplace, metric)
    }

    fn width(self, usual: Option<f64>, laplace: &Laplace, metric: MetricName) -> Result<Option<f64>> {
        let width = match self {
            Smoothing::Default => usual,
            Smoothing::Width(width) if !(width > 0.0 && width.is_finite()) => return Err(Error::SmoothingWidth(width)),
            Smoothing::Width(width) => Some(width),
            Smoothing::None => None,
        };
        Ok(width.filter(|_| laplace.model().has_kinks() && metric != MetricName::Euclidean))
    }
}

/// The posterior whose metric samples follow, and whose precision their velocities come from: the given one, or that of
/// the same model with its kinks rounded over a width.
pub(super) fn posterior(laplace: &Laplace, metric: MetricName, width: Option<f64>) -> Result<Cow<'_, Laplace>> {
    match width {
        Some(width) => laplace.with_model(model(laplace, metric, width)?, metric.needs()).map(Cow::Owned),
        None => Ok(Cow::Borrowed(laplace)),
    }
}

/// The target whose metric given velocities follow.
pub(super) fn target(laplace: &Laplace, metric: MetricName, width: Option<f64>) -> Result<Target> {
    match width {
        Some(width) => laplace.target_of(&*model(laplace, metric, width)?, metric.needs()),
        None => laplace.target(metric.needs()),
    }
}

/// The model with its kinks rounded over a width.
fn model(laplace: &Laplace, metric: MetricName, width: f64) -> Result<Arc<dyn Model>> {
    let data = laplace.data().ok_or(Error::NoTrainingData { what: metric.needs() })?;
    let mut offsets = Array2::zeros((DRAWS, laplace.parameters().len()));
    for (index, mut row) in offsets.rows_mut().into_iter().enumerate() {
        let mut offset = vec![0.0; row.len()];
        laplace.precision().sample(&mut stream(0, Purpose::Smoothing, index as u64), &mut offset);
        row.iter_mut().zip(offset).for_each(|(slot, value)| *slot = value);
    }
    let rounding = Rounding { width, inputs: data.inputs().view(), offsets: offsets.view() };
    let model = laplace.model();
    let smooth = model.smoothed(&rounding)?;
    smooth.ok_or_else(|| Error::Unsupported(Unsupported::Smoothing { model: model.description() }))
}
