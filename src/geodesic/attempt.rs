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

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Instant;

use super::certificate::EndCheck;
use super::exponential::{Accuracy, ExponentialMap, GeodesicLimits, GeodesicOptions};
use super::graph::Carried;
use crate::error::{Error, Result};
use crate::linalg::dot;
use crate::metric::{Beside, MetricEvaluator, Pull};
use crate::ode::{self, ErrorNorm, Integrator, IvpInfo, Present, SecondOrder, Status, Trial};
use crate::progress::Progress;

/// The drift on the way is checked once in this many evaluations; it costs a pass over the velocity.
const CHECKED: usize = 8;
/// The drift on the way is measured at the first accepted state after each of these shares of the path: seven jets.
const LOOKS: usize = 8;

/// From this many parameters on, Adams integrates positions as second integrals, in fewer passes over memory: below, an
/// evaluation takes far longer than these.
const SECOND_ORDER: usize = 50_000;
/// γ times the step. Predictors of Adams and Bashforth of order 7 are stable up to 0.046, those of lower orders further
/// (docs/results/certificates.md).
const PULL: f64 = 0.03;
/// The largest error of the velocities in a step of a path that is pulled to the graph, as a share of their norm times the
/// relative tolerance.
const PULLED_TOLERANCE: f64 = 0.08;

/// Where the drift of a path that is pulled to the graph exceeds this many times the target on the way, the errors allowed in
/// its steps are halved from there on: shorter steps for the rest take fewer evaluations than a second attempt.
const TIGHTENED: f64 = 20.0;

/// From this share of a path that is pulled to the graph on, the errors allowed in its steps are divided by this much: the end
/// is judged as it is, and an error just before it has no time to decay.
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
        let refined = matches!(options.accuracy, Accuracy::Drift { .. }) && options.end_check != EndCheck::Always;
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
    /// What was true of the end before it was moved to the graph, where it was.
    pub(super) unprojected: Option<Unprojected>,
}

/// An end that was pulled to the graph, before its projection.
pub(super) struct Unprojected {
    pub(super) drift: f64,
    /// The root mean square of y(θ) − y.
    pub(super) off_graph: f64,
}

/// A geodesic's way to its limits.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Evaluations that may still be made.
    evaluations: usize,
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

    /// The same with at most this many evaluations.
    pub(super) fn at_most(&self, evaluations: usize) -> Self {
        Self { evaluations: self.evaluations.min(evaluations), end: self.end }
    }

    /// Takes evaluations away.
    pub(super) fn spend(&mut self, evaluations: usize) {
        self.evaluations = self.evaluations.saturating_sub(evaluations);
    }

    fn is_spent(&self, evaluations: usize) -> bool {
        evaluations >= self.evaluations || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// What one attempt is asked for.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) theta: &'a [f64],
    pub(super) velocity: &'a [f64],
    pub(super) time: f64,
    pub(super) tolerances: (f64, f64),
    /// vᵀGv at the start; where it is NaN, neither the drift nor the outputs are looked at.
    pub(super) squared_speed: f64,
    /// The drift on the way at which the attempt is abandoned.
    pub(super) hopeless: f64,
    pub(super) budget: Budget,
}

/// Why no more evaluations are made.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    Cancelled,
    Limit,
}

/// One path while it is integrated: its evaluations, and those who look on. None of them changes the path.
struct Path<'a> {
    evaluator: &'a mut dyn MetricEvaluator,
    progress: &'a dyn Progress,
    attempt: Attempt<'a>,
    evaluations: usize,
    stop: Option<Stop>,
    /// The drift of the last evaluation alone: that of a rejected trial must not count against the next step.
    drift: f64,
    /// The time of the last accepted state.
    accepted: f64,
    /// The largest drift at the accepted states that were looked at, and the look that comes next.
    path_drift: f64,
    look: usize,
    /// The outputs carried along, where the metric has isometric ones.
    carried: Option<Carried>,
    /// For a path that is pulled to the graph: the drift from which on its steps are shortened.
    tightened: Option<f64>,
}

