//! How the columns of a table become inputs of a network: numbers, yes and no as 1 and 0, dates as days since 1970-01-01,
//! words as one input for each word, and what stands in the place of a missing value.

use serde::{Deserialize, Serialize};

/// How new files are read: as that of the training data was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableReading {
    /// Empty where every input is a column of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) columns: Vec<InputColumn>,
    /// Whether rows with a missing value are left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) drop_missing: bool,
    /// What a word that did not occur in the training data is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) unknown: Unknown,
    /// Whether labels are the numbers of the classes, which have names besides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) numbered_labels: bool,
    /// Columns that were left out by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored: Vec<String>,
    /// The likelihood that the network was trained with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) likelihood: Option<String>,
}

/// What is done about a word that did not occur in the training data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// It is an error.
    #[default]
    Refuse,
    /// It is none of the known words: all its inputs are 0.
    Other,
}

/// What stands in the place of a missing input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impute {
    /// The mean of the column in the training data.
    Mean,
    /// The median of the column in the training data.
    Median,
    /// The mean, with one more input that is 1 where the value is missing and 0 elsewhere.
    Indicator,
}

/// A column of a table that is read as inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputColumn {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) kind: ColumnKind,
    /// What stands in the place of a missing value (for words, none of them).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fill: Option<f64>,
    /// Whether one more input says where the value is missing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) indicator: bool,
}

/// What the cells of a column are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColumnKind {
    #[default]
    Number,
    Boolean,
    Date,
    /// Each word is an input, 1 where the cell is this word and 0 elsewhere.
    Words(Vec<String>),
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl InputColumn {
    /// The names of the inputs: `age`, or `colour=red`, `colour=blue`; and `age=missing`.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = match &self.kind {
            ColumnKind::Words(words) => words.iter().map(|word| format!("{}={word}", self.name)).collect(),
            ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date => vec![self.name.clone()],
        };
        if self.indicator {
            let mut name = format!("{}=missing", self.name);
            while names.contains(&name) {
                name.push('_');
            }
            names.push(name);
        }
        names
    }
}
