//! The standard regression benchmark: yacht, energy, concrete and wine with the protocol of Hernández-Lobato and Adams
//! (2015) and the splits of Gal and Ghahramani (2016).
//!
//! `cargo bench --bench uci -- [sets] [splits] [riemannian splits] [committee splits]`, by default all sets, 20 splits, 5 of
//! them with geodesics, and 20 with committees (0 leaves a part out). Every cell (a split's network, its geodesics, or its
//! committee) is kept in `target/uci`, and only what is missing is computed.
//!
//! One hidden layer of 50 tanh units, inputs and targets standardised by the training rows. The network is trained to a mode
//! of its posterior under the prior that predicts held-out thirds of the training rows best ([`train_along_priors`]); σ
//! follows from the fit. Scores on the test rows in original units: root mean squared error and mean log likelihood of the
//! network alone (with that σ), of the linearised posterior, and of the mixture over 30 Fisher geodesics; and of
//! whichever leave-one-out on the training rows prefers. Beside them the committee of [`train_committee`]: the networks that
//! cross-validation trains anyway, mixed by how well they predict the training rows that they have not seen.

mod splits;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::evaluate::{
    ClosedForms, Committee, LeaveOneOut, PriorPath, PriorPathOptions, train_along_priors, train_committee,
};
use riemannian_laplace::prelude::*;
use serde::{Deserialize, Serialize};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Name, target column, and MC dropout's published RMSE and log likelihood (Gal and Ghahramani 2016, table 1).
const SETS: [(&str, &str, f64, f64); 4] = [
    ("yacht", "resistance", 0.67, -1.25),
    ("energy", "heating", 0.54, -1.21),
    ("concrete", "strength", 4.82, -2.93),
    ("wine_red", "quality", 0.62, -0.93),
];
const HIDDEN: usize = 50;
const GEODESICS: usize = 30;
/// The folds of a committee.
const FOLDS: usize = 5;

/// One method on one split.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Score {
    rmse: f64,
    log_likelihood: f64,
    /// On the training rows, in nats per row.
    leave_one_out: f64,
    /// Whether that may be compared with others.
    comparable: bool,
}

impl Score {
    fn of(prediction: &Prediction, test: &Dataset, loo: &LeaveOneOut) -> Outcome<Self> {
        let Scores::Regression(scores) = Scores::of(prediction, test.targets())? else {
            return Err("no scores".into());
        };
        let leave_one_out = loo.elpd() / loo.pointwise.len() as f64;
        Ok(Self { rmse: scores.rmse, log_likelihood: -scores.nll, leave_one_out, comparable: loo.is_comparable() })
    }
}

/// The network alone and the linearised posterior of one split.
#[derive(Debug, Serialize, Deserialize)]
struct Plain {
    map: Score,
    linearized: Score,
    prior_precision: f64,
    sigma: f64,
    evidence: f64,
    effective_parameters: f64,
    /// Prior precisions and the mean log density of held-out training rows under them.
    held_out: Vec<(f64, f64)>,
    converged: bool,
    seconds: f64,
}

/// The geodesics of one split.
#[derive(Debug, Serialize, Deserialize)]
struct Sampled {
    riemannian: Score,
    uncertified: usize,
    evaluations: f64,
    seconds: f64,
}

/// The committee of one split.
#[derive(Debug, Serialize, Deserialize)]
struct Together {
    rmse: f64,
    log_likelihood: f64,
    /// Mean log density of training rows, predicted by members that have not seen them.
    held_out: f64,
    /// Prior precisions, and the same of the networks under each of them alone.
    path: Vec<(f64, f64)>,
    /// The members' prior precisions and weights.
    members: Vec<(f64, f64)>,
    seconds: f64,
}

/// A data set and one of its splits.
struct Cell {
    name: &'static str,
    target: &'static str,
    split: usize,
}

impl Cell {
    fn path(&self, what: &str) -> PathBuf {
        folder("target/uci").join(format!("{}_{:02}_{what}", self.name, self.split))
    }

    /// Training data (standardised) and test data (as they are).
    fn data(&self) -> Outcome<(Dataset, Dataset)> {
        let table = Table::read(&folder("data/uci").join(format!("{}.csv", self.name)))?;
        let data = table.dataset(&[self.target.to_string()])?;
        let (train, test) = splits::split(data.len(), self.split);
        Ok((data.select(&train)?.standardized(Standardize::InputsAndTargets)?, data.select(&test)?))
    }

