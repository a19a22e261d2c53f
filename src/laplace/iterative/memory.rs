//! What products on a path have told of the system: pairs (p, Sp), by which an old factor is corrected.
//!
//! Each product of conjugate gradients with a direction p says what S does to it, for nothing. A preconditioner P₀ (a
//! factor, made some evaluations ago) with the pairs of the latest products built in one after the other, as a
//! quasi-Newton method builds them in, is exact on the newest direction and nearly so on those before it (Morales and
//! Nocedal 2000). It is symmetric, positive definite, and stays the same during a solve.

use std::collections::VecDeque;

use crate::linalg::{add_scaled, dot};

/// Pairs that are remembered. One certified sample of an 8-50-50-1 network with 5,000 rows took 18.2 s without any (8
/// factors), 13.3 s with 100 (4 factors), 12.9 s with 200 and 16.5 s with 300 (3 factors each), on a busy machine.
pub(super) const PAIRS: usize = 200;

/// p and Sp, divided by the root of pᵀSp.
type Pair = (Vec<f64>, Vec<f64>);

/// The pairs of the latest products on a path, the newest last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Those of the solves before this one, which precondition it.
    used: VecDeque<Pair>,
    /// Those of this solve.
    fresh: VecDeque<Pair>,
    /// Vectors to be used again.
    spare: Vec<Pair>,
    coefficients: Vec<f64>,
}

impl Memory {
    pub(super) fn clear(&mut self) {
        self.spare.extend(self.used.drain(..).chain(self.fresh.drain(..)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Remembers a product of the solve that goes on.
    pub(super) fn remember(&mut self, direction: &[f64], image: &[f64]) {
        let bend = dot(direction, image);
        if !(bend > 0.0 && bend.is_finite()) {
            return;
        }
        let oldest = if self.fresh.len() == PAIRS { self.fresh.pop_front() } else { self.spare.pop() };
        let (mut p, mut q) = oldest.unwrap_or_default();
        let scale = 1.0 / bend.sqrt();
        for (target, source) in [(&mut p, direction), (&mut q, image)] {
            target.clear();
            target.extend(source.iter().map(|value| scale * value));
        }
        self.fresh.push_back((p, q));
    }

    /// From now on the pairs of this solve are used too.
    pub(super) fn end_solve(&mut self) {
        self.used.append(&mut self.fresh);
        while self.used.len() > PAIRS {
            self.spare.extend(self.used.pop_front());
        }
    }

    /// u ← P⁻¹u, given u ← P₀⁻¹u.
    pub(super) fn correct(&mut self, u: &mut [f64], base: impl FnOnce(&mut [f64])) {
        self.coefficients.clear();
        for (p, q) in self.used.iter().rev() {
            let coefficient = dot(p, u);
            self.coefficients.push(coefficient);
            add_scaled(-coefficient, q, u);
        }
        base(u);
        for ((p, q), coefficient) in self.used.iter().zip(self.coefficients.iter().rev()) {
            add_scaled(coefficient - dot(q, u), p, u);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_direction_is_solved_exactly() {
        let times = |u: &[f64]| vec![4.0 * u[0] + u[1], u[0] + 3.0 * u[1] + u[2], u[1] + 2.0 * u[2]];
        let mut memory = Memory::default();
        for direction in [[1.0, 0.0, 2.0], [1.0, -1.0, 1.0]] {
            memory.remember(&direction, &times(&direction));
            memory.end_solve();
        }
        let mut u = times(&[1.0, -1.0, 1.0]);
        memory.correct(&mut u, |u| u.iter_mut().for_each(|value| *value *= 0.5));
        assert!(u.iter().zip([1.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-14), "{u:?}");
        memory.clear();
        assert!(memory.is_empty());
    }
}
