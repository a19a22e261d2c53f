//! The maps of which metrics are made: heights where they are asked for, and rows that do not depend on the rows before.

use std::sync::Arc;

use faer::Mat;
use riemannian_laplace::internals::map::{Evaluate, Evaluator, Jet, Map};
use riemannian_laplace::internals::metric::{LogLikelihoods, LogPosterior, Quadratic};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Error, Structure};

use crate::common::{Outcome, as_list, is_close, normal_vector};
use crate::{Case, bits, named};

fn targets() -> Result<Vec<(Target, Vec<f64>)>, Error> {
    let cases = [Case::regression(9), Case::classes(7), Case::new(named("poisson"), 2, 8)];
    let moved = |case: &Case| case.network.parameters().iter().map(|value| 0.9 * value + 0.05).collect();
    cases.iter().map(|case| Ok((case.fit(Structure::WeightSpace)?.target("a test")?, moved(case)))).collect()
}

#[test]
fn the_log_posterior_has_its_height_in_a_jet_that_asks_for_it() -> Outcome {
    for (target, theta) in targets()? {
        let velocity = normal_vector(theta.len(), 3);
        let map: Arc<dyn Map> = Arc::new(LogPosterior::new(&target));
        let mut evaluator = Evaluator::new(&map, 1);
        let (mut outputs, mut jet, mut without) = ([0.0], Jet::new(1, 1), Jet::derivatives(1, 1));
        // First elsewhere, so that nothing old passes for an answer.
        evaluator.jet(&velocity, &theta, &mut jet);
        evaluator.jet(&theta, &velocity, &mut jet);
        evaluator.outputs(&theta, &mut outputs);
        let (height, slope, bend) = target.evaluator().jet(&theta, &velocity);
        assert_eq!(bits(&jet.outputs), bits(&[target.evaluator().log_posterior(&theta)]));
        assert_eq!(bits(&outputs), bits(&jet.outputs));
        assert_eq!((jet.outputs[0], jet.first[0], jet.second[0]), (height, slope, bend));
        evaluator.jet(&theta, &velocity, &mut without);
        assert_eq!((without.outputs.len(), without.first[0], without.second[0]), (0, slope, bend));
    }
    Ok(())
}

#[test]
fn the_heights_of_all_log_likelihoods_add_up_to_that_of_the_data() -> Outcome {
    for (target, theta) in targets()? {
        let points = target.map().n_points();
        let velocity = normal_vector(theta.len(), 3);
        let map: Arc<dyn Map> = Arc::new(LogLikelihoods::new(&target));
        let mut jet = Jet::new(points, 1);
        Evaluator::new(&map, 1).jet(&theta, &velocity, &mut jet);
        let mut evaluator = target.evaluator();
        let expected = evaluator.log_likelihood(&theta);
        assert!(is_close(jet.outputs.iter().sum(), expected, 1e-14, 1.0));
        // ℓ is their sum and the prior.
        let (_, slope, bend) = evaluator.jet(&theta, &velocity);
        let prior = target.prior();
        let (first, second): (f64, f64) = (jet.first.iter().sum(), jet.second.iter().sum());
        assert!(is_close(first + prior.slope(&theta, &velocity), slope, 1e-12, 1.0));
        assert!(is_close(second + prior.bend(&velocity), bend, 1e-12, 1.0));
    }
    Ok(())
}

/// The rows after the last pull-back.
fn rows(evaluator: &dyn Evaluate) -> Vec<f64> {
    let mut rows = Mat::zeros(evaluator.n_rows(), evaluator.n_params());
    evaluator.dense(rows.as_mut());
    as_list(&rows)
}

#[test]
fn pulling_back_again_gives_the_same_rows() -> Outcome {
    for (target, theta) in targets()? {
        let precision = Case::regression(9).fit(Structure::WeightSpace)?.precision().clone();
        let mut maps: Vec<Arc<dyn Map>> =
            vec![Arc::new(LogLikelihoods::new(&target)), Arc::new(LogPosterior::new(&target))];
        if precision.n_params() == theta.len() {
            maps.push(Arc::new(Quadratic::new(precision, &vec![0.1; theta.len()])));
        }
        for map in maps {
            let points = map.n_points();
            let mut evaluator = map.clone().evaluate(1);
            evaluator.outputs(&theta, &mut vec![0.0; points]);
            let (twos, threes) = (vec![2.0; points], vec![3.0; points]);
            evaluator.pull_back(&theta, &twos);
            let once = rows(&*evaluator);
            assert!(once.iter().any(|value| *value != 0.0));
            evaluator.pull_back(&theta, &twos);
            assert_eq!(bits(&rows(&*evaluator)), bits(&once), "{map:?}");
            // Other seeds scale the rows themselves, not those of the seeds before.
            evaluator.pull_back(&theta, &threes);
            for (three, two) in rows(&*evaluator).iter().zip(&once) {
                assert!(is_close(*three, 1.5 * two, 1e-14, 1e-14), "{three} for {}", 1.5 * two);
            }
            evaluator.pull_back(&theta, &twos);
            assert_eq!(bits(&rows(&*evaluator)), bits(&once), "{map:?}");
        }
    }
    Ok(())
}
