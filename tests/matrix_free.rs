//! The metric without matrices and the metric from a part of the data, against the exact one.

mod common;

use std::sync::Arc;

use common::geometry::{Golden, likelihoods, random_target, relative_error};
use common::{normal_matrix, normal_vector};
use faer::Mat;
use riemannian_laplace::Error;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::geodesic::{ExponentialMap, MetricBatch, MetricOptions, MetricSolver};
use riemannian_laplace::internals::laplace::Precision;
use riemannian_laplace::internals::likelihood::Gaussian;
use riemannian_laplace::internals::linalg::{ConjugateGradients, LowRankInverse, StoppingRule};
use riemannian_laplace::internals::metric::{self, Batch, Metric, MetricEvaluator, Pullback, Subsampled};
use riemannian_laplace::internals::metric::{MatrixFreeOptions, SolverReport};
use riemannian_laplace::internals::network::NetworkMap;
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Activation, Architecture};
use riemannian_laplace::{GeodesicOptions, MetricName, SamplerOptions, Samples};

fn acceleration(metric: &dyn Metric, theta: &[f64], velocity: &[f64]) -> Vec<f64> {
    let mut acceleration = vec![0.0; theta.len()];
    metric.evaluator().acceleration(theta, velocity, &mut acceleration);
    acceleration
}

fn tight() -> MatrixFreeOptions {
    MatrixFreeOptions { tolerance: 1e-11, ..Default::default() }
}

/// The same target with one prior precision per layer.
fn per_layer(target: &Target) -> PriorPrecision {
    let groups = target.prior().precision().groups();
    let values = (0..groups.len()).map(|group| 0.3 * (1.0 + 2.0 * group as f64)).collect();
    PriorPrecision::per_group(values, groups).unwrap()
}

#[test]
fn accelerations_are_those_of_the_exact_solver() {
    for (index, (likelihood, outputs)) in likelihoods().into_iter().enumerate() {
        // D = 23 to 31 against N·P = 4 to 180.
        for points in [4, 60] {
            let seed = 20 * index as u64 + points as u64;
            let name = format!("{} P = {outputs} N = {points}", likelihood.name());
            let (target, base) = random_target(&[2, 3, 3, outputs], Activation::Tanh, likelihood.clone(), points, seed);
            let velocity = normal_vector(base.len(), seed + 3);
            // Also away from the point at which the preconditioner was computed.
            let moved: Vec<f64> = base.iter().zip(&velocity).map(|(base, v)| base + 0.3 * v).collect();
            for prior in [target.prior().precision().clone(), per_layer(&target)] {
                let exact = Pullback::new(target.map().clone(), target.likelihood().clone(), prior.clone()).unwrap();
                let free = exact.clone().with_matrix_free(&base, tight()).unwrap();
                assert!(exact.structure().is_some() && free.structure().is_none());
                for theta in [&base, &moved] {
                    let want = acceleration(&exact, theta, &velocity);
                    let error = relative_error(&acceleration(&free, theta, &velocity), &want);
                    // ‖δa‖_G ≤ ‖r‖; the entries of a may be smaller than ‖z‖ by the root of the condition of G.
                    assert!(error < 1e-8, "{name}: {error:e}");
                }
                let report = free.solver_report().unwrap();
                assert!(report.worst_residual <= 1e-11 && report.unconverged == 0 && report.solves == 2, "{report:?}");
            }
            let exact = metric::empirical_fisher(&target);
            let free = exact.clone().with_matrix_free(&base, tight()).unwrap();
            let error =
                relative_error(&acceleration(&free, &moved, &velocity), &acceleration(&exact, &moved, &velocity));
            assert!(error < 1e-8, "empirical Fisher, {name}: {error:e}");
        }
    }
}

/// A regression in which the data determine some thirty directions, with a velocity of its posterior.
fn regression() -> (Target, Vec<f64>, Vec<f64>) {
    let noise = Arc::new(Gaussian::new(0.3).unwrap());
    let (target, theta) = random_target(&[2, 20, 20, 1], Activation::Tanh, noise, 200, 3);
    let theta: Vec<f64> = theta.iter().map(|value| 0.5 * value).collect();
    let mut velocity = vec![0.0; theta.len()];
    let precision = metric::fisher(&target).at(&theta).unwrap();
    precision.sample(&mut stream(1, Purpose::Velocity, 2), &mut velocity);
    (target, theta, velocity)
}

