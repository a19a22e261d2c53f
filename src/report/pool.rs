//! Where in input space the pool is least known: the spread of the mean over the rows that could be measured, relative to the
//! training rows, by fifths of each input; and the rows to measure first.

use std::fmt::Write as _;

use ndarray::{Array2, Axis};

use super::contents::{PoolFifth, PoolInput, PoolRow, Unknown};
use super::words::{counted, thousands};
use super::{Report, escape, number};
use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::predict::linearized;
use crate::suggest::{Goal, SuggestOptions, suggest};

/// Rows that are listed.
const SHOWN: usize = 5;
/// Inputs that are listed: those along which the spread differs most.
const MOST_INPUTS: usize = 5;
/// Inputs of a listed row that are printed.
const MOST_COLUMNS: usize = 8;

/// Of a pool in the units of the data.
pub(super) fn unknown(laplace: &Laplace, pool: &Array2<f64>) -> Result<Unknown> {
    let schema = laplace.schema();
    let scaled = schema.scale_inputs(pool.view())?;
    let spread = spreads(laplace, &scaled)?;
    let known = match laplace.data() {
        Some(data) => median(&spreads(laplace, data.inputs())?),
        None => median(&spread),
    };
    let relative: Vec<f64> = spread.iter().map(|value| value / known.max(f64::MIN_POSITIVE)).collect();
    let column = |index: usize| PoolInput {
        name: schema.inputs().get(index).cloned().unwrap_or_default(),
        fifths: fifths(&pool.column(index).to_vec(), &relative),
    };
    let mut inputs: Vec<PoolInput> = (0..pool.ncols()).map(column).filter(|input| input.fifths.len() > 1).collect();
    inputs.sort_by(|a, b| b.contrast().total_cmp(&a.contrast()));
    inputs.truncate(MOST_INPUTS);
    let options = SuggestOptions { count: SHOWN, ..Default::default() };
    let chosen = match suggest(laplace, pool, Goal::Uncertainty, &options) {
        Ok(chosen) => chosen.rows,
        // Every row of the pool is measured already.
        Err(Error::NoRows { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let row = |row: usize| PoolRow {
        row: row + 1,
        relative: relative.get(row).copied().unwrap_or(f64::NAN),
        inputs: schema.inputs().iter().cloned().zip(pool.row(row).iter().copied()).collect(),
    };
    Ok(Unknown {
        rows: pool.nrows(),
        beside_training: laplace.data().is_some(),
        median: median(&relative),
        largest: relative.iter().copied().fold(0.0, f64::max),
        inputs,
        first: chosen.iter().map(|one| row(one.row)).collect(),
    })
}

/// √Σ of the variances of the outputs, in the units of the model.
fn spreads(laplace: &Laplace, inputs: &Array2<f64>) -> Result<Vec<f64>> {
    Ok(linearized(laplace, inputs)?.variance().sum_axis(Axis(1)).mapv(|sum| sum.max(0.0).sqrt()).to_vec())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean spread by fifths of an input; equal values stay together.
fn fifths(values: &[f64], spreads: &[f64]) -> Vec<PoolFifth> {
    let mut rows: Vec<(f64, f64)> = values.iter().copied().zip(spreads.iter().copied()).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut all, mut start) = (Vec::new(), 0);
    for fifth in 1..=5 {
        let mut end = (fifth * rows.len() / 5).max(start);
        while end > start && end < rows.len() && rows[end].0 == rows[end - 1].0 {
            end += 1;
        }
        let part = &rows[start..end];
        start = end;
        if let (Some(first), Some(last)) = (part.first(), part.last()) {
            let mean = part.iter().map(|row| row.1).sum::<f64>() / part.len() as f64;
            all.push(PoolFifth { low: first.0, high: last.0, relative: mean });
        }
    }
    all
}

impl PoolInput {
    /// The greatest mean spread of a fifth over the smallest.
    fn contrast(&self) -> f64 {
        let of = |fold: fn(f64, f64) -> f64, start: f64| self.fifths.iter().map(|part| part.relative).fold(start, fold);
        of(f64::max, 0.0) / of(f64::min, f64::INFINITY)
    }

    /// The fifth that is least known.
    fn least_known(&self) -> Option<&PoolFifth> {
        self.fifths.iter().max_by(|a, b| a.relative.total_cmp(&b.relative))
    }
}

impl Report {
    /// The section of the page.
    pub(super) fn unknown_html(&self) -> String {
        let Some(unknown) = &self.unknown else { return String::new() };
        let beside = if unknown.beside_training { "that of the median training row" } else { "that of its median row" };
        let mut text = format!(
            "<section aria-labelledby=\"unknown\">\n<h2 id=\"unknown\">Where is the pool least known?</h2>\n<p>What the weights \
             leave open about the mean at {} that could be measured, as a multiple of {beside}: {} at the median row, {} at \
             most.</p>\n",
            counted(unknown.rows, "row"),
            number(unknown.median),
            number(unknown.largest)
        );
        if !unknown.inputs.is_empty() {
            text += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"What is open by fifths of the inputs\">\n\
                     <table class=\"scores\">\n<thead><tr><th scope=\"col\">by fifths of</th>";
            for name in ["lowest", "second", "third", "fourth", "highest", "least known"] {
                let _ = write!(text, "<th scope=\"col\">{name}</th>");
            }
            text += "</tr></thead>\n<tbody>\n";
            for input in &unknown.inputs {
                text += &input_html(input);
            }
            text += "</tbody>\n</table>\n</div>\n";
        }
        if unknown.first.is_empty() {
            return text + "<p>All of its rows are measured already.</p>\n</section>\n";
        }
        let first: Vec<String> = unknown.first.iter().map(row_in_words).collect();
        let _ = write!(
            text,
            "<h3>Rows to measure first</h3>\n<ol class=\"pairs\">\n{}</ol>\n<p class=\"how\">Rows of the pool from 1, each with those \
             before it taken as measured (suggestions can have other goals, and costs). The spread is that \
             of the linearised network: far from all data it rests on the prior.</p>\n</section>\n",
            first.iter().map(|words| format!("<li>{}</li>\n", escape(words))).collect::<String>()
        );
        text
    }
}

fn input_html(input: &PoolInput) -> String {
    let cell = |place: usize| {
        input.fifths.get(place).map_or("–".to_string(), |part| {
            format!("{}<br><small>{} to {}</small>", number(part.relative), number(part.low), number(part.high))
        })
    };
    let cells: String = (0..5).map(|place| format!("<td>{}</td>", cell(place))).collect();
    let least = input.least_known().map_or(String::new(), |part| {
        if part.low == part.high { number(part.low) } else { format!("{} to {}", number(part.low), number(part.high)) }
    });
    format!("<tr><th scope=\"row\">{}</th>{cells}<td>{least}</td></tr>\n", escape(&input.name))
}

fn row_in_words(row: &PoolRow) -> String {
    let shown: Vec<String> =
        row.inputs.iter().take(MOST_COLUMNS).map(|(name, value)| format!("{name} {}", number(*value))).collect();
    let more = if row.inputs.len() > MOST_COLUMNS { ", …" } else { "" };
    format!("row {}, {} times: {}{more}", thousands(row.row), number(row.relative), shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifths_have_the_means_of_their_rows_and_equal_values_stay_together() {
        let values: Vec<f64> = (0..10).map(|n| f64::from(n / 4)).collect();
        let spreads: Vec<f64> = (0..10).map(|n| if n < 4 { 1.0 } else { 3.0 }).collect();
        let parts = fifths(&values, &spreads);
        let found: Vec<(f64, f64, f64)> = parts.iter().map(|part| (part.low, part.high, part.relative)).collect();
        assert_eq!(found, [(0.0, 0.0, 1.0), (1.0, 1.0, 3.0), (2.0, 2.0, 3.0)]);
        let input = PoolInput { name: "x".to_string(), fifths: parts };
        assert_eq!((input.contrast(), input.least_known().map(|part| part.relative)), (3.0, Some(3.0)));
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
