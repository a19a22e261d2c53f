//! Predictions: samples against closed forms, closed forms against quadrature and Monte Carlo, summaries against their
//! definitions, scores on cases small enough for paper.

mod common;

use ndarray::{Array2, Array3, array};
use riemannian_laplace::evaluate::{Scores, expected_calibration_error};
use riemannian_laplace::laplace::{FitOptions, Laplace};
use riemannian_laplace::likelihood::Family;
use riemannian_laplace::network::{Activation, Network};
use riemannian_laplace::predict::{LatentGaussian, Link, MonteCarlo, Prediction, SampledPredictive};
use riemannian_laplace::{Error, Unsupported};

use common::{Outcome, architecture, assert_all_close, is_close, normal_matrix, random_data, random_network};

/// A Gaussian over one output at each of several points.
fn latent(means: &[f64], variances: &[f64]) -> LatentGaussian {
    let count = means.len();
    LatentGaussian {
        mean: Array2::from_shape_fn((count, 1), |(t, _)| means[t]),
        covariance: Array3::from_shape_fn((count, 1, 1), |(t, _, _)| variances[t]),
    }
}

/// A Gaussian over several outputs at one point.
fn latent_vector(mean: &[f64], covariance: &[f64]) -> LatentGaussian {
    let size = mean.len();
    LatentGaussian {
        mean: Array2::from_shape_fn((1, size), |(_, k)| mean[k]),
        covariance: Array3::from_shape_fn((1, size, size), |(_, i, j)| covariance[i * size + j]),
    }
}

/// ∫ g(f) N(f | m, v) df, by the trapezoidal rule with 4,001 nodes on ±10 standard deviations.
fn expectation(mean: f64, variance: f64, g: impl Fn(f64) -> f64) -> f64 {
    let (nodes, range) = (4001, 10.0);
    let step = 2.0 * range / (nodes - 1) as f64;
    let term = |i: usize| {
        let x = -range + i as f64 * step;
        g(mean + variance.sqrt() * x) * (-0.5 * x * x).exp()
    };
    (0..nodes).map(term).sum::<f64>() * step / (2.0 * std::f64::consts::PI).sqrt()
}

fn sigmoid(f: f64) -> f64 {
    1.0 / (1.0 + (-f).exp())
}

/// Samples from a posterior over a linear network, where the linearised predictive is exact.
fn linear_posterior(family: Family) -> Result<(Laplace, Array2<f64>), Box<dyn std::error::Error>> {
    let outputs = if matches!(family, Family::Categorical(_)) { 3 } else { 2 };
    let network = random_network(architecture(&[3, outputs], &[true], Activation::Identity), 3);
    let data = random_data(&network, &family, 25, 4);
    let laplace =
        Laplace::fit(network, data, family, &FitOptions { prior_precision: vec![0.8], ..Default::default() })?;
    Ok((laplace, normal_matrix(4, 3, 9)))
}

const SAMPLES: usize = 20_000;

