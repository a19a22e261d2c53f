//! `rla suggest`: which rows of a pool to measure or label next.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ndarray::Array2;
use riemannian_laplace::Batches;
use riemannian_laplace::internals::data::CsvStream;
use riemannian_laplace::internals::suggest::{Acquisition, Goal, SuggestOptions, Suggestion, Suggestions, suggest};
use serde::Serialize;

use super::arguments;
use super::columns::{LeaveOutArgs, refuse_twice};
use super::console::Console;
use super::failure::Failure;
use super::output::{OutputFile, cell, counted, header, print_json, print_with, short};
use super::posterior::PosteriorArgs;

/// Choose which rows of a pool to measure or label next
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct SuggestArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The rows that could be measured: CSV with a header; columns are matched by name with those of the training data
    #[arg(long, value_name = "CSV")]
    pool: PathBuf,
    /// How many rows to choose
    #[arg(long, value_name = "N", default_value = "10", value_parser = arguments::count)]
    count: usize,
    /// What they are wanted for
    #[arg(long = "for", value_enum, value_name = "GOAL", default_value_t = GoalName::Uncertainty)]
    goal: GoalName,
    /// The inputs at which --for target is to predict better
    #[arg(long, value_name = "CSV")]
    target_inputs: Option<PathBuf>,
    /// How --for maximum and minimum weigh what is known [default: improvement]
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<AcquisitionName>,
    /// A column of the pool with what it costs to measure each row: scores are gains per cost
    #[arg(long, value_name = "COLUMN")]
    cost_column: Option<String>,
    /// Columns of the pool that are not inputs (separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    target: Vec<String>,
    /// Columns of the pool to write beside the choice, as they are (separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keep: Vec<String>,
    #[command(flatten)]
    leave_out: LeaveOutArgs,
    /// The seed of draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where to write the rows that were chosen (CSV) [default: standard output]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

/// The goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GoalName {
    /// To know the whole function better: the information about the weights
    Uncertainty,
    /// To predict better at --target-inputs: expected predictive information gain
    Target,
    /// To find the greatest value
    Maximum,
    /// To find the smallest value
    Minimum,
    /// To label classes: mutual information between class and weights (BALD)
    Label,
}

/// The acquisitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AcquisitionName {
    /// Expected improvement over the best mean at the training rows
    Improvement,
    /// Mean plus two standard deviations
    Bound,
    /// The best row of a joint draw of the function, another draw for each row chosen
    Thompson,
}

const EXAMPLE: &str = "\
Rows are chosen one after the other from the exact joint covariance of the linearised posterior, each with those before it taken \
as measured, so that no two say the same. Rows of the training data are left out. A pool of more than 3000 rows (times \
outputs) is cut to its most uncertain ones, which is said.

Columns: rank, row (of the pool, from 1), those of --keep, score (nats; for maximum and minimum in units of the standardised \
target), mean, deviation (of the mean, with the rows before it taken as measured), deviation_alone, why.

Example:
  rla suggest --posterior posterior.safetensors --pool candidates.csv --count 10 --out chosen.csv
  (measure them, then)  rla fit --from posterior.safetensors --data measured.csv --out posterior2.safetensors

Example, what to try next for the greatest yield, where trials differ in price:
  rla suggest --posterior posterior.safetensors --pool recipes.csv --for maximum --cost-column price --count 4

Example, which images to label:
  rla suggest --posterior posterior.safetensors --pool unlabelled.csv --for label --count 50 --keep file";

#[derive(Debug, Serialize)]
struct Report {
    pool: usize,
    measured: usize,
    cut: usize,
    chosen: Vec<Chosen>,
}

#[derive(Debug, Serialize)]
struct Chosen {
    row: usize,
    score: f64,
    mean: Vec<f64>,
    deviation: Vec<f64>,
    deviation_alone: Vec<f64>,
    why: String,
}

