//! A tensor of a file that is missing, or not as it must be.

use std::path::PathBuf;

use super::text::{printable, shown};

/// A tensor of a file that is missing, or not as it must be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// A tensor that must be there is not.
    #[error("{path}: tensor `{tensor}` is missing; the file holds {found}", path = .path.display(), found = printable(.found))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor that was looked for.
        tensor: String,
        /// What the file holds instead.
        found: String,
    },
    /// A tensor of an unsupported type.
    #[error("{path}: tensor `{tensor}` has dtype {dtype}; use F32 or F64", path = .path.display(), tensor = shown(.tensor))]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A tensor of the wrong shape.
    #[error("{path}: tensor `{tensor}` has shape {found:?}; {expected}", path = .path.display(), tensor = shown(.tensor))]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape it has.
        found: Vec<usize>,
        /// The shape it needs, in words.
        expected: Box<str>,
    },
    /// A tensor that holds a NaN or an infinity.
    #[error("{path}: tensor `{tensor}` holds {value} at flat index {index}; all values must be finite", path = .path.display(), tensor = shown(.tensor))]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where, counting in row-major order.
        index: usize,
        /// The value there.
        value: f64,
    },
    /// A tensor that holds a meaningless number.
    #[error("{path}: tensor `{tensor}` holds {value} at flat index {index}; it must be {requirement}", path = .path.display(), tensor = shown(.tensor))]
    Value {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where, counting in row-major order.
        index: usize,
        /// The value there.
        value: f64,
        /// What it must be.
        requirement: &'static str,
    },
}