#[test]
fn samples_of_a_linear_network_converge_to_the_linearised_predictive() -> Outcome {
    let (laplace, inputs) = linear_posterior(Family::gaussian_per_output(&[0.4, 0.9])?)?;
    let latent = laplace.linearized(&inputs)?;
    let sampled = laplace.sampled(laplace.sample(SAMPLES, 1)?.view(), &inputs)?;
    let (exact, found) = (latent.predict(laplace.family(), Link::Probit)?, sampled.prediction());
    let root = (SAMPLES as f64).sqrt();
    for (at, variance) in exact.epistemic_variance.indexed_iter() {
        let deviation = (found.mean[at] - exact.mean[at]) * root / variance.sqrt();
        assert!(deviation.abs() < 5.0, "the mean is {deviation} standard errors off");
        let deviation = (found.epistemic_variance[at] / variance - 1.0) * root / 2f64.sqrt();
        assert!(deviation.abs() < 5.0, "the variance is {deviation} standard errors off");
        assert_eq!(exact.aleatoric_variance[at], laplace.family().sigma().unwrap_or_default()[at.1].powi(2));
        assert!(is_close(found.aleatoric_variance[at], exact.aleatoric_variance[at], 1e-12, 0.0));
    }
    // The covariance between outputs, too.
    for t in 0..inputs.nrows() {
        let draws = sampled.outputs();
        let product = |s: usize| (draws[(s, t, 0)] - latent.mean[(t, 0)]) * (draws[(s, t, 1)] - latent.mean[(t, 1)]);
        let found = (0..SAMPLES).map(product).sum::<f64>() / SAMPLES as f64;
        let covariance = &latent.covariance;
        // Var(xy) = v₁v₂ + c² for two jointly normal numbers.
        let spread = (covariance[(t, 0, 0)] * covariance[(t, 1, 1)] + covariance[(t, 0, 1)].powi(2)).sqrt();
        assert!((found - covariance[(t, 0, 1)]).abs() < 5.0 * spread / root);
    }
    // The log density of a mixture over samples goes to that of the Gaussian.
    let targets = laplace.outputs(&inputs)? + 0.3;
    let exact = Scores::of_linearized(&latent, laplace.family(), Link::Probit, &targets)?;
    let found = Scores::of_sampled(&sampled, laplace.family(), &targets)?;
    assert!((exact.nll() - found.nll()).abs() < 0.01, "{exact:?} and {found:?}");
    Ok(())
}

#[test]
fn probit_and_monte_carlo_agree_with_quadrature() -> Outcome {
    let means = [-4.0, -1.0, 0.0, 0.3, 2.0, 6.0, 1.0];
    let variances = [0.5, 3.0, 1.0, 0.01, 10.0, 4.0, 0.0];
    let latent = latent(&means, &variances);
    let family: Family = "bernoulli".parse()?;
    let probit = latent.predict(&family, Link::Probit)?;
    let settings = MonteCarlo { samples: SAMPLES, seed: 5 };
    let drawn = latent.predict(&family, Link::MonteCarlo(settings))?;
    assert_eq!(drawn, latent.predict(&family, Link::MonteCarlo(settings))?);
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
        // A variance of numbers between 0 and 1 has a standard error below a half of theirs over √S.
        let bound = 5.0 * spread.sqrt() * 0.5 / (SAMPLES as f64).sqrt() + 1e-12;
        assert!((drawn.epistemic_variance[at] - spread).abs() < bound);
        assert!((drawn.aleatoric_variance[at] - noise).abs() < bound);
        // Both parts make the variance of a 0/1 variable.
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
    let drawn = latent.predict(&"categorical".parse()?, Link::MonteCarlo(settings))?;
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
        let found = latent_vector(&mean, &covariance).predict(&family, Link::Bridge)?;
        let (probabilities, spread) = naive_bridge(&mean, &covariance);
        assert_all_close(&found.mean, &probabilities, 1e-13, "probabilities");
        assert_all_close(&found.epistemic_variance, &spread, 1e-13, "variances");
        // Softmax does not see a common shift; nor does the bridge of a covariance that has none in it.
        assert!((found.mean.sum() - 1.0).abs() < 1e-13);
    }
    // One Bernoulli logit is two classes, one of whose logits is fixed: centred, (−f/2, f/2) with variance v/4 each.
    let (f, v) = (1.4, 0.6);
    let found = latent(&[f], &[v]).predict(&"bernoulli".parse()?, Link::Bridge)?;
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
        let found = latent_vector(&mean, &covariance).predict(&"categorical".parse()?, Link::Bridge)?;
        let values = found.mean.iter().chain(&found.total_variance).chain(&found.epistemic_variance);
        assert!(values.clone().all(|value| value.is_finite() && *value >= 0.0), "{mean:?}: {found:?}");
        assert!((found.mean.sum() - 1.0).abs() < 1e-12, "{mean:?}: {found:?}");
    }
    for f in [-800.0, 800.0] {
        let found = latent(&[f], &[4.0]).predict(&"bernoulli".parse()?, Link::Bridge)?;
        assert!((found.mean[(0, 0)] - if f > 0.0 { 1.0 } else { 0.0 }).abs() < 1e-12);
    }
    // Logits whose sum is certain (their covariance annihilates it): softmax sees the same after any shift, so the shift
    // must be spread evenly, not by the rounding errors that the row sums are.
    let rounding = [4.5e-16, -2.3e-16, 8.9e-16];
    let covariance: Vec<f64> = (0..9).map(|i| if i % 4 == 0 { 2.0 + rounding[i / 4] } else { -1.0 }).collect();
    let found = latent_vector(&[5.0, 6.0, 4.5], &covariance).predict(&"categorical".parse()?, Link::Bridge)?;
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
    let prediction = latent(&means, &variances).predict(&family, Link::Probit)?;
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
    let exact = latent.predict(laplace.family(), Link::Probit)?;
    let found = laplace.sampled(laplace.sample(SAMPLES, 3)?.view(), &inputs)?.prediction();
    for (at, variance) in exact.epistemic_variance.indexed_iter() {
        let deviation = (found.mean[at] - exact.mean[at]) / (variance / SAMPLES as f64).sqrt();
        assert!(deviation.abs() < 5.0, "{deviation} standard errors");
        // The fourth moment of a log-normal with v < 0.3 is below 20 squared variances.
        assert!((found.epistemic_variance[at] / variance - 1.0).abs() < 5.0 * (20.0 / SAMPLES as f64).sqrt());
    }
    Ok(())
}

