//! Networks from weight arrays: one call per layer, in the order of the forward pass. The builder keeps track of the
//! shape of a point, so that no layer need be told the images that it sees.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use riemannian_laplace::{
    Activation, Architecture, AvgPool2d, BatchNorm, Conv2d, Error, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm,
    Linear, MaxPool2d, Network as Engine, PointShape, Residual,
};

use crate::errors::OrRaise;
use crate::network::Network;

type Array<'py> = PyReadonlyArrayDyn<'py, f64>;

/// A network in the making.
#[pyclass(module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct NetworkBuilder {
    layers: Vec<Layer>,
    parameters: Vec<f64>,
    shape: PointShape,
}

#[pymethods]
impl NetworkBuilder {
    /// For points of this shape: one length, or channels, height and width.
    #[new]
    fn new(py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        let shape = match shape[..] {
            [size] => PointShape::Vector(size),
            [channels, height, width] => PointShape::Image(Image { channels, height, width }),
            _ => {
                let problem = "has neither one length nor channels, height and width".to_string();
                return Err(Error::Architecture { what: format!("the shape {shape:?} of an input"), problem })
                    .or_raise(py);
            }
        };
        Ok(Self { layers: Vec::new(), parameters: Vec::new(), shape })
    }

    /// The shape of a point after the layers so far.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        match self.shape {
            PointShape::Image(Image { channels, height, width }) => vec![channels, height, width],
            other => vec![other.size()],
        }
    }

    /// An empty builder that starts where this one has got to.
    fn branch(&self) -> Self {
        Self { layers: Vec::new(), parameters: Vec::new(), shape: self.shape }
    }

    /// z = W h + b, with W of shape [outputs, inputs].
    #[pyo3(signature = (weight, bias=None))]
    fn linear(&mut self, py: Python<'_>, weight: Array<'_>, bias: Option<Array<'_>>) -> PyResult<()> {
        let outcome = self.vector().and_then(|width| {
            let [outputs, inputs] = dims(&weight)?;
            if inputs != width {
                return Err(format!("takes {inputs} inputs, but has {} for inputs", self.shape));
            }
            let layer = Linear { inputs, outputs, bias: bias.is_some() };
            self.push(layer, PointShape::Vector(outputs), [Some(&weight), bias.as_ref()])
        });
        self.finish("a linear layer", outcome).or_raise(py)
    }

    /// A convolution, with W of shape [outputs, inputs / groups, rows, columns].
    #[pyo3(signature = (weight, bias, *, stride, padding, dilation, groups))]
    #[expect(clippy::too_many_arguments, reason = "the settings of a convolution, by name")]
    fn conv2d(
        &mut self,
        py: Python<'_>,
        weight: Array<'_>,
        bias: Option<Array<'_>>,
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        groups: usize,
    ) -> PyResult<()> {
        let outcome = self.image().and_then(|input| {
            let [outputs, channels, rows, columns] = dims(&weight)?;
            if channels.saturating_mul(groups) != input.channels {
                return Err(format!(
                    "takes {} channels, but has {} for inputs",
                    channels.saturating_mul(groups),
                    self.shape
                ));
            }
            let (kernel, bias_is_there) = ([rows, columns], bias.is_some());
            let conv = Conv2d { input, outputs, kernel, stride, padding, dilation, groups, bias: bias_is_there };
            if let Some(problem) = Layer::from(conv).verbs().problem() {
                return Err(problem);
            }
            self.push(conv, conv.output().into(), [Some(&weight), bias.as_ref()])
        });
        self.finish("a convolution", outcome).or_raise(py)
    }

    /// Layer normalisation over the last axes, which have this shape.
    #[pyo3(signature = (shape, weight=None, bias=None, *, eps))]
    fn layer_norm(
        &mut self,
        py: Python<'_>,
        shape: Vec<usize>,
        weight: Option<Array<'_>>,
        bias: Option<Array<'_>>,
        eps: f64,
    ) -> PyResult<()> {
        let axes = self.shape();
        let outcome = if axes.ends_with(&shape) && !shape.is_empty() {
            let inputs = self.shape.size();
            let norm = LayerNorm { inputs, shape, eps, weight: weight.is_some(), bias: bias.is_some() };
            self.push(norm, self.shape, [weight.as_ref(), bias.as_ref()])
        } else {
            Err(format!("normalises over axes of {shape:?}, but has {} for inputs", self.shape))
        };
        self.finish("a layer norm", outcome).or_raise(py)
    }

    /// Batch normalisation with running statistics.
    #[pyo3(signature = (mean, variance, weight=None, bias=None, *, eps))]
    fn batch_norm(
        &mut self,
        py: Python<'_>,
        mean: Vec<f64>,
        variance: Vec<f64>,
        weight: Option<Array<'_>>,
        bias: Option<Array<'_>>,
        eps: f64,
    ) -> PyResult<()> {
        let input = match self.shape {
            PointShape::Image(image) => image,
            other => Image { channels: other.size(), height: 1, width: 1 },
        };
        let outcome = if mean.len() == input.channels {
            let norm = BatchNorm { input, mean, variance, eps, weight: weight.is_some(), bias: bias.is_some() };
            self.push(norm, self.shape, [weight.as_ref(), bias.as_ref()])
        } else {
            Err(format!("has {} channels, but has {} for inputs", mean.len(), self.shape))
        };
        self.finish("a batch norm", outcome).or_raise(py)
    }

    /// Group normalisation.
    #[pyo3(signature = (groups, weight=None, bias=None, *, eps))]
    fn group_norm(
        &mut self,
        py: Python<'_>,
        groups: usize,
        weight: Option<Array<'_>>,
        bias: Option<Array<'_>>,
        eps: f64,
    ) -> PyResult<()> {
        let input = match self.shape {
            PointShape::Image(image) => image,
            other => Image { channels: other.size(), height: 1, width: 1 },
        };
        let norm = GroupNorm { eps, weight: weight.is_some(), bias: bias.is_some(), ..GroupNorm::new(input, groups) };
        let outcome = self.push(norm, self.shape, [weight.as_ref(), bias.as_ref()]);
        self.finish("a group norm", outcome).or_raise(py)
    }

    /// The largest values in windows.
    #[pyo3(signature = (kernel, *, stride, padding))]
    fn max_pool2d(
        &mut self,
        py: Python<'_>,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    ) -> PyResult<()> {
        let outcome = self.image().and_then(|input| {
            let pool = MaxPool2d { input, kernel, stride, padding };
            if let Some(problem) = Layer::from(pool).verbs().problem() {
                return Err(problem);
            }
            self.push(pool, pool.output().into(), [])
        });
        self.finish("max pooling", outcome).or_raise(py)
    }

    /// The means of windows.
    #[pyo3(signature = (kernel, *, stride, padding, count_include_pad))]
    fn avg_pool2d(
        &mut self,
        py: Python<'_>,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
    ) -> PyResult<()> {
        let outcome = self.image().and_then(|input| {
            let pool = AvgPool2d { input, kernel, stride, padding, count_include_pad };
            if let Some(problem) = Layer::from(pool).verbs().problem() {
                return Err(problem);
            }
            self.push(pool, pool.output().into(), [])
        });
        self.finish("average pooling", outcome).or_raise(py)
    }

    /// The mean of each channel, as an image of one pixel.
    fn global_avg_pool(&mut self, py: Python<'_>) -> PyResult<()> {
        let outcome = self.image().and_then(|input| {
            let one_pixel = Image { channels: input.channels, height: 1, width: 1 };
            self.push(GlobalAvgPool::new(input), PointShape::Image(one_pixel), [])
        });
        self.finish("global average pooling", outcome).or_raise(py)
    }

    /// An image becomes a vector.
    fn flatten(&mut self, py: Python<'_>) -> PyResult<()> {
        let outcome = self.push(Layer::Flatten, PointShape::Vector(self.shape.size()), []);
        self.finish("flatten", outcome).or_raise(py)
    }

    /// Nothing, in a trained network.
    fn dropout(&mut self, py: Python<'_>) -> PyResult<()> {
        let outcome = self.push(Layer::Dropout, self.shape, []);
        self.finish("dropout", outcome).or_raise(py)
    }

    /// An activation by name.
    fn activation(&mut self, py: Python<'_>, name: &str) -> PyResult<()> {
        let activation: Activation = name.parse().map_err(Error::from).or_raise(py)?;
        let outcome = self.push(activation, self.shape, []);
        self.finish("an activation", outcome).or_raise(py)
    }

    /// The sum of two branches of this builder.
    fn residual(&mut self, py: Python<'_>, body: &Self, shortcut: &Self) -> PyResult<()> {
        let outcome = if body.shape == shortcut.shape {
            Residual::new(body.layers.clone(), shortcut.layers.clone()).map_err(|error| error.to_string()).and_then(
                |block| {
                    self.push(block, body.shape, [])?;
                    self.parameters.extend(body.parameters.iter().chain(&shortcut.parameters));
                    Ok(())
                },
            )
        } else {
            Err(format!("has {} from its body, but {} from its shortcut", body.shape, shortcut.shape))
        };
        self.finish("a residual block", outcome).or_raise(py)
    }

    /// The network.
    fn build(&self, py: Python<'_>) -> PyResult<Network> {
        let network = Architecture::of_layers(self.layers.clone())
            .and_then(|architecture| Engine::new(architecture, self.parameters.clone()));
        Ok(network.or_raise(py)?.into())
    }
}

