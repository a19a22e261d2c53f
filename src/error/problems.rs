//! Densities that do not exist.

/// What is wrong with the parameters of one of the paper's problems.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProblem {
    /// Invalid deviations of a Gaussian, or none at all.
    #[error("the deviations of the Gaussian are {0:?}; there must be at least one, all positive and finite")]
    Deviations(Vec<f64>),
    /// An invalid deviation of the funnel's second coordinate.
    #[error("sigma of the funnel is {0}; it must be positive and finite")]
    FunnelSigma(f64),
    /// Invalid variances of the squiggle.
    #[error("the variances of the squiggle are {0:?}; they must be positive and finite")]
    SquiggleVariances([f64; 2]),
}
