//! Post-hoc uncertainty for trained neural networks: the Laplace approximation and its Riemannian extension.
//!
//! The types for everyday use are in the [`prelude`], and here at the root with [`Error`] and [`Result`]. Their building blocks are in
//! [`internals`].
//!
//! ```
//! use ndarray::array;
//! use riemannian_laplace::prelude::*;
//!
//! let data = Dataset::new(array![[-1.0], [0.0], [1.0], [2.0]], array![[0.9], [0.1], [1.1], [3.9]])?;
//! let start = Network::random(Architecture::new(&[1, 8, 1], Activation::Tanh)?, 1);
//! let options = TrainingOptions { epochs: 500, ..Default::default() };
//! let trained = train(&start, &data, &Family::gaussian(1.0)?, &options, &())?;
//!
//! let mut laplace = Laplace::fit(trained.network, data, Family::gaussian(1.0)?, &FitOptions::default())?;
//! laplace.optimize(&EvidenceOptions::default())?;
//! let prediction = laplace.predict(&array![[0.5], [8.0]], &Method::default())?;
//! assert!(prediction.epistemic_variance[(1, 0)] > prediction.epistemic_variance[(0, 0)]);
//! # Ok::<(), riemannian_laplace::Error>(())
//! ```
//!
//! # Notation
//!
//! | symbol | word in code | meaning |
//! |---|---|---|
//! | θ ∈ R^D | `theta`, parameters | flat weights: layer by layer, weight row by row `[out, in]`, then bias (PyTorch's order) |
//! | v, a | velocity, acceleration | along a geodesic |
//! | fₙ(θ) ∈ R^P | outputs | the model's raw outputs at input xₙ, n = 1…N |
//! | Jₙ ∈ R^{P×D} | jacobian | of fₙ |
//! | ḟ = Jv, f̈ = vᵀ∇²f v | first, second (with f a second-order *jet*) | first and second derivatives of f along v |
//! | Hₙ = H(fₙ) | output Fisher | Fisher information of the likelihood in its natural output coordinates |
//! | A = diag(α) | prior precision | one value, one per layer, or one per weight |
//! | J̃ = RᵀJ, H = RRᵀ | rows, whitened | the whitened Jacobian, M = N·P rows |
//! | Σ JₙᵀHₙJₙ | curvature | of the data at θ̂; with A the precision G |
//!
//! # Cost
//!
//! Fitting, the evidence, posterior draws, linearised predictions and one geodesic acceleration are exact in either
//! space, with the same answers, and cost
//!
//! | | weight space | function space | matrix-free |
//! |---|---|---|---|
//! | time | O(M·D² + D³) | O(N·D + M²·Σwidths + M³) | O(N·D) per product |
//! | memory | O(M·D + D²) | O(D + N·Σwidths + M²) | O(D + N·Σwidths + M·rank) |
//!
//! The cheaper of the first two is chosen; the third is for accelerations alone, and on request
//! ([`Pullback::with_matrix_free`](internals::metric::Pullback::with_matrix_free)). The Adams integrator keeps 26
//! numbers per parameter.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod front;
pub mod internals;

use internals::{
    conformal, data, elementary, evaluate, evidence, export, files, geodesic, laplace, last_layer, likelihood, linalg,
    map, memory, metric, network, ode, optimize, predict, prior, progress, random, report, suggest, target, team,
    tensors,
};

pub use error::{Error, Result};
pub use prelude::*;

/// Everything for everyday use, which is also at the crate's root: `use riemannian_laplace::prelude::*;`.
pub mod prelude {
    pub use crate::data::{Batches, Dataset, Scaling, Schema, Standardize};
    pub use crate::error::Unsupported;
    pub use crate::evaluate::{LeaveOneOut, Scores, ValidationOptimum, ValidationOptions};
    pub use crate::evidence::{EvidenceOptimum, EvidenceOptions};
    pub use crate::export::{ExportOptions, Exported};
    pub use crate::geodesic::{GeodesicOptions, MetricName, SamplerOptions, Samples, Smoothing};
    pub use crate::laplace::{Contents, CurvatureKind, FitOptions, Laplace, PriorValues, Structure, Weights};
    pub use crate::last_layer::{LastLayer, LastLayerPosterior};
    pub use crate::likelihood::Family;
    pub use crate::map::{FunctionModel, Model, Taylor};
    pub use crate::network::{
        Activation, Architecture, AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Imported, Layer,
        LayerNorm, Linear, MaxPool2d, Network, NetworkBuilder, OutputLink, PointShape, Residual, StatedLayer, Training,
        TrainingOptions, train,
    };
    pub use crate::predict::{Draws, Geodesics, Link, Method, Prediction};
    pub use crate::prior::PriorMean;
    pub use crate::progress::{Cancel, Progress};
    pub use crate::report::{Report, ReportOptions};
    pub use crate::suggest::{Acquisition, Goal, SuggestOptions, Suggestion, Suggestions};
}

/// The README, whose code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
