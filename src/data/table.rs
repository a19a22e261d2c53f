//! A CSV file with a header, and the data sets made from it: columns by name, labels as words or numbers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::{Array2, Axis};

use super::encoding::{Impute, InputColumn, Unknown};
use super::line_numbers::LineNumbers;
use super::numbers::Cell;
use super::profile::{Codes, Profile, code};
use super::recognise::{Labels, Profiled, codes};
use super::schema::list_names;
use super::{Dataset, Schema, TableOptions};
use crate::error::{Error, Result, TableError, shown};
use crate::likelihood::Family;
use crate::memory::{self, Reservation};

/// A CSV file: named columns, and cells that are finite numbers, words, or without a value.
///
/// ```
/// # use riemannian_laplace::internals::data::Table;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("iris.csv");
/// std::fs::write(&path, "width;kind\n0.2;setosa\n1.3;versicolor\n").unwrap();
/// let data = Table::read(&path)?.labelled_dataset(&["kind".to_string()])?;
/// assert_eq!(data.schema().classes().unwrap(), ["setosa", "versicolor"]);
/// // New data may have their columns in any order, and the target or not.
/// std::fs::write(&path, "kind,width\nversicolor,1.5\n").unwrap();
/// let table = Table::read(&path)?;
/// assert_eq!(table.inputs_for(data.schema())?, ndarray::array![[1.5]]);
/// assert_eq!(table.dataset_for(data.schema())?.targets(), &ndarray::array![[1.0]]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) path: PathBuf,
    pub(super) columns: Vec<String>,
    /// The columns of the file, unknown ones included, without those that were left out by name.
    pub(super) available: Vec<String>,
    pub(super) options: TableOptions,
    /// NaN where the cell is a word or has no value.
    pub(super) values: Array2<f64>,
    /// The columns that contain words.
    pub(super) words: BTreeMap<usize, Words>,
    /// The line of the file that each row comes from.
    pub(super) lines: LineNumbers,
    pub(super) dropped: usize,
    /// The memory for the cells, and for the arrays made from them.
    pub(super) _reservation: Arc<Reservation>,
}

/// The words of a column.
#[derive(Debug, Clone)]
pub(super) struct Words {
    /// Each word once.
    pub(super) distinct: Vec<String>,
    /// The rows, in order, and their words' positions in `distinct`.
    pub(super) cells: Vec<(usize, usize)>,
}

impl Table {
    /// The names in the header, without ignored columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The columns of the file that are neither read nor left out by name.
    pub fn unknown_columns(&self) -> Vec<String> {
        let known: HashSet<&String> = self.columns.iter().collect();
        self.available.iter().filter(|name| !known.contains(name)).cloned().collect()
    }

    /// All cells; words and missing values are NaN.
    pub fn values(&self) -> &Array2<f64> {
        &self.values
    }

    /// The number of rows that were left out because a value was missing.
    pub fn n_dropped(&self) -> usize {
        self.dropped
    }

