//! Calibration data that do not give the promised coverage, and predictions that were not calibrated.

/// Why intervals or sets cannot be promised.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Too few rows for the level: the quantile of the scores would be infinite.
    #[error(
        "{}the calibration data have {found} {}, and {} % needs at least {needed} (n ≥ 1/(1 − level) − 1); calibrate with more rows, or ask for a lower level",
        .group.as_ref().map_or(String::new(), |group| format!("in the group `{group}` ")),
        if *.found == 1 { "row" } else { "rows" }, (100.0 * .level * 1e6).round() / 1e6
    )]
    TooFew {
        /// The group, where coverage is to hold in each.
        group: Option<String>,
        /// The level.
        level: f64,
        /// The rows there are.
        found: usize,
        /// The rows that the level needs.
        needed: usize,
    },
    /// Calibration rows that the posterior was fitted to.
    #[error(
        "{count} of the {of} calibration rows {} also {} the posterior was fitted to (the first is row {}); errors on those are too small, and intervals made from them too narrow: calibrate on rows that were held out",
        if *.count == 1 { "is" } else { "are" }, if *.count == 1 { "a row" } else { "rows" }, .first + 1
    )]
    Overlap {
        /// How many.
        count: usize,
        /// Of how many.
        of: usize,
        /// The first, from zero.
        first: usize,
    },
    /// A way to predict that the posterior was not calibrated for.
    #[error("the posterior is not calibrated for `{method}`{}; calibrate it with the same method and settings, or predict with one of those", .calibrated.as_ref().map_or(String::new(), |all| format!(" (it is for: {all})")))]
    OtherMethod {
        /// The method that was asked for, with its settings.
        method: String,
        /// The methods that it was calibrated for.
        calibrated: Option<String>,
    },
    /// The group of a row is not known.
    #[error("the posterior was calibrated by groups of `{column}`, whose values are needed at each row; give them")]
    NoGroups {
        /// The column.
        column: String,
    },
    /// A group without calibration rows.
    #[error("row {}: the calibration data have no group `{group}` of `{column}` (they have {known}); calibrate with rows of it, or without groups", .row + 1)]
    UnknownGroup {
        /// The row, from zero.
        row: usize,
        /// The column.
        column: String,
        /// The group.
        group: String,
        /// The groups there are.
        known: String,
    },
    /// The weight of a row is not known.
    #[error("the posterior was calibrated with the weights `{column}`, which are needed at each row; give them")]
    NoWeights {
        /// The column.
        column: String,
    },
    /// A weight that is not one.
    #[error("row {}: the weight {value} is not a positive number", .row + 1)]
    Weight {
        /// The row, from zero.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// A score that cannot be ranked.
    #[error(
        "row {}: the score of `{method}` is not a number; the prediction left the range of f64 there", .row + 1
    )]
    Score {
        /// The row, from zero.
        row: usize,
        /// The method.
        method: String,
    },
}

impl CalibrationError {
    /// The same of rows that are counted from this one.
    pub(crate) fn in_part_from(self, first_row: usize) -> Self {
        match self {
            Self::UnknownGroup { row, column, group, known } => {
                Self::UnknownGroup { row: first_row + row, column, group, known }
            }
            Self::Weight { row, value } => Self::Weight { row: first_row + row, value },
            Self::Score { row, method } => Self::Score { row: first_row + row, method },
            other => other,
        }
    }
}