    fn start(&self, data: &Dataset) -> Outcome<Network> {
        let architecture = Architecture::new(&[data.inputs().ncols(), HIDDEN, 1], Activation::Tanh)?;
        Ok(Network::random(architecture, self.split as u64))
    }

    /// The network at a mode of its posterior, under the prior that predicts held-out parts of the training rows best.
    fn train(&self, data: &Dataset) -> Outcome<PriorPath> {
        Ok(train_along_priors(&self.start(data)?, data, &Family::gaussian(1.0)?, &PriorPathOptions::default(), &())?)
    }

    /// The network alone and the linearised posterior, whose posterior is kept for the geodesics.
    fn plain(&self) -> Outcome<Plain> {
        let path = self.path("plain.json");
        if let Ok(text) = std::fs::read_to_string(&path) {
            return Ok(serde_json::from_str(&text)?);
        }
        let began = Instant::now();
        let (train, test) = self.data()?;
        let found = self.train(&train)?;
        let laplace = found.mode.laplace;
        laplace.save(&self.path("posterior.safetensors"), Contents::TrainingData)?;
        let closed = ClosedForms::of(&laplace, Link::default())?;
        let predict = |method: &Method| laplace.predict(test.inputs(), method);
        let plain = Plain {
            map: Score::of(&predict(&Method::Map)?, &test, &closed.map)?,
            linearized: Score::of(&predict(&Method::default())?, &test, &closed.linearized)?,
            prior_precision: laplace.prior().values()[0],
            sigma: laplace.sigma().and_then(|sigma| sigma.first().copied()).unwrap_or(f64::NAN),
            evidence: laplace.log_marginal_likelihood(),
            effective_parameters: laplace.effective_parameters(),
            held_out: found.steps.iter().map(|step| (step.prior_precision, step.held_out)).collect(),
            converged: found.mode.converged,
            seconds: began.elapsed().as_secs_f64(),
        };
        std::fs::write(path, serde_json::to_string(&plain)?)?;
        eprintln!("{} {}: {plain:?}", self.name, self.split);
        Ok(plain)
    }

    /// The committee.
    fn together(&self) -> Outcome<Together> {
        let path = self.path("committee.json");
        if let Ok(text) = std::fs::read_to_string(&path) {
            return Ok(serde_json::from_str(&text)?);
        }
        let began = Instant::now();
        let (train, test) = self.data()?;
        let options = PriorPathOptions { folds: FOLDS, ..Default::default() };
        let committee: Committee =
            train_committee(&self.start(&train)?, &train, &Family::gaussian(1.0)?, &options, &())?;
        let Scores::Regression(scores) = Scores::of(&committee.predict(test.inputs())?, test.targets())? else {
            return Err("no scores".into());
        };
        let members = committee.members.iter().map(|member| (member.laplace.prior().values()[0], member.weight));
        let together = Together {
            rmse: scores.rmse,
            log_likelihood: -scores.nll,
            held_out: committee.held_out,
            path: committee.steps.iter().map(|step| (step.prior_precision, step.held_out)).collect(),
            members: members.collect(),
            seconds: began.elapsed().as_secs_f64(),
        };
        std::fs::write(path, serde_json::to_string(&together)?)?;
        eprintln!("{} {}: {together:?}", self.name, self.split);
        Ok(together)
    }

    /// The geodesics, from the posterior that [`plain`](Self::plain) kept.
    fn sampled(&self) -> Outcome<Sampled> {
        let path = self.path("sampled.json");
        if let Ok(text) = std::fs::read_to_string(&path) {
            return Ok(serde_json::from_str(&text)?);
        }
        let began = Instant::now();
        let (_, test) = self.data()?;
        let laplace = Laplace::load(&self.path("posterior.safetensors"))?;
        let samples =
            Arc::new(laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(GEODESICS), &())?);
        let loo = LeaveOneOut::of_samples(&laplace, &samples)?;
        let prediction = laplace.predict(test.inputs(), &Method::Samples(samples.clone()))?;
        let sampled = Sampled {
            riemannian: Score::of(&prediction, &test, &loo)?,
            uncertified: samples.failed() + samples.uncertified(),
            evaluations: samples.mean_evaluations(),
            seconds: began.elapsed().as_secs_f64(),
        };
        std::fs::write(path, serde_json::to_string(&sampled)?)?;
        eprintln!("{} {}: {sampled:?}", self.name, self.split);
        Ok(sampled)
    }
}

/// A folder of the repository.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Mean ± standard error.
fn mean(values: &[f64]) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    format!("{mean:.3} ± {:.3}", (variance / count).sqrt())
}

