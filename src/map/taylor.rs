//! A number that knows its first and second derivatives along a direction: (f, ḟ, f̈), carried through every operation.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// f, ḟ and f̈ along t at t = 0.
///
/// ```
/// use riemannian_laplace::Taylor;
/// let t = Taylor::along(2.0, 1.0); // 2 + t
/// let cube = t * t * t;
/// assert_eq!((cube.value, cube.first, cube.second), (8.0, 12.0, 12.0));
/// let wave = (3.0 * t).sin();
/// assert!((wave.second + 9.0 * 6f64.sin()).abs() < 1e-14);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Taylor {
    /// f.
    pub value: f64,
    /// ḟ.
    pub first: f64,
    /// f̈.
    pub second: f64,
}

impl Taylor {
    /// A number that does not move.
    pub const fn constant(value: f64) -> Self {
        Self { value, first: 0.0, second: 0.0 }
    }

    /// value + t·velocity.
    pub const fn along(value: f64, velocity: f64) -> Self {
        Self { value, first: velocity, second: 0.0 }
    }

    /// g(f) from g, g′ and g″ at f: (g, g′ḟ, g″ḟ² + g′f̈).
    pub fn map(self, value: f64, slope: f64, bend: f64) -> Self {
        Self { value, first: slope * self.first, second: bend * self.first * self.first + slope * self.second }
    }

    /// eᶠ.
    pub fn exp(self) -> Self {
        let value = self.value.exp();
        self.map(value, value, value)
    }

    /// log f.
    pub fn ln(self) -> Self {
        let inverse = 1.0 / self.value;
        self.map(self.value.ln(), inverse, -inverse * inverse)
    }

    /// √f.
    pub fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.map(root, 0.5 / root, -0.25 / (root * self.value))
    }

    /// sin f.
    pub fn sin(self) -> Self {
        let (sine, cosine) = self.value.sin_cos();
        self.map(sine, cosine, -sine)
    }

    /// cos f.
    pub fn cos(self) -> Self {
        let (sine, cosine) = self.value.sin_cos();
        self.map(cosine, -sine, -cosine)
    }

    /// tanh f.
    pub fn tanh(self) -> Self {
        let value = self.value.tanh();
        let slope = 1.0 - value * value;
        self.map(value, slope, -2.0 * value * slope)
    }

    /// 1/(1 + e⁻ᶠ).
    pub fn sigmoid(self) -> Self {
        let value = 1.0 / (1.0 + (-self.value).exp());
        let slope = value * (1.0 - value);
        self.map(value, slope, slope * (1.0 - 2.0 * value))
    }

    /// fᵏ for a constant exponent.
    pub fn powf(self, exponent: f64) -> Self {
        let slope = exponent * self.value.powf(exponent - 1.0);
        let bend = exponent * (exponent - 1.0) * self.value.powf(exponent - 2.0);
        self.map(self.value.powf(exponent), slope, bend)
    }

    /// 1/f.
    pub fn recip(self) -> Self {
        let inverse = 1.0 / self.value;
        self.map(inverse, -inverse * inverse, 2.0 * inverse * inverse * inverse)
    }
}

impl From<f64> for Taylor {
    fn from(value: f64) -> Self {
        Self::constant(value)
    }
}

impl Neg for Taylor {
    type Output = Self;
    fn neg(self) -> Self {
        Self { value: -self.value, first: -self.first, second: -self.second }
    }
}

impl Add for Taylor {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, first: self.first + other.first, second: self.second + other.second }
    }
}

impl Sub for Taylor {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Taylor {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self {
            value: self.value * other.value,
            first: self.first * other.value + self.value * other.first,
            second: self.second * other.value + 2.0 * self.first * other.first + self.value * other.second,
        }
    }
}

impl Div for Taylor {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        // f = q·g: q̇ = (ḟ − qġ)/g, q̈ = (f̈ − 2q̇ġ − qg̈)/g.
        let value = self.value / other.value;
        let first = (self.first - value * other.first) / other.value;
        let second = (self.second - 2.0 * first * other.first - value * other.second) / other.value;
        Self { value, first, second }
    }
}

/// The same operations with plain numbers on either side.
macro_rules! with_numbers {
    ($($operation:ident :: $method:ident),*) => {$(
        impl $operation<f64> for Taylor {
            type Output = Taylor;
            fn $method(self, other: f64) -> Taylor {
                $operation::$method(self, Taylor::constant(other))
            }
        }
        impl $operation<Taylor> for f64 {
            type Output = Taylor;
            fn $method(self, other: Taylor) -> Taylor {
                $operation::$method(Taylor::constant(self), other)
            }
        }
    )*};
}

with_numbers!(Add::add, Sub::sub, Mul::mul, Div::div);

#[cfg(test)]
mod tests {
    use super::*;

    /// Central differences of f along 0.7 + 1.3t, at t = 0.
    fn differences(f: impl Fn(f64) -> f64) -> (f64, f64) {
        let (h, at) = (1e-4, |t: f64| f(0.7 + 1.3 * t));
        ((at(h) - at(-h)) / (2.0 * h), (at(h) - 2.0 * at(0.0) + at(-h)) / (h * h))
    }

    #[test]
    fn every_operation_agrees_with_finite_differences() {
        type Both = (fn(Taylor) -> Taylor, fn(f64) -> f64);
        let operations: [Both; 12] = [
            (Taylor::exp, f64::exp),
            (Taylor::ln, f64::ln),
            (Taylor::sqrt, f64::sqrt),
            (Taylor::sin, f64::sin),
            (Taylor::cos, f64::cos),
            (Taylor::tanh, f64::tanh),
            (Taylor::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Taylor::recip, f64::recip),
            (|x| x.powf(2.5), |x| x.powf(2.5)),
            (|x| x * x.sin() - 2.0 * x, |x| x * x.sin() - 2.0 * x),
            (|x| x.exp() / (x + 3.0), |x| x.exp() / (x + 3.0)),
            (|x| 1.0 - -x / 2.0, |x| 1.0 + x / 2.0),
        ];
        for (index, (taylor, plain)) in operations.into_iter().enumerate() {
            let found = taylor(Taylor::along(0.7, 1.3));
            let (first, second) = differences(plain);
            assert!((found.value - plain(0.7)).abs() < 1e-14, "operation {index}");
            // Differences with a step of 1e-4: rounding 1e-16/1e-8 in the second, truncation 1e-8 in both.
            assert!((found.first - first).abs() < 1e-6, "operation {index}");
            assert!((found.second - second).abs() < 1e-6, "operation {index}");
        }
    }
}
