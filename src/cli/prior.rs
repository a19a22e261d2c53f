//! The prior over the weights, and how much the data count against it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::evidence::{AtBound, Free, PriorStructure};
use riemannian_laplace::internals::files::read_text;
use riemannian_laplace::internals::prior::{PriorMean, PriorPrecision};
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Laplace, Model, Network, PriorValues};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::output::{Summary, counted, short, short_list};

/// The prior N(M, 1/A) and the temperature.
#[derive(Debug, Args)]
pub struct PriorArgs {
    /// The prior precision: one value, one per layer (separated by commas), or @FILE with one per weight, as text or
    /// safetensors [default: 1]
    #[arg(long, value_name = "A", value_parser = precisions, allow_hyphen_values = true)]
    prior_precision: Option<Numbers>,
    /// What --optimize tunes: one prior precision, one per layer, or one per weight [default: scalar]
    #[arg(long, value_enum, requires = "optimize", conflicts_with = "prior_precision")]
    prior: Option<PriorName>,
    /// The prior mean: one value, or @FILE with one per weight, as text, safetensors or a model file [default: 0]
    #[arg(long, value_name = "M", value_parser = mean, allow_hyphen_values = true)]
    prior_mean: Option<Numbers>,
    /// The temperature T of the posterior, prior · likelihood^(1/T): below 1 the data count for more, above 1 for less
    #[arg(long, value_name = "T", value_parser = arguments::positive, allow_negative_numbers = true, default_value_t = 1.0)]
    pub temperature: f64,
}

/// The prior precisions that are tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorName {
    /// One for all weights
    Scalar,
    /// One per layer
    Layer,
    /// One per weight
    Weight,
}

/// Numbers on the command line, or the file that holds them.
#[derive(Debug, Clone, PartialEq)]
enum Numbers {
    Given(Vec<f64>),
    File(PathBuf),
}

/// Parses numbers, each by `parse`, or the name of a file after an @.
fn numbers(text: &str, parse: impl Fn(&str) -> Result<f64, String>) -> Result<Numbers, String> {
    match text.strip_prefix('@') {
        Some("") => Err("a file must follow the @".to_string()),
        Some(path) => Ok(Numbers::File(PathBuf::from(path))),
        None => Ok(Numbers::Given(text.split(',').map(parse).collect::<Result<_, _>>()?)),
    }
}

fn precisions(text: &str) -> Result<Numbers, String> {
    numbers(text, arguments::positive)
}

fn mean(text: &str) -> Result<Numbers, String> {
    match numbers(text, arguments::finite)? {
        Numbers::Given(values) if values.len() > 1 => Err("give one value, or @FILE with one per weight".to_string()),
        numbers => Ok(numbers),
    }
}

/// The precisions that a network was trained under, for the weights of it that are uncertain: of a last layer alone the last,
/// of other parts their geometric mean.
fn of_training(values: &[f64], uncertain: &dyn Model) -> PriorValues {
    match (values, uncertain.groups().len()) {
        ([value], _) => PriorValues::Shared(*value),
        (values, layers) if layers == values.len() && uncertain.subset().is_none() => values.to_vec().into(),
        ([.., last], 1) => PriorValues::Shared(*last),
        (values, _) => {
            let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
            PriorValues::Shared((logarithms / values.len().max(1) as f64).exp())
        }
    }
}

impl PriorArgs {
    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.prior_precision, &self.prior_mean].into_iter().filter_map(|numbers| match numbers {
            Some(Numbers::File(path)) => Some(path.as_path()),
            Some(Numbers::Given(_)) | None => None,
        })
    }

    /// Whether a prior precision was given, which tuning then leaves alone.
    pub fn precision_is_given(&self) -> bool {
        self.prior_precision.is_some()
    }

    /// Whether tuning may change the prior precision, and into what.
    pub fn tuned(&self) -> (Free, PriorStructure) {
        let structure = match self.prior {
            Some(PriorName::Scalar) | None => PriorStructure::Scalar,
            Some(PriorName::Layer) => PriorStructure::PerLayer,
            Some(PriorName::Weight) => PriorStructure::PerWeight,
        };
        (if self.precision_is_given() { Free::Held } else { Free::Tuned }, structure)
    }

    /// The prior precision by which a sub-network is chosen: the first that was given.
    pub fn first(&self) -> f64 {
        match &self.prior_precision {
            Some(Numbers::Given(values)) => values.first().copied().unwrap_or(1.0),
            Some(Numbers::File(_)) | None => 1.0,
        }
    }

    /// The prior precisions of the uncertain weights of a network.
    pub fn precision(
        &self,
        network: &Network,
        uncertain: &dyn Model,
        (path, trained): (&Path, Option<&[f64]>),
    ) -> Result<PriorValues, Failure> {
        match &self.prior_precision {
            None => Ok(trained.map_or_else(PriorValues::default, |values| of_training(values, uncertain))),
            Some(Numbers::File(path)) => {
                let prior = PriorValues::PerWeight(read_numbers(path, "prior_precision", network, uncertain)?);
                prior.over(&uncertain.group_sizes()).map_err(Failure::about(path))?;
                Ok(prior)
            }
            Some(Numbers::Given(values)) => {
                let (count, layers) = (values.len(), uncertain.groups().len());
                if count > 1 && count != layers {
                    let which = if uncertain.subset().is_some() { "uncertain " } else { "" };
                    return Err(Failure::Usage(format!(
                        "--prior-precision has {count} values; give one, or one for each of the {layers} {which}layers \
                         of {}",
                        path.display(),
                    )));
                }
                Ok(values.clone().into())
            }
        }
    }

    /// The prior mean of the uncertain weights of a network.
    pub fn mean(&self, network: &Network, uncertain: &dyn Model) -> Result<PriorMean, Failure> {
        match &self.prior_mean {
            None => Ok(PriorMean::default()),
            Some(Numbers::File(path)) => Ok(read_numbers(path, "prior_mean", network, uncertain)?.into()),
            Some(Numbers::Given(values)) => Ok(values.first().copied().unwrap_or_default().into()),
        }
    }

    /// Adds what is not as usual to the summary of a fit.
    pub fn summarize(&self, laplace: &Laplace, summary: &mut Summary) {
        let mean = laplace.prior_mean();
        if !mean.is_zero() && !laplace.prior().is_earlier_posterior() {
            summary.row("prior mean", range_of(mean.values()), "given");
        }
        if laplace.temperature() != 1.0 {
            let meaning = "T: the posterior is prior · likelihood^(1/T), and so is its evidence";
            summary.row("temperature", short(laplace.temperature()), meaning);
        }
    }
}

