//! The linear layer z = W h + b: W is [outputs, inputs], stored row by row, then b, if there is one.
//!
//! Along θ + tv, with W + tV and b + t v_b, inputs h₀ + h₁t + h₂t² give the sums
//!
//! z₀ = W h₀ + b, z₁ = W h₁ + V h₀ + v_b, z₂ = W h₂ + V h₁.
//!
//! Sensitivities δ of z pull back to Wᵀδ, and the gradients with respect to W and b are δ h₀ᵀ and δ. Hence the layer's
//! part of the Gram matrix, v (h₀·h₀′ + 1)(δ·δ′), costs N²·widths and no gradient. Along v the sensitivities pull back
//! to Wᵀδ̇ + Vᵀδ, and the gradients change by δ̇ h₀ᵀ + δ h₁ᵀ and δ̇.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

mod taylor;

use self::taylor::Parameters;
use super::weighted_sum;
use crate::linalg::{
    add_products, add_shifted_products, column_slice, column_slice_mut, in_parts, mirror_lower, multiply,
    multiply_by_own_transpose, multiply_with_offsets, products, sum,
};
use crate::map::{BlockCovariance, BlockShape, BlockSums, Scratch, add_dense_point_covariances};
use crate::network::curvature::OuterProducts;
use crate::network::layer::{LayerRows, LayerVerbs, ParameterGroup};
use crate::network::tape::Kept;

/// A linear layer z = W h + b; the formulas are in the [module](self) documentation.
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

    /// The number of entries of W.
    pub fn n_weights(&self) -> usize {
        self.inputs.saturating_mul(self.outputs)
    }

    /// Wᵀ as an inputs × outputs matrix, from the layer's parameters.
    fn weights_transposed<'a>(&self, theta: &'a [f64]) -> MatRef<'a, f64> {
        MatRef::from_column_major_slice(&theta[..self.n_weights()], self.inputs, self.outputs)
    }

    /// b, from the layer's parameters; empty without one.
    fn biases<'a>(&self, theta: &'a [f64]) -> &'a [f64] {
        &theta[self.n_weights()..]
    }

    /// What the bias adds to products of inputs.
    fn shift(&self) -> f64 {
        if self.bias { 1.0 } else { 0.0 }
    }

    /// z₀ and z₁ from h₀ and h₁, and V h₁, if that is faster in three products than in four.
    fn in_three_products(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) -> bool {
        let parameters = |of| Parameters { weights: self.weights_transposed(of), biases: self.biases(of) };
        taylor::is_faster(outputs.nrows() / 3, self.inputs, self.outputs)
            && taylor::three_products(parameters(theta), parameters(velocity), inputs, outputs, kept)
    }

    /// What the sums start from: b for z₀, v_b for z₁, zero for z₂.
    fn fill_sums(&self, theta: &[f64], velocity: &[f64], points: usize, outputs: MatMut<'_, f64>) {
        let (biases, changes) = (self.biases(theta), self.biases(velocity));
        for (o, column) in outputs.col_iter_mut().enumerate() {
            let (z0, rest) = column_slice_mut(column).split_at_mut(points);
            let (z1, z2) = rest.split_at_mut(points);
            z0.fill(biases.get(o).copied().unwrap_or(0.0));
            z1.fill(changes.get(o).copied().unwrap_or(0.0));
            z2.fill(0.0);
        }
    }
}

impl LayerVerbs for Linear {
    fn description(&self) -> String {
        let bias = if self.bias { "" } else { " without bias" };
        format!("linear {} → {}{bias}", self.inputs, self.outputs)
    }

    fn n_inputs(&self) -> Option<usize> {
        Some(self.inputs)
    }

    fn n_outputs(&self, _inputs: usize) -> usize {
        self.outputs
    }

    fn parameter_groups(&self) -> Vec<ParameterGroup> {
        let weight = ParameterGroup { name: "weight".to_string(), shape: vec![self.outputs, self.inputs] };
        let bias = ParameterGroup { name: "bias".to_string(), shape: vec![self.outputs] };
        std::iter::once(weight).chain(self.bias.then_some(bias)).collect()
    }

    /// Weights and biases uniform on ±1/√inputs.
    fn initialize(&self, generator: &mut ChaCha8Rng, parameters: &mut [f64]) {
        let bound = 1.0 / (self.inputs as f64).sqrt();
        parameters.fill_with(|| bound * (2.0 * generator.random::<f64>() - 1.0));
    }

    fn kept_size(&self, _inputs: usize, points: usize, _columns: usize) -> f64 {
        match taylor::is_faster(points, self.inputs, self.outputs) {
            true => taylor::room(points, self.inputs) as f64,
            false => 0.0,
        }
    }

