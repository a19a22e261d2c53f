//! Does a small network know what it does not know? The paper's regression (Yu et al. 2024, section 5.4, Table 3 and the
//! supplement's "Standardized data"): a 1-10-1 tanh network on Snelson's data, with complete training data and with a gap
//! for 1.5 ≤ x ≤ 3, in original and in standardised units.
//!
//! It starts from four networks that were trained in PyTorch by the paper's recipe and are kept fixed, as the paper keeps
//! its MAP fixed. `--train` trains them in candle instead.

#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use riemannian_laplace::data::Dataset;
use riemannian_laplace::evaluate::{RegressionScores, Scores};
use riemannian_laplace::evidence::EvidenceOptions;
use riemannian_laplace::geodesic::{GeodesicOptions, MetricName, SamplerOptions, SamplingMetric};
use riemannian_laplace::laplace::{FitOptions, Laplace};
use riemannian_laplace::likelihood::Family;
use riemannian_laplace::network::{Activation, Architecture, Network, TrainingOptions, train};
use riemannian_laplace::predict::Link;
use riemannian_laplace::{Error, Result};
use support::experiment::{Scaling, Split, data_folder, grid};
use support::figure::{self, BandPanel};
use support::table::{TextTable, mean_and_deviation, with_deviation};

/// Uncertainty of a small network on Snelson's data: every method, beside the paper's numbers
#[derive(Debug, Parser)]
struct Options {
    /// Train the networks in candle (Adam, 20,000 epochs, several seeds, the one with the highest evidence kept)
    #[arg(long)]
    train: bool,
    /// A run of a few seconds: few samples, one repeat, no slow methods
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every method at the paper's size: 500 samples, five repeats
    #[arg(long)]
    full: bool,
    /// Where to draw the figure, as <PATH>.svg and <PATH>.png
    #[arg(long, value_name = "PATH", default_value = "figures/snelson")]
    figure: PathBuf,
}

/// A way to predict, and what the paper reports for it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Map,
    Ela,
    Linearized,
    Riemannian(SamplingMetric),
}

const RLA_B: Method = Method::Riemannian(SamplingMetric::Plain(MetricName::Monge));
const RLA_BLOG: Method = Method::Riemannian(SamplingMetric::MongeLog);
const RLA_F: Method = Method::Riemannian(SamplingMetric::Plain(MetricName::Fisher));

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Map => "MAP",
            Method::Ela => "ELA",
            Method::Linearized => "linearised",
            RLA_B => "RLA-B",
            RLA_BLOG => "RLA-BLog",
            Method::Riemannian(_) => "RLA-F",
        }
    }

    /// MSE, NLL and T of Table 3 (raw) and of the supplement's table (standardised): complete, then gap.
    fn paper(self, split: Split, standardised: bool) -> Option<(f64, f64, Option<f64>)> {
        let complete = split == Split::Complete;
        Some(match (self, standardised, complete) {
            (Method::Ela, false, true) => (2.235, 3.02, None),
            (Method::Ela, false, false) => (1.365, 3.171, None),
            (Method::Ela, true, true) => (0.718, 2.538, None),
            (Method::Ela, true, false) => (1.497, 2.659, None),
            (RLA_B, false, true) => (0.2, 0.193, Some(6677.8)),
            (RLA_B, false, false) => (1.646, 1.031, Some(6573.2)),
            (RLA_B, true, true) => (0.072, 0.11, Some(2065.4)),
            (RLA_B, true, false) => (0.149, 0.599, Some(2109.5)),
            (RLA_BLOG, false, true) => (0.107, 0.201, Some(6674.7)),
            (RLA_BLOG, false, false) => (0.27, 1.122, Some(4793.9)),
            (RLA_BLOG, true, true) => (0.072, 0.121, Some(1428.1)),
            (RLA_BLOG, true, false) => (0.107, 0.706, Some(1415.3)),
            (RLA_F, false, true) => (0.072, 0.121, Some(242.9)),
            (RLA_F, false, false) => (0.564, 1.063, Some(727.7)),
            (RLA_F, true, true) => (0.071, 0.115, Some(77.7)),
            (RLA_F, true, false) => (0.122, 0.805, Some(88.7)),
            _ => return None,
        })
    }
}

