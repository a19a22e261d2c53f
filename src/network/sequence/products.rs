//! What follows from the tapes after both sweeps: the rows J̃ = RᵀJ, products with them, and their curvature, each a sum
//! over the layers that have parameters.

use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef};

use rayon::prelude::*;

use super::{Place, Sequence, n_points};
use crate::linalg::{add_scaled, multiply, share, threads_are_free};
use crate::map::{BlockCovariance, BlockShape, BlockSums, Scratch, dense_curvature};
use crate::network::curvature::{self, OuterProducts};
use crate::network::layer::{Layer, LayerRows, LayerVerbs, Verbs};
use crate::network::tape::Tape;

/// The numbers that products of a few points read and write (512 kB), and of how many points these are a multiple.
const NEAR: usize = 1 << 16;
const FEWEST_TOGETHER: usize = 32;
/// Numbers in the shares of points that threads take at the same time (8 MB).
const SHARES: usize = 1 << 20;

impl Sequence {
    /// The rows J̃ as a dense M × D matrix.
    pub fn rows(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.rows(rows, target.rb_mut().get_mut(.., place.params.clone()));
        }
    }

    /// The columns of the rows with these indices, in ascending order.
    pub fn columns(&self, indices: &[usize], inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        let mut start = 0;
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            let end = indices.partition_point(|index| *index < place.params.end);
            let own: Vec<usize> = indices[start..end].iter().map(|index| index - place.params.start).collect();
            if !own.is_empty() {
                layer.columns(rows, &own, target.rb_mut().get_mut(.., start..end));
            }
            start = end;
        }
    }

    /// Adds J̃ u.
    pub fn times(
        &self,
        direction: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.times(&direction[place.params.clone()], rows, scratch, product);
        }
    }

    /// Writes J̃ᵀ w.
    pub fn transpose_times(
        &self,
        weights: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.transpose_times(weights, rows, scratch, &mut product[place.params.clone()]);
        }
    }

    /// Writes J̃ᵀJ̃ u, with room for M numbers: for a few points after the other, so that what the second product reads is
    /// still near the processor after the first. Which points these are depends on the widths alone; where threads are free,
    /// they take some of them each.
    pub fn normal_times(
        &self,
        direction: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        (image, product): (&mut [f64], &mut [f64]),
    ) {
        let n = n_points(tapes).max(1);
        let columns = image.len() / n;
        let together = self.points_together(columns).unwrap_or(n).min(n);
        let of_points = |start: usize, scratch: &mut Scratch, image: &mut [f64], target: &mut [f64]| {
            let points = start..(start + together).min(n);
            let image = &mut image[..columns * points.len()];
            image.fill(0.0);
            for (layer, place, rows) in self.with_params(inputs, tapes) {
                layer.times(&direction[place.params.clone()], rows.part(points.clone()), scratch, image);
            }
            for (layer, place, rows) in self.with_params(inputs, tapes) {
                layer.transpose_times(image, rows.part(points.clone()), scratch, &mut target[place.params.clone()]);
            }
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

    /// The points that [`normal_times`](Self::normal_times) takes at a time, with K rows each; all where a layer does not
    /// take parts, or where so few would fit that products of matrices would become slow.
    fn points_together(&self, columns: usize) -> Option<usize> {
        let mut width = 0;
        for (layer, _) in self.layers_with_params() {
            let OuterProducts { inputs, outputs, .. } = layer.outer_products().filter(|_| layer.takes_parts())?;
            width += inputs + (columns + 1) * outputs;
        }
        let points = NEAR / width.max(1) / FEWEST_TOGETHER * FEWEST_TOGETHER;
        (points > 0).then_some(points)
    }

    /// Adds the lower triangle of J̃ V J̃ᵀ, with one variance per prior group.
    pub fn gram(
        &self,
        variances: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.gram(&variances[place.groups.clone()], rows, scratch, gram.rb_mut());
        }
    }

    /// The lower triangle of J̃ᵀJ̃, block by block of two layers: written, or added.
    pub fn curvature(
        &self,
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        accumulate: Accum,
        scratch: &mut Scratch,
        mut target: MatMut<'_, f64>,
    ) {
        for (index, (layer, place, rows)) in self.with_params(inputs, tapes).enumerate() {
            let own = layer.outer_products();
            let block = target.rb_mut().get_mut(place.params.clone(), place.params.clone());
            match own {
                Some(own) => curvature::own_block((own, rows), accumulate, scratch, block),
                None => {
                    let write = |target: MatMut<'_, f64>| layer.rows(rows, target);
                    let n_rows = rows.sensitivities.nrows();
                    dense_curvature(n_rows, place.params.len(), write, accumulate, block, scratch);
                }
            }
            for (earlier, before, others) in self.with_params(inputs, tapes).take(index) {
                let block = target.rb_mut().get_mut(place.params.clone(), before.params.clone());
                match (own, earlier.outer_products()) {
                    (Some(own), Some(other)) => {
                        curvature::cross_block((own, rows), (other, others), accumulate, scratch, block);
                    }
                    _ => {
                        let n_rows = rows.sensitivities.nrows();
                        let (left, right) = scratch.two_rows(n_rows, place.params.len(), before.params.len());
                        layer.rows(rows, left.as_mut());
                        earlier.rows(others, right.as_mut());
                        multiply(block, accumulate, left.transpose(), right.as_ref());
                    }
                }
            }
        }
    }

    /// Whether there is a [`rounded_curvature`](Self::rounded_curvature): where the rows of all layers are outer products.
    pub fn rounds_curvature(&self) -> bool {
        self.layers_with_params().all(|(layer, _)| layer.outer_products().is_some())
    }

    /// Writes the lower triangle of J̃ᵀJ̃, summed in f32. False, with nothing written, where there is no such way.
    pub fn rounded_curvature(
        &self,
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        mut target: MatMut<'_, f32>,
    ) -> bool {
        if !self.rounds_curvature() {
            return false;
        }
        let layers = || {
            self.with_params(inputs, tapes)
                .filter_map(|(layer, place, rows)| Some((layer.outer_products()?, place, rows)))
        };
        for (index, (own, place, rows)) in layers().enumerate() {
            let block = target.rb_mut().get_mut(place.params.clone(), place.params.clone());
            curvature::own_block((own, rows), Accum::Replace, scratch, block);
            for (other, before, others) in layers().take(index) {
                let block = target.rb_mut().get_mut(place.params.clone(), before.params.clone());
                curvature::cross_block((own, rows), (other, others), Accum::Replace, scratch, block);
            }
        }
        true
    }

    /// Adds J̃ V J̃′ᵀ, with the rows of the same layers at other points; the pairs are inputs and tapes.
    pub fn cross_gram(
        &self,
        variances: &[f64],
        rows: (MatRef<'_, f64>, &[Tape]),
        others: (MatRef<'_, f64>, &[Tape]),
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        let others = self.with_params(others.0, others.1);
        for ((layer, place, rows), (_, _, others)) in self.with_params(rows.0, rows.1).zip(others) {
            layer.cross_gram(&variances[place.groups.clone()], rows, others, scratch, gram.rb_mut());
        }
    }

    /// The blocks of all parameters, in the order of θ.
    pub fn blocks(&self) -> Vec<BlockShape> {
        let blocks = |layer: &Layer| match layer.verbs() {
            Verbs::Elementwise(_) => Vec::new(),
            Verbs::General(layer) => layer.blocks(),
        };
        self.layers.iter().flat_map(blocks).collect()
    }

    /// Adds the curvature of the blocks, in the order of [`blocks`](Self::blocks).
    pub fn kronecker(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut sums: &mut [BlockSums]) {
        for (layer, _, rows) in self.with_params(inputs, tapes) {
            let (own, rest) = sums.split_at_mut(layer.blocks().len().min(sums.len()));
            layer.kronecker(rows, own);
            sums = rest;
        }
    }

    /// Adds Σₘ rowₘ∘rowₘ.
    pub fn add_squares(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], sums: &mut [f64]) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.add_squares(rows, &mut sums[place.params.clone()]);
        }
    }

    /// Adds the covariances of the rows at each point, for a covariance in blocks as those of [`blocks`](Self::blocks).
    pub fn add_point_covariances(
        &self,
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        mut blocks: &[BlockCovariance],
        covariances: &mut [f64],
    ) {
        for (layer, _, rows) in self.with_params(inputs, tapes) {
            let (own, rest) = blocks.split_at(layer.blocks().len().min(blocks.len()));
            layer.add_point_covariances(rows, own, covariances);
            blocks = rest;
        }
    }

    /// The derivatives of the rows along the velocity as a dense M × D matrix.
    pub fn rows_along(&self, inputs: MatRef<'_, f64>, tapes: &[Tape], mut target: MatMut<'_, f64>) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.rows_along(rows, target.rb_mut().get_mut(.., place.params.clone()));
        }
    }

    /// Writes Σₘ wₘ d(rowₘ)/dt.
    pub fn transpose_times_along(
        &self,
        weights: &[f64],
        inputs: MatRef<'_, f64>,
        tapes: &[Tape],
        scratch: &mut Scratch,
        product: &mut [f64],
    ) {
        for (layer, place, rows) in self.with_params(inputs, tapes) {
            layer.transpose_times_along(weights, rows, scratch, &mut product[place.params.clone()]);
        }
    }

    /// The layers that have parameters, and what their rows are computed from.
    fn with_params<'a>(
        &'a self,
        inputs: MatRef<'a, f64>,
        tapes: &'a [Tape],
    ) -> impl Iterator<Item = (&'a dyn LayerVerbs, &'a Place, LayerRows<'a>)> {
        let n = n_points(tapes);
        self.layers.iter().zip(&self.places).zip(tapes).enumerate().filter_map(
            move |(index, ((layer, place), tape))| {
                let Verbs::General(layer) = layer.verbs() else { return None };
                let inputs = match index {
                    0 => inputs,
                    _ => tapes[self.places[index - 1].slot].values.as_ref(),
                };
                let rows = LayerRows {
                    coefficients: inputs,
                    inputs: inputs.get(..n, ..),
                    inputs_along: (inputs.nrows() > n).then(|| inputs.get(n..2 * n, ..)),
                    window: (n, 0),
                    sensitivities: tape.sensitivities.as_ref(),
                    sensitivities_along: tape.sensitivities_along.as_ref(),
                    kept: &tape.kept,
                };
                (!place.params.is_empty()).then_some((layer, place, rows))
            },
        )
    }
}
