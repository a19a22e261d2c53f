//! Does the evidence choose a prior precision that predicts well? Two moons of several sizes and noises: networks of 16 units
//! whose weights stay as they were trained, with the evidence's prior precision and with a grid of others, by the negative
//! log likelihood of 2,000 further points.
//!
//! `cargo run --release --example evidence`

#[path = "datasets/mod.rs"]
mod datasets;

use datasets::moons;
use riemannian_laplace::internals::likelihood::Bernoulli;
use riemannian_laplace::{
    Activation, Architecture, Dataset, EvidenceOptions, Family, FitOptions, Laplace, Method, Network, Result, Scores,
    TrainingOptions, train,
};

const NETWORKS: u64 = 10;
const TEST_POINTS: usize = 2_000;

/// The negative log likelihoods of test data.
struct Choice {
    evidence: f64,
    map: f64,
    best: f64,
}

fn compare(points: usize, noise: f64, index: u64) -> Result<Choice> {
    let (data, test) = (moons(points, noise, 2 * index)?, moons(TEST_POINTS, noise, 2 * index + 1)?);
    let start = Network::random(Architecture::new(&[2, 16, 1], Activation::Tanh)?, index);
    let options = TrainingOptions { epochs: 1500, weight_decay: 1e-4, ..Default::default() };
    let network = train(&start, &data, &Family::new(Bernoulli), &options, &())?.network;
    let mut laplace = Laplace::fit(network, data, Family::new(Bernoulli), &FitOptions::default())?;
    let mut best = f64::INFINITY;
    for half_decade in -6..=8 {
        laplace.set_hyperparameters(&10f64.powf(0.5 * f64::from(half_decade)).into(), &[])?;
        best = best.min(nll(&laplace, &test, &Method::default())?);
    }
    laplace.optimize(&EvidenceOptions::default())?;
    Ok(Choice { evidence: nll(&laplace, &test, &Method::default())?, map: nll(&laplace, &test, &Method::Map)?, best })
}

fn nll(laplace: &Laplace, test: &Dataset, method: &Method) -> Result<f64> {
    Ok(Scores::of(&laplace.predict(test.inputs(), method)?, test.targets())?.nll())
}

fn main() -> Result<()> {
    println!(
        "NLL of {TEST_POINTS} points with the evidence's prior precision, over the best of a grid; {NETWORKS} networks"
    );
    println!("noise  points  mean NLL  mean MAP   mean ratio  largest ratio");
    for (noise, points) in [(0.3, 1_000), (0.3, 300), (0.2, 1_000), (0.2, 300)] {
        let choices = (0..NETWORKS).map(|index| compare(points, noise, index)).collect::<Result<Vec<Choice>>>()?;
        let mean = |value: fn(&Choice) -> f64| choices.iter().map(value).sum::<f64>() / choices.len() as f64;
        let ratio = |choice: &Choice| choice.evidence / choice.best;
        println!(
            "{noise:>5}  {points:>6}  {:>8.4}  {:>8.4}  {:>11.3}  {:>13.3}",
            mean(|choice| choice.evidence),
            mean(|choice| choice.map),
            mean(ratio),
            choices.iter().map(ratio).fold(0.0, f64::max),
        );
    }
    Ok(())
}
