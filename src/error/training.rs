//! Settings with which no network can be trained.

/// What is wrong with the training options.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTraining {
    /// A learning rate that is not a positive finite number.
    #[error("the learning rate is {0}; it must be positive and finite")]
    LearningRate(f64),
    /// A weight decay that is negative or not finite.
    #[error("the weight decay is {0}; it must be at least zero and finite")]
    WeightDecay(f64),
    /// No passes over the data.
    #[error("the number of epochs is 0; it must be at least 1")]
    NoEpochs,
    /// A step of the hyperparameters that leads nowhere, or beyond their optimum.
    #[error("the step towards the best hyperparameters is {0}; it must be above 0 and at most 1")]
    HyperparameterStep(f64),
    /// Batches without data.
    #[error("the batch size is 0; it must be at least 1")]
    EmptyBatch,
    /// No steps towards a mode.
    #[error("the number of steps is 0; it must be at least 1")]
    NoSteps,
    /// A tolerance that no step can meet.
    #[error("the tolerance is {0} nats; it must be positive")]
    Tolerance(f64),
    /// Prior precisions that do not lead from strong priors to weak ones.
    #[error("the prior precisions of a path must be positive and finite, each smaller than the one before")]
    Precisions,
    /// Folds that cannot be cut from the data.
    #[error("{folds} folds of {rows} rows; there must be at least 2, and at most one per row")]
    Folds {
        /// Parts.
        folds: usize,
        /// Rows of the data.
        rows: usize,
    },
}
