//! Layers: short names for common parts of a graph. A layer describes itself, its parameters and the nodes that it becomes;
//! it has no arithmetic of its own.
//!
//! Image layers take the entries of their inputs as pixels in the order [channel, row, column], which is that of PyTorch's
//! `flatten`, so that flattening changes nothing.

use serde::{Deserialize, Serialize};

use super::Activation;
use super::graph::{Rounded, Window};

/// One layer of a network.
///
/// ```
/// use riemannian_laplace::{Activation, Layer, Linear};
///
/// let layers = [Layer::from(Linear::new(2, 3)), Layer::from(Activation::Tanh)];
/// let text = serde_json::to_string(&layers)?;
/// assert_eq!(text, r#"[{"linear":{"inputs":2,"outputs":3,"bias":true}},{"activation":"tanh"}]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// z = W h + b.
    Linear(Linear),
    /// h = φ(z).
    Activation(Activation),
    /// Patches of images times weights.
    Conv2d(Conv2d),
    /// Means over windows of images.
    AvgPool2d(AvgPool2d),
    /// The largest values in windows of images.
    MaxPool2d(MaxPool2d),
    /// The mean of each channel of an image.
    GlobalAvgPool(GlobalAvgPool),
    /// An image becomes a vector: nothing changes, since the entries are in that order already.
    Flatten,
    /// Normalised over the last axes of a point.
    LayerNorm(LayerNorm),
    /// Normalised over groups of channels of a point.
    GroupNorm(GroupNorm),
    /// Normalised with running statistics.
    BatchNorm(BatchNorm),
    /// Nothing, in a trained network.
    Dropout,
    /// The sum of two sequences of layers.
    Residual(Residual),
    /// h = φ_ε(z), for the metric of a network with kinks; never saved.
    #[serde(skip)]
    Smoothed(Rounded),
}

/// A layer from its struct, under the variant of the same name.
macro_rules! from_struct {
    ($($name:ident),*) => {$(
        impl From<$name> for Layer {
            fn from(layer: $name) -> Self {
                Self::$name(layer)
            }
        }
    )*};
}

from_struct!(
    Linear,
    Activation,
    Conv2d,
    AvgPool2d,
    MaxPool2d,
    GlobalAvgPool,
    LayerNorm,
    GroupNorm,
    BatchNorm,
    Residual
);

impl From<Rounded> for Layer {
    fn from(rounded: Rounded) -> Self {
        Self::Smoothed(rounded)
    }
}

/// The shape of an image whose pixels are in the order [channel, row, column].
///
/// ```
/// use riemannian_laplace::Image;
/// assert_eq!(Image::new(3, 8, 8).size(), 192);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The number of channels.
    pub channels: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of columns.
    pub width: usize,
}

impl Image {
    /// An image of this shape.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// The number of pixels in a channel.
    pub fn pixels(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    /// The number of values: channels × height × width.
    pub fn size(&self) -> usize {
        self.channels.saturating_mul(self.pixels())
    }

    /// Channels, rows and columns.
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }

    /// A window over this image, with the same padding on both sides.
    fn window(&self, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2]) -> Window {
        Window::new([self.height, self.width], kernel, stride, padding, dilation)
    }

    /// The image of this many channels at the positions of a window.
    fn below(&self, window: &Window) -> Image {
        Image::new(self.channels, window.outputs[0], window.outputs[1])
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}×{}×{}", self.channels, self.height, self.width)
    }
}

/// A linear layer z = W h + b: W is [outputs, inputs], stored row by row, then b, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// The width of h.
    pub inputs: usize,
    /// The width of z.
    pub outputs: usize,
    /// Whether there is a bias b.
    pub bias: bool,
}

impl Linear {
    /// With a bias.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, bias: true }
    }

    /// Without a bias.
    pub fn without_bias(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, bias: false }
    }
}

/// A convolution of images: z(o, t) = Σ W(o, c, tap) h(c, pixel(t, tap)) + b(o), over the channels c of the group of o. W is
/// [outputs, channels/groups, kernel rows, kernel columns], stored row by row, then b, if there is one. Padding is zero.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Conv2d, Image, Layer, Linear};
///
/// // 8 × 8 images with one channel, four filters of 3 × 3 with a frame of zeros, then every second position.
/// let conv = Conv2d { stride: [2, 2], padding: [1, 1], ..Conv2d::new(Image::new(1, 8, 8), 4, [3, 3]) };
/// assert_eq!(conv.output(), Image::new(4, 4, 4));
/// let layers = vec![conv.into(), Activation::Tanh.into(), Layer::Flatten, Linear::new(64, 10).into()];
/// assert_eq!(Architecture::of_layers(layers)?.n_params(), 4 * 9 + 4 + 640 + 10);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv2d {
    /// The shape of the inputs.
    pub input: Image,
    /// The number of output channels.
    pub outputs: usize,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// The steps between positions, along rows and columns.
    pub stride: [usize; 2],
    /// Rows and columns of zeros on either side of the image.
    pub padding: [usize; 2],
    /// The steps between the taps of the window.
    pub dilation: [usize; 2],
    /// The number of groups that channels are split into; outputs of a group see its inputs only.
    pub groups: usize,
    /// Whether there is a bias b.
    pub bias: bool,
}

