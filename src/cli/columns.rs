//! How the columns of a file are read: which are left out, what stands for missing values, and which are categories.

use std::collections::HashSet;
use std::path::Path;

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::data::{
    CsvStream, Impute, KnownColumn, Table, TableError, TableOptions, UNNAMED_COLUMN, Unknown, list_names,
};
use riemannian_laplace::internals::likelihood::{Known, NoiseError, TargetKind};
use riemannian_laplace::{Family, Schema};

use super::arguments::LikelihoodName;
use super::console::Console;
use super::failure::Failure;
use super::output::counted;

/// The columns and rows that are left out.
#[derive(Debug, Clone, Args)]
pub struct LeaveOutArgs {
    /// Columns to leave out, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Leave out rows with a missing value (an empty cell, NA, N/A, NaN, null, None, ?); without this option it is an error
    #[arg(long)]
    drop_missing: bool,
    /// Words that do not occur in the training data: an error, or all zeros in the one-hot inputs [default: refuse]
    #[arg(long, value_enum, value_name = "WHAT")]
    unknown: Option<UnknownName>,
    /// Refuse columns that the model does not know; without this option they are left out with a note
    #[arg(long)]
    strict: bool,
}

/// What is done about unknown words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnknownName {
    /// An error
    Refuse,
    /// All zeros
    Other,
}

impl LeaveOutArgs {
    /// The same for another file, which may lack the columns that were named.
    pub fn with_all_columns(&self) -> Self {
        Self { ignore: Vec::new(), ..self.clone() }
    }

    /// What is read of a file without the columns that were named, those in `also` (which must be there) and those in
    /// `if_present`.
    pub fn options(&self, also: &[String], if_present: &[String]) -> Result<TableOptions, Failure> {
        refuse_twice("--ignore", &self.ignore)?;
        Ok(TableOptions {
            ignore: self.ignore.iter().chain(also).cloned().collect(),
            ignore_if_present: if_present.to_vec(),
            drop_missing: self.drop_missing,
            unknown: self.unknown(),
            ..Default::default()
        })
    }

    /// A schema that says what the options add to it.
    pub fn add_to(&self, schema: Schema) -> Schema {
        schema.also_reading(self.drop_missing, self.unknown())
    }

    fn unknown(&self) -> Unknown {
        if self.unknown == Some(UnknownName::Other) { Unknown::Other } else { Unknown::Refuse }
    }

    /// Reads a file, and says what was left out. Columns of `silent` are not mentioned.
    pub fn read(
        &self,
        path: &Path,
        options: &TableOptions,
        silent: &[String],
        console: &Console,
    ) -> Result<Table, Failure> {
        let table = Table::read_with(path, options)?;
        self.note(path, &table.unknown_columns(), table.n_dropped(), silent, console)?;
        Ok(table)
    }

    /// Says what was left out of a file that is read as it is needed.
    pub fn note_stream(
        &self,
        path: &Path,
        rows: &CsvStream,
        silent: &[String],
        console: &Console,
    ) -> Result<(), Failure> {
        self.note(path, rows.unknown_columns(), rows.n_dropped(), silent, console)
    }

    fn note(
        &self,
        path: &Path,
        unknown: &[String],
        dropped: usize,
        silent: &[String],
        console: &Console,
    ) -> Result<(), Failure> {
        let silent: HashSet<&String> = silent.iter().collect();
        let unknown = unknown.iter().filter(|name| !silent.contains(name)).cloned();
        let (unnamed, unknown): (Vec<String>, Vec<String>) = unknown.partition(|name| name == UNNAMED_COLUMN);
        if !unnamed.is_empty() {
            console.note(format!("{}: the first column has no name and is left out", path.display()));
        }
        match unknown.first() {
            Some(column) if self.strict => {
                let (path, column) = (path.to_path_buf(), column.clone());
                return Err(riemannian_laplace::Error::Table(TableError::UnknownColumn { path, column }).into());
            }
            Some(_) => {
                let (path, columns) = (path.display(), counted(unknown.len(), "column"));
                console
                    .note(format!("{path}: {columns} that the model does not know left out: {}", list_names(&unknown)));
            }
            None => {}
        }
        if dropped > 0 {
            console.note(format!("{}: {} with missing values left out", path.display(), counted(dropped, "row")));
        }
        Ok(())
    }
}

/// The columns that are neither inputs nor targets. Model files and posteriors keep their names.
#[derive(Debug, Clone, Default, Args)]
pub struct KnownArgs {
    /// A column of weights: a row of weight 2 counts as that row twice, one of weight 0 not at all
    #[arg(long, value_name = "NAME")]
    weights_column: Option<String>,
    /// Columns with the known standard deviation of each target's noise, in units of the target: sigma is added to it (its
    /// square to the square), and is 0 unless --sigma, --optimize or --optimize-on finds one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    noise_column: Vec<String>,
    /// The column with the number of trials of --likelihood binomial, of which the target counts the successes
    #[arg(long, value_name = "NAME")]
    trials_column: Option<String>,
}

impl KnownArgs {
    /// The columns, in the order of a schema.
    pub fn columns(&self) -> Vec<KnownColumn> {
        let column = |kind: Known| move |name: &String| KnownColumn { name: name.clone(), kind };
        let noise = self.noise_column.iter().map(column(Known::Noise));
        let trials = self.trials_column.iter().map(column(Known::Trials));
        noise.chain(trials).chain(self.weights_column.iter().map(column(Known::Weight))).collect()
    }

