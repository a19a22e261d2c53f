//! Activations h = φ(z): value, slope φ′ and second derivative φ″, the *jet* that carries derivatives through a layer.
//!
//! Along a curve in parameter space a layer's pre-activation moves as (z, ż, z̈), and its output as ḣ = φ′(z) ż, ḧ =
//! φ″(z) ż² + φ′(z) z̈. So φ′ and φ″ at full precision are all that a second-order jet needs.
//!
//! | name | φ(z) | φ′(z) | φ″(z) |
//! |---|---|---|---|
//! | `identity` | z | 1 | 0 |
//! | `tanh` | tanh z | sech² z | −2 tanh z sech² z |
//! | `relu` | max(z, 0) | 1 for z > 0, else 0 | 0 |
//! | `sigmoid` | s = 1/(1 + e⁻ᶻ) | s(1 − s) | s(1 − s)(1 − 2s) |
//! | `softplus` | log(1 + eᶻ) | s | s(1 − s) |
//! | `silu` | z s | s + z s′ | 2s′ + z s″ |
//! | `gelu` | z Φ(z) | Φ + z ϕ | (2 − z²) ϕ |
//! | `gelu_tanh` | z s(y), y = 2√(2/π)(z + 0.044715 z³) | s + z s′y′ | 2s′y′ + z(s″y′² + s′y″) |
//! | `elu` | z for z > 0, else eᶻ − 1 | 1, else eᶻ | 0, else eᶻ |
//! | `leaky_relu` | z for z > 0, else 0.01 z | 1, else 0.01 | 0 |
//! | `sin` | sin z | cos z | −sin z |
//!
//! Every entry is finite wherever the exact number is, up to |z| = 1.8e308. On 40,000 random points φ is within 4.2
//! ulp, φ′ within 4.3 and φ″ within 6.6, in the tails too, with two exceptions: near a root other than 0 of φ′ or φ″
//! (silu, gelu, gelu_tanh) the error is relative to the summands, and products with a factor below 2.2e-308 lose
//! digits.

pub(super) mod jets;
#[allow(clippy::indexing_slicing, reason = "slices are cut to the length of the shortest before the loops")]
pub(super) mod loops;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::elementary::vectorized;
use crate::error::UnknownActivation;

/// An elementwise nonlinearity; the formulas are in the [module](self) documentation.
///
/// ```
/// use riemannian_laplace::Activation;
///
/// let activation: Activation = "tanh".parse()?;
/// let (value, slope, second) = activation.derivatives(0.5);
/// assert!((slope - (1.0 - value * value)).abs() < 1e-15);
/// assert!((second + 2.0 * value * slope).abs() < 1e-15);
///
/// let mut h = [0.0; 3];
/// activation.apply(&[-0.5, 0.0, 0.5], &mut h);
/// assert_eq!(h, [-value, 0.0, value]);
/// # Ok::<(), riemannian_laplace::internals::network::UnknownActivation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// z: a layer without nonlinearity.
    Identity,
    /// tanh z.
    Tanh,
    /// max(z, 0), with slope 0 at z = 0.
    Relu,
    /// 1/(1 + e⁻ᶻ).
    Sigmoid,
    /// log(1 + eᶻ) for every z, without a linear piece.
    Softplus,
    /// z/(1 + e⁻ᶻ), also called swish.
    Silu,
    /// z Φ(z), Φ the standard normal distribution function (the exact form, with erf).
    Gelu,
    /// ½z(1 + tanh(√(2/π)(z + 0.044715 z³))), the common approximation of gelu.
    GeluTanh,
    /// z for z > 0, else eᶻ − 1 (α = 1); second derivative 1 at z = 0, the limit from the left.
    Elu,
    /// z for z > 0, else 0.01 z, with slope 0.01 at z = 0.
    LeakyRelu,
    /// sin z.
    Sin,
}

/// Evaluates an expression with `$jet` bound to the activation's z → (φ, φ′, φ″): the expression is compiled once per
/// activation, so a loop in it has no branches, and derivatives it does not use cost nothing.
macro_rules! with_jet {
    ($activation:expr, $jet:ident => $body:expr) => {
        match $activation {
            Activation::Identity => with_jet!(@ identity, $jet => $body),
            Activation::Tanh => with_jet!(@ tanh, $jet => $body),
            Activation::Relu => with_jet!(@ relu, $jet => $body),
            Activation::Sigmoid => with_jet!(@ sigmoid, $jet => $body),
            Activation::Softplus => with_jet!(@ softplus, $jet => $body),
            Activation::Silu => with_jet!(@ silu, $jet => $body),
            Activation::Gelu => with_jet!(@ gelu, $jet => $body),
            Activation::GeluTanh => with_jet!(@ gelu_tanh, $jet => $body),
            Activation::Elu => with_jet!(@ elu, $jet => $body),
            Activation::LeakyRelu => with_jet!(@ leaky_relu, $jet => $body),
            Activation::Sin => with_jet!(@ sin, $jet => $body),
        }
    };
    (@ $name:ident, $jet:ident => $body:expr) => {{
        let $jet = $crate::network::activation::jets::$name;
        $body
    }};
}

