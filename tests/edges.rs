//! Numerics at the edge: for each case a right answer, or an error with a name. Never a panic, never a number that is not
//! one.

mod common;

use ndarray::{Array2, Axis, concatenate};
use riemannian_laplace::internals::geodesic::GeodesicLimits;
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, EvidenceOptions, Family, FitOptions, GeodesicOptions, Laplace, Method,
    MetricName, Network, SamplerOptions, Standardize, Structure,
};

use common::{Outcome, is_close, normal_matrix, random_data, random_network};

type Fitted = Result<Laplace, Error>;

fn mlp(sizes: &[usize]) -> Result<Network, Error> {
    Ok(random_network(Architecture::new(sizes, Activation::Tanh)?, 5))
}

fn family(name: &str) -> Result<Family, Error> {
    match name {
        "gaussian" => Family::gaussian(0.5),
        name => name.parse(),
    }
}

fn fit(network: &Network, data: &Dataset, family: &Family) -> Fitted {
    Laplace::fit(network.clone(), data.clone(), family.clone(), &FitOptions::default())
}

/// Everything that a posterior gives must be a number, and what is a variance or a probability must be one.
fn check(laplace: &Laplace, inputs: &Array2<f64>, case: &str) -> Outcome {
    for (what, value) in [
        ("log likelihood", laplace.log_likelihood()),
        ("evidence", laplace.log_marginal_likelihood()),
        ("log determinant", laplace.log_det_ratio()),
        ("effective parameters", laplace.effective_parameters()),
    ] {
        assert!(value.is_finite(), "{case}: the {what} is {value}");
    }
    let most = laplace.parameters().len() as f64;
    // Up to rounding: each direction has λ/(λ + α), which may come out as a difference of equal numbers.
    let effective = laplace.effective_parameters();
    assert!((-1e-9 * most..=most * (1.0 + 1e-9)).contains(&effective), "{case}: {effective}");
    for method in [Method::Map, Method::default()] {
        let prediction = laplace.predict(inputs, &method)?;
        for (what, values) in [
            ("mean", &prediction.mean),
            ("epistemic variance", &prediction.epistemic_variance),
            ("total variance", &prediction.total_variance),
        ] {
            assert!(values.iter().all(|value| value.is_finite()), "{case}: {what} of {}", method.name());
            assert!(what == "mean" || values.iter().all(|value| *value >= 0.0), "{case}: {what} of {}", method.name());
        }
        if let Some(probabilities) = prediction.class_probabilities() {
            assert!(probabilities.iter().all(|value| (0.0..=1.0 + 1e-12).contains(value)), "{case}");
        }
    }
    // A geodesic may end at a limit, but never as certified without a drift that is a number.
    let limits = GeodesicLimits { evaluations: Some(12), time: None };
    let options =
        SamplerOptions { geodesic: GeodesicOptions { limits, ..Default::default() }, ..SamplerOptions::first(1) };
    let samples = laplace.sample_riemannian(MetricName::Fisher, &options, &())?;
    assert!(!samples.certified[0] || samples.drift[0] <= 1e-3, "{case}");
    Ok(())
}

/// Fits, checks, tunes, and checks again.
fn check_and_tune(network: &Network, data: &Dataset, family: &Family, case: &str) -> Outcome {
    let mut laplace = fit(network, data, family)?;
    let few = data.inputs().select(Axis(0), &(0..data.len().min(3)).collect::<Vec<_>>());
    check(&laplace, &few, case)?;
    match laplace.optimize(&EvidenceOptions::for_posterior(&laplace)) {
        Ok(optimum) => {
            assert!(optimum.log_marginal_likelihood.is_finite(), "{case}");
            check(&laplace, &few, &format!("{case}, tuned"))
        }
        Err(Error::TunedToBound { .. }) => Ok(()),
        Err(error) => Err(format!("{case}: {error}").into()),
    }
}

#[test]
fn separable_classes_have_a_finite_posterior() -> Outcome {
    let inputs = Array2::from_shape_fn((10, 1), |(n, _)| if n < 5 { -1.0 - n as f64 } else { n as f64 });
    let data = Dataset::new(inputs, Array2::from_shape_fn((10, 1), |(n, _)| f64::from(u8::from(n >= 5))))?;
    for (name, outputs) in [("bernoulli", 1), ("categorical", 2)] {
        // The steeper, the nearer to the maximum at infinity.
        for steepness in [1.0, 30.0, 300.0] {
            let weights = if outputs == 1 { vec![steepness, 0.0] } else { vec![-steepness, steepness, 0.0, 0.0] };
            let network = Network::new(Architecture::new(&[1, outputs], Activation::Tanh)?, weights)?;
            check_and_tune(&network, &data, &family(name)?, &format!("{name}, steepness {steepness}"))?;
        }
    }
    Ok(())
}

