//! What importance weights are worth: k̂, effective size, the evidence, and samples of the target itself.

use rand::Rng;

use super::leave_one_out::{K_LIMIT, smooth_weights};
use crate::error::{Error, Result};
use crate::random::{Purpose, stream};

/// Weights that differ by less than this (relative, in any direction) are constant to the solver's tolerance: k̂ would
/// measure its noise.
const CONSTANT: f64 = 1e-3;
/// The least share of effective samples with which an evidence is reported in spite of a large k̂.
const LEAST_SHARE: f64 = 0.5;

/// A summary of importance weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Importance {
    /// The weights' logarithms, without those of failed samples.
    log_weights: Vec<f64>,
    /// Which samples these belong to.
    rows: Vec<usize>,
    /// The number of samples that have no weight.
    pub failed: usize,
    /// k̂ of the weights; none where they are constant to the solver's tolerance.
    pub k: Option<f64>,
    /// (Σw)²/Σw² as a share of the samples.
    pub effective_share: f64,
    /// The largest weight as a share of all.
    pub largest_share: f64,
    /// Samples that passed a conjugate point.
    pub conjugate: usize,
}

/// An estimate of a log evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogEvidence {
    /// log mean w.
    pub value: f64,
    /// Its standard error, sd(w)/(mean w·√S).
    pub standard_error: f64,
}

/// Why weights are not used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Withheld {
    /// Samples passed conjugate points: the exponential map is not one to one.
    NotInjective {
        /// How many did.
        samples: usize,
        /// Of how many.
        of: usize,
    },
    /// A few samples outweigh the others.
    Degenerate {
        /// k̂.
        k: f64,
        /// The effective share.
        effective_share: f64,
    },
}

impl std::fmt::Display for Withheld {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Withheld::NotInjective { samples, of } => write!(
                formatter,
                "{samples} of {of} samples passed a conjugate point: the exponential map is not one to one, and the \
                 weights are not those of the samples"
            ),
            Withheld::Degenerate { k, effective_share } => write!(
                formatter,
                "k̂ is {k:.2} and {:.1} % of the samples are effective: a few of them outweigh all others, and more \
                 samples would not help",
                100.0 * effective_share
            ),
        }
    }
}