/// The prior precisions in few words.
pub fn precision_in_words(prior: &PriorPrecision) -> String {
    match prior.structure() {
        PriorStructure::Scalar | PriorStructure::PerLayer => short_list(prior.values()),
        PriorStructure::PerWeight => range_of(prior.values()),
    }
}

/// One number, or how many there are and between which they lie.
fn range_of(values: &[f64]) -> String {
    if let [value] = values {
        return short(*value);
    }
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    format!("{}, {} to {}", counted(values.len(), "value"), short(low), short(high))
}

/// Warns of hyperparameters that ran to a bound: one line each, but one for all where each weight has its own.
pub fn warn_of_bounds(at_bound: &[AtBound], laplace: &Laplace, console: &Console) {
    let per_weight = laplace.prior().structure() == PriorStructure::PerWeight;
    let (of_weights, single): (Vec<_>, Vec<_>) =
        at_bound.iter().partition(|bound| per_weight && bound.parameter == "prior precision");
    if !of_weights.is_empty() {
        let low = of_weights.iter().filter(|bound| bound.value < 1.0).count();
        console.warn(format!(
            "{} of {} prior precisions ran to a bound, {} to the upper and {low} to the lower: the data do not \
             determine them",
            of_weights.len(),
            laplace.prior().values().len(),
            of_weights.len() - low,
        ));
    }
    for bound in single {
        console.warn(bound);
    }
}

/// One number per uncertain weight from a file: the tensor of that name, the only tensor, or the weights of a network in
/// a safetensors file; otherwise text. Where there is one per weight of the whole network, those of the uncertain ones.
fn read_numbers(path: &Path, tensor: &str, network: &Network, uncertain: &dyn Model) -> Result<Vec<f64>, Failure> {
    let values = match path.extension().is_some_and(|extension| extension == "safetensors") {
        true => tensor_numbers(path, tensor, network)?,
        false => text_numbers(path)?,
    };
    let (expected, found) = (uncertain.n_params(), values.len());
    match uncertain.subset() {
        _ if found == expected => Ok(values),
        Some(place) if found == network.n_params() => {
            Ok(place.indices.iter().filter_map(|index| values.get(*index).copied()).collect())
        }
        part => {
            let which = if part.is_some() { "uncertain weights" } else { "weights" };
            Err(Failure::Usage(format!(
                "{}: it holds {}; the network has {expected} {which}: give one number for each",
                path.display(),
                counted(found, "number"),
            )))
        }
    }
}

fn tensor_numbers(path: &Path, tensor: &str, network: &Network) -> Result<Vec<f64>, Failure> {
    let mut file = TensorFile::read(path)?;
    let name = match file.tensors.len() {
        1 => file.tensors.keys().next().cloned(),
        _ => file.tensors.contains_key(tensor).then(|| tensor.to_string()),
    };
    match name {
        Some(name) => Ok(file.take(path, &name)?.values),
        None => {
            let other = Network::load(path, network.architecture().activation()).map_err(Failure::about(path))?;
            Ok(other.parameters().to_vec())
        }
    }
}

fn text_numbers(path: &Path) -> Result<Vec<f64>, Failure> {
    let text = read_text(path)?;
    let mut values = Vec::new();
    for (line, cells) in text.lines().enumerate() {
        for cell in cells.split([',', ';', ' ', '\t']).filter(|cell| !cell.is_empty()) {
            values.push(arguments::finite(cell).map_err(|problem| {
                Failure::Usage(format!("{}: line {}: `{cell}` is no number: {problem}", path.display(), line + 1))
            })?);
        }
    }
    Ok(values)
}
