//! Runs methods on a low-dimensional target: repeats with progress, cells kept, and rows for the table.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use riemannian_laplace::Progress;
use riemannian_laplace::internals::target::Target;

use super::cells::Cells;
use super::figure::Outcome;
use super::lowdim::Size;
use super::lowdim::placement::{Method, Placement};
use super::lowdim::score::Score;
use super::table::{TextTable, mean_and_deviation, with_deviation};

/// The size of a run, and where its figure goes.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// A run of a few seconds: three repeats of 200 samples, compared with 400 of the target
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The paper's size: 10,000 samples, compared with 20,000 of the target, five repeats
    #[arg(long)]
    full: bool,
    /// Recompute every cell of a full run, even those already in `results`
    #[arg(long, requires = "full")]
    fresh: bool,
    /// The number of repeats [default: that of the size]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    repeats: Option<u64>,
    /// Where to draw figures, as <NAME>.svg and <NAME>.png
    #[arg(long, value_name = "FOLDER", default_value = "figures")]
    pub figures: PathBuf,
}

impl RunOptions {
    pub fn size(&self) -> Size {
        let size = match (self.quick, self.full) {
            (true, _) => Size::QUICK,
            (_, true) => Size::FULL,
            _ => Size::MEDIUM,
        };
        Size { repeats: self.repeats.unwrap_or(size.repeats), ..size }
    }

    pub fn is_quick(&self) -> bool {
        self.quick
    }

    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Where finished cells are kept: full runs take minutes, others are too short to save.
    pub fn cells(&self, name: &str) -> Outcome<Cells> {
        if self.full { Cells::kept(name, self.fresh) } else { Ok(Cells::NONE) }
    }

    /// What is computed, in a sentence; `truth` names the samples of the target, "exact" or how they were made.
    pub fn announce(&self, truth: &str) {
        let Size { samples, reference, repeats } = self.size();
        let hint = if self.full { "" } else { "; `--full` is the paper's size" };
        let plural = if repeats == 1 { "" } else { "s" };
        println!("{repeats} repeat{plural} of {samples} samples, compared with {reference} {truth} ones{hint}.");
        println!("T counts evaluations of the acceleration at rtol 1e-3, atol 1e-6; the paper's is six per step.");
    }
}

/// A bar that samplers advance.
pub struct Bar(ProgressBar);

impl Deref for Bar {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

impl Progress for Bar {
    fn step(&self, done: usize, _: f64) {
        self.0.set_position(done as u64);
    }

    fn advance(&self) {
        self.0.inc(1);
    }
}

/// A progress bar with a name.
pub fn progress(what: &str, length: usize) -> Bar {
    let bar = ProgressBar::new(length as u64).with_prefix(what.to_string());
    match ProgressStyle::with_template("  {prefix} [{bar:30}] {pos}/{len} ({eta})") {
        Ok(style) => Bar(bar.with_style(style)),
        Err(_) => Bar(bar),
    }
}

/// A target, an approximation of it, and exact samples to compare with.
pub struct Comparison<'a> {
    /// Names the cells, and the progress bars.
    pub name: &'a str,
    pub target: &'a Target,
    pub placement: &'a Placement,
    pub reference: ArrayView2<'a, f64>,
    pub size: Size,
    /// Repeat r draws with this seed plus r.
    pub seed: u64,
    pub cells: &'a Cells,
}

