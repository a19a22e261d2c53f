//! The network as a candle module, for training with candle's optimisers.
//!
//! A layer is named by its place in the sequence (`0.weight`, `0.bias`, `2.weight`, …), as in a PyTorch `nn.Sequential`
//! of the same layers, so that a saved `VarMap` loads there too.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{Init, VarBuilder, VarMap, init};

use super::{Architecture, Network, in_candle};
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
    /// The tensors of parameters, in the order of θ.
    tensors: Vec<Tensor>,
}

impl Mlp {
    /// Takes the tensors from (or puts them into) the builder's variables.
    pub fn new(architecture: Architecture, builder: VarBuilder<'_>) -> Result<Self> {
        let (mut tensors, mut bound) = (Vec::new(), 0.0);
        for group in architecture.parameter_groups() {
            // As candle's own layers do. Scales and shifts have one axis, and start at one and zero.
            let start = match (group.name.ends_with("weight"), group.shape.as_slice()) {
                (true, [_]) => {
                    bound = 0.0;
                    init::ONE
                }
                (true, [_, others @ ..]) => {
                    bound = 1.0 / (others.iter().product::<usize>() as f64).sqrt();
                    init::DEFAULT_KAIMING_NORMAL
                }
                _ if bound > 0.0 => Init::Uniform { lo: -bound, up: bound },
                _ => init::ZERO,
            };
            tensors.push(builder.get_with_hints(group.shape, &group.name, start)?);
        }
        Ok(Self { architecture, tensors })
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
        for tensor in &self.tensors {
            theta.extend(tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?);
        }
        Ok(theta)
    }
}

impl Module for Mlp {
    fn forward(&self, inputs: &Tensor) -> candle_core::Result<Tensor> {
        in_candle::forward(self.architecture.graph(), &self.tensors, inputs)
    }
}
