//! The Taylor coefficients of a layer's sums in three products for four.
//!
//! (W + tV)(h₀ + th₁) = z₀ + tz₁ + t²z₂ has three coefficients: two of them are the products z₀ = Wh₀ and z₂ = Vh₁, and the
//! third follows from its value at one more place t = s,
//!
//! z₁ = ((W + sV)(h₀ + sh₁) − z₀)/s − s z₂,
//!
//! in place of Wh₁ + Vh₀ (A. Karatsuba and Yu. Ofman, *Doklady Akademii Nauk SSSR* 145, 1962). With s² = |W||h₀| / |V||h₁|
//! the terms that cancel are no larger than those of the plain sum, |Wh₀|/s + s|Vh₁| = 2√(|W||h₀||V||h₁|) ≤ |W||h₁| + |V||h₀|,
//! and nothing is lost to rounding; norms that are wrong by a factor lose no more than this factor.
//!
//! The sum W + sV is a pass over both, which pays where points are many. All is done for a few outputs after the other, while
//! their weights are near the processor; threads that are free take some outputs each. What is done together does not depend
//! on them.

use std::ops::Range;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef};
use rayon::prelude::*;

use super::tape::Kept;
use crate::elementary::vectorized;
use crate::linalg::{
    column_slice, column_slice_mut, dot, in_parts, is_worth_sharing, multiply, multiply_with_offsets, share,
};
use crate::map::resize;

/// From this many points and weights on it is faster: by 5 to 20 % at 32 points and 50 × 50 weights, by 15 to 20 at 100 points
/// and up to 1,000 × 1,000 weights, and slower at 16 points.
const POINTS: usize = 32;
const WEIGHTS: usize = 2048;
/// Outputs that are done together.
const TOGETHER: usize = 64;
/// Columns that are looked at for the size of a matrix, about as many where it has more.
const LOOKED_AT: usize = 64;
/// Of s, as a power of two: far from where z₁ could overflow.
const LARGEST_EXPONENT: f64 = 256.0;

/// Whether three products are faster than four.
pub(super) fn is_faster(points: usize, inputs: usize, outputs: usize) -> bool {
    points >= POINTS && inputs.saturating_mul(outputs) >= WEIGHTS
}

/// A layer's Wᵀ or Vᵀ, and its b or v_b; empty without one.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a> {
    pub(super) weights: MatRef<'a, f64>,
    pub(super) biases: &'a [f64],
}

impl<'a> Parameters<'a> {
    /// Those of some outputs.
    fn of(self, outputs: Range<usize>) -> Self {
        let biases = if self.biases.is_empty() { &[] } else { &self.biases[outputs.clone()] };
        Self { weights: self.weights.get(.., outputs), biases }
    }
}

/// Writes z₀ = Wh₀ + b, z₁ = Wh₁ + Vh₀ + v_b and z₂ = Vh₁ (3N rows) from h₀ and h₁ (2N rows). Returns false, with nothing
/// written, where there is no place s: where one of the four is zero or not finite.
pub(super) fn three_products(
    theta: Parameters<'_>,
    velocity: Parameters<'_>,
    inputs: MatRef<'_, f64>,
    outputs: MatMut<'_, f64>,
    kept: &mut Kept,
) -> bool {
    let n = outputs.nrows() / 3;
    let (h0, h1) = inputs.split_at_row(n);
    let Some(s) = place([theta.weights, velocity.weights, h0, h1]) else { return false };
    let work = n as f64 * h0.ncols() as f64 * outputs.ncols() as f64;
    let threads = if is_worth_sharing(work) { rayon::current_num_threads() } else { 1 };
    let each = outputs.ncols().div_ceil(threads).next_multiple_of(TOGETHER);
    let Kept { mixed: h, sums: room, .. } = kept;
    resize(h, n, h0.ncols());
    resize(room, h0.ncols(), TOGETHER * threads);
    add_multiple(s, h0, h1, h.as_mut());
    let h = h.as_ref();
    let some = |first: usize, mut outputs: MatMut<'_, f64>, mut sums: MatMut<'_, f64>| {
        for start in (0..outputs.ncols()).step_by(TOGETHER) {
            let end = (start + TOGETHER).min(outputs.ncols());
            let (theta, velocity) = (theta.of(first + start..first + end), velocity.of(first + start..first + end));
            let mut sums = sums.rb_mut().get_mut(.., ..end - start);
            add_multiple(s, theta.weights, velocity.weights, sums.rb_mut());
            let outputs = outputs.rb_mut().get_mut(.., start..end);
            let (mut z0, rest) = outputs.split_at_row_mut(n);
            let (mut z1, mut z2) = rest.split_at_row_mut(n);
            multiply(z0.rb_mut(), Accum::Replace, h0, theta.weights);
            multiply(z2.rb_mut(), Accum::Replace, h1, velocity.weights);
            multiply(z1.rb_mut(), Accum::Replace, h, sums.rb());
            for (o, ((z0, z1), z2)) in z0.col_iter_mut().zip(z1.col_iter_mut()).zip(z2.col_iter()).enumerate() {
                let biases = [theta, velocity].map(|of| of.biases.get(o).copied().unwrap_or(0.0));
                separate(s, biases, column_slice_mut(z0), column_slice_mut(z1), column_slice(z2));
            }
        }
    };
    if threads == 1 {
        some(0, outputs, room.as_mut());
    } else {
        let parts = outputs.par_col_chunks_mut(each).zip(room.as_mut().par_col_chunks_mut(TOGETHER));
        share(|| parts.enumerate().for_each(|(index, (outputs, sums))| some(index * each, outputs, sums)));
    }
    true
}

