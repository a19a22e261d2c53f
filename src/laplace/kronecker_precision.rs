//! The factored Kronecker precision: independent entries in the eigenbasis of each weight matrix.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::form::CovarianceForm;
use super::kronecker::{Axis, BlockCurvature, precisions_of_blocks};
use super::structure::{Precision, SavedTensor, SavedTensors, Structure, damaged};
use crate::error::{Error, PosteriorError, Result};
use crate::linalg::{
    Cholesky, FailedPivot, column_slice, column_slice_mut, inverse_lower, multiply, pack_lower, packed_diagonal,
    packed_length, unpack_lower,
};
use crate::map::{Bases, BlockCovariance, BlockShape, MatrixCovariance, Rows};
use crate::prior::PriorPrecision;
use crate::random::fill_standard_normal;

/// Numbers in the evaluator and in dense rows of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 22) as f64;
const ADVICE: &str = "raise the prior precision, or check the data and the network's outputs for extreme values";

/// A precision without terms between blocks; see the module on its curvature for the formulas.
#[derive(Debug, Clone)]
pub struct Kronecker {
    blocks: Vec<Block>,
    /// The inverse of each block, in the same order.
    covariances: Vec<BlockCovariance>,
    n_params: usize,
}

/// What a block's log determinant depends on, and what is saved.
#[derive(Debug, Clone)]
enum Block {
    /// λ and μ, and α of the weights and the bias.
    Matrix { outputs: Axis, inputs: Axis, alphas: Vec<f64> },
    /// α of each parameter.
    Dense { alphas: Vec<f64> },
}

impl Kronecker {
    /// G = curvature + A, with α of each part of each block.
    pub(super) fn new(curvatures: Vec<BlockCurvature>, alphas: &[Vec<f64>], prior: &PriorPrecision) -> Result<Self> {
        let (mut blocks, mut covariances) = (Vec::new(), Vec::new());
        for (curvature, alphas) in curvatures.into_iter().zip(alphas) {
            match curvature {
                BlockCurvature::Matrix { outputs, inputs, .. } => {
                    let block = Block::Matrix { outputs, inputs, alphas: alphas.clone() };
                    covariances.push(block.matrix_covariance()?);
                    blocks.push(block);
                }
                BlockCurvature::Dense(sum) => {
                    let size = sum.nrows();
                    let mut cholesky = Cholesky::new(size);
                    let mut matrix = cholesky.matrix_mut();
                    matrix.copy_from(&sum);
                    alphas.iter().enumerate().for_each(|(d, alpha)| matrix[(d, d)] += alpha);
                    cholesky.factor().map_err(|FailedPivot(pivot)| Error::NotPositiveDefinite {
                        matrix: "a block of the posterior precision",
                        size,
                        pivot,
                        advice: ADVICE,
                    })?;
                    covariances.push(BlockCovariance::Dense(cholesky));
                    blocks.push(Block::Dense { alphas: alphas.clone() });
                }
            }
        }
        Ok(Self { blocks, covariances, n_params: prior.n_params() })
    }

    /// From the tensors of a file.
    pub(super) fn load(shapes: &[BlockShape], prior: &PriorPrecision, file: &mut dyn SavedTensors) -> Result<Self> {
        let (mut blocks, mut covariances) = (Vec::new(), Vec::new());
        for (index, (shape, alphas)) in shapes.iter().zip(precisions_of_blocks(shapes, prior)?).enumerate() {
            match *shape {
                BlockShape::Matrix { outputs, inputs, .. } => {
                    let mut axis = |name: &str, size: usize| -> Result<Axis> {
                        let values = file.take(&format!("{index}.{name}.values"), &[size])?;
                        if let Some(entry) = values.iter().position(|value| !(*value >= 0.0 && value.is_finite())) {
                            return Err(Error::Posterior(PosteriorError::StoredFactor { entry }));
                        }
                        let vectors = file.take(&format!("{index}.{name}.vectors"), &[size, size])?;
                        let vectors = MatRef::from_column_major_slice(&vectors, size, size).to_owned();
                        Ok(Axis { values, vectors: Arc::new(vectors) })
                    };
                    let (outputs, inputs) = (axis("outputs", outputs)?, axis("inputs", inputs)?);
                    let block = Block::Matrix { outputs, inputs, alphas };
                    covariances.push(block.matrix_covariance()?);
                    blocks.push(block);
                }
                BlockShape::Dense { size } => {
                    let packed = file.take(&format!("{index}.cholesky"), &[packed_length(size)])?;
                    damaged(packed_diagonal(&packed, size))?;
                    covariances.push(BlockCovariance::Dense(Cholesky::from_factor(unpack_lower(&packed, size))));
                    blocks.push(Block::Dense { alphas });
                }
            }
        }
        Ok(Self { blocks, covariances, n_params: prior.n_params() })
    }

