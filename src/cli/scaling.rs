//! Standardised data: by `--standardize`, by a file, or as the model file specifies.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::data::{SCALING_KEY, SCHEMA_KEY, list_names};
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Scaling, Schema, Standardize};

use super::arguments::LikelihoodName;
use super::console::Console;
use super::data::{DataArgs, NewColumns};
use super::failure::Failure;
use super::input_order::ScalingGoes;
use super::model::is_onnx;
use super::source::{Reading, Source};

/// Whether the data are standardised.
#[derive(Debug, Args)]
pub struct StandardizeArgs {
    /// Standardise the inputs and, for a gaussian likelihood, the targets; with `--standardize=inputs`, the inputs
    /// alone
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        hide_possible_values = true
    )]
    standardize: Option<Columns>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Columns {
    All,
    Inputs,
}

impl StandardizeArgs {
    /// What was requested, given the kind of targets.
    pub fn which(&self, likelihood: LikelihoodName) -> Option<Standardize> {
        self.standardize.map(|columns| columns.of(likelihood))
    }
}

impl Columns {
    fn of(self, likelihood: LikelihoodName) -> Standardize {
        match self {
            Columns::All if likelihood.takes_reals() => Standardize::InputsAndTargets,
            Columns::All | Columns::Inputs => Standardize::Inputs,
        }
    }
}

/// Whether the data of a training are standardised: they are, unless it is refused.
#[derive(Debug, Args)]
pub struct TrainScalingArgs {
    #[command(flatten)]
    standardize: StandardizeArgs,
    /// Train on the columns in their own units; by default inputs and real targets are standardised, which the model file
    /// keeps: everything shown or written stays in original units
    #[arg(long, conflicts_with = "standardize")]
    no_standardize: bool,
}

impl TrainScalingArgs {
    /// What is standardised, given the kind of targets.
    pub fn which(&self, likelihood: LikelihoodName) -> Option<Standardize> {
        match self.no_standardize {
            true => None,
            false => Some(self.standardize.standardize.unwrap_or(Columns::All).of(likelihood)),
        }
    }
}

/// How the data that a network was trained on were scaled.
#[derive(Debug, Args)]
pub struct ScalingArgs {
    #[command(flatten)]
    standardize: StandardizeArgs,
    /// The scaling of the data that the network was trained on, as JSON: {"inputs": {"mean": […], "scale": […]},
    /// "targets": {…}} [default: the one the model file holds]
    #[arg(long, value_name = "JSON", conflicts_with = "standardize")]
    pub scaling: Option<PathBuf>,
}

impl ScalingArgs {
    /// Reads the data as the network of a model file takes them: columns matched with those it was trained on, where
    /// the file names them, and scaled as the file or an option specifies.
    pub fn read(
        &self,
        data: &DataArgs,
        model: &Path,
        new: NewColumns<'_>,
        reading: Reading,
        console: &Console,
    ) -> Result<Source, Failure> {
        let likelihood = new.likelihood;
        let (schema, recorded) = recorded(model)?;
        let plain = match &schema {
            Some(schema) => Some(named_columns(data, model, schema.without_scaling(), new)?),
            None => None,
        };
        let source = match (reading, &plain) {
            (Reading::Whole, Some(schema)) => Source::Whole(data.read_for(schema, console)?),
            (Reading::Whole, None) => Source::Whole(data.read(new, console)?),
            (Reading::Streamed, schema) => data.stream(schema.as_ref(), new, console)?,
        };
        if plain.is_none() && new.input_order.is_empty() && source.schema().inputs().len() > 1 {
            let inputs = list_names(source.schema().inputs());
            console.note(format!("columns → inputs by position: {inputs} (`--input-order` states another order)"));
        }
        if source.schema().classes().is_some() && !likelihood.takes_classes() {
            let model = model.display();
            return Err(Failure::Usage(format!(
                "{model}: the network was trained on classes; choose --likelihood categorical or bernoulli"
            )));
        }
        let asked = self.asked(&source, likelihood)?;
        let contradiction = |says: &str| {
            Err(Failure::Usage(format!(
                "{}: the model file says that the network was trained on {says}; leave out --standardize and --scaling",
                model.display()
            )))
        };
        let scaling = match (recorded, asked) {
            (Some(recorded), Some(asked)) if recorded != asked => {
                return contradiction("data that were scaled differently");
            }
            (None, Some(_)) if schema.is_some() => return contradiction("data that were not scaled"),
            (Some(scaling), _) | (None, Some(scaling)) => scaling,
            (None, None) => return Ok(source),
        };
        if scaling.targets.is_some() && !likelihood.takes_reals() {
            return Err(Failure::Usage(
                "the scaling has targets, which only --likelihood gaussian can scale; leave them out".to_string(),
            ));
        }
        let origin = self.scaling.as_deref().unwrap_or(model);
        source.scaled_by(scaling).map_err(Failure::about(origin))
    }

    /// Whether the scaling of a column goes with it to another input.
    pub fn goes(&self) -> ScalingGoes {
        match self.standardize.standardize {
            Some(_) => ScalingGoes::WithTheColumn,
            None => ScalingGoes::WithTheInput,
        }
    }

    /// The scaling that the options ask for.
    fn asked(&self, source: &Source, likelihood: LikelihoodName) -> Result<Option<Scaling>, Failure> {
        if let Some(path) = &self.scaling {
            return Ok(Some(Scaling::read(path)?));
        }
        match self.standardize.which(likelihood) {
            Some(which) => Ok(Some(Scaling::over(source.batches(), which)?)),
            None => Ok(None),
        }
    }
}

/// The columns of a model file that names them, with what the options add.
fn named_columns(data: &DataArgs, model: &Path, schema: Schema, new: NewColumns<'_>) -> Result<Schema, Failure> {
    if !new.input_order.is_empty() && new.input_order != schema.source_columns() {
        return Err(Failure::Usage(format!(
            "{}: the model file names its inputs ({}), and columns are matched by name; leave out --input-order",
            model.display(),
            list_names(&schema.source_columns()),
        )));
    }
    let schema = new.encode.agree_with(model, schema.with_likelihood(None))?;
    let schema = new.known.add_to(model, schema)?;
    Ok(data.leave_out.add_to(schema))
}

/// The names and the scaling of the data that a model file was trained on, where it holds them.
pub fn recorded(model: &Path) -> Result<(Option<Schema>, Option<Scaling>), Failure> {
    if is_onnx(model) {
        return Ok((None, None));
    }
    let file = TensorFile::read_where(model, |_| false)?;
    let value = |key: &str| file.metadata.get(key).map(String::as_str);
    let scaling = Scaling::from_metadata(model, value(SCALING_KEY))?;
    Ok((Schema::from_metadata(model, value(SCHEMA_KEY), value(SCALING_KEY))?, scaling))
}