    /// Checks them against the targets and the likelihood.
    pub fn check(&self, targets: &[String], family: &Family) -> Result<Family, Failure> {
        if let Some(column) = self.columns().iter().find(|column| targets.contains(&column.name)) {
            return Err(Failure::Usage(format!("the column `{}` is a target, and named again", column.name)));
        }
        let (noise, count) = (self.noise_column.len(), targets.len());
        if noise > 0 && noise != count {
            let (noise, targets) = (counted(noise, "column"), counted(count, "target"));
            return Err(Failure::Usage(format!("--noise-column names {noise} for {targets}; each has its own")));
        }
        let kinds: Vec<Known> = self.columns().iter().map(|column| column.kind).collect();
        family.with_known(&kinds).map_err(|error| Failure::Usage(format!("{error}{}", option_of(&error))))
    }

    /// A model's own schema, to which these columns are added unless it names them.
    pub fn add_to(&self, model: &Path, schema: Schema) -> Result<Schema, Failure> {
        let columns = self.columns();
        match schema.known() {
            _ if columns.is_empty() => Ok(schema),
            known if known == columns => Ok(schema),
            [] => schema.with_known(columns).map_err(|error| Failure::Usage(format!("{}: {error}", model.display()))),
            known => {
                let names: Vec<String> = known.iter().map(|column| column.name.clone()).collect();
                let (model, names) = (model.display(), list_names(&names));
                Err(Failure::Usage(format!("{model}: the model was trained with other such columns ({names})")))
            }
        }
    }
}

/// The option that would help.
fn option_of(error: &riemannian_laplace::Error) -> &'static str {
    match error {
        riemannian_laplace::Error::Noise(NoiseError::Needs { known: "trials", .. }) => ": --trials-column names it",
        _ => "",
    }
}

/// How the columns of data are read that are seen for the first time. A model file of `rla train` keeps it.
#[derive(Debug, Clone, Args)]
pub struct EncodeArgs {
    /// Fill in missing inputs: by the mean or the median of the column, or by the mean with an extra 0/1 indicator input
    #[arg(long, value_enum, value_name = "HOW")]
    impute: Option<ImputeName>,
    /// Columns to read as one-hot inputs, separated by commas, be they words or numbers (columns of words are recognised
    /// without this option)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    categorical: Vec<String>,
    /// The classes in the order of the network's outputs, separated by commas [default: sorted]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    class_names: Vec<String>,
}

/// What stands in the place of a missing input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImputeName {
    Mean,
    Median,
    Indicator,
}

impl EncodeArgs {
    /// Adds them to the options of data with these targets. `n_classes` is the number of classes, where it is known.
    pub fn add_to(
        &self,
        options: TableOptions,
        targets: &[String],
        likelihood: LikelihoodName,
        n_classes: Option<usize>,
    ) -> Result<TableOptions, Failure> {
        refuse_twice("--categorical", &self.categorical)?;
        if !self.class_names.is_empty() && !likelihood.takes_classes() {
            let problem = "--class-names belongs to --likelihood categorical or bernoulli";
            return Err(Failure::Usage(problem.to_string()));
        }
        if let Some(name) = self.categorical.iter().find(|name| targets.contains(name)) {
            return Err(Failure::Usage(format!(
                "--categorical names the target column `{name}`; classes are --likelihood categorical"
            )));
        }
        let n_classes = if likelihood.kind() == TargetKind::Answers { Some(2) } else { n_classes };
        let options = TableOptions {
            impute: self.impute.map(|impute| match impute {
                ImputeName::Mean => Impute::Mean,
                ImputeName::Median => Impute::Median,
                ImputeName::Indicator => Impute::Indicator,
            }),
            categorical: self.categorical.clone(),
            class_names: self.class_names.clone(),
            n_classes,
            ..options
        };
        Ok(options.for_targets(targets))
    }

    /// A model's own schema, which decides: the options may repeat it, or name classes that had numbers only.
    pub fn agree_with(&self, model: &Path, schema: Schema) -> Result<Schema, Failure> {
        let refuse = |option: &str, says: &str| {
            Err(Failure::Usage(format!("{}: {option}, but the model file {says}", model.display())))
        };
        if self.impute.is_some() && !schema.fills_missing() {
            return refuse("--impute", "was trained without it; train with it");
        }
        let categories = schema.categorical_columns();
        if let Some(name) = self.categorical.iter().find(|name| !categories.contains(name)) {
            return refuse(&format!("--categorical {name}"), "was trained without it; train with it");
        }
        match schema.classes() {
            _ if self.class_names.is_empty() => Ok(schema),
            Some(classes) if classes == self.class_names => Ok(schema),
            Some(classes) => refuse("--class-names", &format!("has the classes {} in this order", list_names(classes))),
            None => Ok(schema.with_named_numbers(self.class_names.clone())?),
        }
    }
}

/// Says what was done to columns that are not plain numbers.
pub fn note_encoding(path: &Path, schema: &Schema, console: &Console) {
    for line in schema.encoding_in_words() {
        console.note(format!("{}: {line}", path.display()));
    }
}

/// Refuses a list of column names in which one appears twice.
pub fn refuse_twice(option: &str, names: &[String]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Failure::Usage(format!("{option} names the column `{name}` twice"))),
        None => Ok(()),
    }
}
