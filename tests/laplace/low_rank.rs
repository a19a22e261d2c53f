//! The low-rank structure: exact at full rank, the largest eigenpairs below it, and the same whatever the batches.

use std::sync::Arc;

use faer::Mat;
use ndarray::Axis;
use riemannian_laplace::internals::linalg::{eigenvalues, symmetric_eigen};
use riemannian_laplace::{Activation, Dataset, Family, FitOptions, Laplace, Model, Network, Structure, Weights};

use crate::common::{Outcome, architecture, assert_all_close, is_close, normal_matrix, random_data, random_network};
use crate::samples::assert_drawn_from;
use crate::{Case, cases};

#[test]
fn at_full_rank_it_is_the_full_posterior() -> Outcome {
    for case in cases() {
        let size = case.network.parameters().len();
        let full = case.fit(Structure::WeightSpace);
        let inputs = normal_matrix(4, case.data.inputs().ncols(), 99);
        // All directions; and all that the data determine, where there are fewer.
        let rank = case.data.inputs().nrows() * case.network.architecture().n_outputs();
        for rank in [size, size + 5, rank.min(size)] {
            let (low, name) = (case.fit(Structure::LowRank(rank)), format!("{}, rank {rank}", case.name));
            // Small eigenvalues are found up to rounding relative to the largest.
            assert!(is_close(low.log_marginal_likelihood(), full.log_marginal_likelihood(), 1e-8, 1.0), "{name}");
            assert!(is_close(low.effective_parameters(), full.effective_parameters(), 1e-7, 1.0), "{name}");
            let (found, expected) = (low.linearized(&inputs)?.covariance, full.linearized(&inputs)?.covariance);
            let expected: Vec<f64> = expected.iter().copied().collect();
            assert_all_close(&found, &expected, 1e-6, &name);
            let joint = (low.linearized_joint(&inputs)?.covariance, full.linearized_joint(&inputs)?.covariance);
            let expected: Vec<f64> = joint.1.iter().copied().collect();
            assert_all_close(&joint.0, &expected, 1e-6, &name);
        }
    }
    Ok(())
}

/// A + Σ λuuᵀ over the largest eigenvalues of the curvature, from the definition.
fn truncated(case: &Case, rank: usize) -> Mat<f64> {
    let (mut curvature, prior) = (case.dense_precision(), case.prior_diagonal());
    (0..prior.len()).for_each(|d| curvature[(d, d)] -= prior[d]);
    let eigen = symmetric_eigen(curvature.as_ref(), "the curvature").expect("eigenvalues");
    let mut precision = Mat::from_fn(prior.len(), prior.len(), |i, j| if i == j { prior[i] } else { 0.0 });
    for k in prior.len() - rank..prior.len() {
        let u = eigen.vectors.col(k);
        for (i, j) in (0..prior.len()).flat_map(|i| (0..prior.len()).map(move |j| (i, j))) {
            precision[(i, j)] += eigen.values[k] * u[i] * u[j];
        }
    }
    precision
}

#[test]
fn below_full_rank_it_has_the_largest_eigenpairs() -> Outcome {
    // One σ: with one per output, each output has its own eigenpairs.
    for case in cases().into_iter().filter(|case| case.family.sigma().is_none_or(|sigma| sigma.len() == 1)) {
        let (rank, size) = (4, case.network.parameters().len());
        if size < 8 {
            continue;
        }
        let (laplace, precision) = (case.fit(Structure::LowRank(rank)), truncated(&case, rank));
        let direction: Vec<f64> = (0..size).map(|d| (1.0 + d as f64).sin()).collect();
        let (mut product, mut back) = (vec![0.0; size], vec![0.0; size]);
        laplace.precision().times(&direction, &mut product);
        let expected: Vec<f64> = (0..size).map(|i| (0..size).map(|j| precision[(i, j)] * direction[j]).sum()).collect();
        // Eigenvalues settle to 1e-3 and better; eigenvectors less where neighbours are close.
        assert_all_close(&product, &expected, 1e-2, &case.name);
        laplace.precision().solve(&product, &mut back);
        assert_all_close(&back, &direction, 1e-9, &case.name);
    }
    Ok(())
}

#[test]
fn draws_of_low_rank_have_the_stated_covariance() -> Outcome {
    for case in cases().into_iter().step_by(5) {
        let laplace = case.fit(Structure::LowRank(3));
        let size = laplace.parameters().len();
        let mut precision = Mat::zeros(size, size);
        for d in 0..size {
            let unit: Vec<f64> = (0..size).map(|i| if i == d { 1.0 } else { 0.0 }).collect();
            let mut column = vec![0.0; size];
            laplace.precision().times(&unit, &mut column);
            (0..size).for_each(|i| precision[(i, d)] = column[i]);
        }
        assert_drawn_from(&laplace.sample(4000, 7)?, laplace.parameters(), &precision, &case.name)?;
    }
    Ok(())
}

