//! The posterior without a matrix beside the exact one: log determinant, tuning, variances, solves, draws and files.

mod common;

use common::{Outcome, architecture, assert_all_close, normal_matrix, normal_vector, random_data, random_network};
use riemannian_laplace::internals::prior::PriorStructure;
use riemannian_laplace::{
    Activation, Contents, CurvatureKind, Dataset, EvidenceOptions, Family, FitOptions, Laplace, Network, PriorValues,
    Structure, Unsupported, Weights,
};
use std::sync::Arc;

/// A network of 131 weights with its data.
fn network(outputs: usize) -> Network {
    random_network(architecture(&[3, 16, outputs], &[true, true], Activation::Tanh), 11)
}

fn families() -> Vec<(Family, usize)> {
    let family = |name: &str| name.parse().expect("a family");
    vec![
        (Family::gaussian(0.2).expect("a noise"), 1),
        (Family::gaussian_per_output(&[0.2, 0.6]).expect("noises"), 2),
        (family("heteroscedastic"), 2),
        (family("categorical"), 4),
        (family("bernoulli"), 1),
        (family("poisson"), 1),
    ]
}

fn fit(network: &Network, data: &Dataset, family: &Family, options: &FitOptions) -> Laplace {
    Laplace::fit(network.clone(), data.clone(), family.clone(), options).expect("a posterior")
}

/// The exact posterior and the one without a matrix.
fn both(network: &Network, data: &Dataset, family: &Family, options: &FitOptions) -> (Laplace, Laplace) {
    let free = FitOptions { structure: Structure::MATRIX_FREE, ..options.clone() };
    (fit(network, data, family, options), fit(network, data, family, &free))
}

#[test]
fn the_log_determinant_is_within_three_standard_errors_of_the_exact_one() {
    for (family, outputs) in families() {
        let network = network(outputs);
        let data = random_data(&network, &family, 90, 5);
        for prior in [PriorValues::Shared(0.3), PriorValues::PerGroup(vec![0.2, 3.0])] {
            let options = FitOptions { prior_precision: prior, temperature: 0.8, ..Default::default() };
            let (exact, free) = both(&network, &data, &family, &options);
            let name = format!("{family:?}, {:?}", options.prior_precision);
            let error = free.precision().estimates().expect("an estimate").log_det_ratio_error;
            let off = free.log_det_ratio() - exact.log_det_ratio();
            assert!(error > 0.0 && error < 0.1 * exact.log_det_ratio(), "{name}: {error}");
            assert!(off.abs() < 3.0 * error, "{name}: off by {off}, standard error {error}");
            let (found, expected) = (free.effective_parameters(), exact.effective_parameters());
            // Three times the standard error of 1.5 % that the number of probes is chosen for, or 256 probes.
            assert!((found / expected - 1.0).abs() < 0.06, "{name}: {found}, {expected}");
            let off = free.log_marginal_likelihood() - exact.log_marginal_likelihood();
            assert!(off.abs() < 3.0 * free.log_marginal_likelihood_error().expect("an error"), "{name}: {off}");
        }
    }
}

#[test]
fn a_model_of_few_weights_is_traced_exactly() -> Outcome {
    let network = random_network(architecture(&[2, 8, 2], &[true, true], Activation::Tanh), 2);
    let family: Family = "categorical".parse()?;
    let data = random_data(&network, &family, 40, 3);
    let (exact, free) = both(&network, &data, &family, &FitOptions::default());
    assert_eq!(free.log_marginal_likelihood_error(), Some(0.0));
    assert_all_close(&[free.log_det_ratio()], &[exact.log_det_ratio()], 1e-11, "log det");
    assert_all_close(&[free.effective_parameters()], &[exact.effective_parameters()], 1e-11, "effective");
    Ok(())
}

#[test]
fn a_tuned_prior_is_within_five_percent_of_the_exact_one() -> Outcome {
    for (family, outputs) in families() {
        let network = network(outputs);
        let data = random_data(&network, &family, 120, 8);
        let (mut exact, mut free) = both(&network, &data, &family, &FitOptions::default());
        let options = EvidenceOptions::default();
        let (expected, found) = (exact.optimize(&options)?, free.optimize(&options)?);
        assert!(found.converged, "{family:?}: {found:?}");
        let pairs = |optimum: &riemannian_laplace::EvidenceOptimum| {
            [optimum.hyperparameters.prior_precision.clone(), optimum.hyperparameters.sigma.clone()].concat()
        };
        for (found, expected) in pairs(&found).iter().zip(pairs(&expected)) {
            assert!((found / expected - 1.0).abs() < 0.05, "{family:?}: {found}, {expected}");
        }
    }
    Ok(())
}

