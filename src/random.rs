//! Counter-based randomness: draw `i` of seed `s` is the same on any number of threads, in any order.
//!
//! Each draw owns a stream of the ChaCha8 generator: the seed is the key, the index the stream number.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The generator of draw `index` under `seed`.
///
/// ```
/// use rand::Rng;
/// use riemannian_laplace::random::stream;
/// let (mut first, mut again) = (stream(7, 3), stream(7, 3));
/// assert_eq!(first.random::<u64>(), again.random::<u64>());
/// assert_ne!(stream(7, 4).random::<u64>(), stream(7, 3).random::<u64>());
/// ```
pub fn stream(seed: u64, index: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(index);
    generator
}

/// Fills `out` with independent standard normal numbers.
pub fn fill_standard_normal(generator: &mut ChaCha8Rng, out: &mut [f64]) {
    for value in out {
        *value = StandardNormal.sample(generator);
    }
}
