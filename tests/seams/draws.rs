//! Draws of y from predictions, against the moments that the predictions state.

use std::collections::HashSet;

use ndarray::{Axis, array};
use rand::RngCore;
use riemannian_laplace::internals::predict::MonteCarlo;
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::{Draws, Error, Link, Method, Prediction, Structure};

use crate::common::{Outcome, normal_matrix};
use crate::{Case, bits, gaussian, methods, named};

/// A multiple of the numbers of networks in sampled predictions, so that each is drawn from equally often.
const COUNT: usize = 24_000;

/// Mean and variance of draws within five standard errors of those of the prediction, at every point and output.
pub(crate) fn assert_moments(prediction: &Prediction, seed: u64, name: &str) -> Outcome {
    let draws = prediction.draws(COUNT, seed)?;
    let n = COUNT as f64;
    assert_eq!(draws.dim(), (COUNT, prediction.mean.nrows(), prediction.mean.ncols()), "{name}");
    for (at, &mean) in prediction.mean.indexed_iter() {
        let variance = prediction.total_variance[at];
        let values: Vec<f64> = draws.outer_iter().map(|draw| draw[at]).collect();
        let moment = |power| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / n;
        let (first, second, fourth) = (moment(1), moment(2), moment(4));
        assert!(first.abs() < 5.0 * (variance / n).sqrt(), "{name}: the mean is off by {first} at {at:?}");
        let error = ((fourth - second * second) / n).sqrt();
        assert!((second - variance).abs() < 5.0 * error, "{name}: the variance is {second} for {variance} at {at:?}");
    }
    Ok(())
}

#[test]
fn draws_have_the_mean_and_the_variance_of_their_prediction() -> Outcome {
    let inputs = normal_matrix(3, 2, 41);
    for case in [Case::regression(15), Case::new(gaussian(0.4), 2, 15), Case::new(named("poisson"), 1, 25)] {
        let laplace = case.fit(Structure::Auto)?;
        for method in methods() {
            let prediction = laplace.predict(&inputs, &method)?;
            assert_moments(&prediction, 6, &format!("{}, {}", case.family.likelihood().name(), method.name()))?;
        }
    }
    Ok(())
}

#[test]
fn a_seed_stands_for_its_draws_and_more_of_them_begin_alike() -> Outcome {
    let inputs = normal_matrix(3, 2, 41);
    for case in [Case::regression(15), Case::classes(15), Case::new(named("poisson"), 1, 25)] {
        let laplace = case.fit(Structure::Auto)?;
        for method in methods() {
            let prediction = laplace.predict(&inputs, &method)?;
            let draws = prediction.draws(40, 8)?;
            assert_eq!(prediction.draws(40, 8)?, draws, "{}", method.name());
            assert_ne!(prediction.draws(40, 9)?, draws, "{}", method.name());
            let fewer = prediction.draws(10, 8)?;
            assert_eq!(fewer.view(), draws.slice_axis(Axis(0), (..10).into()), "{}", method.name());
            assert_eq!(prediction.draws(0, 8)?.dim().0, 0, "{}", method.name());
        }
    }
    Ok(())
}

