//! An activation with its kink rounded, the layer of a network whose metric is smooth: relu becomes zΦ(z/ε), with its own
//! width ε for every unit, and any other kink at 0 l(z)Φ(−z/ε) + r(z)Φ(z/ε), with l and r its branches: λz and z for
//! leaky_relu, eᶻ − 1 and z for elu.
//!
//! Φ is the standard normal distribution function. As ε → 0 it is the activation itself, and at |z| > 9ε the two agree
//! to rounding. For a hinge with g = gelu and u = z/ε: φ = λz + (1 − λ)ε g(u), φ′ = λ + (1 − λ)g′(u), φ″ = (1 −
//! λ)g″(u)/ε. elu's slope is continuous and only its second derivative jumps: its geodesics exist unrounded, but every
//! crossing stops an integrator of high order.

use faer::MatMut;

use super::activation::{pull_back_slopes, pull_back_slopes_along};
use crate::linalg::column_slice_mut;
use crate::map::resize;
use crate::network::activation::Activation;
use crate::network::activation::jets::{gelu, rounded_elu};
use crate::network::activation::loops::{replace_tangent, replace_taylor, replace_with_slope};
use crate::network::layer::Elementwise;
use crate::network::tape::Kept;

/// A relu, leaky_relu or elu whose kink is rounded over a width of its own for every unit.
///
/// Such layers are made by [`Model::smoothed`](crate::map::Model::smoothed), for the metric alone, and are never saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Smoothed {
    activation: Activation,
    /// λ; none for elu.
    left: Option<f64>,
    /// ε of each unit.
    widths: Vec<f64>,
}

impl Smoothed {
    /// The activation with its kink rounded, one positive width per unit; `None` for an activation without kink.
    pub fn new(activation: Activation, widths: Vec<f64>) -> Option<Self> {
        debug_assert!(widths.iter().all(|width| *width > 0.0));
        activation.has_kink().then(|| Self { activation, left: activation.slope_left_of_hinge(), widths })
    }

    /// The activation that is rounded.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// ε of each unit.
    pub fn widths(&self) -> &[f64] {
        &self.widths
    }
}

/// z → (φ, φ′, φ″) of a hinge with slope λ on the left.
#[inline(always)]
pub(super) fn hinge(left: f64, width: f64) -> impl Fn(f64) -> (f64, f64, f64) {
    let (bend, inverse) = (1.0 - left, 1.0 / width);
    #[inline(always)]
    move |z| {
        let (value, slope, second) = gelu(z * inverse);
        (left * z + bend * width * value, left + bend * slope, bend * inverse * second)
    }
}

/// z → (φ, φ′, φ″) of elu.
#[inline(always)]
fn elu(width: f64) -> impl Fn(f64) -> (f64, f64, f64) {
    #[inline(always)]
    move |z| rounded_elu(z, width)
}

impl Elementwise for Smoothed {
    fn description(&self) -> String {
        format!("smoothed {}", self.activation)
    }

    fn has_kink(&self) -> bool {
        false
    }

    fn kept(&self, width: usize, points: usize) -> Kept {
        Kept::matrix(points, width)
    }

    fn kept_size(&self, width: usize, points: usize) -> f64 {
        points as f64 * width as f64
    }

    fn forward(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let columns = values.col_iter_mut().zip(kept.matrix.col_iter_mut());
        for ((values, slopes), width) in columns.zip(&self.widths) {
            let (values, slopes) = (column_slice_mut(values), column_slice_mut(slopes));
            match self.left {
                Some(left) => replace_with_slope(hinge(left, *width), values, slopes),
                None => replace_with_slope(elu(*width), values, slopes),
            }
        }
    }

    fn jet(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let n = values.nrows() / 3;
        let columns = values.col_iter_mut().zip(kept.matrix.col_iter_mut());
        for ((values, slopes), width) in columns.zip(&self.widths) {
            let (z0, rest) = column_slice_mut(values).split_at_mut(n);
            let (z1, z2) = rest.split_at_mut(n);
            let slopes = column_slice_mut(slopes);
            match self.left {
                Some(left) => replace_taylor(hinge(left, *width), [z0, z1, z2], slopes),
                None => replace_taylor(elu(*width), [z0, z1, z2], slopes),
            }
        }
    }

    fn pull_back(&self, sensitivities: MatMut<'_, f64>, kept: &Kept) {
        pull_back_slopes(sensitivities, kept);
    }

    fn forward_along(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let n = values.nrows() / 2;
        resize(&mut kept.along, n, values.ncols());
        let columns = values.col_iter_mut().zip(kept.matrix.col_iter_mut()).zip(kept.along.col_iter_mut());
        for (((values, slopes), bends), width) in columns.zip(&self.widths) {
            let (z0, z1) = column_slice_mut(values).split_at_mut(n);
            let (slopes, bends) = (column_slice_mut(slopes), column_slice_mut(bends));
            match self.left {
                Some(left) => replace_tangent(hinge(left, *width), [z0, z1], slopes, bends),
                None => replace_tangent(elu(*width), [z0, z1], slopes, bends),
            }
        }
    }

    fn pull_back_along(&self, sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept) {
        pull_back_slopes_along(sensitivities, along, kept);
    }
}
