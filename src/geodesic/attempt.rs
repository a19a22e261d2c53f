//! One attempt at a geodesic: an integration at given tolerances that looks at the drift on the way and stops where it is
//! hopeless.
//!
//! With very many parameters (and Adams, and a solver that has ÿ for nothing) the path is **pulled to the graph** of its
//! outputs. With y and u carried as part of the state,
//!
//! ```text
//! θ̈ = −A⁻¹J̃ᵀm,   ÿ = m,   (I + J̃A⁻¹J̃ᵀ) m = z + 2γ(J̃θ̇ − u) + γ²(y(θ) − y),
//! ```
//!
//! is the geodesic's own equation as long as y(θ) = y and J̃θ̇ = u. Without the pull an error of the integration across the
//! graph stays for the rest of the path and grows with time; with it the error decays like that of a critically damped
//! spring, within a few dozen steps (γ is a fraction of one over the step). It is the stabilisation of constrained
//! mechanics (J. Baumgarte, *Computer Methods in Applied Mechanics and Engineering* 1, 1972). What is left of it at the end
//! is taken away by a projection to the graph, and the drift is that before it.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::time::Instant;

use super::exponential::{Accuracy, ExponentialMap, GeodesicLimits, GeodesicOptions};
use super::graph::Carried;
use crate::error::{Error, Result};
use crate::linalg::dot;
use crate::metric::{Beside, MetricEvaluator, Pull};
use crate::ode::{self, ErrorNorm, Integrator, Present, SecondOrder, Status, Trial};

/// The drift on the way is checked once in this many evaluations; it costs a pass over the velocity.
const CHECKED: usize = 8;
/// The drift on the way is measured at the first accepted state after each of these shares of the path: seven jets.
const LOOKS: usize = 8;

/// From this many parameters on, Adams integrates positions as second integrals, in fewer passes over memory: below, an
/// evaluation takes far longer than these.
const SECOND_ORDER: usize = 50_000;
/// γ times the step. A shorter step does not change it, so it must be within the region where the method is stable:
/// predictors of Adams and Bashforth of orders 5, 6 and 7 are stable up to 0.16, 0.088 and 0.046, and orders that are not
/// have the larger errors and are left again. (Six geodesics of width 300: 531 evaluations on average with 0.03 and with
/// 0.04; with 0.02 one drifted too far; where steps grew by a fifth, 644 with 0.06 for 581 with 0.04.)
const PULL: f64 = 0.03;
/// The largest error of the velocities in a step of a path that is pulled to the graph, as a share of their norm times the
/// relative tolerance. (The same six of width 300: at twice this tolerance 494 evaluations, but one of them drifts too far
/// before it is projected; at four times, four leave their geodesics on the way.)
const PULLED_TOLERANCE: f64 = 0.08;

/// Where the drift of a path that is pulled to the graph exceeds this many times the target on the way, the errors allowed in
/// its steps are halved from there on. Until then nothing is lost: the drift is that of a prediction, ten to a hundred times
/// that of the state it ends in, and the pull takes away what errors there are. But later it may well leave its geodesic, and
/// a second attempt from the start takes more steps than the shorter ones of the rest. (Width 1,000: 1,542 evaluations in
/// place of 3,488 in two attempts for a network whose path bends sharply, 1,436 and 1,438 in place of 1,436 and 1,417 for
/// two paths of another that need no second one; at 10 times the target 1,686, and at 40 it comes too late.)
const TIGHTENED: f64 = 20.0;

/// From this share of a path that is pulled to the graph on, the errors allowed in its steps are divided by this much: the end
/// is judged as it is, and an error that the pull has not taken away yet would cost a second attempt for what would be gone a
/// few dozen steps later. (Width 300, sixty geodesics: none takes a second attempt for 8, 552 evaluations on average for 641,
/// and the drift at the end is a quarter; one second attempt where errors are divided by 4. Width 1,000: two in a hundred
/// evaluations more.)
const BEFORE_THE_END: (f64, f64) = (0.9, 6.0);

/// The reason why an attempt was abandoned.
pub(super) enum Abandoned {
    /// Its drift.
    Hopeless,
    /// A limit of the geodesic, which no other attempt can help.
    Limit,
}

/// What takes the steps.
pub(super) enum Engine {
    General(ode::Workspace),
    SecondOrder(Box<SecondOrder>),
    /// Pulled to the graph: θ and the outputs, then their velocities.
    Pulled {
        workspace: Box<SecondOrder>,
        state: Vec<f64>,
    },
}

impl Engine {
    /// For these settings and this metric.
    pub(super) fn new(options: &GeodesicOptions, n_params: usize, evaluator: &mut dyn MetricEvaluator) -> Self {
        if options.integrator != Integrator::Adams || n_params < SECOND_ORDER {
            return Engine::General(ode::Workspace::new(options.integrator, 2 * n_params));
        }
        // Whoever sets tolerances gets errors relative to them.
        let refined = matches!(options.accuracy, Accuracy::Drift { .. });
        match if refined { evaluator.pulled_outputs() } else { None } {
            Some(outputs) => {
                let size = n_params + outputs;
                Engine::Pulled { workspace: Box::new(SecondOrder::new(size)), state: vec![0.0; 2 * size] }
            }
            None => Engine::SecondOrder(Box::new(SecondOrder::new(n_params))),
        }
    }

