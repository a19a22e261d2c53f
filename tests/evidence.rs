//! The log evidence as a function of its hyperparameters: gradients against finite differences, optima against their
//! neighbours and against reference values, and searches that end at a bound.

mod common;

use std::error::Error;

use ndarray::{Array2, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::internals::evidence::{Free, Hyperparameters, PriorStructure};
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{Contents, FitOptions, Laplace, Structure};
use riemannian_laplace::{EvidenceOptimum, EvidenceOptions};

use common::{Outcome, architecture, file, is_close, random_data, random_network, read_csv, read_numbers};

const SOLVERS: [Structure; 2] = [Structure::WeightSpace, Structure::FunctionSpace];

fn hyperparameters(laplace: &Laplace) -> Hyperparameters {
    Hyperparameters {
        prior_precision: laplace.prior().values().to_vec(),
        sigma: laplace.family().sigma().unwrap_or_default().to_vec(),
    }
}

/// The evidence at other hyperparameters.
fn evidence_at(laplace: &Laplace, hyperparameters: &Hyperparameters) -> f64 {
    let mut moved = laplace.clone();
    let Hyperparameters { prior_precision, sigma } = hyperparameters;
    moved.set_hyperparameters(&prior_precision.clone().into(), sigma).expect("valid hyperparameters");
    moved.log_marginal_likelihood()
}

/// The hyperparameter with that number: the prior precisions first, then the noise levels.
fn entry(hyperparameters: &mut Hyperparameters, index: usize) -> &mut f64 {
    let n_alpha = hyperparameters.prior_precision.len();
    match index {
        index if index < n_alpha => &mut hyperparameters.prior_precision[index],
        _ => &mut hyperparameters.sigma[index - n_alpha],
    }
}

/// ∂ log evidence/∂ log h of every hyperparameter, by five-point differences in log h.
///
/// With steps of 1e-2 truncation is h⁴/30 ≈ 3e-10 fifth derivatives, rounding 1e-16·100/h ≈ 1e-12.
fn gradient_by_differences(laplace: &Laplace, at: &Hyperparameters) -> Vec<f64> {
    let step = 1e-2;
    let count = at.prior_precision.len() + at.sigma.len();
    let derivative = |index: usize| -> f64 {
        let value = |multiple: f64| {
            let mut moved = at.clone();
            *entry(&mut moved, index) *= (multiple * step).exp();
            evidence_at(laplace, &moved)
        };
        (value(-2.0) - 8.0 * value(-1.0) + 8.0 * value(1.0) - value(2.0)) / (12.0 * step)
    };
    (0..count).map(derivative).collect()
}

/// Posteriors with one or several prior precisions and noise levels, in both spaces, more and fewer parameters than
/// data.
fn posteriors() -> Result<Vec<(String, Laplace)>, Box<dyn Error>> {
    let two = architecture(&[2, 4, 2], &[true, true], Activation::Tanh);
    let three = architecture(&[1, 4, 3, 1], &[true, true, true], Activation::Gelu);
    let classes = architecture(&[2, 4, 3], &[true, true], Activation::Silu);
    let single = architecture(&[2, 4, 1], &[true, false], Activation::Sigmoid);
    let mut posteriors = Vec::new();
    for (index, (shape, family)) in [
        (&two, Family::gaussian(0.4)?),
        (&two, Family::gaussian_per_output(&[0.3, 0.7])?),
        (&three, Family::gaussian(0.2)?),
        (&classes, "categorical".parse()?),
        (&single, "bernoulli".parse()?),
        (&single, "poisson".parse()?),
    ]
    .into_iter()
    .enumerate()
    {
        let network = random_network(shape.clone(), 20 + index as u64);
        for points in [9, 40] {
            let data = random_data(&network, &family, points, 30 + index as u64);
            for solver in SOLVERS {
                for layered in [false, true] {
                    let layers = shape.linear_layers().len();
                    let prior: Vec<f64> = (0..if layered { layers } else { 1 }).map(|l| 0.5 + l as f64).collect();
                    let options =
                        FitOptions { prior_precision: prior.clone().into(), structure: solver, ..Default::default() };
                    let laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
                    let name =
                        format!("{} {shape}, N = {points}, A = {prior:?}, {solver:?}", family.likelihood().name());
                    posteriors.push((name, laplace));
                }
            }
        }
    }
    Ok(posteriors)
}

/// Every choice of what is tuned.
fn choices() -> Vec<EvidenceOptions> {
    let mut choices = Vec::new();
    for prior in [Free::Tuned, Free::Held] {
        for sigma in [Free::Tuned, Free::Held] {
            for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer] {
                choices.push(EvidenceOptions { prior, sigma, prior_structure, ..Default::default() });
            }
        }
    }
    choices
}

