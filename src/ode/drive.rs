//! The loops over steps: adaptive and with equal steps.
//!
//! The adaptive loop is t ← t + h with `h` cut to the end of the interval, each trial accepted if its error norm is
//! below 1 and followed by a step that is `control::factor` times as long. It ends: every accepted step moves `t` by at
//! least ten spacings of floating-point numbers, or to the end; every rejected one makes the next shorter by a factor
//! of at most 0.9; and attempts are counted against a limit.
//!
//! Source: Hairer, Nørsett & Wanner 1993, section II.4.

use std::ops::ControlFlow;

use super::adams::AdamsSteps;
use super::control::{Tolerance, error_norm, factor, first_step, min_step};
use super::stepper::Stepper;
use super::{DensePath, Engine, GoOn, InvalidOptions, IvpInfo, IvpOptions, Status, Trial, Workspace};

impl IvpInfo {
    /// Nothing done yet at time `t`.
    pub(crate) fn new(status: Status, t: f64) -> Self {
        IvpInfo { status, t, evaluations: 0, accepted: 0, rejected: 0 }
    }
}

/// Whether all numbers are finite.
pub(crate) fn finite(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}

/// Takes the initial state and evaluates its derivative. `Err` holds the outcome if there is nothing to do.
fn start<R>(rhs: &mut R, (t0, t1): (f64, f64), y: &[f64], engine: &mut Engine) -> Result<IvpInfo, IvpInfo>
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    let mut info = IvpInfo::new(Status::NotFinite, t0);
    if !((t1 - t0).is_finite() && finite(y)) {
        return Err(info);
    }
    let derivative = match engine {
        Engine::Pair(stepper) => {
            stepper.start(rhs, t0, y);
            stepper.numbers(stepper.derivative())
        }
        Engine::Adams(adams) => {
            adams.start(rhs, t0, y);
            adams.derivative()
        }
    };
    info.evaluations = 1;
    if !finite(derivative) {
        return Err(info);
    }
    if t0 == t1 || y.is_empty() {
        info.status = Status::Reached;
        info.t = t1;
        return Err(info);
    }
    Ok(info)
}

/// The state at the end of the last accepted step, computed when it is asked for.
pub trait Present {
    /// The state.
    fn state(&mut self) -> &[f64];
    /// Divides the errors that are allowed in a step by this number from here on, where they are measured by
    /// [`ErrorNorm::Velocity`](super::ErrorNorm); elsewhere nothing changes.
    fn tighten(&mut self, _divisor: f64) {}
}

/// Takes trial steps of a system `R` and chooses their sizes: the interface of the adaptive loop to Runge–Kutta pairs and
/// to both Adams methods.
pub(crate) trait Steps<R>: Present {
    /// The number of evaluations that one trial costs.
    fn cost(&self) -> usize;

    /// The size of the first step, at the cost of one evaluation.
    fn first_step(&mut self, rhs: &mut R, t: f64, direction: f64, length: f64, tolerance: Tolerance) -> f64;

    /// Tries a step from `t` to `next` and returns its error norm, which is not finite if the step is not.
    fn attempt(&mut self, rhs: &mut R, t: f64, next: f64, tolerance: Tolerance) -> f64;

    /// The factor from a rejected trial to the next one.
    fn reject(&mut self) -> f64;

    /// Moves to the end of the trial, and records it in `path`. Returns the factor to the next step, and the
    /// evaluations that recording took.
    fn accept(&mut self, rhs: &mut R, t: f64, next: f64, path: Option<&mut DensePath>) -> (f64, usize);
}

/// Steps of a Runge–Kutta pair that has been started.
struct PairSteps<'a> {
    stepper: &'a mut Stepper,
    /// The error norm of the last trial.
    error: f64,
    /// Whether the trial before it was rejected.
    rejected: bool,
}

impl Present for PairSteps<'_> {
    fn state(&mut self) -> &[f64] {
        self.stepper.numbers(self.stepper.state())
    }
}

impl<R: FnMut(f64, &[f64], &mut [f64])> Steps<R> for PairSteps<'_> {
    fn cost(&self) -> usize {
        self.stepper.tableau().last()
    }

    fn first_step(&mut self, rhs: &mut R, t: f64, direction: f64, length: f64, tolerance: Tolerance) -> f64 {
        let order = self.stepper.tableau().error_order;
        first_step(self.stepper.probe(), rhs, t, direction, length, order, tolerance)
    }

    fn attempt(&mut self, rhs: &mut R, t: f64, next: f64, tolerance: Tolerance) -> f64 {
        let h = next - t;
        self.stepper.attempt(rhs, t, h);
        self.error = error_norm(self.stepper, h, tolerance);
        self.error
    }

    fn reject(&mut self) -> f64 {
        let factor = factor(self.error, self.stepper.tableau().error_order, self.rejected);
        self.rejected = true;
        factor
    }

    fn accept(&mut self, rhs: &mut R, t: f64, next: f64, path: Option<&mut DensePath>) -> (f64, usize) {
        let factor = factor(self.error, self.stepper.tableau().error_order, self.rejected);
        self.rejected = false;
        let evaluations = path.map_or(0, |path| path.record(self.stepper, rhs, t, next));
        self.stepper.accept();
        (factor, evaluations)
    }
}