#[test]
fn poisson_densities_are_integrals_over_the_rate() -> Outcome {
    let family: Family = "poisson".parse()?;
    let likelihood = family.likelihood();
    // From the ordinary to counts far out in the tail of the rate, and rates so uncertain that the likelihood is a spike.
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
        let scores = Scores::of_linearized(&latent(&[m], &[v]), &family, Link::Probit, &array![[y]])?;
        // A fine rule in the log rate itself, around the top of the integrand, as far as it matters.
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
    let exact = Scores::of_linearized(&laplace.linearized(&inputs)?, &family, Link::Probit, &targets)?;
    let sampled = laplace.sampled(laplace.sample(SAMPLES, 8)?.view(), &inputs)?;
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

/// Var y of a mixture, directly: E(y²) − E(y)² over samples of (mean, variance) of y.
fn mixture_variance(family: &Family, outputs: &Array3<f64>, t: usize, k: usize) -> (f64, f64) {
    let (samples, _, p) = outputs.dim();
    let (mut first, mut second) = (0.0, 0.0);
    for s in 0..samples {
        let f: Vec<f64> = (0..p).map(|p| outputs[(s, t, p)]).collect();
        let (mean, variance) = match family {
            Family::Gaussian(gaussian) => (f[k], gaussian.sigmas()[k % gaussian.sigmas().len()].powi(2)),
            Family::Bernoulli(_) => (sigmoid(f[k]), sigmoid(f[k]) * sigmoid(-f[k])),
            Family::Categorical(_) => {
                let p = f[k].exp() / f.iter().map(|f| f.exp()).sum::<f64>();
                (p, p * (1.0 - p))
            }
            Family::Poisson(_) => (f[k].exp(), f[k].exp()),
        };
        first += mean / samples as f64;
        second += (variance + mean * mean) / samples as f64;
    }
    (first, second - first * first)
}

fn sampled(family: &Family, outputs: usize) -> Result<SampledPredictive, Error> {
    let shape = architecture(&[2, 4, outputs], &[true, true], Activation::Tanh);
    let weights = normal_matrix(40, shape.n_params(), 3);
    SampledPredictive::new(&shape, family, weights.view(), &normal_matrix(6, 2, 4))
}

#[test]
fn the_variance_of_a_mixture_is_epistemic_and_aleatoric() -> Outcome {
    for (family, outputs) in [
        (Family::gaussian(0.4)?, 2),
        (Family::gaussian_per_output(&[0.4, 1.2])?, 2),
        ("bernoulli".parse()?, 2),
        ("categorical".parse()?, 3),
        ("poisson".parse()?, 1),
    ] {
        let sampled = sampled(&family, outputs)?;
        let prediction = sampled.prediction();
        for (at, total) in prediction.total_variance.indexed_iter() {
            let (mean, variance) = mixture_variance(&family, sampled.outputs(), at.0, at.1);
            let name = format!("{} at {at:?}", family.likelihood().name());
            assert!(is_close(prediction.mean[at], mean, 1e-13, 0.0), "mean of {name}");
            assert!(is_close(*total, variance, 1e-12, mean * mean), "variance of {name}: {total}, not {variance}");
            assert_eq!(*total, prediction.epistemic_variance[at] + prediction.aleatoric_variance[at]);
            assert!(prediction.epistemic_variance[at] > 0.0 && prediction.aleatoric_variance[at] > 0.0);
        }
    }
    Ok(())
}

#[test]
fn entropies_follow_their_definition() -> Outcome {
    let entropy = |p: &[f64]| -> f64 { p.iter().map(|p| -p * p.ln()).sum() };
    for (family, outputs) in [("categorical".parse::<Family>()?, 3), ("bernoulli".parse()?, 2)] {
        let mixture = sampled(&family, outputs)?;
        let prediction = mixture.prediction();
        let (found, information) = (prediction.entropy.ok_or("none")?, prediction.mutual_information.ok_or("none")?);
        let (samples, points, _) = mixture.outputs().dim();
        let of_output = |f: Vec<f64>| match family {
            Family::Bernoulli(_) => f.iter().map(|f| vec![sigmoid(*f), sigmoid(-f)]).collect(),
            _ => {
                let total: f64 = f.iter().map(|f| f.exp()).sum();
                vec![f.iter().map(|f| f.exp() / total).collect::<Vec<f64>>()]
            }
        };
        for t in 0..points {
            let tables: Vec<Vec<Vec<f64>>> =
                (0..samples).map(|s| of_output((0..outputs).map(|k| mixture.outputs()[(s, t, k)]).collect())).collect();
            let (mut of_mean, mut mean_of) = (0.0, 0.0);
            for variable in 0..tables[0].len() {
                let average = |k: usize| tables.iter().map(|table| table[variable][k]).sum::<f64>() / samples as f64;
                of_mean += entropy(&(0..tables[0][variable].len()).map(average).collect::<Vec<f64>>());
                mean_of += tables.iter().map(|table| entropy(&table[variable])).sum::<f64>() / samples as f64;
            }
            assert!(is_close(found[t], of_mean, 1e-13, 0.0));
            assert!((information[t] - (of_mean - mean_of)).abs() < 1e-13);
            assert!(information[t] > 0.0 && information[t] < found[t]);
        }
    }
    // One network knows its own mind.
    let shape = architecture(&[2, 3], &[true], Activation::Identity);
    let one = SampledPredictive::new(
        &shape,
        &"categorical".parse()?,
        normal_matrix(1, 9, 1).view(),
        &normal_matrix(3, 2, 1),
    )?;
    assert!(one.prediction().mutual_information.ok_or("none")?.iter().all(|value| value.abs() < 1e-15));
    // Regression and counts have no entropy.
    assert!(sampled(&Family::gaussian(1.0)?, 1)?.prediction().entropy.is_none());
    // A class that never happens adds nothing.
    let far = SampledPredictive::new(
        &shape,
        &"categorical".parse()?,
        array![[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 900.0, 0.0, -900.0]].view(),
        &array![[0.0, 0.0]],
    )?;
    assert_eq!(far.prediction().entropy.ok_or("none")?[0], 0.0);
    Ok(())
}

#[test]
fn quantiles_interpolate_between_samples() -> Outcome {
    // Five networks f(x) = wx with w = 3, 0, 1, 2, 4: at x = 1 the sorted values are 0 … 4, at x = −2 they are −8 … 0.
    let shape = architecture(&[1, 1], &[false], Activation::Identity);
    let weights = array![[3.0], [0.0], [1.0], [2.0], [4.0]];
    let sampled = SampledPredictive::new(&shape, &Family::gaussian(1.0)?, weights.view(), &array![[1.0], [-2.0]])?;
    let quantiles = sampled.quantiles(&[0.0, 0.1, 0.5, 0.625, 1.0])?;
    let expected = [[0.0, -8.0], [0.4, -7.2], [2.0, -4.0], [2.5, -3.0], [4.0, 0.0]];
    for (found, expected) in quantiles.iter().zip(expected) {
        assert_all_close(found, &expected, 1e-15, "quantiles");
    }
    assert!(matches!(sampled.quantiles(&[1.1]), Err(Error::Setting { .. })));
    assert!(sampled.quantiles(&[f64::NAN]).is_err());
    // For classes the quantiles are those of probabilities.
    let weights = array![[0.0], [800.0], [-800.0]];
    let classes = SampledPredictive::new(&shape, &"bernoulli".parse()?, weights.view(), &array![[1.0]])?;
    assert_eq!(classes.quantiles(&[0.5])?[0], array![[0.5]]);
    Ok(())
}

/// A linear posterior's prediction with given class probabilities.
fn with_mean(mean: Array2<f64>) -> Prediction {
    let zeros = Array2::zeros(mean.dim());
    Prediction {
        epistemic_variance: zeros.clone(),
        aleatoric_variance: zeros.clone(),
        total_variance: zeros,
        mean,
        entropy: None,
        mutual_information: None,
    }
}

#[test]
fn scores_of_cases_small_enough_for_paper() -> Outcome {
    // Regression: means 1 and 2 with σ = 2, targets 2 and 5.
    let family = Family::gaussian(2.0)?;
    let outputs = array![[1.0], [2.0]];
    let Scores::Regression(scores) =
        Scores::of_map(&with_mean(outputs.clone()), &outputs, &family, &array![[2.0], [5.0]])?
    else {
        panic!("not a regression");
    };
    let constant = 0.5 * (2.0 * std::f64::consts::PI * 4.0).ln();
    assert_eq!((scores.n, scores.mse), (2, 5.0));
    assert!(is_close(scores.nll, constant + (1.0 + 9.0) / 16.0, 1e-15, 0.0));
    // With an epistemic variance of 5 the predictive variance is 9.
    let uncertain = LatentGaussian { mean: outputs.clone(), covariance: Array3::from_elem((2, 1, 1), 5.0) };
    let scores = Scores::of_linearized(&uncertain, &family, Link::Probit, &array![[2.0], [5.0]])?;
    let expected = 0.5 * (2.0 * std::f64::consts::PI * 9.0).ln() + (1.0 + 9.0) / 36.0;
    assert!(is_close(scores.nll(), expected, 1e-14, 0.0));
    // Two correlated outputs: N(0, [[1, 1], [1, 1]] + diag(1, 3)) has determinant 7 and inverse [[4, −1], [−1, 2]]/7.
    let correlated = latent_vector(&[0.0, 0.0], &[1.0, 1.0, 1.0, 1.0]);
    let family = Family::gaussian_per_output(&[1.0, 3f64.sqrt()])?;
    let scores = Scores::of_linearized(&correlated, &family, Link::Probit, &array![[1.0, 2.0]])?;
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
        Scores::of_map(&with_mean(probabilities), &logits, &family, &labels)?,
        Scores::of_linearized(&certain, &family, Link::Probit, &labels)?,
    ] {
        let scores = classes(scores);
        assert_eq!(scores.n, 3);
        assert!(is_close(scores.accuracy, 2.0 / 3.0, 1e-15, 0.0));
        assert!(is_close(scores.brier, brier, 1e-14, 0.0));
        assert!(is_close(scores.nll, nll, 1e-14, 0.0));
        // Confidences 0.7 (right), 0.6 (wrong), 0.4 (right), each in a bin of its own.
        assert!(is_close(scores.ece, (0.3 + 0.6 + 0.6) / 3.0, 1e-14, 0.0));
    }

    // 0/1 targets: p = 0.9, 0.2, 0.6 with y = 1, 1, 0.
    let family: Family = "bernoulli".parse()?;
    let certain = latent(&[9f64.ln(), 0.25f64.ln(), 1.5f64.ln()], &[0.0; 3]);
    let scores = classes(Scores::of_linearized(&certain, &family, Link::Probit, &array![[1.0], [1.0], [0.0]])?);
    assert!(is_close(scores.accuracy, 1.0 / 3.0, 1e-15, 0.0));
    assert!(is_close(scores.brier, (0.01 + 0.64 + 0.36) / 3.0, 1e-14, 0.0));
    assert!(is_close(scores.nll, -(0.9f64.ln() + 0.2f64.ln() + 0.4f64.ln()) / 3.0, 1e-14, 0.0));
    assert!(is_close(scores.ece, (0.1 + 0.8 + 0.6) / 3.0, 1e-14, 0.0));

    // Counts, certain rates 1 and 2 with targets 0 and 3.
    let family: Family = "poisson".parse()?;
    let certain = latent(&[0.0, 2f64.ln()], &[0.0; 2]);
    let scores = Scores::of_linearized(&certain, &family, Link::Probit, &array![[0.0], [3.0]])?;
    let expected = -(-1.0 + (3.0 * 2f64.ln() - 2.0 - 6f64.ln())) / 2.0;
    assert!(is_close(scores.nll(), expected, 1e-9, 0.0), "{} for {expected}", scores.nll());
    Ok(())
}

