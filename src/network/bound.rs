//! The network at fixed inputs, as a map of its parameters: outputs, jets, and products with the rows J̃ = RᵀJ.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut};
use ndarray::ArrayView2;

use super::Architecture;
use super::graph::{Graph, Swept, Tapes};
use crate::error::{DataError, Error, Result, check_size};
use crate::linalg::{add_scaled, affine, column_slice, column_slice_mut, columns_of, first_not_finite};
use crate::map::{
    BlockCovariance, BlockSums, Evaluate, Jet, Map, Rows, RowsAlong, Scratch, dense_cross_gram, dense_curvature,
};

/// A network at N fixed inputs, as a function of its parameters.
///
/// ```
/// use ndarray::array;
/// use std::sync::Arc;
/// use riemannian_laplace::internals::map::{Evaluator, Map};
/// use riemannian_laplace::internals::network::NetworkMap;
/// use riemannian_laplace::{Activation, Architecture};
///
/// // f(x) = 3x + 1 at x = 0 and x = 2.
/// let architecture = Architecture::new(&[1, 1], Activation::Identity)?;
/// let map: Arc<dyn Map> = Arc::new(NetworkMap::new(architecture, array![[0.0], [2.0]].view())?);
/// let mut outputs = [0.0; 2];
/// Evaluator::new(&map, 1).outputs(&[3.0, 1.0], &mut outputs);
/// assert_eq!(outputs, [1.0, 7.0]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NetworkMap {
    architecture: Architecture,
    inputs: Mat<f64>,
    /// The values that parameters do not move, one for each node.
    still: Vec<Mat<f64>>,
}

impl NetworkMap {
    /// The network of this shape at the rows of `inputs`.
    pub fn new(architecture: Architecture, inputs: ArrayView2<'_, f64>) -> Result<Self> {
        check_size("number of input columns", architecture.n_inputs(), inputs.ncols())?;
        if let Some((row, column)) = first_not_finite(inputs) {
            return Err(Error::NotFinite { what: "the input", row, column });
        }
        Self::of_columns(architecture, columns_of(inputs))
    }

    fn of_columns(architecture: Architecture, inputs: Mat<f64>) -> Result<Self> {
        drop(architecture.graph().reserve(inputs.nrows())?);
        let still = architecture.graph().still_values(inputs.as_ref())?;
        Ok(Self { architecture, inputs, still })
    }

    /// The shape of the network.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    fn graph(&self) -> &Graph {
        self.architecture.graph()
    }

    /// Multiply-adds of the curvature layer by layer, and through dense rows.
    fn curvature_works(&self, columns: usize) -> (f64, f64) {
        let (n, d) = (self.n_points(), self.n_params() as f64);
        (self.graph().curvature_work(n, columns), 0.5 * (n * columns) as f64 * d * d)
    }

    fn layers_are_cheaper(&self, columns: usize) -> bool {
        let (by_layers, by_rows) = self.curvature_works(columns);
        by_layers < by_rows
    }

    /// Tapes for K rows at each point.
    fn evaluator(self: Arc<Self>, columns: usize) -> NetworkEvaluator {
        let tapes = self.graph().tapes(self.inputs.nrows(), columns);
        let by_layers = self.layers_are_cheaper(columns);
        NetworkEvaluator { map: self, columns, tapes, by_layers, seconds: Vec::new() }
    }
}

impl Map for NetworkMap {
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

    fn evaluate(self: Arc<Self>, columns: usize) -> Box<dyn Evaluate> {
        Box::new(self.evaluator(columns))
    }

    fn evaluator_size(&self, columns: usize) -> f64 {
        let (n, graph) = (self.n_points(), self.graph());
        graph.tape_size(n, columns) + n as f64 * graph.scratch_width() as f64
    }

    fn gram_work(&self, columns: usize) -> f64 {
        self.graph().gram_work(self.n_points(), columns)
    }

    fn product_work(&self, columns: usize) -> f64 {
        self.graph().product_work(self.n_points(), columns)
    }

    fn curvature_work(&self, columns: usize) -> f64 {
        let (by_layers, by_rows) = self.curvature_works(columns);
        by_layers.min(by_rows)
    }

    fn curvature_size(&self, columns: usize) -> f64 {
        match self.layers_are_cheaper(columns) {
            true => self.graph().curvature_size(self.n_points(), columns),
            false => (self.n_points() * columns) as f64 * self.n_params() as f64,
        }
    }