/// Dormand–Prince to a drift target: its steps are not disturbed by residuals as small as here, so that ends differ by
/// the solver alone. (Adams uses differences of accelerations, and takes other steps.)
fn integrator() -> GeodesicOptions {
    GeodesicOptions { integrator: Integrator::Dopri5, ..Default::default() }
}

/// One geodesic with these settings: its end, and what the solver did.
fn geodesic(options: MatrixFreeOptions) -> (Vec<f64>, usize, SolverReport) {
    let (target, theta, velocity) = regression();
    let metric = metric::fisher(&target).with_matrix_free(&theta, options).unwrap();
    let end = ExponentialMap::new(&metric, integrator()).unwrap().map(&theta, &velocity).unwrap();
    assert!(end.certified && end.drift <= 1e-3);
    (end.theta, end.evaluations, metric.solver_report().unwrap())
}

#[test]
fn whole_geodesics_agree() {
    let (target, theta, velocity) = regression();
    let exact = metric::fisher(&target);
    let want = ExponentialMap::new(&exact, integrator()).unwrap().map(&theta, &velocity).unwrap();
    for tolerance in [1e-5, 1e-6, 1e-9] {
        let (end, evaluations, report) = geodesic(MatrixFreeOptions { tolerance, ..Default::default() });
        let error = relative_error(&end, &want.theta);
        println!(
            "tolerance {tolerance:e}: error {error:.1e}, {evaluations} for {} evaluations, {report:?}",
            want.evaluations
        );
        assert!(error < 10.0 * tolerance, "{error:e} at {tolerance:e}");
        assert!(report.worst_residual <= tolerance && report.unconverged == 0);
        // The residual does not disturb the step control.
        assert!(evaluations.abs_diff(want.evaluations) <= want.evaluations / 10);
    }
}

#[test]
fn the_preconditioner_its_renewal_and_the_warm_start_save_products() {
    let (target, theta, velocity) = regression();
    let at_base = |max_rank: usize| {
        let options = MatrixFreeOptions { max_rank, ..Default::default() };
        let metric = metric::fisher(&target).with_matrix_free(&theta, options).unwrap();
        let mut evaluator = metric.pullback_evaluator();
        evaluator.acceleration(&theta, &velocity, &mut vec![0.0; theta.len()]);
        evaluator.solver_report().unwrap()
    };
    let (without, with) = (at_base(0), at_base(512));
    let effective = metric::fisher(&target).at(&theta).unwrap().effective_parameters();
    println!(
        "at the base: {} products without, {} with rank {}; {effective:.1} effective parameters",
        without.products, with.products, with.rank
    );
    assert!(without.rank == 0 && with.rank > 0);
    assert!(5 * with.products < without.products);
    // The rank follows what the data determine, not the 200 rows.
    assert!((with.rank as f64) < 2.0 * effective && (with.rank as f64) > 0.5 * effective);
    // A rank that is too small helps less, but helps.
    let few = at_base(10);
    assert!(few.rank == 10 && few.products < without.products && few.products > with.products);

    let plain = MatrixFreeOptions { max_rank: 0, warm_start: false, refresh: false, ..Default::default() };
    let settings = [
        ("nothing", plain),
        ("warm start alone", MatrixFreeOptions { warm_start: true, ..plain }),
        ("preconditioner of the base point", MatrixFreeOptions { max_rank: 512, ..plain }),
        ("the same, warm start", MatrixFreeOptions { max_rank: 512, warm_start: true, ..plain }),
        ("preconditioner renewed, warm start", MatrixFreeOptions::default()),
    ];
    let means: Vec<f64> = settings
        .iter()
        .map(|(name, options)| {
            let (_, evaluations, report) = geodesic(*options);
            println!("{name}: {:.1} products an evaluation, {evaluations} evaluations", report.mean_products());
            report.mean_products()
        })
        .collect();
    let [nothing, warm, fixed, fixed_warm, renewed] = means[..] else { panic!("five settings") };
    assert!(warm < nothing && fixed < nothing && fixed_warm < fixed);
    assert!(4.0 * renewed < fixed_warm);
}

