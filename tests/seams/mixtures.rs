//! Mixtures of predictions, against sums over their parts that are written out here.

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis, Slice, array, concatenate};
use riemannian_laplace::internals::predict::{Mixture, MixtureMember, draw_weights};
use riemannian_laplace::{
    Dataset, Draws, Error, FitOptions, Laplace, Method, Prediction, Standardize, Structure, Unsupported,
};

use crate::common::{Outcome, architecture, is_close, normal_matrix, random_network};
use crate::draws::assert_moments;
use crate::{Case, gaussian, named};

/// Weights as they are given, and as they are used.
const WEIGHTS: [f64; 2] = [3.0, 1.0];
const SHARES: [f64; 2] = [0.75, 0.25];

/// Two posteriors of the same data: at other weights, and with other noise where there is any.
fn pair(case: &Case) -> Result<[Laplace; 2], Error> {
    let activation = riemannian_laplace::Activation::Tanh;
    let outputs = case.network.architecture().n_outputs();
    let other = random_network(architecture(&[2, 4, outputs], &[true, true], activation), 77);
    let family = if case.family.sigma().is_some() { gaussian(0.6) } else { case.family.clone() };
    let fit = Laplace::fit(other, case.data.clone(), family, &FitOptions::default())?;
    Ok([case.fit(Structure::Auto)?, fit])
}

fn mixture(parts: &[Prediction; 2]) -> Result<Prediction, Error> {
    Prediction::mixture(WEIGHTS.into_iter().zip(parts.iter().cloned()).collect())
}

fn cases() -> [Case; 4] {
    [Case::regression(15), Case::new(gaussian(0.4), 2, 15), Case::new(named("poisson"), 1, 25), Case::classes(15)]
}

#[test]
fn moments_and_densities_are_those_of_the_parts_by_their_weights() -> Outcome {
    let inputs = normal_matrix(5, 2, 51);
    for case in cases() {
        let name = case.family.likelihood().name();
        let [one, other] = pair(&case)?;
        for method in [Method::Map, Method::default(), Method::Nn(Draws::first(20, 3))] {
            let parts = [one.predict(&inputs, &method)?, other.predict(&inputs, &method)?];
            let mixed = mixture(&parts)?;
            for (at, mean) in mixed.mean.indexed_iter() {
                let sum =
                    |value: &dyn Fn(&Prediction) -> f64| SHARES[0] * value(&parts[0]) + SHARES[1] * value(&parts[1]);
                assert!(is_close(*mean, sum(&|part| part.mean[at]), 1e-14, 1.0), "{name} {at:?}");
                // E y² − (E y)², and E Var(y | θ): what is left is epistemic.
                let second = sum(&|part| part.total_variance[at] + part.mean[at].powi(2));
                assert!(is_close(mixed.total_variance[at], second - mean * mean, 1e-12, 1.0), "{name} {at:?}");
                assert!(is_close(mixed.aleatoric_variance[at], sum(&|part| part.aleatoric_variance[at]), 1e-13, 1.0));
                let both = mixed.epistemic_variance[at] + mixed.aleatoric_variance[at];
                assert!(is_close(mixed.total_variance[at], both, 1e-13, 1.0));
            }
            let targets = case.data.targets().slice_axis(Axis(0), Slice::from(..5)).to_owned();
            let [first, second] = [parts[0].log_densities(&targets)?, parts[1].log_densities(&targets)?];
            for (row, log) in mixed.log_densities(&targets)?.iter().enumerate() {
                let expected = (SHARES[0] * first[row].exp() + SHARES[1] * second[row].exp()).ln();
                assert!(is_close(*log, expected, 1e-12, 1.0), "{name}: {log} for {expected}");
            }
            // H(E p) − E H(p | θ) over the draws of both.
            if let (Some(entropy), Some(information)) = (&mixed.entropy, &mixed.mutual_information) {
                let given = |part: &Prediction, row: usize| {
                    let parts = part.entropy.as_ref().zip(part.mutual_information.as_ref());
                    parts.map_or(f64::NAN, |(entropy, information)| entropy[row] - information[row])
                };
                for row in 0..5 {
                    let known = SHARES[0] * given(&parts[0], row) + SHARES[1] * given(&parts[1], row);
                    assert!(is_close(information[row], entropy[row] - known, 1e-12, 1.0));
                    let plain: f64 = mixed.mean.row(row).iter().map(|p| -p * p.ln()).sum();
                    assert!(is_close(entropy[row], plain, 1e-13, 1.0));
                }
            }
            assert_eq!(mixed.mutual_information.is_some(), name == "categorical" && method.name() == "nn");
        }
    }
    Ok(())
}

