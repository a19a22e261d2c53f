//! Fewer labels for the same error: concrete's strength, with rows chosen by what they tell about the weights (`suggest`) beside rows
//! at random. Each round adds rows to both, and trains both networks to their modes again.
//!
//! `cargo run --release --example active_learning [seeds]`

use std::path::Path;

use rand::seq::SliceRandom;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::evidence::{ModeOptions, train_to_mode};
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Family, Goal, Laplace, Method, Network, Result, Standardize, SuggestOptions,
};

const FIRST: usize = 20;
const BATCH: usize = 20;
const ROUNDS: usize = 5;
const TEST_ROWS: usize = 300;

fn trained(rows: &[usize], data: &Dataset, seed: u64) -> Result<Laplace> {
    let chosen = data.select(rows)?.standardized(Standardize::InputsAndTargets)?;
    let start = Network::random(Architecture::new(&[8, 10, 1], Activation::Tanh)?, seed);
    Ok(train_to_mode(&start, &chosen, &Family::gaussian(1.0)?, &ModeOptions::default(), &())?.laplace)
}

/// The root mean squared error on rows that are never chosen.
fn error(laplace: &Laplace, test: &Dataset) -> Result<f64> {
    let mean = laplace.predict(test.inputs(), &Method::Map)?.mean;
    Ok((&mean - test.targets()).mapv(|error| error * error).mean().unwrap_or(f64::NAN).sqrt())
}

/// The errors after each round, with rows that are suggested or taken in their order.
fn errors(data: &Dataset, order: &[usize], seed: u64, suggested: bool) -> Result<Vec<f64>> {
    let (test, open) = order.split_at(TEST_ROWS);
    let (test, mut open) = (data.select(test)?, open.to_vec());
    let (mut rows, mut errors) = (open.drain(..FIRST).collect::<Vec<usize>>(), Vec::new());
    for round in 0..=ROUNDS {
        let laplace = trained(&rows, data, seed)?;
        errors.push(error(&laplace, &test)?);
        if round == ROUNDS {
            break;
        }
        let mut places: Vec<usize> = if suggested {
            let options = SuggestOptions { count: BATCH, ..Default::default() };
            let pool = data.select(&open)?;
            laplace.suggest(pool.inputs(), Goal::Uncertainty, &options)?.rows.iter().map(|one| one.row).collect()
        } else {
            (0..BATCH).collect()
        };
        places.sort_unstable_by(|a, b| b.cmp(a));
        rows.extend(places.into_iter().map(|place| open.remove(place)));
    }
    Ok(errors)
}

fn main() -> Result<()> {
    let seeds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let data = Table::read(Path::new("data/uci/concrete.csv"))?.dataset(&["strength".to_string()])?;
    let mut differences = vec![Vec::new(); ROUNDS + 1];
    let mut sums = [[0.0; 2]; ROUNDS + 1];
    for seed in 0..seeds {
        let mut order: Vec<usize> = (0..data.len()).collect();
        order.shuffle(&mut stream(seed, Purpose::Data, 0));
        let (random, suggested) = (errors(&data, &order, seed, false)?, errors(&data, &order, seed, true)?);
        for (round, (random, suggested)) in random.iter().zip(&suggested).enumerate() {
            differences[round].push(random - suggested);
            sums[round][0] += random / seeds as f64;
            sums[round][1] += suggested / seeds as f64;
        }
    }
    println!("labels   random  suggested  gain (paired, {seeds} seeds)");
    for (round, gains) in differences.iter().enumerate() {
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let variance =
            gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (gains.len() as f64 - 1.0).max(1.0);
        let error = (variance / gains.len() as f64).sqrt();
        let labels = FIRST + BATCH * round;
        println!("{labels:>6}  {:>7.2}  {:>9.2}  {mean:>6.2} ± {error:.2}", sums[round][0], sums[round][1]);
    }
    Ok(())
}
