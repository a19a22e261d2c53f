//! Initial value problems y′ = f(t, y), y(t₀) = y₀, by embedded explicit Runge–Kutta pairs or the Adams method, with
//! adaptive steps.
//!
//! [`solve`] integrates a state in place, [`solve_dense`] also records the path with its interpolants, and
//! [`solve_fixed`] takes equal steps without error control. Step control of the pairs is that of SciPy's `solve_ivp`,
//! down to the count of evaluations (see `control`); the integrators are those of [`Integrator`].
//!
//! The right-hand side is `rhs(t, y, out)` and writes `f(t, y)` to `out`. Where it cannot be evaluated it writes `NaN`:
//! the trial step is then rejected and a shorter one tried, so that a solution that stays clear of the bad region is
//! still found. It may be given states that are not finite.
//!
//! ```
//! use riemannian_laplace::internals::ode::{IvpOptions, Status, Workspace, solve};
//!
//! let options = IvpOptions { rtol: 1e-8, atol: 1e-10, ..IvpOptions::default() };
//! let mut workspace = Workspace::new(options.integrator, 2);
//! let mut oscillator = |_t: f64, y: &[f64], out: &mut [f64]| {
//!     out[0] = y[1];
//!     out[1] = -y[0];
//! };
//! let mut y = [1.0, 0.0];
//! let info = solve(&mut oscillator, 0.0, 1.0, &mut y, &options, &mut workspace)?;
//! assert_eq!(info.status, Status::Reached);
//! assert!((y[0] - 1f64.cos()).abs() < 1e-7);
//! # Ok::<(), riemannian_laplace::internals::ode::InvalidOptions>(())
//! ```
//!
//! A system θ̈ = a(t, θ, θ̇) with very many unknowns is solved by [`solve_second_order`].
//!
//! Misuse (invalid options, a workspace of another size) is an [`InvalidOptions`] before anything is evaluated; how an
//! integration ended is a [`Status`].
//!
//! Sources: J. R. Dormand and P. J. Prince, "A family of embedded Runge–Kutta formulae", J. Comput. Appl. Math. 6
//! (1980) 19–26; E. Hairer, S. P. Nørsett and G. Wanner, *Solving Ordinary Differential Equations I: Nonstiff
//! Problems*, 2nd ed., Springer 1993.

mod adams;
mod control;
mod course;
mod dense;
mod dop853;
mod drive;
mod second_order;
mod stepper;
mod tableau;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::ops::ControlFlow;

pub use crate::error::InvalidOptions;
pub use dense::DensePath;
pub use drive::Present;
pub use second_order::{ErrorNorm, SecondOrder, solve_second_order};
pub use tableau::{DenseRule, ErrorRule, Integrator, Stage, Tableau, UnknownIntegrator, Weights};

use adams::Adams;
use stepper::Stepper;

/// Integrator, tolerances and limits of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IvpOptions {
    /// The integrator.
    pub integrator: Integrator,
    /// Relative tolerance: the local error of a number `y` is kept below about `atol + rtol |y|`. Values below `100
    /// eps` count as `100 eps`.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Largest number of attempted steps, accepted and rejected together.
    pub max_steps: usize,
    /// Size of the first step, positive in either direction of time and cut to the interval; chosen at the cost of one
    /// evaluation if `None`.
    pub first_step: Option<f64>,
}

impl Default for IvpOptions {
    /// `dopri5`, `rtol = 1e-3`, `atol = 1e-6`, 4096 steps, first step chosen.
    fn default() -> Self {
        IvpOptions { integrator: Integrator::Dopri5, rtol: 1e-3, atol: 1e-6, max_steps: 4096, first_step: None }
    }
}

