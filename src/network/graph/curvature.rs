//! The curvature J̃ᵀJ̃ layer by layer, without the rows J̃.
//!
//! Where the rows of a layer are outer products δ ⊗ (h, 1) of its sensitivities and its inputs, the block of two layers
//! is Σₙ (Σₖ δₙₖ δ′ₙₖᵀ) ⊗ (hₙ h′ₙᵀ): a product QᵀS of two matrices with one row per point, whose columns are the products
//! of two inputs and of two sensitivities (summed over the K rows of a point). Within one layer both are symmetric, and
//! each pair is formed once. That takes N·I·I′·O·O′ multiply-adds for N points (a quarter of it within a layer), where
//! products of rows take K times as many (and half of them within a layer).

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef};

use rayon::prelude::*;

use super::rows::NodeRows;
use crate::linalg::{Number, column_slice, column_slice_mut, share, threads_are_free};
use crate::map::{Scratch, TileBuffers};

/// The shape of a layer whose rows are outer products δ ⊗ (h, 1): of W, `[outputs, inputs]` row by row, then b.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OuterProducts {
    /// The width of h.
    pub inputs: usize,
    /// The width of δ.
    pub outputs: usize,
    /// Whether b follows W.
    pub bias: bool,
}

impl OuterProducts {
    /// The width of (h, 1).
    fn factors(self) -> usize {
        self.inputs + usize::from(self.bias)
    }

    /// The place of the parameter that multiplies entry i of (h, 1) for output o.
    fn place(self, output: usize, factor: usize) -> usize {
        if factor < self.inputs { output * self.inputs + factor } else { self.outputs * self.inputs + output }
    }
}

/// Points in one product QᵀS, and columns of either factor: three buffers of half a megabyte to one.
const POINTS: usize = 512;
const COLUMNS: usize = 256;

/// The number of f64 values in those buffers for N points, one of each for every thread.
pub(super) fn buffer_size(points: usize) -> f64 {
    (rayon::current_num_threads() * (2 * points.min(POINTS) * COLUMNS + COLUMNS * COLUMNS)) as f64
}

/// Multiply-adds for the block of a layer with another, or (`None`) with itself, at N points with K rows each.
pub(super) fn work(of: OuterProducts, with: Option<OuterProducts>, points: usize, columns: usize) -> f64 {
    let triangle = |n: f64| 0.5 * n * (n + 1.0);
    let (factors, outputs) = (of.factors() as f64, of.outputs as f64);
    let (input_pairs, output_pairs) = match with {
        None => (triangle(factors), triangle(outputs)),
        Some(with) => (factors * with.factors() as f64, outputs * with.outputs as f64),
    };
    // Columns are formed anew for every tile of the other factor.
    let tiles = |pairs: f64| (pairs / COLUMNS as f64).ceil();
    let formed = input_pairs * tiles(output_pairs) + output_pairs * columns as f64 * tiles(input_pairs);
    let sums = input_pairs * output_pairs;
    points as f64 * (sums + FORMING * formed) + PLACING * sums
}

/// What forming a number costs, in multiply-adds of a blocked product.
const FORMING: f64 = 8.0;
/// What putting a sum into its place in the matrix costs, in the same unit, however many points it is over: the entries of
/// a tile lie scattered. Measured at D = 621 and 1,021; with it the rows' product, which writes its entries in order, is
/// taken for a hundred points of one output there, and the layers' for two hundred, as is faster.
const PLACING: f64 = 80.0;

/// Numbers that a curvature is summed in.
pub(super) trait Summed: Number {
    /// Buffers for tiles.
    fn tiles(scratch: &mut Scratch, count: usize, rows: usize, columns: usize) -> &mut [TileBuffers<Self>];
}

impl Summed for f64 {
    fn tiles(scratch: &mut Scratch, count: usize, rows: usize, columns: usize) -> &mut [TileBuffers<Self>] {
        scratch.tiles(count, rows, columns)
    }
}

impl Summed for f32 {
    fn tiles(scratch: &mut Scratch, count: usize, rows: usize, columns: usize) -> &mut [TileBuffers<Self>] {
        scratch.rounded_tiles(count, rows, columns)
    }
}

/// One layer's shape, and what its rows are computed from.
pub(super) type Factors<'a> = (OuterProducts, NodeRows<'a>);

/// The pairs (i, j) with i < left, j < right and, if both are of the same kind, i ≥ j; i runs fastest.
fn pairs(left: usize, right: usize, same: bool) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..right).flat_map(move |j| (if same { j } else { 0 }..left).map(move |i| (i, j)))
}

/// Cuts an iterator into parts of at most [`COLUMNS`].
fn tiles<I: Iterator + Clone>(all: I) -> impl Iterator<Item = std::iter::Take<I>> {
    let mut rest = Some(all);
    std::iter::from_fn(move || {
        let tile = rest.take()?;
        tile.clone().next()?;
        let mut after = tile.clone();
        rest = after.nth(COLUMNS - 1).map(|_| after);
        Some(tile.take(COLUMNS))
    })
}

/// Writes, or adds, the block of J̃ᵀJ̃ between two layers: rows are the parameters of `left`, columns those of `right`.
pub(super) fn cross_block<T: Summed>(
    left: Factors<'_>,
    right: Factors<'_>,
    accumulate: Accum,
    scratch: &mut Scratch,
    mut target: MatMut<'_, T>,
) {
    let put = putting(accumulate);
    block(left, right, false, scratch, |(o, p), (i, j), value| {
        put(&mut target[(left.0.place(o, i), right.0.place(p, j))], value);
    });
}

