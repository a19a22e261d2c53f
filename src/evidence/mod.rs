//! The evidence: log p(D | A, σ) ≈ log p(D | θ̂) − ½(log det G − log det A + θ̂ᵀAθ̂), maximised over A and σ.
//!
//! θ̂ is fixed, so the curvature is computed once. With one α and one σ everything follows from the eigenvalues λ of
//! the curvature at σ = 1: log det G − log det A = Σ log(1 + λ/(ασ²)). With one α per layer, or one σ per output, each
//! evaluation costs a Cholesky factorisation. Either way the optimum is found by BFGS in (log α, log σ).

mod tuning;

pub use crate::error::AtBound;
pub use tuning::{EvidenceOptimum, EvidenceOptions, Free, Hyperparameters, PriorStructure, optimize};