    fn scratch_width(&self) -> usize {
        self.outputs
    }

    /// Products of inputs are formed once, those of sensitivities for every pair of rows at a point.
    fn gram_work(&self, points: usize, columns: usize) -> f64 {
        let (n, k) = (points as f64, columns as f64);
        0.5 * n * n * (self.inputs as f64 + k * k * self.outputs as f64)
    }

    /// A product at every point, then one with each of its rows.
    fn product_work(&self, points: usize, columns: usize) -> f64 {
        points as f64 * self.outputs as f64 * (self.inputs + columns) as f64
    }

    fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, _kept: &mut Kept) {
        multiply_with_offsets(outputs, self.biases(theta), inputs, self.weights_transposed(theta));
    }

    fn jet(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        let n = outputs.nrows() / 3;
        let (weights, change) = (self.weights_transposed(theta), self.weights_transposed(velocity));
        if inputs.nrows() == n {
            // The inputs do not move: z₂ = 0.
            multiply_with_offsets(outputs.rb_mut().get_mut(..n, ..), self.biases(theta), inputs, weights);
            multiply_with_offsets(outputs.rb_mut().get_mut(n..2 * n, ..), self.biases(velocity), inputs, change);
            in_parts(n * self.outputs, outputs.get_mut(2 * n.., ..), |_, second| {
                second.col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
            });
            return;
        }
        let slopes = inputs.get(..2 * n, ..);
        if self.in_three_products(theta, velocity, slopes, outputs.rb_mut(), kept) {
            return multiply(outputs.get_mut(2 * n.., ..), Accum::Add, inputs.get(2 * n.., ..), weights);
        }
        self.fill_sums(theta, velocity, n, outputs.rb_mut());
        multiply(outputs.rb_mut(), Accum::Add, inputs, weights);
        multiply(outputs.get_mut(n.., ..), Accum::Add, slopes, change);
    }

    /// Saves N·inputs·outputs multiply-adds for N·K·inputs that no cache sees twice.
    fn leaves_seconds(&self, columns: usize) -> bool {
        self.outputs >= 8 * columns
    }

    /// z₂ = V h₁.
    fn jet_of_slopes(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        let n = outputs.nrows() / 3;
        let inputs = inputs.get(..2 * n, ..);
        if self.in_three_products(theta, velocity, inputs, outputs.rb_mut(), kept) {
            return;
        }
        self.fill_sums(theta, velocity, n, outputs.rb_mut());
        multiply(outputs.rb_mut().get_mut(..2 * n, ..), Accum::Add, inputs, self.weights_transposed(theta));
        multiply(outputs.get_mut(n.., ..), Accum::Add, inputs, self.weights_transposed(velocity));
    }

    fn pull_back(
        &self,
        theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: Option<MatMut<'_, f64>>,
        _kept: &mut Kept,
    ) {
        if let Some(inputs) = inputs {
            multiply(inputs, Accum::Replace, sensitivities, self.weights_transposed(theta).transpose());
        }
    }

    fn rows(&self, rows: LayerRows<'_>, mut target: MatMut<'_, f64>) {
        let n = rows.n_points().max(1);
        for (o, sensitivity) in rows.sensitivities.col_iter().enumerate() {
            let sensitivity = column_slice(sensitivity);
            for (i, input) in rows.inputs.col_iter().enumerate() {
                let input = column_slice(input);
                let target = column_slice_mut(target.rb_mut().col_mut(o * self.inputs + i));
                for (block, delta) in target.chunks_exact_mut(n).zip(sensitivity.chunks_exact(n)) {
                    products(delta, input, block);
                }
            }
            if self.bias {
                column_slice_mut(target.rb_mut().col_mut(self.n_weights() + o)).copy_from_slice(sensitivity);
            }
        }
    }

    fn columns(&self, rows: LayerRows<'_>, indices: &[usize], target: MatMut<'_, f64>) {
        let n = rows.n_points().max(1);
        for (column, &index) in target.col_iter_mut().zip(indices) {
            let column = column_slice_mut(column);
            match index.checked_sub(self.n_weights()) {
                Some(output) => column.copy_from_slice(column_slice(rows.sensitivities.col(output))),
                None => {
                    let deltas = column_slice(rows.sensitivities.col(index / self.inputs));
                    let input = column_slice(rows.inputs.col(index % self.inputs));
                    for (block, delta) in column.chunks_exact_mut(n).zip(deltas.chunks_exact(n)) {
                        products(delta, input, block);
                    }
                }
            }
        }
    }

    fn takes_parts(&self) -> bool {
        true
    }

    /// U h + u_b at every point, then its product with every sensitivity.
    fn times(&self, direction: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let n = rows.n_points();
        let mut moved = scratch.matrix(n, self.outputs);
        multiply(moved.rb_mut(), Accum::Replace, rows.inputs, self.weights_transposed(direction));
        let biases = self.biases(direction).iter().copied().chain(std::iter::repeat(0.0));
        for ((change, bias), sensitivity) in moved.rb().col_iter().zip(biases).zip(rows.sensitivities.col_iter()) {
            let change = column_slice(change);
            for (block, deltas) in product.chunks_exact_mut(n.max(1)).zip(rows.by_rows(sensitivity)) {
                add_shifted_products(1.0, bias, change, deltas, block);
            }
        }
    }

    /// Σ_k w_k δ_k at every point, then its outer products with the inputs.
    fn transpose_times(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let mut weighted = scratch.matrix(rows.n_points(), self.outputs);
        let (weight_part, bias_part) = product.split_at_mut(self.n_weights());
        let numbers = rows.sensitivities.nrows() * self.outputs;
        let all = (weighted.rb_mut(), rows.sensitivities);
        if bias_part.is_empty() {
            in_parts(numbers, all, |_, (weighted, sensitivities)| {
                for (column, deltas) in weighted.col_iter_mut().zip(sensitivities.col_iter()) {
                    weighted_sum(rows.by_rows(deltas), weights, column_slice_mut(column));
                }
            });
        } else {
            in_parts(numbers, (all, bias_part), |_, ((weighted, sensitivities), biases)| {
                let columns = weighted.col_iter_mut().map(column_slice_mut).zip(sensitivities.col_iter());
                for ((column, deltas), bias) in columns.zip(biases) {
                    weighted_sum(rows.by_rows(deltas), weights, column);
                    *bias = sum(column);
                }
            });
        }
        let gradient = MatMut::from_column_major_slice_mut(weight_part, self.inputs, self.outputs);
        multiply(gradient, Accum::Replace, rows.inputs.transpose(), weighted.rb());
    }

    fn gram(&self, variances: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, mut gram: MatMut<'_, f64>) {
        let (n, columns, variance) = (rows.n_points(), rows.columns(), variances[0]);
        if variance == 0.0 {
            return;
        }
        let (input_products, sensitivity_products) = scratch.products(n, n);
        multiply_by_own_transpose(input_products.as_mut(), Accum::Replace, rows.inputs);
        if columns > 1 {
            mirror_lower(input_products);
        }
        for k in 0..columns {
            for j in 0..=k {
                if j == k {
                    multiply_by_own_transpose(sensitivity_products.as_mut(), Accum::Replace, rows.block(k));
                } else {
                    let (left, right) = (rows.block(k), rows.block(j).transpose());
                    multiply(sensitivity_products.as_mut(), Accum::Replace, left, right);
                }
                let block = gram.rb_mut().get_mut(k * n..(k + 1) * n, j * n..(j + 1) * n);
                for (c, column) in block.col_iter_mut().enumerate() {
                    let start = if j == k { c } else { 0 };
                    let target = &mut column_slice_mut(column)[start..];
                    let inputs = &column_slice(input_products.col(c))[start..];
                    let deltas = &column_slice(sensitivity_products.col(c))[start..];
                    add_shifted_products(variance, self.shift(), inputs, deltas, target);
                }
            }
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
        let (n, m) = (rows.n_points(), others.n_points());
        let (inputs, deltas) = scratch.products(n, m);
        multiply(inputs.as_mut(), Accum::Replace, rows.inputs, others.inputs.transpose());
        for k in 0..rows.columns() {
            for j in 0..others.columns() {
                multiply(deltas.as_mut(), Accum::Replace, rows.block(k), others.block(j).transpose());
                let block = gram.rb_mut().get_mut(k * n..(k + 1) * n, j * m..(j + 1) * m);
                for ((target, inputs), deltas) in block.col_iter_mut().zip(inputs.col_iter()).zip(deltas.col_iter()) {
                    let (inputs, deltas) = (column_slice(inputs), column_slice(deltas));
                    add_shifted_products(variances[0], self.shift(), inputs, deltas, column_slice_mut(target));
                }
            }
        }
    }

    fn outer_products(&self) -> Option<OuterProducts> {
        Some(OuterProducts { inputs: self.inputs, outputs: self.outputs, bias: self.bias })
    }

    fn blocks(&self) -> Vec<BlockShape> {
        vec![BlockShape::Matrix { outputs: self.outputs, inputs: self.inputs, bias: self.bias }]
    }

    fn kronecker(&self, rows: LayerRows<'_>, sums: &mut [BlockSums]) {
        if let [BlockSums::Matrix(factors)] = sums {
            multiply_by_own_transpose(factors.inputs.as_mut(), Accum::Add, rows.inputs.transpose());
            multiply_by_own_transpose(factors.sensitivities.as_mut(), Accum::Add, rows.sensitivities.transpose());
            factors.count += rows.n_points() as f64;
        }
    }

    /// Σₙ (Σ_k δ∘δ)(h∘h)ᵀ: one product over the points, not over the rows.
    fn add_squares(&self, rows: LayerRows<'_>, sums: &mut [f64]) {
        let n = rows.n_points();
        let square = |x: &f64| x * x;
        let inputs = Mat::from_fn(n, self.inputs, |point, i| square(&rows.inputs[(point, i)]));
        let mut deltas = Mat::zeros(n, self.outputs);
        for (target, source) in deltas.col_iter_mut().zip(rows.sensitivities.col_iter()) {
            let target = column_slice_mut(target);
            for block in column_slice(source).chunks_exact(n.max(1)) {
                add_products(block, block, target);
            }
        }
        let (weights, biases) = sums.split_at_mut(self.n_weights());
        let weights = MatMut::from_column_major_slice_mut(weights, self.inputs, self.outputs);
        multiply(weights, Accum::Add, inputs.transpose(), deltas.as_ref());
        for (bias, column) in biases.iter_mut().zip(deltas.col_iter()) {
            *bias += sum(column_slice(column));
        }
    }

    fn add_point_covariances(&self, rows: LayerRows<'_>, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        match blocks {
            [BlockCovariance::Matrix(matrix)] => {
                matrix.add_point_covariances(rows.inputs, rows.sensitivities, covariances);
            }
            [BlockCovariance::Fixed(_)] => {}
            _ => add_dense_point_covariances(self.dense_rows(rows).as_ref(), rows.n_points(), blocks, covariances),
        }
    }

    fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        _kept: &mut Kept,
    ) {
        let n = outputs.nrows() / 2;
        let (weights, change) = (self.weights_transposed(theta), self.weights_transposed(velocity));
        let h0 = inputs.get(..n, ..);
        multiply_with_offsets(outputs.rb_mut().get_mut(..n, ..), self.biases(theta), h0, weights);
        let mut z1 = outputs.get_mut(n.., ..);
        multiply_with_offsets(z1.rb_mut(), self.biases(velocity), h0, change);
        if inputs.nrows() > n {
            multiply(z1, Accum::Add, inputs.get(n.., ..), weights);
        }
    }

    fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        _kept: &mut Kept,
    ) {
        let Some((inputs, mut along)) = inputs else { return };
        let weights = self.weights_transposed(theta).transpose();
        let change = self.weights_transposed(velocity).transpose();
        multiply(inputs, Accum::Replace, sensitivities.0, weights);
        multiply(along.rb_mut(), Accum::Replace, sensitivities.1, weights);
        multiply(along, Accum::Add, sensitivities.0, change);
    }

    fn rows_along(&self, rows: LayerRows<'_>, mut target: MatMut<'_, f64>) {
        let n = rows.n_points().max(1);
        for (o, (delta, along)) in rows.sensitivities.col_iter().zip(rows.sensitivities_along.col_iter()).enumerate() {
            let (delta, along) = (column_slice(delta), column_slice(along));
            for (i, input) in rows.inputs.col_iter().enumerate() {
                let target = column_slice_mut(target.rb_mut().col_mut(o * self.inputs + i));
                for (block, along) in target.chunks_exact_mut(n).zip(along.chunks_exact(n)) {
                    products(along, column_slice(input), block);
                }
                if let Some(moved) = rows.inputs_along {
                    for (block, delta) in target.chunks_exact_mut(n).zip(delta.chunks_exact(n)) {
                        add_products(delta, column_slice(moved.col(i)), block);
                    }
                }
            }
            if self.bias {
                column_slice_mut(target.rb_mut().col_mut(self.n_weights() + o)).copy_from_slice(along);
            }
        }
    }

    fn transpose_times_along(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let along = LayerRows { sensitivities: rows.sensitivities_along, ..rows };
        self.transpose_times(weights, along, scratch, product);
        let Some(moved) = rows.inputs_along else { return };
        let mut weighted = scratch.matrix(rows.n_points(), self.outputs);
        for (column, deltas) in weighted.rb_mut().col_iter_mut().zip(rows.sensitivities.col_iter()) {
            weighted_sum(rows.by_rows(deltas), weights, column_slice_mut(column));
        }
        let weight_part = &mut product[..self.n_weights()];
        let gradient = MatMut::from_column_major_slice_mut(weight_part, self.inputs, self.outputs);
        multiply(gradient, Accum::Add, moved.transpose(), weighted.rb());
    }
}
