//! Scores of classes.

use xxhash_rust::xxh3::Xxh3;

/// The adaptive score of every class: Σ {p_k : p_k > p_c} + U p_c, with ties in the order of the classes.
///
/// U ([`tie_breaker`]) makes the scores continuous, so that sets are as small as their level allows; it is a fixed function of the
/// probabilities, so that a row has the same set every time.
///
/// ```
/// use riemannian_laplace::internals::conformal::{adaptive_scores, tie_breaker};
/// let (p, u) = ([0.2, 0.7, 0.1], tie_breaker(&[0.2, 0.7, 0.1]));
/// let expected = [0.7 + 0.2 * u, 0.7 * u, 0.9 + 0.1 * u];
/// assert!(adaptive_scores(&p).iter().zip(expected).all(|(found, score)| (found - score).abs() < 1e-15));
/// ```
pub fn adaptive_scores(probabilities: &[f64]) -> Vec<f64> {
    let u = tie_breaker(probabilities);
    let mut order: Vec<(usize, f64)> = probabilities.iter().copied().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (mut scores, mut before) = (vec![0.0; probabilities.len()], 0.0);
    for (class, probability) in order {
        if let Some(score) = scores.get_mut(class) {
            *score = before + u * probability;
        }
        before += probability;
    }
    scores
}

/// A number in (0, 1) that looks uniform: a hash of the probabilities to six significant digits, so that rounding in their last
/// bits does not change it.
pub fn tie_breaker(probabilities: &[f64]) -> f64 {
    let mut hash = Xxh3::new();
    probabilities.iter().for_each(|probability| hash.update(format!("{probability:.5e},").as_bytes()));
    ((hash.digest() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tie_breakers_are_uniform_and_do_not_see_the_last_bits() {
        let n = 4000;
        let at = |i: usize| {
            let odds = (-0.01 * i as f64).exp();
            tie_breaker(&[1.0 / (1.0 + odds), odds / (1.0 + odds)])
        };
        let (mut sum, mut tenths) = (0.0, [0usize; 10]);
        for i in 0..n {
            let u = at(i);
            sum += u;
            tenths[((10.0 * u) as usize).min(9)] += 1;
        }
        // Even where p is 1 to the last bit, the other class tells rows apart. Five standard errors of a mean and of a count.
        assert!((sum / n as f64 - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt());
        assert!(tenths.iter().all(|count| (*count as f64 - 400.0).abs() < 5.0 * 19.0), "{tenths:?}");
        let p: f64 = 0.123_456_789_012;
        assert_eq!(tie_breaker(&[p, 1.0 - p]), tie_breaker(&[p.next_up(), 1.0 - p.next_up()]));
    }

    #[test]
    fn equal_probabilities_have_different_scores() {
        let scores = adaptive_scores(&[0.25; 4]);
        assert!(scores.windows(2).all(|pair| (pair[1] - pair[0] - 0.25).abs() < 1e-15), "{scores:?}");
    }
}
