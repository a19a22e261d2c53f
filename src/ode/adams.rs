//! The Adams method with variable steps and orders, one evaluation per step.
//!
//! From the derivatives at the last points tₙ, tₙ₋₁, … a step of size `h` to t′ = tₙ + h is
//!
//! ```text
//! p  = y + h Σ_{j<k} gⱼ bⱼ dⱼ           predict at order k
//! f′ = f(t′, p)                         evaluate
//! e₀ = f′,  eⱼ₊₁ = eⱼ − bⱼ dⱼ           differences at t′
//! y′ = p + h gₖ eₖ                      correct at order k + 1
//! ```
//!
//! and ends there: the differences `e` become the `d` of the next step without a second evaluation at y′. dⱼ are
//! divided differences scaled such that they are backward differences where steps are equal, bⱼ rescales them to the
//! new step and gⱼ is the integral of their polynomial over it; both follow from the times alone. h |g_q − g_{q−1}|
//! |e_q| estimates the error at order `q`. A trial is accepted if that of the order in use is below 1 in the norm of
//! `control`.
//!
//! How order and step are chosen is in `course`. A second evaluation at y′ (the common way) makes certified geodesics
//! nearly twice as expensive.
//!
//! Sources: L. F. Shampine and M. K. Gordon, *Computer Solution of Ordinary Differential Equations*, Freeman 1975;
//! Hairer, Nørsett & Wanner 1993, sections III.5 (coefficients) and III.7 (order and step).

use std::ops::Range;

use super::DensePath;
use super::control::{Probe, Tolerance, first_step};
use super::course::{Coefficients, Course, Errors, GROWTH, MAX_ORDER, STORED};
use super::drive::{Present, Steps};
use super::stepper::{Block, LANES, Row, combine, either_way, evaluate, middle};
use crate::elementary::vectorized;
use crate::linalg::threads_are_free;

/// State, differences and times of one system.
#[derive(Clone, Debug)]
pub(crate) struct Adams {
    dim: usize,
    /// d₀, d₁, …, of which the first `count` are valid.
    differences: [Row; STORED],
    count: usize,
    /// The newest time first.
    times: [f64; STORED],
    state: Row,
    /// The predicted state of the trial step, and its derivative.
    predicted: Row,
    derivative: Row,
    /// The order `k` in use.
    order: usize,
    coefficients: Coefficients,
}

impl Adams {
    /// Storage for steps of a system with `dim` unknowns.
    pub(crate) fn new(dim: usize) -> Self {
        let row = vec![[0.0; LANES]; dim.div_ceil(LANES)];
        Adams {
            dim,
            differences: std::array::from_fn(|_| row.clone()),
            count: 1,
            times: [0.0; STORED],
            state: row.clone(),
            predicted: row.clone(),
            derivative: row,
            order: 1,
            coefficients: Coefficients::default(),
        }
    }

