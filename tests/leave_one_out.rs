//! Leave-one-out: Pareto smoothing against ArviZ, closed forms against refits and against importance sampling.

mod common;
#[path = "leave_one_out/snelson.rs"]
mod snelson;

use common::{Outcome, normal_matrix, random_data, random_network};
use ndarray::{Array2, Axis, array};
use riemannian_laplace::Error;
use riemannian_laplace::internals::evaluate::{ClosedForms, Estimator, LeaveOneOut, leave_one_out};
use riemannian_laplace::internals::likelihood::{Bernoulli, Categorical, Heteroscedastic, Poisson};
use riemannian_laplace::internals::linalg::Cholesky;
use riemannian_laplace::internals::predict::{MonteCarlo, linearized};
use riemannian_laplace::prelude::*;

/// What ArviZ made of the committed matrix.
#[derive(serde::Deserialize)]
struct Arviz {
    samples: usize,
    elpd: f64,
    se: f64,
    p_loo: f64,
    pointwise: Vec<f64>,
    k: Vec<Option<f64>>,
}

#[test]
fn scores_and_pareto_shapes_are_those_of_arviz() -> Outcome {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/leave_one_out");
    let rows: Vec<Vec<f64>> = std::fs::read_to_string(folder.join("log_likelihood.csv"))?
        .lines()
        .map(|line| line.split(',').map(str::parse).collect::<Result<_, _>>())
        .collect::<Result<_, _>>()?;
    let references: Vec<Arviz> = serde_json::from_str(&std::fs::read_to_string(folder.join("arviz.json"))?)?;
    for reference in references {
        let matrix = Array2::from_shape_fn((reference.samples, rows[0].len()), |(s, n)| rows[s][n]);
        let loo = LeaveOneOut::of_log_likelihoods(matrix.view())?;
        // Two summations of at most 150 terms each, of logarithms up to 80.
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-8;
        assert!(close(loo.elpd(), reference.elpd), "{} for {}", loo.elpd(), reference.elpd);
        assert!(close(loo.standard_error(), reference.se) && close(loo.p_loo(), reference.p_loo));
        for n in 0..rows[0].len() {
            assert!(close(loo.pointwise[n], reference.pointwise[n]), "point {n}");
            match reference.k[n] {
                Some(k) => assert!(close(loo.k[n], k), "point {n}: k {} for {k}", loo.k[n]),
                None => assert_eq!(loo.k[n], f64::INFINITY, "point {n}"),
            }
        }
    }
    Ok(())
}

/// A linear model at the mode of its posterior, by the normal equations.
fn linear_posterior(
    inputs: &Array2<f64>,
    targets: &Array2<f64>,
    family: &Family,
    options: &FitOptions,
    prior: f64,
) -> Result<Laplace, Box<dyn std::error::Error>> {
    let (columns, outputs) = (inputs.ncols(), targets.ncols());
    let design = |n: usize, j: usize| if j < columns { inputs[(n, j)] } else { 1.0 };
    let mut theta = vec![0.0; outputs * (columns + 1)];
    for p in 0..outputs {
        let sigma = family.sigma().ok_or("no sigma")?;
        let variance = sigma[if sigma.len() == 1 { 0 } else { p }].powi(2) * options.temperature;
        let mut cholesky = Cholesky::new(columns + 1);
        let mut right = vec![0.0; columns + 1];
        let mut matrix = cholesky.matrix_mut();
        for i in 0..=columns {
            for j in 0..=columns {
                let sum: f64 = (0..inputs.nrows()).map(|n| design(n, i) * design(n, j)).sum();
                matrix[(i, j)] = sum / variance + if i == j { prior } else { 0.0 };
            }
            right[i] = (0..inputs.nrows()).map(|n| design(n, i) * targets[(n, p)]).sum::<f64>() / variance;
        }
        cholesky.factor().map_err(|_| "not positive definite")?;
        cholesky.solve(&mut right);
        for j in 0..columns {
            theta[p * columns + j] = right[j];
        }
        theta[outputs * columns + p] = right[columns];
    }
    let network = Network::new(Architecture::new(&[columns, outputs], Activation::Identity)?, theta)?;
    let data = Dataset::new(inputs.clone(), targets.clone())?;
    Ok(Laplace::fit(network, data, family.clone(), options)?)
}

