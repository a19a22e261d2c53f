//! Data: inputs and targets side by side, the names and scaling of their columns, and the batches in which they are
//! read.
//!
//! A [`Dataset`] holds everything in memory; [`Batches`] is what the sums over data need of it, so that data may also
//! be streamed. A [`Schema`] travels with the data: column names, class names and the [`Scaling`] between the user's
//! units and the network's.

mod batches;
#[cfg(feature = "cli")]
mod breaks;
mod class_counts;
mod dataset;
#[cfg(feature = "cli")]
mod encoder;
mod encoding;
#[cfg(feature = "cli")]
mod file;
#[cfg(feature = "cli")]
mod index;
#[cfg(feature = "cli")]
mod line_numbers;
#[cfg(feature = "cli")]
mod numbers;
#[cfg(feature = "cli")]
mod options;
mod pieces;
#[cfg(feature = "cli")]
mod plain;
#[cfg(feature = "cli")]
mod profile;
#[cfg(feature = "cli")]
mod reader;
#[cfg(feature = "cli")]
mod recognise;
mod scaling;
mod schema;
mod schema_reading;
mod standardize;
#[cfg(feature = "cli")]
mod stream;
#[cfg(feature = "cli")]
mod table;

pub use crate::error::{ColumnProblem, ColumnProblemKind, DataError, Remedy, TableError};
pub use batches::{Batch, BatchIterator, Batches, row_blocks, sum_over_blocks};
pub(crate) use batches::{blocks_at_once, sum_over_blocks_at_once, sum_over_blocks_of};
pub use class_counts::for_classes_of;
pub(crate) use dataset::check_targets;
pub use dataset::{Dataset, Standardize};
pub use encoding::{Impute, Unknown};
#[cfg(feature = "cli")]
pub use options::{TableOptions, UNNAMED_COLUMN};
pub use pieces::Pieces;
pub use scaling::{Scaling, Standardization};
pub use schema::{KnownColumn, SCALING_KEY, SCHEMA_KEY, Schema, list_names};
#[cfg(feature = "cli")]
pub use stream::{CsvStream, JoinedRow, StreamColumns};
#[cfg(feature = "cli")]
pub use table::Table;
