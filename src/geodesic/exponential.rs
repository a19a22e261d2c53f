//! The exponential map: θ̈ = a(θ, θ̇) from (θ̂, v) over unit time, with the drift of vᵀGv as a certificate.
//!
//! A geodesic keeps its squared speed vᵀG(θ)v constant: its relative change from start to end is a free check of every
//! sample (Yu et al. 2024, section 3 and supplement "Geodesic ODE"). What is certified, and by what, is in `certificate`
//! and in `docs/architecture.md`; when a geodesic is integrated again, and at which tolerance, is in `refinement`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::attempt::{Abandoned, Attempt, Budget, Ending, Engine, larger, relative_change};
use super::certificate::{Certificate, EndCheck, stated_error};
use super::refinement::Refinement;
use crate::error::{Error, Result, check_size};
use crate::metric::{Metric, MetricEvaluator};
use crate::ode::{self, DensePath, Integrator, IvpOptions, Status};
use crate::progress::Progress;

/// How accurate a geodesic must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Accuracy {
    /// Fixed tolerances of the integrator, as in the paper (its values: 1e-3 and 1e-6).
    Tolerances {
        /// The relative tolerance.
        rtol: f64,
        /// The absolute tolerance.
        atol: f64,
        /// The largest drift of a certified geodesic.
        target: f64,
    },
    /// Starts from a relative tolerance of a tenth of `target` (0.3 of it for Adams with more than 100 parameters, less
    /// again with more than 100,000) and tightens it in proportion to the excess until the drift is at most `target`,
    /// or until `attempts` integrations have been made.
    Drift {
        /// The largest drift accepted.
        target: f64,
        /// The most integrations for one geodesic.
        attempts: usize,
    },
}

/// The largest drift of a certified geodesic, unless the caller says otherwise.
pub const DRIFT_TARGET: f64 = 1e-3;

/// The first relative tolerance as a share of the drift target. At the target itself most geodesics of networks drift a
/// few times too much and have to be integrated again.
const FIRST_TOLERANCE: f64 = 0.1;
/// The same for Adams with more than [`FEW`] parameters, where geodesics drift less at the same tolerance: with
/// networks of 141, 1,021 and 10,401 parameters none of those tried had to be integrated again, with a fifth fewer
/// evaluations (with 31 parameters, between a fifth and two thirds would have had to be).
const FIRST_TOLERANCE_OF_MANY: f64 = 0.3;
/// Beyond this many parameters the first tolerance falls in proportion: the data determine only a few directions, and
/// an error in those is lost in the mean over all of them, and grows from there. (1,004,001 parameters: a drift of 374
/// before t = 0.22 at rtol 1e-3, of 0.08 at 1e-4, of 3e-4 at 3e-5.)
const VERY_MANY: f64 = 1e5;
/// The most parameters that count as few.
const FEW: usize = 100;
/// The absolute tolerance as a share of the relative one, as in the paper (and in SciPy).
const ABSOLUTE_SHARE: f64 = 1e-3;
/// The first relative tolerance is at most the paper's.
const LOOSEST_TOLERANCE: f64 = 1e-3;

/// The paper's step limit.
const PAPER_STEPS: usize = 4096;

impl Default for Accuracy {
    fn default() -> Self {
        Accuracy::Drift { target: DRIFT_TARGET, attempts: 7 }
    }
}

/// Limits of one geodesic, over all attempts at it; by default there are none beyond
/// [`max_steps`](GeodesicOptions::max_steps). A geodesic that reaches one has [`Status::StepLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GeodesicLimits {
    /// The most evaluations of the acceleration.
    pub evaluations: Option<usize>,
    /// The longest time. Which geodesics reach it depends on the machine.
    pub time: Option<Duration>,
}

/// Settings of an [`ExponentialMap`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeodesicOptions {
    /// Tolerances, or a drift target (default: a drift of at most 1e-3).
    pub accuracy: Accuracy,
    /// The integrator: Adams (the default) for a drift target, and the paper's Dormand–Prince 5(4) for fixed
    /// tolerances.
    ///
    /// Mean evaluations until the drift is at most 1e-3, of the same geodesics by Dormand–Prince and by Adams:
    /// Snelson's data, D = 31, 200 and 106 (complete), 303 and 144 (with a gap), standardised 89 and 58, 144 and 69;
    /// networks 1-W-W-1 on a sine, W = 10: 142 and 80, W = 30: 276 and 160, W = 100: 485 and 267. The network's outputs
    /// at their ends are about as accurate (benchmark `methods`). Only where the metric has kinks does Adams take more,
    /// by one sixth.
    pub integrator: Integrator,
    /// The most steps, accepted and rejected, of one integration. With fixed tolerances 4096, the limit of Diffrax and
    /// thus of the paper; with a drift target six times that, since a step of Adams takes one evaluation rather than
    /// six.
    pub max_steps: usize,
    /// Limits of the whole geodesic (default: none).
    pub limits: GeodesicLimits,
    /// Whether the end is compared at two tolerances, without which no path is certified. It takes about two thirds of the
    /// evaluations again (with fixed tolerances two to three times as many again).
    pub end_check: EndCheck,
}

