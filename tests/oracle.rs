//! Certified samples against an integration that shares nothing with the library: its own derivatives of small networks, its own
//! linear solver, and its own extrapolated steps (`oracle/reference.rs`).
//!
//! Networks are drawn from a stream: one or two inputs, one or two hidden layers, tanh or rounded kinks, few or many rows, little
//! or much noise, a weak or a strong prior. Of each, samples are drawn by every metric, half of them with the default settings and
//! half with another integrator, solver or accuracy.

#[path = "oracle/reference.rs"]
mod reference;

use std::collections::BTreeMap;
use std::error::Error;

use ndarray::{Array2, Axis};
use rand::Rng;
use rayon::prelude::*;
use reference::{Reference, Unit, Widths};
use riemannian_laplace::internals::geodesic::{
    Accuracy, Certificate, EndCheck, GaussianLogarithm, GeodesicLimits, MetricOptions, MetricSolver, Outcome,
    Smoothing, sample_posterior,
};
use riemannian_laplace::internals::map::Rounding;
use riemannian_laplace::internals::metric::{IterativeOptions, MatrixFreeOptions};
use riemannian_laplace::internals::network::graph::{Function, Kind};
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Family, FitOptions, GeodesicOptions, Laplace, MetricName, Network,
    SamplerOptions, Samples, TrainingOptions, train,
};

type Outcomes = Result<(), Box<dyn Error>>;

const METRICS: [MetricName; 4] =
    [MetricName::Fisher, MetricName::EmpiricalFisher, MetricName::Monge, MetricName::MongeLog];
/// Samples of each network by each metric: with the default settings, and with others.
const SAMPLES: (usize, usize) = (7, 6);
/// The most evaluations of one sample, over all attempts: a few paths of the Monge metric take a hundred times more than most.
const EVALUATIONS: usize = 4_000;
/// The reference's tolerance of a step; a path whose end is in question is integrated again at a hundredth.
const TOLERANCE: f64 = 1e-9;
/// The reference's own error, in σ.
const OWN: f64 = 1e-5;
/// Draws from which the widths of kinks are measured, as the library has it.
const DRAWS: usize = 32;

/// A trained network with its posterior, and the same problem for the reference.
struct Case {
    laplace: Laplace,
    /// The posterior of the network whose kinks are rounded, from which velocities come.
    rounded: Laplace,
    smoothing: Smoothing,
    reference: Reference,
}

