//! The empirical Fisher from scores written out, and how each kind depends on the noise.

use faer::Mat;
use riemannian_laplace::internals::map::jacobian;
use riemannian_laplace::{Contents, CurvatureKind, Error, Family, FitOptions, Laplace, Model, Structure, Unsupported};

use crate::common::{self, Outcome, assert_all_close, is_close, normal_matrix, normal_vector};
use crate::{Case, KINDS, options};

/// Σₙ sₙsₙᵀ with sₙ = Σ_p (∂log p/∂f_p) J_p at the likelihood's own σ.
fn empirical_fisher(case: &Case) -> Result<Mat<f64>, Error> {
    let (n, d) = (case.data.len(), case.n_params());
    let map = case.network.bind(case.data.inputs().view())?;
    let jacobian = jacobian(&map, case.network.parameters());
    let outputs = common::forward(case.network.architecture(), case.network.parameters(), case.data.inputs());
    let mut sum = Mat::zeros(d, d);
    for point in 0..n {
        let (f, y) = (outputs.row(point).to_vec(), case.data.targets().row(point).to_vec());
        let mut gradient = vec![0.0; f.len()];
        case.family.likelihood().gradient(&y, &f, &mut gradient);
        let score: Vec<f64> = (0..d)
            .map(|i| gradient.iter().enumerate().map(|(p, slope)| slope * jacobian[(p * n + point, i)]).sum())
            .collect();
        for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
            sum[(i, j)] += score[i] * score[j];
        }
    }
    Ok(sum)
}

#[test]
fn the_empirical_fisher_is_the_sum_of_squared_scores_in_every_structure() -> Outcome {
    for case in Case::all()? {
        let fisher = empirical_fisher(&case)?;
        for structure in [Structure::WeightSpace, Structure::FunctionSpace, Structure::Diagonal] {
            let laplace = case.fit(&options(CurvatureKind::EmpiricalFisher, structure))?;
            let (direction, mut product) = (normal_vector(case.n_params(), 1), vec![0.0; case.n_params()]);
            laplace.precision().times(&direction, &mut product);
            let mut expected = direction.clone();
            laplace.prior().multiply(&mut expected);
            for (i, j) in (0..case.n_params()).flat_map(|i| (0..case.n_params()).map(move |j| (i, j))) {
                if structure != Structure::Diagonal || i == j {
                    expected[i] += fisher[(i, j)] * direction[j] / 1.5;
                }
            }
            assert_all_close(&product, &expected, 1e-12, &format!("{}, {structure}", case.name()));
        }
    }
    Ok(())
}

#[test]
fn both_exact_solvers_of_the_empirical_fisher_agree() -> Outcome {
    for case in Case::all()? {
        let fit = |structure| case.fit(&options(CurvatureKind::EmpiricalFisher, structure));
        let [weight, function] = [fit(Structure::WeightSpace)?, fit(Structure::FunctionSpace)?];
        let name = case.name();
        let (a, b) = (weight.log_marginal_likelihood(), function.log_marginal_likelihood());
        assert!(is_close(a, b, 1e-12, 1.0), "{name}: {a} against {b}");
        let inputs = normal_matrix(5, 2, 3);
        assert_all_close(
            &weight.linearized(&inputs)?.covariance,
            &function.linearized(&inputs)?.covariance,
            1e-11,
            &name,
        );
        // One row for each data point, whatever the number of outputs.
        assert_eq!(function.precision().size_in_words(), format!("a {0} × {0} matrix", case.data.len()));
    }
    Ok(())
}

