//! The rows J̃ = RᵀJ of a map after a pull-back, and every product with them. Rows are shared read-only among threads;
//! intermediate results of a product are in a [`Scratch`].

use faer::{Accum, Mat, MatMut};

use super::blocks::{
    BlockCovariance, BlockShape, BlockSums, add_dense_point_covariances, add_dense_squares, add_dense_sums, dense_rows,
};
use crate::linalg::{Number, column_slice_mut, dot, multiply, multiply_by_own_transpose};

/// Buffers for products with [`Rows`], one per thread; they grow as needed and are reused.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// One column, which faer aligns for vector loads.
    numbers: Mat<f64>,
    /// N × N products of layer inputs and of sensitivities; empty until a Gram matrix is first requested.
    input_products: Mat<f64>,
    sensitivity_products: Mat<f64>,
    /// A vector over all parameters, for rows that are made from others.
    room: Vec<f64>,
    /// Tiles of a curvature: two factors and their product; empty until one is first requested.
    tiles: Vec<TileBuffers<f64>>,
    rounded_tiles: Vec<TileBuffers<f32>>,
    /// The rows themselves, of all parameters or of two layers; empty until they are first requested.
    rows: [Mat<f64>; 2],
}

/// Two factors of one shape, and the square product of one with the other.
#[derive(Debug, Clone)]
pub struct TileBuffers<T> {
    /// The left factor, before it is transposed.
    pub left: Mat<T>,
    /// The right factor.
    pub right: Mat<T>,
    /// Their product.
    pub product: Mat<T>,
}

