//! Samples of the wrapped Gaussian: reproducible on any number of threads, honest about failures, right on average.

mod common;

use common::geometry::{Golden, dataset, rows};
use ndarray::{Array2, array};
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::geodesic::{
    Accuracy, GaussianLogarithm, LogarithmOptions, Outcome, exponentials, logarithms, sample, sample_monge_log,
};
use riemannian_laplace::internals::metric::{self, Metric};
use riemannian_laplace::internals::paper::problems::{Banana, Squiggle};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Family, FitOptions, GeodesicOptions, Network, SamplerOptions, Samples,
};

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn draw(posterior: &Laplace, metric: &dyn Metric, samples: usize) -> Samples {
    let options = SamplerOptions { seed: 11, ..SamplerOptions::first(samples) };
    sample(metric, posterior.parameters(), &**posterior.precision(), &options, &()).unwrap()
}

#[test]
fn samples_have_the_same_bits_on_any_number_of_threads() {
    for case in ["p1", "p2"] {
        let golden = Golden::load(case);
        let posterior = golden.fit();
        let target = posterior.target("fisher").unwrap();
        let metric = metric::fisher(&target);
        let one = on_threads(1, || draw(&posterior, &metric, 12));
        let two = on_threads(2, || draw(&posterior, &metric, 12));
        assert_eq!(one, two);
        // A longer run starts with the same samples.
        let longer = on_threads(2, || draw(&posterior, &metric, 15));
        assert_eq!(one.theta, longer.theta.slice_move_rows(12));
        assert!(one.failed() == 0 && one.uncertified() == 0 && one.max_drift() <= 1e-3);
    }
}

#[test]
fn a_sample_whose_products_are_shared_is_the_same_however_many_are_drawn_at_once() {
    // As in a service: many threads outside the pool ask for one sample each, and one of them for more than there are threads.
    let network = Network::random(Architecture::new(&[1, 40, 40, 1], Activation::Tanh).unwrap(), 3);
    let inputs = Array2::from_shape_fn((150, 1), |(n, _)| n as f64 / 75.0 - 1.0);
    let targets = inputs.mapv(|x| (3.0 * x).sin());
    let data = Dataset::new(inputs, targets).unwrap();
    let posterior = Laplace::fit(network, data, Family::gaussian(0.3).unwrap(), &FitOptions::default()).unwrap();
    let target = posterior.target("fisher").unwrap();
    let metric = metric::fisher(&target);
    let alone = on_threads(1, || draw(&posterior, &metric, 1));
    assert!(alone.failed() == 0 && alone.uncertified() == 0);
    std::thread::scope(|scope| {
        let many = scope.spawn(|| draw(&posterior, &metric, 12));
        let several: Vec<_> = (0..60).map(|_| scope.spawn(|| draw(&posterior, &metric, 1))).collect();
        for one in several {
            assert_eq!(one.join().unwrap(), alone);
        }
        assert_eq!(many.join().unwrap().theta.row(0), alone.theta.row(0));
    });
}

trait Rows {
    fn slice_move_rows(&self, rows: usize) -> Array2<f64>;
}

impl Rows for Array2<f64> {
    fn slice_move_rows(&self, rows: usize) -> Array2<f64> {
        self.select(ndarray::Axis(0), &(0..rows).collect::<Vec<_>>())
    }
}

#[test]
fn squiggle_samples_are_the_exact_ones() {
    // Theorem 3, sample by sample: the velocities of the sampler, through the closed form.
    let squiggle = Squiggle::MAIN;
    let target = squiggle.target().unwrap();
    let fisher = metric::fisher(&target);
    let base = [0.0, 0.0];
    let precision = fisher.at(&base).unwrap();
    let geodesic = GeodesicOptions::with_tolerances(1e-9, 1e-11);
    let options = SamplerOptions { range: 0..50, seed: 4, geodesic };
    let samples = sample(&fisher, &base, &precision, &options, &()).unwrap();
    let straight = sample(&metric::euclidean(2), &base, &precision, &options, &()).unwrap();
    for (sample, velocity) in samples.theta.rows().into_iter().zip(straight.theta.rows()) {
        let exact = squiggle.exponential(base, [velocity[0], velocity[1]]);
        assert!((sample[0] - exact[0]).abs() < 1e-6 && (sample[1] - exact[1]).abs() < 1e-6);
    }
}

#[test]
fn a_geodesic_that_fails_is_marked_and_costs_no_other() {
    let observations = dataset("banana.csv", "y");
    let target = Banana::target(observations.targets().as_slice().unwrap()).unwrap();
    let metric = metric::monge(&target);
    let base = [0.3, 0.9];
    // The second velocity leaves the range of f64 at once; the third needs more steps than allowed.
    let velocities = array![[0.1, 0.1], [1e300, -1e300], [3000.0, 4000.0], [0.05, -0.1]];
    let options = GeodesicOptions { max_steps: 200, ..GeodesicOptions::with_tolerances(1e-6, 1e-8) };
    let samples = exponentials(&metric, &base, velocities.view(), options, &()).unwrap();
    assert_eq!(samples.outcome[0], Outcome::Reached);
    assert_eq!(samples.outcome[1], Outcome::NotFinite);
    assert_eq!(samples.outcome[2], Outcome::StepLimit);
    assert_eq!(samples.outcome[3], Outcome::Reached);
    assert_eq!((samples.failed(), samples.reached().nrows(), samples.len()), (2, 2, 4));
    let alone = exponentials(&metric, &base, array![[0.1, 0.1]].view(), options, &()).unwrap();
    assert_eq!(samples.theta.row(0), alone.theta.row(0));
}

