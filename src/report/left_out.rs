//! Leave-one-out in a report: the scores of every method, their table, and k̂ point by point.

use super::chart::{Axis, Chart, Ink, Mark};
use super::contents::{LeftOut, Notable};
use super::figures::Figure;
use super::gather::evenly;
use super::notable::notable;
use super::table::Column;
use super::words::{counted, plus_minus, thousands};
use super::{Report, number};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::evaluate::{ClosedForms, Estimator, K_LIMIT, LeaveOneOut, leave_one_out};
use crate::laplace::Laplace;
use crate::predict::{Link, Method};
use crate::progress::Progress;

/// The most training points with leave-one-out by samples; closed forms have no limit.
const MOST_SAMPLED: usize = 20_000;
/// The most points drawn, besides those that are unreliable.
const MOST_DRAWN: usize = 1000;

/// Leave-one-out of each method, and the rows that stand out. What cannot be computed is no reason to have no report.
pub(super) fn left_out(
    laplace: &Laplace,
    methods: &[Method],
    training: Option<&Dataset>,
    progress: &dyn Progress,
) -> Result<(LeftOut, Notable)> {
    let Some(training) = training else {
        let words = "The posterior does not hold its training data.".to_string();
        return Ok((LeftOut::Omitted(words), Notable::default()));
    };
    match all(laplace, methods, training, progress) {
        Ok((scores, notable)) => Ok((LeftOut::Scores(scores), notable)),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => Ok((LeftOut::Omitted(format!("Not computed: {error}.")), Notable::default())),
    }
}

type Scores = Vec<Option<LeaveOneOut>>;

fn all(
    laplace: &Laplace,
    methods: &[Method],
    training: &Dataset,
    progress: &dyn Progress,
) -> Result<(Scores, Notable)> {
    let link = methods.iter().find_map(|method| match method {
        Method::Glm(link) => Some(*link),
        _ => None,
    });
    let closed = match methods.iter().any(|method| matches!(method, Method::Map | Method::Glm(_))) {
        true => Some(ClosedForms::of(laplace, link.unwrap_or(Link::default()))?),
        false => None,
    };
    let notable = match &closed {
        Some(closed) => notable(laplace, closed, training)?,
        None => Notable::default(),
    };
    // Samples at every point are only kept for so many of them.
    let sampled = laplace.n_data() <= MOST_SAMPLED;
    let of = |method: &Method| match (method, &closed) {
        (Method::Map, Some(closed)) => Ok(Some(closed.map.clone())),
        (Method::Glm(_), Some(closed)) => Ok(Some(closed.linearized.clone())),
        // Importance weights of networks that are far from the data say nothing.
        (Method::Nn(_), _) => Ok(None),
        _ if !sampled => Ok(None),
        (other, _) => leave_one_out(laplace, other, progress).map(Some),
    };
    Ok((methods.iter().map(of).collect::<Result<_>>()?, notable))
}