#[test]
fn priors_of_layers_and_scores_are_tuned_too() -> Outcome {
    let network = network(2);
    let family = Family::gaussian(0.3)?;
    let data = random_data(&network, &family, 120, 8);
    let layers = EvidenceOptions { prior_structure: PriorStructure::PerLayer, ..Default::default() };
    for (kind, options) in [(CurvatureKind::Ggn, layers), (CurvatureKind::EmpiricalFisher, EvidenceOptions::default())]
    {
        let fit_options = FitOptions { curvature: kind, ..Default::default() };
        let (mut exact, mut free) = both(&network, &data, &family, &fit_options);
        let (expected, found) = (exact.optimize(&options)?, free.optimize(&options)?);
        assert!(found.converged, "{found:?}");
        let (found, expected) = (found.hyperparameters, expected.hyperparameters);
        for (found, expected) in found.prior_precision.iter().zip(&expected.prior_precision) {
            assert!((found / expected - 1.0).abs() < 0.1, "{kind:?}: {found}, {expected}");
        }
        assert!((found.sigma[0] / expected.sigma[0] - 1.0).abs() < 0.02, "{:?}, {:?}", found.sigma, expected.sigma);
    }
    Ok(())
}

#[test]
fn variances_are_within_their_monte_carlo_error() -> Outcome {
    for (family, outputs) in families() {
        let network = network(outputs);
        let data = random_data(&network, &family, 90, 5);
        let options = FitOptions { prior_precision: 0.5.into(), ..Default::default() };
        let (exact, free) = both(&network, &data, &family, &options);
        let inputs = normal_matrix(40, 3, 77);
        let (expected, found) = (exact.linearized(&inputs)?, free.linearized(&inputs)?);
        assert_eq!(found.mean, expected.mean);
        let error = free.precision().estimates().ok_or("an estimate")?.variance_error;
        let off: Vec<f64> =
            found.variance().iter().zip(&expected.variance()).map(|(a, b)| (a / b - 1.0) / error).collect();
        // A share of 64 squared normals: skewed, with 4 standard errors at about 1 in 10,000.
        assert!(off.iter().all(|off| off.abs() < 4.0), "{family:?}: {off:?}");
        let mean_square = off.iter().map(|off| off * off).sum::<f64>() / off.len() as f64;
        assert!(mean_square < 3.0, "{family:?}: {mean_square}");
        // The joint covariance is solved for, not drawn.
        let (expected, found) = (exact.linearized_joint(&inputs)?, free.linearized_joint(&inputs)?);
        let scale = expected.covariance.diag().sum() / expected.mean.len() as f64;
        for (found, expected) in found.covariance.iter().zip(&expected.covariance) {
            assert!((found - expected).abs() < 1e-7 * scale, "{family:?}: {found}, {expected}");
        }
    }
    Ok(())
}

#[test]
fn products_solves_and_draws_are_those_of_the_exact_precision() -> Outcome {
    let (network, family) = (network(4), "categorical".parse()?);
    let data = random_data(&network, &family, 700, 5); // several blocks of rows
    let options = FitOptions { prior_precision: vec![0.4, 2.0].into(), ..Default::default() };
    let (exact, free) = both(&network, &data, &family, &options);
    let size = network.parameters().len();
    let (direction, mut expected, mut found) = (normal_vector(size, 3), vec![0.0; size], vec![0.0; size]);
    exact.precision().times(&direction, &mut expected);
    free.precision().times(&direction, &mut found);
    assert_all_close(&found, &expected, 1e-11, "times");
    exact.precision().solve(&direction, &mut expected);
    free.precision().solve(&direction, &mut found);
    assert_all_close(&found, &expected, 1e-7, "solve");
    // vᵀGv of a draw is chi-squared with D degrees of freedom.
    let count = 200;
    let draws = free.sample(count, 9)?;
    let square = |row: ndarray::ArrayView1<'_, f64>| {
        let offset: Vec<f64> = row.iter().zip(network.parameters()).map(|(theta, base)| theta - base).collect();
        let mut image = vec![0.0; size];
        exact.precision().times(&offset, &mut image);
        offset.iter().zip(&image).map(|(a, b)| a * b).sum::<f64>()
    };
    let mean = draws.rows().into_iter().map(square).sum::<f64>() / count as f64;
    let error = (2.0 * size as f64 / count as f64).sqrt();
    assert!((mean - size as f64).abs() < 4.0 * error, "{mean}, {size} ± {error}");
    Ok(())
}

