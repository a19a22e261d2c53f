//! The Adams method for second-order systems θ̈ = a(t, θ, θ̇) with very many unknowns, where reading and writing memory is
//! what a step costs besides its evaluation.
//!
//! It takes the steps of [`adams`](super::adams), with positions as second integrals: the history is that of
//! accelerations alone, half as long. Nothing of it is ever rewritten: the differences dⱼ and eⱼ are kept as combinations
//!
//! ```text
//! dⱼ = Σᵢ Dⱼᵢ aᵢ      of the last accelerations a₀, a₁, … (the newest first),
//! ```
//!
//! whose coefficients D follow the same recursion as the differences would. Everything a step needs is then a sum over
//! accelerations with known coefficients: from the prediction (P, Q) at the last point, its correction c e_k and the step
//! `h` that follows,
//!
//! ```text
//! P′ = P + h Q + Σᵢ xᵢ aᵢ,    Q′ = Q + Σᵢ wᵢ aᵢ,
//! ```
//!
//! and the corrected state itself is computed only when somebody looks at it. A step takes two passes over the history: one
//! predicts, the other judges. Errors are measured relative to predictions, which differ from states by less than the
//! tolerance.

mod passes;

use std::ops::ControlFlow;

use self::passes::{Judge, shift};
use super::control::{Probe, Tolerance, first_step};
use super::course::{Coefficients, Course, Errors, SMALL_GROWTH, STORED};
use super::drive::{Present, Steps, advance, finite};
use super::stepper::{Block, LANES, Row};
use super::{DensePath, GoOn, InvalidOptions, IvpInfo, IvpOptions, Status};
use crate::linalg::threads_are_free;

/// Accelerations in store: one per difference, and that of the trial.
const KEPT: usize = STORED + 1;

/// Coefficients of a sum over the last accelerations.
type Combination = [f64; KEPT];

/// Positions and velocities.
#[derive(Clone, Debug)]
struct Pair {
    theta: Row,
    velocity: Row,
}

impl Pair {
    fn new(dim: usize) -> Self {
        let row = vec![[0.0; LANES]; dim.div_ceil(LANES)];
        Self { theta: row.clone(), velocity: row }
    }
}

/// θ′ = θ + h v + Σ xᵢaᵢ and v′ = v + Σ wᵢaᵢ, relative to a prediction (θ, v).
#[derive(Clone, Copy, Debug, Default)]
struct Move {
    step: f64,
    theta: Combination,
    velocity: Combination,
}

impl Move {
    /// The accelerations that count.
    fn rows(&self) -> usize {
        let counts = |i: &usize| self.theta[*i] != 0.0 || self.velocity[*i] != 0.0;
        (0..KEPT).rev().find(counts).map_or(0, |last| last + 1)
    }
}

/// What is known at a point: the times and the combinations of the differences there, and the correction of the
/// prediction.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The newest time first.
    times: [f64; STORED],
    differences: [Combination; STORED],
    count: usize,
    /// Corrected state minus prediction.
    correction: Move,
}

impl Point {
    /// The prediction at `end` at this order, relative to the prediction here.
    fn predict(&self, end: f64, order: usize) -> (Coefficients, Move) {
        let coefficients = Coefficients::new(&self.times, end, self.count);
        let h = end - self.times[0];
        let mut next = Move { step: h, ..self.correction };
        for i in 0..KEPT {
            let (mut positions, mut velocities) = (0.0, 0.0);
            for (j, difference) in self.differences.iter().enumerate().take(order) {
                let difference = coefficients.rescale[j] * difference[i];
                positions += coefficients.position_weights[j] * difference;
                velocities += coefficients.weights[j] * difference;
            }
            next.theta[i] += h * (self.correction.velocity[i] + h * positions);
            next.velocity[i] += h * velocities;
        }
        (coefficients, next)
    }

    /// The differences e₀ … e_last at the end of a trial, whose acceleration comes first.
    fn differences_after(&self, coefficients: &Coefficients, last: usize) -> [Combination; STORED] {
        let mut after = [[0.0; KEPT]; STORED];
        after[0][0] = 1.0;
        for j in 0..last {
            after[j + 1] = after[j];
            for i in 0..KEPT - 1 {
                after[j + 1][i + 1] -= coefficients.rescale[j] * self.differences[j][i];
            }
        }
        after
    }

