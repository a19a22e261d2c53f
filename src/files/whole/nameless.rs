//! Files without a name (`O_TMPFILE`), which vanish with the process unless they are given one.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_128;

/// How often a file is put in its place while others do the same.
const MOST_ATTEMPTS: usize = 1000;

/// Begins a file in a folder; `None` where the file system has no such files. A public one gets the permissions that the
/// umask gives, another is private.
pub(super) fn create(folder: &Path, public: bool) -> io::Result<Option<File>> {
    let mode = Mode::from_raw_mode(if public { 0o666 } else { 0o600 });
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(Some(File::from(file))),
        // Old kernels say that the folder is a folder.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a complete file appear under a name, in the place of an older one if there is one.
pub(super) fn put(file: &File, target: &Path) -> io::Result<()> {
    match link(file, target) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        outcome => return outcome,
    }
    // A name can replace another only by renaming, so the file needs one for a moment. What a killed process left there
    // is a complete file, and no longer wanted. Another process that replaces the same target uses the same name: whoever
    // finds its own gone begins again, and every rename is that of a complete file.
    let passing = passing_name(target);
    for _ in 0..MOST_ATTEMPTS {
        match link(file, &passing) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                absent_is_fine(std::fs::remove_file(&passing))?;
                continue;
            }
            outcome => outcome?,
        }
        match std::fs::rename(&passing, target) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => {
                return outcome.inspect_err(|_| {
                    // The first error is the one to report.
                    let _ = std::fs::remove_file(&passing);
                });
            }
        }
    }
    Err(io::Error::other("other processes keep replacing it"))
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The name that a file has between being complete and replacing its target: short, whatever the length of the target's.
pub fn passing_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default();
    target.with_file_name(format!(".writing-{:032x}", xxh3_128(name.as_encoded_bytes())))
}

fn link(file: &File, target: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, own.as_str(), CWD, target, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_a_killed_process_left_is_replaced_and_does_not_stay() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let target = folder.path().join("result");
        std::fs::write(&target, "old")?;
        std::fs::write(passing_name(&target), "left behind")?;
        let Some(mut file) = create(folder.path(), true)? else { return Ok(()) };
        file.write_all(b"new")?;
        put(&file, &target)?;
        assert_eq!(std::fs::read(&target)?, b"new");
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }
}
