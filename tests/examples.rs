//! What the paper claims about its low-dimensional examples, at a size that takes seconds: the same computations as in
//! the examples, with fixed seeds. Margins come from the spread over repeats.

#[path = "../examples/paper/support/lowdim/mod.rs"]
mod lowdim;

use lowdim::banana::{self, MapChoice};
use lowdim::chains::evenly;
use lowdim::logistic::{self, Data, Units};
use lowdim::placement::{Method, Placement};
use lowdim::score::{Score, distance};
use lowdim::truth::{Truth, integral};
use lowdim::{REFERENCE_SEED, Size, exact_seed, funnel, gaussian, squiggle};
use ndarray::{Array2, ArrayView2, Axis};
use riemannian_laplace::internals::paper::problems::{Banana, Funnel, Squiggle};
use riemannian_laplace::internals::paper::reference::{Start, nuts};
use riemannian_laplace::internals::target::Target;

const REPEATS: u64 = 8;

/// W1 of every repeat.
#[derive(Debug, Clone)]
struct Spread(Vec<f64>);

/// The mean, and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

impl Spread {
    /// The difference of the means in units of its standard error, for sets drawn independently.
    fn above_independent(&self, other: &Self) -> f64 {
        let ((mean, error), (other_mean, other_error)) = (mean_and_error(&self.0), mean_and_error(&other.0));
        (mean - other_mean) / error.hypot(other_error)
    }

    /// The same for two methods, repeat by repeat: they start from the same Gaussian draws.
    fn above(&self, other: &Self) -> f64 {
        let (mean, error) = mean_and_error(&self.0.iter().zip(&other.0).map(|(a, b)| a - b).collect::<Vec<f64>>());
        mean / error
    }
}

/// A difference of more standard errors is not due to chance: with eight repeats 0.2 % if paired, 0.02 % if
/// independent.
const CLEAR: f64 = 5.0;

/// Independent sets of the same distribution differ by less, except with a probability of 0.4 %.
const SAME: f64 = 3.5;

fn distances(
    target: &Target,
    placement: &Placement,
    method: Method,
    (samples, seed): (usize, u64),
    reference: ArrayView2<'_, f64>,
) -> Spread {
    let score = |repeat| {
        let drawn = placement.draw(target, method, samples, seed + repeat, &()).unwrap();
        let score = Score::of(&drawn, 0.0, reference).unwrap();
        assert_eq!(score.failed, 0, "{method:?}");
        score.distance
    };
    Spread((0..REPEATS).map(score).collect())
}

fn exact_distances(exact: impl Fn(u64) -> Array2<f64>, reference: ArrayView2<'_, f64>) -> Spread {
    let measured = |repeat| distance(exact(exact_seed(repeat)).view(), reference).unwrap();
    Spread((0..REPEATS).map(measured).collect())
}

#[test]
fn the_squiggle_is_exact_with_the_fisher_metric_and_biased_with_the_monge_metric() {
    let (samples, references) = (400, 800);
    for version in [Squiggle::MAIN, Squiggle::DIFFICULT] {
        let (target, placement) = squiggle::placed(version).unwrap();
        let reference = squiggle::exact(version, references, REFERENCE_SEED);
        let of = |method| distances(&target, &placement, method, (samples, 0), reference.view());
        let yardstick = exact_distances(|seed| squiggle::exact(version, samples, seed), reference.view());
        let (fisher, monge, straight) = (of(Method::RlaF), of(Method::RlaB), of(Method::Ela));
        assert!(fisher.above_independent(&yardstick).abs() < SAME, "{version:?}: {fisher:?}, exact {yardstick:?}");
        assert!(monge.above_independent(&yardstick) > CLEAR, "{version:?}: {monge:?}, exact {yardstick:?}");
        assert!(straight.above(&monge) > CLEAR, "{version:?}: {straight:?}, RLA-B {monge:?}");
    }
}

#[test]
fn the_funnel_is_exact_with_the_fisher_metric_only() {
    let (samples, references) = (400, 800);
    let (target, placement) = funnel::placed(Funnel::PAPER).unwrap();
    let reference = funnel::exact(Funnel::PAPER, references, REFERENCE_SEED);
    let of = |method| distances(&target, &placement, method, (samples, 0), reference.view());
    let yardstick = exact_distances(|seed| funnel::exact(Funnel::PAPER, samples, seed), reference.view());
    let (fisher, logarithmic) = (of(Method::RlaF), of(Method::RlaBLog));
    let (monge, straight) = (of(Method::RlaB), of(Method::Ela));
    assert!(fisher.above_independent(&yardstick).abs() < SAME, "{fisher:?}, exact {yardstick:?}");
    assert!(logarithmic.above_independent(&yardstick) > CLEAR, "{logarithmic:?}, exact {yardstick:?}");
    for biased in [&straight, &monge] {
        assert!(biased.above_independent(&yardstick) > CLEAR, "{biased:?}, exact {yardstick:?}");
    }
    // The logarithm alleviates the bias of the Monge metric.
    assert!(monge.above(&logarithmic) > CLEAR, "{monge:?}, RLA-BLog {logarithmic:?}");
}

