//! One function per activation, z → (φ(z), φ′(z), φ″(z)), without branches so that loops over them become vector code.
//!
//! Sums of exponentials are written in u = e^(−|·|) ≤ 1, which cannot overflow, and differences such as 1 − u as
//! −expm1, which does not cancel. Products like z·s′(z) clamp z to the range where s′ is not yet zero, so that ±∞ is
//! never multiplied by 0.

use crate::elementary::{Exponential, at_least, at_most, product, scaled_normal_tail, softplus as log_1p_exp};

/// φ, φ′ and φ″ at one point.
pub(in super::super) type Jet = (f64, f64, f64);

/// Slope of [`leaky_relu`] for z ≤ 0.
pub(super) const LEAK: f64 = 0.01;
/// e⁻ᶻ is zero from here on.
const LOGISTIC_END: f64 = 746.0;
/// e^(−z²/2) is zero from here on.
const NORMAL_END: f64 = 39.0;
/// 1/√(2π).
const NORMAL_DENSITY_AT_ZERO: f64 = 0.3989422804014327;
/// 2√(2/π) and the part of it that f64 does not hold.
const GELU_LINEAR: (f64, f64) = (1.5957691216057308, -9.96930880911092e-17);
/// 2√(2/π)·0.044715, likewise.
const GELU_CUBIC: (f64, f64) = (0.07135481627260025, -6.175149918155315e-19);

#[inline(always)]
pub(in super::super) fn identity(z: f64) -> Jet {
    (z, 1.0, 0.0)
}

/// With u = e^(−2|z|): |tanh| = (1 − u)/(1 + u), sech² = 4u/(1 + u)².
#[inline(always)]
pub(in super::super) fn tanh(z: f64) -> Jet {
    let exponential = Exponential::of(-2.0 * z.abs());
    let fall = exponential.minus_one();
    // Only one division: divisions cost more than everything else here.
    let inverse = 1.0 / (2.0 + fall);
    let value = (-fall * inverse).copysign(z);
    let slope = exponential.value() * (2.0 * inverse) * (2.0 * inverse);
    (value, slope, -2.0 * value * slope)
}

#[inline(always)]
pub(in super::super) fn relu(z: f64) -> Jet {
    (at_least(z, 0.0), if z > 0.0 { 1.0 } else { 0.0 }, 0.0)
}

/// With u = e^(−|z|): s′ = u/(1 + u)², s″ = −sign(z) s′(1 − u)/(1 + u).
#[inline(always)]
pub(in super::super) fn sigmoid(z: f64) -> Jet {
    logistic(z, Exponential::of(-z.abs()))
}

#[inline(always)]
pub(in super::super) fn softplus(z: f64) -> Jet {
    let (s, s1, _) = sigmoid(z);
    (log_1p_exp(z), s, s1)
}

#[inline(always)]
pub(in super::super) fn silu(z: f64) -> Jet {
    let (s, s1, s2) = sigmoid(z);
    let from_left = at_least(z, -LOGISTIC_END);
    let held = at_most(from_left, LOGISTIC_END);
    (from_left * s, s + held * s1, 2.0 * s1 + held * s2)
}

#[inline(always)]
pub(in super::super) fn gelu(z: f64) -> Jet {
    let Normal { below, density, held, square, square_low, .. } = Normal::at(z);
    (at_least(z, -NORMAL_END) * below, below + held * density, ((2.0 - square) - square_low) * density)
}

/// zΦ(z/ε) + (eᶻ − 1)Φ(−z/ε): elu with the jump of its second derivative rounded over a width ε.
#[inline(always)]
pub(in super::super) fn rounded_elu(z: f64, width: f64) -> Jet {
    let inverse = 1.0 / width;
    let Normal { below, above, density, held, .. } = Normal::at(z * inverse);
    let (from_left, to_right) = (at_least(z, -NORMAL_END * width), at_most(z, NORMAL_END * width));
    let exponential = Exponential::of(to_right);
    let fall = exponential.minus_one();
    // z − (eᶻ − 1), where the density is not zero.
    let apart = at_most(from_left, NORMAL_END * width) - fall;
    let density = inverse * density;
    (
        from_left * below + fall * above,
        below + exponential.value() * above + apart * density,
        exponential.value() * above - (2.0 * fall + apart * held * inverse) * density,
    )
}

