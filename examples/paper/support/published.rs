//! The paper's numbers for logistic regression: W and T of its Table 2, times and the empirical Fisher metric of its
//! supplement.

use super::comparison::Published;
use super::lowdim::logistic::{Data, Units};
use super::lowdim::placement::Method;

/// One line of the table: W, T and milliseconds per sample.
const fn entry(distance: &'static str, evaluations: &'static str, milliseconds: &'static str) -> Published {
    Published {
        distance: Some(distance),
        evaluations: Some(evaluations),
        milliseconds: if milliseconds.is_empty() { None } else { Some(milliseconds) },
    }
}

const fn straight(distance: &'static str) -> Published {
    Published { distance: Some(distance), evaluations: None, milliseconds: None }
}

const NOTHING: Published = Published { distance: None, evaluations: None, milliseconds: None };

/// What the paper reports, in the order of [`Method::ALL`].
fn reported(data: Data, units: Units) -> [Published; 5] {
    match (data, units) {
        (Data::Ripley, Units::Standardised) => [
            straight("0.106 ± 0.004"),
            entry("0.236 ± 0.001", "29.7", "11"),
            entry("0.160 ± 0.065", "45.2", "48"),
            entry("0.064 ± 0.002", "12.2", "6"),
            entry("0.106 ± 0.004", "12.0", ""),
        ],
        (Data::Pima, Units::Standardised) => [
            straight("0.149 ± 0.000"),
            entry("0.274 ± 0.000", "41.7", "16"),
            entry("0.210 ± 0.007", "78.5", "260"),
            entry("0.147 ± 0.000", "12.2", "6"),
            entry("0.148 ± 0.000", "12.1", ""),
        ],
        (Data::Heart, Units::Standardised) => [
            straight("0.529 ± 0.001"),
            entry("0.649 ± 0.000", "40.2", "15"),
            entry("1.154 ± 0.189", "71.6", "638"),
            entry("0.514 ± 0.000", "13.2", "7"),
            entry("0.530 ± 0.000", "13.8", ""),
        ],
        (Data::Australian, Units::Standardised) => [
            straight("0.441 ± 0.001"),
            entry("0.522 ± 0.001", "51.5", "20"),
            entry("0.745 ± 0.203", "79.1", "734"),
            entry("0.417 ± 0.001", "18.0", "10"),
            NOTHING,
        ],
        (Data::German, Units::Standardised) => [
            straight("0.388 ± 0.001"),
            entry("0.431 ± 0.000", "58.4", "26"),
            entry("0.676 ± 0.100", "104.0", "2215"),
            entry("0.387 ± 0.000", "14.2", "14"),
            NOTHING,
        ],
        (Data::Ripley, Units::Raw) => [
            straight("0.437 ± 0.017"),
            entry("0.489 ± 0.012", "30.2", "11"),
            entry("0.554 ± 0.253", "45.0", "45"),
            entry("0.247 ± 0.012", "12.7", "6"),
            entry("0.426 ± 0.011", "12.1", ""),
        ],
        (Data::Pima, Units::Raw) => [
            straight("0.210 ± 0.010"),
            entry("0.294 ± 0.004", "5632.9", "1989"),
            entry("0.216 ± 0.014", "1690.4", "1183"),
            entry("0.112 ± 0.008", "15.4", "6"),
            entry("0.199 ± 0.001", "12.5", ""),
        ],
        (Data::Heart, Units::Raw) => [
            straight("0.842 ± 0.026"),
            entry("0.960 ± 0.012", "7868.2", "2330"),
            entry("0.898 ± 0.029", "3161.1", "2683"),
            entry("0.644 ± 0.012", "17.9", "6"),
            entry("0.942 ± 0.020", "17.0", ""),
        ],
        (Data::Australian, Units::Raw) => [
            straight("0.454 ± 0.004"),
            entry("0.455 ± 0.010", "18513.8", "6183"),
            entry("0.467 ± 0.005", "12298.6", "4632"),
            entry("0.378 ± 0.005", "18.0", "8"),
            NOTHING,
        ],
        (Data::German, Units::Raw) => [
            straight("0.846 ± 0.002"),
            entry("0.920 ± 0.003", "3545.9", "1435"),
            entry("0.898 ± 0.003", "2985.5", "3400"),
            entry("0.823 ± 0.001", "17.8", "15"),
            NOTHING,
        ],
    }
}

/// What the paper reports for a method; none where it reports nothing.
pub fn logistic(data: Data, units: Units, method: Method) -> Published {
    let position = Method::ALL.iter().position(|other| *other == method);
    position.map_or(NOTHING, |position| reported(data, units)[position])
}
