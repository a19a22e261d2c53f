//! The metric's solvers against each other: exact in weight space and in function space, conjugate gradients in both.

mod common;

use std::sync::Arc;

use common::geometry::{likelihoods, random_target, relative_error};
use common::normal_vector;
use faer::Mat;
use riemannian_laplace::Activation;
use riemannian_laplace::internals::geodesic::ExponentialMap;
use riemannian_laplace::internals::laplace::{Precision, Structure, WeightSpace};
use riemannian_laplace::internals::likelihood::{Categorical, Gaussian, Likelihood};
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::internals::metric::{IterativeOptions, SolverName, Space};
use riemannian_laplace::internals::prior::PriorPrecision;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Error, GeodesicOptions};

fn acceleration(metric: &dyn Metric, theta: &[f64], velocity: &[f64]) -> Vec<f64> {
    let mut acceleration = vec![0.0; theta.len()];
    metric.evaluator().acceleration(theta, velocity, &mut acceleration);
    acceleration
}

fn in_space(space: Space, tolerance: f64) -> IterativeOptions {
    IterativeOptions { space: Some(space), tolerance, ..Default::default() }
}

#[test]
fn all_solvers_give_the_same_acceleration() {
    for (index, (likelihood, outputs)) in likelihoods().into_iter().enumerate() {
        for points in [4, 60] {
            let seed = 40 + 20 * index as u64 + points as u64;
            let name = format!("{} P = {outputs} N = {points}", likelihood.name());
            let (target, base) = random_target(&[2, 5, 4, outputs], Activation::Tanh, likelihood.clone(), points, seed);
            let velocity = normal_vector(base.len(), seed + 3);
            let moved: Vec<f64> = base.iter().zip(&velocity).map(|(base, v)| base + 0.3 * v).collect();
            let groups = target.prior().precision().groups();
            let layers = (0..groups.len()).map(|group| 0.3 * (1.0 + 2.0 * group as f64)).collect();
            for prior in [target.prior().precision().clone(), PriorPrecision::per_group(layers, groups).unwrap()] {
                let metric = Pullback::new(target.map().clone(), target.likelihood().clone(), prior).unwrap();
                let weights = metric.clone().with_structure(Structure::WeightSpace);
                let want = acceleration(&weights, &moved, &velocity);
                let functions = metric.clone().with_structure(Structure::FunctionSpace);
                let mut others = vec![(functions, 1e-9)];
                for space in [Space::Weights, Space::Functions] {
                    let iterative = metric.clone().with_iteration(&base, in_space(space, 1e-12)).unwrap();
                    // The residual times the root of the condition of G.
                    others.push((iterative, 1e-8));
                }
                for (other, tolerance) in others {
                    let error = relative_error(&acceleration(&other, &moved, &velocity), &want);
                    assert!(error < tolerance, "{name}, {}: {error:e}", other.solver_name());
                }
            }
        }
    }
}

/// A classification with three outputs and a velocity of its posterior.
fn problem(likelihood: Arc<dyn Likelihood>, outputs: usize) -> (Target, Vec<f64>, Vec<f64>) {
    let (target, theta) = random_target(&[3, 12, 10, outputs], Activation::Tanh, likelihood, 150, 3);
    let theta: Vec<f64> = theta.iter().map(|value| 0.5 * value).collect();
    let mut velocity = vec![0.0; theta.len()];
    let precision = metric::fisher(&target).at(&theta).unwrap();
    precision.sample(&mut stream(1, Purpose::Velocity, 2), &mut velocity);
    (target, theta, velocity)
}

#[test]
fn iterated_geodesics_end_where_exact_ones_do() {
    for (likelihood, outputs) in likelihoods() {
        let name = likelihood.name();
        let (target, theta, velocity) = problem(likelihood, outputs);
        let exact = metric::fisher(&target);
        let options = GeodesicOptions::default();
        let want = ExponentialMap::new(&exact, options).unwrap().map(&theta, &velocity).unwrap();
        for space in [Space::Weights, Space::Functions] {
            let iterative = exact.clone().with_iteration(&theta, in_space(space, 1e-3)).unwrap();
            let end = ExponentialMap::new(&iterative, options).unwrap().map(&theta, &velocity).unwrap();
            assert!(want.certified && end.certified, "{name} {space:?}: drifts {} {}", want.drift, end.drift);
            let report = iterative.solver_report().unwrap();
            assert!(report.worst_residual <= 1e-3 && report.unconverged == 0, "{name} {space:?}: {report:?}");
            // A relative residual of 1e-3 at every evaluation, of accelerations that move the end by less than itself.
            let error = relative_error(&end.theta, &want.theta);
            assert!(error < 5e-3, "{name} {space:?}: {error:e}");
            assert!(end.evaluations <= want.evaluations + want.evaluations / 5, "{name} {space:?}");
        }
    }
}

