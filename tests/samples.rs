//! Samples as parts of a stream: ranges and their joining, cancelling, certificates, and the file.

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::geometry::Golden;
use ndarray::array;
use riemannian_laplace::Activation;
use riemannian_laplace::Error;
use riemannian_laplace::Laplace;
use riemannian_laplace::Progress;
use riemannian_laplace::internals::geodesic::{
    Accuracy, DRIFT_TARGET, ExponentialMap, JoinError, LogarithmOptions, MetricBatch, MetricOptions, MetricSolver,
    Outcome, exponential_map, exponentials, logarithmic_map, read_samples, sample, sample_posterior, write_samples,
};
use riemannian_laplace::internals::metric::MatrixFreeOptions;
use riemannian_laplace::internals::metric::{self, Metric, MetricEvaluator};
use riemannian_laplace::internals::ode::{Integrator, Status};
use riemannian_laplace::internals::tensors::{self, TensorFile, Values};
use riemannian_laplace::{GeodesicOptions, MetricName, SamplerOptions, Samples, Smoothing};

fn draw(laplace: &Laplace, metric: MetricName, how: &MetricOptions, range: std::ops::Range<usize>) -> Samples {
    let options = SamplerOptions { range, seed: 5, ..Default::default() };
    sample_posterior(laplace, metric, how, &options, &()).unwrap()
}

#[test]
fn ranges_joined_are_the_whole_bit_for_bit() {
    let laplace = Golden::load("p3").fit();
    for metric in MetricName::ALL {
        let draw = |range| draw(&laplace, metric, &MetricOptions::default(), range);
        let whole = draw(0..8);
        assert_eq!((whole.range.clone(), whole.seed, whole.metric), (0..8, Some(5), Some(metric)));
        // The parts may come in any order.
        assert_eq!(Samples::join([draw(3..8), draw(0..3)]).unwrap(), whole, "{metric}");
        assert_eq!(Samples::join([draw(0..3), draw(3..3), draw(3..4), draw(4..8)]).unwrap(), whole, "{metric}");
        // The join need not start at 0.
        assert_eq!(Samples::join([draw(3..4), draw(4..8)]).unwrap(), draw(3..8), "{metric}");
    }
}

