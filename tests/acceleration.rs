//! The one geodesic acceleration, against the other solver, against Christoffel symbols, against references.

mod common;

use common::geometry::{Golden, likelihoods, random_target, relative_error, rows};
use common::normal_vector;
use faer::Mat;
use riemannian_laplace::Activation;
use riemannian_laplace::Structure;
use riemannian_laplace::internals::laplace::WeightSpace;
use riemannian_laplace::internals::likelihood::{Bernoulli, Categorical, Likelihood};
use riemannian_laplace::internals::linalg::eigenvalues;
use riemannian_laplace::internals::map::{Evaluator, Jet, jacobian};
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use std::sync::Arc;

fn acceleration(metric: &dyn Metric, theta: &[f64], velocity: &[f64]) -> Vec<f64> {
    let mut acceleration = vec![0.0; theta.len()];
    metric.evaluator().acceleration(theta, velocity, &mut acceleration);
    acceleration
}

/// The lowered −Γ(v, v) from the definition: G differentiated by central differences, extrapolated once.
fn christoffel_force(metric: &Pullback, theta: &[f64], velocity: &[f64]) -> Vec<f64> {
    let size = theta.len();
    let matrix = |point: &[f64]| metric.at(point).unwrap().matrix().to_owned();
    let difference = |k: usize, step: f64| -> Mat<f64> {
        let mut point = theta.to_vec();
        point[k] += step;
        let plus = matrix(&point);
        point[k] = theta[k] - step;
        (plus - matrix(&point)) * faer::Scale(0.5 / step)
    };
    let derivatives: Vec<Mat<f64>> = (0..size)
        .map(|k| {
            let (wide, narrow) = (difference(k, 2e-3), difference(k, 1e-3));
            &narrow * faer::Scale(4.0 / 3.0) - &wide * faer::Scale(1.0 / 3.0)
        })
        .collect();
    let mut force = vec![0.0; size];
    for l in 0..size {
        for i in 0..size {
            for j in 0..size {
                let term = derivatives[i][(j, l)] + derivatives[j][(i, l)] - derivatives[l][(i, j)];
                force[l] -= 0.5 * term * velocity[i] * velocity[j];
            }
        }
    }
    force
}

/// Both solvers of a metric, and the definition (whose differences limit the agreement to about 1e-7).
fn check_metric(metric: Pullback, theta: &[f64], velocity: &[f64], what: &str) {
    let in_weight_space = acceleration(&metric.clone().with_structure(Structure::WeightSpace), theta, velocity);
    let in_function_space = acceleration(&metric.clone().with_structure(Structure::FunctionSpace), theta, velocity);
    let error = relative_error(&in_function_space, &in_weight_space);
    assert!(error < 1e-9, "{what}: the solvers differ by {error:e}");
    let mut force = christoffel_force(&metric, theta, velocity);
    let matrix = metric.at(theta).unwrap();
    // Ga is compared with the force, and a with the solved force as far as the condition of G lets differences tell:
    // a Monge metric I + ggᵀ amplifies the error of the differences by 1 + |g|².
    let lowered: Vec<f64> = (0..theta.len())
        .map(|i| (0..theta.len()).map(|j| matrix.matrix()[(i, j)] * in_function_space[j]).sum())
        .collect();
    let error = relative_error(&lowered, &force);
    assert!(error < 1e-7, "{what}: Christoffel symbols differ by {error:e}");
    let (largest, smallest) = extreme_eigenvalues(&matrix);
    matrix.cholesky().solve(&mut force);
    let error = relative_error(&in_function_space, &force);
    assert!(error < 1e-9 * largest / smallest, "{what}: solved Christoffel symbols differ by {error:e}");
}

fn extreme_eigenvalues(matrix: &WeightSpace) -> (f64, f64) {
    let values = eigenvalues(matrix.matrix(), "the metric").unwrap();
    (values[values.len() - 1], values[0])
}

