//! Results: files that appear whole or not at all, and what is printed to stdout.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ndarray::{Array1, ArrayView1};
use rayon::prelude::*;
use riemannian_laplace::Error;
use riemannian_laplace::internals::files::{WholeFile, place_of};
use serde::Serialize;

use super::failure::Failure;

/// A place for a result, checked to be writable before the work begins.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
}

impl OutputFile {
    /// Checks that a file can be written there and that it would not replace one of the inputs.
    pub fn at(path: &Path, inputs: &[&Path]) -> Result<Self, Failure> {
        let refuse = |problem: &str| Err(Failure::Usage(format!("cannot write {}: {problem}", path.display())));
        if path.is_dir() {
            return refuse("it is a folder");
        }
        if path.file_name().is_none() {
            return refuse("it does not name a file");
        }
        if let Some(place) = place_of(path)
            && inputs.iter().any(|input| place_of(input).is_some_and(|input| input == place))
        {
            return refuse("it is one of the input files, or another result; choose another name for it");
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return refuse(&format!("there is no folder {}; create it first", folder.display()));
        }
        match WholeFile::check(path) {
            Ok(()) => Ok(Self { path: path.to_path_buf() }),
            Err(Error::Write { source, .. }) => match source.kind() {
                ErrorKind::StorageFull => Err(Error::Write { path: path.to_path_buf(), source }.into()),
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    refuse(&format!("the folder {} is not writable ({source})", folder.display()))
                }
                _ => refuse(&source.to_string()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Where the result goes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole file, a piece at a time.
    pub fn write<T>(&self, fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut file = WholeFile::create(&self.path)?;
        let result = fill(&mut file).map_err(|failure| match failure {
            Failure::Library(Error::Write { source, .. }) => Error::Write { path: self.path.clone(), source }.into(),
            other => other,
        })?;
        file.commit()?;
        Ok(result)
    }
}

/// Prints to stdout. A reader that has gone away (`| head`) is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let broken = |source| Failure::from(Error::Write { path: PathBuf::new(), source });
    print_with(|stdout| stdout.write_all(text.as_bytes()).map_err(broken))
}

/// Prints to stdout, a piece at a time.
pub fn print_with<T: Default>(fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    let broken = |source| Failure::from(Error::Write { path: PathBuf::new(), source });
    let result = fill(&mut stdout).and_then(|result| stdout.flush().map(|()| result).map_err(broken));
    match result {
        Err(Failure::Library(Error::Write { source, .. })) => match source.kind() {
            ErrorKind::BrokenPipe => Ok(T::default()),
            _ => Err(Error::Write { path: PathBuf::from("standard output"), source }.into()),
        },
        result => result,
    }
}

/// Prints one JSON object on one line.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::Write { path: PathBuf::from("standard output"), source: error.into() })?;
    print(&format!("{text}\n"))
}

/// The rows that one thread turns into text at a time.
const ROWS_OF_TEXT: usize = 256;

/// Columns of numbers and words under their names.
#[derive(Debug, Default)]
pub struct Columns<'a> {
    names: Vec<String>,
    values: Vec<Values<'a>>,
}

/// The cells of a column.
#[derive(Debug)]
enum Values<'a> {
    Numbers(ArrayView1<'a, f64>),
    Owned(Array1<f64>),
    Words(Vec<String>),
}

/// A line of a table: what stands before the columns, the row that it has of them, if any, and what stands after.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Cells that go before, as they are written.
    pub before: String,
    /// The row of the columns; without one their cells are empty.
    pub row: Option<usize>,
    /// A cell that goes after, as it is written.
    pub after: Option<String>,
}

impl<'a> Columns<'a> {
    /// Adds a column. All columns have the same length.
    pub fn add(&mut self, name: String, values: ArrayView1<'a, f64>) {
        self.names.push(name);
        self.values.push(Values::Numbers(values));
    }

    /// Adds a column that is its own.
    pub fn add_own(&mut self, name: String, values: Array1<f64>) {
        self.names.push(name);
        self.values.push(Values::Owned(values));
    }

