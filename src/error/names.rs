//! Names that nothing has. Each message lists the names there are.

/// A name that is no activation's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown activation `{name}`: choose one of {known}")]
pub struct UnknownActivation {
    /// The name as it was given.
    pub name: String,
    /// The names of the activations.
    pub known: String,
}

/// A name that is no likelihood's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no likelihood `{name}`; use one of {known}")]
pub struct UnknownLikelihood {
    /// The name as it was given.
    pub name: String,
    /// The names of the likelihoods.
    pub known: String,
}

/// A name that is no metric's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no metric `{name}`; use one of {known}")]
pub struct UnknownMetric {
    /// The name as it was given.
    pub name: String,
    /// The names of the metrics.
    pub known: String,
}
