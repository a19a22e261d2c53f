//! From parts to layers and θ: the one place where what a graph describes meets what this crate can do.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::part::{Kind, Parameter, Part};
use crate::error::Result;
use crate::network::{Architecture, Layer, Linear, Network};

/// A network in the making.
#[derive(Default)]
struct Building {
    parameters: Vec<f64>,
    names: Vec<String>,
    nodes: BTreeSet<usize>,
    /// The node that used an initialiser first.
    origins: BTreeMap<String, usize>,
    notes: Vec<String>,
}

/// The network, the names of its tensors in the order of θ, and what a person should know of how it was read.
pub struct Built {
    /// The network.
    pub network: Network,
    /// The names of the initialisers.
    pub names: Vec<String>,
    /// Notes.
    pub notes: Vec<String>,
}

/// The network that a chain of parts describes.
pub fn build(graph: &Graph, parts: &[Part]) -> Result<Built> {
    let mut building = Building::default();
    let layers = building.layers(graph, parts)?;
    let architecture = Architecture::of_layers(layers)
        .map_err(|error| graph.refuse_file(format!("its layers make no network: {error}")))?;
    let network = Network::new(architecture, building.parameters)?;
    Ok(Built { network, names: building.names, notes: building.notes })
}

impl Building {
    fn layers(&mut self, graph: &Graph, parts: &[Part]) -> Result<Vec<Layer>> {
        parts.iter().map(|part| self.layer(graph, part)).collect()
    }

    fn layer(&mut self, graph: &Graph, part: &Part) -> Result<Layer> {
        if part.n_params() > 0 && !self.nodes.insert(part.node) {
            return Err(graph.refuse(part.node, "the layer is used twice; weights that are shared are not supported"));
        }
        for parameter in &part.parameters {
            self.take(graph, part.node, parameter)?;
        }
        match &part.kind {
            Kind::Linear { inputs, outputs, bias } => {
                Ok(Layer::Linear(Linear { inputs: *inputs, outputs: *outputs, bias: *bias }))
            }
            Kind::Activation(activation) => Ok(Layer::Activation(*activation)),
            _ => Err(graph.refuse(part.node, "this operator is not supported")),
        }
    }

    /// Adds parameters to θ. Exporters store equal tensors once: those that never differed from ones or zeros are
    /// separate parameters, and anything else with one origin is a weight that layers share.
    fn take(&mut self, graph: &Graph, node: usize, parameter: &Parameter) -> Result<()> {
        if let Some(index) = parameter.values.iter().position(|value| !value.is_finite()) {
            let (name, value) = (&parameter.name, parameter.values[index]);
            return Err(
                graph.refuse(node, format!("`{name}` holds {value} at flat index {index}; all values must be finite"))
            );
        }
        if self.origins.insert(parameter.origin.clone(), node).is_some() {
            let first = parameter.values.first().copied().unwrap_or(0.0);
            if !parameter.values.iter().all(|value| *value == first) {
                let problem = format!(
                    "it shares `{}` with another layer; weights that are shared are not supported",
                    parameter.origin
                );
                return Err(graph.refuse(node, problem));
            }
            self.notes.push(format!(
                "`{}` is stored once for several layers, as exporters do with equal tensors; each layer has its own",
                parameter.origin
            ));
        }
        self.names.push(parameter.name.clone());
        self.parameters.extend(&parameter.values);
        Ok(())
    }
}