#[test]
fn the_score_of_a_mixture_is_that_of_its_mean_density() -> Outcome {
    // Two networks f = ±1 (σ = 1) at one point, target 1.
    let shape = architecture(&[1, 1], &[false], Activation::Identity);
    let weights = array![[1.0], [-1.0]];
    let family = Family::gaussian(1.0)?;
    let sampled = SampledPredictive::new(&shape, &family, weights.view(), &array![[1.0]])?;
    let found = Scores::of_sampled(&sampled, &family, &array![[1.0]])?;
    let root = (2.0 * std::f64::consts::PI).sqrt();
    let expected = -(0.5 * (1.0 + (-2f64).exp()) / root).ln();
    assert!(is_close(found.nll(), expected, 1e-15, 0.0));
    // So far out that both densities underflow, the logarithm does not.
    let far = Scores::of_sampled(&sampled, &family, &array![[60.0]])?;
    let expected = 0.5 * 59f64.powi(2) + (2.0 * root).ln();
    assert!(is_close(far.nll(), expected, 1e-14, 0.0), "{} for {expected}", far.nll());
    assert!(Scores::of_sampled(&sampled, &family, &array![[1.0], [2.0]]).is_err());
    assert!(Scores::of_sampled(&sampled, &family, &array![[1.0, 2.0]]).is_err());
    Ok(())
}