    /// The point at the end of a trial, if it is accepted.
    fn after(&self, coefficients: &Coefficients, end: f64, order: usize, last: usize) -> Self {
        let differences = self.differences_after(coefficients, last);
        let (h, mut correction) = (end - self.times[0], Move::default());
        for i in 0..KEPT {
            correction.theta[i] = h * h * coefficients.position_weights[order] * differences[order][i];
            correction.velocity[i] = h * coefficients.weights[order] * differences[order][i];
        }
        let mut times = self.times;
        times.rotate_right(1);
        times[0] = end;
        Self { times, differences, count: (last + 1).min(STORED), correction }
    }
}

/// What the error of a trial is measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorNorm {
    /// Errors relative to the tolerances, in the mean over all positions and velocities.
    Relative,
    /// The Euclidean norm of the error of the velocities, relative to this number. Where unknowns are very many, the mean
    /// over them is decided by those that happen to be near zero.
    Velocity(f64),
}

/// State and history of one second-order system; keep it for many solves.
#[derive(Clone, Debug)]
pub struct SecondOrder {
    dim: usize,
    norm: ErrorNorm,
    /// The accelerations, and where those of the last points are among them, the newest first; the last place is free.
    rows: [Row; KEPT],
    places: [usize; KEPT],
    point: Point,
    order: usize,
    /// The predictions at the last point and of the trial.
    here: Pair,
    trial: Pair,
    coefficients: Coefficients,
    state: Vec<f64>,
}

impl SecondOrder {
    /// Storage for a system with `dim` positions.
    pub fn new(dim: usize) -> Self {
        let pair = Pair::new(dim);
        let point =
            Point { times: [0.0; STORED], differences: [[0.0; KEPT]; STORED], count: 1, correction: Move::default() };
        Self {
            dim,
            norm: ErrorNorm::Relative,
            rows: std::array::from_fn(|_| pair.theta.clone()),
            places: std::array::from_fn(|place| place),
            point,
            order: 1,
            here: pair.clone(),
            trial: pair,
            coefficients: Coefficients::default(),
            state: vec![0.0; 2 * dim],
        }
    }

    /// The number of positions.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Measures errors by this norm from the next solve on.
    pub fn measure_by(&mut self, norm: ErrorNorm) {
        self.norm = norm;
    }

    /// Starts from (θ, v) and evaluates the acceleration there.
    fn start<R>(&mut self, rhs: &mut R, t: f64, state: &[f64])
    where
        R: FnMut(f64, &[f64], &[f64], &mut [f64]),
    {
        let (theta, velocity) = state.split_at(self.dim);
        self.here.theta.as_flattened_mut()[..self.dim].copy_from_slice(theta);
        self.here.velocity.as_flattened_mut()[..self.dim].copy_from_slice(velocity);
        rhs(t, theta, velocity, &mut self.rows[self.places[0]].as_flattened_mut()[..self.dim]);
        let mut differences = [[0.0; KEPT]; STORED];
        differences[0][0] = 1.0;
        self.point = Point { times: [t; STORED], differences, count: 1, correction: Move::default() };
        self.order = 1;
    }

    /// The newest acceleration.
    fn acceleration(&self) -> &[f64] {
        &self.rows[self.places[0]].as_flattened()[..self.dim]
    }

    /// The new differences e₀ … e_last that follow from the current ones.
    fn last_difference(&self) -> usize {
        self.point.count.min(self.order + 1)
    }

    /// Predicts the state at `end` and evaluates there.
    fn attempt<R>(&mut self, rhs: &mut R, end: f64)
    where
        R: FnMut(f64, &[f64], &[f64], &mut [f64]),
    {
        let (coefficients, step) = self.point.predict(end, self.order);
        self.coefficients = coefficients;
        let rows = newest(&self.rows, &self.places, step.rows());
        let Pair { theta, velocity } = &mut self.trial;
        shift(0, &step, &rows, &self.here, (theta, velocity), threads_are_free());
        let (theta, velocity) = (self.trial.theta.as_flattened(), self.trial.velocity.as_flattened());
        let free = &mut self.rows[self.places[KEPT - 1]];
        rhs(end, &theta[..self.dim], &velocity[..self.dim], &mut free.as_flattened_mut()[..self.dim]);
    }

