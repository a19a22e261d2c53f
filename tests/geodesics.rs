//! What theory promises about the exponential and logarithmic maps.

mod common;

use std::sync::Arc;

use common::geometry::{Golden, dataset, random_target, relative_error, rows};
use common::normal_vector;
use riemannian_laplace::Activation;
use riemannian_laplace::internals::geodesic::{
    Accuracy, ExponentialMap, GaussianLogarithm, LogarithmOptions, LogarithmicMap, sample_monge_log,
};
use riemannian_laplace::internals::laplace::WeightSpace;
use riemannian_laplace::internals::likelihood::Gaussian;
use riemannian_laplace::internals::linalg::norm;
use riemannian_laplace::internals::metric::{self, Metric};
use riemannian_laplace::internals::ode::{Integrator, Status};
use riemannian_laplace::internals::paper::estimate::{euclidean_map, hausdorff_map, random_starts};
use riemannian_laplace::internals::paper::problems::{
    Banana, Funnel, Identity, Squiggle, logistic_regression, standardized,
};
use riemannian_laplace::internals::prior::PriorPrecision;
use riemannian_laplace::{GeodesicOptions, SamplerOptions};

fn tight() -> GeodesicOptions {
    GeodesicOptions { integrator: Integrator::Dop853, ..GeodesicOptions::with_tolerances(1e-10, 1e-12) }
}

#[test]
fn theorem_1_a_linear_model_with_gaussian_noise_has_straight_geodesics() {
    let (target, theta) = random_target(&[3, 2], Activation::Identity, Arc::new(Gaussian::new(0.2).unwrap()), 20, 1);
    let metric = metric::fisher(&target);
    let mut exponential = ExponentialMap::new(&metric, GeodesicOptions::default()).unwrap();
    for seed in 0..10 {
        let velocity = normal_vector(theta.len(), seed);
        let geodesic = exponential.map(&theta, &velocity).unwrap();
        let straight: Vec<f64> = theta.iter().zip(&velocity).map(|(t, v)| t + v).collect();
        assert!(relative_error(&geodesic.theta, &straight) < 1e-10);
        assert!(relative_error(&geodesic.velocity, &velocity) < 1e-10);
        assert!(geodesic.certified && geodesic.drift < 1e-10);
    }
}

/// Velocities of the size that N(0, G⁻¹) gives them.
fn velocities(metric: &WeightSpace, seed: u64) -> [f64; 2] {
    let mut draw = normal_vector(2, seed);
    metric.cholesky().solve_upper(&mut draw);
    [draw[0], draw[1]]
}

#[test]
fn theorem_3_squiggle_and_funnel_have_their_exponential_map_in_closed_form() {
    for squiggle in [Squiggle::MAIN, Squiggle::DIFFICULT] {
        let target = squiggle.target().unwrap();
        let metric = metric::fisher(&target);
        let mut exponential = ExponentialMap::new(&metric, tight()).unwrap();
        for (seed, base) in [[0.0, 0.0], [0.7, -0.4], [-2.0, 0.1]].into_iter().enumerate() {
            for repeat in 0..8 {
                let velocity = velocities(&metric.at(&base).unwrap(), 100 * seed as u64 + repeat);
                let geodesic = exponential.map(&base, &velocity).unwrap();
                let error = relative_error(&geodesic.theta, &squiggle.exponential(base, velocity));
                assert!(error < 1e-7, "squiggle {squiggle:?} from {base:?}: {error:e}");
                assert!(geodesic.drift < 1e-7);
            }
        }
    }
    let funnel = Funnel::PAPER;
    let target = funnel.target().unwrap();
    let metric = metric::fisher(&target);
    let mut exponential = ExponentialMap::new(&metric, tight()).unwrap();
    for (seed, base) in [[0.0, 0.0], [0.5, 1.0], [-1.0, -2.0]].into_iter().enumerate() {
        for repeat in 0..8 {
            let velocity = velocities(&metric.at(&base).unwrap(), 100 * seed as u64 + repeat);
            let geodesic = exponential.map(&base, &velocity).unwrap();
            let error = relative_error(&geodesic.theta, &funnel.exponential(base, velocity));
            assert!(error < 1e-7, "funnel from {base:?}: {error:e}");
        }
    }
}