fn row(scores: &[&Score]) -> String {
    let of = |value: fn(&Score) -> f64| mean(&scores.iter().map(|score| value(score)).collect::<Vec<f64>>());
    format!("{} / {}", of(|score| score.rmse), of(|score| score.log_likelihood))
}

/// The score that leave-one-out prefers, among those that may be compared: the closed forms, and geodesics where they are
/// enough for the effective parameters.
fn chosen<'a>(scores: &[&'a Score]) -> &'a Score {
    let better = |best: &'a Score, score: &&'a Score| {
        if score.comparable && score.leave_one_out > best.leave_one_out { *score } else { best }
    };
    scores.iter().fold(scores[0], better)
}

/// One network: alone, linearised, and along geodesics.
fn networks(names: &[&str], splits: usize, geodesic_splits: usize) -> Outcome {
    println!("| set | splits | MAP | linearised | RLA-F | leave-one-out's choice | MC dropout |");
    println!("|---|---|---|---|---|---|---|");
    for (name, target, rmse, log_likelihood) in SETS.into_iter().filter(|set| names.contains(&set.0)) {
        let cell = |split| Cell { name, target, split };
        let plain: Vec<Plain> = (0..splits).map(|split| cell(split).plain()).collect::<Outcome<_>>()?;
        let sampled: Vec<Sampled> =
            (0..geodesic_splits.min(splits)).map(|split| cell(split).sampled()).collect::<Outcome<_>>()?;
        let published = format!("{rmse:.2} / {log_likelihood:.2}");
        let map: Vec<&Score> = plain.iter().map(|cell| &cell.map).collect();
        let linearized: Vec<&Score> = plain.iter().map(|cell| &cell.linearized).collect();
        let both: Vec<&Score> = plain.iter().map(|cell| chosen(&[&cell.map, &cell.linearized])).collect();
        println!("| {name} | {splits} | {} | {} | – | {} | {published} |", row(&map), row(&linearized), row(&both));
        if !sampled.is_empty() {
            let riemannian: Vec<&Score> = sampled.iter().map(|cell| &cell.riemannian).collect();
            let all: Vec<&Score> = plain
                .iter()
                .zip(&riemannian)
                .map(|(plain, riemannian)| chosen(&[&plain.map, &plain.linearized, riemannian]))
                .collect();
            let first = riemannian.len();
            println!(
                "| {name} | first {first} | {} | {} | {} | {} | {published} |",
                row(&map[..first]),
                row(&linearized[..first]),
                row(&riemannian),
                row(&all),
            );
        }
    }
    Ok(())
}

/// Committees, beside the best of their priors alone by its own cross-validation.
fn committees(names: &[&str], splits: usize) -> Outcome {
    println!("| set | splits | committee | held out, committee | held out, best prior alone | members | MC dropout |");
    println!("|---|---|---|---|---|---|---|");
    for (name, target, rmse, log_likelihood) in SETS.into_iter().filter(|set| names.contains(&set.0)) {
        let cell = |split| Cell { name, target, split }.together();
        let cells: Vec<Together> = (0..splits).map(cell).collect::<Outcome<_>>()?;
        let of = |value: fn(&Together) -> f64| mean(&cells.iter().map(value).collect::<Vec<f64>>());
        println!(
            "| {name} | {splits} | {} / {} | {} | {} | {} | {rmse:.2} / {log_likelihood:.2} |",
            of(|cell| cell.rmse),
            of(|cell| cell.log_likelihood),
            of(|cell| cell.held_out),
            of(|cell| cell.path.iter().map(|step| step.1).fold(f64::NEG_INFINITY, f64::max)),
            of(|cell| cell.members.len() as f64),
        );
    }
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let names: Vec<&str> = match arguments.first().map(String::as_str) {
        None | Some("all") => SETS.iter().map(|set| set.0).collect(),
        Some(names) => names.split(',').collect(),
    };
    let count = |place: usize, usual: usize| arguments.get(place).map_or(Ok(usual), |text| text.parse());
    let (splits, geodesic_splits, committee_splits) = (count(1, 20)?, count(2, 5)?, count(3, 20)?);
    std::fs::create_dir_all(folder("target/uci"))?;
    println!("RMSE / log likelihood on the test rows, mean ± standard error over splits\n");
    if committee_splits > 0 {
        committees(&names, committee_splits)?;
    }
    if splits > 0 {
        networks(&names, splits, geodesic_splits)?;
    }
    Ok(())
}
