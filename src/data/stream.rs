//! A CSV file of any length, read in batches: what is in memory is one batch and an index.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use ndarray::Array2;

use super::file::TableFile;
use super::index::{Mark, Part, at, scan};
use super::profile::Profile;
use super::reader::{Cells, Kept, OpenTable};
use super::recognise::{Labels, Profiled, codes};
use super::table::missing_column;
use super::{Batch, BatchIterator, Batches, Dataset, Scaling, Schema, Table, TableOptions};
use crate::error::{DataError, Error, Result, TeamError};
use crate::memory;
use crate::team::Team;

/// Which columns of a file are inputs and targets.
#[derive(Debug, Clone)]
pub enum StreamColumns {
    /// The named columns are targets, all others inputs; every cell is a number.
    Targets(Vec<String>),
    /// The same, with class labels as targets, which may be words.
    Labels(Vec<String>),
    /// Those of a schema, by name, scaled as it says.
    Schema(Schema),
    /// The inputs of a schema, without targets; known values of the rows take their place, where the file has them.
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
    file: TableFile,
    options: TableOptions,
    unknown: Vec<String>,
    schema: Schema,
    targets: Targets,
    /// Columns of known values that are read without targets: of predictions at rows whose noise or trials are known.
    known: Vec<String>,
    marks: Vec<Mark>,
    n_rows: usize,
    n_dropped: usize,
    team: Team,
}

impl CsvStream {
    /// Opens a file and reads it once. All ranks of a team must do so together, with the same arguments.
    ///
    /// Columns of a schema are read as it says; unknown ones are left out. A pipe and a compressed file are held in memory.
    pub fn open(path: &Path, options: &TableOptions, columns: StreamColumns, team: Team) -> Result<Self> {
        let file = TableFile::open(path)?;
        let columns = columns.with_fills(&file, options)?;
        let (known, targets, labels) = columns.parts();
        let (options, all_targets) = match known {
            Some(schema) => {
                let optional = columns.known_names();
                (options.for_schema(schema, &[&targets[..], &optional].concat()), targets.clone())
            }
            None => (options.for_targets(&targets), options.target_columns(&targets)),
        };
        let mut table = OpenTable::open(&file, &options, |_, _, _| Ok(()))?;
        let (names, available) = (table.columns(), table.available());
        require(path, &available, &all_targets)?;
        let wanted = if labels == Labels::Classes { &targets[..] } else { &[] };
        let parts = scan(&mut table, &codes(&names, wanted, &options, known), &team)?;
        file.check()?;
        let Joined { marks, n_rows, n_dropped, profiles } = join(&parts, names.len())?;
        if n_rows == 0 {
            let every = if n_dropped > 0 { ": every row has an empty cell" } else { "" };
            return Err(Error::NoRows { what: format!("{}{every}", path.display()) });
        }
        let profiled = Profiled { path, names: &names, profiles: &profiles, options: &options };
        let schema = match known {
            Some(schema) => {
                require(path, &available, &schema.source_columns())?;
                profiled.check(schema, &targets)?;
                schema.clone()
            }
            None => profiled.schema(&targets, labels)?,
        };
        let known = columns.known_among(&available);
        let targets = if matches!(columns, StreamColumns::Inputs(_)) { Targets::None } else { Targets::Read };
        let read: HashSet<String> = names.into_iter().collect();
        let unknown = available.into_iter().filter(|name| !read.contains(name)).collect();
        Ok(Self { file, options, unknown, schema, targets, known, marks, n_rows, n_dropped, team })
    }

    /// The columns of the file that are neither read nor left out by name.
    pub fn unknown_columns(&self) -> &[String] {
        &self.unknown
    }

    /// The positions in the header of columns of the file, read or not.
    pub fn find_columns(&self, names: &[String]) -> Result<Vec<usize>> {
        let table = OpenTable::open(&self.file, &self.options, |_, _, _| Ok(()))?;
        let position = |name: &String| table.header().iter().position(|column| column == name);
        let missing = |name: &String| missing_column(self.file.path(), name, table.header());
        names.iter().map(|name| position(name).ok_or_else(|| missing(name))).collect()
    }

