//! Backbones whose features cannot carry a posterior.

/// What is wrong with a backbone.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackboneError {
    /// Inputs without an axis of data points, or without data points.
    #[error("the inputs have shape {0:?}; the first axis must count at least one data point")]
    Inputs(Vec<usize>),
    /// Targets that are neither a vector nor a matrix.
    #[error("the targets have shape {0:?}; give one row per data point")]
    Targets(Vec<usize>),
    /// A head whose weight or bias does not have the shape of a linear layer.
    #[error("the head has a weight of shape {weight:?} and {}; a linear layer has [outputs, inputs] and [outputs]", in_words(.bias))]
    Head {
        /// The shape of the weight.
        weight: Vec<usize>,
        /// The shape of the bias, if there is one.
        bias: Option<Vec<usize>>,
    },
    /// Features that the head cannot take.
    #[error(
        "the backbone gives features of shape {found:?} for {points} inputs; the head needs [{points}, {features}]"
    )]
    Features {
        /// The shape of what the backbone gives.
        found: Vec<usize>,
        /// Data points in the batch.
        points: usize,
        /// Inputs of the head.
        features: usize,
    },
    /// Features that depend on more than the input they belong to.
    #[error(
        "the backbone gives other features (by {difference:.1e} of the largest) when an input is given again in another batch; switch dropout off and let normalisations use their running statistics"
    )]
    Unsteady {
        /// The largest difference, relative to the largest feature.
        difference: f64,
    },
    /// A posterior that belongs to another backbone.
    #[error(
        "the posterior belongs to another backbone: features of the probe batch differ by {difference:.1e} of the largest, and {tolerance:.0e} is allowed; load the weights that the backbone had when the posterior was fitted"
    )]
    OtherBackbone {
        /// The largest difference, relative to the largest feature.
        difference: f64,
        /// What is allowed for rounding.
        tolerance: f64,
    },
}

fn in_words(bias: &Option<Vec<usize>>) -> String {
    bias.as_ref().map_or("no bias".to_string(), |shape| format!("a bias of shape {shape:?}"))
}
