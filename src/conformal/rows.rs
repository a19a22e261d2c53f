//! Rows that two data sets have in common.

use std::collections::HashSet;

use ndarray::Array2;
use xxhash_rust::xxh3::Xxh3;

/// A fingerprint of a row of inputs and targets: 53 bits of XXH3, a whole number that f64 holds exactly. −0 counts as 0.
pub fn row_fingerprint<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    let mut hash = Xxh3::new();
    for value in values {
        hash.update(&(if *value == 0.0 { 0.0_f64 } else { *value }).to_le_bytes());
    }
    (hash.digest() >> 11) as f64
}

/// The fingerprints of the rows of inputs beside targets.
pub(crate) fn fingerprints(inputs: &Array2<f64>, targets: &Array2<f64>) -> Vec<f64> {
    inputs.rows().into_iter().zip(targets.rows()).map(|(x, y)| row_fingerprint(x.iter().chain(&y))).collect()
}

/// The rows (from zero) whose fingerprints are among those of others.
///
/// ```
/// use riemannian_laplace::internals::conformal::common_rows;
/// assert_eq!(common_rows(&[3.0, 5.0, 8.0], &[8.0, 1.0]), [2]);
/// ```
pub fn common_rows(rows: &[f64], others: &[f64]) -> Vec<usize> {
    let others: HashSet<u64> = others.iter().map(|row| row.to_bits()).collect();
    rows.iter().enumerate().filter(|(_, row)| others.contains(&row.to_bits())).map(|(index, _)| index).collect()
}

/// The share of rows that occur more than once.
pub(crate) fn repeated_share(rows: &[f64]) -> f64 {
    let mut sorted: Vec<u64> = rows.iter().map(|row| row.to_bits()).collect();
    sorted.sort_unstable();
    let repeated: usize = sorted.chunk_by(|a, b| a == b).map(<[u64]>::len).filter(|count| *count > 1).sum();
    repeated as f64 / rows.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_repeat_are_counted() {
        assert_eq!(repeated_share(&[1.0, 2.0, 1.0, 3.0, 2.0, 2.0, 7.0, 8.0]), 5.0 / 8.0);
        assert_eq!((repeated_share(&[]), repeated_share(&[4.0])), (0.0, 0.0));
        assert_eq!(row_fingerprint([&0.0, &1.0]), row_fingerprint([&-0.0, &1.0]));
        assert!(row_fingerprint([&0.0, &1.0]) != row_fingerprint([&1.0, &0.0]));
    }
}
