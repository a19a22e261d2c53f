//! The posterior: both solvers against each other and against a dense computation from finite differences, samples
//! against the precision they are drawn from, files, and networks at the edge of the arithmetic.

mod common;

use std::collections::HashMap;
use std::path::Path;

use faer::{Mat, Side};
use ndarray::{Array2, array};
use riemannian_laplace::Error;
use riemannian_laplace::data::Dataset;
use riemannian_laplace::evidence::{EvidenceOptions, Hyperparameters, PriorStructure};
use riemannian_laplace::laplace::{Contents, FitOptions, Laplace, SolverChoice};
use riemannian_laplace::likelihood::Family;
use riemannian_laplace::network::{Activation, Network};
use riemannian_laplace::predict::{Link, MonteCarlo};
use riemannian_laplace::tensors::{self, TensorFile, Values};

use common::{Outcome, architecture, assert_all_close, forward, is_close, jacobian_by_differences, normal_matrix};
use common::{normal_vector, random_data, random_network};

const SOLVERS: [SolverChoice; 2] = [SolverChoice::WeightSpace, SolverChoice::FunctionSpace];

/// A network with its data, a likelihood and a prior.
struct Case {
    name: String,
    network: Network,
    data: Dataset,
    family: Family,
    prior: Vec<f64>,
}

impl Case {
    fn fit(&self, solver: SolverChoice) -> Laplace {
        let options = FitOptions { prior_precision: self.prior.clone(), solver };
        Laplace::fit(self.network.clone(), self.data.clone(), self.family.clone(), &options)
            .unwrap_or_else(|error| panic!("{}, {solver:?}: {error}", self.name))
    }

    /// α of every parameter.
    fn prior_diagonal(&self) -> Vec<f64> {
        let counts = self.network.architecture().layer_params();
        let alpha = |layer: usize| self.prior[layer.min(self.prior.len() - 1)];
        counts.iter().enumerate().flat_map(|(layer, count)| vec![alpha(layer); *count]).collect()
    }

    /// G = A + Σ JᵀHJ from the definition.
    fn dense_precision(&self) -> Mat<f64> {
        let (architecture, theta) = (self.network.architecture(), self.network.parameters());
        let jacobian = jacobian_by_differences(architecture, theta, self.data.inputs());
        let outputs = forward(architecture, theta, self.data.inputs());
        let (d, p) = (theta.len(), architecture.n_outputs());
        let mut precision = Mat::zeros(d, d);
        for (d, alpha) in self.prior_diagonal().into_iter().enumerate() {
            precision[(d, d)] = alpha;
        }
        for (n, output) in outputs.rows().into_iter().enumerate() {
            let rows = jacobian.get(n * p..(n + 1) * p, ..);
            let fisher = output_fisher(&self.family, &output.to_vec());
            precision += rows.transpose() * fisher * rows;
        }
        precision
    }
}

/// H(f), written out for each family.
fn output_fisher(family: &Family, f: &[f64]) -> Mat<f64> {
    let diagonal =
        |entry: &dyn Fn(usize) -> f64| Mat::from_fn(f.len(), f.len(), |i, j| if i == j { entry(i) } else { 0.0 });
    match family {
        Family::Gaussian(gaussian) => {
            let sigmas = gaussian.sigmas();
            diagonal(&|i| sigmas[i % sigmas.len()].powi(-2))
        }
        Family::Bernoulli(_) => diagonal(&|i| {
            let p = 1.0 / (1.0 + (-f[i]).exp());
            p * (1.0 - p)
        }),
        Family::Categorical(_) => {
            let total: f64 = f.iter().map(|f| f.exp()).sum();
            let p: Vec<f64> = f.iter().map(|f| f.exp() / total).collect();
            Mat::from_fn(f.len(), f.len(), |i, j| if i == j { p[i] - p[i] * p[i] } else { -p[i] * p[j] })
        }
        Family::Poisson(_) => diagonal(&|i| f[i].exp()),
    }
}

