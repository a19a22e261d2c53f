//! What `fit` says about the predictions to come: leave-one-out of the network alone and of the linearised posterior.

use riemannian_laplace::internals::evaluate::ClosedForms;
use riemannian_laplace::{Laplace, Link};
use serde::Serialize;

use super::announce::{duration, expected_seconds, leave_one_out_work};
use super::console::Console;
use super::output::{Summary, short};

/// Beyond this many multiply-adds (a second or two) the scores are left to `rla loo`.
const MOST_WORK: f64 = 2e10;

/// The keys of `--json`.
#[derive(Debug, Serialize)]
pub struct ScoreReport {
    elpd_loo: f64,
    elpd_loo_map: f64,
}

impl From<&ClosedForms> for ScoreReport {
    fn from(scores: &ClosedForms) -> Self {
        Self { elpd_loo: scores.linearized.elpd(), elpd_loo_map: scores.map.elpd() }
    }
}

/// The scores, where they exist in closed form and take little time.
pub fn closed_forms(laplace: &Laplace, console: &Console) -> Option<ClosedForms> {
    let work = leave_one_out_work(laplace)?;
    laplace.data()?;
    if work > MOST_WORK {
        let seconds = duration(expected_seconds(work));
        console.note(format!("leave-one-out would take about {seconds} more; `rla loo` computes it"));
        return None;
    }
    let _progress = console.spinner("computing leave-one-out");
    ClosedForms::of(laplace, Link::default()).ok()
}

/// Adds the rows of the summary.
pub fn add_rows(scores: &ClosedForms, summary: &mut Summary) {
    let loo = &scores.linearized;
    let meaning = format!(
        "± {} nats: leave-one-out at these weights, linearised (glm); greater is better",
        short(loo.standard_error())
    );
    summary.row("elpd_loo", short(loo.elpd()), meaning);
    summary.row("elpd_loo_map", short(scores.map.elpd()), "the same for the network alone");
}

/// Warns where the default prediction is expected to be worse than the network alone.
pub fn warn(scores: &ClosedForms, console: &Console) {
    if let (true, Ok(loss)) = (scores.linearized_is_worse_than_map(), scores.map.minus(&scores.linearized)) {
        let advice = match loss.is_clear() {
            true => "predict with --method map, or with samples after `rla loo --method riemannian`",
            false => "a difference within its error",
        };
        console.warn(format!(
            "by leave-one-out the network alone predicts better than the linearised posterior, by {loss}: {advice}"
        ));
    }
}