/// The derivatives with respect to what was tuned and is not at a bound.
fn free_derivatives(gradient: &[f64], optimum: &EvidenceOptimum, options: &EvidenceOptions) -> Vec<f64> {
    let n_alpha = optimum.hyperparameters.prior_precision.len();
    let at_bound = |index: usize| {
        let (parameter, index) = if index < n_alpha { ("prior precision", index) } else { ("sigma", index - n_alpha) };
        optimum.at_bound.iter().any(|bound| bound.parameter == parameter && bound.index == index)
    };
    let is_tuned = |index: usize| if index < n_alpha { options.prior } else { options.sigma } == Free::Tuned;
    (0..gradient.len()).filter(|&i| is_tuned(i) && !at_bound(i)).map(|i| gradient[i]).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |top, value| value.abs().max(top))
}

#[test]
fn the_gradient_is_that_of_the_evidence() -> Outcome {
    for (name, laplace) in posteriors()? {
        for options in choices() {
            // Without a single step the search reports the gradient where it would have started.
            let options = EvidenceOptions { max_iterations: 0, ..options };
            let mut moved = laplace.clone();
            let start = moved.optimize(&options)?;
            let gradient = gradient_by_differences(&laplace, &start.hyperparameters);
            let free = free_derivatives(&gradient, &start, &options);
            let expected = largest(&free);
            assert!(
                is_close(start.gradient_norm, expected, 1e-7, 1e-2),
                "{name}, {options:?}: {start:?}, by differences {gradient:?}"
            );
            assert_eq!(start.iterations, 0);
        }
    }
    Ok(())
}

#[test]
fn optima_are_stationary_and_what_is_held_stays() -> Outcome {
    for (name, laplace) in posteriors()? {
        let before = hyperparameters(&laplace);
        for options in choices() {
            let mut tuned = laplace.clone();
            let optimum = tuned.optimize(&options)?;
            let name = format!("{name}, {options:?}: {optimum:?}");
            assert!(optimum.converged, "{name}");
            let found = &optimum.hyperparameters;
            assert_eq!(*found, hyperparameters(&tuned), "{name}");

            let n_alpha = match (options.prior, options.prior_structure) {
                (Free::Held, _) => before.prior_precision.len(),
                (Free::Tuned, PriorStructure::Scalar) => 1,
                (Free::Tuned, PriorStructure::PerLayer) => laplace.model().groups().len(),
                (Free::Tuned, PriorStructure::PerWeight) => laplace.model().n_params(),
            };
            assert_eq!(found.prior_precision.len(), n_alpha, "{name}");
            assert_eq!(found.sigma.len(), before.sigma.len(), "{name}");
            if options.prior == Free::Held {
                assert_eq!(found.prior_precision, before.prior_precision, "{name}");
            }
            if options.sigma == Free::Held {
                assert_eq!(found.sigma, before.sigma, "{name}");
            }

            let value = tuned.log_marginal_likelihood();
            assert!(is_close(value, optimum.log_marginal_likelihood, 1e-10, 1.0), "{name}: {value}");
            // A scalar prior cannot always do as well as what the layers had before.
            if n_alpha >= before.prior_precision.len() {
                assert!(value >= laplace.log_marginal_likelihood() - 1e-9, "{name}");
            }
            let gradient = gradient_by_differences(&tuned, found);
            let free = free_derivatives(&gradient, &optimum, &options);
            assert!(largest(&free) < 1e-6, "{name}: derivatives {gradient:?}");
        }
    }
    Ok(())
}

