//! How long work will take, said before it starts, from counted multiply-adds.

use riemannian_laplace::Laplace;
use riemannian_laplace::internals::laplace::ExpectedFit;

use super::console::Console;

/// Work below this many seconds is not announced.
pub const LEAST_SECONDS: f64 = 10.0;

/// Seconds of one core per counted multiply-add.
const SECONDS_PER_MULTIPLY_ADD: f64 = 1e-10;

/// The threads that work is spread over.
pub fn threads() -> f64 {
    rayon::current_num_threads() as f64
}

/// Seconds that counted multiply-adds take on all threads.
pub fn expected_seconds(work: f64) -> f64 {
    work * SECONDS_PER_MULTIPLY_ADD / threads()
}

/// Multiply-adds of the linearised posterior's variance at so many rows; none where it is an iteration.
pub fn variance_work(laplace: &Laplace, rows: usize) -> Option<f64> {
    let values = (rows * laplace.model().n_outputs()) as f64;
    let known = (laplace.n_data() * laplace.model().n_outputs()) as f64;
    let params = laplace.parameters().len() as f64;
    match laplace.structure().solver() {
        "weight-space" => Some(values * params * params),
        "function-space" => Some(values * (known * params.min(known) + params)),
        "matrix-free" => None,
        _ => Some(4.0 * values * params),
    }
}

/// Multiply-adds of leave-one-out in closed form: the variances, and an eigendecomposition for every row.
pub fn leave_one_out_work(laplace: &Laplace) -> Option<f64> {
    const EIGEN: f64 = 10.0;
    let outputs = laplace.model().n_outputs() as f64;
    Some(variance_work(laplace, laplace.n_data())? + EIGEN * laplace.n_data() as f64 * outputs.powi(3))
}

/// Says how long leave-one-out takes, where that is long.
pub fn announce_leave_one_out(console: &Console, laplace: &Laplace) {
    if let Some(work) = leave_one_out_work(laplace) {
        let faster = "a posterior with --structure kron or --weights last-layer is faster";
        announce(console, expected_seconds(work), "leave-one-out", faster);
    }
}

/// Says how long linearised predictions of so many rows take, where that is long.
pub fn announce_predicting(console: &Console, laplace: &Laplace, rows: usize) {
    if let Some(work) = variance_work(laplace, rows) {
        let faster = "a posterior with --structure kron or --weights last-layer is faster, and --method map needs none";
        announce(console, expected_seconds(work), "predicting", faster);
    }
}

/// Says how long a fit will take and what would be faster, where it is long.
pub fn announce_fit(console: &Console, expected: &ExpectedFit) {
    // One core's time: part of the work is not shared, and an estimate from above disappoints nobody.
    let Some(seconds) = expected.seconds else { return };
    let in_words = |(name, seconds): &(String, f64)| format!("{} about {}", option_of(name), duration(*seconds));
    let faster: Vec<String> = expected.faster.iter().map(in_words).collect();
    let faster = match faster.is_empty() {
        true => "fewer rows or fewer weights would be faster".to_string(),
        false => format!("faster, and approximate: {}", faster.join(", ")),
    };
    announce(console, seconds, "the fit", &faster);
}

/// The option that asks for what the library names.
fn option_of(name: &str) -> &str {
    match name {
        "the Kronecker structure" => "--structure kron",
        "the last layer alone" => "--weights last-layer",
        "the diagonal structure" => "--structure diag",
        other => other,
    }
}

/// Says how long work will take and what would be faster, where it is long.
pub fn announce(console: &Console, seconds: f64, what: &str, faster: &str) {
    if seconds >= LEAST_SECONDS {
        console.note(format!("{what} takes about {}; {faster}", duration(seconds)));
    }
}

/// `40 s`, `7 min`, `3 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => "a second".to_string(),
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 2.0 * 86_400.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_reads_well() {
        let words: Vec<String> = [12.4, 89.0, 420.0, 7200.0, 1e6].map(duration).to_vec();
        assert_eq!(words, ["12 s", "89 s", "7 min", "2 h", "12 days"]);
    }
}
