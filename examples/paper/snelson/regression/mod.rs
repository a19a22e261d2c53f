//! The paper's regression, computed: tasks, methods, their scores, and the no-U-turn sampler to compare with. The
//! example prints and draws these numbers; `tests/snelson.rs` checks their order.
// Both have the data as `crate::experiment`, and use their own parts of this folder.
#![allow(dead_code)]

pub mod method;
pub mod nuts;
pub mod paper;
pub mod task;