#[test]
fn the_closed_form_of_a_linear_model_is_the_refit_without_the_point() -> Outcome {
    let inputs = normal_matrix(12, 2, 1);
    for (sigma, temperature) in [(vec![0.4], 1.0), (vec![0.4, 0.9], 1.0), (vec![0.3], 2.5)] {
        let targets = normal_matrix(12, sigma.len(), 2);
        let family = Family::gaussian_per_output(&sigma)?;
        let options = FitOptions { prior_precision: 0.7.into(), temperature, ..Default::default() };
        let laplace = linear_posterior(&inputs, &targets, &family, &options, 0.7)?;
        let closed = ClosedForms::of(&laplace, Link::default())?;
        for n in 0..12 {
            let others: Vec<usize> = (0..12).filter(|row| *row != n).collect();
            let (left, right) = (inputs.select(Axis(0), &others), targets.select(Axis(0), &others));
            let without = linear_posterior(&left, &right, &family, &options, 0.7)?;
            let (x, y) = (inputs.select(Axis(0), &[n]), targets.select(Axis(0), &[n]));
            let of_glm = without.predict(&x, &Method::default())?.log_densities(&y)?[0];
            let of_map = without.predict(&x, &Method::Map)?.log_densities(&y)?[0];
            // Rounding of solves with condition numbers below 1e3.
            assert!((closed.linearized.pointwise[n] - of_glm).abs() < 1e-10, "{n}: {of_glm}");
            assert!((closed.map.pointwise[n] - of_map).abs() < 1e-10, "{n}: {of_map}");
            let rank = without.predict(&x, &Method::default())?.ranks(&y)?.ok_or("no ranks")?;
            let found = closed.linearized.ranks.as_ref().ok_or("no ranks")?;
            assert!((0..sigma.len()).all(|p| (rank[(0, p)] - found[(n, p)]).abs() < 1e-10));
        }
    }
    Ok(())
}

fn posterior(widths: &[usize], family: Family, points: usize, temperature: f64) -> Result<Laplace, Error> {
    let network = random_network(Architecture::new(widths, Activation::Tanh)?, 3);
    let data = random_data(&network, &family, points, 4);
    let options = FitOptions { prior_precision: 2.0.into(), temperature, ..Default::default() };
    Laplace::fit(network, data, family, &options)
}

#[test]
fn the_closed_form_is_the_limit_of_importance_sampling_with_gaussian_noise() -> Outcome {
    for temperature in [1.0, 2.0] {
        let laplace = posterior(&[2, 4, 2], Family::gaussian(0.7)?, 40, temperature)?;
        let closed = ClosedForms::of(&laplace, Link::default())?.linearized;
        let sampled = LeaveOneOut::of_linearized_draws(&laplace, MonteCarlo { samples: 20_000, seed: 1 })?;
        assert_eq!(sampled.estimator, Estimator::Psis { samples: 20_000 });
        for n in 0..40 {
            let k = closed.k[n];
            // Below one half the ratios have a variance; the error of 20,000 draws is then at most a few percent.
            let allowed = if k < 0.3 { 0.02 } else { 0.2 };
            let error = (closed.pointwise[n] - sampled.pointwise[n]).abs();
            assert!(error < allowed, "{n}: {} for {}, k {k}", sampled.pointwise[n], closed.pointwise[n]);
            assert!((closed.with_all_data[n] - sampled.with_all_data[n]).abs() < 0.05);
        }
        let (one, other) = (closed.ranks.ok_or("no ranks")?, sampled.ranks.ok_or("no ranks")?);
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 0.05));
    }
    Ok(())
}