/// Runs the command.
pub fn run(args: &SuggestArgs, console: &Console) -> Result<(), Failure> {
    let goal = args.goal()?;
    let out = match args.out.as_deref() {
        Some(path) if path != Path::new("-") => Some(OutputFile::at(path, &[&args.posterior.posterior, &args.pool])?),
        _ => None,
    };
    let laplace = args.posterior.load(console)?;
    refuse_twice("--keep", &args.keep)?;
    let others: Vec<String> = args.keep.iter().chain(&args.cost_column).cloned().collect();
    let pool = args.leave_out.rows_for_posterior(&args.pool, &args.target, &others, &laplace, console)?;
    // The columns to ignore are the pool's.
    let everything = args.leave_out.with_all_columns();
    let target_inputs = match &args.target_inputs {
        Some(path) => Some(inputs(&everything.rows_for_posterior(path, &[], &others, &laplace, console)?)?),
        None => None,
    };
    let costs = args.cost_column.as_ref().map(|name| costs(&pool, name)).transpose()?;
    let options = SuggestOptions { count: args.count, target_inputs, costs, seed: args.seed };
    let chosen = {
        let _progress = console.spinner("choosing");
        suggest(&laplace, &inputs(&pool)?, goal, &options).map_err(|error| pool.locate(error))?
    };
    tell(&chosen, args, console);
    if let Some(file) = &out {
        file.write(|out| out.write_all(&lines(args, &pool, &chosen)?).map_err(broken))?;
        console.note(format!("{} written to {}", counted(chosen.rows.len(), "row"), file.path().display()));
    }
    if args.json {
        let (measured, cut) = (chosen.measured, chosen.cut);
        return print_json(&Report {
            pool: pool.n_rows(),
            measured,
            cut,
            chosen: chosen.rows.into_iter().map(|one| args.chosen(one)).collect(),
        });
    }
    match out {
        Some(_) => Ok(()),
        None => print_with(|out| out.write_all(&lines(args, &pool, &chosen)?).map_err(broken)),
    }
}

fn broken(source: std::io::Error) -> Failure {
    riemannian_laplace::Error::Write { path: PathBuf::from("the suggestions"), source }.into()
}

/// Says what was left out.
fn tell(chosen: &Suggestions, args: &SuggestArgs, console: &Console) {
    if chosen.measured > 0 {
        console.note(format!("{} of the pool left out: measured already", counted(chosen.measured, "row")));
    }
    if chosen.cut > 0 {
        console.note(format!(
            "{} of the pool left out: the least uncertain, of too many for one covariance",
            counted(chosen.cut, "row")
        ));
    }
    if chosen.rows.len() < args.count {
        console.warn(format!("the pool has only {} to choose", counted(chosen.rows.len(), "row")));
    }
}

/// The inputs of all rows.
pub fn inputs(rows: &CsvStream) -> Result<Array2<f64>, Failure> {
    let mut all = Array2::zeros((rows.n_rows(), rows.schema().inputs().len()));
    for batch in rows.batches(0..rows.n_rows(), 4096)? {
        let batch = batch?;
        let range = batch.rows();
        all.rows_mut()
            .into_iter()
            .skip(range.start)
            .zip(batch.inputs.rows())
            .for_each(|(mut slot, row)| slot.assign(&row));
    }
    Ok(all)
}

/// The numbers of a column that need not be an input.
fn costs(rows: &CsvStream, name: &str) -> Result<Vec<f64>, Failure> {
    let columns = rows.find_columns(&[name.to_string()])?;
    let joined = rows.joined_rows(0..rows.n_rows(), &columns)?;
    let kept = joined.iter().filter(|row| row.missing.is_empty());
    let cost = |row: &riemannian_laplace::internals::data::JoinedRow| {
        let text = row.texts.first().map_or("", |text| text.trim());
        let number = text.parse::<f64>().ok().filter(|cost| *cost > 0.0 && cost.is_finite());
        number.ok_or_else(|| Failure::Usage(format!("row {}: `{name}` is `{text}`, not a positive cost", row.number)))
    };
    kept.map(cost).collect()
}

