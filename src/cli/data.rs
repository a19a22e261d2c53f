//! The data that the commands read: columns by name, rows with empty cells, and errors that name the file.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::Batches;
use riemannian_laplace::Model;
use riemannian_laplace::internals::data::{CsvStream, StreamColumns, Table, TableOptions, list_names};
use riemannian_laplace::internals::likelihood::Likelihood;
use riemannian_laplace::{Dataset, Error, Schema};
use riemannian_laplace::{Family, Laplace};

use super::arguments::LikelihoodName;
use super::columns::{EncodeArgs, KnownArgs, LeaveOutArgs, note_encoding, refuse_twice};
use super::console::Console;
use super::failure::Failure;
use super::output::counted;
use super::source::{self, Classes, Source};

/// This many classes may each have a single row.
const FEW_CLASSES: usize = 10;

impl LeaveOutArgs {
    /// The inputs at which a posterior is to predict, in the units of the file. `not_inputs` are columns of the file in
    /// addition to those to ignore; those in `silent` are not mentioned.
    pub fn rows_for_posterior(
        &self,
        path: &Path,
        not_inputs: &[String],
        silent: &[String],
        posterior: &Laplace,
        console: &Console,
    ) -> Result<CsvStream, Failure> {
        refuse_twice("--target", not_inputs)?;
        refuse_sharing(path, console)?;
        let schema = posterior.schema().without_scaling();
        let silent = [&schema.target_columns(), schema.ignored(), silent].concat();
        let options = self.options(not_inputs, &[])?;
        let rows = CsvStream::open(path, &options, StreamColumns::Inputs(schema), console.team().clone())?;
        self.note_stream(path, &rows, &silent, console)?;
        Ok(rows)
    }
}

/// A CSV file and the columns to be predicted.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// The data: CSV with a header, separated by commas, semicolons or tabs; gzip is recognised
    #[arg(long, value_name = "CSV")]
    pub data: PathBuf,
    /// The target columns, separated by commas; every other column is an input [default: those of the model or the
    /// posterior]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub target: Vec<String>,
    #[command(flatten)]
    pub leave_out: LeaveOutArgs,
}

/// What is known of data whose columns no model names.
#[derive(Debug, Clone, Copy)]
pub struct NewColumns<'a> {
    /// How cells are read.
    pub encode: &'a EncodeArgs,
    /// Columns that are neither inputs nor targets.
    pub known: &'a KnownArgs,
    /// The input columns in the order of the network's inputs, where it was stated.
    pub input_order: &'a [String],
    /// The distribution of the targets.
    pub likelihood: LikelihoodName,
    /// The number of classes, where it is known.
    pub n_classes: Option<usize>,
}

impl DataArgs {
    /// Reads the file and splits its columns. Words are class labels where the likelihood takes classes.
    pub fn read(&self, new: NewColumns<'_>, console: &Console) -> Result<DataFile, Failure> {
        let options = self.options_of(new)?;
        let table = self.leave_out.read(&self.data, &options, &[], console)?;
        let dataset = match new.likelihood.takes_classes() {
            true => table.labelled_dataset(&self.target),
            false => table.dataset(&self.target),
        };
        let dataset = dataset.map_err(Failure::about(&self.data))?;
        self.refuse_single_rows(&dataset)?;
        note_encoding(&self.data, dataset.schema(), console);
        self.finish(table, dataset)
    }

    /// How a file is read whose columns no model names.
    fn options_of(&self, new: NewColumns<'_>) -> Result<TableOptions, Failure> {
        if self.target.is_empty() {
            return Err(Failure::Usage("--target is needed: it names the columns to be predicted".to_string()));
        }
        self.check_names()?;
        refuse_twice("--input-order", new.input_order)?;
        if let Some(name) = new.input_order.iter().find(|name| self.target.contains(name)) {
            return Err(Failure::Usage(format!("--input-order names the target column `{name}`")));
        }
        let mut options = self.leave_out.options(&[], &[])?;
        options.known = new.known.columns();
        new.known.check(&self.target, &new.likelihood.family())?;
        options.input_order = new.input_order.to_vec();
        new.encode.add_to(options, &self.target, new.likelihood, new.n_classes)
    }

    /// Refuses labels that each occur once.
    fn refuse_single_rows(&self, dataset: &Dataset) -> Result<(), Failure> {
        match dataset.schema().classes() {
            Some(classes) if classes.len() == dataset.len() && classes.len() > FEW_CLASSES => {
                let (path, target) = (self.data.display(), list_names(dataset.schema().targets()));
                Err(Failure::Usage(format!("{path}: every row has its own label in {target}; these are no classes")))
            }
            _ => Ok(()),
        }
    }

    /// Reads the file and matches its columns by name with those of a schema, in the units of its scaling.
    pub fn read_for(&self, schema: &Schema, console: &Console) -> Result<DataFile, Failure> {
        self.check_target_names(schema)?;
        self.read_file(&self.data, schema, console)
    }