/// Φ(z/ε): a step rounded over a width ε.
#[inline(always)]
pub(in super::super) fn rounded_step(z: f64, width: f64) -> Jet {
    let inverse = 1.0 / width;
    let Normal { below, density, held, .. } = Normal::at(z * inverse);
    (below, inverse * density, -inverse * inverse * held * density)
}

/// The standard normal distribution at z.
struct Normal {
    /// Φ(z).
    below: f64,
    /// Φ(−z).
    above: f64,
    /// ϕ(z).
    density: f64,
    /// z, within the range where ϕ is not zero.
    held: f64,
    /// Its square, and the part of it that f64 does not hold.
    square: f64,
    square_low: f64,
}

impl Normal {
    /// With the tail Φ(−|z|) = e^(−z²/2) m(|z|), z² carried to twice the working precision.
    #[inline(always)]
    fn at(z: f64) -> Self {
        let distance = at_most(z.abs(), NORMAL_END);
        let (square, square_low) = product(distance, distance);
        let fall = Exponential::of_sum(-0.5 * square, -0.5 * square_low).value();
        let tail = fall * scaled_normal_tail(distance);
        let (below, above) = if z < 0.0 { (tail, 1.0 - tail) } else { (1.0 - tail, tail) };
        Self { below, above, density: fall * NORMAL_DENSITY_AT_ZERO, held: distance.copysign(z), square, square_low }
    }
}

/// y = z(b + c z²) is carried to twice the working precision, because the tail e^y magnifies its rounding |y| times.
#[inline(always)]
pub(in super::super) fn gelu_tanh(z: f64) -> Jet {
    let from_left = at_least(z, -NORMAL_END);
    let held = at_most(from_left, NORMAL_END);
    let (square, square_low) = product(held, held);
    let (cubic, cubic_low) = product(GELU_CUBIC.0, square);
    let cubic_low = cubic_low + (GELU_CUBIC.0 * square_low + GELU_CUBIC.1 * square);
    let factor = GELU_LINEAR.0 + cubic;
    let back = factor - cubic;
    let factor_low = ((GELU_LINEAR.0 - back) + (cubic - (factor - back))) + (cubic_low + GELU_LINEAR.1);
    let (y, y_low) = product(held, factor);
    let y_low = y_low + held * factor_low;
    let (s, s1, s2) = logistic(y, Exponential::of_sum(-y.abs(), if y < 0.0 { y_low } else { -y_low }));
    let y1 = GELU_LINEAR.0 + 3.0 * cubic;
    let y2 = 6.0 * GELU_CUBIC.0 * held;
    (from_left * s, s + held * s1 * y1, 2.0 * s1 * y1 + held * (s2 * y1 * y1 + s1 * y2))
}

#[inline(always)]
pub(in super::super) fn elu(z: f64) -> Jet {
    let exponential = Exponential::of(at_most(z, 0.0));
    let right = z > 0.0;
    (
        if right { z } else { exponential.minus_one() },
        if right { 1.0 } else { exponential.value() },
        if right { 0.0 } else { exponential.value() },
    )
}

#[inline(always)]
pub(in super::super) fn leaky_relu(z: f64) -> Jet {
    let slope = if z > 0.0 { 1.0 } else { LEAK };
    (slope * z, slope, 0.0)
}

#[inline(always)]
pub(in super::super) fn sin(z: f64) -> Jet {
    let (sine, cosine) = libm::sincos(z);
    (sine, cosine, -sine)
}

/// The logistic function and its derivatives at y, from u = e^(−|y|).
#[inline(always)]
fn logistic(y: f64, exponential: Exponential) -> Jet {
    let u = exponential.value();
    let sum = 1.0 + u;
    let slope = u / (sum * sum);
    let value = (if y < 0.0 { u } else { 1.0 }) / sum;
    (value, slope, (slope * exponential.minus_one() / sum).copysign(-y))
}
