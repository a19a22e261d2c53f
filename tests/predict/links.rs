//! From a Gaussian over raw outputs to predictions: closed forms and links against quadrature, formulas and samples.

use riemannian_laplace::Family;
use riemannian_laplace::Link;
use riemannian_laplace::internals::predict::{MonteCarlo, SampledPredictive};

use crate::common::{Outcome, assert_all_close, is_close};
use crate::{SAMPLES, expectation, latent, latent_vector, linear_posterior, sigmoid};

#[test]
fn probit_and_monte_carlo_agree_with_quadrature() -> Outcome {
    let means = [-4.0, -1.0, 0.0, 0.3, 2.0, 6.0, 1.0];
    let variances = [0.5, 3.0, 1.0, 0.01, 10.0, 4.0, 0.0];
    let latent = latent(&means, &variances);
    let family: Family = "bernoulli".parse()?;
    let probit = latent.moments(&family, Link::Probit)?;
    let settings = MonteCarlo { samples: SAMPLES, seed: 5 };
    let drawn = latent.moments(&family, Link::MonteCarlo(settings))?;
    assert_eq!(drawn, latent.moments(&family, Link::MonteCarlo(settings))?);
    for (t, (&m, &v)) in means.iter().zip(&variances).enumerate() {
        let at = (t, 0);
        let mean = expectation(m, v, sigmoid);
        let spread = expectation(m, v, |f| (sigmoid(f) - mean).powi(2));
        let noise = expectation(m, v, |f| sigmoid(f) * (1.0 - sigmoid(f)));
        // The approximation is known to be within 0.02 of the integral.
        assert!((probit.mean[at] - mean).abs() < 0.02, "probit {} for {mean}", probit.mean[at]);
        assert!((probit.mean[at] - sigmoid(m / (1.0 + std::f64::consts::PI / 8.0 * v).sqrt())).abs() < 1e-15);
        let error = (spread / SAMPLES as f64).sqrt();
        assert!((drawn.mean[at] - mean).abs() <= 5.0 * error + 1e-12, "{} for {mean}", drawn.mean[at]);
        // The sample variance of numbers between 0 and 1 has a standard error below half their size over √S.
        let bound = 5.0 * spread.sqrt() * 0.5 / (SAMPLES as f64).sqrt() + 1e-12;
        assert!((drawn.epistemic_variance[at] - spread).abs() < bound);
        assert!((drawn.aleatoric_variance[at] - noise).abs() < bound);
        // The two parts add up to the variance of a 0/1 variable.
        for prediction in [&probit, &drawn] {
            let total = prediction.mean[at] * (1.0 - prediction.mean[at]);
            assert!((prediction.total_variance[at] - total).abs() < 1e-12);
        }
        assert!((probit.epistemic_variance[at] - spread).abs() < 0.1, "{} for {spread}", probit.epistemic_variance[at]);
    }
    // To first order in a small variance the epistemic part is (p(1 − p))²·v.
    assert!(is_close(probit.epistemic_variance[(3, 0)], 0.01 * (sigmoid(0.3) * sigmoid(-0.3)).powi(2), 0.01, 0.0));
    assert_eq!(probit.epistemic_variance[(6, 0)], 0.0);
    Ok(())
}

#[test]
fn two_classes_by_softmax_are_a_bernoulli_of_the_difference() -> Outcome {
    // Monte Carlo over two correlated logits against quadrature over their difference.
    let latent = latent_vector(&[0.4, -0.9], &[1.5, 0.7, 0.7, 2.0]);
    let settings = MonteCarlo { samples: SAMPLES, seed: 2 };
    let drawn = latent.moments(&"categorical".parse()?, Link::MonteCarlo(settings))?;
    let (mean, variance) = (1.3, 1.5 + 2.0 - 2.0 * 0.7);
    let expected = expectation(mean, variance, sigmoid);
    let error = (expectation(mean, variance, |f| (sigmoid(f) - expected).powi(2)) / SAMPLES as f64).sqrt();
    assert!((drawn.mean[(0, 0)] - expected).abs() < 5.0 * error);
    assert!((drawn.mean.sum() - 1.0).abs() < 1e-12);
    Ok(())
}

