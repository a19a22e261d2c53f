//! Reading CSV: the separator is recognised, the header checked, and every error given with its line and column.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndarray::Array2;

use super::breaks::Breaks;
use super::file::{TableFile, TableReader, endless_line};
use super::line_numbers::LineNumbers;
use super::numbers::{Cell, NumberStyle, is_missing};
use super::options::UNNAMED_COLUMN;
use super::plain::{Layout, Pieces, PlainLines};
use super::table::{Words, missing_column};
use super::{Table, TableOptions};
use crate::error::{Error, Result, TableError};
use crate::memory::{self, Reservation};

/// How much of the file is examined to recognise the separator and to estimate the number of cells.
const LOOK_AHEAD: usize = 1 << 20;
/// The cells for which there is room from the start; more are asked for as the table grows.
const FIRST_CELLS: usize = 1 << 12;
/// What to do about a file that does not fit in memory.
const ADVICE: &str = "split the file, ignore columns, or raise the memory limit";

impl Table {
    /// Reads a file with a header and at least one row. The separator is `,`, `;` or a tab, whichever is most frequent
    /// in the header. A cell is a finite number, a word, or without a value.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with(path, &TableOptions::default())
    }

    /// As [`read`](Self::read), without some columns, or without the rows in which a value is missing.
    pub fn read_with(path: &Path, options: &TableOptions) -> Result<Self> {
        Self::of_file(&TableFile::open(path)?, options)
    }

    /// The same of a file that is open.
    pub(super) fn of_file(file: &TableFile, options: &TableOptions) -> Result<Self> {
        let mut open = OpenTable::open(file, options, check_memory)?;
        let mut cells = Cells::begin(file.path())?;
        open.read_plain_lines(&mut cells)?;
        while open.next_row(&mut cells)?.is_some() {}
        file.check()?;
        cells.into_table(&open)
    }
}

/// A file whose header has been read; its rows come next.
pub(super) struct OpenTable {
    pub(super) file: TableFile,
    options: TableOptions,
    header: Vec<String>,
    kept: Vec<usize>,
    /// The columns in which a missing value leaves out the row.
    required: Vec<usize>,
    separator: u8,
    pub(super) style: NumberStyle,
    reader: csv::Reader<Breaks<BufReader<Lines>>>,
    /// The bytes read since the last record was complete.
    unfinished: Arc<AtomicU64>,
    record: csv::StringRecord,
}

