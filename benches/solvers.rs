//! The metric's solvers by problem: what a certified Fisher geodesic costs with each of them.
//!
//! `cargo bench --bench solvers -- [problems] [samples] [solvers]`, by default all problems, two samples each, and all
//! solvers that are not hopeless. Problems: `snelson` (1-10-1, 150 data points), `sine` (1-100-100-1, 100), `wide`
//! (1-1000-1000-1, the same 100), `digits` (64-32-10, 1,347, categorical), `regression` (8-50-50-1, 5,000); solvers: `weight-space`, `function-space`,
//! `weight-space-cg`, `function-space-cg`, `matrix-free`, and `auto` for the one that counted work chooses. Networks are
//! trained here, once.
//!
//! For each: evaluations and seconds of processor time per sample, products with the system per evaluation and factors per
//! sample of iterative solvers, picoseconds per counted multiply-add (from which the constants of the cost model are taken),
//! the largest drift at the end, the largest distance from the graph of the outputs, and the largest distance of the end's
//! outputs at the data, in units of σ (or of the logits), from those of the solver listed first.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::geodesic::{ExponentialMap, Geodesic};
use riemannian_laplace::internals::laplace::Structure;
use riemannian_laplace::internals::map::{Evaluator, Map};
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::internals::metric::{IterativeOptions, MatrixFreeOptions, Space};
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{
    Activation, Architecture, Dataset, EvidenceOptions, Family, FitOptions, GeodesicOptions, Laplace, Network,
    TrainingOptions, train,
};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Geodesics to follow.
struct Problem {
    name: String,
    base: Vec<f64>,
    velocities: Array2<f64>,
    target: Target,
    sigma: f64,
}

impl Problem {
    fn load(name: &str, samples: usize) -> Outcome<Self> {
        let (network, data, family) = match name {
            "snelson" => snelson()?,
            "sine" => sine("sine", 100, 1000)?,
            "wide" => sine("wide", 1000, 100)?,
            "digits" => digits()?,
            "regression" => regression()?,
            other => return Err(format!("unknown problem '{other}'").into()),
        };
        let mut laplace = Laplace::fit(network, data, family, &FitOptions::default())?;
        laplace.optimize(&EvidenceOptions::default())?;
        let base = laplace.parameters().to_vec();
        let mut velocities = laplace.sample(samples, 0)?;
        for mut row in velocities.rows_mut() {
            row.iter_mut().zip(&base).for_each(|(value, base)| *value -= base);
        }
        let sigma = laplace.family().sigma().and_then(|sigma| sigma.first().copied()).unwrap_or(1.0);
        Ok(Self { name: name.to_string(), base, velocities, target: laplace.target("Fisher")?, sigma })
    }

    /// The Fisher metric with a solver by name.
    fn metric(&self, solver: &str) -> Outcome<Pullback> {
        let (metric, base) = (metric::fisher(&self.target), &self.base);
        let (solver, tolerance) = match solver.split_once('@') {
            Some((solver, tolerance)) => (solver, tolerance.parse()?),
            None => (solver, IterativeOptions::default().tolerance),
        };
        let iterative = |space| IterativeOptions { space: Some(space), tolerance, ..Default::default() };
        Ok(match solver {
            "auto" => metric.with_cheapest_solver(base, 3e-4)?,
            "weight-space" => metric.with_structure(Structure::WeightSpace),
            "function-space" => metric.with_structure(Structure::FunctionSpace),
            "weight-space-cg" => metric.with_iteration(base, iterative(Space::Weights))?,
            "function-space-cg" => metric.with_iteration(base, iterative(Space::Functions))?,
            "matrix-free" => metric.with_matrix_free(base, MatrixFreeOptions::default())?,
            other => return Err(format!("unknown solver '{other}'").into()),
        })
    }

    fn outputs(&self, theta: &[f64]) -> Vec<f64> {
        let map: &Arc<dyn Map> = self.target.map();
        let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
        Evaluator::new(map, 1).outputs(theta, &mut outputs);
        outputs
    }

