//! Finding a minimum in few trials: Branin's function and Hartmann's in six dimensions, by the expected improvement of a small
//! network's linearised posterior (`suggest`), beside random search. `gaussian_process.py` does the same with scikit-learn.
//!
//! `cargo run --release --example bayesopt [seeds]`

use std::time::Instant;

use ndarray::Array2;
use rand::Rng;
use riemannian_laplace::internals::evidence::{Free, Mode, ModeOptions, Noise, PriorStructure, train_to_mode};
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{
    Acquisition, Activation, Architecture, Dataset, EvidenceOptions, Family, Goal, Laplace, Network, PriorValues,
    Result, Standardize, SuggestOptions,
};

/// A function on the unit cube, and its minimum.
struct Problem {
    name: &'static str,
    inputs: usize,
    minimum: f64,
    first: usize,
    trials: usize,
    value: fn(&[f64]) -> f64,
}

const PROBLEMS: [Problem; 2] = [
    Problem { name: "Branin", inputs: 2, minimum: 0.397_887, first: 8, trials: 25, value: branin },
    Problem { name: "Hartmann-6", inputs: 6, minimum: -3.322_37, first: 12, trials: 40, value: hartmann },
];
const POOL: usize = 500;
/// σ of the standardised values.
const NOISE: f64 = 0.03;
const ROUNDS: usize = 3;

fn branin(u: &[f64]) -> f64 {
    use std::f64::consts::PI;
    let (x, y) = (15.0 * u[0] - 5.0, 15.0 * u[1]);
    let curve = y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0;
    curve * curve + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos() + 10.0
}

fn hartmann(u: &[f64]) -> f64 {
    const WEIGHTS: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const A: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const P: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let term = |i: usize| {
        let square: f64 = (0..6).map(|k| A[i][k] * (u[k] - P[i][k]).powi(2)).sum();
        WEIGHTS[i] * (-square).exp()
    };
    -(0..4).map(term).sum::<f64>()
}

fn points(problem: &Problem, count: usize, seed: u64, index: u64) -> Array2<f64> {
    let mut random = stream(seed, Purpose::Data, index);
    Array2::from_shape_fn((count, problem.inputs), |_| random.random())
}

fn values(problem: &Problem, points: &Array2<f64>) -> Vec<f64> {
    points.rows().into_iter().map(|row| (problem.value)(&row.to_vec())).collect()
}

/// A network at its mode. Values have no noise (σ is small and stays), and the evidence chooses one prior precision per layer, a few
/// times in turn with the mode.
fn fitted(start: &Network, data: &Dataset) -> Result<Laplace> {
    let tuning = EvidenceOptions {
        prior_structure: PriorStructure::PerLayer,
        sigma: Free::Held,
        bounds: (1e-3, 1e3),
        ..Default::default()
    };
    let mut options = ModeOptions { noise: Noise::Fixed, steps: 30, ..Default::default() };
    let (mut network, family) = (start.clone(), Family::gaussian(NOISE)?);
    for _ in 0..ROUNDS {
        let Mode { network: next, mut laplace, .. } = train_to_mode(&network, data, &family, &options, &())?;
        laplace.optimize(&tuning)?;
        options.prior_precision = PriorValues::PerGroup(laplace.prior().values().to_vec());
        network = next;
    }
    Ok(train_to_mode(&network, data, &family, &options, &())?.laplace)
}

/// The least value after all trials.
fn search(problem: &Problem, seed: u64) -> Result<f64> {
    let mut tried = points(problem, problem.first, seed, 0);
    let mut found = values(problem, &tried);
    while found.len() < problem.trials {
        let targets = Array2::from_shape_fn((found.len(), 1), |(n, _)| found[n]);
        let data = Dataset::new(tried.clone(), targets)?.standardized(Standardize::InputsAndTargets)?;
        let start = Network::random(Architecture::new(&[problem.inputs, 50, 1], Activation::Tanh)?, seed);
        let laplace = fitted(&start, &data)?;
        // Anywhere, and near the best so far.
        let best = (0..found.len()).fold(0, |best, n| if found[n] < found[best] { n } else { best });
        let mut pool = points(problem, POOL, seed, found.len() as u64);
        for n in 0..POOL / 2 {
            for k in 0..problem.inputs {
                pool[(n, k)] = (tried[(best, k)] + 0.2 * (pool[(n, k)] - 0.5)).clamp(0.0, 1.0);
            }
        }
        let goal = Goal::Minimum(Acquisition::ExpectedImprovement);
        let chosen = laplace.suggest(&pool, goal, &SuggestOptions { count: 1, ..Default::default() })?;
        let Some(one) = chosen.rows.first() else { break };
        found.push((problem.value)(&pool.row(one.row).to_vec()));
        tried.push_row(pool.row(one.row)).map_err(|_| riemannian_laplace::Error::Cancelled)?;
    }
    Ok(found.iter().copied().fold(f64::INFINITY, f64::min))
}

fn main() -> Result<()> {
    let seeds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20);
    println!("regret after all trials, mean ± standard error over {seeds} seeds");
    for problem in &PROBLEMS {
        let (mut suggested, mut random) = (Vec::new(), Vec::new());
        let began = Instant::now();
        for seed in 0..seeds {
            suggested.push(search(problem, seed)? - problem.minimum);
            let all = values(problem, &points(problem, problem.trials, seed, 1_000));
            random.push(all.into_iter().fold(f64::INFINITY, f64::min) - problem.minimum);
        }
        let seconds = began.elapsed().as_secs_f64() / (seeds as f64 * (problem.trials - problem.first) as f64);
        let words = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            format!("{mean:.3} ± {:.3}", (variance / (values.len() as f64 - 1.0).max(1.0)).sqrt())
        };
        let (name, trials) = (problem.name, problem.trials);
        println!(
            "{name}, {trials} trials: suggested {}, random {}; {seconds:.2} s an iteration",
            words(&suggested),
            words(&random)
        );
    }
    Ok(())
}
