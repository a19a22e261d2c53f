//! What is quadratic in the rows J̃ = RᵀJ: Gram matrices, the curvature, Kronecker sums, squares, covariances of points, each a
//! sum over the bundles of parameters.
//!
//! Rows that are sums of outer products over taps, Σ_t δ_t h_tᵀ, have the products Σ_ts (h_t·h′_s)(δ_t·δ′_s): with one tap N²
//! times the widths, and no row. With T taps there are T² such terms; where they cost more than the rows, the rows are formed,
//! one output at a time.

use std::ops::Range;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef};

use super::bundle::{Bundle, Uses};
use super::curvature::{self, OuterProducts};
use super::rows::NodeRows;
use super::tape::Tapes;
use super::{Graph, Kind};
use crate::linalg::{
    add_products, add_shifted_products, column_slice, column_slice_mut, mirror_lower, multiply,
    multiply_by_own_transpose, sum,
};
use crate::map::{
    BlockCovariance, BlockShape, BlockSums, Scratch, add_dense_point_covariances, add_dense_squares, dense_curvature,
};

/// Parameters whose rows are formed together for a Gram matrix: enough for a fast product, few enough for the cache.
const TOGETHER: usize = 256;

/// h_t and δ_t of a weight matrix at one tap: N × inputs and M × outputs.
struct Tap<'a> {
    inputs: Copied<'a>,
    deltas: Copied<'a>,
}

/// Columns of a value, or a copy of some.
enum Copied<'a> {
    View(MatRef<'a, f64>),
    Own(Mat<f64>),
}

impl Copied<'_> {
    fn get(&self) -> MatRef<'_, f64> {
        match self {
            Self::View(view) => *view,
            Self::Own(own) => own.as_ref(),
        }
    }

    /// The rows with number k at each of N points.
    fn block(&self, k: usize, n: usize) -> MatRef<'_, f64> {
        self.get().get(k * n..(k + 1) * n, ..)
    }
}

/// A graph after both sweeps.
#[derive(Clone, Copy)]
pub struct Swept<'a> {
    /// The nodes.
    pub graph: &'a Graph,
    /// The values that parameters do not move.
    pub still: &'a [Mat<f64>],
    /// The memory of both sweeps.
    pub tapes: &'a Tapes,
}

