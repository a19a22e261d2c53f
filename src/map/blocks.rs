//! Blocks of parameters: the curvature Σₘ rowₘᵀrowₘ without the terms between blocks, and predictive covariances from a
//! covariance without them.
//!
//! A weight matrix W `[outputs, inputs]` has the block Σₘ (δₘδₘᵀ) ⊗ (hₘhₘᵀ), with h the inputs of its layer and δ the
//! sensitivities of its outputs. It is approximated by one Kronecker product B ⊗ Ā with B = Σₘ δₘδₘᵀ, a sum, and Ā =
//! N⁻¹ Σₙ hₙhₙᵀ, a mean without a 1 for the bias. The block of a bias is B, exactly. Where a matrix is used at T positions
//! of every point (a convolution), both sums run over points and positions, and the mean is over all N·T of them.
//! Parameters without matrix form, such as scale and shift of a normalisation, have their exact block.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut, MatRef};

use super::Rows;
use crate::linalg::{Cholesky, column_slice, column_slice_mut, dot, multiply, multiply_by_own_transpose};

/// Consecutive parameters that form a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockShape {
    /// A weight matrix `[outputs, inputs]`, row by row.
    Matrix {
        /// The number of rows.
        outputs: usize,
        /// The number of columns.
        inputs: usize,
        /// Whether a bias with one entry per output follows, whose block is the matrix's Σδδᵀ.
        bias: bool,
    },
    /// Parameters without matrix form.
    Dense {
        /// How many.
        size: usize,
    },
}

impl BlockShape {
    /// The number of parameters.
    pub fn size(self) -> usize {
        match self {
            BlockShape::Matrix { outputs, inputs, bias } => outputs * (inputs + usize::from(bias)),
            BlockShape::Dense { size } => size,
        }
    }

    /// The number of f64 values in the sums of this block.
    pub fn sum_numbers(self) -> f64 {
        match self {
            BlockShape::Matrix { outputs, inputs, .. } => (outputs as f64).powi(2) + (inputs as f64).powi(2),
            BlockShape::Dense { size } => (size as f64).powi(2),
        }
    }
}

/// The curvature of a block, as sums over points that can be added up.
#[derive(Debug, Clone)]
pub enum BlockSums {
    /// The two factors of a weight matrix.
    Matrix(KroneckerFactors),
    /// Σₘ rowₘᵀrowₘ: the lower triangle.
    Dense(Mat<f64>),
}

/// The sums of which the Kronecker product of a weight matrix is made: N⁻¹ Σδδᵀ ⊗ Σhhᵀ.
#[derive(Debug, Clone)]
pub struct KroneckerFactors {
    /// Σ hhᵀ over points (and positions), inputs × inputs: the lower triangle.
    pub inputs: Mat<f64>,
    /// Σ δδᵀ over rows (and positions), outputs × outputs: the lower triangle.
    pub sensitivities: Mat<f64>,
    /// The number of terms of Σ hhᵀ: N, or N·T.
    pub count: f64,
}

impl BlockSums {
    /// Sums of nothing.
    pub fn zeros(shape: BlockShape) -> Self {
        match shape {
            BlockShape::Matrix { outputs, inputs, .. } => BlockSums::Matrix(KroneckerFactors {
                inputs: Mat::zeros(inputs, inputs),
                sensitivities: Mat::zeros(outputs, outputs),
                count: 0.0,
            }),
            BlockShape::Dense { size } => BlockSums::Dense(Mat::zeros(size, size)),
        }
    }

    /// Adds other sums of the same shape.
    pub fn add(&mut self, other: &BlockSums) {
        match (self, other) {
            (BlockSums::Matrix(sum), BlockSums::Matrix(other)) => {
                sum.inputs += &other.inputs;
                sum.sensitivities += &other.sensitivities;
                sum.count += other.count;
            }
            (BlockSums::Dense(sum), BlockSums::Dense(other)) => *sum += other,
            // Sums that do not belong together are never added silently.
            (BlockSums::Matrix(sum), BlockSums::Dense(_)) => sum.count = f64::NAN,
            (BlockSums::Dense(sum), BlockSums::Matrix(_)) => sum.fill(f64::NAN),
        }
    }

    /// Adds the exact block of dense rows (M × size). The factors of a matrix do not follow from its rows: a layer with
    /// matrices adds to them itself, and becomes NaN here.
    fn add_dense(&mut self, rows: MatRef<'_, f64>) {
        match self {
            BlockSums::Dense(sum) => multiply_by_own_transpose(sum.as_mut(), Accum::Add, rows.transpose()),
            BlockSums::Matrix(factors) => factors.count = f64::NAN,
        }
    }
}

