//! Tuning: on held-out data, during training, and what the evidence is worth on data it has not seen.

mod common;
#[path = "../examples/datasets/mod.rs"]
mod datasets;

use common::{Outcome, architecture, is_close, normal_matrix, random_data, random_network};
use ndarray::Array2;
use riemannian_laplace::internals::evidence::{Free, OnlineOptions, train_online};
use riemannian_laplace::internals::likelihood::Bernoulli;
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, EvidenceOptions, Family, FitOptions, Laplace, Link, Method, Network,
    Scores, Standardize, Structure, TrainingOptions, Unsupported, ValidationOptions, train,
};

/// y = 2x + 1 and noise of size 0.3, in a fixed sequence.
fn line(points: usize, seed: u64) -> Dataset {
    let (inputs, noise) = (normal_matrix(points, 1, seed), normal_matrix(points, 1, seed + 1));
    let targets = Array2::from_shape_fn((points, 1), |at| 1.0 + 2.0 * inputs[at] + 0.3 * noise[at]);
    Dataset::new(inputs, targets).expect("finite data")
}

/// The held-out negative log likelihood of the line f = wx + b with G = αI + XᵀX/σ², by the 2 × 2 inverse.
fn nll_of_line(train: &Dataset, held_out: &Dataset, theta: [f64; 2], alpha: f64, sigma: f64) -> f64 {
    let (mut xx, mut x1, mut one) = (alpha, 0.0, alpha);
    for x in train.inputs() {
        xx += x * x / sigma.powi(2);
        x1 += x / sigma.powi(2);
        one += 1.0 / sigma.powi(2);
    }
    let determinant = xx * one - x1 * x1;
    let mut sum = 0.0;
    for (x, y) in held_out.inputs().iter().zip(held_out.targets()) {
        let variance = sigma.powi(2) + (one * x * x - 2.0 * x1 * x + xx) / determinant;
        let error = y - theta[0] * x - theta[1];
        sum += 0.5 * (error * error / variance + (2.0 * std::f64::consts::PI * variance).ln());
    }
    sum / held_out.len() as f64
}

#[test]
fn tuning_on_held_out_data_finds_the_minimum_of_the_closed_form() -> Outcome {
    let (data, held_out) = (line(12, 1), line(40, 7));
    let theta = [1.7, 0.6]; // off the truth, so that the prior's variance helps
    let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, theta.to_vec())?;
    let mut laplace = Laplace::fit(network, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
    let optimum = laplace.optimize_on(&held_out, &ValidationOptions::default(), &())?;
    let (alpha, sigma) = (optimum.hyperparameters.prior_precision[0], optimum.hyperparameters.sigma[0]);
    assert!(is_close(optimum.nll, nll_of_line(&data, &held_out, theta, alpha, sigma), 1e-12, 0.0));
    // No point of a fine grid is better by more than the tolerance of 2 % allows: the minimum is flat, and a
    // second-order change of (0.02)² times the curvature, about one, remains.
    let mut best = f64::INFINITY;
    for i in 0..=160 {
        for j in 0..=120 {
            let (alpha, sigma) = (10f64.powf(-4.0 + 0.05 * f64::from(i)), 10f64.powf(-1.5 + 0.02 * f64::from(j)));
            best = best.min(nll_of_line(&data, &held_out, theta, alpha, sigma));
        }
    }
    assert!(optimum.nll < best + 1e-4, "{} and {best}", optimum.nll);
    // The posterior has these hyperparameters, and MAP is scored with the noise that suits it best.
    assert_eq!(laplace.prior().values(), [alpha]);
    let score = Scores::of(&laplace.predict(held_out.inputs(), &Method::default())?, held_out.targets())?;
    assert!(is_close(score.nll(), optimum.nll, 1e-12, 0.0));
    let errors = held_out.inputs().mapv(|x| theta[0] * x + theta[1]) - held_out.targets();
    let variance = errors.mapv(|error| error * error).sum() / 40.0;
    let expected = 0.5 * (1.0 + (2.0 * std::f64::consts::PI * variance).ln());
    assert!(is_close(optimum.map_nll, expected, 1e-12, 0.0));
    assert!(!optimum.is_worse_than_map());
    Ok(())
}

