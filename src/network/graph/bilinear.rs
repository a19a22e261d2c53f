//! Sums of products of two values at every point: gates, products of matrices, attention, contractions.
//!
//! Entry o of the result is Σ a(l)·b(r) over an index with several axes, of which l, r and o are linear functions. Along a
//! velocity the coefficients are a₀b₀, a₁b₀ + a₀b₁ and a₂b₀ + a₁b₁ + a₀b₂; δ pulls back to δb₀ and δa₀, and its derivative to
//! δ̇b₀ + δb₁ and δ̇a₀ + δa₁.

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::operator::{Operator, Seen};
use crate::elementary::vectorized;
use crate::linalg::{column_slice, column_slice_mut};

/// Σ a∘b: the lengths of the axes of the index, and for each value the step along each axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bilinear {
    /// The lengths of the axes.
    pub sizes: Vec<usize>,
    /// The steps in the left value.
    pub left: Vec<usize>,
    /// The steps in the right value.
    pub right: Vec<usize>,
    /// The steps in the result.
    pub out: Vec<usize>,
}

impl Bilinear {
    /// Calls `visit` with l, r and o of every index.
    #[inline(always)]
    fn for_each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        if self.sizes.contains(&0) {
            return;
        }
        let mut index = vec![0; self.sizes.len()];
        let (mut l, mut r, mut o) = (0, 0, 0);
        loop {
            visit(l, r, o);
            let mut axis = self.sizes.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < self.sizes[axis] {
                    (l, r, o) = (l + self.left[axis], r + self.right[axis], o + self.out[axis]);
                    break;
                }
                let back = self.sizes[axis] - 1;
                (l, r, o) = (l - back * self.left[axis], r - back * self.right[axis], o - back * self.out[axis]);
                index[axis] = 0;
            }
        }
    }

    /// One more than the greatest place that is reached with these steps; `None` if it overflows.
    fn end(&self, steps: &[usize]) -> Option<usize> {
        let far =
            |sum: usize, (size, step): (&usize, &usize)| sum.checked_add(size.checked_sub(1)?.checked_mul(*step)?);
        self.sizes.iter().zip(steps).try_fold(0, far)?.checked_add(1)
    }

    /// Adds δ∘x to the target, where x are N rows of the other input.
    fn add_pulled_back(
        &self,
        which: usize,
        deltas: MatRef<'_, f64>,
        other: MatRef<'_, f64>,
        mut target: MatMut<'_, f64>,
    ) {
        let n = other.nrows().max(1);
        vectorized(
            #[inline(always)]
            || {
                self.for_each(|l, r, o| {
                    let (own, other_column) = if which == 0 { (l, r) } else { (r, l) };
                    let factor = column_slice(other.col(other_column));
                    let target = column_slice_mut(target.rb_mut().col_mut(own)).chunks_exact_mut(n);
                    for (target, deltas) in target.zip(column_slice(deltas.col(o)).chunks_exact(n)) {
                        add_each(deltas, factor, target);
                    }
                });
            },
        );
    }
}

/// y ← y + w∘x.
#[inline(always)]
fn add_each(w: &[f64], x: &[f64], y: &mut [f64]) {
    for ((y, w), x) in y.iter_mut().zip(w).zip(x) {
        *y += w * x;
    }
}

impl Operator for Bilinear {
    fn description(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        format!("products over {}", sizes.join("×"))
    }

    fn width(&self, inputs: &[usize]) -> Result<usize, String> {
        let axes = self.sizes.len();
        if [&self.left, &self.right, &self.out].iter().any(|steps| steps.len() != axes) {
            return Err("has steps for another number of axes".to_string());
        }
        let fits = |steps: &[usize], input: usize| {
            self.end(steps).is_some_and(|end| inputs.get(input).is_some_and(|w| end <= *w))
        };
        if !fits(&self.left, 0) || !fits(&self.right, 1) {
            return Err("has products beyond its inputs".to_string());
        }
        self.end(&self.out).ok_or_else(|| "has more outputs than can be counted".to_string())
    }

    fn forward(&self, points: usize, inputs: &[MatRef<'_, f64>], mut outputs: MatMut<'_, f64>) {
        let (left, right) = (inputs[0], inputs[1]);
        let n = points.max(1);
        let coefficients = outputs.nrows() / n;
        let (of_left, of_right) = (left.nrows() / n, right.nrows() / n);
        outputs.rb_mut().col_iter_mut().for_each(|column| column_slice_mut(column).fill(0.0));
        vectorized(
            #[inline(always)]
            || {
                self.for_each(|l, r, o| {
                    let (a, b) = (column_slice(left.col(l)), column_slice(right.col(r)));
                    let target = column_slice_mut(outputs.rb_mut().col_mut(o));
                    for i in 0..of_left {
                        for j in 0..of_right.min(coefficients - i) {
                            let target = &mut target[(i + j) * n..(i + j + 1) * n];
                            add_each(&a[i * n..(i + 1) * n], &b[j * n..(j + 1) * n], target);
                        }
                    }
                });
            },
        );
    }

    fn pull_back(&self, which: usize, order: usize, seen: &Seen<'_>, deltas: MatRef<'_, f64>, target: MatMut<'_, f64>) {
        if let Some(other) = seen.input(1 - which, order) {
            self.add_pulled_back(which, deltas, other, target);
        }
    }
}