impl<'a> Path<'a> {
    fn new(
        evaluator: &'a mut dyn MetricEvaluator,
        progress: &'a dyn Progress,
        attempt: Attempt<'a>,
        followed: Option<[Vec<f64>; 2]>,
        tightened: Option<f64>,
    ) -> Self {
        let carried = followed.map(|followed| Carried::new(followed, attempt.time));
        let (stop, look) = (None, 1);
        let (evaluations, drift, accepted, path_drift) = (0, 0.0, 0.0, 0.0);
        Self { evaluator, progress, attempt, evaluations, stop, drift, accepted, path_drift, look, carried, tightened }
    }

    /// θ̈ at a state; with a pull, ÿ too. After a stop nothing is evaluated: the trial is rejected, and `after` asked.
    fn accelerate(
        &mut self,
        t: f64,
        theta: &[f64],
        velocity: &[f64],
        acceleration: &mut [f64],
        pulled: Option<(Pull<'_>, &mut [f64])>,
    ) {
        if self.progress.is_cancelled() {
            self.stop = Some(Stop::Cancelled);
        } else if self.attempt.budget.is_spent(self.evaluations) {
            self.stop = Some(Stop::Limit);
        }
        if self.stop.is_some() {
            return acceleration.fill(f64::NAN);
        }
        self.evaluator.at_time(t);
        match pulled {
            Some((pull, outputs)) => {
                self.evaluator.acceleration_with_pull(theta, velocity, pull, acceleration, outputs);
            }
            None => self.evaluator.acceleration(theta, velocity, acceleration),
        }
        if let Some(carried) = &mut self.carried {
            carried.evaluated(t, self.evaluator.output_acceleration());
        }
        self.evaluations += 1;
        self.progress.evaluated();
        let checked = self.attempt.hopeless.is_finite() && self.evaluations.is_multiple_of(CHECKED);
        self.drift = match checked {
            true => relative_change(self.attempt.squared_speed, self.evaluator.squared_speed_of_last(velocity)),
            false => 0.0,
        };
    }

    /// The derivative of (θ, v).
    fn derivative(&mut self, t: f64, state: &[f64], derivative: &mut [f64]) {
        let (theta, velocity) = state.split_at(state.len() / 2);
        let (position_part, velocity_part) = derivative.split_at_mut(velocity.len());
        position_part.copy_from_slice(velocity);
        self.accelerate(t, theta, velocity, velocity_part, None);
    }

    /// The same for θ and the outputs y carried beside it, pulled to the graph.
    fn accelerate_pulled(&mut self, t: f64, positions: &[f64], velocities: &[f64], accelerations: &mut [f64]) {
        let n_params = self.attempt.theta.len();
        let (theta, outputs) = positions.split_at(n_params);
        let (velocity, output_velocities) = velocities.split_at(n_params);
        let (acceleration, output_accelerations) = accelerations.split_at_mut(n_params);
        let step = (t - self.accepted).abs();
        let rate = if step > 0.0 { PULL / step } else { 0.0 };
        let pull = Pull { outputs, velocities: output_velocities, rate };
        self.accelerate(t, theta, velocity, acceleration, Some((pull, output_accelerations)));
    }

    /// Looks at a trial step, and says whether to go on. A drift that is NaN comes from a trial beyond what can be computed,
    /// which is rejected and repeated with a shorter step.
    fn after(&mut self, trial: Trial, t: f64, present: &mut dyn Present) -> ControlFlow<Abandoned> {
        match (self.stop, trial) {
            (Some(Stop::Cancelled), _) => ControlFlow::Break(Abandoned::Hopeless),
            (Some(Stop::Limit), _) => ControlFlow::Break(Abandoned::Limit),
            (None, Trial::Rejected) => ControlFlow::Continue(()),
            (None, Trial::Accepted) if self.drift > self.attempt.hopeless => ControlFlow::Break(Abandoned::Hopeless),
            (None, Trial::Accepted) => {
                self.tighten(t, present);
                self.accepted = t;
                if let Some(carried) = &mut self.carried {
                    carried.accept(t);
                }
                self.look(t, present);
                ControlFlow::Continue(())
            }
        }
    }

    /// Shortens the steps of a path that is pulled to the graph, where it drifts and before its end.
    fn tighten(&self, t: f64, present: &mut dyn Present) {
        let Some(tightened) = self.tightened else { return };
        if self.drift > tightened {
            present.tighten(2.0);
        }
        let before = BEFORE_THE_END.0 * self.attempt.time;
        if self.accepted < before && t >= before {
            present.tighten(BEFORE_THE_END.1);
        }
    }

    /// Measures the drift at the first accepted state after each share of the path.
    fn look(&mut self, t: f64, present: &mut dyn Present) {
        let Attempt { time, squared_speed, theta, .. } = self.attempt;
        if squared_speed.is_nan() || t * (LOOKS as f64) < time * self.look as f64 {
            return;
        }
        self.look = (t / time * LOOKS as f64) as usize + 1;
        let state = present.state();
        let (positions, velocities) = state.split_at(state.len() / 2);
        let (theta, velocity) = (&positions[..theta.len()], &velocities[..theta.len()]);
        let here = relative_change(squared_speed, self.evaluator.squared_speed_on_path(theta, velocity));
        self.path_drift = larger(self.path_drift, here);
    }

    /// What was found. Nobody is asked after the last step, and the call that found the budget spent evaluated nothing.
    fn ending(self, info: IvpInfo<ControlFlow<Abandoned, Status>>, unprojected: Option<Unprojected>) -> Result<Ending> {
        let evaluations = match self.stop {
            Some(Stop::Cancelled) => return Err(Error::Cancelled),
            Some(Stop::Limit) => self.evaluations,
            None => info.evaluations,
        };
        let mut carried = self.carried;
        if let (Some(carried), ControlFlow::Continue(Status::Reached)) = (&mut carried, &info.status) {
            carried.accept(self.attempt.time);
        }
        Ok(Ending { status: info.status, evaluations, path_drift: self.path_drift, carried, unprojected })
    }
}

/// The state of a path that is pulled to the graph: θ and the outputs, then their velocities.
struct Pulled<'a> {
    state: &'a mut [f64],
    n_params: usize,
}

