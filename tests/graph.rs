//! The distance from the graph of the outputs: it vanishes with the tolerance for every likelihood that has isometric
//! outputs, whichever solver and integrator is used. And wide networks, whose positions are second integrals.

mod common;

use common::{Outcome, architecture, normal_vector, random_data, random_network};
use riemannian_laplace::internals::geodesic::ExponentialMap;
use riemannian_laplace::internals::metric::{self, Beside, Metric, Pull, Pullback};
use riemannian_laplace::internals::ode::{Integrator, Status};
use riemannian_laplace::internals::prior::PriorPrecision;
use riemannian_laplace::{Activation, Family, FitOptions, GeodesicOptions, Laplace, Model, Network, Structure};

fn families() -> Vec<(Family, usize)> {
    let family = |name: &str| name.parse().expect("a family");
    vec![
        (Family::gaussian(0.3).expect("a noise"), 1),
        (Family::gaussian_per_output(&[0.3, 0.6]).expect("noises"), 2),
        (family("bernoulli"), 1),
        (family("bernoulli"), 3),
        (family("categorical"), 3),
        (family("poisson"), 2),
    ]
}

/// The prior's.
const PRECISION: f64 = 0.8;

/// The Fisher metric of a network of a hidden layer.
fn problem(family: &Family, outputs: usize) -> (Network, Pullback, Vec<f64>) {
    let network = random_network(architecture(&[2, 6, outputs], &[true, true], Activation::Tanh), 4);
    let data = random_data(&network, family, 12, 9);
    let map = network.bind(data.inputs().view()).expect("a map");
    let prior = PriorPrecision::scalar(PRECISION, &map.groups()).expect("a prior");
    let metric = Pullback::new(map, family.shared(), prior).expect("a metric");
    let velocity = normal_vector(network.parameters().len(), 21).iter().map(|value| 0.7 * value).collect();
    (network, metric, velocity)
}

fn distance(metric: &Pullback, theta: &[f64], velocity: &[f64], integrator: Integrator, rtol: f64) -> Option<f64> {
    let options = GeodesicOptions { integrator, ..GeodesicOptions::with_tolerances(rtol, 1e-3 * rtol) };
    let options = GeodesicOptions { max_steps: 100_000, ..options };
    let geodesic = ExponentialMap::new(metric, options).and_then(|mut map| map.map(theta, velocity)).expect("a path");
    assert_eq!(geodesic.status, Status::Reached);
    geodesic.off_graph
}

#[test]
fn the_distance_vanishes_with_the_tolerance_for_every_likelihood_solver_and_integrator() {
    for (family, outputs) in families() {
        let (network, metric, velocity) = problem(&family, outputs);
        for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
            let metric = metric.clone().with_structure(structure);
            for integrator in [Integrator::Adams, Integrator::Dopri5] {
                let off = |rtol| distance(&metric, network.parameters(), &velocity, integrator, rtol).expect("defined");
                let (loose, tight) = (off(1e-4), off(1e-9));
                let name = format!("{family:?}, {structure}, {integrator:?}: {loose}, {tight}");
                // At loose tolerances the evaluations are few, and the polynomials between them count too.
                assert!(tight < 1e-6 && loose < 0.1 && (tight < 0.1 * loose || loose < 1e-9), "{name}");
            }
        }
    }
}

#[test]
fn both_solvers_find_the_same_distance() {
    for (family, outputs) in families() {
        let (network, metric, velocity) = problem(&family, outputs);
        let off = |structure| {
            let metric = metric.clone().with_structure(structure);
            distance(&metric, network.parameters(), &velocity, Integrator::Adams, 1e-3).expect("defined")
        };
        let (weights, functions) = (off(Structure::WeightSpace), off(Structure::FunctionSpace));
        // The same path up to rounding; the distance is a difference of outputs of size 1.
        assert!((weights - functions).abs() < 1e-6 * weights + 1e-9, "{family:?}: {weights}, {functions}");
    }
}

