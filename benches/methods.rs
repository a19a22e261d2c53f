//! The integrators on Fisher geodesics of networks: what a certified sample costs, and how accurate its outputs are.
//!
//! `cargo bench --bench methods -- [problems] [samples] [metric]`, by default all problems, 12 samples each, and
//! `fisher`. Problems are `complete-raw`, `gap-raw`, `complete-std` and `gap-std` (Snelson's data and the networks
//! stored with them), and a width W for a network 1-W-W-1 that is trained here on a sine; separate them by commas.
//!
//! For each integrator and tolerance: the mean number of evaluations at this tolerance; the median and the largest
//! drift of vᵀGv; the median and the largest error of the network's outputs at the data in units of σ, against `dop853`
//! at 1e-10; and the mean number of evaluations until the drift is at most 1e-3 when refinement starts from this
//! tolerance.

use std::path::Path;

use ndarray::Array2;
use riemannian_laplace::Dataset;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::GeodesicOptions;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::geodesic::{ExponentialMap, Geodesic};
use riemannian_laplace::internals::map::Evaluator;
use riemannian_laplace::internals::metric::{self, Metric};
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Activation, Architecture, Network, TrainingOptions, train};
use riemannian_laplace::{FitOptions, Laplace};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The drift that certifies a sample.
const TARGET: f64 = 1e-3;

/// Geodesics to follow.
struct Problem {
    name: String,
    base: Vec<f64>,
    velocities: Array2<f64>,
    target: Target,
    sigma: f64,
}

/// Mean 0 and deviation 1.
fn standardised(data: &Dataset) -> Outcome<Dataset> {
    let scale = |values: &Array2<f64>| {
        let mean = values.sum() / values.len() as f64;
        let variance = values.mapv(|value| (value - mean).powi(2)).sum() / values.len() as f64;
        values.mapv(|value| (value - mean) / variance.sqrt())
    };
    Ok(Dataset::new(scale(data.inputs()), scale(data.targets()))?)
}

/// Numbers uniform on [0, 1), by xorshift.
struct Uniform(u64);

impl Uniform {
    fn draw(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.draw()).ln()).sqrt() * (std::f64::consts::TAU * self.draw()).cos()
    }
}

impl Problem {
    fn load(name: &str, samples: usize) -> Outcome<Self> {
        let (network, data) = match name.split_once('-') {
            Some((split, units)) => snelson(split, units)?,
            None => sine(name.parse()?)?,
        };
        let mut laplace = Laplace::fit(network, data, Family::gaussian(1.0)?, &FitOptions::default())?;
        laplace.optimize(&EvidenceOptions::default())?;
        let base = laplace.parameters().to_vec();
        let mut velocities = laplace.sample(samples, 11)?;
        for mut row in velocities.rows_mut() {
            row.iter_mut().zip(&base).for_each(|(value, base)| *value -= base);
        }
        let sigma = laplace.family().sigma().and_then(|sigma| sigma.first().copied()).unwrap_or(1.0);
        Ok(Self { name: name.to_string(), base, velocities, target: laplace.target("Fisher")?, sigma })
    }

    /// Follows every geodesic at a relative tolerance.
    fn follow(&self, metric: &dyn Metric, integrator: Integrator, rtol: f64) -> Outcome<Vec<Geodesic>> {
        let options =
            GeodesicOptions { integrator, max_steps: 100_000, ..GeodesicOptions::with_tolerances(rtol, 1e-3 * rtol) };
        let mut exponential = ExponentialMap::new(metric, options)?;
        let rows = self.velocities.rows();
        rows.into_iter().map(|velocity| Ok(exponential.map(&self.base, &velocity.to_vec())?)).collect()
    }

    /// The mean number of evaluations until a geodesic is certified, starting from a given relative tolerance.
    fn certify(&self, metric: &dyn Metric, integrator: Integrator, rtol: f64) -> Outcome<f64> {
        let mut evaluations = 0;
        for velocity in self.velocities.rows() {
            let mut rtol = rtol;
            for _ in 0..7 {
                let options = GeodesicOptions {
                    integrator,
                    max_steps: 100_000,
                    ..GeodesicOptions::with_tolerances(rtol, 1e-3 * rtol)
                };
                let geodesic = ExponentialMap::new(metric, options)?.map(&self.base, &velocity.to_vec())?;
                evaluations += geodesic.evaluations;
                if geodesic.drift <= TARGET {
                    break;
                }
                rtol *= if geodesic.drift.is_finite() { (0.5 * TARGET / geodesic.drift).clamp(1e-3, 0.2) } else { 0.1 };
            }
        }
        Ok(evaluations as f64 / self.velocities.nrows() as f64)
    }

