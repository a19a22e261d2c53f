//! The network as a map: forward jets in Taylor form, sensitivities backwards, and the Gram matrix without a Jacobian.
//!
//! Along θ + tv the layer inputs are h(t) = h₀ + h₁t + h₂t² + …, and with W + tV the next layer's sums are
//!
//! z₀ = W h₀ + b, z₁ = W h₁ + V h₀ + v_b, z₂ = W h₂ + V h₁,
//!
//! then h₀ = φ(z₀), h₁ = φ′z₁, h₂ = φ′z₂ + ½φ″z₁². At the output f = z₀, ḟ = z₁, f̈ = 2z₂.
//!
//! With the seeds R as sensitivities of the last layer, δ_l = (W_{l+1}ᵀ δ_{l+1}) ∘ φ′(z_l) gives every row of J̃: the
//! gradient with respect to W_l is δ_l h_lᵀ. Hence the Gram matrix
//! (J̃VJ̃ᵀ)_{m,m′} = Σ_l V_l (h_l·h′_l + 1)(δ_l·δ′_l), which costs O(M²·widths) and no Jacobian.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};
use ndarray::ArrayView2;

use super::{DifferentiableMap, Jet};
use crate::error::{Error, Result, check_size};
use crate::linalg::{
    add_products, add_shifted_products, affine, by_columns, column_slice, column_slice_mut, multiply,
    multiply_by_own_transpose, multiply_with_offsets, products, scale_by, sum, through_columns,
};
use crate::network::{Architecture, Layer};

/// A network at N fixed inputs, as a function of its parameters.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::map::{DifferentiableMap, MlpMap};
/// use riemannian_laplace::network::{Activation, Architecture};
///
/// // f(x) = 3x + 1 at x = 0 and x = 2.
/// let architecture = Architecture::new(&[1, 1], Activation::Identity)?;
/// let map = MlpMap::new(architecture, array![[0.0], [2.0]].view())?;
/// let mut outputs = [0.0; 2];
/// map.outputs(&[3.0, 1.0], &mut outputs, &mut map.workspace(1));
/// assert_eq!(outputs, [1.0, 7.0]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MlpMap {
    architecture: Architecture,
    inputs: Mat<f64>,
}

/// Layer inputs, slopes and sensitivities of one evaluation.
#[derive(Debug, Clone)]
pub struct MlpWorkspace {
    columns: usize,
    layers: Vec<LayerBuffers>,
    /// N numbers for each unit of the widest layer.
    scratch: Vec<f64>,
    /// N × N products of layer inputs and of sensitivities; empty until the Gram matrix is first asked for.
    input_products: Mat<f64>,
    sensitivity_products: Mat<f64>,
}

/// What one layer keeps: its sums z, and the values h and slopes φ′ after its activation (none for the last).
#[derive(Debug, Clone)]
struct LayerBuffers {
    /// 3N × outputs: the Taylor coefficients z₀, z₁, z₂, one below the other; after the activation h₀, h₁, h₂.
    values: Mat<f64>,
    /// N × outputs: φ′(z₀); empty for the last layer.
    slopes: Mat<f64>,
    /// M × outputs: the sensitivities δ.
    sensitivities: Mat<f64>,
}

