//! The loops over steps: adaptive and with equal steps.
//!
//! The adaptive loop is `t <- t + h` with `h` cut to the end of the interval,
//! each trial accepted if its error norm is below 1 and followed by a step that
//! is `control::factor` times as long. It ends: every accepted step moves `t` by
//! at least ten spacings of floating-point numbers, or to the end; every
//! rejected one makes the next shorter by a factor of at most 0.9; and attempts
//! are counted against a limit.
//!
//! Source: Hairer, Norsett & Wanner 1993, section II.4.

use super::control::{Tolerance, error_norm, factor, first_step, min_step};
use super::stepper::Stepper;
use super::{DensePath, Engine, IvpInfo, IvpOptions, Status, Workspace, adams};

impl IvpInfo {
    /// Nothing done yet at time `t`.
    fn new(status: Status, t: f64) -> Self {
        IvpInfo { status, t, evaluations: 0, accepted: 0, rejected: 0 }
    }
}

/// Whether all numbers are finite.
fn finite(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}

/// Takes up the initial state and evaluates its derivative. `Err` holds the
/// outcome if there is nothing left to do.
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

/// Adaptive steps from `span.0` to `span.1`; accepted ones go into `path`, and after each `go_on` is asked.
pub(crate) fn adaptive<R>(
    rhs: &mut R,
    span: (f64, f64),
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
    path: Option<&mut DensePath>,
    go_on: &mut dyn FnMut() -> bool,
) -> IvpInfo
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    let fits = workspace.check(options.method, y.len());
    if options.validate().and(fits).is_err() {
        return IvpInfo::new(Status::Invalid, span.0);
    }
    let info = match start(rhs, span, y, &mut workspace.engine) {
        Ok(info) => info,
        Err(info) => return info,
    };
    match &mut workspace.engine {
        Engine::Pair(stepper) => {
            let info = pairs(rhs, span, options, stepper, info, path, go_on);
            y.copy_from_slice(stepper.numbers(stepper.state()));
            info
        }
        Engine::Adams(adams) => {
            let info = adams::adaptive(rhs, span.1, options, adams, info, path, go_on);
            y.copy_from_slice(adams.state());
            info
        }
    }
}

/// Adaptive steps of a Runge-Kutta pair that has been started.
fn pairs<R>(
    rhs: &mut R,
    (t0, t1): (f64, f64),
    options: &IvpOptions,
    stepper: &mut Stepper,
    mut info: IvpInfo,
    mut path: Option<&mut DensePath>,
    go_on: &mut dyn FnMut() -> bool,
) -> IvpInfo
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    let length = (t1 - t0).abs();
    let direction = (t1 - t0).signum();
    let tolerance = Tolerance::new(options.rtol, options.atol);
    let tableau = stepper.tableau();

    let mut step = match options.first_step {
        Some(step) => step.min(length),
        None => {
            info.evaluations += 1;
            first_step(stepper.probe(), rhs, t0, direction, length, tableau.error_order, tolerance)
        }
    };
    let mut least = min_step(t0, direction);
    step = step.max(least);
    // Whether the last trial was rejected, and whether it was finite.
    let mut rejected = false;
    let mut sound = true;
    info.status = loop {
        if step < least && !sound {
            break Status::NotFinite;
        }
        if step < least || info.accepted + info.rejected >= options.max_steps {
            break Status::StepLimit;
        }
        let t = info.t;
        let mut next = t + step * direction;
        if direction * (next - t1) > 0.0 {
            next = t1;
        }
        let h = next - t;
        stepper.attempt(rhs, t, h);
        info.evaluations += tableau.last();
        let error = error_norm(stepper, h, tolerance);
        step = h.abs() * factor(error, tableau.error_order, rejected);
        sound = error.is_finite();
        rejected = !sound || error >= 1.0;
        if rejected {
            info.rejected += 1;
            continue;
        }
        if let Some(path) = path.as_deref_mut() {
            info.evaluations += path.record(stepper, rhs, t, next);
        }
        stepper.accept();
        info.accepted += 1;
        info.t = next;
        if direction * (next - t1) >= 0.0 {
            break Status::Reached;
        }
        if !go_on() {
            break Status::Stopped;
        }
        least = min_step(next, direction);
        step = step.max(least);
    };
    info
}

/// `steps` equal steps from `span.0` to `span.1`.
pub(crate) fn fixed<R>(rhs: &mut R, span: (f64, f64), y: &mut [f64], steps: usize, workspace: &mut Workspace) -> IvpInfo
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    if workspace.dim() != y.len() {
        return IvpInfo::new(Status::Invalid, span.0);
    }
    if matches!(workspace.engine, Engine::Adams(_)) {
        return IvpInfo::new(Status::Invalid, span.0);
    }
    let mut info = match start(rhs, span, y, &mut workspace.engine) {
        Ok(info) => info,
        Err(info) => return info,
    };
    let Engine::Pair(stepper) = &mut workspace.engine else {
        return info;
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
    info
}
