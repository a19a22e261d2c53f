//! Runs methods on a low-dimensional target: repeats with progress, cells kept, and rows for the table.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use riemannian_laplace::map::DifferentiableMap;
use riemannian_laplace::target::Target;

use super::cells::Cells;
use super::figure::Outcome;
use super::lowdim::Size;
use super::lowdim::placement::{Method, Placement};
use super::lowdim::score::Score;
use super::table::{TextTable, mean_and_deviation, with_deviation};

/// The size of a run, and where its figure goes.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// A run of a few seconds: three repeats of 200 samples, compared with 400 exact ones
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The paper's size: 10,000 samples, compared with 20,000 exact ones, five repeats
    #[arg(long)]
    full: bool,
    /// Compute every cell of a full run anew, also those that `results` has
    #[arg(long, requires = "full")]
    fresh: bool,
    /// Where to draw figures, as <NAME>.svg and <NAME>.png
    #[arg(long, value_name = "FOLDER", default_value = "figures")]
    pub figures: PathBuf,
}

impl RunOptions {
    pub fn size(&self) -> Size {
        match (self.quick, self.full) {
            (true, _) => Size::QUICK,
            (_, true) => Size::FULL,
            _ => Size::MEDIUM,
        }
    }

    /// Where finished cells are kept: full runs take minutes, others nothing worth keeping.
    pub fn cells(&self, name: &str) -> Outcome<Cells> {
        if self.full { Cells::kept(name, self.fresh) } else { Ok(Cells::NONE) }
    }

    /// What is computed, in a sentence.
    pub fn announce(&self) {
        let Size { samples, reference, repeats } = self.size();
        let hint = if self.full { "" } else { "; `--full` is the paper's size" };
        println!("{repeats} repeats of {samples} samples, compared with {reference} exact ones{hint}.");
        println!("T counts evaluations of the acceleration at rtol 1e-3, atol 1e-6; the paper's is six a step.");
    }
}

/// A progress bar with a name.
pub fn progress(what: &str, length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64).with_prefix(what.to_string());
    match ProgressStyle::with_template("  {prefix} [{bar:30}] {pos}/{len} ({eta})") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A target, an approximation of it, and exact samples to compare with.
pub struct Comparison<'a, M> {
    /// Names the cells, and the progress bars.
    pub name: &'a str,
    pub target: &'a Target<M>,
    pub placement: &'a Placement,
    pub reference: ArrayView2<'a, f64>,
    pub size: Size,
    /// Repeat r draws with this seed plus r.
    pub seed: u64,
    pub cells: &'a Cells,
}

impl<M: DifferentiableMap> Comparison<'_, M> {
    /// Every repeat of a method. Samples are drawn repeat after repeat, each on all threads, so that their time means
    /// something; the distances of all repeats are then computed at once.
    pub fn run(&self, method: Method) -> Outcome<Vec<Score>> {
        let name = format!("{} {}", self.name, method.name());
        let bar = progress(&name, self.size.samples * self.size.repeats as usize);
        let drawn = (0..self.size.repeats).map(|repeat| {
            if self.kept(&name, repeat).is_some() {
                return Ok(None);
            }
            let start = Instant::now();
            let samples =
                self.placement.draw(self.target, method, self.size.samples, self.seed + repeat, &|| bar.inc(1))?;
            Ok(Some((samples, start.elapsed().as_secs_f64())))
        });
        let drawn: Vec<_> = drawn.collect::<Outcome<_>>()?;
        bar.finish_and_clear();
        self.judge(&name, |repeat| match &drawn[repeat as usize] {
            Some((samples, seconds)) => Score::of(samples, *seconds, self.reference).map_err(|error| error.to_string()),
            None => Err("a kept cell has vanished".to_string()),
        })
    }

    /// The same with sets of exact samples: what a perfect method would get.
    pub fn run_exact(&self, exact: impl Fn(u64) -> Array2<f64> + Sync) -> Outcome<Vec<Score>> {
        let name = format!("{} exact", self.name);
        self.judge(&name, |repeat| {
            Score::of_exact(exact(repeat).view(), self.reference).map_err(|error| error.to_string())
        })
    }

    /// Scores of all repeats, those that are not kept computed in parallel.
    fn judge(&self, name: &str, score: impl Fn(u64) -> Result<Score, String> + Sync) -> Outcome<Vec<Score>> {
        let bar = progress(&format!("{name}, distances"), self.size.repeats as usize);
        let failure = Mutex::new(None);
        let scores: Vec<Option<Score>> = (0..self.size.repeats)
            .into_par_iter()
            .map(|repeat| {
                let computed = match self.kept(name, repeat) {
                    Some(kept) => Ok(kept),
                    None => score(repeat).and_then(|score| {
                        let put = self.cells.put(&self.key(name, repeat), &score);
                        put.map(|()| score).map_err(|error| error.to_string())
                    }),
                };
                bar.inc(1);
                computed.map_err(|error| failure.lock().map(|mut slot| *slot = Some(error))).ok()
            })
            .collect();
        bar.finish_and_clear();
        match scores.into_iter().collect::<Option<Vec<_>>>() {
            Some(scores) => Ok(scores),
            None => Err(failure.into_inner().ok().flatten().unwrap_or_default().into()),
        }
    }

    fn kept(&self, name: &str, repeat: u64) -> Option<Score> {
        self.cells.get(&self.key(name, repeat))
    }

    fn key(&self, name: &str, repeat: u64) -> String {
        format!("{name}-{}-{}-{repeat}", self.size.samples, self.size.reference)
    }
}

/// What the paper reports for a method, as printed there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Published {
    pub distance: Option<&'static str>,
    pub evaluations: Option<&'static str>,
}

/// Our numbers beside the published ones.
pub struct ComparisonTable {
    table: TextTable,
}

impl ComparisonTable {
    pub fn new() -> Self {
        Self { table: TextTable::new(&["method", "W1", "paper", "T", "paper", "ms/sample", "failed"]) }
    }

    pub fn row(&mut self, name: &str, scores: &[Score], paper: Published) {
        let column = |value: fn(&Score) -> f64| scores.iter().map(value).collect::<Vec<f64>>();
        let dash = || "–".to_string();
        let mean = |value| mean_and_deviation(&column(value)).0;
        let evaluations = mean(|score| score.evaluations);
        // Straight lines and exact samples follow no geodesic.
        let counted = !matches!(name, "ELA" | "exact");
        self.table.row(vec![
            name.to_string(),
            with_deviation(&column(|score| score.distance)),
            paper.distance.map_or_else(dash, str::to_string),
            if counted { format!("{evaluations:.1}") } else { dash() },
            paper.evaluations.map_or_else(dash, str::to_string),
            if counted { format!("{:.4}", mean(|score| score.milliseconds)) } else { dash() },
            if name == "exact" { dash() } else { scores.iter().map(|score| score.failed).sum::<usize>().to_string() },
        ]);
    }

    pub fn print(&self) {
        self.table.print();
    }
}