impl Conv2d {
    /// With stride 1, a bias, and neither padding, dilation nor groups.
    pub fn new(input: Image, outputs: usize, kernel: [usize; 2]) -> Self {
        Self { input, outputs, kernel, stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: true }
    }

    /// The shape of the outputs.
    pub fn output(&self) -> Image {
        Image { channels: self.outputs, ..self.input.below(&self.window()) }
    }

    /// The length of a patch: channels/groups × taps.
    pub fn patch_length(&self) -> usize {
        (self.input.channels / self.groups.max(1)).saturating_mul(self.window().taps())
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.window().positions()
    }

    /// The number of entries of W.
    pub fn n_weights(&self) -> usize {
        self.outputs.saturating_mul(self.patch_length())
    }

    pub(super) fn window(&self) -> Window {
        self.input.window(self.kernel, self.stride, self.padding, self.dilation)
    }
}

/// Average pooling of images: output (c, t) is the mean of channel c below the window at position t. The divisor is the number
/// of the window's taps, padding included, or only the number of pixels, as PyTorch's `count_include_pad` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AvgPool2d {
    /// The shape of the inputs.
    pub input: Image,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// The steps between positions.
    pub stride: [usize; 2],
    /// Rows and columns of zeros around the image.
    pub padding: [usize; 2],
    /// Whether the zeros of the padding count in the mean (PyTorch's default).
    pub count_include_pad: bool,
}

impl AvgPool2d {
    /// A window of this size, moved by its own size, without padding.
    pub fn new(input: Image, kernel: [usize; 2]) -> Self {
        Self { input, kernel, stride: kernel, padding: [0, 0], count_include_pad: true }
    }

    /// The shape of the outputs.
    pub fn output(&self) -> Image {
        self.input.below(&self.window())
    }

    pub(super) fn window(&self) -> Window {
        self.input.window(self.kernel, self.stride, self.padding, [1, 1])
    }
}

/// Max pooling of images: output (c, t) is the largest value of channel c below the window at position t, a chain of hinges
/// max(a, b) = a + relu(b − a), which the metric rounds as it rounds relu. Padding never wins; of several equal values the first
/// does, as in PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxPool2d {
    /// The shape of the inputs.
    pub input: Image,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// The steps between positions.
    pub stride: [usize; 2],
    /// Rows and columns around the image that never win.
    pub padding: [usize; 2],
}

impl MaxPool2d {
    /// A window of this size, moved by its own size, without padding.
    pub fn new(input: Image, kernel: [usize; 2]) -> Self {
        Self { input, kernel, stride: kernel, padding: [0, 0] }
    }

    /// The shape of the outputs.
    pub fn output(&self) -> Image {
        self.input.below(&self.window())
    }

    pub(super) fn window(&self) -> Window {
        self.input.window(self.kernel, self.stride, self.padding, [1, 1])
    }
}

/// The mean of each channel of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalAvgPool {
    /// The shape of the inputs.
    pub input: Image,
}

impl GlobalAvgPool {
    /// The means of images of this shape.
    pub fn new(input: Image) -> Self {
        Self { input }
    }
}

/// Layer normalisation: x̂ = (h − ⟨h⟩)/√(Var h + ε) over the last axes of every point, then γ x̂ + β with one scale and shift for
/// each entry of these axes. An input of width L·size holds L vectors of this size, each normalised by itself. The variance is
/// the mean square, as in PyTorch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNorm {
    /// The width of the inputs: a multiple of the size of the shape.
    pub inputs: usize,
    /// The last axes, over which is normalised: PyTorch's `normalized_shape`.
    pub shape: Vec<usize>,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl LayerNorm {
    /// Over the whole of vectors of this size, with scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(size: usize) -> Self {
        Self { inputs: size, shape: vec![size], eps: 1e-5, weight: true, bias: true }
    }

    /// The number of values that are normalised together.
    pub fn size(&self) -> usize {
        super::graph::size(&self.shape)
    }
}

