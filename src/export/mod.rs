//! A posterior as one ONNX graph: error bars where the model runs.
//!
//! The graph takes the network's inputs in their original units and gives means, variances and intervals, class probabilities
//! or counts. It holds the network, written node by node from the kinds of its [graph](crate::network::graph), and, by method:
//!
//! | method | what is added |
//! |---|---|
//! | `map` | nothing |
//! | `glm` | the pull-back, node by node, and the posterior covariance: the variance of an output is Σ (Cᵀj)² for its row j of the Jacobian |
//! | `nn`, `riemannian` | the weights of all samples, stacked |
//!
//! Neither the training data nor rows of their Jacobian are in it.

mod covariance;
mod functions;
mod likelihood;
mod network;
mod products;
mod pullback;
mod quantiles;
mod sparse;
mod writer;

use std::path::Path;

use ndarray::Array2;
use prost::Message;

use self::covariance::Covariance;
use self::likelihood::{Output, Outputs, Setting};
use self::network::{Forward, Parameters};
use self::writer::{Axis, Name, Writer, value_info};
use crate::data::Schema;
use crate::error::{Error, Result, gigabytes};
use crate::files;
use crate::laplace::{CovarianceForm, Laplace};
use crate::memory;
use crate::network::Network;
use crate::network::graph::Graph;
use crate::network::onnx::messages::{GraphProto, ModelProto, OperatorSetProto, StringStringEntryProto};
use crate::predict::{Method, draw_weights};

/// The numbers of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Four bytes each: half the size, and what runtimes are fastest with.
    #[default]
    F32,
    /// Eight bytes each: the program's own numbers.
    F64,
}

/// How a posterior is written.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The numbers of the graph.
    pub precision: Precision,
    /// The version of the operators: 17 to 22.
    pub opset: i64,
    /// The probability of an observation between `lower` and `upper`.
    pub level: f64,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { precision: Precision::F32, opset: 17, level: 0.9 }
    }
}

impl ExportOptions {
    /// The same with these numbers.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The same with this version of the operators.
    pub fn with_opset(self, opset: i64) -> Self {
        Self { opset, ..self }
    }

    /// The same with intervals of this probability.
    pub fn with_level(self, level: f64) -> Self {
        Self { level, ..self }
    }
}

/// A graph that is ready to be written.
#[derive(Debug, Clone)]
pub struct Exported {
    model: ModelProto,
    outputs: Vec<&'static str>,
}

impl Exported {
    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> &[&'static str] {
        &self.outputs
    }

    /// The number of operators.
    pub fn n_operators(&self) -> usize {
        self.model.graph.as_ref().map_or(0, |graph| graph.node.len())
    }

    /// The same with an entry more in its metadata.
    pub fn with_metadata(mut self, key: &str, value: &str) -> Self {
        self.model.metadata_props.push(entry(key, value.to_string()));
        self
    }

    /// Writes the file whole or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_whole(path, &self.to_bytes())
    }
}

fn entry(key: &str, value: String) -> StringStringEntryProto {
    StringStringEntryProto { key: key.to_string(), value }
}

/// A file of protocol buffers ends here.
const LARGEST: f64 = 2e9;
/// Bytes of a node with its names, and of what every file has.
const PER_NODE: f64 = 300.0;
const OVERHEAD: f64 = 1500.0;
/// The name of the input.
const INPUTS: &str = "inputs";
/// The versions of operators that can be asked for.
const OPSETS: std::ops::RangeInclusive<i64> = 17..=22;

/// A refusal with what cannot be exported.
fn refused(what: &str) -> Error {
    Error::Export(what.to_string())
}

/// The whole network behind a posterior.
fn network_of(laplace: &Laplace) -> Result<Network> {
    let model = laplace.model();
    let all = model.subset().map_or(model.parameters(), |place| place.all);
    let record = model.record().ok_or_else(|| refused("a model that is no network of this crate's nodes"))?;
    Network::from_record(&record, all.to_vec()).map_err(|_| refused("a model that is no network of this crate's nodes"))
}

/// Which of all parameters are uncertain.
fn uncertain(laplace: &Laplace, count: usize) -> Vec<bool> {
    match laplace.model().subset() {
        None => vec![true; count],
        Some(place) => {
            let mut uncertain = vec![false; count];
            place.indices.iter().for_each(|index| uncertain[*index] = true);
            uncertain
        }
    }
}