    /// Calls a function with each block and its part of two vectors: one for matrices, one for dense blocks.
    fn for_each_block(
        &self,
        from: &[f64],
        to: &mut [f64],
        on_matrix: impl Fn(&MatrixCovariance, &[f64], &mut [f64]),
        on_dense: impl Fn(&Cholesky, &[f64], &mut [f64]),
    ) {
        let (mut from, mut to) = (from, to);
        for covariance in &self.covariances {
            let (source, from_rest) = from.split_at(covariance.size());
            let (target, to_rest) = to.split_at_mut(covariance.size());
            match covariance {
                BlockCovariance::Matrix(matrix) => on_matrix(matrix, source, target),
                BlockCovariance::Dense(factor) => on_dense(factor, source, target),
                // No block of this structure is one of these.
                BlockCovariance::Diagonal(_) | BlockCovariance::Fixed(_) => {}
            }
            (from, to) = (from_rest, to_rest);
        }
    }
}

impl Block {
    /// The variances 1/(λᵢμⱼ + α) in the eigenbasis, for a matrix.
    fn matrix_covariance(&self) -> Result<BlockCovariance> {
        let Block::Matrix { outputs, inputs, alphas } = self else { return Ok(BlockCovariance::Fixed(0)) };
        let (o, i) = (outputs.values.len(), inputs.values.len());
        let alpha = alphas.first().copied().unwrap_or(0.0);
        let variances = Mat::from_fn(i, o, |j, k| 1.0 / (outputs.values[k] * inputs.values[j] + alpha));
        let bias =
            alphas.get(1).map(|alpha| outputs.values.iter().map(|value| 1.0 / (value + alpha)).collect::<Vec<_>>());
        let all = variances.col_iter().flat_map(|column| column.iter()).chain(bias.iter().flatten());
        let bad = all.into_iter().position(|value: &f64| !(*value > 0.0 && value.is_finite()));
        match bad {
            Some(pivot) => Err(Error::NotPositiveDefinite {
                matrix: "a block of the posterior precision",
                size: o * i,
                pivot,
                advice: ADVICE,
            }),
            None => {
                let bases = Some(Bases { outputs: outputs.vectors.clone(), inputs: inputs.vectors.clone() });
                Ok(BlockCovariance::Matrix(MatrixCovariance { bases, variances, bias }))
            }
        }
    }

    /// Calls `visit` with every eigenvalue of a matrix's curvature and its α.
    fn for_each_eigenvalue(&self, mut visit: impl FnMut(f64, f64)) {
        let Block::Matrix { outputs, inputs, alphas } = self else { return };
        for lambda in &outputs.values {
            if let Some(alpha) = alphas.first() {
                inputs.values.iter().for_each(|mu| visit(lambda * mu, *alpha));
            }
            if let Some(alpha) = alphas.get(1) {
                visit(*lambda, *alpha);
            }
        }
    }
}

/// target ← the rotation of source, multiplied by a function of the variances, and rotated back.
fn in_eigenbasis(covariance: &MatrixCovariance, factor: impl Fn(f64) -> f64, source: &[f64], target: &mut [f64]) {
    let (inputs, outputs) = (covariance.variances.nrows(), covariance.variances.ncols());
    let (weights, bias) = source.split_at(inputs * outputs);
    let rotated = covariance.rotate(MatRef::from_column_major_slice(weights, inputs, outputs));
    let rotated_bias = covariance.rotate_bias(bias);
    from_eigenbasis(covariance, factor, rotated, rotated_bias, target);
}

/// target ← numbers in the eigenbasis, multiplied by a function of the variances, and rotated back.
fn from_eigenbasis(
    covariance: &MatrixCovariance,
    factor: impl Fn(f64) -> f64,
    mut rotated: Mat<f64>,
    mut rotated_bias: Vec<f64>,
    target: &mut [f64],
) {
    let (inputs, outputs) = (rotated.nrows(), rotated.ncols());
    for (column, variances) in rotated.col_iter_mut().zip(covariance.variances.col_iter()) {
        let entries = column_slice_mut(column).iter_mut().zip(column_slice(variances));
        entries.for_each(|(value, variance)| *value *= factor(*variance));
    }
    let (weights, bias) = target.split_at_mut(inputs * outputs);
    covariance.rotate_back(rotated.as_ref(), MatMut::from_column_major_slice_mut(weights, inputs, outputs));
    if let (Some(variances), Some(bases)) = (&covariance.bias, &covariance.bases) {
        rotated_bias.iter_mut().zip(variances).for_each(|(value, variance)| *value *= factor(*variance));
        let vector = MatRef::from_column_major_slice(&rotated_bias, outputs, 1);
        let bias = MatMut::from_column_major_slice_mut(bias, outputs, 1);
        multiply(bias, Accum::Replace, bases.outputs.as_ref().as_ref(), vector);
    }
}

impl Precision for Kronecker {
    fn n_params(&self) -> usize {
        self.n_params
    }

    fn log_det_ratio(&self) -> f64 {
        let mut sum = 0.0;
        for (block, covariance) in self.blocks.iter().zip(&self.covariances) {
            block.for_each_eigenvalue(|value, alpha| sum += (value / alpha).ln_1p());
            if let (Block::Dense { alphas }, BlockCovariance::Dense(factor)) = (block, covariance) {
                sum += factor.log_det() - alphas.iter().map(|alpha| alpha.ln()).sum::<f64>();
            }
        }
        sum
    }