/// s, a power of two, so that multiplying by it is exact.
fn place(factors: [MatRef<'_, f64>; 4]) -> Option<f64> {
    let [weights, change, h0, h1] = factors.map(|factor| {
        let looked_at = (0..factor.ncols()).step_by((factor.ncols() / LOOKED_AT).max(1));
        let squares: f64 = looked_at.map(|j| column_slice(factor.col(j))).map(|column| dot(column, column)).sum();
        squares.sqrt()
    });
    let exponent = (0.5 * ((weights / change).log2() + (h0 / h1).log2())).round();
    (exponent.abs() < LARGEST_EXPONENT).then(|| exponent.exp2())
}

/// out = a + factor·b.
fn add_multiple(factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>, out: MatMut<'_, f64>) {
    for ((a, b), out) in a.col_iter().zip(b.col_iter()).zip(out.col_iter_mut()) {
        let (a, b, out) = (column_slice(a), column_slice(b), column_slice_mut(out));
        vectorized(
            #[inline(always)]
            || {
                for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                    *out = a + factor * b;
                }
            },
        );
    }
}

/// z₁ = (p − z₀)/s − s z₂ in place of p, and then the biases of z₀ and z₁.
fn separate(s: f64, biases: [f64; 2], z0: &mut [f64], z1: &mut [f64], z2: &[f64]) {
    let inverse = 1.0 / s;
    vectorized(
        #[inline(always)]
        || {
            for ((z0, z1), z2) in z0.iter_mut().zip(z1).zip(z2) {
                *z1 = (*z1 - *z0) * inverse - s * z2 + biases[1];
                *z0 += biases[0];
            }
        },
    );
}

/// Writes z₀, z₁ and z₂ of one tap, as many of them as the outputs have room for.
pub(super) fn sums(
    (parameters, change): (Parameters<'_>, Option<Parameters<'_>>),
    n: usize,
    inputs: MatRef<'_, f64>,
    mut outputs: MatMut<'_, f64>,
    kept: &mut Kept,
    leaves: bool,
) {
    let (rows, moving) = (outputs.nrows(), inputs.nrows() > n);
    let weights = parameters.weights;
    let (h0, mut z0) = (inputs.get(..n, ..), outputs.rb_mut().get_mut(..n, ..));
    let Some(change) = change else {
        return plain_sums(parameters, n, inputs, outputs);
    };
    if rows == n {
        return multiply_with_offsets(z0, parameters.biases, h0, weights);
    }
    if !moving || rows == 2 * n {
        multiply_with_offsets(z0.rb_mut(), parameters.biases, h0, weights);
        let mut z1 = outputs.rb_mut().get_mut(n..2 * n, ..);
        multiply_with_offsets(z1.rb_mut(), change.biases, part_of(h0, change.weights), change.weights);
        if moving {
            multiply(z1, Accum::Add, inputs.get(n..2 * n, ..), weights);
        }
        let second = outputs.get_mut(2 * n.., ..);
        return in_parts(second.nrows() * second.ncols(), second, |_, second| {
            second.col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
        });
    }
    let slopes = inputs.get(..2 * n, ..);
    let wide = is_faster(n, weights.nrows(), weights.ncols()) && change.weights.nrows() > 0;
    if wide && three_products(parameters, change, slopes, outputs.rb_mut(), kept) {
        if !leaves {
            multiply(outputs.get_mut(2 * n.., ..), Accum::Add, inputs.get(2 * n.., ..), weights);
        }
        return;
    }
    for (o, column) in outputs.rb_mut().col_iter_mut().enumerate() {
        let (z0, rest) = column_slice_mut(column).split_at_mut(n);
        let (z1, z2) = rest.split_at_mut(n);
        z0.fill(parameters.biases.get(o).copied().unwrap_or(0.0));
        z1.fill(change.biases.get(o).copied().unwrap_or(0.0));
        z2.fill(0.0);
    }
    let own = if leaves { 2 * n } else { 3 * n };
    multiply(outputs.rb_mut().get_mut(..own, ..), Accum::Add, inputs.get(..own, ..), weights);
    if change.weights.nrows() > 0 {
        multiply(outputs.get_mut(n.., ..), Accum::Add, slopes, change.weights);
    }
}

/// No columns where the weights do not move.
fn part_of<'a>(inputs: MatRef<'a, f64>, weights: MatRef<'_, f64>) -> MatRef<'a, f64> {
    inputs.get(.., ..weights.nrows())
}

