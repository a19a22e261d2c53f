//! Does a small network know what it does not know? The paper's regression (Yu et al. 2024, section 5.4, Table 3 and
//! the supplement's "Standardized data"): a 1-10-1 tanh network on Snelson's data, with complete training data and with
//! a gap for 1.5 ≤ x ≤ 3, in original and in standardised units.
//!
//! It starts from four networks that were trained in PyTorch by the paper's recipe and are kept fixed, just as the
//! paper keeps its MAP fixed. `--train` trains them in candle instead.

mod bands;
mod picture;
mod regression;
mod report;
mod study;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;

use clap::Parser;
use experiment::Split;
use regression::method::Method;
use regression::task::{Task, Units, tuned};
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::Laplace;
use riemannian_laplace::{Activation, Architecture, Network, TrainingOptions, train};
use riemannian_laplace::{Error, Result};
use study::{Size, Study};
use support::canvas;
use support::cells::Cells;
use support::comparison::progress;
use support::experiment;
use support::figure::Outcome;

/// Uncertainty of a small network on Snelson's data: every method, next to the paper's numbers
#[derive(Debug, Parser)]
struct Options {
    /// Train the networks in candle (Adam, 20,000 epochs, several seeds, keeping the one with the highest evidence)
    #[arg(long, conflicts_with = "full")]
    train: bool,
    /// A run of a few seconds: few samples, one repeat, no slow methods
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every method at the paper's size: 500 samples, five repeats, NUTS with ten chains
    #[arg(long)]
    full: bool,
    /// Recompute every cell of a full run, even those already in `results`
    #[arg(long, requires = "full")]
    fresh: bool,
    /// Leave out the no-U-turn sampler, which takes hours at the paper's size
    #[arg(long)]
    without_nuts: bool,
    /// The number of repeats [default: that of the size]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    repeats: Option<u8>,
    /// Only these methods, by the names of the table in lower case: `--methods rla-f,nuts`
    #[arg(long, value_enum, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<Method>,
    /// Only the table and the figure of these units
    #[arg(long, value_enum)]
    units: Option<Units>,
    /// Where to draw the figures, as <PATH>.svg and .png, and <PATH>_std for standardised data
    #[arg(long, value_name = "PATH", default_value = "figures/snelson")]
    figure: PathBuf,
}

impl Options {
    fn size(&self) -> Size {
        let size = match (self.quick, self.full) {
            (true, _) => Size::QUICK,
            (_, true) => Size::FULL,
            _ => Size::MEDIUM,
        };
        let size = Size { nuts: size.nuts.filter(|_| !self.without_nuts), ..size };
        self.repeats.map_or(size, |repeats| size.with_repeats(repeats))
    }

    fn announce(&self) {
        println!("Snelson's data, a 1-10-1 tanh network: MSE and NLL on the test points, in original units.");
        println!("T counts evaluations of the acceleration per sample. RLA-F refines each geodesic until its drift");
        println!(
            "is at most 1e-3; the other Riemannian rows have the paper's fixed tolerances, rtol 1e-3 and atol 1e-6."
        );
        match (self.quick, self.full) {
            (true, _) => println!("Slow methods are left out; `--full` runs everything at the paper's size."),
            (_, false) => println!("Slow methods are reduced; `--full` runs everything at the paper's size."),
            _ => {}
        }
    }

    /// The file of the figure for these units.
    fn figure(&self, units: Units) -> PathBuf {
        match units {
            Units::Raw => self.figure.clone(),
            Units::Standardised => {
                let mut path = self.figure.clone().into_os_string();
                path.push("_std");
                path.into()
            }
        }
    }

    fn task(&self, split: Split, units: Units) -> Result<Task> {
        if self.train {
            return Task::with(split, units, |data| trained(data, units.weight_decay()));
        }
        Task::load(split, units)
    }
}

/// Trains from several seeds and keeps the network with the highest evidence: raw data have many optima.
fn trained(data: &Dataset, weight_decay: f64) -> Result<Laplace> {
    const SEEDS: u64 = 4;
    let options = TrainingOptions { weight_decay, ..Default::default() };
    let mut best: Option<Laplace> = None;
    for seed in 0..SEEDS {
        let bar = progress(&format!("training, seed {seed}"), options.epochs);
        let start = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, seed);
        let training = train(&start, data, &Family::gaussian(1.0)?, &options, &bar)?;
        bar.finish_and_clear();
        let posterior = tuned(training.network, data)?;
        if best.as_ref().is_none_or(|kept| posterior.log_marginal_likelihood() > kept.log_marginal_likelihood()) {
            best = Some(posterior);
        }
    }
    best.ok_or(Error::NoRows { what: "the trained networks".to_string() })
}

fn main() -> Outcome {
    let options = Options::parse();
    options.announce();
    let cells = if options.full { Cells::kept("snelson", options.fresh)? } else { Cells::NONE };
    for units in options.units.map_or_else(|| Units::BOTH.to_vec(), |units| vec![units]) {
        let mut rows = Vec::new();
        for split in [Split::Complete, Split::Gap] {
            let task = options.task(split, units)?;
            report::heading(&task);
            let finished = Study { task: &task, size: options.size(), cells: &cells }.run(&options.methods)?;
            report::print(&task, &finished);
            rows.push(picture::panels(&task, &finished)?);
        }
        println!();
        canvas::save(&bands::BandFigure { rows, y_range: (-3.5, 3.5) }, &options.figure(units))?;
    }
    Ok(())
}