#[test]
fn every_structure_is_tuned_and_no_point_of_the_grid_is_better() -> Outcome {
    let network = random_network(architecture(&[2, 5, 3], &[true, true], Activation::Tanh), 3);
    let family: Family = "categorical".parse()?;
    let (data, held_out) = (random_data(&network, &family, 30, 4), random_data(&network, &family, 25, 9));
    for structure in [Structure::WeightSpace, Structure::FunctionSpace, Structure::Kronecker, Structure::Diagonal] {
        let fit = |alpha: f64| {
            let options = FitOptions { prior_precision: alpha.into(), structure, ..Default::default() };
            Laplace::fit(network.clone(), data.clone(), family.clone(), &options)
        };
        let mut laplace = fit(1.0)?;
        let options = ValidationOptions { link: Link::Probit, ..Default::default() };
        let optimum = laplace.optimize_on(&held_out, &options, &())?;
        for exponent in -4..=4 {
            let prediction = fit(10f64.powi(exponent))?.predict(held_out.inputs(), &Method::Glm(Link::Probit))?;
            let nll = Scores::of(&prediction, held_out.targets())?.nll();
            assert!(optimum.nll <= nll + 1e-12, "{structure}: {} at 1e{exponent}, {}", nll, optimum.nll);
        }
    }
    Ok(())
}

#[test]
fn an_optimum_at_the_edge_and_worse_than_the_network_alone_is_said_to_be_so() -> Outcome {
    // Held-out targets that the network meets exactly: any uncertainty about the weights only costs.
    let data = line(12, 1);
    let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    let held_out = Dataset::new(data.inputs().clone(), data.inputs().mapv(|x| 2.0 * x + 1.0))?;
    let mut laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
    let options = ValidationOptions { sigma: Free::Held, ..Default::default() };
    let optimum = laplace.optimize_on(&held_out, &options, &())?;
    let edge = optimum.at_edge.clone().ok_or("not at the edge")?;
    assert!(edge.value > 9000.0 && edge.parameter == "prior precision", "{edge:?}");
    assert!(optimum.is_worse_than_map());
    assert_eq!(laplace.family().sigma(), Some(&[0.1][..]));
    let wrong = ValidationOptions { grid: (1.0, 0.5), ..Default::default() };
    assert!(matches!(laplace.optimize_on(&held_out, &wrong, &()), Err(Error::Bounds { .. })));
    Ok(())
}

#[test]
fn a_held_prior_stays_and_each_output_gets_its_noise() -> Outcome {
    let network = random_network(architecture(&[1, 4, 2], &[true, true], Activation::Tanh), 5);
    let family = Family::gaussian_per_output(&[0.1, 1.0])?;
    let (data, held_out) = (random_data(&network, &family, 40, 6), random_data(&network, &family, 200, 8));
    let options = FitOptions { prior_precision: vec![2.0, 3.0].into(), ..Default::default() };
    let family = Family::gaussian_per_output(&[1.0, 1.0])?;
    let mut laplace = Laplace::fit(network, data, family, &options)?;
    let options = ValidationOptions { prior: Free::Held, ..Default::default() };
    let optimum = laplace.optimize_on(&held_out, &options, &())?;
    assert_eq!(optimum.hyperparameters.prior_precision, [2.0, 3.0]);
    // The data were made with these levels, and 0.3 of noise in the outputs besides.
    for (found, level) in optimum.hyperparameters.sigma.iter().zip([0.1f64, 1.0]) {
        let expected = level.hypot(0.3);
        assert!((found / expected - 1.0).abs() < 0.2, "{found} for {expected}");
    }
    Ok(())
}

/// A sine with noise, in a fixed sequence.
fn sine(points: usize) -> Dataset {
    let (inputs, noise) = (normal_matrix(points, 1, 3), normal_matrix(points, 1, 4));
    let targets = Array2::from_shape_fn((points, 1), |at| (2.0 * inputs[at]).sin() + 0.2 * noise[at]);
    Dataset::new(inputs, targets).expect("finite data")
}

