//! The ways to predict.

use clap::ValueEnum;
use riemannian_laplace::{GeodesicOptions, MetricName};

/// A way to predict, in the order of the paper's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    Map,
    Ela,
    Linearized,
    RlaB,
    RlaBLog,
    /// Every geodesic with a drift of at most 1e-3.
    RlaF,
    /// At the paper's tolerances, whatever the drift.
    #[value(name = "rla-f-fixed")]
    RlaFFixed,
    Nuts,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Map => "MAP",
            Method::Ela => "ELA",
            Method::Linearized => "linearised",
            Method::RlaB => "RLA-B",
            Method::RlaBLog => "RLA-BLog",
            Method::RlaF => "RLA-F",
            Method::RlaFFixed => "RLA-F, rtol 1e-3",
            Method::Nuts => "NUTS",
        }
    }

    /// The metric and the accuracy of a method that follows geodesics. The Monge metrics have the paper's tolerances:
    /// refining them to a drift target takes minutes.
    pub fn geodesics(self) -> Option<(MetricName, GeodesicOptions)> {
        let fixed = GeodesicOptions::with_tolerances(1e-3, 1e-6);
        match self {
            Method::RlaB => Some((MetricName::Monge, fixed)),
            Method::RlaBLog => Some((MetricName::MongeLog, fixed)),
            Method::RlaF => Some((MetricName::Fisher, GeodesicOptions::default())),
            Method::RlaFFixed => Some((MetricName::Fisher, fixed)),
            _ => None,
        }
    }

    /// Whether its predictions come from sampled weights.
    pub fn samples(self) -> bool {
        !matches!(self, Method::Map | Method::Linearized)
    }
}
