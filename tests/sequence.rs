//! Data that come later, and tasks that come one after another.

mod common;

use ndarray::{Array2, Axis, Slice};
use riemannian_laplace::internals::laplace::PosteriorError;
use riemannian_laplace::{
    Activation, Contents, CurvatureKind, Dataset, Error, EvidenceOptions, Family, FitOptions, Laplace, MetricName,
    Network, SamplerOptions, Structure, Unsupported,
};

use common::{
    Outcome, architecture, assert_all_close, is_close, normal_matrix, normal_vector, random_data, random_network,
};

const STRUCTURES: [Structure; 4] =
    [Structure::WeightSpace, Structure::FunctionSpace, Structure::Diagonal, Structure::Kronecker];

/// The rows `from..to` of a data set.
fn part(data: &Dataset, from: usize, to: usize) -> Result<Dataset, Error> {
    let cut = |array: &Array2<f64>| array.slice_axis(Axis(0), Slice::from(from..to)).to_owned();
    Dataset::new(cut(data.inputs()), cut(data.targets()))?.with_schema(data.schema().clone())
}

/// G times a fixed vector, for comparisons.
fn precision_times(laplace: &Laplace) -> Vec<f64> {
    let size = laplace.parameters().len();
    let mut product = vec![0.0; size];
    laplace.precision().times(&normal_vector(size, 7), &mut product);
    product
}

fn assert_same(found: &Laplace, expected: &Laplace, name: &str) -> Outcome {
    assert_eq!(found.n_data(), expected.n_data(), "{name}");
    assert_all_close(&precision_times(found), &precision_times(expected), 1e-12, name);
    let (a, b) = (found.log_marginal_likelihood(), expected.log_marginal_likelihood());
    assert!(is_close(a, b, 1e-11, 1.0), "{name}: {a} against {b}");
    let (a, b) = (found.log_likelihood(), expected.log_likelihood());
    assert!(is_close(a, b, 1e-12, 1.0), "{name}: {a} against {b}");
    Ok(())
}

/// Networks with data: one σ, several, and classes.
fn cases() -> Result<Vec<(Network, Dataset, Family)>, Error> {
    let mut cases = Vec::new();
    let families =
        [(1, Family::gaussian(0.4)?), (2, Family::gaussian_per_output(&[0.3, 0.8])?), (3, "categorical".parse()?)];
    for (outputs, family) in families {
        let network = random_network(architecture(&[2, 3, outputs], &[true, true], Activation::Tanh), 91);
        let data = random_data(&network, &family, 40, 92);
        cases.push((network, data, family));
    }
    Ok(cases)
}

#[test]
fn data_that_come_in_three_parts_give_the_posterior_of_all() -> Outcome {
    for (network, data, family) in cases()? {
        for structure in STRUCTURES {
            let options = FitOptions {
                prior_precision: vec![0.5, 2.0].into(),
                structure,
                temperature: 0.8,
                ..Default::default()
            };
            let whole = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
            let mut parts = Laplace::fit(network.clone(), part(&data, 0, 13)?, family.clone(), &options)?;
            let untouched = parts.clone();
            parts.update(part(&data, 13, 15)?)?;
            parts.update(part(&data, 15, 40)?)?;
            let name = format!("{}, {structure}", family.likelihood().name());
            assert_same(&parts, &whole, &name)?;
            assert_eq!(parts.data(), Some(&data), "{name}");
            assert_eq!(untouched.n_data(), 13, "{name}: a clone keeps its own sums");
            // Everything that a posterior of all data can do: other hyperparameters, and the metric.
            let (a, b) =
                (parts.optimize(&EvidenceOptions::default())?, whole.clone().optimize(&EvidenceOptions::default())?);
            assert!(is_close(a.log_marginal_likelihood, b.log_marginal_likelihood, 1e-9, 1.0), "{name}");
        }
    }
    Ok(())
}

#[test]
fn every_kind_of_curvature_takes_more_data() -> Outcome {
    for (network, data, family) in cases()? {
        for curvature in CurvatureKind::ALL {
            if curvature == CurvatureKind::EmpiricalFisher && family.sigma().is_some_and(|sigma| sigma.len() > 1) {
                continue;
            }
            let options = FitOptions { prior_precision: 60.0.into(), curvature, ..Default::default() };
            let whole = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
            let mut parts = Laplace::fit(network.clone(), part(&data, 0, 25)?, family.clone(), &options)?;
            parts.update(part(&data, 25, 40)?)?;
            assert_same(&parts, &whole, &format!("{}, {curvature}", family.likelihood().name()))?;
        }
    }
    Ok(())
}

