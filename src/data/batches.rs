//! Data in pieces: the blocks of rows that sums run over, and the batches in which a block is read.
//!
//! A sum over data is a sum over each block of [`row_blocks`] in the order of its rows, then over the blocks in their
//! order. The blocks depend on the number of rows alone, so that the bits of a sum depend neither on the threads nor
//! on which process holds which block.

use std::ops::Range;

use ndarray::{Axis, CowArray, Ix2, Slice};
use rayon::prelude::*;

use super::{Dataset, Schema};
use crate::error::{DataError, Error, Result};
use crate::linalg::threads_are_free;
use crate::memory;
use crate::team::{Parts, Team};

/// The greatest number of blocks.
const MOST_BLOCKS: usize = 12;
/// There is at most one block per this many rows.
const ROWS_PER_BLOCK: usize = 64;

/// Consecutive rows of a data set, in the network's units: views of data in memory, or rows read from elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'a> {
    /// The row of the data set with which the batch begins.
    pub first_row: usize,
    /// One row of inputs per data point.
    pub inputs: CowArray<'a, f64, Ix2>,
    /// One row of targets per data point.
    pub targets: CowArray<'a, f64, Ix2>,
}

impl Batch<'_> {
    /// The number of data points in the batch.
    pub fn len(&self) -> usize {
        self.inputs.nrows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of the data set that the batch holds.
    pub fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.len()
    }
}

/// One pass over some rows. A batch that cannot be read is an error and ends the pass.
pub type BatchIterator<'a> = Box<dyn Iterator<Item = Result<Batch<'a>>> + Send + 'a>;

/// Data that can be read in batches, any range of rows, any number of times.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::data::row_blocks;
/// use riemannian_laplace::{Batches, Dataset};
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[0.1], [0.9], [2.1]])?;
/// let mut sum = 0.0;
/// for block in row_blocks(data.n_rows()) {
///     for batch in data.batches(block, 2)? {
///         sum += batch?.targets.sum();
///     }
/// }
/// assert!((sum - 3.1_f64).abs() < 1e-15);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub trait Batches: Send + Sync {
    /// N, the number of data points.
    fn n_rows(&self) -> usize;

    /// The names and the scaling of the columns.
    fn schema(&self) -> &Schema;

    /// The rows of a range in order, at most `most_rows` at a time. Each call starts afresh. Rows that do not exist are
    /// an error; an empty range is not.
    fn batches(&self, rows: Range<usize>, most_rows: usize) -> Result<BatchIterator<'_>>;

    /// The processes among which the rows are shared: each has the same source and sums over its own blocks. `None` where
    /// this process sums over all of them.
    fn team(&self) -> Option<&Team> {
        None
    }
}

/// A sum over the data: `of_block` for each of [`row_blocks`], then the sum over the blocks in their order. Where a
/// [team](Batches::team) shares the data, each rank computes its own blocks, and all get the same sum.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::data::sum_over_blocks;
/// use riemannian_laplace::internals::team::Sums;
/// use riemannian_laplace::{Batches, Dataset};
/// let data = Dataset::new(array![[0.0], [1.0]], array![[3.0], [4.0]])?;
/// let sum = sum_over_blocks(&data, &Sums, |rows| {
///     data.batches(rows, 1)?.try_fold(vec![0.0], |sum, batch| Ok(vec![sum[0] + batch?.targets.sum()]))
/// })?;
/// assert_eq!(sum, [7.0]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn sum_over_blocks<P: Parts>(
    data: &dyn Batches,
    parts: &P,
    of_block: impl FnMut(Range<usize>) -> Result<P::Part>,
) -> Result<P::Part> {
    let team = data.team().cloned().unwrap_or_default();
    sum_over_blocks_of(&team, data, parts, of_block)
}

/// The same for the ranks of this team, whichever share the data.
pub(crate) fn sum_over_blocks_of<P: Parts>(
    team: &Team,
    data: &dyn Batches,
    parts: &P,
    mut of_block: impl FnMut(Range<usize>) -> Result<P::Part>,
) -> Result<P::Part> {
    let blocks = row_blocks(data.n_rows());
    let mine = blocks.get(team.share(blocks.len())).unwrap_or_default();
    let sum = team.fold(
        parts,
        mine.iter().map(|block| {
            team.count_rows(block.len());
            of_block(block.clone())
        }),
    )?;
    sum.ok_or_else(|| Error::NoRows { what: "the data set".to_string() })
}

/// The same sum, to the last bit, with as many blocks at a time as there are free threads and room in memory, where one
/// block takes this many `numbers`. Products of matrices within a block then stay on its thread.
pub(crate) fn sum_over_blocks_at_once<P: Parts<Part: Send>>(
    team: &Team,
    data: &dyn Batches,
    parts: &P,
    numbers: f64,
    of_block: impl Fn(Range<usize>) -> Result<P::Part> + Sync,
) -> Result<P::Part> {
    let at_once = blocks_at_once(numbers);
    if at_once == 1 {
        return sum_over_blocks_of(team, data, parts, of_block);
    }
    let blocks = row_blocks(data.n_rows());
    let mine = blocks.get(team.share(blocks.len())).unwrap_or_default();
    let several = |blocks: &[Range<usize>]| -> Vec<Result<P::Part>> {
        team.count_rows(blocks.iter().map(Range::len).sum());
        blocks.par_iter().map(|block| of_block(block.clone())).collect()
    };
    let sum = team.fold(parts, mine.chunks(at_once).flat_map(several))?;
    sum.ok_or_else(|| Error::NoRows { what: "the data set".to_string() })
}