impl NetworkBuilder {
    /// The length of the vectors that the next layer sees.
    fn vector(&self) -> Result<usize, String> {
        match self.shape {
            PointShape::Vector(width) => Ok(width),
            other => Err(format!("has {other} for inputs; flatten them first")),
        }
    }

    /// The images that the next layer sees.
    fn image(&self) -> Result<Image, String> {
        match self.shape {
            PointShape::Image(image) => Ok(image),
            other => Err(format!("needs images, but has {other} for inputs")),
        }
    }

    /// Adds a layer and its arrays, whose shapes must be those of its parameters.
    fn push<'a, 'py: 'a>(
        &mut self,
        layer: impl Into<Layer>,
        shape: PointShape,
        arrays: impl IntoIterator<Item = Option<&'a Array<'py>>>,
    ) -> Result<(), String> {
        let layer = layer.into();
        if let Some(problem) = layer.verbs().problem() {
            return Err(problem);
        }
        let groups = match layer {
            // Its parameters are those of its branches.
            Layer::Residual(_) => Vec::new(),
            _ => layer.verbs().parameter_groups(),
        };
        for (array, group) in arrays.into_iter().flatten().zip(groups) {
            let array = array.as_array();
            if array.shape() != group.shape {
                return Err(format!("has a {} of shape {:?}, not {:?}", group.name, array.shape(), group.shape));
            }
            self.parameters.extend(array.iter());
        }
        self.layers.push(layer);
        self.shape = shape;
        Ok(())
    }

    /// The problem of a layer as an error that names it.
    fn finish(&self, what: &str, outcome: Result<(), String>) -> riemannian_laplace::Result<()> {
        outcome
            .map_err(|problem| Error::Architecture { what: format!("layer {} ({what})", self.layers.len()), problem })
    }
}

/// The lengths of an array that has this many axes.
fn dims<const RANK: usize>(array: &Array<'_>) -> Result<[usize; RANK], String> {
    let array = array.as_array();
    let wrong = |_| format!("has a weight of shape {:?}, not one with {RANK} axes", array.shape());
    <[usize; RANK]>::try_from(array.shape()).map_err(wrong)
}
