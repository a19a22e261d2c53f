//! The logarithm on a Gaussian's Monge manifold: checked against the geodesics of the general metric, against closed
//! forms, and against the lengths that the general logarithm finds.

mod common;

use std::sync::Arc;

use common::{normal_matrix, normal_vector};
use faer::Mat;
use riemannian_laplace::GeodesicOptions;
use riemannian_laplace::internals::geodesic::{ExponentialMap, GaussianLogarithm, LogarithmOptions, LogarithmicMap};
use riemannian_laplace::internals::laplace::{Precision, WeightSpace};
use riemannian_laplace::internals::metric;
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::prior::PriorPrecision;
use riemannian_laplace::internals::random::{Purpose, stream};

/// A random orthogonal matrix.
fn rotation(size: usize, seed: u64) -> Mat<f64> {
    let normal = normal_matrix(size, size, seed);
    Mat::from_fn(size, size, |i, j| normal[(i, j)]).qr().compute_Q()
}

/// P with these eigenvalues, in a random basis; the prior's share is tiny.
fn precision(eigenvalues: &[f64], seed: u64) -> WeightSpace {
    let size = eigenvalues.len();
    let basis = rotation(size, seed);
    let least = eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
    let prior = 1e-3 * least;
    let scaled = Mat::from_fn(size, size, |i, j| basis[(i, j)] * (eigenvalues[j] - prior));
    let curvature = scaled * basis.transpose();
    WeightSpace::new(curvature.as_ref(), &PriorPrecision::scalar(prior, &[size]).unwrap()).unwrap()
}

/// Eigenvalues from 10^low to 10^high.
fn spectrum(size: usize, low: f64, high: f64) -> Vec<f64> {
    (0..size).map(|i| 10f64.powf(low + (high - low) * i as f64 / (size - 1).max(1) as f64)).collect()
}

/// A draw from N(0, P⁻¹).
fn draw(precision: &WeightSpace, seed: u64) -> Vec<f64> {
    let mut offset = vec![0.0; precision.n_params()];
    precision.sample(&mut stream(seed, Purpose::Velocity, 0), &mut offset);
    offset
}

/// √(xᵀPx).
fn size_in(precision: &WeightSpace, x: &[f64]) -> f64 {
    let mut product = vec![0.0; x.len()];
    precision.times(x, &mut product);
    x.iter().zip(&product).map(|(a, b)| a * b).sum::<f64>().sqrt()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn geodesics_of_the_general_metric_end_where_the_logarithm_says() {
    for (size, low, high) in
        [(1, 2.0, 2.0), (2, 0.0, 1.0), (2, -1.0, 5.0), (6, -1.0, 3.0), (15, -2.0, 4.0), (25, 0.0, 3.0)]
    {
        let precision = precision(&spectrum(size, low, high), 7);
        let base = vec![0.0; size];
        let general = metric::gaussian_monge(Arc::new(precision.clone()), &base);
        let options = GeodesicOptions {
            integrator: Integrator::Dop853,
            max_steps: 100_000,
            ..GeodesicOptions::with_tolerances(1e-12, 1e-15)
        };
        let mut exponential = ExponentialMap::new(&general, options).unwrap();
        let logarithm = GaussianLogarithm::new(&precision).unwrap();
        let mut worker = logarithm.evaluator();
        for seed in 0..12 {
            let goal = draw(&precision, 100 + seed);
            let solution = worker.map(&goal).unwrap();
            assert!(solution.converged, "D = {size}, 1e{low} to 1e{high}: {solution:?}");
            let end = exponential.map(&base, &solution.velocity).unwrap();
            let defect: Vec<f64> = end.theta.iter().zip(&goal).map(|(a, b)| a - b).collect();
            let error = size_in(&precision, &defect) / size_in(&precision, &goal);
            assert!(error < 1e-5, "D = {size}, 1e{low} to 1e{high}: {error:e}");
        }
    }
}

#[test]
fn in_one_dimension_the_speed_is_the_arc_length_of_the_parabola() {
    for lambda in [0.01, 1.0, 1e4] {
        let precision = precision(&[lambda], 1);
        let logarithm = GaussianLogarithm::new(&precision).unwrap();
        for x in [-3.0, 0.1, 2.0] {
            let x = x / f64::sqrt(lambda);
            let slope: f64 = lambda * x;
            let length = 0.5 * (x * slope.hypot(1.0) + slope.asinh() / lambda);
            let velocity = logarithm.evaluator().map(&[x]).unwrap().velocity[0];
            assert!((velocity / length - 1.0).abs() < 1e-7, "λ = {lambda}, x = {x}: {velocity} and {length}");
        }
    }
}

#[test]
fn no_shorter_geodesic_is_found_by_the_general_logarithm() {
    let mut compared = 0;
    for (size, high) in [(2, 1.0), (3, 2.0), (5, 1.5)] {
        let precision = precision(&spectrum(size, 0.0, high), 3);
        let base = vec![0.0; size];
        let general = metric::gaussian_monge(Arc::new(precision.clone()), &base);
        let mut other = LogarithmicMap::new(&general, LogarithmOptions::default()).unwrap();
        let logarithm = GaussianLogarithm::new(&precision).unwrap();
        for seed in 0..10 {
            let goal = draw(&precision, seed);
            // At the vertex the metric is the identity: the velocity's norm is the geodesic's length.
            let ours = norm(&logarithm.evaluator().map(&goal).unwrap().velocity);
            let solution = other.map(&base, &goal).unwrap();
            let chord = norm(&goal).hypot(0.5 * size_in(&precision, &goal).powi(2));
            assert!(ours >= chord * (1.0 - 1e-9), "shorter than the chord: {ours} and {chord}");
            if solution.converged {
                compared += 1;
                assert!(ours <= norm(&solution.velocity) * (1.0 + 1e-6), "{ours} and {}", norm(&solution.velocity));
            }
        }
    }
    assert!(compared >= 20, "the general logarithm converged {compared} times");
}

#[test]
fn the_cut_locus_and_the_vertex_itself_are_no_obstacle() {
    // P = diag(1, 100, 1e4) in its own basis: x₃ = 0 is the cut locus, where two geodesics are the shortest.
    let prior = PriorPrecision::scalar(1e-3, &[3]).unwrap();
    let curvature = Mat::from_fn(3, 3, |i, j| if i == j { 100f64.powi(i as i32) } else { 0.0 });
    let precision = WeightSpace::new(curvature.as_ref(), &prior).unwrap();
    let logarithm = GaussianLogarithm::new(&precision).unwrap();
    let speeds: Vec<f64> = [1e-2, 1e-4, 1e-8, 0.0]
        .into_iter()
        .map(|nearly| {
            let solution = logarithm.evaluator().map(&[1.0, -0.1, nearly / 100.0]).unwrap();
            assert!(solution.converged, "{nearly}: {solution:?}");
            norm(&solution.velocity)
        })
        .collect();
    // Lengths approach that of the point on the locus.
    assert!((speeds[2] - speeds[3]).abs() < 1e-6 * speeds[3], "{speeds:?}");
    assert!((speeds[0] - speeds[3]).abs() < 1e-2 * speeds[3], "{speeds:?}");
    let vertex = logarithm.evaluator().map(&[0.0; 3]).unwrap();
    assert!(vertex.converged && norm(&vertex.velocity) == 0.0);
    assert!(logarithm.evaluator().map(&normal_vector(2, 1)).is_err(), "a point of another dimension");
}