#[test]
fn a_loaded_posterior_takes_more_data_with_and_without_the_old_ones() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for (network, data, family) in cases()? {
        for (structure, contents) in [
            (Structure::WeightSpace, Contents::TrainingData),
            (Structure::FunctionSpace, Contents::TrainingData),
            (Structure::WeightSpace, Contents::Curvature),
            (Structure::Diagonal, Contents::Curvature),
            (Structure::Kronecker, Contents::Curvature),
        ] {
            let name = format!("{}, {structure}, {contents:?}", family.likelihood().name());
            let options = FitOptions { structure, ..Default::default() };
            let whole = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
            Laplace::fit(network.clone(), part(&data, 0, 22)?, family.clone(), &options)?.save(&path, contents)?;
            let mut parts = Laplace::load(&path)?;
            parts.update(part(&data, 22, 40)?)?;
            assert_same(&parts, &whole, &name)?;
            assert_eq!(parts.data().is_some(), contents == Contents::TrainingData, "{name}");
            // And once more through a file.
            parts.save(&path, contents)?;
            assert_same(&Laplace::load(&path)?, &whole, &name)?;
        }
    }
    Ok(())
}

#[test]
fn batches_that_are_not_kept_leave_a_posterior_without_data() -> Outcome {
    let (network, data, family) = cases()?.swap_remove(0);
    let options = FitOptions { structure: Structure::WeightSpace, ..Default::default() };
    let whole = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
    let mut parts = Laplace::fit(network, part(&data, 0, 25)?, family, &options)?;
    parts.update_batches(&part(&data, 25, 40)?)?;
    assert_same(&parts, &whole, "batches")?;
    assert!(parts.data().is_none());
    assert!(matches!(parts.target("fisher"), Err(Error::NoTrainingData { .. })));
    Ok(())
}

#[test]
fn further_data_must_have_the_same_columns() -> Outcome {
    let (network, data, family) = cases()?.swap_remove(0);
    let mut laplace = Laplace::fit(network, data.clone(), family, &FitOptions::default())?;
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let other = riemannian_laplace::Schema::new(names(&["x2", "x1"]), names(&["y"]))?;
    let error = laplace.update(data.clone().with_schema(other)?).expect_err("other names");
    assert!(matches!(error, Error::Posterior(PosteriorError::OtherColumns { .. })), "{error}");
    let error = laplace.update(Dataset::new(normal_matrix(3, 1, 1), normal_matrix(3, 1, 2))?).expect_err("one input");
    assert!(matches!(error, Error::Size { expected: 2, found: 1, .. }), "{error}");
    assert_eq!(laplace.n_data(), 40);
    Ok(())
}

/// The posterior mean of a Bayesian linear regression: θ with Gθ = A μ + Σ x yᵀ/σ², by fitting anywhere and taking the
/// Newton step, which is exact for a quadratic.
fn at_the_mode(
    network: &Network,
    data: &Dataset,
    family: &Family,
    options: &FitOptions,
    prior: Option<&Laplace>,
) -> Result<Network, Error> {
    let laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), options)?;
    let size = network.parameters().len();
    let free = FitOptions { prior_precision: 1e-12.into(), ..Default::default() };
    let target = Laplace::fit(network.clone(), data.clone(), family.clone(), &free)?.target("a mode")?;
    let mut gradient = vec![0.0; size];
    target.evaluator().gradient(network.parameters(), &mut gradient);
    // The gradient of the log likelihood alone (the prior of 1e-12 is at rounding), then that of the prior.
    let deviations = laplace.prior_mean().deviations(network.parameters());
    let mut pull = deviations.to_vec();
    match prior {
        Some(earlier) => earlier.precision().times(&deviations, &mut pull),
        None => laplace.prior().multiply(&mut pull),
    }
    let slope: Vec<f64> = gradient.iter().zip(&pull).map(|(slope, pull)| slope - pull).collect();
    let mut step = vec![0.0; size];
    laplace.precision().solve(&slope, &mut step);
    let theta = network.parameters().iter().zip(&step).map(|(theta, step)| theta + step).collect();
    Network::new(network.architecture().clone(), theta)
}