fn case(number: u64) -> Result<Case, Box<dyn Error>> {
    let mut random = stream(number, Purpose::Data, 0);
    let (inputs, hidden) = (random.random_range(1..=2), random.random_range(2..=6));
    // Some are the one whose ends were once certified a third of σ off.
    let sizes = match (number % 25, number % 4) {
        (24, _) => vec![2, 10, 10, 1],
        (_, 0) => vec![inputs, hidden, 3, 1],
        _ => vec![inputs, hidden, 1],
    };
    let rows = random.random_range(8..=30);
    let sigma = 0.03 * 10f64.powf(random.random_range(0.0..1.2));
    let prior = 10f64.powf(random.random_range(-1.0..1.0));
    let (activation, smoothing) = match number % 5 {
        0 | 1 => (Activation::Tanh, Smoothing::Default),
        2 => (Activation::Relu, Smoothing::Default),
        3 => (Activation::LeakyRelu, Smoothing::Default),
        _ => (Activation::Relu, Smoothing::Width(10f64.powf(random.random_range(-1.7..-0.3)))),
    };
    let x = Array2::from_shape_fn((rows, sizes[0]), |_| random.random_range(-2.0..2.0));
    let y = x.map_axis(Axis(1), |x: ndarray::ArrayView1<'_, f64>| (2.0 * x[0]).sin() + 0.5 * x[x.len() - 1]);
    let y = y.mapv(|y| y + sigma * random.random_range(-1.7..1.7)).insert_axis(Axis(1));
    let data = Dataset::new(x.clone(), y.clone())?;
    let start = Network::random(Architecture::new(&sizes, activation)?, number);
    let training = TrainingOptions { epochs: 300, ..Default::default() };
    let family = Family::gaussian(sigma)?;
    let network = train(&start, &data, &family, &training, &())?.network;
    let options = FitOptions { prior_precision: prior.into(), ..Default::default() };
    let laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
    let (rounded, unit) = match rounded(&network, &laplace, smoothing, &x)? {
        None => (laplace.clone(), Unit::Tanh),
        Some((network, widths)) => {
            let left = if activation == Activation::LeakyRelu { 0.01 } else { 0.0 };
            (Laplace::fit(network, data, family, &options)?, Unit::Hinge { left, widths })
        }
    };
    let inputs = x.rows().into_iter().map(|row| row.to_vec()).collect();
    let targets = y.iter().copied().collect();
    let reference = Reference { sizes, unit, inputs, targets, sigma, prior, metric: MetricName::Fisher };
    Ok(Case { laplace, rounded, smoothing, reference })
}

/// The network with its kinks rounded, and the widths.
fn rounded(
    network: &Network,
    laplace: &Laplace,
    smoothing: Smoothing,
    inputs: &Array2<f64>,
) -> Result<Option<(Network, Widths)>, Box<dyn Error>> {
    let mut offsets = Array2::zeros((DRAWS, network.parameters().len()));
    for (index, mut row) in offsets.rows_mut().into_iter().enumerate() {
        laplace
            .precision()
            .sample(&mut stream(0, Purpose::Smoothing, index as u64), row.as_slice_mut().expect("a row without gaps"));
    }
    let width = if let Smoothing::Width(width) = smoothing { width } else { 0.05 };
    let rounding = Rounding { width, inputs: inputs.view(), offsets: offsets.view() };
    let Some(network) = network.with_rounded_kinks(&rounding)? else { return Ok(None) };
    let widths = network.architecture().graph().nodes().iter().filter_map(|node| match &node.kind {
        Kind::Elementwise(Function::Rounded(rounded)) => Some(rounded.widths().to_vec()),
        _ => None,
    });
    let widths = widths.collect();
    Ok(Some((network, widths)))
}

/// The velocity that a sample starts with.
fn velocity(case: &Case, index: usize) -> Result<Option<Vec<f64>>, Box<dyn Error>> {
    let mut velocity = vec![0.0; case.laplace.parameters().len()];
    case.rounded.precision().sample(&mut stream(0, Purpose::Velocity, index as u64), &mut velocity);
    if case.reference.metric != MetricName::MongeLog {
        return Ok(Some(velocity));
    }
    let solution = GaussianLogarithm::new(&**case.rounded.precision())?.evaluator().map(&velocity)?;
    Ok(solution.converged.then_some(solution.velocity))
}

/// Settings other than the default ones, one after another.
fn varied(number: usize, metric: MetricName) -> (GeodesicOptions, MetricSolver) {
    let integrator = [Integrator::Dopri5, Integrator::Dop853, Integrator::Adams][number % 3];
    let solver = match (metric.is_sum_over_data(), number / 3 % 3) {
        (true, 0) => MetricSolver::Exact,
        (true, 1) => MetricSolver::Iterative(IterativeOptions::default()),
        (true, _) => MetricSolver::MatrixFree(MatrixFreeOptions::default()),
        (false, _) => MetricSolver::Auto,
    };
    let accuracy = match number / 9 % 4 {
        // The paper's tolerances, with which drifts are larger than the default target.
        0 => Accuracy::Tolerances { rtol: 1e-3, atol: 1e-6, target: 1e-2 },
        1 => Accuracy::Drift { target: 1e-2, attempts: 7 },
        _ => Accuracy::default(),
    };
    (GeodesicOptions { integrator, accuracy, ..Default::default() }, solver)
}

/// What was found of some samples.
#[derive(Debug, Clone, Default)]
struct Count {
    samples: usize,
    paths: usize,
    laws: usize,
    /// Evaluations, with those of the comparison of ends, and where ends are never compared.
    evaluations: f64,
    never: f64,
    /// The largest error of a path, and of it relative to the stated one.
    worst: f64,
    worst_ratio: f64,
    /// Paths further off than stated: what they are, their error and the stated one.
    further: Vec<(String, f64, f64)>,
    /// Those that end further than a tenth of σ off, of those certified without a comparison of ends.
    wrong_before: usize,
    certified_before: usize,
}

impl Count {
    fn merge(&mut self, other: Count) {
        self.samples += other.samples;
        self.paths += other.paths;
        self.laws += other.laws;
        self.evaluations += other.evaluations;
        self.never += other.never;
        self.worst = self.worst.max(other.worst);
        self.worst_ratio = self.worst_ratio.max(other.worst_ratio);
        self.further.extend(other.further);
        self.wrong_before += other.wrong_before;
        self.certified_before += other.certified_before;
    }

    fn add_path(&mut self, off: f64, stated: f64, about: impl FnOnce() -> String) {
        self.paths += 1;
        self.worst = self.worst.max(off);
        self.worst_ratio = self.worst_ratio.max(off / stated);
        if off.is_nan() || off > stated + OWN {
            self.further.push((about(), off, stated));
        }
    }

    fn line(&self, name: &str) -> String {
        let share = |count: usize| 100.0 * count as f64 / self.samples.max(1) as f64;
        let (none, samples) = (self.samples - self.paths - self.laws, self.samples.max(1) as f64);
        // Ends are compared and not compared for the default settings.
        let before = match name.starts_with("default") {
            true => format!("{:.0} | {} of {}", self.never / samples, self.wrong_before, self.certified_before),
            false => "– | –".to_string(),
        };
        format!(
            "| {name} | {} | {:.1} | {:.1} | {:.1} | {:.4} | {:.2} | {} | {:.0} | {before} |",
            self.samples,
            share(self.paths),
            share(self.laws),
            share(none),
            self.worst,
            self.worst_ratio,
            self.further.len(),
            self.evaluations / samples,
        )
    }
}

/// Samples and how they are drawn.
struct Drawn<'a> {
    settings: &'a str,
    range: std::ops::Range<usize>,
    geodesic: GeodesicOptions,
    solver: MetricSolver,
}

