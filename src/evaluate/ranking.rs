//! Telling two kinds of points apart by a score.

use crate::error::{Error, Result};

/// The area under the receiver operating characteristic: the probability that a random one of `positives` scores higher
/// than a random one of `negatives`, ties counting half. 1 is a perfect separation, ½ is chance.
///
/// It is the rank statistic U/(n₊n₋) of Mann and Whitney, from one sort: U = Σ ranks of the positives − n₊(n₊+1)/2, with
/// tied scores sharing their mean rank. For out-of-distribution detection the score is an uncertainty, such as the
/// entropy of the predicted classes.
///
/// ```
/// use riemannian_laplace::internals::evaluate::auroc;
/// assert_eq!(auroc(&[0.1, 0.4], &[0.35, 0.8])?, 0.75);
/// assert_eq!(auroc(&[0.5, 0.5], &[0.5])?, 0.5);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn auroc(negatives: &[f64], positives: &[f64]) -> Result<f64> {
    for (what, scores) in [("the scores of the negatives", negatives), ("the scores of the positives", positives)] {
        if scores.is_empty() {
            return Err(Error::NoRows { what: what.to_string() });
        }
        if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            return Err(Error::NotFinite { what, row, column: 0 });
        }
    }
    let mut all: Vec<(f64, bool)> =
        negatives.iter().map(|score| (*score, false)).chain(positives.iter().map(|score| (*score, true))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut sum) = (0.0, 0.0);
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        // Ranks count from 1; those of the tied scores are below + 1 … below + length.
        let rank = below + 0.5 * (tied.len() + 1) as f64;
        sum += rank * tied.iter().filter(|(_, positive)| *positive).count() as f64;
        below += tied.len() as f64;
    }
    let (n, m) = (positives.len() as f64, negatives.len() as f64);
    Ok((sum - 0.5 * n * (n + 1.0)) / (n * m))
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::random::{Purpose, stream};

    #[test]
    fn the_area_is_the_share_of_pairs_in_the_right_order_with_ties_counted_half() -> Result<()> {
        let mut random = stream(3, Purpose::Data, 0);
        for (n, m, levels) in [(1, 1, 2), (7, 5, 3), (40, 60, 10), (100, 30, 1_000_000)] {
            let mut draw = |count: usize, shift: u32| -> Vec<f64> {
                (0..count).map(|_| f64::from(random.random_range(0..levels) + shift) - 1.0).collect()
            };
            let (negatives, positives) = (draw(m, 0), draw(n, levels / 4));
            let pairs = positives.iter().flat_map(|p| negatives.iter().map(move |q| (p, q)));
            let right: f64 = pairs
                .map(|(p, q)| {
                    if p > q {
                        1.0
                    } else if p == q {
                        0.5
                    } else {
                        0.0
                    }
                })
                .sum();
            // Sums of halves are exact.
            assert_eq!(auroc(&negatives, &positives)?, right / (n * m) as f64);
            assert!((auroc(&positives, &negatives)? - (1.0 - right / (n * m) as f64)).abs() < 1e-15);
        }
        // The two zeros are the same number.
        assert_eq!(auroc(&[0.0], &[-0.0])?, 0.5);
        assert_eq!(auroc(&[0.0, f64::NEG_INFINITY], &[f64::INFINITY])?, 1.0);
        Ok(())
    }

    #[test]
    fn no_scores_or_nan_are_refused() {
        assert!(matches!(auroc(&[], &[1.0]), Err(Error::NoRows { .. })));
        assert!(matches!(auroc(&[1.0], &[]), Err(Error::NoRows { .. })));
        assert!(matches!(auroc(&[1.0], &[2.0, f64::NAN]), Err(Error::NotFinite { row: 1, .. })));
    }
}
