//! A CSV file of any length, read in batches: what is in memory is one batch and an index.

use std::ops::Range;
use std::path::{Path, PathBuf};

use ndarray::Array2;

use super::index::{Labels, Mark, Part, at, scan};
use super::reader::{Cells, OpenTable};
use super::table::{missing_column, with_words};
use super::{Batch, BatchIterator, Batches, Dataset, Scaling, Schema, Table, TableOptions};
use crate::error::{DataError, Error, Result, TableError, TeamError};
use crate::memory;
use crate::team::Team;
use crate::tensors::require_regular;

/// Which columns of a file are inputs and targets.
#[derive(Debug, Clone)]
pub enum StreamColumns {
    /// The named columns are targets, all others inputs; every cell is a number.
    Targets(Vec<String>),
    /// The same, with class labels as targets, which may be words.
    Labels(Vec<String>),
    /// Those of a schema, by name, scaled as it says.
    Schema(Schema),
    /// The inputs of a schema alone; there are no targets.
    Inputs(Schema),
}

/// Whether targets are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Targets {
    Read,
    None,
}

/// A CSV file that is read as its rows are needed.
///
/// ```
/// # use riemannian_laplace::Batches;
/// # use riemannian_laplace::internals::data::{CsvStream, StreamColumns, TableOptions};
/// # use riemannian_laplace::internals::team::Team;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("long.csv");
/// std::fs::write(&path, "x,y\n1,2\n3,4\n5,6\n").unwrap();
/// let columns = StreamColumns::Targets(vec!["y".to_string()]);
/// let data = CsvStream::open(&path, &TableOptions::default(), columns, Team::alone())?;
/// assert_eq!(data.n_rows(), 3);
/// let last = data.batches(2..3, 100)?.next().unwrap()?;
/// assert_eq!(last.targets[(0, 0)], 6.0);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CsvStream {
    path: PathBuf,
    options: TableOptions,
    schema: Schema,
    targets: Targets,
    marks: Vec<Mark>,
    n_rows: usize,
    n_dropped: usize,
    team: Team,
}

impl CsvStream {
    /// Opens a file and reads it once. All ranks of a team must do so together, with the same arguments.
    pub fn open(path: &Path, options: &TableOptions, columns: StreamColumns, team: Team) -> Result<Self> {
        // The file is read more than once, which a pipe cannot be.
        require_regular(path)?;
        let mut table = OpenTable::open(path, options, |_, _, _| Ok(()))?;
        let names = table.columns();
        let labels = match &columns {
            StreamColumns::Labels(targets) => positions(path, &names, targets)?,
            StreamColumns::Targets(_) | StreamColumns::Schema(_) | StreamColumns::Inputs(_) => Vec::new(),
        };
        let parts = scan(&mut table, &labels, &team)?;
        let (mut marks, mut n_rows, mut n_dropped, mut lines) = (Vec::new(), 0, 0, 0);
        for part in &parts {
            let shifted = |mark: &Mark| Mark { row: mark.row + n_rows, line: mark.line + lines, ..*mark };
            marks.extend(part.marks.iter().map(shifted));
            (n_rows, n_dropped, lines) = (n_rows + part.rows, n_dropped + part.dropped, lines + part.lines);
        }
        let count = |number: u64| usize::try_from(number).map_err(|_| Error::from(TeamError::Message));
        let (n_rows, n_dropped) = (count(n_rows)?, count(n_dropped)?);
        if n_rows == 0 {
            let every = if n_dropped > 0 { ": every row has an empty cell" } else { "" };
            return Err(Error::NoRows { what: format!("{}{every}", path.display()) });
        }
        let targets = if matches!(columns, StreamColumns::Inputs(_)) { Targets::None } else { Targets::Read };
        let schema = match columns {
            StreamColumns::Schema(schema) | StreamColumns::Inputs(schema) => schema,
            StreamColumns::Targets(targets) => split(path, &names, &targets)?,
            StreamColumns::Labels(targets) => with_labels(path, split(path, &names, &targets)?, &parts)?,
        };
        Ok(Self { path: path.to_path_buf(), options: options.clone(), schema, targets, marks, n_rows, n_dropped, team })
    }

    /// The number of rows that are left out because a cell is empty.
    pub fn n_dropped(&self) -> usize {
        self.n_dropped
    }

    /// The same file as seen by a network that was trained on data scaled in this way.
    pub fn scaled_by(mut self, scaling: Scaling) -> Result<Self> {
        if self.schema.scaling().is_some() {
            return Err(Error::Data(DataError::AlreadyScaled));
        }
        self.schema = self.schema.with_scaling(scaling)?;
        Ok(self)
    }

    /// All rows, in memory.
    pub fn read_all(&self) -> Result<Dataset> {
        let columns = (self.schema.inputs().len() + self.schema.targets().len()) as f64;
        let advice = "leave the training data out of the posterior, or allow more memory";
        memory::check(&format!("keeping {}", self.path.display()), 3.0 * self.n_rows as f64 * columns, advice)?;
        let table = self.rows(0..self.n_rows, self.n_rows)?.table()?;
        table.dataset_for(&self.schema)
    }

