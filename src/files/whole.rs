//! Files that appear whole or not at all.
//!
//! Data are written to a temporary file in the folder of the target. When it is complete it is flushed to disk, given its
//! permissions and renamed to the target's name; then the folder is flushed. At every moment the target is either the
//! old file or the complete new one, even after a crash or on a full disk.
//!
//! Where the system has files without a name (Linux), the temporary file is one of these: a process that is killed while
//! it writes leaves nothing behind. It gets a name only to replace an older file, and a process killed in that instant
//! leaves a complete file that the next one to write the same target removes.

#[cfg(target_os = "linux")]
mod nameless;
#[cfg(target_os = "linux")]
pub(super) use nameless::passing_name;

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 16;
/// The most links to links that are followed, as in Linux.
const MOST_LINKS: usize = 40;

/// A file that is being written. It appears under its name on [`commit`](Self::commit), and not at all without it.
///
/// A link is followed, even to a file that does not exist yet. A device or a pipe, which cannot be replaced, is written
/// to directly. A new file has the permissions that the umask gives, and a file that replaces another keeps that file's
/// permissions.
///
/// ```
/// use std::io::Write;
/// use riemannian_laplace::internals::files::WholeFile;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("result.csv");
/// let mut file = WholeFile::create(&path)?;
/// file.write_all(b"mean\n").unwrap();
/// assert!(!path.exists());
/// file.commit()?;
/// assert!(path.exists());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct WholeFile {
    /// The requested name, for messages.
    path: PathBuf,
    output: Output,
}

#[derive(Debug)]
enum Output {
    /// To be renamed.
    Beside { temporary: BufWriter<Temporary>, place: Place },
    /// A device or a pipe.
    Direct(BufWriter<File>),
}

/// A file in the folder of the target.
#[derive(Debug)]
enum Temporary {
    /// Without a name.
    #[cfg(target_os = "linux")]
    Nameless(File),
    /// Under another name.
    Named(NamedTempFile),
}

impl Temporary {
    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Temporary::Nameless(file) => file,
            Temporary::Named(file) => file.as_file_mut(),
        }
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Where the file will appear.
#[derive(Debug)]
struct Place {
    target: PathBuf,
    folder: PathBuf,
    /// The permissions of the file that is replaced.
    permissions: Option<Permissions>,
}

impl WholeFile {
    /// Begins a file.
    pub fn create(path: &Path) -> Result<Self> {
        let output = match Place::of(path).map_err(Error::write(path))? {
            Some(place) => {
                let temporary = place.temporary_file().map_err(Error::write(path))?;
                Output::Beside { temporary: BufWriter::with_capacity(BUFFER, temporary), place }
            }
            None => {
                let device = File::options().write(true).open(path).map_err(Error::write(path))?;
                Output::Direct(BufWriter::with_capacity(BUFFER, device))
            }
        };
        Ok(Self { path: path.to_path_buf(), output })
    }

    /// Checks, before long work, that a file can be created there; nothing is left behind. Devices and pipes are not
    /// touched.
    pub fn check(path: &Path) -> Result<()> {
        match Place::of(path).map_err(Error::write(path))? {
            Some(place) => place.temporary_file().map(drop).map_err(Error::write(path)),
            None => Ok(()),
        }
    }

    /// Makes the file appear, complete and on disk.
    pub fn commit(self) -> Result<()> {
        let Self { path, output } = self;
        let result = match output {
            Output::Beside { temporary, place } => {
                temporary.into_inner().map_err(|error| error.into_error()).and_then(|file| place.put(file))
            }
            Output::Direct(mut device) => device.flush(),
        };
        result.map_err(Error::write(&path))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.output {
            Output::Beside { temporary, .. } => temporary.write(bytes),
            Output::Direct(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Beside { temporary, .. } => temporary.flush(),
            Output::Direct(device) => device.flush(),
        }
    }
}

/// Writes bytes to a file that appears whole or not at all, as a [`WholeFile`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes).map_err(Error::write(path))?;
    file.commit()
}

