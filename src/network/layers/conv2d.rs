//! Convolution of images: z(o, t) = Σ W(o, c, tap) h(c, pixel(t, tap)) + b(o), over the channels c of the group of o.
//!
//! With the patch a_t of a position, the K = channels/groups·kernel values below the window in the order [channel, row,
//! column], this is z_t = W a_t + b: a [`Linear`](super::Linear) layer applied at each of T positions. W is [outputs,
//! channels/groups, kernel rows, kernel columns], stored row by row, then b, if there is one. Padding is zero.
//!
//! Everything follows from gathering patches: z_t by a product with Wᵀ (and along a velocity with Vᵀ, as in the linear
//! layer), sensitivities by a product with W and adding up where windows overlap. The gradient with respect to W is Σ_t
//! δ_t a_tᵀ and, with respect to b, Σ_t δ_t; the Kronecker factors of W are Σ a aᵀ and Σ δδᵀ over points and positions. Rows of single points are only formed where they are asked for, and for
//! Gram matrices one output channel at a time.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::image::{Image, Window};
use crate::linalg::{add_products, column_slice, column_slice_mut, multiply, multiply_by_own_transpose};
use crate::map::{BlockShape, BlockSums, Scratch};
use crate::network::layer::{LayerRows, LayerVerbs, ParameterGroup};
use crate::network::tape::Kept;

/// A convolution of images; the formulas are in the module's documentation.
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
        let [height, width] = self.window().outputs();
        Image { channels: self.outputs, height, width }
    }

    /// K, the length of a patch.
    pub fn patch_length(&self) -> usize {
        (self.input.channels / self.groups.max(1)).saturating_mul(self.window().taps())
    }

    /// T, the number of positions.
    pub fn positions(&self) -> usize {
        self.window().positions()
    }

    /// The number of entries of W.
    pub fn n_weights(&self) -> usize {
        self.outputs.saturating_mul(self.patch_length())
    }

    pub(crate) fn window(&self) -> Window {
        let Self { input, kernel, stride, padding, dilation, .. } = *self;
        Window { image: [input.height, input.width], kernel, stride, padding, dilation }
    }
}

impl LayerVerbs for Conv2d {
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

    fn problem(&self) -> Option<String> {
        let Self { input, outputs, groups, .. } = self;
        if *groups == 0 || !input.channels.is_multiple_of(*groups) || !outputs.is_multiple_of(*groups) {
            return Some(format!(
                "cannot split {} input and {outputs} output channels into {groups} groups",
                input.channels
            ));
        }
        self.window().problem()
    }

    fn n_inputs(&self) -> Option<usize> {
        Some(self.input.size())
    }

    fn n_outputs(&self, _inputs: usize) -> usize {
        self.output().size()
    }

    fn parameter_groups(&self) -> Vec<ParameterGroup> {
        let channels = self.input.channels / self.groups.max(1);
        let shape = vec![self.outputs, channels, self.kernel[0], self.kernel[1]];
        let weight = ParameterGroup { name: "weight".to_string(), shape };
        let bias = ParameterGroup { name: "bias".to_string(), shape: vec![self.outputs] };
        std::iter::once(weight).chain(self.bias.then_some(bias)).collect()
    }

    /// Weights and biases uniform on ±1/√K.
    fn initialize(&self, generator: &mut ChaCha8Rng, parameters: &mut [f64]) {
        let bound = 1.0 / (self.patch_length() as f64).sqrt();
        parameters.fill_with(|| bound * (2.0 * generator.random::<f64>() - 1.0));
    }

    /// Patches and outputs at one position.
    fn kept(&self, _inputs: usize, points: usize, columns: usize) -> Kept {
        Kept::nothing().with_room(points * columns.max(3), self.patch_length() + self.group_outputs())
    }

    fn kept_size(&self, _inputs: usize, points: usize, columns: usize) -> f64 {
        points as f64 * columns.max(3) as f64 * (self.patch_length() + self.group_outputs()) as f64
    }

    fn scratch_width(&self) -> usize {
        self.patch_length() + self.group_outputs()
    }

    /// The rows of every output channel, and their products.
    fn gram_work(&self, points: usize, columns: usize) -> f64 {
        let rows = points as f64 * columns as f64;
        rows * (0.5 * rows + self.positions() as f64) * self.channel_params() as f64 * self.outputs as f64
    }

    /// A product at every point and position, then one with each of the rows.
    fn product_work(&self, points: usize, columns: usize) -> f64 {
        points as f64 * self.output().size() as f64 * (self.patch_length() + columns) as f64
    }

    fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        self.convolve(theta, None, 1, inputs, outputs, kept);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        self.convolve(theta, Some(velocity), 3, inputs, outputs, kept);
    }

    fn pull_back(
        &self,
        theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: Option<MatMut<'_, f64>>,
        kept: &mut Kept,
    ) {
        if let Some(mut inputs) = inputs {
            inputs.fill(0.0);
            self.add_pulled_back(theta, sensitivities, inputs, kept);
        }
    }

    fn rows(&self, rows: LayerRows<'_>, mut target: MatMut<'_, f64>) {
        let length = self.patch_length();
        for output in 0..self.outputs {
            let mut weights = target.rb_mut().get_mut(.., output * length..(output + 1) * length);
            weights.fill(0.0);
            self.add_channel_rows(output, rows.sensitivities, rows.inputs, weights);
            if self.bias {
                let column = column_slice_mut(target.rb_mut().col_mut(self.n_weights() + output));
                self.write_bias_rows(output, rows.sensitivities, column);
            }
        }
    }

    /// U a_t + u_b at every point and position, then its products with every sensitivity.
    fn times(&self, direction: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (n, length) = (rows.n_points(), self.patch_length());
        let (mut patches, mut moved) = scratch.matrix(n, length + self.group_outputs()).split_at_col_mut(length);
        for (group, position) in self.places() {
            self.gather(group, position, rows.inputs, patches.rb_mut());
            multiply(moved.rb_mut(), Accum::Replace, patches.rb(), self.weights_transposed(direction, group));
            let outputs = group * self.group_outputs()..;
            for ((change, column), output) in
                moved.rb_mut().col_iter_mut().zip(self.output_columns(group, position)).zip(outputs)
            {
                let change = column_slice_mut(change);
                if let Some(bias) = self.biases(direction).get(output) {
                    change.iter_mut().for_each(|value| *value += bias);
                }
                let blocks = column_slice(rows.sensitivities.col(column)).chunks_exact(n.max(1));
                for (block, deltas) in product.chunks_exact_mut(n.max(1)).zip(blocks) {
                    add_products(deltas, change, block);
                }
            }
        }
    }

    fn transpose_times(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        product[..self.n_weights()].fill(0.0);
        self.add_weighted_gradients(weights, rows.sensitivities, rows.inputs, scratch, product);
        self.write_weighted_biases(weights, rows.sensitivities, scratch, product);
    }

    fn gram(&self, variances: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, mut gram: MatMut<'_, f64>) {
        let mut part = scratch.matrix(rows.sensitivities.nrows(), self.channel_params());
        for output in 0..self.outputs {
            self.write_scaled_rows(output, variances[0].sqrt(), rows, part.rb_mut());
            multiply_by_own_transpose(gram.rb_mut(), Accum::Add, part.rb());
        }
    }

    fn cross_gram(
        &self,
        variances: &[f64],
        rows: LayerRows<'_>,
        others: LayerRows<'_>,
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        let (count, m, other) = (self.channel_params(), rows.sensitivities.nrows(), others.sensitivities.nrows());
        let (left, right) = scratch.numbers((m + other) * count).split_at_mut(m * count);
        let mut left = MatMut::from_column_major_slice_mut(left, m, count);
        let mut right = MatMut::from_column_major_slice_mut(right, other, count);
        for output in 0..self.outputs {
            self.write_scaled_rows(output, variances[0], rows, left.rb_mut());
            self.write_scaled_rows(output, 1.0, others, right.rb_mut());
            multiply(gram.rb_mut(), Accum::Add, left.rb(), right.rb().transpose());
        }
    }

    /// A weight matrix for every group, and the biases, whose exact block has terms between positions.
    fn blocks(&self) -> Vec<BlockShape> {
        let weights = BlockShape::Matrix { outputs: self.group_outputs(), inputs: self.patch_length(), bias: false };
        let biases = self.bias.then_some(BlockShape::Dense { size: self.outputs });
        std::iter::repeat_n(weights, self.groups).chain(biases).collect()
    }

    /// Sums of aaᵀ over points and positions, and of δδᵀ over rows and positions (KFAC-expand).
    fn kronecker(&self, rows: LayerRows<'_>, sums: &mut [BlockSums]) {
        let mut patches = Mat::zeros(rows.n_points(), self.patch_length());
        let mut deltas = Mat::zeros(rows.sensitivities.nrows(), self.group_outputs());
        for (group, position) in self.places() {
            let Some(BlockSums::Matrix(factors)) = sums.get_mut(group) else { continue };
            self.gather(group, position, rows.inputs, patches.as_mut());
            self.gather_outputs(group, position, rows.sensitivities, deltas.as_mut());
            multiply_by_own_transpose(factors.inputs.as_mut(), Accum::Add, patches.transpose());
            multiply_by_own_transpose(factors.sensitivities.as_mut(), Accum::Add, deltas.transpose());
            factors.count += rows.n_points() as f64;
        }
        if let Some(BlockSums::Dense(block)) = sums.get_mut(self.groups) {
            let mut biases = Mat::zeros(rows.sensitivities.nrows(), self.outputs);
            for (output, column) in biases.col_iter_mut().enumerate() {
                self.write_bias_rows(output, rows.sensitivities, column_slice_mut(column));
            }
            multiply_by_own_transpose(block.as_mut(), Accum::Add, biases.transpose());
        }
    }

    fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        self.convolve(theta, Some(velocity), 2, inputs, outputs, kept);
    }

    fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        kept: &mut Kept,
    ) {
        let Some((mut inputs, mut along)) = inputs else { return };
        inputs.fill(0.0);
        along.fill(0.0);
        self.add_pulled_back(theta, sensitivities.0, inputs, kept);
        self.add_pulled_back(theta, sensitivities.1, along.rb_mut(), kept);
        self.add_pulled_back(velocity, sensitivities.0, along, kept);
    }

    fn rows_along(&self, rows: LayerRows<'_>, mut target: MatMut<'_, f64>) {
        let along = LayerRows { sensitivities: rows.sensitivities_along, ..rows };
        self.rows(along, target.rb_mut());
        let Some(moved) = rows.inputs_along else { return };
        let length = self.patch_length();
        for output in 0..self.outputs {
            let weights = target.rb_mut().get_mut(.., output * length..(output + 1) * length);
            self.add_channel_rows(output, rows.sensitivities, moved, weights);
        }
    }

    fn transpose_times_along(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let along = LayerRows { sensitivities: rows.sensitivities_along, ..rows };
        self.transpose_times(weights, along, scratch, product);
        if let Some(moved) = rows.inputs_along {
            self.add_weighted_gradients(weights, rows.sensitivities, moved, scratch, product);
        }
    }
}