    fn rounds_curvature(&self, columns: usize) -> bool {
        self.layers_are_cheaper(columns) && self.graph().rounds_curvature()
    }

    fn rows_along(
        self: Arc<Self>,
        theta: &[f64],
        velocity: &[f64],
        seeds: &[f64],
        columns: usize,
    ) -> Option<Box<dyn RowsAlong>> {
        let mut evaluator = self.evaluator(columns);
        let map = evaluator.map.clone();
        map.graph().forward_along(theta, velocity, &map.still, &mut evaluator.tapes, &mut |_| {});
        evaluator.write_seeds(seeds);
        map.graph().pull_back_along(theta, velocity, &map.still, &mut evaluator.tapes);
        Some(Box::new(NetworkRowsAlong(evaluator)))
    }

    fn at_points(&self, points: &[usize]) -> Result<Arc<dyn Map>> {
        let n_rows = self.n_points();
        if let Some(&row) = points.iter().find(|point| **point >= n_rows) {
            return Err(Error::Data(DataError::Row { row, n_rows }));
        }
        let inputs = Mat::from_fn(points.len(), self.inputs.ncols(), |row, i| self.inputs[(points[row], i)]);
        Ok(Arc::new(Self::of_columns(self.architecture.clone(), inputs)?))
    }
}

/// One thread's buffers for a network, and the operations that need them.
struct NetworkEvaluator {
    map: Arc<NetworkMap>,
    columns: usize,
    tapes: Tapes,
    /// Whether the curvature is computed layer by layer.
    by_layers: bool,
    /// What a sweep back adds to the second coefficients of the rows' outputs.
    seconds: Vec<f64>,
}

impl NetworkEvaluator {
    fn write_seeds(&mut self, seeds: &[f64]) {
        let m = self.n_rows();
        let target = self.map.graph().seeds_mut(&mut self.tapes);
        for (column, seed) in target.col_iter_mut().zip(seeds.chunks_exact(m.max(1))) {
            column_slice_mut(column).copy_from_slice(seed);
        }
    }

    /// The outputs and their derivatives after a sweep.
    fn read_jet(&self, jet: &mut Jet) {
        let n = self.map.n_points();
        for (p, column) in self.map.graph().outputs(&self.tapes).col_iter().enumerate() {
            let column = column_slice(column);
            let range = p * n..(p + 1) * n;
            if let Some(outputs) = jet.outputs.get_mut(range.clone()) {
                outputs.copy_from_slice(&column[..n]);
            }
            jet.first[range.clone()].copy_from_slice(&column[n..2 * n]);
            affine(0.0, 2.0, &column[2 * n..], &mut jet.second[range]);
        }
    }

    /// What both sweeps have left.
    fn swept(&self) -> Swept<'_> {
        Swept { graph: self.map.graph(), still: &self.map.still, tapes: &self.tapes }
    }
}

impl Evaluate for NetworkEvaluator {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        let (n, graph) = (self.map.n_points(), self.map.architecture.graph());
        graph.forward(theta, &self.map.still, &mut self.tapes);
        for (column, out) in graph.outputs(&self.tapes).col_iter().zip(outputs.chunks_exact_mut(n.max(1))) {
            out.copy_from_slice(&column_slice(column)[..n]);
        }
    }

    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        let Self { map, tapes, .. } = self;
        map.graph().jet(theta, velocity, None, &map.still, tapes);
        self.read_jet(jet);
    }

    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]) {
        self.write_seeds(seeds);
        let Self { map, tapes, .. } = self;
        map.graph().pull_back(theta, &map.still, tapes, None);
    }

    fn partial_jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        let Self { map, columns, tapes, .. } = self;
        map.graph().jet(theta, velocity, Some(*columns), &map.still, tapes);
        self.read_jet(jet);
    }

    fn pull_back_with_rest(&mut self, theta: &[f64], seeds: &[f64], whitened: &mut [f64]) {
        self.write_seeds(seeds);
        let Self { map, columns, tapes, seconds, .. } = self;
        seconds.clear();
        seconds.resize(whitened.len(), 0.0);
        map.graph().pull_back(theta, &map.still, tapes, Some((*columns, seconds)));
        add_scaled(2.0, seconds, whitened);
    }
}

impl Rows for NetworkEvaluator {
    fn n_rows(&self) -> usize {
        self.map.n_points() * self.columns
    }

    fn n_params(&self) -> usize {
        self.map.n_params()
    }

    fn group_sizes(&self) -> Vec<usize> {
        self.map.groups()
    }

