//! What an error tells the program, and where it happened.

use super::{Error, FileError, Result, TableError};

impl Error {
    /// Whether the caller's input (a file, a value, a combination of options) is at fault, as opposed to the work
    /// having failed.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            Error::Write { .. }
                | Error::File(FileError::Changed { .. })
                | Error::Cancelled
                | Error::NotPositiveDefinite { .. }
                | Error::IndefiniteHessian { .. }
                | Error::UnboundedEvidence
                | Error::TunedToBound { .. }
                | Error::Eigen { .. }
                | Error::Overflow { .. }
                | Error::Conditioning { .. }
                | Error::Memory { .. }
                | Error::TooLong { .. }
                | Error::TrainingDiverged { .. }
                | Error::NoSamples { .. }
                | Error::Uncertified { .. }
                | Error::NoStart { .. }
                | Error::ChainFailed { .. }
                | Error::NotReference(_)
                | Error::Optimize(_)
                | Error::Candle(_)
        )
    }

    /// Adds the file, the line and the name of the input to an error about a data point.
    pub fn located(self, path: &std::path::Path, inputs: &[String], line: impl FnOnce(usize) -> Result<u64>) -> Self {
        let path = path.to_path_buf();
        let placed = match self {
            Error::Target { row, source } => {
                line(row).map(|line| Error::Table(TableError::Target { path, line, source }))
            }
            Error::NotFinite { what, row, column } => {
                line(row).map(|line| Error::Table(TableError::NotFinite { path, line, what, column: column + 1 }))
            }
            Error::Category { row, column, value, size } => {
                let column = inputs.get(column).cloned().unwrap_or_else(|| format!("input {}", column + 1));
                line(row).map(|line| Error::Table(TableError::Category { path, line, column, value, size }))
            }
            other => Ok(other),
        };
        placed.unwrap_or_else(|error| error)
    }

    /// The same of rows that are counted from this one.
    #[must_use]
    pub fn in_part_from(self, first_row: usize) -> Self {
        match self {
            Error::Target { row, source } => Error::Target { row: first_row + row, source },
            Error::NotFinite { what, row, column } => Error::NotFinite { what, row: first_row + row, column },
            Error::Category { row, column, value, size } => {
                Error::Category { row: first_row + row, column, value, size }
            }
            Error::Calibration(error) => Error::Calibration(error.in_part_from(first_row)),
            other => other,
        }
    }

    /// An error in reading, with the file it concerns.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_path_buf(), source }
    }

    /// An error in writing, with the file it concerns.
    pub(crate) fn write(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error + '_ {
        move |source| Error::Write { path: path.to_path_buf(), source }
    }
}