impl<T: Number> TileBuffers<T> {
    /// The first `count` of these buffers, of this shape and with arbitrary contents.
    fn shaped(all: &mut Vec<Self>, count: usize, rows: usize, columns: usize) -> &mut [Self] {
        if all.len() < count {
            all.resize_with(count, || Self { left: Mat::new(), right: Mat::new(), product: Mat::new() });
        }
        for Self { left, right, product } in &mut all[..count] {
            resize(left, rows, columns);
            resize(right, rows, columns);
            resize(product, columns, columns);
        }
        &mut all[..count]
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Scratch {
    /// Buffers with room for this many numbers; they grow when needed.
    pub fn new(numbers: usize) -> Self {
        Self {
            numbers: Mat::zeros(numbers, 1),
            input_products: Mat::new(),
            sensitivity_products: Mat::new(),
            room: Vec::new(),
            tiles: Vec::new(),
            rounded_tiles: Vec::new(),
            rows: [Mat::new(), Mat::new()],
        }
    }

    /// This many numbers, with arbitrary values.
    pub fn numbers(&mut self, count: usize) -> &mut [f64] {
        if self.numbers.nrows() < count {
            self.numbers = Mat::zeros(count, 1);
        }
        &mut column_slice_mut(self.numbers.col_mut(0))[..count]
    }

    /// A matrix with arbitrary contents.
    pub fn matrix(&mut self, rows: usize, columns: usize) -> MatMut<'_, f64> {
        MatMut::from_column_major_slice_mut(self.numbers(rows * columns), rows, columns)
    }

    /// A vector with arbitrary contents, lent until [`return_room`](Self::return_room).
    pub(crate) fn take_room(&mut self, count: usize) -> Vec<f64> {
        let mut room = std::mem::take(&mut self.room);
        room.resize(count, 0.0);
        room
    }

    /// Takes the vector back for the next time.
    pub(crate) fn return_room(&mut self, room: Vec<f64>) {
        self.room = room;
    }

    /// Two matrices with arbitrary contents.
    pub fn products(&mut self, rows: usize, columns: usize) -> (&mut Mat<f64>, &mut Mat<f64>) {
        for matrix in [&mut self.input_products, &mut self.sensitivity_products] {
            resize(matrix, rows, columns);
        }
        (&mut self.input_products, &mut self.sensitivity_products)
    }

    /// Buffers for `count` tiles at once, with arbitrary contents.
    pub fn tiles(&mut self, count: usize, rows: usize, columns: usize) -> &mut [TileBuffers<f64>] {
        TileBuffers::shaped(&mut self.tiles, count, rows, columns)
    }

    /// The same in f32.
    pub fn rounded_tiles(&mut self, count: usize, rows: usize, columns: usize) -> &mut [TileBuffers<f32>] {
        TileBuffers::shaped(&mut self.rounded_tiles, count, rows, columns)
    }

    /// A matrix for dense rows, with arbitrary contents.
    pub fn rows(&mut self, rows: usize, columns: usize) -> &mut Mat<f64> {
        resize(&mut self.rows[0], rows, columns);
        &mut self.rows[0]
    }

    /// Two matrices for the dense rows of two layers, with arbitrary contents.
    pub fn two_rows(&mut self, rows: usize, left: usize, right: usize) -> (&mut Mat<f64>, &mut Mat<f64>) {
        let [one, other] = &mut self.rows;
        resize(one, rows, left);
        resize(other, rows, right);
        (one, other)
    }
}

/// Gives a matrix this shape; its contents are kept only if the shape is already right.
pub(crate) fn resize<T: Number>(matrix: &mut Mat<T>, rows: usize, columns: usize) {
    if (matrix.nrows(), matrix.ncols()) != (rows, columns) {
        *matrix = Mat::zeros(rows, columns);
    }
}

/// The derivatives dJ̃(v) of the rows along a velocity, for seeds that do not move.
pub trait RowsAlong: Send + Sync {
    /// dJ̃(v) as a dense M × D matrix.
    fn dense(&self, rows: MatMut<'_, f64>);
    /// product ← dJ̃(v)ᵀ w: with one seed rₙ at each point and w = 1, the product of Σₙ rₙ∇²fₙ with the velocity.
    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch);
}

/// The M rows J̃ = RᵀJ, each a vector of D numbers.
pub trait Rows: Send + Sync {
    /// M.
    fn n_rows(&self) -> usize;
    /// D.
    fn n_params(&self) -> usize;
    /// The number of parameters in each group, as the map has them.
    fn group_sizes(&self) -> Vec<usize> {
        vec![self.n_params()]
    }
    /// product ← J̃ u.
    fn times(&self, direction: &[f64], product: &mut [f64], scratch: &mut Scratch);
    /// product ← J̃ᵀ w.
    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch);
    /// product ← J̃ᵀJ̃ u, with room for M numbers, whose values mean nothing afterwards: one product after the other, unless
    /// there is a way to read the rows once for both.
    fn normal_times(&self, direction: &[f64], image: &mut [f64], product: &mut [f64], scratch: &mut Scratch) {
        self.times(direction, image, scratch);
        self.transpose_times(image, product, scratch);
    }
    /// J̃ as a dense M × D matrix.
    fn dense(&self, rows: MatMut<'_, f64>);
    /// The columns of J̃ with these indices, in ascending order: M × their number.
    fn columns(&self, indices: &[usize], target: MatMut<'_, f64>) {
        let dense = dense_rows(self);
        for (mut column, index) in target.col_iter_mut().zip(indices) {
            column.copy_from(dense.col(*index));
        }
    }
    /// The lower triangle of J̃ V J̃ᵀ, with V the diagonal matrix of prior variances, one per group.
    fn gram(&self, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch);
    /// J̃ V J̃′ᵀ between these rows and those of the same model at other points. [`dense_cross_gram`] can be used where
    /// there is no better way.
    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch);
    /// The lower triangle of the curvature: target ← beta·target + J̃ᵀJ̃, with beta 0 ([`Accum::Replace`]) or 1
    /// ([`Accum::Add`]); through dense rows unless there is a better way.
    fn curvature(&self, accumulate: Accum, target: MatMut<'_, f64>, scratch: &mut Scratch) {
        dense_curvature(self.n_rows(), self.n_params(), |rows| self.dense(rows), accumulate, target, scratch);
    }
    /// The lower triangle of the curvature, summed in f32: for a preconditioner, which needs no more digits, in half the
    /// time. False, with nothing written, where there is no such way.
    fn rounded_curvature(&self, _target: MatMut<'_, f32>, _scratch: &mut Scratch) -> bool {
        false
    }
    /// The curvature Σₘ rowₘᵀrowₘ of every block of parameters, in the order of θ and in the shapes of
    /// [`Model::blocks`](super::Model::blocks): by default, one dense block per group. Points that count several times have
    /// `weights` (empty where none has), whose roots the rows have as factors already; a mean over points needs them besides.
    fn kronecker(&self, _weights: &[f64]) -> Vec<BlockSums> {
        let shapes: Vec<BlockShape> = self.group_sizes().into_iter().map(|size| BlockShape::Dense { size }).collect();
        let mut sums: Vec<BlockSums> = shapes.iter().map(|shape| BlockSums::zeros(*shape)).collect();
        add_dense_sums(dense_rows(self).as_ref(), &shapes, &mut sums);
        sums
    }
    /// Adds Σₘ rowₘ∘rowₘ, the diagonal of the curvature: D numbers.
    fn add_squares(&self, sums: &mut [f64]) {
        add_dense_squares(dense_rows(self).as_ref(), sums);
    }
    /// Adds the covariances J C Jᵀ of the rows at each of `points` points separately, one K × K block after another, for
    /// a covariance C made of blocks as [`kronecker`](Self::kronecker) has them.
    fn add_point_covariances(&self, points: usize, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        add_dense_point_covariances(dense_rows(self).as_ref(), points, blocks, covariances);
    }
    /// Lets a map recognise its own kind of rows in [`cross_gram`](Self::cross_gram).
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A single dense row: the gradient of a map with one output at one point.
#[derive(Debug, Clone)]
pub struct SingleRow {
    /// The row J̃.
    pub row: Vec<f64>,
    groups: Vec<usize>,
}

impl SingleRow {
    /// A row of zeros over groups of parameters of the given sizes.
    pub fn new(groups: Vec<usize>) -> Self {
        Self { row: vec![0.0; groups.iter().sum()], groups }
    }
}

impl Rows for SingleRow {
    fn n_rows(&self) -> usize {
        1
    }

