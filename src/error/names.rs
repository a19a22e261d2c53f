//! Unknown names. Each message lists the known ones.

/// An unknown activation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown activation `{name}`: choose one of {known}")]
pub struct UnknownActivation {
    /// The name as given.
    pub name: String,
    /// The names of the activations.
    pub known: String,
}

/// An unknown likelihood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no likelihood `{name}`; use one of {known}")]
pub struct UnknownLikelihood {
    /// The name as given.
    pub name: String,
    /// The names of the likelihoods.
    pub known: String,
}

/// An unknown structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no structure `{name}`; use one of {known}")]
pub struct UnknownStructure {
    /// The name as given.
    pub name: String,
    /// The names of the structures.
    pub known: String,
}

/// An unknown metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no metric `{name}`; use one of {known}")]
pub struct UnknownMetric {
    /// The name as given.
    pub name: String,
    /// The names of the metrics.
    pub known: String,
}