    /// The multiply-adds that the cost model counts for one evaluation of a solver that takes this many products.
    fn counted_work(&self, metric: &Pullback, products: f64) -> f64 {
        let map = self.target.map();
        let (p, d) = (map.n_outputs(), map.n_params() as f64);
        let m = (map.n_points() * p) as f64;
        match metric.structure() {
            Some(Structure::WeightSpace) => map.curvature_work(p) + d.powi(3) / 6.0,
            Some(_) => map.gram_work(p) + m.powi(3) / 6.0,
            None => products * 2.0 * map.product_work(p),
        }
    }

    fn report(&self, solvers: &[&str]) -> Outcome {
        let map = self.target.map();
        let mut first: Option<Vec<Vec<f64>>> = None;
        for solver in solvers {
            let metric = self.metric(solver)?;
            let mut exponential = ExponentialMap::new(&metric, GeodesicOptions::default())?;
            let start = processor_seconds();
            let rows = self.velocities.rows().into_iter();
            let ends: Vec<Geodesic> =
                rows.map(|velocity| exponential.map(&self.base, &velocity.to_vec())).collect::<Result<_, _>>()?;
            let count = ends.len() as f64;
            let seconds = (processor_seconds() - start) / count;
            let outputs: Vec<Vec<f64>> = ends.iter().map(|end| self.outputs(&end.theta)).collect();
            let reference = first.get_or_insert_with(|| outputs.clone());
            let away = |(one, other): (&Vec<f64>, &Vec<f64>)| {
                let squares: f64 = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
                (squares / one.len() as f64).sqrt() / self.sigma
            };
            let away = outputs.iter().zip(&*reference).map(away).fold(0.0, f64::max);
            let most = |value: fn(&Geodesic) -> f64| ends.iter().map(value).fold(0.0, f64::max);
            let report = metric.solver_report().unwrap_or_default();
            let evaluations = ends.iter().map(|end| end.evaluations).sum::<usize>() as f64 / count;
            println!(
                "{:>11} {:>6} {:>6}  {:<22} {:>3}/{:<3} {:>6.0} {:>8.3} s {:>8.1} {:>7.1} {:>7.0} {:>8.1e} {:>8.1e} {:>8.1e}",
                self.name,
                self.base.len(),
                map.n_points() * map.n_outputs(),
                if *solver == "auto" { format!("auto: {}", metric.solver_name()) } else { solver.to_string() },
                ends.iter().filter(|end| end.certified).count(),
                ends.len(),
                evaluations,
                seconds,
                report.mean_products(),
                report.factors as f64 / count,
                1e12 * seconds / (evaluations * self.counted_work(&metric, report.mean_products())),
                most(|end| end.drift),
                most(|end| end.off_graph.unwrap_or(f64::NAN)),
                away,
            );
        }
        Ok(())
    }
}

/// Processor time of this process so far, in hundredths of a second; wall time where the system does not say.
fn processor_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    let ticks = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| {
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    });
    ticks.map_or_else(|| start.elapsed().as_secs_f64(), |ticks| 0.01 * ticks)
}

fn data_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// A network of these widths trained on the data; kept for the next run.
fn trained(name: &str, widths: &[usize], data: &Dataset, family: &Family, epochs: usize) -> Outcome<Network> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("solvers_{name}.safetensors"));
    if path.exists() {
        return Ok(Network::load(&path, Some(Activation::Tanh))?);
    }
    let start = Network::random(Architecture::new(widths, Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs, learning_rate: 1e-3, weight_decay: 1e-4, ..Default::default() };
    let network = train(&start, data, family, &options, &())?.network;
    network.save(&path)?;
    Ok(network)
}

