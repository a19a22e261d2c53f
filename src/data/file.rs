//! The bytes of a table: a regular file, or what can be read once (a pipe) or not from the middle (gzip), held in memory.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::memory::{self, Reservation};
use crate::tensors::refuse_devices;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// A file that can be read several times and from any place.
#[derive(Debug, Clone)]
pub(super) struct TableFile {
    path: PathBuf,
    held: Option<Arc<Held>>,
}

/// Bytes in memory.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

/// Bytes in memory that are shared.
#[derive(Debug)]
struct Shared(Arc<Held>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl TableFile {
    /// Opens a file, and reads all of it where it is a pipe or compressed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        refuse_devices(path)?;
        let mut file = File::open(path).map_err(Error::io(path))?;
        let mut start = Vec::new();
        file.by_ref().take(GZIP.len() as u64).read_to_end(&mut start).map_err(Error::io(path))?;
        let is_compressed = start == GZIP;
        let all = Cursor::new(start).chain(file);
        let held = match (is_compressed, path.is_file()) {
            (true, _) => Some(hold(path, MultiGzDecoder::new(io::BufReader::new(all)), "decompress the file")?),
            (false, false) => Some(hold(path, all, "write the data to a file")?),
            (false, true) => None,
        };
        Ok(Self { path: path.to_path_buf(), held: held.map(Arc::new) })
    }

    /// The file's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes, after decompression.
    pub(super) fn length(&self) -> Result<u64> {
        match &self.held {
            Some(held) => Ok(held.bytes.len() as u64),
            None => Ok(std::fs::metadata(&self.path).map_err(Error::io(&self.path))?.len()),
        }
    }

    /// Reads from the beginning.
    pub(super) fn reader(&self) -> Result<TableReader> {
        Ok(match &self.held {
            Some(held) => TableReader(Kind::Held(Cursor::new(Shared(held.clone())))),
            None => TableReader(Kind::File(File::open(&self.path).map_err(Error::io(&self.path))?)),
        })
    }
}

/// Reads all, asking for the memory first.
fn hold(path: &Path, mut from: impl Read, advice: &str) -> Result<Held> {
    let (what, advice) = (format!("reading {}", path.display()), format!("{advice}, or raise the memory limit"));
    let mut reservation = memory::reserve(&what, 0.0, advice.as_str())?;
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        if bytes.len() + PIECE > bytes.capacity() {
            let more = PIECE.max(bytes.capacity() / 4);
            let grown = reservation.grow(&what, more as f64 / 8.0, &advice);
            grown.map_err(|error| match bytes.contains(&b'\n') || bytes.is_empty() {
                true => error,
                false => endless_line(path, bytes.len() as u64),
            })?;
            bytes.reserve_exact(more);
        }
        let count = from.by_ref().take(PIECE as u64).read_to_end(&mut bytes).map_err(Error::io(path))?;
        if count == 0 {
            return Ok(Held { bytes, _reservation: reservation });
        }
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
    File(File),
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