impl Pulled<'_> {
    fn begin(&mut self, attempt: &Attempt<'_>, followed: &Option<[Vec<f64>; 2]>) {
        let [outputs, output_velocities] = match followed {
            Some([outputs, velocities]) => [&outputs[..], &velocities[..]],
            None => [&[][..], &[][..]],
        };
        let first = [attempt.theta, outputs, attempt.velocity, output_velocities];
        self.state.iter_mut().zip(first.into_iter().flatten()).for_each(|(entry, first)| *entry = *first);
    }

    /// θ and v with the outputs beside them.
    fn beside(&mut self) -> Beside<'_> {
        let middle = self.state.len() / 2;
        let (positions, velocities) = self.state.split_at_mut(middle);
        let (theta, outputs) = positions.split_at_mut(self.n_params);
        let (velocity, output_velocities) = velocities.split_at_mut(self.n_params);
        Beside { theta, velocity, outputs, output_velocities }
    }

    /// Moves an end to the graph; returns what was true of it before.
    fn project(&mut self, evaluator: &mut dyn MetricEvaluator, squared_speed: f64) -> Unprojected {
        let end = self.beside();
        let drift = relative_change(squared_speed, evaluator.squared_speed_on_path(end.theta, end.velocity));
        let here = evaluator.isometric_outputs(end.theta).unwrap_or_default();
        let squares = here.iter().zip(&*end.outputs).map(|(here, carried)| (here - carried).powi(2));
        let off_graph = (squares.sum::<f64>() / here.len() as f64).sqrt();
        evaluator.project(end);
        Unprojected { drift, off_graph }
    }
}