#[test]
fn both_solvers_and_christoffel_symbols_agree_for_every_likelihood_and_metric() {
    for (index, (likelihood, outputs)) in likelihoods().into_iter().enumerate() {
        for sizes in [vec![2, outputs], vec![2, 4, outputs], vec![1, 3, 3, outputs]] {
            for points in [4, 40] {
                let name = format!("{} {sizes:?} N = {points}", likelihood.name());
                let seed = 10 * index as u64 + points as u64;
                let (target, theta) = random_target(&sizes, Activation::Tanh, likelihood.clone(), points, seed);
                let velocity = normal_vector(theta.len(), seed + 5);
                check_metric(metric::fisher(&target), &theta, &velocity, &format!("Fisher, {name}"));
                check_metric(metric::monge(&target), &theta, &velocity, &format!("Monge, {name}"));
                let metric = metric::empirical_fisher(&target);
                check_metric(metric, &theta, &velocity, &format!("empirical Fisher, {name}"));
            }
        }
    }
}

#[test]
fn every_smooth_activation_agrees_with_christoffel_symbols() {
    for activation in Activation::ALL.into_iter().filter(|activation| !activation.is_piecewise_linear()) {
        // The second derivative of elu jumps at 0. This seed keeps every sum further from there than the differences
        // reach.
        let (target, theta) = random_target(&[2, 3, 2, 3], activation, Arc::new(Categorical), 4, 177);
        let velocity = normal_vector(theta.len(), 78);
        check_metric(metric::fisher(&target), &theta, &velocity, activation.name());
    }
}

/// Hf̈ + C(ḟ, ḟ) of one point from probabilities: for saturated outputs the entry of the certain class is the negative
/// sum of the others, since H and C have rows that sum to zero.
fn output_force(outputs: &[f64], first: &[f64], second: &[f64]) -> Vec<f64> {
    let top = (0..outputs.len()).max_by(|&a, &b| outputs[a].total_cmp(&outputs[b])).unwrap();
    let weights: Vec<f64> = outputs.iter().map(|f| (f - outputs[top]).exp()).collect();
    let total: f64 = weights.iter().sum();
    let p: Vec<f64> = weights.iter().map(|w| w / total).collect();
    let mean = |values: &[f64]| p.iter().zip(values).map(|(p, value)| p * value).sum::<f64>();
    let centre = mean(first);
    let squares: Vec<f64> = first.iter().map(|t| (t - centre).powi(2)).collect();
    let (bend, spread) = (mean(second), mean(&squares));
    let mut force: Vec<f64> = (0..p.len()).map(|k| p[k] * (second[k] - bend + 0.5 * (squares[k] - spread))).collect();
    force[top] = -force.iter().enumerate().filter(|(k, _)| *k != top).map(|(_, w)| w).sum::<f64>();
    force
}

