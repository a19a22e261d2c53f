//! The data of a fit: in memory, or read from the file as they are needed.

use std::path::{Path, PathBuf};

use riemannian_laplace::internals::data::{CsvStream, StreamColumns};
use riemannian_laplace::internals::laplace::Watched;
use riemannian_laplace::{Batches, Dataset, Error, Family, Laplace, Model, Progress, Scaling, Schema};

use super::data::{self, DataFile};
use super::failure::Failure;

/// How a data file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Whole, into memory.
    Whole,
    /// In batches, as often as they are needed; a team shares them.
    Streamed,
}

/// A data file.
#[derive(Debug)]
pub enum Source {
    /// In memory.
    Whole(DataFile),
    /// Read in batches.
    Streamed {
        /// Its rows.
        rows: CsvStream,
        /// Where they are.
        path: PathBuf,
    },
}

impl Source {
    /// Opens a file to be read in batches.
    pub fn stream(path: &Path, rows: CsvStream) -> Self {
        Source::Streamed { rows, path: path.to_path_buf() }
    }

    /// The rows.
    pub fn batches(&self) -> &dyn Batches {
        match self {
            Source::Whole(file) => &file.dataset,
            Source::Streamed { rows, .. } => rows,
        }
    }

    /// Names, classes and scaling.
    pub fn schema(&self) -> &Schema {
        self.batches().schema()
    }

    /// The rows in memory, where they are.
    pub fn dataset(&self) -> Option<&Dataset> {
        match self {
            Source::Whole(file) => Some(&file.dataset),
            Source::Streamed { .. } => None,
        }
    }

    /// The rows that are read in batches, where they are, to look at.
    pub fn rows(&self) -> Option<&CsvStream> {
        match self {
            Source::Whole(_) => None,
            Source::Streamed { rows, .. } => Some(rows),
        }
    }

    /// The rows that are read in batches, where they are.
    pub fn streamed(self) -> Option<CsvStream> {
        match self {
            Source::Whole(_) => None,
            Source::Streamed { rows, .. } => Some(rows),
        }
    }

    /// The same, scaled.
    pub fn scaled_by(self, scaling: Scaling) -> Result<Self, Error> {
        Ok(match self {
            Source::Whole(mut file) => {
                file.dataset = file.dataset.scaled_by(scaling)?;
                Source::Whole(file)
            }
            Source::Streamed { rows, path } => Source::Streamed { rows: rows.scaled_by(scaling)?, path },
        })
    }

    /// Checks the columns against a network and, where they are in memory, the targets. (Those that are streamed are checked
    /// as they are read.)
    pub fn check_against(&self, model: &dyn Model, family: &Family) -> Result<(), Failure> {
        match self {
            Source::Whole(file) => file.check_against(model, family),
            Source::Streamed { rows, path } => data::check_columns(path, rows.schema(), model, family.likelihood()),
        }
    }

    /// Adds the file and the line to an error about a data point.
    pub fn locate(&self, error: Error) -> Error {
        match self {
            Source::Whole(file) => file.locate(error),
            Source::Streamed { rows, .. } => rows.locate(error),
        }
    }

    /// Fits a posterior, which keeps the data where they are in memory; `progress` advances with every row that is read.
    pub fn fit(
        &self,
        model: std::sync::Arc<dyn Model>,
        family: Family,
        options: &riemannian_laplace::FitOptions,
        progress: &dyn Progress,
    ) -> Result<Laplace, Error> {
        let fitted = match self {
            Source::Whole(file) => Laplace::fit_watched(model, file.dataset.clone(), family, options, progress),
            Source::Streamed { rows, .. } => {
                Laplace::fit_batches(model, &Watched { data: rows, progress }, family, options)
            }
        };
        fitted.map_err(|error| self.locate(error))
    }
}

/// The columns of a data file: those of a schema, or those that the options name.
pub fn columns(schema: Option<&Schema>, targets: &[String], classes: Classes) -> StreamColumns {
    match (schema, classes) {
        (Some(schema), _) => StreamColumns::Schema(schema.clone()),
        (None, Classes::Yes) => StreamColumns::Labels(targets.to_vec()),
        (None, Classes::No) => StreamColumns::Targets(targets.to_vec()),
    }
}

/// Whether the targets are classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// They are, and may be words.
    Yes,
    /// They are numbers.
    No,
}