#[test]
fn monge_geodesics_of_an_isotropic_gaussian_end_where_the_arc_length_says() {
    for size in 1..=10 {
        let target = Identity::gaussian(&vec![1.0; size]).unwrap();
        let metric = metric::monge(&target);
        let mut exponential = ExponentialMap::new(&metric, tight()).unwrap();
        for seed in 0..4 {
            let velocity = normal_vector(size, seed + 10 * size as u64);
            let geodesic = exponential.map(&vec![0.0; size], &velocity).unwrap();
            // Along a ray the surface (r, r²/2) has arc length ½(r√(1 + r²) + asinh r).
            let r = norm(&geodesic.theta);
            let length = 0.5 * (r * (1.0 + r * r).sqrt() + r.asinh());
            let error = (length / norm(&velocity) - 1.0).abs();
            assert!(error < 1e-8, "D = {size}: {error:e}");
            let ray: Vec<f64> = velocity.iter().map(|v| v * r / norm(&velocity)).collect();
            assert!(relative_error(&geodesic.theta, &ray) < 1e-8);
        }
    }
}

#[test]
fn monge_with_logarithm_gives_the_euclidean_sample_back_for_a_gaussian() {
    for size in [1, 2, 5, 10] {
        let deviations: Vec<f64> = (0..size).map(|d| 1.0 + 0.3 * d as f64).collect();
        let target = Identity::gaussian(&deviations).unwrap();
        let base = vec![0.0; size];
        let fisher = metric::fisher(&target);
        let precision = fisher.at(&base).unwrap();
        let (monge, logarithm) = (metric::monge(&target), GaussianLogarithm::new(&precision).unwrap());
        let options = SamplerOptions { range: 0..6, seed: 3, geodesic: tight() };
        let samples = sample_monge_log(&monge, &logarithm, &base, &precision, &options, &()).unwrap();
        assert_eq!(samples.failed(), 0);
        let euclidean = metric::euclidean(size);
        let straight =
            riemannian_laplace::internals::geodesic::sample(&euclidean, &base, &precision, &options, &()).unwrap();
        let error = relative_error(&samples.theta, &straight.theta);
        assert!(error < 1e-6, "D = {size}: {error:e}");
    }
}

/// Exp(Log(x)) = x and Log(Exp(v)) = v.
fn check_round_trip(metric: &dyn Metric, base: &[f64], velocity: &[f64], what: &str) {
    let mut exponential = ExponentialMap::new(metric, tight()).unwrap();
    let mut logarithm = LogarithmicMap::new(metric, LogarithmOptions::default()).unwrap();
    let end = exponential.map(base, velocity).unwrap();
    assert_eq!(end.status, Status::Reached, "{what}");
    let solution = logarithm.map(base, &end.theta).unwrap();
    assert!(solution.converged, "{what}: {solution:?}");
    let error = relative_error(&solution.velocity, velocity);
    assert!(error < 1e-6, "{what}: Log(Exp(v)) differs from v by {error:e}");
    let point: Vec<f64> = base.iter().zip(velocity).map(|(b, v)| b + 0.8 * v).collect();
    let solution = logarithm.map(base, &point).unwrap();
    assert!(solution.converged, "{what}: {solution:?}");
    let back = exponential.map(base, &solution.velocity).unwrap();
    let error = relative_error(&back.theta, &point);
    assert!(error < 1e-6, "{what}: Exp(Log(x)) differs from x by {error:e}");
    assert!(solution.residual < 1e-6, "{what}: residual {:e}", solution.residual);
}

#[test]
fn logarithm_and_exponential_are_inverse_for_every_metric() {
    let observations = dataset("banana.csv", "y");
    let banana = Banana::target(observations.targets().as_slice().unwrap()).unwrap();
    let base = [0.3, 0.9];
    let velocity = [0.4, -0.25];
    check_round_trip(&metric::fisher(&banana), &base, &velocity, "banana, Fisher");
    check_round_trip(&metric::monge(&banana), &base, &velocity, "banana, Monge");
    check_round_trip(&metric::empirical_fisher(&banana), &base, &velocity, "banana, empirical Fisher");

    let ripley = dataset("ripley.csv", "y");
    let ripley =
        riemannian_laplace::internals::data::Dataset::new(standardized(ripley.inputs()), ripley.targets().clone())
            .unwrap();
    let logistic = logistic_regression(&ripley, 100.0).unwrap();
    let base = euclidean_map(&logistic, &random_starts(1, 3, 0)).unwrap().theta;
    let fisher = metric::fisher(&logistic);
    let mut velocity = normal_vector(3, 2);
    fisher.at(&base).unwrap().cholesky().solve_upper(&mut velocity);
    check_round_trip(&fisher, &base, &velocity, "logistic, Fisher");
    check_round_trip(&metric::monge(&logistic), &base, &velocity, "logistic, Monge");
    check_round_trip(&metric::empirical_fisher(&logistic), &base, &velocity, "logistic, empirical Fisher");

    let golden = Golden::load("p1");
    let posterior = golden.fit();
    let target = posterior.target("fisher").unwrap();
    let base = posterior.parameters();
    let velocity: Vec<f64> = rows(&golden.velocities.tensors["v"]).row(0).iter().map(|v| 0.3 * v).collect();
    check_round_trip(&metric::fisher(&target), base, &velocity, "network, Fisher");
    check_round_trip(&metric::empirical_fisher(&target), base, &velocity, "network, empirical Fisher");
    // The Monge surface of a network is steep: only short geodesics are unique between their ends.
    let short: Vec<f64> = velocity.iter().map(|v| 0.02 * v).collect();
    check_round_trip(&metric::monge(&target), base, &short, "network, Monge");
    check_round_trip(
        &metric::gaussian_monge(posterior.precision().clone(), base),
        base,
        &short,
        "network, Gaussian Monge",
    );
    check_round_trip(&metric::euclidean(base.len()), base, &velocity, "network, Euclidean");
}

