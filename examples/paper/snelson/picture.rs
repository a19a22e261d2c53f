//! The panels of a task: sampled curves, their mean and band over the range of the data, in original units.

use riemannian_laplace::Dataset;
use riemannian_laplace::Link;
use riemannian_laplace::Result;
use riemannian_laplace::internals::predict::{Moments, SampledPredictive};

use super::bands::BandPanel;
use super::experiment::{Split, grid};
use super::regression::method::Method;
use super::regression::task::Task;
use super::report;
use super::study::Finished;

/// The number of curves in a panel: more would hide each other.
const CURVES: usize = 60;

/// A panel for every method except MAP and the second RLA-F.
pub fn panels(task: &Task, finished: &[Finished]) -> Result<Vec<BandPanel>> {
    let shown = finished.iter().filter(|method| !matches!(method.method, Method::Map | Method::RlaFFixed));
    shown.map(|method| panel(task, method)).collect()
}

fn panel(task: &Task, finished: &Finished) -> Result<BandPanel> {
    let posterior = &task.posterior;
    let x = grid(0.0, 6.0, 241);
    let inputs = x.mapv(|x| task.scaling.input(x));
    let back = |value: f64| task.scaling.output(value);
    let mut curves = Vec::new();
    let mut moments: Option<Moments> = None;
    if finished.method == Method::Linearized {
        moments = Some(posterior.linearized(&inputs)?.moments(posterior.family(), Link::Probit)?);
    } else if finished.weights.nrows() > 0 {
        let weights = finished.weights.view();
        let sampled = SampledPredictive::new(&**posterior.model(), posterior.family(), weights, &inputs)?;
        let step = finished.weights.nrows().div_ceil(CURVES);
        let shown = sampled.outputs().outer_iter().step_by(step);
        curves = shown.map(|curve| curve.iter().map(|value| back(*value)).collect()).collect();
        moments = Some(sampled.moments());
    }
    let edge = |sign: f64| -> Vec<f64> {
        let rows = moments.iter().flat_map(|moments| moments.mean.iter().zip(&moments.total_variance));
        rows.map(|(mean, variance)| back(mean + sign * 2.0 * variance.sqrt())).collect()
    };
    let training = points(task, &task.train);
    Ok(BandPanel {
        title: format!("{}, {} data", report::name(finished), task.split.name()),
        mean: edge(0.0),
        band: (edge(-1.0), edge(1.0)),
        x: x.iter().copied().collect(),
        curves,
        test: points(task, &task.test),
        covered: covered(task.split, &training),
        training,
    })
}

/// Data in original units.
fn points(task: &Task, data: &Dataset) -> Vec<(f64, f64)> {
    let (mean, deviation) = task.scaling.x;
    let rows = data.inputs().iter().zip(data.targets());
    rows.map(|(x, y)| (mean + deviation * x, task.scaling.output(*y))).collect()
}

/// Intervals of x with training data.
fn covered(split: Split, training: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let extent = |low: f64, high: f64| {
        let inside = training.iter().map(|(x, _)| *x).filter(|x| (low..=high).contains(x));
        inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), x| (least.min(x), greatest.max(x)))
    };
    match split {
        Split::Complete => vec![extent(0.0, 6.0)],
        Split::Gap => vec![extent(0.0, 1.5), extent(3.0, 6.0)],
    }
}
