//! Post-hoc uncertainty for trained neural networks: the Laplace approximation and its Riemannian extension.
//!
//! | symbol | word in code | meaning |
//! |---|---|---|
//! | θ ∈ R^D | `theta`, parameters | flat weights: layer by layer, weight row by row `[out, in]`, then bias (PyTorch's order) |
//! | v, a | velocity, acceleration | along a geodesic |
//! | fₙ(θ) ∈ R^P | outputs | the network's raw outputs at input xₙ, n = 1…N |
//! | Jₙ ∈ R^{P×D} | jacobian | of fₙ |
//! | ḟ = Jv, f̈ = vᵀ∇²f v | tangent, curvature (a second-order *jet*) | first and second derivative of f along v |
//! | Hₙ = H(fₙ) | output Fisher | Fisher information of the likelihood in its natural output coordinates |
//! | A = diag(α) | prior precision | one value, or one for each layer |
//! | J̃ = RᵀJ, H = RRᵀ | rows, whitened | the whitened Jacobian, M = N·P rows |
//!
//! # Cost
//!
//! Fitting, the evidence, posterior draws, linearised predictions and one geodesic acceleration take, exactly and with
//! the same answers,
//!
//! | | weight space | function space | matrix-free |
//! |---|---|---|---|
//! | time | O(M·D² + D³) | O(N·D + M²·Σwidths + M³) | O(N·D) a product |
//! | memory | O(M·D + D²) | O(D + N·Σwidths + M²) | O(D + N·Σwidths + M·rank) |
//!
//! The cheaper of the first two is chosen; the third, for accelerations alone, is chosen on request
//! ([`metric::Pullback::with_matrix_free`]). An integrator keeps 26 numbers for each parameter (Adams).

pub mod data;
pub mod elementary;
mod error;
pub mod estimate;
pub mod evaluate;
pub mod evidence;
pub mod geodesic;
pub mod laplace;
pub mod likelihood;
pub mod linalg;
pub mod map;
pub mod memory;
pub mod metric;
pub mod network;
pub mod ode;
pub mod optimize;
pub mod predict;
pub mod prior;
pub mod problems;
pub mod progress;
pub mod random;
#[cfg(feature = "reference")]
pub mod reference;
pub mod target;
pub mod tensors;

pub use error::{Error, Result, Unsupported};

/// The README, whose code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
