//! The numbers of a sample, declared once: memory, checkpoints, files of samples, joins and the exchange between ranks all
//! go by [`COLUMNS`].

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::path::Path;

use super::certificate::{Certificate, END_BOUND};
use super::density::SampleDensities;
use super::samples::{Outcome, Samples};
use crate::error::{Error, Result, TensorError};
use crate::tensors::{Entry, TensorFile, Values};

/// What stands in a column, as the number that it is stored as.
trait Cell: Copy {
    /// Whether it is stored as an integer.
    const WHOLE: bool;
    /// Which numbers are allowed, in words.
    const ALLOWED: &'static str;
    fn number(self) -> f64;
    fn from_number(number: f64) -> Option<Self>;
}

impl Cell for f64 {
    const WHOLE: bool = false;
    const ALLOWED: &'static str = "a number";
    fn number(self) -> f64 {
        self
    }
    fn from_number(number: f64) -> Option<Self> {
        Some(number)
    }
}

impl Cell for usize {
    const WHOLE: bool = true;
    const ALLOWED: &'static str = "a whole number, at least 0";
    fn number(self) -> f64 {
        self as f64
    }
    fn from_number(number: f64) -> Option<Self> {
        (number >= 0.0 && number.fract() == 0.0).then_some(number as usize)
    }
}

impl Cell for bool {
    const WHOLE: bool = true;
    const ALLOWED: &'static str = "0 or 1";
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn from_number(number: f64) -> Option<Self> {
        [false, true].into_iter().find(|value| value.number() == number)
    }
}

impl Cell for Outcome {
    const WHOLE: bool = true;
    const ALLOWED: &'static str = "0, 1, 2 or 3";
    fn number(self) -> f64 {
        self.code() as f64
    }
    fn from_number(number: f64) -> Option<Self> {
        Outcome::ALL.into_iter().find(|outcome| outcome.number() == number)
    }
}

impl Cell for Option<Certificate> {
    const WHOLE: bool = true;
    const ALLOWED: &'static str = "0, 1 or 2";
    fn number(self) -> f64 {
        match self {
            None => 0.0,
            Some(Certificate::Law) => 1.0,
            Some(Certificate::Path) => 2.0,
        }
    }
    fn from_number(number: f64) -> Option<Self> {
        [None, Some(Certificate::Law), Some(Certificate::Path)].into_iter().find(|value| value.number() == number)
    }
}

/// Why the number at an index is refused.
struct Refused {
    index: usize,
    allowed: &'static str,
}

/// One number of every sample.
pub(super) struct Column {
    /// The tensor's name in files.
    pub(super) name: &'static str,
    whole: bool,
    /// Its values in files of versions that did not have it; none where every file has it.
    before: Option<f64>,
    /// Whether samples may be without it.
    optional: bool,
    get: fn(&Samples) -> Option<Vec<f64>>,
    set: fn(&mut Samples, &[f64]) -> std::result::Result<(), Refused>,
}

fn read<T: Cell>(numbers: &[f64]) -> std::result::Result<Vec<T>, Refused> {
    let refused = |index| Refused { index, allowed: T::ALLOWED };
    numbers.iter().enumerate().map(|(index, number)| T::from_number(*number).ok_or_else(|| refused(index))).collect()
}

/// A column of [`Samples`] by its field.
macro_rules! column {
    ($name:literal, $field:ident, $type:ty, $before:expr) => {
        Column {
            name: $name,
            whole: <$type as Cell>::WHOLE,
            before: $before,
            optional: false,
            get: |samples| Some(samples.$field.iter().map(|value| value.number()).collect()),
            set: |samples, numbers| {
                samples.$field = read::<$type>(numbers)?;
                Ok(())
            },
        }
    };
}

/// All of them.
pub(super) const COLUMNS: [Column; 13] = [
    column!("nfev", evaluations, usize, None),
    column!("nfev_check", check_evaluations, usize, Some(0.0)),
    column!("attempts", attempts, usize, Some(0.0)),
    column!("drift", drift, f64, None),
    column!("path_drift", path_drift, f64, Some(f64::NAN)),
    column!("residual", residual, f64, Some(f64::NAN)),
    Column {
        name: "off_graph",
        whole: false,
        before: None,
        optional: true,
        get: |samples| samples.off_graph.clone(),
        set: |samples, numbers| {
            samples.off_graph = Some(read(numbers)?);
            Ok(())
        },
    },
    column!("end_error", end_error, f64, Some(f64::INFINITY)),
    column!("status", outcome, Outcome, None),
    column!("certified", certified, bool, None),
    column!("certificate", certificate, Option<Certificate>, Some(f64::NAN)),
    Column {
        name: "log_weight",
        whole: false,
        before: None,
        optional: true,
        get: |samples| samples.density.as_ref().map(|density| density.log_weight.clone()),
        set: |samples, numbers| {
            densities(samples).log_weight = read(numbers)?;
            Ok(())
        },
    },
    Column {
        name: "conjugate",
        whole: true,
        before: None,
        optional: true,
        get: |samples| Some(samples.density.as_ref()?.conjugate.iter().map(|count| count.number()).collect()),
        set: |samples, numbers| {
            densities(samples).conjugate = read(numbers)?;
            Ok(())
        },
    },
];