#[test]
fn end_points_of_the_references_are_met() {
    for case in ["p1", "p2", "p3"] {
        let golden = Golden::load(case);
        let posterior = golden.fit();
        let target = posterior.target("fisher").unwrap();
        let base = posterior.parameters();
        let (fisher, monge) = (metric::fisher(&target), metric::monge(&target));
        let empirical = metric::empirical_fisher(&target);
        for (tag, reference) in golden.expected["exp"].as_object().unwrap() {
            let metric: &dyn Metric = match tag.as_str() {
                "monge" => &monge,
                "empirical_fisher" => &empirical,
                _ => &fisher,
            };
            let velocities = rows(&golden.velocities.tensors[reference["velocities"].as_str().unwrap()]);
            let (ends, speeds) =
                (golden.tensor(&format!("exp_{tag}_theta")), golden.tensor(&format!("exp_{tag}_velocity")));
            let mut exponential = ExponentialMap::new(metric, tight()).unwrap();
            for (row, velocity) in velocities.rows().into_iter().enumerate() {
                let geodesic = exponential.map(base, &velocity.to_vec()).unwrap();
                assert_eq!(geodesic.status, Status::Reached);
                // Two reference integrators differ by `second_solver_diff`; no better agreement can be expected.
                let uncertainty = 10.0 * reference["second_solver_diff"][row].as_f64().unwrap();
                let allowed = uncertainty.max(1e-6);
                let (end, speed) = (rows(ends).row(row).to_vec(), rows(speeds).row(row).to_vec());
                let moved: Vec<f64> = geodesic.theta.iter().zip(base).map(|(a, b)| a - b).collect();
                let expected: Vec<f64> = end.iter().zip(base).map(|(a, b)| a - b).collect();
                let error = relative_error(&moved, &expected);
                assert!(error < allowed, "{case} {tag} {row}: end point off by {error:e} (allowed {allowed:e})");
                let error = relative_error(&geodesic.velocity, &speed);
                assert!(error < allowed, "{case} {tag} {row}: end velocity off by {error:e} (allowed {allowed:e})");
            }
        }
    }
}

#[test]
fn evaluations_equal_scipys_at_its_default_tolerances() {
    for case in ["p1", "p2", "p3"] {
        let golden = Golden::load(case);
        let posterior = golden.fit();
        let target = posterior.target("fisher").unwrap();
        let metric = metric::fisher(&target);
        let mut exponential = ExponentialMap::new(&metric, GeodesicOptions::with_tolerances(1e-3, 1e-6)).unwrap();
        let velocities = rows(&golden.velocities.tensors["v"]);
        let counts = golden.expected["rk45_default"]["fisher"]["nfev"].as_array().unwrap();
        for (velocity, count) in velocities.rows().into_iter().zip(counts) {
            let geodesic = exponential.map(posterior.parameters(), &velocity.to_vec()).unwrap();
            assert_eq!(geodesic.evaluations as u64, count.as_u64().unwrap(), "{case}");
        }
    }
}

