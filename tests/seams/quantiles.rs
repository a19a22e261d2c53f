//! Intervals and quantiles of predictions against distribution functions written out here.

use ndarray::{Array2, array};
use riemannian_laplace::internals::predict::Predictive;
use riemannian_laplace::{Draws, Error, Link, Method, Prediction, Structure, Unsupported};

use crate::common::{Outcome, is_close, normal_matrix};
use crate::{Case, gaussian, methods, named};

/// The 95 % point of the standard normal distribution.
const Z_95: f64 = 1.644_853_626_951_472_2;

#[test]
fn the_interval_of_a_linearised_regression_is_its_mean_and_so_many_deviations() -> Outcome {
    let inputs = normal_matrix(6, 2, 31);
    for case in [Case::regression(15), Case::new(gaussian(0.4), 2, 15)] {
        let prediction = case.fit(Structure::Auto)?.predict(&inputs, &Method::Glm(Link::Probit))?;
        let (lower, upper) = prediction.interval(0.9)?;
        let deviation = prediction.standard_deviation();
        for (at, mean) in prediction.mean.indexed_iter() {
            assert!(is_close(lower[at], mean - Z_95 * deviation[at], 1e-13, 1.0), "{at:?}");
            assert!(is_close(upper[at], mean + Z_95 * deviation[at], 1e-13, 1.0), "{at:?}");
        }
    }
    Ok(())
}

/// Φ(z) by Simpson's rule from the density, good to 1e-14 with 4,000 steps on [−10, z].
fn normal_cdf(z: f64) -> f64 {
    if z <= -10.0 {
        return 0.0;
    }
    let (steps, start) = (4000, -10.0);
    let step = (z.min(10.0) - start) / steps as f64;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    (0..=steps).map(|i| weight(i) * density(start + i as f64 * step)).sum::<f64>() * step / 3.0
}

/// The outputs of each network of a sampled prediction at one place.
fn components(prediction: &Prediction, at: (usize, usize)) -> Vec<f64> {
    match prediction.predictive() {
        Predictive::Sampled(sampled) => sampled.outputs().outer_iter().map(|f| f[at]).collect(),
        Predictive::Network { outputs } => vec![outputs[at]],
        Predictive::Linearized { .. } | Predictive::Mixture(_) => panic!("neither one network nor several"),
    }
}

#[test]
fn quantiles_of_sampled_regressions_invert_the_distribution_function_of_the_mixture() -> Outcome {
    let inputs = normal_matrix(3, 2, 31);
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    let levels = [0.01, 0.25, 0.5, 0.9, 0.995];
    for method in [Method::Map, Method::Nn(Draws::first(25, 2)), Method::riemannian(10, 2)] {
        let prediction = laplace.predict(&inputs, &method)?;
        let quantiles = prediction.quantiles(&levels)?;
        for (level, quantiles) in levels.iter().zip(&quantiles) {
            for (at, quantile) in quantiles.indexed_iter() {
                let means = components(&prediction, at);
                let below = means.iter().map(|mean| normal_cdf((quantile - mean) / 0.3)).sum::<f64>();
                let share = below / means.len() as f64;
                assert!((share - level).abs() < 1e-12, "{}: {share} for {level}", method.name());
            }
        }
        assert!(quantiles.windows(2).all(|pair| pair[0].iter().zip(&pair[1]).all(|(low, high)| low < high)));
        let (lower, upper) = prediction.interval(0.5)?;
        let [first, third] = <[Array2<f64>; 2]>::try_from(prediction.quantiles(&[0.25, 0.75])?).expect("two");
        assert_eq!((lower, upper), (first, third));
    }
    Ok(())
}

/// P(y ≤ count) of the prediction at each point, from the densities that it states.
fn shares(prediction: &Prediction, points: usize, count: f64) -> Result<Vec<f64>, Error> {
    let mut shares = vec![0.0; points];
    for y in 0..=count.max(-1.0) as i64 {
        let densities = prediction.log_densities(&Array2::from_elem((points, 1), y as f64))?;
        shares.iter_mut().zip(&densities).for_each(|(share, log)| *share += log.exp());
    }
    Ok(if count < 0.0 { vec![0.0; points] } else { shares })
}

#[test]
fn quantiles_of_counts_are_the_first_that_reach_their_level() -> Outcome {
    let inputs = normal_matrix(4, 2, 31);
    let laplace = Case::new(named("poisson"), 1, 25).fit(Structure::Auto)?;
    for method in methods() {
        let prediction = laplace.predict(&inputs, &method)?;
        // The linearised rate is log-normal, and taken at 400 points for quantiles: its distribution function is off by
        // some part of a step of 1/400.
        let tolerance = if matches!(method, Method::Glm(_)) { 1e-3 } else { 1e-12 };
        for level in [0.05, 0.3, 0.5, 0.8, 0.95] {
            let quantiles = prediction.quantiles(&[level])?.remove(0);
            for (t, count) in quantiles.iter().copied().enumerate() {
                assert!(count >= 0.0 && count.fract() == 0.0, "{count}");
                let (at, below) = (shares(&prediction, 4, count)?[t], shares(&prediction, 4, count - 1.0)?[t]);
                let name = format!("{} at {level}: {below}, {at}", method.name());
                assert!(at >= level - tolerance && below < level + tolerance, "{name}");
            }
        }
        // So an interval covers at least its level.
        let (lower, upper) = prediction.interval(0.9)?;
        for t in 0..4 {
            let covered = shares(&prediction, 4, upper[(t, 0)])?[t] - shares(&prediction, 4, lower[(t, 0)] - 1.0)?[t];
            assert!(covered >= 0.9 - 2.0 * tolerance, "{}: {covered}", method.name());
        }
    }
    Ok(())
}

#[test]
fn classes_have_no_quantiles() -> Outcome {
    let inputs = array![[0.3, -0.2]];
    for case in [Case::classes(15), Case::new(named("bernoulli"), 1, 15)] {
        let laplace = case.fit(Structure::Auto)?;
        for method in methods() {
            let prediction = laplace.predict(&inputs, &method)?;
            for refused in [prediction.quantiles(&[0.5]).err(), prediction.interval(0.9).err()] {
                assert!(matches!(refused, Some(Error::Unsupported(Unsupported::ClassQuantiles))), "{refused:?}");
            }
            assert_eq!(prediction.class_probabilities(), Some(&prediction.mean));
        }
    }
    Ok(())
}

#[test]
fn levels_outside_0_to_1_are_refused_as_they_were_given() -> Outcome {
    let prediction = Case::regression(15).fit(Structure::Auto)?.predict(&array![[0.3, -0.2]], &Method::default())?;
    for level in [-0.5, 0.0, 1.0, 1.5, f64::NAN] {
        for refused in [prediction.quantiles(&[0.5, level]).err(), prediction.interval(level).err()] {
            let found = matches!(refused, Some(Error::QuantileLevel(found)) if found.to_bits() == level.to_bits());
            assert!(found, "{level}: {refused:?}");
        }
    }
    Ok(())
}
