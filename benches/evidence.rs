//! How long do fitting and tuning take? The Laplace posterior over all weights, then prior precision and noise by the
//! evidence, for networks from 31 to a million parameters, each with the solver that the library chooses.
//!
//! `cargo bench --bench evidence`. laplace-torch's times for the same job are measured by `benches/peers`.

use std::time::Instant;

use ndarray::Array2;
use riemannian_laplace::Dataset;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::{Activation, Architecture, Network};
use riemannian_laplace::{FitOptions, Laplace};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The shortest of a few runs, in seconds, and the last result.
fn fastest<T>(mut work: impl FnMut() -> Outcome<T>) -> Outcome<(f64, T)> {
    let begin = Instant::now();
    let mut best: Option<(f64, T)> = None;
    for _ in 0..20 {
        let start = Instant::now();
        let value = work()?;
        let seconds = start.elapsed().as_secs_f64();
        let shortest = best.as_ref().map_or(seconds, |(known, _)| known.min(seconds));
        best = Some((shortest, value));
        if begin.elapsed().as_secs_f64() > 2.0 {
            break;
        }
    }
    best.ok_or_else(|| "no run".into())
}

fn compare(sizes: &[usize], points: usize) -> Outcome {
    let network = Network::random(Architecture::new(sizes, Activation::Tanh)?, 1);
    let inputs = Array2::from_shape_fn((points, sizes[0]), |(n, i)| (0.37 * n as f64 + i as f64).sin());
    let outputs = sizes.last().copied().unwrap_or(1);
    let targets = Array2::from_shape_fn((points, outputs), |(n, k)| (0.74 * n as f64 + k as f64).cos());
    let data = Dataset::new(inputs, targets)?;
    let fit = || -> Outcome<Laplace> {
        Ok(Laplace::fit(network.clone(), data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?)
    };
    let (fitting, posterior) = fastest(fit)?;
    let (tuning, (optimum, solver)) = fastest(|| {
        let mut posterior = fit()?;
        let optimum = posterior.optimize(&EvidenceOptions::default())?;
        Ok((optimum, posterior.structure().solver()))
    })?;
    let name = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    println!(
        "{name:>16}  {points:>6}  {:>9}  {solver:>14}  {:>9.3}  {:>12.3}  {:>14.4}",
        posterior.parameters().len(),
        1e3 * fitting,
        1e3 * tuning,
        optimum.log_marginal_likelihood,
    );
    Ok(())
}

fn main() -> Outcome {
    println!("Milliseconds to fit the posterior, and to fit it and tune prior precision and noise");
    println!("         network       N          D          solver     fit  fit + tuning    log evidence");
    for (sizes, points) in [
        (vec![1, 10, 1], 150),
        (vec![1, 50, 1], 150),
        (vec![1, 10, 10, 1], 1_000),
        (vec![1, 30, 30, 1], 1_000),
        (vec![1, 100, 100, 1], 100),
        (vec![1, 300, 300, 1], 100),
        (vec![4, 20, 3], 500),
        (vec![1, 1000, 1000, 1], 100),
    ] {
        compare(&sizes, points)?;
    }
    Ok(())
}
