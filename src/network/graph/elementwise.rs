//! Functions of single entries, h = φ(z), with φ′ and φ″: along a velocity h₀ = φ(z₀), h₁ = φ′z₁, h₂ = φ′z₂ + ½φ″z₁².
//!
//! A node works in place where nothing else reads its input. It keeps the slopes φ′ (N × width), with which sensitivities pull
//! back to δ∘φ′, and along a velocity also φ″z₁: δ̇ becomes δ̇∘φ′ + δ∘φ″z₁.

use faer::MatMut;
use serde::{Deserialize, Serialize};

use super::rounded::{Rounded, elu, hinge, step};
use super::tape::Kept;
use crate::linalg::{add_products, column_slice, column_slice_mut, in_parts, scale_by};
use crate::map::resize;
use crate::network::Activation;
use crate::network::activation::{jets, loops, with_jet};

/// A function of single entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Function {
    /// One of the activations.
    Activation(Activation),
    /// eᶻ.
    Exp,
    /// log z.
    Log,
    /// √z.
    Sqrt,
    /// 1/z.
    Reciprocal,
    /// zᵖ.
    Power(f64),
    /// 2/√π ∫₀ᶻ e^(−t²) dt.
    Erf,
    /// cos z.
    Cos,
    /// arctan z.
    Atan,
    /// 1 for z > 0, else 0.
    Step,
    /// A kink rounded over a width of its own for every unit, for the metric alone; never saved.
    #[serde(skip)]
    Rounded(Rounded),
}

impl From<Activation> for Function {
    fn from(activation: Activation) -> Self {
        Self::Activation(activation)
    }
}

/// Calls a loop over slices with the function's z → (φ, φ′, φ″), compiled once per function.
macro_rules! dispatch {
    ($function:expr, $column:expr, $loop:ident($($argument:expr),*)) => {
        match $function {
            Function::Activation(activation) => with_jet!(*activation, jet => loops::$loop(jet, $($argument),*)),
            Function::Exp => loops::$loop(|z| { let e = z.exp(); (e, e, e) }, $($argument),*),
            Function::Log => loops::$loop(|z| (z.ln(), 1.0 / z, -1.0 / (z * z)), $($argument),*),
            Function::Sqrt => loops::$loop(power(0.5), $($argument),*),
            Function::Reciprocal => loops::$loop(power(-1.0), $($argument),*),
            Function::Power(exponent) => loops::$loop(power(*exponent), $($argument),*),
            Function::Erf => loops::$loop(erf, $($argument),*),
            Function::Cos => loops::$loop(cos, $($argument),*),
            Function::Atan => loops::$loop(atan, $($argument),*),
            Function::Step => loops::$loop(|z| (if z > 0.0 { 1.0 } else { 0.0 }, 0.0, 0.0), $($argument),*),
            Function::Rounded(rounded) => {
                let width = rounded.width($column);
                match rounded.function() {
                    Function::Step => loops::$loop(step(width), $($argument),*),
                    Function::Activation(Activation::Elu) => loops::$loop(elu(width), $($argument),*),
                    _ => loops::$loop(hinge(rounded.left(), width), $($argument),*),
                }
            }
        }
    };
}

/// z → (zᵖ, p zᵖ⁻¹, p(p − 1) zᵖ⁻²).
fn power(exponent: f64) -> impl Fn(f64) -> jets::Jet {
    let whole = exponent.fract() == 0.0 && exponent.abs() < 64.0;
    let raise = move |z: f64, by: f64| match whole {
        true => z.powi((exponent - by) as i32),
        false if exponent == 0.5 || exponent == -0.5 => {
            let root = z.sqrt();
            (if exponent > 0.0 { root } else { 1.0 / root }) * z.powi(-(by as i32))
        }
        false => z.powf(exponent - by),
    };
    // A factor of zero stands for a term that is not there.
    let term = move |factor: f64, z: f64, by: f64| if factor == 0.0 { 0.0 } else { factor * raise(z, by) };
    move |z| (raise(z, 0.0), term(exponent, z, 1.0), term(exponent * (exponent - 1.0), z, 2.0))
}

fn erf(z: f64) -> jets::Jet {
    let slope = std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp();
    (libm::erf(z), slope, -2.0 * z * slope)
}

fn cos(z: f64) -> jets::Jet {
    let (sine, cosine) = libm::sincos(z);
    (cosine, -sine, -cosine)
}

fn atan(z: f64) -> jets::Jet {
    let slope = 1.0 / (1.0 + z * z);
    (z.atan(), slope, -2.0 * z * slope * slope)
}