#[test]
fn the_bias_of_the_monge_metric_grows_with_the_dimension_and_that_of_the_others_does_not() {
    // In one dimension distances cost nothing, so that samples can be many; logarithms are slow, and get fewer.
    let (many, few) = (2_000, 250);
    let reference = gaussian::exact_first(20_000, REFERENCE_SEED);
    let yardstick = |samples| exact_distances(|seed| gaussian::exact_first(samples, seed), reference.view());
    let (yardstick, small_yardstick) = (yardstick(many), yardstick(few));
    let mut before: Option<Spread> = None;
    for dimension in [1, 3, 10] {
        let (target, placement) = gaussian::placed(dimension).unwrap();
        let of = |method, samples| {
            let seed = gaussian::seed(dimension);
            distances(&target, &placement, method, (samples, seed), reference.view())
        };
        let monge = of(Method::RlaB, many);
        assert!(monge.above_independent(&yardstick) > CLEAR, "D = {dimension}: {monge:?}, exact {yardstick:?}");
        if let Some(before) = &before {
            assert!(monge.above_independent(before) > CLEAR, "D = {dimension}: {monge:?} after {before:?}");
        }
        before = Some(monge);
        let unbiased = [
            (Method::Ela, many, &yardstick),
            (Method::RlaF, many, &yardstick),
            (Method::RlaBLog, few, &small_yardstick),
        ];
        for (method, samples, yardstick) in unbiased {
            let spread = of(method, samples);
            let difference = spread.above_independent(yardstick);
            assert!(difference.abs() < SAME, "D = {dimension}, {method:?}: {spread:?}, exact {yardstick:?}");
        }
    }
}

#[test]
fn the_banana_is_best_approximated_at_the_hausdorff_map_with_the_fisher_metric() {
    let samples = 400;
    let observations = banana::observations().unwrap();
    let target = Banana::target(&observations).unwrap();
    let reference = banana::reference(&observations, 2 * samples, REFERENCE_SEED);
    let [at_euclidean, at_hausdorff] = MapChoice::BOTH.map(|map| {
        let placement = banana::placed(&target, map).unwrap();
        let methods = [Method::Ela, Method::RlaB, Method::RlaF, Method::EmpiricalFisher];
        methods.map(|method| distances(&target, &placement, method, (samples, 0), reference.view()))
    });
    for [straight, monge, fisher, empirical] in [&at_euclidean, &at_hausdorff] {
        for riemannian in [monge, fisher, empirical] {
            assert!(straight.above(riemannian) > CLEAR, "ELA {straight:?}, {riemannian:?}");
        }
    }
    for (euclidean, hausdorff) in at_euclidean.iter().zip(&at_hausdorff).skip(1) {
        assert!(euclidean.above(hausdorff) > CLEAR, "Euclidean {euclidean:?}, Hausdorff {hausdorff:?}");
    }
    let [_, monge, fisher, _] = &at_hausdorff;
    assert!(monge.above(fisher) > CLEAR, "RLA-B {monge:?}, RLA-F {fisher:?}");
}

/// The log density agrees with the target's up to a constant, and the marginals are its integrals.
fn check_truth(truth: &Truth, target: &Target, points: &Array2<f64>, reach: [f64; 2]) {
    let mut evaluator = target.evaluator();
    let mut offset = |theta: [f64; 2]| (truth.log_density)(theta) - evaluator.log_posterior(&theta);
    let origin = offset([0.0, 0.0]);
    for row in points.rows() {
        let theta = [row[0], row[1]];
        let difference = (offset(theta) - origin).abs();
        assert!(difference < 1e-9 * (1.0 + (truth.log_density)(theta).abs()), "{theta:?}: {difference:e}");
        let density = |theta: [f64; 2]| (truth.log_density)(theta).exp();
        let first = integral(-reach[1], reach[1], |theta_2| density([theta[0], theta_2]));
        let second = integral(-reach[0], reach[0], |theta_1| density([theta_1, theta[1]]));
        assert!((first / (truth.marginals[0])(theta[0]) - 1.0).abs() < 1e-6, "{theta:?}");
        assert!((second / (truth.marginals[1])(theta[1]) - 1.0).abs() < 1e-6, "{theta:?}");
    }
}

