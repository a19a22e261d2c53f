//! Cells as inputs of a network.

use std::borrow::Cow;
use std::collections::HashMap;

use super::encoding::{ColumnKind, InputColumn, Unknown};
use super::numbers::{self, Cell};
use super::profile::code;

impl InputColumn {
    pub(super) fn new(name: &str, kind: ColumnKind) -> Self {
        Self { name: name.to_string(), kind, fill: None, indicator: false }
    }

    /// Whether the column is its own input.
    pub(super) fn is_plain(&self) -> bool {
        self.kind == ColumnKind::Number && self.fill.is_none() && !self.indicator
    }

    /// The number of inputs.
    pub(super) fn width(&self) -> usize {
        let own = match &self.kind {
            ColumnKind::Words(words) => words.len(),
            ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date => 1,
        };
        own + usize::from(self.indicator)
    }

    /// Ready to encode many cells.
    pub(super) fn encoder(&self) -> Encoder<'_> {
        let places = match &self.kind {
            ColumnKind::Words(words) => words.iter().enumerate().map(|(place, word)| (word.as_str(), place)).collect(),
            ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date => HashMap::new(),
        };
        Encoder { column: self, places }
    }
}

/// The number that a cell of numbers, dates or yes and no stands for.
pub(super) fn value(kind: &ColumnKind, cell: Cell<'_>) -> Option<f64> {
    match (kind, cell) {
        (ColumnKind::Number, Cell::Number(value)) => Some(value),
        (ColumnKind::Boolean, Cell::Number(value)) => Some(value).filter(|value| *value == 0.0 || *value == 1.0),
        (ColumnKind::Boolean, Cell::Word(text)) => numbers::boolean(text),
        (ColumnKind::Date, Cell::Word(text)) => numbers::date(text),
        _ => None,
    }
}

/// A column, ready to encode its cells.
pub(super) struct Encoder<'a> {
    column: &'a InputColumn,
    places: HashMap<&'a str, usize>,
}

impl Encoder<'_> {
    /// Writes the inputs of a cell, which are 0 to begin with; `None` where the cell has no meaning here.
    pub(super) fn encode(&self, cell: Cell<'_>, unknown: Unknown, inputs: &mut [f64]) -> Option<()> {
        if cell == Cell::Missing {
            let fill = self.column.fill?;
            if self.column.indicator {
                *inputs.last_mut()? = 1.0;
            }
            if !matches!(self.column.kind, ColumnKind::Words(_)) {
                *inputs.first_mut()? = fill;
            }
            return Some(());
        }
        if !matches!(self.column.kind, ColumnKind::Words(_)) {
            *inputs.first_mut()? = value(&self.column.kind, cell)?;
            return Some(());
        }
        let text = match cell {
            Cell::Word(text) => Cow::Borrowed(text),
            Cell::Number(value) => Cow::Owned(code(value)),
            Cell::Missing => return None,
        };
        match self.places.get(text.as_ref()) {
            Some(&place) => *inputs.get_mut(place)? = 1.0,
            None if unknown == Unknown::Other => {}
            None => return None,
        }
        Some(())
    }
}