#[test]
fn bad_requests_are_errors() {
    let metric = metric::euclidean(2);
    let options = GeodesicOptions::default();
    let error = exponentials(&metric, &[0.0, 0.0], array![[1.0, 2.0, 3.0]].view(), options, &()).unwrap_err();
    assert_eq!(error.to_string(), "length of a velocity: expected 2, found 3");
    let error = exponentials(&metric, &[0.0, 0.0], array![[f64::NAN, 2.0]].view(), options, &()).unwrap_err();
    assert!(error.to_string().contains("not finite"));
    let error = logarithms(&metric, &[0.0, 0.0], array![[1.0]].view(), LogarithmOptions::default(), &()).unwrap_err();
    assert!(error.to_string().contains("expected 2"));
    for accuracy in [
        Accuracy::Tolerances { rtol: -1.0, atol: 1e-6, target: 1e-3 },
        Accuracy::Tolerances { rtol: f64::NAN, atol: 1e-6, target: 1e-3 },
        Accuracy::Drift { target: 0.0, attempts: 3 },
        Accuracy::Drift { target: 1e-3, attempts: 0 },
    ] {
        assert!(GeodesicOptions { accuracy, ..options }.validate().is_err(), "{accuracy:?}");
    }
}

#[test]
fn the_log_map_reference_is_met() {
    let golden = Golden::load("p3");
    let posterior = golden.fit();
    let target = posterior.target("fisher").unwrap();
    let metric = metric::fisher(&target);
    let (points, expected) = (golden.tensor("log_fisher_endpoint"), golden.tensor("log_fisher_v"));
    let width = posterior.parameters().len();
    let matrix = |values: &[f64]| Array2::from_shape_vec((values.len() / width, width), values.to_vec()).unwrap();
    let base = posterior.parameters();
    let found = logarithms(&metric, base, matrix(&points.values).view(), LogarithmOptions::default(), &()).unwrap();
    for (solution, velocity) in found.iter().zip(matrix(&expected.values).rows()) {
        assert!(solution.converged);
        let error = common::geometry::relative_error(&solution.velocity, velocity);
        assert!(error < 1e-6, "{error:e}");
    }
}

#[test]
fn relu_networks_end_within_bounds_and_the_drift_tells_the_truth() {
    use riemannian_laplace::Activation;
    use riemannian_laplace::internals::likelihood::Gaussian;
    let noise = std::sync::Arc::new(Gaussian::new(0.1).unwrap());
    let (target, theta) = common::geometry::random_target(&[1, 8, 1], Activation::Relu, noise, 30, 3);
    let metric = metric::fisher(&target);
    let velocities = common::normal_matrix(4, theta.len(), 9);
    let options = GeodesicOptions { max_steps: 300, ..Default::default() };
    let samples = exponentials(&metric, &theta, velocities.view(), options, &()).unwrap();
    // Every crossing of a kink changes the metric by a jump: the speed is not conserved, and no tolerance can change
    // that.
    for index in 0..samples.len() {
        assert!(!samples.certified[index] && samples.drift[index] > 1e-3, "{:?}", samples.drift);
        assert!(samples.evaluations[index] <= 7 * (300 * 6 + 2));
    }
}

#[test]
fn monge_with_logarithm_is_reproducible_and_counts_what_fails() {
    let golden = Golden::load("p3");
    let posterior = golden.fit();
    let target = posterior.target("monge").unwrap();
    let base = posterior.parameters();
    let monge = metric::monge(&target);
    let logarithm = GaussianLogarithm::new(&**posterior.precision()).unwrap();
    let options = SamplerOptions { seed: 2, ..SamplerOptions::first(6) };
    let run = || sample_monge_log(&monge, &logarithm, base, &**posterior.precision(), &options, &()).unwrap();
    let (one, two) = (on_threads(1, run), on_threads(2, run));
    assert_eq!(one, two);
    assert_eq!(one.failed(), 0);
    // The same draws through the plain Monge metric end closer to the base: the bias that the logarithm removes.
    let plain = sample(&monge, base, &**posterior.precision(), &options, &()).unwrap();
    let distance = |theta: &Array2<f64>| -> f64 {
        theta.rows().into_iter().map(|row| row.iter().zip(base).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()).sum()
    };
    assert!(distance(&plain.theta) < 0.9 * distance(&one.theta));
}

#[test]
fn references_give_velocities_of_the_posterior() {
    // The golden velocities are draws from N(0, G⁻¹): vᵀGv has mean D.
    let golden = Golden::load("p1");
    let posterior = golden.fit();
    let target = posterior.target("fisher").unwrap();
    let metric = metric::fisher(&target);
    let energies = golden.expected["exp"]["fisher"]["energy_start"].as_array().unwrap();
    let mut evaluator = metric.evaluator();
    for (velocity, energy) in rows(&golden.velocities.tensors["v"]).rows().into_iter().zip(energies) {
        let speed = evaluator.squared_speed(posterior.parameters(), &velocity.to_vec());
        assert!((speed / energy.as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
}