pub(super) use with_jet;

impl Activation {
    /// Every activation, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Identity,
        Self::Tanh,
        Self::Relu,
        Self::Sigmoid,
        Self::Softplus,
        Self::Silu,
        Self::Gelu,
        Self::GeluTanh,
        Self::Elu,
        Self::LeakyRelu,
        Self::Sin,
    ];

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Tanh => "tanh",
            Self::Relu => "relu",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Elu => "elu",
            Self::LeakyRelu => "leaky_relu",
            Self::Sin => "sin",
        }
    }

    /// Whether the first or the second derivative jumps, at 0 (relu, leaky_relu, elu): then geodesics of the Fisher
    /// metric are not smooth either.
    pub fn has_kink(self) -> bool {
        matches!(self, Self::Relu | Self::LeakyRelu | Self::Elu)
    }

    /// The slope left of the hinge at 0 of an activation whose slope jumps there, to 1: 0 for relu, 0.01 for
    /// leaky_relu. `None` for the others.
    pub fn slope_left_of_hinge(self) -> Option<f64> {
        match self {
            Self::Relu => Some(0.0),
            Self::LeakyRelu => Some(jets::LEAK),
            _ => None,
        }
    }

    /// Whether φ″ = 0 wherever it exists (identity, relu, leaky_relu).
    ///
    /// For the last two the Fisher metric jumps at the hinges, and a geodesic does not keep its speed there.
    pub fn is_piecewise_linear(self) -> bool {
        matches!(self, Self::Identity | Self::Relu | Self::LeakyRelu)
    }

    /// φ(z).
    pub fn value(self, z: f64) -> f64 {
        with_jet!(self, jet => jet(z).0)
    }

    /// (φ(z), φ′(z), φ″(z)).
    pub fn derivatives(self, z: f64) -> (f64, f64, f64) {
        with_jet!(self, jet => jet(z))
    }

    /// Writes h = φ(z) of every entry. Slices of equal length; the same numbers as [`value`](Self::value).
    pub fn apply(&self, z: &[f64], h: &mut [f64]) {
        debug_assert_eq!(z.len(), h.len());
        with_jet!(*self, jet => vectorized(#[inline(always)] || for (&z, h) in z.iter().zip(h) {
            *h = jet(z).0;
        }));
    }

    /// Replaces every z by φ(z) and writes φ′(z). Slices of equal length.
    pub fn replace_with_slope(&self, values: &mut [f64], slopes: &mut [f64]) {
        with_jet!(*self, jet => loops::replace_with_slope(jet, values, slopes));
    }

    /// Replaces the Taylor coefficients z₀, z₁, z₂ of z(t) by those of φ(z(t)), φ(z₀), φ′z₁ and φ′z₂ + ½φ″z₁², and
    /// writes φ′(z₀). Slices of equal length.
    ///
    /// ```
    /// use riemannian_laplace::Activation;
    ///
    /// // sin t = 0 + t + 0 t² + …
    /// let (mut z0, mut z1, mut z2, mut slope) = ([0.0], [1.0], [0.0], [0.0]);
    /// Activation::Sin.replace_taylor(&mut z0, &mut z1, &mut z2, &mut slope);
    /// assert_eq!((z0, z1, z2, slope), ([0.0], [1.0], [0.0], [1.0]));
    /// ```
    pub fn replace_taylor(&self, z0: &mut [f64], z1: &mut [f64], z2: &mut [f64], slopes: &mut [f64]) {
        with_jet!(*self, jet => loops::replace_taylor(jet, [z0, z1, z2], slopes));
    }

    /// Replaces the Taylor coefficients z₀, z₁ of z(t) by those of φ(z(t)), φ(z₀) and φ′z₁, and writes φ′(z₀) and its
    /// derivative φ″z₁ along the curve. Slices of equal length.
    pub fn replace_tangent(&self, z0: &mut [f64], z1: &mut [f64], slopes: &mut [f64], bends: &mut [f64]) {
        with_jet!(*self, jet => loops::replace_tangent(jet, [z0, z1], slopes, bends));
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Activation {
    type Err = UnknownActivation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|activation| activation.name() == name)
            .ok_or_else(|| UnknownActivation { name: name.to_owned(), known: Self::ALL.map(Self::name).join(", ") })
    }
}
