//! Is the Fisher metric worth its cost on everyday posteriors? The paper's Bayesian logistic regression (Yu et al.
//! 2024, section 5.3 with its Table 2, and the supplement's times and "Empirical Fisher"): five data sets, with
//! standardised and with raw inputs, every method at the Euclidean MAP, compared with NUTS.
//!
//! `--full` saves each finished repeat, and continues from there when it is started again.

mod support;

use clap::Parser;
use ndarray::Array2;
use riemannian_laplace::internals::target::Target;
use support::canvas;
use support::cells::Cells;
use support::comparison::{Comparison, ComparisonTable, RunOptions};
use support::dots::{Dot, DotFigure, DotRow};
use support::figure::Outcome;
use support::lowdim::chains::{evenly, half_as_many};
use support::lowdim::logistic::{self, Data, Units};
use support::lowdim::placement::{Method, Placement};
use support::lowdim::score::Score;
use support::lowdim::{REFERENCE_SEED, Size, exact_seed};
use support::table::mean_and_deviation;
use support::{published, references};

/// Logistic regression: distances of every method to NUTS samples, next to the paper's numbers
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
    /// Only this data set; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    data: Vec<Data>,
    /// Only inputs in these units
    #[arg(long, value_enum)]
    units: Option<Units>,
    /// Only this method, slow or not; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    method: Vec<Method>,
}

impl Options {
    fn data(&self) -> Vec<Data> {
        match (self.data.is_empty(), self.run.is_quick()) {
            (false, _) => self.data.clone(),
            (true, true) => vec![Data::Ripley, Data::Pima],
            (true, false) => Data::ALL.to_vec(),
        }
    }

    fn units(&self) -> Vec<Units> {
        self.units.map_or(Units::BOTH.to_vec(), |units| vec![units])
    }

    fn methods(&self) -> Vec<Method> {
        if self.method.is_empty() { Method::ALL.to_vec() } else { self.method.clone() }
    }

    /// Whether the slow cells are computed: at the paper's size, or if a method is requested by name.
    fn includes_slow(&self) -> bool {
        self.run.is_full() || !self.method.is_empty()
    }
}

/// Whether a sample takes thousands of evaluations: the Monge metric where inputs have very different scales.
fn is_slow(data: Data, units: Units, method: Method) -> bool {
    units == Units::Raw && data != Data::Ripley && matches!(method, Method::RlaB | Method::RlaBLog)
}

/// A posterior, what it is compared with, and what has been found so far.
struct Problem {
    data: Data,
    units: Units,
    name: String,
    target: Target,
    placement: Placement,
    reference: Array2<f64>,
    /// Whether the diagnostics allow calling it a reference.
    accepted: bool,
    /// The distance of a second run of NUTS.
    yardstick: Vec<Score>,
    /// The repeats of every method, in the order of [`Method::ALL`].
    scores: [Vec<Score>; 5],
}

impl Problem {
    /// Finds the MAP, and runs NUTS twice.
    fn prepare(data: Data, units: Units, size: Size, cells: &Cells) -> Outcome<Self> {
        let name = format!("{} {}", data.name(), units.name());
        let target = logistic::target(data, units)?;
        let placement = logistic::placed(&target).map_err(|error| format!("{name}: {error}"))?;
        let options = logistic::reference_options(size, REFERENCE_SEED);
        let first = references::draws(&name, &target, &options, cells)?;
        let second = references::draws(&name, &target, &half_as_many(options, exact_seed(0)), cells)?;
        let accepted = references::describe(&format!("NUTS, {name}"), &first);
        references::describe(&format!("NUTS again, {name}"), &second);
        let reference = evenly(first.draws.view(), size.reference);
        let mut problem = Self {
            data,
            units,
            name,
            target,
            placement,
            reference,
            accepted,
            yardstick: Vec::new(),
            scores: Default::default(),
        };
        let second = evenly(second.draws.view(), size.samples);
        problem.yardstick = problem.comparison(size, cells).run_drawn("NUTS", second.view())?;
        Ok(problem)
    }

    fn comparison<'a>(&'a self, size: Size, cells: &'a Cells) -> Comparison<'a> {
        let Self { name, target, placement, reference, .. } = self;
        Comparison { name, target, placement, reference: reference.view(), size, seed: 0, cells }
    }