    fn read_file(&self, path: &Path, schema: &Schema, console: &Console) -> Result<DataFile, Failure> {
        let options = self.leave_out.options(&[], &[])?.for_schema(schema, &schema.target_columns());
        let silent = [schema.ignored(), &names_of_known(schema)].concat();
        let table = self.leave_out.read(path, &options, &silent, console)?;
        let dataset = table.dataset_for(schema).map_err(Failure::about(path))?;
        self.check_inputs(dataset.schema())?;
        Ok(DataFile { table, path: path.to_path_buf(), dataset })
    }

    /// Reads the data on which a posterior is to be scored, in the units of the file.
    pub fn read_for_posterior(&self, posterior: &Laplace, console: &Console) -> Result<DataFile, Failure> {
        self.read_for(&posterior.schema().without_scaling().without_weights(), console)
    }

    /// Reads another file with the columns of the data that a posterior was fitted to, in the units of the file.
    pub fn read_other(&self, path: &Path, posterior: &Laplace, console: &Console) -> Result<DataFile, Failure> {
        self.read_file(path, &posterior.schema().without_scaling(), console)
    }

    /// The inputs of another file, which may or may not have the targets, in the units of the file.
    pub fn inputs_of(&self, path: &Path, posterior: &Laplace, console: &Console) -> Result<Box<dyn Batches>, Failure> {
        Ok(Box::new(self.leave_out.rows_for_posterior(path, &[], &[], posterior, console)?))
    }

    /// The data on which a posterior is to be scored, in the units of the file, read as its rows are needed. The columns
    /// `others` are read for another purpose, and not mentioned as left out.
    pub fn rows_beside(&self, posterior: &Laplace, others: &[String], console: &Console) -> Result<Source, Failure> {
        refuse_sharing(&self.data, console)?;
        let schema = posterior.schema().without_scaling().without_weights();
        self.check_target_names(&schema)?;
        let others = &[others, &names_of_known(posterior.schema())].concat();
        self.open(StreamColumns::Schema(schema), &self.leave_out.options(&[], &[])?, others, console)
    }

    /// Opens the file to be read in batches: the columns of a schema, or those that the options name.
    pub fn stream(&self, schema: Option<&Schema>, new: NewColumns<'_>, console: &Console) -> Result<Source, Failure> {
        let options = match schema {
            Some(schema) => {
                self.check_target_names(schema)?;
                self.leave_out.options(&[], &[])?
            }
            None => self.options_of(new)?,
        };
        let classes = if new.likelihood.takes_classes() { Classes::Yes } else { Classes::No };
        let source = self.open(source::columns(schema, &self.target, classes), &options, &[], console)?;
        if schema.is_none() {
            note_encoding(&self.data, source.schema(), console);
        }
        Ok(source)
    }

    fn open(
        &self,
        columns: StreamColumns,
        options: &TableOptions,
        others: &[String],
        console: &Console,
    ) -> Result<Source, Failure> {
        let rows = CsvStream::open(&self.data, options, columns, console.team().clone())?;
        let silent = [rows.schema().ignored(), others].concat();
        self.leave_out.note_stream(&self.data, &rows, &silent, console)?;
        self.check_inputs(rows.schema())?;
        Ok(Source::stream(&self.data, rows))
    }

    /// Checks what the options name.
    fn check_names(&self) -> Result<(), Failure> {
        refuse_twice("--target", &self.target)?;
        match self.target.iter().find(|name| self.leave_out.ignore.contains(name)) {
            Some(name) => Err(Failure::Usage(format!("--ignore names the target column `{name}`"))),
            None => Ok(()),
        }
    }

    /// Checks that --target names the targets of a schema.
    fn check_target_names(&self, schema: &Schema) -> Result<(), Failure> {
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        if self.target.is_empty() || sorted(&self.target) == sorted(schema.targets()) {
            return self.check_names();
        }
        Err(Failure::Usage(format!(
            "--target names {}, but the target of the model is {}",
            self.target.join(", "),
            schema.targets().join(", "),
        )))
    }

    /// Checks that there are input columns.
    fn check_inputs(&self, schema: &Schema) -> Result<(), Failure> {
        if schema.inputs().is_empty() {
            let path = self.data.display();
            return Err(Failure::Usage(format!("{path}: there are no input columns; every column is a target")));
        }
        Ok(())
    }

    fn finish(&self, table: Table, dataset: Dataset) -> Result<DataFile, Failure> {
        self.check_inputs(dataset.schema())?;
        Ok(DataFile { table, path: self.data.clone(), dataset })
    }
}