#[test]
fn two_tasks_of_a_linear_regression_in_sequence_equal_both_at_once() -> Outcome {
    let family = Family::gaussian(0.5)?;
    let start = random_network(architecture(&[3, 2], &[true], Activation::Identity), 5);
    let data = random_data(&start, &family, 30, 6);
    let (first, second) = (part(&data, 0, 12)?, part(&data, 12, 30)?);
    for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
        let options = FitOptions { prior_precision: vec![0.7].into(), structure, ..Default::default() };
        let all = at_the_mode(&start, &data, &family, &options, None)?;
        let both = Laplace::fit(all.clone(), data.clone(), family.clone(), &options)?;

        let network = at_the_mode(&start, &first, &family, &options, None)?;
        let earlier = Laplace::fit(network.clone(), first.clone(), family.clone(), &options)?;
        let following = FitOptions::following(&earlier)?;
        let network = at_the_mode(&network, &second, &family, &following, Some(&earlier))?;
        let later = Laplace::fit(network.clone(), second.clone(), family.clone(), &following)?;

        let name = structure.to_string();
        assert_all_close(network.parameters(), all.parameters(), 1e-10, &name);
        assert_all_close(&precision_times(&later), &precision_times(&both), 1e-11, &name);
        let inputs = normal_matrix(5, 3, 8);
        let [a, b] = [later.linearized(&inputs)?, both.linearized(&inputs)?];
        assert_all_close(&a.mean, &b.mean, 1e-10, &name);
        assert_all_close(&a.covariance, &b.covariance, 1e-11, &name);
        // log p(D₁, D₂) = log p(D₁) + log p(D₂ | D₁), exact for a Gaussian.
        let (sum, whole) =
            (earlier.log_marginal_likelihood() + later.log_marginal_likelihood(), both.log_marginal_likelihood());
        assert!(is_close(sum, whole, 1e-11, 1.0), "{name}: {sum} against {whole}");
        // D − tr(G_old G⁻¹): what the second task determined.
        assert!(later.effective_parameters() > 0.0 && later.effective_parameters() < 8.0, "{name}");
    }
    Ok(())
}

#[test]
fn an_earlier_posterior_adds_its_precision_in_every_structure() -> Outcome {
    for (network, data, family) in cases()? {
        let (first, second) = (part(&data, 0, 15)?, part(&data, 15, 40)?);
        for structure in STRUCTURES {
            let options = FitOptions { prior_precision: vec![0.5, 2.0].into(), structure, ..Default::default() };
            let earlier = Laplace::fit(network.clone(), first.clone(), family.clone(), &options)?;
            let following = FitOptions::following(&earlier)?;
            let moved: Vec<f64> = network.parameters().iter().map(|theta| theta + 0.01).collect();
            let other = Network::new(network.architecture().clone(), moved)?;
            let later = Laplace::fit(other.clone(), second.clone(), family.clone(), &following)?;
            // The new curvature alone: from a fit with a negligible prior of its own.
            let alone =
                FitOptions { prior_precision: 1e-9.into(), structure: following.structure, ..Default::default() };
            let alone = Laplace::fit(other.clone(), second.clone(), family.clone(), &alone)?;
            let sum: Vec<f64> =
                precision_times(&earlier).iter().zip(precision_times(&alone)).map(|(a, b)| a + b).collect();
            let name = format!("{}, {structure}", family.likelihood().name());
            assert_all_close(&precision_times(&later), &sum, 1e-9, &name);
            let (size, deviation) = (later.parameters().len(), vec![0.01; later.parameters().len()]);
            let mut product = vec![0.0; size];
            earlier.precision().times(&deviation, &mut product);
            let scatter: f64 = product.iter().zip(&deviation).map(|(a, b)| a * b).sum();
            let expected = later.log_likelihood() - 0.5 * (later.log_det_ratio() + scatter);
            assert!(is_close(later.log_marginal_likelihood(), expected, 1e-10, 1.0), "{name}");
            // A third task follows as the second did.
            let third = Laplace::fit(network.clone(), first.clone(), family.clone(), &FitOptions::following(&later)?)?;
            assert!(third.prior().is_earlier_posterior(), "{name}");
        }
    }
    Ok(())
}

/// A second task after a first, the first fitted with this structure.
fn second_task(structure: Structure, sigma: &[f64]) -> Result<Laplace, Error> {
    let (network, data, _) = cases()?.swap_remove(sigma.len() - 1);
    let family = Family::gaussian_per_output(sigma)?;
    let options = FitOptions { structure, ..Default::default() };
    let earlier = Laplace::fit(network.clone(), part(&data, 0, 15)?, family.clone(), &options)?;
    let moved: Vec<f64> = network.parameters().iter().map(|theta| theta + 0.02).collect();
    let other = Network::new(network.architecture().clone(), moved)?;
    Laplace::fit(other, part(&data, 15, 40)?, family, &FitOptions::following(&earlier)?)
}

