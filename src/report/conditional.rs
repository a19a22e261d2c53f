//! Coverage where it matters: by fifths of the prediction and of each input that moves it.

use ndarray::Array2;

use super::contents::{Fifth, Fifths};
use crate::data::Dataset;
use crate::error::Result;
use crate::predict::Prediction;

/// Fewer rows in a fifth say nothing.
const LEAST_ROWS: usize = 10;

/// The share of targets inside their central 90 % intervals, by fifths of the prediction and of the named inputs; none for
/// classes, or where rows are few.
pub(super) fn conditional(
    prediction: &Prediction,
    (data, targets): (&Dataset, &Array2<f64>),
    inputs: &[String],
) -> Result<Vec<Fifths>> {
    let Some(ranks) = prediction.ranks(targets)? else { return Ok(Vec::new()) };
    if data.len() < 5 * LEAST_ROWS {
        return Ok(Vec::new());
    }
    let mut all = vec![fifths("the prediction".to_string(), &prediction.mean, &ranks)];
    for name in inputs {
        if let Some(column) = data.schema().inputs().iter().position(|input| input == name) {
            let values = data.inputs().column(column);
            let values = Array2::from_shape_fn(ranks.dim(), |(row, _)| values[row]);
            all.push(fifths(name.clone(), &values, &ranks));
        }
    }
    Ok(all.into_iter().filter(|by| by.fifths.len() > 1).collect())
}

/// By fifths of one value per target, each target by itself; equal values stay together.
fn fifths(by: String, values: &Array2<f64>, ranks: &Array2<f64>) -> Fifths {
    let mut sums: Vec<Fifth> = Vec::new();
    for (column, ranks) in values.columns().into_iter().zip(ranks.columns()) {
        let mut rows: Vec<(f64, bool)> =
            column.iter().zip(ranks).map(|(value, rank)| (*value, (rank - 0.5).abs() <= 0.45)).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut start = 0;
        for fifth in 0..5 {
            let mut end = ((fifth + 1) * rows.len() / 5).max(start);
            while end < rows.len() && end > start && rows[end].0 == rows[end - 1].0 {
                end += 1;
            }
            let part = &rows[start..end];
            start = end;
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let inside = part.iter().filter(|(_, inside)| *inside).count();
            if sums.len() <= fifth {
                sums.resize(fifth + 1, Fifth { low: first.0, high: last.0, rows: 0, inside: 0 });
            }
            let sum = &mut sums[fifth];
            (sum.low, sum.high) = (sum.low.min(first.0), sum.high.max(last.0));
            (sum.rows, sum.inside) = (sum.rows + part.len(), sum.inside + inside);
        }
    }
    sums.retain(|fifth| fifth.rows >= LEAST_ROWS);
    Fifths { by, fifths: sums }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_stay_in_one_fifth_and_shares_are_counted() {
        let values = Array2::from_shape_fn((100, 1), |(row, _)| (row / 50) as f64);
        let ranks = Array2::from_shape_fn((100, 1), |(row, _)| if row < 50 { 0.5 } else { 0.99 });
        let by = fifths("x".to_string(), &values, &ranks);
        let shares: Vec<(usize, f64)> = by.fifths.iter().map(|fifth| (fifth.rows, fifth.share())).collect();
        assert_eq!(shares, [(50, 1.0), (50, 0.0)]);
    }
}