#[test]
fn with_gaussian_noise_the_kinds_scale_with_their_own_powers_of_sigma() -> Outcome {
    for (kind, structure) in KINDS {
        let power = if kind == CurvatureKind::EmpiricalFisher { 4 } else { 2 };
        let case = Case::new(1, Family::gaussian(0.4)?, 30);
        let data_share = |sigma: f64| -> Result<Vec<f64>, Error> {
            let mut laplace = case.fit(&options(kind, structure))?;
            laplace.set_hyperparameters(&vec![40.0, 60.0].into(), &[sigma])?;
            let (direction, mut product) = (normal_vector(case.n_params(), 2), vec![0.0; case.n_params()]);
            laplace.precision().times(&direction, &mut product);
            let mut prior = direction;
            laplace.prior().multiply(&mut prior);
            Ok(product.iter().zip(&prior).map(|(all, prior)| all - prior).collect())
        };
        let (one, two) = (data_share(0.7)?, data_share(1.4)?);
        let scaled: Vec<f64> = one.iter().map(|value| value / 2f64.powi(power)).collect();
        // The prior's 60 is subtracted from numbers of order 1 to 10.
        assert_all_close(&two, &scaled, 1e-11, &format!("{kind}, {structure}"));
    }
    Ok(())
}

#[test]
fn posteriors_of_every_kind_go_through_files() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in Case::all()? {
        for (kind, structure) in KINDS {
            for contents in [Contents::TrainingData, Contents::Curvature] {
                if structure == Structure::FunctionSpace && contents == Contents::Curvature {
                    continue;
                }
                let laplace = case.fit(&options(kind, structure))?;
                laplace.save(&path, contents)?;
                let mut loaded = Laplace::load(&path)?;
                let name = format!("{}, {kind}, {structure}, {contents:?}", case.name());
                assert_eq!(loaded.curvature_kind(), kind, "{name}");
                assert_eq!(loaded.sample(2, 1)?, laplace.sample(2, 1)?, "{name}");
                // The sums, read or computed again, give the same posterior.
                let sigma = laplace.family().sigma().unwrap_or_default().to_vec();
                loaded.set_hyperparameters(&vec![40.0, 60.0].into(), &sigma)?;
                let (a, b) = (loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood());
                assert!(is_close(a, b, 1e-13, 1.0), "{name}: {a} against {b}");
            }
        }
    }
    Ok(())
}

#[test]
fn riemannian_samples_follow_velocities_of_any_kind() -> Outcome {
    use riemannian_laplace::{MetricName, SamplerOptions};
    let case = Case::new(1, Family::gaussian(0.4)?, 30);
    for (kind, structure) in KINDS {
        let laplace = case.fit(&options(kind, structure))?;
        for metric in [MetricName::Fisher, MetricName::EmpiricalFisher] {
            let samples = laplace.sample_riemannian(metric, &SamplerOptions::first(2), &())?;
            assert!(samples.certified.iter().all(|certified| *certified), "{kind}, {structure}, {metric}");
        }
    }
    Ok(())
}

#[test]
fn what_a_kind_cannot_do_is_refused() -> Outcome {
    let several = Case::new(2, Family::gaussian_per_output(&[0.3, 0.8])?, 12);
    let empirical = FitOptions { curvature: CurvatureKind::EmpiricalFisher, ..Default::default() };
    let refusal = several.fit(&empirical).expect_err("several noise levels");
    assert!(matches!(refusal, Error::Unsupported(Unsupported::EmpiricalFisherLevels)), "{refusal}");
    let one = Case::new(2, Family::gaussian(0.3)?, 12);
    let refusal = one.fit(&empirical)?.set_hyperparameters(&1.0.into(), &[0.3, 0.8]).expect_err("several noise levels");
    assert!(matches!(refusal, Error::Unsupported(Unsupported::EmpiricalFisherLevels)), "{refusal}");
    for structure in [Structure::FunctionSpace, Structure::Diagonal] {
        let refusal = one.fit(&options(CurvatureKind::Hessian, structure)).expect_err("no rows");
        assert!(matches!(refusal, Error::Unsupported(Unsupported::HessianStructure(_))), "{refusal}");
    }
    // Left to itself, the Hessian goes to weight space even where function space is smaller.
    let few = Case::new(1, Family::gaussian(0.3)?, 3);
    let laplace = few.fit(&options(CurvatureKind::Hessian, Structure::Auto))?;
    assert_eq!(laplace.structure(), Structure::WeightSpace);
    Ok(())
}
