//! Dense output: the solution between the ends of the accepted steps.
//!
//! With x = (t − t_old) / h a step is either the polynomial y_old + h Σᵣ xʳ qᵣ (Dormand–Prince: order 4,
//! Bogacki–Shampine: the cubic Hermite polynomial, order 3; Adams: the same from its own derivatives) or the nested
//! form y_old + x (F₀ + (1 − x) (F₁ + x (F₂ + …))) (DOP853: order 7, from three further stages). Both meet the states
//! at the ends of the step; the path is continuous, and so is its derivative.
//!
//! Sources: Shampine 1986; Hairer, Nørsett & Wanner 1993, section II.6.

use super::stepper::{Stepper, weighted};
use super::tableau::{DenseRule, Integrator};

/// The accepted steps of a solve, each with its interpolant.
#[derive(Clone, Debug, PartialEq)]
pub struct DensePath {
    integrator: Integrator,
    dim: usize,
    /// The times at the ends of the steps; the first is the initial time.
    times: Vec<f64>,
    /// The states at these times, one after another.
    states: Vec<f64>,
    /// The interpolants, one after another, `rows` vectors each.
    rows: Vec<f64>,
}

impl DensePath {
    /// A path that consists of the point `y` at time `t`.
    pub(crate) fn new(integrator: Integrator, t: f64, y: &[f64]) -> Self {
        DensePath { integrator, dim: y.len(), times: vec![t], states: y.to_vec(), rows: Vec::new() }
    }

    /// Adds the step that has just been attempted and will be accepted, from `t` to `next`, and returns how many
    /// evaluations that took.
    pub(crate) fn record<R>(&mut self, stepper: &mut Stepper, rhs: &mut R, t: f64, next: f64) -> usize
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        let h = next - t;
        let evaluations = match stepper.tableau().dense {
            DenseRule::Powers(rows) => {
                for row in rows {
                    self.push_row(stepper, row, 1.0);
                }
                0
            }
            DenseRule::Nested { extra, rest } => {
                stepper.extend(rhs, t, h, extra);
                self.push_ends(stepper, h);
                for row in rest {
                    self.push_row(stepper, row, h);
                }
                extra.len()
            }
        };
        self.times.push(next);
        self.states.extend_from_slice(stepper.numbers(stepper.trial()));
        evaluations
    }

    /// Appends factor Σᵢ wᵢ kᵢ.
    fn push_row(&mut self, stepper: &Stepper, weights: &[(usize, f64)], factor: f64) {
        let end = self.rows.len() + self.dim;
        for index in 0..stepper.trial().len() {
            let sum = weighted(weights, stepper.stages(), index);
            self.rows.extend(sum.map(|sum| factor * sum));
        }
        self.rows.truncate(end);
    }

    /// Appends F₀ … F₂ of the nested form, which follow from the states and derivatives at the ends of the step.
    fn push_ends(&mut self, stepper: &Stepper, h: f64) {
        let old = stepper.numbers(stepper.state());
        let new = stepper.numbers(stepper.trial());
        let first = stepper.numbers(stepper.derivative());
        let last = stepper.numbers(&stepper.stages()[stepper.tableau().last()]);
        let change = || new.iter().zip(old).map(|(new, old)| new - old);
        self.rows.extend(change());
        self.rows.extend(change().zip(first).map(|(change, k)| h * k - change));
        self.rows.extend(
            change().zip(first.iter().zip(last)).map(|(change, (first, last))| 2.0 * change - h * (last + first)),
        );
    }

    /// Adds the start of a step that is interpolated by the cubic Hermite polynomial, for [`DensePath::close_hermite`]
    /// to complete.
    pub(crate) fn open_hermite(&mut self, state: &[f64], derivative: &[f64]) {
        let start = self.rows.len();
        self.rows.extend_from_slice(derivative);
        self.rows.extend_from_slice(state);
        self.rows.resize(start + 3 * self.dim, 0.0);
    }

    /// Ends the step at time `next`: with D = (y′ − y) / h the rows are `f`, 3 D − 2 f − f′ and f + f′ − 2 D.
    pub(crate) fn close_hermite(&mut self, next: f64, state: &[f64], derivative: &[f64]) {
        let h = next - self.times.last().copied().unwrap_or(next);
        let start = self.rows.len() - 3 * self.dim;
        let (first, rest) = self.rows[start..].split_at_mut(self.dim);
        let (second, third) = rest.split_at_mut(self.dim);
        for ((((first, second), third), new), last) in first.iter().zip(second).zip(third).zip(state).zip(derivative) {
            let mean = (new - *second) / h;
            *second = 3.0 * mean - 2.0 * first - last;
            *third = first + last - 2.0 * mean;
        }
        self.times.push(next);
        self.states.extend_from_slice(state);
    }

    /// Number of unknowns of the system.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The initial time and the times at the ends of the accepted steps, in the direction of integration.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// The state at `times()[index]`; empty if there is no such time.
    pub fn state(&self, index: usize) -> &[f64] {
        if index < self.times.len() { &self.states[index * self.dim..][..self.dim] } else { &[] }
    }

    /// Writes the state at time `t` to `out`, of length [`DensePath::dim`]; a shorter `out` gets the leading numbers,
    /// and the excess of a longer one is not touched.
    ///
    /// Outside the times of the path the first or last step is extrapolated, without any guarantee of accuracy. A path
    /// without a step is constant.
    pub fn at(&self, t: f64, out: &mut [f64]) {
        let steps = self.times.len() - 1;
        if steps == 0 || self.dim == 0 {
            for (out, y) in out.iter_mut().zip(&self.states) {
                *out = *y;
            }
            return;
        }
        let forward = self.times[steps] >= self.times[0];
        let inner = &self.times[1..steps];
        let step = inner.partition_point(|end| if forward { *end < t } else { *end > t });
        let h = self.times[step + 1] - self.times[step];
        let x = (t - self.times[step]) / h;
        let old = self.state(step);
        let size = self.rows.len() / steps;
        let rows = self.rows[step * size..][..size].chunks_exact(self.dim);
        let dim = self.dim.min(out.len());
        let out = &mut out[..dim];
        out.fill(0.0);
        match self.integrator.tableau().map(|tableau| &tableau.dense) {
            Some(DenseRule::Powers(_)) | None => {
                let mut power = x;
                for row in rows {
                    for (out, q) in out.iter_mut().zip(row) {
                        *out += power * q;
                    }
                    power *= x;
                }
                for (out, old) in out.iter_mut().zip(old) {
                    *out = h * *out + old;
                }
            }
            Some(DenseRule::Nested { .. }) => {
                for (index, row) in rows.enumerate().rev() {
                    let factor = if index % 2 == 0 { x } else { 1.0 - x };
                    for (out, f) in out.iter_mut().zip(row) {
                        *out = (*out + f) * factor;
                    }
                }
                for (out, old) in out.iter_mut().zip(old) {
                    *out += old;
                }
            }
        }
    }
}