/// The Laplace bridge as its paper writes it, without care for large numbers.
fn naive_bridge(mean: &[f64], covariance: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let size = mean.len();
    let row_sum = |i: usize| covariance[i * size..(i + 1) * size].iter().sum::<f64>();
    let total: f64 = covariance.iter().sum();
    let shift: f64 = mean.iter().sum();
    let logits: Vec<f64> = (0..size).map(|k| mean[k] - row_sum(k) * shift / total).collect();
    let variances: Vec<f64> = (0..size).map(|k| covariance[k * size + k] - row_sum(k) * row_sum(k) / total).collect();
    let classes = size as f64;
    let inverse: f64 = logits.iter().map(|f| (-f).exp()).sum();
    let concentration =
        |k: usize| (1.0 - 2.0 / classes + logits[k].exp() / (classes * classes) * inverse) / variances[k];
    let concentrations: Vec<f64> = (0..size).map(concentration).collect();
    let sum: f64 = concentrations.iter().sum();
    let probabilities: Vec<f64> = concentrations.iter().map(|alpha| alpha / sum).collect();
    let spread = probabilities.iter().map(|p| p * (1.0 - p) / (sum + 1.0)).collect();
    (probabilities, spread)
}

#[test]
fn the_bridge_follows_its_formula() -> Outcome {
    let family: Family = "categorical".parse()?;
    for (mean, covariance) in [
        (vec![0.3, -1.0], vec![0.8, 0.1, 0.1, 1.1]),
        (vec![0.3, -1.0, 2.0], vec![0.8, 0.1, 0.0, 0.1, 1.1, -0.3, 0.0, -0.3, 0.5]),
        (vec![1.0, 0.5, -0.2, 0.0], (0..16).map(|i| if i % 5 == 0 { 0.7 } else { 0.05 }).collect()),
    ] {
        let found = latent_vector(&mean, &covariance).moments(&family, Link::Bridge)?;
        let (probabilities, spread) = naive_bridge(&mean, &covariance);
        assert_all_close(&found.mean, &probabilities, 1e-13, "probabilities");
        assert_all_close(&found.epistemic_variance, &spread, 1e-13, "variances");
        // A common shift does not change the softmax; nor the bridge, for a covariance without one.
        assert!((found.mean.sum() - 1.0).abs() < 1e-13);
    }
    // One Bernoulli logit is two classes, one of whose logits is fixed: centred, (−f/2, f/2) with variance v/4 each.
    let (f, v) = (1.4, 0.6);
    let found = latent(&[f], &[v]).moments(&"bernoulli".parse()?, Link::Bridge)?;
    let alpha = |f: f64| 0.25 * (f / 2.0).exp() * ((f / 2.0).exp() + (-f / 2.0).exp()) / (v / 4.0);
    assert!(is_close(found.mean[(0, 0)], alpha(f) / (alpha(f) + alpha(-f)), 1e-14, 0.0));
    Ok(())
}