#[test]
fn the_noise_of_draws_shares_no_bits_with_the_velocities_of_the_seed() -> Outcome {
    let (seed, points, count) = (8, 4, 50);
    let inputs = normal_matrix(points, 2, 41);
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    let mut velocities = vec![vec![0.0; count]; 2 * points];
    for (index, velocity) in velocities.iter_mut().enumerate() {
        fill_standard_normal(&mut stream(seed, Purpose::Velocity, index as u64), velocity);
    }
    // Of the network alone, a draw is its output and σ times a standard normal number.
    let prediction = laplace.predict(&inputs, &Method::Map)?;
    let draws = prediction.draws(count, seed)?;
    let mut own = vec![0.0; count];
    for t in 0..points {
        let noise: Vec<f64> = (0..count).map(|i| (draws[(i, t, 0)] - prediction.mean[(t, 0)]) / 0.3).collect();
        fill_standard_normal(&mut stream(seed, Purpose::PredictiveDraw, t as u64), &mut own);
        assert!(noise.iter().zip(&own).all(|(a, b)| (a - b).abs() < 1e-12), "not from its own stream");
        // 80,000 pairs, of which by chance 3e-8 are as near as this.
        let near = |a: &f64| velocities.iter().flatten().any(|b| (a - b).abs() < 1e-12);
        assert!(!noise.iter().any(near), "a number that a velocity has too");
    }
    // Words of the streams that linearised draws are made of.
    let mut met = HashSet::new();
    for purpose in [Purpose::Velocity, Purpose::MonteCarloLink, Purpose::PredictiveDraw] {
        for index in 0..points as u64 {
            let mut generator = stream(seed, purpose, index);
            assert!((0..1000).all(|_| met.insert(generator.next_u64())), "{purpose:?}, {index}");
        }
    }
    Ok(())
}

#[test]
fn draws_of_classes_are_as_frequent_as_their_probabilities() -> Outcome {
    let inputs = normal_matrix(3, 2, 41);
    let laplace = Case::classes(15).fit(Structure::Auto)?;
    // The probabilities that a Gaussian over logits has are those of Monte Carlo; probit and bridge approximate them.
    let link = Link::MonteCarlo(MonteCarlo { samples: 25 * COUNT, seed: 77 });
    for method in [Method::Map, Method::Glm(link), Method::Nn(Draws::first(6, 3)), Method::riemannian(4, 3)] {
        let prediction = laplace.predict(&inputs, &method)?;
        let draws = prediction.draws(COUNT, 6)?;
        assert_eq!(draws.dim(), (COUNT, 3, 1), "one label for each point");
        for ((t, class), &probability) in prediction.mean.indexed_iter() {
            let hits = draws.outer_iter().filter(|draw| draw[(t, 0)] == class as f64).count();
            let error = (probability * (1.0 - probability) / COUNT as f64).sqrt();
            let frequency = hits as f64 / COUNT as f64;
            // The expected frequency has a fifth of that error itself for the linearised one.
            assert!((frequency - probability).abs() < 5.0 * error, "{}: {frequency} for {probability}", method.name());
        }
    }
    Ok(())
}

#[test]
fn draws_of_sampled_predictions_are_functions_of_one_network_each() -> Outcome {
    // At two equal inputs the network's outputs are equal: what two draws differ by is noise, √2 σ in size.
    let inputs = array![[3.0, -2.0], [3.0, -2.0]];
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    let prediction = laplace.predict(&inputs, &Method::Nn(Draws::first(6, 3)))?;
    let draws = prediction.draws(COUNT, 6)?;
    let squares: f64 = draws.outer_iter().map(|draw| (draw[(0, 0)] - draw[(1, 0)]).powi(2)).sum();
    let variance = squares / COUNT as f64;
    // The variance of a mean of squares of N(0, v) is 2v²/n.
    let expected = 2.0 * 0.3 * 0.3;
    assert!((variance - expected).abs() < 5.0 * expected * (2.0 / COUNT as f64).sqrt(), "{variance} for {expected}");
    assert!(prediction.epistemic_variance[(0, 0)] > 0.02, "the networks differ");
    Ok(())
}

#[test]
fn too_many_draws_are_refused_before_memory_is_taken() -> Outcome {
    let inputs = normal_matrix(3, 2, 41);
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    for count in [1 << 50, usize::MAX / 3, usize::MAX] {
        for method in methods() {
            let prediction = laplace.predict(&inputs, &method)?;
            let refused = prediction.draws(count, 1).err();
            assert!(matches!(refused, Some(Error::Memory { .. })), "{count}: {refused:?}");
        }
        let refused = laplace.sample(count, 1).err();
        assert!(matches!(refused, Some(Error::Memory { .. })), "{count}: {refused:?}");
    }
    assert_eq!(bits(&laplace.sample(0, 1)?).len(), 0);
    Ok(())
}