    fn n_params(&self) -> usize {
        self.row.len()
    }

    fn group_sizes(&self) -> Vec<usize> {
        self.groups.clone()
    }

    fn times(&self, direction: &[f64], product: &mut [f64], _: &mut Scratch) {
        product[0] = dot(&self.row, direction);
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], _: &mut Scratch) {
        for (value, entry) in product.iter_mut().zip(&self.row) {
            *value = weights[0] * entry;
        }
    }

    fn dense(&self, mut rows: MatMut<'_, f64>) {
        for (d, value) in self.row.iter().enumerate() {
            rows[(0, d)] = *value;
        }
    }

    /// Σ_g V_g ‖row_g‖² over the groups of parameters.
    fn gram(&self, variances: &[f64], mut gram: MatMut<'_, f64>, _: &mut Scratch) {
        let (mut start, mut sum) = (0, 0.0);
        for (size, variance) in self.groups.iter().zip(variances) {
            let part = &self.row[start..start + size];
            sum += variance * dot(part, part);
            start += size;
        }
        gram[(0, 0)] = sum;
    }

    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, _: &mut Scratch) {
        dense_cross_gram(self, other, variances, gram);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// [`Rows`] for an evaluator of a map with one output at one point, whose row is in its field `single`.
macro_rules! single_row {
    ($evaluator:ty) => {
        impl $crate::map::Rows for $evaluator {
            fn n_rows(&self) -> usize {
                1
            }
            fn n_params(&self) -> usize {
                $crate::map::Rows::n_params(&self.single)
            }
            fn group_sizes(&self) -> Vec<usize> {
                $crate::map::Rows::group_sizes(&self.single)
            }
            fn times(&self, direction: &[f64], product: &mut [f64], scratch: &mut $crate::map::Scratch) {
                $crate::map::Rows::times(&self.single, direction, product, scratch);
            }
            fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut $crate::map::Scratch) {
                $crate::map::Rows::transpose_times(&self.single, weights, product, scratch);
            }
            fn dense(&self, rows: faer::MatMut<'_, f64>) {
                $crate::map::Rows::dense(&self.single, rows);
            }
            fn gram(&self, variances: &[f64], gram: faer::MatMut<'_, f64>, scratch: &mut $crate::map::Scratch) {
                $crate::map::Rows::gram(&self.single, variances, gram, scratch);
            }
            fn cross_gram(
                &self,
                other: &dyn $crate::map::Rows,
                variances: &[f64],
                gram: faer::MatMut<'_, f64>,
                scratch: &mut $crate::map::Scratch,
            ) {
                $crate::map::Rows::cross_gram(&self.single, other, variances, gram, scratch);
            }
            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        }
    };
}

pub(crate) use single_row;

/// The curvature of [`Rows::curvature`] through M × D dense rows, which `write` writes.
pub fn dense_curvature(
    n_rows: usize,
    n_params: usize,
    write: impl FnOnce(MatMut<'_, f64>),
    accumulate: Accum,
    target: MatMut<'_, f64>,
    scratch: &mut Scratch,
) {
    let rows = scratch.rows(n_rows, n_params);
    write(rows.as_mut());
    multiply_by_own_transpose(target, accumulate, rows.transpose());
}

/// J̃ V J̃′ᵀ through dense rows.
pub fn dense_cross_gram(rows: &dyn Rows, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>) {
    let mut left = Mat::zeros(rows.n_rows(), rows.n_params());
    let mut right = Mat::zeros(other.n_rows(), other.n_params());
    rows.dense(left.as_mut());
    other.dense(right.as_mut());
    let group_sizes = rows.group_sizes();
    let scales = group_sizes.iter().zip(variances).flat_map(|(size, value)| std::iter::repeat_n(*value, *size));
    for (column, scale) in left.col_iter_mut().zip(scales) {
        column.iter_mut().for_each(|entry| *entry *= scale);
    }
    multiply(gram, Accum::Replace, left.as_ref(), right.transpose());
}
