//! The structures that ignore correlations, diagonal and Kronecker, against brute-force dense precisions, and their
//! evidence against differences.

use faer::Mat;
use riemannian_laplace::internals::evidence::PriorStructure;
use riemannian_laplace::{Activation, Dataset, Family, FunctionModel, Taylor};
use riemannian_laplace::{
    Contents, EvidenceOptions, FitOptions, Laplace, MetricName, PriorValues, SamplerOptions, Structure,
};

use crate::common::{
    Outcome, architecture, assert_all_close, jacobian_by_differences, layer_sums, normal_matrix, random_data,
    random_network,
};
use crate::samples::assert_drawn_from;
use crate::{Case, cases, output_fisher};

/// Each approximate structure and its precision from the definition.
type Definition = (Structure, fn(&Case) -> Mat<f64>);
const STRUCTURES: [Definition; 2] = [(Structure::Diagonal, diagonal), (Structure::Kronecker, kronecker)];

/// Every approximate structure.
const NAMES: [Structure; 3] = [Structure::Diagonal, Structure::Kronecker, Structure::LowRank(3)];

/// diag(G).
fn diagonal(case: &Case) -> Mat<f64> {
    let precision = case.dense_precision();
    Mat::from_fn(precision.nrows(), precision.nrows(), |i, j| if i == j { precision[(i, j)] } else { 0.0 })
}

/// A + blockdiag(B ⊗ Ā, B), with B = Σₙ (∂f/∂z)ᵀH(∂f/∂z) and Ā the mean of hhᵀ, in plain loops.
fn kronecker(case: &Case) -> Mat<f64> {
    let (architecture, theta, inputs) = (case.network.architecture(), case.network.parameters(), case.data.inputs());
    let jacobian = jacobian_by_differences(architecture, theta, inputs);
    let activation = architecture.activation().expect("a plain perceptron");
    let (size, p, points) = (theta.len(), architecture.n_outputs(), inputs.nrows());
    let mut precision = Mat::zeros(size, size);
    case.prior_diagonal().into_iter().enumerate().for_each(|(d, alpha)| precision[(d, d)] = alpha);
    let sums: Vec<_> = inputs.rows().into_iter().map(|x| layer_sums(architecture, theta, &x.to_vec())).collect();
    for (index, layer) in architecture.linear_layers().iter().enumerate() {
        let h = |n: usize, i: usize| match index {
            0 => inputs[(n, i)],
            _ => activation.value(sums[n][index - 1][i]),
        };
        let mean = Mat::from_fn(layer.inputs, layer.inputs, |i, j| {
            (0..points).map(|n| h(n, i) * h(n, j)).sum::<f64>() / points as f64
        });
        let mut outer: Mat<f64> = Mat::zeros(layer.outputs, layer.outputs);
        for n in 0..points {
            // ∂f/∂W = (∂f/∂z)hᵀ, so that its product with h is (∂f/∂z)‖h‖².
            let square: f64 = (0..layer.inputs).map(|i| h(n, i).powi(2)).sum();
            let slopes = Mat::from_fn(p, layer.outputs, |output, o| {
                let entry = |i: usize| jacobian[(n * p + output, layer.offset + o * layer.inputs + i)];
                (0..layer.inputs).map(|i| entry(i) * h(n, i)).sum::<f64>() / square
            });
            outer += slopes.transpose() * output_fisher(&case.family, &sums[n][sums[n].len() - 1]) * slopes;
        }
        let place = |o: usize, i: usize| layer.offset + o * layer.inputs + i;
        for (o, q) in (0..layer.outputs).flat_map(|o| (0..layer.outputs).map(move |q| (o, q))) {
            for (i, j) in (0..layer.inputs).flat_map(|i| (0..layer.inputs).map(move |j| (i, j))) {
                precision[(place(o, i), place(q, j))] += outer[(o, q)] * mean[(i, j)];
            }
            if layer.bias {
                let bias = layer.offset + layer.n_weights();
                precision[(bias + o, bias + q)] += outer[(o, q)];
            }
        }
    }
    precision
}

