//! Log densities and scores: against quadrature, and on cases small enough to compute by hand.

use ndarray::{Array2, Array3, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::Scores;
use riemannian_laplace::internals::evaluate::expected_calibration_error;
use riemannian_laplace::internals::predict::{LatentGaussian, MonteCarlo, SampledPredictive};
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{Error, Unsupported};
use riemannian_laplace::{FitOptions, Laplace};
use riemannian_laplace::{Link, Method};

use crate::common::{Outcome, architecture, is_close};
use crate::{SAMPLES, latent, latent_vector, linear_posterior, mixture, posterior_of, predicted, scores_of, sigmoid};

#[test]
fn poisson_densities_are_integrals_over_the_rate() -> Outcome {
    let family: Family = "poisson".parse()?;
    let likelihood = family.likelihood();
    // From ordinary counts to counts far out in the tail of the rate, and rates so uncertain that the likelihood is a
    // spike.
    for (m, v, y) in [
        (0.3, 0.2, 2.0),
        (-1.0, 1.0, 0.0),
        (2.0, 0.05, 9.0),
        (0.0, 0.0, 1.0),
        (2.0, 4.0, 1000.0),
        (5.0, 9.0, 100_000.0),
        (0.0, 100.0, 0.0),
        (0.0, 1.0, 3000.0),
        (-30.0, 0.5, 4.0),
        (8.0, 1e-6, 3000.0),
    ] {
        let scores = scores_of(&latent(&[m], &[v]), &family, Link::Probit, &array![[y]])?;
        // A fine rule in the log rate itself, around the maximum of the integrand, as far as it matters.
        let log = |f: f64| likelihood.log_density(&[y], &[f]) - 0.5 * (f - m).powi(2) / v;
        let expected = if v == 0.0 {
            -likelihood.log_density(&[y], &[m])
        } else {
            let (low, high) = (m - 15.0 * v.sqrt() - 2.0, (m + 15.0 * v.sqrt()).max((y + 1.0).ln() + 2.0));
            let coarse = |low: f64, high: f64| {
                let at = |i: usize| low + (high - low) * i as f64 / 4e5;
                (0..=400_000)
                    .map(at)
                    .map(|f| (f, log(f)))
                    .fold((0.0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a })
            };
            let (place, top) = coarse(low, high);
            let width = 1.0 / (place.exp() + 1.0 / v).sqrt();
            let (low, high) = (low.max(place - 60.0 * width - 40.0 * v.sqrt().min(1.0)), high);
            let (nodes, mut sum) = (2_000_000, 0.0);
            let step = (high - low) / f64::from(nodes);
            for i in 0..=nodes {
                sum += (log(low + step * f64::from(i)) - top).exp();
            }
            -(top + (sum * step / (2.0 * std::f64::consts::PI * v).sqrt()).ln())
        };
        let found = scores.nll();
        assert!(is_close(found, expected, 1e-8, 1.0), "NLL of {y} under N({m}, {v}): {found}, expected {expected}");
    }

    // By Monte Carlo over the weights of a linear network.
    let (laplace, inputs) = linear_posterior(family.clone())?;
    let targets = array![[0.0, 1.0], [2.0, 0.0], [1.0, 3.0], [0.0, 0.0]];
    let exact = Scores::of(&laplace.predict(&inputs, &Method::Glm(Link::Probit))?, &targets)?;
    let weights = laplace.sample(SAMPLES, 8)?;
    let sampled = SampledPredictive::new(&**laplace.model(), &family, weights.view(), &inputs)?;
    // The outputs share their weights: the mixture over samples knows their correlation, the sum over outputs does not.
    // So output by output.
    let mut sum = 0.0;
    for ((t, k), y) in targets.indexed_iter() {
        let density = |s: usize| likelihood.log_density(&[*y], &[sampled.outputs()[(s, t, k)]]).exp();
        sum -= ((0..SAMPLES).map(density).sum::<f64>() / SAMPLES as f64).ln();
    }
    assert!((exact.nll() - sum / 4.0).abs() < 0.02, "{} and {}", exact.nll(), sum / 4.0);
    Ok(())
}

#[test]
fn scores_of_cases_small_enough_for_paper() -> Outcome {
    // Regression: means 1 and 2 with σ = 2, targets 2 and 5.
    let family = Family::gaussian(2.0)?;
    let outputs = array![[1.0], [2.0]];
    let alone = predicted(&latent(&[1.0, 2.0], &[0.0; 2]), &family, &Method::Map)?;
    assert_eq!(alone.mean, outputs);
    let Scores::Regression(scores) = Scores::of(&alone, &array![[2.0], [5.0]])? else {
        panic!("not a regression");
    };
    let constant = 0.5 * (2.0 * std::f64::consts::PI * 4.0).ln();
    assert_eq!((scores.n, scores.mse), (2, 5.0));
    assert!(is_close(scores.nll, constant + (1.0 + 9.0) / 16.0, 1e-15, 0.0));
    // With an epistemic variance of 5 the predictive variance is 9.
    let uncertain = LatentGaussian { mean: outputs.clone(), covariance: Array3::from_elem((2, 1, 1), 5.0) };
    let scores = scores_of(&uncertain, &family, Link::Probit, &array![[2.0], [5.0]])?;
    let expected = 0.5 * (2.0 * std::f64::consts::PI * 9.0).ln() + (1.0 + 9.0) / 36.0;
    assert!(is_close(scores.nll(), expected, 1e-14, 0.0));
    // Two correlated outputs: N(0, [[1, 1], [1, 1]] + diag(1, 3)) has determinant 7 and inverse [[4, −1], [−1, 2]]/7.
    let correlated = latent_vector(&[0.0, 0.0], &[1.0, 1.0, 1.0, 1.0]);
    let family = Family::gaussian_per_output(&[1.0, 3f64.sqrt()])?;
    let scores = scores_of(&correlated, &family, Link::Probit, &array![[1.0, 2.0]])?;
    let expected = (2.0 * std::f64::consts::PI).ln() + 0.5 * 7f64.ln() + 0.5 * (4.0 - 4.0 + 8.0) / 7.0;
    assert!(is_close(scores.nll(), expected, 1e-14, 0.0), "{} for {expected}", scores.nll());

    // Classes: probabilities (0.7, 0.2, 0.1), (0.3, 0.6, 0.1), (0.25, 0.35, 0.4) with labels 0, 0, 2.
    let probabilities = array![[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.25, 0.35, 0.4]];
    let logits = probabilities.mapv(f64::ln);
    let labels = array![[0.0], [0.0], [2.0]];
    let classes = |scores: Scores| match scores {
        Scores::Classes(scores) => scores,
        other => panic!("not classes: {other:?}"),
    };
    let family: Family = "categorical".parse()?;
    let brier = ((0.09 + 0.04 + 0.01) + (0.49 + 0.36 + 0.01) + (0.0625 + 0.1225 + 0.36)) / 3.0;
    let nll = -(0.7f64.ln() + 0.3f64.ln() + 0.4f64.ln()) / 3.0;
    let certain = LatentGaussian { mean: logits.clone(), covariance: Array3::zeros((3, 3, 3)) };
    for scores in [
        Scores::of(&predicted(&certain, &family, &Method::Map)?, &labels)?,
        scores_of(&certain, &family, Link::Probit, &labels)?,
    ] {
        let scores = classes(scores);
        assert_eq!(scores.n, 3);
        assert!(is_close(scores.accuracy, 2.0 / 3.0, 1e-15, 0.0));
        assert!(is_close(scores.brier, brier, 1e-14, 0.0));
        assert!(is_close(scores.nll, nll, 1e-14, 0.0));
        // Confidences 0.7 (right), 0.6 (wrong), 0.4 (right), each in its own bin.
        assert!(is_close(scores.ece, (0.3 + 0.6 + 0.6) / 3.0, 1e-14, 0.0));
    }

    // 0/1 targets: p = 0.9, 0.2, 0.6 with y = 1, 1, 0.
    let family: Family = "bernoulli".parse()?;
    let certain = latent(&[9f64.ln(), 0.25f64.ln(), 1.5f64.ln()], &[0.0; 3]);
    let scores = classes(scores_of(&certain, &family, Link::Probit, &array![[1.0], [1.0], [0.0]])?);
    assert!(is_close(scores.accuracy, 1.0 / 3.0, 1e-15, 0.0));
    assert!(is_close(scores.brier, (0.01 + 0.64 + 0.36) / 3.0, 1e-14, 0.0));
    assert!(is_close(scores.nll, -(0.9f64.ln() + 0.2f64.ln() + 0.4f64.ln()) / 3.0, 1e-14, 0.0));
    assert!(is_close(scores.ece, (0.1 + 0.8 + 0.6) / 3.0, 1e-14, 0.0));

    // Counts, certain rates 1 and 2 with targets 0 and 3.
    let family: Family = "poisson".parse()?;
    let certain = latent(&[0.0, 2f64.ln()], &[0.0; 2]);
    let scores = scores_of(&certain, &family, Link::Probit, &array![[0.0], [3.0]])?;
    let expected = -(-1.0 + (3.0 * 2f64.ln() - 2.0 - 6f64.ln())) / 2.0;
    assert!(is_close(scores.nll(), expected, 1e-9, 0.0), "{} for {expected}", scores.nll());
    Ok(())
}

#[test]
fn scores_of_confident_mistakes_are_finite() -> Outcome {
    // A logit of 800 for the wrong class costs 800, not infinity.
    for link in [Link::Probit, Link::Bridge] {
        let certain = latent_vector(&[800.0, 0.0, -3.0], &[1e-8, 0.0, 0.0, 0.0, 1e-8, 0.0, 0.0, 0.0, 1e-8]);
        let scores = scores_of(&certain, &"categorical".parse()?, link, &array![[1.0]])?;
        assert!(scores.nll().is_finite(), "{link:?}: {scores:?}");
        for (f, y) in [(800.0, 0.0), (-800.0, 1.0)] {
            let scores = scores_of(&latent(&[f], &[1e-8]), &"bernoulli".parse()?, link, &array![[y]])?;
            assert!(scores.nll().is_finite(), "{link:?} at {f}: {scores:?}");
        }
    }
    let scores = scores_of(&latent(&[-800.0], &[0.0]), &"bernoulli".parse()?, Link::Probit, &array![[1.0]])?;
    assert!(is_close(scores.nll(), 800.0, 1e-14, 0.0), "{scores:?}");
    let drawn = Link::MonteCarlo(MonteCarlo { samples: 20, seed: 1 });
    let scores = scores_of(&latent(&[800.0], &[0.0]), &"bernoulli".parse()?, drawn, &array![[0.0]])?;
    assert!(is_close(scores.nll(), 800.0, 1e-14, 0.0), "{scores:?}");
    Ok(())
}

#[test]
fn calibration_error_counts_bin_by_bin() {
    // Ten bins. Confidence 0.95 twice (one right), 0.65 once (right), exactly 0.7 once (wrong; it belongs to (0.6,
    // 0.7]).
    let error = expected_calibration_error(&[0.95, 0.95, 0.65, 0.7], &[true, false, true, false], 10);
    let expected = ((0.95 * 2.0 - 1.0) + (0.65 + 0.7 - 1.0f64).abs()) / 4.0;
    assert!(is_close(error, expected, 1e-14, 0.0), "{error} for {expected}");
    // Certainty, right and wrong; no confidence at all; no data at all.
    assert_eq!(expected_calibration_error(&[1.0, 1.0], &[true, true], 15), 0.0);
    assert_eq!(expected_calibration_error(&[1.0, 1.0], &[false, false], 15), 1.0);
    assert_eq!(expected_calibration_error(&[0.0], &[false], 15), 0.0);
    assert_eq!(expected_calibration_error(&[], &[], 15), 0.0);
}

#[test]
fn requests_without_meaning_are_refused() -> Outcome {
    let nothing = Link::MonteCarlo(MonteCarlo { samples: 0, seed: 0 });
    let outcome = latent(&[0.0], &[1.0]).moments(&"bernoulli".parse()?, nothing);
    assert!(matches!(outcome, Err(Error::NoDraws)));
    let message = Unsupported::Link { link: "probit", likelihood: "gaussian", instead: "none" }.to_string();
    assert!(message.contains("probit") && message.contains("gaussian"));
    // Targets that do not fit the prediction.
    let classes: Family = "categorical".parse()?;
    let certain = latent_vector(&[0.0, 1.0], &[1.0, 0.0, 0.0, 1.0]);
    let linearized = predicted(&certain, &classes, &Method::Glm(Link::Probit))?;
    let alone = predicted(&certain, &classes, &Method::Map)?;
    for targets in
        [array![[0.0], [1.0]], array![[0.0, 1.0]], array![[2.0]], array![[0.5]], array![[-1.0]], array![[3.0]]]
    {
        for prediction in [&linearized, &alone] {
            assert!(Scores::of(prediction, &targets).is_err(), "{targets} was accepted");
        }
        assert!(certain.log_densities(&classes, Link::Probit, &targets).is_err(), "{targets} was accepted");
    }
    let regression = predicted(&certain, &Family::gaussian(1.0)?, &Method::Glm(Link::Probit))?;
    assert!(Scores::of(&regression, &array![[0.0, 0.0, 0.0]]).is_err());
    // No test points at all.
    let (laplace, _) = posterior_of(&certain, &classes)?;
    let nothing = laplace.predict(&Array2::zeros((0, 1)), &Method::Map);
    assert!(nothing.and_then(|prediction| Scores::of(&prediction, &Array2::zeros((0, 1)))).is_err());
    // Noise levels, or covariances, that do not fit the mean.
    let three = Family::gaussian_per_output(&[1.0, 2.0, 3.0])?;
    assert!(matches!(certain.moments(&three, Link::Probit), Err(Error::Outputs(_))));
    let torn = LatentGaussian { mean: array![[0.0, 1.0]], covariance: Array3::zeros((1, 2, 1)) };
    assert!(torn.moments(&classes, Link::Probit).is_err());
    assert!(torn.log_densities(&classes, Link::Bridge, &array![[0.0]]).is_err());
    let shape = architecture(&[1, 2], &[false], Activation::Identity);
    let sampled = mixture(&shape, &classes, array![[1.0, 2.0]].view(), &array![[1.0]])?;
    assert!(Scores::of(&sampled, &array![[3.0]]).is_err());
    Ok(())
}

#[test]
fn a_prediction_of_the_network_alone_has_no_epistemic_part() -> Outcome {
    let network = Network::new(architecture(&[1, 1], &[true], Activation::Identity), vec![2.0, 0.5])?;
    let data = Dataset::new(array![[0.0], [1.0]], array![[0.0], [1.0]])?;
    for (family, mean, variance) in [
        (Family::gaussian(0.3)?, 2.5, 0.09),
        ("bernoulli".parse()?, sigmoid(2.5), sigmoid(2.5) * sigmoid(-2.5)),
        ("poisson".parse()?, 2.5f64.exp(), 2.5f64.exp()),
    ] {
        let laplace = Laplace::fit(network.clone(), data.clone(), family, &FitOptions::default())?;
        let prediction = laplace.predict(&array![[1.0]], &Method::Map)?;
        assert!(is_close(prediction.mean[(0, 0)], mean, 1e-15, 0.0));
        assert!(is_close(prediction.total_variance[(0, 0)], variance, 1e-14, 0.0));
        assert_eq!(prediction.epistemic_variance[(0, 0)], 0.0);
    }
    Ok(())
}