fn densities(samples: &mut Samples) -> &mut SampleDensities {
    samples.density.get_or_insert_with(|| SampleDensities { log_weight: Vec::new(), conjugate: Vec::new() })
}

/// A column's values, ready to be written.
pub(super) struct Stored {
    name: &'static str,
    pub(super) numbers: Vec<f64>,
    /// The same as integers, for a column of integers.
    integers: Option<Vec<i64>>,
}

impl Stored {
    /// The tensor.
    pub(super) fn entry(&self) -> Entry<'_> {
        let values = match &self.integers {
            Some(integers) => Values::Integer(integers),
            None => Values::Real(&self.numbers),
        };
        (self.name, vec![self.numbers.len()], values)
    }

    /// The name and the numbers.
    pub(super) fn numbers(&self) -> (&'static str, &[f64]) {
        (self.name, &self.numbers)
    }
}

impl Samples {
    /// The columns that these samples have.
    pub(super) fn stored_columns(&self) -> Vec<Stored> {
        let stored = |column: &Column| {
            let numbers = (column.get)(self)?;
            let integers = column.whole.then(|| numbers.iter().map(|number| *number as i64).collect());
            Some(Stored { name: column.name, numbers, integers })
        };
        COLUMNS.iter().filter_map(stored).collect()
    }

    /// Takes every column from a new row of `rows`, each by its place among these samples' rows.
    pub(super) fn pick_columns(&mut self, from: &Samples, rows: &[usize]) {
        self.change_columns(from, |numbers| rows.iter().filter_map(|&row| numbers.get(row).copied()).collect());
    }

    /// Puts the columns of another part behind these. A column that one of the two does not have is dropped.
    pub(super) fn append_columns(&mut self, next: &Samples) {
        // No samples say nothing of the columns that some do not have.
        if next.evaluations.is_empty() {
            return;
        }
        if self.evaluations.is_empty() {
            return self.change_columns(next, |numbers| numbers);
        }
        for column in &COLUMNS {
            let joined = (column.get)(self).zip((column.get)(next)).map(|(one, next)| [one, next].concat());
            self.put(column, joined);
        }
    }

    fn change_columns(&mut self, from: &Samples, change: impl Fn(Vec<f64>) -> Vec<f64>) {
        for column in &COLUMNS {
            self.put(column, (column.get)(from).map(&change));
        }
    }

    /// Sets a column from numbers that came out of one.
    fn put(&mut self, column: &Column, numbers: Option<Vec<f64>>) {
        match numbers {
            // They were read from a column: each means something.
            Some(numbers) => (column.set)(self, &numbers).unwrap_or(()),
            None if column.name == "off_graph" => self.off_graph = None,
            None => {}
        }
    }

    /// Reads all columns by a function that gives the numbers of a tensor, if there is one.
    pub(super) fn read_columns(
        &mut self,
        mut take: impl FnMut(&'static str, bool) -> Result<Option<Vec<f64>>>,
        count: usize,
        refused: impl Fn(&'static str, usize, f64, &'static str) -> Error,
    ) -> Result<()> {
        for column in &COLUMNS {
            let required = column.before.is_none() && !column.optional;
            let numbers = match (take(column.name, required)?, column.before) {
                (Some(numbers), _) => numbers,
                (None, _) if column.name == "certificate" => {
                    // What was certified before there were two words was the law.
                    self.certified.iter().map(|certified| certified.then_some(Certificate::Law).number()).collect()
                }
                (None, Some(before)) => vec![before; count],
                (None, None) => continue,
            };
            (column.set)(self, &numbers).map_err(|Refused { index, allowed }| {
                refused(column.name, index, numbers.get(index).copied().unwrap_or(f64::NAN), allowed)
            })?;
        }
        Ok(())
    }
}

/// A file's contents, and the path for messages.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) contents: TensorFile,
}