impl<'a> Swept<'a> {
    fn rows(self, node: usize) -> NodeRows<'a> {
        self.graph.node_rows(node, self.still, self.tapes)
    }

    /// M.
    fn n_rows(self) -> usize {
        self.tapes.sensitivities.iter().map(Mat::nrows).max().unwrap_or(0)
    }

    /// All taps of a weight matrix.
    fn taps(self, nodes: &[(usize, usize)]) -> Vec<Tap<'a>> {
        let mut taps = Vec::new();
        for (node, group) in nodes {
            let Kind::Affine(affine) = &self.graph.nodes[*node].kind else { continue };
            let (rows, outputs) = (self.rows(*node), affine.group_outputs());
            for tap in 0..affine.taps.count() {
                let place = (*group, tap);
                let copied = |source: MatRef<'a, f64>, width: usize, inputs: bool| match affine.taps.are_blocks() {
                    true => Copied::View(source.get(.., tap * width..(tap + 1) * width)),
                    false => {
                        let mut own = Mat::zeros(source.nrows(), width);
                        match inputs {
                            true => affine.taps.inputs(place, width, source, own.as_mut()),
                            false => affine.taps.outputs(place, width, source, own.as_mut()),
                        };
                        Copied::Own(own)
                    }
                };
                let inputs = copied(rows.inputs, affine.inputs, true);
                taps.push(Tap { inputs, deltas: copied(rows.sensitivities, outputs, false) });
            }
        }
        taps
    }

    /// The rows of a bundle as a matrix of their own.
    fn bundle_rows(self, bundle: &Bundle) -> Mat<f64> {
        let mut rows = Mat::zeros(self.n_rows(), bundle.range.len());
        self.graph.bundle_rows(bundle, self.still, self.tapes, rows.as_mut());
        rows
    }

    /// Adds the lower triangle of J̃ V J̃ᵀ, with one variance per group.
    pub fn gram(self, variances: &[f64], scratch: &mut Scratch, mut gram: MatMut<'_, f64>) {
        for bundle in &self.graph.bundles {
            let variance = variances[bundle.group];
            if variance == 0.0 {
                continue;
            }
            match self.graph.pairs(bundle, self.tapes.points, self.n_rows()) {
                Some((nodes, shift)) => {
                    let taps = self.taps(&nodes);
                    gram_of_pairs(&taps, &taps, true, variance, shift, scratch, gram.rb_mut());
                }
                None => self.for_rows(bundle, scratch, &mut |mut rows| {
                    scale(variance.sqrt(), rows.rb_mut());
                    multiply_by_own_transpose(gram.rb_mut(), Accum::Add, rows.rb());
                }),
            }
        }
    }

    /// Adds J̃ V J̃′ᵀ, with the rows of the same graph at other points.
    pub fn cross_gram(self, variances: &[f64], other: Swept<'_>, scratch: &mut Scratch, mut gram: MatMut<'_, f64>) {
        for bundle in &self.graph.bundles {
            let variance = variances[bundle.group];
            match self.graph.pairs(bundle, self.tapes.points, self.n_rows()) {
                Some((nodes, shift)) => {
                    let (taps, others) = (self.taps(&nodes), other.taps(&nodes));
                    gram_of_pairs(&taps, &others, false, variance, shift, scratch, gram.rb_mut());
                }
                None => {
                    let mut rows = self.bundle_rows(bundle);
                    scale(variance, rows.as_mut());
                    multiply(gram.rb_mut(), Accum::Add, rows.as_ref(), other.bundle_rows(bundle).transpose());
                }
            }
        }
    }

    /// Calls `visit` with the rows of a bundle, a part of the parameters at a time.
    fn for_rows(self, bundle: &Bundle, scratch: &mut Scratch, visit: &mut dyn FnMut(MatMut<'_, f64>)) {
        // Whole outputs of a weight matrix.
        let step = match &bundle.uses {
            Uses::Matrix { inputs, transposed: false, .. } => TOGETHER.next_multiple_of((*inputs).max(1)),
            _ => TOGETHER,
        };
        for start in bundle.range.clone().step_by(step) {
            let part = Bundle { range: start..(start + step).min(bundle.range.end), ..bundle.clone() };
            let rows = scratch.rows(self.n_rows(), part.range.len());
            self.graph.bundle_rows(&part, self.still, self.tapes, rows.as_mut());
            visit(rows.as_mut());
        }
    }

    /// The lower triangle of J̃ᵀJ̃, block by block of two bundles: written, or added.
    pub fn curvature(self, accumulate: Accum, scratch: &mut Scratch, mut target: MatMut<'_, f64>) {
        let (graph, n_rows) = (self.graph, self.n_rows());
        for (index, bundle) in graph.bundles.iter().enumerate() {
            let block = target.rb_mut().get_mut(bundle.range.clone(), bundle.range.clone());
            let own = self.outer_products(bundle);
            match own {
                Some(own) => curvature::own_block(own, accumulate, scratch, block),
                None => {
                    let write = |rows: MatMut<'_, f64>| graph.bundle_rows(bundle, self.still, self.tapes, rows);
                    dense_curvature(n_rows, bundle.range.len(), write, accumulate, block, scratch);
                }
            }
            for before in &graph.bundles[..index] {
                let block = target.rb_mut().get_mut(bundle.range.clone(), before.range.clone());
                match (own, self.outer_products(before)) {
                    (Some(own), Some(other)) => curvature::cross_block(own, other, accumulate, scratch, block),
                    _ => {
                        let (left, right) = scratch.two_rows(n_rows, bundle.range.len(), before.range.len());
                        graph.bundle_rows(bundle, self.still, self.tapes, left.as_mut());
                        graph.bundle_rows(before, self.still, self.tapes, right.as_mut());
                        multiply(block, accumulate, left.transpose(), right.as_ref());
                    }
                }
            }
        }
    }

    /// Writes the lower triangle of J̃ᵀJ̃, summed in f32. False, with nothing written, where rows are not outer products.
    pub fn rounded_curvature(self, scratch: &mut Scratch, mut target: MatMut<'_, f32>) -> bool {
        let factors = |bundle: &Bundle| Some((self.outer_products(bundle)?, bundle.range.clone()));
        let Some(all) = self.graph.bundles.iter().map(factors).collect::<Option<Vec<_>>>() else { return false };
        for (index, (own, range)) in all.iter().enumerate() {
            let block = target.rb_mut().get_mut(range.clone(), range.clone());
            curvature::own_block(*own, Accum::Replace, scratch, block);
            for (other, before) in &all[..index] {
                let block = target.rb_mut().get_mut(range.clone(), before.clone());
                curvature::cross_block(*own, *other, Accum::Replace, scratch, block);
            }
        }
        true
    }

    fn outer_products(self, bundle: &Bundle) -> Option<(OuterProducts, NodeRows<'a>)> {
        match &bundle.uses {
            Uses::Single { shape, node } => Some((*shape, self.rows(*node))),
            _ => None,
        }
    }

    /// Adds the curvature of the blocks, in the order of [`Graph::blocks`]: the exact block Σₘ rowₘᵀrowₘ of a dense one; Σ hhᵀ,
    /// their number and Σ δδᵀ of a matrix, over points and taps (KFAC-expand); points count as often as their weights say.
    pub fn kronecker(self, weights: &[f64], sums: &mut [BlockSums]) {
        let count = |points: usize| if weights.is_empty() { points as f64 } else { weights.iter().sum() };
        for (bundle, sums) in self.graph.bundles.iter().zip(sums) {
            match (&bundle.uses, sums) {
                (Uses::Single { node, .. }, BlockSums::Matrix(factors)) => {
                    let rows = self.rows(*node);
                    add_squared_inputs(rows.inputs, weights, &mut factors.inputs);
                    multiply_by_own_transpose(
                        factors.sensitivities.as_mut(),
                        Accum::Add,
                        rows.sensitivities.transpose(),
                    );
                    factors.count += count(rows.n_points());
                }
                (Uses::Matrix { nodes, transposed, .. }, BlockSums::Matrix(factors)) => {
                    for tap in self.taps(nodes) {
                        // The product of the two does not ask which of them are inputs.
                        let (inputs, deltas) = match transposed {
                            false => (&mut factors.inputs, &mut factors.sensitivities),
                            true => (&mut factors.sensitivities, &mut factors.inputs),
                        };
                        add_squared_inputs(tap.inputs.get(), weights, inputs);
                        multiply_by_own_transpose(deltas.as_mut(), Accum::Add, tap.deltas.get().transpose());
                        factors.count += count(self.tapes.points);
                    }
                }
                (_, BlockSums::Dense(sum)) => {
                    multiply_by_own_transpose(sum.as_mut(), Accum::Add, self.bundle_rows(bundle).transpose());
                }
                // Shapes and sums come from the same bundles.
                (Uses::Other { .. }, BlockSums::Matrix(factors)) => factors.count = f64::NAN,
            }
        }
    }

    /// Adds Σₘ rowₘ∘rowₘ.
    pub fn add_squares(self, sums: &mut [f64]) {
        for bundle in &self.graph.bundles {
            let own = &mut sums[bundle.range.clone()];
            match &bundle.uses {
                Uses::Single { shape, node } => add_outer_squares(*shape, self.rows(*node), own),
                _ => add_dense_squares(self.bundle_rows(bundle).as_ref(), own),
            }
        }
    }

    /// Adds the covariances of the rows at each point, a K × K block per point, for a covariance in blocks as those of
    /// [`Graph::blocks`].
    pub fn add_point_covariances(self, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        for (bundle, block) in self.graph.bundles.iter().zip(blocks) {
            match (&bundle.uses, block) {
                (_, BlockCovariance::Fixed(_)) => {}
                (Uses::Single { node, .. }, BlockCovariance::Matrix(matrix)) => {
                    let rows = self.rows(*node);
                    matrix.add_point_covariances(rows.inputs, rows.sensitivities, covariances);
                }
                _ => {
                    let (rows, block) = (self.bundle_rows(bundle), std::slice::from_ref(block));
                    add_dense_point_covariances(rows.as_ref(), self.tapes.points, block, covariances);
                }
            }
        }
    }
}

