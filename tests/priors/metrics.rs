//! Metrics of tempered targets and of priors with a precision for each weight.

use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::{FitOptions, MetricName, SamplerOptions, Structure};

use crate::Case;
use crate::common::{Outcome, assert_all_close, is_close, normal_vector};

#[test]
fn the_fisher_metric_at_the_mode_is_the_posterior_precision() -> Outcome {
    for case in Case::all()? {
        for (choice, options) in case.choices() {
            let laplace = case.fit(&options)?;
            let target = laplace.target("fisher")?;
            let (velocity, mut product) = (normal_vector(case.n_params(), 1), vec![0.0; case.n_params()]);
            laplace.precision().times(&velocity, &mut product);
            let expected: f64 = velocity.iter().zip(&product).map(|(v, w)| v * w).sum();
            let found = metric::fisher(&target).evaluator().squared_speed(laplace.parameters(), &velocity);
            assert!(is_close(found, expected, 1e-12, 0.0), "{}, {choice}: {found} against {expected}", case.name());
        }
    }
    Ok(())
}

#[test]
fn both_solvers_give_the_same_acceleration_for_every_prior() -> Outcome {
    for case in Case::all()? {
        for (choice, options) in case.choices() {
            let laplace = case.fit(&options)?;
            let target = laplace.target("fisher")?;
            let velocity = normal_vector(case.n_params(), 2);
            let accelerate = |metric: Pullback| {
                let mut acceleration = vec![0.0; case.n_params()];
                metric.evaluator().acceleration(laplace.parameters(), &velocity, &mut acceleration);
                acceleration
            };
            for metric in [metric::fisher(&target), metric::empirical_fisher(&target)] {
                let [weight, function] = [Structure::WeightSpace, Structure::FunctionSpace]
                    .map(|structure| accelerate(metric.clone().with_structure(structure)));
                // Both solve systems with a condition of a few hundred.
                assert_all_close(&function, &weight, 1e-10, &format!("{}, {choice}", case.name()));
            }
        }
    }
    Ok(())
}

#[test]
fn the_empirical_fisher_metric_is_divided_by_the_temperature_once() -> Outcome {
    let case = Case::new(1, "bernoulli".parse()?, 12);
    let velocity = normal_vector(case.n_params(), 3);
    let data_share = |temperature: f64| -> Result<f64, riemannian_laplace::Error> {
        let laplace = case.fit(&FitOptions { temperature, ..Default::default() })?;
        let metric = metric::empirical_fisher(&laplace.target("empirical-fisher")?);
        let prior: f64 = velocity.iter().map(|v| v * v).sum();
        Ok(metric.evaluator().squared_speed(laplace.parameters(), &velocity) - prior)
    };
    let (plain, warm) = (data_share(1.0)?, data_share(4.0)?);
    assert!(is_close(warm, plain / 4.0, 1e-12, 0.0), "{warm} against {plain}/4");
    Ok(())
}

#[test]
fn the_log_posterior_of_the_target_is_tempered_and_centred() -> Outcome {
    for case in Case::all()? {
        for (choice, options) in case.choices() {
            let laplace = case.fit(&options)?;
            let target = laplace.target("monge")?;
            let (theta, mut gradient) = (laplace.parameters().to_vec(), vec![0.0; case.n_params()]);
            let value = target.evaluator().gradient(&theta, &mut gradient);
            let expected = case.log_likelihood() / options.temperature + target.prior().log_density(&theta);
            assert!(is_close(value, expected, 1e-12, 1.0), "{}, {choice}: {value} against {expected}", case.name());
            // Five-point differences: h⁴ fifth derivatives ≈ 1e-9 and ε|ℓ|/h ≈ 1e-11 of rounding.
            let (velocity, step) = (normal_vector(case.n_params(), 4), 1e-3);
            let at = |multiple: f64| {
                let moved: Vec<f64> =
                    theta.iter().zip(&velocity).map(|(theta, v)| theta + multiple * step * v).collect();
                target.evaluator().log_posterior(&moved)
            };
            let slope: f64 = gradient.iter().zip(&velocity).map(|(g, v)| g * v).sum();
            let differences = (at(-2.0) - 8.0 * at(-1.0) + 8.0 * at(1.0) - at(2.0)) / (12.0 * step);
            assert!(is_close(slope, differences, 1e-7, 1.0), "{}, {choice}", case.name());
        }
    }
    Ok(())
}

#[test]
fn riemannian_samples_of_every_choice_are_certified() -> Outcome {
    let case = Case::new(1, riemannian_laplace::Family::gaussian(0.4)?, 30);
    for (choice, options) in case.choices() {
        let laplace = case.fit(&options)?;
        for metric in [MetricName::Fisher, MetricName::Monge] {
            let samples = laplace.sample_riemannian(metric, &SamplerOptions::first(2), &())?;
            assert!(samples.certified.iter().all(|certified| *certified), "{choice}, {metric}");
        }
    }
    Ok(())
}
