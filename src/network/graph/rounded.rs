//! Kinks rounded for the metric: a hinge with slope λ on its left becomes λz + (1 − λ)zΦ(z/ε), elu and the step likewise.
//!
//! As ε → 0 they are the functions themselves, and at |z| > 9ε the two agree to rounding. For a hinge with g = gelu and
//! u = z/ε: φ = λz + (1 − λ)ε g(u), φ′ = λ + (1 − λ)g′(u), φ″ = (1 − λ)g″(u)/ε. The slope of elu is continuous and only its
//! second derivative jumps: its geodesics exist unrounded, but every crossing stops an integrator of high order.

use super::elementwise::Function;
use crate::network::Activation;
use crate::network::activation::jets::{Jet, gelu, rounded_elu, rounded_step};

/// A function whose kink is rounded over a width of its own for every unit.
///
/// Such nodes are made by [`Model::smoothed`](crate::map::Model::smoothed), for the metric alone, and are never saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounded {
    function: Box<Function>,
    /// ε of each unit.
    widths: Vec<f64>,
}

impl Rounded {
    /// The function with its kink rounded, one positive width per unit; `None` for one without kink.
    pub fn new(function: impl Into<Function>, widths: Vec<f64>) -> Option<Self> {
        debug_assert!(widths.iter().all(|width| *width > 0.0));
        let function = function.into();
        function.has_kink().then(|| Self { function: Box::new(function), widths })
    }

    /// The function that is rounded.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// ε of each unit.
    pub fn widths(&self) -> &[f64] {
        &self.widths
    }

    /// ε of one unit.
    pub(super) fn width(&self, unit: usize) -> f64 {
        self.widths.get(unit).copied().unwrap_or(1.0)
    }

    /// λ of a hinge.
    pub(super) fn left(&self) -> f64 {
        match &*self.function {
            Function::Activation(activation) => activation.slope_left_of_hinge().unwrap_or(0.0),
            _ => 0.0,
        }
    }
}

/// z → (φ, φ′, φ″) of a hinge with slope λ on the left.
#[inline(always)]
pub(super) fn hinge(left: f64, width: f64) -> impl Fn(f64) -> Jet {
    let (bend, inverse) = (1.0 - left, 1.0 / width);
    #[inline(always)]
    move |z| {
        let (value, slope, second) = gelu(z * inverse);
        (left * z + bend * width * value, left + bend * slope, bend * inverse * second)
    }
}

/// z → (φ, φ′, φ″) of elu.
#[inline(always)]
pub(super) fn elu(width: f64) -> impl Fn(f64) -> Jet {
    #[inline(always)]
    move |z| rounded_elu(z, width)
}

/// z → (φ, φ′, φ″) of a step.
#[inline(always)]
pub(super) fn step(width: f64) -> impl Fn(f64) -> Jet {
    #[inline(always)]
    move |z| rounded_step(z, width)
}

impl From<Rounded> for Function {
    fn from(rounded: Rounded) -> Self {
        Function::Rounded(rounded)
    }
}

impl Activation {
    /// The activation with its kink rounded over these widths, one per unit; `None` without a kink.
    pub fn rounded(self, widths: Vec<f64>) -> Option<Rounded> {
        Rounded::new(self, widths)
    }
}
