//! `rla predict`: means, variances and probabilities at new inputs.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::internals::data::{Batch, CsvStream, JoinedRow, Pieces};
use riemannian_laplace::internals::evaluate::{fold_scores, promised_by_folds};
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::internals::team::Team;
use riemannian_laplace::{Batches, Error, Laplace, Method};

use super::announce::announce_predicting;
use super::arguments;
use super::certificate::CertificateArgs;
use super::classes;
use super::columns::{LeaveOutArgs, refuse_twice};
use super::committee::{self, Members};
use super::conditions;
use super::console::{Console, Progress};
use super::failure::Failure;
use super::method::{Method as MethodName, MethodArgs, sampling_report};
use super::output::{Line, OutputFile, cell, counted, header, print_with};
use super::posterior::PosteriorArgs;
use super::predict_columns;
use super::promise::{Promise, PromiseArgs};

/// Predict at new inputs, with uncertainty
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct PredictArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The inputs: CSV with a header; columns are matched by name with those of the training data
    #[arg(long, value_name = "CSV")]
    inputs: PathBuf,
    /// Columns of the file that are not inputs (separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    target: Vec<String>,
    /// Columns of the file to write beside the predictions, as they are (separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keep: Vec<String>,
    #[command(flatten)]
    leave_out: LeaveOutArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// The probability that an observation lies between `lower` and `upper`, or is in the set [default: the level of the
    /// calibration, else 0.9]
    #[arg(long, value_name = "SHARE", value_parser = arguments::share, allow_negative_numbers = true)]
    interval: Option<f64>,
    #[command(flatten)]
    promise: PromiseArgs,
    /// Where to write the predictions (CSV, one row per input row) [default: standard output]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Columns: row, which numbers the rows of the file from 1; those of --keep; then (with _NAME of each target where there are \
several)
  gaussian, heteroscedastic, student-t, gamma
                mean, epistemic_variance, aleatoric_variance, total_variance, lower, upper
  categorical, ordinal
                p0, p1, … (or the class names), class (the most probable), entropy, and what more data would reduce:
                mutual_information between class and weights where samples are drawn, else logit_variance
  bernoulli     p1, or p_WORD of the second class
  poisson, negative-binomial, binomial
                mean, total_variance, lower, upper (binomial: of one trial, or of those in the file's column of trials)
  calibrated classes also have set (the classes that it contains, separated by |) and set_size
  --link none   f_mean_1, …, and the covariance f_cov_1_1, f_cov_1_2, …
After `rla calibrate` the ends of the interval, or the set, contain y with probability at least --interval for rows like the \
calibration rows, whatever the network is worth; a note says so. --interval-method as-fitted ignores the calibration.
A row that is left out (--drop-missing) has empty predictions, and the last column, note, says why.

Example:
  rla predict --posterior posterior.safetensors --inputs new.csv --out predictions.csv

Example, averaging 1000 sampled networks, on a file that also holds the target:
  rla predict --posterior posterior.safetensors --inputs test.csv --target y \\
      --method nn --samples 1000 --seed 7 --out predictions.csv

Example, beside the identifiers of the rows, whether or not a value is missing:
  rla predict --posterior posterior.safetensors --inputs new.csv --keep id,date --drop-missing \\
      --out predictions.csv";

/// Runs the command.
pub fn run(args: &PredictArgs, console: &Console) -> Result<(), Failure> {
    args.method.check_single()?;
    let out = match args.out.as_deref() {
        Some(path) if path != Path::new("-") => {
            let members = committee::files_of(&args.posterior.posterior)?;
            let mut inputs: Vec<&Path> = members.iter().map(PathBuf::as_path).collect();
            inputs.extend([args.inputs.as_path()].into_iter().chain(args.method.samples_file()));
            Some(OutputFile::at(path, &inputs)?)
        }
        _ => None,
    };
    let members = Members::load(&args.posterior, console)?;
    members.check(&args.method)?;
    let laplace = &members.laplace;
    refuse_twice("--keep", &args.keep)?;
    let conditions = conditions::Columns::of(laplace);
    let silent = [args.keep.clone(), conditions.names()].concat();
    let rows = args.leave_out.rows_for_posterior(&args.inputs, &args.target, &silent, laplace, console)?;
    let keep = rows.find_columns(&args.keep)?;
    if let Some(classes) = classes::of(laplace.schema(), laplace.family(), laplace.model().n_outputs()) {
        console.note(format!("classes: {}", classes.in_words()));
    }
    if args.method.single() == MethodName::Glm {
        announce_predicting(console, laplace, rows.n_rows());
    }
    let method = members.method(&args.method, args.method.single(), console)?;
    let promise = args.promise.settle(args.interval, laplace, &method, args.method.wants_latent(), console)?;
    let samples = {
        let progress = console.bar("predicting", rows.n_rows());
        let team = console.team();
        let job = Job { args, laplace, method: &method, promise, conditions, progress, team, rows: &rows, keep };
        match &out {
            _ if !console.team().is_first() => return job.write(&mut std::io::sink()).map(drop),
            Some(file) => file.write(|out| job.write(out))?,
            None => print_with(|out| job.write(out))?,
        }
    };
    if let Some(file) = &out {
        console.note(format!("{} written to {}", counted(rows.n_rows(), "prediction"), file.path().display()));
    }
    samples.map_or(Ok(()), |report| args.certificate.check(report))
}

/// Predictions that are made and written some rows at a time, by the ranks of a team in turn.
struct Job<'a> {
    args: &'a PredictArgs,
    laplace: &'a Laplace,
    method: &'a Method,
    promise: Promise,
    /// The columns that the promise depends on besides.
    conditions: conditions::Columns,
    progress: Progress,
    team: &'a Team,
    rows: &'a CsvStream,
    /// The columns of the file that are written as they are.
    keep: Vec<usize>,
}

