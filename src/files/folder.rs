//! Folders of files that belong together: plain names, no links, one writer at a time.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::{remove, write_whole};
use crate::error::{Error, FileError, Result};

/// A folder that this process writes to; no other that asks does so at the same time.
///
/// ```
/// use riemannian_laplace::internals::files::Folder;
///
/// let place = tempfile::tempdir().unwrap();
/// let folder = Folder::create(&place.path().join("together"))?;
/// folder.write("list.json", b"{}")?;
/// assert_eq!(folder.names()?, ["list.json"]);
/// assert!(folder.write("../list.json", b"{}").is_err());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Open, and locked, while this lives.
    _lock: Option<File>,
}

impl Folder {
    /// Makes the folder if it is not there, and waits until no other process writes to it.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(Error::write(path))?;
        Ok(Self { path: path.to_path_buf(), _lock: lock(path) })
    }

    /// The path of a file in it.
    pub fn at(&self, name: &str) -> Result<PathBuf> {
        Ok(self.path.join(plain_name(&self.path, name)?))
    }

    /// The names in it, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        names(&self.path)
    }

    /// Writes a file that appears whole or not at all. What is a link there is replaced, not followed.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.at(name)?;
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) {
            remove(&path)?;
        }
        write_whole(&path, bytes)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<()> {
        remove(&self.at(name)?)
    }
}

/// Locks a folder until the file is closed. Where folders cannot be opened or locked, there is no lock.
fn lock(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    #[cfg(target_os = "linux")]
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        names.push(entry.map_err(Error::io(folder))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// A name that is one component and nothing else: no separators, not `.` or `..`, no drive.
pub fn plain_name<'a>(folder: &Path, name: &'a str) -> Result<&'a str> {
    let mut components = Path::new(name).components();
    let is_plain = matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
        && !name.contains(['/', '\\', '\0']);
    match is_plain {
        true => Ok(name),
        false => Err(FileError::Name { folder: folder.to_path_buf(), name: name.to_string() }.into()),
    }
}
