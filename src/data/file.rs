//! The bytes of a table: a regular file, or what can be read once (a pipe) or not from the middle (gzip), held in memory.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::files::{Held, Identity, Input, Shared, reader};
use crate::memory;

/// A line of more bytes than this is named when memory ends.
const LONG_LINE: u64 = 1 << 16;
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file that can be read several times and from any place, and is the same file every time.
#[derive(Debug, Clone)]
pub(super) struct TableFile {
    path: PathBuf,
    contents: Contents,
}

#[derive(Debug, Clone)]
enum Contents {
    /// On disk, of this length.
    File(Identity, u64),
    Held(Arc<Held>),
}

impl TableFile {
    /// Opens a file, and reads all of it where it is a pipe or compressed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut input = Input::open_stream(path)?;
        let (identity, length) = (input.identity(), input.length());
        let mut start = Vec::new();
        input.by_ref().take(GZIP.len() as u64).read_to_end(&mut start).map_err(Error::io(path))?;
        let is_compressed = start == GZIP;
        let all = Cursor::new(start).chain(input);
        let contents = match (is_compressed, length) {
            (true, _) => hold(path, MultiGzDecoder::new(io::BufReader::new(all)), "decompress the file")?,
            (false, None) => hold(path, all, "write the data to a file")?,
            (false, Some(length)) => Contents::File(identity, length),
        };
        Ok(Self { path: path.to_path_buf(), contents })
    }

    /// The file's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes, after decompression.
    pub(super) fn length(&self) -> u64 {
        match &self.contents {
            Contents::Held(held) => held.len() as u64,
            Contents::File(_, length) => *length,
        }
    }

    /// Reads from the beginning. A file that is no longer the one that was opened is an error.
    pub(super) fn reader(&self) -> Result<TableReader> {
        Ok(match &self.contents {
            Contents::Held(held) => TableReader(Kind::Held(reader(held))),
            Contents::File(identity, _) => {
                let input = Input::open(&self.path)?;
                input.check(*identity)?;
                TableReader(Kind::File(input))
            }
        })
    }

    /// Refuses a file that was changed since it was opened, at the end of a pass over it.
    pub(super) fn check(&self) -> Result<()> {
        self.reader().map(drop)
    }
}

/// Reads all, asking for the memory first.
fn hold(path: &Path, from: impl Read, advice: &str) -> Result<Contents> {
    let mut from = Seen { from, bytes: 0, has_break: false };
    let held = Held::read(path, &mut from, 0, &format!("{advice}, or raise the memory limit"));
    match held {
        Err(Error::Memory { .. }) if from.bytes >= LONG_LINE && !from.has_break => Err(endless_line(path, from.bytes)),
        held => Ok(Contents::Held(Arc::new(held?))),
    }
}

/// A reader that knows how much it gave, and whether a line ended in it.
struct Seen<R> {
    from: R,
    bytes: u64,
    has_break: bool,
}

impl<R: Read> Read for Seen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.bytes += count as u64;
        self.has_break |= buffer.get(..count).unwrap_or_default().contains(&b'\n');
        Ok(count)
    }
}

/// The error of a line without an end, of which this many bytes were read.
pub(super) fn endless_line(path: &Path, bytes: u64) -> Error {
    Error::Memory {
        what: format!("{}: a line of more than {bytes} bytes", path.display()),
        needed: 4e-9 * bytes as f64,
        limit: 1e-9 * memory::limit() as f64,
        reserved: 1e-9 * memory::reserved() as f64,
        advice: "check that the file is a table".to_string(),
    }
}

/// One pass over a file.
#[derive(Debug)]
pub(super) struct TableReader(Kind);

#[derive(Debug)]
enum Kind {
    File(Input),
    Held(Cursor<Shared>),
}

impl Read for TableReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::File(file) => file.read(buffer),
            Kind::Held(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for TableReader {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        match &mut self.0 {
            Kind::File(file) => file.seek(position),
            Kind::Held(bytes) => bytes.seek(position),
        }
    }
}