impl OpenTable {
    /// Reads the header of a file, after a look at how it begins and at its length.
    pub(super) fn open(
        file: &TableFile,
        options: &TableOptions,
        look: impl Fn(&Path, &[u8], u64) -> Result<()>,
    ) -> Result<Self> {
        let path = file.path();
        let unfinished = Arc::new(AtomicU64::new(0));
        let lines = Lines { file: file.reader()?, unfinished: unfinished.clone() };
        let mut buffered = BufReader::with_capacity(LOOK_AHEAD, lines);
        let start = buffered.fill_buf().map_err(|error| unreadable(path, error))?;
        look(path, start, file.length())?;
        let separator = separator(start);
        let style = NumberStyle::of(start, separator);
        let mut reader =
            csv::ReaderBuilder::new().delimiter(separator).trim(csv::Trim::All).from_reader(Breaks::new(buffered));
        let header = reader.headers().cloned();
        let header = header.map_err(|error| malformed(path, error, reader.get_mut()))?;
        let place = header.position().cloned().map(|place| reader.get_mut().after(place));
        let mut header: Vec<String> =
            header.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_string()).collect();
        if let [first, _, ..] = header.as_mut_slice()
            && first.is_empty()
        {
            *first = UNNAMED_COLUMN.to_string();
        }
        check_header(path, place.map_or(1, |place| place.line()), &header)?;
        let kept = kept_columns(path, &header, options)?;
        let required = match &options.required {
            _ if !options.drop_missing => Vec::new(),
            None => kept.clone(),
            Some(names) => positions_among(&header, &kept, names),
        };
        let (file, options, record) = (file.clone(), options.clone(), csv::StringRecord::new());
        Ok(Self { file, options, header, kept, required, separator, style, reader, unfinished, record })
    }

    /// The name of the file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// All columns of the file.
    pub(super) fn header(&self) -> &[String] {
        &self.header
    }

    /// The columns that are not left out by name, read or not.
    pub(super) fn available(&self) -> Vec<String> {
        let left_out: HashSet<&String> = self.options.ignore.iter().chain(&self.options.ignore_if_present).collect();
        self.header.iter().filter(|name| !left_out.contains(name)).cloned().collect()
    }

    /// The names of the columns that are read.
    pub(super) fn columns(&self) -> Vec<String> {
        self.kept.iter().filter_map(|&column| self.header.get(column).cloned()).collect()
    }

    /// Where the next record begins.
    pub(super) fn position(&self) -> csv::Position {
        self.reader.position().clone()
    }

    /// Goes on at the beginning of a record.
    pub(super) fn seek(&mut self, position: csv::Position) -> Result<()> {
        self.reader.seek(position).map_err(|error| malformed(self.file.path(), error, self.reader.get_mut()))
    }

    /// Reads the next record and gives the place where it begins, and whether its row is left out; `None` at the end of the
    /// file.
    pub(super) fn advance(&mut self) -> Result<Option<(csv::Position, Kept)>> {
        self.unfinished.store(0, Ordering::Relaxed);
        let read = self.reader.read_record(&mut self.record);
        if !read.map_err(|error| malformed(self.file.path(), error, self.reader.get_mut()))? {
            return Ok(None);
        }
        let place = self.record.position().cloned().unwrap_or_else(csv::Position::new);
        let place = self.reader.get_mut().after(place);
        Ok(Some((place, if self.missing().next().is_none() { Kept::Yes } else { Kept::No })))
    }

    /// The columns because of which the last record is left out.
    pub(super) fn missing(&self) -> impl Iterator<Item = &String> {
        self.required
            .iter()
            .filter(|column| is_missing(self.text(**column)))
            .filter_map(|&column| self.header.get(column))
    }

    /// The text of the last record in a column of the header.
    pub(super) fn text(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }

    /// Passes over the next row that is not left out and gives the place where it begins; `None` at the end of the file.
    pub(super) fn next_record(&mut self) -> Result<Option<csv::Position>> {
        while let Some((place, kept)) = self.advance()? {
            if kept == Kept::Yes {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Adds the rows that come next as far as they are lines of plain numbers, on all threads.
    fn read_plain_lines(&mut self, cells: &mut Cells) -> Result<()> {
        let mut place = self.position();
        if self.kept.is_empty() || self.style != NumberStyle::Point {
            return Ok(());
        }
        let Some(mut pieces) = Pieces::open(&self.file, place.byte())? else { return Ok(()) };
        let layout = Layout { separator: self.separator, cells: self.header.len(), kept: &self.kept };
        while let Some(lines) = pieces.next(&layout)? {
            cells.make_room(self.file.path(), lines.count * self.kept.len())?;
            cells.add_lines(place.line(), &lines);
            let (bytes, count) = (lines.bytes as u64, lines.count as u64);
            let (byte, line, record) = (place.byte() + bytes, place.line() + count, place.record() + count);
            place.set_byte(byte).set_line(line).set_record(record);
        }
        self.seek(place)
    }

    /// Adds the next row that is not left out, and gives the place where it begins; `None` at the end of the file.
    pub(super) fn next_row(&mut self, cells: &mut Cells) -> Result<Option<csv::Position>> {
        while let Some((place, kept)) = self.advance()? {
            if kept == Kept::Yes {
                cells.make_room(self.file.path(), self.kept.len())?;
                cells.add(self.file.path(), self.texts().map(|text| self.style.read(text)), place.line())?;
                return Ok(Some(place));
            }
            cells.dropped += 1;
        }
        Ok(None)
    }

    /// The texts of the last record in the columns that are read.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|&column| self.text(column))
    }
}

/// Whether a row is read or, because of a missing value, left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    No,
}

/// A file whose lines must end: the parser keeps a whole record, so that one without an end would fill the memory.
#[derive(Debug)]
struct Lines {
    file: TableReader,
    /// The bytes read since the last record was complete.
    unfinished: Arc<AtomicU64>,
}

/// The error of a record that does not fit in memory.
#[derive(Debug, thiserror::Error)]
#[error("a line does not end within {0} bytes, which is as much as the memory limit leaves; is the file a table?")]
struct EndlessLine(u64);

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        // The record is kept as bytes and as text, in buffers that double.
        let most = (memory::room() / 4).max(2 * LOOK_AHEAD as u64);
        if self.unfinished.fetch_add(count as u64, Ordering::Relaxed) + count as u64 > most {
            return Err(io::Error::other(EndlessLine(most)));
        }
        Ok(count)
    }
}