    fn effective_parameters(&self) -> f64 {
        let mut sum = 0.0;
        for (block, covariance) in self.blocks.iter().zip(&self.covariances) {
            block.for_each_eigenvalue(|value, alpha| sum += value / (value + alpha));
            if let (Block::Dense { alphas }, BlockCovariance::Dense(factor)) = (block, covariance) {
                let inverse = inverse_lower(factor);
                sum += alphas.iter().enumerate().map(|(d, alpha)| 1.0 - alpha * inverse[(d, d)]).sum::<f64>();
            }
        }
        sum
    }

    fn structure(&self) -> Structure {
        Structure::Kronecker
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        self.for_each_block(
            direction,
            product,
            |matrix, source, target| in_eigenbasis(matrix, |variance| 1.0 / variance, source, target),
            |factor, source, target| {
                // LLᵀu.
                let (lower, size) = (factor.lower(), source.len());
                let half: Vec<f64> = (0..size).map(|j| (j..size).map(|i| lower[(i, j)] * source[i]).sum()).collect();
                for (i, out) in target.iter_mut().enumerate() {
                    *out = (0..=i).map(|j| lower[(i, j)] * half[j]).sum();
                }
            },
        );
    }

    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        self.for_each_block(
            rhs,
            solution,
            |matrix, source, target| in_eigenbasis(matrix, |variance| variance, source, target),
            |factor, source, target| {
                target.copy_from_slice(source);
                factor.solve(target);
            },
        );
    }

    /// Q diag(w)^½ ε for a matrix, L⁻ᵀε for a dense block.
    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        let mut noise = vec![0.0; draw.len()];
        fill_standard_normal(generator, &mut noise);
        self.for_each_block(
            &noise,
            draw,
            |matrix, source, target| {
                let (inputs, outputs) = (matrix.variances.nrows(), matrix.variances.ncols());
                let (weights, bias) = source.split_at(inputs * outputs);
                let rotated = MatRef::from_column_major_slice(weights, inputs, outputs).to_owned();
                from_eigenbasis(matrix, f64::sqrt, rotated, bias.to_vec(), target);
            },
            |factor, source, target| {
                target.copy_from_slice(source);
                factor.solve_upper(target);
            },
        );
    }

    fn covariance(&self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        covariance.fill(0.0);
        let mut start = 0;
        for block in &self.covariances {
            let white = block.whiten(rows.get(.., start..start + block.size()));
            start += block.size();
            let target = faer::prelude::ReborrowMut::rb_mut(&mut covariance);
            multiply(target, Accum::Add, white.transpose(), white.as_ref());
        }
    }

    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        covariances.fill(0.0);
        rows.add_point_covariances(points, &self.covariances, covariances);
    }

    fn points_at_once(&self, n_outputs: usize, numbers_per_point: f64) -> usize {
        let width = |covariance: &BlockCovariance| match covariance {
            BlockCovariance::Matrix(matrix) => {
                (matrix.variances.nrows() + (n_outputs + 1) * matrix.variances.ncols()) as f64
            }
            other => (n_outputs * other.size()) as f64,
        };
        let widest = self.covariances.iter().map(width).fold(0.0, f64::max);
        (BLOCK_NUMBERS / (numbers_per_point + 2.0 * widest).max(1.0)) as usize
    }

    fn form(&self) -> Result<CovarianceForm> {
        Ok(CovarianceForm::Blocks(self.covariances.clone()))
    }

    fn size_in_words(&self) -> String {
        let sizes = self.blocks.iter().zip(&self.covariances).map(|(block, covariance)| match block {
            Block::Matrix { outputs, inputs, .. } => format!("{} ⊗ {}", outputs.values.len(), inputs.values.len()),
            Block::Dense { .. } => covariance.size().to_string(),
        });
        let sizes: Vec<String> = sizes.collect();
        match sizes.len() {
            0..=4 => format!("blocks of {}", sizes.join(", ")),
            count => format!("{count} blocks, the first of {}", sizes[0]),
        }
    }

    fn save(&self) -> Vec<SavedTensor> {
        let mut saved = Vec::new();
        for (index, (block, covariance)) in self.blocks.iter().zip(&self.covariances).enumerate() {
            if let Block::Matrix { outputs, inputs, .. } = block {
                for (name, axis) in [("outputs", outputs), ("inputs", inputs)] {
                    let size = axis.values.len();
                    let values = axis.values.clone();
                    saved.push(SavedTensor { name: format!("{index}.{name}.values"), shape: vec![size], values });
                    let values = axis.vectors.col_iter().flat_map(|column| column_slice(column).to_vec()).collect();
                    saved.push(SavedTensor {
                        name: format!("{index}.{name}.vectors"),
                        shape: vec![size, size],
                        values,
                    });
                }
            }
            if let BlockCovariance::Dense(factor) = covariance {
                let values = pack_lower(factor.lower());
                saved.push(SavedTensor { name: format!("{index}.cholesky"), shape: vec![values.len()], values });
            }
        }
        saved
    }
}
