//! The metrics by name: one list for the library, its files and the program.

use std::fmt;
use std::str::FromStr;

use crate::error::UnknownMetric;

/// A Riemannian metric on the parameters.
///
/// ```
/// use riemannian_laplace::MetricName;
/// assert_eq!("empirical-fisher".parse(), Ok(MetricName::EmpiricalFisher));
/// assert_eq!(MetricName::MongeLog.to_string(), "monge-log");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricName {
    /// Straight lines: the classical Laplace approximation (ELA).
    Euclidean,
    /// G = Σₙ JₙᵀHₙJₙ + A (RLA-F).
    Fisher,
    /// G = I + ∇ℓ∇ℓᵀ (RLA-B).
    Monge,
    /// RLA-BLog, for samples only: the logarithm on the Gaussian's Monge manifold, then the exponential map on the
    /// target's.
    MongeLog,
    /// G = Σₙ sₙsₙᵀ + A.
    EmpiricalFisher,
}

impl MetricName {
    /// All metrics.
    pub const ALL: [MetricName; 5] = [
        MetricName::Euclidean,
        MetricName::Fisher,
        MetricName::Monge,
        MetricName::MongeLog,
        MetricName::EmpiricalFisher,
    ];

    /// The name, as parsed and displayed.
    pub const fn name(self) -> &'static str {
        match self {
            MetricName::Euclidean => "euclidean",
            MetricName::Fisher => "fisher",
            MetricName::Monge => "monge",
            MetricName::MongeLog => "monge-log",
            MetricName::EmpiricalFisher => "empirical-fisher",
        }
    }

    /// The metric in words, for errors about missing training data.
    pub(crate) const fn needs(self) -> &'static str {
        match self {
            MetricName::Euclidean => "the euclidean metric",
            MetricName::Fisher => "the fisher metric",
            MetricName::Monge => "the monge metric",
            MetricName::MongeLog => "the monge-log metric",
            MetricName::EmpiricalFisher => "the empirical-fisher metric",
        }
    }

    /// Whether it has an exponential and a logarithmic map; the others are only ways to sample.
    pub const fn has_maps(self) -> bool {
        match self {
            MetricName::Euclidean | MetricName::Fisher | MetricName::Monge | MetricName::EmpiricalFisher => true,
            MetricName::MongeLog => false,
        }
    }

    /// Whether it is a sum over data points, and so may be made from a part of them, or solved without a matrix.
    pub const fn is_sum_over_data(self) -> bool {
        match self {
            MetricName::Fisher | MetricName::EmpiricalFisher => true,
            MetricName::Euclidean | MetricName::Monge | MetricName::MongeLog => false,
        }
    }
}

/// The names of the metrics for which something holds, for a message.
pub(crate) fn names_where(holds: impl Fn(MetricName) -> bool) -> String {
    let names: Vec<&str> = MetricName::ALL.into_iter().filter(|metric| holds(*metric)).map(MetricName::name).collect();
    names.join(", ")
}

impl fmt::Display for MetricName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for MetricName {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        let found = MetricName::ALL.into_iter().find(|metric| metric.name() == name);
        found.ok_or_else(|| UnknownMetric { name: name.to_string(), known: names_where(|_| true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_written() {
        for metric in MetricName::ALL {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
        let error = "hyperbolic".parse::<MetricName>().map_err(|error| error.to_string());
        let message =
            "there is no metric `hyperbolic`; use one of euclidean, fisher, monge, monge-log, empirical-fisher";
        assert_eq!(error, Err(message.to_string()));
    }
}
