//! What products on a path have told of the system: pairs (p, Sp), by which an old factor is corrected.
//!
//! Each product of conjugate gradients with a direction p says what S does to it, for nothing. A preconditioner P₀ (a
//! factor, made some evaluations ago) with the pairs of the latest products built in one after the other, as a
//! quasi-Newton method builds them in, is exact on the newest direction and nearly so on those before it (Morales and
//! Nocedal 2000). It is symmetric, positive definite, and stays the same during a solve.
//!
//! With q = Sp and pᵀq = 1 a pair changes P⁻¹ to (I − pqᵀ)P⁻¹(I − qpᵀ) + ppᵀ. All of them are built in at once, by the
//! products pᵢᵀqⱼ of each pair with the newer ones: four products with tall matrices, which take no notice of the order
//! of the pairs, and two triangular systems of their number (Byrd, Nocedal and Schnabel 1994). The pairs are kept in f32,
//! as the factor is: whatever numbers they are, what they make is positive definite.

use std::collections::VecDeque;

use crate::linalg::{add_scaled, dot, rounded_inner_products, subtract_rounded};

/// Pairs that are remembered. One certified sample of an 8-50-50-1 network with 5,000 rows took 18.2 s without any (8
/// factors), 13.3 s with 100 (4 factors), 12.9 s with 200 and 16.5 s with 300 (3 factors each), on a busy machine and with
/// pairs and factors in f64; in f32, two such samples took 9.8 and 9.4 s with 200 and 9.8 and 9.7 s with 400.
pub(super) const PAIRS: usize = 200;

/// p and Sp, divided by the root of pᵀSp.
type Pair = (Vec<f32>, Vec<f32>);

/// The pairs of the latest products on a path, each in a place that is taken over by the one [`PAIRS`] later.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The p of all places, one after the other, and the Sp.
    directions: Vec<f32>,
    images: Vec<f32>,
    /// For the q in each place its product pᵢᵀq with the p in place i; those of newer pairs mean nothing.
    products: Vec<Vec<f64>>,
    /// Pairs in use, and the place of the next.
    used: usize,
    next: usize,
    /// Those of this solve, the newest last.
    fresh: VecDeque<Pair>,
    /// Vectors to be used again.
    spare: Vec<Pair>,
    coefficients: Vec<f64>,
    sums: Vec<f64>,
    added: Vec<f64>,
}

