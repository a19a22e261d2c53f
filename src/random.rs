//! Counter-based randomness: draw `i` of seed `s` is the same on any number of threads, in any order, in any range.
//!
//! Each draw owns a stream of the ChaCha8 generator, chosen by seed, [`Purpose`] and index. The seed is expanded to
//! ChaCha's key of 32 bytes, the purpose's tag is XORed into the key's last 16, and the index is the stream number.
//! Work with one seed therefore never uses the same bits twice, say for the velocities of samples and for the initial
//! weights of their network. Equal keys would need two seeds whose expansions agree in the first half and differ by
//! exactly two tags in the second.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// What numbers are drawn for. Streams of different purposes have different keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Gaussian draws of the weights: posterior samples and the velocities of geodesics, which are the same draws. Its
    /// tag is zero.
    Velocity,
    /// Weights before training; the index is the layer.
    Initialization,
    /// The order of the data in mini-batches; the index is the epoch.
    Shuffle,
    /// Draws of the outputs through a link; the index is the point.
    MonteCarloLink,
    /// The data points of a sub-sampled metric; the index is the sample.
    MetricBatch,
    /// Draws of y from a predictive distribution; the index is the point.
    PredictiveDraw,
    /// Where an optimiser starts; the index is the start.
    Start,
    /// Test vectors of a randomised preconditioner; the index is the vector.
    Preconditioner,
    /// Where a Markov chain starts; the index is the chain.
    ChainStart,
    /// The key of a Markov chain's own generator; the index is the chain.
    ChainKey,
    /// Draws of the weights that the widths of smoothed kinks are measured from; the index is the draw.
    Smoothing,
    /// The first columns of a subspace iteration; the index is the column.
    Range,
    /// The parameters of a random sub-network; the index is always 0.
    Subnetwork,
    /// Random signs with which traces are estimated; the index is the probe.
    TraceProbe,
    /// Draws of the weights from which variances are estimated; the index is the draw.
    VarianceDraw,
    /// Which samples of weighted ones are kept; the index is always 0.
    Resampling,
    /// Which part of a mixture a draw comes from; the index is always 0.
    MixturePart,
    /// Synthetic data, and whatever else a caller draws for itself.
    Data,
}

impl Purpose {
    /// Every purpose, for tests.
    #[cfg(test)]
    const ALL: [Purpose; 18] = [
        Purpose::Velocity,
        Purpose::Initialization,
        Purpose::Shuffle,
        Purpose::MonteCarloLink,
        Purpose::MetricBatch,
        Purpose::PredictiveDraw,
        Purpose::Start,
        Purpose::Preconditioner,
        Purpose::ChainStart,
        Purpose::ChainKey,
        Purpose::Smoothing,
        Purpose::Range,
        Purpose::Subnetwork,
        Purpose::TraceProbe,
        Purpose::VarianceDraw,
        Purpose::Resampling,
        Purpose::MixturePart,
        Purpose::Data,
    ];

    /// The tag: the purpose's name in ASCII. It is part of what a seed means and never changes.
    fn tag(self) -> &'static [u8] {
        match self {
            Purpose::Velocity => b"",
            Purpose::Initialization => b"initialization",
            Purpose::Shuffle => b"shuffle",
            Purpose::MonteCarloLink => b"monte carlo link",
            Purpose::MetricBatch => b"metric batch",
            Purpose::PredictiveDraw => b"predictive draw",
            Purpose::Start => b"start",
            Purpose::Preconditioner => b"preconditioner",
            Purpose::ChainStart => b"chain start",
            Purpose::ChainKey => b"chain key",
            Purpose::Smoothing => b"smoothing",
            Purpose::Range => b"range",
            Purpose::Subnetwork => b"subnetwork",
            Purpose::TraceProbe => b"trace probe",
            Purpose::VarianceDraw => b"variance draw",
            Purpose::Resampling => b"resampling",
            Purpose::MixturePart => b"mixture part",
            Purpose::Data => b"data",
        }
    }
}

/// The generator of draw `index` for a purpose under `seed`.
///
/// ```
/// use rand::Rng;
/// use riemannian_laplace::internals::random::{Purpose, stream};
/// let first = |seed, purpose, index| stream(seed, purpose, index).random::<u64>();
/// assert_eq!(first(7, Purpose::Velocity, 3), first(7, Purpose::Velocity, 3));
/// assert_ne!(first(7, Purpose::Velocity, 3), first(7, Purpose::Velocity, 4));
/// assert_ne!(first(7, Purpose::Velocity, 3), first(7, Purpose::Shuffle, 3));
/// ```
pub fn stream(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = ChaCha8Rng::seed_from_u64(seed).get_seed();
    for (byte, tag) in key.iter_mut().skip(16).zip(purpose.tag()) {
        *byte ^= tag;
    }
    let mut generator = ChaCha8Rng::from_seed(key);
    generator.set_stream(index);
    generator
}

/// Fills `out` with independent standard normal numbers.
pub fn fill_standard_normal(generator: &mut ChaCha8Rng, out: &mut [f64]) {
    for value in out {
        *value = StandardNormal.sample(generator);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::RngCore;

    use super::*;

    #[test]
    fn velocities_have_the_bits_that_published_numbers_were_drawn_with() {
        for (seed, index, words) in [
            (0, 0, [0xb585_f767_a79a_3b6c, 0x7746_a55f_bad8_c037]),
            (0, 1, [0xc16a_7b0f_c8d4_8f13, 0xbcf5_3862_6f55_9066]),
            (7, 3, [0x2e79_8710_8688_b271, 0x17c5_f5ae_85a9_2d4e]),
            (u64::MAX, u64::MAX, [0x34f5_3d33_8e5c_fc73, 0x5f2b_40b9_1bc1_114b]),
            (12345, 1 << 40, [0x9cc1_fd15_1d8d_5f15, 0xdae6_3138_4478_99e5]),
        ] {
            let mut generator = stream(seed, Purpose::Velocity, index);
            assert_eq!([generator.next_u64(), generator.next_u64()], words, "seed {seed}, index {index}");
        }
    }

    #[test]
    fn no_two_streams_of_different_seed_purpose_or_index_begin_alike() {
        let mut met = HashMap::new();
        let indices = (0..40).chain((0..10).map(|index| u64::MAX - index)).chain([1 << 32, 1 << 63]);
        for index in indices {
            for seed in (0..40).chain([1 << 32, u64::MAX - 1, u64::MAX]) {
                for purpose in Purpose::ALL {
                    let word = stream(seed, purpose, index).next_u64();
                    // 38,012 words of 64 bits: two are equal by chance with probability 4e-11.
                    let before = met.insert(word, (seed, purpose, index));
                    assert_eq!(before, None, "seed {seed}, {purpose:?}, index {index}");
                }
            }
        }
    }

    #[test]
    fn tags_differ_and_fit_into_half_a_key() {
        for (i, purpose) in Purpose::ALL.iter().enumerate() {
            assert!(purpose.tag().len() <= 16 && !purpose.tag().contains(&0));
            assert!(Purpose::ALL[..i].iter().all(|other| other.tag() != purpose.tag()));
        }
    }
}