impl Drawn<'_> {
    fn samples(&self, case: &Case, end_check: EndCheck) -> Result<Samples, riemannian_laplace::Error> {
        let how = MetricOptions { solver: self.solver, smoothing: case.smoothing, ..Default::default() };
        let limits = GeodesicLimits { evaluations: Some(EVALUATIONS), time: None };
        let geodesic = GeodesicOptions { end_check, limits, ..self.geodesic };
        let options = SamplerOptions { range: self.range.clone(), seed: 0, geodesic };
        sample_posterior(&case.laplace, case.reference.metric, &how, &options, &())
    }

    /// Compares samples with the reference; those with the default settings also without a comparison of their ends.
    fn compare(&self, case: &Case, about: &str) -> Result<Count, Box<dyn Error>> {
        let drawn = self.samples(case, EndCheck::Auto)?;
        let never = (self.settings == "default").then(|| self.samples(case, EndCheck::Never)).transpose()?;
        let mut count = Count { samples: drawn.len(), ..Default::default() };
        for (row, index) in self.range.clone().enumerate() {
            count.evaluations += (drawn.evaluations[row] + drawn.check_evaluations[row]) as f64;
            count.never += never.as_ref().map_or(0.0, |never| never.evaluations[row] as f64);
            let certificate = drawn.certificate[row];
            count.laws += usize::from(certificate == Some(Certificate::Law));
            let before = never.as_ref().filter(|never| never.outcome[row] == Outcome::Reached && never.certified[row]);
            if certificate != Some(Certificate::Path) && before.is_none() {
                continue;
            }
            let Some(velocity) = velocity(case, index)? else { continue };
            let end = |tolerance| case.reference.end(case.laplace.parameters(), &velocity, tolerance);
            let Some(exact) = end(TOLERANCE) else {
                println!("{about}, sample {index}: the reference is stuck");
                continue;
            };
            let distance = |samples: &Samples, exact: &[f64]| {
                case.reference.distance(exact, &samples.theta.index_axis(Axis(0), row).to_vec())
            };
            if let Some(never) = before {
                count.certified_before += 1;
                count.wrong_before += usize::from(distance(never, &exact) > 0.1);
            }
            if certificate == Some(Certificate::Path) {
                let (mut off, stated) = (distance(&drawn, &exact), drawn.end_error[row]);
                if off > stated + OWN {
                    off = distance(&drawn, &end(0.01 * TOLERANCE).unwrap_or(exact));
                }
                count.add_path(off, stated, || format!("{about}, sample {index}"));
            }
        }
        Ok(count)
    }
}

