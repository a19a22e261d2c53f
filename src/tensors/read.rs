//! Reading safetensors files, with the crate of that name. Nothing is trusted: only regular files are opened, and every
//! size is compared with the memory budget before anything is allocated.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::fingerprint::Digest;
use crate::error::{Error, Result, TensorError};
use crate::files::{Input, READING_ADVICE, read_bytes};
use crate::memory::{self, Reservation};

/// A tensor of f64 values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The values, last axis fastest.
    pub values: Vec<f64>,
}

/// The contents of a safetensors file, converted to f64.
#[derive(Debug, Clone)]
pub struct TensorFile {
    /// The tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// The file's free-form metadata.
    pub metadata: BTreeMap<String, String>,
    /// The names of all tensors in the file, including those not read.
    names: Vec<String>,
    /// The fingerprint of the file as read.
    fingerprint: String,
}

/// Bytes that a header takes for each of its own while it is parsed: a tensor of about sixty bytes becomes two strings and a
/// shape in two maps.
const PARSED: f64 = 24.0;

/// The longest header that safetensors reads.
const LONGEST_HEADER: u64 = 100_000_000;

/// The metadata in a header; what it says of tensors is skipped.
#[derive(serde::Deserialize)]
struct HeaderMetadata {
    #[serde(rename = "__metadata__")]
    metadata: Option<BTreeMap<String, String>>,
}

impl TensorFile {
    /// Reads a file. A folder, a device or a pipe is refused; a file's length is compared with the memory budget before
    /// anything is allocated, and the header with the length before any tensor is.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_where(path, |_| true)
    }

    /// As [`read`](Self::read), but only the tensors with wanted names; the others may be of any type.
    pub fn read_where(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        Self::read_as(path, wanted, to_f64)
    }

    /// As [`read`](Self::read), but integers (I64) and numbers that are not finite are accepted too: the caller checks
    /// them.
    pub fn read_numbers(path: &Path) -> Result<Self> {
        Self::read_as(path, |_| true, to_numbers)
    }

    /// As [`read`](Self::read), but one tensor may hold integers (I64).
    pub fn read_with_integers(path: &Path, integers: &str) -> Result<Self> {
        let convert = |path: &Path, name: &str, view: &TensorView<'_>| match name == integers {
            true => to_numbers(path, name, view),
            false => to_f64(path, name, view),
        };
        Self::read_as(path, |_| true, convert)
    }

    fn read_as(
        path: &Path,
        wanted: impl Fn(&str) -> bool,
        convert: impl Fn(&Path, &str, &TensorView<'_>) -> Result<Tensor>,
    ) -> Result<Self> {
        let bytes = read_bytes(path)?;
        let length = bytes.len() as u64;
        let _header = reserve_for_header(path, bytes.first_chunk())?;
        let invalid = |error: safetensors::SafeTensorError| Error::Safetensors {
            path: path.to_path_buf(),
            reason: describe(&error, length),
        };
        let (header_length, header) = SafeTensors::read_metadata(&bytes).map_err(invalid)?;
        let data = bytes.get(8 + header_length..).unwrap_or_default();
        let mut views = BTreeMap::new();
        for (name, about) in header.tensors() {
            let (start, end) = about.data_offsets;
            let values = data.get(start..end).unwrap_or_default();
            views.insert(name, TensorView::new(about.dtype, about.shape.clone(), values).map_err(invalid)?);
        }
        let metadata: BTreeMap<String, String> = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let size = |view: &TensorView<'_>| view.shape().iter().map(|&axis| axis as f64).product::<f64>();
        let numbers: f64 = views.iter().filter(|(name, _)| wanted(name)).map(|(_, view)| size(view)).sum();
        let _values = memory::reserve(&reading(path), numbers, READING_ADVICE)?;
        let (mut tensors, mut digest) = (BTreeMap::new(), Digest::new(&metadata));
        for (name, view) in &views {
            digest.tensor(name, &view.dtype().to_string(), view.shape());
            digest.values(view.data());
            if wanted(name) {
                tensors.insert(name.clone(), convert(path, name, view)?);
            }
        }
        let names = views.into_keys().collect();
        Ok(Self { tensors, metadata, names, fingerprint: digest.finish() })
    }

    /// The fingerprint of the file as it was read, with all its tensors and metadata: that of
    /// [`fingerprint`](super::fingerprint) for the same contents.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The fingerprint that a file says it has, without reading its tensors; none if it says nothing.
    pub fn stored_fingerprint(path: &Path) -> Result<Option<String>> {
        let mut file = Input::open(path)?;
        let mut start = [0; 8];
        file.read_exact(&mut start).map_err(Error::io(path))?;
        let header = u64::from_le_bytes(start).min(file.length().unwrap_or(0));
        let _header = reserve_for_header(path, Some(&header.to_le_bytes()))?;
        let mut bytes = Vec::new();
        file.take(header).read_to_end(&mut bytes).map_err(Error::io(path))?;
        let invalid = |error: serde_json::Error| Error::Safetensors {
            path: path.to_path_buf(),
            reason: format!("its header cannot be read: {error}"),
        };
        let header: HeaderMetadata = serde_json::from_slice(&bytes).map_err(invalid)?;
        Ok(header.metadata.and_then(|mut metadata| metadata.remove(super::FINGERPRINT)))
    }

    /// The names of all tensors in the file, including those not read.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes a tensor out of the file's contents.
    pub fn take(&mut self, path: &Path, name: &str) -> Result<Tensor> {
        self.tensors.remove(name).ok_or_else(|| self.missing(path, name))
    }

    /// The error that there is no such tensor.
    pub(crate) fn missing(&self, path: &Path, name: &str) -> Error {
        let (path, tensor) = (path.to_path_buf(), name.to_string());
        Error::Tensor(TensorError::Missing { path, tensor, found: list(&self.names) })
    }

    /// Takes a matrix with the given number of columns (any number of rows, at least one).
    pub fn take_rows(&mut self, path: &Path, name: &str, columns: usize, meaning: &str) -> Result<Tensor> {
        let tensor = self.take(path, name)?;
        if !matches!(tensor.shape[..], [rows, width] if rows > 0 && width == columns) {
            return Err(Error::Tensor(TensorError::Shape {
                path: path.to_path_buf(),
                tensor: name.to_string(),
                found: tensor.shape,
                expected: format!("expected [S, {columns}] with S ≥ 1: {meaning}").into(),
            }));
        }
        Ok(tensor)
    }

    /// A metadata entry that must be there.
    pub fn required(&self, path: &Path, key: &'static str) -> Result<&str> {
        let missing = || Error::Metadata { path: path.to_path_buf(), key, problem: "is missing".to_string() };
        self.metadata.get(key).map(String::as_str).ok_or_else(missing)
    }
}