    /// The errors of the trial step to `end`; not finite if the prediction or its acceleration is not.
    fn errors(&self, end: f64, tolerance: Tolerance) -> Errors {
        let (order, last) = (self.order, self.last_difference());
        let h = end - self.point.times[0];
        let after = self.point.differences_after(&self.coefficients, last);
        let mut differences = [[0.0; KEPT]; 4];
        for q in order.saturating_sub(2).max(1)..=last {
            differences[q + 2 - order] = after[q];
        }
        let judge = Judge {
            rows: std::iter::once(self.places[KEPT - 1])
                .chain(self.places)
                .take(last + 1)
                .map(|place| self.rows[place].as_slice())
                .collect(),
            differences,
            here: &self.here,
            trial: &self.trial,
            tolerance: (self.norm == ErrorNorm::Relative).then_some(tolerance),
        };
        let sums = judge.squares(0..self.trial.theta.len(), threads_are_free());
        let total = |block: &Block| block.iter().sum::<f64>();
        Errors::new(order, last, |q| {
            let (theta, velocity) = (total(&sums[0][q + 2 - order]), total(&sums[1][q + 2 - order]));
            let velocities = (h * self.coefficients.error(q)).powi(2) * velocity;
            match self.norm {
                ErrorNorm::Relative => {
                    let positions = (h * h * self.coefficients.position_error(q)).powi(2) * theta;
                    ((positions + velocities) / (2 * self.dim) as f64).sqrt()
                }
                ErrorNorm::Velocity(bound) => velocities.sqrt() / bound,
            }
        })
    }

    /// Moves to the end of the trial step.
    fn accept(&mut self, end: f64) {
        self.point = self.point.after(&self.coefficients, end, self.order, self.last_difference());
        self.places.rotate_right(1);
        std::mem::swap(&mut self.here, &mut self.trial);
    }

    /// The corrected state: θ, then v.
    fn corrected(&mut self) -> &[f64] {
        let rows = newest(&self.rows, &self.places, self.point.correction.rows());
        let mut corrected = Pair::new(self.dim);
        let Pair { theta, velocity } = &mut corrected;
        shift(0, &self.point.correction, &rows, &self.here, (theta, velocity), threads_are_free());
        let (theta, velocity) = self.state.split_at_mut(self.dim);
        theta.copy_from_slice(&corrected.theta.as_flattened()[..self.dim]);
        velocity.copy_from_slice(&corrected.velocity.as_flattened()[..self.dim]);
        &self.state
    }
}

/// The last accelerations, the newest first.
fn newest<'a>(rows: &'a [Row; KEPT], places: &[usize; KEPT], count: usize) -> Vec<&'a [Block]> {
    places[..count].iter().map(|place| rows[*place].as_slice()).collect()
}

/// Steps of a second-order system that has been started.
struct SecondOrderSteps<'a> {
    system: &'a mut SecondOrder,
    course: Course,
    errors: Errors,
}

impl Present for SecondOrderSteps<'_> {
    fn state(&mut self) -> &[f64] {
        self.system.corrected()
    }

    fn tighten(&mut self, divisor: f64) {
        if let ErrorNorm::Velocity(bound) = &mut self.system.norm {
            *bound /= divisor;
        }
    }
}