/// log p(y | f), written out for each family.
fn log_density(family: &Family, y: &[f64], f: &[f64]) -> f64 {
    let pairs = y.iter().zip(f);
    match family {
        Family::Gaussian(gaussian) => pairs
            .enumerate()
            .map(|(k, (y, f))| {
                let sigma = gaussian.sigmas()[k % gaussian.sigmas().len()];
                let density = (-0.5 * ((y - f) / sigma).powi(2)).exp() / (sigma * (2.0 * std::f64::consts::PI).sqrt());
                density.ln()
            })
            .sum(),
        Family::Bernoulli(_) => {
            pairs.map(|(y, f)| if *y == 1.0 { -(1.0 + (-f).exp()).ln() } else { -(1.0 + f.exp()).ln() }).sum()
        }
        Family::Categorical(_) => f[y[0] as usize] - f.iter().map(|f| f.exp()).sum::<f64>().ln(),
        Family::Poisson(_) => {
            pairs.map(|(y, f)| y * f - f.exp() - (1..=*y as u32).map(|k| f64::from(k).ln()).sum::<f64>()).sum()
        }
    }
}

/// Every likelihood, with fewer and with more parameters than data, with one prior precision and with one a layer.
fn cases() -> Vec<Case> {
    let gaussian = || Family::gaussian(0.3).expect("a noise level");
    let per_output = || Family::gaussian_per_output(&[0.3, 0.8]).expect("noise levels");
    let named = |name: &str| name.parse::<Family>().expect("a family");
    type Shape<'a> = (Family, &'a [usize], &'a [bool], Activation, [usize; 2]);
    let shapes: Vec<Shape<'_>> = vec![
        (gaussian(), &[2, 5, 1], &[true, true], Activation::Tanh, [40, 10]),
        (gaussian(), &[1, 4, 3, 2], &[true, true, true], Activation::Sigmoid, [30, 8]),
        (per_output(), &[2, 4, 2], &[true, true], Activation::Silu, [30, 6]),
        (named("bernoulli"), &[3, 1], &[true], Activation::Identity, [25, 3]),
        (named("bernoulli"), &[2, 4, 3, 2], &[true, false, true], Activation::Gelu, [40, 8]),
        (named("categorical"), &[2, 5, 3], &[true, true], Activation::Softplus, [30, 7]),
        (named("poisson"), &[2, 4, 1], &[false, true], Activation::Sin, [30, 9]),
        (named("poisson"), &[2, 3, 2], &[true, true], Activation::Elu, [25, 5]),
    ];
    let mut cases = Vec::new();
    for (index, (family, sizes, biases, activation, counts)) in shapes.into_iter().enumerate() {
        let architecture = architecture(sizes, biases, activation);
        let network = random_network(architecture.clone(), 40 + index as u64);
        let layered: Vec<f64> = (0..sizes.len() - 1).map(|layer| 0.4 + 1.1 * layer as f64).collect();
        for points in counts {
            for prior in [vec![0.7], layered.clone()] {
                let data = random_data(&network, &family, points, 60 + index as u64);
                let name = format!("{} {architecture}, N = {points}, A = {prior:?}", family.likelihood().name());
                cases.push(Case { name, network: network.clone(), data, family: family.clone(), prior });
            }
        }
    }
    cases
}