    /// Adds a column of words.
    pub fn add_words(&mut self, name: String, words: Vec<String>) {
        self.names.push(name);
        self.values.push(Values::Words(words));
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Writes the whole table as CSV.
    pub fn write_csv(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let broken = |source| Failure::from(Error::Write { path: PathBuf::new(), source });
        let lines: Vec<Line> = (0..self.len()).map(|row| Line { row: Some(row), ..Default::default() }).collect();
        out.write_all(&header(&self.names)).and_then(|()| out.write_all(&self.lines(&lines))).map_err(broken)
    }

    fn len(&self) -> usize {
        match self.values.first() {
            Some(Values::Numbers(values)) => values.len(),
            Some(Values::Owned(values)) => values.len(),
            Some(Values::Words(words)) => words.len(),
            None => 0,
        }
    }

    /// Lines as CSV, each number with enough digits to read the same number back.
    pub fn lines(&self, lines: &[Line]) -> Vec<u8> {
        let text = |lines: &[Line]| {
            let mut text = String::new();
            lines.iter().for_each(|line| self.add_line(&mut text, line));
            text.into_bytes()
        };
        lines.par_chunks(ROWS_OF_TEXT).map(text).collect::<Vec<_>>().concat()
    }

    fn add_line(&self, text: &mut String, line: &Line) {
        *text += &line.before;
        for (index, values) in self.values.iter().enumerate() {
            *text += if index == 0 && line.before.is_empty() { "" } else { "," };
            let Some(row) = line.row else { continue };
            match values {
                Values::Numbers(values) => values.get(row).into_iter().for_each(|value| add_number(text, *value)),
                Values::Owned(values) => values.get(row).into_iter().for_each(|value| add_number(text, *value)),
                Values::Words(words) => *text += &cell(words.get(row).map_or("", String::as_str)),
            }
        }
        if let Some(after) = &line.after {
            *text += ",";
            *text += after;
        }
        text.push('\n');
    }

    /// The first value that is NaN, or infinite where it may not be: its row, its column, and what it is.
    pub fn not_finite(&self, may_be_infinite: impl Fn(&str) -> bool) -> Option<(usize, String, f64)> {
        let find = |(name, values): (&'_ String, &Values<'a>)| {
            let view = match values {
                Values::Numbers(values) => *values,
                Values::Owned(values) => values.view(),
                Values::Words(_) => return None,
            };
            let endless = may_be_infinite(name);
            let is_wrong = |value: &f64| value.is_nan() || (value.is_infinite() && !endless);
            let (row, value) = view.iter().enumerate().find(|(_, value)| is_wrong(value))?;
            Some((row, name.clone(), *value))
        };
        self.names.iter().zip(&self.values).filter_map(find).min_by_key(|(row, _, _)| *row)
    }
}

/// Names as the first line of a CSV.
pub fn header(names: &[String]) -> Vec<u8> {
    let names: Vec<Cow<'_, str>> = names.iter().map(|name| cell(name)).collect();
    format!("{}\n", names.join(",")).into_bytes()
}

/// A text as a cell of a CSV: quoted where it would not be read back as it is.
pub fn cell(text: &str) -> Cow<'_, str> {
    let is_plain = !text.contains([',', ';', '\t', '"', '\n', '\r']) && text.trim() == text;
    if is_plain { Cow::Borrowed(text) } else { Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))) }
}

/// The shortest text that reads back as the same number; with an exponent where plain digits would be mostly zeros.
fn number(value: f64) -> String {
    let mut text = String::new();
    add_number(&mut text, value);
    text
}

/// The same, at the end of a text.
fn add_number(text: &mut String, value: f64) {
    let plain = value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs());
    // A text takes whatever is written to it.
    let _ = if plain { write!(text, "{value}") } else { write!(text, "{value:e}") };
}

/// A short report for people: one line per quantity, with its value and its meaning.
#[derive(Debug)]
pub struct Summary {
    title: String,
    rows: Vec<(&'static str, String, String)>,
}

impl Summary {
    /// A report under a title.
    pub fn new(title: String) -> Self {
        Self { title, rows: Vec::new() }
    }

    /// Adds a line.
    pub fn row(&mut self, name: &'static str, value: impl ToString, meaning: impl ToString) {
        self.rows.push((name, value.to_string(), meaning.to_string()));
    }

    /// The report as aligned text.
    pub fn to_text(&self) -> String {
        let cells =
            |(name, value, meaning): &(&str, String, String)| vec![name.to_string(), value.clone(), meaning.clone()];
        self.title.clone() + "\n" + &aligned(&self.rows.iter().map(cells).collect::<Vec<_>>())
    }
}

/// Lines of cells, each column as wide as its widest cell; a cell beyond this width pushes only its own line.
pub fn aligned(lines: &[Vec<String>]) -> String {
    const MOST: usize = 40;
    let count = lines.iter().map(Vec::len).max().unwrap_or_default();
    let widest = |column: usize| {
        let widths = lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count());
        widths.filter(|width| *width <= MOST).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("  {cell:width$}"));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}

/// A number for people: six significant digits.
pub fn short(value: f64) -> String {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    number(rounded)
}

/// `1 input`, `2 inputs`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A time for people.
pub fn in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 120.0 => format!("{seconds:.2} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.0} hours", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// Numbers for people, separated by commas.
pub fn short_list(values: &[f64]) -> String {
    values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(", ")
}

/// A number if there is only one, otherwise an array.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(f64),
    /// Several.
    Many(Vec<f64>),
}

impl From<&[f64]> for OneOrMany {
    fn from(values: &[f64]) -> Self {
        match values {
            [value] => OneOrMany::One(*value),
            values => OneOrMany::Many(values.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_numbers_read_back_the_same() {
        for value in [0.1, -1.0 / 3.0, 1e-300, 5e-324, 1.7e308, 0.0, 123456789.125, 1e-7, 2f64.powi(60)] {
            let text = number(value);
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()), "{text}");
            assert!(text.len() < 26, "{text}");
        }
    }

    #[test]
    fn numbers_for_people_keep_six_digits() {
        assert_eq!(short(0.293_231_9), "0.293232");
        assert_eq!(short(-91.885_61), "-91.8856");
        assert_eq!(short(1.0), "1");
        assert_eq!(short(1.234_567_8e-9), "1.23457e-9");
        assert_eq!(short(0.0), "0");
    }
}
