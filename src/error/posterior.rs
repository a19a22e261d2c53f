//! A posterior that does not go with what it is used with.

/// A posterior that does not go with what it is used with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PosteriorError {
    /// A posterior that was fitted to another model.
    #[error(
        "the posterior belongs to another model ({expected}; the given one is {found}, or has other weights); fit again, or load the model it was fitted to"
    )]
    OtherModel {
        /// The model that the posterior was fitted to.
        expected: String,
        /// The given model.
        found: String,
    },
    /// A request that a posterior cannot meet because the data behind its prior are not there.
    #[error(
        "the prior is an earlier posterior, and the data behind it, which {what} needs, are gone; sample with the euclidean metric, or fit all data together"
    )]
    EarlierDataGone {
        /// What needs the data.
        what: &'static str,
    },
    /// Further data whose columns are not those of the data before.
    #[error(
        "the further data have other columns, classes or scaling than the posterior's data ({expected}); read them by its schema"
    )]
    OtherColumns {
        /// The names of the posterior's columns.
        expected: String,
    },
    /// A stored factor that is not the factor of any precision.
    #[error(
        "the stored factor is not positive definite: entry {entry} of its diagonal is not a positive number; the file was altered or damaged, fit again"
    )]
    StoredFactor {
        /// The entry, counting from 0.
        entry: usize,
    },
    /// Sums of one structure were to be added to those of another.
    #[error("curvatures of two different structures cannot be added; fit both parts with the same structure")]
    OtherStructure,
    /// A model that cannot be written to a file.
    #[error("{model} cannot be saved: only networks made of this crate's layers can")]
    NotSavable {
        /// The model in words.
        model: String,
    },
}
