//! The evidence: log p(D | A, σ) ≈ T⁻¹ log p(D | θ̂) − ½(log det G − log det A + (θ̂−μ)ᵀA(θ̂−μ)), maximised over A and σ.
//!
//! θ̂ is fixed, so the curvature is computed once. With one α and one σ everything follows from the eigenvalues λ of
//! the curvature at unit scale: log det G − log det A = Σ log(1 + λ/(ασ²T)). With one α per layer or per weight, or one σ
//! per output, each evaluation costs a Cholesky factorisation. Either way the optimum is found by BFGS in (log α, log σ).

mod function;
mod mode;
mod online;
mod tuning;

pub use crate::error::AtBound;
pub use crate::prior::PriorStructure;
pub use function::{Evidence, EvidenceAt};
pub use mode::{Mode, ModeOptions, Noise, train_to_mode};
pub use online::{OnlineOptions, OnlineStep, OnlineTraining, train_online};
pub use tuning::{EvidenceOptimum, EvidenceOptions, Free, Hyperparameters, optimize};
