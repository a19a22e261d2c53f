//! Files that are read: opened once, checked as opened, and held in memory within the budget.

use std::fs::{File, Metadata};
#[cfg(feature = "cli")]
use std::io::Cursor;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::path::{Path, PathBuf};
#[cfg(feature = "cli")]
use std::sync::Arc;
use std::time::SystemTime;

use super::plain_name;
use crate::error::{Error, FileError, Result};
use crate::memory::{self, Reservation};

/// What helps where a file does not fit into memory.
pub const READING_ADVICE: &str = "allow more memory";
/// How much of a pipe is read at a time.
const PIECE: usize = 1 << 20;
/// Bytes that a small text file may take for each of its own, once its numbers are parsed: two characters make one number of
/// 8 bytes, in a vector that doubles.
const PARSED: f64 = 16.0;
/// A pipe, in words.
const PIPE: &str = "a pipe";

/// A file that was opened to be read.
///
/// ```
/// use std::io::Read;
/// use riemannian_laplace::internals::files::Input;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("notes.txt");
/// std::fs::write(&path, "five").unwrap();
/// let mut input = Input::open(&path)?;
/// assert_eq!(input.length(), Some(4));
/// let mut text = String::new();
/// input.read_to_string(&mut text).unwrap();
/// assert_eq!(text, "five");
/// assert!(Input::open(folder.path()).is_err());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    /// None of a pipe.
    length: Option<u64>,
    identity: Identity,
}

/// What tells a file from another, and from itself after a change: device and inode (or the time of creation), length, and
/// the times of the last changes of its contents and of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    place: (u64, u64),
    length: u64,
    modified: Option<SystemTime>,
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (place, changed) = {
            use std::os::unix::fs::MetadataExt;
            ((metadata.dev(), metadata.ino()), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (place, changed) = {
            let since = metadata.created().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            ((since.map_or(0, |time| time.as_nanos() as u64), 0), (0, 0))
        };
        Self { place, length: metadata.len(), modified: metadata.modified().ok(), changed }
    }
}

/// What may be read besides regular files, and whether a link may lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Files,
    FilesAndPipes,
    FilesWithoutLinks,
}

