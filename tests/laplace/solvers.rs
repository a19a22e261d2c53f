//! Both solvers against each other, against the definition, and against closed forms.

use faer::Side;
use ndarray::{Array2, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{FitOptions, Laplace};

use crate::common::{Outcome, architecture, assert_all_close, forward, is_close, jacobian_by_differences};
use crate::common::{normal_matrix, normal_vector, random_data, random_network};
use crate::{Case, SOLVERS, cases};

/// log p(y | f), written out for each family.
fn log_density(family: &Family, y: &[f64], f: &[f64]) -> f64 {
    let pairs = y.iter().zip(f);
    match family.likelihood().name() {
        "gaussian" => pairs
            .enumerate()
            .map(|(k, (y, f))| {
                let sigma = family.sigma().unwrap_or_default()[k % family.sigma().unwrap_or_default().len()];
                let density = (-0.5 * ((y - f) / sigma).powi(2)).exp() / (sigma * (2.0 * std::f64::consts::PI).sqrt());
                density.ln()
            })
            .sum(),
        "heteroscedastic" => (0..y.len())
            .map(|k| {
                let (error, variance) = (y[k] - f[k], f[y.len() + k].exp());
                ((-0.5 * error * error / variance).exp() / (2.0 * std::f64::consts::PI * variance).sqrt()).ln()
            })
            .sum(),
        "bernoulli" => {
            pairs.map(|(y, f)| if *y == 1.0 { -(1.0 + (-f).exp()).ln() } else { -(1.0 + f.exp()).ln() }).sum()
        }
        "categorical" => f[y[0] as usize] - f.iter().map(|f| f.exp()).sum::<f64>().ln(),
        "poisson" => {
            pairs.map(|(y, f)| y * f - f.exp() - (1..=*y as u32).map(|k| f64::from(k).ln()).sum::<f64>()).sum()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn both_solvers_agree() -> Outcome {
    for case in cases() {
        let [weight, function] = SOLVERS.map(|solver| case.fit(solver));
        assert_eq!((weight.structure().solver(), function.structure().solver()), ("weight-space", "function-space"));
        let name = &case.name;
        for (what, a, b) in [
            ("log determinant", weight.log_det_ratio(), function.log_det_ratio()),
            ("effective parameters", weight.effective_parameters(), function.effective_parameters()),
            ("evidence", weight.log_marginal_likelihood(), function.log_marginal_likelihood()),
        ] {
            // Condition numbers up to 1e4 leave twelve digits.
            assert!(is_close(a, b, 1e-11, 1.0), "{name}: {what} {a} and {b}");
        }
        let rank = case.data.len() * case.network.architecture().n_outputs();
        let most = rank.min(case.network.parameters().len()) as f64;
        assert!(weight.effective_parameters() > 0.0 && weight.effective_parameters() < most, "{name}");

        let inputs = normal_matrix(5, case.network.architecture().n_inputs(), 3);
        let (a, b) = (weight.linearized(&inputs)?, function.linearized(&inputs)?);
        assert_all_close(&a.mean, &b.mean, 0.0, name);
        assert_all_close(&a.covariance, &b.covariance, 1e-10, &format!("covariance of {name}"));
        let (c, d) = (weight.linearized_joint(&inputs)?, function.linearized_joint(&inputs)?);
        assert_all_close(&c.covariance, &d.covariance, 1e-10, &format!("joint covariance of {name}"));
        // The blocks on the diagonal of the joint covariance are the marginal ones.
        let p = case.network.architecture().n_outputs();
        for ((t, i, j), value) in a.covariance.indexed_iter() {
            assert!(is_close(*value, c.covariance[(t * p + i, t * p + j)], 1e-10, 1e-3), "{name}");
        }
        assert_all_close(&a.mean, &c.mean, 0.0, name);

        let size = case.network.parameters().len();
        let u = normal_vector(size, 4);
        let mut results = Vec::new();
        for laplace in [&weight, &function] {
            let precision = laplace.precision();
            let (mut product, mut solution, mut back) = (vec![0.0; size], vec![0.0; size], vec![0.0; size]);
            precision.times(&u, &mut product);
            precision.solve(&u, &mut solution);
            precision.solve(&product, &mut back);
            assert_all_close(&back, &u, 1e-10, &format!("G⁻¹Gu of {name}"));
            results.push((product, solution));
        }
        assert_all_close(&results[0].0, &results[1].0, 1e-12, &format!("Gu of {name}"));
        assert_all_close(&results[0].1, &results[1].1, 1e-10, &format!("G⁻¹u of {name}"));
    }
    Ok(())
}

#[test]
fn everything_agrees_with_the_definition() -> Outcome {
    for case in cases() {
        let precision = case.dense_precision();
        let (architecture, theta) = (case.network.architecture(), case.network.parameters());
        let outputs = forward(architecture, theta, case.data.inputs());
        let rows = case.data.targets().rows().into_iter().zip(outputs.rows());
        let log_likelihood: f64 = rows.map(|(y, f)| log_density(&case.family, &y.to_vec(), &f.to_vec())).sum();
        let prior = case.prior_diagonal();
        let eigenvalues = precision.self_adjoint_eigenvalues(Side::Lower).map_err(|_| "no eigenvalues")?;
        let log_det: f64 = eigenvalues.iter().map(|value| value.ln()).sum();
        let scatter: f64 = theta.iter().zip(&prior).map(|(theta, alpha)| alpha * theta * theta).sum();
        let log_det_prior: f64 = prior.iter().map(|alpha| alpha.ln()).sum();
        let evidence = log_likelihood - 0.5 * (log_det - log_det_prior + scatter);

        let covariance = precision.llt(Side::Lower).map_err(|_| "not positive definite")?;
        let covariance = faer::linalg::solvers::DenseSolveCore::inverse(&covariance);
        let trace: f64 = prior.iter().enumerate().map(|(d, alpha)| alpha * covariance[(d, d)]).sum();
        let inputs = normal_matrix(4, architecture.n_inputs(), 8);
        let jacobian = jacobian_by_differences(architecture, theta, &inputs);
        let joint = &jacobian * &covariance * jacobian.transpose();

        for solver in SOLVERS {
            let laplace = case.fit(solver);
            let name = format!("{}, {solver:?}", case.name);
            // The Jacobian by differences is good to 1e-10 of its largest entry.
            for (what, found, expected) in [
                ("log likelihood", laplace.log_likelihood(), log_likelihood),
                ("log det G", laplace.log_det_ratio() + log_det_prior, log_det),
                ("evidence", laplace.log_marginal_likelihood(), evidence),
                ("effective parameters", laplace.effective_parameters(), prior.len() as f64 - trace),
            ] {
                assert!(is_close(found, expected, 1e-8, 1.0), "{name}: {what} is {found}, expected {expected}");
            }
            let found = laplace.linearized_joint(&inputs)?;
            let size = found.covariance.nrows();
            let expected = Array2::from_shape_fn((size, size), |(i, j)| joint[(i, j)]);
            assert_all_close(&found.covariance, &expected, 1e-8, &format!("joint covariance of {name}"));
            assert_all_close(&found.mean, &forward(architecture, theta, &inputs), 1e-13, &name);
        }
    }
    Ok(())
}

#[test]
fn a_weak_prior_and_small_noise_keep_the_digits_that_the_condition_leaves() -> Outcome {
    let family = Family::gaussian(1e-3)?;
    let network = random_network(architecture(&[1, 6, 1], &[true, true], Activation::Tanh), 5);
    let data = random_data(&network, &family, 12, 6);
    let case = Case { name: "hard".to_string(), network, data, family, prior: vec![1e-4] };
    let [weight, function] = SOLVERS.map(|solver| case.fit(solver));
    // λ_max/α is 1e12 here: the small eigenvalues of G, which are α, are 12 digits below the largest in weight space,
    // and so are those of S in function space, which are 1. Quantities that the data determine agree far better.
    assert!(is_close(weight.log_det_ratio(), function.log_det_ratio(), 1e-5, 1.0));
    let inputs = case.data.inputs();
    let (a, b) = (weight.linearized(inputs)?, function.linearized(inputs)?);
    for ((found, other), sigma) in a.covariance.iter().zip(&b.covariance).zip(std::iter::repeat(1e-3)) {
        assert!(is_close(*found, *other, 1e-4, 0.0), "{found} and {other}");
        // At a training point the variance of f lies between 0 and that of one observation.
        assert!(*found > 0.0 && *found <= sigma * sigma && *other > 0.0 && *other <= sigma * sigma);
    }
    Ok(())
}

#[test]
fn one_weight_has_a_closed_form_however_much_the_data_outweigh_the_prior() -> Outcome {
    // f = wx: G = α + Σx²/σ², and k = Σx²/(ασ²) is the ratio of the data's part to the prior's.
    let network = Network::new(architecture(&[1, 1], &[false], Activation::Identity), vec![0.4])?;
    let inputs = array![[0.3], [-1.2], [0.7], [2.1], [-0.4]];
    let squares: f64 = inputs.iter().map(|x| x * x).sum();
    let data = Dataset::new(inputs, array![[0.1], [-0.5], [0.3], [0.8], [-0.1]])?;
    for (alpha, sigma) in [(1.0, 1.0), (1e-4, 1e-2), (1e-4, 1e-4), (1e-6, 1e-3)] {
        let precision = alpha + squares / (sigma * sigma);
        let k = squares / (alpha * sigma * sigma);
        for solver in SOLVERS {
            let options = FitOptions { prior_precision: alpha.into(), structure: solver, ..Default::default() };
            let laplace = Laplace::fit(network.clone(), data.clone(), Family::gaussian(sigma)?, &options)?;
            // In function space the factor of S is good to k ε; what is computed from it to the square of that.
            let tolerance = 1e-13 + 100.0 * (k * f64::EPSILON).powi(2);
            let variance = laplace.linearized(&array![[1.5]])?.covariance[(0, 0, 0)];
            assert!(is_close(variance, 2.25 / precision, tolerance, 0.0), "{solver:?}, k = {k:e}: {variance:e}");
            let joint = laplace.linearized_joint(&array![[1.5], [-0.5]])?.covariance;
            assert!(is_close(joint[(1, 0)], -0.75 / precision, tolerance, 0.0), "{solver:?}, k = {k:e}: {joint}");
            let mut solution = [0.0];
            laplace.precision().solve(&[1.0], &mut solution);
            assert!(is_close(solution[0], 1.0 / precision, tolerance, 0.0), "{solver:?}, k = {k:e}: {solution:?}");
            let log_det = (precision / alpha).ln();
            assert!(is_close(laplace.log_det_ratio(), log_det, 1e-13 + k * f64::EPSILON, 0.0), "{solver:?}, k = {k:e}");
            assert!(is_close(laplace.effective_parameters(), k / (1.0 + k), 1e-13 + k * f64::EPSILON, 0.0));
        }
    }
    Ok(())
}

#[test]
fn many_points_are_predicted_in_blocks() -> Outcome {
    // Covariances between all pairs of these points would need 3 GB.
    let family = Family::gaussian(0.3)?;
    let network = random_network(architecture(&[1, 5, 2], &[true, true], Activation::Tanh), 2);
    let data = random_data(&network, &family, 8, 3);
    let inputs = normal_matrix(10_001, 1, 4);
    for solver in SOLVERS {
        let options = FitOptions { structure: solver, ..Default::default() };
        let laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
        let all = laplace.linearized(&inputs)?;
        assert_eq!(all.covariance.dim(), (10_001, 2, 2));
        for t in [0, 127, 128, 5000, 10_000] {
            let one = laplace.linearized(&inputs.select(ndarray::Axis(0), &[t]))?;
            let block = all.covariance.index_axis(ndarray::Axis(0), t);
            assert_all_close(block, &one.covariance, 1e-11, &format!("{solver:?}, point {t}"));
            assert_all_close(all.mean.row(t), &one.mean, 1e-13, &format!("{solver:?}, point {t}"));
        }
    }
    Ok(())
}
