//! Properties of the mathematics over random shapes, activations, likelihoods, priors and weights.
//!
//! The cases are random but always the same: the seed is fixed, so that a failure is found again.

mod common;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use riemannian_laplace::internals::geodesic::{Accuracy, ExponentialMap};
use riemannian_laplace::internals::map::{Evaluator, Jet};
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::internals::metric::{IterativeOptions, MatrixFreeOptions};
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{
    Activation, Family, FitOptions, GeodesicOptions, Laplace, MetricName, Model, Network, SamplerOptions, Samples,
    Structure,
};

use common::{architecture, forward, normal_matrix, normal_vector, random_data, random_network};

/// Activations with three derivatives everywhere: differences of the others fail at their kinks.
const SMOOTH: [Activation; 8] = [
    Activation::Identity,
    Activation::Tanh,
    Activation::Sigmoid,
    Activation::Softplus,
    Activation::Silu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Sin,
];

/// A network with data, drawn at random.
#[derive(Debug, Clone)]
struct Case {
    network: Network,
    family: Family,
    points: usize,
    prior: Vec<f64>,
    seed: u64,
}

impl Case {
    fn data(&self) -> riemannian_laplace::Dataset {
        random_data(&self.network, &self.family, self.points, self.seed)
    }

    fn fit(&self, structure: Structure) -> Result<Laplace, TestCaseError> {
        let options = FitOptions { prior_precision: self.prior.clone().into(), structure, ..Default::default() };
        ok(Laplace::fit(self.network.clone(), self.data(), self.family.clone(), &options))
    }

    /// The metric's target.
    fn target(&self) -> Result<Target, TestCaseError> {
        let data = self.data();
        let groups = self.network.architecture().layer_params();
        let prior = if let [prior] = self.prior[..] {
            PriorPrecision::scalar(prior, &groups)
        } else {
            PriorPrecision::per_group(self.prior.clone(), &groups)
        };
        let map = ok(self.network.bind(data.inputs().view()))?;
        let likelihood = self.family.shared();
        ok(Target::new(map, likelihood, data.targets().view(), Prior::gaussian(ok(prior)?)))
    }

    fn theta(&self) -> &[f64] {
        self.network.parameters()
    }

    fn velocity(&self) -> Vec<f64> {
        normal_vector(self.theta().len(), self.seed + 5)
    }
}

fn ok<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, TestCaseError> {
    result.map_err(|error| TestCaseError::fail(error.to_string()))
}

fn families(outputs: usize) -> Vec<Family> {
    let mut families = vec![Family::gaussian(0.4).expect("a level"), "bernoulli".parse().expect("a name")];
    families.push("poisson".parse().expect("a name"));
    if outputs > 1 {
        families.push("categorical".parse().expect("a name"));
        families.push(Family::gaussian_per_output(&vec![0.7; outputs]).expect("levels"));
    }
    if outputs.is_multiple_of(2) {
        families.push("heteroscedastic".parse().expect("a name"));
    }
    families
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (1_usize..4, prop::collection::vec(1_usize..5, 0..3), 1_usize..4);
    let choices = (0_usize..SMOOTH.len(), any::<u8>(), 0_usize..6, 1_usize..9, any::<bool>(), 0_u64..1_000_000);
    (shape, choices).prop_map(|((inputs, hidden, outputs), (activation, biases, family, points, per_layer, seed))| {
        let sizes: Vec<usize> = [inputs].into_iter().chain(hidden).chain([outputs]).collect();
        let layers = sizes.len() - 1;
        let biases: Vec<bool> = (0..layers).map(|layer| biases >> layer & 1 == 1).collect();
        let network = random_network(architecture(&sizes, &biases, SMOOTH[activation]), seed);
        let families = families(outputs);
        let spread = |layer: usize| 0.3 + 0.4 * ((seed as usize + layer) % 5) as f64;
        let prior = if per_layer { (0..layers).map(spread).collect() } else { vec![spread(0)] };
        Case { family: families[family % families.len()].clone(), network, points, prior, seed }
    })
}

/// Runs a property on as many cases, always the same.
fn check(count: u32, property: impl Fn(Case) -> Result<(), TestCaseError>) {
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    if let Err(error) = TestRunner::new_with_rng(config, random).run(&cases(), property) {
        panic!("{error}");
    }
}

/// max |a − b| ≤ tolerance · max(|a|, |b|, floor).
fn close(found: &[f64], expected: &[f64], tolerance: f64, floor: f64, what: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    let size = found.iter().chain(expected).fold(floor, |most, value| value.abs().max(most));
    for (a, b) in found.iter().zip(expected) {
        prop_assert!((a - b).abs() <= tolerance * size, "{}: {} and {} (of {})", what, a, b, size);
    }
    Ok(())
}