#[test]
fn a_badly_conditioned_system_is_factored_and_its_factor_renewed() {
    // With hardly any noise every evaluation needs its own factor.
    for sigma in [0.2, 1e-3] {
        let (target, theta, velocity) = problem(Arc::new(Gaussian::new(sigma).unwrap()), 1);
        let exact = metric::fisher(&target).with_structure(Structure::WeightSpace);
        let options = GeodesicOptions::default();
        let want = ExponentialMap::new(&exact, options).unwrap().map(&theta, &velocity).unwrap();
        let iterative = exact.clone().with_iteration(&theta, in_space(Space::Weights, 1e-3)).unwrap();
        let end = ExponentialMap::new(&iterative, options).unwrap().map(&theta, &velocity).unwrap();
        let report = iterative.solver_report().unwrap();
        assert!(end.certified && report.unconverged == 0, "drift {}, {report:?}", end.drift);
        assert!(report.factors > 0 && report.factors <= report.solves, "{report:?}");
        assert!(report.mean_products() < 20.0, "{report:?}");
        let error = relative_error(&end.theta, &want.theta);
        assert!(error < 5e-3, "{error:e}");
    }
}

#[test]
fn the_first_factor_is_a_known_one_if_that_is_near() {
    let (target, theta, velocity) = problem(Arc::new(Gaussian::new(0.05).unwrap()), 1);
    let exact = metric::fisher(&target).with_structure(Structure::WeightSpace);
    let want = acceleration(&exact, &theta, &velocity);
    let there = exact.at(&theta).unwrap();
    let mut far_curvature = there.to_matrix();
    (0..theta.len()).for_each(|k| far_curvature[(k, k)] *= 1.0 + (k % 3) as f64);
    let prior = target.prior().precision();
    let near = WeightSpace::new((0.5 * &there.to_matrix()).as_ref(), prior).unwrap();
    let far = WeightSpace::new(far_curvature.as_ref(), prior).unwrap();
    let other_size = WeightSpace::new(Mat::identity(3, 3).as_ref(), &PriorPrecision::scalar(1.0, &[3]).unwrap());
    let options = in_space(Space::Weights, 1e-3);
    let products = |known: Option<WeightSpace>| {
        let metric = known.map_or(exact.clone(), |known| exact.clone().starting_near(Arc::new(known)));
        let metric = metric.with_iteration(&theta, options).unwrap();
        let found = acceleration(&metric, &theta, &velocity);
        let squared = |u: &[f64]| metric.evaluator().squared_speed(&theta, u);
        let off: Vec<f64> = found.iter().zip(&want).map(|(a, b)| a - b).collect();
        assert!(squared(&off) <= 2e-6 * squared(&velocity) + 1e-6 * squared(&want));
        metric.solver_report().unwrap().products
    };
    let made = products(None);
    assert_eq!(products(Some(there)), made);
    // Half of the curvature serves, with a few products more; what is far off, or of another size, is not taken.
    let taken = products(Some(near));
    assert!(taken > made && taken <= made + 6, "{made} {taken}");
    assert_eq!(products(Some(far)), made);
    assert_eq!(products(other_size.ok()), made);
}

#[test]
fn the_solver_is_chosen_by_counted_work() {
    let name = |widths: &[usize], points: usize, likelihood: Arc<dyn Likelihood>, rtol: f64| {
        let (target, theta) = random_target(widths, Activation::Tanh, likelihood, points, 1);
        metric::fisher(&target).with_cheapest_solver(&theta, rtol).unwrap().solver_name()
    };
    let noise: Arc<dyn Likelihood> = Arc::new(Gaussian::unit());
    assert_eq!(name(&[1, 10, 1], 150, noise.clone(), 1e-4), SolverName::WeightSpace);
    assert_eq!(name(&[1, 30, 30, 1], 20, noise.clone(), 1e-4), SolverName::FunctionSpace);
    let classes: Arc<dyn Likelihood> = Arc::new(Categorical);
    assert_eq!(name(&[64, 32, 10], 300, classes.clone(), 3e-4), SolverName::WeightSpaceIteration);
    assert_eq!(name(&[64, 32, 10], 150, classes, 3e-4), SolverName::FunctionSpaceIteration);
}

#[test]
fn iteration_needs_a_proper_prior_and_sensible_settings() {
    let (target, theta, _) = problem(Arc::new(Gaussian::unit()), 1);
    let metric = metric::fisher(&target);
    let wrong = IterativeOptions { tolerance: 0.0, ..Default::default() };
    assert!(matches!(metric.clone().with_iteration(&theta, wrong), Err(Error::SolverTolerance(_))));
    let wrong = IterativeOptions { max_products: 0, ..Default::default() };
    assert!(matches!(metric.clone().with_iteration(&theta, wrong), Err(Error::NoProducts)));
    let improper = PriorPrecision::improper(theta.len());
    let metric = Pullback::new(target.map().clone(), target.likelihood().clone(), improper).unwrap();
    assert!(matches!(metric.with_iteration(&theta, IterativeOptions::default()), Err(Error::Unsupported(_))));
}
