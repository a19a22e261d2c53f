//! What the crate is made of, folder by folder: traits to implement, kernels, solvers, integrators, the paper's
//! problems.
//!
//! These modules serve the program, the benchmarks and researchers who extend the method. They expose faer's matrices,
//! and **may change in any release**; the types at the crate's root change only with a new major version.
//!
//! The files are next to this one; each imports only from those before it in the list in `docs/architecture.md`.

// No index that data can reach: `clippy::indexing_slicing` is on for the whole crate. Excepted are folders of kernels, each
// with the reason why its indices are in range; files in them that take what comes from outside switch the lint on again.
// An index into faer's matrices is not seen by the lint, and the same reasons hold for it.

#[path = "conformal/mod.rs"]
pub mod conformal;
#[path = "data/mod.rs"]
pub mod data;
#[path = "elementary.rs"]
pub mod elementary;
#[allow(
    clippy::indexing_slicing,
    reason = "indices run over the lengths of arrays that `check_size` has compared at each public function"
)]
#[path = "evaluate/mod.rs"]
pub mod evaluate;
#[allow(
    clippy::indexing_slicing,
    reason = "hyperparameters, their bounds and gradients are made together, one entry for each"
)]
#[path = "evidence/mod.rs"]
pub mod evidence;
#[allow(
    clippy::indexing_slicing,
    reason = "widths, places and weights are those of a graph that `Graph::new` has checked; parts and levels are lists made here"
)]
#[path = "export/mod.rs"]
pub mod export;
#[path = "files/mod.rs"]
pub mod files;
#[allow(
    clippy::indexing_slicing,
    reason = "vectors have the D entries that `check_size` has compared at each public function; others are made of that size here"
)]
#[path = "geodesic/mod.rs"]
pub mod geodesic;
#[allow(
    clippy::indexing_slicing,
    reason = "sizes are those of the model and its rows; tensors of a file are compared with them by `Part` before a structure takes them"
)]
#[path = "laplace/mod.rs"]
pub mod laplace;
#[path = "last_layer/mod.rs"]
pub mod last_layer;
#[allow(
    clippy::indexing_slicing,
    reason = "outputs, observations and their derivatives have the sizes that `check_outputs` and `check_targets` have compared"
)]
#[path = "likelihood/mod.rs"]
pub mod likelihood;
#[allow(
    clippy::indexing_slicing,
    reason = "indices run over the sizes of the matrices themselves, and callers give buffers that they made for those sizes"
)]
#[path = "linalg/mod.rs"]
pub mod linalg;
#[allow(
    clippy::indexing_slicing,
    reason = "buffers are made for the n points and P outputs of the map; θ has the D entries that `Network::new` has counted"
)]
#[path = "map/mod.rs"]
pub mod map;
#[path = "memory/mod.rs"]
pub mod memory;
#[allow(clippy::indexing_slicing, reason = "vectors are D or M long, and made for the map whose sizes these are")]
#[path = "metric/mod.rs"]
pub mod metric;
#[path = "network/mod.rs"]
pub mod network;
#[allow(
    clippy::indexing_slicing,
    reason = "all states of an integration have the length of the first; stages and coefficients are arrays of constant sizes"
)]
#[path = "ode/mod.rs"]
pub mod ode;
#[allow(clippy::indexing_slicing, reason = "point, gradient and bounds have one length, compared at the start")]
#[path = "optimize/mod.rs"]
pub mod optimize;
#[cfg(feature = "paper")]
#[allow(
    clippy::indexing_slicing,
    reason = "points, draws and chains are made here or compared at the public functions, and have one size each"
)]
#[path = "paper/mod.rs"]
pub mod paper;
#[allow(
    clippy::indexing_slicing,
    reason = "predictions, draws and summaries are made for the points and outputs of one call; targets are compared by `check_targets`"
)]
#[path = "predict/mod.rs"]
pub mod predict;
#[allow(
    clippy::indexing_slicing,
    reason = "values and means are as many as the groups or weights, compared where they are set"
)]
#[path = "prior/mod.rs"]
pub mod prior;
#[path = "progress.rs"]
pub mod progress;
#[path = "random.rs"]
pub mod random;
#[allow(
    clippy::indexing_slicing,
    reason = "methods, slices and rows are lists made here, and indices are positions in them"
)]
#[path = "report/mod.rs"]
pub mod report;
#[allow(
    clippy::indexing_slicing,
    reason = "places are positions in the pool's own lists; matrices are made for its rows and outputs"
)]
#[path = "suggest/mod.rs"]
pub mod suggest;
#[allow(
    clippy::indexing_slicing,
    reason = "one observation for each point, compared in `Target::new`; the other indices run over D"
)]
#[path = "target.rs"]
pub mod target;
#[path = "team/mod.rs"]
pub mod team;
#[path = "tensors/mod.rs"]
pub mod tensors;

pub use crate::error::printable;