/// Adds Σₙ wₙ hₙhₙᵀ.
fn add_squared_inputs(inputs: MatRef<'_, f64>, weights: &[f64], sum: &mut Mat<f64>) {
    if weights.is_empty() {
        return multiply_by_own_transpose(sum.as_mut(), Accum::Add, inputs.transpose());
    }
    let weighted = Mat::from_fn(inputs.nrows(), inputs.ncols(), |n, i| weights[n].sqrt() * inputs[(n, i)]);
    multiply_by_own_transpose(sum.as_mut(), Accum::Add, weighted.transpose());
}

fn scale(factor: f64, matrix: MatMut<'_, f64>) {
    for column in matrix.col_iter_mut() {
        column_slice_mut(column).iter_mut().for_each(|value| *value *= factor);
    }
}

/// Σₙ (Σ_k δ∘δ)(h∘h)ᵀ: one product over the points, not over the rows.
fn add_outer_squares(shape: OuterProducts, rows: NodeRows<'_>, sums: &mut [f64]) {
    let n = rows.n_points();
    let inputs = Mat::from_fn(n, shape.inputs, |point, i| rows.inputs[(point, i)].powi(2));
    let mut deltas = Mat::zeros(n, shape.outputs);
    for (target, source) in deltas.col_iter_mut().zip(rows.sensitivities.col_iter()) {
        let target = column_slice_mut(target);
        for block in column_slice(source).chunks_exact(n.max(1)) {
            add_products(block, block, target);
        }
    }
    let (weights, biases) = sums.split_at_mut(shape.inputs * shape.outputs);
    let weights = MatMut::from_column_major_slice_mut(weights, shape.inputs, shape.outputs);
    multiply(weights, Accum::Add, inputs.transpose(), deltas.as_ref());
    for (bias, column) in biases.iter_mut().zip(deltas.col_iter()) {
        *bias += sum(column_slice(column));
    }
}

