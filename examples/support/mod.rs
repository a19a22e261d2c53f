//! What the examples share: data, tables and figures.

pub mod experiment;
pub mod figure;
pub mod table;
