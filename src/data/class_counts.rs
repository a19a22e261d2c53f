//! How often each class occurs, for likelihoods whose parameters say how many classes there are.

use super::{Batches, sum_over_blocks};
use crate::error::{Error, Result};
use crate::likelihood::{Family, TargetError};
use crate::team::Sums;

/// The rows that are read at a time, and the most classes.
const BATCH_ROWS: usize = 4096;
const MOST_CLASSES: usize = 1000;

/// The family for the classes that the labels of some data name, at least the given number; others than those of ordered classes
/// stay as they are.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::data::for_classes_of;
/// use riemannian_laplace::{Dataset, Family};
///
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[0.0], [2.0], [1.0]])?;
/// let family = for_classes_of(&"ordinal".parse::<Family>()?, &data, 0)?;
/// assert_eq!(family.likelihood().n_means(1), 3);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn for_classes_of(family: &Family, data: &dyn Batches, least: usize) -> Result<Family> {
    if family.likelihood().for_classes(&[1.0, 1.0]).is_none() {
        return Ok(family.clone());
    }
    let counts = sum_over_blocks(data, &Sums, |block| {
        let mut counts = vec![0.0; MOST_CLASSES];
        for batch in data.batches(block, BATCH_ROWS)? {
            let batch = batch?;
            for (row, label) in batch.targets.column(0).iter().enumerate() {
                let is_class = *label >= 0.0 && *label == label.trunc();
                match counts.get_mut(*label as usize).filter(|_| is_class) {
                    Some(count) => *count += 1.0,
                    None => return Err(no_class(family, batch.first_row + row, *label)),
                }
            }
        }
        Ok(counts)
    })?;
    let named = data.schema().classes().map_or(0, <[String]>::len);
    let occurring = counts.iter().rposition(|count| *count > 0.0).map_or(0, |last| last + 1);
    let classes = occurring.max(named).max(least).clamp(2, MOST_CLASSES);
    let likelihood = family.likelihood().for_classes(counts.get(..classes).unwrap_or_default());
    Ok(likelihood.map_or_else(|| family.clone(), Family::from).weighted(family.has_weights()))
}

fn no_class(family: &Family, row: usize, value: f64) -> Error {
    let (likelihood, allowed) = (family.likelihood().name(), "a class from 0 to 999");
    Error::Target { row, source: TargetError::Value { likelihood, position: 0, value, allowed } }
}