/// With e = y(θ) − y, the pull makes ë + 2γė + γ²e = 0: the outputs of the path and those carried accelerate accordingly.
#[test]
fn a_pull_damps_the_distance_from_the_graph_and_leaves_paths_on_it_alone() -> Outcome {
    for (family, outputs) in families() {
        let (network, metric, velocity) = problem(&family, outputs);
        let (theta, size) = (network.parameters(), velocity.len());
        assert_eq!(metric.clone().with_structure(Structure::WeightSpace).evaluator().pulled_outputs(), None);
        let mut evaluator = metric.with_structure(Structure::FunctionSpace).evaluator();
        let (mut plain, mut pulled) = (vec![0.0; size], vec![0.0; size]);
        let [y, u] = evaluator.follow_outputs(theta, &velocity).ok_or("isometric outputs")?;
        evaluator.acceleration(theta, &velocity, &mut plain);
        let expected = evaluator.output_acceleration().to_vec();
        let mut carried = vec![0.0; y.len()];
        assert_eq!(evaluator.pulled_outputs(), Some(y.len()));
        let on = Pull { outputs: &y, velocities: &u, rate: 30.0 };
        evaluator.acceleration_with_pull(theta, &velocity, on, &mut pulled, &mut carried);
        // Rounding of outputs of size 1, times the square of the rate.
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-10 * (1.0 + b.abs()));
        assert!(close(&pulled, &plain) && close(&carried, &expected), "{family:?}");
        let (rate, distances, speeds) = (3.0, normal_vector(y.len(), 5), normal_vector(y.len(), 6));
        let minus = |here: &[f64], off: &[f64]| here.iter().zip(off).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let (outputs, velocities) = (minus(&y, &distances), minus(&u, &speeds));
        let off = Pull { outputs: &outputs, velocities: &velocities, rate };
        evaluator.acceleration_with_pull(theta, &velocity, off, &mut pulled, &mut carried);
        let relative = minus(evaluator.output_acceleration(), &carried);
        let damped: Vec<f64> =
            distances.iter().zip(&speeds).map(|(e, speed)| -rate * (2.0 * speed + rate * e)).collect();
        assert!(close(&relative, &damped) && !close(&pulled, &plain), "{family:?}");
        // And ÿ along the path is z + J̃a, with the difference of accelerations from finite differences of y.
        let (found, step) = (minus(evaluator.output_acceleration(), &expected), 1e-5);
        let mut moved_by = |step: f64| {
            let moved: Vec<f64> = (0..size).map(|d| theta[d] + step * (pulled[d] - plain[d])).collect();
            evaluator.isometric_outputs(&moved).ok_or("isometric outputs")
        };
        let (after, before) = (moved_by(step)?, moved_by(-step)?);
        for ((after, before), found) in after.iter().zip(&before).zip(&found) {
            let image = (after - before) / (2.0 * step);
            assert!((image - found).abs() < 1e-6 * (1.0 + found.abs()), "{family:?}: {image}, {found}");
        }
    }
    Ok(())
}

/// From a state that is a little off the graph: the end is on it, and a second projection
/// changes nothing.
#[test]
fn a_projection_ends_on_the_graph() {
    for (family, outputs) in families() {
        let name = family.likelihood().name();
        let (network, metric, velocity) = problem(&family, outputs);
        let metric = metric.with_structure(Structure::FunctionSpace);
        let mut evaluator = metric.evaluator();
        let Some(count) = evaluator.pulled_outputs() else { continue };
        let Some([mut y, mut u]) = evaluator.follow_outputs(network.parameters(), &velocity) else {
            panic!("{name} has isometric outputs")
        };
        let noise = normal_vector(2 * count, 71);
        y.iter_mut().chain(&mut u).zip(&noise).for_each(|(entry, noise)| *entry += 1e-3 * noise);
        let (mut theta, mut v) = (network.parameters().to_vec(), velocity.clone());
        let distances =
            |evaluator: &mut dyn metric::MetricEvaluator, theta: &[f64], v: &[f64], y: &[f64], u: &[f64]| {
                let [here, moving] = evaluator.follow_outputs(theta, v).unwrap_or_default();
                let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                (apart(&here, y), apart(&moving, u))
            };
        let before = distances(&mut *evaluator, &theta, &v, &y, &u);
        assert!(before.0 > 1e-3 && before.1 > 1e-3, "{name}: {before:?}");
        let state = Beside { theta: &mut theta, velocity: &mut v, outputs: &mut y, output_velocities: &mut u };
        assert!(evaluator.project(state), "{name}");
        let after = distances(&mut *evaluator, &theta, &v, &y, &u);
        assert!(after.0 < 1e-4 * before.0 && after.1 < 1e-12, "{name}: {before:?}, {after:?}");
        // On the graph vᵀGv is the squared length of (v, u) in the flat space.
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let (speed, flat) = (evaluator.squared_speed(&theta, &v), PRECISION * squares(&v) + squares(&u));
        assert!((speed - flat).abs() < 1e-10 * speed, "{name}: {speed}, {flat}");
        let moved = theta.clone();
        let state = Beside { theta: &mut theta, velocity: &mut v, outputs: &mut y, output_velocities: &mut u };
        assert!(evaluator.project(state), "{name}");
        let again = theta.iter().zip(&moved).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(again < 1e-6, "{name}: moved by {again} once more");
    }
}