impl Importance {
    /// The summary of log weights (NaN for failed samples) and of the conjugate points of each sample.
    pub fn of(log_weights: &[f64], conjugate: &[usize]) -> Result<Self> {
        let (rows, kept): (Vec<usize>, Vec<f64>) =
            log_weights.iter().copied().enumerate().filter(|(_, log)| !log.is_nan()).unzip();
        if kept.is_empty() {
            return Err(Error::NoSamples { requested: log_weights.len() });
        }
        let (low, top) =
            kept.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, top), log| (low.min(*log), top.max(*log)));
        let relative: Vec<f64> = kept.iter().map(|log| (log - top).exp()).collect();
        let (sum, squares) = relative.iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
        let count = kept.len() as f64;
        Ok(Self {
            failed: log_weights.len() - kept.len(),
            k: (top - low > CONSTANT).then(|| smooth_weights(&kept).k),
            effective_share: sum * sum / (squares * count),
            largest_share: 1.0 / sum,
            conjugate: conjugate.iter().filter(|points| **points > 0).count(),
            log_weights: kept,
            rows,
        })
    }

    /// Why the weights should not be used, if so.
    pub fn withheld(&self) -> Option<Withheld> {
        if self.conjugate > 0 {
            return Some(Withheld::NotInjective { samples: self.conjugate, of: self.log_weights.len() });
        }
        match self.k {
            Some(k) if k > K_LIMIT && self.effective_share < LEAST_SHARE => {
                Some(Withheld::Degenerate { k, effective_share: self.effective_share })
            }
            _ => None,
        }
    }

    /// log p(y) with its standard error, or why it is withheld.
    pub fn log_evidence(&self) -> std::result::Result<LogEvidence, Withheld> {
        match self.withheld() {
            Some(reason) => Err(reason),
            None => {
                let count = self.log_weights.len() as f64;
                let top = self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let mean = self.log_weights.iter().map(|log| (log - top).exp()).sum::<f64>() / count;
                // ESS/n = 1/(1 + CV²).
                let variation = (1.0 / self.effective_share - 1.0).max(0.0);
                Ok(LogEvidence { value: top + mean.ln(), standard_error: (variation / count).sqrt() })
            }
        }
    }

    /// The samples, by index, that are `count` samples of the target itself: systematic resampling with one uniform number
    /// of the seed, each as often as its weight says, up to one.
    pub fn resampled(&self, count: usize, seed: u64) -> std::result::Result<Vec<usize>, Withheld> {
        if let Some(reason) = self.withheld() {
            return Err(reason);
        }
        let top = self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = self.log_weights.iter().map(|log| (log - top).exp()).sum();
        let shift: f64 = stream(seed, Purpose::Resampling, 0).random();
        let (mut indices, mut reached) = (Vec::with_capacity(count), 0.0);
        for (index, log) in self.log_weights.iter().enumerate() {
            reached += (log - top).exp() / total;
            while indices.len() < count && (indices.len() as f64 + shift) < reached * count as f64 {
                indices.push(self.rows[index]);
            }
        }
        // Rounding may leave the very last one out.
        while indices.len() < count {
            indices.extend(self.rows.last());
        }
        Ok(indices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gaussian_under_another_has_the_evidence_that_integration_gives() -> Result<()> {
        // Target exp(−θ²/2·1.2) under N(0, 1), at 4,000 normal quantile midpoints by inversion of a fine grid.
        let logs: Vec<f64> = (0..4000)
            .map(|i| {
                let z = quantile((f64::from(i) + 0.5) / 4000.0);
                -0.6 * z * z + 0.5 * z * z + 0.5 * (2.0 * std::f64::consts::PI).ln()
            })
            .collect();
        let importance = Importance::of(&logs, &vec![0; 4000])?;
        let evidence = importance.log_evidence().map_err(|_| Error::NoDraws)?;
        let exact = 0.5 * (2.0 * std::f64::consts::PI / 1.2_f64).ln();
        assert!((evidence.value - exact).abs() < 1e-3, "{} for {exact}", evidence.value);
        // CV² of w ∝ exp(−0.1 z²): E w² / (E w)² = (1 + 0.2)/√(1 + 0.4).
        let variation = 1.2 / 1.4_f64.sqrt() - 1.0;
        assert!((evidence.standard_error - (variation / 4000.0).sqrt()).abs() < 1e-4);
        let indices = importance.resampled(2000, 1).map_err(|_| Error::NoDraws)?;
        let squares: f64 = indices.iter().map(|i| quantile((*i as f64 + 0.5) / 4000.0).powi(2)).sum::<f64>() / 2000.0;
        assert!((squares - 1.0 / 1.2).abs() < 0.01, "{squares}");
        Ok(())
    }

    /// By bisection of the error function.
    fn quantile(level: f64) -> f64 {
        let (mut low, mut high) = (-10.0, 10.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) < level {
                low = middle
            } else {
                high = middle
            }
        }
        0.5 * (low + high)
    }

    #[test]
    fn constant_weights_have_no_shape_and_degenerate_ones_are_withheld() -> Result<()> {
        let constant = Importance::of(&[1.0, 1.0 + 1e-6, 1.0, f64::NAN], &[0; 4])?;
        assert_eq!((constant.k, constant.failed), (None, 1));
        assert!(constant.log_evidence().is_ok_and(|evidence| (evidence.value - 1.0).abs() < 1e-6));
        let wild: Vec<f64> = (0..200).map(|i| -3.0 * ((f64::from(i) + 0.5) / 200.0).ln()).collect();
        let wild = Importance::of(&wild, &[0; 200])?;
        assert!(matches!(wild.log_evidence(), Err(Withheld::Degenerate { .. })), "{wild:?}");
        let folded = Importance::of(&[1.0; 3], &[0, 2, 0])?;
        assert_eq!(folded.withheld(), Some(Withheld::NotInjective { samples: 1, of: 3 }));
        assert!(Importance::of(&[f64::NAN], &[0]).is_err());
        Ok(())
    }
}
