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
    let bins = bins.max(1);
    let mut sums = vec![(0, 0.0, 0.0); bins];
    for (confidence, correct) in confidences.iter().zip(correct) {
        let bin = ((confidence * bins as f64).ceil() as usize).clamp(1, bins) - 1;
        sums[bin].0 += 1;
        sums[bin].1 += confidence;
        sums[bin].2 += if *correct { 1.0 } else { 0.0 };
    }
    let edge = |bin: usize| bin as f64 / bins as f64;
    let bin = |(bin, (count, confidence, hits)): (usize, (usize, f64, f64))| {
        let (lower, upper) = (edge(bin), edge(bin + 1));
        let confidence = if count == 0 { 0.5 * (lower + upper) } else { confidence / count as f64 };
        ReliabilityBin { lower, upper, count, confidence, accuracy: hits / count as f64 }
    };
    sums.into_iter().enumerate().map(bin).collect()
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
    let curve = reliability_curve(confidences, correct, bins);
    let filled = curve.iter().filter(|bin| bin.count > 0);
    let total = confidences.len().max(1) as f64;
    filled.map(|bin| bin.count as f64 / total * (bin.accuracy - bin.confidence).abs()).sum()
}