impl Seek for Lines {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// The cells read so far, row by row.
pub(super) struct Cells {
    values: Vec<f64>,
    lines: LineNumbers,
    words: BTreeMap<usize, WordsBeingRead>,
    dropped: usize,
    /// For the table and for the arrays made from it.
    reservation: Reservation,
}

#[derive(Default)]
struct WordsBeingRead {
    numbers: HashMap<String, usize>,
    cells: Vec<(usize, usize)>,
}

impl Cells {
    /// None yet, of this file.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let reservation = memory::reserve(&reading(path), 0.0, ADVICE)?;
        let (values, lines) = (Vec::new(), LineNumbers::default());
        Ok(Self { values, lines, words: BTreeMap::new(), dropped: 0, reservation })
    }

    /// Asks for the memory of another row, and some more at once: for each cell, and for the copy of it in an array of
    /// inputs or targets.
    fn make_room(&mut self, path: &Path, cells: usize) -> Result<()> {
        if self.values.len() + cells > self.values.capacity() {
            let more = cells.max(FIRST_CELLS).max(self.values.capacity() / 16);
            self.reservation.grow(&reading(path), 2.0 * more as f64, ADVICE)?;
            self.values.reserve_exact(more);
        }
        Ok(())
    }

    /// Adds a row. Words and missing values are NaN, and words are kept besides.
    fn add<'a>(&mut self, path: &Path, cells: impl Iterator<Item = Cell<'a>>, line: u64) -> Result<()> {
        let row = self.lines.len();
        for (position, cell) in cells.enumerate() {
            match cell {
                Cell::Number(value) => self.values.push(value),
                Cell::Missing => self.values.push(f64::NAN),
                Cell::Word(text) => {
                    self.values.push(f64::NAN);
                    let bytes = self.words.entry(position).or_default().add(row, text);
                    self.reservation.grow(&reading(path), bytes as f64 / 8.0, ADVICE)?;
                }
            }
        }
        self.lines.push(line);
        Ok(())
    }

    /// Adds rows that follow one another from this line on.
    fn add_lines(&mut self, line: u64, lines: &PlainLines) {
        lines.values.iter().for_each(|values| self.values.extend_from_slice(values));
        (0..lines.count as u64).for_each(|row| self.lines.push(line + row));
    }

    /// The rows read so far.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn into_table(self, open: &OpenTable) -> Result<Table> {
        let (path, kept) = (open.path(), &open.kept);
        if self.lines.len() == 0 {
            let what = match self.dropped {
                0 => path.display().to_string(),
                _ => format!("{}: every row has an empty cell", path.display()),
            };
            return Err(Error::NoRows { what });
        }
        let values = Array2::from_shape_vec((self.lines.len(), kept.len()), self.values).map_err(|_| {
            Error::Table(TableError::Syntax {
                path: path.to_path_buf(),
                line: 1,
                problem: "rows of unequal length".to_string(),
            })
        })?;
        Ok(Table {
            path: path.to_path_buf(),
            columns: open.columns(),
            available: open.available(),
            options: open.options.clone(),
            values,
            words: self.words.into_iter().map(|(column, words)| (column, words.finish())).collect(),
            lines: self.lines,
            dropped: self.dropped,
            _reservation: Arc::new(self.reservation),
        })
    }
}

impl WordsBeingRead {
    /// Adds a cell, and returns about how many bytes that took.
    fn add(&mut self, row: usize, text: &str) -> usize {
        let before = self.cells.capacity() + 2 * self.numbers.capacity();
        let mut bytes = 0;
        let number = match self.numbers.get(text) {
            Some(&number) => number,
            None => {
                let number = self.numbers.len();
                self.numbers.insert(text.to_string(), number);
                bytes = text.len();
                number
            }
        };
        self.cells.push((row, number));
        bytes + (self.cells.capacity() + 2 * self.numbers.capacity() - before) * size_of::<(String, usize)>()
    }

    fn finish(self) -> Words {
        let mut distinct = vec![String::new(); self.numbers.len()];
        for (text, number) in self.numbers {
            if let Some(place) = distinct.get_mut(number) {
                *place = text;
            }
        }
        Words { distinct, cells: self.cells }
    }
}