/// A posterior and a way to predict, with the numbers that a graph needs of them: its size is known before it is written.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::prelude::*;
/// use riemannian_laplace::internals::export::{ExportOptions, Plan};
///
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
/// let method = Method::default();
/// let plan = Plan::new(&laplace, &method, ExportOptions::default())?;
/// let exported = plan.write()?;
/// assert_eq!(exported.outputs(), ["mean", "epistemic_variance", "aleatoric_variance", "lower", "upper"]);
/// assert!((plan.bytes() - exported.to_bytes().len() as f64).abs() < 4000.0);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct Plan<'a> {
    laplace: &'a Laplace,
    method: &'a Method,
    options: ExportOptions,
    network: Network,
    /// Which of the network's parameters are uncertain.
    uncertain: Vec<bool>,
    /// The covariance, for `glm`.
    form: Option<CovarianceForm>,
    /// θ of every sample, for the methods that have some.
    samples: Option<Vec<Vec<f64>>>,
}

impl<'a> Plan<'a> {
    /// Computes the covariance, or draws the samples.
    pub fn new(laplace: &'a Laplace, method: &'a Method, options: ExportOptions) -> Result<Self> {
        if !OPSETS.contains(&options.opset) {
            return Err(refused(&format!("operators of version {}; ask for 17 to 22", options.opset)));
        }
        if !(options.level > 0.0 && options.level < 1.0) {
            return Err(Error::QuantileLevel(options.level));
        }
        let network = network_of(laplace)?;
        let uncertain = uncertain(laplace, network.parameters().len());
        let samples = samples(laplace, method, network.parameters(), &uncertain)?;
        let form = match method {
            Method::Glm(_) => Some(laplace.precision().form()?),
            _ => None,
        };
        Ok(Self { laplace, method, options, network, uncertain, form, samples })
    }

    /// About how many bytes the file will have: those of its weights, samples and covariance.
    pub fn bytes(&self) -> f64 {
        let moved = self.uncertain.iter().filter(|uncertain| **uncertain).count() as f64;
        let own = match (&self.form, &self.samples) {
            // Weights once for the outputs and once, transposed, for the sensitivities.
            (Some(form), _) => moved + form.numbers(),
            (None, Some(samples)) => moved * samples.len().saturating_sub(1) as f64,
            (None, None) => 0.0,
        };
        let bytes = if self.options.precision == Precision::F32 { 4.0 } else { 8.0 };
        bytes * (self.network.parameters().len() as f64 + own) + PER_NODE * self.graph().nodes().len() as f64 + OVERHEAD
    }

    fn graph(&self) -> &Graph {
        self.network.architecture().graph()
    }

    /// Writes the graph.
    pub fn write(&self) -> Result<Exported> {
        let bytes = self.bytes();
        if bytes > LARGEST {
            return Err(refused(&format!("{} in one ONNX file, which holds 2 GB; {SMALLER}", gigabytes(bytes))));
        }
        memory::check("the exported graph", bytes / 2.0, SMALLER)?;
        let mut writer = Writer::new(self.options.precision);
        let outputs = self.body(&mut writer)?;
        let real = writer.real();
        let mut infos = Vec::new();
        for output in &outputs {
            writer.output(&output.value, output.name);
            infos.push(value_info(output.name, real, Some(&output.axes)));
        }
        let names: Vec<&'static str> = outputs.iter().map(|output| output.name).collect();
        let (node, initializer) = writer.finish(&names);
        let inputs = [Axis::Rows, Axis::Length(self.graph().n_inputs())];
        let graph = GraphProto {
            node,
            name: "error bars".to_string(),
            initializer,
            input: vec![value_info(INPUTS, real, Some(&inputs))],
            output: infos,
            ..Default::default()
        };
        let model = ModelProto {
            // The format in which the version of the operators came.
            ir_version: if self.options.opset < 20 { 8 } else { 10 },
            producer_name: "riemannian-laplace".to_string(),
            producer_version: env!("CARGO_PKG_VERSION").to_string(),
            graph: Some(graph),
            opset_import: vec![OperatorSetProto { domain: String::new(), version: self.options.opset }],
            metadata_props: self.metadata(),
        };
        Ok(Exported { model, outputs: names })
    }