impl Input {
    /// Opens a regular file; a link to one is followed.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, Allowed::Files)
    }

    /// Opens a regular file or a pipe, which can be read once.
    pub fn open_stream(path: &Path) -> Result<Self> {
        Self::open_as(path, Allowed::FilesAndPipes)
    }

    /// Opens a regular file of a folder under a name that a file gave: a plain name, and no link.
    pub fn open_member(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(plain_name(folder, name)?);
        Self::open_as(&path, Allowed::FilesWithoutLinks)
    }

    fn open_as(path: &Path, allowed: Allowed) -> Result<Self> {
        // A pipe would make `open` block, so the path is looked at first; then the open file, which is what is read, is
        // looked at again.
        let about = match allowed {
            Allowed::FilesWithoutLinks => std::fs::symlink_metadata(path),
            Allowed::Files | Allowed::FilesAndPipes => std::fs::metadata(path),
        };
        let before = about.map_err(Error::io(path))?;
        let refuse = |metadata: &Metadata| match what_instead(metadata) {
            Some(kind) if allowed != Allowed::FilesAndPipes || kind != PIPE => {
                Err(Error::NotAFile { path: path.to_path_buf(), kind })
            }
            _ => Ok(()),
        };
        refuse(&before)?;
        let file = File::open(path).map_err(Error::io(path))?;
        let metadata = file.metadata().map_err(Error::io(path))?;
        refuse(&metadata)?;
        let identity = Identity::of(&metadata);
        if allowed == Allowed::FilesWithoutLinks && identity.place != Identity::of(&before).place {
            return Err(FileError::Changed { path: path.to_path_buf() }.into());
        }
        Ok(Self { path: path.to_path_buf(), file, length: metadata.is_file().then_some(metadata.len()), identity })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of a regular file when it was opened; none of a pipe.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Which file it was when it was opened.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Refuses a file that is no longer what was opened under this path: another, or changed.
    pub fn check(&self, expected: Identity) -> Result<()> {
        let now = self.file.metadata().map_err(Error::io(&self.path))?;
        match Identity::of(&now) == expected {
            true => Ok(()),
            false => Err(FileError::Changed { path: self.path.clone() }.into()),
        }
    }

    /// Refuses a file of more than so many bytes; a pipe passes.
    pub fn at_most(self, most: u64) -> Result<Self> {
        match self.length {
            Some(length) if length > most => Err(FileError::TooLong { path: self.path, most }.into()),
            _ => Ok(self),
        }
    }

    /// All of it, in memory that is reserved before it is taken.
    pub fn hold(self, advice: &str) -> Result<Held> {
        match self.length {
            // A regular file is not read beyond the length that was reserved.
            Some(length) => Held::read(&self.path, (&self.file).take(length), length, advice),
            None => Held::read(&self.path, &self.file, 0, advice),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for Input {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// Bytes in memory, which are counted while they are held.
#[derive(Debug)]
pub struct Held {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl Held {
    /// Reads to the end, in pieces for which memory is reserved first; `expected` is the length where it is known.
    pub fn read(path: &Path, mut from: impl Read, expected: u64, advice: &str) -> Result<Self> {
        let what = format!("reading {}", path.display());
        let mut held = Self { bytes: Vec::new(), reservation: memory::reserve(&what, expected as f64 / 8.0, advice)? };
        held.bytes.reserve_exact(expected as usize);
        loop {
            let room = held.bytes.capacity() - held.bytes.len();
            if room == 0 {
                // One byte tells the end of what was expected, without memory for more.
                let mut next = [0];
                let count = from.read(&mut next).map_err(Error::io(path))?;
                if count == 0 {
                    return Ok(held);
                }
                let more = PIECE.max(held.bytes.capacity() / 4);
                held.reservation.grow(&what, more as f64 / 8.0, advice)?;
                held.bytes.reserve_exact(more);
                held.bytes.extend_from_slice(&next);
                continue;
            }
            let count = from.by_ref().take(room as u64).read_to_end(&mut held.bytes).map_err(Error::io(path))?;
            if count < room {
                return Ok(held);
            }
        }
    }

    /// Reserves memory for what is made of the bytes: so many bytes for each.
    fn grow(&mut self, path: &Path, times: f64) -> Result<()> {
        let numbers = self.bytes.len() as f64 * times / 8.0;
        self.reservation.grow(&format!("reading {}", path.display()), numbers, READING_ADVICE)
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes in memory that are read from several places.
#[cfg(feature = "cli")]
#[derive(Debug, Clone)]
pub(crate) struct Shared(pub(crate) Arc<Held>);

#[cfg(feature = "cli")]
impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// A reader of bytes in memory.
#[cfg(feature = "cli")]
pub(crate) fn reader(held: &Arc<Held>) -> Cursor<Shared> {
    Cursor::new(Shared(held.clone()))
}

/// The bytes of a regular file. A folder, a device or a pipe is refused.
pub fn read_bytes(path: &Path) -> Result<Held> {
    Input::open(path)?.hold(READING_ADVICE)
}

/// A small file of text, with memory reserved for the numbers in it.
#[derive(Debug)]
pub struct Text {
    text: String,
    _reservation: Reservation,
}

impl Text {
    /// The text of an opened file.
    pub fn of(input: Input) -> Result<Self> {
        let path = input.path.clone();
        let mut held = input.hold(READING_ADVICE)?;
        held.grow(&path, PARSED)?;
        let Held { bytes, reservation } = held;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::io(&path)(io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8")))?;
        Ok(Self { text, _reservation: reservation })
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// The text of a regular file or a pipe.
pub fn read_text(path: &Path) -> Result<Text> {
    Text::of(Input::open_stream(path)?)
}

/// What a path is, if not a regular file.
fn what_instead(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
        if kind.is_fifo() {
            return Some(PIPE);
        }
    }
    match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
        (true, _, _) => None,
        (_, true, _) => Some("a directory"),
        (_, _, true) => Some("a link"),
        _ => Some("a special file"),
    }
}
