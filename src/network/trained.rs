//! The frozen network: its shape and its parameters in f64, from candle, from PyTorch, or from a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::ArrayView2;
use rand::Rng;

use super::features::Front;
use super::graph::{Start, Tensor};
use super::state_dict::{self, StatedLayer};
use super::{Activation, Architecture, Layer, Mlp, NetworkMap};
use crate::data::{SCHEMA_KEY, Schema};
use crate::error::{Error, Result, TensorError, check_size};
use crate::map::{BlockShape, Cut, Group, Map, Model, Rounding};
use crate::random::{Purpose, stream};
use crate::tensors::{self, TensorFile, Values};

/// The metadata key that names the activation of a plain multilayer perceptron.
const ACTIVATION: &str = "activation";
/// The metadata key under which the layers of any other network are listed.
const LAYERS: &str = "layers";

/// A trained network: the architecture and θ̂.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Network};
/// let network = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, 1);
/// assert_eq!(network.parameters().len(), 31);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    architecture: Architecture,
    parameters: Vec<f64>,
    /// What the file that it was read from calls its tensors, where that differs from their names here.
    names: Option<Vec<String>>,
}

impl Network {
    /// A network with the given flat parameters.
    pub fn new(architecture: Architecture, parameters: Vec<f64>) -> Result<Self> {
        check_size("number of parameters", architecture.n_params(), parameters.len())?;
        match parameters.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(Error::NotFinite { what: "the parameter vector", row: 0, column: index }),
            None => Ok(Self { architecture, parameters, names: None }),
        }
    }

    /// A network with PyTorch's default initialisation: weights and biases uniform on ±1/√inputs.
    pub fn random(architecture: Architecture, seed: u64) -> Self {
        let mut parameters = Vec::with_capacity(architecture.n_params());
        // Every layer has a stream of its own; what a tensor's name starts with says which layer it belongs to.
        let (mut layer, mut index) = (None, 0);
        let mut generator = stream(seed, Purpose::Initialization, index);
        for tensor in architecture.graph().tensors() {
            let name = tensor.name.split('.').next();
            if layer.is_some() && layer != name {
                index += 1;
                generator = stream(seed, Purpose::Initialization, index);
            }
            layer = name;
            parameters.extend((0..tensor.size()).map(|_| match tensor.start {
                Start::Zero => 0.0,
                Start::One => 1.0,
                Start::Uniform(bound) => bound * (2.0 * generator.random::<f64>() - 1.0),
            }));
        }
        Self { architecture, parameters, names: None }
    }

    /// The same network with other parameters.
    pub fn with_parameters(&self, parameters: Vec<f64>) -> Result<Self> {
        Ok(Self { names: self.names.clone(), ..Self::new(self.architecture.clone(), parameters)? })
    }

    /// The current state of a candle module.
    pub fn from_mlp(mlp: &Mlp) -> Result<Self> {
        Self::new(mlp.architecture().clone(), mlp.parameters()?)
    }

    /// Reads a PyTorch `nn.Sequential` state dict, or a candle `VarMap` of an [`Mlp`], saved as safetensors.
    ///
    /// The activation is `activation`, or else the one the file's metadata names; a network without hidden layers needs
    /// none. The metadata may also list the layers, as [`save`](Self::save) does for other networks; a given
    /// `activation` overrides the list.
    ///
    /// A state dict does not say how its tensors are connected, so only the numbering of an `nn.Sequential` is taken for
    /// a chain. [`load_layers`](Self::load_layers) reads others, and an ONNX file says it itself ([`from_onnx`](Self::from_onnx)).
    pub fn load(path: &Path, activation: Option<Activation>) -> Result<Self> {
        let file = state_dict::read(path)?;
        let metadata_error = |key, problem| Error::Metadata { path: path.to_path_buf(), key, problem };
        if let Some(format) = file.metadata.get("format").filter(|format| format.starts_with("riemannian-laplace")) {
            return Err(metadata_error("format", format!("says that this is a {format}; a model is needed")));
        }
        if let (None, Some(text)) = (activation, file.metadata.get(LAYERS)) {
            let architecture: Architecture = serde_json::from_str(text)
                .map_err(|error| metadata_error(LAYERS, format!("does not describe a network: {error}")))?;
            return Self::from_named_tensors(path, architecture, file);
        }
        let layers = state_dict::numbered(path, file.tensors)?;
        let activation = match (activation, file.metadata.get(ACTIVATION)) {
            (Some(activation), _) => activation,
            (None, Some(name)) => name.parse().map_err(|error: super::UnknownActivation| {
                metadata_error(ACTIVATION, format!("is invalid: {error}"))
            })?,
            (None, None) if layers.len() == 1 => Activation::Identity,
            (None, None) => return Err(Error::MissingActivation { path: path.to_path_buf() }),
        };
        let first = layers.iter().take(1).map(|layer| layer.inputs);
        let sizes: Vec<usize> = first.chain(layers.iter().map(|layer| layer.outputs)).collect();
        let biases: Vec<bool> = layers.iter().map(|layer| layer.bias.is_some()).collect();
        let mut parameters = Vec::new();
        for layer in layers {
            parameters.extend(layer.weight.values);
            parameters.extend(layer.bias.map(|bias| bias.values).unwrap_or_default());
        }
        Self::new(Architecture::with_biases(&sizes, &biases, activation)?, parameters)
    }

    /// Reads the linear layers with these names, in this order, each with the activation after it, from safetensors:
    /// `fc1:tanh`, `fc2:relu`, `out`. Every tensor of the file must belong to one of them.
    ///
    /// ```
    /// # use riemannian_laplace::{Activation, Architecture, Error, Network};
    /// # let folder = tempfile::tempdir().map_err(|source| Error::Io { path: "folder".into(), source })?;
    /// # let path = folder.path().join("model.safetensors");
    /// # Network::random(Architecture::new(&[2, 4, 1], Activation::Tanh)?, 1).save(&path)?;
    /// let layers = ["0:tanh".parse()?, "2".parse()?];
    /// let network = Network::load_layers(&path, &layers)?;
    /// assert_eq!(network, Network::load(&path, Some(Activation::Tanh))?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn load_layers(path: &Path, layers: &[StatedLayer]) -> Result<Self> {
        let file = state_dict::read(path)?;
        let (chain, parameters) = state_dict::stated(path, file.tensors, layers)?;
        let network = Self::new(Architecture::of_layers(chain)?, parameters)?;
        let linear = network.architecture.linear_layers().into_iter().zip(layers);
        let names = linear.flat_map(|(linear, stated)| {
            let weight = stated.tensor("weight");
            std::iter::once(weight).chain(linear.bias.then(|| stated.tensor("bias")))
        });
        let names = names.collect();
        Ok(network.with_tensor_names(names))
    }

    /// The same network, whose tensors have these names in the file that they come from, in the order of θ.
    pub(super) fn with_tensor_names(self, names: Vec<String>) -> Self {
        let own: Vec<String> = self.architecture.parameter_groups().into_iter().map(|tensor| tensor.name).collect();
        let names = Some(names).filter(|names| names.len() == own.len() && *names != own);
        Self { names, ..self }
    }

    /// The same function over other tensors of parameters, given by name and shape with their values one after the other:
    /// what was parameter i is now parameter `places[i]`. Parameters with one place become one, as tied weights are. Tensors
    /// whose names differ only after the last dot share a layer.
    ///
    /// ```
    /// use riemannian_laplace::{Activation, Architecture, Model, Network};
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 3.0])?;
    /// let tensors = [("offset".to_string(), vec![1]), ("slope".to_string(), vec![1, 1])];
    /// let other = network.with_tensors(&tensors, &[1, 0], vec![3.0, 2.0])?;
    /// assert_eq!(other.tensors()[0].name, "offset");
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_tensors(
        &self,
        tensors: &[(String, Vec<usize>)],
        places: &[usize],
        parameters: Vec<f64>,
    ) -> Result<Self> {
        let mut listed: Vec<Tensor> = Vec::with_capacity(tensors.len());
        let layer = |name: &str| name.rsplit_once('.').map_or_else(String::new, |(layer, _)| layer.to_string());
        for (name, shape) in tensors {
            let owner = match listed.last() {
                Some(last) if layer(&last.name) == layer(name) => last.owner,
                Some(last) => last.owner + 1,
                None => 0,
            };
            listed.push(Tensor { name: name.clone(), shape: shape.clone(), owner, start: Start::Zero });
        }
        let names = listed.iter().map(|tensor| tensor.name.clone()).collect();
        let own = self.architecture.parameter_groups();
        let unchanged = places.iter().copied().eq(0..self.architecture.n_params())
            && own.iter().map(|tensor| &tensor.shape).eq(listed.iter().map(|tensor| &tensor.shape));
        let architecture = match unchanged {
            true if !self.architecture.layers().is_empty() => self.architecture.clone(),
            _ => Architecture::of_graph(self.architecture.graph().with_tensors(listed, places)?)?,
        };
        Ok(Self::new(architecture, parameters)?.with_tensor_names(names))
    }

    /// The network of this shape from the tensors of a file, all of which must belong to it.
    fn from_named_tensors(path: &Path, architecture: Architecture, mut file: TensorFile) -> Result<Self> {
        let mut parameters = Vec::new();
        for group in architecture.parameter_groups() {
            let tensor = file.take(path, &group.name)?;
            if tensor.shape != group.shape {
                return Err(Error::Tensor(TensorError::Shape {
                    path: path.to_path_buf(),
                    tensor: group.name,
                    found: tensor.shape,
                    expected: format!("the list of layers asks for shape {:?}", group.shape).into(),
                }));
            }
            parameters.extend(tensor.values);
        }
        match file.tensors.into_keys().next() {
            Some(name) => {
                let problem = format!("has no place for the tensor `{name}`");
                Err(Error::Metadata { path: path.to_path_buf(), key: LAYERS, problem })
            }
            None => Self::new(architecture, parameters),
        }
    }

    /// Writes the network as f64 safetensors under the names of a PyTorch `nn.Sequential`. The metadata name the
    /// `activation` of a plain multilayer perceptron, and list the `layers` of any other network.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.save_with(path, BTreeMap::new())
    }

    /// The same with the names and the scaling of the data that the network was trained on, under `schema` and
    /// `scaling`.
    pub fn save_with_schema(&self, path: &Path, schema: &Schema) -> Result<()> {
        let entries = schema.to_metadata().map_err(|error| Error::Metadata {
            path: path.to_path_buf(),
            key: SCHEMA_KEY,
            problem: format!("cannot be written: {error}"),
        })?;
        self.save_with(path, entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }

    fn save_with(&self, path: &Path, mut metadata: BTreeMap<String, String>) -> Result<()> {
        let groups = self.architecture.parameter_groups();
        let mut entries = Vec::with_capacity(groups.len());
        let mut rest = self.parameters.as_slice();
        for group in &groups {
            let (values, others) = rest.split_at(group.size());
            entries.push((group.name.as_str(), group.shape.clone(), Values::Real(values)));
            rest = others;
        }
        let (key, value) = match self.architecture.activation() {
            Some(activation) => (ACTIVATION, activation.to_string()),
            None => {
                let json = serde_json::to_string(&self.architecture).map_err(|error| Error::Metadata {
                    path: path.to_path_buf(),
                    key: LAYERS,
                    problem: format!("cannot be written: {error}"),
                })?;
                (LAYERS, json)
            }
        };
        metadata.insert(key.to_string(), value);
        tensors::write(path, &entries, metadata)
    }

    /// The shape of the network.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// θ̂ in flat order.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// A hash of architecture and parameters (FNV-1a, 64 bits, in hexadecimal) that tells networks apart.
    pub fn fingerprint(&self) -> String {
        let mut shape = self.architecture.to_string();
        let layers = self.architecture.layers();
        let plain = layers.iter().all(|layer| matches!(layer, Layer::Linear(_) | Layer::Activation(_)));
        if layers.is_empty() || !plain {
            // The text does not show every setting of the other layers, such as running statistics; their record does.
            shape.push_str(&self.record().unwrap_or_default());
        }
        let linear = self.architecture.linear_layers();
        let biases = linear.iter().map(|layer| u8::from(layer.bias));
        let weights = self.parameters.iter().flat_map(|value| value.to_le_bytes());
        let hash =
            shape.bytes().chain(biases).chain(weights).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        format!("{hash:016x}")
    }
}