/// What memory is reserved for.
fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}

/// Memory for parsing a header, of which the first eight bytes are the length. One that is longer than the file is left to
/// the parser to refuse.
fn reserve_for_header(path: &Path, start: Option<&[u8; 8]>) -> Result<Reservation> {
    let length = start.map_or(0, |start| u64::from_le_bytes(*start)).min(LONGEST_HEADER);
    memory::reserve(&format!("{}, the header", reading(path)), PARSED * length as f64 / 8.0, READING_ADVICE)
}

/// The names, for a message.
fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "no tensors".to_string() } else { names.join(", ") }
}

/// The safetensors error, in words that say what to do.
fn describe(error: &safetensors::SafeTensorError, length: u64) -> String {
    use safetensors::SafeTensorError as E;
    let what = match error {
        E::HeaderTooSmall => "it is shorter than a header".to_string(),
        E::HeaderTooLarge | E::InvalidHeaderLength => "its header claims more bytes than the file has".to_string(),
        E::MetadataIncompleteBuffer => "its tensors do not fill the file exactly".to_string(),
        other => other.to_string(),
    };
    format!("{what} (the file has {length} bytes; is it truncated, or of another format?)")
}

fn to_f64(path: &Path, name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    if view.dtype() == Dtype::I64 {
        return Err(wrong_dtype(path, name, view));
    }
    let tensor = to_numbers(path, name, view)?;
    if let Some((index, &value)) = tensor.values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(Error::Tensor(TensorError::NotFinite {
            path: path.to_path_buf(),
            tensor: name.to_string(),
            index,
            value,
        }));
    }
    Ok(tensor)
}

fn wrong_dtype(path: &Path, name: &str, view: &TensorView<'_>) -> Error {
    let dtype = format!("{:?}", view.dtype());
    Error::Tensor(TensorError::Dtype { path: path.to_path_buf(), tensor: name.to_string(), dtype })
}

fn to_numbers(path: &Path, name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let data = view.data();
    let values: Vec<f64> = match view.dtype() {
        Dtype::F64 => data.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        Dtype::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        Dtype::I64 => data.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f64).collect(),
        _ => return Err(wrong_dtype(path, name, view)),
    };
    Ok(Tensor { shape: view.shape().to_vec(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn folders_devices_and_pipes_are_refused_before_they_are_read() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::write(Path::new("temporary folder")))?;
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().map_err(Error::write(&pipe))?;
        assert!(made.success());
        for path in [Path::new("/dev/zero"), Path::new("/dev/null"), folder.path(), &pipe] {
            let refused = TensorFile::read(path);
            assert!(matches!(refused, Err(Error::NotAFile { .. })), "{}: {refused:?}", path.display());
        }
        Ok(())
    }

    #[test]
    fn a_fingerprint_is_read_from_the_header_alone() -> Result<()> {
        use crate::tensors::{Values, write};
        let folder = tempfile::tempdir().map_err(Error::write(Path::new("temporary folder")))?;
        let path = folder.path().join("signed");
        let entries = [("t", vec![2], Values::Real(&[1.0, 2.0]))];
        write(&path, &entries, BTreeMap::from([("fingerprint".to_string(), "abc".to_string())]))?;
        assert_eq!(TensorFile::stored_fingerprint(&path)?.as_deref(), Some("abc"));
        write(&path, &entries, BTreeMap::new())?;
        assert_eq!(TensorFile::stored_fingerprint(&path)?, None);
        std::fs::write(&path, [255; 30]).map_err(Error::write(&path))?;
        assert!(TensorFile::stored_fingerprint(&path).is_err());
        Ok(())
    }

    #[test]
    fn a_file_longer_than_the_memory_is_refused_before_it_is_read() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::write(Path::new("temporary folder")))?;
        let path = folder.path().join("sparse");
        let file = std::fs::File::create(&path).map_err(Error::write(&path))?;
        if file.set_len(1 << 43).is_err() {
            return Ok(()); // a file system that cannot hold a sparse file of 8 TB
        }
        let refused = TensorFile::read(&path);
        assert!(matches!(refused, Err(Error::Memory { .. })), "{refused:?}");
        Ok(())
    }
}