#[test]
fn saturated_logits_leave_the_acceleration_finite_and_right() {
    // Logits of ±50: probabilities of 1e-22 against a prior precision of 0.6, so a = −A⁻¹Σ Jₙᵀ(Hₙf̈ₙ + Cₙ) to rounding.
    for (likelihood, outputs) in [(Arc::new(Bernoulli) as Arc<dyn Likelihood>, 1), (Arc::new(Categorical), 3)] {
        let (target, mut theta) = random_target(&[1, 3, outputs], Activation::Tanh, likelihood.clone(), 6, 5);
        let last = theta.len() - outputs;
        for (k, bias) in theta[last..].iter_mut().enumerate() {
            *bias = if k == 0 { 50.0 } else { -50.0 };
        }
        let velocity = normal_vector(theta.len(), 6);
        let metric = metric::fisher(&target);
        let results = [Structure::WeightSpace, Structure::FunctionSpace]
            .map(|structure| acceleration(&metric.clone().with_structure(structure), &theta, &velocity));
        let points = target.map().n_points();
        let mut jet = Jet::new(points, outputs);
        Evaluator::new(target.map(), 1).jet(&theta, &velocity, &mut jet);
        let jacobian = jacobian(target.map(), &theta);
        let mut expected = vec![0.0; theta.len()];
        for n in 0..points {
            let gather = |values: &[f64]| (0..outputs).map(|k| values[k * points + n]).collect::<Vec<f64>>();
            // A Bernoulli logit f is the pair of logits (0, f).
            let pair = |mut values: Vec<f64>| {
                if outputs == 1 {
                    values.insert(0, 0.0);
                    values
                } else {
                    values
                }
            };
            let (f, first, second) = (gather(&jet.outputs), gather(&jet.first), gather(&jet.second));
            let force = output_force(&pair(f), &pair(first), &pair(second));
            for (k, force) in force[force.len() - outputs..].iter().enumerate() {
                for (d, value) in expected.iter_mut().enumerate() {
                    *value -= jacobian[(k * points + n, d)] * force / 0.6;
                }
            }
        }
        for result in results {
            let error = relative_error(&result, &expected);
            assert!(error < 1e-9, "{}: {error:e}", likelihood.name());
        }
    }
    // Beyond any probability that f64 can hold, the acceleration vanishes and stays a number.
    let (target, mut theta) = random_target(&[1, 2, 1], Activation::Tanh, Arc::new(Bernoulli), 6, 5);
    let last = theta.len() - 1;
    theta[last] = 800.0;
    let result = acceleration(&metric::fisher(&target), &theta, &normal_vector(theta.len(), 6));
    assert!(result.iter().all(|value| value.is_finite()));
}

#[test]
fn references_from_jax_are_met() {
    for case in ["p1", "p2", "p3"] {
        let golden = Golden::load(case);
        let posterior = golden.fit();
        let target = posterior.target("fisher").unwrap();
        let base = posterior.parameters();
        let velocities = rows(&golden.velocities.tensors["v"]);
        let fisher = metric::fisher(&target);
        let monge = metric::monge(&target);
        let empirical = metric::empirical_fisher(&target);
        let metrics: [(&str, &dyn Metric); 3] =
            [("fisher", &fisher), ("monge", &monge), ("empirical_fisher", &empirical)];
        let mut compared = 0;
        for (name, metric) in metrics {
            for (place, shift) in [("theta_hat", 0.0), ("shift", 0.1)] {
                let Some(expected) = golden.tensors.tensors.get(&format!("acc_{name}_at_{place}")) else { continue };
                for (velocity, expected) in velocities.rows().into_iter().zip(rows(expected).rows()) {
                    let velocity = velocity.to_vec();
                    let theta: Vec<f64> = base.iter().zip(&velocity).map(|(t, v)| t + shift * v).collect();
                    let error = relative_error(&acceleration(metric, &theta, &velocity), expected);
                    // At θ̂ the Monge acceleration is a multiple of ∇ℓ ≈ 0, a sum of terms 10⁷ times its size: no
                    // order of summation has more than about eight digits of it.
                    let allowed = if name == "monge" && shift == 0.0 { 1e-7 } else { 1e-9 };
                    assert!(error < allowed, "{case} {name} at {place}: {error:e}");
                    compared += 1;
                }
            }
        }
        assert!(compared >= 16, "{case}: only {compared} accelerations compared");
    }
}

#[test]
fn the_squared_speed_is_the_metric_s_quadratic_form() {
    for (likelihood, outputs) in likelihoods() {
        let (target, theta) = random_target(&[2, 3, outputs], Activation::Silu, likelihood, 7, 3);
        let velocity = normal_vector(theta.len(), 4);
        let metric = metric::fisher(&target);
        let matrix = metric.at(&theta).unwrap();
        let mut expected = 0.0;
        for i in 0..theta.len() {
            for j in 0..theta.len() {
                expected += velocity[i] * matrix.matrix()[(i, j)] * velocity[j];
            }
        }
        let speed = metric.evaluator().squared_speed(&theta, &velocity);
        assert!((speed / expected - 1.0).abs() < 1e-12);
    }
}
