//! What the crate is made of, folder by folder: traits to implement, kernels, solvers, integrators, the paper's
//! problems.
//!
//! These modules serve the program, the benchmarks and researchers who extend the method. They expose faer's matrices,
//! and **may change in any release**; the types at the crate's root change only with a new major version.
//!
//! The files are next to this one; each imports only from those before it in the list in `docs/architecture.md`.

#[path = "data/mod.rs"]
pub mod data;
#[path = "elementary.rs"]
pub mod elementary;
#[path = "estimate.rs"]
pub mod estimate;
#[path = "evaluate/mod.rs"]
pub mod evaluate;
#[path = "evidence/mod.rs"]
pub mod evidence;
#[path = "geodesic/mod.rs"]
pub mod geodesic;
#[path = "laplace/mod.rs"]
pub mod laplace;
#[path = "last_layer/mod.rs"]
pub mod last_layer;
#[path = "likelihood/mod.rs"]
pub mod likelihood;
#[path = "linalg/mod.rs"]
pub mod linalg;
#[path = "map/mod.rs"]
pub mod map;
#[path = "memory/mod.rs"]
pub mod memory;
#[path = "metric/mod.rs"]
pub mod metric;
#[path = "network/mod.rs"]
pub mod network;
#[path = "ode/mod.rs"]
pub mod ode;
#[path = "optimize/mod.rs"]
pub mod optimize;
#[path = "predict/mod.rs"]
pub mod predict;
#[path = "prior/mod.rs"]
pub mod prior;
#[path = "problems/mod.rs"]
pub mod problems;
#[path = "progress.rs"]
pub mod progress;
#[path = "random.rs"]
pub mod random;
#[cfg(feature = "reference")]
#[path = "reference/mod.rs"]
pub mod reference;
#[path = "report/mod.rs"]
pub mod report;
#[path = "target.rs"]
pub mod target;
#[path = "team/mod.rs"]
pub mod team;
#[path = "tensors/mod.rs"]
pub mod tensors;

pub use crate::error::printable;