impl IvpOptions {
    /// Checks the options.
    pub fn validate(&self) -> Result<(), InvalidOptions> {
        let fits = |tolerance: f64| tolerance.is_finite() && tolerance >= 0.0;
        if !fits(self.rtol) {
            return Err(InvalidOptions::RelativeTolerance(self.rtol));
        }
        if !fits(self.atol) {
            return Err(InvalidOptions::AbsoluteTolerance(self.atol));
        }
        if self.rtol == 0.0 && self.atol == 0.0 {
            return Err(InvalidOptions::NoTolerance);
        }
        match self.first_step {
            Some(step) if !(step.is_finite() && step > 0.0) => Err(InvalidOptions::FirstStep(step)),
            _ => Ok(()),
        }
    }
}

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The final time was reached.
    Reached,
    /// The attempted steps ran out, or the tolerance asks for steps below the spacing of floating-point numbers.
    StepLimit,
    /// The initial state, its derivative or the times are not finite, or no step was short enough to avoid states or
    /// derivatives that are not.
    NotFinite,
}

/// Whether a trial step was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trial {
    /// Its error was within the tolerance.
    Accepted,
    /// It was not; a shorter one is tried.
    Rejected,
}

/// Outcome and cost of a solve. Its status is a [`Status`]; that of [`solve_while`] may also be a reason for stopping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IvpInfo<S = Status> {
    /// How the solve ended.
    pub status: S,
    /// The time of the state handed back: the final time, or that of the last accepted step.
    pub t: f64,
    /// Number of evaluations of the right-hand side.
    pub evaluations: usize,
    /// Number of accepted steps.
    pub accepted: usize,
    /// Number of rejected steps.
    pub rejected: usize,
}

impl<S> IvpInfo<S> {
    /// The same with another status.
    fn map<T>(self, change: impl FnOnce(S) -> T) -> IvpInfo<T> {
        let IvpInfo { status, t, evaluations, accepted, rejected } = self;
        IvpInfo { status: change(status), t, evaluations, accepted, rejected }
    }
}

impl IvpInfo<ControlFlow<Infallible, Status>> {
    /// The outcome of a solve that nothing could stop.
    fn ended(self) -> IvpInfo {
        self.map(|ControlFlow::Continue(status)| status)
    }
}

/// Asked after a trial step, with the time and (where it is wanted) the state of the last accepted one, whether to
/// continue.
pub type GoOn<'a, B> = dyn FnMut(Trial, f64, &mut dyn Present) -> ControlFlow<B> + 'a;

/// Continues to the end.
fn always(_: Trial, _: f64, _: &mut dyn Present) -> ControlFlow<Infallible> {
    ControlFlow::Continue(())
}

/// Storage for solves with one integrator and one number of unknowns. [`solve`] and [`solve_fixed`] allocate nothing
/// beyond it, so keep it for many solves.
#[derive(Clone, Debug)]
pub struct Workspace {
    integrator: Integrator,
    engine: Engine,
}

/// What takes the steps.
#[derive(Clone, Debug)]
enum Engine {
    Pair(Stepper),
    Adams(Box<Adams>),
}

impl Workspace {
    /// Storage for `integrator` and states of length `dim`.
    pub fn new(integrator: Integrator, dim: usize) -> Self {
        let engine = match integrator.tableau() {
            Some(tableau) => Engine::Pair(Stepper::new(tableau, dim)),
            None => Engine::Adams(Box::new(Adams::new(dim))),
        };
        Workspace { integrator, engine }
    }

    /// The f64 values that a workspace holds, for estimates before it is made.
    pub fn numbers(integrator: Integrator, dim: usize) -> f64 {
        let rows = match integrator.tableau() {
            Some(tableau) => tableau.last() + 4,
            None => course::STORED + 3,
        };
        rows as f64 * dim as f64
    }

    /// The integrator it is for.
    pub fn integrator(&self) -> Integrator {
        self.integrator
    }

    /// The length of the states it is for.
    pub fn dim(&self) -> usize {
        match &self.engine {
            Engine::Pair(stepper) => stepper.dim(),
            Engine::Adams(adams) => adams.dim(),
        }
    }

