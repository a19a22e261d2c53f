//! The results of a task, in a table next to the paper's numbers.

use riemannian_laplace::internals::paper::reference::Diagnostics;

use super::regression::method::Method;
use super::regression::nuts::Reference;
use super::regression::paper::published;
use super::regression::task::{Geodesics, Task};
use super::study::Finished;
use super::support::table::{TextTable, mean_and_deviation, with_deviation};

/// The task and its posterior, in a sentence.
pub fn heading(task: &Task) {
    println!(
        "\n{} data, {}: {} training and {} test points; prior precision {:.5}, σ {:.5} in original units, log evidence {:.5}",
        task.split.name(),
        task.units.name(),
        task.train.len(),
        task.test.len(),
        task.posterior.prior().values()[0],
        task.noise(),
        task.posterior.log_marginal_likelihood()
    );
}

/// The table of a task, and the diagnostics of NUTS.
pub fn print(task: &Task, finished: &[Finished]) {
    let mut table = TextTable::new(&[
        "method",
        "MSE",
        "paper",
        "NLL",
        "paper",
        "T",
        "paper",
        "s/sample",
        "paper",
        "max drift",
        "failed",
        "",
    ]);
    finished.iter().for_each(|method| table.row(row(task, method)));
    table.print();
    finished.iter().filter_map(|method| method.reference.as_ref()).for_each(describe);
}

/// The name of a row; draws that are not a reference are marked as not converged.
pub fn name(finished: &Finished) -> String {
    let name = finished.method.name();
    match &finished.reference {
        Some(reference) if reference.predictions.verdict().is_err() => format!("{name} (not converged)"),
        Some(reference) if reference.verdict().is_err() => format!("{name} (divergences)"),
        _ => name.to_string(),
    }
}

fn row(task: &Task, finished: &Finished) -> Vec<String> {
    let paper = published(finished.method, task.split, task.units);
    let scores: Vec<(f64, f64)> = finished.runs.iter().filter_map(|run| run.scores).collect();
    let geodesics: Vec<Geodesics> = finished.runs.iter().filter_map(|run| run.geodesics).collect();
    let dash = || "–".to_string();
    let scored = |value: fn(&(f64, f64)) -> f64| match scores.is_empty() {
        true => "all failed".to_string(),
        false => with_deviation(&scores.iter().map(value).collect::<Vec<f64>>()),
    };
    let followed = |text: &dyn Fn() -> String| if geodesics.is_empty() { dash() } else { text() };
    let mean = |value: fn(&Geodesics) -> f64| mean_and_deviation(&geodesics.iter().map(value).collect::<Vec<f64>>()).0;
    let cost = paper.and_then(|paper| paper.cost);
    let spread = |(mean, deviation): (f64, f64)| format!("{mean:.3} ± {deviation:.3}");
    vec![
        name(finished),
        scored(|(mse, _)| *mse),
        paper.map_or_else(dash, |paper| spread(paper.mse)),
        scored(|(_, nll)| *nll),
        paper.map_or_else(dash, |paper| spread(paper.nll)),
        followed(&|| format!("{:.1}", mean(|run| run.evaluations))),
        cost.map_or_else(dash, |(evaluations, _)| format!("{evaluations:.1}")),
        followed(&|| format!("{:.4}", mean(|run| run.seconds))),
        cost.map_or_else(dash, |(_, seconds)| format!("{seconds:.1}")),
        if scores.is_empty() {
            dash()
        } else {
            followed(&|| format!("{:.0e}", geodesics.iter().map(|run| run.drift).fold(0.0, f64::max)))
        },
        followed(&|| {
            let total = |value: fn(&Geodesics) -> usize| geodesics.iter().map(value).sum::<usize>();
            format!("{}/{}", total(|run| run.failed), total(|run| run.samples))
        }),
        note(finished, &geodesics),
    ]
}

fn note(finished: &Finished, geodesics: &[Geodesics]) -> String {
    let uncertified = geodesics.iter().map(|run| run.uncertified).sum::<usize>();
    match (finished.method, &finished.reduced) {
        (_, Some(reduced)) => reduced.clone(),
        (Method::RlaF, None) if uncertified == 0 => "all certified".to_string(),
        (Method::RlaF, None) => format!("{uncertified} not certified"),
        _ => String::new(),
    }
}

/// R̂ and effective sample sizes of the weights and of the predictions, the cost, and a refusal if there is one.
fn describe(reference: &Reference) {
    let sample = &reference.sample;
    let worst = |diagnostics: &Diagnostics| {
        let r_hat = diagnostics.worst_r_hat().map_or(f64::NAN, |(_, value)| value);
        let size = diagnostics.least_bulk_ess().map_or(f64::NAN, |(_, value)| value);
        format!("R̂ ≤ {r_hat:.3}, bulk ESS ≥ {size:.0}")
    };
    println!(
        "  NUTS: predictions at the test points {}; weights {} (units permute and flip signs)",
        worst(&reference.predictions),
        worst(&sample.diagnostics)
    );
    println!(
        "  {} kept draws of {} chains; {} of {} transitions diverged, {} reached the depth limit; {} gradients of {:.2} µs, {:.0} s of one core",
        sample.draws.nrows(),
        sample.chains(),
        sample.divergences(),
        sample.transitions(),
        sample.depth_limited(),
        sample.gradients(),
        1e6 * reference.seconds_per_gradient,
        reference.seconds
    );
    if let Err(refusal) = reference.verdict() {
        println!("  NUTS, predictions: {refusal}");
    }
}
