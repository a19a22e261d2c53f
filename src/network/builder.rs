//! Networks from candle layers in memory: a line for every line of the user's own forward function.
//!
//! candle's layers do not know the images that they are applied to, so the builder starts with the shape of the inputs
//! and keeps track of it. What a candle layer does not tell (the groups of a `GroupNorm`, the stride of a pooling) is
//! asked for. The first thing that does not fit is reported by [`build`](NetworkBuilder::build).

use candle_core::{DType, Tensor};

use super::graph::{GraphBuilder, View};
use super::layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm, Linear, MaxPool2d, Residual,
};
use super::lower;
use super::{Activation, Architecture, Network};
use crate::error::{Error, Result};

/// What a point looks like between two layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointShape {
    /// A vector of this length.
    Vector(usize),
    /// An image.
    Image(Image),
}

impl PointShape {
    /// The number of values.
    pub fn size(self) -> usize {
        match self {
            Self::Vector(size) => size,
            Self::Image(image) => image.size(),
        }
    }

    /// As an image; a vector has one channel per entry and one pixel.
    fn channels(self) -> Image {
        match self {
            Self::Vector(size) => Image::new(size, 1, 1),
            Self::Image(image) => image,
        }
    }
}

impl From<usize> for PointShape {
    fn from(size: usize) -> Self {
        Self::Vector(size)
    }
}

impl From<Image> for PointShape {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

/// Channels, height and width.
impl From<[usize; 3]> for PointShape {
    fn from([channels, height, width]: [usize; 3]) -> Self {
        Self::Image(Image { channels, height, width })
    }
}

impl std::fmt::Display for PointShape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vector(size) => write!(formatter, "vectors of {size}"),
            Self::Image(image) => write!(formatter, "images of {image}"),
        }
    }
}

/// A network in the making; see [`Network::builder`].
#[derive(Debug)]
#[must_use = "a builder makes a network only with `build`"]
pub struct NetworkBuilder {
    layers: Vec<Layer>,
    parameters: Vec<f64>,
    shape: PointShape,
    failure: Option<Error>,
}

impl Network {
    /// A network from candle layers in the order of the forward function, for inputs of this shape: a width, or
    /// channels, height and width.
    ///
    /// ```
    /// use candle_core::{DType, Device, Module, Tensor};
    /// use candle_nn::{Conv2dConfig, VarBuilder, VarMap, conv2d, linear};
    /// use riemannian_laplace::{Activation, Network};
    ///
    /// let variables = VarMap::new();
    /// let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    /// let padded = Conv2dConfig { padding: 1, ..Default::default() };
    /// let first = conv2d(1, 4, 3, padded, builder.pp("first"))?;
    /// let second = conv2d(4, 4, 3, padded, builder.pp("second"))?;
    /// let head = linear(64, 10, builder.pp("head"))?;
    ///
    /// // The user's own forward function …
    /// let forward = |x: &Tensor| -> candle_core::Result<Tensor> {
    ///     let h = first.forward(x)?.silu()?;
    ///     let h = (second.forward(&h)?.tanh()? + h)?;
    ///     head.forward(&h.avg_pool2d(2)?.flatten_from(1)?)
    /// };
    /// // … and the same as a network.
    /// let network = Network::builder([1, 8, 8])
    ///     .conv2d(&first)
    ///     .activation(Activation::Silu)
    ///     .residual(|block| block.conv2d(&second).activation(Activation::Tanh))
    ///     .avg_pool2d([2, 2])
    ///     .flatten()
    ///     .linear(&head)
    ///     .build()?;
    /// network.verify(&forward, &Tensor::randn(0f32, 1.0, (5, 1, 8, 8), &Device::Cpu)?, 1e-5)?;
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn builder(inputs: impl Into<PointShape>) -> NetworkBuilder {
        NetworkBuilder::new(inputs.into())
    }
}

impl NetworkBuilder {
    fn new(shape: PointShape) -> Self {
        Self { layers: Vec::new(), parameters: Vec::new(), shape, failure: None }
    }

