//! Calibration: do predictions made with confidence c come true with frequency c?

use serde::Serialize;

/// The predictions whose confidence lies in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReliabilityBin {
    /// The bin is (lower, upper].
    pub lower: f64,
    /// Its upper end.
    pub upper: f64,
    /// The number of predictions.
    pub count: usize,
    /// Their mean confidence; the middle of an empty bin.
    pub confidence: f64,
    /// The share of them that came true; NaN for an empty bin.
    pub accuracy: f64,
}

/// The reliability curve: confidence and accuracy over equal-width bins of confidence, empty ones included. `confidences`
/// and `correct` belong together one by one.
///
/// ```
/// use riemannian_laplace::internals::evaluate::reliability_curve;
/// let curve = reliability_curve(&[0.75, 0.75, 0.9], &[true, false, true], 2);
/// assert_eq!((curve[0].count, curve[1].count), (0, 3));
/// assert!((curve[1].confidence - 0.8).abs() < 1e-15 && (curve[1].accuracy - 2.0 / 3.0).abs() < 1e-15);
/// ```
pub fn reliability_curve(confidences: &[f64], correct: &[bool], bins: usize) -> Vec<ReliabilityBin> {
    Reliability::of(confidences, correct, bins).curve()
}

/// Expected calibration error Σ_b n_b/n |accuracy_b − confidence_b| over equal-width bins of confidence.
///
/// ```
/// use riemannian_laplace::internals::evaluate::expected_calibration_error;
/// // Four predictions at 75 %, three of them right.
/// let error = expected_calibration_error(&[0.75; 4], &[true, true, true, false], 15);
/// assert!(error.abs() < 1e-15);
/// ```
pub fn expected_calibration_error(confidences: &[f64], correct: &[bool], bins: usize) -> f64 {
    Reliability::of(confidences, correct, bins).error()
}

/// Sums over equal-width bins of confidence: how many predictions, their confidences, and how many came true.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reliability {
    bins: Vec<[f64; 3]>,
}

impl Reliability {
    /// Of no predictions.
    pub(super) fn new(bins: usize) -> Self {
        Self { bins: vec![[0.0; 3]; bins] }
    }

    fn of(confidences: &[f64], correct: &[bool], bins: usize) -> Self {
        let mut sums = Self::new(bins.max(1));
        sums.add(confidences, correct);
        sums
    }

    pub(super) fn add(&mut self, confidences: &[f64], correct: &[bool]) {
        let bins = self.bins.len();
        for (confidence, correct) in confidences.iter().zip(correct) {
            let bin = ((confidence * bins as f64).ceil() as usize).clamp(1, bins) - 1;
            let hit = if *correct { 1.0 } else { 0.0 };
            self.bins[bin].iter_mut().zip([1.0, *confidence, hit]).for_each(|(sum, value)| *sum += value);
        }
    }

    /// All sums, one after another.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut f64> {
        self.bins.iter_mut().flatten()
    }

    pub(super) fn curve(&self) -> Vec<ReliabilityBin> {
        let edge = |bin: usize| bin as f64 / self.bins.len() as f64;
        let bin = |(bin, [count, confidence, hits]): (usize, &[f64; 3])| {
            let (lower, upper) = (edge(bin), edge(bin + 1));
            let confidence = if *count == 0.0 { 0.5 * (lower + upper) } else { confidence / count };
            ReliabilityBin { lower, upper, count: *count as usize, confidence, accuracy: hits / count }
        };
        self.bins.iter().enumerate().map(bin).collect()
    }

    /// The share of predictions that came true.
    pub(super) fn accuracy(&self) -> f64 {
        self.bins.iter().map(|bin| bin[2]).sum::<f64>() / self.total()
    }

    /// Σ_b n_b/n |accuracy_b − confidence_b|.
    pub(super) fn error(&self) -> f64 {
        let total = self.total().max(1.0);
        let curve = self.curve();
        let filled = curve.iter().filter(|bin| bin.count > 0);
        filled.map(|bin| bin.count as f64 / total * (bin.accuracy - bin.confidence).abs()).sum()
    }

    fn total(&self) -> f64 {
        self.bins.iter().map(|bin| bin[0]).sum()
    }
}
