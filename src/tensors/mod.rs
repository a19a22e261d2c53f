//! Safetensors files: read with every size checked first, and told apart by a fingerprint.

mod fingerprint;
mod read;
mod write;

pub use crate::error::TensorError;
pub use fingerprint::{FINGERPRINT, fingerprint};
pub use read::{Tensor, TensorFile};
pub use write::write;

/// Values to be written: real numbers as F64, counts as I64.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Real numbers.
    Real(&'a [f64]),
    /// Real numbers, row by row.
    Rows(&'a [&'a [f64]]),
    /// Counts and codes.
    Integer(&'a [i64]),
}

/// A tensor to be written: its name, its shape, and its values in row-major order.
pub type Entry<'a> = (&'a str, Vec<usize>, Values<'a>);

/// The number of values converted to bytes at a time, so that no second copy of a large tensor is needed.
const CHUNK: usize = 8192;

impl Values<'_> {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Real(values) => values.len(),
            Values::Rows(rows) => rows.iter().map(|row| row.len()).sum(),
            Values::Integer(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type's name in a safetensors header.
    fn dtype(&self) -> &'static str {
        match self {
            Values::Real(_) | Values::Rows(_) => "F64",
            Values::Integer(_) => "I64",
        }
    }

    /// Calls `visit` with the values as little-endian bytes, a piece at a time.
    fn for_each_chunk<E>(&self, visit: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = vec![0; 8 * self.len().min(CHUNK)];
        match self {
            Values::Rows(rows) => {
                for row in *rows {
                    Values::Real(row).for_each_chunk(visit)?;
                }
            }
            Values::Real(values) => {
                for chunk in values.chunks(CHUNK) {
                    let words = bytes.as_chunks_mut::<8>().0.iter_mut().zip(chunk);
                    words.for_each(|(word, value)| *word = value.to_le_bytes());
                    visit(bytes.get(..8 * chunk.len()).unwrap_or_default())?;
                }
            }
            Values::Integer(values) => {
                for chunk in values.chunks(CHUNK) {
                    let words = bytes.as_chunks_mut::<8>().0.iter_mut().zip(chunk);
                    words.for_each(|(word, value)| *word = value.to_le_bytes());
                    visit(bytes.get(..8 * chunk.len()).unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }
}