impl Comparison<'_> {
    /// Every repeat of a method.
    pub fn run(&self, method: Method) -> Outcome<Vec<Score>> {
        let repeats: Vec<_> = (0..self.size.repeats).map(|repeat| (method, repeat)).collect();
        self.compute(&format!("{} {}", self.name, method.name()), &repeats)
    }

    /// One repeat of several methods.
    pub fn run_repeat(&self, methods: &[Method], repeat: u64) -> Outcome<Vec<Score>> {
        let jobs: Vec<_> = methods.iter().map(|method| (*method, repeat)).collect();
        self.compute(&format!("{}, repeat {}", self.name, repeat + 1), &jobs)
    }

    /// Samples are drawn one set after another, each on all threads, so that their time means something; the distances
    /// of all sets are then computed at once.
    fn compute(&self, label: &str, jobs: &[(Method, u64)]) -> Outcome<Vec<Score>> {
        let bar = progress(label, self.size.samples * jobs.len());
        let keys: Vec<String> = jobs.iter().map(|(method, repeat)| self.key(method.name(), *repeat)).collect();
        let drawn = jobs.iter().zip(&keys).map(|(&(method, repeat), key)| {
            if self.cells.get::<Score>(key).is_some() {
                return Ok(None);
            }
            let start = Instant::now();
            let samples = self.placement.draw(self.target, method, self.size.samples, self.seed + repeat, &bar)?;
            Ok(Some((samples, start.elapsed().as_secs_f64())))
        });
        let drawn: Vec<_> = drawn.collect::<Outcome<_>>()?;
        bar.finish_and_clear();
        self.judge(label, &keys, |index| match &drawn[index] {
            Some((samples, seconds)) => Score::of(samples, *seconds, self.reference).map_err(|error| error.to_string()),
            None => Err("a kept cell has vanished".to_string()),
        })
    }

    /// The same with sets of exact samples: what a perfect method would get.
    pub fn run_exact(&self, exact: impl Fn(u64) -> Array2<f64> + Sync) -> Outcome<Vec<Score>> {
        let keys: Vec<String> = (0..self.size.repeats).map(|repeat| self.key("exact", repeat)).collect();
        self.judge(&format!("{} exact", self.name), &keys, |repeat| {
            Score::of_exact(exact(repeat as u64).view(), self.reference).map_err(|error| error.to_string())
        })
    }

    /// One set of samples that another sampler drew.
    pub fn run_drawn(&self, sampler: &str, samples: ArrayView2<'_, f64>) -> Outcome<Vec<Score>> {
        self.judge(&format!("{} {sampler}", self.name), &[self.key(sampler, 0)], |_| {
            Score::of_exact(samples, self.reference).map_err(|error| error.to_string())
        })
    }

    /// The scores of cells, those that are not kept computed in parallel.
    fn judge(
        &self,
        label: &str,
        keys: &[String],
        score: impl Fn(usize) -> Result<Score, String> + Sync,
    ) -> Outcome<Vec<Score>> {
        let bar = progress(&format!("{label}, distances"), keys.len());
        let failure = Mutex::new(None);
        let judged = |(index, key): (usize, &String)| {
            let computed = match self.cells.get(key) {
                Some(kept) => Ok(kept),
                None => score(index).and_then(|score| {
                    let put = self.cells.put(key, &score);
                    put.map(|()| score).map_err(|error| error.to_string())
                }),
            };
            bar.inc(1);
            computed.map_err(|error| failure.lock().map(|mut slot| *slot = Some(error))).ok()
        };
        let scores: Vec<Option<Score>> = keys.par_iter().enumerate().map(judged).collect();
        bar.finish_and_clear();
        match scores.into_iter().collect::<Option<Vec<_>>>() {
            Some(scores) => Ok(scores),
            None => Err(failure.into_inner().ok().flatten().unwrap_or_default().into()),
        }
    }

    fn key(&self, what: &str, repeat: u64) -> String {
        format!("{} {what}-{}-{}-{repeat}", self.name, self.size.samples, self.size.reference)
    }
}

/// What the paper reports for a method, as printed there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Published {
    pub distance: Option<&'static str>,
    pub evaluations: Option<&'static str>,
    /// Per sample.
    pub milliseconds: Option<&'static str>,
}

impl Published {
    /// The mean of the published distances.
    pub fn mean_distance(&self) -> Option<f64> {
        self.distance?.split_whitespace().next()?.parse().ok()
    }
}

/// Our numbers next to the published ones.
pub struct ComparisonTable {
    table: TextTable,
    /// Whether the paper gives times.
    timed: bool,
}

impl ComparisonTable {
    pub fn new() -> Self {
        let header = ["method", "W1", "paper", "T", "paper", "ms/sample", "failed"];
        Self { table: TextTable::new(&header), timed: false }
    }

    /// With a column for the paper's times.
    pub fn timed() -> Self {
        let header = ["method", "W1", "paper", "T", "paper", "ms/sample", "paper", "failed"];
        Self { table: TextTable::new(&header), timed: true }
    }

    /// The repeats of a method.
    pub fn row(&mut self, method: Method, scores: &[Score], paper: Published) {
        let mean = |value: fn(&Score) -> f64| mean_and_deviation(&column(scores, value)).0;
        let evaluations = format!("{:.1}", mean(|score| score.evaluations));
        let milliseconds = format!("{:.4}", mean(|score| score.milliseconds));
        // Straight lines follow no geodesic.
        let counted = |text: String| if method == Method::Ela { dash() } else { text };
        let published = |text: Option<&str>| text.map_or_else(dash, str::to_string);
        let mut cells = vec![
            method.name().to_string(),
            with_deviation(&column(scores, |score| score.distance)),
            published(paper.distance),
            counted(evaluations),
            published(paper.evaluations),
            counted(milliseconds),
        ];
        if self.timed {
            cells.push(published(paper.milliseconds));
        }
        cells.push(scores.iter().map(|score| score.failed).sum::<usize>().to_string());
        self.table.row(cells);
    }

    /// Samples of the target itself, whose distances are what a perfect method would get.
    pub fn yardstick(&mut self, name: &str, scores: &[Score]) {
        let mut cells = vec![name.to_string(), with_deviation(&column(scores, |score| score.distance))];
        cells.resize_with(if self.timed { 8 } else { 7 }, dash);
        self.table.row(cells);
    }

    pub fn print(&self) {
        self.table.print();
    }
}

fn column(scores: &[Score], value: fn(&Score) -> f64) -> Vec<f64> {
    scores.iter().map(value).collect()
}

fn dash() -> String {
    "–".to_string()
}