impl Reader<'_> {
    pub(super) fn shape(&self, tensor: &str, found: Vec<usize>, expected: String) -> Error {
        let (path, tensor) = (self.path.to_path_buf(), tensor.to_string());
        Error::Tensor(TensorError::Shape { path, tensor, found, expected: expected.into() })
    }

    pub(super) fn value(&self, tensor: &str, index: usize, value: f64, requirement: &'static str) -> Error {
        value_error(self.path, tensor, index, value, requirement)
    }

    /// A matrix with one row per sample, in one piece.
    pub(super) fn take_matrix(&mut self, name: &str) -> Result<([usize; 2], Vec<f64>)> {
        let tensor = self.contents.take(self.path, name)?;
        match *tensor.shape.as_slice() {
            [rows, columns] => Ok(([rows, columns], tensor.values)),
            _ => Err(self.shape(name, tensor.shape, "expected [S, D], one row per sample".to_string())),
        }
    }

    /// One number per sample.
    pub(super) fn take_row(&mut self, name: &str, count: usize) -> Result<Vec<f64>> {
        let tensor = self.contents.take(self.path, name)?;
        if tensor.shape != [count] {
            return Err(self.shape(name, tensor.shape, format!("expected [{count}], one number per sample")));
        }
        Ok(tensor.values)
    }

    /// Whole numbers, at least 0.
    pub(super) fn take_counts(&mut self, name: &str, count: usize) -> Result<Vec<usize>> {
        let numbers = self.take_row(name, count)?;
        read(&numbers).map_err(|Refused { index, allowed }| {
            self.value(name, index, numbers.get(index).copied().unwrap_or(f64::NAN), allowed)
        })
    }

    /// Refuses a file without one of the columns that every sample of this version has.
    pub(super) fn require_columns(&self) -> Result<()> {
        let missing = |column: &&Column| !column.optional && !self.contents.tensors.contains_key(column.name);
        match COLUMNS.iter().find(missing) {
            Some(column) => Err(self.contents.missing(self.path, column.name)),
            None => Ok(()),
        }
    }

    /// All columns into `samples`, and checks them: codes are known, what is certified was reached and has figures.
    pub(super) fn take_columns(&mut self, samples: &mut Samples, count: usize) -> Result<()> {
        // Files of earlier versions have neither.
        let [looked, solved] = ["path_drift", "residual"].map(|name| self.contents.tensors.contains_key(name));
        let path = self.path;
        let take = |name: &'static str, required: bool| {
            let there = required || self.contents.tensors.contains_key(name);
            there.then(|| self.take_row(name, count)).transpose()
        };
        samples
            .read_columns(take, count, |name, index, value, allowed| value_error(path, name, index, value, allowed))?;
        let figures = samples.drift.iter().zip(&samples.path_drift).zip(&samples.residual).zip(&samples.end_error);
        let words = samples.outcome.iter().zip(samples.certified.iter().zip(&samples.certificate));
        for (row, ((outcome, (&certified, certificate)), (((drift, path_drift), residual), end_error))) in
            words.zip(figures).enumerate()
        {
            let is_path = *certificate == Some(Certificate::Path);
            let known = *drift >= 0.0 && (!looked || *path_drift >= 0.0) && (!solved || *residual >= 0.0);
            if certified && (*outcome != Outcome::Reached || !known)
                || is_path && !(0.0..=END_BOUND).contains(end_error)
            {
                let requirement =
                    "0 where the end was not reached, or drift, residual or end_error is not a number within bounds";
                return Err(self.value("certified", row, 1.0, requirement));
            }
            if certified != certificate.is_some() {
                return Err(self.value(
                    "certificate",
                    row,
                    certificate.number(),
                    "0 where `certified` is 0, else 1 or 2",
                ));
            }
        }
        Ok(())
    }

    /// Checks that a matrix is finite where samples reached their end.
    pub(super) fn check_reached(&self, tensor: &str, values: &[f64], size: usize, outcome: &[Outcome]) -> Result<()> {
        let rows = values.chunks(size.max(1)).zip(outcome).enumerate();
        for (row, (values, _)) in rows.filter(|(_, (_, outcome))| **outcome == Outcome::Reached) {
            if let Some((column, &value)) = values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
                let (path, tensor, index) = (self.path.to_path_buf(), tensor.to_string(), row * size + column);
                return Err(Error::Tensor(TensorError::NotFinite { path, tensor, index, value }));
            }
        }
        Ok(())
    }
}

fn value_error(path: &Path, tensor: &str, index: usize, value: f64, requirement: &'static str) -> Error {
    let (path, tensor) = (path.to_path_buf(), tensor.to_string());
    Error::Tensor(TensorError::Value { path, tensor, index, value, requirement })
}
