//! A map restricted to some of its parameters: θ is θ̂ with the selected entries replaced, a velocity is zero elsewhere,
//! and J̃ keeps the selected columns. Metrics and curvatures made from it are the restrictions of those of the whole map.

use std::ops::Range;
use std::sync::Arc;

use faer::{Accum, Mat, MatMut};

use super::{
    BlockCovariance, BlockShape, BlockSums, Evaluate, Jet, Map, Model, Rows, RowsAlong, Scratch,
    add_dense_point_covariances, dense_cross_gram,
};
use crate::error::Result;
use crate::linalg::multiply_by_own_transpose;

/// Which parameters of a model are selected, and what follows for its groups and blocks.
#[derive(Debug)]
pub(super) struct Restriction {
    /// In ascending order.
    indices: Vec<usize>,
    /// θ̂ of all parameters.
    all: Vec<f64>,
    /// The model's groups that have selected parameters: which, and how many.
    groups: Vec<(usize, usize)>,
    n_groups: usize,
    /// Whether every group is selected as a whole or not at all.
    whole: bool,
    /// The model's blocks, and the positions in `indices` that lie in each.
    blocks: Vec<(BlockShape, Range<usize>)>,
}

impl Restriction {
    /// Indices in ascending order.
    pub(super) fn new(model: &dyn Model, indices: Vec<usize>) -> Self {
        let sizes = model.group_sizes();
        let counts = positions(&indices, &sizes);
        let whole = counts.iter().zip(&sizes).all(|(range, size)| range.is_empty() || range.len() == *size);
        let counts = counts.iter().map(Range::len).enumerate().filter(|(_, count)| *count > 0);
        let groups = counts.collect();
        let shapes = model.blocks();
        let block_sizes: Vec<usize> = shapes.iter().map(|shape| shape.size()).collect();
        let blocks = shapes.into_iter().zip(positions(&indices, &block_sizes)).collect();
        Self { indices, all: model.parameters().to_vec(), groups, n_groups: sizes.len(), whole, blocks }
    }

    /// In ascending order.
    pub(super) fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Whether every group is selected as a whole or not at all.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The blocks of the selected parameters: what is left of a block that is cut is dense.
    pub(super) fn shapes(&self) -> Vec<BlockShape> {
        let shape = |(shape, range): &(BlockShape, Range<usize>)| match range.len() {
            0 => None,
            count if count == shape.size() => Some(*shape),
            size => Some(BlockShape::Dense { size }),
        };
        self.blocks.iter().filter_map(shape).collect()
    }

    /// vector ← the selected entries of all.
    fn gather(&self, all: &[f64], vector: &mut [f64]) {
        vector.iter_mut().zip(&self.indices).for_each(|(value, index)| *value = all[*index]);
    }

    /// all ← vector at the selected entries.
    fn scatter(&self, vector: &[f64], all: &mut [f64]) {
        vector.iter().zip(&self.indices).for_each(|(value, index)| all[*index] = *value);
    }

    /// One variance per group of the whole map: zero for those that are frozen.
    fn variances(&self, selected: &[f64]) -> Vec<f64> {
        let mut variances = vec![0.0; self.n_groups];
        self.groups.iter().zip(selected).for_each(|((group, _), variance)| variances[*group] = *variance);
        variances
    }
}

/// The positions in ascending `indices` that lie in each of consecutive ranges of these sizes.
fn positions(indices: &[usize], sizes: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let mut start = 0;
    let position = |size: &usize| {
        end += size;
        let next = indices.partition_point(|index| *index < end);
        std::mem::replace(&mut start, next)..next
    };
    sizes.iter().map(position).collect()
}

/// The map with the selected parameters alone; the map itself where all are selected.
pub(super) fn restricted(map: Arc<dyn Map>, restriction: &Arc<Restriction>) -> Arc<dyn Map> {
    if restriction.indices.len() == map.n_params() {
        return map;
    }
    Arc::new(RestrictedMap { map, restriction: restriction.clone() })
}

#[derive(Debug)]
struct RestrictedMap {
    map: Arc<dyn Map>,
    restriction: Arc<Restriction>,
}

impl RestrictedMap {
    fn all_parameters(&self, theta: &[f64]) -> Vec<f64> {
        let mut all = self.restriction.all.clone();
        self.restriction.scatter(theta, &mut all);
        all
    }
}

impl Map for RestrictedMap {
    fn n_params(&self) -> usize {
        self.restriction.indices.len()
    }

    fn n_points(&self) -> usize {
        self.map.n_points()
    }

    fn n_outputs(&self) -> usize {
        self.map.n_outputs()
    }

