//! p = eᶻ/Σeᶻ over an axis. The largest z is subtracted as a constant, which p does not see.
//!
//! With μ = p·z₁ and c = z₁ − μ, p₁ = p∘c and p₂ = p∘(z₂ + ½c² − p·(z₂ + ½c²)). δ pulls back to p∘(δ − p·δ), and along
//! the velocity to p₁∘(δ − p·δ) − p∘(p₁·δ) besides.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::operator::{Operator, Seen};
use crate::elementary::{at_least, exp};
use crate::linalg::{add_products, column_slice, column_slice_mut, scale_by};

/// eᶻ/Σeᶻ over the middle one of three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Softmax {
    /// The length of the axes before it.
    pub outer: usize,
    /// Its own length.
    pub length: usize,
    /// The length of the axes after it.
    pub inner: usize,
}

/// e^−746 is zero.
const LOWEST: f64 = -746.0;

impl Softmax {
    /// The width, if inputs are as wide.
    pub(super) fn width(&self, input: usize) -> Result<usize, String> {
        let width = self.outer.checked_mul(self.length).and_then(|width| width.checked_mul(self.inner));
        match width == Some(input) {
            true => Ok(input),
            false => Err(format!("is over {}×{}×{} values, but has {input}", self.outer, self.length, self.inner)),
        }
    }

    /// The columns that are normalised together.
    fn lines(self) -> impl Iterator<Item = impl Iterator<Item = usize> + Clone> {
        let Self { outer, length, inner } = self;
        let line = move |a: usize, b: usize| (0..length).map(move |j| (a * length + j) * inner + b);
        (0..outer).flat_map(move |a| (0..inner).map(move |b| line(a, b)))
    }
}

/// Σ w∘x over the columns of a line, at every point.
fn weighted<'a>(pairs: impl Iterator<Item = (&'a [f64], &'a [f64])>, sum: &mut [f64]) {
    sum.fill(0.0);
    pairs.for_each(|(w, x)| add_products(w, x, sum));
}

impl Operator for Softmax {
    fn description(&self) -> String {
        format!("softmax over {}", self.length)
    }

    fn width(&self, inputs: &[usize]) -> Result<usize, String> {
        Softmax::width(self, inputs.first().copied().unwrap_or(0))
    }

    fn forward(&self, points: usize, inputs: &[MatRef<'_, f64>], mut outputs: MatMut<'_, f64>) {
        let (input, rows) = (inputs[0], outputs.nrows());
        let (mut sum, mut largest) = (vec![0.0; points], vec![0.0; points]);
        let z = |column: usize, order: usize| &column_slice(input.col(column))[order * points..(order + 1) * points];
        for line in self.lines() {
            largest.fill(f64::NEG_INFINITY);
            for column in line.clone() {
                largest.iter_mut().zip(z(column, 0)).for_each(|(most, z)| *most = most.max(*z));
            }
            sum.fill(0.0);
            for column in line.clone() {
                let p = &mut column_slice_mut(outputs.rb_mut().col_mut(column))[..points];
                for (((p, z), most), sum) in p.iter_mut().zip(z(column, 0)).zip(&largest).zip(&mut sum) {
                    *p = exp(at_least(z - most, LOWEST));
                    *sum += *p;
                }
            }
            sum.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
            for column in line.clone() {
                scale_by(&sum, &mut column_slice_mut(outputs.rb_mut().col_mut(column))[..points]);
            }
            if rows == points || input.nrows() == points {
                line.for_each(|column| column_slice_mut(outputs.rb_mut().col_mut(column))[points..].fill(0.0));
                continue;
            }
            let p = |outputs: MatRef<'_, f64>, column: usize| column_slice(outputs.col(column))[..points].to_vec();
            let probabilities: Vec<Vec<f64>> = line.clone().map(|column| p(outputs.rb(), column)).collect();
            let pairs = || probabilities.iter().map(Vec::as_slice).zip(line.clone());
            weighted(pairs().map(|(p, column)| (p, z(column, 1))), &mut sum);
            // What the second coefficients would be without p in front: z₂ + ½c².
            let mut bends: Vec<Vec<f64>> = Vec::new();
            for (p, column) in pairs() {
                let target = column_slice_mut(outputs.rb_mut().col_mut(column));
                let first = &mut target[points..2 * points];
                for ((first, z), mean) in first.iter_mut().zip(z(column, 1)).zip(&sum) {
                    *first = z - mean;
                }
                if rows > 2 * points {
                    let bend = |(c, z): (&f64, &f64)| z + 0.5 * c * c;
                    bends.push(first.iter().zip(z(column, 2)).map(bend).collect());
                }
                scale_by(p, first);
            }
            if rows > 2 * points {
                weighted(probabilities.iter().map(Vec::as_slice).zip(bends.iter().map(Vec::as_slice)), &mut sum);
                for ((p, column), bend) in pairs().zip(&bends) {
                    let second = &mut column_slice_mut(outputs.rb_mut().col_mut(column))[2 * points..];
                    second.iter_mut().zip(bend).zip(&sum).for_each(|((second, bend), mean)| *second = bend - mean);
                    scale_by(p, second);
                }
            }
        }
    }

    fn pull_back(
        &self,
        _which: usize,
        order: usize,
        seen: &Seen<'_>,
        deltas: MatRef<'_, f64>,
        mut target: MatMut<'_, f64>,
    ) {
        let n = seen.points.max(1);
        let p = |column: usize, order: usize| &column_slice(seen.value.col(column))[order * n..(order + 1) * n];
        let mut means = [vec![0.0; n], vec![0.0; n]];
        for line in self.lines() {
            for k in 0..deltas.nrows() / n {
                let delta = |column: usize| &column_slice(deltas.col(column))[k * n..(k + 1) * n];
                for (of, mean) in means[..=order].iter_mut().enumerate() {
                    weighted(line.clone().map(|column| (p(column, of), delta(column))), mean);
                }
                for column in line.clone() {
                    let target = &mut column_slice_mut(target.rb_mut().col_mut(column))[k * n..(k + 1) * n];
                    let terms = p(column, order).iter().zip(delta(column)).zip(&means[0]);
                    for (target, ((p, delta), mean)) in target.iter_mut().zip(terms) {
                        *target += p * (delta - mean);
                    }
                    if order > 0 {
                        let terms = p(column, 0).iter().zip(&means[1]);
                        target.iter_mut().zip(terms).for_each(|(target, (p, moved))| *target -= p * moved);
                    }
                }
            }
        }
    }

    fn needs_value(&self) -> bool {
        true
    }
}
