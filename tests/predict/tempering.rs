//! The temperature: set later, tuned on held-out data, and what it does; and how well uncertainty tells inputs apart.

use ndarray::{Array2, array};
use riemannian_laplace::internals::evaluate::{TemperOptions, Uncertainties, auroc, ood_scores};
use riemannian_laplace::internals::predict::MonteCarlo;
use riemannian_laplace::{
    Activation, Dataset, Error, Family, FitOptions, Laplace, Link, Method, Network, Structure, Unsupported,
};

use crate::common::{Outcome, architecture, is_close};

/// Points on a line, with errors of half a unit at most.
fn line(points: usize, shift: f64) -> Result<Dataset, Error> {
    let inputs = Array2::from_shape_fn((points, 1), |(n, _)| 4.0 * n as f64 / (points - 1) as f64 - 2.0);
    let targets = inputs.mapv(|x| 0.8 * x + 0.3 + 0.5 * (37.0 * x + shift).sin());
    Dataset::new(inputs, targets)
}

/// A score of each of several inputs.
type Score<'a> = &'a dyn Fn(&Array2<f64>) -> Result<Vec<f64>, Error>;

const SIGMA: f64 = 0.1;
const ALPHA: f64 = 2.0;

/// The held-out NLL of y = 0.8x + 0.3 by hand: v(x) = σ² + (x, 1)(αI + Σ(x, 1)(x, 1)ᵀ/(Tσ²))⁻¹(x, 1)ᵀ.
fn nll_of_line(train: &Dataset, held_out: &Dataset, temperature: f64) -> f64 {
    let weight = 1.0 / (temperature * SIGMA * SIGMA);
    let sum = |power: i32| weight * train.inputs().iter().map(|x| x.powi(power)).sum::<f64>();
    let (a, b, d) = (ALPHA + sum(2), sum(1), ALPHA + sum(0));
    let terms = held_out.inputs().iter().zip(held_out.targets()).map(|(x, y)| {
        let variance = SIGMA * SIGMA + (d * x * x - 2.0 * b * x + a) / (a * d - b * b);
        0.5 * (2.0 * std::f64::consts::PI * variance).ln() + 0.5 * (y - 0.8 * x - 0.3).powi(2) / variance
    });
    terms.sum::<f64>() / held_out.len() as f64
}

fn posterior(train: &Dataset, structure: Structure, temperature: f64) -> Result<Laplace, Error> {
    let network = Network::new(architecture(&[1, 1], &[true], Activation::Identity), vec![0.8, 0.3])?;
    let options = FitOptions { prior_precision: ALPHA.into(), structure, temperature, ..Default::default() };
    Laplace::fit(network, train.clone(), Family::gaussian(SIGMA)?, &options)
}

#[test]
fn the_temperature_on_held_out_data_is_the_minimum_of_the_closed_form() -> Outcome {
    let (train, held_out) = (line(40, 0.0)?, line(57, 1.0)?);
    let mut laplace = posterior(&train, Structure::WeightSpace, 1.0)?;
    let before = laplace.prior().clone();
    let options = TemperOptions { grid: (1e-3, 1e4), tolerance: 1e-4, ..Default::default() };
    let optimum = laplace.temper_on(&held_out, &options, &())?;
    let at = |log: f64| nll_of_line(&train, &held_out, log.exp());
    let logs = (0..=160_000).map(|i| 1e-3f64.ln() + f64::from(i) * 1e-4);
    let (least, place) =
        logs.fold((f64::INFINITY, 0.0), |best, log| if at(log) < best.0 { (at(log), log) } else { best });
    assert!((optimum.temperature.ln() - place).abs() < 1e-3, "{} for {}", optimum.temperature, place.exp());
    assert!(is_close(optimum.nll, least, 1e-9, 0.0));
    assert!(is_close(optimum.nll_before, nll_of_line(&train, &held_out, 1.0), 1e-12, 0.0));
    assert!(optimum.nll < optimum.nll_before && optimum.at_edge.is_none());
    // The posterior has it, and its prior is what it was.
    assert_eq!((laplace.temperature(), laplace.prior()), (optimum.temperature, &before));
    // Where the data want still more, the end of the grid is said to be one.
    let colder = TemperOptions { grid: (1e-5, 1e-2), ..Default::default() };
    let edge = posterior(&train, Structure::WeightSpace, 1.0)?.temper_on(&held_out, &colder, &())?.at_edge;
    assert!(edge.is_some_and(|edge| edge.parameter == "temperature" && edge.value > 5e-3));
    let backwards = TemperOptions { grid: (1.0, 0.1), ..Default::default() };
    assert!(matches!(laplace.temper_on(&held_out, &backwards, &()), Err(Error::Bounds { .. })));
    Ok(())
}

