//! Networks with kinks: the smoothed layer against differences, its widths against loops, its geodesics against the exact
//! law at a crease, and what samples of such networks report.

mod common;
#[path = "kinks/crease.rs"]
mod crease;
#[path = "kinks/layer.rs"]
mod layer;
#[path = "kinks/max_pool.rs"]
mod max_pool;
#[path = "kinks/samples.rs"]
mod samples;

use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::internals::geodesic::exponentials;
use riemannian_laplace::internals::likelihood::Gaussian;
use riemannian_laplace::internals::map::Rounding;
use riemannian_laplace::internals::metric::Pullback;
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::prior::PriorPrecision;
use riemannian_laplace::{Activation, Architecture, GeodesicOptions, Model, Network};

use common::{normal_matrix, normal_vector};
use crease::Crease;

const UNITS: usize = 5;
const SIGMA: f64 = 0.3;
const PRIOR: f64 = 1.0;

/// A network 1-5-1 and inputs at which its units switch.
fn case() -> (Network, Vec<f64>) {
    let theta = normal_vector(3 * UNITS + 1, 3);
    let network = Network::new(Architecture::new(&[1, UNITS, 1], Activation::Relu).unwrap(), theta).unwrap();
    (network, vec![-1.7, -0.9, -0.2, 0.4, 1.1, 1.8])
}

/// Velocities with which a path crosses a few kinks.
fn velocities() -> Array2<f64> {
    0.5 * normal_matrix(4, 3 * UNITS + 1, 8)
}

/// Where geodesics of the metric end whose kinks are rounded over this width.
fn smoothed_ends(network: &Network, inputs: &[f64], width: f64) -> Array2<f64> {
    let inputs = Array2::from_shape_fn((inputs.len(), 1), |(n, _)| inputs[n]);
    ends(network, &inputs, velocities(), width)
}

/// The same for other inputs and velocities.
fn ends(network: &Network, inputs: &Array2<f64>, velocities: Array2<f64>, width: f64) -> Array2<f64> {
    let offsets = Array2::zeros((1, network.parameters().len()));
    let rounding = Rounding { width, inputs: inputs.view(), offsets: offsets.view() };
    let smooth = network.smoothed(&rounding).unwrap().expect("kinks");
    assert!(!smooth.has_kinks());
    let prior = PriorPrecision::scalar(PRIOR, &[network.parameters().len()]).unwrap();
    let noise = Arc::new(Gaussian::new(SIGMA).unwrap());
    let metric = Pullback::new(smooth.bind(inputs.view()).unwrap(), noise, prior).unwrap();
    let options = GeodesicOptions {
        integrator: Integrator::Dop853,
        max_steps: 1_000_000,
        ..GeodesicOptions::with_tolerances(1e-9, 1e-11)
    };
    let ends = exponentials(&metric, network.parameters(), velocities.view(), options, &()).unwrap();
    // Not their certificates: the quadrature of the outputs may step over a kink that is rounded over 1e-4.
    assert!(ends.failed() == 0 && ends.drift.iter().all(|drift| *drift < 1e-8), "{:?}", ends.drift);
    ends.theta
}

#[test]
fn the_crease_law_conserves_the_speed() {
    let (network, inputs) = case();
    let law = Crease { inputs: &inputs, units: UNITS, sigma: SIGMA, prior: PRIOR };
    let mut crossings = 0;
    for velocity in velocities().rows() {
        let end = law.follow(network.parameters(), &velocity.to_vec(), 1e-3);
        crossings += end.crossings;
        // Two solves of condition about 100; the pieces by Runge–Kutta of order four with h = 1e-3.
        assert!(end.jump < 1e-12, "{:e}", end.jump);
        assert!(end.drift < 1e-10, "{:e}", end.drift);
    }
    assert!(crossings >= 10, "{crossings}");
}

#[test]
fn geodesics_of_smoothed_metrics_converge_to_the_crease_law() {
    let (network, inputs) = case();
    let law = Crease { inputs: &inputs, units: UNITS, sigma: SIGMA, prior: PRIOR };
    let exact: Vec<Vec<f64>> = velocities()
        .rows()
        .into_iter()
        .map(|velocity| law.follow(network.parameters(), &velocity.to_vec(), 1e-3).theta)
        .collect();
    let distance = |width: f64| -> Vec<f64> {
        let ends = smoothed_ends(&network, &inputs, width);
        let apart = |(end, exact): (ndarray::ArrayView1<'_, f64>, &Vec<f64>)| {
            end.iter().zip(exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        ends.rows().into_iter().zip(&exact).map(apart).collect()
    };
    // Linearly, on average over a path's crossings: a tenth of the width, about a tenth of the distance.
    let (wide, narrow) = (distance(1e-3), distance(1e-4));
    for (wide, narrow) in wide.iter().zip(&narrow) {
        assert!(*wide < 2e-2 && *narrow < 2e-4 && *narrow < 0.2 * wide, "{wide:e} at width 1e-3, {narrow:e} at 1e-4");
    }
}
