//! Whether the chains have converged, and how many independent draws theirs are worth: rank-normalised split R̂ and
//! effective sample sizes (Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021, "Rank-normalization, folding, and
//! localization").
//!
//! Each of m chains is split into halves of n draws. With W the mean variance within the halves and B/n the variance of
//! their means, var⁺ = (n − 1)/n·W + B/n and
//! - R̂ = √(var⁺/W), of the normal scores of the draws and of their distance to the median; the larger of the two,
//! - ESS = 2mn/τ with τ = −1 + 2 Σ ρₜ, ρₜ = 1 − (W − mean autocovariance at lag t)/var⁺, summed over Geyer's initial
//!   monotone sequence; of the normal scores (bulk) and of the draws themselves (for the error of a mean).

use ndarray::{ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;

use super::ranks::{folded, normal_scores};
use crate::error::{Error, InvalidChains, ReferenceLimits, Refusal, Result};

/// The largest R̂ of a reference: 1.01 (Vehtari et al. 2021).
pub const WORST_R_HAT: f64 = 1.01;

/// The least bulk effective sample size of a reference: 400 (Vehtari et al. 2021), below which R̂ itself is too noisy.
pub const LEAST_BULK_ESS: f64 = 400.0;

/// The largest share of divergent transitions in a reference run: one in a thousand, our choice. R̂ alone does not
/// detect them: the paper's funnel at the paper's sizes has one in a hundred, with R̂ = 1.001.
pub const MOST_DIVERGENT: f64 = 1e-3;

/// The three together, for a refusal.
pub(super) const LIMITS: ReferenceLimits =
    ReferenceLimits { r_hat: WORST_R_HAT, bulk_ess: LEAST_BULK_ESS, divergent: MOST_DIVERGENT };

/// The least number of draws in half a chain for Geyer's sequence to start.
const LEAST_HALF: usize = 6;

/// The diagnostics of one quantity: a parameter, or any scalar function of the draws.
///
/// All are NaN, which means unknown, where the chains have fewer than 12 draws each or where the quantity never changes
/// (when all draws are the same, nothing shows whether the sampler moved). Chains that each stay at a different point
/// have R̂ = ∞.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// R̂: 1 when the chains agree.
    pub r_hat: f64,
    /// The number of independent draws with which quantiles in the bulk would be as well known.
    pub bulk_ess: f64,
    /// The number of independent draws with which the mean would be as well known: its standard error is
    /// deviation/√ESS.
    pub mean_ess: f64,
}

impl Convergence {
    /// The diagnostics of a quantity whose values come chain after chain.
    ///
    /// ```
    /// use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
    /// use riemannian_laplace::internals::paper::reference::Convergence;
    ///
    /// let mut values = vec![0.0; 4000];
    /// fill_standard_normal(&mut stream(1, Purpose::Velocity, 0), &mut values);
    /// let independent = Convergence::of((&values).into(), 4)?;
    /// assert!(independent.r_hat < 1.01 && independent.bulk_ess > 3000.0);
    ///
    /// values[..1000].iter_mut().for_each(|value| *value += 2.0); // the first chain is elsewhere
    /// assert!(Convergence::of((&values).into(), 4)?.r_hat > 1.1);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn of(values: ArrayView1<'_, f64>, chains: usize) -> Result<Self> {
        Ok(Diagnostics::of(values.insert_axis(Axis(1)), chains)?.quantities[0])
    }

    /// The diagnostics of finite values, chain after chain.
    fn of_checked(values: &[f64], chains: usize) -> Self {
        let halves = Halves::of(values, chains);
        let draws = halves.collect(values);
        let scores = halves.chunked(normal_scores(&draws));
        let spread = halves.chunked(normal_scores(&folded(&draws)));
        Self {
            // f64::max would drop a NaN. A quantity with two values has no spread to compare, and needs no comparison.
            r_hat: if scores.is_constant() { f64::NAN } else { scores.r_hat().max(spread.r_hat()) },
            bulk_ess: scores.effective_sample_size(),
            mean_ess: halves.chunked(draws).effective_sample_size(),
        }
    }
}

/// The positions of the halves of the chains: the middle draw of a chain of odd length belongs to neither.
struct Halves {
    chains: usize,
    per_chain: usize,
}

impl Halves {
    fn of(values: &[f64], chains: usize) -> Self {
        Self { chains, per_chain: values.len() / chains }
    }

    fn length(&self) -> usize {
        self.per_chain / 2
    }

    /// The draws of all halves, one after another.
    fn collect(&self, values: &[f64]) -> Vec<f64> {
        let half = self.length();
        let mut draws = Vec::with_capacity(2 * half * self.chains);
        for chain in values.chunks_exact(self.per_chain.max(1)) {
            draws.extend_from_slice(&chain[..half]);
            draws.extend_from_slice(&chain[self.per_chain - half..]);
        }
        draws
    }

    fn chunked(&self, draws: Vec<f64>) -> SplitChains {
        SplitChains::new(draws, self.length())
    }
}

/// Halves of chains, one after another, centred, with the moments that all diagnostics share.
struct SplitChains {
    centred: Vec<f64>,
    /// n.
    length: usize,
    /// W.
    within: f64,
    /// var⁺ = (n − 1)/n·W + B/n.
    total: f64,
}

