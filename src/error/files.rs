//! What is wrong with a file as such, whatever it holds.

use std::path::PathBuf;

use super::printable;

/// A file that changed after it was opened, or a name that is not allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A file that was replaced or altered between two looks at it.
    #[error("{path} changed while it was read; run the command again once nothing writes to it", path = .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A name in a file that leads out of its folder.
    #[error(
        "{folder}: `{name}` is not the plain name of a file in this folder (no separators, no `..`)",
        folder = .folder.display(), name = printable(.name)
    )]
    Name {
        /// The folder.
        folder: PathBuf,
        /// The name.
        name: String,
    },
    /// A small file that is longer than it may be.
    #[error("{path} has more than {most} bytes, which is more than such a file needs; is it another file?", path = .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        most: u64,
    },
}
