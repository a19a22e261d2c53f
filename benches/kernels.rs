//! One geodesic acceleration compared with candle's forward + backward pass of the same loss, as a ratio, in one run.
//!
//! `cargo bench --bench kernels`. Both sides see the same network, data and precision (f64), on one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::VarMap;
use ndarray::Array2;
use riemannian_laplace::Model;
use riemannian_laplace::Structure;
use riemannian_laplace::internals::likelihood::Gaussian;
use riemannian_laplace::internals::metric::{self, MetricEvaluator};
use riemannian_laplace::internals::network::Mlp;
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Activation, Architecture, Network};

/// The shortest time of one call, over about a second of calls.
fn fastest(mut work: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    let mut calls = 0;
    while begin.elapsed() < Duration::from_millis(700) || calls < 3 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed());
        calls += 1;
    }
    best
}

/// A network, its Fisher metric at random parameters, and its loss in candle.
fn compare(sizes: &[usize], points: usize) -> Result<(), Box<dyn std::error::Error>> {
    let architecture = Architecture::new(sizes, Activation::Tanh)?;
    let network = Network::random(architecture.clone(), 1);
    let inputs = Array2::from_shape_fn((points, sizes[0]), |(n, i)| (0.1 * n as f64 + i as f64).sin());
    let targets = Array2::from_shape_fn((points, 1), |(n, _)| (0.2 * n as f64).cos());
    let prior = Prior::gaussian(PriorPrecision::scalar(1.0, &architecture.layer_params())?);
    let map = network.bind(inputs.view())?;
    let target = Target::new(map, Arc::new(Gaussian::new(0.3)?), targets.view(), prior)?;
    let theta = network.parameters();
    let velocity: Vec<f64> = (0..theta.len()).map(|d| 0.1 * (d as f64).sin()).collect();
    let mut acceleration = vec![0.0; theta.len()];
    let mut times = Vec::new();
    for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
        if structure == Structure::WeightSpace && theta.len() > 2_000 {
            times.push(None);
            continue;
        }
        let metric = metric::fisher(&target).with_structure(structure);
        let mut evaluator = metric.pullback_evaluator();
        times.push(Some(fastest(|| evaluator.acceleration(theta, &velocity, &mut acceleration))));
    }
    let variables = VarMap::new();
    let mlp = Mlp::trainable(&network, &variables, DType::F64, &Device::Cpu)?;
    let x = Tensor::from_vec(inputs.iter().copied().collect(), (points, sizes[0]), &Device::Cpu)?;
    let y = Tensor::from_vec(targets.iter().copied().collect(), (points, 1), &Device::Cpu)?;
    let candle = fastest(|| {
        let loss = mlp.forward(&x).and_then(|outputs| candle_nn::loss::mse(&outputs, &y));
        let gradients = loss.and_then(|loss| loss.backward());
        assert!(gradients.is_ok(), "candle cannot differentiate the loss");
    });
    let best = times.iter().flatten().min().copied().unwrap_or(Duration::MAX);
    let micros =
        |time: Option<Duration>| time.map_or("–".to_string(), |time| format!("{:.1}", time.as_secs_f64() * 1e6));
    let name = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    println!(
        "{name:>14}  {points:>6}  {:>9}  {:>12}  {:>14}  {:>10}  {:>6.2}",
        theta.len(),
        micros(times[0]),
        micros(times[1]),
        micros(Some(candle)),
        best.as_secs_f64() / candle.as_secs_f64()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    println!(
        "Microseconds for one Fisher acceleration, and for candle's forward + backward of the squared error (f64, one thread)"
    );
    println!("       network       N          D  weight space  function space      candle   ratio");
    for (sizes, points) in [
        (vec![1, 10, 1], 150),
        (vec![1, 10, 10, 1], 100),
        (vec![1, 30, 30, 1], 100),
        (vec![1, 100, 100, 1], 100),
        (vec![1, 300, 300, 1], 100),
        (vec![1, 1000, 1000, 1], 100),
    ] {
        compare(&sizes, points)?;
    }
    Ok(())
}