impl Network {
    /// The network that [`Model::record`] describes, with these parameters.
    pub fn from_record(record: &str, parameters: Vec<f64>) -> Result<Self> {
        let architecture = serde_json::from_str(record).map_err(|error| Error::Architecture {
            what: "the description of the network".to_string(),
            problem: error.to_string(),
        })?;
        Self::new(architecture, parameters)
    }
}

impl Model for Network {
    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn groups(&self) -> Vec<Group> {
        let sizes = self.architecture.layer_params().into_iter().enumerate();
        sizes.map(|(index, size)| Group { name: format!("layer {}", index + 1), size }).collect()
    }

    /// By the names that the file they come from gives them, where it has its own.
    fn tensors(&self) -> Vec<Group> {
        let own = self.architecture.parameter_groups().into_iter();
        let named = |(index, tensor): (usize, Tensor)| {
            let given = self.names.as_ref().and_then(|names| names.get(index)).cloned();
            Group { size: tensor.size(), name: given.unwrap_or(tensor.name) }
        };
        own.enumerate().map(named).collect()
    }

    /// In front of the layer that the parameter belongs to.
    fn cut(&self, parameter: usize) -> Option<Cut> {
        let mut start = 0;
        for size in self.architecture.layer_params() {
            if parameter < start + size {
                break;
            }
            start += size;
        }
        let (front, head) = self.architecture.graph().cut(start)?;
        let (before, after) = self.parameters.split_at_checked(start)?;
        let features = Arc::new(Front::new(front, before.to_vec()));
        let head = Network::new(Architecture::of_graph(head).ok()?, after.to_vec()).ok()?;
        Some(Cut { features, head: Arc::new(head), offset: start })
    }