    fn groups(&self) -> Vec<usize> {
        self.restriction.groups.iter().map(|(_, count)| *count).collect()
    }

    fn evaluate(self: Arc<Self>, columns: usize) -> Box<dyn Evaluate> {
        let inner = self.map.clone().evaluate(columns);
        let (theta, velocity) = (self.restriction.all.clone(), vec![0.0; self.restriction.all.len()]);
        Box::new(RestrictedEvaluator { inner, theta, velocity, map: self })
    }

    fn evaluator_size(&self, columns: usize) -> f64 {
        let dense = if self.restriction.whole { 0 } else { self.n_points() * columns * self.n_params() };
        self.map.evaluator_size(columns) + (4 * self.restriction.all.len() + dense) as f64
    }

    fn gram_work(&self, columns: usize) -> f64 {
        if self.restriction.whole {
            return self.map.gram_work(columns);
        }
        let rows = (self.n_points() * columns) as f64;
        0.5 * rows * rows * self.n_params() as f64
    }

    fn rows_along(
        self: Arc<Self>,
        theta: &[f64],
        velocity: &[f64],
        seeds: &[f64],
        columns: usize,
    ) -> Option<Box<dyn RowsAlong>> {
        let mut moved = vec![0.0; self.restriction.all.len()];
        self.restriction.scatter(velocity, &mut moved);
        let inner = self.map.clone().rows_along(&self.all_parameters(theta), &moved, seeds, columns)?;
        let n_rows = self.n_points() * columns;
        Some(Box::new(RestrictedRowsAlong { inner, n_rows, restriction: self.restriction.clone() }))
    }

    fn at_points(&self, points: &[usize]) -> Result<Arc<dyn Map>> {
        Ok(Arc::new(Self { map: self.map.at_points(points)?, restriction: self.restriction.clone() }))
    }
}

struct RestrictedEvaluator {
    map: Arc<RestrictedMap>,
    inner: Box<dyn Evaluate>,
    /// All parameters, and a velocity that is zero where they are frozen.
    theta: Vec<f64>,
    velocity: Vec<f64>,
}

impl RestrictedEvaluator {
    fn restriction(&self) -> &Restriction {
        &self.map.restriction
    }

    /// The selected columns of J̃ at these positions.
    fn part(&self, positions: Range<usize>) -> Mat<f64> {
        let mut part = Mat::zeros(self.n_rows(), positions.len());
        self.inner.columns(&self.restriction().indices[positions], part.as_mut());
        part
    }

    /// The selected columns, each multiplied by a function of its group's variance.
    fn scaled(&self, variances: &[f64], factor: impl Fn(f64) -> f64) -> Mat<f64> {
        let mut dense = self.part(0..self.n_params());
        let counts = self.restriction().groups.iter().zip(variances);
        let scales = counts.flat_map(|((_, count), variance)| std::iter::repeat_n(factor(*variance), *count));
        for (column, scale) in dense.col_iter_mut().zip(scales) {
            column.iter_mut().for_each(|entry| *entry *= scale);
        }
        dense
    }
}

impl Evaluate for RestrictedEvaluator {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        self.map.restriction.scatter(theta, &mut self.theta);
        self.inner.outputs(&self.theta, outputs);
    }

    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.map.restriction.scatter(theta, &mut self.theta);
        self.map.restriction.scatter(velocity, &mut self.velocity);
        self.inner.jet(&self.theta, &self.velocity, jet);
    }

    fn pull_back(&mut self, theta: &[f64], seeds: &[f64]) {
        self.map.restriction.scatter(theta, &mut self.theta);
        self.inner.pull_back(&self.theta, seeds);
    }

    fn partial_jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.map.restriction.scatter(theta, &mut self.theta);
        self.map.restriction.scatter(velocity, &mut self.velocity);
        self.inner.partial_jet(&self.theta, &self.velocity, jet);
    }

    fn pull_back_with_rest(&mut self, theta: &[f64], seeds: &[f64], whitened: &mut [f64]) {
        self.map.restriction.scatter(theta, &mut self.theta);
        self.inner.pull_back_with_rest(&self.theta, seeds, whitened);
    }
}

impl Rows for RestrictedEvaluator {
    fn n_rows(&self) -> usize {
        self.inner.n_rows()
    }

    fn n_params(&self) -> usize {
        self.restriction().indices.len()
    }

    fn group_sizes(&self) -> Vec<usize> {
        self.map.groups()
    }

    fn times(&self, direction: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        let mut all = scratch.take_room(self.theta.len());
        all.fill(0.0);
        self.restriction().scatter(direction, &mut all);
        self.inner.times(&all, product, scratch);
        scratch.return_room(all);
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        let mut all = scratch.take_room(self.theta.len());
        self.inner.transpose_times(weights, &mut all, scratch);
        self.restriction().gather(&all, product);
        scratch.return_room(all);
    }

