//! `--smoothing`: how the metric rounds the kinks of relu and its kin, and what is said about it.

use clap::Args;
use riemannian_laplace::internals::geodesic::{RESIDUAL_LIMIT, SMOOTHING_WIDTH};
use riemannian_laplace::{Laplace, MetricName, Samples, Smoothing};
use serde::Serialize;

use super::arguments;
use super::console::Console;
use super::output::{Summary, short};

/// Smoothing of samples, by default over the usual width.
#[derive(Debug, Args)]
pub struct SampleSmoothingArgs {
    /// For relu and its kin: the width over which the metric rounds kinks, relative to each unit's spread, or none
    /// [default: 0.05]
    #[arg(long, value_name = "W|none", allow_negative_numbers = true, value_parser = smoothing)]
    smoothing: Option<Smoothing>,
}

/// Smoothing of exponential and logarithmic maps, by default none.
#[derive(Debug, Args)]
pub struct MapSmoothingArgs {
    /// For relu and its kin: the width over which the metric rounds kinks, relative to each unit's spread, or none
    /// [default: none]
    #[arg(long, value_name = "W|none", allow_negative_numbers = true, value_parser = smoothing)]
    smoothing: Option<Smoothing>,
}

/// Parses a width or `none`.
fn smoothing(text: &str) -> Result<Smoothing, String> {
    match text {
        "none" => Ok(Smoothing::None),
        _ => arguments::positive(text)
            .map(Smoothing::Width)
            .map_err(|_| "it must be a positive finite number, or none".to_string()),
    }
}

impl SampleSmoothingArgs {
    /// Whether the option was given.
    pub fn is_given(&self) -> bool {
        self.smoothing.is_some()
    }

    /// What was asked for.
    pub fn smoothing(&self) -> Smoothing {
        self.smoothing.unwrap_or_default()
    }

    /// Says before the work what the metric does about kinks.
    pub fn announce(&self, laplace: &Laplace, metric: MetricName, console: &Console) {
        if !has_kinks(laplace, metric) {
            return say_that_nothing_is_smoothed(self.smoothing, laplace, console);
        }
        let width = match self.smoothing() {
            Smoothing::Default => SMOOTHING_WIDTH,
            Smoothing::Width(width) => width,
            Smoothing::None => return warn_about_kinks(laplace, "", console),
        };
        console.note(format!(
            "the network ({}) has kinks, which the metric rounds over a width of {width} (--smoothing); predictions are \
             by the network itself",
            laplace.model().description()
        ));
    }
}

impl MapSmoothingArgs {
    /// What was asked for.
    pub fn smoothing(&self) -> Smoothing {
        self.smoothing.unwrap_or_default()
    }

    /// Says before the work what the metric does about kinks.
    pub fn announce(&self, laplace: &Laplace, metric: MetricName, console: &Console) {
        match self.smoothing {
            given if !has_kinks(laplace, metric) => say_that_nothing_is_smoothed(given, laplace, console),
            Some(Smoothing::Width(_)) => {}
            _ => warn_about_kinks(laplace, "round its kinks with --smoothing, ", console),
        }
    }
}

fn has_kinks(laplace: &Laplace, metric: MetricName) -> bool {
    laplace.model().has_kinks() && metric != MetricName::Euclidean
}

fn say_that_nothing_is_smoothed(given: Option<Smoothing>, laplace: &Laplace, console: &Console) {
    if let Some(Smoothing::Width(_)) = given {
        let model = laplace.model().description();
        console.note(format!("--smoothing has nothing to do: the metric of this network ({model}) has no kinks"));
    }
}

fn warn_about_kinks(laplace: &Laplace, advice: &str, console: &Console) {
    console.warn(format!(
        "the network ({}) has kinks: the metric jumps where a geodesic crosses one, so vᵀGv is not conserved and the end \
         points cannot be certified; {advice}look at their drift",
        laplace.model().description()
    ));
}

/// What `--json` prints about the samples of a network with kinks.
#[derive(Debug, Serialize)]
pub struct SmoothingReport {
    /// The width; null where the metric is not smoothed.
    smoothing: Option<f64>,
    /// Root mean deviance at the training data: residuals in units of σ for a Gaussian.
    residual: f64,
    linearized_residual: f64,
}

impl SmoothingReport {
    /// The report of samples that have one.
    pub fn new(samples: &Samples) -> Option<Self> {
        let residuals = samples.residuals?;
        Some(Self {
            smoothing: samples.smoothing,
            residual: residuals.sampled,
            linearized_residual: residuals.linearized,
        })
    }

    /// The same for people.
    pub fn add_to(&self, summary: &mut Summary) {
        let width = self.smoothing.map_or("none".to_string(), short);
        summary.row("smoothing", width, "width over which the metric rounds kinks");
        let meaning =
            format!("at the training data, beside {} of the linearised network", short(self.linearized_residual));
        summary.row("residual", short(self.residual), meaning);
    }
}

/// Warns where samples have left the data, which their drift cannot show.
pub fn warn_about_residuals(samples: &Samples, console: &Console) {
    let Some(residuals) = samples.residuals.filter(|residuals| residuals.exceed_linearized()) else { return };
    let advice = match samples.smoothing {
        Some(_) => "smooth less (--smoothing), at the cost of more evaluations",
        None => "smooth the metric (--smoothing)",
    };
    console.warn(format!(
        "the samples fit the training data {:.2} times worse than the linearised network does (root mean deviance {:.3} \
         for {:.3}; at most {RESIDUAL_LIMIT} times is usual): {advice}",
        residuals.ratio(),
        residuals.sampled,
        residuals.linearized
    ));
}