    /// Whether paths are pulled to the graph.
    pub(super) fn is_pulled(&self) -> bool {
        matches!(self, Engine::Pulled { .. })
    }
}

/// How one attempt ended.
pub(super) struct Ending {
    pub(super) status: ControlFlow<Abandoned, Status>,
    pub(super) evaluations: usize,
    /// The largest drift at accepted states on the way.
    pub(super) path_drift: f64,
    /// The outputs carried along, where the metric has isometric ones.
    pub(super) carried: Option<Carried>,
    /// The drift and y(θ) at the end before it was moved to the graph, where it was.
    pub(super) unprojected: Option<(f64, Vec<f64>)>,
}

/// A geodesic's way to its limits.
pub(super) struct Budget {
    /// Evaluations that may still be made.
    pub(super) evaluations: usize,
    /// When it has to end.
    end: Option<Instant>,
}

impl Budget {
    pub(super) fn of(limits: GeodesicLimits) -> Self {
        Self {
            evaluations: limits.evaluations.unwrap_or(usize::MAX),
            end: limits.time.and_then(|time| Instant::now().checked_add(time)),
        }
    }

    fn is_spent(&self, evaluations: usize) -> bool {
        evaluations >= self.evaluations || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

impl ExponentialMap<'_> {
    /// Follows the geodesic for a given time at given tolerances; the end state stays in the buffer.
    pub(super) fn integrate(
        &mut self,
        theta: &[f64],
        velocity: &[f64],
        time: f64,
        (rtol, atol): (f64, f64),
    ) -> Result<Status> {
        let budget = Budget::of(GeodesicLimits::default());
        match self.integrate_within(theta, velocity, time, (rtol, atol), (f64::NAN, f64::INFINITY), &budget)?.status {
            ControlFlow::Continue(status) => Ok(status),
            // Without a limit on the drift an attempt cannot be abandoned; if it were, the end would not be usable.
            ControlFlow::Break(_) => Ok(Status::NotFinite),
        }
    }

    /// [`integrate`](Self::integrate), abandoned when vᵀGv differs from `start` by more than `limit` times `start`, or
    /// when the budget is spent. Unless `start` is NaN, looks at the drift at accepted states on the way, and carries the
    /// outputs along.
    pub(super) fn integrate_within(
        &mut self,
        theta: &[f64],
        velocity: &[f64],
        time: f64,
        (rtol, atol): (f64, f64),
        (start, limit): (f64, f64),
        budget: &Budget,
    ) -> Result<Ending> {
        self.set_state(theta, velocity);
        self.evaluator.begin_path(rtol);
        let Self { evaluator, progress, options, engine, state, n_params } = self;
        let (wanted, is_pulled) = (!start.is_nan() || engine.is_pulled(), engine.is_pulled());
        let tightened = TIGHTENED * options.certificate().0;
        let followed = if wanted { evaluator.follow_outputs(theta, velocity) } else { None };
        let carried = RefCell::new(followed.clone().map(|followed| Carried::new(followed, time)));
        let evaluator = RefCell::new(&mut **evaluator);
        let (mut evaluations, drift, cancelled) = (0_usize, Cell::new(0.0), Cell::new(false));
        let (spent, accepted) = (Cell::new(false), Cell::new(0.0));
        // With a pull, the last argument takes the acceleration of the outputs.
        let mut accelerate = |t: f64,
                              theta: &[f64],
                              velocity: &[f64],
                              acceleration: &mut [f64],
                              pulled: Option<(Pull<'_>, &mut [f64])>| {
            if progress.is_cancelled() {
                // The trial is rejected, and `go_on` asked, without another evaluation.
                cancelled.set(true);
                return acceleration.fill(f64::NAN);
            }
            if budget.is_spent(evaluations) {
                spent.set(true);
                return acceleration.fill(f64::NAN);
            }
            let evaluator = &mut **evaluator.borrow_mut();
            evaluator.at_time(t);
            match pulled {
                Some((pull, outputs)) => {
                    evaluator.acceleration_with_pull(theta, velocity, pull, acceleration, outputs);
                }
                None => evaluator.acceleration(theta, velocity, acceleration),
            }
            if let Some(carried) = &mut *carried.borrow_mut() {
                carried.evaluated(t, evaluator.output_acceleration());
            }
            evaluations += 1;
            progress.evaluated();
            // The drift of this evaluation alone: that of a rejected trial must not count against the next step.
            drift.set(if limit.is_finite() && evaluations.is_multiple_of(CHECKED) {
                relative_change(start, evaluator.squared_speed_of_last(velocity))
            } else {
                0.0
            });
        };
        let (mut path_drift, mut looks) = (0.0, 1);
        // A drift that is NaN: a trial beyond what can be computed, which is rejected and repeated with a shorter step.
        let mut go_on = |trial, t: f64, present: &mut dyn Present| match trial {
            _ if cancelled.get() => ControlFlow::Break(Abandoned::Hopeless),
            _ if spent.get() => ControlFlow::Break(Abandoned::Limit),
            Trial::Accepted if drift.get() > limit => ControlFlow::Break(Abandoned::Hopeless),
            Trial::Accepted => {
                if is_pulled && drift.get() > tightened {
                    present.tighten(2.0);
                }
                if is_pulled && accepted.get() < BEFORE_THE_END.0 * time && t >= BEFORE_THE_END.0 * time {
                    present.tighten(BEFORE_THE_END.1);
                }
                accepted.set(t);
                if let Some(carried) = &mut *carried.borrow_mut() {
                    carried.accept(t);
                }
                if !start.is_nan() && t * LOOKS as f64 >= time * looks as f64 {
                    looks = (t / time * LOOKS as f64) as usize + 1;
                    let state = present.state();
                    let (positions, velocities) = state.split_at(state.len() / 2);
                    let (theta, velocity) = (&positions[..*n_params], &velocities[..*n_params]);
                    let here = relative_change(start, evaluator.borrow_mut().squared_speed_on_path(theta, velocity));
                    path_drift = larger(path_drift, here);
                }
                ControlFlow::Continue(())
            }
            Trial::Rejected => ControlFlow::Continue(()),
        };
        let options = options.ivp(rtol, atol);
        let mut unprojected = None;
        let info = match engine {
            Engine::Pulled { workspace, state: long } => {
                let [outputs, output_velocities] = followed.unwrap_or_default();
                let first = [theta, &outputs, velocity, &output_velocities];
                long.iter_mut().zip(first.into_iter().flatten()).for_each(|(entry, first)| *entry = *first);
                let bound = PULLED_TOLERANCE * options.rtol * dot(velocity, velocity).sqrt();
                workspace.measure_by(ErrorNorm::Velocity(bound));
                let mut both = |t: f64, positions: &[f64], velocities: &[f64], accelerations: &mut [f64]| {
                    let (theta, outputs) = positions.split_at(*n_params);
                    let (velocity, output_velocities) = velocities.split_at(*n_params);
                    let (acceleration, output_accelerations) = accelerations.split_at_mut(*n_params);
                    let step = (t - accepted.get()).abs();
                    let rate = if step > 0.0 { PULL / step } else { 0.0 };
                    let pull = Pull { outputs, velocities: output_velocities, rate };
                    accelerate(t, theta, velocity, acceleration, Some((pull, output_accelerations)));
                };
                let info = ode::solve_second_order(&mut both, (0.0, time), long, &options, workspace, &mut go_on)?;
                let middle = long.len() / 2;
                let (positions, velocities) = long.split_at_mut(middle);
                let (theta, outputs) = positions.split_at_mut(*n_params);
                let (velocity, output_velocities) = velocities.split_at_mut(*n_params);
                if let ControlFlow::Continue(Status::Reached) = info.status {
                    let evaluator = &mut **evaluator.borrow_mut();
                    unprojected = Some((
                        relative_change(start, evaluator.squared_speed_on_path(theta, velocity)),
                        evaluator.isometric_outputs(theta).unwrap_or_default(),
                    ));
                    evaluator.project(Beside { theta, velocity, outputs, output_velocities });
                }
                let (end, end_velocity) = state.split_at_mut(*n_params);
                end.copy_from_slice(theta);
                end_velocity.copy_from_slice(velocity);
                info
            }
            Engine::SecondOrder(workspace) => {
                let mut plain = |t: f64, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]| {
                    accelerate(t, theta, velocity, acceleration, None);
                };
                ode::solve_second_order(&mut plain, (0.0, time), state, &options, workspace, &mut go_on)?
            }
            Engine::General(workspace) => {
                let mut derivative = |t: f64, state: &[f64], derivative: &mut [f64]| {
                    let (theta, velocity) = state.split_at(*n_params);
                    let (position_part, velocity_part) = derivative.split_at_mut(*n_params);
                    position_part.copy_from_slice(velocity);
                    accelerate(t, theta, velocity, velocity_part, None);
                };
                ode::solve_watched(&mut derivative, 0.0, time, state, &options, workspace, &mut go_on)?
            }
        };
        if cancelled.get() {
            return Err(Error::Cancelled);
        }
        let mut carried = carried.into_inner();
        if let (Some(carried), ControlFlow::Continue(Status::Reached)) = (&mut carried, &info.status) {
            // Nobody is asked after the last step.
            carried.accept(time);
        }
        // The call that found the budget spent evaluated nothing.
        let evaluations = if spent.get() { evaluations } else { info.evaluations };
        Ok(Ending { status: info.status, evaluations, path_drift, carried, unprojected })
    }
}

/// The larger of two drifts. What is not a number stays.
pub(super) fn larger(drift: f64, other: f64) -> f64 {
    if other > drift || other.is_nan() { other } else { drift }
}

/// |end − start| / |start|, zero where nothing changed.
pub(super) fn relative_change(start: f64, end: f64) -> f64 {
    let change = (end - start).abs();
    if change == 0.0 { 0.0 } else { change / start.abs() }
}
