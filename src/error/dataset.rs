//! Names, scaling and rows of a data set.

use std::path::PathBuf;

use super::text::{printable, shown};

/// Names, scaling and rows of a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A name that must be unique but is not.
    #[error("the {what} `{name}` appears twice", name = shown(.name))]
    DuplicateName {
        /// What is named: a column, a class.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A column or a class without a name.
    #[error("{what} {index} has no name")]
    EmptyName {
        /// What has no name: a column, a class.
        what: &'static str,
        /// Which one, counting from 1.
        index: usize,
    },
    /// A mean or a scale with which a column cannot be standardised.
    #[error("the {what} of column {column} is {value}; it must be {requirement}")]
    Standardization {
        /// The mean or the scale.
        what: &'static str,
        /// The column, counting from 1.
        column: usize,
        /// The value.
        value: f64,
        /// What it must be.
        requirement: &'static str,
    },
    /// A scaling of targets that are classes.
    #[error("the targets are classes, which cannot be standardised; leave out the scaling of the targets")]
    ScaledClasses,
    /// Data that are standardised already.
    #[error("the data set is standardised already; standardise the original one")]
    AlreadyScaled,
    /// Columns of files that do not make up the inputs.
    #[error("the columns of the files do not make up the inputs; the model or posterior is damaged")]
    OtherEncoding,
    /// A file that does not hold a scaling.
    #[error("{path}: not a valid scaling: {problem}; expected {{\"inputs\": {{\"mean\": […], \"scale\": […]}}, \"targets\": {{…}}}}", path = .path.display(), problem = printable(.problem))]
    ScalingFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A range of rows that the data set does not have.
    #[error("rows {start}..{end} were requested; the data set has rows 0..{n_rows}")]
    Rows {
        /// The first row requested.
        start: usize,
        /// The row after the last one requested.
        end: usize,
        /// The number of rows.
        n_rows: usize,
    },
    /// A row that a data set does not have.
    #[error("row {row} was requested; the data set has {n_rows} rows, counting from 0")]
    Row {
        /// The row requested.
        row: usize,
        /// The number of rows.
        n_rows: usize,
    },
    /// Batches of no rows.
    #[error("batches of at most 0 rows were requested; allow at least 1")]
    EmptyBatch,
}