#[test]
fn two_sets_of_samples_mixed_are_one_set_of_all() -> Outcome {
    let inputs = normal_matrix(4, 2, 55);
    let draws = Draws::first(12, 3);
    for case in [Case::classes(15), Case::new(named("bernoulli"), 1, 15), Case::new(named("poisson"), 1, 25)] {
        let [one, other] = pair(&case)?;
        let weights =
            concatenate(Axis(0), &[draw_weights(&one, &draws)?.view(), draw_weights(&other, &draws)?.view()])?;
        let all = Prediction::of_weights(&one, weights.view(), &inputs)?;
        let method = Method::Nn(draws.clone());
        let parts = vec![(0.5, one.predict(&inputs, &method)?), (0.5, other.predict(&inputs, &method)?)];
        let mixed = Prediction::mixture(parts)?;
        let same = |found: Option<Array1<f64>>, expected: Option<Array1<f64>>| {
            assert_eq!(found.is_some(), expected.is_some());
            for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!(is_close(*a, *b, 1e-12, 1e-2), "{a} for {b}");
            }
        };
        for (found, expected) in [
            (&mixed.mean, &all.mean),
            (&mixed.epistemic_variance, &all.epistemic_variance),
            (&mixed.aleatoric_variance, &all.aleatoric_variance),
        ] {
            same(Some(found.iter().copied().collect()), Some(expected.iter().copied().collect()));
        }
        same(mixed.entropy.clone(), all.entropy.clone());
        same(mixed.mutual_information.clone(), all.mutual_information.clone());
        same(mixed.epistemic_uncertainty()?, all.epistemic_uncertainty()?);
        same(mixed.logit_variance(), all.logit_variance());
    }
    Ok(())
}

#[test]
fn ranks_are_mixed_and_quantiles_invert_them() -> Outcome {
    let inputs = normal_matrix(4, 2, 52);
    for case in cases().into_iter().take(3) {
        let [one, other] = pair(&case)?;
        for method in [Method::default(), Method::Nn(Draws::first(7, 3))] {
            let parts = [one.predict(&inputs, &method)?, other.predict(&inputs, &method)?];
            let mixed = mixture(&parts)?;
            let ranks =
                |prediction: &Prediction, y: &Array2<f64>| prediction.ranks(y).map(|ranks| ranks.expect("no classes"));
            for (level, quantiles) in [0.05, 0.5, 0.9].into_iter().zip(mixed.quantiles(&[0.05, 0.5, 0.9])?) {
                let (all, a, b) =
                    (ranks(&mixed, &quantiles)?, ranks(&parts[0], &quantiles)?, ranks(&parts[1], &quantiles)?);
                for (at, rank) in all.indexed_iter() {
                    assert!(is_close(*rank, SHARES[0] * a[at] + SHARES[1] * b[at], 1e-13, 1.0));
                    if case.family.sigma().is_some() {
                        assert!((rank - level).abs() < 1e-12, "{rank} for {level}");
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn draws_of_a_mixture_have_its_mean_and_variance() -> Outcome {
    let inputs = normal_matrix(3, 2, 53);
    for case in cases().into_iter().take(3) {
        let [one, other] = pair(&case)?;
        let method = Method::default();
        let mixed = mixture(&[one.predict(&inputs, &method)?, other.predict(&inputs, &method)?])?;
        assert_moments(&mixed, 6, &format!("{}, a mixture", case.family.likelihood().name()))?;
        assert_eq!(mixed.draws(10, 4)?.slice_axis(Axis(0), Slice::from(..4)), mixed.draws(4, 4)?);
        assert_eq!(mixed.mean_draws(6, 4)?.dim(), (6, 3, mixed.mean.ncols()));
    }
    Ok(())
}

#[test]
fn a_posterior_predicts_with_others_as_one_method() -> Outcome {
    let inputs = normal_matrix(4, 2, 54);
    let [one, other] = pair(&Case::regression(15))?;
    let parts = [one.predict(&inputs, &Method::default())?, other.predict(&inputs, &Method::Map)?];
    let member = MixtureMember { weight: WEIGHTS[1], laplace: other, method: Method::Map };
    let method = Mixture { weight: WEIGHTS[0], method: Box::default(), others: Arc::new([member]) };
    let mixed = one.predict(&inputs, &Method::Mixture(method))?;
    let expected = mixture(&parts)?;
    assert_eq!((&mixed.mean, &mixed.total_variance), (&expected.mean, &expected.total_variance));
    Ok(())
}

#[test]
fn what_cannot_be_mixed_is_refused() -> Outcome {
    let inputs = array![[0.1, 0.2], [0.3, -0.4]];
    let case = Case::regression(15);
    let laplace = case.fit(Structure::Auto)?;
    let part = laplace.predict(&inputs, &Method::Map)?;
    let differs = |other: Prediction| {
        let result = Prediction::mixture(vec![(1.0, part.clone()), (1.0, other)]);
        matches!(result, Err(Error::Unsupported(Unsupported::MixtureOfDifferent)))
    };
    let counts = Case::new(named("poisson"), 1, 25).fit(Structure::Auto)?;
    assert!(differs(counts.predict(&inputs, &Method::Map)?));
    let scaled: Dataset = case.data.standardized(Standardize::InputsAndTargets)?;
    let scaled = Laplace::fit(case.network.clone(), scaled, case.family.clone(), &FitOptions::default())?;
    assert!(differs(scaled.predict(&inputs, &Method::Map)?));
    let fewer = laplace.predict(&array![[0.1, 0.2]], &Method::Map)?;
    assert!(Prediction::mixture(vec![(1.0, part.clone()), (1.0, fewer)]).is_err());
    assert!(Prediction::mixture(Vec::new()).is_err());
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Prediction::mixture(vec![(1.0, part.clone()), (weight, part.clone())]).is_err(), "{weight}");
    }
    Ok(())
}