impl Default for GeodesicOptions {
    fn default() -> Self {
        Self {
            accuracy: Accuracy::default(),
            integrator: Integrator::Adams,
            max_steps: 6 * PAPER_STEPS,
            limits: GeodesicLimits::default(),
            end_check: EndCheck::default(),
        }
    }
}

impl GeodesicOptions {
    /// Fixed tolerances, with the paper's integrator and step limit; a drift of at most 1e-3 is certified.
    pub fn with_tolerances(rtol: f64, atol: f64) -> Self {
        let accuracy = Accuracy::Tolerances { rtol, atol, target: DRIFT_TARGET };
        Self { accuracy, integrator: Integrator::Dopri5, max_steps: PAPER_STEPS, ..Self::default() }
    }

    /// Checks that every setting is in its range.
    pub fn validate(&self) -> Result<()> {
        let (target, attempts) = self.certificate();
        let (rtol, atol) = self.first_tolerances(0);
        if !(target > 0.0 && target.is_finite() && attempts > 0) {
            return Err(Error::DriftTarget { target, attempts });
        }
        Ok(self.ivp(rtol, atol).validate()?)
    }

    /// Every setting by name, as text by which runs are told apart.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let accuracy = match self.accuracy {
            Accuracy::Tolerances { rtol, atol, target } => {
                vec![("rtol", rtol), ("atol", atol), ("drift_target", target)]
            }
            Accuracy::Drift { target, attempts } => vec![("drift_target", target), ("attempts", attempts as f64)],
        };
        let limits = [
            ("max_evaluations", self.limits.evaluations.map(|most| most as f64)),
            ("max_seconds", self.limits.time.map(|time| time.as_secs_f64())),
        ];
        let limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        let numbers = accuracy.into_iter().chain(limits).chain([("max_steps", self.max_steps as f64)]);
        let words = [("integrator", self.integrator.name()), ("end_check", self.end_check.name())];
        let words = words.into_iter().map(|(name, word)| (name.to_string(), word.to_string()));
        numbers.map(|(name, number)| (name.to_string(), number.to_string())).chain(words).collect()
    }

    /// The largest drift of a certified geodesic, and the integrations that may be made for it.
    pub(super) fn certificate(&self) -> (f64, usize) {
        match self.accuracy {
            Accuracy::Tolerances { target, .. } => (target, 1),
            Accuracy::Drift { target, attempts } => (target, attempts),
        }
    }

    pub(super) fn first_tolerances(&self, n_params: usize) -> (f64, f64) {
        match self.accuracy {
            Accuracy::Tolerances { rtol, atol, .. } => (rtol, atol),
            Accuracy::Drift { target, .. } => {
                let many = self.integrator == Integrator::Adams && n_params > FEW;
                let share = match many {
                    true => FIRST_TOLERANCE_OF_MANY * (VERY_MANY / n_params as f64).min(1.0),
                    false => FIRST_TOLERANCE,
                };
                let rtol = (share * target).min(LOOSEST_TOLERANCE);
                (rtol, ABSOLUTE_SHARE * rtol)
            }
        }
    }

    pub(super) fn ivp(&self, rtol: f64, atol: f64) -> IvpOptions {
        IvpOptions { integrator: self.integrator, rtol, atol, max_steps: self.max_steps, first_step: None }
    }
}

/// One geodesic, integrated: where it ends and how far it can be trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Geodesic {
    /// θ at t = 1 (or where the integration stopped).
    pub theta: Vec<f64>,
    /// θ̇ there.
    pub velocity: Vec<f64>,
    /// Evaluations of the acceleration, over all attempts: the paper's T.
    pub evaluations: usize,
    /// Evaluations for the error of the end alone.
    pub check_evaluations: usize,
    /// Integrations of the path, each at a tighter tolerance than the one before.
    pub attempts: usize,
    /// |vᵀGv(1) − vᵀGv(0)| / vᵀGv(0), before a projection to the graph, where there is one; NaN when it could not be computed.
    pub drift: f64,
    /// The largest drift at accepted states on the way; NaN when one could not be computed.
    pub path_drift: f64,
    /// The largest relative residual ‖δa‖_G/‖J̃v‖ of the accelerations; zero for an exact solver.
    pub residual: f64,
    /// The distance from the graph of the outputs: the root mean square of y(θ) − y at the end, in units of the whitened
    /// outputs (σ, for a Gaussian); none where the likelihood has no isometric outputs y, NaN when it could not be
    /// computed.
    pub off_graph: Option<f64>,
    /// The error of the end in σ (the units of the whitened outputs): five times the largest difference of the outputs at a
    /// data point between integrations at two tolerances, and at least 1e-3. Infinite where it was not estimated.
    pub end_error: f64,
    /// Whether t = 1 was reached.
    pub status: Status,
    /// What is certified.
    pub certificate: Option<Certificate>,
    /// Whether anything is certified, whatever the tolerances.
    pub certified: bool,
}

