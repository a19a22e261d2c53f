//! Posteriors over a part of the weights: the matching block of the curvature, draws, evidence, files.

use std::sync::Arc;

use faer::Mat;
use riemannian_laplace::internals::evaluate::{ClosedForms, TrainingFit};
use riemannian_laplace::internals::geodesic::{read_samples, write_samples};
use riemannian_laplace::{
    Activation, Contents, EvidenceOptions, Family, FitOptions, Laplace, Link, MetricName, Model, SamplerOptions,
    Structure, Weights,
};

use super::common::{Outcome, architecture, assert_all_close, normal_matrix, random_data, random_network};
use super::{data, family, network, restricted, selections, shared};

fn fit(weights: &Weights, structure: Structure, family: &Family) -> Result<Laplace, riemannian_laplace::Error> {
    let options = FitOptions { structure, prior_precision: 0.7.into(), ..Default::default() };
    Laplace::fit_shared(restricted(weights).0, data(family), family.clone(), &options)
}

/// G of the posterior over all weights, column by column.
fn whole_precision(family: &Family) -> Result<Mat<f64>, riemannian_laplace::Error> {
    let options = FitOptions { structure: Structure::WeightSpace, prior_precision: 0.7.into(), ..Default::default() };
    let laplace = Laplace::fit(network(), data(family), family.clone(), &options)?;
    let size = laplace.parameters().len();
    let mut matrix = Mat::zeros(size, size);
    for d in 0..size {
        let unit: Vec<f64> = (0..size).map(|i| if i == d { 1.0 } else { 0.0 }).collect();
        let mut column = vec![0.0; size];
        laplace.precision().times(&unit, &mut column);
        (0..size).for_each(|i| matrix[(i, d)] = column[i]);
    }
    Ok(matrix)
}

#[test]
fn the_precision_of_a_part_is_the_block_of_the_whole_precision() -> Outcome {
    let families = [family(), Family::gaussian(0.5)?, "categorical".parse()?];
    for family in families {
        let whole = whole_precision(&family)?;
        for weights in selections() {
            let (_, indices) = restricted(&weights);
            let size = indices.len();
            let direction: Vec<f64> = (0..size).map(|d| (1.0 + d as f64).cos()).collect();
            let expected: Vec<f64> =
                (0..size).map(|i| (0..size).map(|j| whole[(indices[i], indices[j])] * direction[j]).sum()).collect();
            for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
                let laplace = fit(&weights, structure, &family)?;
                let mut product = vec![0.0; size];
                laplace.precision().times(&direction, &mut product);
                assert_all_close(&product, &expected, 1e-10, &format!("{weights}, {structure}"));
                let theta = laplace.parameters();
                let scatter = 0.7 * theta.iter().map(|value| value * value).sum::<f64>();
                let evidence = laplace.log_likelihood() - 0.5 * (laplace.log_det_ratio() + scatter);
                assert!((laplace.log_marginal_likelihood() - evidence).abs() < 1e-12 * (1.0 + evidence.abs()));
            }
            let diagonal = fit(&weights, Structure::Diagonal, &family)?;
            let (ones, mut found) = (vec![1.0; size], vec![0.0; size]);
            diagonal.precision().times(&ones, &mut found);
            let expected: Vec<f64> = indices.iter().map(|index| whole[(*index, *index)]).collect();
            assert_all_close(&found, &expected, 1e-10, &weights.to_string());
        }
    }
    Ok(())
}

#[test]
fn a_sub_network_of_all_weights_is_the_whole_network() -> Outcome {
    let all = Weights::Indices((0..network().parameters().len()).rev().collect());
    let inputs = normal_matrix(4, 2, 31);
    for structure in Structure::ALL {
        let options = FitOptions { structure: *structure, prior_precision: 0.7.into(), ..Default::default() };
        let whole = Laplace::fit(network(), data(&family()), family(), &options)?;
        let part = fit(&all, *structure, &family())?;
        assert_eq!(part.log_marginal_likelihood(), whole.log_marginal_likelihood(), "{structure}");
        assert_eq!(part.linearized(&inputs)?, whole.linearized(&inputs)?, "{structure}");
        assert_eq!(part.sample(3, 1)?, whole.sample(3, 1)?, "{structure}");
        assert_eq!(part.model().group_sizes(), whole.model().group_sizes());
    }
    Ok(())
}

#[test]
fn draws_of_a_part_have_the_stated_covariance() -> Outcome {
    for (weights, structure) in selections()
        .iter()
        .step_by(2)
        .flat_map(|weights| Structure::ALL.iter().map(move |structure| (weights, structure)))
    {
        let laplace = fit(weights, *structure, &family())?;
        let (size, count) = (laplace.parameters().len(), 3000);
        let draws = laplace.sample(count, 5)?;
        // uᵀ(θ − θ̂) is normal with variance uᵀG⁻¹u, for a few directions u; its square has variance 2.
        for k in 0..4 {
            let direction: Vec<f64> = (0..size).map(|d| (1.0 + (k + 2) as f64 * d as f64).sin()).collect();
            let mut solved = vec![0.0; size];
            laplace.precision().solve(&direction, &mut solved);
            let variance: f64 = direction.iter().zip(&solved).map(|(a, b)| a * b).sum();
            let square = |row: ndarray::ArrayView1<'_, f64>| {
                let pairs = row.iter().zip(laplace.parameters()).zip(&direction);
                pairs.map(|((theta, centre), u)| (theta - centre) * u).sum::<f64>().powi(2) / variance
            };
            let mean = draws.rows().into_iter().map(square).sum::<f64>() / count as f64;
            let error = (mean - 1.0) / (2.0 / count as f64).sqrt();
            assert!(error.abs() < 5.0, "{weights}, {structure}: {error} standard errors");
        }
    }
    Ok(())
}

