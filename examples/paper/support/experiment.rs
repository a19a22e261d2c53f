//! Snelson's data with the paper's splits, raw or standardised, and scores in original units.

use std::path::{Path, PathBuf};

use ndarray::{Array2, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::{Error, Result};

/// The folder `data` of the repository.
pub fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// x and y shifted and scaled; the identity for raw data.
#[derive(Debug, Clone, Copy)]
pub struct Scaling {
    pub x: (f64, f64),
    pub y: (f64, f64),
}

impl Scaling {
    pub const NONE: Self = Self { x: (0.0, 1.0), y: (0.0, 1.0) };

    /// Mean and standard deviation (ddof 0) of the training data.
    pub fn of(data: &Dataset) -> Self {
        let moments = |values: &Array2<f64>| {
            let mean = values.sum() / values.len() as f64;
            let variance = values.mapv(|value| (value - mean).powi(2)).sum() / values.len() as f64;
            (mean, variance.sqrt())
        };
        Self { x: moments(data.inputs()), y: moments(data.targets()) }
    }

    pub fn apply(&self, data: &Dataset) -> Result<Dataset> {
        let scale = |values: &Array2<f64>, (mean, deviation): (f64, f64)| values.mapv(|v| (v - mean) / deviation);
        Dataset::new(scale(data.inputs(), self.x), scale(data.targets(), self.y))
    }

    pub fn input(&self, x: f64) -> f64 {
        (x - self.x.0) / self.x.1
    }

    pub fn output(&self, y: f64) -> f64 {
        self.y.0 + self.y.1 * y
    }
}

/// One of the paper's two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Complete,
    Gap,
}

impl Split {
    pub fn name(self) -> &'static str {
        match self {
            Split::Complete => "complete",
            Split::Gap => "gap",
        }
    }

    /// Training and test data in original units.
    pub fn load(self) -> Result<(Dataset, Dataset)> {
        let data = Table::read(&data_folder().join("snelson.csv"))?.dataset(&["y".to_string()])?;
        let path = data_folder().join("snelson_split.csv");
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let column = if self == Split::Complete { 1 } else { 2 };
        let rows = |wanted: &str| -> Vec<usize> {
            let words = text.lines().skip(1).map(|line| line.split(',').nth(column).unwrap_or(""));
            words.enumerate().filter(|(_, word)| *word == wanted).map(|(row, _)| row).collect()
        };
        Ok((data.select(&rows("train"))?, data.select(&rows("test"))?))
    }
}

/// Points from `low` to `high` as a matrix of one column.
pub fn grid(low: f64, high: f64, count: usize) -> Array2<f64> {
    match count {
        0 | 1 => array![[low]],
        _ => Array2::from_shape_fn((count, 1), |(i, _)| low + (high - low) * i as f64 / (count - 1) as f64),
    }
}
