//! What the paper reports: Table 3 (raw) and the supplement's table for standardised data.

use super::method::Method;
use super::task::Units;
use crate::experiment::Split;

/// A row of the paper's tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Mean and deviation.
    pub mse: (f64, f64),
    pub nll: (f64, f64),
    /// T and seconds per sample.
    pub cost: Option<(f64, f64)>,
}

const fn row(mse: (f64, f64), nll: (f64, f64)) -> Option<Published> {
    Some(Published { mse, nll, cost: None })
}

const fn costly(mse: (f64, f64), nll: (f64, f64), evaluations: f64, seconds: f64) -> Option<Published> {
    Some(Published { mse, nll, cost: Some((evaluations, seconds)) })
}

/// The paper's row for a method and a task.
pub fn published(method: Method, split: Split, units: Units) -> Option<Published> {
    use Split::{Complete, Gap};
    use Units::{Raw, Standardised};
    match (method, units, split) {
        (Method::Ela, Raw, Complete) => row((2.235, 0.617), (3.02, 0.064)),
        (Method::Ela, Raw, Gap) => row((1.365, 0.407), (3.171, 0.075)),
        (Method::Ela, Standardised, Complete) => row((0.718, 0.231), (2.538, 0.041)),
        (Method::Ela, Standardised, Gap) => row((1.497, 0.221), (2.659, 0.032)),
        (Method::RlaB, Raw, Complete) => costly((0.2, 0.237), (0.193, 0.003), 6677.8, 34.1),
        (Method::RlaB, Raw, Gap) => costly((1.646, 2.722), (1.031, 0.02), 6573.2, 34.0),
        (Method::RlaB, Standardised, Complete) => costly((0.072, 0.0), (0.11, 0.001), 2065.4, 10.4),
        (Method::RlaB, Standardised, Gap) => costly((0.149, 0.011), (0.599, 0.022), 2109.5, 10.6),
        (Method::RlaBLog, Raw, Complete) => costly((0.107, 0.054), (0.201, 0.004), 6674.7, 37.7),
        (Method::RlaBLog, Raw, Gap) => costly((0.27, 0.068), (1.122, 0.029), 4793.9, 28.5),
        (Method::RlaBLog, Standardised, Complete) => costly((0.072, 0.0), (0.121, 0.002), 1428.1, 10.2),
        (Method::RlaBLog, Standardised, Gap) => costly((0.107, 0.008), (0.706, 0.028), 1415.3, 10.0),
        (Method::RlaF | Method::RlaFFixed, Raw, Complete) => costly((0.072, 0.0), (0.121, 0.002), 242.9, 0.8),
        (Method::RlaF | Method::RlaFFixed, Raw, Gap) => costly((0.564, 0.066), (1.063, 0.017), 727.7, 2.4),
        (Method::RlaF | Method::RlaFFixed, Standardised, Complete) => costly((0.071, 0.0), (0.115, 0.001), 77.7, 0.3),
        (Method::RlaF | Method::RlaFFixed, Standardised, Gap) => costly((0.122, 0.003), (0.805, 0.01), 88.7, 0.3),
        (Method::Nuts, Raw, Complete) => row((0.073, 0.0), (0.126, 0.002)),
        (Method::Nuts, Raw, Gap) => row((0.394, 0.02), (0.872, 0.029)),
        (Method::Nuts, Standardised, Complete) => row((0.073, 0.0), (0.122, 0.001)),
        (Method::Nuts, Standardised, Gap) => row((0.093, 0.003), (0.684, 0.017)),
        (Method::Map | Method::Linearized, ..) => None,
    }
}
