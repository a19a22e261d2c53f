//! What every structure promises of its log determinant: the value of the factored precision at the same
//! hyperparameters, and the gradient of differences.

use ndarray::Array2;
use rand::Rng;

use super::structure::{LogDetForm, Structure};
use super::{FitOptions, Laplace};
use crate::data::Dataset;
use crate::error::Result;
use crate::likelihood::Family;
use crate::network::{Activation, Architecture, Network};
use crate::prior::{PriorPrecision, PriorStructure};
use crate::random::{Purpose, stream};

fn random(rows: usize, columns: usize, index: u64) -> Array2<f64> {
    let mut generator = stream(5, Purpose::Data, index);
    Array2::from_shape_fn((rows, columns), |_| 2.0 * generator.random::<f64>() - 1.0)
}

/// A network of two outputs with three likelihoods: one σ, one σ per output, none.
fn fitted(structure: Structure) -> Result<Vec<Laplace>> {
    let network = Network::random(Architecture::new(&[2, 4, 2], Activation::Tanh)?, 3);
    let classes = random(12, 1, 3).mapv(|value| if value > 0.0 { 1.0 } else { 0.0 });
    let (inputs, targets) = (random(12, 2, 1), random(12, 2, 2));
    let options = FitOptions { structure, ..Default::default() };
    let gaussian =
        |family| Laplace::fit(network.clone(), Dataset::new(inputs.clone(), targets.clone())?, family, &options);
    Ok(vec![
        gaussian(Family::gaussian(0.7)?)?,
        gaussian(Family::gaussian_per_output(&[0.7, 1.2])?)?,
        Laplace::fit(network.clone(), Dataset::new(inputs.clone(), classes)?, "categorical".parse()?, &options)?,
    ])
}

/// Central differences of f, whose truncation with this step is 1e-9 of third derivatives of size 1.
fn difference(f: impl Fn(f64) -> f64) -> f64 {
    let step = 5e-5;
    (f(step) - f(-step)) / (2.0 * step)
}

fn moved(values: &[f64], place: usize, by: f64) -> Vec<f64> {
    values.iter().enumerate().map(|(index, value)| if index == place { value + by } else { *value }).collect()
}

#[test]
fn the_log_determinant_is_that_of_the_precision_and_has_its_gradient() -> Result<()> {
    for structure in Structure::ALL {
        for laplace in fitted(*structure)? {
            let (curvature, groups) = (laplace.curvature()?, laplace.model().group_sizes());
            let n_sigma = laplace.family().sigma().map_or(0, <[f64]>::len);
            let general = |prior| LogDetForm::General { prior };
            let (scalar, layers) = (general(PriorStructure::Scalar), general(PriorStructure::PerLayer));
            let forms: &[(LogDetForm, usize)] = match n_sigma {
                2 => &[(scalar, 1), (layers, 2)],
                _ => &[(LogDetForm::Shared, 1), (scalar, 1), (layers, 2)],
            };
            for (form, n_alpha) in forms {
                let (alpha, sigma) = (&[-0.4, 0.9][..*n_alpha], &[0.3, -0.5][..n_sigma]);
                let log_det = curvature.log_det(*form)?;
                let value =
                    |alpha: &[f64], sigma: &[f64]| log_det.evaluate(alpha, sigma).map_or(f64::NAN, |ratio| ratio.value);
                let Some(ratio) = log_det.evaluate(alpha, sigma) else { panic!("{structure}: no log determinant") };
                let exp = |values: &[f64]| values.iter().map(|value| value.exp()).collect::<Vec<f64>>();
                let prior = match n_alpha {
                    1 => PriorPrecision::scalar(alpha[0].exp(), &groups)?,
                    _ => PriorPrecision::per_group(exp(alpha), &groups)?,
                };
                let noise = if n_sigma == 0 { vec![1.0] } else { exp(sigma) };
                let factored = curvature.factor(&prior, &noise)?.log_det_ratio();
                assert!(
                    (ratio.value - factored).abs() < 1e-10 * (1.0 + factored),
                    "{structure}: {ratio:?}, {factored}"
                );
                for (place, slope) in ratio.by_log_alpha.iter().enumerate() {
                    let expected = difference(|t| value(&moved(alpha, place, t), sigma));
                    assert!((slope - expected).abs() < 1e-7, "{structure}, {form:?}: α {place}: {slope}, {expected}");
                }
                for (place, slope) in ratio.by_log_sigma.iter().enumerate() {
                    let expected = difference(|t| value(alpha, &moved(sigma, place, t)));
                    assert!((slope - expected).abs() < 1e-7, "{structure}, {form:?}: σ {place}: {slope}, {expected}");
                }
                assert_eq!((ratio.by_log_alpha.len(), ratio.by_log_sigma.len()), (*n_alpha, n_sigma));
            }
        }
    }
    Ok(())
}
