//! Functions of single entries and their slopes, from operators that the runtimes have in both precisions.

use super::Precision;
use super::writer::{Name, Writer};
use crate::error::Result;
use crate::network::Activation;
use crate::network::graph::Function;

/// √(2/π), 0.044715 and 3·0.044715: the constants of gelu's approximation.
const GELU: (f64, f64) = (0.7978845608028654, 0.044715);
const LEAK: f64 = 0.01;
/// 1/√(2π).
const NORMAL_DENSITY_AT_ZERO: f64 = 0.3989422804014327;

/// φ(x).
pub(super) fn value(w: &mut Writer, function: &Function, x: &Name) -> Result<Name> {
    Ok(match function {
        Function::Activation(activation) => activation_value(w, *activation, x),
        Function::Exp => w.unary("Exp", x),
        Function::Log => w.unary("Log", x),
        Function::Sqrt => w.unary("Sqrt", x),
        Function::Reciprocal => w.unary("Reciprocal", x),
        Function::Power(exponent) => w.with("Pow", x, *exponent),
        Function::Erf => erf(w, x),
        Function::Cos => w.unary("Cos", x),
        Function::Atan => arc_tangent(w, x),
        Function::Step => is_positive(w, x),
        other => return Err(super::refused(&format!("the function {}", other.description()))),
    })
}

fn activation_value(w: &mut Writer, activation: Activation, x: &Name) -> Name {
    match activation {
        Activation::Identity => x.clone(),
        Activation::Tanh => w.unary("Tanh", x),
        Activation::Relu => w.unary("Relu", x),
        Activation::Sigmoid => w.unary("Sigmoid", x),
        Activation::Softplus => softplus(w, x),
        Activation::Silu => {
            let s = w.unary("Sigmoid", x);
            w.multiply(x, &s)
        }
        Activation::Gelu => {
            let below = normal_cdf(w, x);
            w.multiply(x, &below)
        }
        Activation::GeluTanh => {
            let (s, _) = gelu_gate(w, x);
            w.multiply(x, &s)
        }
        Activation::Elu => {
            let fall = not_above_zero(w, x);
            let fall = expm1(w, &fall);
            let positive = w.unary("Relu", x);
            w.add(&positive, &fall)
        }
        Activation::LeakyRelu => {
            let scaled = w.with("Mul", x, LEAK);
            w.binary("Max", x, &scaled)
        }
        Activation::Sin => w.unary("Sin", x),
    }
}

/// φ′(x), where y = φ(x); none where it is one everywhere.
pub(super) fn slope(w: &mut Writer, function: &Function, x: &Name, y: &Name) -> Result<Option<Name>> {
    Ok(Some(match function {
        Function::Activation(Activation::Identity) => return Ok(None),
        Function::Activation(activation) => activation_slope(w, *activation, x, y),
        Function::Exp => y.clone(),
        Function::Log => w.unary("Reciprocal", x),
        Function::Sqrt => {
            let half = w.number(0.5);
            w.divide(&half, y)
        }
        Function::Reciprocal => {
            let square = w.square(y);
            w.unary("Neg", &square)
        }
        Function::Power(exponent) => {
            let power = w.with("Pow", x, exponent - 1.0);
            w.with("Mul", &power, *exponent)
        }
        Function::Erf => {
            let square = w.square(x);
            let fall = w.unary("Neg", &square);
            let fall = w.unary("Exp", &fall);
            w.with("Mul", &fall, std::f64::consts::FRAC_2_SQRT_PI)
        }
        Function::Cos => {
            let sine = w.unary("Sin", x);
            w.unary("Neg", &sine)
        }
        Function::Atan => {
            let square = w.square(x);
            let below = w.with("Add", &square, 1.0);
            w.unary("Reciprocal", &below)
        }
        Function::Step => w.with("Mul", y, 0.0),
        other => return Err(super::refused(&format!("the function {}", other.description()))),
    }))
}

fn activation_slope(w: &mut Writer, activation: Activation, x: &Name, y: &Name) -> Name {
    match activation {
        Activation::Identity => w.number(1.0),
        Activation::Tanh => {
            let square = w.square(y);
            one_less(w, &square)
        }
        Activation::Relu => is_positive(w, x),
        Activation::Sigmoid => {
            let rest = one_less(w, y);
            w.multiply(y, &rest)
        }
        Activation::Softplus => w.unary("Sigmoid", x),
        Activation::Silu => {
            // s + y(1 − s).
            let s = w.unary("Sigmoid", x);
            let rest = one_less(w, &s);
            let bend = w.multiply(y, &rest);
            w.add(&s, &bend)
        }
        Activation::Gelu => {
            let below = normal_cdf(w, x);
            let square = w.square(x);
            let fall = w.with("Mul", &square, -0.5);
            let fall = w.unary("Exp", &fall);
            let density = w.with("Mul", &fall, NORMAL_DENSITY_AT_ZERO);
            let bend = w.multiply(x, &density);
            w.add(&below, &bend)
        }
        Activation::GeluTanh => {
            // s + y(1 − s)u′ for s = sigmoid(u).
            let (s, rate) = gelu_gate(w, x);
            let rest = one_less(w, &s);
            let bend = w.multiply(y, &rest);
            let bend = w.multiply(&bend, &rate);
            w.add(&s, &bend)
        }
        Activation::Elu => {
            let left = not_above_zero(w, x);
            w.unary("Exp", &left)
        }
        Activation::LeakyRelu => {
            let positive = is_positive(w, x);
            let scaled = w.with("Mul", &positive, 1.0 - LEAK);
            w.with("Add", &scaled, LEAK)
        }
        Activation::Sin => w.unary("Cos", x),
    }
}