/// How many samples and repeats a method gets.
#[derive(Debug, Clone, Copy)]
struct Effort {
    samples: usize,
    repeats: usize,
}

impl Options {
    /// The methods of this run with their effort; the slow ones are reduced unless `--full`.
    fn methods(&self) -> Vec<(Method, Effort)> {
        let once = Effort { samples: 1, repeats: 1 };
        let fast = if self.quick { Effort { samples: 60, repeats: 1 } } else { Effort { samples: 500, repeats: 5 } };
        let slow = if self.full { fast } else { Effort { samples: 20, repeats: 1 } };
        let mut methods = vec![(Method::Map, once), (Method::Ela, fast), (Method::Linearized, once)];
        if !self.quick {
            methods.push((RLA_B, slow));
        }
        if self.full {
            methods.push((RLA_BLOG, slow));
        }
        methods.push((RLA_F, fast));
        methods
    }
}

/// One task: the data in the network's units, the fitted posterior, and the way back to original units.
struct Task {
    split: Split,
    scaling: Scaling,
    train: Dataset,
    test: Dataset,
    posterior: Laplace,
}

impl Task {
    fn prepare(split: Split, standardised: bool, options: &Options) -> Result<Self> {
        let (train_data, test_data) = split.load()?;
        let scaling = if standardised { Scaling::of(&train_data) } else { Scaling::NONE };
        let (train_data, test_data) = (scaling.apply(&train_data)?, scaling.apply(&test_data)?);
        let posterior = if options.train {
            trained(&train_data, if standardised { 1e-4 } else { 1e-5 })?
        } else {
            let units = if standardised { "std" } else { "raw" };
            let path = data_folder().join(format!("snelson_map_{}_{units}.safetensors", split.name()));
            tuned(Network::load(&path, Some(Activation::Tanh))?, &train_data)?
        };
        Ok(Self { split, scaling, train: train_data, test: test_data, posterior })
    }

    /// Scores in original units: y = m + s·y′ multiplies the MSE by s² and adds log s to the NLL.
    fn in_original_units(&self, scores: &Scores) -> (f64, f64) {
        let deviation = self.scaling.y.1;
        match scores {
            Scores::Regression(RegressionScores { mse, nll, .. }) => (mse * deviation.powi(2), nll + deviation.ln()),
            other => (f64::NAN, other.nll()),
        }
    }

    /// Sampled weights of a method, with evaluations, drift and failures where geodesics are followed.
    fn weights(&self, method: Method, effort: Effort, repeat: u64) -> Result<(ndarray::Array2<f64>, Run)> {
        let mut run = Run::default();
        let start = Instant::now();
        let weights = match method {
            Method::Riemannian(metric) => {
                // The Monge metrics at the paper's fixed tolerances; refining them to a drift target takes minutes.
                let geodesic = match metric {
                    SamplingMetric::Plain(MetricName::Fisher) => GeodesicOptions::default(),
                    _ => GeodesicOptions::with_tolerances(1e-3, 1e-6),
                };
                let options = SamplerOptions { samples: effort.samples, seed: repeat, geodesic };
                let bar = progress(method.name(), effort.samples);
                let samples = self.posterior.sample_riemannian(metric, &options, &|| bar.inc(1))?;
                bar.finish_and_clear();
                run.evaluations = Some(samples.mean_evaluations());
                run.drift = Some(samples.max_drift());
                run.failed = samples.failed();
                if samples.failed() == samples.len() {
                    return Err(Error::NoSamples { requested: samples.len() });
                }
                samples.reached()
            }
            _ => self.posterior.sample(effort.samples, repeat)?,
        };
        run.seconds = start.elapsed().as_secs_f64() / effort.samples as f64;
        Ok((weights, run))
    }