/// Adds the exact blocks of dense rows, M × (sum of the blocks' sizes).
pub fn add_dense_sums(rows: MatRef<'_, f64>, shapes: &[BlockShape], sums: &mut [BlockSums]) {
    let mut start = 0;
    for (shape, sum) in shapes.iter().zip(sums) {
        sum.add_dense(rows.get(.., start..start + shape.size()));
        start += shape.size();
    }
}

/// Adds the squares of the entries of dense rows, M × D, over the rows.
pub fn add_dense_squares(rows: MatRef<'_, f64>, sums: &mut [f64]) {
    for (entry, column) in sums.iter_mut().zip(rows.col_iter()) {
        *entry += column.squared_norm_l2();
    }
}

/// The covariance of a block of parameters, in a form in which products with rows are cheap.
#[derive(Debug, Clone)]
pub enum BlockCovariance {
    /// A weight matrix with independent entries in a rotated basis, and its bias.
    Matrix(MatrixCovariance),
    /// Independent parameters: their variances.
    Diagonal(Vec<f64>),
    /// The inverse of a factored precision.
    Dense(Cholesky),
    /// So many parameters that are known.
    Fixed(usize),
}

/// The covariance (Q_B ⊗ Q_A) diag(w) (Q_B ⊗ Q_A)ᵀ of a weight matrix `[outputs, inputs]`, and Q_B diag(w_b) Q_Bᵀ of its
/// bias.
#[derive(Debug, Clone)]
pub struct MatrixCovariance {
    /// Q_B and Q_A; none where the basis is that of the weights.
    pub bases: Option<Bases>,
    /// w, inputs × outputs: a row of the weight matrix is a column.
    pub variances: Mat<f64>,
    /// w_b; none without a bias.
    pub bias: Option<Vec<f64>>,
}

/// Orthogonal bases of a weight matrix's outputs and inputs, a vector per column.
#[derive(Debug, Clone)]
pub struct Bases {
    /// Q_B, outputs × outputs.
    pub outputs: Arc<Mat<f64>>,
    /// Q_A, inputs × inputs.
    pub inputs: Arc<Mat<f64>>,
}

impl MatrixCovariance {
    /// Q_AᵀWᵀQ_B of a weight matrix given by its transpose, inputs × outputs.
    pub fn rotate(&self, transposed: MatRef<'_, f64>) -> Mat<f64> {
        let Some(Bases { outputs, inputs }) = &self.bases else { return transposed.to_owned() };
        let mut half = Mat::zeros(transposed.nrows(), transposed.ncols());
        multiply(half.as_mut(), Accum::Replace, inputs.transpose(), transposed);
        let mut rotated = Mat::zeros(transposed.nrows(), transposed.ncols());
        multiply(rotated.as_mut(), Accum::Replace, half.as_ref(), outputs.as_ref().as_ref());
        rotated
    }

    /// The inverse of [`rotate`](Self::rotate): Q_A M Q_Bᵀ.
    pub fn rotate_back(&self, rotated: MatRef<'_, f64>, transposed: MatMut<'_, f64>) {
        let Some(Bases { outputs, inputs }) = &self.bases else {
            let mut transposed = transposed;
            transposed.copy_from(rotated);
            return;
        };
        let mut half = Mat::zeros(rotated.nrows(), rotated.ncols());
        multiply(half.as_mut(), Accum::Replace, inputs.as_ref().as_ref(), rotated);
        multiply(transposed, Accum::Replace, half.as_ref(), outputs.transpose());
    }

    /// Q_Bᵀb of a bias.
    pub fn rotate_bias(&self, bias: &[f64]) -> Vec<f64> {
        match &self.bases {
            None => bias.to_vec(),
            Some(bases) => bases.outputs.col_iter().map(|column| dot(column_slice(column), bias)).collect(),
        }
    }

    /// Adds h-weighted products of sensitivities: for a layer that uses its matrix once per point, the covariance of
    /// the rows k and l of point n is Σᵢ δ̃ₖᵢ δ̃ₗᵢ (Σⱼ h̃ⱼ² wⱼᵢ + w_bᵢ), with h̃ = Q_Aᵀh and δ̃ = Q_Bᵀδ. The inputs are N ×
    /// inputs, the sensitivities N·K × outputs; each point has a K × K block.
    pub fn add_point_covariances(
        &self,
        inputs: MatRef<'_, f64>,
        sensitivities: MatRef<'_, f64>,
        covariances: &mut [f64],
    ) {
        let (n, width) = (inputs.nrows(), self.variances.ncols());
        if n == 0 {
            return;
        }
        let columns = sensitivities.nrows() / n;
        let rotated = |values: MatRef<'_, f64>, basis: Option<&Arc<Mat<f64>>>| match basis {
            None => values.to_owned(),
            Some(basis) => {
                let mut product = Mat::zeros(values.nrows(), values.ncols());
                multiply(product.as_mut(), Accum::Replace, values, basis.as_ref().as_ref());
                product
            }
        };
        let mut squares = rotated(inputs, self.bases.as_ref().map(|bases| &bases.inputs));
        for column in squares.col_iter_mut() {
            column_slice_mut(column).iter_mut().for_each(|value| *value *= *value);
        }
        let mut scales = Mat::zeros(n, width);
        multiply(scales.as_mut(), Accum::Replace, squares.as_ref(), self.variances.as_ref());
        let deltas = rotated(sensitivities, self.bases.as_ref().map(|bases| &bases.outputs));
        let mut sums = vec![0.0; n];
        for k in 0..columns {
            for l in 0..=k {
                sums.fill(0.0);
                for i in 0..width {
                    let shift = self.bias.as_ref().map_or(0.0, |bias| bias[i]);
                    let (scale, column) = (column_slice(scales.col(i)), column_slice(deltas.col(i)));
                    let pairs = column[k * n..(k + 1) * n].iter().zip(&column[l * n..(l + 1) * n]);
                    for ((sum, scale), (left, right)) in sums.iter_mut().zip(scale).zip(pairs) {
                        *sum += left * right * (scale + shift);
                    }
                }
                add_pair(&sums, (k, l), columns, covariances);
            }
        }
    }
}