/// The free threads, as far as half of the memory that is left has room for a block of this many numbers on each.
pub(crate) fn blocks_at_once(numbers: f64) -> usize {
    if !threads_are_free() {
        return 1;
    }
    let room = memory::room() as f64 / (2.0 * 8.0 * numbers.max(1.0));
    (room as usize).clamp(1, rayon::current_num_threads())
}

impl Batches for Dataset {
    fn n_rows(&self) -> usize {
        self.len()
    }

    fn schema(&self) -> &Schema {
        self.schema()
    }

    fn batches(&self, rows: Range<usize>, most_rows: usize) -> Result<BatchIterator<'_>> {
        if most_rows == 0 {
            return Err(Error::Data(DataError::EmptyBatch));
        }
        if rows.start > rows.end || rows.end > self.len() {
            return Err(Error::Data(DataError::Rows { start: rows.start, end: rows.end, n_rows: self.len() }));
        }
        let end = rows.end;
        let batch = move |first_row: usize| {
            let part = Slice::from(first_row..end.min(first_row.saturating_add(most_rows)));
            Ok(Batch {
                first_row,
                inputs: self.inputs().slice_axis(Axis(0), part).into(),
                targets: self.targets().slice_axis(Axis(0), part).into(),
            })
        };
        Ok(Box::new(rows.step_by(most_rows).map(batch)))
    }
}

/// The blocks of rows that sums over data run over: one per 64 rows, at least 1 and at most 12.
///
/// Block b of B covers the rows ⌊b·N/B⌋ to ⌊(b+1)·N/B⌋.
///
/// ```
/// use riemannian_laplace::internals::data::row_blocks;
/// assert_eq!(row_blocks(100), [0..100]);
/// assert_eq!(row_blocks(201), [0..67, 67..134, 134..201]);
/// assert_eq!(row_blocks(1_000_000).len(), 12);
/// ```
pub fn row_blocks(n_rows: usize) -> Vec<Range<usize>> {
    let count = (n_rows / ROWS_PER_BLOCK).clamp(1, MOST_BLOCKS);
    // ⌊b·N/B⌋ without the product b·N.
    let start = |block: usize| block * (n_rows / count) + block * (n_rows % count) / count;
    (0..count).map(|block| start(block)..start(block + 1)).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn blocks_cover_all_rows_in_order() {
        for n_rows in (0..2000).chain([1_000_003, usize::MAX]) {
            let blocks = row_blocks(n_rows);
            assert_eq!(blocks.len(), (n_rows / 64).clamp(1, 12));
            assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (0, n_rows));
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
            for (b, block) in blocks.iter().enumerate() {
                assert_eq!(block.start as u128, b as u128 * n_rows as u128 / blocks.len() as u128);
            }
        }
    }

    #[test]
    fn batches_of_all_blocks_are_the_data_and_start_anew_each_time() -> Result<()> {
        let n_rows = 333;
        let inputs = Array2::from_shape_fn((n_rows, 2), |(row, column)| (10 * row + column) as f64);
        let targets = Array2::from_shape_fn((n_rows, 1), |(row, _)| -(row as f64));
        let data = Dataset::new(inputs, targets)?;
        let source: &dyn Batches = &data;
        for most_rows in [1, 7, 64, 1000, usize::MAX] {
            let mut next = 0;
            for block in row_blocks(source.n_rows()) {
                for _ in 0..2 {
                    next = block.start;
                    for batch in source.batches(block.clone(), most_rows)? {
                        let batch = batch?;
                        assert!(!batch.is_empty() && batch.len() <= most_rows);
                        assert_eq!(batch.first_row, next);
                        let part = Slice::from(batch.rows());
                        assert_eq!(batch.inputs, data.inputs().slice_axis(Axis(0), part));
                        assert_eq!(batch.targets, data.targets().slice_axis(Axis(0), part));
                        next = batch.rows().end;
                    }
                    assert_eq!(next, block.end);
                }
            }
            assert_eq!(next, n_rows);
        }
        Ok(())
    }

    #[test]
    fn rows_that_do_not_exist_are_refused() -> Result<()> {
        let data = Dataset::new(Array2::zeros((3, 1)), Array2::zeros((3, 1)))?;
        assert!(matches!(
            data.batches(2..4, 1).err(),
            Some(Error::Data(DataError::Rows { start: 2, end: 4, n_rows: 3 }))
        ));
        let backwards = Range { start: 2, end: 1 };
        assert!(data.batches(backwards, 1).is_err());
        assert!(matches!(data.batches(0..3, 0).err(), Some(Error::Data(DataError::EmptyBatch))));
        assert_eq!(data.batches(3..3, 1)?.count(), 0);
        Ok(())
    }
}