/// A network with more parameters than eigenpairs are kept, and data.
fn wide() -> Result<(Network, Dataset, Family), Box<dyn std::error::Error>> {
    let family: Family = "categorical".parse()?;
    let network = random_network(architecture(&[3, 12, 4], &[true, true], Activation::Tanh), 5);
    let data = random_data(&network, &family, 80, 6);
    Ok((network, data, family))
}

fn fit(model: Network, data: Dataset, family: &Family, structure: Structure) -> riemannian_laplace::Result<Laplace> {
    Laplace::fit(model, data, family.clone(), &FitOptions { structure, ..Default::default() })
}

#[test]
fn it_never_exceeds_the_curvature_and_has_its_largest_eigenvalues() -> Outcome {
    let (network, data, family) = wide()?;
    let full = fit(network.clone(), data.clone(), &family, Structure::WeightSpace)?.precision().to_matrix();
    let of_full = eigenvalues(full.as_ref(), "the precision")?;
    for rank in [1, 5, 20] {
        let laplace = fit(network.clone(), data.clone(), &family, Structure::LowRank(rank))?;
        let low = laplace.precision().to_matrix();
        let least = eigenvalues((&full - &low).as_ref(), "the rest")?[0];
        // The truncated part is positive semidefinite up to rounding.
        assert!(least > -1e-11 * of_full[of_full.len() - 1], "rank {rank}: {least}");
        let found = eigenvalues(low.as_ref(), "the low-rank precision")?;
        for (found, expected) in found.iter().rev().zip(of_full.iter().rev()).take(rank) {
            // Eigenvalues change by less than 1e-3 in the last pass, and grow.
            assert!((found / expected - 1.0).abs() < 5e-3, "rank {rank}: {found} for {expected}");
        }
    }
    Ok(())
}

#[test]
fn further_data_are_added_to_it() -> Outcome {
    let (network, data, family) = wide()?;
    let size = network.parameters().len();
    let part = |rows: std::ops::Range<usize>| {
        let rows = ndarray::Slice::from(rows);
        let (inputs, targets) = (data.inputs(), data.targets());
        Dataset::new(inputs.slice_axis(Axis(0), rows).to_owned(), targets.slice_axis(Axis(0), rows).to_owned())
    };
    // At full rank the sum is exact; below it, the largest eigenpairs of the sum of two approximations.
    for (rank, tolerance) in [(size, 1e-9), (20, 2e-2)] {
        let all = fit(network.clone(), data.clone(), &family, Structure::LowRank(rank))?;
        let mut later = fit(network.clone(), part(0..50)?, &family, Structure::LowRank(rank))?;
        later.update(part(50..80)?)?;
        let (found, expected) = (later.log_det_ratio(), all.log_det_ratio());
        assert!((found - expected).abs() < tolerance * expected, "rank {rank}: {found} for {expected}");
        assert_eq!(later.n_data(), 80);
    }
    Ok(())
}

#[test]
fn a_part_of_the_weights_has_one_too() -> Outcome {
    let (network, data, family) = wide()?;
    let last = Weights::LastLayer.restrict(&(Arc::new(network) as Arc<dyn Model>))?;
    let fit = |structure| {
        let options = FitOptions { structure, ..Default::default() };
        Laplace::fit_shared(last.clone(), data.clone(), family.clone(), &options)
    };
    let (full, low) = (fit(Structure::WeightSpace)?, fit(Structure::LowRank(last.n_params()))?);
    assert!((full.log_marginal_likelihood() - low.log_marginal_likelihood()).abs() < 1e-9);
    let inputs = normal_matrix(5, 3, 8);
    let expected: Vec<f64> = full.linearized(&inputs)?.covariance.iter().copied().collect();
    assert_all_close(&low.linearized(&inputs)?.covariance, &expected, 1e-8, "last layer");
    Ok(())
}

#[test]
fn no_eigenvalue_at_all_is_refused() -> Outcome {
    let (network, data, family) = wide()?;
    let error = fit(network, data, &family, Structure::LowRank(0)).expect_err("no rank").to_string();
    assert!(error.contains("at least one eigenvalue"), "{error}");
    Ok(())
}

#[test]
fn names_of_structures() -> Outcome {
    for structure in Structure::ALL {
        assert_eq!(Structure::of_solver(&structure.to_string()), Some(*structure));
    }
    assert_eq!("low-rank:7".parse::<Structure>()?, Structure::LowRank(7));
    assert_eq!("kron".parse::<Structure>()?, Structure::Kronecker);
    for name in ["low-rank", "low-rank:", "low-rank:0", "low-rank:x", "circulant"] {
        let error = name.parse::<Structure>().expect_err("no structure").to_string();
        assert!(error.contains("low-rank:K"), "{error}");
    }
    Ok(())
}
