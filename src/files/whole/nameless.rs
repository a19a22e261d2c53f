//! Files without a name (`O_TMPFILE`), which vanish with the process unless they are given one.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_128;

/// How often a file is put in its place while others do the same.
const MOST_ATTEMPTS: usize = 1000;
/// How long another process may hold the name that a file has for a moment.
const PATIENCE: Duration = Duration::from_secs(2);

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
///
/// A name can replace another only by renaming, so the file needs one for a moment, which all processes that replace the same
/// target share. Each holds a lock on its own file while it has that name: whoever finds the name taken waits for the lock, and
/// what is still there then was left by a process that was killed. (A file that lost its only name cannot be given another.)
pub(super) fn put(file: &File, target: &Path) -> io::Result<()> {
    match link(file, target) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        outcome => return outcome,
    }
    // Where files cannot be locked, nobody waits.
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    let passing = passing_name(target);
    for _ in 0..MOST_ATTEMPTS {
        match link(file, &passing) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => make_way(&passing)?,
            Err(error) => return Err(error),
            Ok(()) => {
                let renamed = std::fs::rename(&passing, target).inspect_err(|_| {
                    // The first error is the one to report.
                    let _ = std::fs::remove_file(&passing);
                });
                let _ = rustix::fs::flock(file, FlockOperation::Unlock);
                return renamed;
            }
        }
    }
    Err(io::Error::other("other processes keep replacing it"))
}

/// Waits until the process whose file has this name is done with it or gone, and removes what it left.
fn make_way(passing: &Path) -> io::Result<()> {
    // A pipe of that name must not make this wait, nor a link lead elsewhere.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(other) = rustix::fs::open(passing, flags, Mode::empty()).map(File::from) else {
        return absent_is_fine(std::fs::remove_file(passing));
    };
    // It takes microseconds to rename a file; who holds the lock for longer is not doing that.
    for _ in 0..PATIENCE.as_millis() {
        if rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Only who has the lock of a file may take this name from it.
    let place = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match (other.metadata().map(place), std::fs::symlink_metadata(passing).map(place)) {
        (Ok(one), Ok(now)) if one == now => absent_is_fine(std::fs::remove_file(passing)),
        _ => Ok(()),
    }
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
    fn writers_of_one_target_at_once_all_succeed_and_leave_one_whole_file() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let target = folder.path().join("result");
        std::fs::write(&target, [255; 100])?;
        let write = |byte: u8| -> io::Result<()> {
            for _ in 0..100 {
                let Some(mut file) = create(folder.path(), true)? else { return Ok(()) };
                file.write_all(&[byte; 100])?;
                put(&file, &target)?;
            }
            Ok(())
        };
        let outcomes: Vec<io::Result<()>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|byte| {
                    scope.spawn({
                        let write = &write;
                        move || write(byte)
                    })
                })
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap_or_else(|_| Err(io::Error::other("it died"))))
                .collect()
        });
        outcomes.into_iter().collect::<io::Result<()>>()?;
        let bytes = std::fs::read(&target)?;
        assert!(bytes.len() == 100 && bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }

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
