//! Targets that a likelihood cannot have produced, and invalid noise levels.

/// A target that a likelihood cannot have produced, or a network it does not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The number of values of one target is wrong.
    #[error("a {likelihood} target for {outputs} network outputs has {expected} values, found {found}")]
    Width {
        /// The likelihood's name.
        likelihood: &'static str,
        /// Outputs of the network.
        outputs: usize,
        /// Values a target must have.
        expected: usize,
        /// Values it has.
        found: usize,
    },
    /// One value lies outside the likelihood's support.
    #[error("{likelihood} target {value} (position {position}) cannot be observed; it must be {allowed}")]
    Value {
        /// The likelihood's name.
        likelihood: &'static str,
        /// Index of the value within its target.
        position: usize,
        /// The value.
        value: f64,
        /// What is allowed, in words.
        allowed: &'static str,
    },
    /// A label that is not a class.
    #[error(
        "categorical target {value} is not a class; with {classes} outputs it must be a whole number from 0 to {last}",
        last = classes.saturating_sub(1)
    )]
    Class {
        /// The value.
        value: f64,
        /// Number of classes.
        classes: usize,
    },
    /// Too few network outputs for the likelihood.
    #[error("a {likelihood} likelihood needs at least {least} network outputs, found {found}")]
    TooFewOutputs {
        /// The likelihood's name.
        likelihood: &'static str,
        /// Smallest number of outputs.
        least: usize,
        /// Outputs of the network.
        found: usize,
    },
    /// Outputs that do not pair up as means and log variances.
    #[error(
        "a {likelihood} likelihood needs two network outputs per target, the means of all targets and then their log \
         variances; found {found}"
    )]
    UnpairedOutputs {
        /// The likelihood's name.
        likelihood: &'static str,
        /// Outputs of the network.
        found: usize,
    },
    /// Another number of network outputs than the likelihood has a use for.
    #[error("a {likelihood} likelihood takes {expected} network output, found {found}")]
    Outputs {
        /// The likelihood's name.
        likelihood: &'static str,
        /// The number it takes.
        expected: usize,
        /// Outputs of the network.
        found: usize,
    },
    /// Noise levels for another number of outputs.
    #[error("{levels} noise levels for {outputs} network outputs; give one level, or one per output")]
    NoiseLevels {
        /// Noise levels of the likelihood.
        levels: usize,
        /// Outputs of the network.
        outputs: usize,
    },
}

/// A noise level that is not a standard deviation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// A level that is not a positive finite number.
    #[error("sigma is {value} (position {position}); a noise level must be positive and finite")]
    Level {
        /// Index of the level.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// An empty list of levels.
    #[error("there is no sigma; give one noise level, or one per output")]
    Empty,
    /// Parameters of a likelihood that has none.
    #[error("a {likelihood} likelihood has no such parameters")]
    None {
        /// The likelihood's name.
        likelihood: &'static str,
    },
    /// A parameter beyond its bounds.
    #[error("{name} is {value}; it must be from {low} to {high}")]
    Parameter {
        /// The parameter's name.
        name: String,
        /// Its value.
        value: f64,
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// Another number of parameters.
    #[error("a {likelihood} likelihood has {expected} parameters, found {found}")]
    Count {
        /// The likelihood's name.
        likelihood: &'static str,
        /// How many there are.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A column of known values that the likelihood cannot use.
    #[error("a {likelihood} likelihood takes no column of {known} here")]
    Known {
        /// The likelihood's name.
        likelihood: &'static str,
        /// What the column holds.
        known: &'static str,
    },
    /// A likelihood that needs a column of known values.
    #[error("a {likelihood} likelihood needs a column of {known} beside the target")]
    Needs {
        /// The likelihood's name.
        likelihood: &'static str,
        /// What the column would hold.
        known: &'static str,
    },
}