    /// Checks that it is for `integrator` and states of length `dim`.
    pub fn check(&self, integrator: Integrator, dim: usize) -> Result<(), InvalidOptions> {
        if self.integrator != integrator {
            Err(InvalidOptions::WorkspaceIntegrator(self.integrator.name()))
        } else if self.dim() != dim {
            Err(InvalidOptions::WorkspaceDim(self.dim()))
        } else {
            Ok(())
        }
    }
}

/// Integrates y′ = rhs(t, y) from `t0` to `t1`, forward or backward, with `y` the state at `t0` before and at
/// [`IvpInfo::t`] after.
pub fn solve(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
) -> Result<IvpInfo, InvalidOptions> {
    drive::adaptive(rhs, (t0, t1), y, options, workspace, None, &mut always).map(IvpInfo::ended)
}

/// [`solve`] that asks after every trial step except the last whether to continue. If not, the status is the reason
/// given, and the state is that of the last accepted step.
///
/// ```
/// use std::cell::Cell;
/// use std::ops::ControlFlow;
/// use riemannian_laplace::internals::ode::{IvpOptions, Trial, Workspace, solve_while};
///
/// let (options, height, mut y) = (IvpOptions::default(), Cell::new(0.0), [1.0]);
/// let mut workspace = Workspace::new(options.integrator, 1);
/// let mut growth = |_: f64, y: &[f64], slope: &mut [f64]| {
///     height.set(y[0]);
///     slope[0] = y[0];
/// };
/// let mut go_on = |trial| match trial {
///     Trial::Accepted if height.get() >= 20.0 => ControlFlow::Break("high enough"),
///     Trial::Accepted | Trial::Rejected => ControlFlow::Continue(()),
/// };
/// let info = solve_while(&mut growth, 0.0, 10.0, &mut y, &options, &mut workspace, &mut go_on)?;
/// assert_eq!(info.status, ControlFlow::Break("high enough"));
/// assert!(info.t < 10.0 && (y[0] - info.t.exp()).abs() < 0.1 * y[0]);
/// # Ok::<(), riemannian_laplace::internals::ode::InvalidOptions>(())
/// ```
pub fn solve_while<B>(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
    go_on: &mut dyn FnMut(Trial) -> ControlFlow<B>,
) -> Result<IvpInfo<ControlFlow<B, Status>>, InvalidOptions> {
    drive::adaptive(rhs, (t0, t1), y, options, workspace, None, &mut |trial, _, _| go_on(trial))
}

/// [`solve_while`] that also shows the time and the state of the last accepted step.
pub fn solve_watched<B>(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
    go_on: &mut GoOn<'_, B>,
) -> Result<IvpInfo<ControlFlow<B, Status>>, InvalidOptions> {
    drive::adaptive(rhs, (t0, t1), y, options, workspace, None, go_on)
}

/// [`solve`] that also returns the path, as far as it got. The dense output of `dop853` costs three more evaluations
/// per accepted step.
pub fn solve_dense(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
) -> Result<(IvpInfo, DensePath), InvalidOptions> {
    let mut path = DensePath::new(options.integrator, t0, y);
    let info = drive::adaptive(rhs, (t0, t1), y, options, workspace, Some(&mut path), &mut always)?;
    Ok((info.ended(), path))
}

/// Integrates from `t0` to `t1` in `steps` equal steps, with no control of the error; `y` as for [`solve`]. For
/// convergence studies. It stops before a step whose end is not finite; with no steps over an interval that has a
/// length the status is [`Status::StepLimit`]. [`Integrator::Adams`], whose order varies, is refused.
pub fn solve_fixed(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    steps: usize,
    workspace: &mut Workspace,
) -> Result<IvpInfo, InvalidOptions> {
    drive::fixed(rhs, (t0, t1), y, steps, workspace)
}
