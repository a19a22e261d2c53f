//! Samples that do not fit together, and samples that did not end well.

use std::fmt;
use std::ops::Range;

/// Why parts cannot be joined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// There are no parts.
    #[error("there are no samples to join")]
    Nothing,
    /// Samples that are in no part.
    #[error("the samples {}..{} are missing between the parts; draw them too", .0.start, .0.end)]
    Gap(Range<usize>),
    /// Samples that are in two parts.
    #[error("the samples {}..{} and {}..{} overlap; give each sample once", .0.start, .0.end, .1.start, .1.end)]
    Overlap(Range<usize>, Range<usize>),
    /// Parts of different posteriors.
    #[error("the parts were drawn from different posteriors")]
    Posterior,
    /// Parts of different streams.
    #[error("the parts were drawn with different seeds: {0} and {1}")]
    Seed(String, String),
    /// Parts of different metrics.
    #[error("the parts have different metrics: {0} and {1}")]
    Metric(String, String),
    /// Parts of different networks.
    #[error("the parts have different numbers of parameters: {0} and {1}")]
    Parameters(usize, usize),
    /// Parts whose metrics round kinks over different widths.
    #[error("the metrics of the parts are smoothed over different widths: {0} and {1}")]
    Smoothing(String, String),
    /// Parts of different weights.
    #[error("the parts are samples of different weights of the network")]
    Indices,
    /// Parts whose metrics are made of different amounts of data.
    #[error("the metrics of the parts are made of different batches of data")]
    Batch,
    /// Some parts have weights.
    #[error("some parts have the weights of their samples, others have none")]
    Weights,
    /// A part whose arrays differ in length.
    #[error("the rows of a part have different lengths")]
    Ragged,
}

/// How samples ended, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingCount {
    /// Samples requested.
    pub requested: usize,
    /// Samples that did not reach the end.
    pub failed: usize,
    /// Samples that reached the end without a certificate.
    pub uncertified: usize,
}

impl fmt::Display for SamplingCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, failed, uncertified } = self;
        write!(formatter, "of {requested} samples {failed} failed and {uncertified} are uncertified")
    }
}
