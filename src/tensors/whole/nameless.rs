//! Files without a name (`O_TMPFILE`), which vanish with the process unless they are given one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

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
    // is a complete file, and no longer wanted.
    let passing = passing_name(target);
    match link(file, &passing) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(&passing)?;
            link(file, &passing)?;
        }
        outcome => outcome?,
    }
    std::fs::rename(&passing, target).inspect_err(|_| {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&passing);
    })
}

/// The name that a file has between being complete and replacing its target.
fn passing_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".complete");
    target.with_file_name(name)
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
