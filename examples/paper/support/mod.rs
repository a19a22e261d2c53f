//! What the examples share: data, tables and figures.
// Every example uses its own part of this folder.
#![allow(dead_code)]

pub mod canvas;
pub mod cells;
pub mod clouds;
pub mod comparison;
pub mod contours;
pub mod dots;
pub mod experiment;
pub mod figure;
pub mod lines;
pub mod lowdim;
pub mod published;
pub mod references;
pub mod table;
