//! A hinge with its kink rounded, the layer of a network whose metric is smooth: relu becomes zΦ(z/ε), with its own width
//! ε for every unit, and a hinge with slope λ on the left λz + (1 − λ)zΦ(z/ε).
//!
//! Φ is the standard normal distribution function. As ε → 0 it is the hinge itself, and at |z| > 9ε the two agree to
//! rounding. With g = gelu and u = z/ε: φ = λz + (1 − λ)ε g(u), φ′ = λ + (1 − λ)g′(u), φ″ = (1 − λ)g″(u)/ε.

use faer::MatMut;

use super::activation::{pull_back_slopes, pull_back_slopes_along};
use crate::linalg::column_slice_mut;
use crate::map::resize;
use crate::network::activation::Activation;
use crate::network::activation::jets::gelu;
use crate::network::activation::loops::{replace_tangent, replace_taylor, replace_with_slope};
use crate::network::layer::Elementwise;
use crate::network::tape::Kept;

/// A relu or leaky_relu whose kink is rounded over a width of its own for every unit.
///
/// Such layers are made by [`Model::smoothed`](crate::map::Model::smoothed), for the metric alone, and are never saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Smoothed {
    activation: Activation,
    /// λ.
    left: f64,
    /// ε of each unit.
    widths: Vec<f64>,
}

impl Smoothed {
    /// The activation with its kink rounded, one positive width per unit; `None` for an activation without kink.
    pub fn new(activation: Activation, widths: Vec<f64>) -> Option<Self> {
        debug_assert!(widths.iter().all(|width| *width > 0.0));
        Some(Self { activation, left: activation.slope_left_of_hinge()?, widths })
    }

    /// The activation that is rounded.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// λ, its slope on the left.
    pub fn left(&self) -> f64 {
        self.left
    }

    /// ε of each unit.
    pub fn widths(&self) -> &[f64] {
        &self.widths
    }

    /// z → (φ, φ′, φ″) of a unit with this width.
    #[inline(always)]
    fn jet(&self, width: f64) -> impl Fn(f64) -> (f64, f64, f64) {
        let (left, bend, inverse) = (self.left, 1.0 - self.left, 1.0 / width);
        #[inline(always)]
        move |z| {
            let (value, slope, second) = gelu(z * inverse);
            (left * z + bend * width * value, left + bend * slope, bend * inverse * second)
        }
    }
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
            replace_with_slope(self.jet(*width), column_slice_mut(values), column_slice_mut(slopes));
        }
    }

    fn jet(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let n = values.nrows() / 3;
        let columns = values.col_iter_mut().zip(kept.matrix.col_iter_mut());
        for ((values, slopes), width) in columns.zip(&self.widths) {
            let (z0, rest) = column_slice_mut(values).split_at_mut(n);
            let (z1, z2) = rest.split_at_mut(n);
            replace_taylor(self.jet(*width), [z0, z1, z2], column_slice_mut(slopes));
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
            replace_tangent(self.jet(*width), [z0, z1], column_slice_mut(slopes), column_slice_mut(bends));
        }
    }

    fn pull_back_along(&self, sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept) {
        pull_back_slopes_along(sensitivities, along, kept);
    }
}