#[test]
fn scores_of_confident_mistakes_are_finite() -> Outcome {
    // A logit of 800 for the wrong class costs 800, not infinity.
    for link in [Link::Probit, Link::Bridge] {
        let certain = latent_vector(&[800.0, 0.0, -3.0], &[1e-8, 0.0, 0.0, 0.0, 1e-8, 0.0, 0.0, 0.0, 1e-8]);
        let scores = Scores::of_linearized(&certain, &"categorical".parse()?, link, &array![[1.0]])?;
        assert!(scores.nll().is_finite(), "{link:?}: {scores:?}");
        for (f, y) in [(800.0, 0.0), (-800.0, 1.0)] {
            let scores = Scores::of_linearized(&latent(&[f], &[1e-8]), &"bernoulli".parse()?, link, &array![[y]])?;
            assert!(scores.nll().is_finite(), "{link:?} at {f}: {scores:?}");
        }
    }
    let scores =
        Scores::of_linearized(&latent(&[-800.0], &[0.0]), &"bernoulli".parse()?, Link::Probit, &array![[1.0]])?;
    assert!(is_close(scores.nll(), 800.0, 1e-14, 0.0), "{scores:?}");
    let drawn = Link::MonteCarlo(MonteCarlo { samples: 20, seed: 1 });
    let scores = Scores::of_linearized(&latent(&[800.0], &[0.0]), &"bernoulli".parse()?, drawn, &array![[0.0]])?;
    assert!(is_close(scores.nll(), 800.0, 1e-14, 0.0), "{scores:?}");
    Ok(())
}