#[test]
fn a_file_keeps_draws_and_estimates_and_needs_the_data() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("p.safetensors");
    let (network, family) = (network(2), Family::gaussian(0.4)?);
    let data = random_data(&network, &family, 150, 5);
    let options = FitOptions { structure: Structure::MATRIX_FREE, ..Default::default() };
    let fitted = fit(&network, &data, &family, &options);
    fitted.save(&path, Contents::TrainingData)?;
    let loaded = Laplace::load(&path)?;
    let inputs = normal_matrix(5, 3, 77);
    assert_eq!(loaded.linearized(&inputs)?, fitted.linearized(&inputs)?);
    assert_eq!(loaded.log_marginal_likelihood(), fitted.log_marginal_likelihood());
    assert_eq!(loaded.precision().estimates(), fitted.precision().estimates());
    assert_eq!(loaded.sample(2, 1)?, fitted.sample(2, 1)?);
    let again = folder.path().join("again.safetensors");
    let mut other = Laplace::load(&path)?;
    other.set_hyperparameters(&2.0.into(), &[0.4])?;
    other.set_hyperparameters(&1.0.into(), &[0.4])?;
    assert_eq!(other.log_det_ratio(), fitted.log_det_ratio());
    match fitted.save(&again, Contents::Curvature) {
        Err(riemannian_laplace::Error::Unsupported(Unsupported::SaveWithoutData("matrix-free"))) => {}
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn the_number_of_draws_can_be_asked_for_and_is_kept() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("p.safetensors");
    let (network, family) = (network(2), Family::gaussian(0.4)?);
    let data = random_data(&network, &family, 150, 5);
    let inputs = normal_matrix(300, 3, 77);
    let exact = fit(&network, &data, &family, &FitOptions::default()).linearized(&inputs)?;
    for (name, draws, bound) in [("matrix-free:4", 4, 1.1), ("matrix-free", 64, 0.4), ("matrix-free:400", 400, 0.15)] {
        let structure: Structure = name.parse()?;
        assert_eq!((structure, structure.in_words()), (Structure::MatrixFree(draws), name.to_string()));
        assert_eq!(structure.to_string(), name);
        let free = fit(&network, &data, &family, &FitOptions { structure, ..Default::default() });
        let estimates = free.precision().estimates().ok_or("an estimate")?;
        assert_eq!((estimates.draws, estimates.variance_error), (draws, (2.0 / draws as f64).sqrt()));
        // The errors at all points have one cause, the draws: their mean square is of the order of 2/S.
        let found = free.linearized(&inputs)?;
        let ratio = |n: usize| found.covariance[[n, 0, 0]] / exact.covariance[[n, 0, 0]];
        let scatter = ((0..300).map(|n| (ratio(n) - 1.0).powi(2)).sum::<f64>() / 300.0).sqrt();
        assert!(scatter > 0.2 * estimates.variance_error && scatter < bound, "{name}: {scatter}");
        free.save(&path, Contents::TrainingData)?;
        let loaded = Laplace::load(&path)?;
        assert_eq!(loaded.structure(), structure);
        assert_eq!(loaded.linearized(&inputs)?, found);
    }
    for wrong in ["matrix-free:0", "matrix-free:", "matrix-free:many", "kronecker:3", "low-rank"] {
        assert!(wrong.parse::<Structure>().is_err(), "{wrong}");
    }
    Ok(())
}

#[test]
fn a_part_of_the_weights_agrees_with_its_exact_posterior() -> Outcome {
    let (whole, family) = (network(4), "categorical".parse::<Family>()?);
    let data = random_data(&whole, &family, 150, 5);
    let weights: Weights = "subnetwork:90".parse()?;
    let part = weights.restrict(&(Arc::new(whole) as Arc<dyn riemannian_laplace::Model>))?;
    let fit = |structure| {
        let options = FitOptions { structure, ..Default::default() };
        Laplace::fit_shared(part.clone(), data.clone(), family.clone(), &options)
    };
    let (exact, free) = (fit(Structure::WeightSpace)?, fit(Structure::MATRIX_FREE)?);
    let error = free.precision().estimates().ok_or("an estimate")?.log_det_ratio_error;
    assert!((free.log_det_ratio() - exact.log_det_ratio()).abs() < 3.0 * error);
    Ok(())
}