/// The same for parameters that do not move: W on every coefficient, and b.
fn plain_sums(parameters: Parameters<'_>, n: usize, inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>) {
    let rows = outputs.nrows().min(inputs.nrows());
    multiply_with_offsets(
        outputs.rb_mut().get_mut(..n, ..),
        parameters.biases,
        inputs.get(..n, ..),
        parameters.weights,
    );
    multiply(outputs.rb_mut().get_mut(n..rows, ..), Accum::Replace, inputs.get(n..rows, ..), parameters.weights);
    outputs.get_mut(rows.max(n).., ..).fill(0.0);
}

#[cfg(test)]
mod tests {
    use faer::Mat;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    /// N points, inputs, outputs, and the sizes of W, V, h₀ and h₁.
    type Case = (usize, usize, usize, [f64; 4]);

    struct Problem {
        weights: [Mat<f64>; 2],
        biases: [Vec<f64>; 2],
        inputs: Mat<f64>,
    }

    impl Problem {
        fn new((n, inputs, outputs, sizes): Case, biases: usize) -> Self {
            let mut generator = ChaCha8Rng::seed_from_u64(7);
            let mut normal = |size: f64| {
                let draw: f64 = StandardNormal.sample(&mut generator);
                size * draw
            };
            let weights = [sizes[0], sizes[1]].map(|size| Mat::from_fn(inputs, outputs, |_, _| normal(size)));
            let biases = [(); 2].map(|()| (0..biases).map(|_| normal(1.0)).collect());
            let inputs = Mat::from_fn(2 * n, inputs, |i, _| normal(sizes[2 + usize::from(i >= n)]));
            Self { weights, biases, inputs }
        }

        fn solve(&self) -> Option<Mat<f64>> {
            let mut outputs = Mat::zeros(self.inputs.nrows() / 2 * 3, self.weights[0].ncols());
            let [theta, velocity] =
                [0, 1].map(|at| Parameters { weights: self.weights[at].as_ref(), biases: &self.biases[at] });
            let mut kept = Kept::nothing();
            three_products(theta, velocity, self.inputs.as_ref(), outputs.as_mut(), &mut kept).then_some(outputs)
        }

        /// The largest error of z₀, z₁ and z₂, each relative to the sizes of its terms.
        fn errors(&self, outputs: &Mat<f64>) -> [f64; 3] {
            let n = outputs.nrows() / 3;
            let [w, v] = &self.weights;
            let mut errors = [0.0_f64; 3];
            for o in 0..w.ncols() {
                let [b, v_b] = [0, 1].map(|at| self.biases[at].get(o).copied().unwrap_or(0.0));
                for point in 0..n {
                    let (h0, h1) = (self.inputs.row(point), self.inputs.row(n + point));
                    let terms: Vec<[f64; 4]> = (0..w.nrows())
                        .map(|i| [w[(i, o)] * h0[i], w[(i, o)] * h1[i], v[(i, o)] * h0[i], v[(i, o)] * h1[i]])
                        .collect();
                    let sum = |k: usize| terms.iter().map(|terms| terms[k]).sum::<f64>();
                    let size = |k: usize| terms.iter().map(|terms| terms[k].powi(2)).sum::<f64>().sqrt();
                    let expected = [sum(0) + b, sum(1) + sum(2) + v_b, sum(3)];
                    let scales = [size(0) + b.abs(), size(1) + size(2) + v_b.abs(), size(3)];
                    for k in 0..3 {
                        let error = (outputs[(k * n + point, o)] - expected[k]).abs() / scales[k];
                        errors[k] = errors[k].max(error);
                    }
                }
            }
            errors
        }
    }

    #[test]
    fn three_products_are_four_up_to_rounding_at_any_sizes() {
        let sizes = [[1.0; 4], [1e3, 1e-6, 1.0, 1e-9], [1e-5, 1e4, 1e-3, 1e5], [1e-80, 1.0, 1.0, 1e60]];
        for (at, sizes) in sizes.into_iter().enumerate() {
            for (n, inputs, outputs, biases) in [(32, 50, 47, 47), (40, 33, 130, 0)] {
                let problem = Problem::new((n, inputs, outputs, sizes), biases);
                let errors = problem.errors(&problem.solve().expect("a place"));
                assert!(errors.iter().all(|error| *error < 1e-14), "sizes {at}: {errors:?}");
            }
        }
    }

    /// Zero or not finite: the plain products say what it is.
    #[test]
    fn without_a_place_nothing_is_written() {
        for size in [0.0, f64::NAN, f64::INFINITY] {
            for which in 0..4 {
                let mut sizes = [1.0; 4];
                sizes[which] = size;
                assert!(Problem::new((32, 48, 48, sizes), 48).solve().is_none(), "{size} for {which}");
            }
        }
        assert!(Problem::new((32, 48, 48, [1e-300, 1e300, 1e-300, 1e300]), 0).solve().is_none());
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let problem = Problem::new((70, 240, 250, [1.0, 20.0, 0.5, 3.0]), 250);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        // Inside of a pool threads are not free; outside they share the outputs.
        let alone = pool.install(|| problem.solve());
        assert!(alone.is_some() && alone == problem.solve());
    }
}