    /// Number of unknowns.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The numbers of a row without its padding.
    fn numbers<'a>(&self, row: &'a [Block]) -> &'a [f64] {
        &row.as_flattened()[..self.dim]
    }

    /// The current state.
    pub(crate) fn state(&self) -> &[f64] {
        self.numbers(&self.state)
    }

    /// The newest derivative.
    pub(crate) fn derivative(&self) -> &[f64] {
        self.numbers(&self.differences[0])
    }

    /// Sets the state to `y`, of length `dim`, and evaluates its derivative.
    pub(crate) fn start<R>(&mut self, rhs: &mut R, t: f64, y: &[f64])
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        self.state.as_flattened_mut()[..self.dim].copy_from_slice(y);
        evaluate(rhs, t, &self.state, &mut self.differences[0], self.dim);
        self.times = [t; STORED];
        self.count = 1;
        self.order = 1;
    }

    /// What the rule for the first step needs.
    fn probe(&mut self) -> Probe<'_> {
        Probe {
            dim: self.dim,
            state: &self.state,
            derivative: &self.differences[0],
            point: &mut self.predicted,
            after: &mut self.derivative,
        }
    }

    /// Predicts the state at `end` and evaluates there.
    fn attempt<R>(&mut self, rhs: &mut R, end: f64)
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        self.coefficients = Coefficients::new(&self.times, end, self.count);
        let Coefficients { rescale, weights, .. } = &self.coefficients;
        let mut products = [(0, 0.0); MAX_ORDER];
        for (j, product) in products.iter_mut().enumerate() {
            *product = (j, weights[j] * rescale[j]);
        }
        let h = end - self.times[0];
        combine(&products[..self.order], &self.differences, &self.state, h, &mut self.predicted);
        evaluate(rhs, end, &self.predicted, &mut self.derivative, self.dim);
    }

    /// The new differences e₀ … e_last that follow from the current ones.
    fn last_difference(&self) -> usize {
        self.count.min(self.order + 1)
    }

    /// The errors of the trial step of size `h`; not finite if the prediction or its derivative is not.
    fn errors(&self, h: f64, tolerance: Tolerance) -> Errors {
        let (order, last) = (self.order, self.last_difference());
        let squares = self.scaled_squares(0..self.predicted.len(), tolerance, threads_are_free());
        Errors::new(order, last, |q| {
            let norm = (squares[q + 2 - order].iter().sum::<f64>() / self.dim as f64).sqrt();
            norm * h.abs() * self.coefficients.error(q)
        })
    }

    /// Squares of the scaled e_q for q = order − 2 … order + 1, summed over a range of blocks: lane by lane, and part
    /// by part, so that the order does not depend on the threads that `shared` says may be used.
    fn scaled_squares(&self, range: Range<usize>, tolerance: Tolerance, shared: bool) -> [Block; 4] {
        if let Some(middle) = middle(range.len()) {
            let (left, right) = (range.start..range.start + middle, range.start + middle..range.end);
            let (mut left, right) = either_way(
                shared,
                || self.scaled_squares(left, tolerance, shared),
                || self.scaled_squares(right, tolerance, shared),
            );
            for (left, right) in left.as_flattened_mut().iter_mut().zip(right.as_flattened()) {
                *left += right;
            }
            return left;
        }
        let (order, last) = (self.order, self.last_difference());
        vectorized(
            #[inline(always)]
            || {
                let mut squares = [[0.0; LANES]; 4];
                for index in range {
                    let predicted = &self.predicted[index];
                    let mut scale = [0.0; LANES];
                    for ((scale, old), new) in scale.iter_mut().zip(&self.state[index]).zip(predicted) {
                        *scale = 1.0 / tolerance.between(*old, *new);
                    }
                    let mut difference = self.derivative[index];
                    for q in 1..=last {
                        let rescale = self.coefficients.rescale[q - 1];
                        for (e, d) in difference.iter_mut().zip(&self.differences[q - 1][index]) {
                            *e -= rescale * d;
                        }
                        if q + 2 >= order {
                            let terms = squares[q + 2 - order].iter_mut().zip(&difference).zip(&scale).zip(predicted);
                            for (((square, e), scale), predicted) in terms {
                                // The last term is zero unless the prediction is not finite.
                                let scaled = e * scale + 0.0 * predicted;
                                *square += scaled * scaled;
                            }
                        }
                    }
                }
                squares
            },
        )
    }

    /// Corrects the trial step to `end` and moves there.
    fn accept(&mut self, end: f64) {
        let (order, last) = (self.order, self.last_difference());
        let weight = (end - self.times[0]) * self.coefficients.weights[order];
        let trial = Trial { predicted: &self.predicted, derivative: &self.derivative };
        let correction = Correction { order, last, weight, rescale: self.coefficients.rescale };
        let differences = self.differences.each_mut().map(Vec::as_mut_slice);
        correction.apply(&mut self.state, trial, differences, threads_are_free());
        self.count = (last + 1).min(STORED);
        self.times.rotate_right(1);
        self.times[0] = end;
    }
}

/// The predicted state and its derivative, or a part of both.
#[derive(Clone, Copy)]
struct Trial<'a> {
    predicted: &'a [Block],
    derivative: &'a [Block],
}

impl Trial<'_> {
    fn split_at(&self, middle: usize) -> (Self, Self) {
        let (predicted, derivative) = (self.predicted.split_at(middle), self.derivative.split_at(middle));
        let part = |predicted, derivative| Self { predicted, derivative };
        (part(predicted.0, derivative.0), part(predicted.1, derivative.1))
    }
}

/// Computes the state and the differences at the end of a trial step.
struct Correction {
    order: usize,
    last: usize,
    weight: f64,
    rescale: [f64; STORED],
}

impl Correction {
    fn apply(&self, state: &mut [Block], trial: Trial<'_>, differences: [&mut [Block]; STORED], shared: bool) {
        if let Some(middle) = middle(state.len()) {
            let (state_left, state_right) = state.split_at_mut(middle);
            let (trial_left, trial_right) = trial.split_at(middle);
            let mut parts = differences.map(|row| row.split_at_mut(middle));
            let left = parts.each_mut().map(|part| std::mem::take(&mut part.0));
            let right = parts.map(|part| part.1);
            either_way(
                shared,
                || self.apply(state_left, trial_left, left, shared),
                || self.apply(state_right, trial_right, right, shared),
            );
            return;
        }
        vectorized(
            #[inline(always)]
            || {
                for (index, state) in state.iter_mut().enumerate() {
                    let mut carry = trial.derivative[index];
                    for q in 0..=self.last {
                        if q == self.order {
                            for ((state, predicted), e) in state.iter_mut().zip(&trial.predicted[index]).zip(&carry) {
                                *state = predicted + self.weight * e;
                            }
                        }
                        let rescale = self.rescale[q];
                        for (d, carry) in differences[q][index].iter_mut().zip(&mut carry) {
                            let old = *d;
                            *d = *carry;
                            *carry -= rescale * old;
                        }
                    }
                }
            },
        );
    }
}

