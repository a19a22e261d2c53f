//! What is linear in the rows J̃ = RᵀJ after both sweeps: the rows themselves, products with them, and their derivatives along a
//! velocity, each a sum over the nodes that have parameters.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use rayon::prelude::*;

use super::bundle::{Bundle, Uses};
use super::parametric::Parametric;
use super::rows::NodeRows;
use super::tape::Tapes;
use super::{Graph, Kind};
use crate::linalg::{add_scaled, share, threads_are_free};
use crate::map::Scratch;

/// The numbers that products of a few points read and write (512 kB), and of how many points these are a multiple.
const NEAR: usize = 1 << 16;
const FEWEST_TOGETHER: usize = 32;
/// Numbers in the partial sums that threads fill at the same time (8 MB).
const SHARES: usize = 1 << 20;

impl Graph {
    /// What the rows of a node are computed from.
    pub(super) fn node_rows<'a>(&self, node: usize, still: &'a [Mat<f64>], tapes: &'a Tapes) -> NodeRows<'a> {
        let n = tapes.points;
        let (inputs, inputs_along) = match self.nodes[node].inputs.first() {
            None => (MatRef::from_column_major_slice(&[], n, 0), None),
            Some(input) if self.moves[*input] => {
                let value = tapes.values[self.slots[*input]].as_ref();
                (value.get(..n, ..), Some(value.get(n..2 * n, ..)))
            }
            Some(input) => (still[*input].as_ref(), None),
        };
        NodeRows {
            inputs,
            inputs_along,
            window: (n, 0),
            sensitivities: tapes.sensitivities[node].as_ref(),
            along: tapes.along[node].as_ref(),
            with_bias: true,
        }
    }