/// The paper's regression with the complete data.
fn snelson() -> Outcome<(Network, Dataset, Family)> {
    let data = Table::read(&data_folder().join("snelson.csv"))?.dataset(&["y".to_string()])?;
    let text = std::fs::read_to_string(data_folder().join("snelson_split.csv"))?;
    let words = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap_or(""));
    let rows: Vec<usize> = words.enumerate().filter(|(_, word)| *word == "train").map(|(row, _)| row).collect();
    let network = Network::load(&data_folder().join("snelson_map_complete_raw.safetensors"), Some(Activation::Tanh))?;
    Ok((network, data.select(&rows)?, Family::gaussian(1.0)?))
}

/// Normal numbers of this bench.
fn normal(count: usize, index: u64) -> Vec<f64> {
    let mut numbers = vec![0.0; count];
    fill_standard_normal(&mut stream(0, Purpose::Data, index), &mut numbers);
    numbers
}

/// y = sin 2x + 0.3 ε, x normal, N = 100, and a network of two hidden layers of this width.
fn sine(name: &str, width: usize, epochs: usize) -> Outcome<(Network, Dataset, Family)> {
    let (inputs, noise) = (normal(100, 1), normal(100, 2));
    let targets: Vec<f64> = inputs.iter().zip(&noise).map(|(x, e)| (2.0 * x).sin() + 0.3 * e).collect();
    let data = Dataset::new(Array2::from_shape_vec((100, 1), inputs)?, Array2::from_shape_vec((100, 1), targets)?)?;
    let family = Family::gaussian(1.0)?;
    Ok((trained(name, &[1, width, width, 1], &data, &family, epochs)?, data, family))
}

/// Three of four handwritten digits, 8 × 8 pixels.
fn digits() -> Outcome<(Network, Dataset, Family)> {
    let all = Table::read(&data_folder().join("digits.csv"))?.dataset(&["digit".to_string()])?;
    let rows: Vec<usize> = (0..all.inputs().nrows()).filter(|row| row % 4 != 3).take(1347).collect();
    let data = all.select(&rows)?;
    let data = Dataset::new(data.inputs().mapv(|pixel| pixel / 16.0), data.targets().clone())?;
    let family: Family = "categorical".parse()?;
    Ok((trained("digits", &[64, 32, 10], &data, &family, 300)?, data, family))
}

/// Friedman's function of five of eight inputs, with noise, N = 5,000.
fn regression() -> Outcome<(Network, Dataset, Family)> {
    let inputs = Array2::from_shape_vec((5000, 8), normal(40_000, 3))?;
    let mut targets = Array2::from_shape_vec((5000, 1), normal(5000, 4))?.mapv(|noise| 0.1 * noise);
    for (x, y) in inputs.axis_iter(Axis(0)).zip(targets.iter_mut()) {
        *y += (x[0] * x[1]).sin() + 0.5 * x[2] * x[2] + 0.5 * x[3] - 0.3 * x[4];
    }
    let data = Dataset::new(inputs, targets)?;
    let family = Family::gaussian(1.0)?;
    Ok((trained("regression", &[8, 50, 50, 1], &data, &family, 60)?, data, family))
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let argument = |index: usize, default: &'static str| arguments.get(index).map_or(default, String::as_str);
    println!(
        "    problem      D      M  solver            certified      T    seconds products factors ps/madd    drift off graph    away"
    );
    for name in argument(0, "snelson,sine,wide,digits,regression").split(',') {
        let problem = Problem::load(name, argument(1, "2").parse()?)?;
        let solvers = match name {
            "snelson" => "weight-space,function-space,weight-space-cg,function-space-cg,matrix-free,auto",
            "sine" => "function-space,weight-space-cg,function-space-cg,matrix-free,auto",
            "wide" => "function-space,auto",
            _ => "weight-space,weight-space-cg,function-space-cg,matrix-free,auto",
        };
        problem.report(&arguments.get(2).map_or(solvers, String::as_str).split(',').collect::<Vec<&str>>())?;
    }
    Ok(())
}