    /// Computes one repeat of some methods.
    fn repeat(&mut self, methods: &[Method], repeat: u64, size: Size, cells: &Cells) -> Outcome {
        let scores = self.comparison(size, cells).run_repeat(methods, repeat)?;
        for (method, score) in methods.iter().zip(scores) {
            for (slot, _) in self.scores.iter_mut().zip(Method::ALL).filter(|(_, other)| other == method) {
                slot.push(score);
            }
        }
        Ok(())
    }

    /// The methods that have been computed, with their repeats.
    fn computed(&self) -> impl Iterator<Item = (usize, Method, &[Score])> {
        let methods = Method::ALL.into_iter().enumerate().zip(&self.scores);
        methods.map(|((index, method), scores)| (index, method, scores.as_slice())).filter(|(.., s)| !s.is_empty())
    }

    fn print(&self) {
        let (points, parameters) = (self.target.map().n_points(), self.target.map().n_params());
        let truth = if self.accepted { "the NUTS reference" } else { "NUTS draws that are NO REFERENCE (see above)" };
        println!("\n{}: N = {points}, D = {parameters}; W1 to {truth}", self.name);
        let mut table = ComparisonTable::timed();
        for (_, method, scores) in self.computed() {
            table.row(method, scores, published::logistic(self.data, self.units, method));
        }
        table.yardstick("NUTS", &self.yardstick);
        table.print();
    }

    /// Distances in units of the yardstick; with the paper's, if they are of the same size.
    fn dots(&self, with_paper: bool) -> DotRow {
        let mean = |scores: &[Score]| mean_and_deviation(&scores.iter().map(|s| s.distance).collect::<Vec<_>>()).0;
        let unit = mean(&self.yardstick);
        let mut dots = Vec::new();
        for (method, name, scores) in self.computed() {
            dots.push(Dot { method, value: mean(scores) / unit, published: false });
            let paper = published::logistic(self.data, self.units, name).mean_distance();
            if let Some(value) = paper.filter(|_| with_paper) {
                dots.push(Dot { method, value: value / unit, published: true });
            }
        }
        DotRow { name: self.name.clone(), dots }
    }
}

/// Prints all tables and draws the figure.
fn report(problems: &[Problem], options: &Options) -> Outcome {
    for problem in problems {
        problem.print();
    }
    println!();
    let figure = DotFigure {
        title: "Logistic regression: distance to the posterior".to_string(),
        x_label: "W1 to NUTS samples, relative to that of a second NUTS run".to_string(),
        unit: "perfect".to_string(),
        methods: Method::ALL.map(Method::name).to_vec(),
        rows: problems.iter().map(|problem| problem.dots(options.run.is_full())).collect(),
    };
    canvas::save(&figure, &options.run.figures.join("logistic"))
}

fn main() -> Outcome {
    let options = Options::parse();
    println!(
        "Logistic regression: Wasserstein-1 distance to NUTS samples; \"NUTS\" is that of a second, independent run."
    );
    options.run.announce("NUTS");
    println!("Samples that reach the limit of 4096 steps are left out of W1, but their evaluations count in T.");
    let (size, cells) = (options.run.size(), options.run.cells("logistic")?);
    let mut problems = Vec::new();
    for units in options.units() {
        for data in options.data() {
            problems.push(Problem::prepare(data, units, size, &cells)?);
        }
    }
    let mut left_out = false;
    // One repeat after another, so that an interrupted run leaves complete ones; what takes hours comes last.
    for repeat in 0..size.repeats {
        for problem in &mut problems {
            let slow = |method: &Method| is_slow(problem.data, problem.units, *method);
            let methods: Vec<Method> = options.methods().into_iter().filter(|method| !slow(method)).collect();
            left_out |= methods.len() < options.methods().len();
            problem.repeat(&methods, repeat, size, &cells)?;
        }
    }
    if problems.iter().any(|problem| problem.computed().next().is_some()) {
        report(&problems, &options)?;
    }
    if left_out && !options.includes_slow() {
        println!(
            "Left out: RLA-B and RLA-BLog on raw inputs (except ripley's), which take thousands of evaluations per sample."
        );
        println!("`--full` computes them last; `--method rla-b` at this size.");
    } else if left_out {
        println!("Now the Monge metric on raw inputs, which takes thousands of evaluations per sample.");
        for repeat in 0..size.repeats {
            for problem in &mut problems {
                for method in options.methods() {
                    if is_slow(problem.data, problem.units, method) {
                        problem.repeat(&[method], repeat, size, &cells)?;
                    }
                }
            }
        }
        report(&problems, &options)?;
    }
    Ok(())
}