impl Report {
    /// The columns of the table of leave-one-out scores.
    pub(super) fn left_out_columns(&self) -> Vec<Column> {
        let LeftOut::Scores(scores) = &self.left_out else { return Vec::new() };
        let text = |name: &str, meaning: &str, of: &dyn Fn(&LeaveOneOut) -> String| Column {
            name: name.to_string(),
            meaning: meaning.to_string(),
            cells: scores.iter().map(|loo| loo.as_ref().map_or("–".to_string(), of)).collect(),
            best: None,
        };
        let best = LeaveOneOut::best(scores.iter().flatten());
        let best =
            best.and_then(|best| scores.iter().position(|loo| loo.as_ref().is_some_and(|loo| std::ptr::eq(loo, best))));
        let mut columns = vec![Column {
            best,
            ..text(
                "elpd",
                "expected log density of as many new points, in nats ± its standard error; greater is better",
                &|loo| match loo.is_comparable() {
                    true => plus_minus(loo.elpd(), loo.standard_error()),
                    false => "unknown".to_string(),
                },
            )
        }];
        let map = self.methods.iter().position(|method| method.name == "map").and_then(|index| self.left_out.of(index));
        if let Some(map) = map.filter(|_| scores.len() > 1) {
            let meaning = "difference to the network alone ± its standard error; positive is better";
            columns.push(text("elpd − alone", meaning, &|loo| match loo.minus(map) {
                Ok(_) if loo.method == map.method => "–".to_string(),
                Ok(_) if !loo.is_comparable() => "unknown".to_string(),
                Ok(comparison) => plus_minus(comparison.difference, comparison.standard_error),
                Err(_) => String::new(),
            }));
        }
        let p_loo = "effective number of parameters: what the points gain by being part of their own prediction";
        columns.push(text("p_loo", p_loo, &|loo| match loo.is_comparable() {
            true => number(loo.p_loo()),
            false => "unknown".to_string(),
        }));
        let k = "largest k̂ of a point (closed forms: leverage); above 0.7 its score is unreliable";
        columns.push(text("largest k̂", k, &|loo| number(loo.k_max())));
        columns.push(text("k̂ > 0.7", "points above that limit", &|loo| thousands(loo.unreliable())));
        if scores.iter().flatten().any(|loo| loo.ranks.is_some()) {
            let inside = "share of left-out values inside their central 90 % interval; should be 0.9";
            columns.push(text("inside 90 %", inside, &|loo| {
                loo.coverage(0.9).filter(|_| loo.is_comparable()).map_or("–".to_string(), number)
            }));
        }
        columns
    }

    /// k̂ point by point: of the method that is shown, and of the geodesics.
    pub fn left_out_figures(&self) -> Vec<Figure> {
        let geodesics = |index: &usize| self.methods[*index].name == "riemannian";
        let wanted = (0..self.methods.len()).filter(|index| *index == self.shown || geodesics(index));
        let figures = wanted.filter_map(|index| k_figure(self.left_out.of(index)?, self.methods[index].words));
        figures.collect()
    }
}

/// k̂ by row; none where there are too few samples to know any.
fn k_figure(loo: &LeaveOneOut, words: &str) -> Option<Figure> {
    if loo.k.iter().all(|k| !k.is_finite()) {
        return None;
    }
    let is_bad = |row: &usize| loo.k[*row] > K_LIMIT;
    let bad: Vec<usize> = (0..loo.k.len()).filter(is_bad).collect();
    let good: Vec<usize> = (0..loo.k.len()).filter(|row| !is_bad(row)).collect();
    let drawn: Vec<usize> = evenly(good.len(), MOST_DRAWN).into_iter().map(|index| good[index]).collect();
    let dots = |rows: &[usize]| Mark::Dots(rows.iter().map(|row| ((row + 1) as f64, loo.k[*row])).collect());
    let name = match loo.estimator {
        Estimator::ClosedForm => "Leverage",
        Estimator::Psis { .. } => "k̂",
    };
    let description = format!(
        "{name} is at most {}; {} of {} are above {K_LIMIT}.",
        number(loo.k_max()),
        thousands(loo.unreliable()),
        counted(loo.k.len(), "point")
    );
    let x = Axis::between("training row", 0.0, loo.k.len() as f64 + 1.0);
    let y = Axis::around(format!("{name} ({words})"), loo.k.iter().copied().chain([0.0, 0.8]));
    let chart = Chart::new(format!("{name} of each training point: {words}"), description, x, y)
        .mark(Ink::Reference, Mark::Across(K_LIMIT))
        .mark(Ink::Series(0), dots(&drawn))
        .mark(Ink::Bad, dots(&bad));
    let thinned = match good.len() > drawn.len() {
        true => format!(" Drawn are {} of those below the line, evenly spaced.", thousands(drawn.len())),
        false => String::new(),
    };
    let caption = format!(
        "How much the posterior hangs on each point. Above the line it would be another posterior without that point, and its \
         leave-one-out score is unreliable: look at these rows first.{thinned}"
    );
    Some(Figure { chart, caption })
}