impl Memory {
    pub(super) fn clear(&mut self) {
        (self.used, self.next) = (0, 0);
        self.spare.extend(self.fresh.drain(..));
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
            target.extend(source.iter().map(|value| (scale * value) as f32));
        }
        self.fresh.push_back((p, q));
    }

    /// From now on the pairs of this solve are used too.
    pub(super) fn end_solve(&mut self) {
        let mut image = Vec::new();
        while let Some((p, q)) = self.fresh.pop_front() {
            // What f32 cannot hold is no pair.
            if p.iter().chain(&q).all(|value| value.is_finite()) {
                self.place(&p, &q, &mut image);
            }
            self.spare.push((p, q));
        }
    }

    /// Puts a pair into the next place.
    fn place(&mut self, p: &[f32], q: &[f32], image: &mut Vec<f64>) {
        let (size, place) = (p.len(), self.next);
        self.directions.resize(PAIRS * size, 0.0);
        self.images.resize(PAIRS * size, 0.0);
        self.products.resize_with(PAIRS, || vec![0.0; PAIRS]);
        self.directions[place * size..(place + 1) * size].copy_from_slice(p);
        self.images[place * size..(place + 1) * size].copy_from_slice(q);
        self.used = (self.used + 1).min(PAIRS);
        self.next = (place + 1) % PAIRS;
        image.clear();
        image.extend(q.iter().map(|value| f64::from(*value)));
        let products = &mut self.products[place][..self.used];
        rounded_inner_products(&self.directions, image, products);
        // A pair is built in as if pᵀq were 1, whatever rounding has made of it: that is no product with an older one.
        products[place] = 0.0;
    }

    /// u ← P⁻¹u, given u ← P₀⁻¹u.
    pub(super) fn correct(&mut self, u: &mut [f64], base: impl FnOnce(&mut [f64])) {
        let Self { directions, images, products, used, next, coefficients, sums, added, .. } = self;
        let used = *used;
        // The newest first.
        let places = (1..=used).map(|back| (*next + used - back) % used);
        for values in [&mut *coefficients, &mut *sums] {
            values.clear();
            values.resize(used, 0.0);
        }
        rounded_inner_products(directions, u, sums);
        for place in places.clone() {
            coefficients[place] = sums[place];
            add_scaled(-coefficients[place], &products[place][..used], sums);
        }
        subtract_rounded(images, coefficients, u);
        base(u);
        rounded_inner_products(images, u, sums);
        added.clear();
        added.resize(used, 0.0);
        for place in places.rev() {
            // qᵀu with what has been added by then, which is nothing of newer pairs.
            let known = sums[place] + dot(&products[place][..used], added);
            added[place] = coefficients[place] - known;
        }
        added.iter_mut().for_each(|value| *value = -*value);
        subtract_rounded(directions, added, u);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(u: &[f64]) -> Vec<f64> {
        let n = u.len();
        let at = |i: usize| if i < n { u[i] } else { 0.0 };
        (0..n).map(|i| (2.5 + i as f64) * u[i] + at(i + 1) + at(i.wrapping_sub(1))).collect()
    }

    #[test]
    fn the_newest_direction_is_solved_exactly() {
        let mut memory = Memory::default();
        for direction in [[1.0, 0.0, 2.0], [1.0, -1.0, 1.0]] {
            memory.remember(&direction, &times(&direction));
            memory.end_solve();
        }
        let mut u = times(&[1.0, -1.0, 1.0]);
        memory.correct(&mut u, |u| u.iter_mut().for_each(|value| *value *= 0.5));
        assert!(u.iter().zip([1.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{u:?}");
        memory.clear();
        assert_eq!(memory.used, 0);
    }

    #[test]
    fn pairs_are_built_in_one_after_the_other() {
        let (size, mut memory, mut pairs) = (40, Memory::default(), VecDeque::new());
        for index in 0..PAIRS + 27 {
            let direction: Vec<f64> =
                (0..size).map(|i| f64::from((7 * i + 3 * index as i32) % 11) - 5.0 + 0.1 * f64::from(i)).collect();
            let image = times(&direction);
            memory.remember(&direction, &image);
            let scale = 1.0 / dot(&direction, &image).sqrt();
            let rounded =
                |vector: &[f64]| vector.iter().map(|value| f64::from((scale * value) as f32)).collect::<Vec<f64>>();
            pairs.push_back((rounded(&direction), rounded(&image)));
            if index % 10 == 0 {
                memory.end_solve();
            }
        }
        memory.end_solve();
        let pairs: Vec<_> = pairs.into_iter().skip(27).collect();
        let start: Vec<f64> = (0..size).map(|i| f64::from(i % 5) - 1.0).collect();
        // The recursion, pair by pair.
        let (mut expected, mut coefficients) = (start.clone(), Vec::new());
        for (p, q) in pairs.iter().rev() {
            coefficients.push(dot(p, &expected));
            add_scaled(-dot(p, &expected), q, &mut expected);
        }
        expected.iter_mut().for_each(|value| *value *= 0.5);
        for ((p, q), coefficient) in pairs.iter().zip(coefficients.iter().rev()) {
            add_scaled(coefficient - dot(q, &expected), p, &mut expected);
        }
        let mut u = start;
        memory.correct(&mut u, |u| u.iter_mut().for_each(|value| *value *= 0.5));
        assert!(u.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-8), "{u:?} {expected:?}");
    }
}
