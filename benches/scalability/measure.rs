//! One network, one data set, one solver: the time of an evaluation, and of a sample.

use std::time::Instant;

use ndarray::{Array2, Axis};
use rand::Rng;
use riemannian_laplace::Dataset;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::Result;
use riemannian_laplace::internals::geodesic::sample;
use riemannian_laplace::internals::metric::{self, Metric};
use riemannian_laplace::internals::predict::SampledPredictive;
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::{Activation, Architecture, Network, TrainingOptions, train};
use riemannian_laplace::{FitOptions, Laplace, Structure};
use riemannian_laplace::{GeodesicOptions, SamplerOptions};

/// The limits for one sample.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub seconds: f64,
}

/// A metric and the solver for its accelerations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    FisherFunction,
    FisherWeight,
    Monge,
}

impl Solver {
    pub const ALL: [Self; 3] = [Self::FisherFunction, Self::FisherWeight, Self::Monge];

    pub fn name(self) -> &'static str {
        match self {
            Self::FisherFunction => "RLA-F function",
            Self::FisherWeight => "RLA-F weight",
            Self::Monge => "RLA-B",
        }
    }

    /// The estimated number of evaluations per sample, to decide whether it is tried.
    fn guessed_evaluations(self) -> f64 {
        match self {
            Self::FisherFunction | Self::FisherWeight => 400.0,
            Self::Monge => 6_000.0,
        }
    }

    /// Numbers in the matrices of one evaluation.
    fn numbers(self, n_params: usize, n_points: usize) -> f64 {
        let (d, n) = (n_params as f64, n_points as f64);
        match self {
            Self::FisherFunction => 4.0 * n * n,
            Self::FisherWeight => 2.0 * d * d + n * d,
            Self::Monge => d,
        }
    }

    /// Multiply-adds of one evaluation.
    fn work(self, n_params: usize, n_points: usize) -> f64 {
        let (d, n) = (n_params as f64, n_points as f64);
        match self {
            Self::FisherFunction => 10.0 * n * d + n * n * n / 3.0,
            Self::FisherWeight => 10.0 * n * d + n * d * d / 2.0 + d * d * d / 3.0,
            Self::Monge => 10.0 * n * d,
        }
    }
}

/// The cost of one sample, the mean over a few.
#[derive(Debug, Clone, Copy)]
pub struct Sampled {
    pub evaluations: f64,
    pub seconds: f64,
    pub drift: f64,
    /// The rms training residual of the samples in units of σ, …
    pub residual: f64,
    /// … and that of samples of the linearised network, to which a correct one is close.
    pub linearized: f64,
    /// The peak memory of the process during the run, in bytes.
    pub peak: Option<u64>,
}

/// What was measured; nothing where it was left out.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    pub width: usize,
    pub n_params: usize,
    pub n_points: usize,
    pub solver: Solver,
    pub evaluation: Option<f64>,
    pub sampled: Option<Sampled>,
}

/// x uniform on 0 to 8, y = sin x + 0.3 ε (the data of laplace-redux), both standardised.
pub fn sine_data(points: usize, seed: u64) -> Result<Dataset> {
    let mut generator = stream(seed, Purpose::Data, 0);
    let mut columns = Array2::zeros((points, 2));
    for mut row in columns.rows_mut() {
        let mut noise = [0.0];
        row[0] = 8.0 * generator.random::<f64>();
        fill_standard_normal(&mut generator, &mut noise);
        row[1] = row[0].sin() + 0.3 * noise[0];
    }
    let columns = riemannian_laplace::internals::paper::problems::standardized(&columns);
    let (x, y) = columns.view().split_at(Axis(1), 1);
    Dataset::new(x.to_owned(), y.to_owned())
}

/// A network trained by Adam (rate 1e-3, weight decay 1e-4) with mini-batches of 100; wider networks need fewer steps.
pub fn trained(width: usize, data: &Dataset) -> Result<Network> {
    let steps: usize = if width <= 100 { 4_000 } else { 600 };
    let start = Network::random(Architecture::new(&[1, width, width, 1], Activation::Tanh)?, 1);
    let used = first(data, data.len().min(2_000))?;
    let options = TrainingOptions {
        epochs: (steps * 100).div_ceil(used.len()),
        learning_rate: 1e-3,
        weight_decay: 1e-4,
        batch_size: Some(100),
        ..Default::default()
    };
    Ok(train(&start, &used, &Family::gaussian(1.0)?, &options, &())?.network)
}

fn first(data: &Dataset, points: usize) -> Result<Dataset> {
    let head = |values: &Array2<f64>| values.view().split_at(Axis(0), points).0.to_owned();
    Dataset::new(head(data.inputs()), head(data.targets()))
}

/// The largest matrices, in numbers, and the most multiply-adds of an evaluation that is tried at all.
const MOST_NUMBERS: f64 = 1e9;
const MOST_WORK: f64 = 2e11;