/// Counts by name of what was drawn: the metric with default settings, and everything that was varied.
fn count(numbers: std::ops::Range<u64>) -> Result<BTreeMap<String, Count>, Box<dyn Error>> {
    let of_case = |number: u64| -> Result<Vec<(String, Count)>, String> {
        let mut found = Vec::new();
        let mut case = case(number).map_err(|error| error.to_string())?;
        let kink = match (&case.reference.unit, case.smoothing) {
            (Unit::Tanh, _) => "smooth",
            (_, Smoothing::Default) => "kinks",
            _ => "kinks, other widths",
        };
        for (place, metric) in METRICS.into_iter().enumerate() {
            case.reference.metric = metric;
            let (geodesic, solver) = varied(number as usize + place, metric);
            for (settings, range, geodesic, solver) in [
                ("default", 0..SAMPLES.0, GeodesicOptions::default(), MetricSolver::Auto),
                ("varied", SAMPLES.0..SAMPLES.0 + SAMPLES.1, geodesic, solver),
            ] {
                let words = format!("{} {:?} {}", geodesic.integrator.name(), geodesic.accuracy, solver.name());
                let about = format!("network {number} {:?} {kink}, {metric}, {words}", case.reference.sizes);
                let drawn = Drawn { settings, range, geodesic, solver };
                let counted = drawn.compare(&case, &about).map_err(|error| format!("{about}: {error}"))?;
                found.push((format!("{settings}: {metric}"), counted.clone()));
                found.push((format!("{settings}: {kink}"), counted.clone()));
                if settings == "varied" {
                    found.push((format!("varied: {}", geodesic.integrator.name()), counted.clone()));
                    if metric.is_sum_over_data() {
                        found.push((format!("varied: {}", solver.name()), counted.clone()));
                    }
                }
                found.push(("all".to_string(), counted));
            }
        }
        Ok(found)
    };
    let of_cases: Vec<_> = numbers.into_par_iter().map(of_case).collect::<Result<_, String>>()?;
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    of_cases.into_iter().flatten().for_each(|(name, count)| counts.entry(name).or_default().merge(count));
    println!(
        "| settings | samples | path, % | law, % | none, % | largest error, σ | of the stated one | further off than \
         stated | evaluations | where ends are not compared | of those certified, ends beyond .1 σ |"
    );
    println!("|{}", "---|".repeat(11));
    counts.iter().for_each(|(name, count)| println!("{}", count.line(name)));
    Ok(counts)
}

/// None is further off than its certificate states.
fn hold(numbers: std::ops::Range<u64>) -> Outcomes {
    let networks = (numbers.end - numbers.start) as usize;
    let counts = count(numbers)?;
    let all = &counts["all"];
    let further: Vec<String> =
        all.further.iter().map(|(what, off, stated)| format!("{what}: {off:.4} for {stated:.4}")).collect();
    assert!(further.is_empty(), "{}", further.join("\n"));
    assert_eq!(all.samples, networks * METRICS.len() * (SAMPLES.0 + SAMPLES.1));
    // Most are certified as paths, or nothing was tested.
    assert!(2 * all.paths > all.samples, "{all:?}");
    for metric in [MetricName::Fisher, MetricName::EmpiricalFisher] {
        let default = &counts[&format!("default: {metric}")];
        assert!(100 * default.paths >= 95 * default.samples, "{metric}: {default:?}");
    }
    Ok(())
}

#[test]
fn no_certified_path_ends_further_off_than_stated() -> Outcomes {
    hold(0..20)
}

#[test]
#[ignore = "takes half an hour: the same with 200 networks, or those that ORACLE=first..last names"]
fn no_certified_path_of_ten_thousand_ends_further_off_than_stated() -> Outcomes {
    let named = std::env::var("ORACLE").ok();
    let range = named.as_deref().and_then(|range| range.split_once("..")).unwrap_or(("1000", "1200"));
    hold(range.0.parse()?..range.1.parse()?)
}
