//! Mixtures over sampled networks: against the linearised predictive where it is exact, and against their definition.

use ndarray::{Array3, array};
use riemannian_laplace::Activation;
use riemannian_laplace::Error;
use riemannian_laplace::Family;
use riemannian_laplace::Scores;
use riemannian_laplace::internals::predict::SampledPredictive;
use riemannian_laplace::{Link, Method, Prediction};

use crate::common::{Outcome, architecture, assert_all_close, is_close, normal_matrix};
use crate::{SAMPLES, linear_posterior, mixture, sigmoid, with_zeros};

#[test]
fn samples_of_a_linear_network_converge_to_the_linearised_predictive() -> Outcome {
    let (laplace, inputs) = linear_posterior(Family::gaussian_per_output(&[0.4, 0.9])?)?;
    let latent = laplace.linearized(&inputs)?;
    let weights = laplace.sample(SAMPLES, 1)?;
    let sampled = SampledPredictive::new(&**laplace.model(), laplace.family(), weights.view(), &inputs)?;
    let (exact, found) = (latent.moments(laplace.family(), Link::Probit)?, sampled.moments());
    let root = (SAMPLES as f64).sqrt();
    for (at, variance) in exact.epistemic_variance.indexed_iter() {
        let deviation = (found.mean[at] - exact.mean[at]) * root / variance.sqrt();
        assert!(deviation.abs() < 5.0, "the mean is {deviation} standard errors off");
        let deviation = (found.epistemic_variance[at] / variance - 1.0) * root / 2f64.sqrt();
        assert!(deviation.abs() < 5.0, "the variance is {deviation} standard errors off");
        assert_eq!(exact.aleatoric_variance[at], laplace.family().sigma().unwrap_or_default()[at.1].powi(2));
        assert!(is_close(found.aleatoric_variance[at], exact.aleatoric_variance[at], 1e-12, 0.0));
    }
    // Also the covariance between outputs.
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
    let exact = Scores::of(&laplace.predict(&inputs, &Method::Glm(Link::Probit))?, &targets)?;
    let found = Scores::of(&Prediction::of_weights(&laplace, weights.view(), &inputs)?, &targets)?;
    assert!((exact.nll() - found.nll()).abs() < 0.01, "{exact:?} and {found:?}");
    Ok(())
}

/// Var y of a mixture, directly: E(y²) − E(y)² over samples of (mean, variance) of y.
fn mixture_variance(family: &Family, outputs: &Array3<f64>, t: usize, k: usize) -> (f64, f64) {
    let (samples, _, p) = outputs.dim();
    let (mut first, mut second) = (0.0, 0.0);
    for s in 0..samples {
        let f: Vec<f64> = (0..p).map(|p| outputs[(s, t, p)]).collect();
        let (mean, variance) = match family.likelihood().name() {
            "gaussian" => {
                (f[k], family.sigma().unwrap_or_default()[k % family.sigma().unwrap_or_default().len()].powi(2))
            }
            "heteroscedastic" => (f[k], f[p / 2 + k].exp()),
            "bernoulli" => (sigmoid(f[k]), sigmoid(f[k]) * sigmoid(-f[k])),
            "categorical" => {
                let p = f[k].exp() / f.iter().map(|f| f.exp()).sum::<f64>();
                (p, p * (1.0 - p))
            }
            "poisson" => (f[k].exp(), f[k].exp()),
            other => panic!("{other}"),
        };
        first += mean / samples as f64;
        second += (variance + mean * mean) / samples as f64;
    }
    (first, second - first * first)
}

fn sampled(family: &Family, outputs: usize) -> Result<SampledPredictive, Error> {
    let shape = architecture(&[2, 4, outputs], &[true, true], Activation::Tanh);
    let weights = normal_matrix(40, shape.n_params(), 3);
    SampledPredictive::new(&with_zeros(&shape)?, family, weights.view(), &normal_matrix(6, 2, 4))
}