    /// The network, or the first thing that did not fit.
    pub fn build(self) -> Result<Network> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Network::new(Architecture::of_layers(self.layers)?, self.parameters),
        }
    }

    /// z = W h + b. Images must be flattened first: candle would apply the layer to every row of pixels.
    pub fn linear(self, layer: &candle_nn::Linear) -> Self {
        self.step("a linear layer", |builder| {
            let PointShape::Vector(width) = builder.shape else {
                return Err(format!("has {} for inputs; flatten them first", builder.shape));
            };
            let [outputs, inputs] = dims(layer.weight())?;
            if inputs != width {
                return Err(format!("takes {inputs} inputs, but has {} for inputs", builder.shape));
            }
            let bias = layer.bias().is_some();
            builder.push(
                Linear { inputs, outputs, bias },
                PointShape::Vector(outputs),
                [Some(layer.weight()), layer.bias()],
            )
        })
    }

    /// A convolution, with the padding, stride, dilation and groups of its configuration.
    pub fn conv2d(self, layer: &candle_nn::Conv2d) -> Self {
        self.step("a convolution", |builder| {
            let input = builder.image()?;
            let [outputs, channels, rows, columns] = dims(layer.weight())?;
            let config = layer.config();
            if channels.saturating_mul(config.groups) != input.channels {
                return Err(format!(
                    "takes {} channels, but has {} for inputs",
                    channels.saturating_mul(config.groups),
                    builder.shape
                ));
            }
            let conv = Conv2d {
                input,
                outputs,
                kernel: [rows, columns],
                stride: [config.stride; 2],
                padding: [config.padding; 2],
                dilation: [config.dilation; 2],
                groups: config.groups,
                bias: layer.bias().is_some(),
            };
            builder.push(conv, conv.output().into(), [Some(layer.weight()), layer.bias()])
        })
    }

    /// Layer normalisation over the last axis.
    pub fn layer_norm(self, layer: &candle_nn::LayerNorm) -> Self {
        self.step("a layer norm", |builder| {
            let [size] = dims(layer.weight())?;
            let last = match builder.shape {
                PointShape::Vector(size) => size,
                PointShape::Image(image) => image.width,
            };
            if size != last {
                return Err(format!("normalises {size} values, but has {} for inputs", builder.shape));
            }
            if !layer.remove_mean() {
                return Err("does not remove the mean (it is an RMS norm), which is not supported".to_string());
            }
            let (inputs, eps, bias) = (builder.shape.size(), layer.eps(), layer.bias().is_some());
            let norm = LayerNorm { inputs, shape: vec![size], eps, weight: true, bias };
            builder.push(norm, builder.shape, [Some(layer.weight()), layer.bias()])
        })
    }

    /// Batch normalisation with its running statistics (candle's `forward_t(…, false)`), which must remove the mean, as
    /// it does by default; the layer does not tell, but [`Network::verify`] would.
    pub fn batch_norm(self, layer: &candle_nn::BatchNorm) -> Self {
        self.step("a batch norm", |builder| {
            let input = builder.shape.channels();
            let [channels] = dims(layer.running_mean())?;
            if channels != input.channels {
                return Err(format!("has {channels} channels, but has {} for inputs", builder.shape));
            }
            let affine = layer.weight_and_bias();
            let norm = BatchNorm {
                input,
                mean: values(layer.running_mean())?,
                variance: values(layer.running_var())?,
                eps: layer.eps(),
                weight: affine.is_some(),
                bias: affine.is_some(),
            };
            builder.push(norm, builder.shape, [affine.map(|pair| pair.0), affine.map(|pair| pair.1)])
        })
    }

    /// Group normalisation. candle's layer tells nothing of itself, so its settings and tensors are asked for.
    pub fn group_norm(self, groups: usize, eps: f64, weight: &Tensor, bias: &Tensor) -> Self {
        self.step("a group norm", |builder| {
            let input = builder.image()?;
            let norm = GroupNorm { eps, ..GroupNorm::new(input, groups) };
            builder.push(norm, builder.shape, [Some(weight), Some(bias)])
        })
    }

    /// An activation, of this crate or candle's. candle's `NewGelu` and `GeluPytorchTanh` are `gelu_tanh` here; ELU and
    /// leaky ReLU have their usual slopes 1 and 0.01.
    pub fn activation<A: TryInto<Activation>>(self, activation: A) -> Self
    where
        A::Error: std::fmt::Display,
    {
        self.step("an activation", |builder| {
            let activation = activation.try_into().map_err(|error| error.to_string())?;
            builder.push(activation, builder.shape, [])
        })
    }

    /// The largest values in windows of this size, moved by their own size: candle's `max_pool2d`.
    pub fn max_pool2d(self, kernel: [usize; 2]) -> Self {
        self.max_pool2d_with_stride(kernel, kernel)
    }

    /// The same with steps between the windows: candle's `max_pool2d_with_stride`.
    pub fn max_pool2d_with_stride(self, kernel: [usize; 2], stride: [usize; 2]) -> Self {
        self.step("max pooling", |builder| {
            let pool = MaxPool2d { stride, ..MaxPool2d::new(builder.image()?, kernel) };
            builder.push(pool, pool.output().into(), [])
        })
    }

    /// The means of windows of this size, moved by their own size: candle's `avg_pool2d`.
    pub fn avg_pool2d(self, kernel: [usize; 2]) -> Self {
        self.avg_pool2d_with_stride(kernel, kernel)
    }

    /// The same with steps between the windows: candle's `avg_pool2d_with_stride`.
    pub fn avg_pool2d_with_stride(self, kernel: [usize; 2], stride: [usize; 2]) -> Self {
        self.step("average pooling", |builder| {
            let pool = AvgPool2d { stride, ..AvgPool2d::new(builder.image()?, kernel) };
            builder.push(pool, pool.output().into(), [])
        })
    }

    /// The mean of each channel, as a vector.
    pub fn global_avg_pool(self) -> Self {
        self.step("global average pooling", |builder| {
            let input = builder.image()?;
            builder.push(GlobalAvgPool::new(input), PointShape::Vector(input.channels), [])
        })
    }

    /// An image becomes a vector: candle's `flatten_from(1)`.
    pub fn flatten(self) -> Self {
        self.step("flatten", |builder| builder.push(Layer::Flatten, PointShape::Vector(builder.shape.size()), []))
    }

    /// Dropout, which a trained network no longer does.
    pub fn dropout(self) -> Self {
        self.step("dropout", |builder| builder.push(Layer::Dropout, builder.shape, []))
    }

    /// h + body(h).
    pub fn residual(self, body: impl FnOnce(Self) -> Self) -> Self {
        self.residual_with_shortcut(body, |shortcut| shortcut)
    }

    /// body(h) + shortcut(h).
    pub fn residual_with_shortcut(self, body: impl FnOnce(Self) -> Self, shortcut: impl FnOnce(Self) -> Self) -> Self {
        self.step("a residual block", |builder| {
            let [body, shortcut] = [body(Self::new(builder.shape)), shortcut(Self::new(builder.shape))];
            for (name, branch) in [("body", &body), ("shortcut", &shortcut)] {
                if let Some(failure) = &branch.failure {
                    return Err(format!("has a {name} with {failure}"));
                }
            }
            if body.shape != shortcut.shape {
                return Err(format!("has {} from its body, but {} from its shortcut", body.shape, shortcut.shape));
            }
            let block = Residual { body: body.layers, shortcut: shortcut.layers };
            builder.push(block, body.shape, [])?;
            builder.parameters.extend(body.parameters.into_iter().chain(shortcut.parameters));
            Ok(())
        })
    }

    /// Adds a layer, unless something failed before; the problem is the rest of a sentence that starts with the layer.
    fn step(mut self, what: &str, add: impl FnOnce(&mut Self) -> std::result::Result<(), String>) -> Self {
        if self.failure.is_none()
            && let Err(problem) = add(&mut self)
        {
            let what = format!("layer {} ({what})", self.layers.len());
            self.failure = Some(Error::Architecture { what, problem });
        }
        self
    }

    /// The image that the next layer sees.
    fn image(&self) -> std::result::Result<Image, String> {
        match self.shape {
            PointShape::Image(image) => Ok(image),
            PointShape::Vector(_) => Err(format!("needs images, but has {} for inputs", self.shape)),
        }
    }

    /// Adds a layer and its tensors, whose shapes must be those of its parameters.
    fn push<'a>(
        &mut self,
        layer: impl Into<Layer>,
        shape: PointShape,
        tensors: impl IntoIterator<Item = Option<&'a Tensor>>,
    ) -> std::result::Result<(), String> {
        let layer = layer.into();
        if let Some(problem) = layer.problem() {
            return Err(problem);
        }
        let groups = match layer {
            Layer::Residual(_) => Vec::new(),
            _ => lower::tensors(&layer, self.shape.size()).map_err(|error| error.to_string())?,
        };
        for (tensor, group) in tensors.into_iter().flatten().zip(groups) {
            if tensor.dims() != group.shape {
                return Err(format!("has a {} of shape {:?}, not {:?}", group.name, tensor.dims(), group.shape));
            }
            self.parameters.extend(values(tensor)?);
        }
        self.layers.push(layer);
        self.shape = shape;
        Ok(())
    }
}