#[test]
fn a_drift_target_is_met_or_the_sample_is_flagged() {
    let golden = Golden::load("p1");
    let posterior = golden.fit();
    let target = posterior.target("fisher").unwrap();
    let metric = metric::fisher(&target);
    let velocities = rows(&golden.velocities.tensors["v_x2"]);
    let options = GeodesicOptions { accuracy: Accuracy::Drift { target: 1e-6, attempts: 7 }, ..Default::default() };
    let mut exponential = ExponentialMap::new(&metric, options).unwrap();
    for velocity in velocities.rows() {
        let geodesic = exponential.map(posterior.parameters(), &velocity.to_vec()).unwrap();
        assert!(geodesic.certified && geodesic.drift <= 1e-6, "{geodesic:?}");
    }
    let once = GeodesicOptions { accuracy: Accuracy::Drift { target: 1e-18, attempts: 1 }, ..Default::default() };
    let mut exponential = ExponentialMap::new(&metric, once).unwrap();
    let geodesic = exponential.map(posterior.parameters(), &velocities.row(0).to_vec()).unwrap();
    assert!(!geodesic.certified && geodesic.drift > 1e-18 && geodesic.status == Status::Reached);
}

#[test]
fn maps_of_the_banana_are_where_the_paper_draws_them() {
    let observations = dataset("banana.csv", "y");
    let target = Banana::target(observations.targets().as_slice().unwrap()).unwrap();
    let starts = random_starts(20, 2, 1);
    let euclidean = euclidean_map(&target, &starts).unwrap();
    // Two modes, mirror images in θ₂; both are found among the runs.
    let signs: Vec<f64> = euclidean.runs.minima.iter().map(|(_, run)| run.point[1].signum()).collect();
    assert!(signs.contains(&1.0) && signs.contains(&-1.0));
    assert!(euclidean.theta[1].abs() > 0.5);
    // The Hausdorff MAP is on the axis, and a maximum among its neighbours.
    let hausdorff = hausdorff_map(&target, &starts).unwrap();
    assert!(hausdorff.theta[1].abs() < 1e-6, "{:?}", hausdorff.theta);
}

#[test]
fn the_gradient_of_the_log_volume_is_its_derivative() {
    for (likelihood, outputs) in common::geometry::likelihoods() {
        let (target, theta) = random_target(&[2, 3, outputs], Activation::Tanh, likelihood.clone(), 9, 21);
        let metric = metric::fisher(&target);
        let mut evaluator = metric.pullback_evaluator();
        let mut gradient = vec![0.0; theta.len()];
        let value = evaluator.half_log_det(&theta, &mut gradient);
        let half_log_det = |theta: &[f64]| 0.5 * metric.at(theta).unwrap().cholesky().log_det();
        assert!((value - half_log_det(&theta)).abs() < 1e-12 * value.abs().max(1.0));
        let difference: Vec<f64> = (0..theta.len())
            .map(|k| {
                let at = |step: f64| {
                    let mut moved = theta.clone();
                    moved[k] += step;
                    half_log_det(&moved)
                };
                let slope = |step: f64| (at(step) - at(-step)) / (2.0 * step);
                (4.0 * slope(1e-3) - slope(2e-3)) / 3.0
            })
            .collect();
        // Differences over 1e-3, extrapolated: good to about 1e-9.
        let error = relative_error(&gradient, &difference);
        assert!(error < 1e-7, "{}: {error:e}", likelihood.name());
    }
}

#[test]
fn the_hessian_of_a_target_is_the_derivative_of_its_gradient() {
    for (likelihood, outputs) in common::geometry::likelihoods() {
        let (target, theta) = random_target(&[2, 3, outputs], Activation::Softplus, likelihood.clone(), 9, 31);
        let mut evaluator = target.evaluator();
        let hessian = evaluator.hessian(&theta);
        for k in 0..theta.len() {
            let mut gradients = Vec::new();
            for step in [1e-5, -1e-5] {
                let mut moved = theta.clone();
                moved[k] += step;
                let mut gradient = vec![0.0; theta.len()];
                evaluator.gradient(&moved, &mut gradient);
                gradients.push(gradient);
            }
            let column: Vec<f64> =
                gradients[0].iter().zip(&gradients[1]).map(|(plus, minus)| (plus - minus) / 2e-5).collect();
            let exact: Vec<f64> = (0..theta.len()).map(|i| hessian[(i, k)]).collect();
            assert!(relative_error(&exact, &column) < 1e-6, "{}", likelihood.name());
        }
    }
}

#[test]
fn a_hessian_that_is_not_positive_definite_is_refused_with_advice() {
    let observations = dataset("banana.csv", "y");
    let target = Banana::target(observations.targets().as_slice().unwrap()).unwrap();
    // On the axis between the two modes the negative Hessian is indefinite.
    let hessian = target.evaluator().hessian(&[0.0, 0.0]);
    let prior = PriorPrecision::scalar(0.25, &[2]).unwrap();
    let error = WeightSpace::from_negative_hessian(hessian.as_ref(), &prior).unwrap_err();
    assert!(error.to_string().contains("use the Fisher precision"), "{error}");
}