#[test]
fn training_by_evidence_reaches_a_greater_evidence_than_tuning_afterwards() -> Outcome {
    let (data, family) = (sine(60), Family::gaussian(1.0)?);
    let start = Network::random(Architecture::new(&[1, 20, 1], Activation::Tanh)?, 2);
    let training = TrainingOptions { epochs: 1500, ..Default::default() };
    let options = OnlineOptions { training: training.clone(), burn_in: 300, every: 100, ..Default::default() };
    let online = train_online(&start, &data, &family, &options, &())?;
    assert_eq!(online.history.len(), 13);
    let epochs: Vec<usize> = online.history.iter().map(|step| step.epoch).collect();
    assert_eq!((epochs[0], epochs[1], epochs[12]), (300, 400, 1500));
    let best = online.history.iter().map(|step| step.log_marginal_likelihood).fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(online.laplace.log_marginal_likelihood(), best);
    assert_eq!(online.laplace.parameters(), online.network.parameters());
    // The same epochs with the default weight decay, tuned once at the end.
    let afterwards = train(&start, &data, &family, &training, &())?;
    let mut laplace = Laplace::fit(afterwards.network, data.clone(), family.clone(), &FitOptions::default())?;
    laplace.optimize(&EvidenceOptions::default())?;
    assert!(best > laplace.log_marginal_likelihood() + 1.0, "{best} and {}", laplace.log_marginal_likelihood());
    // The noise is found: 0.2, known to √(1/120) = 9 %.
    let sigma = online.laplace.sigma().ok_or("no sigma")?[0];
    assert!((sigma / 0.2 - 1.0).abs() < 0.4, "{sigma}");
    // The same call gives the same bits.
    let again = train_online(&start, &data, &family, &options, &())?;
    assert_eq!((again.network.parameters(), &again.history), (online.network.parameters(), &online.history));
    Ok(())
}

#[test]
fn a_damped_step_moves_the_hyperparameters_part_of_the_way() -> Outcome {
    let (data, family) = (sine(30), Family::gaussian(1.0)?);
    let start = Network::random(Architecture::new(&[1, 5, 1], Activation::Tanh)?, 2);
    let training = TrainingOptions { epochs: 200, ..Default::default() };
    let run = |step: f64| {
        let options =
            OnlineOptions { training: training.clone(), burn_in: 100, every: 100, step, ..Default::default() };
        train_online(&start, &data, &family, &options, &())
    };
    let (full, half) = (run(1.0)?, run(0.5)?);
    // Both see the same network after the burn-in and at the second tuning.
    assert_eq!(full.history[0], half.history[0]);
    let logs =
        |index: usize, run: &[riemannian_laplace::internals::evidence::OnlineStep]| run[index].prior_precision.ln();
    let middle = 0.5 * (logs(0, &full.history) + logs(1, &full.history));
    assert!(is_close(logs(1, &half.history), middle, 1e-12, 0.0));
    assert!(matches!(run(0.0), Err(Error::Training(_))) && matches!(run(1.5), Err(Error::Training(_))));
    let two = Family::gaussian_per_output(&[1.0, 2.0])?;
    let options = OnlineOptions { training, ..Default::default() };
    let refused = train_online(&start, &data, &two, &options, &());
    assert!(matches!(refused, Err(Error::Unsupported(Unsupported::OnlineSigmas { levels: 2 }))));
    Ok(())
}

/// Three quarters of a data set for training, standardised, and the rest, in a fixed order.
fn split(file: &str, target: &str) -> Result<(Dataset, Dataset), Box<dyn std::error::Error>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    let data = riemannian_laplace::internals::data::Table::read(&path)?.labelled_dataset(&[target.to_string()])?;
    // A step that shares no factor with the number of rows visits each of them once.
    let rows: Vec<usize> = (0..data.len()).map(|n| n * 101 % data.len()).collect();
    let (training, test) = rows.split_at(3 * data.len() / 4);
    Ok((data.select(training)?.standardized(Standardize::Inputs)?, data.select(test)?))
}