/// 1/p of a class is a sum of exponentials of logits, whose expectations are those of log-normal variables.
#[test]
fn linearised_draws_of_classes_converge_to_the_expected_ratios() -> Outcome {
    let laplace = posterior(&[2, 4, 3], Family::new(Categorical), 30, 1.0)?;
    let data = laplace.data().ok_or("no data")?;
    let latent = linearized(&laplace, data.inputs())?;
    let loo = LeaveOneOut::of_linearized_draws(&laplace, MonteCarlo { samples: 20_000, seed: 2 })?;
    assert!(loo.ranks.is_none() && loo.coverage(0.9).is_none());
    for n in 0..30 {
        let y = data.targets()[(n, 0)] as usize;
        let c = |i: usize, j: usize| latent.covariance[(n, i, j)];
        let ratio: f64 = (0..3)
            .map(|k| {
                let variance = c(k, k) + c(y, y) - 2.0 * c(k, y);
                (latent.mean[(n, k)] - latent.mean[(n, y)] + 0.5 * variance).exp()
            })
            .sum();
        // The standard deviation of the log-normal ratios is a few times their mean where the logits vary by one.
        assert!((loo.pointwise[n] + ratio.ln()).abs() < 0.05, "{n}: {} for {}", loo.pointwise[n], -ratio.ln());
    }
    Ok(())
}