impl MlpMap {
    /// The network of this shape at the rows of `inputs`.
    pub fn new(architecture: Architecture, inputs: ArrayView2<'_, f64>) -> Result<Self> {
        check_size("number of input columns", architecture.n_inputs(), inputs.ncols())?;
        if let Some(((row, column), _)) = inputs.indexed_iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::NotFinite { what: "the input", row, column });
        }
        let inputs = Mat::from_fn(inputs.nrows(), inputs.ncols(), |n, i| inputs[(n, i)]);
        Ok(Self { architecture, inputs })
    }

    /// The shape of the network.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The same network at some of the points, in the order given.
    pub fn at_points(&self, points: &[usize]) -> Result<Self> {
        if let Some(point) = points.iter().find(|point| **point >= self.n_points()) {
            let value = point.to_string();
            return Err(Error::Setting {
                name: "a point of the map",
                value,
                requirement: "below the number of points",
            });
        }
        let inputs = Mat::from_fn(points.len(), self.inputs.ncols(), |row, i| self.inputs[(points[row], i)]);
        Ok(Self { architecture: self.architecture.clone(), inputs })
    }

    /// The input at point n, as a matrix of one row.
    pub fn input(&self, n: usize) -> ndarray::Array2<f64> {
        ndarray::Array2::from_shape_fn((1, self.inputs.ncols()), |(_, i)| self.inputs[(n, i)])
    }

    /// J̃ V J̃′ᵀ between the rows of this map (pulled back in `workspace`) and those of the same network at other inputs.
    pub fn cross_gram(
        &self,
        workspace: &MlpWorkspace,
        other: &MlpMap,
        other_workspace: &MlpWorkspace,
        variances: &[f64],
        mut gram: MatMut<'_, f64>,
    ) {
        if !by_columns(gram.rb()) {
            return through_columns(gram, |gram| self.cross_gram(workspace, other, other_workspace, variances, gram));
        }
        let (n, m) = (self.n_points(), other.n_points());
        let (mut inputs, mut deltas) = (Mat::zeros(n, m), Mat::zeros(n, m));
        gram.fill(0.0);
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            let left = self.layer_values(&workspace.layers, index);
            let right = other.layer_values(&other_workspace.layers, index);
            multiply(inputs.as_mut(), Accum::Replace, left, right.transpose());
            let bias = if layer.bias { 1.0 } else { 0.0 };
            for k in 0..workspace.columns {
                let left = workspace.layers[index].sensitivities.get(k * n..(k + 1) * n, ..);
                for j in 0..other_workspace.columns {
                    let right = other_workspace.layers[index].sensitivities.get(j * m..(j + 1) * m, ..);
                    multiply(deltas.as_mut(), Accum::Replace, left, right.transpose());
                    let block = gram.rb_mut().get_mut(k * n..(k + 1) * n, j * m..(j + 1) * m);
                    for ((target, inputs), deltas) in block.col_iter_mut().zip(inputs.col_iter()).zip(deltas.col_iter())
                    {
                        let (inputs, deltas) = (column_slice(inputs), column_slice(deltas));
                        add_shifted_products(variances[index], bias, inputs, deltas, column_slice_mut(target));
                    }
                }
            }
        }
    }

    /// The Taylor coefficients of the inputs of layer `index`; the network's own inputs have only the first.
    fn layer_inputs<'a>(&'a self, before: &'a [LayerBuffers], index: usize) -> MatRef<'a, f64> {
        match index {
            0 => self.inputs.as_ref(),
            _ => before[index - 1].values.as_ref(),
        }
    }

    /// h₀ of layer `index`: N × inputs.
    fn layer_values<'a>(&'a self, layers: &'a [LayerBuffers], index: usize) -> MatRef<'a, f64> {
        self.layer_inputs(layers, index).get(..self.n_points(), ..)
    }

    fn last(&self) -> usize {
        self.architecture.layers().len() - 1
    }

    /// Applies the activation of a hidden layer to its values alone.
    fn activate_values(&self, buffers: &mut LayerBuffers) {
        let n = self.n_points();
        for (column, slopes) in buffers.values.col_iter_mut().zip(buffers.slopes.col_iter_mut()) {
            let values = &mut column_slice_mut(column)[..n];
            self.architecture.activation().replace_with_slope(values, column_slice_mut(slopes));
        }
    }

    /// Applies the activation of a hidden layer to the Taylor coefficients.
    fn activate_jet(&self, buffers: &mut LayerBuffers) {
        let n = self.n_points();
        for (column, slopes) in buffers.values.col_iter_mut().zip(buffers.slopes.col_iter_mut()) {
            let (z0, rest) = column_slice_mut(column).split_at_mut(n);
            let (z1, z2) = rest.split_at_mut(n);
            self.architecture.activation().replace_taylor(z0, z1, z2, column_slice_mut(slopes));
        }
    }
}