/// The network that is a mode of the posterior with this prior precision, and its Laplace approximation.
fn at_mode(data: &Dataset, sizes: &[usize], alpha: f64) -> Result<Laplace, Error> {
    let start = Network::random(Architecture::new(sizes, Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 1500, weight_decay: alpha / data.len() as f64, ..Default::default() };
    let network = train(&start, data, &Family::new(Bernoulli), &options, &())?.network;
    let fit = FitOptions { prior_precision: alpha.into(), ..Default::default() };
    Laplace::fit(network, data.clone(), Family::new(Bernoulli), &fit)
}

/// Evidence and held-out NLL of the default prediction over a grid of prior precisions, each with its own mode.
fn over_grid(
    file: &str,
    target: &str,
    hidden: &[usize],
    grid: &[f64],
) -> Result<Vec<(f64, f64)>, Box<dyn std::error::Error>> {
    let (data, test) = split(file, target)?;
    let sizes: Vec<usize> = [data.inputs().ncols()].iter().chain(hidden).chain(&[1]).copied().collect();
    let mut found = Vec::new();
    for alpha in grid {
        let laplace = at_mode(&data, &sizes, *alpha)?;
        let nll = Scores::of(&laplace.predict(test.inputs(), &Method::default())?, test.targets())?.nll();
        found.push((laplace.log_marginal_likelihood(), nll));
    }
    Ok(found)
}

/// A grid with half a decade between its points.
fn half_decades(range: std::ops::RangeInclusive<i32>) -> Vec<f64> {
    range.map(|i| 10f64.powf(0.5 * f64::from(i))).collect()
}

/// Held-out NLL with the evidence's prior precision and the least over a grid, with the weights as they are.
fn with_weights_fixed(laplace: &mut Laplace, test: &Dataset) -> Result<(f64, f64), Error> {
    let nll = |laplace: &Laplace| -> Result<f64, Error> {
        Ok(Scores::of(&laplace.predict(test.inputs(), &Method::default())?, test.targets())?.nll())
    };
    let mut best = f64::INFINITY;
    for alpha in half_decades(-6..=8) {
        laplace.set_hyperparameters(&alpha.into(), &[])?;
        best = best.min(nll(laplace)?);
    }
    laplace.optimize(&EvidenceOptions::default())?;
    Ok((nll(laplace)?, best))
}

#[test]
fn evidence_picks_a_prior_precision_that_predicts_nearly_best_on_overlapping_moons() -> Outcome {
    // The example `evidence` has more networks, and moons that hardly overlap, where it does not hold.
    for index in 0..3 {
        let (data, test) = (datasets::moons(300, 0.3, 2 * index)?, datasets::moons(2_000, 0.3, 2 * index + 1)?);
        let (chosen, best) = with_weights_fixed(&mut at_mode(&data, &[2, 16, 1], 0.03)?, &test)?;
        assert!(chosen <= 1.02 * best, "{index}: {chosen} for {best}");
    }
    Ok(())
}

#[test]
fn evidence_picks_a_prior_precision_that_predicts_nearly_best_on_two_moons() -> Outcome {
    // Each prior precision with the network that is its own mode. (Of one network, trained with another prior, the
    // evidence picks a posterior that is too wide for its logits: there are 225 points, and they hardly overlap.)
    let found = over_grid("two_moons.csv", "moon", &[16], &half_decades(-3..=2))?;
    let best = found.iter().map(|(_, nll)| *nll).fold(f64::INFINITY, f64::min);
    let chosen = found.iter().fold((f64::NEG_INFINITY, f64::NAN), |a, b| if b.0 > a.0 { *b } else { a });
    assert!(chosen.1 <= 1.02 * best, "{} for {best}: {found:?}", chosen.1);
    Ok(())
}

#[test]
fn evidence_picks_a_prior_precision_that_predicts_nearly_best_in_logistic_regressions() -> Outcome {
    // The weights as they were trained, with hardly any prior; the posterior alone is tuned.
    for file in ["pima.csv", "australian.csv", "german.csv"] {
        let (data, test) = split(file, "y")?;
        let mut laplace = at_mode(&data, &[data.inputs().ncols(), 1], 1e-2)?;
        let (chosen, best) = with_weights_fixed(&mut laplace, &test)?;
        assert!(chosen <= 1.02 * best, "{file}: {chosen} for {best}");
    }
    Ok(())
}
