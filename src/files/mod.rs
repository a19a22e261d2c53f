//! The one door for files: everything that is read or written passes through here.
//!
//! - **Reading** ([`Input`]): a path that the user named may be a link; a name that comes out of a file is a plain name in the
//!   folder of that file, and never a link. Devices and folders are refused, pipes where they make sense. What is held in
//!   memory is reserved before it is allocated ([`read_bytes`], [`read_text`]). An [`Identity`] tells whether a file is still the
//!   one that was opened.
//! - **Writing** ([`WholeFile`]): whole or not at all, by one rename.
//! - **Folders** ([`Folder`]): files that belong together under plain names; one writer at a time.
//!
//! Clippy's disallowed methods (`clippy.toml`) keep `std::fs` out of all other folders. A new format reads from an `Input`, or
//! takes the bytes of [`read_bytes`].

mod folder;
mod input;
mod whole;

pub use crate::error::FileError;
pub use folder::{Folder, names, plain_name};
pub use input::{Held, Identity, Input, READING_ADVICE, Text, read_bytes, read_text};
#[cfg(feature = "cli")]
pub(crate) use input::{Shared, reader};
pub use whole::{WholeFile, write_whole};

use std::path::Path;

use crate::error::{Error, Result};

/// Removes a file; one that is not there is fine.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::write(path)(error)),
        _ => Ok(()),
    }
}