impl SplitChains {
    fn new(draws: Vec<f64>, length: usize) -> Self {
        if length < LEAST_HALF {
            return Self { centred: Vec::new(), length, within: f64::NAN, total: f64::NAN };
        }
        let mut centred = draws;
        let n = length as f64;
        let constant = centred.iter().all(|value| *value == centred[0]);
        let mut means = Vec::with_capacity(centred.len() / length);
        for half in centred.chunks_exact_mut(length) {
            // The mean of equal numbers may round to another number; their variance must still be zero.
            let mean = if half.iter().all(|value| *value == half[0]) { half[0] } else { half.iter().sum::<f64>() / n };
            half.iter_mut().for_each(|value| *value -= mean);
            means.push(mean);
        }
        if constant {
            return Self { centred, length, within: 0.0, total: 0.0 };
        }
        let count = means.len() as f64;
        let within = centred.iter().map(|value| value * value).sum::<f64>() / (count * (n - 1.0));
        let centre = means.iter().sum::<f64>() / count;
        let between = means.iter().map(|mean| (mean - centre).powi(2)).sum::<f64>() / (count - 1.0);
        Self { centred, length, within, total: (n - 1.0) / n * within + between }
    }

    fn is_constant(&self) -> bool {
        self.total == 0.0
    }

    /// √(var⁺/W): NaN for constants, ∞ for halves that are constant at different values.
    fn r_hat(&self) -> f64 {
        (self.total / self.within).sqrt()
    }

    /// ρₜ = 1 − (W − mean autocovariance at lag t)/var⁺.
    fn autocorrelation(&self, lag: usize) -> f64 {
        let products = |half: &[f64]| half.iter().zip(&half[lag..]).map(|(now, later)| now * later).sum::<f64>();
        let covariance = self.centred.chunks_exact(self.length).map(products).sum::<f64>() / self.centred.len() as f64;
        1.0 - (self.within - covariance) / self.total
    }

    /// The number of draws over τ. Pairs of lags are computed until Geyer's sequence ends, which is soon where chains
    /// mix; the even lag of the pair that ends it still counts once, for less variance with antithetic chains.
    fn effective_sample_size(&self) -> f64 {
        if self.is_constant() || self.total.is_nan() {
            return f64::NAN;
        }
        let (mut even, mut odd, mut lag) = (1.0, self.autocorrelation(1), 0);
        let (mut sum, mut least) = (0.0, f64::INFINITY);
        while even + odd > 0.0 && lag + 5 < self.length {
            least = f64::min(least, even + odd);
            sum += least;
            lag += 2;
            (even, odd) = (self.autocorrelation(lag), self.autocorrelation(lag + 1));
        }
        let draws = self.centred.len() as f64;
        let tau = 2.0 * sum - 1.0 + f64::max(even, 0.0);
        // Antithetic chains may be worth more than their draws, but not arbitrarily more.
        draws / tau.max(1.0 / draws.log10())
    }
}

/// The diagnostics of several quantities, and the worst of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostics {
    /// One per column.
    pub quantities: Vec<Convergence>,
}

impl Diagnostics {
    /// The diagnostics of every column of `values`, whose rows are draws, chain after chain.
    ///
    /// The columns may be parameters or any functions of them. For networks use the latter (predictions at test
    /// points): their hidden units can be permuted and their signs flipped, so that chains which agree on every
    /// prediction need not agree on a weight.
    pub fn of(values: ArrayView2<'_, f64>, chains: usize) -> Result<Self> {
        if chains == 0 || !values.nrows().is_multiple_of(chains) {
            return Err(InvalidChains::Unequal { chains, draws: values.nrows() }.into());
        }
        if let Some(((row, column), _)) = values.indexed_iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::NotFinite { what: "the value of a draw", row, column });
        }
        let quantity = |column: usize| Convergence::of_checked(&values.column(column).to_vec(), chains);
        Ok(Self { quantities: (0..values.ncols()).into_par_iter().map(quantity).collect() })
    }

    /// The quantity with the largest R̂ and that R̂; an unknown one (NaN) is worse than any number. `None` if there are
    /// no quantities.
    pub fn worst_r_hat(&self) -> Option<(usize, f64)> {
        // In the total order of f64 a positive NaN is above infinity; which sign a NaN has is not specified.
        let rank = |r_hat: f64| if r_hat.is_nan() { f64::NAN.abs() } else { r_hat };
        let r_hats = self.quantities.iter().map(|quantity| quantity.r_hat).enumerate();
        r_hats.max_by(|(_, a), (_, b)| rank(*a).total_cmp(&rank(*b)))
    }

    /// The quantity with the least bulk effective sample size and that size; an unknown one (NaN) is less than any
    /// number. `None` if there are no quantities.
    pub fn least_bulk_ess(&self) -> Option<(usize, f64)> {
        let rank = |size: f64| if size.is_nan() { f64::NEG_INFINITY } else { size };
        let sizes = self.quantities.iter().map(|quantity| quantity.bulk_ess).enumerate();
        sizes.min_by(|(_, a), (_, b)| rank(*a).total_cmp(&rank(*b)))
    }

    /// Whether the draws may be called a reference for these quantities: the worst R̂ is at most [`WORST_R_HAT`] and the
    /// least bulk effective sample size at least [`LEAST_BULK_ESS`]. Returns the worst of each, or why not.
    pub fn verdict(&self) -> std::result::Result<Convergence, Refusal> {
        let (worst, r_hat) = self.worst_r_hat().unwrap_or((0, f64::NAN));
        let (_, bulk_ess) = self.least_bulk_ess().unwrap_or((0, f64::NAN));
        // Comparisons with NaN are false: what is unknown is refused.
        if r_hat <= WORST_R_HAT && bulk_ess >= LEAST_BULK_ESS {
            let mean_ess = self.quantities.iter().map(|quantity| quantity.mean_ess).fold(f64::INFINITY, f64::min);
            return Ok(Convergence { r_hat, bulk_ess, mean_ess });
        }
        Err(Refusal { quantity: worst, r_hat, bulk_ess, divergences: 0, transitions: 0, limits: LIMITS })
    }
}