#[test]
fn both_solvers_agree() -> Outcome {
    for case in cases() {
        let [weight, function] = SOLVERS.map(|solver| case.fit(solver));
        assert_eq!((weight.precision().solver(), function.precision().solver()), ("weight-space", "function-space"));
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
            let mut worker = laplace.precision().worker();
            let (mut product, mut solution, mut back) = (vec![0.0; size], vec![0.0; size], vec![0.0; size]);
            worker.times(&u, &mut product);
            worker.solve(&u, &mut solution);
            worker.solve(&product, &mut back);
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
    // λ_max/α is 1e12 here: the small eigenvalues of G, which are α, stand 12 digits below the largest in weight space,
    // and so do those of S in function space, which are 1. What is determined by the data agrees far better.
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
    // f = wx: G = α + Σx²/σ², and k = Σx²/(ασ²) is by how much.
    let network = Network::new(architecture(&[1, 1], &[false], Activation::Identity), vec![0.4])?;
    let inputs = array![[0.3], [-1.2], [0.7], [2.1], [-0.4]];
    let squares: f64 = inputs.iter().map(|x| x * x).sum();
    let data = Dataset::new(inputs, array![[0.1], [-0.5], [0.3], [0.8], [-0.1]])?;
    for (alpha, sigma) in [(1.0, 1.0), (1e-4, 1e-2), (1e-4, 1e-4), (1e-6, 1e-3)] {
        let precision = alpha + squares / (sigma * sigma);
        let k = squares / (alpha * sigma * sigma);
        for solver in SOLVERS {
            let options = FitOptions { prior_precision: vec![alpha], solver };
            let laplace = Laplace::fit(network.clone(), data.clone(), Family::gaussian(sigma)?, &options)?;
            // In function space the factor of S is good to k ε; what is made of it to the square of that.
            let tolerance = 1e-13 + 100.0 * (k * f64::EPSILON).powi(2);
            let variance = laplace.linearized(&array![[1.5]])?.covariance[(0, 0, 0)];
            assert!(is_close(variance, 2.25 / precision, tolerance, 0.0), "{solver:?}, k = {k:e}: {variance:e}");
            let joint = laplace.linearized_joint(&array![[1.5], [-0.5]])?.covariance;
            assert!(is_close(joint[(1, 0)], -0.75 / precision, tolerance, 0.0), "{solver:?}, k = {k:e}: {joint}");
            let mut solution = [0.0];
            laplace.precision().worker().solve(&[1.0], &mut solution);
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
        let options = FitOptions { solver, ..Default::default() };
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

/// Whitens draws with the factor of G and compares mean and covariance with 0 and I.
fn assert_drawn_from(draws: &Array2<f64>, centre: &[f64], precision: &Mat<f64>, name: &str) -> Outcome {
    let (count, size) = draws.dim();
    let factor = precision.llt(Side::Lower).map_err(|_| "not positive definite")?;
    let lower = factor.L();
    let mut whitened = Mat::zeros(count, size);
    for s in 0..count {
        for i in 0..size {
            whitened[(s, i)] = (i..size).map(|j| lower[(j, i)] * (draws[(s, j)] - centre[j])).sum();
        }
    }
    let root = (count as f64).sqrt();
    let second = whitened.transpose() * &whitened;
    for i in 0..size {
        let mean = whitened.col(i).iter().sum::<f64>() / count as f64;
        assert!(mean.abs() < 5.0 / root, "{name}: mean {i} is {} standard errors from 0", mean * root);
        for j in 0..=i {
            // Products of two independent normals have variance 1, squares have variance 2.
            let (expected, error) = if i == j { (1.0, 2f64.sqrt() / root) } else { (0.0, 1.0 / root) };
            let deviation = (second[(i, j)] / count as f64 - expected) / error;
            assert!(deviation.abs() < 5.0, "{name}: covariance ({i}, {j}) is {deviation} standard errors off");
        }
    }
    // The sum of all squares is chi-square with S·D degrees of freedom.
    let squares: f64 = (0..size).map(|i| second[(i, i)]).sum();
    let freedom = (count * size) as f64;
    assert!((squares - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{name}: χ² is {squares} for {freedom}");
    Ok(())
}

#[test]
fn samples_have_the_covariance_of_the_posterior() -> Outcome {
    for case in cases() {
        let precision = case.dense_precision();
        for solver in SOLVERS {
            let draws = case.fit(solver).sample(6000, 11)?;
            assert_drawn_from(&draws, case.network.parameters(), &precision, &format!("{}, {solver:?}", case.name))?;
        }
    }
    Ok(())
}

/// Runs in a pool of that many threads.
fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool").install(work)
}

fn bits<'a>(values: impl IntoIterator<Item = &'a f64>) -> Vec<u64> {
    values.into_iter().map(|value| value.to_bits()).collect()
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() -> Outcome {
    for case in cases().into_iter().step_by(3) {
        for solver in SOLVERS {
            let laplace = case.fit(solver);
            let one = on_threads(1, || laplace.sample(33, 5))?;
            let two = on_threads(2, || laplace.sample(33, 5))?;
            let some = on_threads(2, || laplace.sample(7, 5))?;
            assert_eq!(bits(&one), bits(&two), "{}", case.name);
            assert_eq!(bits(&one)[..some.len()], bits(&some)[..], "{}: a shorter run differs", case.name);
            assert_ne!(bits(&one), bits(&laplace.sample(33, 6)?));
        }
    }
    Ok(())
}

#[test]
fn large_matrices_factor_to_the_same_bits_on_any_number_of_threads() -> Outcome {
    // Large enough for products and factorisations to be shared among threads.
    let family = Family::gaussian(0.5)?;
    let network = random_network(architecture(&[2, 150, 1], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 700, 2);
    let case = Case { name: "large".to_string(), network, data, family, prior: vec![1.0] };
    let inputs = normal_matrix(3, 2, 4);
    for solver in SOLVERS {
        let work = || -> Result<_, Error> {
            let mut laplace = case.fit(solver);
            let mut all = vec![laplace.log_det_ratio(), laplace.effective_parameters()];
            let tuned = laplace.optimize(&EvidenceOptions::default())?.hyperparameters;
            all.extend(tuned.prior_precision.iter().chain(&tuned.sigma));
            all.extend(laplace.linearized(&inputs)?.covariance);
            all.extend(laplace.sample(2, 1)?);
            Ok(all)
        };
        let free = work()?;
        let one = on_threads(1, work)?;
        let two = on_threads(2, work)?;
        assert_eq!(bits(&one), bits(&two), "{solver:?}: one and two threads");
        assert_eq!(bits(&one), bits(&free), "{solver:?}: one thread and all");
    }
    Ok(())
}

#[test]
fn changed_hyperparameters_equal_a_new_fit() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in cases() {
        let layers = case.network.architecture().linear_layers().len();
        let prior_precision = if case.prior.len() == 1 { vec![2.5; layers] } else { vec![2.5] };
        // From one σ to one an output, and back.
        let sigma = match case.family.sigma() {
            Some([_]) => vec![0.45; case.network.architecture().n_outputs()],
            Some(_) => vec![0.45],
            None => Vec::new(),
        };
        for solver in SOLVERS {
            let mut changed = case.fit(solver);
            changed.set_hyperparameters(&Hyperparameters {
                prior_precision: prior_precision.clone(),
                sigma: sigma.clone(),
            })?;
            let family = if sigma.is_empty() { case.family.clone() } else { Family::gaussian_per_output(&sigma)? };
            let fresh = Case {
                name: case.name.clone(),
                network: case.network.clone(),
                data: case.data.clone(),
                family,
                prior: prior_precision.clone(),
            }
            .fit(solver);
            let (a, b) = (changed.log_marginal_likelihood(), fresh.log_marginal_likelihood());
            assert!(is_close(a, b, 1e-11, 1.0), "{}, {solver:?}: {a} and {b}", case.name);
            let (a, b) = (changed.effective_parameters(), fresh.effective_parameters());
            assert!(is_close(a, b, 1e-10, 1.0), "{}, {solver:?}: {a} and {b}", case.name);
            if solver == SolverChoice::WeightSpace {
                // A file without data must bring back whatever parts the curvature has by now.
                changed.save(&path, Contents::Curvature)?;
                let loaded = Laplace::load(&path)?;
                let (a, b) = (changed.log_marginal_likelihood(), loaded.log_marginal_likelihood());
                assert_eq!(a.to_bits(), b.to_bits(), "{}", case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn hyperparameters_of_the_wrong_number_are_refused() -> Outcome {
    let family = Family::gaussian_per_output(&[0.3, 0.8])?;
    let network = random_network(architecture(&[2, 4, 2], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 9, 1);
    for solver in SOLVERS {
        let options = FitOptions { solver, ..Default::default() };
        let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
        let before = laplace.log_marginal_likelihood();
        for (prior_precision, sigma) in [
            (vec![1.0], vec![0.1, 0.2, 0.3]),
            (vec![1.0], vec![]),
            (vec![1.0, 2.0, 3.0], vec![0.1]),
            (vec![], vec![0.1]),
            (vec![-1.0], vec![0.1]),
            (vec![1.0], vec![f64::NAN]),
        ] {
            let hyperparameters = Hyperparameters { prior_precision, sigma };
            let outcome = laplace.set_hyperparameters(&hyperparameters);
            assert!(outcome.is_err(), "{hyperparameters:?} was accepted");
        }
        assert_eq!(laplace.log_marginal_likelihood().to_bits(), before.to_bits());
    }
    Ok(())
}

#[test]
fn saved_posteriors_predict_the_same_bits() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in cases() {
        let inputs = normal_matrix(4, case.network.architecture().n_inputs(), 5);
        for (solver, contents) in [
            (SolverChoice::WeightSpace, Contents::TrainingData),
            (SolverChoice::FunctionSpace, Contents::TrainingData),
            (SolverChoice::WeightSpace, Contents::Curvature),
        ] {
            let mut laplace = case.fit(solver);
            laplace.save(&path, contents)?;
            let mut loaded = Laplace::load_for(&path, &case.network)?;
            let name = format!("{}, {solver:?}, {contents:?}", case.name);
            assert_eq!(loaded.data().is_some(), contents == Contents::TrainingData, "{name}");
            assert_eq!(loaded.data().is_some(), loaded.target("fisher").is_ok(), "{name}");
            for _ in 0..2 {
                assert_eq!(laplace.family(), loaded.family(), "{name}");
                assert_eq!(laplace.prior(), loaded.prior(), "{name}");
                assert_eq!(laplace.n_data(), loaded.n_data(), "{name}");
                let (a, b) = (laplace.linearized(&inputs)?, loaded.linearized(&inputs)?);
                assert_eq!(bits(&a.mean), bits(&b.mean), "{name}");
                assert_eq!(bits(&a.covariance), bits(&b.covariance), "{name}");
                assert_eq!(bits(&laplace.sample(3, 1)?), bits(&loaded.sample(3, 1)?), "{name}");
                let (a, b) = (laplace.log_marginal_likelihood(), loaded.log_marginal_likelihood());
                assert_eq!(a.to_bits(), b.to_bits(), "{name}");
                // Once more after tuning, which both can do, and after the tuned posterior went through a file too.
                let options = EvidenceOptions { prior_structure: PriorStructure::PerLayer, ..Default::default() };
                assert_eq!(laplace.optimize(&options)?, loaded.optimize(&options)?, "{name}");
                loaded.save(&path, contents)?;
                loaded = Laplace::load(&path)?;
            }
        }
    }
    Ok(())
}

/// A small posterior in a file.
fn saved(path: &Path, contents: Contents) -> Result<Laplace, Error> {
    let family = Family::gaussian(0.3)?;
    let network = random_network(architecture(&[2, 3, 1], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 20, 1);
    let options = FitOptions { prior_precision: vec![0.5, 2.0], ..Default::default() };
    let laplace = Laplace::fit(network, data, family, &options)?;
    laplace.save(path, contents)?;
    Ok(laplace)
}

/// Rewrites a file after a change of its tensors or metadata.
fn tamper(path: &Path, change: impl FnOnce(&mut TensorFile)) -> Result<(), Error> {
    let mut file = TensorFile::read(path)?;
    change(&mut file);
    let entries: Vec<(&str, Vec<usize>, Values<'_>)> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    tensors::write(path, &entries, file.metadata.clone())
}

#[test]
fn a_posterior_of_another_network_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let laplace = saved(&path, Contents::TrainingData)?;
    let architecture = laplace.network().architecture();
    let mut theta = laplace.network().parameters().to_vec();
    theta[4] *= 1.0 + f64::EPSILON;
    let nearly = Network::new(architecture.clone(), theta)?;
    let relu = common::architecture(&[2, 3, 1], &[true, true], Activation::Relu);
    let other_activation = Network::new(relu, laplace.network().parameters().to_vec())?;
    for other in [nearly, other_activation] {
        match Laplace::load_for(&path, &other) {
            Err(Error::Fingerprint { expected, found }) => {
                assert_eq!(expected, laplace.network().fingerprint());
                assert_eq!(found, other.fingerprint());
            }
            outcome => panic!("accepted, or refused for another reason: {:?}", outcome.err()),
        }
    }
    assert!(Laplace::load_for(&path, laplace.network()).is_ok());
    Ok(())
}

#[test]
fn an_altered_file_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    type Change = (&'static str, Contents, fn(&mut TensorFile), &'static str);
    fn set(file: &mut TensorFile, key: &str, value: &str) {
        file.metadata.insert(key.to_string(), value.to_string());
    }
    fn replace(file: &mut TensorFile, key: &str, from: &str, to: &str) {
        let text = file.metadata[key].clone();
        assert!(text.contains(from), "`{key}` is {text}");
        set(file, key, &text.replace(from, to));
    }
    let with_data = Contents::TrainingData;
    let without = Contents::Curvature;
    // What is changed, and a word that the complaint must hold.
    let changes: Vec<Change> = vec![
        ("a weight", with_data, |file| file.tensors.get_mut("theta").unwrap().values[0] += 1e-9, "fingerprint"),
        (
            "a weight, without data",
            without,
            |file| file.tensors.get_mut("theta").unwrap().values[0] = 0.0,
            "fingerprint",
        ),
        ("the fingerprint", with_data, |file| set(file, "fingerprint", "0123456789abcdef"), "fingerprint"),
        ("no fingerprint", with_data, |file| drop(file.metadata.remove("fingerprint")), "fingerprint"),
        ("the activation", with_data, |file| replace(file, "architecture", "tanh", "relu"), "fingerprint"),
        ("no such activation", with_data, |file| replace(file, "architecture", "tanh", "tan"), "architecture"),
        ("no layers", with_data, |file| set(file, "architecture", "[]"), "architecture"),
        (
            "an offset",
            with_data,
            |file| replace(file, "architecture", "\"bias\":true", "\"bias\":true,\"offset\":99"),
            "architecture",
        ),
        ("a width", with_data, |file| replace(file, "architecture", "\"inputs\":3", "\"inputs\":4"), "architecture"),
        (
            "a huge width",
            with_data,
            |file| replace(file, "architecture", "\"inputs\":2", "\"inputs\":9223372036854775807"),
            "architecture",
        ),
        ("no prior", with_data, |file| set(file, "prior", r#"{"values":[],"groups":[9,4]}"#), "prior"),
        ("a negative prior", with_data, |file| set(file, "prior", r#"{"values":[-1.0],"groups":[9,4]}"#), "prior"),
        ("three priors", without, |file| set(file, "prior", r#"{"values":[1,1,1],"groups":[9,4]}"#), "prior"),
        (
            "two noise levels",
            with_data,
            |file| set(file, "likelihood", r#"{"name":"gaussian","sigma":[1,2]}"#),
            "output",
        ),
        (
            "two noise levels, without data",
            without,
            |file| set(file, "likelihood", r#"{"name":"gaussian","sigma":[1,2]}"#),
            "",
        ),
        ("no noise level", with_data, |file| set(file, "likelihood", r#"{"name":"gaussian"}"#), "sigma"),
        ("no such family", with_data, |file| set(file, "likelihood", r#"{"name":"cauchy"}"#), "cauchy"),
        ("another family", with_data, |file| set(file, "likelihood", r#"{"name":"poisson"}"#), "poisson"),
        ("the format", with_data, |file| set(file, "format", "something else"), "format"),
        ("no format", with_data, |file| drop(file.metadata.remove("format")), "format"),
        ("a later version", with_data, |file| set(file, "version", "2"), "version"),
        ("the solver", with_data, |file| set(file, "solver", "dense"), "solver"),
        ("the number of data", without, |file| set(file, "n_data", "-3"), "n_data"),
        ("no data", without, |file| set(file, "n_data", "0"), "n_data"),
        ("no targets", with_data, |file| drop(file.tensors.remove("targets")), "targets"),
        (
            "a shorter list of inputs",
            with_data,
            |file| file.tensors.get_mut("inputs").unwrap().shape = vec![40],
            "inputs",
        ),
        ("no weights", with_data, |file| drop(file.tensors.remove("theta")), "theta"),
        ("no curvature", without, |file| drop(file.tensors.remove("curvature.0")), "curvature.0"),
        ("no errors", without, |file| drop(file.tensors.remove("squared_errors")), "squared_errors"),
        (
            "a flat curvature",
            without,
            |file| file.tensors.get_mut("curvature.0").unwrap().shape = vec![169],
            "curvature.0",
        ),
        (
            "an indefinite curvature",
            without,
            |file| file.tensors.get_mut("curvature.0").unwrap().values[0] = -1e6,
            "positive definite",
        ),
    ];
    for (what, contents, change, word) in changes {
        saved(&path, contents)?;
        tamper(&path, change)?;
        match Laplace::load(&path) {
            Ok(_) => panic!("{what}: the file was accepted"),
            Err(error) => assert!(error.to_string().contains(word), "{what}: {error}"),
        }
    }

    saved(&path, with_data)?;
    let bytes = std::fs::read(&path)?;
    for length in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length])?;
        assert!(matches!(Laplace::load(&path), Err(Error::Safetensors { .. })), "{length} bytes were accepted");
    }
    assert!(matches!(Laplace::load(&folder.path().join("absent")), Err(Error::Io { .. })));
    Ok(())
}

#[test]
fn without_data_only_a_weight_space_posterior_can_be_saved() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let case = &cases()[0];
    let outcome = case.fit(SolverChoice::FunctionSpace).save(&path, Contents::Curvature);
    assert!(matches!(outcome, Err(Error::Setting { .. })));
    assert!(!path.exists());
    case.fit(SolverChoice::WeightSpace).save(&path, Contents::Curvature)?;
    let file = TensorFile::read(&path)?;
    assert!(!file.tensors.contains_key("inputs") && !file.tensors.contains_key("targets"));
    assert!(matches!(Laplace::load(&path)?.target("fisher"), Err(Error::NoTrainingData { metric: "fisher" })));
    Ok(())
}

#[test]
fn collapsed_units_have_the_precision_of_the_prior() -> Outcome {
    let architecture = architecture(&[2, 5, 2], &[true, true], Activation::Tanh);
    let mut theta = random_network(architecture.clone(), 3).parameters().to_vec();
    // No outgoing weights of the first three hidden units: nothing in front of them matters.
    for output in 0..2 {
        theta[15 + 5 * output..][..3].fill(0.0);
    }
    let network = Network::new(architecture, theta)?;
    for family in [Family::gaussian(0.3)?, "categorical".parse()?] {
        let data = random_data(&network, &family, 30, 1);
        let case =
            Case { name: "collapsed".to_string(), network: network.clone(), data, family, prior: vec![0.3, 0.9] };
        for solver in SOLVERS {
            let mut laplace = case.fit(solver);
            for unit in 0..3 {
                let mut direction = vec![0.0; 27];
                direction[2 * unit + 1] = 1.0;
                let mut product = vec![0.0; 27];
                laplace.precision().worker().times(&direction, &mut product);
                direction[2 * unit + 1] = 0.3;
                assert_eq!(product, direction);
            }
            let optimum = laplace.optimize(&EvidenceOptions::default())?;
            assert!(optimum.converged && optimum.log_marginal_likelihood.is_finite(), "{optimum:?}");
            assert!(laplace.sample(4, 0)?.iter().all(|value| value.is_finite()));
        }
        assert_drawn_from(
            &case.fit(SolverChoice::FunctionSpace).sample(4000, 2)?,
            case.network.parameters(),
            &case.dense_precision(),
            "collapsed",
        )?;
    }
    Ok(())
}

#[test]
fn saturated_networks_give_no_nan() -> Outcome {
    // tanh units at ±1 to the last bit, and logits up to ±800.
    let architecture = architecture(&[1, 3, 2], &[true, true], Activation::Tanh);
    let theta = vec![900.0, -700.0, 1e3, 0.5, 0.1, -0.3, 400.0, -200.0, 200.0, -400.0, 200.0, -200.0, 0.0, 0.0];
    let network = Network::new(architecture, theta)?;
    let inputs = array![[-2.0], [-0.7], [1e-4], [0.4], [3.0]];
    let outputs = forward(network.architecture(), network.parameters(), &inputs);
    assert!(outputs.iter().any(|f| *f == 800.0) && outputs.iter().any(|f| *f == -800.0));
    let labels = array![[0.0], [1.0], [1.0], [0.0], [1.0]];
    let pairs = Array2::from_shape_fn((5, 2), |(n, k)| if (n + k) % 2 == 0 { 1.0 } else { 0.0 });
    for (family, targets) in [
        (Family::gaussian(0.5)?, pairs.clone()),
        ("bernoulli".parse()?, pairs.clone()),
        ("categorical".parse()?, labels),
    ] {
        let data = Dataset::new(inputs.clone(), targets.clone())?;
        for solver in SOLVERS {
            let options = FitOptions { prior_precision: vec![1e-3], solver };
            let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
            let name = format!("{}, {solver:?}", family.likelihood().name());
            laplace.optimize(&EvidenceOptions::default())?;
            assert!(laplace.log_marginal_likelihood().is_finite(), "{name}");
            assert!(laplace.effective_parameters().is_finite(), "{name}");
            let samples = laplace.sample(5, 1)?;
            assert!(samples.iter().all(|value| value.is_finite()), "{name}");
            let latent = laplace.linearized(&inputs)?;
            assert!(latent.covariance.iter().all(|value| value.is_finite()), "{name}");
            let monte_carlo = Link::MonteCarlo(MonteCarlo { samples: 50, seed: 1 });
            for link in [Link::Probit, Link::Bridge, monte_carlo] {
                let prediction = latent.predict(&family, link)?;
                let values = [&prediction.mean, &prediction.epistemic_variance, &prediction.aleatoric_variance];
                assert!(values.iter().all(|array| array.iter().all(|value| value.is_finite())), "{name}, {link:?}");
            }
            let prediction = laplace.sampled(samples.view(), &inputs)?.prediction();
            assert!(prediction.total_variance.iter().all(|value| value.is_finite()), "{name}");
        }
    }
    Ok(())
}

#[test]
fn rates_that_overflow_are_refused_with_their_place() -> Outcome {
    let network = Network::new(architecture(&[1, 1], &[false], Activation::Identity), vec![400.0])?;
    let family: Family = "poisson".parse()?;
    let data = Dataset::new(array![[0.0], [-2.0], [2.0]], array![[1.0], [0.0], [3.0]])?;
    for solver in SOLVERS {
        let options = FitOptions { solver, ..Default::default() };
        let outcome = Laplace::fit(network.clone(), data.clone(), family.clone(), &options);
        assert!(matches!(outcome, Err(Error::NotFinite { row: 2, column: 0, .. })), "{:?}", outcome.err());
        // A rate of e⁻⁸⁰⁰ is no obstacle.
        let harmless = data.select(&[0, 1])?;
        assert!(
            Laplace::fit(network.clone(), harmless, family.clone(), &options)?.log_marginal_likelihood().is_finite()
        );
    }
    Ok(())
}

#[test]
fn wrong_input_is_refused_with_a_reason() -> Outcome {
    let network = random_network(architecture(&[2, 3, 2], &[true, true], Activation::Tanh), 1);
    let inputs = normal_matrix(6, 2, 1);
    let fit = |inputs: Array2<f64>, targets: Array2<f64>, family: &str, prior: Vec<f64>| {
        let options = FitOptions { prior_precision: prior, ..Default::default() };
        Laplace::fit(network.clone(), Dataset::new(inputs, targets)?, family.parse()?, &options).map(|_| ())
    };
    let pairs = normal_matrix(6, 2, 2);
    let labels = Array2::zeros((6, 1));
    let mut complaints: HashMap<&str, Result<(), Error>> = HashMap::new();
    complaints
        .insert("input columns: expected 2, found 3", fit(normal_matrix(6, 3, 1), pairs.clone(), "gaussian", vec![]));
    complaints.insert("target columns: expected 2, found 1", fit(inputs.clone(), labels.clone(), "gaussian", vec![]));
    complaints.insert("target columns: expected 1, found 2", fit(inputs.clone(), pairs.clone(), "categorical", vec![]));
    complaints.insert("data point 3: categorical target 2", {
        let mut labels = labels.clone();
        labels[(3, 0)] = 2.0;
        fit(inputs.clone(), labels, "categorical", vec![])
    });
    complaints.insert("data point 0: bernoulli target", fit(inputs.clone(), pairs.clone(), "bernoulli", vec![]));
    complaints.insert("prior precision is 0", fit(inputs.clone(), pairs.clone(), "gaussian", vec![0.0]));
    complaints
        .insert("prior precisions: expected 2, found 3", fit(inputs.clone(), pairs.clone(), "gaussian", vec![1.0; 3]));
    complaints
        .insert("target rows: expected 6, found 5", fit(inputs.clone(), normal_matrix(5, 2, 2), "gaussian", vec![]));
    complaints.insert("no rows", fit(Array2::zeros((0, 2)), Array2::zeros((0, 2)), "gaussian", vec![]));
    for (words, outcome) in complaints {
        let error = outcome.expect_err(words);
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
        assert!(error.is_input());
    }

    let laplace = Laplace::fit(
        network.clone(),
        Dataset::new(inputs.clone(), pairs)?,
        Family::gaussian(1.0)?,
        &FitOptions::default(),
    )?;
    assert!(laplace.linearized(&normal_matrix(2, 3, 0)).is_err());
    assert!(laplace.linearized_joint(&Array2::zeros((0, 2))).is_err());
    assert!(laplace.sampled(normal_matrix(2, 5, 0).view(), &inputs).is_err());
    assert!(laplace.sampled(Array2::zeros((0, 17)).view(), &inputs).is_err());
    let mut bad = inputs;
    bad[(1, 1)] = f64::NAN;
    assert!(matches!(laplace.outputs(&bad), Err(Error::NotFinite { row: 1, column: 1, .. })));
    Ok(())
}