impl Function {
    /// The name, for people.
    pub fn description(&self) -> String {
        match self {
            Self::Activation(activation) => activation.to_string(),
            Self::Exp => "exp".to_string(),
            Self::Log => "log".to_string(),
            Self::Sqrt => "sqrt".to_string(),
            Self::Reciprocal => "reciprocal".to_string(),
            Self::Power(exponent) => format!("power {exponent}"),
            Self::Erf => "erf".to_string(),
            Self::Cos => "cos".to_string(),
            Self::Atan => "atan".to_string(),
            Self::Step => "step".to_string(),
            Self::Rounded(rounded) => format!("smoothed {}", rounded.function().description()),
        }
    }

    pub(super) fn width(&self, input: usize) -> Result<usize, String> {
        match self {
            Self::Power(exponent) if !exponent.is_finite() => Err(format!("has the exponent {exponent}")),
            Self::Rounded(rounded) if rounded.widths().len() != input => {
                Err(format!("has {} widths for {input} values", rounded.widths().len()))
            }
            _ => Ok(input),
        }
    }

    /// Whether the first or the second derivative jumps.
    pub fn has_kink(&self) -> bool {
        match self {
            Self::Activation(activation) => activation.has_kink(),
            Self::Step => true,
            _ => false,
        }
    }

    /// (φ(z), φ′(z), φ″(z)) of the unit with this number.
    pub fn derivatives(&self, unit: usize, z: f64) -> (f64, f64, f64) {
        let (mut z0, mut z1, mut z2, mut slope) = ([z], [1.0], [0.0], [0.0]);
        self.replace_taylor(unit, [&mut z0, &mut z1, &mut z2], &mut slope);
        (z0[0], slope[0], 2.0 * z2[0])
    }

    fn replace_taylor(&self, column: usize, z: [&mut [f64]; 3], slopes: &mut [f64]) {
        dispatch!(self, column, replace_taylor(z, slopes));
    }

    /// Replaces the Taylor coefficients of the values (one, two or three blocks of N rows), and keeps what the pull-backs need.
    pub(super) fn forward(&self, points: usize, values: MatMut<'_, f64>, kept: &mut Kept) {
        let (rows, columns) = (values.nrows(), values.ncols());
        resize(&mut kept.slopes, points, columns);
        if rows == 2 * points {
            return self.forward_along(points, values, kept);
        }
        in_parts(rows * columns, (values, kept.slopes.as_mut()), |first, (values, slopes)| {
            for (column, (values, slopes)) in (first..).zip(values.col_iter_mut().zip(slopes.col_iter_mut())) {
                let (z0, rest) = column_slice_mut(values).split_at_mut(points);
                let slopes = column_slice_mut(slopes);
                if rest.is_empty() {
                    dispatch!(self, column, replace_with_slope(z0, slopes));
                } else {
                    let (z1, z2) = rest.split_at_mut(points);
                    self.replace_taylor(column, [z0, z1, z2], slopes);
                }
            }
        });
    }

    fn forward_along(&self, points: usize, values: MatMut<'_, f64>, kept: &mut Kept) {
        resize(&mut kept.bends, points, values.ncols());
        let columns = values.col_iter_mut().zip(kept.slopes.col_iter_mut()).zip(kept.bends.col_iter_mut());
        for (column, ((values, slopes), bends)) in columns.enumerate() {
            let (z0, z1) = column_slice_mut(values).split_at_mut(points);
            let (slopes, bends) = (column_slice_mut(slopes), column_slice_mut(bends));
            dispatch!(self, column, replace_tangent([z0, z1], slopes, bends));
        }
    }
}

/// δ ← δ∘φ′.
pub(super) fn pull_back(sensitivities: MatMut<'_, f64>, kept: &Kept) {
    let numbers = sensitivities.nrows() * sensitivities.ncols();
    in_parts(numbers, (sensitivities, kept.slopes.as_ref()), |_, (sensitivities, slopes)| {
        for (deltas, slopes) in sensitivities.col_iter_mut().zip(slopes.col_iter()) {
            let slopes = column_slice(slopes);
            for block in column_slice_mut(deltas).chunks_exact_mut(slopes.len().max(1)) {
                scale_by(slopes, block);
            }
        }
    });
}

/// δ̇ ← δ̇∘φ′ + δ∘φ″z₁ and δ ← δ∘φ′.
pub(super) fn pull_back_along(sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept) {
    let kept = kept.slopes.col_iter().zip(kept.bends.col_iter());
    for ((deltas, along), (slopes, bends)) in sensitivities.col_iter_mut().zip(along.col_iter_mut()).zip(kept) {
        let (slopes, bends) = (column_slice(slopes), column_slice(bends));
        let n = slopes.len().max(1);
        let blocks = column_slice_mut(deltas).chunks_exact_mut(n).zip(column_slice_mut(along).chunks_exact_mut(n));
        for (deltas, along) in blocks {
            scale_by(slopes, along);
            add_products(deltas, bends, along);
            scale_by(slopes, deltas);
        }
    }
}
