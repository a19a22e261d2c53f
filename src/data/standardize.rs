//! The scaling of data that are read in batches: means and standard deviations in two passes.

use super::{Batches, Scaling, Standardization, Standardize, sum_over_blocks};
use crate::error::Result;
use crate::likelihood::Known;
use crate::team::{Parts, Sums, pack_numbers, unpack_numbers};

/// The rows that are read at a time.
const BATCH_ROWS: usize = 4096;

impl Scaling {
    /// Mean and standard deviation (the root of the mean squared deviation) of every column; a constant column gets scale
    /// 1. Sums run over the row blocks in order, so that the numbers are the same in memory, in batches and on ranks.
    pub fn over(data: &dyn Batches, which: Standardize) -> Result<Self> {
        let (inputs, targets) = (data.schema().inputs().len(), data.schema().targets().len());
        let columns = inputs + targets;
        // A row of weight w counts w times; a row of weight 0 is not there. Weights are the last of all columns.
        let weights = data.schema().known().iter().position(|column| column.kind == Known::Weight);
        let weights = weights.map(|place| targets + place);
        let rows = |block: std::ops::Range<usize>, see: &mut dyn FnMut(usize, f64, f64)| -> Result<()> {
            for batch in data.batches(block, BATCH_ROWS)? {
                let batch = batch?;
                for (input, target) in batch.inputs.rows().into_iter().zip(batch.targets.rows()) {
                    let weight = weights.and_then(|place| target.get(place).copied()).unwrap_or(1.0);
                    if weight > 0.0 {
                        input.iter().chain(target).enumerate().for_each(|(column, value)| see(column, *value, weight));
                    }
                }
            }
            Ok(())
        };
        let mut ranges = sum_over_blocks(data, &Ranges, |block| {
            let mut ranges = vec![Column::default(); columns + 1];
            rows(block, &mut |column, value, weight| {
                if let Some(range) = ranges.get_mut(column).filter(|_| column < columns) {
                    range.see(value, weight);
                }
                if let Some(count) = ranges.last_mut().filter(|_| column == 0) {
                    count.see(1.0, weight);
                }
            })?;
            Ok(ranges)
        })?;
        let n = ranges.pop().map_or(0.0, |count| count.sum);
        // The mean of each column, and its greatest deviation: deviations are divided by it, so that no square leaves the
        // range of f64.
        let centre = |range: &Column| (range.mean(n), range.greatest_deviation(range.mean(n)));
        let centres: Vec<(f64, f64)> = ranges.iter().map(centre).collect();
        let squares = sum_over_blocks(data, &Sums, |block| {
            let mut squares = vec![0.0; columns];
            rows(block, &mut |column, value, weight| {
                if let (Some(sum), Some((mean, greatest))) = (squares.get_mut(column), centres.get(column)) {
                    *sum += weight * ((value - mean) / greatest).powi(2);
                }
            })?;
            Ok(squares)
        })?;
        let scales = ranges.iter().zip(&centres).zip(&squares).map(|((range, (_, greatest)), squares)| {
            if range.is_constant() { 1.0 } else { greatest * (squares / n).sqrt() }
        });
        let both: Vec<(f64, f64)> = centres.iter().map(|(mean, _)| *mean).zip(scales).collect();
        let of = |columns: std::ops::Range<usize>| {
            let (means, scales) = both.get(columns).unwrap_or_default().iter().copied().unzip();
            Standardization::new(means, scales)
        };
        let targets = match which {
            Standardize::Inputs => None,
            Standardize::InputsAndTargets => Some(of(inputs..columns)?),
        };
        Ok(Self { inputs: of(0..inputs)?, targets })
    }
}

/// The sum and the range of a column.
#[derive(Debug, Clone, Copy)]
struct Column {
    sum: f64,
    least: f64,
    most: f64,
}

impl Default for Column {
    fn default() -> Self {
        Self { sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Column {
    fn see(&mut self, value: f64, weight: f64) {
        *self = Self { sum: self.sum + weight * value, least: self.least.min(value), most: self.most.max(value) };
    }

    fn is_constant(&self) -> bool {
        self.least == self.most
    }

    fn mean(&self, n: f64) -> f64 {
        if self.is_constant() { self.least } else { self.sum / n }
    }

    fn greatest_deviation(&self, mean: f64) -> f64 {
        if self.is_constant() { 1.0 } else { (self.most - mean).abs().max((self.least - mean).abs()) }
    }
}

/// Sums and ranges of all columns.
struct Ranges;

impl Parts for Ranges {
    type Part = Vec<Column>;

    fn merge(&self, sum: &mut Vec<Column>, later: Vec<Column>) -> Result<()> {
        crate::error::check_size("number of columns", sum.len(), later.len())?;
        for (sum, later) in sum.iter_mut().zip(later) {
            sum.sum += later.sum;
            (sum.least, sum.most) = (sum.least.min(later.least), sum.most.max(later.most));
        }
        Ok(())
    }

    fn encode(&self, part: &Vec<Column>) -> Result<Vec<u8>> {
        Ok(pack_numbers(&part.iter().flat_map(|column| [column.sum, column.least, column.most]).collect::<Vec<_>>()))
    }

    fn decode(&self, message: &[u8]) -> Result<Vec<Column>> {
        let numbers = unpack_numbers(message)?;
        Ok(numbers.as_chunks::<3>().0.iter().map(|&[sum, least, most]| Column { sum, least, most }).collect())
    }
}