impl GraphBuilder {
    /// A candle tensor as parameters: those of the same name are the same, so that a tied weight counts once. With the values
    /// of a graph, which can be named and joined, any forward function can be written line by line.
    ///
    /// ```
    /// use candle_core::{DType, Device, Module, Tensor};
    /// use candle_nn::{VarBuilder, VarMap, linear_no_bias};
    /// use riemannian_laplace::Activation;
    /// use riemannian_laplace::internals::network::graph::GraphBuilder;
    ///
    /// let variables = VarMap::new();
    /// let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    /// let (encode, gate) = (linear_no_bias(3, 4, builder.pp("encode"))?, linear_no_bias(3, 4, builder.pp("gate"))?);
    ///
    /// // A gated autoencoder whose decoder is the transposed encoder …
    /// let forward = |x: &Tensor| -> candle_core::Result<Tensor> {
    ///     let h = (encode.forward(x)?.tanh()? * candle_nn::ops::sigmoid(&gate.forward(x)?)?)?;
    ///     h.matmul(encode.weight())
    /// };
    /// // … and the same as a network.
    /// let mut graph = GraphBuilder::new();
    /// let x = graph.input(&[3]);
    /// let encoder = graph.candle("encode.weight", encode.weight())?;
    /// let gates = graph.candle("gate.weight", gate.weight())?;
    /// let (h, g) = (graph.linear(x, &encoder, None)?, graph.linear(x, &gates, None)?);
    /// let (h, g) = (graph.function(h, Activation::Tanh)?, graph.function(g, Activation::Sigmoid)?);
    /// let h = graph.mul(h, g)?;
    /// let tied = graph.candle("encode.weight", encode.weight())?.transposed()?;
    /// let out = graph.linear(h, &tied, None)?;
    /// let network = graph.finish(out)?;
    /// assert_eq!(network.parameters().len(), 24);
    /// network.verify(&forward, &Tensor::randn(0f32, 1.0, (5, 3), &Device::Cpu)?, 1e-5)?;
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn candle(&mut self, name: &str, tensor: &Tensor) -> Result<View> {
        let refuse = |problem: String| Error::Architecture { what: format!("the parameter `{name}`"), problem };
        match self.named(name) {
            Some(view) if view.shape == tensor.dims() => Ok(view),
            Some(view) => Err(refuse(format!("has shape {:?} and {:?}", view.shape, tensor.dims()))),
            None => self.parameter(name, tensor.dims(), values(tensor).map_err(refuse)?),
        }
    }
}