#[test]
fn tuning_after_an_earlier_posterior_moves_the_noise_alone() -> Outcome {
    for structure in [Structure::WeightSpace, Structure::Diagonal] {
        for sigma in [&[0.4][..], &[0.4, 0.7]] {
            let mut laplace = second_task(structure, sigma)?;
            let (before, prior) = (laplace.log_marginal_likelihood(), laplace.prior().clone());
            let optimum = laplace.optimize(&EvidenceOptions::default())?;
            let name = format!("{structure}, {sigma:?}: {optimum:?}");
            assert!(optimum.converged && optimum.at_bound.is_empty(), "{name}");
            assert_eq!(*laplace.prior(), prior, "{name}");
            let best = laplace.log_marginal_likelihood();
            assert!(is_close(best, optimum.log_marginal_likelihood, 1e-10, 1.0) && best >= before, "{name}");
            // Five-point differences in log σ, as in the other tests of the evidence.
            let sigma = laplace.family().sigma().unwrap_or_default().to_vec();
            for index in 0..sigma.len() {
                let value = |multiple: f64| -> Result<f64, Error> {
                    let (mut moved, mut sigma) = (laplace.clone(), sigma.clone());
                    sigma[index] *= (multiple * 1e-2).exp();
                    moved.set_hyperparameters(&riemannian_laplace::PriorValues::Posterior(prior.clone()), &sigma)?;
                    Ok(moved.log_marginal_likelihood())
                };
                let derivative = (value(-2.0)? - 8.0 * value(-1.0)? + 8.0 * value(1.0)? - value(2.0)?) / 0.12;
                assert!(derivative.abs() < 1e-6, "{name}: {derivative:e}");
            }
            let refusal = laplace.set_hyperparameters(&2.0.into(), &sigma).expect_err("another prior");
            assert!(matches!(refusal, Error::Unsupported(Unsupported::ConstantPrior)), "{refusal}");
        }
    }
    Ok(())
}

#[test]
fn a_second_task_goes_through_a_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for structure in [Structure::WeightSpace, Structure::Diagonal] {
        for contents in [Contents::TrainingData, Contents::Curvature] {
            let mut laplace = second_task(structure, &[0.4])?;
            laplace.save(&path, contents)?;
            let mut loaded = Laplace::load(&path)?;
            assert_eq!(loaded.prior(), laplace.prior(), "{structure}");
            assert_eq!(loaded.prior_mean(), laplace.prior_mean(), "{structure}");
            assert_eq!(loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood(), "{structure}");
            assert_eq!(loaded.sample(3, 1)?, laplace.sample(3, 1)?, "{structure}");
            let options = EvidenceOptions::default();
            assert_eq!(loaded.optimize(&options)?, laplace.optimize(&options)?, "{structure}");
        }
    }
    Ok(())
}

#[test]
fn what_needs_the_data_of_the_earlier_task_says_so() -> Outcome {
    for structure in [Structure::WeightSpace, Structure::Diagonal] {
        let laplace = second_task(structure, &[0.4])?;
        for metric in [MetricName::Fisher, MetricName::Monge, MetricName::EmpiricalFisher] {
            let error = laplace.sample_riemannian(metric, &SamplerOptions::first(2), &()).expect_err("no old data");
            assert!(matches!(error, Error::Posterior(PosteriorError::EarlierDataGone { .. })), "{error}");
        }
        let samples = laplace.sample_riemannian(MetricName::Euclidean, &SamplerOptions::first(2), &())?;
        assert_eq!(samples.theta.nrows(), 2);
    }
    let (network, data, family) = cases()?.swap_remove(0);
    let earlier = Laplace::fit(network.clone(), data.clone(), family.clone(), &FitOptions::default())?;
    for structure in [Structure::FunctionSpace, Structure::Diagonal, Structure::Kronecker] {
        let options = FitOptions { structure, ..FitOptions::following(&earlier)? };
        let error = Laplace::fit(network.clone(), data.clone(), family.clone(), &options).expect_err("a full prior");
        assert!(matches!(error, Error::Unsupported(Unsupported::EarlierPosterior)), "{error}");
    }
    // A Kronecker posterior is no exception, and its successor is full.
    let options = FitOptions { structure: Structure::Kronecker, ..Default::default() };
    let earlier = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
    let options = FitOptions::following(&earlier)?;
    let next = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
    assert_eq!(next.structure(), Structure::WeightSpace);
    let options = FitOptions { structure: Structure::Kronecker, ..options };
    let error = Laplace::fit(network, data, family, &options).expect_err("two Kronecker tasks").to_string();
    assert!(error.contains("no eigenbasis in common") && error.contains("full structure"), "{error}");
    Ok(())
}
