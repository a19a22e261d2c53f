//! Scores for people: those of one method a line each, with their meanings, or of several side by side.

use riemannian_laplace::Scores;
use riemannian_laplace::internals::evaluate::{Curves, OodScores};

use super::output::{Summary, aligned, short};

/// A score: its name, its value and what it means.
pub type Item = (&'static str, String, &'static str);

/// The scores of one method in their order.
pub fn items(scores: &Scores, outside: Option<&OodScores>) -> Vec<Item> {
    let nll = |value: f64| ("nll", short(value), "negative log likelihood per data point, in nats; smaller is better");
    let n = |count: usize| ("n", count.to_string(), "data points");
    let mut items = match scores {
        Scores::Regression(scores) => vec![
            n(scores.n),
            ("mse", short(scores.mse), "mean squared error of the predictive mean"),
            ("rmse", short(scores.rmse), "its square root, in units of the target"),
            nll(scores.nll),
            ("crps", short(scores.crps), "ranked probability score, in units of the target; smaller is better"),
            ("coverage_90", short(scores.coverage_90), "share of targets inside their central 90 % interval"),
        ],
        Scores::Classes(scores) => vec![
            n(scores.n),
            nll(scores.nll),
            ("accuracy", short(scores.accuracy), "share of data points whose most probable class is right"),
            ("brier", short(scores.brier), "squared error of the probabilities; smaller is better"),
            ("ece", short(scores.ece), "expected calibration error, 15 bins; smaller is better"),
        ],
        Scores::Counts(scores) => vec![
            n(scores.n),
            ("mse", short(scores.mse), "mean squared error of the predictive mean"),
            ("rmse", short(scores.rmse), "its square root, in counts"),
            nll(scores.nll),
            ("coverage_90", short(scores.coverage_90), "share of counts inside their central 90 % interval"),
        ],
    };
    if let Some(OodScores { ood_auroc, ood_auroc_epistemic, ood_auroc_logits }) = outside {
        // What a method does not have leaves its place in a table empty.
        let known = |value: &Option<f64>| value.map_or("–".to_string(), short);
        let meaning = "how well all uncertainty tells --ood from --data; ½ is chance";
        items.push(("ood_auroc", short(*ood_auroc), meaning));
        let meaning = "the same by what more data would remove of it";
        items.push(("ood_auroc_epistemic", known(ood_auroc_epistemic), meaning));
        if matches!(scores, Scores::Classes(_)) {
            items.push(("ood_auroc_logits", known(ood_auroc_logits), "the same by the variance of the logits"));
        }
    }
    items
}

/// One method: a score per line, with its meaning.
pub fn in_rows(title: String, items: &[Item]) -> String {
    let mut summary = Summary::new(title);
    for (name, value, meaning) in items {
        summary.row(name, value, meaning);
    }
    summary.to_text()
}

/// Several methods: a line each (name, scores, settings) under the names of the scores, then what these mean.
pub fn in_columns(title: String, methods: &[(String, Vec<Item>, String)]) -> String {
    let Some((_, scores, _)) = methods.first() else { return title + "\n" };
    let names = scores.iter().map(|item| item.0.to_string());
    let mut lines: Vec<Vec<String>> = vec![std::iter::once("method".to_string()).chain(names).collect()];
    for (method, items, settings) in methods {
        let mut line = vec![method.clone()];
        line.extend(items.iter().map(|item| item.1.clone()));
        line.push(settings.clone());
        lines.push(line);
    }
    let meanings: Vec<_> = scores.iter().map(|item| vec![item.0.to_string(), item.2.to_string()]).collect();
    title + "\n" + &aligned(&lines) + "where\n" + &aligned(&meanings)
}

/// Calibration curves, a line per level or bin.
pub fn curves_in_words(curves: &Curves) -> String {
    let mut text = String::new();
    match curves {
        Curves::Intervals { intervals, pit_histogram } => {
            for interval in intervals {
                text += &format!(
                    "  {:3.0} % intervals contain {:5.1} % and are {} wide on average\n",
                    100.0 * interval.level,
                    100.0 * interval.coverage,
                    short(interval.mean_width)
                );
            }
            let counts: Vec<String> = pit_histogram.iter().map(ToString::to_string).collect();
            text += &format!("  ranks by tenths (flat is calibrated): {}\n", counts.join(" "));
        }
        Curves::Reliability { reliability } => {
            for bin in reliability.iter().filter(|bin| bin.count > 0) {
                text += &format!(
                    "  confidence {:5.1} %: {:5.1} % right, of {}\n",
                    100.0 * bin.confidence,
                    100.0 * bin.accuracy,
                    bin.count
                );
            }
        }
    }
    text
}
