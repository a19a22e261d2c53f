//! CSV files with a header: every cell a finite number, every complaint with its line and column.

use std::path::{Path, PathBuf};

use ndarray::Array2;

use super::Dataset;
use crate::error::{Error, Result};
use crate::likelihood::Likelihood;

/// A CSV file of numbers.
#[derive(Debug, Clone)]
pub struct Table {
    path: PathBuf,
    columns: Vec<String>,
    values: Array2<f64>,
    /// The line of the file on which each row stands.
    lines: Vec<u64>,
}

impl Table {
    /// Reads a file; cells must be finite numbers, and there must be a row of data.
    pub fn read(path: &Path) -> Result<Self> {
        let malformed = |error: csv::Error| {
            let line = error.position().map_or(0, csv::Position::line);
            match error.into_kind() {
                csv::ErrorKind::Io(source) => Error::Io { path: path.to_path_buf(), source },
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => Error::Csv {
                    path: path.to_path_buf(),
                    line,
                    problem: format!("{len} cells where the header has {expected_len}"),
                },
                csv::ErrorKind::Utf8 { .. } => {
                    Error::Csv { path: path.to_path_buf(), line, problem: "not valid UTF-8 text".to_string() }
                }
                other => Error::Csv { path: path.to_path_buf(), line, problem: format!("{other:?}") },
            }
        };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(malformed)?;
        let columns: Vec<String> = reader
            .headers()
            .map_err(malformed)?
            .iter()
            .map(|name| name.trim_start_matches('\u{feff}').to_string())
            .collect();
        if columns.is_empty() {
            let problem = "the file is empty; a header is expected".to_string();
            return Err(Error::Csv { path: path.to_path_buf(), line: 1, problem });
        }
        if let Some(twice) = columns.iter().enumerate().find(|(i, name)| columns[..*i].contains(name)) {
            let problem = format!("the column `{}` stands twice in the header", twice.1);
            return Err(Error::Csv { path: path.to_path_buf(), line: 1, problem });
        }
        let (mut values, mut lines) = (Vec::new(), Vec::new());
        for record in reader.records() {
            let record = record.map_err(malformed)?;
            let line = record.position().map_or(0, csv::Position::line);
            for (text, column) in record.iter().zip(&columns) {
                match text.parse::<f64>() {
                    Ok(value) if value.is_finite() => values.push(value),
                    _ => {
                        return Err(Error::Cell {
                            path: path.to_path_buf(),
                            line,
                            column: column.clone(),
                            text: text.to_string(),
                        });
                    }
                }
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(Error::NoRows { what: path.display().to_string() });
        }
        let shape = (lines.len(), columns.len());
        let values = Array2::from_shape_vec(shape, values).map_err(|_| Error::Csv {
            path: path.to_path_buf(),
            line: 1,
            problem: "rows of unequal length".to_string(),
        })?;
        Ok(Self { path: path.to_path_buf(), columns, values, lines })
    }

    /// The names in the header.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// All cells.
    pub fn values(&self) -> &Array2<f64> {
        &self.values
    }

    /// The cells of one column.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        Ok(self.values.column(self.position(name)?).to_vec())
    }

    /// The named columns as targets and all others, in order, as inputs.
    pub fn dataset(&self, targets: &[String]) -> Result<Dataset> {
        let target_columns: Vec<usize> = targets.iter().map(|name| self.position(name)).collect::<Result<_>>()?;
        let input_columns: Vec<usize> = (0..self.columns.len()).filter(|i| !target_columns.contains(i)).collect();
        let axis = ndarray::Axis(1);
        Dataset::new(self.values.select(axis, &input_columns), self.values.select(axis, &target_columns))
    }

    /// The input columns alone: every column but those named in `leave_out`, when they are there.
    pub fn inputs(&self, leave_out: &[String]) -> Array2<f64> {
        let kept: Vec<usize> = (0..self.columns.len()).filter(|&i| !leave_out.contains(&self.columns[i])).collect();
        self.values.select(ndarray::Axis(1), &kept)
    }

    /// Repeats a complaint about a data point with the file and line on which it stands.
    pub fn locate(&self, error: Error) -> Error {
        match error {
            Error::Target { row, source } => {
                Error::TargetAt { path: self.path.clone(), line: self.lines.get(row).copied().unwrap_or(0), source }
            }
            Error::Size { what, expected, found } => {
                Error::Size { what: format!("{}: {what}", self.path.display()), expected, found }
            }
            other => other,
        }
    }

    /// Checks the targets of a data set made from this table, naming the line of the first that is wrong.
    pub fn check_targets(&self, data: &Dataset, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<()> {
        data.check_targets(likelihood, n_outputs).map_err(|error| self.locate(error))
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| Error::MissingColumn {
            path: self.path.clone(),
            column: name.to_string(),
            available: self.columns.join(", "),
        })
    }
}
