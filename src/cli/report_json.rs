//! `rla report --json`: every verdict and the numbers behind it, for scripts.

use riemannian_laplace::Scores;
use riemannian_laplace::internals::report::{
    Explained, Hold, Mood, NotableRow, Overfitting, Report, Suspicious, Unknown,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct ReportJson {
    title: String,
    posterior: String,
    version: &'static str,
    date: Option<String>,
    command: Option<String>,
    seed: Option<u64>,
    mood: &'static str,
    headline: &'static str,
    findings: Vec<FindingJson>,
    scored_on: &'static str,
    n: usize,
    shown: &'static str,
    scores: Map<String, Value>,
    overfitted: Option<bool>,
    explained: Option<ExplainedJson>,
    explained_linear: Option<ExplainedJson>,
    promise: Option<Value>,
    hold: Value,
    suspicious: Vec<Value>,
    pool: Option<Value>,
    coverage_by_fifths: Map<String, Value>,
    r_squared: Vec<f64>,
    auroc: Option<f64>,
    recall: Vec<Option<f64>>,
    constant_nll: Option<f64>,
    rows: Value,
}

#[derive(Debug, Serialize)]
struct FindingJson {
    mood: &'static str,
    about: &'static str,
    words: String,
}

#[derive(Debug, Serialize)]
struct ExplainedJson {
    training: f64,
    held_out: Option<f64>,
    refits: Option<f64>,
}

impl From<Explained> for ExplainedJson {
    fn from(explained: Explained) -> Self {
        Self { training: explained.training, held_out: explained.held_out, refits: explained.refits }
    }
}

/// The mood as one word.
fn word(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "good",
        Mood::Note => "note",
        Mood::Care => "care",
        Mood::Bad => "problem",
    }
}

fn row(row: &NotableRow) -> Value {
    json!({ "row": row.row, "residual": row.residual, "leverage": row.leverage, "influence": row.influence })
}

fn suspicious(row: &Suspicious) -> Value {
    json!({ "row": row.row, "self_influence": row.self_influence, "given": row.given, "expected": row.expected })
}

fn pool(unknown: &Unknown) -> Value {
    let fifths = |input: &riemannian_laplace::internals::report::PoolInput| -> Vec<Value> {
        let fifth = |part: &riemannian_laplace::internals::report::PoolFifth| json!({ "low": part.low, "high": part.high, "relative_spread": part.relative });
        input.fifths.iter().map(fifth).collect()
    };
    let inputs: Map<String, Value> =
        unknown.inputs.iter().map(|input| (input.name.clone(), fifths(input).into())).collect();
    let first: Vec<Value> =
        unknown.first.iter().map(|row| json!({ "row": row.row, "relative_spread": row.relative })).collect();
    json!({ "n": unknown.rows, "median": unknown.median, "largest": unknown.largest, "inputs": inputs, "first": first })
}

fn rows(list: &[NotableRow]) -> Vec<Value> {
    list.iter().map(row).collect()
}

impl ReportJson {
    /// From the contents of a report; `held_out` says where its rows are from.
    pub fn of(report: &Report, held_out: bool) -> Self {
        let (mood, headline) = report.headline();
        let value = |scores: &Scores| serde_json::to_value(scores).unwrap_or(Value::Null);
        let finding = |finding: riemannian_laplace::internals::report::Finding| FindingJson {
            mood: word(finding.mood),
            about: finding.about,
            words: finding.words,
        };
        Self {
            title: report.made.title.clone().unwrap_or_else(|| report.posterior.clone()),
            posterior: report.posterior.clone(),
            version: env!("CARGO_PKG_VERSION"),
            date: report.made.date.clone(),
            command: report.made.command.clone(),
            seed: report.made.seed,
            mood: word(mood),
            headline,
            findings: report.findings().into_iter().map(finding).collect(),
            scored_on: if held_out { "held-out rows" } else { "training rows" },
            n: report.scored.used,
            shown: report.methods.get(report.shown).map_or("", |method| method.name),
            scores: report.methods.iter().map(|method| (method.name.to_string(), value(&method.scores))).collect(),
            overfitted: report.overfitting().map(Overfitting::is_found),
            explained: report.beside.map(|beside| beside.network.into()),
            explained_linear: report.beside.and_then(|beside| beside.linear).map(ExplainedJson::from),
            promise: report.promise.as_ref().map(|promise| {
                json!({
                    "promised_log_density": promise.promised,
                    "log_density": promise.outcome,
                    "se": promise.error,
                    "promised_coverage_90": promise.promised_coverage,
                    "coverage_90": promise.coverage,
                    "agrees": promise.agrees(),
                })
            }),
            hold: match &report.hold {
                Hold::Shares(all) => serde_json::to_value(all).unwrap_or(Value::Null),
                Hold::Omitted(_) => Value::Null,
            },
            suspicious: report.notable.suspicious.iter().map(suspicious).collect(),
            pool: report.unknown.as_ref().map(pool),
            coverage_by_fifths: report
                .conditional
                .iter()
                .map(|by| {
                    let fifth = |fifth: &riemannian_laplace::internals::report::Fifth| {
                        json!({ "low": fifth.low, "high": fifth.high, "n": fifth.rows, "coverage_90": fifth.share() })
                    };
                    (by.by.clone(), by.fifths.iter().map(fifth).collect())
                })
                .collect(),
            r_squared: report.quality.r_squared.clone(),
            auroc: report.quality.auroc,
            recall: report.quality.recall.clone(),
            constant_nll: report.quality.constant_nll,
            rows: json!({
                "largest_residual": rows(&report.notable.residuals),
                "largest_leverage": rows(&report.notable.leverages),
                "largest_influence": rows(&report.notable.influences),
                "worst_scored": rows(&report.worst),
            }),
        }
    }
}
