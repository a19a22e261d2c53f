//! Networks at the edge of the arithmetic, and input that is refused.

use std::collections::HashMap;

use ndarray::{Array2, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::Error;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::internals::predict::{MonteCarlo, SampledPredictive};
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{FitOptions, Laplace, PriorValues, Structure};
use riemannian_laplace::{Link, Prediction};

use crate::common::{Outcome, architecture, forward, normal_matrix, random_data, random_network};
use crate::samples::assert_drawn_from;
use crate::{Case, SOLVERS};

#[test]
fn collapsed_units_have_the_precision_of_the_prior() -> Outcome {
    let architecture = architecture(&[2, 5, 2], &[true, true], Activation::Tanh);
    let mut theta = random_network(architecture.clone(), 3).parameters().to_vec();
    // No outgoing weights of the first three hidden units: nothing before them matters.
    for output in 0..2 {
        theta[15 + 5 * output..][..3].fill(0.0);
    }
    let network = Network::new(architecture, theta)?;
    for family in [Family::gaussian(0.3)?, "categorical".parse()?] {
        let data = random_data(&network, &family, 30, 1);
        let case =
            Case { name: "collapsed".to_string(), network: network.clone(), data, family, prior: vec![0.3, 0.9] };
        for solver in SOLVERS {
            let mut laplace = case.fit(solver);
            for unit in 0..3 {
                let mut direction = vec![0.0; 27];
                direction[2 * unit + 1] = 1.0;
                let mut product = vec![0.0; 27];
                laplace.precision().times(&direction, &mut product);
                direction[2 * unit + 1] = 0.3;
                assert_eq!(product, direction);
            }
            let optimum = laplace.optimize(&EvidenceOptions::default())?;
            assert!(optimum.converged && optimum.log_marginal_likelihood.is_finite(), "{optimum:?}");
            assert!(laplace.sample(4, 0)?.iter().all(|value| value.is_finite()));
        }
        assert_drawn_from(
            &case.fit(Structure::FunctionSpace).sample(4000, 2)?,
            case.network.parameters(),
            &case.dense_precision(),
            "collapsed",
        )?;
    }
    Ok(())
}

#[test]
fn saturated_networks_give_no_nan() -> Outcome {
    // tanh units at ±1 to the last bit, and logits up to ±800.
    let architecture = architecture(&[1, 3, 2], &[true, true], Activation::Tanh);
    let theta = vec![900.0, -700.0, 1e3, 0.5, 0.1, -0.3, 400.0, -200.0, 200.0, -400.0, 200.0, -200.0, 0.0, 0.0];
    let network = Network::new(architecture, theta)?;
    let inputs = array![[-2.0], [-0.7], [1e-4], [0.4], [3.0]];
    let outputs = forward(network.architecture(), network.parameters(), &inputs);
    assert!(outputs.iter().any(|f| *f == 800.0) && outputs.iter().any(|f| *f == -800.0));
    let labels = array![[0.0], [1.0], [1.0], [0.0], [1.0]];
    let pairs = Array2::from_shape_fn((5, 2), |(n, k)| if (n + k) % 2 == 0 { 1.0 } else { 0.0 });
    for (family, targets) in [
        (Family::gaussian(0.5)?, pairs.clone()),
        ("bernoulli".parse()?, pairs.clone()),
        ("categorical".parse()?, labels),
    ] {
        let data = Dataset::new(inputs.clone(), targets.clone())?;
        for solver in SOLVERS {
            let options = FitOptions { prior_precision: 1e-3.into(), structure: solver, ..Default::default() };
            let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
            let name = format!("{}, {solver:?}", family.likelihood().name());
            laplace.optimize(&EvidenceOptions::default())?;
            assert!(laplace.log_marginal_likelihood().is_finite(), "{name}");
            assert!(laplace.effective_parameters().is_finite(), "{name}");
            let samples = laplace.sample(5, 1)?;
            assert!(samples.iter().all(|value| value.is_finite()), "{name}");
            let latent = laplace.linearized(&inputs)?;
            assert!(latent.covariance.iter().all(|value| value.is_finite()), "{name}");
            let monte_carlo = Link::MonteCarlo(MonteCarlo { samples: 50, seed: 1 });
            for link in [Link::Probit, Link::Bridge, monte_carlo] {
                let prediction = latent.moments(&family, link)?;
                let values = [&prediction.mean, &prediction.epistemic_variance, &prediction.aleatoric_variance];
                assert!(values.iter().all(|array| array.iter().all(|value| value.is_finite())), "{name}, {link:?}");
            }
            let prediction = Prediction::of_weights(&laplace, samples.view(), &inputs)?;
            assert!(prediction.total_variance.iter().all(|value| value.is_finite()), "{name}");
        }
    }
    Ok(())
}

#[test]
fn rates_that_overflow_are_refused_with_their_place() -> Outcome {
    let network = Network::new(architecture(&[1, 1], &[false], Activation::Identity), vec![400.0])?;
    let family: Family = "poisson".parse()?;
    let data = Dataset::new(array![[0.0], [-2.0], [2.0]], array![[1.0], [0.0], [3.0]])?;
    for solver in SOLVERS {
        let options = FitOptions { structure: solver, ..Default::default() };
        let outcome = Laplace::fit(network.clone(), data.clone(), family.clone(), &options);
        assert!(matches!(outcome, Err(Error::NotFinite { row: 2, column: 0, .. })), "{:?}", outcome.err());
        // A rate of e⁻⁸⁰⁰ is not a problem.
        let harmless = data.select(&[0, 1])?;
        assert!(
            Laplace::fit(network.clone(), harmless, family.clone(), &options)?.log_marginal_likelihood().is_finite()
        );
    }
    Ok(())
}

#[test]
fn wrong_input_is_refused_with_a_reason() -> Outcome {
    let network = random_network(architecture(&[2, 3, 2], &[true, true], Activation::Tanh), 1);
    let inputs = normal_matrix(6, 2, 1);
    let fit = |inputs: Array2<f64>, targets: Array2<f64>, family: &str, prior: PriorValues| {
        let options = FitOptions { prior_precision: prior, ..Default::default() };
        Laplace::fit(network.clone(), Dataset::new(inputs, targets)?, family.parse()?, &options).map(|_| ())
    };
    let pairs = normal_matrix(6, 2, 2);
    let labels = Array2::zeros((6, 1));
    let mut complaints: HashMap<&str, Result<(), Error>> = HashMap::new();
    complaints.insert(
        "input columns: expected 2, found 3",
        fit(normal_matrix(6, 3, 1), pairs.clone(), "gaussian", PriorValues::default()),
    );
    complaints.insert(
        "target columns: expected 2, found 1",
        fit(inputs.clone(), labels.clone(), "gaussian", PriorValues::default()),
    );
    complaints.insert(
        "target columns: expected 1, found 2",
        fit(inputs.clone(), pairs.clone(), "categorical", PriorValues::default()),
    );
    complaints.insert("data point 3: categorical target 2", {
        let mut labels = labels.clone();
        labels[(3, 0)] = 2.0;
        fit(inputs.clone(), labels, "categorical", PriorValues::default())
    });
    complaints.insert(
        "data point 0: bernoulli target",
        fit(inputs.clone(), pairs.clone(), "bernoulli", PriorValues::default()),
    );
    complaints.insert("prior precision is 0", fit(inputs.clone(), pairs.clone(), "gaussian", 0.0.into()));
    complaints.insert(
        "prior precisions: expected 2, found 3",
        fit(inputs.clone(), pairs.clone(), "gaussian", vec![1.0; 3].into()),
    );
    complaints.insert(
        "target rows: expected 6, found 5",
        fit(inputs.clone(), normal_matrix(5, 2, 2), "gaussian", PriorValues::default()),
    );
    complaints.insert("no rows", fit(Array2::zeros((0, 2)), Array2::zeros((0, 2)), "gaussian", PriorValues::default()));
    for (words, outcome) in complaints {
        let error = outcome.expect_err(words);
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
        assert!(error.is_input());
    }

    let laplace = Laplace::fit(
        network.clone(),
        Dataset::new(inputs.clone(), pairs)?,
        Family::gaussian(1.0)?,
        &FitOptions::default(),
    )?;
    assert!(laplace.linearized(&normal_matrix(2, 3, 0)).is_err());
    assert!(laplace.linearized_joint(&Array2::zeros((0, 2))).is_err());
    for weights in [normal_matrix(2, 5, 0), Array2::zeros((0, 17))] {
        assert!(SampledPredictive::new(&network, laplace.family(), weights.view(), &inputs).is_err());
        assert!(Prediction::of_weights(&laplace, weights.view(), &inputs).is_err());
    }
    let mut bad = inputs;
    bad[(1, 1)] = f64::NAN;
    assert!(matches!(laplace.outputs(&bad), Err(Error::NotFinite { row: 1, column: 1, .. })));
    Ok(())
}