impl Job<'_> {
    /// Writes all predictions at the first rank; the others send theirs to it. Returns what is said of their samples.
    fn write(&self, out: &mut dyn Write) -> Result<Option<SamplingReport>, Failure> {
        let rows = self.rows;
        let broken = |source| Failure::from(Error::Write { path: PathBuf::from("the predictions"), source });
        let (mut pieces, places, mut taken) = (Pieces::of(rows), Pieces::of(rows), 0);
        self.team.in_turn(
            pieces.count(),
            |piece| self.predict(pieces.get(piece)?),
            |text| {
                out.write_all(&text).map_err(broken)?;
                self.progress.advance_by(places.rows(taken).len());
                taken += 1;
                Ok(())
            },
        )?;
        Ok(sampling_report(self.method))
    }

    /// Predictions at some rows: the lines of the CSV, after its header if these are the first rows.
    fn predict(&self, batch: Batch<'_>) -> Result<Vec<u8>, Failure> {
        let lines = self.lines(batch.rows())?;
        let (first_row, range) = (batch.first_row, batch.rows());
        let inputs = batch.inputs.to_owned();
        let located = |error: Error| self.rows.locate(error.in_part_from(first_row));
        let mut prediction = self.laplace.predict(&inputs, self.method).map_err(located)?;
        if batch.targets.ncols() > 0 {
            prediction = prediction.with_known(batch.targets.view())?;
        }
        let (latent, covariances, promised);
        let columns = if self.args.method.wants_latent() {
            latent = prediction
                .latent()?
                .ok_or_else(|| Failure::Usage("--link none belongs to --method glm".to_string()))?;
            covariances = predict_columns::flat_covariances(&latent);
            predict_columns::of_latent(&latent, &covariances)
        } else {
            promised = match &self.promise {
                Promise::AsFitted { .. } if prediction.class_probabilities().is_some() => None,
                Promise::AsFitted { level } => Some(prediction.as_fitted(*level)?),
                Promise::Split { level, score } => {
                    let at = self.conditions.read_part(self.rows, range)?;
                    let promised = self.laplace.promised(&prediction, self.method, *level, *score, &at);
                    Some(promised.map_err(|error| error.in_part_from(first_row))?)
                }
                Promise::Folds { level, score } => fold_scores(self.laplace, self.method)
                    .map(|folded| promised_by_folds(&prediction, folded, *level, *score))
                    .transpose()?,
                Promise::CvPlus { level, folds } => Some(folds.promised(&inputs, *level)?),
            };
            predict_columns::of(&prediction, promised.as_ref(), self.laplace, &self.args.keep)
        };
        // Without enough calibration rows of its weight, a row has no end.
        let is_end = |name: &str| name.starts_with("lower") || name.starts_with("upper");
        let endless = matches!(self.promise, Promise::Split { .. });
        if let Some((row, column, value)) = columns.not_finite(|name| endless && is_end(name)) {
            let place = self.rows.locate(Error::NotFinite { what: "the prediction", row: first_row + row, column: 0 });
            return Err(Failure::Work(format!("{place} (`{column}` is {value}); nothing is written")));
        }
        let mut text = if first_row == 0 { header(&self.header(columns.names())?) } else { Vec::new() };
        text.extend(columns.lines(&lines));
        Ok(text)
    }

    /// The names of all columns.
    fn header(&self, predicted: &[String]) -> Result<Vec<String>, Failure> {
        let has_note = self.rows.n_dropped() > 0;
        let own = ["row"].into_iter().chain(has_note.then_some("note")).chain(predicted.iter().map(String::as_str));
        let own: Vec<&str> = own.collect();
        if let Some(name) = self.args.keep.iter().find(|name| own.contains(&name.as_str())) {
            return Err(Failure::Usage(format!("--keep {name}: the predictions have a column of this name")));
        }
        let mut names = vec!["row".to_string()];
        names.extend(self.args.keep.iter().chain(predicted).cloned());
        names.extend(has_note.then(|| "note".to_string()));
        Ok(names)
    }

    /// The lines of some rows, with those that are left out between them.
    fn lines(&self, rows: Range<usize>) -> Result<Vec<Line>, Failure> {
        if self.keep.is_empty() && self.rows.n_dropped() == 0 {
            let line = |row: usize| (rows.start + row + 1).to_string();
            let lines = (0..rows.len()).map(|row| Line { before: line(row), row: Some(row), after: None });
            return Ok(lines.collect());
        }
        let has_note = self.rows.n_dropped() > 0;
        let mut predicted = 0;
        let mut line = |joined: JoinedRow| {
            let mut before = joined.number.to_string();
            joined.texts.iter().for_each(|text| before += &format!(",{}", cell(text)));
            let note = if joined.missing.is_empty() {
                String::new()
            } else {
                format!("no value of {}", joined.missing.join(", "))
            };
            let row = joined.missing.is_empty().then_some(predicted);
            predicted += usize::from(row.is_some());
            Line { before, row, after: has_note.then(|| cell(&note).into_owned()) }
        };
        Ok(self.rows.joined_rows(rows, &self.keep)?.into_iter().map(&mut line).collect())
    }
}
