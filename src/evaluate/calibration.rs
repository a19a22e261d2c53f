//! Calibration: do predictions made with confidence c come true with frequency c?

/// Expected calibration error Σ_b n_b/n |accuracy_b − confidence_b| over equal-width bins of confidence.
///
/// ```
/// use riemannian_laplace::internals::evaluate::expected_calibration_error;
/// // Four predictions at 75 %, three of them right.
/// let error = expected_calibration_error(&[0.75; 4], &[true, true, true, false], 15);
/// assert!(error.abs() < 1e-15);
/// ```
pub fn expected_calibration_error(confidences: &[f64], correct: &[bool], bins: usize) -> f64 {
    let mut sums = vec![(0.0, 0.0); bins.max(1)];
    for (confidence, correct) in confidences.iter().zip(correct) {
        let bin = ((confidence * bins as f64).ceil() as usize).clamp(1, bins.max(1)) - 1;
        sums[bin].0 += confidence;
        sums[bin].1 += if *correct { 1.0 } else { 0.0 };
    }
    sums.iter().map(|(confidence, hits)| (hits - confidence).abs()).sum::<f64>() / confidences.len().max(1) as f64
}