/// The most frequent separator in the first non-empty line, outside quoted text; a comma if there is none.
fn separator(start: &[u8]) -> u8 {
    const SEPARATORS: [u8; 3] = *b",;\t";
    let line = start.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let (mut counts, mut quoted) = (SEPARATORS.map(|separator| (separator, 0_usize)), false);
    for byte in line {
        if *byte == b'"' {
            quoted = !quoted;
        } else if !quoted && let Some((_, count)) = counts.iter_mut().find(|(separator, _)| separator == byte) {
            *count += 1;
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    counts.iter().find(|(_, count)| *count == most).map_or(b',', |(separator, _)| *separator)
}

/// Checks the memory for the table and for the arrays made from it before anything is read, as far as the length of the
/// file tells.
fn check_memory(path: &Path, start: &[u8], length: u64) -> Result<()> {
    // Cells per byte after the header; at worst every other byte is a separator.
    let body = start.iter().position(|byte| *byte == b'\n').and_then(|end| start.get(end + 1..)).unwrap_or_default();
    let cells = body.iter().filter(|byte| b",;\t\n".contains(byte)).count();
    let density = if body.is_empty() { 0.5 } else { cells as f64 / body.len() as f64 };
    memory::check(&reading(path), 2.0 * density * length as f64, ADVICE)
}

/// What the memory is for.
fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}

/// Checks that the first line names every column, once, and is not data.
fn check_header(path: &Path, line: u64, header: &[String]) -> Result<()> {
    let wrong = |problem: String| Err(Error::Table(TableError::Syntax { path: path.to_path_buf(), line, problem }));
    if header.is_empty() {
        return wrong("the file is empty; a header is needed".to_string());
    }
    if header.iter().all(|name| name.parse::<f64>().is_ok_and(f64::is_finite)) {
        let cells = if header.len() == 1 { "its only cell is a number" } else { "all its cells are numbers" };
        return wrong(format!("{cells}, so the header seems to be missing; add a first line that names the columns"));
    }
    let mut seen = HashSet::with_capacity(header.len());
    for (index, name) in header.iter().enumerate() {
        if name.is_empty() {
            return wrong(format!("column {} has no name in the header; name it, or remove it", index + 1));
        }
        if !seen.insert(name) {
            return wrong(format!("the column `{name}` appears twice in the header"));
        }
    }
    Ok(())
}

/// The positions of the columns that are read.
fn kept_columns(path: &Path, header: &[String], options: &TableOptions) -> Result<Vec<usize>> {
    let present: HashSet<&String> = header.iter().collect();
    if let Some(name) = options.ignore.iter().find(|name| !present.contains(name)) {
        return Err(missing_column(path, name, header));
    }
    let left_out: HashSet<&String> = options.ignore.iter().chain(&options.ignore_if_present).collect();
    let kept = header.iter().enumerate().filter(|(_, name)| !left_out.contains(name) && *name != UNNAMED_COLUMN);
    let kept: Vec<usize> = kept.map(|(column, _)| column).collect();
    Ok(match &options.only {
        Some(names) => positions_among(header, &kept, names),
        None => kept,
    })
}

/// Those columns whose names are among some.
fn positions_among(header: &[String], columns: &[usize], names: &[String]) -> Vec<usize> {
    let names: HashSet<&String> = names.iter().collect();
    let is_named = |column: &usize| header.get(*column).is_some_and(|name| names.contains(name));
    columns.iter().copied().filter(is_named).collect()
}

/// A file that could not be read, or a line in it that has no end.
fn unreadable(path: &Path, source: io::Error) -> Error {
    match source.get_ref().and_then(|error| error.downcast_ref::<EndlessLine>()) {
        Some(EndlessLine(most)) => endless_line(path, *most),
        None => Error::Io { path: path.to_path_buf(), source },
    }
}

/// What the parser said, with the file and the line.
fn malformed<R>(path: &Path, error: csv::Error, breaks: &mut Breaks<R>) -> Error {
    let line = error.position().map_or(0, |place| breaks.after(place.clone()).line());
    let problem = match error.into_kind() {
        csv::ErrorKind::Io(source) => return unreadable(path, source),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} cells where the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not valid UTF-8 text".to_string(),
        other => format!("{other:?}"),
    };
    Error::Table(TableError::Syntax { path: path.to_path_buf(), line, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_the_one_the_header_has_most_of() {
        for (header, expected) in [
            ("x,y\n1;2\n", b','),
            ("x;y\n1,5;2\n", b';'),
            ("\r\n x\ty\n", b'\t'),
            ("\"a,b,c\";y\n", b';'),
            ("x\n", b','),
            ("", b','),
        ] {
            assert_eq!(separator(header.as_bytes()), expected, "{header:?}");
        }
    }
}