/// Writes, or adds, the lower triangle of the block of J̃ᵀJ̃ of one layer.
pub(super) fn own_block<T: Summed>(
    layer: Factors<'_>,
    accumulate: Accum,
    scratch: &mut Scratch,
    mut target: MatMut<'_, T>,
) {
    let (put, shape) = (putting(accumulate), layer.0);
    block(layer, layer, true, scratch, |(o, p), (i, j), value| {
        let mut at = |one: usize, other: usize| put(&mut target[(one.max(other), one.min(other))], value);
        at(shape.place(o, i), shape.place(p, j));
        // The block of two outputs is symmetric: h hᵀ is.
        if o != p && i != j {
            at(shape.place(o, j), shape.place(p, i));
        }
    });
}

fn putting<T: Number>(accumulate: Accum) -> impl Fn(&mut T, T) + Copy {
    let replace = accumulate == Accum::Replace;
    move |entry, value| *entry = if replace { value } else { *entry + value }
}

/// Calls `put` with every pair of outputs, every pair of inputs and the sum over points and rows of their products. Where
/// threads are free, each takes a tile; the sums are put in place one tile after another.
fn block<T: Summed>(
    left: Factors<'_>,
    right: Factors<'_>,
    same: bool,
    scratch: &mut Scratch,
    mut put: impl FnMut((usize, usize), (usize, usize), T),
) {
    let points = left.1.n_points();
    let input_pairs = pairs(left.0.factors(), right.0.factors(), same);
    let output_pairs = pairs(left.0.outputs, right.0.outputs, same);
    let tiles: Vec<_> = tiles(input_pairs)
        .flat_map(|inputs| tiles(output_pairs.clone()).map(move |outputs| (inputs.clone(), outputs)))
        .collect();
    let at_once = if threads_are_free() { tiles.len().min(rayon::current_num_threads()) } else { 1 };
    let buffers = T::tiles(scratch, at_once, points.min(POINTS), COLUMNS);
    for tiles in tiles.chunks(at_once.max(1)) {
        let sum = |(buffers, (inputs, outputs)): (&mut TileBuffers<T>, &(_, _))| {
            sum_tile((left.1, right.1), Clone::clone(inputs), Clone::clone(outputs), buffers);
        };
        match tiles.len() {
            1 => buffers.iter_mut().zip(tiles).for_each(sum),
            _ => share(|| buffers.par_iter_mut().zip(tiles).for_each(sum)),
        }
        for (TileBuffers { product, .. }, (input_tile, output_tile)) in buffers.iter().zip(tiles) {
            for (outputs, column) in output_tile.clone().zip(product.col_iter()) {
                for (inputs, value) in input_tile.clone().zip(column_slice(column)) {
                    put(outputs, inputs, *value);
                }
            }
        }
    }
}

/// The product QᵀS of the columns of these pairs, in the upper left corner of the buffers' product.
fn sum_tile<T: Number>(
    (left, right): (NodeRows<'_>, NodeRows<'_>),
    input_tile: impl Iterator<Item = (usize, usize)> + Clone,
    output_tile: impl Iterator<Item = (usize, usize)> + Clone,
    buffers: &mut TileBuffers<T>,
) {
    let (points, rows) = (left.n_points(), left.columns());
    let (n_inputs, n_outputs) = (input_tile.clone().count(), output_tile.clone().count());
    let mut sums = buffers.product.as_mut().get_mut(..n_inputs, ..n_outputs);
    sums.fill(T::default());
    let mut start = 0;
    while start < points {
        let count = POINTS.min(points - start);
        let mut inputs = buffers.left.as_mut().get_mut(..count, ..n_inputs);
        for ((i, j), column) in input_tile.clone().zip(inputs.rb_mut().col_iter_mut()) {
            let one = input_part(left, i, start, count);
            input_products(one, input_part(right, j, start, count), column_slice_mut(column));
        }
        let mut sensitivities = buffers.right.as_mut().get_mut(..count, ..n_outputs);
        for ((o, p), column) in output_tile.clone().zip(sensitivities.rb_mut().col_iter_mut()) {
            let column = column_slice_mut(column);
            let (one, other) = (left.sensitivities.col(o), right.sensitivities.col(p));
            let (one, other) = (column_slice(one), column_slice(other));
            for k in 0..rows {
                let range = k * points + start..k * points + start + count;
                if k == 0 {
                    T::products(&one[range.clone()], &other[range], column);
                } else {
                    T::add_products(&one[range.clone()], &other[range], column);
                }
            }
        }
        T::multiply(sums.rb_mut(), Accum::Add, inputs.rb().transpose(), sensitivities.rb());
        start += count;
    }
}

/// Entry `index` of (h, 1) at some of the points; none for the 1.
fn input_part<'a>(rows: NodeRows<'a>, index: usize, start: usize, count: usize) -> Option<&'a [f64]> {
    let inputs: MatRef<'a, f64> = rows.inputs;
    (index < inputs.ncols()).then(|| &column_slice(inputs.col(index))[start..start + count])
}

/// The products of two entries of (h, 1) at every point.
fn input_products<T: Number>(left: Option<&[f64]>, right: Option<&[f64]>, column: &mut [T]) {
    match (left, right) {
        (Some(left), Some(right)) => T::products(left, right, column),
        (Some(only), None) | (None, Some(only)) => {
            column.iter_mut().zip(only).for_each(|(entry, value)| *entry = T::of(*value));
        }
        (None, None) => column.fill(T::of(1.0)),
    }
}