#[test]
fn hyperbolic_outputs_and_a_metric_without_outputs_have_no_distance() -> Outcome {
    let (network, metric, velocity) = problem(&"heteroscedastic".parse()?, 2);
    assert_eq!(distance(&metric, network.parameters(), &velocity, Integrator::Adams, 1e-3), None);
    assert_eq!(distance(&metric::euclidean(2), &[0.0, 0.0], &[1.0, 1.0], Integrator::Adams, 1e-3), None);
    Ok(())
}

#[test]
fn a_wide_network_is_certified_and_ends_where_a_precise_integration_does() -> Outcome {
    let network = random_network(architecture(&[1, 230, 230, 1], &[true, true, true], Activation::Tanh), 5);
    assert!(network.parameters().len() > 50_000);
    let family = Family::gaussian(0.3)?;
    let data = random_data(&network, &family, 15, 2);
    let laplace = Laplace::fit(network.clone(), data.clone(), family, &FitOptions::default())?;
    let metric = metric::fisher(&laplace.target("a test")?);
    let draws = laplace.sample(2, 3)?;
    for draw in draws.rows() {
        let base = network.parameters();
        let velocity: Vec<f64> = draw.iter().zip(base).map(|(theta, base)| 0.3 * (theta - base)).collect();
        let wide = ExponentialMap::new(&metric, GeodesicOptions::default())?.map(base, &velocity)?;
        let precise = GeodesicOptions {
            integrator: Integrator::Dop853,
            max_steps: 100_000,
            ..GeodesicOptions::with_tolerances(1e-9, 1e-12)
        };
        let precise = ExponentialMap::new(&metric, precise)?.map(base, &velocity)?;
        assert!(wide.certified && wide.off_graph.is_some_and(|off| off < 0.1), "{:?}", wide.off_graph);
        let outputs = |theta: Vec<f64>| {
            let other = Network::new(network.architecture().clone(), theta)?;
            Laplace::fit(other, data.clone(), Family::gaussian(0.3)?, &FitOptions::default())?.outputs(data.inputs())
        };
        let (found, expected) = (outputs(wide.theta)?, outputs(precise.theta)?);
        // A drift of 1e-3 leaves errors of that order in outputs of size 1.
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 0.03, "{found}, {expected}");
        }
    }
    Ok(())
}

#[test]
fn samples_carry_the_distance_into_their_file_and_back() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s.safetensors");
    let network = random_network(architecture(&[2, 6, 1], &[true, true], Activation::Tanh), 4);
    let family = Family::gaussian(0.3)?;
    let data = random_data(&network, &family, 30, 9);
    let laplace = Laplace::fit(network, data, family, &FitOptions::default())?;
    let options = riemannian_laplace::SamplerOptions::first(4);
    let samples = laplace.sample_riemannian(riemannian_laplace::MetricName::Fisher, &options, &())?;
    let distances = samples.off_graph.clone().ok_or("distances")?;
    assert!(distances.iter().all(|off| *off > 0.0 && *off < 0.1), "{distances:?}");
    riemannian_laplace::internals::geodesic::write_samples(&path, &samples)?;
    let read = riemannian_laplace::internals::geodesic::read_samples(&path)?;
    assert_eq!(read.off_graph, Some(distances));
    Ok(())
}
