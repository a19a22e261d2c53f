//! The network as a candle module, for training with candle's optimisers.
//!
//! A layer is named by its place in the sequence (`0.weight`, `0.bias`, `2.weight`, …), as in a PyTorch `nn.Sequential`
//! of the same layers, so that a saved `VarMap` loads there too.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{VarBuilder, VarMap, linear, linear_no_bias};

use super::layer::Layer;
use super::{Activation, Architecture, Network};
use crate::error::Result;

/// A sequence of layers built from a [`VarBuilder`].
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use riemannian_laplace::internals::network::Mlp;
/// use riemannian_laplace::{Activation, Architecture};
///
/// let variables = VarMap::new();
/// let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
/// let mlp = Mlp::new(Architecture::new(&[1, 10, 1], Activation::Tanh)?, builder)?;
/// let outputs = mlp.forward(&Tensor::zeros((5, 1), DType::F32, &Device::Cpu)?)?;
/// assert_eq!(outputs.dims(), [5, 1]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mlp {
    architecture: Architecture,
    layers: Vec<Part>,
}

/// One layer in candle.
#[derive(Debug, Clone)]
enum Part {
    Linear(candle_nn::Linear),
    Activation(Activation),
}

impl Mlp {
    /// Builds the layers from (or into) the builder's variables.
    pub fn new(architecture: Architecture, builder: VarBuilder<'_>) -> Result<Self> {
        let mut layers = Vec::with_capacity(architecture.layers().len());
        for (index, layer) in architecture.layers().iter().enumerate() {
            layers.push(match layer {
                Layer::Linear(layer) => {
                    let make = if layer.bias { linear } else { linear_no_bias };
                    Part::Linear(make(layer.inputs, layer.outputs, builder.pp(index))?)
                }
                Layer::Activation(activation) => Part::Activation(*activation),
            });
        }
        Ok(Self { architecture, layers })
    }

    /// A trainable copy of a network: its parameters become variables of `variables`.
    pub fn trainable(network: &Network, variables: &VarMap, dtype: DType, device: &Device) -> Result<Self> {
        let mlp = Self::new(network.architecture().clone(), VarBuilder::from_varmap(variables, dtype, device))?;
        let mut variables = variables.clone();
        let mut rest = network.parameters();
        for group in mlp.architecture.parameter_groups() {
            let (values, others) = rest.split_at(group.size());
            let tensor = Tensor::from_vec(values.to_vec(), group.shape, device)?.to_dtype(dtype)?;
            variables.set_one(group.name, tensor)?;
            rest = others;
        }
        Ok(mlp)
    }

    /// The shape of the network.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The current parameters in flat order, in f64.
    pub fn parameters(&self) -> Result<Vec<f64>> {
        let mut theta = Vec::with_capacity(self.architecture.n_params());
        for part in &self.layers {
            let Part::Linear(layer) = part else { continue };
            theta.extend(layer.weight().flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?);
            if let Some(bias) = layer.bias() {
                theta.extend(bias.to_dtype(DType::F64)?.to_vec1::<f64>()?);
            }
        }
        Ok(theta)
    }
}

impl Module for Mlp {
    fn forward(&self, inputs: &Tensor) -> candle_core::Result<Tensor> {
        let mut hidden = inputs.clone();
        for part in &self.layers {
            hidden = match part {
                Part::Linear(layer) => layer.forward(&hidden)?,
                Part::Activation(activation) => activate(*activation, &hidden)?,
            };
        }
        Ok(hidden)
    }
}

/// φ on a tensor, in operations candle can differentiate.
fn activate(activation: Activation, z: &Tensor) -> candle_core::Result<Tensor> {
    match activation {
        Activation::Identity => Ok(z.clone()),
        Activation::Tanh => z.tanh(),
        Activation::Relu => z.relu(),
        Activation::Sigmoid => candle_nn::ops::sigmoid(z),
        // log(1 + eᶻ) = max(z, 0) + log(1 + e^(−|z|)): exact for both tails.
        Activation::Softplus => z.relu()? + (z.abs()?.neg()?.exp()? + 1.0)?.log()?,
        Activation::Silu => z.silu(),
        // ½z(1 + erf(z/√2)) and z sigmoid(2√(2/π)(z + 0.044715 z³)), written out: the gradients of candle's own gelu
        // and gelu_erf use constants of six digits.
        Activation::Gelu => (z * 0.5)? * ((z / std::f64::consts::SQRT_2)?.erf()? + 1.0)?,
        Activation::GeluTanh => {
            let cubic = (((z.sqr()? * 0.044715)? + 1.0)? * z)?;
            z * candle_nn::ops::sigmoid(&(cubic * (2.0 * (2.0 / std::f64::consts::PI).sqrt()))?)?
        }
        Activation::Elu => z.elu(1.0),
        Activation::LeakyRelu => candle_nn::ops::leaky_relu(z, 0.01),
        Activation::Sin => z.sin(),
    }
}
