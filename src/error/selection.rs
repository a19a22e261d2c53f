//! Choices of parameters that a model cannot have.

/// Why parameters cannot be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// No parameter.
    #[error("no parameter is selected; at least one must be uncertain")]
    Nothing,
    /// A parameter that the model does not have.
    #[error("parameter {index} is selected; the model has {n_params}, counting from 0")]
    OutOfRange {
        /// The index.
        index: usize,
        /// D.
        n_params: usize,
    },
    /// More parameters than the model has.
    #[error("a sub-network of {count} weights is asked for; the model has {n_params}")]
    TooMany {
        /// How many.
        count: usize,
        /// D.
        n_params: usize,
    },
    /// The same parameter again.
    #[error("parameter {index} is selected twice")]
    Twice {
        /// The index.
        index: usize,
    },
    /// A part of a part.
    #[error("the model is restricted to some of its parameters already; select from the whole model")]
    AlreadySelected,
    /// A layer that the model does not have.
    #[error("the model has no layer `{name}`; it has {known}")]
    UnknownLayer {
        /// The name.
        name: String,
        /// The names it has.
        known: String,
    },
    /// Words that do not describe a selection.
    #[error(
        "`{0}` does not say which weights are uncertain; use all, last-layer, layers:NAMES, or subnetwork:K with \
         :magnitude, :variance or :random"
    )]
    Syntax(String),
}