/// Adds v Σ_ts (h_t·h′_s + shift)(δ_t·δ′_s), of a set of rows with itself the lower triangle alone.
fn gram_of_pairs(
    taps: &[Tap<'_>],
    others: &[Tap<'_>],
    same: bool,
    variance: f64,
    shift: f64,
    scratch: &mut Scratch,
    mut gram: MatMut<'_, f64>,
) {
    for (t, left) in taps.iter().enumerate() {
        for (s, right) in others.iter().enumerate() {
            let (n, m) = (left.inputs.get().nrows(), right.inputs.get().nrows());
            let (columns, other_columns) = (gram.nrows() / n.max(1), gram.ncols() / m.max(1));
            let (inputs, deltas) = scratch.products(n, m);
            let own = same && t == s;
            match own {
                true => {
                    multiply_by_own_transpose(inputs.as_mut(), Accum::Replace, left.inputs.get());
                    if columns > 1 {
                        mirror_lower(inputs);
                    }
                }
                false => multiply(inputs.as_mut(), Accum::Replace, left.inputs.get(), right.inputs.get().transpose()),
            }
            for k in 0..columns {
                for j in 0..if same { k + 1 } else { other_columns } {
                    let (one, other) = (left.deltas.block(k, n), right.deltas.block(j, m));
                    match own && j == k {
                        true => multiply_by_own_transpose(deltas.as_mut(), Accum::Replace, one),
                        false => multiply(deltas.as_mut(), Accum::Replace, one, other.transpose()),
                    }
                    let block = gram.rb_mut().get_mut(k * n..(k + 1) * n, j * m..(j + 1) * m);
                    for (c, column) in block.col_iter_mut().enumerate() {
                        let start = if same && j == k { c } else { 0 };
                        let target = &mut column_slice_mut(column)[start..];
                        let inputs = &column_slice(inputs.col(c))[start..];
                        let deltas = &column_slice(deltas.col(c))[start..];
                        add_shifted_products(variance, shift, inputs, deltas, target);
                    }
                }
            }
        }
    }
}

impl Graph {
    /// The blocks of all parameters, in the order of θ.
    pub fn blocks(&self) -> Vec<BlockShape> {
        self.bundles.iter().map(Bundle::shape).collect()
    }

    /// How often a weight matrix is used at a point.
    fn n_taps(&self, nodes: &[(usize, usize)]) -> usize {
        let count = |node: usize| match &self.nodes[node].kind {
            Kind::Affine(affine) => affine.taps.count(),
            _ => 0,
        };
        nodes.iter().map(|(node, _)| count(*node)).sum()
    }

    /// The nodes of a bundle's weight matrix, and 1 if its bias belongs to it, where products of pairs of taps are the cheaper
    /// way to its Gram matrix at N points with M rows in all.
    fn pairs(&self, bundle: &Bundle, points: usize, rows: usize) -> Option<(Vec<(usize, usize)>, f64)> {
        match &bundle.uses {
            Uses::Single { shape, node } => Some((vec![(*node, 0)], if shape.bias { 1.0 } else { 0.0 })),
            Uses::Matrix { nodes, .. } => {
                let (by_pairs, by_rows) = self.gram_works(bundle, points, rows);
                (by_pairs <= by_rows).then(|| (nodes.clone(), 0.0))
            }
            Uses::Other { .. } => None,
        }
    }

    /// Multiply-adds of a bundle's Gram matrix by pairs of taps, and by rows.
    fn gram_works(&self, bundle: &Bundle, points: usize, rows: usize) -> (f64, f64) {
        let (n, m, size) = (points as f64, rows as f64, bundle.range.len() as f64);
        let pairs = |inputs: usize, outputs: usize| n * n * inputs as f64 + m * m * outputs as f64;
        match &bundle.uses {
            Uses::Single { shape, .. } => (0.5 * pairs(shape.inputs, shape.outputs), f64::INFINITY),
            Uses::Matrix { inputs, outputs, nodes, .. } => {
                let taps = self.n_taps(nodes) as f64;
                let halved = if taps > 1.0 { 1.0 } else { 0.5 };
                (halved * taps * taps * pairs(*inputs, *outputs), m * (0.5 * m + taps) * size)
            }
            Uses::Other { .. } => (f64::INFINITY, m * (0.5 * m + 1.0) * size),
        }
    }

    /// Multiply-adds of a Gram matrix at N points with K rows each.
    pub fn gram_work(&self, points: usize, columns: usize) -> f64 {
        let work = |bundle: &Bundle| {
            let (by_pairs, by_rows) = self.gram_works(bundle, points, points * columns);
            by_pairs.min(by_rows)
        };
        self.bundles.iter().map(work).sum()
    }

    /// Multiply-adds of the curvature bundle by bundle at N points with K rows each.
    pub fn curvature_work(&self, points: usize, columns: usize) -> f64 {
        let rows = (points * columns) as f64;
        let outer = |bundle: &Bundle| match &bundle.uses {
            Uses::Single { shape, .. } => Some(*shape),
            _ => None,
        };
        let size = |range: &Range<usize>| range.len() as f64;
        let mut work = 0.0;
        for (index, bundle) in self.bundles.iter().enumerate() {
            work += match outer(bundle) {
                Some(own) => curvature::work(own, None, points, columns),
                None => 0.5 * rows * size(&bundle.range).powi(2),
            };
            for before in &self.bundles[..index] {
                work += match (outer(bundle), outer(before)) {
                    (Some(own), Some(other)) => curvature::work(own, Some(other), points, columns),
                    _ => rows * size(&bundle.range) * size(&before.range),
                };
            }
        }
        work
    }

    /// The number of f64 values that a curvature takes from a [`Scratch`]: tiles and, where rows are not outer products, the
    /// rows of two bundles.
    pub fn curvature_size(&self, points: usize, columns: usize) -> f64 {
        let widest = self.bundles.iter().map(|bundle| bundle.range.len()).max().unwrap_or(0);
        let rows = if self.rounds_curvature() { 0.0 } else { 2.0 * (points * columns) as f64 * widest as f64 };
        curvature::buffer_size(points) + rows
    }

    /// Whether there is a curvature in f32: where all rows are outer products.
    pub fn rounds_curvature(&self) -> bool {
        self.bundles.iter().all(|bundle| matches!(bundle.uses, Uses::Single { .. }))
    }
}
