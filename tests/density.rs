//! The density of samples: Jacobi fields against finite differences of the exponential map, weights of targets whose
//! samples are exact, and the evidence of logistic regressions against long importance sampling.

mod common;

use std::path::Path;

use common::geometry::{likelihoods, random_target};
use common::{Outcome, normal_vector};
use faer::Mat;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::evaluate::Importance;
use riemannian_laplace::internals::geodesic::{
    Accuracy, ExponentialMap, JacobiFields, JacobiOptions, densities, sample_densities,
};
use riemannian_laplace::internals::metric::{self, Pullback};
use riemannian_laplace::internals::ode::{Integrator, Status};
use riemannian_laplace::internals::paper::problems::{Banana, Funnel, Squiggle, logistic_regression, standardized};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::prelude::*;
use riemannian_laplace::{Error, GeodesicOptions};

fn repository(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn isometric_coordinates_have_the_fisher_metric_and_their_bends_are_derivatives() -> Outcome {
    for (likelihood, p) in likelihoods() {
        let outputs: Vec<f64> = normal_vector(p, 5).iter().map(|value| 1.3 * value).collect();
        let at = |outputs: &[f64]| {
            let (mut slopes, mut bends) = (vec![0.0; p * p], vec![0.0; p * p * p]);
            likelihood.isometry(outputs, &mut slopes, &mut bends).then_some((slopes, bends))
        };
        let Some((slopes, bends)) = at(&outputs) else {
            assert_eq!(likelihood.name(), "heteroscedastic");
            continue;
        };
        let mut fisher = vec![0.0; p * p];
        likelihood.fisher(&outputs, &mut fisher);
        let step = 1e-5;
        for i in 0..p {
            let moved = |sign: f64| {
                let mut outputs = outputs.clone();
                outputs[i] += sign * step;
                at(&outputs).map(|(slopes, _)| slopes).unwrap_or_default()
            };
            let (above, below) = (moved(1.0), moved(-1.0));
            for j in 0..p {
                let square: f64 = (0..p).map(|k| slopes[k * p + i] * slopes[k * p + j]).sum();
                assert!((square - fisher[i * p + j]).abs() < 1e-13, "{}", likelihood.name());
                for k in 0..p {
                    let slope = (above[k * p + j] - below[k * p + j]) / (2.0 * step);
                    // Central differences: h² third derivatives and rounding ε/h.
                    assert!((slope - bends[(k * p + i) * p + j]).abs() < 1e-9, "{}", likelihood.name());
                }
            }
        }
    }
    Ok(())
}

/// log |det ∂Exp(v)/∂v| by differences along the columns of L⁻ᵀ, G = LLᵀ.
fn log_det_by_differences(metric: &Pullback, base: &[f64], velocity: &[f64]) -> Result<f64, Error> {
    let (d, step) = (base.len(), 2e-3);
    let accuracy = Accuracy::Tolerances { rtol: 1e-11, atol: 1e-13, target: 1.0 };
    let options =
        GeodesicOptions { accuracy, integrator: Integrator::Dop853, max_steps: 100_000, ..Default::default() };
    let mut exponential = ExponentialMap::new(metric, options)?;
    let start = metric.at(base)?;
    let mut differences = Mat::<f64>::zeros(d, d);
    for column in 0..d {
        let mut direction = vec![0.0; d];
        direction[column] = 1.0;
        start.cholesky().solve_upper(&mut direction);
        for (multiple, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            let moved: Vec<f64> =
                velocity.iter().zip(&direction).map(|(v, direction)| v + multiple * step * direction).collect();
            let end = exponential.map(base, &moved)?;
            assert_eq!(end.status, Status::Reached);
            for row in 0..d {
                differences[(row, column)] += weight * end.theta[row] / (12.0 * step);
            }
        }
    }
    Ok(differences.determinant().abs().ln() + 0.5 * start.cholesky().log_det())
}

fn check(name: &str, metric: &Pullback, base: &[f64], velocity: &[f64]) -> Outcome {
    let field = JacobiFields::new(metric, JacobiOptions::default(), &())?.follow(base, velocity)?;
    let expected = log_det_by_differences(metric, base, velocity)?;
    // The promise; differences themselves are accurate to about 1e-7.
    assert!((field.log_det - expected).abs() < 1e-4, "{name}: {} for {expected}", field.log_det);
    Ok(())
}

/// A draw of N(0, G⁻¹).
fn draw(metric: &Pullback, base: &[f64], seed: u64) -> Result<Vec<f64>, Error> {
    let mut velocity = normal_vector(base.len(), seed);
    metric.at(base)?.cholesky().solve_upper(&mut velocity);
    Ok(velocity)
}

#[test]
fn jacobi_fields_are_the_derivative_of_the_exponential_map() -> Outcome {
    let observations = Table::read(&repository("data/banana.csv"))?.dataset(&["y".to_string()])?;
    let banana = Banana::target(observations.targets().as_slice().ok_or("a column")?)?;
    let fisher = metric::fisher(&banana);
    for seed in 0..3 {
        check("banana", &fisher, &[0.2, 0.9], &draw(&fisher, &[0.2, 0.9], seed)?)?;
    }
    let monge = metric::monge(&banana);
    check("banana, monge", &monge, &[0.2, 0.9], &[0.4, -0.3])?;
    let ripley = logistic("ripley")?;
    let fisher = metric::fisher(&ripley);
    check("logistic", &fisher, &[0.5, 2.0, -0.3], &draw(&fisher, &[0.5, 2.0, -0.3], 1)?)?;
    for (likelihood, outputs) in likelihoods() {
        let (target, theta) = random_target(&[2, 3, outputs], Activation::Tanh, likelihood.clone(), 9, 21);
        let fisher = metric::fisher(&target);
        if likelihood.name() == "heteroscedastic" {
            assert!(JacobiFields::new(&fisher, JacobiOptions::default(), &()).is_err());
            continue;
        }
        check(likelihood.name(), &fisher, &theta, &draw(&fisher, &theta, 4)?)?;
    }
    Ok(())
}

#[test]
fn jacobi_fields_of_the_papers_network_are_the_derivative_of_its_exponential_map() -> Outcome {
    let laplace = snelson()?;
    let fisher = metric::fisher(&laplace.target("the test")?);
    check("snelson", &fisher, laplace.parameters(), &draw(&fisher, laplace.parameters(), 2)?)
}

fn snelson() -> Result<Laplace, Box<dyn std::error::Error>> {
    let data = Table::read(&repository("data/snelson.csv"))?.dataset(&["y".to_string()])?;
    let network = Network::load(&repository("data/snelson_map_complete_raw.safetensors"), Some(Activation::Tanh))?;
    let options = FitOptions { prior_precision: 0.05.into(), ..Default::default() };
    Ok(Laplace::fit(network, data, Family::gaussian(0.29)?, &options)?)
}

/// Their samples are exact, so all weights are the same.
#[test]
fn squiggle_and_funnel_have_constant_weights() -> Outcome {
    let targets = [Squiggle::MAIN.target()?, Squiggle::DIFFICULT.target()?, Funnel::PAPER.target()?];
    for (index, target) in targets.into_iter().enumerate() {
        let fisher = metric::fisher(&target);
        let precision = fisher.at(&[0.0, 0.0])?;
        let weights = densities(&target, &fisher, &[0.0, 0.0], &precision, 0..60, 1, &())?;
        let (low, high) = extremes(&weights.log_weight);
        // Some hundred times the integration's relative tolerance of 1e-6, over paths with many turns: measured below 1e-4,
        // and 3.6e-4 for the difficult squiggle.
        assert!(high - low < 5e-4, "{index}: from {low} to {high}");
        assert!(weights.conjugate.iter().all(|count| *count == 0));
        let importance = Importance::of(&weights.log_weight, &weights.conjugate)?;
        assert_eq!(importance.k, None);
        assert!(importance.effective_share > 1.0 - 1e-6);
    }
    Ok(())
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

fn logistic(name: &str) -> Result<Target, Box<dyn std::error::Error>> {
    let data = Table::read(&repository(&format!("data/{name}.csv")))?.dataset(&["y".to_string()])?;
    let data = Dataset::new(standardized(data.inputs()), data.targets().clone())?;
    Ok(logistic_regression(&data, 100.0)?)
}

/// The mode, by Newton's method.
fn mode(target: &Target) -> Result<Vec<f64>, Error> {
    let (fisher, mut evaluator) = (metric::fisher(target), target.evaluator());
    let (mut theta, mut step) = (vec![0.0; target.n_params()], vec![0.0; target.n_params()]);
    for _ in 0..60 {
        evaluator.gradient(&theta, &mut step);
        fisher.at(&theta)?.cholesky().solve(&mut step);
        theta.iter_mut().zip(&step).for_each(|(theta, step)| *theta += step);
    }
    Ok(theta)
}

#[derive(serde::Deserialize)]
struct Reference {
    log_evidence: f64,
    laplace: f64,
}

#[test]
fn weights_give_the_evidence_of_logistic_regressions() -> Outcome {
    let text = std::fs::read_to_string(repository("tests/fixtures/density/evidence.json"))?;
    let references: std::collections::BTreeMap<String, Reference> = serde_json::from_str(&text)?;
    for (name, samples) in [("ripley", 1000), ("pima", 200), ("heart", 120), ("australian", 80)] {
        let (target, reference) = (logistic(name)?, &references[name]);
        let (base, fisher) = (mode(&target)?, metric::fisher(&target));
        let precision = fisher.at(&base)?;
        let d = base.len() as f64;
        let at_mode = target.evaluator().log_posterior(&base);
        let laplace = at_mode + 0.5 * (d * (2.0 * std::f64::consts::PI).ln() - precision.cholesky().log_det());
        assert!((laplace - reference.laplace).abs() < 1e-6, "{name}: {laplace}");
        let weights = densities(&target, &fisher, &base, &precision, 0..samples, 0, &())?;
        let importance = Importance::of(&weights.log_weight, &weights.conjugate)?;
        let evidence = importance.log_evidence().map_err(|reason| reason.to_string())?;
        let error = (evidence.value - reference.log_evidence).abs();
        // Few samples, so that the test is fast: three standard errors. docs/results/density.md has the long runs.
        assert!(error < 3.0 * evidence.standard_error + 2e-3, "{name}: {evidence:?} for {}", reference.log_evidence);
        assert!(evidence.standard_error < 0.05 && importance.effective_share > 0.75, "{name}: {importance:?}");
    }
    Ok(())
}

#[test]
fn weights_follow_the_samples_of_their_seed_and_networks_are_withheld() -> Outcome {
    let laplace = snelson()?;
    let all = sample_densities(&laplace, MetricName::Fisher, 0..6, 3, &())?;
    let part = sample_densities(&laplace, MetricName::Fisher, 4..6, 3, &())?;
    assert_eq!((&all.log_weight[4..], &all.conjugate[4..]), (&part.log_weight[..], &part.conjugate[..]));
    // Straight lines: the weights of the classical Laplace approximation, without any field.
    let straight = sample_densities(&laplace, MetricName::Euclidean, 0..3, 3, &())?;
    let draws = laplace.sample(3, 3)?;
    let mut target = laplace.target("the test")?.evaluator();
    let precision = laplace.precision();
    let matrix = precision.to_matrix();
    let log_det = matrix.determinant().ln();
    for (row, log_weight) in draws.rows().into_iter().zip(&straight.log_weight) {
        let theta = row.to_vec();
        let v: Vec<f64> = theta.iter().zip(laplace.parameters()).map(|(a, b)| a - b).collect();
        let mut product = vec![0.0; v.len()];
        precision.times(&v, &mut product);
        let energy: f64 = v.iter().zip(&product).map(|(a, b)| a * b).sum();
        let log_density = 0.5 * (log_det - v.len() as f64 * (2.0 * std::f64::consts::PI).ln() - energy);
        let expected = target.log_posterior(&theta) - log_density;
        assert!((log_weight - expected).abs() < 1e-8 * expected.abs(), "{log_weight} for {expected}");
    }
    let relu = Network::random(Architecture::new(&[1, 3, 1], Activation::Relu)?, 1);
    let data = laplace.data().ok_or("no data")?.clone();
    let relu = Laplace::fit(relu, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
    assert!(sample_densities(&relu, MetricName::Fisher, 0..1, 0, &()).is_err());
    let wide = Network::random(Architecture::new(&[1, 200, 1], Activation::Tanh)?, 1);
    let wide = Laplace::fit(wide, data, Family::gaussian(1.0)?, &FitOptions::default())?;
    assert!(sample_densities(&wide, MetricName::Fisher, 0..1, 0, &()).is_err());
    Ok(())
}