/// Group normalisation: x̂ = (h − ⟨h⟩)/√(Var h + ε) over the pixels of each group of channels of a point, then γ x̂ + β with one
/// scale and shift for each channel. With as many groups as channels it is instance normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNorm {
    /// The shape of the inputs.
    pub input: Image,
    /// The number of groups that the channels are split into.
    pub groups: usize,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl GroupNorm {
    /// With scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(input: Image, groups: usize) -> Self {
        Self { input, groups, eps: 1e-5, weight: true, bias: true }
    }
}

/// Batch normalisation in its inference form: x̂ = (h − μ)/√(s² + ε) with the running mean and variance of each channel, then
/// γ x̂ + β. Scales and shifts are parameters; the running statistics are constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchNorm {
    /// The shape of the inputs; vectors are images of one pixel.
    pub input: Image,
    /// μ, one value per channel.
    pub mean: Vec<f64>,
    /// s², one value per channel.
    pub variance: Vec<f64>,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl BatchNorm {
    /// With these running statistics, scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(input: Image, mean: Vec<f64>, variance: Vec<f64>) -> Self {
        Self { input, mean, variance, eps: 1e-5, weight: true, bias: true }
    }
}

/// A residual block: z = body(h) + shortcut(h), the sum of two sequences of layers. An empty shortcut is the identity. The
/// parameters are those of the body and then those of the shortcut, named `body.0.weight` and `shortcut.0.weight` within the
/// block.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Linear, Residual};
///
/// // h + W₂ tanh(W₁h + b₁) + b₂
/// let body = vec![Linear::new(4, 4).into(), Activation::Tanh.into(), Linear::new(4, 4).into()];
/// let block = Residual::new(body, Vec::new())?;
/// let layers = vec![Linear::new(2, 4).into(), block.into(), Linear::new(4, 1).into()];
/// let architecture = Architecture::of_layers(layers)?;
/// assert_eq!(architecture.parameter_groups()[2].name, "1.body.0.weight");
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// The layers of the body.
    pub body: Vec<Layer>,
    /// The layers of the shortcut; none for the identity.
    pub shortcut: Vec<Layer>,
}

impl Layer {
    /// The width of its inputs, if it is bound to one.
    pub fn n_inputs(&self) -> Option<usize> {
        match self {
            Layer::Linear(layer) => Some(layer.inputs),
            Layer::Conv2d(Conv2d { input, .. })
            | Layer::AvgPool2d(AvgPool2d { input, .. })
            | Layer::MaxPool2d(MaxPool2d { input, .. })
            | Layer::GlobalAvgPool(GlobalAvgPool { input })
            | Layer::GroupNorm(GroupNorm { input, .. })
            | Layer::BatchNorm(BatchNorm { input, .. }) => Some(input.size()),
            Layer::LayerNorm(layer) => Some(layer.inputs),
            Layer::Smoothed(rounded) => Some(rounded.widths().len()),
            Layer::Residual(block) => known_inputs(&block.body).or_else(|| known_inputs(&block.shortcut)),
            Layer::Activation(_) | Layer::Flatten | Layer::Dropout => None,
        }
    }

    /// What is wrong with its settings, if anything is, as the rest of a sentence that starts with the layer.
    pub fn problem(&self) -> Option<String> {
        let pooling = |window: Window| {
            // PyTorch allows a frame of at most half the window, so that every window has pixels below it.
            let wide = window.kernel.iter().zip(&window.padding).any(|(kernel, padding)| *padding > kernel / 2);
            let [rows, columns] = window.padding;
            wide.then(|| format!("has a padding of {rows}×{columns}, more than half its window"))
                .or_else(|| window.problem())
        };
        let split = |channels: usize, groups: usize| groups > 0 && channels.is_multiple_of(groups);
        match self {
            Layer::Conv2d(Conv2d { input, outputs, groups, .. })
                if !split(input.channels, *groups) || !split(*outputs, *groups) =>
            {
                let channels = input.channels;
                Some(format!("cannot split {channels} input and {outputs} output channels into {groups} groups"))
            }
            Layer::Conv2d(layer) => layer.window().problem(),
            Layer::AvgPool2d(layer) => pooling(layer.window()),
            Layer::MaxPool2d(layer) => pooling(layer.window()),
            Layer::GlobalAvgPool(GlobalAvgPool { input }) if input.pixels() == 0 => {
                Some("needs images of at least 1 pixel".to_string())
            }
            Layer::LayerNorm(layer) if layer.size() == 0 || !layer.inputs.is_multiple_of(layer.size()) => {
                Some(format!("normalises {} values at a time, but has {} inputs", layer.size(), layer.inputs))
            }
            Layer::LayerNorm(layer) => epsilon_problem(layer.eps),
            Layer::GroupNorm(GroupNorm { input, groups, .. }) if !split(input.channels, *groups) => {
                Some(format!("cannot split {} channels into {groups} groups", input.channels))
            }
            Layer::GroupNorm(layer) => epsilon_problem(layer.eps),
            Layer::BatchNorm(layer) => layer.problem(),
            Layer::Residual(_) if self.is_deeper_than(MOST_NESTED) => {
                Some(format!("holds blocks within blocks more than {MOST_NESTED} deep"))
            }
            Layer::Residual(block) if block.body.is_empty() => Some("needs layers in its body".to_string()),
            Layer::Residual(_) if self.n_inputs().is_none() => Some("needs a known number of inputs".to_string()),
            _ => None,
        }
    }

