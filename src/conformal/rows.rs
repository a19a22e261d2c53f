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
