//! Minimisations that cannot be carried out, and hyperparameters that ran to a bound.

/// A minimisation that cannot be carried out as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizeError {
    /// The number of bounds differs from that of the coordinates.
    #[error("{bounds} bounds for {coordinates} coordinates; give one pair per coordinate")]
    BoundsLength {
        /// Pairs given.
        bounds: usize,
        /// Coordinates of the start.
        coordinates: usize,
    },
    /// An interval that contains no number.
    #[error("no number lies between the bounds of coordinate {coordinate}, {lower} and {upper}")]
    EmptyBounds {
        /// Index of the coordinate.
        coordinate: usize,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// No start of a multistart search has a finite value.
    #[error("the objective is not finite at any of the {starts} starts")]
    NoFiniteStart {
        /// The number of starts, which may be zero.
        starts: usize,
    },
}

/// A hyperparameter whose optimum lies at, or beyond, a bound of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct AtBound {
    /// `prior precision` or `sigma`.
    pub parameter: &'static str,
    /// Which of them, counting from 0.
    pub index: usize,
    /// The bound.
    pub value: f64,
}

impl std::fmt::Display for AtBound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { parameter, index, value } = self;
        write!(
            formatter,
            "{parameter} {index} ran to the bound {value:e}: the evidence has no optimum inside; either the data do not determine it, or \
             it lies beyond the bound, and targets in other units would help"
        )
    }
}