#[test]
fn the_densities_that_figures_show_are_those_of_the_targets() {
    let version = Squiggle::MAIN;
    let points = squiggle::exact(version, 20, 5);
    check_truth(&squiggle::truth(version), &squiggle::placed(version).unwrap().0, &points, [20.0, 4.0]);
    let points = funnel::exact(Funnel::PAPER, 20, 5).mapv(|value| value.clamp(-4.0, 4.0));
    check_truth(&funnel::truth(Funnel::PAPER), &funnel::placed(Funnel::PAPER).unwrap().0, &points, [100.0, 40.0]);
    let observations = banana::observations().unwrap();
    let points = banana::reference(&observations, 20, 5);
    let target = Banana::target(&observations).unwrap();
    check_truth(&banana::truth(&observations), &target, &points, [20.0, 10.0]);
}

#[test]
fn exact_samples_of_the_banana_have_the_moments_of_its_density() {
    let observations = banana::observations().unwrap();
    let truth = banana::truth(&observations);
    let samples = banana::reference(&observations, 40_000, 3);
    for coordinate in 0..2 {
        let moment = |power: i32| integral(-12.0, 12.0, |x| x.powi(power) * (truth.marginals[coordinate])(x));
        assert!((moment(0) - 1.0).abs() < 1e-9);
        for power in 1..=2 {
            let values = samples.column(coordinate).mapv(|x| x.powi(power));
            let mean = values.sum() / values.len() as f64;
            let error = ((moment(2 * power) - moment(power).powi(2)) / values.len() as f64).sqrt();
            assert!((mean - moment(power)).abs() < CLEAR * error, "coordinate {coordinate}, power {power}: {mean}");
        }
    }
}

#[test]
fn logistic_regression_is_best_approximated_with_the_fisher_metric_and_worst_with_the_monge_metric() {
    let size = Size { samples: 400, reference: 1_000, repeats: REPEATS };
    for units in Units::BOTH {
        let target = logistic::target(Data::Ripley, units).unwrap();
        let placement = logistic::placed(&target).unwrap();
        let options = logistic::reference_options(size, REFERENCE_SEED);
        let run = nuts(&target, Start::StandardNormal, &options, &|_| ()).unwrap();
        run.verdict().unwrap();
        let reference = evenly(run.draws.view(), size.reference);
        let of = |method| distances(&target, &placement, method, (size.samples, 0), reference.view());
        let (fisher, monge, straight) = (of(Method::RlaF), of(Method::RlaB), of(Method::Ela));
        assert!(straight.above(&fisher) > CLEAR, "{units:?}: ELA {straight:?}, RLA-F {fisher:?}");
        assert!(monge.above(&straight) > CLEAR, "{units:?}: RLA-B {monge:?}, ELA {straight:?}");
    }
}

#[test]
fn a_logistic_regression_whose_base_is_no_maximum_is_refused() {
    // Raw inputs are where a search could stop early.
    for data in Data::ALL {
        let target = logistic::target(data, Units::Raw).unwrap();
        let mut placement = logistic::placed(&target).unwrap();
        assert!(logistic::check_maximum(&target, &placement).is_ok(), "{data:?}");
        let intercept = placement.base.len() - 1;
        placement.base[intercept] += 1e-3;
        assert!(logistic::check_maximum(&target, &placement).is_err(), "{data:?}");
    }
}

#[test]
fn the_no_u_turn_sampler_agrees_with_exact_samples_of_the_banana() {
    let observations = banana::observations().unwrap();
    let target = Banana::target(&observations).unwrap();
    let settings = banana::nuts_settings(Size::QUICK, 0);
    let run = nuts(&target, Start::StandardNormal, &settings, &|_| ()).unwrap();
    run.verdict().unwrap();
    // Every eighth draw makes a set; draws so far apart are nearly independent.
    let samples = run.draws.nrows() / REPEATS as usize;
    let reference = banana::reference(&observations, 2 * samples, REFERENCE_SEED);
    let yardstick = exact_distances(|seed| banana::reference(&observations, samples, seed), reference.view());
    let measured = |repeat: usize| {
        let rows: Vec<usize> = (repeat..run.draws.nrows()).step_by(REPEATS as usize).collect();
        distance(run.draws.select(Axis(0), &rows).view(), reference.view()).unwrap()
    };
    let chains = Spread((0..REPEATS as usize).map(measured).collect());
    assert!(chains.above_independent(&yardstick).abs() < SAME, "{chains:?}, exact {yardstick:?}");
}