#[test]
fn calibration_error_counts_bin_by_bin() {
    // Ten bins. Confidence 0.95 twice (one right), 0.65 once (right), exactly 0.7 once (wrong; it belongs to (0.6, 0.7]).
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
    let outcome = latent(&[0.0], &[1.0]).predict(&"bernoulli".parse()?, nothing);
    assert!(matches!(outcome, Err(Error::Setting { .. })));
    let message = Unsupported::Link { link: "probit", likelihood: "gaussian", instead: "none" }.to_string();
    assert!(message.contains("probit") && message.contains("gaussian"));
    // Targets that do not fit the prediction.
    let classes: Family = "categorical".parse()?;
    let certain = latent_vector(&[0.0, 1.0], &[1.0, 0.0, 0.0, 1.0]);
    for targets in [array![[0.0], [1.0]], array![[0.0, 1.0]], array![[2.0]], array![[0.5]], array![[-1.0]]] {
        assert!(Scores::of_linearized(&certain, &classes, Link::Probit, &targets).is_err(), "{targets} was accepted");
    }
    let wide = array![[0.0, 0.0, 0.0]];
    assert!(Scores::of_linearized(&certain, &Family::gaussian(1.0)?, Link::Probit, &wide).is_err());
    assert!(Scores::of_map(&with_mean(array![[0.5, 0.5]]), &array![[0.0, 0.0]], &classes, &array![[3.0]]).is_err());
    assert!(
        Scores::of_map(
            &with_mean(array![[0.5, 0.5]]),
            &array![[0.0, 0.0], [0.0, 0.0]],
            &classes,
            &array![[0.0], [1.0]]
        )
        .is_err()
    );
    assert!(
        Scores::of_map(&with_mean(Array2::zeros((0, 2))), &Array2::zeros((0, 2)), &classes, &Array2::zeros((0, 1)))
            .is_err()
    );
    // Noise levels, or covariances, that do not fit the mean.
    let three = Family::gaussian_per_output(&[1.0, 2.0, 3.0])?;
    assert!(matches!(certain.predict(&three, Link::Probit), Err(Error::Outputs(_))));
    let torn = LatentGaussian { mean: array![[0.0, 1.0]], covariance: Array3::zeros((1, 2, 1)) };
    assert!(torn.predict(&classes, Link::Probit).is_err());
    assert!(Scores::of_linearized(&torn, &classes, Link::Bridge, &array![[0.0]]).is_err());
    let shape = architecture(&[1, 2], &[false], Activation::Identity);
    let sampled = SampledPredictive::new(&shape, &classes, array![[1.0, 2.0]].view(), &array![[1.0]])?;
    assert!(Scores::of_sampled(&sampled, &classes, &array![[3.0]]).is_err());
    Ok(())
}

#[test]
fn a_prediction_of_the_network_alone_has_no_epistemic_part() -> Outcome {
    let network = Network::new(architecture(&[1, 1], &[true], Activation::Identity), vec![2.0, 0.5])?;
    let data = riemannian_laplace::data::Dataset::new(array![[0.0], [1.0]], array![[0.0], [1.0]])?;
    for (family, mean, variance) in [
        (Family::gaussian(0.3)?, 2.5, 0.09),
        ("bernoulli".parse()?, sigmoid(2.5), sigmoid(2.5) * sigmoid(-2.5)),
        ("poisson".parse()?, 2.5f64.exp(), 2.5f64.exp()),
    ] {
        let laplace = Laplace::fit(network.clone(), data.clone(), family, &FitOptions::default())?;
        let prediction = laplace.predict_map(&array![[1.0]])?;
        assert!(is_close(prediction.mean[(0, 0)], mean, 1e-15, 0.0));
        assert!(is_close(prediction.total_variance[(0, 0)], variance, 1e-14, 0.0));
        assert_eq!(prediction.epistemic_variance[(0, 0)], 0.0);
    }
    Ok(())
}
