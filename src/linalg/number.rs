//! The numbers of a matrix: f64, or f32 where it will only precondition and half the time is worth more than the digits.

use faer::traits::RealField;
use faer::{Accum, MatMut, MatRef};

use super::{add_products, multiply, parallelism, products};
use crate::elementary::vectorized;

/// What sums of products of f64 numbers may be kept in.
pub trait Number: RealField + Copy + Default + Send + Sync + std::ops::Add<Output = Self> {
    /// The nearest number.
    fn of(value: f64) -> Self;
    /// y ← w ∘ x.
    fn products(w: &[f64], x: &[f64], y: &mut [Self]);
    /// y ← y + w ∘ x.
    fn add_products(w: &[f64], x: &[f64], y: &mut [Self]);
    /// dst ← beta·dst + lhs·rhs, with beta 0 ([`Accum::Replace`]) or 1 ([`Accum::Add`]).
    fn multiply(dst: MatMut<'_, Self>, accumulate: Accum, lhs: MatRef<'_, Self>, rhs: MatRef<'_, Self>);
}

impl Number for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn products(w: &[f64], x: &[f64], y: &mut [Self]) {
        products(w, x, y);
    }

    fn add_products(w: &[f64], x: &[f64], y: &mut [Self]) {
        add_products(w, x, y);
    }

    fn multiply(dst: MatMut<'_, Self>, accumulate: Accum, lhs: MatRef<'_, Self>, rhs: MatRef<'_, Self>) {
        multiply(dst, accumulate, lhs, rhs);
    }
}

impl Number for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }

    fn products(w: &[f64], x: &[f64], y: &mut [Self]) {
        vectorized(
            #[inline(always)]
            || {
                for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
                    *y = (w * x) as f32;
                }
            },
        );
    }

    fn add_products(w: &[f64], x: &[f64], y: &mut [Self]) {
        vectorized(
            #[inline(always)]
            || {
                for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
                    *y += (w * x) as f32;
                }
            },
        );
    }

    fn multiply(dst: MatMut<'_, Self>, accumulate: Accum, lhs: MatRef<'_, Self>, rhs: MatRef<'_, Self>) {
        let work = lhs.nrows() as f64 * lhs.ncols() as f64 * rhs.ncols() as f64;
        faer::linalg::matmul::matmul(dst, accumulate, lhs, rhs, 1.0, parallelism(work));
    }
}
