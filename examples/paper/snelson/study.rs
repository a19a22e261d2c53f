//! Runs every method on a task: repeats with progress, finished ones kept.

use std::sync::Mutex;

use clap::ValueEnum;
use ndarray::Array2;
use rayon::prelude::*;
use riemannian_laplace::internals::paper::reference::{MassMatrix, NutsOptions};
use serde::{Deserialize, Serialize};

use super::regression::method::Method;
use super::regression::nuts::{Chain, Reference};
use super::regression::task::{Run, Task};
use super::support::cells::Cells;
use super::support::comparison::progress;
use super::support::figure::Outcome;

/// The numbers of samples and repeats of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    pub samples: usize,
    pub repeats: usize,
}

/// How much is computed; methods without an entry are left out.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// ELA and RLA-F.
    pub fast: Effort,
    pub monge: Option<Effort>,
    pub monge_log: Option<Effort>,
    pub nuts: Option<NutsOptions>,
}

/// The paper's for networks.
const PAPER: Effort = Effort { samples: 500, repeats: 5 };

/// The paper's for the no-U-turn sampler. The mass matrix includes correlations, unlike Stan's: predictions have five
/// to eight times the effective sample size for the same number of gradients.
const PAPER_NUTS: NutsOptions = NutsOptions { mass_matrix: MassMatrix::LowRank, ..NutsOptions::PAPER };

impl Size {
    pub const QUICK: Self = Self { fast: Effort { samples: 60, repeats: 1 }, monge: None, monge_log: None, nuts: None };
    /// About a minute on two cores.
    pub const MEDIUM: Self = Self {
        fast: Effort { samples: 500, repeats: 3 },
        monge: Some(Effort { samples: 16, repeats: 1 }),
        monge_log: Some(Effort { samples: 16, repeats: 1 }),
        nuts: Some(NutsOptions { chains: 4, warmup: 300, draws: 300, thinning: 1, max_tree_depth: 7, ..PAPER_NUTS }),
    };
    pub const FULL: Self = Self { fast: PAPER, monge: Some(PAPER), monge_log: Some(PAPER), nuts: Some(PAPER_NUTS) };

    /// The same with another number of repeats.
    pub fn with_repeats(self, repeats: u8) -> Self {
        let with = |effort: Effort| Effort { repeats: repeats.into(), ..effort };
        Self { fast: with(self.fast), monge: self.monge.map(with), monge_log: self.monge_log.map(with), ..self }
    }

    /// The effort for a method; none if it is left out.
    fn effort(&self, method: Method) -> Option<Effort> {
        match method {
            Method::Map | Method::Linearized => Some(Effort { samples: 1, repeats: 1 }),
            Method::Ela | Method::RlaF | Method::RlaFFixed => Some(self.fast),
            Method::RlaB => self.monge,
            Method::RlaBLog => self.monge_log,
            Method::Nuts => self.nuts.map(|_| PAPER),
        }
    }
}

/// A method with its repeats.
pub struct Finished {
    pub method: Method,
    pub runs: Vec<Run>,
    /// Weights of the first repeat, for the figure.
    pub weights: Array2<f64>,
    /// The size, where it is not the paper's.
    pub reduced: Option<String>,
    pub reference: Option<Reference>,
}

/// A repeat as saved; the first includes its weights.
#[derive(Serialize, Deserialize)]
struct Cell {
    run: Run,
    weights: Vec<Vec<f64>>,
}

/// A task and how much of it is computed.
pub struct Study<'a> {
    pub task: &'a Task,
    pub size: Size,
    pub cells: &'a Cells,
}

