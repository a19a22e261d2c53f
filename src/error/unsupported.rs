//! Requests that are well-formed but have no meaning, or are not offered.

/// A request that is well-formed but has no meaning, or is not offered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A link that the likelihood does not have.
    #[error("the {link} link does not apply to a {likelihood} likelihood; use {instead}")]
    Link {
        /// The link.
        link: &'static str,
        /// The likelihood.
        likelihood: &'static str,
        /// What to use.
        instead: &'static str,
    },
    /// A reason to measure that the likelihood does not have.
    #[error("{goal} is not what a {likelihood} likelihood can be asked for; ask for {instead}")]
    Goal {
        /// The goal.
        goal: &'static str,
        /// The likelihood.
        likelihood: &'static str,
        /// What to ask for.
        instead: &'static str,
    },
    /// The function-space solver needs a proper prior.
    #[error(
        "the function-space solver needs a positive prior precision on every parameter; use the weight-space solver"
    )]
    ImproperPrior,
    /// The matrix-free solver needs a proper prior.
    #[error(
        "the matrix-free metric solver needs a positive prior precision on every parameter; give one, or use the exact solver, which works in weight space without a prior"
    )]
    ImproperMatrixFree,
    /// A metric that is not a sum over data points.
    #[error(
        "{what} applies to these metrics: {metrics}; leave it out for the {metric} metric, which is cheap without it"
    )]
    MetricOption {
        /// What was requested.
        what: &'static str,
        /// The metrics to which it applies.
        metrics: String,
        /// The metric.
        metric: &'static str,
    },
    /// A way to sample that is not a metric with an exponential and a logarithmic map.
    #[error("the {metric} metric is for sampling only; the exponential and the logarithmic map take {metrics}")]
    NoMaps {
        /// The metric.
        metric: &'static str,
        /// The metrics that have these maps.
        metrics: String,
    },
    /// A map that cannot be restricted to some of its points.
    #[error("this map cannot be restricted to a part of its points; use all of the data for the metric")]
    PartOfPoints,
    /// Kinks that the metric cannot round.
    #[error(
        "the network ({model}) has kinks that cannot be smoothed, so its metric jumps and no sample could be certified; use a smooth activation such as silu or gelu, or ask for unsmoothed samples by name"
    )]
    Smoothing {
        /// The network.
        model: String,
    },
    /// A likelihood whose outputs have no Euclidean coordinates.
    #[error(
        "the weights of samples need outputs with Euclidean coordinates, which a {likelihood} likelihood does not have; use the samples without weights"
    )]
    Isometry {
        /// The likelihood.
        likelihood: &'static str,
    },
    /// Too many Jacobi fields.
    #[error(
        "the weights of samples take one Jacobi field per parameter: at most {most} parameters, found {found}; use the samples without weights"
    )]
    ManyFields {
        /// Parameters of the model.
        found: usize,
        /// The most.
        most: usize,
    },
    /// Jacobi fields of a metric that jumps, or of another network's metric.
    #[error(
        "the weights of samples need a smooth network: the metric of one with kinks is that of another network; use tanh, silu or gelu, or the samples without weights"
    )]
    KinkedFields,
    /// Jacobi fields of a metric from a part of the data.
    #[error("the weights of samples need the metric of all data; leave out the part")]
    BatchFields,
    /// A structure that is computed from the training data, and cannot be saved without them.
    #[error("the {0} solver needs the training data; keep them in the file, or fit in weight space")]
    SaveWithoutData(&'static str),
    /// Classes have no quantiles.
    #[error("classes have no quantiles or intervals; use the class probabilities")]
    ClassQuantiles,
    /// The evidence needs a proper prior.
    #[error("the log marginal likelihood is defined for a positive prior precision only")]
    ImproperEvidence,
    /// Training weighs all outputs alike.
    #[error("online evidence training takes one sigma for all outputs, found {levels}; give one")]
    OnlineSigmas {
        /// Noise levels of the likelihood.
        levels: usize,
    },
    /// Several prior precisions within one weight matrix.
    #[error(
        "the Kronecker structure takes one prior precision for all parameters or one per layer, not several within a \
         weight matrix; use the full, diagonal or low-rank structure for these"
    )]
    PriorWithinMatrix,
    /// The exact Hessian is a D × D matrix, and nothing less.
    #[error(
        "the hessian curvature needs the weight-space solver (a D × D matrix); with {0}, use ggn or empirical-fisher"
    )]
    HessianStructure(&'static str),
    /// Scores of several noise levels do not separate.
    #[error(
        "the empirical-fisher curvature takes one sigma for all outputs: the score of a data point mixes the outputs' noise levels; give one sigma, or use ggn"
    )]
    EmpiricalFisherLevels,
    /// A structure that has no place for an earlier posterior.
    #[error(
        "an earlier posterior with correlations between weights serves as a prior in the full structure only (a D × D \
         matrix): Kronecker factors of two tasks and the first prior have no eigenbasis in common, so that their sum has \
         no such form; use the full structure, fit both tasks with the diagonal one, or add the new data to the earlier \
         posterior at its own weights"
    )]
    EarlierPosterior,
    /// A prior that is an earlier posterior has nothing to set.
    #[error("the prior is an earlier posterior, whose precision stays as it is; change the noise alone")]
    ConstantPrior,
    /// A prior that is an earlier posterior has the temperature of its task.
    #[error("the prior is an earlier posterior, and the temperature stays the one that it was fitted with")]
    ConstantTemperature,
    /// Predictions of different things.
    #[error(
        "the predictions to mix differ in their likelihood, columns, classes or the scaling of their targets; fit all \
         posteriors to the same data"
    )]
    MixtureOfDifferent,
    /// Leave-one-out of members that were trained on different parts of the data.
    #[error(
        "a mixture of posteriors has no leave-one-out score without refits: its members may have been trained on different parts \
         of the data; use the held-out score that was found with its weights"
    )]
    MixtureLeaveOneOut,
    /// Training again the network of a posterior over some of its weights.
    #[error(
        "only the network of a posterior over all its weights can be trained again; fit all of its weights, or compare by the evidence"
    )]
    RefitOfPart,
    /// No eigenvalues.
    #[error("a low-rank structure keeps at least one eigenvalue")]
    NoRank,
    /// Passes over the data that were not completed.
    #[error("a low-rank structure takes several passes over all data: new data are fitted by themselves, then merged")]
    UnfinishedPasses,
}