impl MlpWorkspace {
    /// K, the number of seed columns at each point.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Wᵀ as an inputs × outputs matrix (the weights are stored row by row).
fn weights_transposed<'a>(layer: &Layer, theta: &'a [f64]) -> MatRef<'a, f64> {
    MatRef::from_column_major_slice(layer.weights(theta), layer.inputs, layer.outputs)
}

impl DifferentiableMap for MlpMap {
    type Workspace = MlpWorkspace;

    fn n_params(&self) -> usize {
        self.architecture.n_params()
    }

    fn n_points(&self) -> usize {
        self.inputs.nrows()
    }

    fn n_outputs(&self) -> usize {
        self.architecture.n_outputs()
    }

    fn groups(&self) -> Vec<usize> {
        self.architecture.layer_params()
    }

    fn workspace(&self, columns: usize) -> MlpWorkspace {
        let (n, last) = (self.n_points(), self.last());
        let buffers = |(index, layer): (usize, &Layer)| LayerBuffers {
            values: Mat::zeros(3 * n, layer.outputs),
            slopes: if index < last { Mat::zeros(n, layer.outputs) } else { Mat::new() },
            sensitivities: Mat::zeros(n * columns, layer.outputs),
        };
        let layers: Vec<LayerBuffers> = self.architecture.layers().iter().enumerate().map(buffers).collect();
        let widest = self.architecture.sizes().into_iter().max().unwrap_or(1);
        MlpWorkspace {
            columns,
            layers,
            scratch: vec![0.0; n * widest],
            input_products: Mat::new(),
            sensitivity_products: Mat::new(),
        }
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut MlpWorkspace) {
        let (n, last) = (self.n_points(), self.last());
        let layers = &mut workspace.layers;
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            let (before, rest) = layers.split_at_mut(index);
            let buffers = &mut rest[0];
            let (inputs, weights) = (self.layer_values(before, index), weights_transposed(layer, theta));
            multiply_with_offsets(buffers.values.as_mut().get_mut(..n, ..), layer.biases(theta), inputs, weights);
            if index < last {
                self.activate_values(buffers);
            }
        }
        for (column, out) in layers[last].values.col_iter().zip(outputs.chunks_exact_mut(n.max(1))) {
            out.copy_from_slice(&column_slice(column)[..n]);
        }
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut MlpWorkspace) {
        let (n, last) = (self.n_points(), self.last());
        let layers = &mut workspace.layers;
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            let (before, rest) = layers.split_at_mut(index);
            let buffers = &mut rest[0];
            let inputs = self.layer_inputs(before, index);
            let (weights, change) = (weights_transposed(layer, theta), weights_transposed(layer, velocity));
            let mut values = buffers.values.as_mut();
            if index == 0 {
                // The network's inputs do not move: z₂ = 0.
                multiply_with_offsets(values.rb_mut().get_mut(..n, ..), layer.biases(theta), inputs, weights);
                multiply_with_offsets(values.rb_mut().get_mut(n..2 * n, ..), layer.biases(velocity), inputs, change);
                for column in values.get_mut(2 * n.., ..).col_iter_mut() {
                    column_slice_mut(column).fill(0.0);
                }
            } else {
                for (o, column) in values.rb_mut().col_iter_mut().enumerate() {
                    let (z0, rest) = column_slice_mut(column).split_at_mut(n);
                    let (z1, z2) = rest.split_at_mut(n);
                    z0.fill(layer.biases(theta).get(o).copied().unwrap_or(0.0));
                    z1.fill(layer.biases(velocity).get(o).copied().unwrap_or(0.0));
                    z2.fill(0.0);
                }
                multiply(values.rb_mut(), Accum::Add, inputs, weights);
                multiply(values.get_mut(n.., ..), Accum::Add, inputs.get(..2 * n, ..), change);
            }
            if index < last {
                self.activate_jet(buffers);
            }
        }
        for (p, column) in layers[last].values.col_iter().enumerate() {
            let column = column_slice(column);
            let range = p * n..(p + 1) * n;
            jet.outputs[range.clone()].copy_from_slice(&column[..n]);
            jet.tangents[range.clone()].copy_from_slice(&column[n..2 * n]);
            affine(0.0, 2.0, &column[2 * n..], &mut jet.curvatures[range]);
        }
    }

    fn pull_back(&self, theta: &[f64], seeds: &[f64], workspace: &mut MlpWorkspace) {
        let (n, last) = (self.n_points(), self.last());
        let m = n * workspace.columns;
        for (column, seed) in workspace.layers[last].sensitivities.col_iter_mut().zip(seeds.chunks_exact(m.max(1))) {
            column_slice_mut(column).copy_from_slice(seed);
        }
        for index in (0..last).rev() {
            let next = &self.architecture.layers()[index + 1];
            let (head, tail) = workspace.layers.split_at_mut(index + 1);
            let (buffers, after) = (&mut head[index], &tail[0]);
            let weights = weights_transposed(next, theta).transpose();
            multiply(buffers.sensitivities.as_mut(), Accum::Replace, after.sensitivities.as_ref(), weights);
            for (column, slopes) in buffers.sensitivities.col_iter_mut().zip(buffers.slopes.col_iter()) {
                let slopes = column_slice(slopes);
                for block in column_slice_mut(column).chunks_exact_mut(n.max(1)) {
                    scale_by(slopes, block);
                }
            }
        }
    }

    fn rows(&self, workspace: &mut MlpWorkspace, mut rows: MatMut<'_, f64>) {
        if !by_columns(rows.rb()) {
            return through_columns(rows, |rows| self.rows(workspace, rows));
        }
        let n = self.n_points().max(1);
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            let inputs = self.layer_values(&workspace.layers, index);
            for (o, sensitivity) in workspace.layers[index].sensitivities.col_iter().enumerate() {
                let sensitivity = column_slice(sensitivity);
                for (i, input) in inputs.col_iter().enumerate() {
                    let input = column_slice(input);
                    let target = column_slice_mut(rows.rb_mut().col_mut(layer.offset + o * layer.inputs + i));
                    for (block, delta) in target.chunks_exact_mut(n).zip(sensitivity.chunks_exact(n)) {
                        products(delta, input, block);
                    }
                }
                if layer.bias {
                    column_slice_mut(rows.rb_mut().col_mut(layer.offset + layer.n_weights() + o))
                        .copy_from_slice(sensitivity);
                }
            }
        }
    }

    fn times(&self, direction: &[f64], workspace: &mut MlpWorkspace, product: &mut [f64]) {
        let n = self.n_points();
        product.fill(0.0);
        let MlpWorkspace { layers, scratch, .. } = workspace;
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            // U h + u_b at every point, then its product with every sensitivity.
            let mut moved = MatMut::from_column_major_slice_mut(&mut scratch[..n * layer.outputs], n, layer.outputs);
            let inputs = self.layer_values(layers, index);
            multiply_with_offsets(
                moved.rb_mut(),
                layer.biases(direction),
                inputs,
                weights_transposed(layer, direction),
            );
            for (change, sensitivity) in moved.rb().col_iter().zip(layers[index].sensitivities.col_iter()) {
                let change = column_slice(change);
                let blocks = column_slice(sensitivity).chunks_exact(n.max(1));
                for (block, deltas) in product.chunks_exact_mut(n.max(1)).zip(blocks) {
                    add_products(deltas, change, block);
                }
            }
        }
    }

    fn transpose_times(&self, weights: &[f64], workspace: &mut MlpWorkspace, product: &mut [f64]) {
        let n = self.n_points();
        let MlpWorkspace { layers, scratch, .. } = workspace;
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            // Σ_k w_k δ_k at every point, then its outer products with the inputs.
            let mut weighted = MatMut::from_column_major_slice_mut(&mut scratch[..n * layer.outputs], n, layer.outputs);
            let (weight_part, bias_part) = product[layer.range()].split_at_mut(layer.n_weights());
            for (o, (column, sensitivity)) in
                weighted.rb_mut().col_iter_mut().zip(layers[index].sensitivities.col_iter()).enumerate()
            {
                let column = column_slice_mut(column);
                let blocks = column_slice(sensitivity).chunks_exact(n.max(1));
                for (k, (deltas, factors)) in blocks.zip(weights.chunks_exact(n.max(1))).enumerate() {
                    if k == 0 {
                        products(deltas, factors, column);
                    } else {
                        add_products(deltas, factors, column);
                    }
                }
                if let Some(bias) = bias_part.get_mut(o) {
                    *bias = sum(column);
                }
            }
            let gradient = MatMut::from_column_major_slice_mut(weight_part, layer.inputs, layer.outputs);
            multiply(gradient, Accum::Replace, self.layer_values(layers, index).transpose(), weighted.rb());
        }
    }

    fn gram(&self, variances: &[f64], workspace: &mut MlpWorkspace, mut gram: MatMut<'_, f64>) {
        if !by_columns(gram.rb()) {
            return through_columns(gram, |gram| self.gram(variances, workspace, gram));
        }
        let (n, columns) = (self.n_points(), workspace.columns);
        gram.fill(0.0);
        let MlpWorkspace { layers, input_products, sensitivity_products, .. } = workspace;
        if input_products.nrows() != n {
            *input_products = Mat::zeros(n, n);
            *sensitivity_products = Mat::zeros(n, n);
        }
        for (index, layer) in self.architecture.layers().iter().enumerate() {
            let variance = variances[index];
            if variance == 0.0 {
                continue;
            }
            multiply_by_own_transpose(input_products.as_mut(), Accum::Replace, self.layer_values(layers, index));
            if columns > 1 {
                crate::linalg::mirror_lower(input_products);
            }
            let bias = if layer.bias { 1.0 } else { 0.0 };
            let sensitivities = layers[index].sensitivities.as_ref();
            for k in 0..columns {
                let left = sensitivities.get(k * n..(k + 1) * n, ..);
                for j in 0..=k {
                    if j == k {
                        multiply_by_own_transpose(sensitivity_products.as_mut(), Accum::Replace, left);
                    } else {
                        let right = sensitivities.get(j * n..(j + 1) * n, ..).transpose();
                        multiply(sensitivity_products.as_mut(), Accum::Replace, left, right);
                    }
                    let block = gram.rb_mut().get_mut(k * n..(k + 1) * n, j * n..(j + 1) * n);
                    for (c, column) in block.col_iter_mut().enumerate() {
                        let start = if j == k { c } else { 0 };
                        let target = &mut column_slice_mut(column)[start..];
                        let inputs = &column_slice(input_products.col(c))[start..];
                        let deltas = &column_slice(sensitivity_products.col(c))[start..];
                        add_shifted_products(variance, bias, inputs, deltas, target);
                    }
                }
            }
        }
    }

    fn workspace_size(&self, columns: usize) -> f64 {
        let n = self.n_points() as f64;
        let widths: f64 = self.architecture.layers().iter().map(|layer| layer.outputs as f64).sum();
        let widest = self.architecture.sizes().into_iter().max().unwrap_or(1) as f64;
        n * widths * (4 + columns) as f64 + n * widest
    }

    /// Products of layer inputs once, of sensitivities for every pair of columns.
    fn gram_work(&self, columns: usize) -> f64 {
        let (n, k) = (self.n_points() as f64, columns as f64);
        let layers = self.architecture.layers().iter();
        layers.map(|layer| 0.5 * n * n * (layer.inputs as f64 + k * k * layer.outputs as f64)).sum()
    }
}
