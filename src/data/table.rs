//! A CSV file with a header, and the data sets made from it: columns by name, labels as words or numbers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::{Array2, Axis};

use super::line_numbers::LineNumbers;
use super::schema::list_names;
use super::{Dataset, Schema};
use crate::error::{Error, Result, TableError, shown};
use crate::likelihood::Likelihood;
use crate::memory::Reservation;

/// A CSV file: named columns, and cells that are finite numbers or words.
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
    /// NaN where the cell is a word.
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

    /// All cells; words are NaN.
    pub fn values(&self) -> &Array2<f64> {
        &self.values
    }

    /// The number of rows that were left out because a cell was empty.
    pub fn n_dropped(&self) -> usize {
        self.dropped
    }

    /// The cells of one column, which must be numbers.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        let position = self.columns.iter().position(|column| column == name);
        let position = position.ok_or_else(|| missing_column(&self.path, name, &self.columns))?;
        self.refuse_words(&[position])?;
        Ok(self.values.column(position).to_vec())
    }

    /// The named columns as targets and all others, in order, as inputs; every cell must be a number.
    pub fn dataset(&self, targets: &[String]) -> Result<Dataset> {
        self.refuse_words(&(0..self.columns.len()).collect::<Vec<_>>())?;
        let (inputs, targets) = self.split(targets)?;
        let schema = Schema::new(self.names(&inputs), self.names(&targets))?;
        Dataset::new(self.numbers(&inputs)?, self.numbers(&targets)?)?.with_schema(schema)
    }

    /// As [`dataset`](Self::dataset), with class labels as targets. Words become the classes 0, 1, … in their sorted
    /// order, and the schema keeps them; numeric labels are kept. Several targets share their classes if they have at
    /// most two words between them (`no`, `yes`); otherwise each has its own.
    pub fn labelled_dataset(&self, targets: &[String]) -> Result<Dataset> {
        let (inputs, targets) = self.split(targets)?;
        if targets.iter().all(|column| !self.words.contains_key(column)) {
            return self.dataset(&self.names(&targets));
        }
        self.refuse_mixed(&targets)?;
        let words_of = |column: &usize| {
            let words = self.words.get(column).map_or(&[][..], |words| &words.distinct);
            words.iter().cloned().collect::<BTreeSet<String>>()
        };
        let words: Vec<BTreeSet<String>> = targets.iter().map(words_of).collect();
        let schema = with_words(Schema::new(self.names(&inputs), self.names(&targets))?, &words)?;
        Dataset::new(self.numbers(&inputs)?, self.labels(&targets, &schema)?)?.with_schema(schema)
    }

    /// The inputs that a schema names, in its order and in the network's units.
    ///
    /// Every input must be present, in any order. Targets may be present and are left out; a column that is neither is
    /// an error.
    pub fn inputs_for(&self, schema: &Schema) -> Result<Array2<f64>> {
        let positions = self.positions();
        let inputs = self.find(&positions, schema.inputs())?;
        self.refuse_unknown(schema)?;
        schema.scale_inputs(self.numbers(&inputs)?.view())
    }

    /// The inputs and targets that a schema names, in its order and in the network's units. Labels are looked up among
    /// the schema's classes, if it has any. (In the original units: [`Schema::without_scaling`].)
    pub fn dataset_for(&self, schema: &Schema) -> Result<Dataset> {
        let positions = self.positions();
        let inputs = self.numbers(&self.find(&positions, schema.inputs())?)?;
        let targets = self.find(&positions, schema.targets())?;
        self.refuse_unknown(schema)?;
        let labels = self.labels(&targets, schema)?;
        let inputs = schema.scale_inputs(inputs.view())?;
        Dataset::new(inputs, schema.scale_targets(labels.view())?)?.with_schema(schema.clone())
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
    pub fn check_targets(&self, data: &Dataset, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<()> {
        data.check_targets(likelihood, n_outputs).map_err(|error| self.locate(error))
    }

    /// The positions of all other columns and of the named ones.
    fn split(&self, targets: &[String]) -> Result<(Vec<usize>, Vec<usize>)> {
        let targets = self.find(&self.positions(), targets)?;
        let taken: HashSet<usize> = targets.iter().copied().collect();
        Ok(((0..self.columns.len()).filter(|column| !taken.contains(column)).collect(), targets))
    }

    fn positions(&self) -> HashMap<&str, usize> {
        self.columns.iter().enumerate().map(|(position, name)| (name.as_str(), position)).collect()
    }

    fn find(&self, positions: &HashMap<&str, usize>, names: &[String]) -> Result<Vec<usize>> {
        let missing = |name: &String| missing_column(&self.path, name, &self.columns);
        names.iter().map(|name| positions.get(name.as_str()).copied().ok_or_else(|| missing(name))).collect()
    }

    fn refuse_unknown(&self, schema: &Schema) -> Result<()> {
        let known: HashSet<&String> = schema.inputs().iter().chain(schema.targets()).collect();
        match self.columns.iter().find(|name| !known.contains(name)) {
            Some(name) => {
                Err(Error::Table(TableError::UnknownColumn { path: self.path.clone(), column: name.clone() }))
            }
            None => Ok(()),
        }
    }

    fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().filter_map(|&column| self.columns.get(column)).cloned().collect()
    }

    /// The line of the file that a row comes from; 0 if there is no such row.
    pub fn line(&self, row: usize) -> u64 {
        self.lines.of(row)
    }

    /// Columns of numbers; a word is an error.
    fn numbers(&self, columns: &[usize]) -> Result<Array2<f64>> {
        self.refuse_words(columns)?;
        Ok(self.cells(columns))
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

    /// Refuses the first word in any of the columns.
    fn refuse_words(&self, columns: &[usize]) -> Result<()> {
        let first = |&column: &usize| {
            let words = self.words.get(&column)?;
            let &(row, word) = words.cells.first()?;
            Some((row, column, words.distinct.get(word)?))
        };
        match columns.iter().filter_map(first).min() {
            Some((row, column, word)) => Err(Error::Table(TableError::Cell {
                path: self.path.clone(),
                line: self.line(row),
                column: self.names(&[column]).concat(),
                text: word.clone(),
            })),
            None => Ok(()),
        }
    }

    /// Refuses label columns that hold both words and numbers.
    fn refuse_mixed(&self, columns: &[usize]) -> Result<()> {
        let number = columns.iter().find_map(|&column| {
            let values = self.values.column(column);
            values.iter().enumerate().find(|(_, value)| !value.is_nan()).map(|(row, value)| (row, *value))
        });
        let word = columns.iter().find_map(|column| {
            let words = self.words.get(column)?;
            let &(row, word) = words.cells.first()?;
            Some((row, words.distinct.get(word)?))
        });
        match (number, word) {
            (Some((number_row, number)), Some((word_row, word))) => Err(Error::Table(TableError::MixedLabels {
                path: self.path.clone(),
                word: word.clone(),
                word_line: self.line(word_row),
                number,
                number_line: self.line(number_row),
            })),
            _ => Ok(()),
        }
    }

    /// Targets as numbers: where the schema names a column's classes, the positions of the labels among them. A numeric
    /// label is looked up in its shortest written form.
    fn labels(&self, columns: &[usize], schema: &Schema) -> Result<Array2<f64>> {
        let mut labels = self.cells(columns);
        for ((target, &column), mut labels) in columns.iter().enumerate().zip(labels.columns_mut()) {
            let Some(classes) = schema.classes_of(target) else {
                self.refuse_words(&[column])?;
                continue;
            };
            let index: HashMap<&str, usize> = classes.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
            let words = self.words.get(&column);
            let mut cells = words.map_or(&[][..], |words| &words.cells).iter().peekable();
            for (row, label) in labels.iter_mut().enumerate() {
                let word = cells.next_if(|cell| cell.0 == row).and_then(|cell| words?.distinct.get(cell.1));
                let text = word.map_or_else(|| Cow::Owned(label.to_string()), |word| Cow::Borrowed(word.as_str()));
                let found = index.get(text.as_ref()).ok_or_else(|| {
                    Error::Table(TableError::UnknownClass {
                        path: self.path.clone(),
                        line: self.line(row),
                        column: self.names(&[column]).concat().into(),
                        label: text.as_ref().into(),
                        classes: list_names(classes).into(),
                    })
                })?;
                *label = *found as f64;
            }
        }
        Ok(labels)
    }
}

/// A schema whose labels are words, given those of each target: all targets share their classes where there is one target
/// or at most two words; otherwise each has its own.
pub(super) fn with_words(schema: Schema, words: &[BTreeSet<String>]) -> Result<Schema> {
    let shared: BTreeSet<&String> = words.iter().flatten().collect();
    if words.len() == 1 || shared.len() <= 2 {
        return schema.with_classes(shared.into_iter().cloned().collect());
    }
    schema.with_target_classes(words.iter().map(|words| words.iter().cloned().collect()).collect())
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