    /// Adds the file and the line to an error about a data point.
    pub fn locate(&self, error: Error) -> Error {
        error.located(&self.path, |row| self.line(row))
    }

    /// The line of the file in which a row begins.
    fn line(&self, row: usize) -> Result<u64> {
        let mut rows = self.rows(row..self.n_rows.min(row + 1), 1)?;
        Ok(rows.place()?.map_or(0, |place| place.line()))
    }

    /// The rows of a range, from the nearest mark before it.
    fn rows(&self, rows: Range<usize>, most_rows: usize) -> Result<Rows<'_>> {
        if most_rows == 0 {
            return Err(Error::Data(DataError::EmptyBatch));
        }
        if rows.start > rows.end || rows.end > self.n_rows {
            return Err(Error::Data(DataError::Rows { start: rows.start, end: rows.end, n_rows: self.n_rows }));
        }
        let mut table = OpenTable::open(&self.path, &self.options, |_, _, _| Ok(()))?;
        let after = self.marks.partition_point(|mark| mark.row <= rows.start as u64);
        let before = after.checked_sub(1).and_then(|index| self.marks.get(index));
        let mut skipped = rows.start;
        if let Some(mark) = before {
            table.seek(at(mark.byte, mark.line))?;
            skipped -= mark.row as usize;
        }
        for _ in 0..skipped {
            table.next_record()?;
        }
        Ok(Rows { stream: self, table, next: rows.start, end: rows.end, most_rows })
    }
}

impl Batches for CsvStream {
    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn batches(&self, rows: Range<usize>, most_rows: usize) -> Result<BatchIterator<'_>> {
        if rows.is_empty() && most_rows > 0 && rows.end <= self.n_rows && rows.start <= rows.end {
            return Ok(Box::new(std::iter::empty()));
        }
        Ok(Box::new(self.rows(rows, most_rows)?))
    }

    fn team(&self) -> Option<&Team> {
        Some(&self.team)
    }
}

/// One pass over some rows.
struct Rows<'a> {
    stream: &'a CsvStream,
    table: OpenTable,
    next: usize,
    end: usize,
    most_rows: usize,
}

impl Rows<'_> {
    fn place(&mut self) -> Result<Option<csv::Position>> {
        self.table.next_record()
    }

    fn batch<'a>(&mut self) -> Result<Batch<'a>> {
        let first_row = self.next;
        let (table, schema) = (self.table()?, &self.stream.schema);
        let (inputs, targets) = match self.stream.targets {
            Targets::Read => table.dataset_for(schema)?.into_arrays(),
            Targets::None => {
                let inputs = table.inputs_for(schema)?;
                let none = Array2::zeros((inputs.nrows(), 0));
                (inputs, none)
            }
        };
        Ok(Batch { first_row, inputs: inputs.into(), targets: targets.into() })
    }

    /// The next rows.
    fn table(&mut self) -> Result<Table> {
        let count = self.most_rows.min(self.end - self.next);
        let mut cells = Cells::begin(&self.stream.path)?;
        while cells.len() < count && self.table.next_row(&mut cells)?.is_some() {}
        self.next += cells.len();
        if cells.len() < count {
            let what = format!("{}: number of rows, which changed while it was read", self.stream.path.display());
            return Err(Error::Size { what, expected: self.stream.n_rows, found: self.next });
        }
        cells.into_table(&self.table)
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Batch<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let batch = self.batch();
        if batch.is_err() {
            self.next = self.end;
        }
        Some(batch)
    }
}

/// The named columns as targets, all others as inputs.
fn split(path: &Path, names: &[String], targets: &[String]) -> Result<Schema> {
    positions(path, names, targets)?;
    let inputs = names.iter().filter(|name| !targets.contains(name)).cloned().collect();
    Schema::new(inputs, targets.to_vec())
}

/// The positions of columns by name.
fn positions(path: &Path, names: &[String], wanted: &[String]) -> Result<Vec<usize>> {
    let position = |name: &String| names.iter().position(|column| column == name);
    wanted.iter().map(|name| position(name).ok_or_else(|| missing_column(path, name, names))).collect()
}

/// The schema with the classes that the labels name, where they are words.
fn with_labels(path: &Path, schema: Schema, parts: &[Part]) -> Result<Schema> {
    let mut all = vec![Labels::default(); schema.targets().len()];
    let mut lines = 0;
    for part in parts {
        all.iter_mut().zip(&part.labels).for_each(|(all, labels)| all.add(labels, lines));
        lines += part.lines;
    }
    let word = all.iter().find_map(|labels| labels.word.zip(labels.words.first()));
    let Some((word_line, word)) = word else { return Ok(schema) };
    match all.iter().find_map(|labels| labels.number) {
        Some((number_line, number)) => Err(Error::Table(TableError::MixedLabels {
            path: path.to_path_buf(),
            word: word.clone(),
            word_line,
            number,
            number_line,
        })),
        None => with_words(schema, &all.into_iter().map(|labels| labels.words).collect::<Vec<_>>()),
    }
}
