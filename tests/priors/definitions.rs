//! The posterior precision, the evidence and the log density from their definitions.

use riemannian_laplace::internals::prior::{Prior, PriorMean, PriorPrecision};
use riemannian_laplace::{Error, FitOptions, Laplace, Link, Method, PriorValues, Structure};

use crate::common::{Outcome, assert_all_close, is_close, normal_matrix, normal_vector};
use crate::{Case, STRUCTURES, alphas, log_det};

#[test]
fn the_precision_and_the_evidence_are_those_of_the_definitions() -> Outcome {
    for case in Case::all()? {
        let curvature = case.curvature()?;
        for (choice, options) in case.choices() {
            for structure in STRUCTURES {
                let name = format!("{}, {choice}, {structure}", case.name());
                let laplace = case.fit(&FitOptions { structure, ..options.clone() })?;
                let alphas = alphas(&laplace);
                let mut precision = curvature.clone() * faer::Scale(1.0 / options.temperature);
                for d in 0..case.n_params() {
                    precision[(d, d)] += alphas[d];
                }
                if structure == Structure::Diagonal {
                    let full = precision.clone();
                    precision.fill(0.0);
                    (0..case.n_params()).for_each(|d| precision[(d, d)] = full[(d, d)]);
                }
                let (direction, mut product) = (normal_vector(case.n_params(), 3), vec![0.0; case.n_params()]);
                laplace.precision().times(&direction, &mut product);
                let expected: Vec<f64> = (0..case.n_params())
                    .map(|i| (0..case.n_params()).map(|j| precision[(i, j)] * direction[j]).sum())
                    .collect();
                assert_all_close(&product, &expected, 1e-12, &name);

                let ratio = log_det(&precision) - alphas.iter().map(|alpha| alpha.ln()).sum::<f64>();
                let means = (0..case.n_params()).map(|d| match &options.prior_mean {
                    PriorMean::Shared(mean) => *mean,
                    PriorMean::PerWeight(means) => means[d],
                });
                let scatter: f64 = laplace
                    .parameters()
                    .iter()
                    .zip(means)
                    .zip(&alphas)
                    .map(|((theta, mean), alpha)| alpha * (theta - mean).powi(2))
                    .sum();
                let expected = case.log_likelihood() / options.temperature - 0.5 * (ratio + scatter);
                let found = laplace.log_marginal_likelihood();
                assert!(is_close(found, expected, 1e-11, 1.0), "{name}: {found} against {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_precision_for_each_weight_predicts_the_same_in_both_spaces() -> Outcome {
    for case in Case::all()? {
        let inputs = normal_matrix(6, 2, 9);
        for (choice, options) in case.choices() {
            let name = format!("{}, {choice}", case.name());
            let fit = |structure| case.fit(&FitOptions { structure, ..options.clone() });
            let [weight, function] = [fit(Structure::WeightSpace)?, fit(Structure::FunctionSpace)?];
            // Conditions of a few hundred on either side.
            let [a, b] = [&weight, &function].map(|laplace| laplace.linearized_joint(&inputs));
            assert_all_close(&a?.covariance, &b?.covariance, 1e-11, &name);
            let [a, b] = [&weight, &function].map(|laplace| laplace.linearized(&inputs));
            assert_all_close(&a?.covariance, &b?.covariance, 1e-11, &name);
            let (a, b) = (weight.effective_parameters(), function.effective_parameters());
            assert!(is_close(a, b, 1e-10, 1.0), "{name}: {a} against {b}");
            let (rhs, size) = (normal_vector(case.n_params(), 8), case.n_params());
            let [mut a, mut b] = [vec![0.0; size], vec![0.0; size]];
            weight.precision().solve(&rhs, &mut a);
            function.precision().solve(&rhs, &mut b);
            assert_all_close(&a, &b, 1e-11, &name);
        }
    }
    Ok(())
}

#[test]
fn draws_have_the_covariance_of_a_precision_for_each_weight() -> Outcome {
    let case = Case::new(1, "bernoulli".parse()?, 6);
    let (_, options) = case.choices().swap_remove(3);
    let (count, inputs) = (40_000, normal_matrix(1, 2, 4));
    for structure in STRUCTURES {
        let laplace = case.fit(&FitOptions { structure, ..options.clone() })?;
        // The variance of a fixed combination of weights: the gradient of the output at some input.
        let expected = laplace.linearized(&inputs)?.covariance.iter().sum::<f64>();
        let map = laplace.model().bind(inputs.view())?;
        let row = riemannian_laplace::internals::map::jacobian(&map, laplace.parameters());
        let draws = laplace.sample(count, 5)?;
        let squares = draws.rows().into_iter().map(|theta| {
            let moved = theta.iter().zip(laplace.parameters()).map(|(theta, mode)| theta - mode);
            moved.enumerate().map(|(d, value)| row[(0, d)] * value).sum::<f64>().powi(2)
        });
        let found = squares.sum::<f64>() / count as f64;
        // A variance from n draws has the relative standard error √(2/n) = 0.7 %: five of them.
        assert!(is_close(found, expected, 0.035, 0.0), "{structure}: {found} against {expected}");
    }
    Ok(())
}

#[test]
fn a_precision_for_each_weight_may_say_what_one_per_layer_says() -> Outcome {
    for case in Case::all()? {
        for structure in STRUCTURES {
            let groups = case.network.architecture().layer_params();
            let layers = PriorValues::from(vec![0.7, 1.3]);
            let weights = [(0.7, groups[0]), (1.3, groups[1])];
            let weights = weights.iter().flat_map(|(alpha, size)| std::iter::repeat_n(*alpha, *size)).collect();
            let fit = |prior_precision| case.fit(&FitOptions { prior_precision, structure, ..Default::default() });
            let (a, b) = (fit(layers)?, fit(PriorValues::PerWeight(weights))?);
            let (a, b) = (a.log_marginal_likelihood(), b.log_marginal_likelihood());
            assert!(is_close(a, b, 1e-13, 1.0), "{}, {structure}: {a} against {b}", case.name());
        }
    }
    Ok(())
}

#[test]
fn a_prior_mean_moves_the_log_density_and_its_derivatives() -> Outcome {
    let (groups, size) = ([3, 2], 5);
    let (theta, velocity) = (normal_vector(size, 1), normal_vector(size, 2));
    for precision in [
        PriorPrecision::scalar(0.7, &groups)?,
        PriorPrecision::per_group(vec![0.7, 2.0], &groups)?,
        PriorPrecision::per_weight(vec![0.7, 2.0, 0.1, 3.0, 1.0], &groups)?,
    ] {
        for mean in [PriorMean::default(), 1.5.into(), normal_vector(size, 3).into()] {
            let prior = Prior::gaussian(precision.clone()).around(mean.clone())?;
            // log N(θ; μ, A⁻¹), one coordinate after another.
            let mut expected = 0.0;
            let mut alphas = vec![0.0; size];
            precision.for_each_group(|range, alpha| alphas[range].fill(alpha));
            for d in 0..size {
                let centre = if mean.values().len() == 1 { mean.values()[0] } else { mean.values()[d] };
                let scaled = alphas[d].sqrt() * (theta[d] - centre);
                expected += 0.5 * (alphas[d] / (2.0 * std::f64::consts::PI)).ln() - 0.5 * scaled * scaled;
            }
            assert!(is_close(prior.log_density(&theta), expected, 1e-14, 1.0), "{prior:?}");
            // The density is quadratic: central differences have no truncation, and ε/h = 1e-12 rounding.
            let at = |t: f64| {
                let moved: Vec<f64> = theta.iter().zip(&velocity).map(|(theta, v)| theta + t * v).collect();
                prior.log_density(&moved)
            };
            let step = 1e-3;
            let (slope, bend) = ((at(step) - at(-step)) / (2.0 * step), -precision.quadratic(&velocity));
            assert!(is_close(prior.slope(&theta, &velocity), slope, 1e-10, 1.0), "{prior:?}");
            assert!(is_close(prior.bend(&velocity), bend, 1e-15, 0.0), "{prior:?}");
            let mut gradient = vec![0.0; size];
            prior.add_gradient(&theta, &mut gradient);
            let along: f64 = gradient.iter().zip(&velocity).map(|(g, v)| g * v).sum();
            assert!(is_close(along, slope, 1e-10, 1.0), "{prior:?}");
        }
    }
    Ok(())
}

#[test]
fn a_temperature_leaves_the_noise_of_an_observation_alone() -> Outcome {
    let case = Case::new(1, riemannian_laplace::Family::gaussian(0.4)?, 30);
    let inputs = normal_matrix(5, 2, 3);
    let predict = |temperature| -> Result<_, Error> {
        case.fit(&FitOptions { temperature, ..Default::default() })?.predict(&inputs, &Method::Glm(Link::Probit))
    };
    let (cold, plain) = (predict(1e-3)?, predict(1.0)?);
    assert_eq!(cold.aleatoric_variance, plain.aleatoric_variance);
    assert!(cold.epistemic_variance.iter().zip(&plain.epistemic_variance).all(|(cold, plain)| cold < plain));
    Ok(())
}

#[test]
fn a_gaussian_likelihood_at_temperature_t_has_the_curvature_of_noise_sigma_root_t() -> Outcome {
    // p^(1/T) of N(f, σ²) is N(f, Tσ²) up to its constant.
    let case = Case::new(1, riemannian_laplace::Family::gaussian(0.4)?, 30);
    let other = Case {
        family: riemannian_laplace::Family::gaussian(0.4 * 2.5f64.sqrt())?,
        ..Case::new(1, case.family.clone(), 30)
    };
    let warm = case.fit(&FitOptions { temperature: 2.5, ..Default::default() })?;
    let noisy = other.fit(&FitOptions::default())?;
    assert!(is_close(warm.log_det_ratio(), noisy.log_det_ratio(), 1e-13, 1.0));
    assert_eq!(warm.sigma(), case.family.sigma().map(<[f64]>::to_vec));
    Ok(())
}

#[test]
fn what_is_no_prior_or_temperature_is_refused() -> Outcome {
    let case = Case::new(1, "bernoulli".parse()?, 6);
    let fit = |options: FitOptions| case.fit(&options).expect_err("refused");
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = fit(FitOptions { temperature, ..Default::default() });
        assert!(matches!(error, Error::Temperature(_)), "{error}");
    }
    let error = fit(FitOptions { prior_precision: PriorValues::PerWeight(vec![1.0; 3]), ..Default::default() });
    assert!(matches!(error, Error::Size { expected: 17, found: 3, .. }), "{error}");
    let mut values = vec![1.0; 17];
    values[4] = -1.0;
    let error = fit(FitOptions { prior_precision: PriorValues::PerWeight(values), ..Default::default() });
    assert!(matches!(error, Error::PriorPrecision { position: 4, .. }), "{error}");
    let error = fit(FitOptions { prior_mean: vec![0.0; 16].into(), ..Default::default() });
    assert!(matches!(error, Error::Size { expected: 17, found: 16, .. }), "{error}");
    let error = fit(FitOptions { prior_mean: f64::NAN.into(), ..Default::default() });
    assert!(matches!(error, Error::NotFinite { what: "the prior mean", .. }), "{error}");
    let _: &Laplace = &case.fit(&FitOptions::default())?;
    Ok(())
}