fn inverse(precision: &Mat<f64>) -> Mat<f64> {
    use faer::linalg::solvers::DenseSolveCore;
    precision.llt(faer::Side::Lower).expect("positive definite").inverse()
}

/// log det of a positive definite matrix.
fn log_det(precision: &Mat<f64>) -> f64 {
    let factor = precision.llt(faer::Side::Lower).expect("positive definite");
    2.0 * (0..precision.nrows()).map(|d| factor.L()[(d, d)].ln()).sum::<f64>()
}

#[test]
fn everything_is_that_of_the_definition() -> Outcome {
    for ((structure, definition), case) in STRUCTURES.iter().flat_map(|s| cases().into_iter().map(move |c| (s, c))) {
        let (laplace, precision) = (case.fit(*structure), definition(&case));
        let (covariance, prior) = (inverse(&precision), case.prior_diagonal());
        let (size, name) = (prior.len(), format!("{structure}, {}", case.name));
        // The Jacobian by differences is good to 1e-9; evidence and effective parameters are sums of D terms.
        let ratio = log_det(&precision) - prior.iter().map(|alpha| alpha.ln()).sum::<f64>();
        assert!((laplace.log_det_ratio() - ratio).abs() < 1e-7 * (1.0 + ratio), "{name}");
        let effective: f64 = (0..size).map(|d| 1.0 - prior[d] * covariance[(d, d)]).sum();
        assert!((laplace.effective_parameters() - effective).abs() < 1e-7 * (1.0 + effective), "{name}");
        let direction: Vec<f64> = (0..size).map(|d| (1.0 + d as f64).sin()).collect();
        let (mut product, mut solution) = (direction.clone(), direction.clone());
        laplace.precision().times(&direction, &mut product);
        laplace.precision().solve(&direction, &mut solution);
        let along = |matrix: &Mat<f64>| -> Vec<f64> {
            (0..size).map(|i| (0..size).map(|j| matrix[(i, j)] * direction[j]).sum()).collect()
        };
        assert_all_close(&product, &along(&precision), 1e-7, &name);
        assert_all_close(&solution, &along(&covariance), 1e-7, &name);

        // J G⁻¹ Jᵀ at new inputs, one by one and jointly.
        let (points, p) = (4, case.network.architecture().n_outputs());
        let inputs = normal_matrix(points, case.data.inputs().ncols(), 99);
        let jacobian = jacobian_by_differences(case.network.architecture(), case.network.parameters(), &inputs);
        let all = &jacobian * &covariance * jacobian.transpose();
        let (latent, joint) = (laplace.linearized(&inputs)?, laplace.linearized_joint(&inputs)?);
        let scale = (0..points * p).map(|row| all[(row, row)]).fold(0.0, f64::max);
        for (row, column) in (0..points * p).flat_map(|row| (0..points * p).map(move |column| (row, column))) {
            assert!((joint.covariance[(row, column)] - all[(row, column)]).abs() < 1e-7 * scale, "{name}");
            if row / p == column / p {
                let found = latent.covariance[(row / p, row % p, column % p)];
                assert!((found - all[(row, column)]).abs() < 1e-7 * scale, "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn draws_have_the_stated_covariance() -> Outcome {
    for (structure, definition) in STRUCTURES {
        for case in cases().into_iter().step_by(3) {
            let name = format!("{structure}, {}", case.name);
            let laplace = case.fit(structure);
            assert_drawn_from(&laplace.sample(4000, 7)?, laplace.parameters(), &definition(&case), &name)?;
        }
    }
    Ok(())
}

#[test]
fn the_tuned_evidence_is_a_maximum_of_the_fitted_one() -> Outcome {
    for (structure, case) in NAMES.iter().flat_map(|s| cases().into_iter().map(move |c| (s, c))) {
        let mut laplace = case.fit(*structure);
        let prior_structure = match case.prior.len() {
            1 => PriorStructure::Scalar,
            _ => PriorStructure::PerLayer,
        };
        let optimum = laplace.optimize(&EvidenceOptions { prior_structure, ..Default::default() })?;
        let value = laplace.log_marginal_likelihood();
        assert!((value - optimum.log_marginal_likelihood).abs() < 1e-8 * (1.0 + value.abs()), "{}", case.name);
        if !optimum.at_bound.is_empty() {
            continue;
        }
        let (alpha, sigma) = (laplace.prior().values().to_vec(), laplace.family().sigma().map(<[f64]>::to_vec));
        let scaled = |values: &[f64], index: usize, factor: f64| {
            let scale = |(place, value): (usize, &f64)| if place == index { value * factor } else { *value };
            values.iter().enumerate().map(scale).collect::<Vec<f64>>()
        };
        for factor in [0.9, 1.1] {
            let mut other = laplace.clone();
            for index in 0..alpha.len() {
                let moved = PriorValues::from(scaled(&alpha, index, factor));
                other.set_hyperparameters(&moved, sigma.as_deref().unwrap_or_default())?;
                assert!(other.log_marginal_likelihood() < value, "{structure}, {}: α", case.name);
            }
            for index in 0..sigma.as_ref().map_or(0, Vec::len) {
                let moved = scaled(sigma.as_deref().unwrap_or_default(), index, factor);
                other.set_hyperparameters(&PriorValues::from(alpha.clone()), &moved)?;
                assert!(other.log_marginal_likelihood() < value, "{structure}, {}: σ", case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_saved_one_predicts_the_same_with_and_without_its_data() -> Outcome {
    let folder = tempfile::tempdir()?;
    for (structure, case) in NAMES.iter().flat_map(|s| cases().into_iter().step_by(4).map(move |c| (s, c))) {
        let laplace = case.fit(*structure);
        let inputs = normal_matrix(3, case.data.inputs().ncols(), 5);
        for contents in [Contents::TrainingData, Contents::Curvature] {
            let path = folder.path().join("posterior.safetensors");
            laplace.save(&path, contents)?;
            let mut loaded = Laplace::load(&path)?;
            assert_eq!(loaded.structure(), *structure);
            assert_eq!(loaded.linearized(&inputs)?, laplace.linearized(&inputs)?, "{}", case.name);
            assert_eq!(loaded.sample(2, 3)?, laplace.sample(2, 3)?, "{}", case.name);
            assert_eq!(loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood());
            let mut other = laplace.clone();
            let sigma: Vec<f64> = case.family.sigma().unwrap_or_default().iter().map(|value| 1.5 * value).collect();
            for changed in [&mut loaded, &mut other] {
                changed.set_hyperparameters(&PriorValues::Shared(3.0), &sigma)?;
            }
            assert_eq!(loaded.linearized(&inputs)?, other.linearized(&inputs)?, "{}", case.name);
        }
    }
    Ok(())
}

#[test]
fn riemannian_samples_take_their_velocities_from_it_and_the_exact_metric() -> Outcome {
    for structure in NAMES {
        let case = &cases()[0];
        let (approximate, full) = (case.fit(structure), case.fit(Structure::WeightSpace));
        let options = SamplerOptions { seed: 3, ..SamplerOptions::first(4) };
        let samples = approximate.sample_riemannian(MetricName::Fisher, &options, &())?;
        // The same velocities, given to the full posterior's exponential map, lead to the same ends.
        let mut velocities = approximate.sample(4, 3)?;
        velocities.rows_mut().into_iter().for_each(|mut row| {
            row.iter_mut().zip(approximate.model().parameters()).for_each(|(value, centre)| *value -= centre);
        });
        let ends = full.exponential_map(MetricName::Fisher, velocities.view(), options.geodesic, &())?;
        for (sample, end) in samples.theta.iter().zip(&ends.theta) {
            // θ̂ was added to the velocities and taken away again: a rounding, which the flow amplifies a little.
            assert!((sample - end).abs() < 1e-9, "{structure}: {sample} for {end}");
        }
    }
    Ok(())
}

#[test]
fn the_kronecker_structure_is_exact_where_it_should_be() -> Outcome {
    // The exact curvature without the terms between weights and biases, which the structure leaves out.
    let without_coupling = |case: &Case| {
        let (precision, linear) = (case.dense_precision(), &case.network.architecture().linear_layers()[0]);
        let is_bias = |d: usize| d >= linear.n_weights();
        let size = precision.nrows();
        Mat::from_fn(size, size, |i, j| if is_bias(i) == is_bias(j) { precision[(i, j)] } else { 0.0 })
    };
    for family in ["bernoulli", "categorical", "poisson", "gaussian"] {
        let family: Family = family.parse()?;
        // One layer and one datum: a single product. One layer and Gaussian noise: the same B for every datum.
        for points in [1, 7] {
            if points > 1 && family.sigma().is_none() {
                continue;
            }
            let shape = architecture(&[3, 2], &[true], Activation::Identity);
            let network = random_network(shape, 17);
            let data = random_data(&network, &family, points, 18);
            let name = format!("{} with {points} points", family.likelihood().name());
            let case = Case { name, network, data, family: family.clone(), prior: vec![0.6] };
            let (laplace, exact) = (case.fit(Structure::Kronecker), without_coupling(&case));
            let ratio = log_det(&exact) - exact.nrows() as f64 * 0.6f64.ln();
            // The dense matrix is from a Jacobian by differences.
            assert!((laplace.log_det_ratio() - ratio).abs() < 1e-8 * (1.0 + ratio), "{}", case.name);
            let size = exact.nrows();
            for d in 0..size {
                let unit: Vec<f64> = (0..size).map(|i| if i == d { 1.0 } else { 0.0 }).collect();
                let mut product = unit.clone();
                laplace.precision().times(&unit, &mut product);
                let column: Vec<f64> = (0..size).map(|i| exact[(i, d)]).collect();
                assert_all_close(&product, &column, 1e-8, &case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_model_without_matrices_has_exact_blocks() -> Outcome {
    // One group of parameters, so that its block is the whole matrix.
    let decay = |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| f[0] = theta[0] * (-theta[1] * x[0]).exp() + theta[2];
    let model = || FunctionModel::new(vec![2.0, 1.0, 0.3], 1, 1, decay);
    let inputs = normal_matrix(9, 1, 4);
    let data = Dataset::new(inputs.clone(), inputs.mapv(|x| 2.0 * (-x).exp() + 0.3))?;
    let fit = |structure| {
        let options = FitOptions { structure, ..Default::default() };
        Laplace::fit(model()?, data.clone(), Family::gaussian(0.5)?, &options)
    };
    let (full, kronecker) = (fit(Structure::WeightSpace)?, fit(Structure::Kronecker)?);
    assert!((full.log_marginal_likelihood() - kronecker.log_marginal_likelihood()).abs() < 1e-11);
    assert!((full.effective_parameters() - kronecker.effective_parameters()).abs() < 1e-11);
    let (expected, found) = (full.linearized(&inputs)?, kronecker.linearized(&inputs)?);
    assert_all_close(&found.covariance, &expected.covariance.iter().copied().collect::<Vec<f64>>(), 1e-11, "decay");
    let (mut expected, mut found) = ([0.0; 3], [0.0; 3]);
    full.precision().times(&[1.0, -2.0, 3.0], &mut expected);
    kronecker.precision().times(&[1.0, -2.0, 3.0], &mut found);
    assert_all_close(&found, &expected, 1e-12, "decay");
    assert_eq!(full.sample(3, 1)?, kronecker.sample(3, 1)?);
    Ok(())
}

#[test]
fn a_damaged_kronecker_factor_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let case = &cases()[0];
    case.fit(Structure::Kronecker).save(&path, Contents::Curvature)?;
    let bytes = std::fs::read(&path)?;
    // Any change of the stored numbers changes the fingerprint.
    let mut altered = bytes.clone();
    let last = altered.len() - 3;
    altered[last] ^= 0x10;
    std::fs::write(&path, altered)?;
    let error = Laplace::load(&path).expect_err("an altered file").to_string();
    assert!(error.contains("altered or damaged") || error.contains("finite"), "{error}");
    Ok(())
}