pub fn measure(
    network: &Network,
    data: &Dataset,
    n_points: usize,
    solver: Solver,
    budget: Budget,
) -> Result<Measurement> {
    let n_params = network.parameters().len();
    let width = network.architecture().sizes()[1];
    let mut measurement = Measurement { width, n_params, n_points, solver, evaluation: None, sampled: None };
    let too_large = |solver: Solver| {
        solver.numbers(n_params, n_points) > MOST_NUMBERS || solver.work(n_params, n_points) > MOST_WORK
    };
    // The posterior itself needs one of the two Fisher solvers.
    if too_large(solver) || (too_large(Solver::FisherFunction) && too_large(Solver::FisherWeight)) {
        return Ok(measurement);
    }
    let family = Family::gaussian(0.4)?;
    let mut posterior = Laplace::fit(network.clone(), first(data, n_points)?, family, &FitOptions::default())?;
    posterior.optimize(&EvidenceOptions::default())?;
    let target = posterior.target("the benchmark")?;
    let (metric, geodesic): (Box<dyn Metric + '_>, _) = match solver {
        Solver::FisherFunction => {
            (Box::new(metric::fisher(&target).with_structure(Structure::FunctionSpace)), GeodesicOptions::default())
        }
        Solver::FisherWeight => {
            (Box::new(metric::fisher(&target).with_structure(Structure::WeightSpace)), GeodesicOptions::default())
        }
        Solver::Monge => (Box::new(metric::monge(&target)), GeodesicOptions::with_tolerances(1e-3, 1e-6)),
    };
    let evaluation = time_evaluation(&*metric, network.parameters());
    measurement.evaluation = Some(evaluation);
    let guess = evaluation * solver.guessed_evaluations();
    if guess > budget.seconds {
        return Ok(measurement);
    }
    forget_peak();
    let samples = (0.1 * budget.seconds / guess).clamp(1.0, 10.0) as usize;
    let options = SamplerOptions { range: 0..samples, seed: 3, geodesic };
    let start = Instant::now();
    let drawn = sample(&*metric, network.parameters(), &**posterior.precision(), &options, &())?;
    let seconds = start.elapsed().as_secs_f64() / samples as f64;
    // If all samples reached the step limit, there is nothing to predict with.
    let residual = match drawn.failed() < samples {
        true => {
            let (model, family, used) = (posterior.model(), posterior.family(), first(data, n_points)?);
            let sampled = SampledPredictive::new(&**model, family, drawn.reached().view(), used.inputs())?;
            rms_residual(&sampled, &posterior)
        }
        false => f64::NAN,
    };
    measurement.sampled = Some(Sampled {
        evaluations: drawn.mean_evaluations(),
        seconds,
        drift: drawn.max_drift(),
        residual,
        linearized: linearized_residual(&posterior)?,
        peak: peak(),
    });
    Ok(measurement)
}

/// The shortest of a few evaluations at the base point with a short velocity.
fn time_evaluation(metric: &dyn Metric, theta: &[f64]) -> f64 {
    let mut evaluator = metric.evaluator();
    let (velocity, mut acceleration) = (vec![1e-3; theta.len()], vec![0.0; theta.len()]);
    let begin = Instant::now();
    let mut shortest = f64::INFINITY;
    for call in 0..200 {
        let start = Instant::now();
        evaluator.acceleration(theta, &velocity, &mut acceleration);
        // The first call grows the buffers.
        if call > 0 {
            shortest = shortest.min(start.elapsed().as_secs_f64());
        }
        if call > 1 && begin.elapsed().as_secs_f64() > 0.5 {
            break;
        }
    }
    shortest
}

/// √(mean over samples and points of (f − y)²) / σ.
fn rms_residual(sampled: &SampledPredictive, posterior: &Laplace) -> f64 {
    let (Some(data), Some(sigma)) = (posterior.data(), posterior.family().sigma()) else { return f64::NAN };
    let targets = data.targets();
    let squares = sampled.outputs().indexed_iter().map(|((_, n, p), output)| (output - targets[(n, p)]).powi(2));
    (squares.sum::<f64>() / sampled.outputs().len() as f64).sqrt() / sigma[0]
}

/// √(mean over points of the expected (f − y)²) / σ for outputs f of the linearised network.
fn linearized_residual(posterior: &Laplace) -> Result<f64> {
    let (Some(data), Some(sigma)) = (posterior.data(), posterior.family().sigma()) else { return Ok(f64::NAN) };
    let latent = posterior.linearized(data.inputs())?;
    let squares = (&latent.mean - data.targets()).mapv(|residual| residual * residual) + latent.variance();
    Ok(squares.mean().unwrap_or(f64::NAN).sqrt() / sigma[0])
}

/// Resets the peak (Linux).
fn forget_peak() {
    // Where this is not possible, the peak is that of the whole run so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak memory of the process since then (Linux).
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(1024 * line.split_whitespace().nth(1)?.parse::<u64>().ok()?)
}
