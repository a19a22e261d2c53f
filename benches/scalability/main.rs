//! How does the cost of one sample grow with the network and with the data? The paper's supplement ("Scalability
//! experiment"): 1-W-W-1 tanh networks on noisy sine data, standardised. RLA-F in weight space (D × D) and in function
//! space (N × N), and RLA-B.
//!
//! `cargo bench --bench scalability`, with `-- --quick` for a minute, `-- --full` for everything that fits in memory.
//! For every width one network is trained, with mini-batches of 100 from the largest data set; the posterior is then
//! fitted and tuned on the first N points. RLA-F samples are certified (drift at most 1e-3), RLA-B has the paper's
//! tolerances.

#[path = "../../examples/paper/support/mod.rs"]
mod support;

mod measure;
mod plot;

use std::path::PathBuf;

use clap::Parser;
use measure::{Budget, Measurement, Solver, measure, sine_data, trained};
use support::canvas;
use support::comparison::progress;
use support::figure::Outcome;
use support::table::TextTable;

/// Seconds, evaluations, drift and memory of one sample for growing networks and data
#[derive(Debug, Parser)]
struct Options {
    /// Small networks and data only
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also runs that take minutes per sample
    #[arg(long)]
    full: bool,
    /// Only these widths
    #[arg(long, value_delimiter = ',')]
    widths: Vec<usize>,
    /// Only these numbers of data points
    #[arg(long, value_delimiter = ',')]
    points: Vec<usize>,
    /// Where to draw the figure, as scalability.svg and .png
    #[arg(long, value_name = "FOLDER", default_value = "figures")]
    figures: PathBuf,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn widths(&self) -> &[usize] {
        match (self.widths.is_empty(), self.quick) {
            (false, _) => &self.widths,
            (_, true) => &[5, 10, 30],
            _ => &[5, 10, 20, 30, 50, 100, 200, 300, 500, 1000],
        }
    }

    fn points(&self) -> &[usize] {
        match (self.points.is_empty(), self.quick) {
            (false, _) => &self.points,
            (_, true) => &[100, 1_000],
            _ => &[100, 1_000, 10_000],
        }
    }

    fn budget(&self) -> Budget {
        Budget { seconds: if self.full { 900.0 } else { 20.0 } }
    }
}

fn main() -> Outcome {
    let options = Options::parse();
    let budget = options.budget();
    println!("1-W-W-1 tanh networks on sine data; one sample at a time, {} threads.", rayon::current_num_threads());
    println!(
        "Left out (–): what would take more than {:.0} s per sample, or does not fit in memory.\n",
        budget.seconds
    );
    let most = options.points().iter().copied().max().unwrap_or(100);
    let data = sine_data(most, 711)?;
    let mut measurements: Vec<Measurement> = Vec::new();
    for &width in options.widths() {
        let bar = progress(&format!("width {width}"), 1 + 3 * options.points().len());
        let network = trained(width, &data)?;
        bar.inc(1);
        for &points in options.points() {
            for solver in Solver::ALL {
                measurements.push(measure(&network, &data, points, solver, budget)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
    }
    print_table(&measurements);
    let figure = plot::figure(&data, &measurements);
    canvas::save(&figure, &options.figures.join("scalability"))
}

fn print_table(measurements: &[Measurement]) {
    let mut table = TextTable::new(&[
        "width",
        "D",
        "N",
        "method",
        "ms/evaluation",
        "T",
        "s/sample",
        "max drift",
        "rms residual/σ",
        "linearised",
        "peak MB",
    ]);
    for measurement in measurements {
        let dash = || "–".to_string();
        let sampled = |show: &dyn Fn(&measure::Sampled) -> String| measurement.sampled.as_ref().map_or_else(dash, show);
        table.row(vec![
            measurement.width.to_string(),
            measurement.n_params.to_string(),
            measurement.n_points.to_string(),
            measurement.solver.name().to_string(),
            measurement.evaluation.map_or_else(dash, |seconds| format!("{:.3}", 1e3 * seconds)),
            sampled(&|run| format!("{:.0}", run.evaluations)),
            sampled(&|run| format!("{:.4}", run.seconds)),
            sampled(&|run| format!("{:.1e}", run.drift)),
            sampled(&|run| format!("{:.3}", run.residual)),
            sampled(&|run| format!("{:.3}", run.linearized)),
            sampled(&|run| run.peak.map_or_else(dash, |bytes| format!("{:.0}", bytes as f64 / 1e6))),
        ]);
    }
    table.print();
    print_exponent(measurements);
}

/// The slope of log(time of one evaluation) against log D, for the function-space solver with N = 100 from D = 10⁴ on.
fn print_exponent(measurements: &[Measurement]) {
    let points: Vec<(f64, f64)> = measurements
        .iter()
        .filter(|m| m.solver == Solver::FisherFunction && m.n_points == 100 && m.n_params >= 10_000)
        .filter_map(|m| m.evaluation.map(|seconds| ((m.n_params as f64).ln(), seconds.ln())))
        .collect();
    if points.len() < 2 {
        return;
    }
    let count = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>()
        / points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    println!("\nOne evaluation in function space, N = 100, D from 10⁴ on: time grows as D^{slope:.2}.");
}
