//! The Laplace approximation N(θ̂, G⁻¹) of a trained model, G = A + Σₙ JₙᵀHₙJₙ.
//!
//! One file per structure of G, with the same verbs: its curvature (the sums over data), its precision (factored), its
//! log determinant. [`Laplace`] puts them together.

mod accumulate;
mod advice;
mod calibrated;
mod condition;
mod diagonal;
mod features;
mod file;
mod fit;
mod form;
pub(crate) mod function_space;
mod hessian;
mod kind;
mod kronecker;
mod kronecker_precision;
mod low_rank;
mod low_rank_precision;
mod matrix_free;
mod options;
mod own_data;
mod problem;
mod record;
mod shard;
mod share;
mod structure;
mod temper;
#[cfg(test)]
mod tests;
mod update;
mod watched;
pub(crate) mod weight_space;
mod weights;

pub use crate::error::PosteriorError;
pub(crate) use accumulate::BATCH_NUMBERS;
pub use advice::{ExpectedFit, WillTune};
pub use condition::LARGE_CONDITION;
pub(crate) use file::Attachment;
pub use file::{Contents, POSTERIOR_FORMAT};
pub use fit::Laplace;
pub use form::{CovarianceForm, LowRankForm};
pub use function_space::FunctionSpace;
pub(crate) use hessian::second_derivatives;
pub use kind::CurvatureKind;
pub use matrix_free::Estimates;
pub use options::{FitOptions, PriorValues};
pub use problem::{BatchRows, Problem};
pub use shard::FitPart;
pub use structure::{
    Curvature, LogDet, LogDetForm, LogDetRatio, Precision, SavedTensor, SavedTensors, Spectrum, Structure,
};
pub use watched::Watched;
pub use weight_space::WeightSpace;
pub use weights::{Choice, Weights};
