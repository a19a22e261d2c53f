//! Safetensors files, read with every size checked first and written whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, Result};
use crate::memory;

/// A tensor of f64 values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The values, last axis fastest.
    pub values: Vec<f64>,
}

/// Values to be written: real numbers as F64, counts as I64.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Real numbers.
    Real(&'a [f64]),
    /// Counts and codes.
    Integer(&'a [i64]),
}

/// The contents of a safetensors file, converted to f64.
#[derive(Debug, Clone, Default)]
pub struct TensorFile {
    /// The tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// The file's free-form metadata.
    pub metadata: HashMap<String, String>,
    /// The names of all tensors in the file, those not read included.
    names: Vec<String>,
}

impl TensorFile {
    /// Reads a file. Its length is compared with the memory limit before anything is allocated, and the header with
    /// the length before any tensor is.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_where(path, |_| true)
    }

    /// As [`read`](Self::read), of the tensors whose name is wanted; the others may be of any type.
    pub fn read_where(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        Self::read_as(path, wanted, to_f64)
    }

    /// As [`read`](Self::read), with integers (I64) as well, and numbers that are not finite: the caller checks them.
    pub fn read_numbers(path: &Path) -> Result<Self> {
        Self::read_as(path, |_| true, to_numbers)
    }

    fn read_as(
        path: &Path,
        wanted: impl Fn(&str) -> bool,
        convert: fn(&Path, &str, &TensorView<'_>) -> Result<Tensor>,
    ) -> Result<Self> {
        let length = std::fs::metadata(path).map_err(Error::io(path))?.len();
        memory::check(&format!("reading {}", path.display()), length as f64 / 4.0, "raise `--max-memory`")?;
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        let invalid = |error: safetensors::SafeTensorError| Error::Safetensors {
            path: path.to_path_buf(),
            reason: describe(&error, length),
        };
        let file = SafeTensors::deserialize(&bytes).map_err(invalid)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(invalid)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter().filter(|(name, _)| wanted(name)) {
            tensors.insert(name.to_string(), convert(path, name, &view)?);
        }
        let names = file.names().into_iter().map(ToString::to_string).collect();
        Ok(Self { tensors, metadata, names })
    }

    /// Takes a tensor out of the file's contents.
    pub fn take(&mut self, path: &Path, name: &str) -> Result<Tensor> {
        self.tensors.remove(name).ok_or_else(|| Error::MissingTensor {
            path: path.to_path_buf(),
            tensor: name.to_string(),
            found: list(&self.names),
        })
    }

    /// Takes a matrix with the given number of columns (any number of rows, at least one).
    pub fn take_rows(&mut self, path: &Path, name: &str, columns: usize, meaning: &str) -> Result<Tensor> {
        let tensor = self.take(path, name)?;
        if tensor.shape.len() != 2 || tensor.shape[1] != columns || tensor.shape[0] == 0 {
            return Err(Error::TensorShape {
                path: path.to_path_buf(),
                tensor: name.to_string(),
                found: tensor.shape,
                expected: format!("expected [S, {columns}] with S ≥ 1: {meaning}"),
            });
        }
        Ok(tensor)
    }

    /// A metadata entry that must be there.
    pub fn required(&self, path: &Path, key: &'static str) -> Result<&str> {
        let missing = || Error::Metadata { path: path.to_path_buf(), key, problem: "is missing".to_string() };
        self.metadata.get(key).map(String::as_str).ok_or_else(missing)
    }
}

/// Writes a file whole or not at all: to a temporary file beside it, then renamed.
pub fn write(path: &Path, tensors: &[(&str, Vec<usize>, Values<'_>)], metadata: HashMap<String, String>) -> Result<()> {
    let invalid = |error: safetensors::SafeTensorError| Error::Safetensors {
        path: path.to_path_buf(),
        reason: error.to_string(),
    };
    let mut views = Vec::with_capacity(tensors.len());
    let encoded: Vec<(Dtype, Vec<u8>)> = tensors.iter().map(|(_, _, values)| encode(*values)).collect();
    for ((name, shape, _), (dtype, bytes)) in tensors.iter().zip(&encoded) {
        views.push((*name, TensorView::new(*dtype, shape.clone(), bytes).map_err(invalid)?));
    }
    let metadata = if metadata.is_empty() { None } else { Some(metadata) };
    let bytes = safetensors::serialize(views, metadata).map_err(invalid)?;
    write_whole(path, &with_sorted_header(&bytes).unwrap_or(bytes))
}

/// The same file with the keys of its header in order, so that the same contents are the same bytes.
fn with_sorted_header(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (header, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    let mut header = serde_json::to_vec(&header).ok()?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Some([&(header.len() as u64).to_le_bytes(), header.as_slice(), data].concat())
}

/// Writes bytes to a file that appears whole or not at all. A link is followed; a device or a pipe, which cannot be
/// replaced, is written to.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let path = target.as_path();
    if path.exists() && !path.is_file() && !path.is_dir() {
        return std::fs::write(path, bytes).map_err(Error::io(path));
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(path))?;
    file.write_all(bytes).map_err(Error::io(path))?;
    let file = file.persist(path).map_err(|error| Error::Io { path: path.to_path_buf(), source: error.error })?;
    make_readable(&file).map_err(Error::io(path))
}

/// Temporary files are private; a result is given the permissions of an ordinary file.
#[cfg(unix)]
fn make_readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

/// The names, for a message.
fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "no tensors".to_string() } else { names.join(", ") }
}

/// The safetensors error in words that say what to do.
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
        return Err(Error::TensorNotFinite { path: path.to_path_buf(), tensor: name.to_string(), index, value });
    }
    Ok(tensor)
}

fn wrong_dtype(path: &Path, name: &str, view: &TensorView<'_>) -> Error {
    let dtype = format!("{:?}", view.dtype());
    Error::TensorDtype { path: path.to_path_buf(), tensor: name.to_string(), dtype }
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

fn encode(values: Values<'_>) -> (Dtype, Vec<u8>) {
    match values {
        Values::Real(values) => (Dtype::F64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Values::Integer(values) => (Dtype::I64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
    }
}