#[test]
fn a_temperature_that_is_set_later_gives_the_posterior_that_was_fitted_with_it() -> Outcome {
    let (train, inputs) = (line(40, 0.0)?, array![[0.3], [5.0]]);
    for structure in Structure::ALL.iter().copied().map(|structure| match structure {
        Structure::LowRank(_) => Structure::LowRank(1),
        other => other,
    }) {
        let mut later = posterior(&train, structure, 1.0)?;
        later.set_temperature(0.05)?;
        let fresh = posterior(&train, structure, 0.05)?;
        // Of the same sums, up to rounding; draws without a matrix are solved for to 5e-3.
        let tolerance = if structure == Structure::MATRIX_FREE { 2e-2 } else { 1e-10 };
        assert!(is_close(later.log_det_ratio(), fresh.log_det_ratio(), 1e-10, 0.0), "{structure}");
        let (later, fresh) = (later.linearized(&inputs)?, fresh.linearized(&inputs)?);
        for (found, expected) in later.covariance.iter().zip(&fresh.covariance) {
            assert!(is_close(*found, *expected, tolerance, 0.0), "{structure}: {found} for {expected}");
        }
    }
    let mut laplace = posterior(&train, Structure::Diagonal, 1.0)?;
    assert!(matches!(laplace.set_temperature(0.0), Err(Error::Temperature(_))));
    // The posterior of an earlier task has its own.
    let options = FitOptions::following(&laplace)?;
    let network = Network::new(architecture(&[1, 1], &[true], Activation::Identity), vec![0.8, 0.3])?;
    let mut next = Laplace::fit(network, train, Family::gaussian(SIGMA)?, &options)?;
    let refused = next.set_temperature(0.5);
    assert!(matches!(refused, Err(Error::Unsupported(Unsupported::ConstantTemperature))));
    Ok(())
}

#[test]
fn areas_are_of_the_entropy_the_information_and_the_logits() -> Outcome {
    // Three classes by the sign and size of x, known between −2 and 2.
    let inputs = Array2::from_shape_fn((60, 1), |(n, _)| 4.0 * n as f64 / 59.0 - 2.0);
    let targets = inputs.mapv(|x| {
        if x < -0.7 {
            0.0
        } else if x < 0.7 {
            1.0
        } else {
            2.0
        }
    });
    let family: Family = "categorical".parse()?;
    let network = Network::random(architecture(&[1, 4, 3], &[true, true], Activation::Tanh), 2);
    let laplace =
        Laplace::fit(network, Dataset::new(inputs.clone(), targets)?, family.clone(), &FitOptions::default())?;
    let outside = array![[-9.0], [7.0], [0.1], [30.0]];
    let link = Link::MonteCarlo(MonteCarlo { samples: 50, seed: 4 });
    let both = (laplace.predict(&inputs, &Method::Glm(link))?, laplace.predict(&outside, &Method::Glm(link))?);
    let found = ood_scores(&both.0, &both.1)?;
    // From the definitions, with the same draws.
    let by = |score: Score<'_>| auroc(&score(&inputs)?, &score(&outside)?);
    let entropy = |p: &[f64]| -p.iter().map(|p| p * p.ln()).sum::<f64>();
    let total = by(&|inputs: &Array2<f64>| {
        let moments = laplace.linearized(inputs)?.moments(&family, link)?;
        Ok(moments.mean.rows().into_iter().map(|row| entropy(&row.to_vec())).collect())
    })?;
    let information = by(&|inputs: &Array2<f64>| {
        let draws = laplace.linearized(inputs)?.sampled(&family, MonteCarlo { samples: 50, seed: 4 })?;
        let of_point = |t: usize| {
            let (mut mean, mut conditional) = (vec![0.0; 3], 0.0);
            for s in 0..50 {
                let weights: Vec<f64> = (0..3).map(|k| draws.outputs()[(s, t, k)].exp()).collect();
                let p: Vec<f64> = weights.iter().map(|w| w / weights.iter().sum::<f64>()).collect();
                conditional += entropy(&p) / 50.0;
                mean.iter_mut().zip(&p).for_each(|(mean, p)| *mean += p / 50.0);
            }
            entropy(&mean) - conditional
        };
        Ok((0..inputs.nrows()).map(of_point).collect())
    })?;
    let logits = by(&|inputs: &Array2<f64>| {
        let latent = laplace.linearized(inputs)?;
        let differences = |t: usize| {
            // Σ over pairs of Var(f_i − f_j), over K.
            let c = |i: usize, j: usize| latent.covariance[(t, i, j)];
            let pairs = [(0, 1), (0, 2), (1, 2)];
            pairs.iter().map(|&(i, j)| c(i, i) + c(j, j) - 2.0 * c(i, j)).sum::<f64>() / 3.0
        };
        Ok((0..inputs.nrows()).map(differences).collect())
    })?;
    assert_eq!((found.ood_auroc, found.ood_auroc_epistemic), (total, Some(information)));
    assert_eq!(found.ood_auroc_logits, Some(logits));
    // The trained network alone has the first alone.
    let map = laplace.predict(&inputs, &Method::Map)?;
    let map = Uncertainties::of(&map)?;
    assert!(map.epistemic.is_none() && map.logits.is_none() && map.total.len() == 60);
    Ok(())
}
