//! From parts to layers and θ: the one place where what a graph describes meets what this crate can do.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::part::{Kind, Parameter, Part};
use super::window::Window;
use crate::error::Result;
use crate::network::{
    Architecture, AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm, Linear, MaxPool2d,
    Network, Residual,
};

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

/// The zeros around an image, which are the same on both sides in the layers here.
fn padding(graph: &Graph, node: usize, window: &Window) -> Result<[usize; 2]> {
    match window.before == window.after {
        true => Ok(window.before),
        false => Err(graph.refuse(node, "its padding differs between the two sides, which is not supported")),
    }
}

/// The window of a pooling.
#[allow(clippy::indexing_slicing, reason = "axes are 0 and 1, and every array has an entry for each")]
fn undilated(graph: &Graph, node: usize, window: &Window) -> Result<[usize; 2]> {
    let whole = (0..2).all(|axis| window.dilation[axis] == 1 || window.kernel[axis] == 1);
    if whole { Ok(window.kernel) } else { Err(graph.refuse(node, "dilated pooling is not supported")) }
}

/// The network that a chain of parts describes.
pub fn build(graph: &Graph, parts: &[Part]) -> Result<Built> {
    let mut building = Building::default();
    let layers = building.layers(graph, parts)?;
    let architecture = Architecture::of_layers(layers)
        .map_err(|error| graph.refuse_file(format!("its layers make no network: {error}")))?;
    let network = Network::new(architecture, building.parameters)?.with_tensor_names(building.names.clone());
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
            Kind::Convolution { window, filters, groups, bias } => Ok(Layer::Conv2d(Conv2d {
                input: window.image(),
                outputs: *filters,
                kernel: window.kernel,
                stride: window.stride,
                padding: padding(graph, part.node, window)?,
                dilation: window.dilation,
                groups: *groups,
                bias: *bias,
            })),
            Kind::AveragePool { window, counts_padding } => Ok(Layer::AvgPool2d(AvgPool2d {
                input: window.image(),
                kernel: undilated(graph, part.node, window)?,
                stride: window.stride,
                padding: padding(graph, part.node, window)?,
                count_include_pad: *counts_padding,
            })),
            Kind::MaxPool { window } => Ok(Layer::MaxPool2d(MaxPool2d {
                input: window.image(),
                kernel: undilated(graph, part.node, window)?,
                stride: window.stride,
                padding: padding(graph, part.node, window)?,
            })),
            Kind::GlobalAveragePool { channels, positions } => {
                Ok(Layer::GlobalAvgPool(GlobalAvgPool::new(Image::new(*channels, 1, *positions))))
            }
            Kind::LayerNorm { inputs, shape, epsilon, affine } => Ok(Layer::LayerNorm(LayerNorm {
                inputs: *inputs,
                shape: shape.clone(),
                eps: *epsilon,
                weight: affine.weight,
                bias: affine.bias,
            })),
            Kind::GroupNorm { groups, channels, positions, epsilon, affine } => Ok(Layer::GroupNorm(GroupNorm {
                input: Image::new(*channels, 1, *positions),
                groups: *groups,
                eps: *epsilon,
                weight: affine.weight,
                bias: affine.bias,
            })),
            Kind::BatchNorm { positions, mean, variance, epsilon } => Ok(Layer::BatchNorm(BatchNorm {
                input: Image::new(mean.len(), 1, *positions),
                mean: mean.clone(),
                variance: variance.clone(),
                eps: *epsilon,
                weight: true,
                bias: true,
            })),
            Kind::Residual { first, second } => {
                let (body, shortcut) = (self.layers(graph, first)?, self.layers(graph, second)?);
                let residual = Residual::new(body, shortcut);
                residual.map(Layer::Residual).map_err(|error| graph.refuse(part.node, error.to_string()))
            }
        }
    }

    /// Adds parameters to θ. Exporters store equal tensors once: those that never differed from ones or zeros are
    /// separate parameters, and anything else with one origin is a weight that layers share.
    fn take(&mut self, graph: &Graph, node: usize, parameter: &Parameter) -> Result<()> {
        if let Some((index, value)) = parameter.values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            let name = &parameter.name;
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
