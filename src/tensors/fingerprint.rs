//! A fingerprint over everything that a file holds.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use super::Entry;

/// The metadata key under which a file stores its fingerprint; the one entry that the fingerprint does not cover.
pub const FINGERPRINT: &str = "fingerprint";

/// The fingerprint of a file with these contents: XXH3, 128 bits, in hexadecimal.
///
/// It covers the names, types, shapes and values of all tensors and all metadata except the entry [`FINGERPRINT`], in
/// any order. It tells contents apart and finds damage; it does not protect against forgery.
/// [`TensorFile::fingerprint`](super::TensorFile::fingerprint) is the same for a file that was read.
///
/// ```
/// use std::collections::BTreeMap;
/// use riemannian_laplace::internals::tensors::{Values, fingerprint};
///
/// let of = |values: &[f64]| fingerprint(&[("theta", vec![2], Values::Real(values))], &BTreeMap::new());
/// assert_eq!(of(&[1.0, 2.0]), of(&[1.0, 2.0]));
/// assert_ne!(of(&[1.0, 2.0]), of(&[1.0, 2f64.next_up()]));
/// ```
pub fn fingerprint(tensors: &[Entry<'_>], metadata: &BTreeMap<String, String>) -> String {
    let mut sorted: Vec<&Entry<'_>> = tensors.iter().collect();
    sorted.sort_by_key(|(name, _, _)| *name);
    let mut digest = Digest::new(metadata);
    for (name, shape, values) in sorted {
        digest.tensor(name, values.dtype(), shape);
        let Ok(()) = values.for_each_chunk(&mut |bytes| {
            digest.hash.update(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
    }
    digest.finish()
}

/// The hash while contents are fed to it: metadata first, then each tensor by name. Every string and every shape is
/// preceded by its length, so that different contents are different bytes.
pub(super) struct Digest {
    hash: Xxh3,
}

impl Digest {
    pub fn new(metadata: &BTreeMap<String, String>) -> Self {
        let mut digest = Self { hash: Xxh3::new() };
        let entries: Vec<_> = metadata.iter().filter(|(key, _)| *key != FINGERPRINT).collect();
        digest.number(entries.len());
        for (key, value) in entries {
            digest.text(key);
            digest.text(value);
        }
        digest
    }

    /// The bytes before a tensor's values.
    pub fn tensor(&mut self, name: &str, dtype: &str, shape: &[usize]) {
        self.text(name);
        self.text(dtype);
        self.number(shape.len());
        shape.iter().for_each(|&axis| self.number(axis));
    }

    /// A tensor's values as little-endian bytes.
    pub fn values(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    pub fn finish(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }

    fn number(&mut self, number: usize) {
        self.hash.update(&(number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.hash.update(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::{Error, Result};
    use crate::tensors::{TensorFile, Values, write};

    fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn every_bit_of_every_value_counts() {
        // More values than are hashed at once.
        let values: Vec<f64> = (0..10_000).map(|i| f64::from(i).cos()).collect();
        let of = |values: &[f64]| fingerprint(&[("t", vec![values.len()], Values::Real(values))], &BTreeMap::new());
        let whole = of(&values);
        assert_eq!(whole.len(), 32);
        for index in [0, 1, 4999, 8191, 8192, 9999] {
            for bit in 0..64 {
                let mut changed = values.clone();
                changed[index] = f64::from_bits(values[index].to_bits() ^ 1 << bit);
                assert_ne!(of(&changed), whole, "bit {bit} of value {index}");
            }
        }
    }

    #[test]
    fn names_shapes_types_and_metadata_count_and_their_order_does_not() {
        let (reals, zeros) = ([1.0, 2.0, 3.0, 4.0], [0; 4]);
        let (real, integer) = (Values::Real(&reals), Values::Integer(&zeros));
        let (a, b) = (("a", vec![4], real), ("b", vec![2, 2], integer));
        let about = metadata(&[("k", "v"), ("l", "w")]);
        let whole = fingerprint(&[a.clone(), b.clone()], &about);
        assert_eq!(fingerprint(&[b.clone(), a.clone()], &about), whole);
        let signed = metadata(&[("k", "v"), ("l", "w"), (FINGERPRINT, "anything")]);
        assert_eq!(fingerprint(&[a.clone(), b.clone()], &signed), whole);

        let mut met = vec![whole];
        for (entries, about) in [
            (vec![a.clone()], about.clone()),
            (vec![b.clone()], about.clone()),
            (vec![("b", vec![4], real), ("a", vec![2, 2], integer)], about.clone()),
            (vec![("aa", vec![4], real), b.clone()], about.clone()),
            (vec![("a", vec![4, 1], real), b.clone()], about.clone()),
            (vec![("a", vec![2, 2], real), b.clone()], about.clone()),
            (vec![a.clone(), ("b", vec![2, 2], Values::Real(&[0.0; 4]))], about.clone()),
            (vec![a.clone(), b.clone()], metadata(&[])),
            (vec![a.clone(), b.clone()], metadata(&[("k", "v")])),
            (vec![a.clone(), b.clone()], metadata(&[("k", "vl"), ("", "w")])),
            (vec![a.clone(), b.clone()], metadata(&[("k", "w"), ("l", "v")])),
            (vec![a.clone(), b.clone()], metadata(&[("k", "v"), ("l", "w"), ("m", "")])),
        ] {
            let other = fingerprint(&entries, &about);
            assert!(!met.contains(&other), "{entries:?} {about:?}");
            met.push(other);
        }
    }

    #[test]
    fn a_file_that_was_read_has_the_fingerprint_of_what_was_written() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::write(Path::new("temporary folder")))?;
        let path = folder.path().join("t.safetensors");
        let entries =
            [("z", vec![2, 1], Values::Real(&[0.1, -0.0])), ("counts", vec![3], Values::Integer(&[1, 2, -3]))];
        let mut about = metadata(&[("model", "tanh")]);
        let expected = fingerprint(&entries, &about);
        about.insert(FINGERPRINT.to_string(), expected.clone());
        write(&path, &entries, about)?;
        // Tensors that are not read count too.
        let file = TensorFile::read_where(&path, |name| name == "z")?;
        assert_eq!(file.fingerprint(), expected);
        assert_eq!(file.metadata[FINGERPRINT], expected);
        Ok(())
    }
}