    /// The cells of one column, which must be numbers.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        let position = self.columns.iter().position(|column| column == name);
        let position = position.ok_or_else(|| missing_column(&self.path, name, &self.available))?;
        let column = self.values.column(position);
        match column.iter().position(|value| value.is_nan()) {
            None => Ok(column.to_vec()),
            Some(row) => Err(self.no_number(position, row)),
        }
    }

    /// The named columns as targets, which must be numbers, and all others, in order, as inputs.
    pub fn dataset(&self, targets: &[String]) -> Result<Dataset> {
        self.new_dataset(targets, Labels::Numbers)
    }

    /// As [`dataset`](Self::dataset), with class labels as targets. Words become the classes 0, 1, … in their sorted
    /// order, and the schema keeps them; so do whole numbers, unless they are 0, 1, …, C−1. Several targets share their
    /// classes if they have at most two between them (`no`, `yes`); otherwise each has its own.
    pub fn labelled_dataset(&self, targets: &[String]) -> Result<Dataset> {
        self.new_dataset(targets, Labels::Classes)
    }

    /// The inputs that a schema names, in its order and in the network's units.
    ///
    /// Every input must be present, in any order. Targets may be present and are left out; a column that is neither is
    /// an error.
    pub fn inputs_for(&self, schema: &Schema) -> Result<Array2<f64>> {
        self.check_columns(schema, &[])?;
        schema.scale_inputs(self.inputs(schema)?.view())
    }

    /// The inputs and targets that a schema names, in its order and in the network's units. Labels are looked up among
    /// the schema's classes, if it has any. (In the original units: [`Schema::without_scaling`].)
    pub fn dataset_for(&self, schema: &Schema) -> Result<Dataset> {
        let columns = schema.target_columns();
        self.check_columns(schema, &columns)?;
        let labels = self.labels(&self.find(&self.positions(), &columns)?, schema)?;
        let inputs = schema.scale_inputs(self.inputs(schema)?.view())?;
        Dataset::new(inputs, schema.scale_targets(labels.view())?)?.with_schema(schema.clone())
    }

    /// Inputs and targets of data that are seen for the first time.
    fn new_dataset(&self, targets: &[String], labels: Labels) -> Result<Dataset> {
        let positions = self.find(&self.positions(), &self.options.target_columns(targets))?;
        let wanted = if labels == Labels::Classes { targets } else { &[] };
        let profiles = self.profiles(&codes(&self.columns, wanted, &self.options, None));
        let schema = self.profiled(&profiles).schema(targets, labels)?;
        let schema = match self.options.impute {
            Some(impute) => self.filled(schema, impute)?,
            None => schema,
        };
        Dataset::new(self.inputs(&schema)?, self.labels(&positions, &schema)?)?.with_schema(schema)
    }

    /// Checks that the columns of a schema are there and can be read as it says.
    fn check_columns(&self, schema: &Schema, targets: &[String]) -> Result<()> {
        let positions = self.positions();
        let columns = schema.source_columns();
        let mut found = self.find(&positions, &columns)?;
        found.extend(self.find(&positions, targets)?);
        let target_columns = schema.target_columns();
        let known: HashSet<&String> = columns.iter().chain(&target_columns).collect();
        if let Some(name) = self.columns.iter().find(|name| !known.contains(name)) {
            return Err(Error::Table(TableError::UnknownColumn { path: self.path.clone(), column: name.clone() }));
        }
        // Where all are numbers there is nothing to look for.
        let numbers = self.columns_of_numbers();
        let are_numbers = found.iter().all(|&column| numbers.get(column).copied().unwrap_or_default());
        if are_numbers && schema.input_columns().iter().all(InputColumn::is_plain) {
            return Ok(());
        }
        let profiles = self.profiles(&codes(&self.columns, &[], &self.options, Some(schema)));
        self.profiled(&profiles).check(schema, targets)
    }

    fn profiled<'a>(&'a self, profiles: &'a [Profile]) -> Profiled<'a> {
        Profiled { path: &self.path, names: &self.columns, profiles, options: &self.options }
    }

    /// What the cells of each column are.
    fn profiles(&self, codes: &[Codes]) -> Vec<Profile> {
        let numbers = self.columns_of_numbers();
        let first = self.values.rows().into_iter().next();
        let of = |(column, (codes, is_numbers)): (usize, (&Codes, bool))| {
            if is_numbers && *codes == Codes::Ignored {
                let first = first.as_ref().and_then(|row| row.get(column)).map(|value| (self.line(0), *value));
                return Profile::of_numbers(self.values.nrows(), first);
            }
            let mut profile = Profile::default();
            for (row, cell) in self.cells_of(column).enumerate() {
                profile.see(self.line(row), cell, *codes);
            }
            profile
        };
        codes.iter().zip(numbers).enumerate().map(of).collect()
    }

    /// Which columns hold nothing but numbers, in one pass over the rows.
    fn columns_of_numbers(&self) -> Vec<bool> {
        let mut numbers = vec![true; self.columns.len()];
        for row in self.values.rows() {
            numbers.iter_mut().zip(row).for_each(|(numbers, value)| *numbers &= !value.is_nan());
        }
        numbers
    }

    /// The cells of a column, in order.
    fn cells_of(&self, column: usize) -> impl Iterator<Item = Cell<'_>> {
        let words = self.words.get(&column);
        let mut cells = words.map_or(&[][..], |words| &words.cells).iter().peekable();
        self.values.column(column).into_iter().enumerate().map(move |(row, value)| {
            let word = cells.next_if(|cell| cell.0 == row).and_then(|cell| words?.distinct.get(cell.1));
            match word {
                Some(word) => Cell::Word(word),
                None if value.is_nan() => Cell::Missing,
                None => Cell::Number(*value),
            }
        })
    }

    /// The inputs of a schema, in the units of the file.
    fn inputs(&self, schema: &Schema) -> Result<Array2<f64>> {
        let columns = schema.input_columns();
        let positions = self.find(&self.positions(), &schema.source_columns())?;
        if columns.iter().all(InputColumn::is_plain) {
            return Ok(self.cells(&positions));
        }
        let unknown = if self.options.unknown == Unknown::Other { Unknown::Other } else { schema.unknown() };
        let (rows, width) = (self.values.nrows(), schema.inputs().len());
        memory::check(
            &format!("the inputs of {}", self.path.display()),
            (rows * width) as f64,
            "ignore columns of words",
        )?;
        let (mut inputs, mut first) = (Array2::zeros((rows, width)), 0);
        for (column, &position) in columns.iter().zip(&positions) {
            let (encoder, last) = (column.encoder(), first + column.width());
            for ((row, cell), mut inputs) in self.cells_of(position).enumerate().zip(inputs.rows_mut()) {
                let inputs = inputs.as_slice_mut().and_then(|inputs| inputs.get_mut(first..last));
                let encoded = inputs.and_then(|inputs| encoder.encode(cell, unknown, inputs));
                encoded.ok_or_else(|| self.no_number(position, row))?;
            }
            first = last;
        }
        Ok(inputs)
    }

    /// A schema that says what stands in the place of missing inputs.
    fn filled(&self, schema: Schema, impute: Impute) -> Result<Schema> {
        let mut columns = schema.input_columns().into_owned();
        let positions = self.find(&self.positions(), &schema.source_columns())?;
        for (column, &position) in columns.iter_mut().zip(&positions) {
            let values: Vec<f64> =
                self.cells_of(position).filter_map(|cell| super::encoder::value(&column.kind, cell)).collect();
            column.fill = Some(match impute {
                _ if values.is_empty() => 0.0,
                Impute::Mean | Impute::Indicator => values.iter().sum::<f64>() / values.len() as f64,
                Impute::Median => median(values),
            });
            column.indicator = impute == Impute::Indicator && self.cells_of(position).any(|cell| cell == Cell::Missing);
        }
        schema.with_columns(columns)
    }

    /// The error of a cell that is not a number.
    fn no_number(&self, column: usize, row: usize) -> Error {
        let text = match self.cells_of(column).nth(row) {
            Some(Cell::Word(word)) => word.to_string(),
            Some(Cell::Number(value)) => value.to_string(),
            Some(Cell::Missing) | None => String::new(),
        };
        let (path, column) = (self.path.clone(), self.columns.get(column).cloned().unwrap_or_default());
        Error::Table(TableError::Cell { path, line: self.line(row), column, text })
    }

    /// Adds the file and line to an error about a data point.
    pub fn locate(&self, error: Error) -> Error {
        match error {
            Error::Target { row, source } => {
                Error::Table(TableError::Target { path: self.path.clone(), line: self.line(row), source })
            }
            Error::Size { what, expected, found } => {
                Error::Size { what: format!("{}: {what}", self.path.display()), expected, found }
            }
            other => other,
        }
    }

    /// Checks the targets of a data set made from this table; the error names the line of the first invalid one.
    pub fn check_targets(&self, data: &Dataset, family: &Family, n_outputs: usize) -> Result<()> {
        data.check_targets(family, n_outputs).map_err(|error| self.locate(error))
    }

    fn positions(&self) -> HashMap<&str, usize> {
        self.columns.iter().enumerate().map(|(position, name)| (name.as_str(), position)).collect()
    }

    fn find(&self, positions: &HashMap<&str, usize>, names: &[String]) -> Result<Vec<usize>> {
        let missing = |name: &String| missing_column(&self.path, name, &self.available);
        names.iter().map(|name| positions.get(name.as_str()).copied().ok_or_else(|| missing(name))).collect()
    }

    /// The line of the file that a row comes from; 0 if there is no such row.
    pub fn line(&self, row: usize) -> u64 {
        self.lines.of(row)
    }

    /// Columns of cells, row by row: neighbours are copied together.
    fn cells(&self, columns: &[usize]) -> Array2<f64> {
        let runs = columns.chunk_by(|column, next| column + 1 == *next);
        let runs: Vec<Range<usize>> = runs.filter_map(|run| Some(*run.first()?..run.last()? + 1)).collect();
        let mut cells = Vec::with_capacity(self.values.nrows() * columns.len());
        for row in self.values.rows() {
            let row = row.to_slice().unwrap_or_default();
            runs.iter().for_each(|run| cells.extend_from_slice(row.get(run.clone()).unwrap_or_default()));
        }
        let shape = (self.values.nrows(), columns.len());
        Array2::from_shape_vec(shape, cells).unwrap_or_else(|_| self.values.select(Axis(1), columns))
    }

    /// Targets as numbers: where the schema names a column's classes, the positions of the labels among them. A numeric
    /// label is looked up in its shortest written form.
    fn labels(&self, columns: &[usize], schema: &Schema) -> Result<Array2<f64>> {
        let mut labels = self.cells(columns);
        for ((target, &column), mut labels) in columns.iter().enumerate().zip(labels.columns_mut()) {
            let Some(classes) = schema.classes_of(target) else { continue };
            let index: HashMap<&str, usize> = classes.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
            for ((row, cell), label) in self.cells_of(column).enumerate().zip(labels.iter_mut()) {
                let text = match cell {
                    Cell::Word(word) => Cow::Borrowed(word),
                    Cell::Number(value) => Cow::Owned(code(value)),
                    Cell::Missing => return Err(self.no_number(column, row)),
                };
                let number = text.parse::<usize>().ok().filter(|number| *number < classes.len());
                let found = index.get(text.as_ref()).copied().or(number.filter(|_| schema.has_numbered_labels()));
                let found = found.ok_or_else(|| {
                    Error::Table(TableError::UnknownClass {
                        path: self.path.clone(),
                        line: self.line(row),
                        column: self.columns.get(column).cloned().unwrap_or_default().into(),
                        label: text.as_ref().into(),
                        classes: list_names(classes).into(),
                    })
                })?;
                *label = found as f64;
            }
        }
        Ok(labels)
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or_default();
    let lower = values.get((values.len().max(1) - 1) / 2).copied().unwrap_or_default();
    lower + 0.5 * (upper - lower)
}

