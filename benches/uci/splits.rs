//! The published splits: NumPy's legacy generator (MT19937, `np.random.seed(1)`), one permutation of the rows per split.

/// The Mersenne Twister of Matsumoto and Nishimura (1998), seeded as `np.random.seed` does.
pub struct MersenneTwister {
    state: [u32; Self::SIZE],
    next: usize,
}

impl MersenneTwister {
    const SIZE: usize = 624;

    pub fn seeded(seed: u32) -> Self {
        let mut state = [seed; Self::SIZE];
        for i in 1..Self::SIZE {
            let before = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Self { state, next: Self::SIZE }
    }

    fn draw(&mut self) -> u32 {
        if self.next == Self::SIZE {
            for i in 0..Self::SIZE {
                let joined = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % Self::SIZE] & 0x7fff_ffff);
                let twisted = (joined >> 1) ^ if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % Self::SIZE] ^ twisted;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A whole number from 0 to `most`, by rejection under the smallest mask of ones that covers it.
    fn at_most(&mut self, most: u32) -> usize {
        let mask = u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let value = self.draw() & mask;
            if value <= most {
                return value as usize;
            }
        }
    }

    /// `np.random.choice(range(n), n, replace=False)`.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            let j = self.at_most(i as u32);
            rows.swap(i, j);
        }
        rows
    }
}

/// The rows of training and test in the given split (counted from 0) of n rows: the first round(0.9 n) of the
/// permutation train.
pub fn split(n: usize, index: usize) -> (Vec<usize>, Vec<usize>) {
    let mut generator = MersenneTwister::seeded(1);
    let mut rows = generator.permutation(n);
    for _ in 0..index {
        rows = generator.permutation(n);
    }
    let test = rows.split_off((0.9 * n as f64).round() as usize);
    (rows, test)
}