/// The CSV.
fn lines(args: &SuggestArgs, pool: &CsvStream, chosen: &Suggestions) -> Result<Vec<u8>, Failure> {
    let keep = pool.find_columns(&args.keep)?;
    let several = chosen.rows.first().is_some_and(|one| one.mean.len() > 1);
    let outputs = chosen.rows.first().map_or(1, |one| one.mean.len());
    let named = |name: &str| -> Vec<String> {
        (1..=outputs).map(|output| if several { format!("{name}_{output}") } else { name.to_string() }).collect()
    };
    let mut names = vec!["rank".to_string(), "row".to_string()];
    names.extend(args.keep.iter().cloned());
    names.push("score".to_string());
    names.extend(["mean", "deviation", "deviation_alone"].iter().flat_map(|name| named(name)));
    names.push("why".to_string());
    let mut text = header(&names);
    for (rank, one) in chosen.rows.iter().enumerate() {
        let joined = pool.joined_rows(one.row..one.row + 1, &keep)?;
        let Some(row) = joined.into_iter().find(|row| row.missing.is_empty()) else { continue };
        let mut line = vec![(rank + 1).to_string(), row.number.to_string()];
        line.extend(row.texts.iter().map(|text| cell(text).into_owned()));
        line.push(one.score.to_string());
        let numbers = [&one.mean, &one.standard_deviation, &one.deviation_alone];
        line.extend(numbers.into_iter().flatten().map(ToString::to_string));
        line.push(cell(&args.why(one)).into_owned());
        text.extend(format!("{}\n", line.join(",")).into_bytes());
    }
    Ok(text)
}

impl SuggestArgs {
    fn goal(&self) -> Result<Goal, Failure> {
        let acquisition = match self.by {
            Some(AcquisitionName::Bound) => Acquisition::UpperConfidenceBound,
            Some(AcquisitionName::Thompson) => Acquisition::Thompson,
            Some(AcquisitionName::Improvement) | None => Acquisition::ExpectedImprovement,
        };
        let goal = match self.goal {
            GoalName::Uncertainty => Goal::Uncertainty,
            GoalName::Target => Goal::Target,
            GoalName::Maximum => Goal::Maximum(acquisition),
            GoalName::Minimum => Goal::Minimum(acquisition),
            GoalName::Label => Goal::Label,
        };
        let refuse = |problem: &str| Err(Failure::Usage(problem.to_string()));
        match goal {
            Goal::Target if self.target_inputs.is_none() => refuse("--for target needs --target-inputs"),
            Goal::Maximum(_) | Goal::Minimum(_) => Ok(goal),
            _ if self.by.is_some() => refuse("--by belongs to --for maximum and minimum"),
            Goal::Target => Ok(goal),
            _ if self.target_inputs.is_some() => refuse("--target-inputs belongs to --for target"),
            _ => Ok(goal),
        }
    }

    fn why(&self, one: &Suggestion) -> String {
        let known = if one.standard_deviation.iter().zip(&one.deviation_alone).any(|(now, alone)| *now < 0.7 * alone) {
            "; the rows before it say part of it"
        } else {
            ""
        };
        let score = short(one.score);
        match self.goal {
            GoalName::Uncertainty => format!("{score} nats about the weights{known}"),
            GoalName::Target => format!("{score} nats about each target on average{known}"),
            GoalName::Label => format!("class and weights share {score} nats{known}"),
            GoalName::Maximum | GoalName::Minimum => match self.by {
                Some(AcquisitionName::Bound) => format!("the bound is {score}{known}"),
                Some(AcquisitionName::Thompson) => format!("the best of a draw of the function{known}"),
                Some(AcquisitionName::Improvement) | None => format!("an expected improvement of {score}{known}"),
            },
        }
    }

    fn chosen(&self, one: Suggestion) -> Chosen {
        let why = self.why(&one);
        let Suggestion { row, score, mean, standard_deviation: deviation, deviation_alone } = one;
        Chosen { row: row + 1, score, mean, deviation, deviation_alone, why }
    }
}
