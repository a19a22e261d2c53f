//! Is a Riemannian approximation at least right for a Gaussian? For N(0, I) in D = 1 … 10 dimensions (Yu et al. 2024,
//! section 3 with its figures "e-and-b" and "distances"): the Monge metric (RLA-B) pulls samples towards the centre,
//! the more the larger D; a logarithmic map (RLA-BLog) or the Fisher metric (RLA-F) removes the bias.

mod support;

use clap::Parser;
use support::canvas;
use support::clouds::{CloudFigure, CloudPanel, CloudRow};
use support::comparison::{Comparison, RunOptions};
use support::figure::Outcome;
use support::lines::{Line, LineFigure};
use support::lowdim::gaussian::{exact_first, placed, planar_truth, seed as gaussian_seed};
use support::lowdim::placement::Method;
use support::lowdim::score::Score;
use support::lowdim::{REFERENCE_SEED, exact_seed};
use support::table::{TextTable, mean_and_deviation, with_deviation};

/// The bias of every method on isotropic Gaussians of growing dimension
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
}

/// Dimensions of the paper's figure.
const DIMENSIONS: std::ops::RangeInclusive<usize> = 1..=10;

fn main() -> Outcome {
    let options = Options::parse().run;
    println!("Isotropic Gaussians: Wasserstein-1 distance to exact samples in the first dimension.");
    println!("The paper shows a figure and gives no numbers.");
    options.announce("exact");
    let cells = options.cells("gaussian_bias")?;
    let size = options.size();
    let reference = exact_first(size.reference, REFERENCE_SEED);
    let mut header = vec!["D"];
    header.extend(Method::FOUR.map(Method::name));
    header.extend(["exact", "T: RLA-B", "BLog", "F", "ms: RLA-B", "BLog", "F", "failed"]);
    let mut table = TextTable::new(&header);
    let mut lines = Method::FOUR.map(|method| Line { name: method.name().to_string(), points: Vec::new() });
    for dimension in DIMENSIONS {
        let (target, placement) = placed(dimension)?;
        let name = format!("D = {dimension}");
        let comparison = Comparison {
            name: &name,
            target: &target,
            placement: &placement,
            reference: reference.view(),
            size,
            seed: gaussian_seed(dimension),
            cells: &cells,
        };
        let scores = Method::FOUR.map(|method| comparison.run(method));
        let scores = scores.into_iter().collect::<Outcome<Vec<_>>>()?;
        let exact =
            comparison.run_exact(|repeat| exact_first(size.samples, exact_seed(gaussian_seed(dimension) + repeat)))?;
        let column = |scores: &[Score], value: fn(&Score) -> f64| scores.iter().map(value).collect::<Vec<f64>>();
        let mut row = vec![dimension.to_string()];
        for (line, scores) in lines.iter_mut().zip(&scores) {
            let distances = column(scores, |score| score.distance);
            let (mean, deviation) = mean_and_deviation(&distances);
            line.points.push((dimension as f64, mean, deviation));
            row.push(with_deviation(&distances));
        }
        row.push(with_deviation(&column(&exact, |score| score.distance)));
        let mean = |scores: &[Score], value| mean_and_deviation(&column(scores, value)).0;
        row.extend(scores[1..].iter().map(|scores| format!("{:.1}", mean(scores, |score| score.evaluations))));
        row.extend(scores[1..].iter().map(|scores| format!("{:.4}", mean(scores, |score| score.milliseconds))));
        row.push(scores.iter().flatten().map(|score| score.failed).sum::<usize>().to_string());
        table.row(row);
    }
    println!();
    table.print();
    println!();
    let figure = LineFigure {
        title: "Bias on isotropic Gaussians: mean ± 2 deviations over repeats".to_string(),
        x_label: "dimension D".to_string(),
        y_label: "W1 in the first dimension".to_string(),
        lines: lines.into(),
    };
    canvas::save(&figure, &options.figures.join("gaussian_bias"))?;

    // The paper's picture in two dimensions.
    let (target, placement) = placed(2)?;
    let samples = size.samples.min(4_000);
    let panels = CloudPanel::of_methods(&Method::FOUR, &target, &placement, samples, str::to_string)?;
    let row = CloudRow { truth: planar_truth(), x: (-3.6, 3.6), y: (-3.6, 3.6), panels };
    canvas::save(&CloudFigure { rows: vec![row] }, &options.figures.join("gaussian"))
}