/// 1 − x.
fn one_less(w: &mut Writer, x: &Name) -> Name {
    let one = w.number(1.0);
    w.subtract(&one, x)
}

/// min(x, 0).
fn not_above_zero(w: &mut Writer, x: &Name) -> Name {
    w.with("Min", x, 0.0)
}

/// 1 for x > 0, else 0.
fn is_positive(w: &mut Writer, x: &Name) -> Name {
    let positive = w.with("Greater", x, 0.0);
    let real = w.real();
    w.cast(&positive, real)
}

/// sigmoid(u) and u′ for u = 2√(2/π)(x + 0.044715 x³).
fn gelu_gate(w: &mut Writer, x: &Name) -> (Name, Name) {
    let square = w.square(x);
    let cubic = w.with("Mul", &square, GELU.1);
    let factor = w.with("Add", &cubic, 1.0);
    let u = w.multiply(x, &factor);
    let u = w.with("Mul", &u, 2.0 * GELU.0);
    let rate = w.with("Mul", &square, 6.0 * GELU.0 * GELU.1);
    let rate = w.with("Add", &rate, 2.0 * GELU.0);
    (w.unary("Sigmoid", &u), rate)
}

/// max(x, 0) + log(1 + e^(−|x|)).
fn softplus(w: &mut Writer, x: &Name) -> Name {
    let far = w.unary("Abs", x);
    let far = w.unary("Neg", &far);
    let fall = w.unary("Exp", &far);
    let sum = w.with("Add", &fall, 1.0);
    let rest = w.unary("Log", &sum);
    let positive = w.unary("Relu", x);
    w.add(&positive, &rest)
}

/// eˣ − 1 = (eˣ + 1) tanh(x/2), which does not cancel.
pub(super) fn expm1(w: &mut Writer, x: &Name) -> Name {
    let exponential = w.unary("Exp", x);
    let sum = w.with("Add", &exponential, 1.0);
    let half = w.with("Mul", x, 0.5);
    let tangent = w.unary("Tanh", &half);
    w.multiply(&sum, &tangent)
}

/// Φ(x).
pub(super) fn normal_cdf(w: &mut Writer, x: &Name) -> Name {
    let scaled = w.with("Mul", x, std::f64::consts::FRAC_1_SQRT_2);
    let erf = erf(w, &scaled);
    let sum = w.with("Add", &erf, 1.0);
    w.with("Mul", &sum, 0.5)
}

/// The step h of the series for erf, and where it is cut off: what is left out is below e^(−(π/h − 6)²) and e^(−(nh)²).
const ERF_STEP: f64 = 0.25;
const ERF_TERMS: usize = 25;
const ERF_END: f64 = 6.0;

/// erf x. In double precision, which runtimes lack: 2hx/π + 2/π Σₙ e^(−n²h²) sin(2nhx)/n for |x| ≤ 6.
fn erf(w: &mut Writer, x: &Name) -> Name {
    if w.precision == Precision::F32 {
        return w.unary("Erf", x);
    }
    let held = w.with("Max", x, -ERF_END);
    let held = w.with("Min", &held, ERF_END);
    // One more axis, for the terms.
    let last = w.integers(&[-1]);
    let column = w.binary("Unsqueeze", &held, &last);
    let term = |n: usize| n as f64 * ERF_STEP;
    let rates: Vec<f64> = (1..=ERF_TERMS).map(|n| 2.0 * term(n)).collect();
    let sizes: Vec<f64> = (1..=ERF_TERMS).map(|n| (-term(n) * term(n)).exp() / n as f64).collect();
    let (rates, sizes) = (w.numbers(&[ERF_TERMS], &rates), w.numbers(&[ERF_TERMS, 1], &sizes));
    let angles = w.multiply(&column, &rates);
    let sines = w.unary("Sin", &angles);
    let sums = w.matmul(&sines, &sizes);
    let sums = w.binary("Squeeze", &sums, &last);
    let linear = w.with("Mul", &held, ERF_STEP);
    let all = w.add(&linear, &sums);
    w.with("Mul", &all, 2.0 / std::f64::consts::PI)
}

/// arctan x, which runtimes lack in double precision: with t = x/(1 + √(1 + x²)) twice, |t| ≤ tan(π/8), and then the series
/// 4(t − t³/3 + t⁵/5 − …).
fn arc_tangent(w: &mut Writer, x: &Name) -> Name {
    if w.precision == Precision::F32 {
        return w.unary("Atan", x);
    }
    /// tan(π/8)^(2·22 + 1) < 1e-17.
    const TERMS: usize = 22;
    let mut t = x.clone();
    for _ in 0..2 {
        let square = w.square(&t);
        let sum = w.with("Add", &square, 1.0);
        let root = w.unary("Sqrt", &sum);
        let below = w.with("Add", &root, 1.0);
        t = w.divide(&t, &below);
    }
    let square = w.square(&t);
    let coefficient = |k: usize| if k.is_multiple_of(2) { 1.0 } else { -1.0 } / (2 * k + 1) as f64;
    let mut series = w.number(coefficient(TERMS));
    for k in (0..TERMS).rev() {
        let product = w.multiply(&series, &square);
        series = w.with("Add", &product, coefficient(k));
    }
    let all = w.multiply(&series, &t);
    w.with("Mul", &all, 4.0)
}
