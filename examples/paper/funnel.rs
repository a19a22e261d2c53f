//! Can an approximation at one point reach the mouth and the neck of a funnel? Neal's funnel in two dimensions, σ = 3
//! (Yu et al. 2024, supplement "Funnel"): with the Fisher metric (RLA-F) the samples are exact; straight lines (ELA)
//! and the Monge metric (RLA-B) do not widen with θ₂.

mod support;

use clap::Parser;
use riemannian_laplace::internals::paper::problems::Funnel;
use support::canvas;
use support::clouds::{CloudFigure, CloudPanel, CloudRow};
use support::comparison::{Comparison, ComparisonTable, Published, RunOptions};
use support::figure::Outcome;
use support::lowdim::funnel::{exact, placed, truth};
use support::lowdim::placement::Method;
use support::lowdim::{REFERENCE_SEED, exact_seed};

/// The funnel: distances of every method to exact samples, and their pictures
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
}

fn main() -> Outcome {
    let options = Options::parse().run;
    let funnel = Funnel::PAPER;
    println!("The funnel: Wasserstein-1 distance to exact samples, which are also compared with each other (exact).");
    println!("The paper shows pictures and gives no numbers. θ1 has heavy tails, and so do distances between samples.");
    options.announce("exact");
    let cells = options.cells("funnel")?;
    let size = options.size();
    let (target, placement) = placed(funnel)?;
    let reference = exact(funnel, size.reference, REFERENCE_SEED);
    let comparison = Comparison {
        name: "funnel",
        target: &target,
        placement: &placement,
        reference: reference.view(),
        size,
        seed: 0,
        cells: &cells,
    };
    let mut table = ComparisonTable::new();
    for method in Method::FOUR {
        table.row(method, &comparison.run(method)?, Published::default());
    }
    let yardstick = comparison.run_exact(|repeat| exact(funnel, size.samples, exact_seed(repeat)))?;
    table.yardstick("exact", &yardstick);
    println!();
    table.print();
    println!();

    let samples = size.samples.min(4_000);
    let panels = CloudPanel::of_methods(&Method::FOUR, &target, &placement, samples, str::to_string)?;
    let row = CloudRow { truth: truth(funnel), x: (-15.0, 15.0), y: (-9.0, 9.0), panels };
    canvas::save(&CloudFigure { rows: vec![row] }, &options.figures.join("funnel"))
}