impl Study<'_> {
    /// Every method of this size, in the order of the paper's tables; or only those that `only` names.
    pub fn run(&self, only: &[Method]) -> Outcome<Vec<Finished>> {
        let mut finished = Vec::new();
        for &method in Method::value_variants().iter().filter(|method| only.is_empty() || only.contains(method)) {
            match (method, self.size.nuts, self.size.effort(method)) {
                (Method::Nuts, Some(options), _) => finished.push(self.nuts(&options)?),
                (Method::Nuts, None, _) | (_, _, None) => {}
                (_, _, Some(effort)) => finished.push(self.method(method, effort)?),
            }
        }
        Ok(finished)
    }

    fn method(&self, method: Method, effort: Effort) -> Outcome<Finished> {
        let bar = progress(&format!("{} {}", self.task.name(), method.name()), effort.samples * effort.repeats);
        let mut runs = Vec::new();
        let mut weights = Vec::new();
        for repeat in 0..effort.repeats {
            let key = format!("{} {} {} {repeat}", self.task.name(), method.name(), effort.samples);
            let cell = match self.cells.get::<Cell>(&key) {
                Some(cell) => cell,
                None => {
                    let (run, drawn) = self.task.run(method, effort.samples, repeat as u64, &bar)?;
                    let weights = if repeat == 0 { to_rows(&drawn) } else { Vec::new() };
                    let cell = Cell { run, weights };
                    self.cells.put(&key, &cell)?;
                    cell
                }
            };
            runs.push(cell.run);
            if repeat == 0 {
                weights = cell.weights;
            }
        }
        bar.finish_and_clear();
        let slow = matches!(method, Method::RlaB | Method::RlaBLog);
        let reduced = (slow && effort.samples != PAPER.samples).then(|| format!("reduced: {} samples", effort.samples));
        Ok(Finished { method, runs, weights: self.to_matrix(&weights), reduced, reference: None })
    }

    /// Chains run in parallel, each saved when it ends; disjoint sets of draws are then the repeats.
    fn nuts(&self, options: &NutsOptions) -> Outcome<Finished> {
        let bar = progress(&format!("{} NUTS", self.task.name()), options.iterations());
        let failure = Mutex::new(None);
        let chain = |index: usize| -> Option<Chain> {
            let computed = self.chain(options, index, &|done| bar.inc(done as u64));
            computed.map_err(|error| failure.lock().map(|mut slot| *slot = Some(error))).ok()
        };
        let chains: Vec<Option<Chain>> = (0..options.chains).into_par_iter().with_max_len(1).map(chain).collect();
        bar.finish_and_clear();
        let Some(chains) = chains.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(failure.into_inner().ok().flatten().unwrap_or_default().into());
        };
        let reference = Reference::of(self.task, &chains)?;
        let mut runs = Vec::new();
        for repeat in 0..PAPER.repeats {
            let picked = reference.pick(repeat, PAPER.repeats, PAPER.samples);
            runs.push(Run { scores: self.task.score(picked.view())?, geodesics: None });
        }
        let reduced = (*options != PAPER_NUTS).then(|| {
            let NutsOptions { chains, warmup, draws, max_tree_depth, .. } = options;
            format!("reduced: {chains} chains × ({warmup} + {draws}), depth {max_tree_depth}")
        });
        let weights = reference.pick(0, PAPER.repeats, PAPER.samples);
        Ok(Finished { method: Method::Nuts, runs, weights, reduced, reference: Some(reference) })
    }

    fn chain(&self, options: &NutsOptions, index: usize, progress: &(dyn Fn(usize) + Sync)) -> Result<Chain, String> {
        let NutsOptions { warmup, draws, thinning, .. } = options;
        let key = format!("{} NUTS {warmup} {draws} {thinning} {index}", self.task.name());
        if let Some(kept) = self.cells.get(&key) {
            progress(warmup + draws);
            return Ok(kept);
        }
        let chain = Chain::run(self.task, options, index, progress).map_err(|error| error.to_string())?;
        self.cells.put(&key, &chain).map_err(|error| error.to_string())?;
        Ok(chain)
    }

    fn to_matrix(&self, rows: &[Vec<f64>]) -> Array2<f64> {
        let columns = self.task.posterior.parameters().len();
        Array2::from_shape_fn((rows.len(), columns), |(row, column)| rows[row].get(column).copied().unwrap_or(f64::NAN))
    }
}

fn to_rows(matrix: &Array2<f64>) -> Vec<Vec<f64>> {
    matrix.rows().into_iter().map(|row| row.to_vec()).collect()
}
