use riemannian_laplace::Family;
use riemannian_laplace::internals::likelihood::{Bernoulli, LatentPoint, Likelihood, Ordinal, check_likelihood};
use riemannian_laplace::{Link, Method};

use crate::checks::{self, close};
use crate::common::Outcome;

const OUTPUTS: [f64; 4] = [-2.3, -0.4, 0.9, 4.1];

#[test]
fn ordered_classes_satisfy_their_definition() -> Outcome {
    for gaps in [&[1.0][..], &[0.3, 2.0], &[0.5, 0.5, 0.5, 4.0]] {
        let ordinal = Ordinal::new(gaps)?;
        let classes: Vec<f64> = (0..gaps.len() + 2).map(|class| class as f64).collect();
        checks::derivatives(&ordinal, &classes, &OUTPUTS);
        checks::force(&ordinal, &OUTPUTS);
        for f in OUTPUTS {
            let (mut mean, mut fisher) = (vec![0.0; classes.len()], [0.0]);
            ordinal.mean(&[f], &mut mean);
            ordinal.fisher(&[f], &mut fisher);
            close(mean.iter().sum(), 1.0, 1e-14, "mass");
            let score = |class: &f64| {
                let mut score = [0.0];
                ordinal.gradient(&[*class], &[f], &mut score);
                score[0]
            };
            let square: f64 = classes.iter().zip(&mean).map(|(class, p)| p * score(class).powi(2)).sum();
            close(square, fisher[0], 1e-12, "E score² is the Fisher information");
            check_likelihood(&ordinal, &[1.0], &[f])?;
        }
    }
    Ok(())
}

#[test]
fn two_ordered_classes_are_yes_and_no() -> Outcome {
    let two = Ordinal::new(&[])?;
    for (y, f) in [(0.0, -1.2), (1.0, -1.2), (1.0, 40.0), (0.0, 40.0), (1.0, -700.0)] {
        close(two.log_density(&[y], &[f]), Bernoulli.log_density(&[y], &[f]), 1e-13, "log density");
    }
    Ok(())
}

/// Probabilities far out have their logarithms, although classes are differences of nearly equal numbers.
#[test]
fn unlikely_classes_are_accurate_far_out() -> Outcome {
    let ordinal = Ordinal::new(&[1e-3, 2.0])?;
    // P(class 1 | f = -50) = S(50.001) - S(50) = e^-50 (1 - e^-0.001) to first order in e^-50.
    let expected = -50.0 + (-(-1e-3_f64).exp_m1()).ln();
    close(ordinal.log_density(&[1.0], &[-50.0]), expected, 1e-12, "far below");
    assert!(ordinal.log_density(&[0.0], &[800.0]) < -799.0);
    Ok(())
}

#[test]
fn probabilities_under_a_gaussian_are_averages() -> Outcome {
    let ordinal = Ordinal::new(&[1.3, 0.8])?;
    let likelihood: &dyn Likelihood = &ordinal;
    let latent = LatentPoint { mean: vec![0.7], covariance: vec![1.4] };
    let moments = likelihood.moments_under(&latent);
    close(moments.mean.iter().sum(), 1.0, 1e-12, "mass");
    for class in 0..4 {
        let log = likelihood.log_density_under(&latent, &[class as f64])?;
        close(moments.mean[class], log.exp(), 1e-9, "two quadratures");
    }
    Ok(())
}

#[test]
fn gaps_between_thresholds_are_found_again_and_frequencies_hold() -> Outcome {
    let (truth, start) = (Ordinal::new(&[1.5, 0.7])?, Ordinal::new(&[1.0, 1.0])?);
    let (laplace, held_out) = checks::found_again(&Family::new(truth), &Family::new(start), [1.4, 0.6])?;
    let prediction = laplace.predict(held_out.inputs(), &Method::Glm(Link::default()))?;
    let n = held_out.len() as f64;
    for class in 0..4 {
        let expected = prediction.mean.column(class).sum();
        let found = held_out.targets().iter().filter(|label| **label == class as f64).count() as f64;
        let error = prediction.mean.column(class).iter().map(|p| p * (1.0 - p)).sum::<f64>().sqrt();
        assert!((found - expected).abs() < 4.0 * error, "class {class}: {found} of {n}, expected {expected} ± {error}");
    }
    Ok(())
}

#[test]
fn all_structures_take_it() -> Outcome {
    let family = Family::new(Ordinal::new(&[1.5, 0.7])?);
    checks::structures_of_classes(&family)
}