/// Where a geodesic starts.
struct Start<'a> {
    theta: &'a [f64],
    velocity: &'a [f64],
    /// vᵀG(θ)v.
    squared_speed: f64,
}

impl<'a> Start<'a> {
    /// An attempt from here, for unit time.
    fn attempt(&self, tolerances: (f64, f64), hopeless: f64, budget: Budget) -> Attempt<'a> {
        let &Start { theta, velocity, squared_speed } = self;
        Attempt { theta, velocity, time: 1.0, tolerances, squared_speed, hopeless, budget }
    }
}

/// The exponential map of a metric for one thread, with buffers that are reused from one geodesic to the next.
///
/// ```
/// use riemannian_laplace::internals::geodesic::ExponentialMap;
/// use riemannian_laplace::GeodesicOptions;
/// use riemannian_laplace::internals::metric;
///
/// let metric = metric::euclidean(2);
/// let mut exponential = ExponentialMap::new(&metric, GeodesicOptions::default())?;
/// let geodesic = exponential.map(&[1.0, 1.0], &[0.5, -0.5])?;
/// assert!((geodesic.theta[0] - 1.5).abs() < 1e-12 && (geodesic.theta[1] - 0.5).abs() < 1e-12);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub struct ExponentialMap<'a> {
    pub(super) evaluator: Box<dyn MetricEvaluator>,
    pub(super) progress: &'a dyn Progress,
    pub(super) options: GeodesicOptions,
    pub(super) engine: Engine,
    pub(super) state: Vec<f64>,
    pub(super) n_params: usize,
}

impl<'a> ExponentialMap<'a> {
    /// The exponential map of this metric.
    pub fn new(metric: &'a dyn Metric, options: GeodesicOptions) -> Result<Self> {
        options.validate()?;
        let n_params = metric.n_params();
        let mut evaluator = metric.evaluator();
        let engine = Engine::new(&options, n_params, &mut *evaluator);
        Ok(Self { evaluator, progress: &(), options, engine, state: vec![0.0; 2 * n_params], n_params })
    }

    /// Asks before every evaluation of the acceleration whether to continue; if not, the error is [`Error::Cancelled`].
    pub fn watched_by(self, progress: &'a dyn Progress) -> Self {
        Self { progress, ..self }
    }

    /// Follows the geodesic from `theta` with initial velocity `velocity` for unit time, at tighter and tighter tolerances
    /// until it is certified or the attempts are used up.
    pub fn map(&mut self, theta: &[f64], velocity: &[f64]) -> Result<Geodesic> {
        check_size("length of the starting point", self.n_params, theta.len())?;
        check_size("length of the velocity", self.n_params, velocity.len())?;
        let start = Start { theta, velocity, squared_speed: self.evaluator.squared_speed(theta, velocity) };
        let mut refinement = Refinement::new(&self.options, self.n_params, self.engine.is_pulled());
        loop {
            let mut found = self.attempt(&start, &mut refinement)?;
            if let Some(geodesic) = &mut found
                && refinement.keeps(geodesic)
                && refinement.checks_end
            {
                geodesic.end_error = self.end_error(&start, &mut refinement, &geodesic.theta)?;
                geodesic.check_evaluations = refinement.check_evaluations;
            }
            if let Some(geodesic) = refinement.judge(found) {
                return Ok(geodesic);
            }
        }
    }