/// Adaptive steps from `span.0` to `span.1`; accepted ones go into `path`, and after each trial `go_on` is asked.
pub(crate) fn adaptive<R, B>(
    rhs: &mut R,
    span: (f64, f64),
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
    path: Option<&mut DensePath>,
    go_on: &mut GoOn<'_, B>,
) -> Result<IvpInfo<ControlFlow<B, Status>>, InvalidOptions>
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    options.validate()?;
    workspace.check(options.integrator, y.len())?;
    let info = match start(rhs, span, y, &mut workspace.engine) {
        Ok(info) => info,
        Err(info) => return Ok(info.map(ControlFlow::Continue)),
    };
    Ok(match &mut workspace.engine {
        Engine::Pair(stepper) => {
            let mut steps = PairSteps { stepper, error: 0.0, rejected: false };
            let info = advance(rhs, span.1, options, &mut steps, info, path, go_on);
            y.copy_from_slice(stepper.numbers(stepper.state()));
            info
        }
        Engine::Adams(adams) => {
            let info = advance(rhs, span.1, options, &mut AdamsSteps::new(adams), info, path, go_on);
            y.copy_from_slice(adams.state());
            info
        }
    })
}

/// The adaptive loop, from `info.t` to `end`.
pub(crate) fn advance<R, B, S: Steps<R>>(
    rhs: &mut R,
    end: f64,
    options: &IvpOptions,
    steps: &mut S,
    mut info: IvpInfo,
    mut path: Option<&mut DensePath>,
    go_on: &mut GoOn<'_, B>,
) -> IvpInfo<ControlFlow<B, Status>> {
    let length = (end - info.t).abs();
    let direction = (end - info.t).signum();
    let tolerance = Tolerance::new(options.rtol, options.atol);
    let mut step = match options.first_step {
        Some(step) => step.min(length),
        None => {
            info.evaluations += 1;
            steps.first_step(rhs, info.t, direction, length, tolerance)
        }
    };
    let mut least = min_step(info.t, direction);
    step = step.max(least);
    // Whether the last trial was finite.
    let mut sound = true;
    let status = loop {
        if step < least && !sound {
            break ControlFlow::Continue(Status::NotFinite);
        }
        if step < least || info.accepted + info.rejected >= options.max_steps {
            break ControlFlow::Continue(Status::StepLimit);
        }
        let t = info.t;
        let mut next = t + step * direction;
        if direction * (next - end) > 0.0 {
            next = end;
        }
        let h = (next - t).abs();
        let error = steps.attempt(rhs, t, next, tolerance);
        info.evaluations += steps.cost();
        sound = error.is_finite();
        if !sound || error >= 1.0 {
            info.rejected += 1;
            step = h * steps.reject();
            if let ControlFlow::Break(reason) = go_on(Trial::Rejected, t, steps) {
                break ControlFlow::Break(reason);
            }
            continue;
        }
        let (factor, evaluations) = steps.accept(rhs, t, next, path.as_deref_mut());
        step = h * factor;
        info.evaluations += evaluations;
        info.accepted += 1;
        info.t = next;
        if direction * (next - end) >= 0.0 {
            break ControlFlow::Continue(Status::Reached);
        }
        if let ControlFlow::Break(reason) = go_on(Trial::Accepted, next, steps) {
            break ControlFlow::Break(reason);
        }
        least = min_step(next, direction);
        step = step.max(least);
    };
    info.map(|_| status)
}

/// `steps` equal steps from `span.0` to `span.1`.
pub(crate) fn fixed<R>(
    rhs: &mut R,
    span: (f64, f64),
    y: &mut [f64],
    steps: usize,
    workspace: &mut Workspace,
) -> Result<IvpInfo, InvalidOptions>
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    workspace.check(workspace.integrator(), y.len())?;
    if matches!(workspace.engine, Engine::Adams(_)) {
        return Err(InvalidOptions::EqualSteps(workspace.integrator().name()));
    }
    let mut info = match start(rhs, span, y, &mut workspace.engine) {
        Ok(info) => info,
        Err(info) => return Ok(info),
    };
    let Engine::Pair(stepper) = &mut workspace.engine else {
        return Ok(info);
    };
    let (t0, t1) = span;
    let length = t1 - t0;
    info.status = Status::Reached;
    for step in 1..=steps {
        let next = if step == steps { t1 } else { t0 + length * (step as f64 / steps as f64) };
        stepper.attempt(rhs, info.t, next - info.t);
        info.evaluations += stepper.tableau().last();
        let last = &stepper.stages()[stepper.tableau().last()];
        if !(finite(stepper.numbers(stepper.trial())) && finite(stepper.numbers(last))) {
            info.status = Status::NotFinite;
            info.rejected += 1;
            break;
        }
        stepper.accept();
        info.accepted += 1;
        info.t = next;
    }
    if steps == 0 {
        info.status = Status::StepLimit;
    }
    y.copy_from_slice(stepper.numbers(stepper.state()));
    Ok(info)
}
