//! The paper's regression, computed: tasks, methods, their scores, and the no-U-turn sampler to compare with. The example
//! prints and draws these numbers; `tests/snelson.rs` checks their order.
// The example and the test use their own parts of this folder.
#![allow(dead_code)]

#[path = "../../support/experiment.rs"]
pub mod experiment;
pub mod method;
pub mod nuts;
pub mod paper;
pub mod task;