#[test]
fn jets_are_the_derivatives_of_the_outputs_along_a_velocity() {
    check(200, |case| {
        let (data, velocity) = (case.data(), case.velocity());
        let map = ok(case.network.bind(data.inputs().view()))?;
        let mut jet = Jet::new(map.n_points(), map.n_outputs());
        Evaluator::new(&map, 1).jet(case.theta(), &velocity, &mut jet);
        let at = |t: f64| -> Vec<f64> {
            let theta: Vec<f64> = case.theta().iter().zip(&velocity).map(|(theta, v)| theta + t * v).collect();
            let outputs = forward(case.network.architecture(), &theta, data.inputs());
            outputs.columns().into_iter().flat_map(|column| column.to_vec()).collect()
        };
        // Five-point formulas: truncation h⁴ times sixth derivatives (1e-8), rounding ε/h² (1e-11).
        let h = 5e-3;
        let [m2, m1, zero, p1, p2] = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|k| at(k * h));
        let each = |of: &dyn Fn(usize) -> f64| (0..zero.len()).map(of).collect::<Vec<f64>>();
        let first = each(&|i| (m2[i] - 8.0 * m1[i] + 8.0 * p1[i] - p2[i]) / (12.0 * h));
        let second = each(&|i| (-m2[i] + 16.0 * m1[i] - 30.0 * zero[i] + 16.0 * p1[i] - p2[i]) / (12.0 * h * h));
        close(&jet.outputs, &zero, 1e-13, 1.0, "outputs")?;
        close(&jet.first, &first, 1e-5, 1.0, "first derivatives")?;
        close(&jet.second, &second, 1e-4, 1.0, "second derivatives")
    });
}

/// The acceleration by one solver of the metric.
fn acceleration(metric: &Pullback, theta: &[f64], velocity: &[f64]) -> Vec<f64> {
    let mut acceleration = vec![f64::NAN; theta.len()];
    metric.evaluator().acceleration(theta, velocity, &mut acceleration);
    acceleration
}

#[test]
fn all_solvers_find_the_same_acceleration() {
    check(120, |case| {
        let (target, velocity) = (case.target()?, case.velocity());
        let fisher = || metric::fisher(&target);
        let exact = acceleration(&fisher().with_structure(Structure::WeightSpace), case.theta(), &velocity);
        let size = exact.iter().fold(0.0_f64, |most, value| value.abs().max(most)).max(1e-3);
        let function = acceleration(&fisher().with_structure(Structure::FunctionSpace), case.theta(), &velocity);
        close(&function, &exact, 1e-9, size, "function space")?;
        let tight = MatrixFreeOptions { tolerance: 1e-12, ..Default::default() };
        let free = ok(fisher().with_matrix_free(case.theta(), tight))?;
        // The residual is relative to the force, and the system's condition is at most a few thousand here.
        close(&acceleration(&free, case.theta(), &velocity), &exact, 1e-6, size, "matrix-free")?;
        let iterative = ok(fisher().with_iteration(case.theta(), IterativeOptions::default()))?;
        let mut evaluator = iterative.evaluator();
        evaluator.begin_path(1e-10);
        let mut found = vec![f64::NAN; exact.len()];
        evaluator.acceleration(case.theta(), &velocity, &mut found);
        close(&found, &exact, 1e-3, size, "iterative")
    });
}

#[test]
fn both_exact_posteriors_agree() {
    check(60, |case| {
        let (weight, function) = (case.fit(Structure::WeightSpace)?, case.fit(Structure::FunctionSpace)?);
        let figures = |laplace: &Laplace| {
            [laplace.log_det_ratio(), laplace.effective_parameters(), laplace.log_marginal_likelihood()]
        };
        close(&figures(&weight), &figures(&function), 1e-9, 1.0, "evidence")?;
        let inputs = normal_matrix(3, case.network.n_inputs(), case.seed + 9);
        let (a, b) = (ok(weight.linearized(&inputs))?, ok(function.linearized(&inputs))?);
        let list = |values: &ndarray::Array3<f64>| values.iter().copied().collect::<Vec<f64>>();
        close(&list(&a.covariance), &list(&b.covariance), 1e-8, 1e-6, "covariance")
    });
}

#[test]
fn the_metric_is_symmetric_and_positive_definite() {
    check(120, |case| {
        use riemannian_laplace::internals::laplace::Precision;
        let precision = ok(metric::fisher(&case.target()?).at(case.theta()))?;
        let size = case.theta().len();
        let (u, v) = (normal_vector(size, case.seed + 21), case.velocity());
        let (mut gu, mut gv) = (vec![0.0; size], vec![0.0; size]);
        precision.times(&u, &mut gu);
        precision.times(&v, &mut gv);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        close(&[dot(&u, &gv)], &[dot(&v, &gu)], 1e-11, dot(&v, &gv), "symmetry")?;
        // At least the prior.
        let least = case.prior.iter().copied().fold(f64::INFINITY, f64::min);
        prop_assert!(dot(&v, &gv) >= least * dot(&v, &v) * (1.0 - 1e-12));
        let mut back = vec![0.0; size];
        precision.solve(&gv, &mut back);
        close(&back, &v, 1e-8, 1.0, "the inverse")
    });
}