/// Steps of an Adams method that has been started.
pub(crate) struct AdamsSteps<'a> {
    adams: &'a mut Adams,
    course: Course,
    /// The errors of the last trial.
    errors: Errors,
}

impl<'a> AdamsSteps<'a> {
    pub(crate) fn new(adams: &'a mut Adams) -> Self {
        AdamsSteps { adams, course: Course::new(GROWTH), errors: Errors::default() }
    }
}

impl Present for AdamsSteps<'_> {
    fn state(&mut self) -> &[f64] {
        self.adams.state()
    }
}

impl<R: FnMut(f64, &[f64], &mut [f64])> Steps<R> for AdamsSteps<'_> {
    fn cost(&self) -> usize {
        1
    }

    fn first_step(&mut self, rhs: &mut R, t: f64, direction: f64, length: f64, tolerance: Tolerance) -> f64 {
        first_step(self.adams.probe(), rhs, t, direction, length, 1, tolerance)
    }

    fn attempt(&mut self, rhs: &mut R, t: f64, next: f64, tolerance: Tolerance) -> f64 {
        self.adams.attempt(rhs, next);
        self.errors = self.adams.errors(next - t, tolerance);
        self.errors.here
    }

    fn reject(&mut self) -> f64 {
        self.course.rejected(self.errors, &mut self.adams.order)
    }

    fn accept(&mut self, _: &mut R, _: f64, next: f64, path: Option<&mut DensePath>) -> (f64, usize) {
        match path {
            None => self.adams.accept(next),
            Some(path) => {
                path.open_hermite(self.adams.state(), self.adams.derivative());
                self.adams.accept(next);
                path.close_hermite(next, self.adams.state(), self.adams.derivative());
            }
        }
        (self.course.accepted(self.errors, &mut self.adams.order), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uneven steps from 0, growing and shrinking by up to a factor of three.
    fn uneven(steps: usize) -> Vec<f64> {
        let mut times = vec![0.0];
        for step in 0..steps {
            times.push(times[step] + 0.05 * [1.0, 1.7, 0.6, 1.1, 2.0, 0.9][step % 6]);
        }
        times
    }

    /// At order k the increment of a step is exact for derivatives of degree k in t: the corrector has order k + 1.
    #[test]
    fn polynomials_are_integrated_exactly() {
        for order in 1..=MAX_ORDER {
            for degree in 0..=order {
                let power = degree as i32;
                let mut rhs = |t: f64, _: &[f64], out: &mut [f64]| out[0] = t.powi(power);
                let mut adams = Adams::new(1);
                let times = uneven(4 * MAX_ORDER);
                adams.start(&mut rhs, 0.0, &[0.0]);
                for (step, end) in times.iter().enumerate().skip(1) {
                    adams.order = order.min(step);
                    let before = adams.state()[0];
                    adams.attempt(&mut rhs, *end);
                    adams.accept(*end);
                    if adams.order == order && step > order + 1 {
                        let exact = (end.powi(power + 1) - times[step - 1].powi(power + 1)) / f64::from(power + 1);
                        let error = (adams.state()[0] - before - exact).abs();
                        assert!(error < 1e-12 * end.powi(power + 1), "order {order}, degree {degree}: {error:e}");
                    }
                }
            }
        }
    }

    /// Equal steps at a fixed order k on y′ = −y: the error falls as the power k + 1 of the step, the corrector's
    /// order.
    #[test]
    fn observed_orders_are_those_of_the_corrector() {
        for order in 1..=6 {
            let error = |steps: usize| {
                let h = 1.0 / steps as f64;
                let mut rhs = |_: f64, y: &[f64], out: &mut [f64]| out[0] = -y[0];
                let mut adams = Adams::new(1);
                adams.start(&mut rhs, 0.0, &[1.0]);
                // The history is exact: differences of exp(-t) at the points before 0.
                let derivative = |j: usize| -(h * j as f64).exp();
                let mut row: Vec<f64> = (0..STORED).map(derivative).collect();
                for j in 0..STORED {
                    adams.differences[j][0][0] = row[0];
                    row = row.windows(2).map(|pair| pair[0] - pair[1]).collect();
                    adams.times[j] = -h * j as f64;
                }
                (adams.count, adams.order) = (order + 1, order);
                for step in 1..=steps {
                    adams.attempt(&mut rhs, h * step as f64);
                    adams.accept(h * step as f64);
                }
                (adams.state()[0] - (-1f64).exp()).abs()
            };
            let observed = (error(20) / error(40)).log2();
            assert!((observed - (order as f64 + 1.0)).abs() < 0.35, "order {order}: {observed}");
        }
    }
}
