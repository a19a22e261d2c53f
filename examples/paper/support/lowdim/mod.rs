//! The paper's low-dimensional experiments, computed: where an approximation is centred, its samples, exact samples of
//! the target, and the distance between them. The examples print and draw these numbers; `tests/examples.rs` checks
//! their order.
// Every example, and the test, uses its own part of this folder.
#![allow(dead_code)]

pub mod banana;
pub mod chains;
pub mod funnel;
pub mod gaussian;
pub mod logistic;
pub mod placement;
pub mod score;
pub mod squiggle;
pub mod truth;

/// Seed of the exact sample that distances are measured to. Repeat r of a method draws with seed r, so that exact
/// samples never use the streams of a method, whose purpose they share.
pub const REFERENCE_SEED: u64 = 1_000_000;

/// Seed of a second exact sample, whose distance to the reference is what a perfect method would get.
pub fn exact_seed(repeat: u64) -> u64 {
    2_000_000 + repeat
}

/// How much is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Samples of each repeat.
    pub samples: usize,
    /// Exact samples that they are compared with.
    pub reference: usize,
    /// Repeats, each with its own seed.
    pub repeats: u64,
}

impl Size {
    pub const QUICK: Self = Self { samples: 200, reference: 400, repeats: 3 };
    pub const MEDIUM: Self = Self { samples: 1_000, reference: 2_000, repeats: 5 };
    /// The paper's.
    pub const FULL: Self = Self { samples: 10_000, reference: 20_000, repeats: 5 };
}