#[test]
fn accelerations_are_quadratic_in_the_velocity() {
    check(120, |case| {
        let (target, velocity) = (case.target()?, case.velocity());
        for metric in [metric::fisher(&target), metric::monge(&target), metric::empirical_fisher(&target)] {
            let once = acceleration(&metric, case.theta(), &velocity);
            for c in [-1.0, 2.0, 0.37] {
                let scaled: Vec<f64> = velocity.iter().map(|v| c * v).collect();
                let found = acceleration(&metric, case.theta(), &scaled);
                let expected: Vec<f64> = once.iter().map(|a| c * c * a).collect();
                close(&found, &expected, 1e-10, 1e-6, "a(cv) = c²a(v)")?;
            }
        }
        Ok(())
    });
}

/// The network with the units of its first hidden layer in reverse order.
fn permuted(network: &Network) -> Option<Network> {
    let architecture = network.architecture();
    let [first, second, ..] = &architecture.linear_layers()[..] else { return None };
    let (units, theta) = (first.outputs, network.parameters());
    let mut moved = theta.to_vec();
    let (start, next) = (first.range().start, second.range().start);
    for unit in 0..units {
        let other = units - 1 - unit;
        for i in 0..first.inputs {
            moved[start + unit * first.inputs + i] = theta[start + other * first.inputs + i];
        }
        if first.bias {
            moved[start + first.n_weights() + unit] = theta[start + first.n_weights() + other];
        }
        for o in 0..second.outputs {
            moved[next + o * units + unit] = theta[next + o * units + other];
        }
    }
    Network::new(architecture.clone(), moved).ok()
}

#[test]
fn the_order_of_units_changes_neither_predictions_nor_evidence() {
    check(100, |case| {
        let Some(network) = permuted(&case.network) else { return Ok(()) };
        let data = case.data();
        let options = FitOptions { prior_precision: case.prior.clone().into(), ..Default::default() };
        let fit = |network: Network| ok(Laplace::fit(network, data.clone(), case.family.clone(), &options));
        let (one, other) = (fit(case.network.clone())?, fit(network)?);
        let figures = |laplace: &Laplace| [laplace.log_likelihood(), laplace.log_marginal_likelihood()];
        close(&figures(&one), &figures(&other), 1e-10, 1.0, "evidence")?;
        let inputs = normal_matrix(3, case.network.n_inputs(), case.seed + 9);
        let (a, b) = (ok(one.linearized(&inputs))?, ok(other.linearized(&inputs))?);
        close(
            &a.mean.iter().copied().collect::<Vec<_>>(),
            &b.mean.iter().copied().collect::<Vec<_>>(),
            1e-12,
            1.0,
            "mean",
        )?;
        let list = |values: &ndarray::Array3<f64>| values.iter().copied().collect::<Vec<f64>>();
        close(&list(&a.covariance), &list(&b.covariance), 1e-9, 1e-6, "covariance")
    });
}

#[test]
fn geodesics_stay_with_no_velocity_and_rescale_with_time() {
    check(25, |case| {
        let target = case.target()?;
        let metric = metric::fisher(&target);
        let options = GeodesicOptions {
            accuracy: Accuracy::Tolerances { rtol: 1e-9, atol: 1e-11, target: 1e-3 },
            max_steps: 20_000,
            ..GeodesicOptions::with_tolerances(1e-9, 1e-11)
        };
        let mut exponential = ok(ExponentialMap::new(&metric, options))?;
        let still = ok(exponential.map(case.theta(), &vec![0.0; case.theta().len()]))?;
        close(&still.theta, case.theta(), 0.0, 1.0, "Exp(0)")?;
        prop_assert!(still.certified);
        // θ(½; v) = Exp(½v): the path at half its time is the geodesic with half its velocity.
        let velocity: Vec<f64> = case.velocity().iter().map(|v| 0.3 * v).collect();
        let half: Vec<f64> = velocity.iter().map(|v| 0.5 * v).collect();
        let path = ok(exponential.path(case.theta(), &velocity))?;
        let mut middle = vec![0.0; 2 * case.theta().len()];
        path.at(0.5, &mut middle);
        let slow = ok(exponential.map(case.theta(), &half))?;
        close(&middle[..case.theta().len()], &slow.theta, 1e-5, 1.0, "time rescaled")
    });
}

#[test]
fn ranges_of_samples_join_to_the_whole() {
    check(12, |case| {
        let laplace = case.fit(Structure::Auto)?;
        let draw = |range| {
            let geodesic = GeodesicOptions { max_steps: 60, ..Default::default() };
            let options = SamplerOptions { range, seed: case.seed, geodesic };
            ok(laplace.sample_riemannian(MetricName::Fisher, &options, &()))
        };
        let cut = case.points % 5;
        let whole = draw(0..5)?;
        let joined = ok(Samples::join([draw(cut..5)?, draw(0..cut)?]))?;
        // Samples that failed hold what is not a number, which equals nothing.
        let bits = |samples: &Samples| samples.theta.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&joined), bits(&whole));
        prop_assert_eq!(&joined.evaluations, &whole.evaluations);
        Ok(())
    });
}