    /// One integration at the present tolerances; none where it was abandoned.
    fn attempt(&mut self, start: &Start<'_>, refinement: &mut Refinement) -> Result<Option<Geodesic>> {
        refinement.attempt += 1;
        let limit = if refinement.is_last() { f64::INFINITY } else { refinement.hopeless };
        let ending = self.integrate_within(start.attempt(refinement.tolerances, limit, refinement.budget))?;
        let Ending { status, evaluations, path_drift, carried, unprojected } = ending;
        refinement.spend(evaluations);
        let status = match status {
            ControlFlow::Continue(status) => status,
            ControlFlow::Break(Abandoned::Limit) => Status::StepLimit,
            ControlFlow::Break(Abandoned::Hopeless) => return Ok(None),
        };
        let residual = self.evaluator.path_residual();
        // A projection must not certify what was not followed.
        let before = unprojected.as_ref().map_or(0.0, |unprojected| unprojected.drift);
        let drift = larger(self.drift(start.squared_speed), before);
        let (theta, velocity) = self.state.split_at(self.n_params);
        let off_graph = match unprojected {
            Some(unprojected) => Some(unprojected.off_graph),
            None => {
                carried.map(|carried| carried.distance(&self.evaluator.isometric_outputs(theta).unwrap_or_default()))
            }
        };
        Ok(Some(Geodesic {
            theta: theta.to_vec(),
            velocity: velocity.to_vec(),
            evaluations: refinement.evaluations,
            check_evaluations: refinement.check_evaluations,
            attempts: refinement.attempt,
            drift,
            path_drift,
            residual,
            off_graph,
            end_error: f64::INFINITY,
            status,
            certificate: None,
            certified: false,
        }))
    }

    /// The error of an end, by comparison with that at another tolerance: of an earlier attempt where one reached its end,
    /// otherwise of an integration for this purpose.
    fn end_error(&mut self, start: &Start<'_>, refinement: &mut Refinement, end: &[f64]) -> Result<f64> {
        let other = match refinement.looser.take() {
            Some(other) => Some(other),
            None if self.evaluator.end_distance(end, end).is_none() => {
                refinement.checks_end = false;
                return Ok(f64::INFINITY);
            }
            None => {
                let tolerances = refinement.tolerances_of_check();
                let (hopeless, budget) = (10.0 * refinement.hopeless, refinement.budget_of_check());
                let ending = self.integrate_within(start.attempt(tolerances, hopeless, budget))?;
                refinement.check_evaluations += ending.evaluations;
                refinement.budget.spend(ending.evaluations);
                let reached = matches!(ending.status, ControlFlow::Continue(Status::Reached));
                reached.then(|| self.state[..self.n_params].to_vec())
            }
        };
        Ok(stated_error(other.and_then(|other| self.evaluator.end_distance(end, &other))))
    }

    /// The whole path of a geodesic, for drawing.
    pub fn path(&mut self, theta: &[f64], velocity: &[f64]) -> Result<DensePath> {
        check_size("length of the starting point", self.n_params, theta.len())?;
        check_size("length of the velocity", self.n_params, velocity.len())?;
        self.set_state(theta, velocity);
        let (rtol, atol) = self.options.first_tolerances(self.n_params);
        self.evaluator.begin_path(rtol);
        let Self { evaluator, progress, options, state, n_params, .. } = self;
        let cancelled = Cell::new(false);
        let mut derivative = |t: f64, state: &[f64], derivative: &mut [f64]| {
            if progress.is_cancelled() {
                cancelled.set(true);
                return derivative.fill(f64::NAN);
            }
            evaluator.at_time(t);
            geodesic_derivative(&mut **evaluator, *n_params, state, derivative);
        };
        let mut workspace = ode::Workspace::new(options.integrator, 2 * *n_params);
        let (_, path) = ode::solve_dense(&mut derivative, 0.0, 1.0, state, &options.ivp(rtol, atol), &mut workspace)?;
        if cancelled.get() { Err(Error::Cancelled) } else { Ok(path) }
    }

    /// a(θ, θ̇) at a state.
    pub(super) fn acceleration(&mut self, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]) {
        self.evaluator.acceleration(theta, velocity, acceleration);
    }

    /// Whether to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    /// The end state (θ, θ̇) of the last integration.
    pub(super) fn state(&self) -> &[f64] {
        &self.state
    }

    pub(super) fn set_state(&mut self, theta: &[f64], velocity: &[f64]) {
        self.state[..self.n_params].copy_from_slice(theta);
        self.state[self.n_params..].copy_from_slice(velocity);
    }

    fn drift(&mut self, start: f64) -> f64 {
        let (theta, velocity) = self.state.split_at(self.n_params);
        relative_change(start, self.evaluator.squared_speed(theta, velocity))
    }
}

/// d(θ, θ̇)/dt = (θ̇, a(θ, θ̇)).
fn geodesic_derivative(evaluator: &mut dyn MetricEvaluator, n_params: usize, state: &[f64], derivative: &mut [f64]) {
    let (theta, velocity) = state.split_at(n_params);
    let (position_part, velocity_part) = derivative.split_at_mut(n_params);
    position_part.copy_from_slice(velocity);
    evaluator.acceleration(theta, velocity, velocity_part);
}
