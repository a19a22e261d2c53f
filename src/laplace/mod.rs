//! The Laplace approximation N(θ̂, G⁻¹) of a trained network, G = A + Σₙ JₙᵀHₙJₙ, exact over all weights.
//!
//! Two forms hold G, with the same verbs and the same answers: [`WeightSpace`] (a D × D matrix) and [`FunctionSpace`]
//! (an M × M matrix, M = N·P). [`Laplace`] chooses by size.

pub(crate) mod curvature;
mod file;
mod fit;
mod function_space;
mod precision;
mod weight_space;

pub use file::Contents;
pub(crate) use fit::Fit;
pub use fit::{FitOptions, Laplace, SolverChoice};
pub use function_space::FunctionSpace;
pub use precision::{Precision, PrecisionWorker};
pub use weight_space::WeightSpace;