    fn score(&self, method: Method, effort: Effort, repeat: u64) -> Result<Run> {
        let (family, targets) = (self.posterior.family(), self.test.targets());
        let (scores, mut run) = match method {
            Method::Map => {
                let outputs = self.posterior.outputs(self.test.inputs())?;
                let prediction = self.posterior.predict_map(self.test.inputs())?;
                (Scores::of_map(&prediction, &outputs, family, targets)?, Run::default())
            }
            Method::Linearized => {
                let latent = self.posterior.linearized(self.test.inputs())?;
                (Scores::of_linearized(&latent, family, Link::Probit, targets)?, Run::default())
            }
            _ => {
                let (weights, run) = self.weights(method, effort, repeat)?;
                let sampled = self.posterior.sampled(weights.view(), self.test.inputs())?;
                (Scores::of_sampled(&sampled, family, targets)?, run)
            }
        };
        (run.mse, run.nll) = self.in_original_units(&scores);
        Ok(run)
    }

    /// Mean, band and a few curves over the range of the data, in original units.
    fn panel(&self, method: Method, effort: Effort) -> Result<BandPanel> {
        let x = grid(0.0, 6.0, 241);
        let inputs = x.mapv(|x| self.scaling.input(x));
        let back = |value: f64| self.scaling.output(value);
        let (prediction, curves) = match method {
            Method::Map => (self.posterior.predict_map(&inputs)?, Vec::new()),
            Method::Linearized => {
                let latent = self.posterior.linearized(&inputs)?;
                (latent.predict(self.posterior.family(), Link::Probit)?, Vec::new())
            }
            _ => {
                let (weights, _) = self.weights(method, effort, 0)?;
                let sampled = self.posterior.sampled(weights.view(), &inputs)?;
                let curves = sampled.outputs().outer_iter().take(60);
                (sampled.prediction(), curves.map(|curve| curve.iter().map(|value| back(*value)).collect()).collect())
            }
        };
        let edge = |sign: f64| {
            let rows = prediction.mean.iter().zip(&prediction.total_variance);
            rows.map(|(mean, variance)| back(mean + sign * 2.0 * variance.sqrt())).collect::<Vec<f64>>()
        };
        let points = |data: &Dataset| {
            let original = |value: f64| self.scaling.x.0 + self.scaling.x.1 * value;
            data.inputs().iter().zip(data.targets()).map(|(x, y)| (original(*x), back(*y))).collect::<Vec<_>>()
        };
        let training = points(&self.train);
        let extent = |low: f64, high: f64| {
            let inside = training.iter().map(|(x, _)| *x).filter(|x| (low..=high).contains(x));
            let (least, greatest) = inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            (least, greatest)
        };
        let covered = match self.split {
            Split::Complete => vec![extent(0.0, 6.0)],
            Split::Gap => vec![extent(0.0, 1.5), extent(3.0, 6.0)],
        };
        Ok(BandPanel {
            title: format!("{} · {} data", method.name(), self.split.name()),
            mean: prediction.mean.iter().map(|mean| back(*mean)).collect(),
            band: (edge(-1.0), edge(1.0)),
            x: x.iter().copied().collect(),
            curves,
            test: points(&self.test),
            training,
            covered,
        })
    }
}

/// One repeat of one method.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    mse: f64,
    nll: f64,
    evaluations: Option<f64>,
    drift: Option<f64>,
    seconds: f64,
    failed: usize,
}

/// Fits the posterior and tunes prior precision and noise.
fn tuned(network: Network, data: &Dataset) -> Result<Laplace> {
    let mut posterior = Laplace::fit(network, data.clone(), Family::gaussian(1.0)?, &FitOptions::default())?;
    posterior.optimize(&EvidenceOptions::default())?;
    Ok(posterior)
}

/// Trains from several seeds and keeps the network with the highest evidence: raw data have many optima.
fn trained(data: &Dataset, weight_decay: f64) -> Result<Laplace> {
    const SEEDS: u64 = 4;
    let options = TrainingOptions { weight_decay, ..Default::default() };
    let mut best: Option<Laplace> = None;
    for seed in 0..SEEDS {
        let bar = progress(&format!("training, seed {seed}"), options.epochs);
        let start = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, seed);
        let training =
            train(&start, data, &Family::gaussian(1.0)?, &options, |epoch, _| bar.set_position(epoch as u64))?;
        bar.finish_and_clear();
        let posterior = tuned(training.network, data)?;
        if best.as_ref().is_none_or(|kept| posterior.log_marginal_likelihood() > kept.log_marginal_likelihood()) {
            best = Some(posterior);
        }
    }
    best.ok_or(Error::NoRows { what: "the trained networks".to_string() })
}