#[test]
fn no_neighbour_of_an_optimum_is_better() -> Outcome {
    for (name, laplace) in posteriors()? {
        for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer] {
            let mut tuned = laplace.clone();
            let optimum = tuned.optimize(&EvidenceOptions { prior_structure, ..Default::default() })?;
            let best = tuned.log_marginal_likelihood();
            let count = optimum.hyperparameters.prior_precision.len() + optimum.hyperparameters.sigma.len();
            for place in 0..3usize.pow(count as u32) {
                let mut moved = optimum.hyperparameters.clone();
                for index in 0..count {
                    *entry(&mut moved, index) *= [1.0, 0.93, 1.07][place / 3usize.pow(index as u32) % 3];
                }
                let value = evidence_at(&tuned, &moved);
                assert!(value <= best + 1e-9, "{name}: {value} at {moved:?}, {best} at {optimum:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn no_point_of_a_wide_grid_is_better() -> Outcome {
    for (name, laplace) in posteriors()? {
        if hyperparameters(&laplace).sigma.len() > 1 {
            continue;
        }
        let mut tuned = laplace.clone();
        let optimum = tuned.optimize(&EvidenceOptions::default())?;
        let sigmas: Vec<Vec<f64>> = match tuned.family().sigma() {
            Some(_) => (-8..=8).map(|k| vec![(0.7 * f64::from(k)).exp()]).collect(),
            None => vec![Vec::new()],
        };
        for k in -12..=12 {
            for sigma in &sigmas {
                let point = Hyperparameters { prior_precision: vec![f64::from(k).exp()], sigma: sigma.clone() };
                let value = evidence_at(&tuned, &point);
                assert!(value <= optimum.log_marginal_likelihood + 1e-8, "{name}: {value} at {point:?}, {optimum:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn more_freedom_never_costs_evidence() -> Outcome {
    for (name, laplace) in posteriors()? {
        let tuned = |prior_structure| -> Result<f64, Box<dyn Error>> {
            let options = EvidenceOptions { prior_structure, ..Default::default() };
            Ok(laplace.clone().optimize(&options)?.log_marginal_likelihood)
        };
        let (scalar, layered) = (tuned(PriorStructure::Scalar)?, tuned(PriorStructure::PerLayer)?);
        assert!(layered >= scalar - 1e-10 * scalar.abs(), "{name}: {layered} per layer, {scalar} for all");
    }
    Ok(())
}

#[test]
fn both_solvers_find_the_same_optimum() -> Outcome {
    let posteriors = posteriors()?;
    for options in choices() {
        for pair in posteriors.chunks(4).flat_map(|c| [(&c[0], &c[2]), (&c[1], &c[3])]) {
            let ((name, weight), (_, function)) = pair;
            let (a, b) = (weight.clone().optimize(&options)?, function.clone().optimize(&options)?);
            let (a_value, b_value) = (a.log_marginal_likelihood, b.log_marginal_likelihood);
            assert!(is_close(a_value, b_value, 1e-9, 1.0), "{name}, {options:?}: {a:?} and {b:?}");
        }
    }
    Ok(())
}

#[test]
fn the_start_does_not_matter_where_there_is_one_optimum() -> Outcome {
    for (name, laplace) in posteriors()?.into_iter().step_by(2) {
        let reference = laplace.clone().optimize(&EvidenceOptions::default())?;
        for factor in [1e-6, 1e6] {
            let mut moved = laplace.clone();
            let mut start = hyperparameters(&moved);
            start.prior_precision.iter_mut().for_each(|value| *value *= factor);
            start.sigma.iter_mut().for_each(|value| *value *= 30.0);
            moved.set_hyperparameters(&start.prior_precision.into(), &start.sigma)?;
            let found = moved.optimize(&EvidenceOptions::default())?;
            let (a, b) = (reference.log_marginal_likelihood, found.log_marginal_likelihood);
            assert!(is_close(a, b, 1e-9, 1.0), "{name}: {reference:?} and {found:?}");
        }
    }
    Ok(())
}

/// A network whose weights are all zero.
fn zero_network(sizes: &[usize]) -> Network {
    let shape = architecture(sizes, &vec![true; sizes.len() - 1], Activation::Tanh);
    let size = shape.n_params();
    Network::new(shape, vec![0.0; size]).expect("finite parameters")
}

#[test]
fn a_prior_precision_that_wants_to_be_infinite_is_reported() -> Outcome {
    // θ̂ = 0: an ever narrower prior is always better.
    for family in [Family::gaussian(0.5)?, "bernoulli".parse()?] {
        let network = zero_network(&[2, 3, 1]);
        let data = random_data(&network, &family, 20, 3);
        for solver in SOLVERS {
            for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer] {
                for bounds in [(1e-10, 1e10), (1e-3, 1e3)] {
                    let options = FitOptions { structure: solver, ..Default::default() };
                    let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
                    let optimum =
                        laplace.optimize(&EvidenceOptions { prior_structure, bounds, ..Default::default() })?;
                    let at_bound = optimum.at_bound.iter().find(|bound| bound.parameter == "prior precision");
                    let at_bound = at_bound.unwrap_or_else(|| panic!("{solver:?}: no bound in {optimum:?}"));
                    assert_eq!(at_bound.value, bounds.1, "{optimum:?}");
                    assert!(optimum.hyperparameters.prior_precision.contains(&bounds.1), "{optimum:?}");
                    let message = at_bound.to_string();
                    assert!(message.contains(&format!("{:e}", bounds.1)), "{message}");
                    assert!(optimum.converged, "at the bound the rest is optimal: {optimum:?}");
                    assert!(laplace.log_marginal_likelihood().is_finite());
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_noise_that_wants_to_vanish_is_reported() -> Outcome {
    // The network is a perfect fit: the likelihood grows without limit as σ → 0.
    let network = random_network(architecture(&[2, 3, 1], &[true, true], Activation::Tanh), 1);
    let inputs = common::normal_matrix(30, 2, 2);
    let data = Laplace::fit(
        network.clone(),
        Dataset::new(inputs.clone(), Array2::zeros((30, 1)))?,
        Family::gaussian(1.0)?,
        &FitOptions::default(),
    )?;
    let data = Dataset::new(inputs.clone(), data.outputs(&inputs)?)?;
    for solver in SOLVERS {
        for bounds in [(1e-10, 1e10), (1e-4, 1e4)] {
            let options = FitOptions { structure: solver, ..Default::default() };
            let mut laplace = Laplace::fit(network.clone(), data.clone(), Family::gaussian(1.0)?, &options)?;
            let before = laplace.log_marginal_likelihood();
            let optimum = match laplace.optimize(&EvidenceOptions { bounds, ..Default::default() }) {
                Ok(optimum) => optimum,
                // 30 points and 13 parameters: the Gram matrix is singular, and 1 is negligible relative to it at σ =
                // 1e-10.
                Err(error) => {
                    assert!((solver, bounds.0) == (Structure::FunctionSpace, 1e-10), "{error}");
                    let message = error.to_string();
                    assert!(message.contains("sigma 0 ran to the bound 1e-10"), "{message}");
                    assert!(!error.is_input());
                    // The posterior is still the one that was fitted.
                    assert_eq!(laplace.log_marginal_likelihood().to_bits(), before.to_bits());
                    continue;
                }
            };
            assert_eq!(optimum.at_bound.len(), 1, "{solver:?}: {optimum:?}");
            assert_eq!((optimum.at_bound[0].parameter, optimum.at_bound[0].value), ("sigma", bounds.0), "{optimum:?}");
            assert_eq!(optimum.hyperparameters.sigma, [bounds.0]);
            assert!(laplace.log_marginal_likelihood().is_finite(), "{solver:?}");
            assert!(laplace.linearized(&array![[0.3, -0.2]])?.covariance.iter().all(|value| *value >= 0.0));
        }
    }
    Ok(())
}

#[test]
fn an_iteration_limit_is_reported() -> Outcome {
    let (_, laplace) = &posteriors()?[0];
    let options = EvidenceOptions { max_iterations: 1, ..Default::default() };
    let optimum = laplace.clone().optimize(&options)?;
    assert!(!optimum.converged && optimum.gradient_norm > 1e-3, "{optimum:?}");
    let options = EvidenceOptions { bounds: (1.0, 0.1), ..Default::default() };
    assert!(laplace.clone().optimize(&options).is_err());
    Ok(())
}

#[test]
fn a_posterior_without_data_is_tuned_alike() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for (name, laplace) in posteriors()?.into_iter().filter(|(name, _)| name.ends_with("WeightSpace")) {
        laplace.save(&path, Contents::Curvature)?;
        let loaded = Laplace::load(&path)?;
        for options in choices() {
            assert_eq!(laplace.clone().optimize(&options)?, loaded.clone().optimize(&options)?, "{name}");
        }
    }
    Ok(())
}

/// The training rows of a split of Snelson's data; standardised with their mean and (population) deviation if asked.
fn snelson(split: &str, standardise: bool) -> Result<Dataset, Box<dyn Error>> {
    let table = read_numbers(&file("data/snelson.csv"))?;
    let (header, roles) = read_csv(&file("data/snelson_split.csv"))?;
    let column = header.iter().position(|name| name == split).ok_or("no such split")?;
    let rows: Vec<usize> = (0..roles.len()).filter(|&row| roles[row][column] == "train").collect();
    let mut train = table.select(ndarray::Axis(0), &rows);
    if standardise {
        for mut column in train.columns_mut() {
            let mean = column.sum() / column.len() as f64;
            let variance = column.mapv(|value| (value - mean).powi(2)).sum() / column.len() as f64;
            column.mapv_inplace(|value| (value - mean) / variance.sqrt());
        }
    }
    let part = |column: usize| -> Array2<f64> { train.select(ndarray::Axis(1), &[column]) };
    Ok(Dataset::new(part(0), part(1))?)
}

#[test]
fn snelsons_networks_have_the_reference_optima() -> Outcome {
    // Prior precision, σ and log evidence, tuned in float64 by a separate program (see `tests/golden/README.md`).
    for (split, scale, alpha, sigma, value) in [
        ("complete", "raw", 0.04974, 0.29323, -91.88561),
        ("complete", "std", 0.11803, 0.35900, -103.50041),
        ("gap", "raw", 0.04486, 0.28692, -83.34566),
        ("gap", "std", 0.09683, 0.35496, -99.48234),
    ] {
        let path = file(&format!("data/snelson_map_{split}_{scale}.safetensors"));
        let network = Network::load(&path, Some(Activation::Tanh))?;
        let data = snelson(split, scale == "std")?;
        assert_eq!(data.len(), if split == "gap" { 148 } else { 150 });
        for solver in SOLVERS {
            let options = FitOptions { structure: solver, ..Default::default() };
            let mut laplace = Laplace::fit(network.clone(), data.clone(), Family::gaussian(1.0)?, &options)?;
            let optimum = laplace.optimize(&EvidenceOptions::default())?;
            let found = &optimum.hyperparameters;
            // Half a unit of the last digit printed; for the evidence two units, since the data were read as f32 there.
            assert!((found.prior_precision[0] - alpha).abs() < 0.6e-5, "{split} {scale}: {optimum:?}");
            assert!((found.sigma[0] - sigma).abs() < 0.6e-5, "{split} {scale}: {optimum:?}");
            assert!((optimum.log_marginal_likelihood - value).abs() < 2e-5, "{split} {scale}: {optimum:?}");
            assert!(optimum.converged && optimum.at_bound.is_empty());
        }
    }
    Ok(())
}
