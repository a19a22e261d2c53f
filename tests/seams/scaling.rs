//! Standardised data: everything that leaves the posterior is in the units of the data.

use ndarray::{Array2, Axis};
use riemannian_laplace::{
    Activation, Architecture, Contents, Dataset, Draws, Error, EvidenceOptions, Family, FitOptions, Laplace, Link,
    Method, Network, Standardize, TrainingOptions, train,
};

use crate::common::{Outcome, assert_all_close, is_close, normal_matrix};
use crate::{bits, fit_bits, gaussian, prediction_bits};

/// Far from mean 0 and scale 1, each column in its own way.
fn original() -> Result<Dataset, Error> {
    let (noise, points) = (normal_matrix(40, 4, 61), 40);
    let inputs = Array2::from_shape_fn((points, 2), |(n, i)| [150.0, -3.0][i] + [40.0, 0.01][i] * noise[(n, i)]);
    let wave = |n: usize| (1.5 * noise[(n, 0)]).sin() + noise[(n, 1)];
    let target = |n: usize, k: usize| [2000.0, 0.5][k] + [300.0, -0.02][k] * (wave(n) + 0.3 * noise[(n, 2 + k)]);
    Dataset::new(inputs, Array2::from_shape_fn((points, 2), |(n, k)| target(n, k)))
}

