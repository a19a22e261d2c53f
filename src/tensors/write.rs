//! Writing safetensors files: the same contents are the same bytes.
//!
//! The header is written here rather than by the safetensors crate, whose metadata is a hash map: the order of its
//! entries, and with it the file's bytes, would change from run to run. Here the metadata comes first, sorted by key,
//! then the tensors, sorted by name, with their values in the same order. The header is padded with spaces to a
//! multiple of 8 bytes and every value has 8, so all tensors are aligned. Values are written a piece at a time: no
//! tensor is copied as a whole.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Entry;
use crate::error::{Error, Result, TensorError};
use crate::files::WholeFile;

/// The key under which a safetensors header keeps its metadata.
const METADATA: &str = "__metadata__";

/// Writes a file whole or not at all.
///
/// ```
/// use std::collections::BTreeMap;
/// use riemannian_laplace::internals::tensors::{self, TensorFile, Values};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("v.safetensors");
/// let metadata = BTreeMap::from([("metric".to_string(), "fisher".to_string())]);
/// tensors::write(&path, &[("v", vec![1, 2], Values::Real(&[0.5, -2.0]))], metadata)?;
/// let file = TensorFile::read(&path)?;
/// assert_eq!(file.tensors["v"].values, [0.5, -2.0]);
/// assert_eq!(file.metadata["metric"], "fisher");
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn write(path: &Path, tensors: &[Entry<'_>], metadata: BTreeMap<String, String>) -> Result<()> {
    let invalid = |reason: String| Error::Safetensors { path: path.to_path_buf(), reason };
    let mut sorted: Vec<&Entry<'_>> = tensors.iter().collect();
    sorted.sort_by_key(|(name, _, _)| *name);
    if let Some((twice, _)) = sorted.iter().zip(sorted.iter().skip(1)).find(|(one, next)| one.0 == next.0) {
        return Err(invalid(format!("the tensor `{}` appears twice", twice.0)));
    }
    for (name, shape, values) in &sorted {
        if *name == METADATA {
            return Err(invalid(format!("no tensor may be named `{METADATA}`")));
        }
        if shape.iter().try_fold(1_usize, |size, &axis| size.checked_mul(axis)) != Some(values.len()) {
            return Err(Error::Tensor(TensorError::Shape {
                path: path.to_path_buf(),
                tensor: name.to_string(),
                found: shape.clone(),
                expected: format!("it has {} values", values.len()).into(),
            }));
        }
    }
    let header = Header { tensors: &sorted, metadata: &metadata };
    let mut header = serde_json::to_vec(&header).map_err(|error| invalid(error.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut file = WholeFile::create(path)?;
    let written = file.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| {
        file.write_all(&header)?;
        sorted.iter().try_for_each(|(_, _, values)| values.for_each_chunk(&mut |bytes| file.write_all(bytes)))
    });
    written.map_err(Error::write(path))?;
    file.commit()
}

/// The header, in fixed order.
struct Header<'a> {
    tensors: &'a [&'a Entry<'a>],
    metadata: &'a BTreeMap<String, String>,
}

/// The header's entry for one tensor.
#[derive(serde::Serialize)]
struct Description<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry(METADATA, self.metadata)?;
        }
        let mut start = 0;
        for (name, shape, values) in self.tensors {
            let end = start + 8 * values.len();
            let description = Description { dtype: values.dtype(), shape, data_offsets: [start, end] };
            map.serialize_entry(name, &description)?;
            start = end;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use safetensors::{Dtype, SafeTensors};

    use super::*;
    use crate::tensors::{TensorFile, Values};

    fn folder() -> Result<tempfile::TempDir> {
        tempfile::tempdir().map_err(Error::write(Path::new("temporary folder")))
    }

    fn bytes(path: &Path) -> Result<Vec<u8>> {
        std::fs::read(path).map_err(Error::io(path))
    }

    #[test]
    fn the_same_contents_are_the_same_bytes_in_whatever_order_they_are_given() -> Result<()> {
        let folder = folder()?;
        let keys: Vec<String> = (0..50).map(|key| format!("key {key}")).collect();
        let pair = |key: &String| (key.clone(), format!("value of \"{key}\" – ü"));
        let reals: Vec<f64> = (0..20_000).map(|i| f64::from(i).sin()).collect();
        let entries = [
            ("b", vec![100, 200], Values::Real(&reals)),
            ("a", vec![3], Values::Integer(&[1, -2, i64::MAX])),
            ("é \"c\"", vec![], Values::Real(&[f64::MIN_POSITIVE])),
            ("empty", vec![0, 7], Values::Real(&[])),
            ("rows", vec![2, 3], Values::Rows(&[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]])),
        ];
        let path = folder.path().join("first");
        write(&path, &entries, keys.iter().map(pair).collect())?;
        let first = bytes(&path)?;
        let mut reversed = entries.clone();
        reversed.reverse();
        let path = folder.path().join("second");
        write(&path, &reversed, keys.iter().rev().map(pair).collect())?;
        assert_eq!(first, bytes(&path)?);

        let length = u64::from_le_bytes(first[..8].try_into().unwrap_or_default());
        assert_eq!(length % 8, 0);
        let invalid =
            |error: safetensors::SafeTensorError| Error::Safetensors { path: path.clone(), reason: error.to_string() };
        let read = SafeTensors::deserialize(&first).map_err(invalid)?;
        assert_eq!(read.len(), 5);
        for (name, shape, values) in &entries {
            let view = read.tensor(name).map_err(invalid)?;
            assert_eq!(view.shape(), shape);
            assert_eq!(view.dtype(), if *name == "a" { Dtype::I64 } else { Dtype::F64 });
            let expected: Vec<u8> = match values {
                Values::Real(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                Values::Integer(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                Values::Rows(rows) => rows.concat().iter().flat_map(|value| value.to_le_bytes()).collect(),
            };
            assert!(view.data() == expected, "{name}");
        }
        let file = TensorFile::read_where(&path, |name| name == "b")?;
        assert_eq!(file.metadata, keys.iter().map(pair).collect());
        assert_eq!(file.tensors["b"].values, reals);
        Ok(())
    }

    #[test]
    fn a_file_without_metadata_or_tensors_can_be_read() -> Result<()> {
        let folder = folder()?;
        let path = folder.path().join("empty.safetensors");
        write(&path, &[], BTreeMap::new())?;
        let file = TensorFile::read(&path)?;
        assert!(file.tensors.is_empty() && file.metadata.is_empty());
        Ok(())
    }

    #[test]
    fn contradictions_are_refused_and_leave_no_file() -> Result<()> {
        let folder = folder()?;
        let path = folder.path().join("bad.safetensors");
        let values = Values::Real(&[1.0, 2.0]);
        for entries in [
            vec![("a", vec![2], values), ("a", vec![2], values)],
            vec![("__metadata__", vec![2], values)],
            vec![("a", vec![3], values)],
            vec![("a", vec![], values)],
            vec![("a", vec![usize::MAX, 2], values)],
        ] {
            assert!(write(&path, &entries, BTreeMap::new()).is_err(), "{entries:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).map_err(Error::io(&path))?.count(), 0);
        Ok(())
    }
}
