//! The true density in the plane with its marginals, normalised: the background of the samples in the figures.

use std::f64::consts::PI;

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use riemannian_laplace::internals::random::{Purpose, stream};

/// A normalised density of one number.
pub type Marginal = Box<dyn Fn(f64) -> f64 + Sync>;

/// A normalised density in the plane.
pub struct Truth {
    pub log_density: Box<dyn Fn([f64; 2]) -> f64 + Sync>,
    pub marginals: [Marginal; 2],
}

/// log N(x | 0, variance).
pub fn log_normal(x: f64, variance: f64) -> f64 {
    -0.5 * (x * x / variance + (2.0 * PI * variance).ln())
}

/// N(x | 0, variance).
pub fn normal(x: f64, variance: f64) -> f64 {
    log_normal(x, variance).exp()
}

/// ∫ f over [low, high] by the trapezoidal rule, which converges faster than any power for the smooth densities here,
/// all of them negligible at both ends.
pub fn integral(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    const NODES: usize = 2_000;
    let step = (high - low) / NODES as f64;
    let inner: f64 = (1..NODES).map(|i| f(low + i as f64 * step)).sum();
    step * (inner + 0.5 * (f(low) + f(high)))
}

/// Independent draws in the plane, one per row: draw i of a seed has its own generator.
pub fn planar_draws(count: usize, seed: u64, draw: impl Fn(&mut ChaCha8Rng) -> [f64; 2]) -> Array2<f64> {
    let mut points = Array2::zeros((count, 2));
    for (index, mut row) in points.rows_mut().into_iter().enumerate() {
        let point = draw(&mut stream(seed, Purpose::Velocity, index as u64));
        (row[0], row[1]) = (point[0], point[1]);
    }
    points
}
