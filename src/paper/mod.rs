//! The experiments of the paper: what its tables and figures need, and a user of the library does not.
//!
//! | module | what |
//! |---|---|
//! | [`problems`] | the low-dimensional targets: banana, squiggle, funnel, Gaussian, logistic regression |
//! | [`estimate`] | the Euclidean and the Hausdorff MAP |
//! | [`reference`](mod@reference) | samples of the posterior by the no-U-turn sampler, with diagnostics |
//! | [`wasserstein`] | exact Wasserstein-1 distances between samples |
//!
//! All of it is behind the feature `paper`, which is on by default because the examples and tests use it.

pub mod estimate;
pub mod problems;
pub mod reference;
pub mod wasserstein;
