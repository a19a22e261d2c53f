//! Tables of scores: a row for each method, a column for each score, and what the scores mean.

use std::fmt::Write as _;

use super::words::{gain_over, percent, plus_minus};
use super::{MethodReport, Report, escape, number};
use crate::evaluate::{ClassScores, CountScores, RegressionScores, Scores};

/// A column.
pub(super) struct Column {
    /// What is above it.
    pub name: String,
    /// What it means.
    pub meaning: String,
    /// One text for each method.
    pub cells: Vec<String>,
    /// The row that is best, where there is such a thing.
    pub best: Option<usize>,
}

impl Column {
    /// The smallest value is the best, after a transformation that makes it so.
    fn new(name: impl Into<String>, meaning: impl Into<String>, values: &[f64], badness: impl Fn(f64) -> f64) -> Self {
        let worse = |index: &usize| badness(values[*index]);
        let finite = (0..values.len()).filter(|index| worse(index).is_finite());
        let best = finite.min_by(|a, b| worse(a).total_cmp(&worse(b)));
        let cells = values.iter().map(|value| number(*value)).collect();
        Self { name: name.into(), meaning: meaning.into(), cells, best }
    }
}

/// The table and the meanings of its columns, as HTML.
pub(super) fn table(report: &Report, label: &str, columns: &[Column]) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table class=\"scores\">\n\
         <thead><tr><th scope=\"col\">prediction</th>"
    );
    for column in columns {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escape(&column.name));
    }
    text += "</tr></thead>\n<tbody>\n";
    for (index, method) in report.methods.iter().enumerate() {
        let shown = if index == report.shown { " class=\"shown\"" } else { "" };
        let _ = write!(text, "<tr{shown}><th scope=\"row\">{} <code>{}</code></th>", method.words, method.name);
        for column in columns {
            let value = &column.cells[index];
            let best = column.best == Some(index) && report.methods.len() > 1;
            let cell = if best { format!("<b>{value}</b>") } else { value.clone() };
            let _ = write!(text, "<td data-label=\"{}\">{cell}</td>", escape(&column.name));
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table>\n</div>\n<dl class=\"meanings\">\n";
    for column in columns {
        let _ = writeln!(text, "<div><dt>{}</dt><dd>{}</dd></div>", escape(&column.name), escape(&column.meaning));
    }
    text + "</dl>\n"
}

/// The scores of all methods.
pub(super) fn columns(report: &Report) -> Vec<Column> {
    let methods = &report.methods;
    let all = |of: &dyn Fn(&MethodReport) -> Option<f64>| -> Vec<f64> {
        methods.iter().map(|method| of(method).unwrap_or(f64::NAN)).collect()
    };
    let nll = "negative log likelihood in nats per row; smaller is better";
    let mut columns = vec![Column::new("NLL", nll, &all(&|method| Some(method.scores.nll())), |value| value)];
    if let Some(map) = methods.iter().find(|method| method.name == "map").filter(|_| methods.len() > 1) {
        let cell = |method: &MethodReport| {
            let (gain, error) = gain_over(&method.log_densities, &map.log_densities);
            if method.name == "map" { "–".to_string() } else { plus_minus(-gain, error) }
        };
        columns.push(Column {
            name: "NLL − alone".to_string(),
            meaning: "difference to the network alone ± its standard error over rows; negative is better".to_string(),
            cells: methods.iter().map(cell).collect(),
            best: None,
        });
    }
    let regression = |of: fn(&RegressionScores) -> f64| {
        all(&|method| match &method.scores {
            Scores::Regression(scores) => Some(of(scores)),
            _ => None,
        })
    };
    let classes = |of: fn(&ClassScores) -> f64| {
        all(&|method| match &method.scores {
            Scores::Classes(scores) => Some(of(scores)),
            _ => None,
        })
    };
    match methods.first().map(|method| &method.scores) {
        Some(Scores::Regression(_)) => {
            let rmse = "root mean squared error of the predictive mean, in units of the target";
            columns.push(Column::new("RMSE", rmse, &regression(|scores| scores.rmse), |value| value));
            let crps = "continuous ranked probability score, in units of the target; smaller is better";
            columns.push(Column::new("CRPS", crps, &regression(|scores| scores.crps), |value| value));
            let inside = "share of observed values inside their central 90 % interval; should be 0.9";
            let shares = regression(|scores| scores.coverage_90);
            columns.push(Column::new("inside 90 %", inside, &shares, |value| (value - 0.9).abs()));
        }
        Some(Scores::Classes(_)) => {
            let accuracy = "share of rows whose most probable class is right";
            columns.push(Column::new("accuracy", accuracy, &classes(|scores| scores.accuracy), |value| -value));
            let brier = "squared error of the probabilities; smaller is better";
            columns.push(Column::new("Brier", brier, &classes(|scores| scores.brier), |value| value));
            let ece = "expected calibration error: confidence against accuracy over 15 bins; smaller is better";
            columns.push(Column::new("ECE", ece, &classes(|scores| scores.ece), |value| value));
        }
        Some(Scores::Counts(_)) => {
            let counts = |of: fn(&CountScores) -> f64| {
                all(&|method| match &method.scores {
                    Scores::Counts(scores) => Some(of(scores)),
                    _ => None,
                })
            };
            let rmse = "root mean squared error of the predictive mean, in counts";
            columns.push(Column::new("RMSE", rmse, &counts(|scores| scores.rmse), |value| value));
            let inside = "share of counts inside their central 90 % interval; at least 0.9";
            let shares = counts(|scores| scores.coverage_90);
            columns.push(Column::new("inside 90 %", inside, &shares, |value| (value - 0.9).abs()));
        }
        None => {}
    }
    if methods.iter().any(|method| method.mean_width.is_some()) {
        let name = format!("width {}", percent(report.level));
        let meaning = format!("mean width of the {} intervals, in units of the target", percent(report.level));
        let mut column = Column::new(name, meaning, &all(&|method| method.mean_width), |value| value);
        // Narrow is no virtue in itself.
        column.best = None;
        columns.push(column);
    }
    columns
}