/// Adds the covariance of the rows k and l of every point to the points' blocks.
fn add_pair(values: &[f64], (k, l): (usize, usize), columns: usize, covariances: &mut [f64]) {
    for (block, value) in covariances.chunks_exact_mut((columns * columns).max(1)).zip(values) {
        block[k * columns + l] += value;
        if k != l {
            block[l * columns + k] += value;
        }
    }
}

impl BlockCovariance {
    /// The number of parameters.
    pub fn size(&self) -> usize {
        match self {
            BlockCovariance::Matrix(matrix) => {
                matrix.variances.nrows() * matrix.variances.ncols() + matrix.bias.as_ref().map_or(0, Vec::len)
            }
            BlockCovariance::Diagonal(variances) => variances.len(),
            BlockCovariance::Dense(factor) => factor.size(),
            BlockCovariance::Fixed(size) => *size,
        }
    }

    /// The matrix X, size × M, with which the covariance of dense rows (M × size) is XᵀX.
    pub fn whiten(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let mut columns = rows.transpose().to_owned();
        match self {
            BlockCovariance::Fixed(_) => columns.fill(0.0),
            BlockCovariance::Dense(factor) => factor.solve_lower_many(columns.as_mut()),
            BlockCovariance::Diagonal(variances) => {
                for column in columns.col_iter_mut() {
                    let entries = column_slice_mut(column).iter_mut().zip(variances);
                    entries.for_each(|(value, variance)| *value *= variance.sqrt());
                }
            }
            BlockCovariance::Matrix(matrix) => {
                let (inputs, outputs) = (matrix.variances.nrows(), matrix.variances.ncols());
                for column in columns.col_iter_mut() {
                    let (weights, bias) = column_slice_mut(column).split_at_mut(inputs * outputs);
                    let rotated = matrix.rotate(MatRef::from_column_major_slice(weights, inputs, outputs));
                    let entries = rotated.col_iter().zip(matrix.variances.col_iter());
                    let entries = entries.flat_map(|(column, variances)| column.iter().zip(variances.iter()));
                    for (target, (value, variance)) in weights.iter_mut().zip(entries) {
                        *target = value * variance.sqrt();
                    }
                    if let Some(variances) = &matrix.bias {
                        let rotated = matrix.rotate_bias(bias);
                        for (target, (value, variance)) in bias.iter_mut().zip(rotated.iter().zip(variances)) {
                            *target = value * variance.sqrt();
                        }
                    }
                }
            }
        }
        columns
    }
}

/// Adds the covariances of the rows at each point, from dense rows M × (sum of the blocks' sizes), numbered `k·N + n`.
pub fn add_dense_point_covariances(
    rows: MatRef<'_, f64>,
    points: usize,
    blocks: &[BlockCovariance],
    covariances: &mut [f64],
) {
    let (columns, mut start) = (rows.nrows() / points.max(1), 0);
    for block in blocks {
        if let BlockCovariance::Fixed(size) = block {
            start += size;
            continue;
        }
        let white = block.whiten(rows.get(.., start..start + block.size()));
        start += block.size();
        for k in 0..columns {
            for l in 0..=k {
                let value = |n| dot(column_slice(white.col(k * points + n)), column_slice(white.col(l * points + n)));
                let values: Vec<f64> = (0..points).map(value).collect();
                add_pair(&values, (k, l), columns, covariances);
            }
        }
    }
}

/// All rows as a dense M × D matrix.
pub(super) fn dense_rows(rows: &(impl Rows + ?Sized)) -> Mat<f64> {
    let mut dense = Mat::zeros(rows.n_rows(), rows.n_params());
    rows.dense(dense.as_mut());
    dense
}
