//! Priors that fit their map, and priors that do not.

use std::sync::Arc;

use riemannian_laplace::internals::likelihood::Likelihood;
use riemannian_laplace::internals::map::Map;
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Error, Model, Structure};

use crate::Case;
use crate::common::{Outcome, assert_all_close, normal_vector};

type Parts = (Arc<dyn Map>, Arc<dyn Likelihood>, Case);

/// A map with groups of 12 and 5 parameters, its likelihood and its case.
fn parts() -> Result<Parts, Error> {
    let case = Case::regression(9);
    let map = case.network.bind(case.data.inputs().view())?;
    assert_eq!(map.groups(), [12, 5]);
    Ok((map, case.family.shared(), case))
}

#[test]
fn a_prior_for_other_groups_is_refused() -> Outcome {
    let (map, likelihood, case) = parts()?;
    // As many parameters in all, and of the first as many groups too.
    for groups in [&[5, 12][..], &[12, 4, 1], &[10, 7]] {
        let precision = PriorPrecision::per_group((1..=groups.len()).map(|g| g as f64).collect(), groups)?;
        let refusal = |error: Error| match error {
            Error::PriorGroups { prior, model } => assert_eq!((&prior[..], &model[..]), (groups, &[12, 5][..])),
            other => panic!("{groups:?}: {other}"),
        };
        let metric = Pullback::new(map.clone(), likelihood.clone(), precision.clone());
        refusal(metric.expect_err("a metric with another prior"));
        let prior = Prior::gaussian(precision);
        let target = Target::new(map.clone(), likelihood.clone(), case.data.targets().view(), prior);
        refusal(target.expect_err("a target with another prior"));
    }
    for size in [16, 18] {
        let precision = PriorPrecision::scalar(1.0, &[size])?;
        let error = Pullback::new(map.clone(), likelihood.clone(), precision).expect_err("another size");
        assert!(matches!(error, Error::Size { expected: 17, found, .. } if found == size), "{error}");
    }
    Ok(())
}

#[test]
fn one_precision_serves_any_groups_and_gives_both_spaces_the_same_acceleration() -> Outcome {
    let (map, likelihood, case) = parts()?;
    let (theta, velocity) = (case.network.parameters(), normal_vector(17, 4));
    let accelerations = |groups: &[usize]| -> Result<Vec<Vec<f64>>, Error> {
        let precision = PriorPrecision::scalar(0.4, groups)?;
        let metric = Pullback::new(map.clone(), likelihood.clone(), precision.clone())?;
        let observations = case.data.targets().view();
        let target = Target::new(map.clone(), likelihood.clone(), observations, Prior::gaussian(precision))?;
        let mut all = Vec::new();
        for metric in [metric, metric::fisher(&target), metric::empirical_fisher(&target)] {
            for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
                let metric = metric.clone().with_structure(structure);
                assert_eq!(metric.structure(), Some(structure));
                let mut acceleration = vec![0.0; 17];
                metric.evaluator().acceleration(theta, &velocity, &mut acceleration);
                all.push(acceleration);
            }
        }
        Ok(all)
    };
    let own = accelerations(&[12, 5])?;
    for pair in own.chunks(2) {
        // Both solve a system whose condition is a few hundred.
        assert_all_close(&pair[1], &pair[0], 1e-12, "function space against weight space");
    }
    for groups in [&[17][..], &[5, 12], &[1; 17]] {
        assert_eq!(accelerations(groups)?, own, "{groups:?}");
    }
    Ok(())
}

#[test]
fn a_precision_for_each_group_gives_both_spaces_the_same_acceleration() -> Outcome {
    let (map, likelihood, case) = parts()?;
    let precision = PriorPrecision::per_group(vec![0.2, 5.0], &[12, 5])?;
    let metric = Pullback::new(map, likelihood, precision)?;
    let (theta, velocity) = (case.network.parameters(), normal_vector(17, 4));
    let [weight, function] = [Structure::WeightSpace, Structure::FunctionSpace].map(|structure| {
        let mut acceleration = vec![0.0; 17];
        metric.clone().with_structure(structure).evaluator().acceleration(theta, &velocity, &mut acceleration);
        acceleration
    });
    assert_all_close(&function, &weight, 1e-12, "function space against weight space");
    Ok(())
}