    fn outputs(&self, theta: &[f64]) -> Vec<f64> {
        let map = self.target.map();
        let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
        Evaluator::new(map, 1).outputs(theta, &mut outputs);
        outputs
    }

    fn report(&self, metric: &dyn Metric) -> Outcome {
        let exact = self.follow(metric, Integrator::Dop853, 1e-10)?;
        let exact: Vec<Vec<f64>> = exact.iter().map(|geodesic| self.outputs(&geodesic.theta)).collect();
        for integrator in Integrator::ALL {
            for rtol in [1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5] {
                let geodesics = self.follow(metric, integrator, rtol)?;
                let total: usize = geodesics.iter().map(|geodesic| geodesic.evaluations).sum();
                let mut drifts: Vec<f64> = geodesics.iter().map(|geodesic| geodesic.drift).collect();
                let mut errors: Vec<f64> = geodesics
                    .iter()
                    .zip(&exact)
                    .map(|(geodesic, exact)| {
                        let outputs = self.outputs(&geodesic.theta);
                        let squares: f64 = outputs.iter().zip(exact).map(|(a, b)| (a - b).powi(2)).sum();
                        (squares / exact.len() as f64).sqrt() / self.sigma
                    })
                    .collect();
                drifts.sort_by(f64::total_cmp);
                errors.sort_by(f64::total_cmp);
                let last = drifts.len() - 1;
                println!(
                    "{:>12}  {:>6}  {integrator:>6}  {rtol:>6.0e}  {:>6.0}  {:>8.1e} {:>8.1e}  {:>8.1e} {:>8.1e}  {:>9.0}",
                    self.name,
                    self.base.len(),
                    total as f64 / drifts.len() as f64,
                    drifts[last / 2],
                    drifts[last],
                    errors[last / 2],
                    errors[last],
                    self.certify(metric, integrator, rtol)?
                );
            }
        }
        Ok(())
    }
}

/// A network of the paper's regression, and its training data.
fn snelson(split: &str, units: &str) -> Outcome<(Network, Dataset)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let data = Table::read(&folder.join("snelson.csv"))?.dataset(&["y".to_string()])?;
    let text = std::fs::read_to_string(folder.join("snelson_split.csv"))?;
    let column = if split == "complete" { 1 } else { 2 };
    let words = text.lines().skip(1).map(|line| line.split(',').nth(column).unwrap_or(""));
    let rows: Vec<usize> = words.enumerate().filter(|(_, word)| *word == "train").map(|(row, _)| row).collect();
    let mut data = data.select(&rows)?;
    if units == "std" {
        data = standardised(&data)?;
    }
    let path = folder.join(format!("snelson_map_{split}_{units}.safetensors"));
    Ok((Network::load(&path, Some(Activation::Tanh))?, data))
}

/// A network 1-W-W-1 trained on y = sin x + 0.3 ε, x uniform on [0, 8], N = 100, standardised; kept for the next run.
fn sine(width: usize) -> Outcome<(Network, Dataset)> {
    let mut random = Uniform(0x9e37_79b9_7f4a_7c15);
    let (mut inputs, mut targets) = (Array2::zeros((100, 1)), Array2::zeros((100, 1)));
    for (x, y) in inputs.iter_mut().zip(&mut targets) {
        *x = 8.0 * random.draw();
        *y = f64::sin(*x) + 0.3 * random.normal();
    }
    let data = standardised(&Dataset::new(inputs, targets)?)?;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sine_{width}.safetensors"));
    if path.exists() {
        return Ok((Network::load(&path, Some(Activation::Tanh))?, data));
    }
    let start = Network::random(Architecture::new(&[1, width, width, 1], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 3000, learning_rate: 1e-3, weight_decay: 1e-4, ..Default::default() };
    let network = train(&start, &data, &Family::gaussian(1.0)?, &options, &())?.network;
    network.save(&path)?;
    Ok((network, data))
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let argument = |index: usize, default: &'static str| arguments.get(index).map_or(default, String::as_str);
    println!("     problem       D  method    rtol       T  drift: median, most  error/σ: median, most  certified");
    for name in argument(0, "complete-raw,gap-raw,complete-std,gap-std,10,30,100").split(',') {
        let problem = Problem::load(name, argument(1, "12").parse()?)?;
        match argument(2, "fisher") {
            "fisher" => problem.report(&metric::fisher(&problem.target))?,
            "monge" => problem.report(&metric::monge(&problem.target))?,
            "empirical-fisher" => problem.report(&metric::empirical_fisher(&problem.target))?,
            other => return Err(format!("unknown metric '{other}'; use fisher, monge or empirical-fisher").into()),
        }
    }
    Ok(())
}
