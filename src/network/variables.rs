//! Networks from the variables of a candle `VarMap`, by the names that the user gave to the layers.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use candle_nn::VarMap;

use super::layers::{BatchNorm, Layer, Residual};
use super::{Architecture, Network, lower};
use crate::error::{Error, Result};

impl Network {
    /// The network of this shape with the variables of a candle `VarMap`: `names` are the prefixes of the layers that
    /// have variables, in order, a residual block's body before its shortcut. A batch norm takes its running
    /// statistics from there too. Every variable must belong to a layer.
    ///
    /// ```
    /// use candle_core::{DType, Device};
    /// use candle_nn::{VarBuilder, VarMap, linear};
    /// use riemannian_laplace::{Activation, Architecture, Network};
    ///
    /// let variables = VarMap::new();
    /// let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    /// linear(2, 8, builder.pp("encoder"))?;
    /// linear(8, 1, builder.pp("head"))?;
    /// let architecture = Architecture::new(&[2, 8, 1], Activation::Tanh)?;
    /// let network = Network::from_variables(&architecture, &variables, &["encoder", "head"])?;
    /// assert_eq!(network.parameters().len(), 33);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn from_variables(architecture: &Architecture, variables: &VarMap, names: &[&str]) -> Result<Self> {
        let refuse = |problem: String| Error::Architecture { what: "the list of names".to_string(), problem };
        let table = match variables.data().lock() {
            Ok(table) => table,
            Err(poisoned) => poisoned.into_inner(),
        };
        let tensors = table.iter().map(|(name, variable)| (name.clone(), variable.as_tensor().clone())).collect();
        let mut source = Source { tensors, names: names.iter(), parameters: Vec::new() };
        let layers = source.layers(architecture.layers())?;
        if let Some(name) = source.names.next() {
            return Err(refuse(format!("has a name `{name}` for which there is no layer")));
        }
        if let Some(name) = source.tensors.into_keys().next() {
            return Err(refuse(format!("has no layer to which the variable `{name}` belongs")));
        }
        Self::new(Architecture::of_layers(layers)?, source.parameters)
    }
}

/// Variables that no layer has taken yet, and the names of the layers to come.
struct Source<'a> {
    tensors: BTreeMap<String, Tensor>,
    names: std::slice::Iter<'a, &'a str>,
    parameters: Vec<f64>,
}

impl Source<'_> {
    /// Takes what these layers need, and returns them with their running statistics.
    fn layers(&mut self, layers: &[Layer]) -> Result<Vec<Layer>> {
        layers.iter().map(|layer| self.layer(layer)).collect()
    }

    fn layer(&mut self, layer: &Layer) -> Result<Layer> {
        if let Layer::Residual(block) = layer {
            let (body, shortcut) = (self.layers(&block.body)?, self.layers(&block.shortcut)?);
            return Ok(Residual { body, shortcut }.into());
        }
        let groups = match layer.n_inputs() {
            Some(inputs) => lower::tensors(layer, inputs)?,
            None => Vec::new(),
        };
        if groups.is_empty() && !matches!(layer, Layer::BatchNorm(_)) {
            return Ok(layer.clone());
        }
        let Some(name) = self.names.next() else {
            let problem = format!("has no name for the layer {layer}");
            return Err(Error::Architecture { what: "the list of names".to_string(), problem });
        };
        for group in groups {
            let values = self.take(&format!("{name}.{}", group.name), &group.shape)?;
            self.parameters.extend(values);
        }
        let Layer::BatchNorm(norm) = layer else { return Ok(layer.clone()) };
        let channels = [norm.input.channels];
        let mean = self.take(&format!("{name}.running_mean"), &channels)?;
        let variance = self.take(&format!("{name}.running_var"), &channels)?;
        Ok(BatchNorm { mean, variance, ..norm.clone() }.into())
    }

    /// The values of a variable of this shape, in f64.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let refuse = |problem: String| Error::Architecture { what: format!("the variable `{name}`"), problem };
        let tensor = self.tensors.remove(name).ok_or_else(|| refuse("is not in the VarMap".to_string()))?;
        if tensor.dims() != shape {
            return Err(refuse(format!("has shape {:?}; its layer needs {shape:?}", tensor.dims())));
        }
        Ok(tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?)
    }
}
