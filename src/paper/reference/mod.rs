//! Samples to compare approximations with: the no-U-turn sampler on the log posterior ℓ(θ), and the diagnostics that
//! say whether a run may be called a reference (Yu et al. 2024, supplement "NUTS samples").
//!
//! ```
//! use riemannian_laplace::internals::paper::problems::Banana;
//! use riemannian_laplace::internals::paper::reference::{NutsOptions, Start, nuts};
//!
//! let target = Banana::target(&[1.0, 1.5, 0.2])?;
//! let options = NutsOptions { target_accept: 0.95, ..NutsOptions::quick() };
//! let sample = nuts(&target, Start::StandardNormal, &options, &|_| ())?;
//! assert_eq!(sample.draws.dim(), (options.chains * options.kept_per_chain(), 2));
//! match sample.verdict() {
//!     Ok(convergence) => println!("worst R̂ {:.3}", convergence.r_hat),
//!     Err(refusal) => println!("{refusal}"),
//! }
//! # Ok::<(), riemannian_laplace::Error>(())
//! ```

mod diagnostics;
mod nuts;
mod ranks;
mod sample;

pub use crate::error::{InvalidChains, ReferenceLimits, Refusal};
pub use diagnostics::{Convergence, Diagnostics, LEAST_BULK_ESS, MOST_DIVERGENT, WORST_R_HAT};
pub use nuts::{MassMatrix, NutsOptions, Start, nuts};
pub use sample::{ChainReport, ReferenceSample};
