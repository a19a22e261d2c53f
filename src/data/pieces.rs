//! Rows in pieces of a fixed length, which a team takes in turn.

use std::ops::Range;

use super::{Batch, BatchIterator, Batches};
use crate::error::{DataError, Error, Result, check_size};

/// The rows of a source in pieces of [`Pieces::ROWS`] (the last may be shorter), in any order. Consecutive ones are read
/// without looking for their place.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::Dataset;
/// use riemannian_laplace::internals::data::Pieces;
/// let data = Dataset::new(Array2::zeros((5000, 2)), Array2::zeros((5000, 1)))?;
/// let mut pieces = Pieces::of(&data);
/// assert_eq!(pieces.count(), 2);
/// assert_eq!(pieces.get(1)?.rows(), 4096..5000);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub struct Pieces<'a> {
    data: &'a dyn Batches,
    /// The piece that comes next of an open pass, and the pass.
    open: Option<(usize, BatchIterator<'a>)>,
}

impl std::fmt::Debug for Pieces<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let next = self.open.as_ref().map(|(piece, _)| piece);
        formatter.debug_struct("Pieces").field("n_rows", &self.data.n_rows()).field("next", &next).finish()
    }
}

impl<'a> Pieces<'a> {
    /// The rows of a piece. The index of a CSV file has an entry for each.
    pub const ROWS: usize = 4096;

    /// Those of a source.
    pub fn of(data: &'a dyn Batches) -> Self {
        Self { data, open: None }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.data.n_rows().div_ceil(Self::ROWS)
    }

    /// Which rows a piece holds.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        let (total, start) = (self.data.n_rows(), piece.saturating_mul(Self::ROWS));
        start.min(total)..start.saturating_add(Self::ROWS).min(total)
    }

    /// Reads a piece.
    pub fn get(&mut self, piece: usize) -> Result<Batch<'a>> {
        let (rows, total) = (self.rows(piece), self.data.n_rows());
        let mut pass = match self.open.take() {
            Some((next, pass)) if next == piece => pass,
            _ => self.data.batches(rows.start..total, Self::ROWS)?,
        };
        let batch = pass.next().ok_or(Error::Data(DataError::Row { row: rows.start, n_rows: total }))??;
        check_size("first row of a batch", rows.start, batch.first_row)?;
        check_size("number of rows of a batch", rows.len(), batch.len())?;
        self.open = Some((piece + 1, pass));
        Ok(batch)
    }
}