impl<R: FnMut(f64, &[f64], &[f64], &mut [f64])> Steps<R> for SecondOrderSteps<'_> {
    fn cost(&self) -> usize {
        1
    }

    /// By the rule for first-order systems, of positions and velocities together.
    fn first_step(&mut self, rhs: &mut R, t: f64, direction: f64, length: f64, tolerance: Tolerance) -> f64 {
        let dim = self.system.dim;
        let row = |first: &[f64], second: &[f64]| {
            let mut row = vec![[0.0; LANES]; (2 * dim).div_ceil(LANES)];
            row.as_flattened_mut()[..dim].copy_from_slice(first);
            row.as_flattened_mut()[dim..2 * dim].copy_from_slice(second);
            row
        };
        let (theta, velocity) = (self.system.here.theta.as_flattened(), self.system.here.velocity.as_flattened());
        let (theta, velocity) = (&theta[..dim], &velocity[..dim]);
        let (state, derivative) = (row(theta, velocity), row(velocity, self.system.acceleration()));
        let (mut point, mut after) = (row(theta, velocity), row(theta, velocity));
        let probe =
            Probe { dim: 2 * dim, state: &state, derivative: &derivative, point: &mut point, after: &mut after };
        let mut both = |t: f64, state: &[f64], derivative: &mut [f64]| {
            let ((theta, velocity), (first, second)) = (state.split_at(dim), derivative.split_at_mut(dim));
            first.copy_from_slice(velocity);
            rhs(t, theta, velocity, second);
        };
        first_step(probe, &mut both, t, direction, length, 1, tolerance)
    }

    fn attempt(&mut self, rhs: &mut R, _: f64, next: f64, tolerance: Tolerance) -> f64 {
        self.system.attempt(rhs, next);
        self.errors = self.system.errors(next, tolerance);
        self.errors.here
    }

    fn reject(&mut self) -> f64 {
        self.course.rejected(self.errors, &mut self.system.order)
    }

    fn accept(&mut self, _: &mut R, _: f64, next: f64, _: Option<&mut DensePath>) -> (f64, usize) {
        self.system.accept(next);
        (self.course.accepted(self.errors, &mut self.system.order), 0)
    }
}

/// Integrates θ̈ = acceleration(t, θ, θ̇) from `t0` to `t1` by the Adams method, with `state` = (θ, θ̇) at `t0` before and at
/// [`IvpInfo::t`] after, and asks after every trial step except the last whether to continue.
///
/// ```
/// use std::ops::ControlFlow;
/// use riemannian_laplace::internals::ode::{Integrator, IvpOptions, SecondOrder, Status, Trial, solve_second_order};
///
/// let options = IvpOptions { integrator: Integrator::Adams, rtol: 1e-8, atol: 1e-10, ..IvpOptions::default() };
/// let mut oscillator = |_t: f64, theta: &[f64], _velocity: &[f64], out: &mut [f64]| out[0] = -theta[0];
/// let (mut workspace, mut state) = (SecondOrder::new(1), [1.0, 0.0]);
/// let mut go_on = |_: Trial, _: f64, _: &mut dyn riemannian_laplace::internals::ode::Present| ControlFlow::<()>::Continue(());
/// let info = solve_second_order(&mut oscillator, (0.0, 1.0), &mut state, &options, &mut workspace, &mut go_on)?;
/// assert_eq!(info.status, ControlFlow::Continue(Status::Reached));
/// assert!((state[0] - 1f64.cos()).abs() < 1e-7 && (state[1] + 1f64.sin()).abs() < 1e-7);
/// # Ok::<(), riemannian_laplace::internals::ode::InvalidOptions>(())
/// ```
pub fn solve_second_order<R, B>(
    acceleration: &mut R,
    (t0, t1): (f64, f64),
    state: &mut [f64],
    options: &IvpOptions,
    workspace: &mut SecondOrder,
    go_on: &mut GoOn<'_, B>,
) -> Result<IvpInfo<ControlFlow<B, Status>>, InvalidOptions>
where
    R: FnMut(f64, &[f64], &[f64], &mut [f64]),
{
    options.validate()?;
    if 2 * workspace.dim != state.len() {
        return Err(InvalidOptions::WorkspaceDim(2 * workspace.dim));
    }
    let mut info = IvpInfo::new(Status::NotFinite, t0);
    if !((t1 - t0).is_finite() && finite(state)) {
        return Ok(info.map(ControlFlow::Continue));
    }
    workspace.start(acceleration, t0, state);
    info.evaluations = 1;
    if !finite(workspace.acceleration()) {
        return Ok(info.map(ControlFlow::Continue));
    }
    if t0 == t1 || state.is_empty() {
        (info.status, info.t) = (Status::Reached, t1);
        return Ok(info.map(ControlFlow::Continue));
    }
    let mut steps =
        SecondOrderSteps { system: workspace, course: Course::new(SMALL_GROWTH), errors: Errors::default() };
    let info = advance(acceleration, t1, options, &mut steps, info, None, go_on);
    state.copy_from_slice(workspace.corrected());
    Ok(info)
}

#[cfg(test)]
mod tests;
