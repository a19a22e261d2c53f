//! The diagonal structure against a brute-force diagonal of the dense precision, and its evidence against differences.

use faer::Mat;
use riemannian_laplace::{Contents, EvidenceOptions, Laplace, MetricName, PriorValues, SamplerOptions, Structure};

use crate::common::{Outcome, assert_all_close, jacobian_by_differences, normal_matrix};
use crate::samples::assert_drawn_from;
use crate::{Case, cases};

/// diag(G), from the definition.
fn brute_force(case: &Case) -> Vec<f64> {
    let precision = case.dense_precision();
    (0..precision.nrows()).map(|d| precision[(d, d)]).collect()
}

#[test]
fn everything_is_that_of_the_brute_force_diagonal() -> Outcome {
    for case in cases() {
        let (laplace, diagonal) = (case.fit(Structure::Diagonal), brute_force(&case));
        let prior = case.prior_diagonal();
        // The Jacobian by differences is good to 1e-9; evidence and effective parameters are sums of D terms.
        let log_det: f64 = diagonal.iter().zip(&prior).map(|(g, alpha)| (g / alpha).ln()).sum();
        assert!((laplace.log_det_ratio() - log_det).abs() < 1e-7 * (1.0 + log_det), "{}", case.name);
        let effective: f64 = diagonal.iter().zip(&prior).map(|(g, alpha)| 1.0 - alpha / g).sum();
        assert!((laplace.effective_parameters() - effective).abs() < 1e-7 * (1.0 + effective), "{}", case.name);
        let ones = vec![1.0; diagonal.len()];
        let (mut product, mut solution) = (ones.clone(), ones.clone());
        laplace.precision().times(&ones, &mut product);
        laplace.precision().solve(&ones, &mut solution);
        assert_all_close(&product, &diagonal, 1e-7, &case.name);
        let inverses: Vec<f64> = diagonal.iter().map(|g| 1.0 / g).collect();
        assert_all_close(&solution, &inverses, 1e-7, &case.name);

        // J G⁻¹ Jᵀ at new inputs, one by one and jointly.
        let (points, p) = (4, case.network.architecture().n_outputs());
        let inputs = normal_matrix(points, case.data.inputs().ncols(), 99);
        let jacobian = jacobian_by_differences(case.network.architecture(), case.network.parameters(), &inputs);
        let entry = |(n, i): (usize, usize), (m, j): (usize, usize)| -> f64 {
            let rows = (n * p + i, m * p + j);
            (0..diagonal.len()).map(|d| jacobian[(rows.0, d)] * jacobian[(rows.1, d)] / diagonal[d]).sum()
        };
        let (latent, joint) = (laplace.linearized(&inputs)?, laplace.linearized_joint(&inputs)?);
        for n in 0..points {
            for (i, j) in (0..p).flat_map(|i| (0..p).map(move |j| (i, j))) {
                let expected = entry((n, i), (n, j));
                let scale = entry((n, i), (n, i)).max(entry((n, j), (n, j)));
                assert!((latent.covariance[(n, i, j)] - expected).abs() < 1e-7 * scale, "{}", case.name);
                let other = (n + 1) % points;
                let expected = entry((n, i), (other, j));
                let scale = scale.max(entry((other, j), (other, j)));
                let found = joint.covariance[(n * p + i, other * p + j)];
                assert!((found - expected).abs() < 1e-7 * scale, "{}", case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn draws_have_the_stated_variances() -> Outcome {
    for case in cases().into_iter().step_by(3) {
        let (laplace, diagonal) = (case.fit(Structure::Diagonal), brute_force(&case));
        let size = diagonal.len();
        let precision = Mat::from_fn(size, size, |i, j| if i == j { diagonal[i] } else { 0.0 });
        assert_drawn_from(&laplace.sample(4000, 7)?, laplace.parameters(), &precision, &case.name)?;
    }
    Ok(())
}

#[test]
fn the_tuned_evidence_is_a_maximum_of_the_fitted_one() -> Outcome {
    for case in cases() {
        let mut laplace = case.fit(Structure::Diagonal);
        let optimum = laplace.optimize(&EvidenceOptions::default())?;
        let value = laplace.log_marginal_likelihood();
        assert!((value - optimum.log_marginal_likelihood).abs() < 1e-8 * (1.0 + value.abs()), "{}", case.name);
        if !optimum.at_bound.is_empty() {
            continue;
        }
        let (alpha, sigma) = (laplace.prior().values().to_vec(), laplace.family().sigma().map(<[f64]>::to_vec));
        for factor in [0.9, 1.1] {
            let mut other = laplace.clone();
            let scaled: Vec<f64> = alpha.iter().map(|value| value * factor).collect();
            other.set_hyperparameters(&PriorValues::from(scaled), sigma.as_deref().unwrap_or_default())?;
            assert!(other.log_marginal_likelihood() < value, "{}: α", case.name);
            if let Some(sigma) = &sigma {
                let scaled: Vec<f64> = sigma.iter().map(|value| value * factor).collect();
                other.set_hyperparameters(&PriorValues::from(alpha.clone()), &scaled)?;
                assert!(other.log_marginal_likelihood() < value, "{}: σ", case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_saved_one_predicts_the_same_with_and_without_its_data() -> Outcome {
    let folder = tempfile::tempdir()?;
    for (index, case) in cases().into_iter().enumerate().step_by(4) {
        let laplace = case.fit(Structure::Diagonal);
        let inputs = normal_matrix(3, case.data.inputs().ncols(), 5);
        for contents in [Contents::TrainingData, Contents::Curvature] {
            let path = folder.path().join(format!("{index}.safetensors"));
            laplace.save(&path, contents)?;
            let loaded = Laplace::load(&path)?;
            assert_eq!(loaded.structure(), Structure::Diagonal);
            assert_eq!(loaded.linearized(&inputs)?, laplace.linearized(&inputs)?, "{}", case.name);
            assert_eq!(loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood());
        }
    }
    Ok(())
}

#[test]
fn riemannian_samples_take_their_velocities_from_it_and_the_exact_metric() -> Outcome {
    let case = &cases()[0];
    let (diagonal, full) = (case.fit(Structure::Diagonal), case.fit(Structure::WeightSpace));
    let options = SamplerOptions { seed: 3, ..SamplerOptions::first(4) };
    let samples = diagonal.sample_riemannian(MetricName::Fisher, &options, &())?;
    // The same velocities, given to the full posterior's exponential map, lead to the same ends.
    let mut velocities = diagonal.sample(4, 3)?;
    velocities.rows_mut().into_iter().for_each(|mut row| {
        row.iter_mut().zip(diagonal.model().parameters()).for_each(|(value, centre)| *value -= centre);
    });
    let ends = full.exponential_map(MetricName::Fisher, velocities.view(), options.geodesic, &())?;
    for (sample, end) in samples.theta.iter().zip(&ends.theta) {
        // θ̂ was added to the velocities and taken away again: a rounding, which the flow amplifies a little.
        assert!((sample - end).abs() < 1e-9, "{sample} for {end}");
    }
    Ok(())
}