    fn normal_times(&self, direction: &[f64], image: &mut [f64], product: &mut [f64], scratch: &mut Scratch) {
        let count = self.theta.len();
        let mut all = scratch.take_room(2 * count);
        let (whole, result) = all.split_at_mut(count);
        whole.fill(0.0);
        self.restriction().scatter(direction, whole);
        self.inner.normal_times(whole, image, result, scratch);
        self.restriction().gather(result, product);
        scratch.return_room(all);
    }

    fn dense(&self, rows: MatMut<'_, f64>) {
        self.inner.columns(&self.restriction().indices, rows);
    }

    fn columns(&self, indices: &[usize], target: MatMut<'_, f64>) {
        let all: Vec<usize> = indices.iter().map(|index| self.restriction().indices[*index]).collect();
        self.inner.columns(&all, target);
    }

    fn gram(&self, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        if self.restriction().whole {
            return self.inner.gram(&self.restriction().variances(variances), gram, scratch);
        }
        let dense = self.scaled(variances, f64::sqrt);
        multiply_by_own_transpose(gram, Accum::Replace, dense.as_ref());
    }

    fn cross_gram(&self, other: &dyn Rows, variances: &[f64], gram: MatMut<'_, f64>, scratch: &mut Scratch) {
        match other.as_any().downcast_ref::<Self>() {
            Some(other) if self.restriction().whole => {
                let variances = self.restriction().variances(variances);
                self.inner.cross_gram(&*other.inner, &variances, gram, scratch);
            }
            _ => dense_cross_gram(self, other, variances, gram),
        }
    }

    /// The sums of blocks that are selected as a whole, and exact ones of those that are cut.
    fn kronecker(&self, weights: &[f64]) -> Vec<BlockSums> {
        let blocks = &self.restriction().blocks;
        let is_full = |(shape, range): &(BlockShape, Range<usize>)| range.len() == shape.size();
        let inner = if blocks.iter().any(is_full) { self.inner.kronecker(weights) } else { Vec::new() };
        let mut inner = inner.into_iter().map(Some).chain(std::iter::repeat(None));
        let mut sums = Vec::new();
        for (block, whole) in blocks.iter().zip(inner.by_ref()) {
            match whole {
                Some(whole) if is_full(block) => sums.push(whole),
                _ if block.1.is_empty() => {}
                _ => {
                    let part = self.part(block.1.clone());
                    let mut sum = Mat::zeros(part.ncols(), part.ncols());
                    multiply_by_own_transpose(sum.as_mut(), Accum::Replace, part.transpose());
                    sums.push(BlockSums::Dense(sum));
                }
            }
        }
        sums
    }

    fn add_squares(&self, sums: &mut [f64]) {
        let mut all = vec![0.0; self.theta.len()];
        self.inner.add_squares(&mut all);
        sums.iter_mut().zip(&self.restriction().indices).for_each(|(sum, index)| *sum += all[*index]);
    }

    fn add_point_covariances(&self, points: usize, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        let mut own = blocks.iter();
        let mut inner = Vec::with_capacity(self.restriction().blocks.len());
        for (shape, range) in &self.restriction().blocks {
            let frozen = BlockCovariance::Fixed(shape.size());
            let block = if range.is_empty() { None } else { own.next() };
            inner.push(match block {
                Some(block) if range.len() == shape.size() => block.clone(),
                Some(block) => {
                    let part = self.part(range.clone());
                    add_dense_point_covariances(part.as_ref(), points, std::slice::from_ref(block), covariances);
                    frozen
                }
                None => frozen,
            });
        }
        self.inner.add_point_covariances(points, &inner, covariances);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct RestrictedRowsAlong {
    inner: Box<dyn RowsAlong>,
    n_rows: usize,
    restriction: Arc<Restriction>,
}

impl RowsAlong for RestrictedRowsAlong {
    fn dense(&self, mut rows: MatMut<'_, f64>) {
        let mut all = Mat::zeros(self.n_rows, self.restriction.all.len());
        self.inner.dense(all.as_mut());
        for (target, index) in
            faer::prelude::ReborrowMut::rb_mut(&mut rows).col_iter_mut().zip(&self.restriction.indices)
        {
            let mut target = target;
            target.copy_from(all.col(*index));
        }
    }

    fn transpose_times(&self, weights: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        let mut all = scratch.take_room(self.restriction.all.len());
        self.inner.transpose_times(weights, &mut all, scratch);
        self.restriction.gather(&all, product);
        scratch.return_room(all);
    }
}