    fn n_inputs(&self) -> usize {
        self.architecture.n_inputs()
    }

    fn n_outputs(&self) -> usize {
        self.architecture.n_outputs()
    }

    fn bind(&self, inputs: ArrayView2<'_, f64>) -> Result<Arc<dyn Map>> {
        Ok(Arc::new(NetworkMap::new(self.architecture.clone(), inputs)?))
    }

    fn numbers_per_point(&self, columns: usize) -> f64 {
        let graph = self.architecture.graph();
        graph.tape_size(1, columns) + graph.scratch_width() as f64
    }

    fn blocks(&self) -> Vec<BlockShape> {
        self.architecture.graph().blocks()
    }

    fn has_kinks(&self) -> bool {
        self.architecture.has_kinks()
    }

    fn smoothed(&self, rounding: &Rounding<'_>) -> Result<Option<Arc<dyn Model>>> {
        Ok(self.with_rounded_kinks(rounding)?.map(|network| Arc::new(network) as Arc<dyn Model>))
    }

    fn record(&self) -> Option<String> {
        let savable = self.architecture.graph().can_be_saved();
        savable.then(|| serde_json::to_string(&self.architecture).ok()).flatten()
    }

    fn description(&self) -> String {
        self.architecture.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_network_loads_unchanged() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::io(Path::new("temporary folder")))?;
        let path = folder.path().join("model.safetensors");
        let architecture = Architecture::with_biases(&[2, 5, 4, 3], &[true, false, true], Activation::Silu)?;
        let network = Network::random(architecture, 3);
        network.save(&path)?;
        let loaded = Network::load(&path, None)?;
        assert_eq!(loaded, network);
        assert_eq!(loaded.fingerprint(), network.fingerprint());
        Ok(())
    }
}
