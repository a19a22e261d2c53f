//! What a schema says of the files that its data come from.

use std::borrow::Cow;

use super::Schema;
use super::encoding::{ColumnKind, InputColumn, TableReading, Unknown};
use crate::error::{DataError, Error, Result};

impl Schema {
    /// With what is known of the files, as read from a model or a posterior.
    pub(super) fn with_reading(mut self, reading: TableReading) -> Result<Self> {
        let names: Vec<String> = reading.columns.iter().flat_map(InputColumn::names).collect();
        let fills_are_finite = reading.columns.iter().all(|column| column.fill.is_none_or(f64::is_finite));
        if (!reading.columns.is_empty() && names != self.inputs()) || !fills_are_finite {
            return Err(Error::Data(DataError::OtherEncoding));
        }
        self.reading = Some(reading).filter(|reading| *reading != TableReading::default());
        Ok(self)
    }

    /// How the columns of a file become the inputs.
    pub(super) fn input_columns(&self) -> Cow<'_, [InputColumn]> {
        match &self.reading {
            Some(reading) if !reading.columns.is_empty() => Cow::Borrowed(&reading.columns),
            _ => {
                let plain = |name: &String| InputColumn {
                    name: name.clone(),
                    kind: ColumnKind::Number,
                    fill: None,
                    indicator: false,
                };
                self.inputs().iter().map(plain).collect()
            }
        }
    }

    /// The columns of a file that the inputs come from, in order.
    pub fn source_columns(&self) -> Vec<String> {
        self.input_columns().iter().map(|column| column.name.clone()).collect()
    }

    /// Whether missing inputs are filled in.
    pub fn fills_missing(&self) -> bool {
        self.input_columns().iter().any(|column| column.fill.is_some())
    }

    /// The columns that have one input for each word.
    pub fn categorical_columns(&self) -> Vec<String> {
        let is_categorical = |column: &&InputColumn| matches!(column.kind, ColumnKind::Words(_));
        self.input_columns().iter().filter(is_categorical).map(|column| column.name.clone()).collect()
    }

    /// With names for classes whose labels are 0, 1, …, C−1.
    pub fn with_named_numbers(self, names: Vec<String>) -> Result<Self> {
        Ok(self.with_classes(names)?.changed(|reading| reading.numbered_labels = true))
    }

    /// Columns that were left out of the training data by name.
    pub fn ignored(&self) -> &[String] {
        self.reading.as_ref().map_or(&[], |reading| &reading.ignored)
    }

    /// The likelihood that the network was trained with, where it is known.
    pub fn likelihood(&self) -> Option<&str> {
        self.reading.as_ref()?.likelihood.as_deref()
    }

    /// With the columns that are left out of files by name.
    pub fn with_ignored(self, ignored: Vec<String>) -> Self {
        self.changed(|reading| reading.ignored = ignored)
    }

    /// With the likelihood that the network was trained with, or without.
    pub fn with_likelihood(self, name: Option<&str>) -> Self {
        self.changed(|reading| reading.likelihood = name.map(str::to_string))
    }

    /// Whether rows with a missing value are left out.
    pub fn drops_missing(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.drop_missing)
    }

    /// What a word that did not occur in the training data is.
    pub fn unknown(&self) -> Unknown {
        self.reading.as_ref().map(|reading| reading.unknown).unwrap_or_default()
    }

    /// Reading with this as well: rows with a missing value left out, unknown words taken as none of the known ones.
    pub fn also_reading(self, drop_missing: bool, unknown: Unknown) -> Self {
        self.changed(|reading| {
            reading.drop_missing |= drop_missing;
            if unknown == Unknown::Other {
                reading.unknown = unknown;
            }
        })
    }

    /// What was done to columns that are not plain numbers, in words: a line for each kind.
    pub fn encoding_in_words(&self) -> Vec<String> {
        let columns = self.input_columns();
        let list = |wanted: &dyn Fn(&InputColumn) -> bool, name: &dyn Fn(&InputColumn) -> String| {
            columns.iter().filter(|column| wanted(column)).map(name).collect::<Vec<_>>().join(", ")
        };
        let plain = |column: &InputColumn| column.name.clone();
        let with_words = |column: &InputColumn| match &column.kind {
            ColumnKind::Words(words) => format!("{} ({})", column.name, words.len()),
            ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date => String::new(),
        };
        let lines = [
            ("words as one-hot inputs:", list(&|column| matches!(column.kind, ColumnKind::Words(_)), &with_words)),
            ("true and false as 1 and 0:", list(&|column| column.kind == ColumnKind::Boolean, &plain)),
            ("dates as days since 1970-01-01:", list(&|column| column.kind == ColumnKind::Date, &plain)),
            ("indicators of missing values:", list(&|column| column.indicator, &plain)),
        ];
        lines.into_iter().filter(|(_, list)| !list.is_empty()).map(|(what, list)| format!("{what} {list}")).collect()
    }

    pub(super) fn changed(mut self, change: impl FnOnce(&mut TableReading)) -> Self {
        let mut reading = self.reading.take().unwrap_or_default();
        change(&mut reading);
        self.reading = Some(reading).filter(|reading| *reading != TableReading::default());
        self
    }
}
