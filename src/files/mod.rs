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

#![allow(clippy::disallowed_methods, reason = "this is the door")]

mod folder;
mod input;
mod whole;

pub use crate::error::FileError;
pub use folder::{Folder, names, plain_name};
pub use input::{Held, Identity, Input, READING_ADVICE, Text, read_bytes, read_text};
#[cfg(feature = "cli")]
pub(crate) use input::{Shared, reader};
pub use whole::{WholeFile, place_of, write_whole};

use std::io::Read;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::{Error, Result};

/// The fingerprint of a file's bytes: XXH3, 128 bits, in hexadecimal.
pub fn fingerprint(path: &Path) -> Result<String> {
    let mut input = Input::open(path)?;
    let (mut hash, mut bytes) = (Xxh3::new(), vec![0; 1 << 16]);
    loop {
        match input.read(&mut bytes).map_err(Error::io(path))? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            count => hash.update(bytes.get(..count).unwrap_or_default()),
        }
    }
}

/// The most bytes of a file's name.
const LONGEST_NAME: usize = 255;

/// The same path where its name is not too long; otherwise one with a short name that is made of it.
pub fn fitting_name(path: PathBuf) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    match name.len() > LONGEST_NAME {
        true => path.with_file_name(format!("long-{:032x}.partial", xxh3_128(name))),
        false => path,
    }
}

/// Removes a file; one that is not there is fine. What a killed process left on the way to this name goes as well.
pub fn remove(path: &Path) -> Result<()> {
    #[cfg(target_os = "linux")]
    let _ = std::fs::remove_file(whole::passing_name(path));
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::write(path)(error)),
        _ => Ok(()),
    }
}
