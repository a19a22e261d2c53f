//! What is read of a file, and how.

use super::encoding::{Impute, InputColumn, TableReading, Unknown};
use super::{KnownColumn, Schema};
use crate::error::Result;

/// The first column of a file where it has no name, as that of row numbers which R and pandas write. It is not read.
pub const UNNAMED_COLUMN: &str = "(no name)";

/// Which columns and rows of a file are read, and how cells become inputs and labels classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Columns that are left out; each must be in the file.
    pub ignore: Vec<String>,
    /// Columns that are left out where they are in the file.
    pub ignore_if_present: Vec<String>,
    /// The only columns that are read (default: all). Those that are not among them are unknown.
    pub only: Option<Vec<String>>,
    /// Leave out the rows with a missing value outside the ignored columns (default: a missing value is an error).
    pub drop_missing: bool,
    /// The columns in which a missing value leaves out the row (default: all).
    pub required: Option<Vec<String>>,
    /// Fill in missing inputs.
    pub impute: Option<Impute>,
    /// Columns of categories, be they words or numbers.
    pub categorical: Vec<String>,
    /// What a word is that did not occur in the training data.
    pub unknown: Unknown,
    /// The input columns in the order of the network's inputs (default: as they come).
    pub input_order: Vec<String>,
    /// The number of classes, where it is known.
    pub n_classes: Option<usize>,
    /// Columns that are neither inputs nor targets: noise, trials, weights.
    pub known: Vec<KnownColumn>,
    /// The names of the classes in the order of the network's outputs (default: sorted).
    pub class_names: Vec<String>,
}

impl TableOptions {
    /// These options for data with these targets that are seen for the first time.
    pub fn for_targets(&self, targets: &[String]) -> Self {
        let (mut options, columns) = (self.clone(), self.target_columns(targets));
        if !options.input_order.is_empty() {
            options.only = Some(options.input_order.iter().chain(&columns).cloned().collect());
        }
        if options.impute.is_some() {
            options.required = Some(columns);
        }
        options
    }

    /// Targets, and the columns of known values behind them.
    pub(super) fn target_columns(&self, targets: &[String]) -> Vec<String> {
        targets.iter().chain(self.known.iter().map(|column| &column.name)).cloned().collect()
    }

    /// These options for a file with the inputs of a schema and these of its targets: columns that are neither are unknown,
    /// and what was done about missing values and unknown words is done again.
    pub fn for_schema(&self, schema: &Schema, targets: &[String]) -> Self {
        let columns = schema.input_columns();
        let named = columns.iter().map(|column| &column.name);
        let unfilled = columns.iter().filter(|column| column.fill.is_none()).map(|column| &column.name);
        Self {
            only: Some(named.chain(targets).cloned().collect()),
            required: Some(unfilled.chain(targets).cloned().collect()),
            drop_missing: self.drop_missing || schema.drops_missing(),
            unknown: if self.unknown == Unknown::Other { Unknown::Other } else { schema.unknown() },
            ..self.clone()
        }
    }
}

impl Schema {
    /// The schema of files with these input columns and targets.
    pub(super) fn encoded(columns: Vec<InputColumn>, targets: Vec<String>) -> Result<Self> {
        let inputs = columns.iter().flat_map(InputColumn::names).collect();
        let schema = Self::new(inputs, targets)?;
        if columns.iter().all(InputColumn::is_plain) {
            return Ok(schema);
        }
        Ok(schema.changed(|reading| reading.columns = columns))
    }

    /// The same, with the columns read in another way.
    pub(super) fn with_columns(self, columns: Vec<InputColumn>) -> Result<Self> {
        let names = columns.iter().flat_map(InputColumn::names).collect();
        let other = Self::encoded(columns, self.targets().to_vec())?;
        let columns = other.reading.map(|reading| reading.columns).unwrap_or_default();
        Ok(self.with_inputs(names)?.changed(|reading| reading.columns = columns))
    }

    /// Whether labels are the numbers of the classes, which have names besides.
    pub(super) fn has_numbered_labels(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.numbered_labels)
    }

    /// With what the options say of files.
    pub(super) fn read_as(self, options: &TableOptions) -> Self {
        let set = |reading: &mut TableReading| {
            reading.drop_missing = options.drop_missing;
            reading.unknown = options.unknown;
            reading.ignored = options.ignore.clone();
        };
        self.changed(set)
    }
}
