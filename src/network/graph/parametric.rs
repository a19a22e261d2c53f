//! What a kind of nodes with parameters provides; the compiler demands all of it.

use std::ops::Range;

use faer::{Accum, MatMut, MatRef};

use super::indices::Indices;
use super::rows::NodeRows;
use super::tape::Kept;
use crate::map::Scratch;

/// θ and a velocity.
#[derive(Clone, Copy)]
pub(super) struct Motion<'a> {
    pub(super) theta: &'a [f64],
    pub(super) velocity: Option<&'a [f64]>,
}

impl<'a> Motion<'a> {
    /// θ, which pulls back sensitivities (order 0), or the velocity, which gives the derivative of that (order 1).
    pub(super) fn of_order(self, order: usize) -> &'a [f64] {
        if order == 0 { self.theta } else { self.velocity.unwrap_or_default() }
    }
}

/// A node with parameters, at one input or none.
pub(super) trait Parametric {
    /// Where its parameters are in θ.
    fn places(&self) -> [Option<&Indices>; 2];

    /// Writes the Taylor coefficients of the outputs (one, two or three blocks of N rows). Where `leaves` is set, the second may
    /// be without what the sweep back adds.
    fn forward(
        &self,
        motion: Motion<'_>,
        points: usize,
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
        leaves: bool,
    );

    /// Writes or adds the sensitivities of the inputs (order 0), or what the velocity adds to their derivatives (order 1).
    fn pull_back(
        &self,
        motion: Motion<'_>,
        order: usize,
        deltas: MatRef<'_, f64>,
        accumulate: Accum,
        target: MatMut<'_, f64>,
        kept: &mut Kept,
    );

    /// Adds (or writes, where this is all there is) the rows of the parameters of a range of θ.
    fn add_rows(&self, rows: NodeRows<'_>, range: &Range<usize>, fresh: bool, target: MatMut<'_, f64>);

    /// Adds the products of the rows with a direction.
    fn times(&self, direction: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]);

    /// Adds Σₘ wₘ rowₘ.
    fn transpose_times(&self, weights: &[f64], rows: NodeRows<'_>, scratch: &mut Scratch, product: &mut [f64]);
}