    /// The nodes from the inputs to the outputs.
    fn body(&self, w: &mut Writer) -> Result<Vec<Output>> {
        let inputs = scaled_inputs(w, self.laplace.schema());
        let theta = self.network.parameters();
        let parameters = Parameters { theta, uncertain: &self.uncertain, samples: self.samples.as_deref() };
        let forward = Forward::write(w, self.graph(), parameters, &inputs)?;
        let value = forward.values[self.graph().output()].name.clone();
        let covariance;
        let raw = match (self.method, &self.form, &self.samples) {
            (Method::Glm(link), Some(form), _) => {
                covariance = Covariance::write(w, &forward, form)?;
                Outputs::Gaussian { mean: value, covariance: &covariance, link: *link }
            }
            (_, _, Some(samples)) => Outputs::Samples { outputs: value, count: samples.len() },
            _ => Outputs::Network(value),
        };
        let setting = Setting {
            family: self.laplace.family(),
            schema: self.laplace.schema(),
            n_outputs: self.graph().n_outputs(),
            level: self.options.level,
            opset: self.options.opset,
        };
        likelihood::write(w, &setting, &raw)
    }

    /// What the file says of itself.
    fn metadata(&self) -> Vec<StringStringEntryProto> {
        let (laplace, schema) = (self.laplace, self.laplace.schema());
        let list = |names: &[String]| serde_json::to_string(names).unwrap_or_default();
        let mut entries = vec![
            entry("version", env!("CARGO_PKG_VERSION").to_string()),
            entry("likelihood", laplace.family().likelihood().name().to_string()),
            entry("method", method_name(self.method).to_string()),
            entry("structure", laplace.structure().to_string()),
            entry("interval", self.options.level.to_string()),
            entry("inputs", list(schema.inputs())),
            entry("targets", list(schema.targets())),
            entry("network_fingerprint", self.network.fingerprint()),
        ];
        if let Method::Glm(link) = self.method
            && laplace.family().has_classes()
        {
            entries.push(entry("link", link.name().to_string()));
        }
        if let Some(classes) = schema.classes() {
            entries.push(entry("classes", list(classes)));
        }
        entries
    }
}

/// What makes a file smaller.
pub const SMALLER: &str =
    "smaller: a Kronecker or low-rank structure, the last layer alone, fewer samples, or single precision";

/// θ of every sample, whole; none where the method has none.
fn samples(laplace: &Laplace, method: &Method, theta: &[f64], uncertain: &[bool]) -> Result<Option<Vec<Vec<f64>>>> {
    let weights: Array2<f64> = match method {
        Method::Map | Method::Glm(_) => return Ok(None),
        Method::Nn(draws) => draw_weights(laplace, draws)?,
        Method::Riemannian(geodesics) => geodesics.draw(laplace, &())?.0.reached(),
        Method::Samples(samples) => samples.reached(),
        Method::Mixture(_) => return Err(refused("a committee; export its members one by one")),
    };
    if weights.nrows() == 0 {
        return Err(Error::NoRows { what: "the samples".to_string() });
    }
    let whole = |row: ndarray::ArrayView1<'_, f64>| {
        let mut values = row.iter();
        let entry = |(place, own): (usize, &f64)| match uncertain[place] {
            true => values.next().copied().unwrap_or(*own),
            false => *own,
        };
        theta.iter().enumerate().map(entry).collect()
    };
    Ok(Some(weights.rows().into_iter().map(whole).collect()))
}

/// (x − mean)/scale of the graph's inputs.
fn scaled_inputs(w: &mut Writer, schema: &Schema) -> Name {
    let inputs = INPUTS.to_string();
    let Some(scaling) = schema.scaling().map(|scaling| &scaling.inputs) else { return inputs };
    let columns = scaling.n_columns();
    let (mean, scale) = (w.numbers(&[columns], scaling.mean()), w.numbers(&[columns], scaling.scale()));
    let shifted = w.subtract(&inputs, &mean);
    w.divide(&shifted, &scale)
}

fn method_name(method: &Method) -> &'static str {
    match method {
        Method::Map => "map",
        Method::Glm(_) => "glm",
        Method::Nn(_) => "nn",
        Method::Riemannian(_) | Method::Samples(_) => "riemannian",
        Method::Mixture(_) => "mixture",
    }
}