/// The same, where there need not be a file.
#[derive(Debug, Args)]
pub struct OptionalDataArgs {
    /// Data that were held out: CSV with a header, separated by commas, semicolons or tabs [default: the training data
    /// inside the posterior]
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// The target columns, separated by commas [default: those of the posterior]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "data")]
    target: Vec<String>,
    #[command(flatten)]
    leave_out: LeaveOutArgs,
}

impl OptionalDataArgs {
    /// What is left out of files.
    pub fn leave_out(&self) -> &LeaveOutArgs {
        &self.leave_out
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Reads the data on which a posterior is to be scored, in the units of the file.
    pub fn read_for_posterior(&self, posterior: &Laplace, console: &Console) -> Result<Option<DataFile>, Failure> {
        self.given().map(|data| data.read_for_posterior(posterior, console)).transpose()
    }

    /// The same as arguments of a command that needs a file, if there is one.
    pub fn given(&self) -> Option<DataArgs> {
        let data = self.data.clone()?;
        Some(DataArgs { data, target: self.target.clone(), leave_out: self.leave_out.clone() })
    }
}

/// A data set, and the file that knows the line of each row.
#[derive(Debug)]
pub struct DataFile {
    table: Table,
    path: PathBuf,
    /// Its inputs and targets.
    pub dataset: Dataset,
}

impl DataFile {
    /// Checks that there are as many target columns as the likelihood takes.
    pub fn check_target_columns(&self, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<(), Failure> {
        check_target_count(self.dataset.schema(), likelihood, n_outputs)
    }

    /// Checks the targets; the error names the line of the first that the likelihood cannot have produced.
    pub fn check_targets(&self, family: &Family, n_outputs: usize) -> Result<(), Failure> {
        check_targets(&self.path, self.dataset.schema(), family.likelihood(), n_outputs)?;
        Ok(self.table.check_targets(&self.dataset, family, n_outputs)?)
    }

    /// Adds the file and the line to an error about a data point.
    pub fn locate(&self, error: Error) -> Error {
        error.located(&self.path, self.dataset.schema().inputs(), |row| Ok(self.table.line(row)))
    }

    /// Checks inputs and targets against a network.
    pub fn check_against(&self, model: &dyn Model, family: &Family) -> Result<(), Failure> {
        check_columns(&self.path, self.dataset.schema(), model, family.likelihood())?;
        self.check_targets(family, model.n_outputs())
    }
}

/// Checks the columns of a file against a network.
pub fn check_columns(
    path: &Path,
    schema: &Schema,
    model: &dyn Model,
    likelihood: &dyn Likelihood,
) -> Result<(), Failure> {
    let (expected, found) = (model.n_inputs(), schema.inputs().len());
    if expected != found {
        return Err(Failure::Usage(format!(
            "{}: the network has {}, the file {} ({}) besides the target {}",
            path.display(),
            counted(expected, "input"),
            counted(found, "input column"),
            list_names(schema.inputs()),
            list_names(schema.targets()),
        )));
    }
    check_targets(path, schema, likelihood, model.n_outputs())
}

/// Checks that there are as many target columns as the likelihood takes.
fn check_target_count(schema: &Schema, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<(), Failure> {
    let targets = schema.targets();
    let (expected, found) = (likelihood.n_targets(n_outputs), targets.len());
    if expected != found {
        return Err(Failure::Usage(format!(
            "--target names {} ({}); a {} likelihood over {} takes {expected}",
            counted(found, "column"),
            list_names(targets),
            likelihood.name(),
            counted(n_outputs, "network output"),
        )));
    }
    Ok(())
}

/// The same, and that the labels name as many classes as the network has outputs for.
fn check_targets(path: &Path, schema: &Schema, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<(), Failure> {
    check_target_count(schema, likelihood, n_outputs)?;
    let targets = schema.targets();
    for (target, name) in targets.iter().enumerate() {
        let Some(classes) = schema.classes_of(target) else { continue };
        let expected = likelihood.n_classes(n_outputs);
        if classes.len() != expected {
            let column = if targets.len() > 1 { format!(" of `{name}`") } else { String::new() };
            return Err(Failure::Usage(format!(
                "{}: the labels{column} name {} ({}); a {} likelihood over {} takes {expected}",
                path.display(),
                if classes.len() == 1 { "1 class".to_string() } else { format!("{} classes", classes.len()) },
                list_names(classes),
                likelihood.name(),
                counted(n_outputs, "network output"),
            )));
        }
    }
    Ok(())
}

/// The names of columns that are neither inputs nor targets.
fn names_of_known(schema: &Schema) -> Vec<String> {
    schema.known().iter().map(|column| column.name.clone()).collect()
}

/// Refuses what several processes cannot each read their part of.
fn refuse_sharing(path: &Path, console: &Console) -> Result<(), Failure> {
    match path.exists() && !path.is_file() && console.team().size() > 1 {
        true => Err(Failure::Usage(format!("{}: several processes can share a file, not a pipe", path.display()))),
        false => Ok(()),
    }
}