#[test]
fn a_path_does_not_depend_on_the_one_before() {
    let (target, theta, velocity) = regression();
    let metric = metric::fisher(&target).with_matrix_free(&theta, MatrixFreeOptions::default()).unwrap();
    let options = GeodesicOptions::default();
    let mut reused = ExponentialMap::new(&metric, options).unwrap();
    let other: Vec<f64> = velocity.iter().rev().map(|v| 0.5 * v).collect();
    reused.map(&theta, &other).unwrap();
    let again = reused.map(&theta, &velocity).unwrap();
    let alone = ExponentialMap::new(&metric, options).unwrap().map(&theta, &velocity).unwrap();
    assert_eq!(again, alone);
    // The tolerance follows the integrator's.
    let mut evaluator = metric.evaluator();
    let mut products = |rtol: f64| {
        let before = metric.solver_report().unwrap().products;
        evaluator.begin_path(rtol);
        let moved: Vec<f64> = theta.iter().zip(&velocity).map(|(base, v)| base + 0.3 * v).collect();
        evaluator.acceleration(&moved, &velocity, &mut vec![0.0; theta.len()]);
        metric.solver_report().unwrap().products - before
    };
    let (loose, tight) = (products(1e-3), products(1e-9));
    assert!(tight > loose, "{tight} and {loose} products");
    assert_eq!(products(1e-3), loose);
}