fn progress(what: &str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("  {prefix} [{bar:30}] {pos}/{len} ({eta})");
    let bar = ProgressBar::new(length as u64);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.with_prefix(what.to_string())
}

fn report(task: &Task, standardised: bool, options: &Options) -> Result<()> {
    let posterior = &task.posterior;
    let units = if standardised { "standardised" } else { "raw" };
    let sigma = posterior.family().sigma().unwrap_or_default().iter().map(|s| s * task.scaling.y.1).sum::<f64>();
    println!(
        "\n{} data, {units}: {} training and {} test points; prior precision {:.5}, σ {:.5} in original units, log evidence {:.5}",
        task.split.name(),
        task.train.len(),
        task.test.len(),
        posterior.prior().values()[0],
        sigma,
        posterior.log_marginal_likelihood()
    );
    let mut table = TextTable::new(&[
        "method",
        "MSE",
        "paper",
        "NLL",
        "paper",
        "T",
        "paper",
        "max drift",
        "ms/sample",
        "failed",
        "",
    ]);
    for (method, effort) in options.methods() {
        let runs: Vec<Run> =
            (0..effort.repeats).map(|repeat| task.score(method, effort, repeat as u64)).collect::<Result<_>>()?;
        let column = |value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
        let paper = method.paper(task.split, standardised);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_string());
        let geodesic = runs[0].evaluations.is_some();
        let mean = |values: Vec<f64>| mean_and_deviation(&values).0;
        let reduced = matches!(method, RLA_B | RLA_BLOG) && !options.full;
        table.row(vec![
            method.name().to_string(),
            with_deviation(&column(|run| run.mse)),
            or_dash(paper.map(|(mse, ..)| mse.to_string())),
            with_deviation(&column(|run| run.nll)),
            or_dash(paper.map(|(_, nll, _)| nll.to_string())),
            or_dash(geodesic.then(|| format!("{:.1}", mean(column(|run| run.evaluations.unwrap_or(0.0)))))),
            or_dash(paper.and_then(|(.., evaluations)| evaluations).map(|evaluations| evaluations.to_string())),
            or_dash(geodesic.then(|| format!("{:.0e}", runs.iter().filter_map(|run| run.drift).fold(0.0, f64::max)))),
            or_dash(geodesic.then(|| format!("{:.3}", 1e3 * mean(column(|run| run.seconds))))),
            or_dash(geodesic.then(|| runs.iter().map(|run| run.failed).sum::<usize>().to_string())),
            if reduced { format!("reduced: {} samples", effort.samples) } else { String::new() },
        ]);
    }
    table.print();
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    println!("Snelson's data, a 1-10-1 tanh network: MSE and NLL on the test points, in original units.");
    println!("T counts evaluations of the acceleration for one sample; the paper's numbers are from its Table 3.");
    if !options.full {
        println!(
            "Slow methods are reduced{}; `--full` runs everything at the paper's size.",
            if options.quick { " or left out" } else { "" }
        );
    }
    let mut figure_rows = Vec::new();
    for standardised in [false, true] {
        for split in [Split::Complete, Split::Gap] {
            let task = Task::prepare(split, standardised, &options)?;
            report(&task, standardised, &options)?;
            if !standardised {
                let effort = Effort { samples: if options.quick { 60 } else { 500 }, repeats: 1 };
                let methods = [Method::Ela, Method::Linearized, RLA_F];
                figure_rows
                    .push(methods.map(|method| task.panel(method, effort)).into_iter().collect::<Result<Vec<_>>>()?);
            }
        }
    }
    figure::draw_bands(&options.figure, &figure_rows, (-3.5, 3.5))?;
    println!("\nFigure: {} and .png", options.figure.with_extension("svg").display());
    Ok(())
}