/// The data, their standardised form, and a network trained on that.
fn trained(family: &Family) -> Result<(Dataset, Dataset, Network), Error> {
    let original = original()?;
    let scaled = original.standardized(Standardize::InputsAndTargets)?;
    let start = Network::random(Architecture::new(&[2, 5, 2], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 150, ..Default::default() };
    let network = train(&start, &scaled, family, &options, &())?.network;
    Ok((original, scaled, network))
}

/// Mean and standard deviation of each column, from their definition.
fn columns(values: &Array2<f64>) -> (Vec<f64>, Vec<f64>) {
    let rows = values.nrows() as f64;
    let mean: Vec<f64> = values.columns().into_iter().map(|column| column.sum() / rows).collect();
    let scale = values
        .columns()
        .into_iter()
        .zip(&mean)
        .map(|(column, mean)| (column.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / rows).sqrt());
    (mean.clone(), scale.collect())
}

fn ways() -> [Method; 5] {
    let samples = Draws::first(8, 3);
    [Method::Map, Method::Glm(Link::Probit), Method::Nn(samples), Method::riemannian(4, 3), Method::default()]
}

#[test]
fn predictions_are_in_the_units_of_the_data() -> Outcome {
    for family in [gaussian(0.35), Family::gaussian_per_output(&[0.3, 0.45])?] {
        let (original, scaled, network) = trained(&family)?;
        let options = FitOptions { prior_precision: 0.5.into(), ..Default::default() };
        let laplace = Laplace::fit(network.clone(), scaled.clone(), family.clone(), &options)?;
        // The same arrays without a word about their scaling.
        let plain = Dataset::new(scaled.inputs().clone(), scaled.targets().clone())?;
        let unscaled = Laplace::fit(network, plain, family.clone(), &options)?;
        let (shift, scale) = columns(original.targets());
        let (input_shift, input_scale) = columns(original.inputs());
        let log_scale: f64 = scale.iter().map(|scale| scale.ln()).sum();

        let inputs = original.inputs().select(Axis(0), &[0, 7, 11]) * 1.01;
        let own_inputs =
            Array2::from_shape_fn(inputs.dim(), |(t, i)| (inputs[(t, i)] - input_shift[i]) / input_scale[i]);
        let targets = original.targets().select(Axis(0), &[0, 7, 11]);
        let own_targets = Array2::from_shape_fn(targets.dim(), |(t, k)| (targets[(t, k)] - shift[k]) / scale[k]);
        let back = |value: f64, k: usize| value * scale[k] + shift[k];
        // The two columns differ by a factor of 10⁴ in size: each is compared on its own.
        let compare = |found: &Array2<f64>, expected: Array2<f64>, what: &str| {
            for k in 0..2 {
                assert_all_close(found.column(k), expected.column(k), 1e-12, what);
            }
        };
        let mapped = |values: &Array2<f64>| Array2::from_shape_fn(values.dim(), |(t, k)| back(values[(t, k)], k));
        let squared =
            |values: &Array2<f64>| Array2::from_shape_fn(values.dim(), |(t, k)| values[(t, k)] * scale[k] * scale[k]);
        for method in ways() {
            let name = method.name();
            let (found, own) = (laplace.predict(&inputs, &method)?, unscaled.predict(&own_inputs, &method)?);
            compare(&found.mean, mapped(&own.mean), name);
            compare(&found.total_variance, squared(&own.total_variance), name);
            compare(&found.aleatoric_variance, squared(&own.aleatoric_variance), name);
            if name != "map" {
                compare(&found.epistemic_variance, squared(&own.epistemic_variance), name);
            }
            let ((lower, upper), (own_lower, own_upper)) = (found.interval(0.8)?, own.interval(0.8)?);
            compare(&lower, mapped(&own_lower), name);
            compare(&upper, mapped(&own_upper), name);
            for (draw, own_draw) in found.draws(5, 9)?.outer_iter().zip(own.draws(5, 9)?.outer_iter()) {
                compare(&draw.to_owned(), mapped(&own_draw.to_owned()), name);
            }
            let (log, own_log) = (found.log_densities(&targets)?, own.log_densities(&own_targets)?);
            for (log, own_log) in log.iter().zip(&own_log) {
                assert!(is_close(*log, own_log - log_scale, 1e-12, 1.0), "{name}: {log} and {own_log}");
            }
        }
        // The likelihood of the data in their own units, and the noise.
        let expected = unscaled.log_likelihood() - 40.0 * log_scale;
        assert!(is_close(laplace.log_likelihood(), expected, 1e-12, 1.0));
        let expected = unscaled.log_marginal_likelihood() - 40.0 * log_scale;
        assert!(is_close(laplace.log_marginal_likelihood(), expected, 1e-12, 1.0));
        let sigma = family.sigma().unwrap_or_default();
        let expected: Vec<f64> = (0..2).map(|k| sigma[k % sigma.len()] * scale[k]).collect();
        let found = laplace.sigma().expect("a Gaussian has noise");
        assert!(found.iter().zip(&expected).all(|(a, b)| is_close(*a, *b, 1e-12, 0.0)), "{found:?} for {expected:?}");
        assert_eq!(found.len(), 2);
        assert_eq!(unscaled.sigma(), family.sigma().map(<[f64]>::to_vec));
    }
    Ok(())
}

#[test]
fn the_log_likelihood_is_the_sum_of_the_densities_of_the_network_alone() -> Outcome {
    let family = gaussian(0.35);
    let (original, scaled, network) = trained(&family)?;
    let laplace = Laplace::fit(network, scaled, family, &FitOptions::default())?;
    let prediction = laplace.predict(original.inputs(), &Method::Map)?;
    let sum = prediction.log_densities(original.targets())?.sum();
    assert!(is_close(laplace.log_likelihood(), sum, 1e-12, 1.0), "{} and {sum}", laplace.log_likelihood());
    // From the definition, in original units.
    let sigma = laplace.sigma().expect("a Gaussian has noise");
    let term = |((_, k), y): ((usize, usize), &f64), mean: &f64| {
        let z = (y - mean) / sigma[k];
        -0.5 * z * z - (sigma[k] * (2.0 * std::f64::consts::PI).sqrt()).ln()
    };
    let terms = original.targets().indexed_iter().zip(&prediction.mean).map(|(y, mean)| term(y, mean));
    assert!(is_close(terms.sum(), sum, 1e-12, 1.0));
    Ok(())
}

#[test]
fn a_saved_posterior_keeps_the_scaling() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let family = gaussian(0.35);
    let (original, scaled, network) = trained(&family)?;
    let mut laplace = Laplace::fit(network, scaled, family, &FitOptions::default())?;
    let optimum = laplace.optimize(&EvidenceOptions::default())?;
    // What tuning reports is what the tuned posterior has, units included.
    assert!(is_close(optimum.log_marginal_likelihood, laplace.log_marginal_likelihood(), 1e-9, 1.0));
    for contents in [Contents::TrainingData, Contents::Curvature] {
        laplace.save(&path, contents)?;
        let loaded = Laplace::load(&path)?;
        assert_eq!((loaded.schema(), loaded.sigma()), (laplace.schema(), laplace.sigma()));
        assert!(loaded.schema().scaling().is_some_and(|scaling| scaling.targets.is_some()));
        assert_eq!(bits(&[loaded.log_likelihood()]), bits(&[laplace.log_likelihood()]));
        assert_eq!(fit_bits(&loaded), fit_bits(&laplace));
        for method in ways() {
            if contents == Contents::Curvature && method.name() == "riemannian" {
                continue;
            }
            let (a, b) = (loaded.predict(original.inputs(), &method)?, laplace.predict(original.inputs(), &method)?);
            assert_eq!(prediction_bits(&a)?, prediction_bits(&b)?, "{contents:?}, {}", method.name());
            let (a, b) = (a.log_densities(original.targets())?, b.log_densities(original.targets())?);
            assert_eq!(bits(&a), bits(&b), "{contents:?}, {}", method.name());
        }
    }
    Ok(())
}