#[test]
fn conjugate_gradients_report_what_they_could_not_do() {
    let size = 50;
    let times = |u: &[f64], product: &mut [f64]| {
        for (i, (value, u)) in product.iter_mut().zip(u).enumerate() {
            *value = (1.0 + 1e3 * i as f64) * u;
        }
    };
    let (mut solver, rhs) = (ConjugateGradients::new(size), vec![1.0; size]);
    let mut x = vec![0.0; size];
    let rule = StoppingRule { tolerance: 1e-12, max_products: 5 };
    let end = solver.solve(&rhs, &mut x, rule, times, |u, solved| solved.copy_from_slice(u));
    assert!(!end.converged && end.products == 5 && end.residual > 1e-12);
    // A guess far off is not used; a solution is recognised with one product.
    let rule = StoppingRule { max_products: 200, ..rule };
    let mut far = vec![1e9; size];
    let end = solver.solve(&rhs, &mut far, rule, times, |u, solved| solved.copy_from_slice(u));
    assert!(end.converged && end.products <= 60);
    let end = solver.solve(&rhs, &mut far, rule, times, |u, solved| solved.copy_from_slice(u));
    assert!(end.converged && end.products <= 2);
    let end = solver.solve(&vec![f64::NAN; size], &mut far, rule, times, |u, solved| solved.copy_from_slice(u));
    assert!(!end.converged && far.iter().all(|value| value.is_nan()));
    // The next system is then solved as if nothing had happened.
    let end = solver.solve(&rhs, &mut far, rule, times, |u, solved| solved.copy_from_slice(u));
    assert!(end.converged);
    // A K of rank 3, found exactly; and one that is nowhere finite.
    let basis = normal_matrix(3, size, 4);
    let kernel = |u: &[f64], product: &mut [f64]| {
        product.fill(0.0);
        for row in basis.rows() {
            let along: f64 = row.iter().zip(u).map(|(a, b)| a * b).sum();
            product.iter_mut().zip(row).for_each(|(value, entry)| *value += along * entry);
        }
    };
    let inverse = LowRankInverse::of_kernel(size, size, 1, kernel).unwrap();
    assert_eq!(inverse.rank(), 3);
    let (mut image, mut back, u) = (vec![0.0; size], vec![0.0; size], normal_vector(size, 5));
    kernel(&u, &mut image);
    image.iter_mut().zip(&u).for_each(|(value, u)| *value += u);
    inverse.apply(&image, &mut [0.0; 3], &mut back);
    assert!(relative_error(&back, &u) < 1e-9);
    assert!(LowRankInverse::of_kernel(size, 4, 1, |_, product| product.fill(f64::NAN)).is_err());
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

const FISHER: MetricName = MetricName::Fisher;

fn draw(posterior: &Laplace, metric: MetricName, how: MetricOptions) -> riemannian_laplace::Result<Samples> {
    let options = SamplerOptions { seed: 11, ..SamplerOptions::first(6) };
    posterior.sample_riemannian_with(metric, &how, &options, &())
}

fn matrix_free() -> MetricSolver {
    MetricSolver::MatrixFree(MatrixFreeOptions::default())
}

fn part(size: usize, redraw: bool) -> MetricOptions {
    MetricOptions { batch: Some(MetricBatch { size, redraw }), ..Default::default() }
}

#[test]
fn samples_agree_and_have_the_same_bits_on_any_number_of_threads() {
    for case in ["p1", "p2"] {
        let posterior = Golden::load(case).fit();
        let exact = draw(&posterior, FISHER, MetricOptions::default()).unwrap();
        assert!(exact.solver.is_none() && exact.batch.is_none());
        for batch in [None, Some(MetricBatch { size: 20, redraw: false }), Some(MetricBatch { size: 20, redraw: true })]
        {
            let how = MetricOptions { solver: matrix_free(), batch, ..Default::default() };
            let one = on_threads(1, || draw(&posterior, FISHER, how).unwrap());
            let two = on_threads(2, || draw(&posterior, FISHER, how).unwrap());
            assert_eq!(one, two);
            assert!(one.failed() == 0 && one.uncertified() == 0);
            let report = one.solver.unwrap();
            assert!(report.worst_residual <= 1e-6 && report.unconverged == 0 && report.rank > 0, "{report:?}");
            assert!(report.solves as usize >= one.evaluations.iter().sum::<usize>());
            let with_matrix = match batch {
                None => exact.clone(),
                Some(_) => draw(&posterior, FISHER, MetricOptions { batch, ..Default::default() }).unwrap(),
            };
            let error = relative_error(&one.theta, &with_matrix.theta);
            println!(
                "{case} {batch:?}: error {error:.1e}, {:.1} products, rank {}",
                report.mean_products(),
                report.rank
            );
            assert!(error < 1e-4, "{error:e}");
            assert_eq!(one.batch, with_matrix.batch);
        }
    }
}

#[test]
fn the_metric_of_a_batch_of_all_points_is_the_exact_one() {
    let posterior = Golden::load("p1").fit();
    for metric in [FISHER, MetricName::EmpiricalFisher] {
        let exact = draw(&posterior, metric, MetricOptions::default()).unwrap();
        for redraw in [false, true] {
            let all = draw(&posterior, metric, part(posterior.n_data(), redraw)).unwrap();
            assert_eq!(all.theta, exact.theta);
            assert_eq!(all.batch.as_ref().unwrap().mean_residual(), 0.0);
        }
    }
    // Fewer points give a metric further away, and the report says so.
    let residual = |size: usize| draw(&posterior, FISHER, part(size, true)).unwrap().batch.unwrap().mean_residual();
    let (few, many) = (residual(5), residual(30));
    println!("mean relative difference of vᵀGv: {few:.3} with 5 points, {many:.3} with 30 of {}", posterior.n_data());
    assert!(many > 0.0 && many < few && few < 1.0);
    // One batch for all samples, or one per sample: another metric.
    let [shared, own] = [false, true].map(|redraw| draw(&posterior, FISHER, part(20, redraw)).unwrap());
    assert_eq!(shared.theta.row(0), own.theta.row(0));
    assert_ne!(shared.theta.row(1), own.theta.row(1));
    assert!(shared.uncertified() == 0 && own.uncertified() == 0);
}

#[test]
fn the_mean_over_batches_approaches_the_metric() {
    let (likelihood, outputs) = likelihoods().swap_remove(4);
    let (target, theta) = random_target(&[2, 3, outputs], Activation::Tanh, likelihood, 30, 8);
    let whole = metric::fisher(&target).at(&theta).unwrap().matrix().to_owned();
    let empirical = metric::empirical_fisher(&target).at(&theta).unwrap().matrix().to_owned();
    let distance = |count: usize| {
        let (mut fisher, mut scores) = (Mat::zeros(theta.len(), theta.len()), Mat::zeros(theta.len(), theta.len()));
        for index in 0..count {
            let batch = Batch::draw(30, 6, &mut stream(5, Purpose::Velocity, index as u64)).unwrap();
            assert_eq!((batch.points().len(), batch.scale()), (6, 5.0));
            let part = Subsampled::new(&target, &batch).unwrap();
            fisher += part.fisher().at(&theta).unwrap().matrix();
            scores += part.empirical_fisher().at(&theta).unwrap().matrix();
        }
        let share = faer::Scale(1.0 / count as f64);
        let off = |mean: Mat<f64>, exact: &Mat<f64>| (mean * share - exact).norm_l2() / exact.norm_l2();
        (off(fisher, &whole), off(scores, &empirical))
    };
    let (few, many) = (distance(10), distance(1000));
    println!("the mean of 10 batches is off by {few:?}, that of 1000 by {many:?}");
    // Ten times as close, up to chance.
    assert!(many.0 < 0.2 * few.0 && many.1 < 0.2 * few.1);
    assert!(many.0 < 0.03 && many.1 < 0.05);
}

#[test]
fn bad_requests_are_errors_that_say_what_to_do() {
    let posterior = Golden::load("p1").fit();
    let n = posterior.n_data();
    for size in [0, n + 1] {
        for redraw in [false, true] {
            let error = draw(&posterior, FISHER, part(size, redraw)).unwrap_err();
            assert!(error.is_input());
            let message = error.to_string();
            assert!(
                message.contains(&format!("{size} of {n} data points")) && message.contains("at least one"),
                "{message}"
            );
        }
    }
    for metric in [MetricName::MongeLog, MetricName::Monge] {
        let error = draw(&posterior, metric, part(5, false)).unwrap_err().to_string();
        assert!(error.contains("monge") && error.contains("fisher"), "{error}");
        let how = MetricOptions { solver: matrix_free(), ..Default::default() };
        let error = draw(&posterior, metric, how).unwrap_err().to_string();
        assert!(error.contains("matrix-free") && error.contains("leave it out"), "{error}");
    }
    let architecture = Architecture::new(&[1, 2, 1], Activation::Tanh).unwrap();
    let theta = normal_vector(architecture.n_params(), 1);
    let map = Arc::new(NetworkMap::new(architecture, normal_matrix(5, 1, 2).view()).unwrap());
    let flat = Prior::gaussian(PriorPrecision::improper(theta.len()));
    let observations = normal_matrix(5, 1, 3);
    let target = Target::new(map, Arc::new(Gaussian::unit()), observations.view(), flat).unwrap();
    let error = metric::fisher(&target).with_matrix_free(&theta, tight()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)) && error.is_input());
    assert!(error.to_string().contains("positive prior precision") && error.to_string().contains("exact solver"));
    assert!(target.at_points(&[0, 5]).is_err());

    let (target, theta) = random_target(&[1, 2, 1], Activation::Tanh, Arc::new(Gaussian::unit()), 5, 1);
    for tolerance in [0.0, -1.0, 1.0, f64::NAN] {
        let options = MatrixFreeOptions { tolerance, ..Default::default() };
        assert!(metric::fisher(&target).with_matrix_free(&theta, options).is_err(), "{tolerance}");
    }
    let options = MatrixFreeOptions { max_products: 0, ..Default::default() };
    assert!(metric::fisher(&target).with_matrix_free(&theta, options).is_err());
    assert!(metric::fisher(&target).with_matrix_free(&theta[1..], tight()).is_err());
    // Where the numbers end, so does the path, and the solver's record is not blamed for it.
    let metric = metric::fisher(&target).with_matrix_free(&theta, tight()).unwrap();
    let beyond = acceleration(&metric, &theta, &vec![1e200; theta.len()]);
    assert!(beyond.iter().any(|value| !value.is_finite()));
    assert_eq!(metric.solver_report().unwrap().unconverged, 0);
}
