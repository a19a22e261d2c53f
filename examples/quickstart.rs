//! Train a small network, then ask it how sure it is.
//!
//! `cargo run --release --example quickstart` takes a few seconds and draws `figures/quickstart.png`.

#[path = "drawing/bands.rs"]
mod bands;

use std::error::Error;
use std::path::Path;

use ndarray::Array2;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use riemannian_laplace::prelude::*;

/// Noisy observations of sin 2x on both sides of a gap: x is between −3 and −1, or between 0.5 and 3.
pub fn observations(count: usize, seed: u64) -> riemannian_laplace::Result<Dataset> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let inputs = Array2::from_shape_simple_fn((count, 1), || {
        if random.random_bool(0.4) { random.random_range(-3.0..-1.0) } else { random.random_range(0.5..3.0) }
    });
    let targets = inputs.mapv(|x: f64| (2.0 * x).sin() + 0.15 * random.sample::<f64, _>(rand_distr::StandardNormal));
    Dataset::new(inputs, targets)
}

/// The whole way from data to intervals. The picture goes to `figure`.
pub fn run(figure: &Path) -> Result<Laplace, Box<dyn Error>> {
    // 1. A trained network. `train` uses candle; a network trained in PyTorch is loaded instead (`from_pytorch.rs`).
    let data = observations(60, 1)?;
    let start = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 2000, ..Default::default() };
    let training = train(&start, &data, &Family::gaussian(1.0)?, &options, &())?;

    // 2. The Laplace posterior over all its weights. Prior precision and noise are tuned on the marginal likelihood: no
    //    validation data are needed.
    let mut laplace = Laplace::fit(training.network, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
    let tuned = laplace.optimize(&EvidenceOptions::default())?.hyperparameters;
    println!("noise σ {:.3?} (the data have 0.15), prior precision {:.3?}", tuned.sigma, tuned.prior_precision);

    // 3. Predictions. Linearised: the network is replaced by its tangent at the trained weights, and the interval is
    //    exact for that. Riemannian: the network itself, at weights drawn along geodesics, which bend as the posterior
    //    does.
    let inputs = Array2::from_shape_fn((141, 1), |(row, _)| -3.5 + 0.05 * row as f64);
    let linearized = laplace.predict(&inputs, &Method::default())?;
    let riemannian = laplace.predict(&inputs, &Method::riemannian(400, 0))?;

    // 4. A prediction is a distribution: its mean, its interval, and how much of its variance more data would remove.
    println!("\n       x          linearised          Riemannian   90 % intervals");
    let ((low, high), (from, to)) = (linearized.interval(0.9)?, riemannian.interval(0.9)?);
    for row in (0..inputs.nrows()).step_by(20) {
        let at = (row, 0);
        println!("{:8.2}   {:7.2} … {:6.2}    {:7.2} … {:6.2}", inputs[at], low[at], high[at], from[at], to[at]);
    }
    let labels = ["A network that knows where it has seen no data", "x", "y"];
    let both = [("linearised", linearized), ("Riemannian", riemannian)];
    bands::draw(figure, labels, &[("training data", &data)], &inputs, &both, 0.9)?;
    Ok(laplace)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new("figures/quickstart.png")).map(|_| ())
}