/// The dimensions of a tensor that has this many.
fn dims<const RANK: usize>(tensor: &Tensor) -> std::result::Result<[usize; RANK], String> {
    let wrong = |_| format!("has a tensor of shape {:?}, not one with {RANK} axes", tensor.dims());
    <[usize; RANK]>::try_from(tensor.dims()).map_err(wrong)
}

/// The values of a tensor in f64, last axis fastest.
fn values(tensor: &Tensor) -> std::result::Result<Vec<f64>, String> {
    let read = || tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>();
    read().map_err(|error| format!("has a tensor that cannot be read: {error}"))
}

impl TryFrom<candle_nn::Activation> for Activation {
    type Error = Error;

    fn try_from(activation: candle_nn::Activation) -> Result<Self> {
        use candle_nn::Activation as Theirs;
        match activation {
            Theirs::Gelu => Ok(Self::Gelu),
            Theirs::NewGelu | Theirs::GeluPytorchTanh => Ok(Self::GeluTanh),
            Theirs::Relu => Ok(Self::Relu),
            Theirs::Silu | Theirs::Swish => Ok(Self::Silu),
            Theirs::Sigmoid => Ok(Self::Sigmoid),
            Theirs::Elu(1.0) => Ok(Self::Elu),
            Theirs::LeakyRelu(0.01) => Ok(Self::LeakyRelu),
            other => {
                let known = Self::ALL.map(Self::name).join(", ");
                Err(crate::error::UnknownActivation { name: format!("{other:?}"), known }.into())
            }
        }
    }
}
