//! `rla influence`: which training rows made a prediction, and which look wrong.

use std::path::PathBuf;

use clap::Args;
use ndarray::Array2;
use riemannian_laplace::internals::evaluate::Influence;
use riemannian_laplace::{Batches, Laplace};
use serde::Serialize;

use super::arguments;
use super::console::Console;
use super::data::OptionalDataArgs;
use super::failure::Failure;
use super::output::{Columns, OutputFile, aligned, counted, print, print_json, short};
use super::posterior::PosteriorArgs;

/// Find the training rows behind predictions, and those that look wrong
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct InfluenceArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    #[command(flatten)]
    data: OptionalDataArgs,
    /// Inputs whose predictions are to be explained: for each, the training rows that move its first output most
    #[arg(long, value_name = "CSV")]
    inputs: Option<PathBuf>,
    /// How many rows to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = arguments::count)]
    count: usize,
    /// Where to write the figures of every training row (CSV)
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Every figure is what leaving the row out would change, in closed form from the linearised posterior and without training again:
  self_influence   how much worse the row itself would be predicted, in nats: large where the network bends for this row alone, \
as it does for a wrong label or a typing error
  effect_on_loss   (with --data) by how much the mean loss on those rows would change: negative for rows that harm
Rows are numbered from 1, as the fit read them (without rows that it left out). It is a linearisation: hidden units that a row \
has shaped stay as they are, so refits differ by more where the network overfits. With hidden units, trust the order by \
self-influence and take the effects on other rows and inputs as hints: the curvature is not the Hessian. A posterior of `rla fit \
--curvature hessian` is closer to refits, where the weights are at a minimum. A suspicious row is one to look at, not one to delete.

Example, the rows to look at first:
  rla influence --posterior posterior.safetensors --count 20 --out influence.csv

Example, which rows help and which harm on a test set, and which made three predictions:
  rla influence --posterior posterior.safetensors --data test.csv --target y --out influence.csv
  rla influence --posterior posterior.safetensors --inputs three.csv --count 5";

#[derive(Debug, Serialize)]
struct Report {
    n: usize,
    suspicious: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    harmful: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    of_inputs: Vec<OfInput>,
}

#[derive(Debug, Serialize)]
struct Row {
    row: usize,
    value: f64,
}

#[derive(Debug, Serialize)]
struct OfInput {
    input: usize,
    rows: Vec<Row>,
}

/// Runs the command.
pub fn run(args: &InfluenceArgs, console: &Console) -> Result<(), Failure> {
    let out = match &args.out {
        Some(path) => Some(OutputFile::at(path, &[&args.posterior.posterior])?),
        None => None,
    };
    let laplace = args.posterior.load(console)?;
    let progress = console.spinner("leaving rows out");
    let influence = Influence::of(&laplace)?;
    let on_loss = match args.data.read_for_posterior(&laplace, console)? {
        Some(file) => {
            file.check_against(&**laplace.model(), laplace.family())?;
            Some(influence.on_loss(&laplace, &file.dataset).map_err(|error| file.locate(error))?)
        }
        None => None,
    };
    let of_inputs = args.inputs.as_ref().map(|_| args.of_inputs(&laplace, &influence, console)).transpose()?;
    drop(progress);
    if let Some(file) = &out {
        let mut columns = Columns::default();
        let rows = (1..=influence.of_itself.len()).map(|row| row as f64);
        columns.add_own("row".to_string(), rows.collect());
        columns.add_own("self_influence".to_string(), influence.of_itself.clone().into());
        if let Some(on_loss) = &on_loss {
            columns.add_own("effect_on_loss".to_string(), on_loss.clone().into());
        }
        file.write(|out| columns.write_csv(out))?;
        console.note(format!("{} written to {}", counted(influence.of_itself.len(), "row"), file.path().display()));
    }
    let pick = |order: Vec<usize>, values: &[f64]| -> Vec<Row> {
        let row = |row: usize| Row { row: row + 1, value: values.get(row).copied().unwrap_or(f64::NAN) };
        order.into_iter().map(row).collect()
    };
    let report = Report {
        n: influence.of_itself.len(),
        suspicious: pick(influence.most_suspicious(args.count), &influence.of_itself),
        harmful: on_loss.as_ref().map_or(Vec::new(), |values| {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|a, b| values.get(*a).unwrap_or(&0.0).total_cmp(values.get(*b).unwrap_or(&0.0)));
            order.truncate(args.count);
            pick(order, values)
        }),
        of_inputs: of_inputs.unwrap_or_default(),
    };
    if args.json { print_json(&report) } else { print(&text(&report, &laplace)) }
}

impl InfluenceArgs {
    /// The rows that move the first output most, for each input.
    fn of_inputs(&self, laplace: &Laplace, influence: &Influence, console: &Console) -> Result<Vec<OfInput>, Failure> {
        let Some(path) = &self.inputs else { return Ok(Vec::new()) };
        let rows = self.data.leave_out().rows_for_posterior(path, &[], &[], laplace, console)?;
        let mut all = Vec::new();
        for batch in rows.batches(0..rows.n_rows(), 256)? {
            let batch = batch?;
            let first = batch.first_row;
            let inputs: Array2<f64> = batch.inputs.into_owned();
            let scale = match laplace.family().sigma() {
                Some(_) => laplace.schema().restore_deviations(&[1.0]).first().copied().unwrap_or(1.0),
                None => 1.0,
            };
            let outputs = laplace.model().n_outputs();
            let changes =
                influence.on_outputs(laplace, &inputs).map_err(|error| rows.locate(error.in_part_from(first)))?;
            for (index, column) in changes.columns().into_iter().step_by(outputs).enumerate() {
                let mut order: Vec<(usize, f64)> = column.iter().map(|change| scale * change).enumerate().collect();
                order.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
                order.truncate(self.count);
                let rows = order.into_iter().map(|(row, value)| Row { row: row + 1, value }).collect();
                all.push(OfInput { input: first + index + 1, rows });
            }
        }
        Ok(all)
    }
}

fn text(report: &Report, laplace: &Laplace) -> String {
    let list = |rows: &[Row]| {
        let line = |one: &Row| vec![format!("row {}", one.row), short(one.value)];
        aligned(&rows.iter().map(line).collect::<Vec<_>>())
    };
    let mut text = format!(
        "the most suspicious of {} (self-influence in nats; look at them, do not delete them unseen)\n{}",
        counted(report.n, "training row"),
        list(&report.suspicious)
    );
    if !report.harmful.is_empty() {
        text += "leaving these out would lower the mean loss on --data most (nats; negative lowers it)\n";
        text += &list(&report.harmful);
    }
    for one in &report.of_inputs {
        let unit = if laplace.family().sigma().is_some() { "in units of the target" } else { "of the raw output" };
        text += &format!("input {}: leaving these out would move the first output most ({unit})\n", one.input);
        text += &list(&one.rows);
    }
    text
}