/// At most this many columns are named in a message.
const MOST_NEAREST: usize = 10;

/// The error for a missing column, with the existing columns or, if there are many, those with the nearest names.
pub(super) fn missing_column(path: &Path, name: &str, columns: &[String]) -> Error {
    let available = if columns.is_empty() {
        "there are no columns".to_string()
    } else if columns.len() <= MOST_NEAREST {
        format!("the columns are {}", list_names(columns))
    } else {
        let mut nearest: Vec<(usize, usize)> =
            columns.iter().enumerate().map(|(position, column)| (distance(name, column), position)).collect();
        nearest.sort_unstable();
        let nearest: Vec<String> = nearest
            .iter()
            .take(MOST_NEAREST)
            .filter_map(|&(_, position)| columns.get(position).map(|name| shown(name)))
            .collect();
        format!("the nearest names of its {} columns are {}", columns.len(), nearest.join(", "))
    };
    Error::Table(TableError::MissingColumn { path: path.to_path_buf(), column: name.to_string(), available })
}

/// The number of letters to insert, delete or replace, ignoring case, to turn one name into the other.
#[allow(
    clippy::indexing_slicing,
    reason = "the row has one entry more than `other` has letters, and j is one of those"
)]
fn distance(one: &str, other: &str) -> usize {
    // Long enough to tell names apart; the cost grows with the square.
    const LONGEST: usize = 64;
    let letters = |name: &str| name.chars().flat_map(char::to_lowercase).take(LONGEST).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_letters() {
        for (one, other, expected) in
            [("age", "age", 0), ("age", "Age", 0), ("age", "ages", 1), ("kitten", "sitting", 3), ("", "ab", 2)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