impl ExponentialMap<'_> {
    /// Follows the geodesic for a given time at given tolerances; the end state stays in the buffer.
    pub(super) fn integrate(
        &mut self,
        theta: &[f64],
        velocity: &[f64],
        time: f64,
        tolerances: (f64, f64),
    ) -> Result<Status> {
        let budget = Budget::of(GeodesicLimits::default());
        let (squared_speed, hopeless) = (f64::NAN, f64::INFINITY);
        let attempt = Attempt { theta, velocity, time, tolerances, squared_speed, hopeless, budget };
        match self.integrate_within(attempt)?.status {
            ControlFlow::Continue(status) => Ok(status),
            // Without a limit on the drift an attempt cannot be abandoned; if it were, the end would not be usable.
            ControlFlow::Break(_) => Ok(Status::NotFinite),
        }
    }

    /// One attempt; its end state stays in the buffer.
    pub(super) fn integrate_within(&mut self, attempt: Attempt<'_>) -> Result<Ending> {
        self.set_state(attempt.theta, attempt.velocity);
        self.evaluator.begin_path(attempt.tolerances.0);
        let tightened = self.engine.is_pulled().then_some(TIGHTENED * self.options.certificate().0);
        let options = self.options.ivp(attempt.tolerances.0, attempt.tolerances.1);
        let Self { evaluator, progress, engine, state, n_params, .. } = self;
        let followed = match !attempt.squared_speed.is_nan() || tightened.is_some() {
            true => evaluator.follow_outputs(attempt.theta, attempt.velocity),
            false => None,
        };
        let path = Path::new(&mut **evaluator, *progress, attempt, followed.clone(), tightened);
        // The integrator evaluates and asks in turn, never at once.
        let path = RefCell::new(path);
        let mut go_on = |trial, t, present: &mut dyn Present| path.borrow_mut().after(trial, t, present);
        let (span, mut unprojected) = ((0.0, attempt.time), None);
        let info = match engine {
            Engine::Pulled { workspace, state: long } => {
                let mut pulled = Pulled { state: long, n_params: *n_params };
                pulled.begin(&attempt, &followed);
                let bound = PULLED_TOLERANCE * options.rtol * dot(attempt.velocity, attempt.velocity).sqrt();
                workspace.measure_by(ErrorNorm::Velocity(bound));
                let mut both = |t: f64, positions: &[f64], velocities: &[f64], accelerations: &mut [f64]| {
                    path.borrow_mut().accelerate_pulled(t, positions, velocities, accelerations);
                };
                let info = ode::solve_second_order(&mut both, span, pulled.state, &options, workspace, &mut go_on)?;
                if let ControlFlow::Continue(Status::Reached) = info.status {
                    unprojected = Some(pulled.project(path.borrow_mut().evaluator, attempt.squared_speed));
                }
                let end = pulled.beside();
                let (theta, velocity) = state.split_at_mut(*n_params);
                theta.copy_from_slice(end.theta);
                velocity.copy_from_slice(end.velocity);
                info
            }
            Engine::SecondOrder(workspace) => {
                let mut plain = |t: f64, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]| {
                    path.borrow_mut().accelerate(t, theta, velocity, acceleration, None);
                };
                ode::solve_second_order(&mut plain, span, state, &options, workspace, &mut go_on)?
            }
            Engine::General(workspace) => {
                let mut derivative = |t: f64, state: &[f64], derivative: &mut [f64]| {
                    path.borrow_mut().derivative(t, state, derivative);
                };
                ode::solve_watched(&mut derivative, span.0, span.1, state, &options, workspace, &mut go_on)?
            }
        };
        path.into_inner().ending(info, unprojected)
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