impl Place {
    /// The place that a path denotes; `None` for a device or a pipe, which is never replaced.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let (target, permissions) = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            // A name that leads to an open file without its own name (as /dev/stdout may) is written to directly as
            // well.
            Ok(metadata) => match path.canonicalize() {
                Ok(target) if metadata.is_file() => (target, Some(metadata.permissions())),
                _ => return Ok(None),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => (follow_links(path)?, None),
            Err(error) => return Err(error),
        };
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Some(Self { folder: folder.to_path_buf(), target, permissions }))
    }

    fn temporary_file(&self) -> io::Result<Temporary> {
        #[cfg(target_os = "linux")]
        if let Some(file) = nameless::create(&self.folder, self.permissions.is_none())? {
            return Ok(Temporary::Nameless(file));
        }
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        if self.permissions.is_none() {
            // The umask applies when the file is created. A file that replaces another stays private until it is
            // complete.
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        builder.tempfile_in(&self.folder).map(Temporary::Named)
    }

    /// Renames a complete file to its place.
    fn put(&self, mut temporary: Temporary) -> io::Result<()> {
        if let Some(permissions) = &self.permissions {
            temporary.file().set_permissions(permissions.clone())?;
        }
        temporary.file().sync_all()?;
        match temporary {
            #[cfg(target_os = "linux")]
            Temporary::Nameless(file) => nameless::put(&file, &self.target)?,
            Temporary::Named(file) => {
                file.persist(&self.target).map_err(|error| error.error)?;
            }
        }
        // The file is there. Where folders cannot be opened or flushed, there is no way to force its name to disk.
        #[cfg(unix)]
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Where a path leads through all links, be there a file or not; none where its folder is not there.
///
/// ```
/// use riemannian_laplace::internals::files::place_of;
///
/// let folder = tempfile::tempdir().unwrap();
/// let (one, other) = (folder.path().join("a/../b"), folder.path().join("b"));
/// std::fs::create_dir(folder.path().join("a")).unwrap();
/// assert_eq!(place_of(&one), place_of(&other));
/// assert_eq!(place_of(&folder.path().join("absent/b")), None);
/// ```
pub fn place_of(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let end = follow_links(path).ok()?;
        let folder = end.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(end.file_name()?))
    })
}

/// The name at the end of a chain of links to a file that does not exist yet.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match target.read_link() {
            // A relative link starts from the folder that the link is in.
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many levels of links"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

    fn names(folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    #[test]
    fn a_file_that_replaces_another_has_its_permissions() -> Outcome {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("result");
        std::fs::write(&path, "old")?;
        for permissions in [0o600, 0o664, 0o755, 0o440, 0o666] {
            std::fs::set_permissions(&path, Permissions::from_mode(permissions))?;
            write_whole(&path, b"new")?;
            assert_eq!(path.metadata()?.permissions().mode() & 0o7777, permissions);
            assert_eq!(std::fs::read(&path)?, b"new");
        }
        Ok(())
    }

    #[test]
    fn what_is_not_committed_leaves_nothing_behind() -> Outcome {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("result");
        WholeFile::check(&path)?;
        assert_eq!(names(folder.path())?, [""; 0]);
        std::fs::write(&path, "old")?;
        let mut file = WholeFile::create(&path)?;
        file.write_all(&[0; 3 * BUFFER])?;
        drop(file);
        assert_eq!(names(folder.path())?, ["result"]);
        assert_eq!(std::fs::read(&path)?, b"old");
        Ok(())
    }

    #[test]
    fn a_target_that_became_a_folder_is_an_error_without_remains() -> Outcome {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("result");
        let mut file = WholeFile::create(&path)?;
        file.write_all(b"new")?;
        std::fs::create_dir(&path)?;
        assert!(matches!(file.commit(), Err(Error::Write { .. })));
        assert_eq!(names(folder.path())?, ["result"]);
        assert!(matches!(write_whole(&path, b"new"), Err(Error::Write { .. })));
        assert!(matches!(write_whole(&folder.path().join("absent/result"), b"new"), Err(Error::Write { .. })));
        Ok(())
    }

    #[test]
    fn links_are_followed_to_the_file_that_they_name_be_it_there_or_not() -> Outcome {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("elsewhere"))?;
        symlink("elsewhere/second", at("first"))?; // relative, to a link
        symlink("third", at("elsewhere/second"))?; // relative to its own folder, to nothing yet
        WholeFile::check(&at("first"))?;
        for bytes in [b"made", b"kept"] {
            write_whole(&at("first"), bytes)?;
            assert_eq!(std::fs::read(at("elsewhere/third"))?, bytes);
        }
        assert!(at("first").is_symlink() && at("elsewhere/second").is_symlink());
        assert_eq!(names(folder.path())?, ["elsewhere", "first"]);
        assert_eq!(names(&at("elsewhere"))?, ["second", "third"]);

        symlink("round", at("about"))?;
        symlink("about", at("round"))?;
        assert!(matches!(write_whole(&at("round"), b"never"), Err(Error::Write { .. })));
        Ok(())
    }

    #[test]
    fn devices_are_written_to_and_a_full_one_is_an_error() -> Outcome {
        use std::os::unix::fs::FileTypeExt;
        write_whole(Path::new("/dev/null"), b"gone")?;
        assert!(std::fs::metadata("/dev/null")?.file_type().is_char_device());
        if !Path::new("/dev/full").exists() {
            return Ok(());
        }
        for length in [1, 10 * BUFFER] {
            let full = write_whole(Path::new("/dev/full"), &vec![0; length]);
            match full {
                Err(Error::Write { source, .. }) => assert_eq!(source.kind(), ErrorKind::StorageFull),
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    #[test]
    fn a_pipe_is_written_to() -> Outcome {
        let folder = tempfile::tempdir()?;
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
        WholeFile::check(&pipe)?;
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        write_whole(&pipe, b"through")?;
        assert_eq!(reader.join().map_err(|_| "the reader failed")??, b"through");
        assert_eq!(names(folder.path())?, ["pipe"]);
        Ok(())
    }
}
