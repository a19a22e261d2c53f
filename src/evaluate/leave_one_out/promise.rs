//! What leave-one-out promises beside what held-out rows show.

use super::LeaveOneOut;
use crate::data::Dataset;
use crate::error::Result;
use crate::laplace::Laplace;
use crate::predict::{Link, Method, predict};

/// Standard errors, and nats a row, by which an outcome may miss a promise.
const ERRORS: f64 = 3.0;
const SMALL: f64 = 0.05;

/// Mean log densities and coverage: promised, and on rows that were held out.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    /// Held-out rows.
    pub n: usize,
    /// The mean log density of left-out training points.
    pub promised: f64,
    /// That of the held-out rows.
    pub outcome: f64,
    /// The standard error of the difference.
    pub error: f64,
    /// The promised share inside 90 % intervals; none for classes.
    pub promised_coverage: Option<f64>,
    /// The share of held-out targets.
    pub coverage: Option<f64>,
}

impl Promise {
    /// From the log densities and ranks of held-out rows by the method of `loo`.
    pub fn compare(loo: &LeaveOneOut, log_densities: &[f64], coverage: Option<f64>) -> Self {
        let (promised, own) = mean_and_variance(&loo.pointwise);
        let (outcome, theirs) = mean_and_variance(log_densities);
        Self {
            n: log_densities.len(),
            promised,
            outcome,
            error: (own + theirs).sqrt(),
            promised_coverage: loo.coverage(0.9),
            coverage,
        }
    }

    /// Scores held-out data (in their own units) by the network alone, or the linearised posterior for any other method.
    pub fn of(laplace: &Laplace, loo: &LeaveOneOut, data: &Dataset) -> Result<Self> {
        let method = if loo.method == "map" { Method::Map } else { Method::Glm(Link::default()) };
        let prediction = predict(laplace, data.inputs(), &method, &())?;
        let ranks = prediction.ranks(data.targets())?;
        let coverage = ranks.map(|ranks| {
            let inside = ranks.iter().filter(|rank| (**rank - 0.5).abs() <= 0.45).count();
            inside as f64 / ranks.len().max(1) as f64
        });
        Ok(Self::compare(loo, &prediction.log_densities(data.targets())?.to_vec(), coverage))
    }

    /// Whether the outcome is within what chance allows of the promise, or better.
    pub fn agrees(&self) -> bool {
        let chance = |share: f64| ERRORS * (share * (1.0 - share) / self.n.max(1) as f64).sqrt().max(0.01);
        let covers = match (self.promised_coverage, self.coverage) {
            (Some(promised), Some(share)) => share > promised - chance(promised) - SMALL,
            _ => true,
        };
        let close = self.outcome > self.promised - ERRORS * self.error - SMALL;
        covers && close
    }
}

/// The mean, and the variance of the mean.
fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0).max(1.0) / count)
}