#[test]
fn the_bridge_survives_extreme_logits_and_covariances() -> Outcome {
    for (mean, covariance) in [
        (vec![800.0, -800.0, 0.0], vec![2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
        (vec![-800.0, 800.0], vec![3.0, 0.0, 0.0, 3.0]),
        (vec![800.0, 799.0, 800.5], vec![1e-8, 0.0, 0.0, 0.0, 1e-8, 0.0, 0.0, 0.0, 1e-8]),
        (vec![1.0, 2.0], vec![0.0; 4]),
        (vec![1.0, 2.0, 3.0], vec![1e12; 9]),
    ] {
        let found = latent_vector(&mean, &covariance).moments(&"categorical".parse()?, Link::Bridge)?;
        let values = found.mean.iter().chain(&found.total_variance).chain(&found.epistemic_variance);
        assert!(values.clone().all(|value| value.is_finite() && *value >= 0.0), "{mean:?}: {found:?}");
        assert!((found.mean.sum() - 1.0).abs() < 1e-12, "{mean:?}: {found:?}");
    }
    for f in [-800.0, 800.0] {
        let found = latent(&[f], &[4.0]).moments(&"bernoulli".parse()?, Link::Bridge)?;
        assert!((found.mean[(0, 0)] - if f > 0.0 { 1.0 } else { 0.0 }).abs() < 1e-12);
    }
    // Logits whose sum is certain (their covariance annihilates it): a shift does not change the softmax, so it must be
    // spread evenly, and not according to the row sums, which are rounding errors.
    let rounding = [4.5e-16, -2.3e-16, 8.9e-16];
    let covariance: Vec<f64> = (0..9).map(|i| if i % 4 == 0 { 2.0 + rounding[i / 4] } else { -1.0 }).collect();
    let found = latent_vector(&[5.0, 6.0, 4.5], &covariance).moments(&"categorical".parse()?, Link::Bridge)?;
    let even = [5.0 - 15.5 / 3.0, 6.0 - 15.5 / 3.0, 4.5 - 15.5 / 3.0];
    let inverse: f64 = even.iter().map(|f: &f64| (-f).exp()).sum();
    let weights = even.map(|f| 1.0 / 3.0 + f.exp() / 9.0 * inverse);
    let expected = weights.map(|weight| weight / weights.iter().sum::<f64>());
    assert_all_close(&found.mean, &expected, 1e-12, "a certain sum");
    Ok(())
}

#[test]
fn log_normal_rates_agree_with_samples_and_quadrature() -> Outcome {
    let family: Family = "poisson".parse()?;
    let (means, variances) = ([0.3, -1.0, 2.0], [0.2, 1.0, 0.05]);
    let prediction = latent(&means, &variances).moments(&family, Link::Probit)?;
    for (t, (&m, &v)) in means.iter().zip(&variances).enumerate() {
        let rate = expectation(m, v, f64::exp);
        let spread = expectation(m, v, |f| (f.exp() - rate).powi(2));
        assert!(is_close(prediction.mean[(t, 0)], rate, 1e-12, 0.0));
        assert!(is_close(prediction.epistemic_variance[(t, 0)], spread, 1e-11, 0.0));
        assert!(is_close(prediction.aleatoric_variance[(t, 0)], rate, 1e-12, 0.0));
    }
    // And with draws of the weights of a linear network.
    let (laplace, inputs) = linear_posterior(family)?;
    let latent = laplace.linearized(&inputs)?;
    let exact = latent.moments(laplace.family(), Link::Probit)?;
    let weights = laplace.sample(SAMPLES, 3)?;
    let found = SampledPredictive::new(&**laplace.model(), laplace.family(), weights.view(), &inputs)?.moments();
    for (at, variance) in exact.epistemic_variance.indexed_iter() {
        let deviation = (found.mean[at] - exact.mean[at]) / (variance / SAMPLES as f64).sqrt();
        assert!(deviation.abs() < 5.0, "{deviation} standard errors");
        // The fourth moment of a log-normal with v < 0.3 is below 20 squared variances.
        assert!((found.epistemic_variance[at] / variance - 1.0).abs() < 5.0 * (20.0 / SAMPLES as f64).sqrt());
    }
    Ok(())
}

#[test]
fn the_centred_link_ignores_what_all_logits_share() -> Outcome {
    let family: Family = "categorical".parse()?;
    // Adding a number of mean 3 and variance 5, correlated with nothing, to every logit.
    for (mean, covariance) in [
        (&[0.4, -0.9][..], &[1.5, 0.7, 0.7, 2.0][..]),
        (&[0.4, -0.9, 2.0], &[1.5, 0.7, -0.2, 0.7, 2.0, 0.3, -0.2, 0.3, 0.8]),
    ] {
        let shifted: Vec<f64> = mean.iter().map(|m| m + 3.0).collect();
        let widened: Vec<f64> = covariance.iter().map(|c| c + 5.0).collect();
        let plain = latent_vector(mean, covariance);
        let moved = latent_vector(&shifted, &widened);
        let (one, other) = (plain.moments(&family, Link::Centred)?, moved.moments(&family, Link::Centred)?);
        for (at, expected) in one.mean.indexed_iter() {
            assert!(is_close(other.mean[at], *expected, 1e-13, 0.0));
            assert!(is_close(other.epistemic_variance[at], one.epistemic_variance[at], 1e-12, 0.0));
        }
        assert!((one.mean.sum() - 1.0).abs() < 1e-14);
        let (one, other) = (plain.moments(&family, Link::Probit)?, moved.moments(&family, Link::Probit)?);
        assert!((one.mean[(0, 0)] - other.mean[(0, 0)]).abs() > 0.01, "the entrywise probit does not ignore it");
    }
    Ok(())
}

#[test]
fn the_centred_link_of_two_classes_is_a_probit_of_half_the_difference() -> Outcome {
    let (first, second, covariance) = (0.4, 1.7, [1.5, 0.7, 0.7, 2.0]);
    let pair = latent_vector(&[first, second], &covariance);
    let (difference, variance) = (second - first, 1.5 + 2.0 - 2.0 * 0.7);
    let single = latent(&[difference], &[variance]);
    let classes = pair.moments(&"categorical".parse()?, Link::Centred)?;
    let one = single.moments(&"bernoulli".parse()?, Link::Centred)?;
    let shrunk = difference / (1.0 + std::f64::consts::PI / 8.0 * variance / 4.0).sqrt();
    assert!(is_close(classes.mean[(0, 1)], sigmoid(shrunk), 1e-14, 0.0));
    assert!(is_close(one.mean[(0, 0)], sigmoid(shrunk), 1e-14, 0.0));
    assert!(is_close(classes.epistemic_variance[(0, 1)], one.epistemic_variance[(0, 0)], 1e-13, 0.0));
    for label in [0.0, 1.0] {
        let targets = ndarray::array![[label]];
        let of_pair = pair.log_densities(&"categorical".parse()?, Link::Centred, &targets)?[0];
        let of_single = single.log_densities(&"bernoulli".parse()?, Link::Centred, &targets)?[0];
        assert!(is_close(of_pair, of_single, 1e-14, 0.0));
        assert!(is_close(of_single, sigmoid((2.0 * label - 1.0) * shrunk).ln(), 1e-14, 0.0));
    }
    // Its uncertainty grows with that of the logit, up to indifference.
    let far = latent(&[difference], &[1e8]).moments(&"bernoulli".parse()?, Link::Centred)?;
    assert!((far.mean[(0, 0)] - 0.5).abs() < 1e-3);
    Ok(())
}

#[test]
fn the_centred_probit_is_the_probit_of_centred_logits_for_any_number_of_classes() -> Outcome {
    let family: Family = "categorical".parse()?;
    let (mean, k) = ([0.4, -0.9, 2.0], 3);
    let covariance = [1.5, 0.7, -0.2, 0.7, 2.0, 0.3, -0.2, 0.3, 0.8];
    let logits = latent_vector(&mean, &covariance);
    let found = logits.moments(&family, Link::CentredProbit)?;
    // By hand: P m and the diagonal of P C P, shrunk one by one.
    let projection = |i: usize, j: usize| if i == j { 2.0 / 3.0 } else { -1.0 / 3.0 };
    let shrunk = |i: usize| {
        let logit: f64 = (0..k).map(|j| projection(i, j) * mean[j]).sum();
        let pairs = (0..k).flat_map(|a| (0..k).map(move |b| (a, b)));
        let variance: f64 = pairs.map(|(a, b)| projection(i, a) * covariance[a * k + b] * projection(b, i)).sum();
        logit / (1.0 + std::f64::consts::PI / 8.0 * variance).sqrt()
    };
    let total: f64 = (0..k).map(|i| shrunk(i).exp()).sum();
    for i in 0..k {
        assert!(is_close(found.mean[(0, i)], shrunk(i).exp() / total, 1e-13, 0.0));
        let log_density = logits.log_densities(&family, Link::CentredProbit, &ndarray::array![[i as f64]])?[0];
        assert!(is_close(log_density, found.mean[(0, i)].ln(), 1e-12, 0.0));
    }
    // What all logits share counts for nothing.
    let moved = latent_vector(&mean.map(|m| m + 3.0), &covariance.map(|c| c + 5.0));
    let moved = moved.moments(&family, Link::CentredProbit)?;
    for (at, expected) in found.mean.indexed_iter() {
        assert!(is_close(moved.mean[at], *expected, 1e-13, 0.0));
        assert!(is_close(moved.epistemic_variance[at], found.epistemic_variance[at], 1e-12, 0.0));
    }
    // Two classes have it already, and so has one binary output.
    let pair = latent_vector(&[0.4, 1.7], &[1.5, 0.7, 0.7, 2.0]);
    assert_eq!(pair.moments(&family, Link::CentredProbit)?, pair.moments(&family, Link::Centred)?);
    let (binary, single): (Family, _) = ("bernoulli".parse()?, latent(&[1.3], &[2.1]));
    assert_eq!(single.moments(&binary, Link::CentredProbit)?, single.moments(&binary, Link::Centred)?);
    Ok(())
}

#[test]
fn the_centred_link_of_many_classes_is_the_bridge_from_centred_logits() -> Outcome {
    let family: Family = "categorical".parse()?;
    let (mean, k) = ([0.4, -0.9, 2.0, 0.1], 4);
    let root = [[1.0, 0.2, -0.3, 0.5], [0.0, 0.8, 0.4, -0.1], [0.6, 0.0, 0.9, 0.2], [-0.4, 0.3, 0.1, 0.7]];
    let covariance: Vec<f64> = (0..k * k).map(|at| (0..k).map(|c| root[at / k][c] * root[at % k][c]).sum()).collect();
    let latent = latent_vector(&mean, &covariance);
    let centred = latent.moments(&family, Link::Centred)?;
    // By hand: P m and the diagonal of P C P, then α.
    let projection = |i: usize, j: usize| if i == j { 0.75 } else { -0.25 };
    let logits: Vec<f64> = (0..k).map(|i| (0..k).map(|j| projection(i, j) * mean[j]).sum()).collect();
    let variance = |i: usize| -> f64 {
        let pairs = (0..k).flat_map(|a| (0..k).map(move |b| (a, b)));
        pairs.map(|(a, b)| projection(i, a) * covariance[a * k + b] * projection(b, i)).sum()
    };
    let inverse: f64 = logits.iter().map(|f| (-f).exp()).sum();
    let alpha: Vec<f64> = (0..k).map(|i| (0.5 + logits[i].exp() * inverse / 16.0) / variance(i)).collect();
    let total: f64 = alpha.iter().sum();
    for i in 0..k {
        let p = alpha[i] / total;
        assert!(is_close(centred.mean[(0, i)], p, 1e-13, 0.0));
        assert!(is_close(centred.epistemic_variance[(0, i)], p * (1.0 - p) / (1.0 + total), 1e-12, 0.0));
        let log_density = latent.log_densities(&family, Link::Centred, &ndarray::array![[i as f64]])?[0];
        assert!(is_close(log_density, p.ln(), 1e-12, 0.0));
    }
    // Where the logits sum to a certain number already, conditioning on it and subtracting the mean are the same.
    let certain: Vec<f64> = (0..k * k)
        .map(|at| {
            let pairs = (0..k).flat_map(|a| (0..k).map(move |b| (a, b)));
            pairs.map(|(a, b)| projection(at / k, a) * covariance[a * k + b] * projection(b, at % k)).sum()
        })
        .collect();
    let latent = latent_vector(&mean, &certain);
    let (centred, bridge) = (latent.moments(&family, Link::Centred)?, latent.moments(&family, Link::Bridge)?);
    for (at, expected) in bridge.mean.indexed_iter() {
        assert!(is_close(centred.mean[at], *expected, 1e-12, 0.0));
    }
    Ok(())
}
