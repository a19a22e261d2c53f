//! Fewer labels for the same error: on four data sets, rows that tell most about predictions of the pool (`--for target`) or about
//! the weights (`--for uncertainty`), beside rows at random. Each round adds rows, and trains the networks to their modes again.
//!
//! `cargo run --release --example active_learning [seeds] [sets, separated by commas]`

use std::path::Path;

use rand::seq::SliceRandom;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Family, Goal, Laplace, Method, Network, Result, Standardize, SuggestOptions,
};

const SETS: [(&str, &str); 4] =
    [("concrete", "strength"), ("energy", "heating"), ("airfoil", "sound_level"), ("yacht", "resistance")];
/// σ of the standardised targets: with as many weights as rows it cannot be told from the fit.
const NOISE: f64 = 0.1;
const FIRST: usize = 20;
const BATCH: usize = 10;
const ROUNDS: usize = 8;
/// Rows of the pool that stand for the inputs to predict at.
const TARGETS: usize = 200;

/// How rows are chosen.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    Random,
    Uncertainty,
    Target,
}

const CHOICES: [Choice; 3] = [Choice::Random, Choice::Uncertainty, Choice::Target];

fn trained(rows: &[usize], data: &Dataset, seed: u64) -> Result<Laplace> {
    let chosen = data.select(rows)?.standardized(Standardize::InputsAndTargets)?;
    let start = Network::random(Architecture::new(&[data.inputs().ncols(), 10, 1], Activation::Tanh)?, seed);
    let options = ModeOptions { noise: Noise::Fixed, ..Default::default() };
    Ok(train_to_mode(&start, &chosen, &Family::gaussian(NOISE)?, &options, &())?.laplace)
}

/// The root mean squared error on rows that are never chosen.
fn error(laplace: &Laplace, test: &Dataset) -> Result<f64> {
    let mean = laplace.predict(test.inputs(), &Method::Map)?.mean;
    Ok((&mean - test.targets()).mapv(|error| error * error).mean().unwrap_or(f64::NAN).sqrt())
}

/// The places of the next rows among those that are open.
fn next(laplace: &Laplace, data: &Dataset, open: &[usize], choice: Choice) -> Result<Vec<usize>> {
    let pool = data.select(open)?;
    let mut options = SuggestOptions { count: BATCH, ..Default::default() };
    let goal = match choice {
        Choice::Random => return Ok((0..BATCH).collect()),
        Choice::Uncertainty => Goal::Uncertainty,
        Choice::Target => {
            // The pool is in random order.
            let targets: Vec<usize> = (0..TARGETS.min(open.len())).collect();
            options.target_inputs = Some(pool.select(&targets)?.inputs().clone());
            Goal::Target
        }
    };
    Ok(laplace.suggest(pool.inputs(), goal, &options)?.rows.iter().map(|one| one.row).collect())
}

/// The errors after each round.
fn errors(data: &Dataset, order: &[usize], seed: u64, choice: Choice) -> Result<Vec<f64>> {
    let (test, open) = order.split_at(order.len() * 3 / 10);
    let (test, mut open) = (data.select(test)?, open.to_vec());
    let (mut rows, mut errors) = (open.drain(..FIRST).collect::<Vec<usize>>(), Vec::new());
    for round in 0..=ROUNDS {
        let laplace = trained(&rows, data, seed)?;
        errors.push(error(&laplace, &test)?);
        if round < ROUNDS {
            let mut places = next(&laplace, data, &open, choice)?;
            places.sort_unstable_by(|a, b| b.cmp(a));
            rows.extend(places.into_iter().map(|place| open.remove(place)));
        }
    }
    Ok(errors)
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0);
    (mean, (variance / values.len() as f64).sqrt())
}

/// Prints the errors of a set, and what each choice gains over random rows.
fn compare((name, target): (&str, &str), seeds: u64) -> Result<()> {
    let data = Table::read(&Path::new("data/uci").join(format!("{name}.csv")))?.dataset(&[target.to_string()])?;
    let mut all: Vec<Vec<Vec<f64>>> = Vec::new();
    for seed in 0..seeds {
        let mut order: Vec<usize> = (0..data.len()).collect();
        order.shuffle(&mut stream(seed, Purpose::Data, 0));
        all.push(CHOICES.into_iter().map(|choice| errors(&data, &order, seed, choice)).collect::<Result<_>>()?);
    }
    println!(
        "{name}: error; gain over random, paired over {seeds} seeds\nlabels   random    uncertainty             target"
    );
    let line = |label: String, of: &dyn Fn(&[f64]) -> f64| {
        let column = |choice: usize| all.iter().map(|of_seed| of(&of_seed[choice])).collect::<Vec<f64>>();
        let random = column(0);
        let mut text = format!("{label:>6}  {:>7.3}", mean_and_error(&random).0);
        for choice in 1..CHOICES.len() {
            let own = column(choice);
            let gains: Vec<f64> = random.iter().zip(&own).map(|(random, own)| random - own).collect();
            let (gain, error) = mean_and_error(&gains);
            text += &format!("  {:>7.3} ({gain:>6.3} ± {error:.3})", mean_and_error(&own).0);
        }
        println!("{text}");
    };
    for round in 0..=ROUNDS {
        line((FIRST + BATCH * round).to_string(), &|errors| errors[round]);
    }
    line("mean".to_string(), &|errors| errors[1..].iter().sum::<f64>() / ROUNDS as f64);
    Ok(())
}

fn main() -> Result<()> {
    let seeds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let sets = SETS.into_iter().filter(|(name, _)| wanted.is_empty() || wanted.split(',').any(|one| one == *name));
    sets.into_iter().try_for_each(|set| compare(set, seeds))
}
