//! Does influence agree with training again without the row? Self-influence and the effect on a test loss, in closed form, beside refits
//! to the mode, on concrete (10 hidden units) and digits (no hidden units, and 8): with the generalised Gauss-Newton curvature and
//! with the exact Hessian.
//!
//! `cargo run --release --example influence [rows left out] [training rows]`

use std::path::Path;

use rand::seq::SliceRandom;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::evaluate::Influence;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{
    Activation, Architecture, CurvatureKind, Dataset, Family, FitOptions, Laplace, Method, Network, Result, Standardize,
};

/// A network and its data.
struct Case {
    name: &'static str,
    path: &'static str,
    target: &'static str,
    sizes: &'static [usize],
    /// The precision of the prior.
    prior: f64,
}

const CASES: [Case; 3] = [
    Case { name: "concrete 8-10-1", path: "data/uci/concrete.csv", target: "strength", sizes: &[8, 10, 1], prior: 1.0 },
    Case { name: "digits 64-10", path: "data/digits.csv", target: "digit", sizes: &[64, 10], prior: 1.0 },
    Case { name: "digits 64-8-10", path: "data/digits.csv", target: "digit", sizes: &[64, 8, 10], prior: 1.0 },
];

impl Case {
    /// Training and test rows, inputs (and numbers to predict) standardised.
    fn data(&self, rows: usize) -> Result<(Dataset, Dataset)> {
        let all = Table::read(Path::new(self.path))?.dataset(&[self.target.to_string()])?;
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut stream(1, Purpose::Data, 0));
        let which = if self.is_regression() { Standardize::InputsAndTargets } else { Standardize::Inputs };
        let training = all.select(&order[..rows.min(order.len() / 2)])?.standardized(which)?;
        let test = all.select(&order[order.len() / 2..order.len() / 2 + 200])?;
        Ok((training, test))
    }

    fn is_regression(&self) -> bool {
        self.sizes.last() == Some(&1)
    }

    /// The mode from some weights, with the noise as it is or tuned.
    fn mode(&self, start: &Network, data: &Dataset, family: &Family, noise: Noise) -> Result<Laplace> {
        let options = ModeOptions {
            noise,
            prior_precision: self.prior.into(),
            tolerance: 1e-9,
            steps: 300,
            ..Default::default()
        };
        Ok(train_to_mode(start, data, family, &options, &())?.laplace)
    }
}

fn loss(laplace: &Laplace, data: &Dataset) -> Result<f64> {
    Ok(-laplace.predict(data.inputs(), &Method::Map)?.log_densities(data.targets())?.mean().unwrap_or(f64::NAN))
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (first, second) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - first, y - second)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

/// The correlation, and the row on which closed form and refit differ most.
fn agreement(closed: &[f64], refit: &[f64]) -> String {
    let pairs = closed.iter().zip(refit);
    let worst = pairs.reduce(|a, b| if (b.0 - b.1).abs() > (a.0 - a.1).abs() { b } else { a });
    let (found, real) = worst.unwrap_or((&f64::NAN, &f64::NAN));
    format!("{:.3} (worst {found:.3} for {real:.3})", correlation(closed, refit))
}

fn compare(case: &Case, left_out: usize, rows: usize) -> Result<()> {
    let (training, test) = case.data(rows)?;
    let start = Network::random(Architecture::new(case.sizes, Activation::Tanh)?, 1);
    let family = if case.is_regression() { Family::gaussian(1.0)? } else { "categorical".parse()? };
    let laplace = case.mode(&start, &training, &family, Noise::Tuned)?;
    let network = Network::new(start.architecture().clone(), laplace.parameters().to_vec())?;
    let (mut own, mut on_test) = (Vec::new(), Vec::new());
    // Half of the rows are those that look most suspicious, which matter most.
    let mut chosen = Influence::of(&laplace)?.most_suspicious(left_out / 2);
    let others: Vec<usize> =
        (0..training.len()).filter(|row| !chosen.contains(row)).take(left_out - chosen.len()).collect();
    chosen.extend(others);
    for row in &chosen {
        let kept: Vec<usize> = (0..training.len()).filter(|other| other != row).collect();
        let refit = case.mode(&network, &training.select(&kept)?, laplace.family(), Noise::Fixed)?;
        let alone = in_units(&laplace, &training.select(&[*row])?)?;
        own.push(loss(&refit, &alone)? - loss(&laplace, &alone)?);
        on_test.push(loss(&refit, &test)? - loss(&laplace, &test)?);
    }
    for curvature in [CurvatureKind::Ggn, CurvatureKind::Hessian] {
        let options = FitOptions { prior_precision: case.prior.into(), curvature, ..Default::default() };
        let posterior = Laplace::fit(network.clone(), training.clone(), laplace.family().clone(), &options);
        let influence = posterior.and_then(|posterior| Ok((Influence::of(&posterior)?, posterior)));
        let (influence, posterior) = match influence {
            Ok(found) => found,
            Err(error) => {
                println!("{}, {} rows, {}: refused: {error}", case.name, training.len(), curvature.name());
                continue;
            }
        };
        let effect = influence.on_loss(&posterior, &test)?;
        let of = |values: &[f64]| chosen.iter().map(|row| values[*row]).collect::<Vec<f64>>();
        println!(
            "{}, {} rows, {}: self-influence {}; effect on the test loss, times rows, {}",
            case.name,
            training.len(),
            curvature.name(),
            agreement(&of(&influence.of_itself), &own),
            agreement(&scaled(&of(&effect), training.len()), &scaled(&on_test, training.len()))
        );
    }
    Ok(())
}

fn scaled(values: &[f64], by: usize) -> Vec<f64> {
    values.iter().map(|value| value * by as f64).collect()
}

/// Training rows as they were before they were standardised.
fn in_units(laplace: &Laplace, rows: &Dataset) -> Result<Dataset> {
    let schema = laplace.schema();
    Dataset::new(schema.restore_inputs(rows.inputs().view())?, schema.restore_mean(rows.targets().view())?)
}

fn main() -> Result<()> {
    let number =
        |place: usize, usual: usize| std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(usual);
    println!("correlation of {} rows left out with refits", number(1, 40));
    CASES.iter().try_for_each(|case| compare(case, number(1, 40), number(2, 500)))
}