    /// Whether blocks are nested more often than this.
    fn is_deeper_than(&self, most: usize) -> bool {
        match self {
            Layer::Residual(block) => {
                let mut layers = block.body.iter().chain(&block.shortcut);
                most == 0 || layers.any(|layer| layer.is_deeper_than(most - 1))
            }
            _ => false,
        }
    }
}

/// The most residual blocks within one another: as many as a file can be read with, and more than any network has.
const MOST_NESTED: usize = 32;

/// The width of the inputs of these layers, if any layer says it before the width changes.
pub(super) fn known_inputs(layers: &[Layer]) -> Option<usize> {
    layers.iter().find_map(Layer::n_inputs)
}

fn epsilon_problem(epsilon: f64) -> Option<String> {
    (!(epsilon >= 0.0 && epsilon.is_finite())).then(|| format!("needs an epsilon of zero or more, not {epsilon}"))
}

impl BatchNorm {
    fn problem(&self) -> Option<String> {
        let channels = self.input.channels;
        if self.mean.len() != channels || self.variance.len() != channels {
            let (means, variances) = (self.mean.len(), self.variance.len());
            return Some(format!("has {means} means and {variances} variances for {channels} channels"));
        }
        let usable = |variance: &f64| *variance >= 0.0 && 1.0 / (variance + self.eps).sqrt() < f64::INFINITY;
        if !self.mean.iter().all(|mean| mean.is_finite()) || !self.variance.iter().all(usable) {
            return Some("has running statistics that are not finite, or a variance that is not positive".to_string());
        }
        epsilon_problem(self.eps)
    }
}

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |layers: &[Layer]| layers.iter().map(Layer::to_string).collect::<Vec<String>>().join(", ");
        let text = match self {
            Layer::Linear(Linear { inputs, outputs, bias }) => {
                format!("linear {inputs} → {outputs}{}", if *bias { "" } else { " without bias" })
            }
            Layer::Activation(activation) => activation.to_string(),
            Layer::Conv2d(conv) => conv.description(),
            Layer::AvgPool2d(pool) => format!("average pooling {} → {}", pool.input, pool.output()),
            Layer::MaxPool2d(pool) => format!("max pooling {} → {}", pool.input, pool.output()),
            Layer::GlobalAvgPool(GlobalAvgPool { input }) => {
                format!("global average pooling {input} → {}", Image::new(input.channels, 1, 1))
            }
            Layer::Flatten => "flatten".to_string(),
            Layer::LayerNorm(norm) => {
                let axes: Vec<String> = norm.shape.iter().map(usize::to_string).collect();
                format!("layer norm {} of {}", axes.join("×"), norm.inputs)
            }
            Layer::GroupNorm(norm) => format!("group norm {} in {} groups", norm.input, norm.groups),
            Layer::BatchNorm(BatchNorm { input, .. }) if input.pixels() == 1 => {
                format!("batch norm {}", input.channels)
            }
            Layer::BatchNorm(norm) => format!("batch norm {}", norm.input),
            Layer::Dropout => "dropout".to_string(),
            Layer::Residual(Residual { body, shortcut }) if shortcut.is_empty() => format!("residual ({})", list(body)),
            Layer::Residual(Residual { body, shortcut }) => {
                format!("residual ({}; shortcut: {})", list(body), list(shortcut))
            }
            Layer::Smoothed(rounded) => format!("smoothed {}", rounded.function().description()),
        };
        formatter.pad(&text)
    }
}

impl Conv2d {
    fn description(&self) -> String {
        let mut text = format!("convolution {}×{}, {} → {}", self.kernel[0], self.kernel[1], self.input, self.output());
        let pairs = [("stride", self.stride, 1), ("padding", self.padding, 0), ("dilation", self.dilation, 1)];
        for (name, [rows, columns], usual) in pairs {
            if rows != columns {
                text.push_str(&format!(", {name} {rows}×{columns}"));
            } else if rows != usual {
                text.push_str(&format!(", {name} {rows}"));
            }
        }
        if self.groups != 1 {
            text.push_str(&format!(", {} groups", self.groups));
        }
        text + if self.bias { "" } else { ", without bias" }
    }
}
