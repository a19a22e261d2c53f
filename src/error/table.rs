//! A CSV file, by line and column.

use std::collections::BTreeSet;
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
    /// Columns that cannot be used as they are: all of them, so that one run is enough to see what to do.
    #[error("{path}: {problems}", path = .path.display(), problems = list_problems(.problems))]
    Columns {
        /// The file.
        path: PathBuf,
        /// What is wrong, by column; never empty.
        problems: Vec<ColumnProblem>,
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
    /// A category in a CSV file that the network does not know.
    #[error(
        "{path}: line {line}, column `{column}`: {value} is not one of the categories 0 to {} that the network has a row of weights for",
        .size.saturating_sub(1), path = .path.display(), column = shown(.column)
    )]
    Category {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// What it holds.
        value: f64,
        /// The number of categories.
        size: usize,
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

/// Why a column cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnProblem {
    /// The column's name.
    pub column: String,
    /// The first line where the problem occurs, counting from 1.
    pub line: u64,
    /// What is wrong.
    pub kind: ColumnProblemKind,
    /// What would help.
    pub remedy: Remedy,
}

/// What is wrong with a column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnProblemKind {
    /// Cells that are empty or say that a value is missing.
    Missing {
        /// How many.
        count: u64,
    },
    /// No cell with a value.
    AllMissing,
    /// A cell that is not a finite number, in a column of numbers.
    NotANumber {
        /// The text of the cell.
        text: String,
    },
    /// More different words than a column of categories has.
    TooManyWords {
        /// The first word.
        text: String,
        /// How many different words there are; a lower bound where there are very many.
        count: usize,
    },
    /// A cell that is not a date, in a column of dates.
    NotADate {
        /// The text of the cell.
        text: String,
    },
    /// A cell that is neither yes nor no, in a column of those.
    NotABoolean {
        /// The text of the cell.
        text: String,
    },
    /// A word that did not occur in the training data.
    UnknownWord {
        /// The word.
        text: String,
        /// The words that did.
        known: String,
    },
}

/// What would make a column usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Correct the file.
    Correct,
    /// Take a likelihood of classes.
    Classes,
    /// Leave out the rows with missing values, or fill them in.
    DropOrImpute,
    /// Leave out the rows with missing values.
    Drop,
    /// Read the column as categories.
    Categorical,
    /// Leave out the column.
    Ignore,
    /// Read unknown words as none of the known ones.
    UnknownIsOther,
}

impl std::fmt::Display for ColumnProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use ColumnProblemKind as Kind;
        write!(formatter, "line {}, column `{}`: ", self.line, shown(&self.column))?;
        match &self.kind {
            Kind::Missing { count: 1 } => write!(formatter, "the cell is empty or marked as missing"),
            Kind::Missing { count } => {
                write!(formatter, "the cell is empty or marked as missing ({count} rows)")
            }
            Kind::AllMissing => write!(formatter, "every value is missing"),
            Kind::NotANumber { text } => write!(formatter, "`{}` is not a finite number", shown(text)),
            Kind::TooManyWords { text, count } => {
                write!(formatter, "`{}` is one of {count} different words, too many for one-hot inputs", shown(text))
            }
            Kind::NotADate { text } => {
                write!(formatter, "`{}` is not a date (2024-12-31, 2024-12-31 17:30)", shown(text))
            }
            Kind::NotABoolean { text } => write!(formatter, "`{}` is neither true nor false", shown(text)),
            Kind::UnknownWord { text, known } => write!(
                formatter,
                "`{}` is not among the words of the training data ({})",
                shown(text),
                printable(known)
            ),
        }
    }
}

/// One problem on the line of the file's name, several on lines of their own.
fn list_problems(problems: &[ColumnProblem]) -> String {
    /// At most this many columns are listed.
    const MOST: usize = 20;
    match problems {
        [problem] => problem.to_string(),
        several => {
            let columns: BTreeSet<&String> = several.iter().map(|problem| &problem.column).collect();
            let mut text = match columns.len() {
                1 => "1 column cannot be used as it is".to_string(),
                count => format!("{count} columns cannot be used as they are"),
            };
            several.iter().take(MOST).for_each(|problem| text += &format!("\n  {problem}"));
            if several.len() > MOST {
                text += &format!("\n  … and {} more", several.len() - MOST);
            }
            text
        }
    }
}