#[test]
fn the_evidence_of_a_part_is_tuned_to_a_maximum() -> Outcome {
    for (weights, structure) in selections()
        .iter()
        .step_by(3)
        .flat_map(|weights| Structure::ALL.iter().map(move |structure| (weights, structure)))
    {
        let mut laplace = fit(weights, *structure, &Family::gaussian(0.5)?)?;
        let optimum = laplace.optimize(&EvidenceOptions::default())?;
        assert!(optimum.converged, "{weights}, {structure}");
        let best = laplace.log_marginal_likelihood();
        let (alpha, sigma) = (laplace.prior().values()[0], laplace.family().sigma().unwrap_or_default()[0]);
        for (a, s) in [(0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)] {
            let mut other = laplace.clone();
            other.set_hyperparameters(&(a * alpha).into(), &[s * sigma])?;
            let free = optimum.at_bound.is_empty();
            assert!(!free || other.log_marginal_likelihood() < best, "{weights}, {structure}");
        }
    }
    Ok(())
}

#[test]
fn a_sub_network_by_variance_has_the_largest_variances() -> Outcome {
    let options = FitOptions { structure: Structure::Diagonal, prior_precision: 0.7.into(), ..Default::default() };
    let weights: Weights = "subnetwork:7:variance".parse()?;
    let model = weights.restrict_with(&shared(), &data(&family()), &family(), &options)?;
    let chosen = model.subset().ok_or("a part")?.indices.to_vec();
    let whole = whole_precision(&family())?;
    let variance = |d: usize| 1.0 / whole[(d, d)];
    let least = chosen.iter().map(|d| variance(*d)).fold(f64::INFINITY, f64::min);
    for d in (0..whole.nrows()).filter(|d| !chosen.contains(d)) {
        assert!(variance(d) <= least * (1.0 + 1e-12), "{d}");
    }
    assert_eq!(chosen.len(), 7);
    Ok(())
}

#[test]
fn files_keep_the_whole_network_and_the_selection() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let inputs = normal_matrix(4, 2, 31);
    for (index, weights) in selections().iter().enumerate() {
        for contents in [Contents::TrainingData, Contents::Curvature] {
            let structure = [Structure::WeightSpace, Structure::Kronecker, Structure::Diagonal][index % 3];
            let laplace = fit(weights, structure, &family())?;
            laplace.save(&path, contents)?;
            let loaded = Laplace::load(&path)?;
            let (found, expected) = (loaded.model().subset(), laplace.model().subset());
            let (Some(found), Some(expected)) = (found, expected) else { panic!("{weights}: no part") };
            assert_eq!((found.indices, found.all, found.name), (expected.indices, expected.all, expected.name));
            assert_eq!(loaded.linearized(&inputs)?, laplace.linearized(&inputs)?, "{weights}");
            assert_eq!(loaded.sample(2, 1)?, laplace.sample(2, 1)?, "{weights}");
            assert_eq!(loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood(), "{weights}");
            assert!(Laplace::load_for(&path, &network()).is_ok());
            assert_eq!(loaded.data().is_some(), contents == Contents::TrainingData);
        }
    }
    Ok(())
}

#[test]
fn sample_files_of_a_part_carry_the_indices() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("samples.safetensors");
    let laplace = fit(&Weights::LastLayer, Structure::Auto, &family())?;
    let samples = laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(2), &())?;
    write_samples(&path, &samples)?;
    let read = read_samples(&path)?;
    assert_eq!(read.indices, Some((24..32).collect()));
    assert_eq!(read, samples);
    Ok(())
}

/// Features that are kept for the fit and its checks, and features that are computed again for every batch.
#[test]
fn features_that_are_kept_change_nothing() -> Outcome {
    let network = random_network(architecture(&[6, 5, 4, 3], &[true, true, true], Activation::Tanh), 8);
    let family: Family = "categorical".parse()?;
    let data = random_data(&network, &family, 400, 3);
    let whole: Arc<dyn Model> = Arc::new(network);
    for words in ["last-layer", "layers:2", "layers:4.weight"] {
        let part = words.parse::<Weights>()?.restrict(&whole)?;
        for structure in [Structure::WeightSpace, Structure::Kronecker, Structure::Diagonal] {
            let options = FitOptions { structure, prior_precision: 0.7.into(), ..Default::default() };
            let kept = Laplace::fit_shared(part.clone(), data.clone(), family.clone(), &options)?;
            let mut again = Laplace::fit_batches(part.clone(), &data, family.clone(), &options)?;
            assert_eq!(kept.log_marginal_likelihood(), again.log_marginal_likelihood(), "{words}, {structure}");
            assert_eq!(TrainingFit::of(&kept)?, TrainingFit::over(&again, &data)?, "{words}, {structure}");
            again.keep_data(data.clone())?;
            let scores = |laplace: &Laplace| ClosedForms::of(laplace, Link::default());
            let (one, other) = (scores(&kept)?, scores(&again)?);
            assert_eq!(one.linearized.pointwise, other.linearized.pointwise, "{words}, {structure}");
            assert_eq!(one.map.pointwise, other.map.pointwise, "{words}, {structure}");
        }
    }
    Ok(())
}