#[test]
fn every_family_and_method_has_a_score_in_the_units_of_its_data() -> Outcome {
    let families = [
        Family::gaussian(0.5)?,
        Family::new(Heteroscedastic),
        Family::new(Bernoulli),
        Family::new(Categorical),
        Family::new(Poisson),
    ];
    for family in families {
        let laplace = posterior(&[2, 4, 2], family, 25, 1.0)?;
        for method in [Method::Map, Method::default(), Method::Nn(Draws::first(50, 0)), Method::riemannian(30, 0)] {
            let loo = leave_one_out(&laplace, &method, &())?;
            let name = laplace.family().likelihood().name();
            assert_eq!(loo.method, method.name());
            assert!(loo.elpd().is_finite() && loo.standard_error() > 0.0, "{name}, {}", loo.method);
            assert!(loo.elpd() < loo.with_all_data.iter().sum(), "{name}, {}", loo.method);
            assert_eq!(loo.ranks.is_none(), laplace.family().has_classes());
            if let Some(ranks) = &loo.ranks {
                assert!(ranks.iter().all(|rank| (0.0..=1.0).contains(rank)), "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn scaled_data_shift_every_log_density_by_the_logarithm_of_their_scale() -> Outcome {
    let plain = posterior(&[1, 3, 1], Family::gaussian(0.5)?, 20, 1.0)?;
    let data = plain.data().ok_or("no data")?.clone();
    // The same data in units ten times smaller, with the scaling that undoes it.
    let json = r#"{"inputs": {"mean": [0.0], "scale": [1.0]}, "targets": {"mean": [3.0], "scale": [10.0]}}"#;
    let scaling: Scaling = serde_json::from_str(json)?;
    let raw = Dataset::new(data.inputs().clone(), 10.0 * data.targets() + 3.0)?.scaled_by(scaling)?;
    let network = Network::new(Architecture::new(&[1, 3, 1], Activation::Tanh)?, plain.parameters().to_vec())?;
    let options = FitOptions { prior_precision: 2.0.into(), ..Default::default() };
    let scaled = Laplace::fit(network, raw, Family::gaussian(0.5)?, &options)?;
    for method in [Method::Map, Method::default(), Method::Nn(Draws::first(60, 1))] {
        let (one, other) = (leave_one_out(&plain, &method, &())?, leave_one_out(&scaled, &method, &())?);
        for n in 0..20 {
            // Rounding: the targets are restored and scaled again.
            assert!((one.pointwise[n] - other.pointwise[n] - 10f64.ln()).abs() < 1e-9);
            assert!((one.k[n] - other.k[n]).abs() < 1e-9);
        }
    }
    Ok(())
}

#[test]
fn a_comparison_has_the_error_of_the_differences() -> Outcome {
    let with = |pointwise: Vec<f64>| -> Result<LeaveOneOut, Error> {
        let mut loo = LeaveOneOut::of_log_likelihoods(Array2::zeros((1, pointwise.len())).view())?;
        loo.pointwise = pointwise;
        Ok(loo)
    };
    let (one, other) = (with(vec![-1.0, -2.0, -3.0])?, with(vec![-1.5, -2.0, -4.5])?);
    let comparison = one.minus(&other)?;
    assert_eq!(comparison.difference, 2.0);
    // Differences ½, 0, 3/2 with mean 2/3: squares 1/36, 16/36, 25/36.
    assert!((comparison.standard_error - (42.0_f64 / 36.0).sqrt()).abs() < 1e-15);
    assert!(!comparison.is_clear() && one.minus(&one)?.difference == 0.0);
    assert!(one.minus(&with(vec![0.0])?).is_err());
    Ok(())
}

#[test]
fn what_cannot_be_scored_is_refused() -> Outcome {
    assert!(LeaveOneOut::of_log_likelihoods(Array2::zeros((0, 3)).view()).is_err());
    let nan = array![[0.0, -1.0], [f64::NAN, -1.0]];
    assert!(matches!(LeaveOneOut::of_log_likelihoods(nan.view()), Err(Error::NotFinite { row: 1, column: 0, .. })));
    // An impossible observation under one sample: its weight is all there is.
    let impossible = LeaveOneOut::of_log_likelihoods(array![[-1.0], [f64::NEG_INFINITY]].view())?;
    assert_eq!((impossible.pointwise[0], impossible.k[0]), (f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(impossible.unreliable(), 1);
    // A diagonal posterior may credit a point with more than all of its information.
    let network = Network::new(Architecture::new(&[3, 1], Activation::Identity)?, vec![0.0; 4])?;
    let data = Dataset::new(array![[5.0, 5.0, 5.0]], array![[1.0]])?;
    let options = FitOptions { prior_precision: 1e-3.into(), structure: Structure::Diagonal, ..Default::default() };
    let laplace = Laplace::fit(network, data, Family::gaussian(1.0)?, &options)?;
    assert!(matches!(ClosedForms::of(&laplace, Link::default()), Err(Error::Leverage { row: 0, .. })));
    Ok(())
}

#[test]
fn advice_names_influential_points_and_intervals_that_miss() -> Outcome {
    let laplace = posterior(&[1, 3, 1], Family::gaussian(0.5)?, 100, 1.0)?;
    let mut loo = leave_one_out(&laplace, &Method::default(), &())?;
    loo.k = vec![0.1; 100];
    loo.ranks = Some(Array2::from_shape_fn((100, 1), |(n, _)| (n as f64 + 0.5) / 100.0));
    assert_eq!(loo.advice(), Vec::<String>::new());
    loo.k[3] = 0.9;
    loo.ranks = Some(Array2::from_shape_fn((100, 1), |(n, _)| if n % 3 == 0 { 0.001 } else { 0.5 }));
    let advice = loo.advice();
    assert!(advice[0].contains("1 of 100 points") && advice[1].contains("66 %") && advice[1].contains("too narrow"));
    loo.ranks = Some(Array2::from_elem((100, 1), 0.5));
    assert!(loo.advice()[1].contains("too wide"));
    Ok(())
}

/// Log likelihoods of 60 samples at 40 points; with a wide spread hardly any sample is one without the point.
fn spread(size: f64, level: f64) -> Result<LeaveOneOut, Error> {
    let noise = normal_matrix(60, 40, 21);
    LeaveOneOut::of_log_likelihoods(noise.mapv(|z| level - 0.5 * (size * z).powi(2)).view())
}

#[test]
fn a_score_with_many_unreliable_points_is_compared_with_no_other() -> Outcome {
    let (narrow, wide) = (spread(0.2, -2.0)?, spread(6.0, 100.0)?);
    assert!(narrow.is_comparable() && narrow.unreliable() <= 4, "{}", narrow.unreliable());
    assert!(!wide.is_comparable() && wide.unreliable() > 20, "{}", wide.unreliable());
    assert!(wide.elpd() > narrow.elpd());
    assert_eq!(LeaveOneOut::best([&wide, &narrow]).ok_or("none")?.elpd(), narrow.elpd());
    assert!(LeaveOneOut::best([&wide]).is_none());
    assert!(wide.advice().iter().any(|words| words.contains("not compared with others")), "{:?}", wide.advice());
    // Of those that may be compared, the greatest wins, whatever the order.
    let better = spread(0.2, -1.0)?;
    for pair in [[&narrow, &better], [&better, &narrow]] {
        assert_eq!(LeaveOneOut::best(pair).ok_or("none")?.elpd(), better.elpd());
    }
    Ok(())
}