    /// The rows of a range as they are in the file, with the texts of some columns; and those that are left out between them and
    /// after them (and before the first of all).
    pub fn joined_rows(&self, rows: Range<usize>, columns: &[usize]) -> Result<Vec<JoinedRow>> {
        let mut table = OpenTable::open(&self.file, &self.options, |_, _, _| Ok(()))?;
        let (mut row, mut record) = (0, 0);
        if let Some(mark) = self.mark_before(rows.start).filter(|_| rows.start > 0) {
            table.seek(at(mark.byte, mark.line))?;
            (row, record) = (mark.row as usize, mark.record);
        }
        let mut joined = Vec::with_capacity(rows.len());
        while let Some((_, kept)) = table.advance()? {
            record += 1;
            if kept == Kept::Yes && row == rows.end {
                break;
            }
            let belongs = if kept == Kept::Yes { row >= rows.start } else { row > rows.start || rows.start == 0 };
            if belongs {
                let texts = columns.iter().map(|column| table.text(*column).to_string()).collect();
                let missing = table.missing().cloned().collect();
                joined.push(JoinedRow { number: record, texts, missing });
            }
            row += usize::from(kept == Kept::Yes);
        }
        Ok(joined)
    }

    /// The number of rows that are left out because a value is missing.
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
        let columns = (self.schema.inputs().len() + self.schema.target_columns().len()) as f64;
        let advice = "leave the training data out of the posterior, or allow more memory";
        memory::check(&format!("keeping {}", self.file.path().display()), 3.0 * self.n_rows as f64 * columns, advice)?;
        let table = self.rows(0..self.n_rows, self.n_rows)?.table()?;
        table.dataset_for(&self.schema)
    }

    /// Adds the file and the line to an error about a data point.
    pub fn locate(&self, error: Error) -> Error {
        error.located(self.file.path(), self.schema.inputs(), |row| self.line(row))
    }

    /// The line of the file in which a row begins.
    fn line(&self, row: usize) -> Result<u64> {
        let mut rows = self.rows(row..self.n_rows.min(row + 1), 1)?;
        Ok(rows.place()?.map_or(0, |place| place.line()))
    }

    fn mark_before(&self, row: usize) -> Option<&Mark> {
        let after = self.marks.partition_point(|mark| mark.row <= row as u64);
        after.checked_sub(1).and_then(|index| self.marks.get(index))
    }

    /// The rows of a range, from the nearest mark before it.
    fn rows(&self, rows: Range<usize>, most_rows: usize) -> Result<Rows<'_>> {
        if most_rows == 0 {
            return Err(Error::Data(DataError::EmptyBatch));
        }
        if rows.start > rows.end || rows.end > self.n_rows {
            return Err(Error::Data(DataError::Rows { start: rows.start, end: rows.end, n_rows: self.n_rows }));
        }
        let mut table = OpenTable::open(&self.file, &self.options, |_, _, _| Ok(()))?;
        let mut skipped = rows.start;
        if let Some(mark) = self.mark_before(rows.start) {
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
        let (table, schema, known) = (self.table()?, &self.stream.schema, &self.stream.known);
        let (inputs, targets) = match self.stream.targets {
            Targets::Read => table.dataset_for(schema)?.into_arrays(),
            Targets::None => {
                let inputs = table.inputs_for(schema)?;
                let columns: Vec<Vec<f64>> = known.iter().map(|name| table.column(name)).collect::<Result<_>>()?;
                let mut known = Array2::zeros((inputs.nrows(), columns.len()));
                for (mut into, column) in known.columns_mut().into_iter().zip(&columns) {
                    into.iter_mut().zip(column).for_each(|(cell, value)| *cell = *value);
                }
                (inputs, known)
            }
        };
        Ok(Batch { first_row, inputs: inputs.into(), targets: targets.into() })
    }

    /// The next rows.
    fn table(&mut self) -> Result<Table> {
        let count = self.most_rows.min(self.end - self.next);
        let mut cells = Cells::begin(self.stream.file.path())?;
        while cells.len() < count && self.table.next_row(&mut cells)?.is_some() {}
        self.next += cells.len();
        if self.next == self.end || cells.len() < count {
            self.stream.file.check()?;
        }
        if cells.len() < count {
            let what =
                format!("{}: number of rows, which changed while it was read", self.stream.file.path().display());
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

/// A row of the file beside its prediction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedRow {
    /// Its number among all rows of data, counting from 1.
    pub number: u64,
    /// The texts of the columns that were asked for.
    pub texts: Vec<String>,
    /// The columns whose missing values leave out the row; none where it is read.
    pub missing: Vec<String>,
}

impl StreamColumns {
    /// The schema, where it is known; the targets that are read; and whether these are classes.
    fn parts(&self) -> (Option<&Schema>, Vec<String>, Labels) {
        match self {
            StreamColumns::Targets(targets) => (None, targets.clone(), Labels::Numbers),
            StreamColumns::Labels(targets) => (None, targets.clone(), Labels::Classes),
            StreamColumns::Schema(schema) => (Some(schema), schema.target_columns(), Labels::Numbers),
            StreamColumns::Inputs(schema) => (Some(schema), Vec::new(), Labels::Numbers),
        }
    }

    /// The names of known values other than weights of predictions.
    fn known_names(&self) -> Vec<String> {
        match self {
            StreamColumns::Inputs(schema) => {
                schema.without_weights().known().iter().map(|column| column.name.clone()).collect()
            }
            StreamColumns::Targets(_) | StreamColumns::Labels(_) | StreamColumns::Schema(_) => Vec::new(),
        }
    }

    /// These, where the file has all of them.
    fn known_among(&self, available: &[String]) -> Vec<String> {
        let names = self.known_names();
        if names.iter().all(|name| available.contains(name)) { names } else { Vec::new() }
    }

    /// What stands in the place of missing inputs follows from all rows, which are read into memory once.
    fn with_fills(self, file: &TableFile, options: &TableOptions) -> Result<Self> {
        Ok(match self {
            StreamColumns::Targets(targets) if options.impute.is_some() => {
                let table = Table::of_file(file, &options.for_targets(&targets))?;
                StreamColumns::Schema(table.dataset(&targets)?.schema().clone())
            }
            StreamColumns::Labels(targets) if options.impute.is_some() => {
                let table = Table::of_file(file, &options.for_targets(&targets))?;
                StreamColumns::Schema(table.labelled_dataset(&targets)?.schema().clone())
            }
            columns => columns,
        })
    }
}

/// What was found in a whole file.
struct Joined {
    marks: Vec<Mark>,
    n_rows: usize,
    n_dropped: usize,
    profiles: Vec<Profile>,
}

/// Puts the parts of a file together.
fn join(parts: &[Part], n_columns: usize) -> Result<Joined> {
    let (mut marks, mut n_rows, mut n_dropped, mut lines) = (Vec::new(), 0, 0, 0);
    let mut profiles = vec![Profile::default(); n_columns];
    for part in parts {
        let shifted = |mark: &Mark| Mark {
            row: mark.row + n_rows,
            line: mark.line + lines,
            record: mark.record + n_rows + n_dropped,
            ..*mark
        };
        marks.extend(part.marks.iter().map(shifted));
        profiles.iter_mut().zip(&part.profiles).for_each(|(all, profile)| all.add(profile, lines));
        (n_rows, n_dropped, lines) = (n_rows + part.rows, n_dropped + part.dropped, lines + part.lines);
    }
    let count = |number: u64| usize::try_from(number).map_err(|_| Error::from(TeamError::Message));
    Ok(Joined { marks, n_rows: count(n_rows)?, n_dropped: count(n_dropped)?, profiles })
}

/// Refuses a file without some column.
fn require(path: &Path, available: &[String], wanted: &[String]) -> Result<()> {
    let present: HashSet<&String> = available.iter().collect();
    match wanted.iter().find(|name| !present.contains(name)) {
        Some(name) => Err(missing_column(path, name, available)),
        None => Ok(()),
    }
}