#[test]
fn rows_that_appear_twice_count_twice() -> Outcome {
    let network = mlp(&[2, 3, 1])?;
    let data = random_data(&network, &family("gaussian")?, 6, 3);
    let twice = |values: &Array2<f64>| concatenate(Axis(0), &[values.view(), values.view()]);
    let doubled = Dataset::new(twice(data.inputs())?, twice(data.targets())?)?;
    let expected = FitOptions { temperature: 0.5, ..Default::default() };
    for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
        let options = FitOptions { structure, ..Default::default() };
        let doubled = Laplace::fit(network.clone(), doubled.clone(), family("gaussian")?, &options)?;
        let once = Laplace::fit(network.clone(), data.clone(), family("gaussian")?, &expected)?;
        assert!(is_close(doubled.log_det_ratio(), once.log_det_ratio(), 1e-10, 1.0));
        assert!(is_close(doubled.log_marginal_likelihood(), once.log_marginal_likelihood(), 1e-10, 1.0));
    }
    check_and_tune(&network, &doubled, &family("gaussian")?, "every row twice")
}

#[test]
fn constant_features_and_targets_are_no_trouble() -> Outcome {
    let network = mlp(&[2, 3, 1])?;
    let inputs = Array2::from_shape_fn((8, 2), |(n, d)| if d == 0 { 4.0 } else { n as f64 });
    for target in [0.0, 3.0] {
        let data = Dataset::new(inputs.clone(), Array2::from_elem((8, 1), target))?;
        check_and_tune(&network, &data, &family("gaussian")?, "constants")?;
        let scaled = data.standardized(Standardize::InputsAndTargets)?;
        let laplace = fit(&network, &scaled, &family("gaussian")?)?;
        check(&laplace, &inputs, "constants, standardised")?;
    }
    Ok(())
}

#[test]
fn one_data_point_is_enough_and_a_hundred_thousand_weights_are_not_too_many_for_two() -> Outcome {
    for name in ["gaussian", "bernoulli", "poisson"] {
        let network = mlp(&[2, 3, 1])?;
        check_and_tune(&network, &random_data(&network, &family(name)?, 1, 8), &family(name)?, name)?;
    }
    let wide = mlp(&[2, 300, 340, 1])?;
    assert!(wide.parameters().len() > 100_000);
    let data = random_data(&wide, &family("gaussian")?, 2, 8);
    let laplace = fit(&wide, &data, &family("gaussian")?)?;
    assert_eq!(laplace.structure().solver(), "function-space");
    assert!(laplace.effective_parameters() <= 2.0);
    check(&laplace, data.inputs(), "two data points")
}

#[test]
fn noise_and_priors_from_1e_minus_12_to_1e12_have_a_posterior_or_an_error_with_a_name() -> Outcome {
    let network = mlp(&[2, 3, 1])?;
    let data = random_data(&network, &family("gaussian")?, 7, 4);
    let (mut right, mut named) = (0, 0);
    for sigma in [1e-12, 1e-6, 1.0, 1e6, 1e12] {
        for prior in [1e-12, 1e-6, 1.0, 1e6, 1e12] {
            let fits = [Structure::WeightSpace, Structure::FunctionSpace].map(|structure| {
                let options = FitOptions { prior_precision: prior.into(), structure, ..Default::default() };
                Laplace::fit(network.clone(), data.clone(), Family::gaussian(sigma)?, &options)
            });
            let case = format!("σ = {sigma:e}, α = {prior:e}");
            let mut evidence = Vec::new();
            for fit in fits {
                match fit {
                    Ok(laplace) => {
                        check(&laplace, data.inputs(), &case)?;
                        evidence.push(laplace.log_marginal_likelihood());
                        right += 1;
                    }
                    Err(Error::NotPositiveDefinite { advice, .. }) => {
                        assert!(!advice.is_empty(), "{case}");
                        named += 1;
                    }
                    Err(error) => return Err(format!("{case}: {error}").into()),
                }
            }
            if let [weight, function] = evidence[..] {
                // log det G − log det A of a condition of up to 1e36 is right to a share of its size.
                assert!(is_close(weight, function, 1e-6, 1.0), "{case}: {weight} and {function}");
            }
        }
    }
    assert!(right >= 40, "{right} right, {named} named");
    Ok(())
}