    /// The nodes with parameters.
    fn parametric(&self) -> impl Iterator<Item = (usize, &dyn Parametric)> + '_ {
        let with = self.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_parametric());
        with.filter_map(|(index, node)| Some((index, node.kind.parametric()?)))
    }

    /// The rows of the parameters of a bundle: M × their number.
    pub(super) fn bundle_rows(&self, bundle: &Bundle, still: &[Mat<f64>], tapes: &Tapes, target: MatMut<'_, f64>) {
        self.write_rows(bundle, target, |node| std::iter::once(self.node_rows(node, still, tapes)));
    }

    /// Sums of rows over the nodes of a bundle.
    fn write_rows<'a, I: Iterator<Item = NodeRows<'a>>>(
        &self,
        bundle: &Bundle,
        mut target: MatMut<'_, f64>,
        of: impl Fn(usize) -> I,
    ) {
        let single = matches!(bundle.uses, Uses::Single { .. });
        if !single {
            target.fill(0.0);
        }
        for node in bundle.nodes() {
            let Some(own) = self.nodes[node].kind.parametric() else { continue };
            for (place, rows) in of(node).enumerate() {
                own.add_rows(rows, &bundle.range, single && place == 0, target.rb_mut());
            }
        }
    }

    /// The rows J̃ as a dense M × D matrix.
    pub fn rows(&self, still: &[Mat<f64>], tapes: &Tapes, mut target: MatMut<'_, f64>) {
        for bundle in &self.bundles {
            self.bundle_rows(bundle, still, tapes, target.rb_mut().get_mut(.., bundle.range.clone()));
        }
    }

    /// The derivatives of the rows along the velocity as a dense M × D matrix: δ̇h₀ᵀ + δh₁ᵀ.
    pub fn rows_along(&self, still: &[Mat<f64>], tapes: &Tapes, mut target: MatMut<'_, f64>) {
        for bundle in &self.bundles {
            let target = target.rb_mut().get_mut(.., bundle.range.clone());
            self.write_rows(bundle, target, |node| self.node_rows(node, still, tapes).terms_along());
        }
    }

    /// The columns of the rows with these indices, in ascending order.
    pub fn columns(&self, indices: &[usize], still: &[Mat<f64>], tapes: &Tapes, mut target: MatMut<'_, f64>) {
        let mut start = 0;
        for bundle in &self.bundles {
            let end = indices.partition_point(|index| *index < bundle.range.end);
            let (own, mut target) = (&indices[start..end], target.rb_mut().get_mut(.., start..end));
            start = end;
            // Whole runs of the indices are bundles of their own.
            if own.len() == bundle.range.len() {
                self.bundle_rows(bundle, still, tapes, target);
            } else if let (Uses::Single { .. }, false) = (&bundle.uses, own.is_empty()) {
                for (index, column) in own.iter().zip(0..) {
                    let single = Bundle { range: *index..index + 1, ..bundle.clone() };
                    self.bundle_rows(&single, still, tapes, target.rb_mut().get_mut(.., column..column + 1));
                }
            } else if !own.is_empty() {
                let mut all = Mat::zeros(target.nrows(), bundle.range.len());
                self.bundle_rows(bundle, still, tapes, all.as_mut());
                for (mut column, index) in target.col_iter_mut().zip(own) {
                    column.copy_from(all.col(index - bundle.range.start));
                }
            }
        }
    }

    /// Adds J̃ u.
    pub fn times(
        &self,
        direction: &[f64],
        still: &[Mat<f64>],
        tapes: &Tapes,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (node, own) in self.parametric() {
            own.times(direction, self.node_rows(node, still, tapes), scratch, product);
        }
    }

    /// Writes J̃ᵀ w.
    pub fn transpose_times(
        &self,
        weights: &[f64],
        still: &[Mat<f64>],
        tapes: &Tapes,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        product.fill(0.0);
        for (node, own) in self.parametric() {
            own.transpose_times(weights, self.node_rows(node, still, tapes), scratch, product);
        }
    }

    /// Writes Σₘ wₘ d(rowₘ)/dt.
    pub fn transpose_times_along(
        &self,
        weights: &[f64],
        still: &[Mat<f64>],
        tapes: &Tapes,
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        product.fill(0.0);
        for (node, own) in self.parametric() {
            for rows in self.node_rows(node, still, tapes).terms_along() {
                own.transpose_times(weights, rows, scratch, product);
            }
        }
    }

    /// Writes J̃ᵀJ̃ u, with room for M numbers, for a few points at a time, so that what the second product reads is still in
    /// the cache after the first. Which points these are depends on the widths alone; free threads take some of them each.
    pub fn normal_times(
        &self,
        direction: &[f64],
        still: &[Mat<f64>],
        tapes: &Tapes,
        scratch: &mut Scratch,
        (image, product): (&mut [f64], &mut [f64]),
    ) {
        let n = tapes.points.max(1);
        let columns = image.len() / n;
        let together = self.points_together(columns).unwrap_or(n).min(n);
        let of_points = |start: usize, scratch: &mut Scratch, image: &mut [f64], target: &mut [f64]| {
            self.normal_part(
                direction,
                start..(start + together).min(n),
                columns,
                (still, tapes),
                scratch,
                (image, target),
            );
        };
        let starts: Vec<usize> = (0..n).step_by(together).collect();
        let at_once = match threads_are_free() {
            true => (SHARES / product.len().max(1)).clamp(1, starts.len()),
            false => 1,
        };
        let mut shares = scratch.take_room(if starts.len() > 1 { at_once * product.len() } else { 0 });
        for (index, several) in starts.chunks(at_once).enumerate() {
            if let ([start], true) = (several, index == 0) {
                of_points(*start, scratch, image, product);
                continue;
            }
            let targets = shares.chunks_exact_mut(product.len());
            match several {
                [start] => targets.take(1).for_each(|target| of_points(*start, scratch, image, target)),
                several => {
                    let room = || (Scratch::default(), vec![0.0; columns * together]);
                    let fewest = several.len().div_ceil(2 * rayon::current_num_threads());
                    let targets: Vec<&mut [f64]> = targets.collect();
                    let parts = several.par_iter().zip(targets).with_min_len(fewest);
                    share(|| {
                        parts.for_each_init(room, |room, (start, target)| {
                            of_points(*start, &mut room.0, &mut room.1, target);
                        });
                    });
                }
            }
            // In the order of the points, whoever made them.
            for (at, share) in shares.chunks_exact(product.len()).take(several.len()).enumerate() {
                match index + at {
                    0 => product.copy_from_slice(share),
                    _ => add_scaled(1.0, share, product),
                }
            }
        }
        scratch.return_room(shares);
    }

    fn normal_part(
        &self,
        direction: &[f64],
        points: Range<usize>,
        columns: usize,
        (still, tapes): (&[Mat<f64>], &Tapes),
        scratch: &mut Scratch,
        (image, target): (&mut [f64], &mut [f64]),
    ) {
        let image = &mut image[..columns * points.len()];
        image.fill(0.0);
        let rows = |node: usize| self.node_rows(node, still, tapes).part(points.clone());
        self.parametric().for_each(|(node, own)| own.times(direction, rows(node), scratch, image));
        target.fill(0.0);
        self.parametric().for_each(|(node, own)| own.transpose_times(image, rows(node), scratch, target));
    }

    /// The points that [`normal_times`](Self::normal_times) takes at a time, with K rows each; all where so few would fit that
    /// products of matrices would become slow.
    fn points_together(&self, columns: usize) -> Option<usize> {
        let width = |node: usize| {
            let inputs: usize = self.nodes[node].inputs.iter().map(|input| self.widths[*input]).sum();
            inputs + (columns + 1) * self.widths[node]
        };
        let points = NEAR / self.parametric().map(|(node, _)| width(node)).sum::<usize>().max(1) / FEWEST_TOGETHER
            * FEWEST_TOGETHER;
        (points > 0).then_some(points)
    }

    /// Multiply-adds of [`times`](Self::times), or of [`transpose_times`](Self::transpose_times), at N points with K rows each.
    pub fn product_work(&self, points: usize, columns: usize) -> f64 {
        let work = |node: usize| match &self.nodes[node].kind {
            Kind::Affine(affine) => self.widths[node] as f64 * (affine.inputs + columns) as f64,
            _ => self.widths[node] as f64 * (1 + columns) as f64,
        };
        points as f64 * self.parametric().map(|(node, _)| work(node)).sum::<f64>()
    }

    /// The number of f64 values per point that the verbs take from a [`Scratch`], apart from those of Gram matrices.
    pub fn scratch_width(&self) -> usize {
        let width = |node: usize| match &self.nodes[node].kind {
            Kind::Affine(affine) => affine.room().max(affine.group_outputs()),
            _ => 1,
        };
        self.parametric().map(|(node, _)| width(node)).max().unwrap_or(0)
    }
}
