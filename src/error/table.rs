//! A CSV file, by line and column.

use std::path::PathBuf;

use super::target::TargetError;
use super::text::{printable, shown};

/// A CSV file, by line and column.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A CSV file that does not parse.
    #[error("{path}: line {line}: {problem}", path = .path.display(), problem = printable(.problem))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// What is wrong there.
        problem: String,
    },
    /// A CSV file without a requested column.
    #[error("{path}: no column `{column}`; {available}", path = .path.display(), column = shown(.column), available = printable(.available))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The requested column.
        column: String,
        /// The existing columns or, if there are many, those with the nearest names.
        available: String,
    },
    /// A CSV file with a column that the model does not know.
    #[error("{path}: the column `{column}` is neither an input nor a target of the model; remove it, or ignore it by name", path = .path.display(), column = shown(.column))]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
    },
    /// A CSV cell without contents.
    #[error("{path}: line {line}, column `{column}`: the cell is empty; fill it in, ignore the column, or drop the rows with empty cells", path = .path.display(), column = shown(.column))]
    EmptyCell {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// The column's name.
        column: String,
    },
    /// Class labels that are partly numbers and partly words.
    #[error("{path}: the labels are words (`{word}`, line {word_line}) and numbers ({number}, line {number_line}); use one kind", path = .path.display(), word = shown(.word))]
    MixedLabels {
        /// The file.
        path: PathBuf,
        /// A label that is a word.
        word: String,
        /// Its line, counting from 1.
        word_line: u64,
        /// A label that is a number.
        number: f64,
        /// Its line, counting from 1.
        number_line: u64,
    },
    /// A class label that did not occur when the classes were named.
    #[error("{path}: line {line}, column `{column}`: `{label}` is not one of the classes {classes}", path = .path.display(), column = shown(.column), label = shown(.label), classes = printable(.classes))]
    UnknownClass {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// The column's name.
        column: Box<str>,
        /// The label.
        label: Box<str>,
        /// The classes that are known.
        classes: Box<str>,
    },
    /// A CSV cell that is not a finite number.
    #[error("{path}: line {line}, column `{column}`: `{text}` is not a finite number", path = .path.display(), column = shown(.column), text = shown(.text))]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The text of the cell.
        text: String,
    },
    /// A target in a CSV file that the likelihood cannot have produced.
    #[error("{path}: line {line}: {source}", path = .path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// What is wrong with the target.
        source: TargetError,
    },
    /// A number beyond f64 that follows from a row of a CSV file.
    #[error("{path}: line {line}: {what} (number {column}) is beyond what f64 can hold; check the weights, and the scale of inputs and targets", path = .path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// What is not finite.
        what: &'static str,
        /// Which of several, counting from 1.
        column: usize,
    },
}
