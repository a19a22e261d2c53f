//! Counts that vary more than Poisson's, and errors with heavier tails than a Gaussian's: the likelihood with one parameter
//! more against the plain one on a real data set each, by leave-one-out of the training rows and by held-out rows.
//!
//! `cargo run --release --example dispersion`

use std::error::Error;
use std::path::Path;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::prelude::*;

const SPLITS: usize = 5;

/// Scores of one likelihood on one split.
struct Row {
    left_out: Vec<f64>,
    held_out: Vec<f64>,
    covered: f64,
    dispersions: Vec<(String, f64)>,
}

fn scores(name: &str, training: &Dataset, held_out: &Dataset, hidden: usize) -> Result<Row, Box<dyn Error>> {
    let family: Family = name.parse()?;
    let kind = family.likelihood().kind();
    let which = if kind.has_units() { Standardize::InputsAndTargets } else { Standardize::Inputs };
    let data = training.clone().standardized(which)?;
    let outputs = family.likelihood().outputs_for(1);
    let start = Network::random(Architecture::new(&[data.inputs().ncols(), hidden, outputs], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 600, weight_decay: 1e-3, ..Default::default() };
    let network = train(&start, &data, &family, &options, &())?.network;
    let mut laplace = Laplace::fit(network, data, family, &FitOptions::default())?;
    laplace.optimize(&EvidenceOptions::default())?;
    let method = Method::default();
    let prediction = laplace.predict(held_out.inputs(), &method)?;
    let ranks = prediction.ranks(held_out.targets())?.ok_or("numbers")?;
    let inside = ranks.iter().filter(|rank| (0.05..=0.95).contains(*rank)).count();
    Ok(Row {
        left_out: laplace.leave_one_out(&method)?.pointwise,
        held_out: prediction.log_densities(held_out.targets())?.to_vec(),
        covered: inside as f64 / held_out.len() as f64,
        dispersions: laplace.dispersions(),
    })
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn table(file: &str, target: &str, hidden: usize, names: [&str; 2]) -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    let data = Table::read(&path)?.dataset(&[target.to_string()])?;
    println!("{file}: {} rows, {SPLITS} folds; NLL per row, smaller is better", data.len());
    println!("{:>18} {:>20} {:>20} {:>12}  parameters", "likelihood", "leave-one-out", "held out", "in 90 %");
    let mut all: Vec<[Vec<f64>; 2]> = Vec::new();
    for name in names {
        let (mut left_out, mut held_out, mut covered, mut last) = (Vec::new(), Vec::new(), 0.0, Vec::new());
        for fold in 0..SPLITS {
            let rows =
                |inside: bool| (0..data.len()).filter(|row| (row % SPLITS == fold) == inside).collect::<Vec<_>>();
            let row = scores(name, &data.select(&rows(false))?, &data.select(&rows(true))?, hidden)?;
            left_out.extend(row.left_out.iter().map(|log| -log));
            held_out.extend(row.held_out.iter().map(|log| -log));
            (covered, last) = (covered + row.covered / SPLITS as f64, row.dispersions);
        }
        let cell = |values: &[f64]| {
            let (mean, error) = mean_and_error(values);
            format!("{mean:.4} ± {error:.4}")
        };
        let parameters: Vec<String> = last.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
        println!(
            "{name:>18} {:>20} {:>20} {:>10.1} %  {}",
            cell(&left_out),
            cell(&held_out),
            100.0 * covered,
            parameters.join(", ")
        );
        all.push([left_out, held_out]);
    }
    if let [one, other] = &all[..] {
        let gain = |k: usize| one[k].iter().zip(&other[k]).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let [left_out, held_out] = [0, 1].map(|k| mean_and_error(&gain(k)));
        let [a, b] = [left_out, held_out].map(|(mean, error)| format!("{mean:.4} ± {error:.4}"));
        println!("{:>18} {a:>20} {b:>20}\n", "gain, paired");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    table("articles.csv", "articles", 4, ["poisson", "negative-binomial"])?;
    table("uci/concrete.csv", "strength", 10, ["gaussian", "student-t"])
}