#[test]
fn saturated_and_dead_units_leave_the_prior() -> Outcome {
    for (activation, weight) in [(Activation::Tanh, 1e3), (Activation::Sigmoid, -1e3), (Activation::Relu, -1e3)] {
        let architecture = Architecture::new(&[1, 4, 1], activation)?;
        let theta: Vec<f64> = (0..architecture.n_params()).map(|i| if i < 8 { weight } else { 0.5 }).collect();
        let network = Network::new(architecture, theta)?;
        let inputs = Array2::from_shape_fn((6, 1), |(n, _)| 1.0 + n as f64);
        let data = Dataset::new(inputs.clone(), inputs.mapv(f64::sin))?;
        let laplace = fit(&network, &data, &family("gaussian")?)?;
        check(&laplace, &inputs, activation.name())?;
        // Only the last layer is determined: four weights of equal features, and a bias.
        assert!(laplace.effective_parameters() < 1.0 + 1e-9, "{activation:?}: {}", laplace.effective_parameters());
    }
    Ok(())
}

#[test]
fn features_in_any_units_are_worked_with() -> Outcome {
    let network = mlp(&[2, 3, 1])?;
    let data = random_data(&network, &family("gaussian")?, 9, 6);
    for scale in [1e-8, 1e8] {
        let scaled = Dataset::new(data.inputs() * scale, data.targets().clone())?;
        check_and_tune(&network, &scaled, &family("gaussian")?, &format!("features of {scale:e}"))?;
        // Standardised, it is the same posterior as before.
        let posterior = |data: &Dataset| -> Fitted {
            fit(&network, &data.standardized(Standardize::InputsAndTargets)?, &family("gaussian")?)
        };
        let (one, other) = (posterior(&data)?, posterior(&scaled)?);
        assert!(is_close(one.log_marginal_likelihood(), other.log_marginal_likelihood(), 1e-9, 1.0), "{scale:e}");
    }
    Ok(())
}

#[test]
fn targets_in_any_units_are_tuned() -> Outcome {
    let network = mlp(&[2, 3, 1])?;
    let data = random_data(&network, &family("gaussian")?, 9, 6);
    let mut sigmas = Vec::new();
    for scale in [1e-20, 1.0, 1e20] {
        let scaled = Dataset::new(data.inputs().clone(), data.targets() * scale)?;
        check_and_tune(&network, &scaled, &family("gaussian")?, &format!("targets of {scale:e}"))?;
        let mut laplace = fit(&network, &scaled.standardized(Standardize::InputsAndTargets)?, &family("gaussian")?)?;
        laplace.optimize(&EvidenceOptions::for_posterior(&laplace))?;
        sigmas.push(laplace.sigma().ok_or("a noise level")?[0] / scale);
    }
    assert!(sigmas.windows(2).all(|pair| is_close(pair[0], pair[1], 1e-6, 0.0)), "{sigmas:?}");
    Ok(())
}

#[test]
fn a_class_that_was_never_observed_and_a_hundred_classes_have_probabilities() -> Outcome {
    let network = mlp(&[2, 3, 4])?;
    let inputs = normal_matrix(9, 2, 3);
    let data = Dataset::new(inputs, Array2::from_shape_fn((9, 1), |(n, _)| (n % 3) as f64))?;
    check_and_tune(&network, &data, &family("categorical")?, "a class without data")?;
    let network = mlp(&[2, 2, 100])?;
    let data = random_data(&network, &family("categorical")?, 5, 3);
    check_and_tune(&network, &data, &family("categorical")?, "a hundred classes")
}

#[test]
fn a_thousand_outputs_are_an_exact_posterior_of_a_small_last_layer() -> Outcome {
    let network = mlp(&[1, 1, 1000])?;
    let inputs = normal_matrix(1, 1, 3);
    let data = Dataset::new(inputs.clone(), Array2::zeros((1, 1000)))?;
    let options = FitOptions { structure: Structure::Kronecker, ..Default::default() };
    let laplace = Laplace::fit(network, data, family("gaussian")?, &options)?;
    assert!(laplace.log_marginal_likelihood().is_finite());
    let prediction = laplace.predict(&inputs, &Method::Map)?;
    assert!(prediction.total_variance.iter().all(|value| value.is_finite() && *value > 0.0));
    Ok(())
}

#[test]
fn counts_of_a_million_are_counts() -> Outcome {
    let network = Network::new(Architecture::new(&[1, 1], Activation::Tanh)?, vec![0.1, 1e6_f64.ln()])?;
    let inputs = Array2::from_shape_fn((6, 1), |(n, _)| n as f64 - 2.5);
    let targets = inputs.mapv(|x| ((0.1 * x).exp() * 1e6).round());
    let data = Dataset::new(inputs.clone(), targets)?;
    check_and_tune(&network, &data, &family("poisson")?, "counts of a million")?;
    let laplace = fit(&network, &data, &family("poisson")?)?;
    let (lower, upper) = laplace.predict(&inputs, &Method::default())?.interval(0.9)?;
    // A rate of a million has a deviation of a thousand, and so has its estimate from six of them, nearly.
    let width = upper[(2, 0)] - lower[(2, 0)];
    assert!((2.0 * 1.6 * 900.0..2.0 * 1.7 * 1600.0).contains(&width), "{width}");
    Ok(())
}
