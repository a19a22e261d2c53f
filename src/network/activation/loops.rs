//! The loops over slices that carry a jet z → (φ, φ′, φ″) through an elementwise layer. Inlined, so that each is compiled
//! once per jet and becomes vector code.

use super::jets::Jet;
use crate::elementary::vectorized;

/// Replaces every z by φ(z) and writes φ′(z).
#[inline(always)]
pub(in super::super) fn replace_with_slope(jet: impl Fn(f64) -> Jet, values: &mut [f64], slopes: &mut [f64]) {
    debug_assert_eq!(values.len(), slopes.len());
    in_whole_vectors(
        [values, slopes],
        #[inline(always)]
        |[values, slopes]| {
            for (value, slope) in values.iter_mut().zip(slopes) {
                (*value, *slope, _) = jet(*value);
            }
        },
    );
}

/// Replaces the Taylor coefficients z₀, z₁, z₂ by φ(z₀), φ′z₁ and φ′z₂ + ½φ″z₁², and writes φ′(z₀).
#[inline(always)]
pub(in super::super) fn replace_taylor(jet: impl Fn(f64) -> Jet, [z0, z1, z2]: [&mut [f64]; 3], slopes: &mut [f64]) {
    debug_assert!(z0.len() == z1.len() && z0.len() == z2.len() && z0.len() == slopes.len());
    in_whole_vectors(
        [z0, z1, z2, slopes],
        #[inline(always)]
        |[z0, z1, z2, slopes]| {
            for (((z0, z1), z2), slope_out) in z0.iter_mut().zip(z1).zip(z2).zip(slopes) {
                let (value, slope, second) = jet(*z0);
                *z2 = slope * *z2 + 0.5 * second * *z1 * *z1;
                *z1 *= slope;
                (*z0, *slope_out) = (value, slope);
            }
        },
    );
}

/// Replaces the Taylor coefficients z₀, z₁ by φ(z₀) and φ′z₁, and writes φ′(z₀) and φ″z₁.
#[inline(always)]
pub(in super::super) fn replace_tangent(
    jet: impl Fn(f64) -> Jet,
    [z0, z1]: [&mut [f64]; 2],
    slopes: &mut [f64],
    bends: &mut [f64],
) {
    debug_assert!(z0.len() == z1.len() && z0.len() == slopes.len() && z0.len() == bends.len());
    in_whole_vectors(
        [z0, z1, slopes, bends],
        #[inline(always)]
        |[z0, z1, slopes, bends]| {
            for (((z0, z1), slope_out), change_out) in z0.iter_mut().zip(z1).zip(slopes).zip(bends) {
                let (value, slope, second) = jet(*z0);
                (*slope_out, *change_out) = (slope, second * *z1);
                (*z0, *z1) = (value, slope * *z1);
            }
        },
    );
}

/// Runs an elementwise loop over slices of equal length, the last few entries in arrays of a vector's length: one by
/// one they would take many times as long.
#[inline(always)]
fn in_whole_vectors<const K: usize>(slices: [&mut [f64]; K], work: impl Fn([&mut [f64]; K])) {
    const LANES: usize = 8;
    let length = slices.iter().map(|slice| slice.len()).min().unwrap_or(0);
    let whole = length - length % LANES;
    vectorized(
        #[inline(always)]
        || {
            let mut tails = [[0.0; LANES]; K];
            let mut parts = slices.map(|slice| slice[..length].split_at_mut(whole));
            for (tail, part) in tails.iter_mut().zip(&parts) {
                tail[..part.1.len()].copy_from_slice(part.1);
            }
            work(parts.each_mut().map(|part| &mut *part.0));
            if whole < length {
                work(tails.each_mut().map(|tail| tail.as_mut_slice()));
                for (tail, part) in tails.iter().zip(&mut parts) {
                    part.1.copy_from_slice(&tail[..part.1.len()]);
                }
            }
        },
    );
}
