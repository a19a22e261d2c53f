//! What the verbs of a convolution are made of: patches gathered at a position, and their products.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef};

use super::conv2d::Conv2d;
use super::{add_row_products, weighted_sum};
use crate::linalg::{add_scaled, column_slice, column_slice_mut, dot, multiply};
use crate::map::Scratch;
use crate::network::layer::LayerRows;
use crate::network::tape::Kept;

impl Conv2d {
    /// The output channels of a group.
    pub(super) fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    /// Wᵀ of one group as a K × outputs matrix, from the layer's parameters.
    pub(super) fn weights_transposed<'a>(&self, theta: &'a [f64], group: usize) -> MatRef<'a, f64> {
        let (length, outputs) = (self.patch_length(), self.group_outputs());
        MatRef::from_column_major_slice(&theta[group * outputs * length..][..outputs * length], length, outputs)
    }

    /// b, from the layer's parameters; empty without one.
    pub(super) fn biases<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.n_weights()..]
    }

    /// Calls `visit` with every entry of a group's patch at a position, and the input column it is.
    pub(super) fn for_each_tap(&self, group: usize, position: usize, mut visit: impl FnMut(usize, Option<usize>)) {
        let (window, channels) = (self.window(), self.input.channels / self.groups);
        let (taps, pixels) = (window.taps(), self.input.pixels());
        for tap in 0..taps {
            let pixel = window.pixel(position, tap);
            for channel in 0..channels {
                visit(channel * taps + tap, pixel.map(|pixel| (group * channels + channel) * pixels + pixel));
            }
        }
    }

    /// Writes the patches of a group at a position, one per row of the inputs.
    pub(super) fn gather(&self, group: usize, position: usize, inputs: MatRef<'_, f64>, mut patches: MatMut<'_, f64>) {
        self.for_each_tap(group, position, |entry, column| {
            let target = column_slice_mut(patches.rb_mut().col_mut(entry));
            match column {
                Some(column) => target.copy_from_slice(column_slice(inputs.col(column))),
                None => target.fill(0.0),
            }
        });
    }

    /// Writes the outputs of a group at a position, or their sensitivities, into a matrix of their own.
    pub(super) fn gather_outputs(
        &self,
        group: usize,
        position: usize,
        outputs: MatRef<'_, f64>,
        target: MatMut<'_, f64>,
    ) {
        for (column, output) in target.col_iter_mut().zip(self.output_columns(group, position)) {
            column_slice_mut(column).copy_from_slice(column_slice(outputs.col(output)));
        }
    }

    /// The columns of the outputs of a group at a position.
    pub(super) fn output_columns(&self, group: usize, position: usize) -> impl Iterator<Item = usize> + use<> {
        let (outputs, positions) = (self.group_outputs(), self.positions());
        (group * outputs..(group + 1) * outputs).map(move |output| output * positions + position)
    }

    /// Groups and positions.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let positions = self.positions();
        (0..self.groups).flat_map(move |group| (0..positions).map(move |position| (group, position)))
    }

    /// The Taylor coefficients of the outputs from those of the inputs, which may be fewer; θ moves if there is a
    /// velocity.
    pub(super) fn convolve(
        &self,
        theta: &[f64],
        velocity: Option<&[f64]>,
        coefficients: usize,
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        let (rows, moving) = (outputs.nrows(), inputs.nrows());
        let n = rows / coefficients;
        let (patches, sums) = kept.room.as_mut().split_at_col_mut(self.patch_length());
        let (mut patches, mut sums) = (patches.get_mut(..moving, ..), sums.get_mut(..rows, ..));
        for (group, position) in self.places() {
            self.gather(group, position, inputs, patches.rb_mut());
            let weights = self.weights_transposed(theta, group);
            multiply(sums.rb_mut().get_mut(..moving, ..), Accum::Replace, patches.rb(), weights);
            if moving < rows {
                sums.rb_mut().get_mut(moving.., ..).fill(0.0);
            }
            if let Some(velocity) = velocity {
                let still = moving.min(rows - n);
                let target = sums.rb_mut().get_mut(n..n + still, ..);
                multiply(target, Accum::Add, patches.rb().get(..still, ..), self.weights_transposed(velocity, group));
            }
            for (sums, output) in sums.rb().col_iter().zip(self.output_columns(group, position)) {
                column_slice_mut(outputs.rb_mut().col_mut(output)).copy_from_slice(column_slice(sums));
            }
        }
        if !self.bias {
            return;
        }
        let positions = self.positions();
        for (block, parameters) in std::iter::once(theta).chain(velocity).enumerate() {
            for (index, column) in outputs.rb_mut().col_iter_mut().enumerate() {
                let bias = self.biases(parameters)[index / positions];
                column_slice_mut(column)[block * n..(block + 1) * n].iter_mut().for_each(|value| *value += bias);
            }
        }
    }

    /// Adds Wᵀδ to the sensitivities of the inputs.
    pub(super) fn add_pulled_back(
        &self,
        parameters: &[f64],
        sensitivities: MatRef<'_, f64>,
        mut inputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        let rows = sensitivities.nrows();
        let (patches, deltas) = kept.room.as_mut().split_at_col_mut(self.patch_length());
        let (mut patches, mut deltas) = (patches.get_mut(..rows, ..), deltas.get_mut(..rows, ..));
        for (group, position) in self.places() {
            self.gather_outputs(group, position, sensitivities, deltas.rb_mut());
            let weights = self.weights_transposed(parameters, group).transpose();
            multiply(patches.rb_mut(), Accum::Replace, deltas.rb(), weights);
            self.for_each_tap(group, position, |entry, column| {
                if let Some(column) = column {
                    let target = column_slice_mut(inputs.rb_mut().col_mut(column));
                    add_scaled(1.0, column_slice(patches.rb().col(entry)), target);
                }
            });
        }
    }

    /// Adds the rows of the weights of one output channel: Σ_t δ_t a_t, M × K.
    pub(super) fn add_channel_rows(
        &self,
        output: usize,
        sensitivities: MatRef<'_, f64>,
        inputs: MatRef<'_, f64>,
        mut target: MatMut<'_, f64>,
    ) {
        let positions = self.positions();
        for position in 0..positions {
            let deltas = column_slice(sensitivities.col(output * positions + position));
            self.for_each_tap(output / self.group_outputs(), position, |entry, column| {
                if let Some(column) = column {
                    let target = column_slice_mut(target.rb_mut().col_mut(entry));
                    add_row_products(deltas, column_slice(inputs.col(column)), target);
                }
            });
        }
    }

    /// Writes the rows of the bias of one output channel: Σ_t δ_t.
    pub(super) fn write_bias_rows(&self, output: usize, sensitivities: MatRef<'_, f64>, target: &mut [f64]) {
        let positions = self.positions();
        target.fill(0.0);
        for position in 0..positions {
            add_scaled(1.0, column_slice(sensitivities.col(output * positions + position)), target);
        }
    }

    /// Writes the rows of one output channel's weights and bias, times a factor: M × (K + 1), or K without a bias.
    pub(super) fn write_scaled_rows(
        &self,
        output: usize,
        factor: f64,
        rows: LayerRows<'_>,
        mut target: MatMut<'_, f64>,
    ) {
        let length = self.patch_length();
        target.fill(0.0);
        self.add_channel_rows(output, rows.sensitivities, rows.inputs, target.rb_mut().get_mut(.., ..length));
        if self.bias {
            self.write_bias_rows(output, rows.sensitivities, column_slice_mut(target.rb_mut().col_mut(length)));
        }
        for column in target.col_iter_mut() {
            column_slice_mut(column).iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// The number of parameters of an output channel.
    pub(super) fn channel_params(&self) -> usize {
        self.patch_length() + usize::from(self.bias)
    }

    /// Adds Σₘ wₘ δₘ aₘᵀ to the weights' part of a product, for these sensitivities and inputs.
    pub(super) fn add_weighted_gradients(
        &self,
        weights: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: MatRef<'_, f64>,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        let (n, length, outputs) = (inputs.nrows(), self.patch_length(), self.group_outputs());
        let (mut patches, mut weighted) = scratch.matrix(n, length + outputs).split_at_col_mut(length);
        for (group, position) in self.places() {
            self.gather(group, position, inputs, patches.rb_mut());
            for (column, output) in weighted.rb_mut().col_iter_mut().zip(self.output_columns(group, position)) {
                let deltas = column_slice(sensitivities.col(output)).chunks_exact(n.max(1));
                weighted_sum(deltas, weights, column_slice_mut(column));
            }
            let part = &mut product[group * outputs * length..][..outputs * length];
            let gradient = MatMut::from_column_major_slice_mut(part, length, outputs);
            multiply(gradient, Accum::Add, patches.rb().transpose(), weighted.rb());
        }
    }

    /// Writes Σₘ wₘ Σ_t δ to the bias' part of a product.
    pub(super) fn write_weighted_biases(
        &self,
        weights: &[f64],
        sensitivities: MatRef<'_, f64>,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        let total = scratch.numbers(sensitivities.nrows());
        for (output, value) in product[self.n_weights()..].iter_mut().enumerate() {
            self.write_bias_rows(output, sensitivities, total);
            *value = dot(total, weights);
        }
    }
}