#[test]
fn the_variance_of_a_mixture_is_epistemic_and_aleatoric() -> Outcome {
    for (family, outputs) in [
        (Family::gaussian(0.4)?, 2),
        (Family::gaussian_per_output(&[0.4, 1.2])?, 2),
        ("bernoulli".parse()?, 2),
        ("categorical".parse()?, 3),
        ("poisson".parse()?, 1),
        ("heteroscedastic".parse()?, 4),
    ] {
        let sampled = sampled(&family, outputs)?;
        let prediction = sampled.moments();
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
        let prediction = mixture.moments();
        let (found, information) = (prediction.entropy.ok_or("none")?, prediction.mutual_information.ok_or("none")?);
        let (samples, points, _) = mixture.outputs().dim();
        let of_output = |f: Vec<f64>| match family.likelihood().name() {
            "bernoulli" => f.iter().map(|f| vec![sigmoid(*f), sigmoid(-f)]).collect(),
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
    // A single network has no epistemic uncertainty.
    let shape = architecture(&[2, 3], &[true], Activation::Identity);
    let one = SampledPredictive::new(
        &with_zeros(&shape)?,
        &"categorical".parse()?,
        normal_matrix(1, 9, 1).view(),
        &normal_matrix(3, 2, 1),
    )?;
    assert!(one.moments().mutual_information.ok_or("none")?.iter().all(|value| value.abs() < 1e-15));
    // Regression and counts have no entropy.
    assert!(sampled(&Family::gaussian(1.0)?, 1)?.moments().entropy.is_none());
    // A class that never happens adds nothing.
    let far = SampledPredictive::new(
        &with_zeros(&shape)?,
        &"categorical".parse()?,
        array![[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 900.0, 0.0, -900.0]].view(),
        &array![[0.0, 0.0]],
    )?;
    assert_eq!(far.moments().entropy.ok_or("none")?[0], 0.0);
    Ok(())
}

#[test]
fn quantiles_interpolate_between_samples() -> Outcome {
    // Five networks f(x) = wx with w = 3, 0, 1, 2, 4: at x = 1 the sorted values are 0 … 4, at x = −2 they are −8 … 0.
    let shape = architecture(&[1, 1], &[false], Activation::Identity);
    let weights = array![[3.0], [0.0], [1.0], [2.0], [4.0]];
    let sampled =
        SampledPredictive::new(&with_zeros(&shape)?, &Family::gaussian(1.0)?, weights.view(), &array![[1.0], [-2.0]])?;
    let quantiles = sampled.quantiles(&[0.0, 0.1, 0.5, 0.625, 1.0])?;
    let expected = [[0.0, -8.0], [0.4, -7.2], [2.0, -4.0], [2.5, -3.0], [4.0, 0.0]];
    for (found, expected) in quantiles.iter().zip(expected) {
        assert_all_close(found, &expected, 1e-15, "quantiles");
    }
    assert!(matches!(sampled.quantiles(&[1.1]), Err(Error::QuantileLevel(1.1))));
    assert!(sampled.quantiles(&[f64::NAN]).is_err());
    // For classes the quantiles are those of probabilities.
    let weights = array![[0.0], [800.0], [-800.0]];
    let classes = SampledPredictive::new(&with_zeros(&shape)?, &"bernoulli".parse()?, weights.view(), &array![[1.0]])?;
    assert_eq!(classes.quantiles(&[0.5])?[0], array![[0.5]]);
    Ok(())
}

#[test]
fn the_score_of_a_mixture_is_that_of_its_mean_density() -> Outcome {
    // Two networks f = ±1 (σ = 1) at one point, target 1.
    let shape = architecture(&[1, 1], &[false], Activation::Identity);
    let weights = array![[1.0], [-1.0]];
    let family = Family::gaussian(1.0)?;
    let prediction = mixture(&shape, &family, weights.view(), &array![[1.0]])?;
    let found = Scores::of(&prediction, &array![[1.0]])?;
    let root = (2.0 * std::f64::consts::PI).sqrt();
    let expected = -(0.5 * (1.0 + (-2f64).exp()) / root).ln();
    assert!(is_close(found.nll(), expected, 1e-15, 0.0));
    // Far out, both densities underflow; the logarithm does not.
    let far = Scores::of(&prediction, &array![[60.0]])?;
    let expected = 0.5 * 59f64.powi(2) + (2.0 * root).ln();
    assert!(is_close(far.nll(), expected, 1e-14, 0.0), "{} for {expected}", far.nll());
    assert!(Scores::of(&prediction, &array![[1.0], [2.0]]).is_err());
    assert!(Scores::of(&prediction, &array![[1.0, 2.0]]).is_err());
    Ok(())
}
