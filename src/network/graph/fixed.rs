//! Constant linear combinations of columns, plus constants: sums, differences, means, reordered and repeated entries, padding,
//! pooling by average, resizing. One sparse matrix stands for all of them.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::build::Term;
use super::indices::Indices;
use super::operator::{Operator, Seen};
use crate::linalg::{add_scaled, affine, column_slice, column_slice_mut};

/// y = S x + c with a sparse constant S, for x the columns of all inputs one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLinear {
    width: usize,
    /// The output column of every term, in ascending order.
    outputs: Indices,
    /// Its input column.
    columns: Indices,
    /// Its weight; one for all where they are the same.
    weights: Vec<f64>,
    /// c; zero where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<Vec<f64>>,
}

impl FixedLinear {
    /// From terms in any order.
    pub(super) fn new(
        inputs: &[usize],
        width: usize,
        mut terms: Vec<Term>,
        offset: Option<Vec<f64>>,
    ) -> Result<Self, String> {
        let start = |input: usize| inputs.get(..input).unwrap_or_default().iter().sum::<usize>();
        if let Some(term) = terms.iter().find(|term| inputs.get(term.input).is_none_or(|width| term.entry >= *width)) {
            return Err(format!("takes entry {} of input {}, which does not exist", term.entry, term.input));
        }
        terms.retain(|term| term.weight != 0.0);
        terms.sort_by_key(|term| term.output);
        let first = terms.first().map_or(1.0, |term| term.weight);
        let same = terms.iter().all(|term| term.weight == first);
        let fixed = Self {
            width,
            outputs: terms.iter().map(|term| term.output).collect::<Vec<usize>>().into(),
            columns: terms.iter().map(|term| start(term.input) + term.entry).collect::<Vec<usize>>().into(),
            weights: if same { vec![first] } else { terms.iter().map(|term| term.weight).collect() },
            offset,
        };
        fixed.width(inputs).map(|_| fixed)
    }

    /// c, where there is one.
    pub fn offset(&self) -> Option<&[f64]> {
        self.offset.as_deref()
    }

    /// The output, the input column and the weight of every term, in the order of the outputs.
    pub fn terms(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let first = self.weights.first().copied().unwrap_or(1.0);
        let weight = move |term: usize| if self.weights.len() == 1 { first } else { self.weights[term] };
        self.outputs.iter().zip(self.columns.iter()).enumerate().map(move |(term, (o, c))| (o, c, weight(term)))
    }

    /// Writes the constants to these columns.
    fn fill(&self, columns: Range<usize>, points: usize, outputs: &mut MatMut<'_, f64>) {
        for column in columns {
            let target = column_slice_mut(outputs.rb_mut().col_mut(column));
            target.fill(0.0);
            target[..points].fill(self.offset.as_ref().map_or(0.0, |offset| offset[column]));
        }
    }
}

impl Operator for FixedLinear {
    fn description(&self) -> String {
        format!("linear combinations to {}", self.width)
    }

    fn width(&self, inputs: &[usize]) -> Result<usize, String> {
        let total = inputs.iter().fold(0_usize, |sum, width| sum.saturating_add(*width));
        let count = self.outputs.len();
        let sorted = self.outputs.iter().zip(self.outputs.iter().skip(1)).all(|(one, next)| one <= next);
        let weights = self.weights.len() == 1 || self.weights.len() == count;
        if self.columns.len() != count || !weights || !sorted {
            return Err("has terms that do not belong together".to_string());
        }
        if self.outputs.end() > self.width || self.columns.end() > total {
            return Err("has a term beyond its inputs or outputs".to_string());
        }
        match &self.offset {
            Some(offset) if offset.len() != self.width => Err("has a constant of another width".to_string()),
            _ => Ok(self.width),
        }
    }

    fn forward(&self, points: usize, inputs: &[MatRef<'_, f64>], mut outputs: MatMut<'_, f64>) {
        let sources: Vec<&[f64]> =
            inputs.iter().flat_map(|input| input.col_iter().map(column_slice).collect::<Vec<&[f64]>>()).collect();
        let rows = outputs.nrows();
        // The first column that nothing was written to yet.
        let mut next = 0;
        for (output, column, weight) in self.terms() {
            let source = sources[column];
            // A first term over all rows needs no zeros before it.
            if output >= next && source.len() == rows && self.offset.is_none() {
                self.fill(next..output, points, &mut outputs);
                let target = column_slice_mut(outputs.rb_mut().col_mut(output));
                match weight == 1.0 {
                    true => target.copy_from_slice(source),
                    false => affine(0.0, weight, source, target),
                }
            } else {
                self.fill(next..output + 1, points, &mut outputs);
                let target = column_slice_mut(outputs.rb_mut().col_mut(output));
                add_scaled(weight, source, &mut target[..source.len()]);
            }
            next = output + 1;
        }
        self.fill(next..self.width, points, &mut outputs);
    }

    fn pull_back(
        &self,
        which: usize,
        order: usize,
        seen: &Seen<'_>,
        deltas: MatRef<'_, f64>,
        mut target: MatMut<'_, f64>,
    ) {
        if order > 0 {
            return;
        }
        let start: usize = seen.inputs[..which].iter().map(|input| input.ncols()).sum();
        let own = start..start + target.ncols();
        for (output, column, weight) in self.terms().filter(|(_, column, _)| own.contains(column)) {
            let target = column_slice_mut(target.rb_mut().col_mut(column - start));
            add_scaled(weight, column_slice(deltas.col(output)), target);
        }
    }
}
