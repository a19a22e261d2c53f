//! The conformal quantile of scores, with or without weights.

/// A level that is a whole number of rows up to rounding counts as that number: 0.9 · 10 is 9, whatever its last bit.
const ROUNDING: f64 = 1e-9;

/// The least n with ⌈level·(n + 1)⌉ ≤ n, that is n ≥ 1/(1 − level) − 1: with fewer rows the quantile is infinite.
///
/// ```
/// use riemannian_laplace::internals::conformal::needed_rows;
/// assert_eq!((needed_rows(0.9), needed_rows(0.95), needed_rows(0.5)), (9, 19, 1));
/// ```
pub fn needed_rows(level: f64) -> usize {
    ((1.0 / (1.0 - level) - 1.0) * (1.0 - ROUNDING)).ceil().max(1.0) as usize
}

/// Scores in increasing order, each with the weight of all up to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    scores: Vec<f64>,
    /// Σ of the weights of the scores up to here; none where every weight is one.
    cumulative: Option<Vec<f64>>,
}

impl Ranked {
    /// Orders scores (which must not be NaN) with their weights, if they have any: as many, and positive.
    pub fn new(scores: &[f64], weights: Option<&[f64]>) -> Self {
        let Some(weights) = weights else {
            let mut scores = scores.to_vec();
            scores.sort_unstable_by(f64::total_cmp);
            return Self { scores, cumulative: None };
        };
        let mut pairs: Vec<(f64, f64)> = scores.iter().copied().zip(weights.iter().copied()).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let cumulative = pairs.iter().scan(0.0, |sum, (_, weight)| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulative: Some(cumulative.collect()), scores: pairs.into_iter().map(|(score, _)| score).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// The smallest score q for which the scores up to it have at least the share `level` of all weight, that of the new row
    /// (at infinity) included: Σ {wᵢ : sᵢ ≤ q} ≥ level·(Σ wᵢ + `new`). Infinite where there is none. Without weights each is one,
    /// and so should `new` be.
    ///
    /// ```
    /// use riemannian_laplace::internals::conformal::Ranked;
    /// let ranked = Ranked::new(&[3.0, 1.0, 2.0, 4.0], None);
    /// assert_eq!(ranked.threshold(0.6, 1.0), 3.0); // ⌈0.6 · 5⌉ = 3
    /// assert_eq!(ranked.threshold(0.9, 1.0), f64::INFINITY);
    /// // A new row of a kind that the calibration rows are short of widens the interval.
    /// let weighted = Ranked::new(&[1.0, 2.0, 3.0, 4.0], Some(&[1.0; 4]));
    /// assert_eq!((weighted.threshold(0.5, 1.0), weighted.threshold(0.5, 3.0)), (3.0, 4.0));
    /// ```
    pub fn threshold(&self, level: f64, new: f64) -> f64 {
        let index = match &self.cumulative {
            None => {
                let needed = level * (self.scores.len() as f64 + new) - ROUNDING;
                (needed.ceil().max(1.0) as usize) - 1
            }
            Some(cumulative) => {
                let total = cumulative.last().copied().unwrap_or(0.0) + new;
                cumulative.partition_point(|sum| *sum < (level - ROUNDING) * total)
            }
        };
        self.scores.get(index).copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::random::{Purpose, stream};

    #[test]
    fn the_threshold_is_the_definition() {
        for n in 1..40 {
            let scores: Vec<f64> = (0..n).map(|i| f64::from((i * 7) % 5)).collect();
            for level in [0.05, 0.5, 0.8, 0.9, 0.95] {
                // Σ 1{s ≤ q} ≥ level (n + 1), by counting.
                let enough = |q: f64| {
                    scores.iter().filter(|score| **score <= q).count() as f64 >= level * f64::from(n + 1) - 1e-9
                };
                let all = scores.iter().copied().filter(|q| enough(*q));
                let expected = all.fold(f64::INFINITY, f64::min);
                let found = Ranked::new(&scores, None).threshold(level, 1.0);
                assert_eq!(found, expected, "n = {n}, level {level}");
                let weighted = Ranked::new(&scores, Some(&vec![2.5; n as usize]));
                assert_eq!(weighted.threshold(level, 2.5), expected, "n = {n}, level {level}, equal weights");
                assert_eq!(found.is_infinite(), (n as usize) < needed_rows(level), "n = {n}, level {level}");
            }
        }
    }

    /// The share of 10,000 repetitions in which a new score is at most the threshold of `n` others, drawn alike.
    fn coverage(n: usize, level: f64, draw: impl Fn(&mut rand_chacha::ChaCha8Rng) -> f64) -> f64 {
        let repetitions = 10_000;
        let inside = |index: u64| {
            let mut random = stream(5, Purpose::Data, index);
            let scores: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
            draw(&mut random) <= Ranked::new(&scores, None).threshold(level, 1.0)
        };
        (0..repetitions).filter(|index| inside(*index)).count() as f64 / repetitions as f64
    }

    #[test]
    fn exchangeable_rows_are_covered_as_promised_in_10_000_repetitions_ties_included() {
        for (n, level) in [(9, 0.9), (10, 0.9), (37, 0.9), (100, 0.9), (25, 0.5), (60, 0.95)] {
            // Four standard errors: all twelve figures are within theirs with probability 0.999.
            let error = 4.0 * (level * (1.0 - level) / 1e4_f64).sqrt();
            let continuous = coverage(n, level, |random| random.random::<f64>().ln());
            // ⌈level (n + 1)⌉ / (n + 1): the exact probability, where no scores are equal.
            let exact = (level * (n as f64 + 1.0) - 1e-9).ceil() / (n as f64 + 1.0);
            assert!((continuous - exact).abs() < error, "n = {n}, level {level}: {continuous} for {exact}");
            assert!(continuous > level - error && continuous < level + 1.0 / (n as f64 + 1.0) + error);
            // Scores that are one of five numbers: at least as much, and never less.
            let ties = coverage(n, level, |random| (5.0 * random.random::<f64>()).floor());
            assert!(ties > level - error, "n = {n}, level {level}, ties: {ties}");
        }
    }

    #[test]
    fn weights_restore_the_coverage_under_a_covariate_shift() {
        // x ~ U(0, 1) at calibration and density 2x at prediction; the score is x, so that large ones become likelier.
        let (n, level, repetitions) = (200, 0.8, 10_000);
        let (mut plain, mut weighted) = (0.0, 0.0);
        for index in 0..repetitions {
            let mut random = stream(6, Purpose::Data, index);
            let x: Vec<f64> = (0..n).map(|_| random.random()).collect();
            let new = random.random::<f64>().sqrt();
            let weights: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
            plain += f64::from(u8::from(new <= Ranked::new(&x, None).threshold(level, 1.0)));
            let threshold = Ranked::new(&x, Some(&weights)).threshold(level, 2.0 * new);
            weighted += f64::from(u8::from(new <= threshold));
        }
        let (plain, weighted) = (plain / repetitions as f64, weighted / repetitions as f64);
        // Without weights the threshold is near 0.8, which a new row stays below with probability 0.64.
        assert!((plain - 0.64).abs() < 0.03, "{plain}");
        let error = 4.0 * (level * (1.0 - level) / repetitions as f64).sqrt();
        assert!(weighted > level - error && weighted < level + 0.02, "{weighted}");
    }
}
