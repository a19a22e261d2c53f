//! Loops over slices of equal length, compiled for the widest vectors that the processor has. None uses a fused
//! multiply-add, so that the bits are the same on all processors.

use crate::elementary::vectorized;

/// y ← constant + factor·x.
pub fn affine(constant: f64, factor: f64, x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y = constant + factor * x;
            }
        },
    );
}

/// y ← y + factor·x.
pub fn add_scaled(factor: f64, x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y += factor * x;
            }
        },
    );
}

/// y ← y ∘ x.
pub fn scale_by(x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y *= x;
            }
        },
    );
}

/// y ← w ∘ x.
pub fn products(w: &[f64], x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
                *y = w * x;
            }
        },
    );
}

/// y ← y + w ∘ x.
pub fn add_products(w: &[f64], x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
                *y += w * x;
            }
        },
    );
}

/// y ← y + factor·(w + shift) ∘ x.
pub fn add_shifted_products(factor: f64, shift: f64, w: &[f64], x: &[f64], y: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || {
            for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
                *y += factor * (w + shift) * x;
            }
        },
    );
}

/// Partial sums of a reduction: enough to keep the adders busy, and always the same number, so that the order of the
/// additions, and with it the result, is the same on every processor.
const LANES: usize = 32;

/// Adds up the partial sums in a fixed order.
#[inline(always)]
fn fold(mut sums: [f64; LANES]) -> f64 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for k in 0..width {
            sums[k] += sums[k + width];
        }
    }
    sums[0]
}

/// xᵀy.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (x_chunks, y_chunks) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let tails = (x_chunks.remainder(), y_chunks.remainder());
    vectorized(
        #[inline(always)]
        || {
            let mut sums = [0.0; LANES];
            for (a, b) in x_chunks.zip(y_chunks) {
                for k in 0..LANES {
                    sums[k] += a[k] * b[k];
                }
            }
            for ((sum, a), b) in sums.iter_mut().zip(tails.0).zip(tails.1) {
                *sum += a * b;
            }
            fold(sums)
        },
    )
}

/// Σ xᵢ, in a fixed order.
pub fn sum(x: &[f64]) -> f64 {
    let chunks = x.chunks_exact(LANES);
    let tail = chunks.remainder();
    vectorized(
        #[inline(always)]
        || {
            let mut sums = [0.0; LANES];
            for a in chunks {
                for k in 0..LANES {
                    sums[k] += a[k];
                }
            }
            for (sum, a) in sums.iter_mut().zip(tail) {
                *sum += a;
            }
            fold(sums)
        },
    )
}

/// ‖x‖₂, without overflow for finite input of ordinary size.
pub fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_reaches_the_last_entry() {
        // Whole numbers: sums are exact in any order.
        for length in [0, 1, 7, 31, 32, 33, 150] {
            let x: Vec<f64> = (0..length).map(|k| f64::from(k % 7) - 2.0).collect();
            let w: Vec<f64> = (0..length).map(|k| f64::from(k % 5) + 1.0).collect();
            assert_eq!(sum(&x), x.iter().sum::<f64>());
            assert_eq!(dot(&x, &w), x.iter().zip(&w).map(|(x, w)| x * w).sum::<f64>());
            let mut y = vec![1.0; x.len()];
            affine(3.0, 2.0, &x, &mut y);
            add_scaled(-1.0, &x, &mut y);
            scale_by(&w, &mut y);
            add_products(&w, &x, &mut y);
            add_shifted_products(2.0, 1.0, &w, &x, &mut y);
            let expected = |x: f64, w: f64| (3.0 + x) * w + w * x + 2.0 * (w + 1.0) * x;
            assert!(y.iter().zip(&x).zip(&w).all(|((y, x), w)| *y == expected(*x, *w)));
            products(&w, &x, &mut y);
            assert!(y.iter().zip(&x).zip(&w).all(|((y, x), w)| *y == x * w));
        }
    }
}