#[test]
fn ranges_of_metrics_of_a_part_of_the_data_are_joined_with_their_reports() {
    let laplace = Golden::load("p1").fit();
    let solver = MetricSolver::MatrixFree(MatrixFreeOptions::default());
    for redraw in [false, true] {
        let how = MetricOptions { solver, batch: Some(MetricBatch { size: 15, redraw }), ..Default::default() };
        let draw = |range| draw(&laplace, MetricName::Fisher, &how, range);
        let (whole, joined) = (draw(0..5), Samples::join([draw(0..2), draw(2..5)]).unwrap());
        assert_eq!((&joined.theta, &joined.batch), (&whole.theta, &whole.batch));
        assert_eq!(joined.solver.map(|report| report.solves), whole.solver.map(|report| report.solves));
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let laplace = Golden::load("p3").fit();
    let draw = |range| draw(&laplace, MetricName::Euclidean, &MetricOptions::default(), range);
    let refused = |parts: Vec<Samples>| match Samples::join(parts) {
        Err(Error::Join(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Vec::new()), JoinError::Nothing);
    assert_eq!(refused(vec![draw(0..3), draw(5..8)]), JoinError::Gap(3..5));
    assert_eq!(refused(vec![draw(0..3), draw(2..8)]), JoinError::Overlap(0..3, 2..8));
    assert_eq!(refused(vec![draw(0..3), draw(0..3)]), JoinError::Overlap(0..3, 0..3));
    let other_seed = Samples { seed: Some(6), ..draw(3..8) };
    assert_eq!(refused(vec![draw(0..3), other_seed]), JoinError::Seed("5".to_string(), "6".to_string()));
    let other_metric = Samples { metric: Some(MetricName::Monge), ..draw(3..8) };
    let error = refused(vec![draw(0..3), other_metric]);
    assert_eq!(error, JoinError::Metric("euclidean".to_string(), "monge".to_string()));
    let narrow = Samples { theta: ndarray::Array2::zeros((5, 1)), ..draw(3..8) };
    assert!(matches!(refused(vec![draw(0..3), narrow]), JoinError::Parameters(_, 1)));
    let backward = SamplerOptions { range: std::ops::Range { start: 5, end: 3 }, ..Default::default() };
    let error = laplace.sample_riemannian(MetricName::Fisher, &backward, &()).unwrap_err();
    assert!(matches!(error, Error::BackwardRange { start: 5, end: 3 }));
}

/// Cancels after this many queries, and counts them.
struct Patience {
    questions: AtomicUsize,
    limit: usize,
}

impl Patience {
    fn new(limit: usize) -> Self {
        Self { questions: AtomicUsize::new(0), limit }
    }
}

impl Progress for Patience {
    fn is_cancelled(&self) -> bool {
        self.questions.fetch_add(1, Ordering::Relaxed) >= self.limit
    }
}

/// A metric that counts its accelerations, with the speed given.
#[derive(Clone)]
struct Counted {
    accelerations: Arc<AtomicUsize>,
    speed: f64,
}

impl Counted {
    fn new(speed: f64) -> Self {
        Self { accelerations: Arc::new(AtomicUsize::new(0)), speed }
    }
}

impl Metric for Counted {
    fn n_params(&self) -> usize {
        2
    }

    fn evaluator(&self) -> Box<dyn MetricEvaluator> {
        Box::new(CountedEvaluator(self.clone()))
    }
}

struct CountedEvaluator(Counted);

impl MetricEvaluator for CountedEvaluator {
    fn acceleration(&mut self, theta: &[f64], _: &[f64], acceleration: &mut [f64]) {
        self.0.accelerations.fetch_add(1, Ordering::Relaxed);
        acceleration.iter_mut().zip(theta).for_each(|(out, theta)| *out = -400.0 * theta);
    }

    fn squared_speed_of_last(&mut self, _: &[f64]) -> f64 {
        self.0.speed
    }

    fn squared_speed(&mut self, _: &[f64], _: &[f64]) -> f64 {
        self.0.speed
    }
}

#[test]
fn a_cancelled_geodesic_ends_without_another_evaluation() {
    for integrator in Integrator::ALL {
        for limit in [0, 1, 2, 3, 10, 25] {
            let (metric, patience) = (Counted::new(1.0), Patience::new(limit));
            let options = GeodesicOptions { integrator, ..Default::default() };
            let mut map = ExponentialMap::new(&metric, options).unwrap().watched_by(&patience);
            let error = map.map(&[1.0, 0.0], &[0.0, 1.0]).unwrap_err();
            assert!(matches!(error, Error::Cancelled) && !error.is_input());
            assert_eq!(metric.accelerations.load(Ordering::Relaxed), limit, "{integrator}");
        }
    }
}

#[test]
fn cancelled_work_is_an_error_whatever_it_is() {
    let laplace = Golden::load("p1").fit();
    let width = laplace.parameters().len();
    let velocities = common::normal_matrix(4, width, 9);
    for metric in MetricName::ALL {
        let options = SamplerOptions::first(4);
        let cancelled = laplace.sample_riemannian(metric, &options, &Patience::new(5));
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{metric}");
        if !metric.has_maps() {
            continue;
        }
        let (geodesic, logarithm) = (GeodesicOptions::default(), LogarithmOptions::default());
        let cancelled =
            exponential_map(&laplace, metric, Smoothing::Default, velocities.view(), geodesic, &Patience::new(5));
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{metric}");
        for limit in [5, 100] {
            let cancelled = logarithmic_map(
                &laplace,
                metric,
                Smoothing::Default,
                velocities.view(),
                logarithm,
                &Patience::new(limit),
            );
            assert!(matches!(cancelled, Err(Error::Cancelled)), "{metric}");
        }
    }
    let how = MetricOptions { batch: Some(MetricBatch { size: 15, redraw: true }), ..Default::default() };
    let options = SamplerOptions::first(4);
    let cancelled = sample_posterior(&laplace, MetricName::Fisher, &how, &options, &Patience::new(5));
    assert!(matches!(cancelled, Err(Error::Cancelled)));
}

#[test]
fn only_metrics_with_maps_have_maps() {
    let laplace = Golden::load("p3").fit();
    let width = laplace.parameters().len();
    let rows = common::normal_matrix(1, width, 9);
    let (geodesic, logarithm) = (GeodesicOptions::default(), LogarithmOptions::default());
    let exponential =
        exponential_map(&laplace, MetricName::MongeLog, Smoothing::Default, rows.view(), geodesic, &()).unwrap_err();
    let logarithm =
        logarithmic_map(&laplace, MetricName::MongeLog, Smoothing::Default, rows.view(), logarithm, &()).unwrap_err();
    for error in [exponential, logarithm] {
        let message = error.to_string();
        assert!(error.is_input() && message.contains("monge-log metric is for sampling only"), "{message}");
        assert!(message.contains("take euclidean, fisher, monge, empirical-fisher"), "{message}");
    }
}

#[test]
fn fixed_tolerances_do_not_certify_what_drifts() {
    use riemannian_laplace::internals::likelihood::Gaussian;
    let noise = Arc::new(Gaussian::new(0.1).unwrap());
    let (target, theta) = common::geometry::random_target(&[1, 8, 1], Activation::Relu, noise, 30, 3);
    let metric = metric::fisher(&target);
    let velocities = common::normal_matrix(4, theta.len(), 9);
    let options = GeodesicOptions::with_tolerances(1e-3, 1e-6);
    let samples = exponentials(&metric, &theta, velocities.view(), options, &()).unwrap();
    let reached = samples.outcome.iter().filter(|outcome| **outcome == Outcome::Reached).count();
    assert!(reached > 0 && samples.uncertified() == reached, "{:?} {:?}", samples.outcome, samples.drift);
    // A target that no drift exceeds leaves the other figures to decide.
    let accuracy = Accuracy::Tolerances { rtol: 1e-3, atol: 1e-6, target: 1e6 };
    let lenient = GeodesicOptions { accuracy, ..options };
    let lenient = exponentials(&metric, &theta, velocities.view(), lenient, &()).unwrap();
    assert_eq!(lenient.theta, samples.theta);
    let off_graph = lenient.off_graph.as_ref().unwrap();
    for ((end_error, off_graph), certified) in lenient.end_error.iter().zip(off_graph).zip(&lenient.certified) {
        assert_eq!(*certified, *end_error <= 0.1 && *off_graph <= 0.1, "{end_error} {off_graph}");
    }
    let accuracy = Accuracy::Tolerances { rtol: 1e-3, atol: 1e-6, target: f64::NAN };
    assert!(GeodesicOptions { accuracy, ..options }.validate().is_err());
}

#[test]
fn certified_is_everything_within_its_bounds_at_any_tolerance() {
    let laplace = Golden::load("p1").fit();
    for rtol in [1e-2, 1e-3, 1e-6] {
        let geodesic = GeodesicOptions::with_tolerances(rtol, 1e-3 * rtol);
        let options = SamplerOptions { geodesic, ..SamplerOptions::first(12) };
        let samples = laplace.sample_riemannian(MetricName::Fisher, &options, &()).unwrap();
        let off_graph = samples.off_graph.as_ref().unwrap();
        for row in 0..samples.len() {
            let (drift, on_the_way) = (samples.drift[row], samples.path_drift[row]);
            let straight = drift <= DRIFT_TARGET && on_the_way <= 5.0 * DRIFT_TARGET;
            let within = straight && off_graph[row] <= 0.1 && samples.end_error[row] <= 0.1;
            assert_eq!(samples.certified[row], within, "{drift} {on_the_way} {}", off_graph[row]);
        }
    }
}

/// A straight line, and an oscillation next to it, with a squared speed that is 1 except in the middle of the line.
#[derive(Clone, Copy)]
struct Hill {
    height: f64,
}

impl Metric for Hill {
    fn n_params(&self) -> usize {
        2
    }

    fn evaluator(&self) -> Box<dyn MetricEvaluator> {
        Box::new(*self)
    }
}

impl MetricEvaluator for Hill {
    fn acceleration(&mut self, theta: &[f64], _: &[f64], acceleration: &mut [f64]) {
        (acceleration[0], acceleration[1]) = (0.0, -400.0 * theta[1]);
    }

    fn squared_speed_of_last(&mut self, _: &[f64]) -> f64 {
        1.0
    }

    fn squared_speed(&mut self, theta: &[f64], _: &[f64]) -> f64 {
        if (0.3..0.7).contains(&theta[0]) { 1.0 + self.height } else { 1.0 }
    }
}

#[test]
fn a_drift_that_returns_to_zero_at_the_end_is_seen_on_the_way() {
    for (height, certified) in [(0.0, true), (4e-3, true), (6e-3, false), (f64::NAN, false)] {
        for options in [GeodesicOptions::default(), GeodesicOptions::with_tolerances(1e-5, 1e-8)] {
            let metric = Hill { height };
            let geodesic = ExponentialMap::new(&metric, options).unwrap().map(&[0.0, 0.0], &[1.0, 1.0]).unwrap();
            assert!(geodesic.status == Status::Reached && geodesic.drift == 0.0);
            let seen = geodesic.path_drift;
            assert!((seen - height).abs() < 1e-12 || seen.is_nan() && height.is_nan(), "{seen} for {height}");
            assert_eq!(geodesic.certified, certified, "{height}");
        }
    }
}

#[test]
fn a_drift_that_is_not_a_number_is_never_certified() {
    let metric = Counted::new(f64::NAN);
    for options in [GeodesicOptions::default(), GeodesicOptions::with_tolerances(1e-3, 1e-6)] {
        let geodesic = ExponentialMap::new(&metric, options).unwrap().map(&[1.0, 0.0], &[0.0, 1.0]).unwrap();
        assert!(geodesic.status == Status::Reached && geodesic.drift.is_nan() && !geodesic.certified);
        let samples = exponentials(&metric, &[1.0, 0.0], array![[0.0, 1.0]].view(), options, &()).unwrap();
        assert!(samples.uncertified() == 1 && samples.max_drift().is_nan());
    }
}

fn path(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

#[test]
fn samples_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "samples.safetensors");
    let laplace = Golden::load("p3").fit();
    let samples = draw(&laplace, MetricName::MongeLog, &MetricOptions::default(), 2..6);
    write_samples(&file, &samples).unwrap();
    assert_eq!(read_samples(&file).unwrap(), samples);
    // Without a name and a seed, and with failures.
    let metric = Counted::new(1.0);
    let options = GeodesicOptions { max_steps: 3, ..Default::default() };
    let failed = exponentials(&metric, &[1.0, 0.0], array![[0.0, 1.0], [1e300, 1.0]].view(), options, &()).unwrap();
    assert_eq!(failed.failed(), 2);
    write_samples(&file, &failed).unwrap();
    let read = read_samples(&file).unwrap();
    assert_eq!((read.metric, read.seed, &read.range, &read.outcome), (None, None, &(0..2), &failed.outcome));
    // Numbers that are not finite are kept where a sample failed.
    let mut theta = failed.theta.clone();
    theta[(1, 0)] = f64::NAN;
    write_samples(&file, &Samples { theta, ..failed.clone() }).unwrap();
    assert!(read_samples(&file).unwrap().theta[(1, 0)].is_nan());
}

#[test]
fn files_that_hold_no_samples_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "samples.safetensors");
    let target = riemannian_laplace::internals::paper::problems::Squiggle::MAIN.target().unwrap();
    let fisher = metric::fisher(&target);
    let precision = fisher.at(&[0.0, 0.0]).unwrap();
    let good = sample(&fisher, &[0.0, 0.0], &precision, &SamplerOptions::first(3), &()).unwrap();
    let refused = |samples: Samples, words: &[&str]| {
        write_samples(&file, &samples).unwrap();
        let error = read_samples(&file).unwrap_err();
        let message = error.to_string();
        assert!(error.is_input() && message.contains("samples.safetensors"), "{message}");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    let mut theta = good.theta.clone();
    theta[(1, 1)] = f64::INFINITY;
    refused(Samples { theta, ..good.clone() }, &["`theta`", "inf", "flat index 3"]);
    refused(Samples { range: 0..4, ..good.clone() }, &["`range`", "0..4", "3 samples"]);
    let mut drift = good.drift.clone();
    drift[2] = f64::NAN;
    refused(Samples { drift, certified: vec![true; 3], ..good.clone() }, &["`certified`", "flat index 2"]);
    let outcome = vec![Outcome::Reached, Outcome::StepLimit, Outcome::Reached];
    refused(Samples { outcome, certified: vec![true; 3], ..good.clone() }, &["`certified`", "flat index 1"]);

    // Files not written by this crate.
    let theta: Vec<f64> = good.theta.iter().copied().collect();
    let (counts, range) = ([7, 7, 7], [("range", "0..3")]);
    let forged = |status: &[i64], rows: usize, metadata: &[(&str, &str)], words: &[&str]| {
        let entries = [
            ("theta", vec![3, 2], Values::Real(&theta)),
            ("velocity", vec![rows, theta.len() / rows], Values::Real(&theta)),
            ("nfev", vec![3], Values::Integer(&counts)),
            ("drift", vec![3], Values::Real(&[0.0; 3])),
            ("status", vec![status.len()], Values::Integer(status)),
            ("certified", vec![3], Values::Integer(&[1; 3])),
        ];
        let metadata = metadata.iter().map(|(key, text)| (key.to_string(), text.to_string()));
        tensors::write(&file, &entries, metadata.collect()).unwrap();
        match read_samples(&file) {
            Ok(samples) => assert!(words.is_empty() && samples.len() == 3, "{words:?}"),
            Err(error) => {
                let message = error.to_string();
                assert!(!words.is_empty() && words.iter().all(|word| message.contains(word)), "{message}");
            }
        }
    };
    forged(&[0, 0, 0], 3, &range, &[]);
    forged(&[0, 0, 4], 3, &range, &["`status`", "4", "flat index 2", "0, 1, 2 or 3"]);
    forged(&[0, 0], 3, &range, &["`status`", "[2]", "[3]"]);
    forged(&[0, 0, 0], 2, &range, &["`velocity`", "[2, 3]", "[3, 2]"]);
    forged(&[0, 0, 0], 3, &[], &["`range`", "missing"]);
    forged(&[0, 0, 0], 3, &[("range", "3..0")], &["`range`", "3..0"]);
    forged(&[0, 0, 0], 3, &[("range", "0..3"), ("metric", "hyperbolic")], &["`metric`", "hyperbolic"]);
    forged(&[0, 0, 0], 3, &[("range", "0..3"), ("seed", "-1")], &["`seed`", "-1"]);
    tensors::write(&file, &[("theta", vec![1, 1], Values::Real(&[0.0]))], Default::default()).unwrap();
    assert!(read_samples(&file).unwrap_err().to_string().contains("`velocity` is missing"));
    assert!(TensorFile::read(&file).is_ok());
}
