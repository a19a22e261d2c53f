//! Are intervals as wide as they should be? Coverage and width by level, and the histogram of ranks.

use ndarray::Array2;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::predict::Prediction;

/// The central intervals of one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IntervalScore {
    /// The probability that they should contain.
    pub level: f64,
    /// The share of targets inside.
    pub coverage: f64,
    /// Their mean width, in the units of the target.
    pub mean_width: f64,
}

/// Coverage and mean width of the central intervals at each level, over all points and targets. Classes have none.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::evaluate::interval_scores;
/// use riemannian_laplace::prelude::*;
///
/// // f(x) = 0 and unit noise.
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![0.0, 0.0])?;
/// let data = Dataset::new(array![[0.0], [1.0]], array![[0.1], [2.0]])?;
/// let laplace = Laplace::fit(network, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
/// let prediction = laplace.predict(data.inputs(), &Method::Map)?;
/// let scores = interval_scores(&prediction, data.targets(), &[0.5, 0.99])?;
/// assert_eq!((scores[0].coverage, scores[1].coverage), (0.5, 1.0));
/// assert!((scores[0].mean_width - 2.0 * 0.674489750196).abs() < 1e-9);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn interval_scores(prediction: &Prediction, targets: &Array2<f64>, levels: &[f64]) -> Result<Vec<IntervalScore>> {
    let count = targets.len() as f64;
    let score = |(&level, [inside, widths]): (&f64, [f64; 2])| IntervalScore {
        level,
        coverage: inside / count,
        mean_width: widths / count,
    };
    Ok(levels.iter().zip(interval_sums(prediction, targets, levels)?).map(score).collect())
}

/// For each level, how many targets are inside their interval, and the sum of the widths.
pub(super) fn interval_sums(prediction: &Prediction, targets: &Array2<f64>, levels: &[f64]) -> Result<Vec<[f64; 2]>> {
    if targets.is_empty() {
        return Err(Error::NoRows { what: "the test data".to_string() });
    }
    let sums = |level: &f64| -> Result<[f64; 2]> {
        let (lower, upper) = prediction.interval(*level)?;
        crate::error::check_size("number of target rows", lower.nrows(), targets.nrows())?;
        crate::error::check_size("number of target columns", lower.ncols(), targets.ncols())?;
        let inside = targets.iter().zip(lower.iter().zip(&upper)).filter(|(y, (low, high))| *low <= *y && *y <= *high);
        Ok([inside.count() as f64, (&upper - &lower).sum()])
    };
    levels.iter().map(sums).collect()
}

/// How many ranks fall into each of equally wide bins of [0, 1]: flat where predictions are calibrated, high at both ends
/// where they are too narrow, high in the middle where they are too wide.
///
/// ```
/// use riemannian_laplace::internals::evaluate::rank_histogram;
/// assert_eq!(rank_histogram([0.0, 0.3, 0.5, 0.99, 1.0], 4), [1, 1, 1, 2]);
/// ```
pub fn rank_histogram(ranks: impl IntoIterator<Item = f64>, bins: usize) -> Vec<usize> {
    let bins = bins.max(1);
    let mut counts = vec![0; bins];
    for rank in ranks {
        if !rank.is_nan() {
            counts[((rank * bins as f64) as usize).min(bins - 1)] += 1;
        }
    }
    counts
}