    fn times(&self, direction: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        product.fill(0.0);
        self.map.graph().times(direction, &self.map.still, &self.tapes, scratch, product);
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        self.map.graph().transpose_times(weights, &self.map.still, &self.tapes, scratch, product);
    }

    fn normal_times(&self, direction: &[f64], image: &mut [f64], product: &mut [f64], scratch: &mut Scratch) {
        self.map.graph().normal_times(direction, &self.map.still, &self.tapes, scratch, (image, product));
    }

    fn dense(&self, rows: MatMut<'_, f64>) {
        self.map.graph().rows(&self.map.still, &self.tapes, rows);
    }

    fn columns(&self, indices: &[usize], target: MatMut<'_, f64>) {
        self.map.graph().columns(indices, &self.map.still, &self.tapes, target);
    }

    fn gram(&self, variances: &[f64], mut gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        gram.fill(0.0);
        self.swept().gram(variances, scratch, gram);
    }

    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], mut gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        match other.as_any().downcast_ref::<Self>() {
            Some(other) => {
                gram.fill(0.0);
                self.swept().cross_gram(variances, other.swept(), scratch, gram);
            }
            None => dense_cross_gram(self, other, variances, gram),
        }
    }

    fn curvature(&self, accumulate: Accum, target: MatMut<'_, f64>, scratch: &mut Scratch) {
        if self.by_layers {
            self.swept().curvature(accumulate, scratch, target);
        } else {
            let write = |rows: MatMut<'_, f64>| self.dense(rows);
            dense_curvature(self.n_rows(), self.n_params(), write, accumulate, target, scratch);
        }
    }

    fn rounded_curvature(&self, target: MatMut<'_, f32>, scratch: &mut Scratch) -> bool {
        self.by_layers && self.swept().rounded_curvature(scratch, target)
    }

    fn kronecker(&self, weights: &[f64]) -> Vec<BlockSums> {
        let mut sums: Vec<BlockSums> = self.map.graph().blocks().into_iter().map(BlockSums::zeros).collect();
        self.swept().kronecker(weights, &mut sums);
        sums
    }

    fn add_squares(&self, sums: &mut [f64]) {
        self.swept().add_squares(sums);
    }

    fn add_point_covariances(&self, _points: usize, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        self.swept().add_point_covariances(blocks, covariances);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The derivatives of a network's rows along a velocity.
struct NetworkRowsAlong(NetworkEvaluator);

impl RowsAlong for NetworkRowsAlong {
    fn dense(&self, rows: MatMut<'_, f64>) {
        let NetworkEvaluator { map, tapes, .. } = &self.0;
        map.graph().rows_along(&map.still, tapes, rows);
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        let NetworkEvaluator { map, tapes, .. } = &self.0;
        map.graph().transpose_times_along(weights, &map.still, tapes, scratch, product);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::map::frozen_rows;
    use crate::network::Activation;

    #[test]
    fn a_normal_product_is_one_with_the_rows_and_their_transpose_on_any_number_of_threads() -> Result<()> {
        let architecture = Architecture::new(&[3, 20, 10, 1], Activation::Tanh)?;
        let entry = |index: usize| (1.0 + index as f64).sin();
        let theta: Vec<f64> = (0..architecture.n_params()).map(entry).collect();
        // Several groups of points, the last of them smaller.
        let inputs = Array2::from_shape_fn((3001, 3), |(n, i)| entry(7 * n + i));
        let map: Arc<dyn Map> = Arc::new(NetworkMap::new(architecture, inputs.view())?);
        let rows = frozen_rows(&map, &theta, 1, |_| Ok((0..3001).map(entry).collect()))?;
        let direction: Vec<f64> = (0..theta.len()).map(|d| entry(3 * d)).collect();
        let times = || {
            let (mut image, mut product) = (vec![0.0; 3001], vec![f64::NAN; theta.len()]);
            rows.normal_times(&direction, &mut image, &mut product, &mut Scratch::default());
            product
        };
        let (mut image, mut expected) = (vec![0.0; 3001], vec![0.0; theta.len()]);
        rows.times(&direction, &mut image, &mut Scratch::default());
        rows.transpose_times(&image, &mut expected, &mut Scratch::default());
        let found = times();
        let size = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12 * size));
        // Inside a pool the threads are taken, and one makes all.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().map_err(std::io::Error::other);
        assert!(pool.is_ok_and(|pool| pool.install(times) == found));
        Ok(())
    }
}
