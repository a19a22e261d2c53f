//! Initial value problems `y' = f(t, y)`, `y(t0) = y0`, by embedded explicit
//! Runge-Kutta pairs or the Adams method, with adaptive steps.
//!
//! [`solve`] integrates a state in place, [`solve_dense`] also records the path
//! with its interpolants, and [`solve_fixed`] takes equal steps without error
//! control. Step control of the pairs is that of SciPy's `solve_ivp`, down to the
//! count of evaluations (see `control`); the methods are those of [`Method`].
//!
//! The right-hand side is `rhs(t, y, out)` and writes `f(t, y)` to `out`. Where
//! it cannot be evaluated it writes `NaN`: the trial step is then rejected and a
//! shorter one tried, so that a solution that stays clear of the bad region is
//! still found. It may be given states that are not finite.
//!
//! ```
//! use riemannian_laplace::ode::{IvpOptions, Status, Workspace, solve};
//!
//! let options = IvpOptions { rtol: 1e-8, atol: 1e-10, ..IvpOptions::default() };
//! let mut workspace = Workspace::new(options.method, 2);
//! let mut oscillator = |_t: f64, y: &[f64], out: &mut [f64]| {
//!     out[0] = y[1];
//!     out[1] = -y[0];
//! };
//! let mut y = [1.0, 0.0];
//! let info = solve(&mut oscillator, 0.0, 1.0, &mut y, &options, &mut workspace);
//! assert_eq!(info.status, Status::Reached);
//! assert!((y[0] - 1f64.cos()).abs() < 1e-7);
//! ```
//!
//! Sources: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta
//! formulae", J. Comput. Appl. Math. 6 (1980) 19-26; E. Hairer, S. P. Norsett
//! and G. Wanner, *Solving Ordinary Differential Equations I: Nonstiff
//! Problems*, 2nd ed., Springer 1993.

mod adams;
mod control;
mod dense;
mod dop853;
mod drive;
mod stepper;
mod tableau;
#[cfg(test)]
mod tests;

use std::fmt;

pub use dense::DensePath;
pub use tableau::{DenseRule, ErrorRule, Method, Stage, Tableau, UnknownMethod, Weights};

use adams::Adams;
use stepper::Stepper;

/// Method, tolerances and limits of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IvpOptions {
    /// The method.
    pub method: Method,
    /// Relative tolerance: the local error of a number `y` is kept below about
    /// `atol + rtol |y|`. Values below `100 eps` count as `100 eps`.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Largest number of attempted steps, accepted and rejected together.
    pub max_steps: usize,
    /// Size of the first step, positive in either direction of time and cut to
    /// the interval; chosen at the cost of one evaluation if `None`.
    pub first_step: Option<f64>,
}

impl Default for IvpOptions {
    /// `dopri5`, `rtol = 1e-3`, `atol = 1e-6`, 4096 steps, first step chosen.
    fn default() -> Self {
        IvpOptions { method: Method::Dopri5, rtol: 1e-3, atol: 1e-6, max_steps: 4096, first_step: None }
    }
}

impl IvpOptions {
    /// Says what is wrong with the options, if anything.
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

/// What is wrong with [`IvpOptions`], or with a [`Workspace`] for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InvalidOptions {
    /// The relative tolerance is negative or not finite.
    RelativeTolerance(f64),
    /// The absolute tolerance is negative or not finite.
    AbsoluteTolerance(f64),
    /// Both tolerances are zero.
    NoTolerance,
    /// The first step is not a positive finite number.
    FirstStep(f64),
    /// The workspace was made for another method.
    WorkspaceMethod(Method),
    /// The workspace was made for another number of unknowns.
    WorkspaceDim(usize),
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RelativeTolerance(rtol) => {
                write!(f, "rtol is {rtol}; it must be finite and not negative")
            }
            Self::AbsoluteTolerance(atol) => {
                write!(f, "atol is {atol}; it must be finite and not negative")
            }
            Self::NoTolerance => f.write_str("rtol and atol are both zero; set one of them"),
            Self::FirstStep(step) => {
                write!(f, "first_step is {step}; it must be positive and finite, or None to have it chosen")
            }
            Self::WorkspaceMethod(method) => {
                write!(f, "the workspace is for {method}; make one with Workspace::new for the method asked for")
            }
            Self::WorkspaceDim(dim) => write!(
                f,
                "the workspace is for {dim} unknowns; make one with Workspace::new for the length of the state"
            ),
        }
    }
}

impl std::error::Error for InvalidOptions {}

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The final time was reached.
    Reached,
    /// The attempted steps ran out, or the tolerance asks for steps below the
    /// spacing of floating-point numbers.
    StepLimit,
    /// The initial state, its derivative or the times are not finite, or no step
    /// was short enough to avoid states or derivatives that are not.
    NotFinite,
    /// [`solve_while`] was told not to go on.
    Stopped,
    /// Nothing was evaluated: [`IvpOptions::validate`] or [`Workspace::check`]
    /// fails, or [`solve_fixed`] was asked for a method without a fixed order.
    Invalid,
}

/// Outcome and cost of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IvpInfo {
    /// How the solve ended.
    pub status: Status,
    /// The time of the state handed back: the final time, or that of the last
    /// accepted step.
    pub t: f64,
    /// Number of evaluations of the right-hand side.
    pub evaluations: usize,
    /// Number of accepted steps.
    pub accepted: usize,
    /// Number of rejected steps.
    pub rejected: usize,
}

/// Storage for solves with one method and one number of unknowns. [`solve`] and
/// [`solve_fixed`] allocate nothing beyond it, so keep it for many solves.
#[derive(Clone, Debug)]
pub struct Workspace {
    method: Method,
    engine: Engine,
}

/// What takes the steps.
#[derive(Clone, Debug)]
enum Engine {
    Pair(Stepper),
    Adams(Box<Adams>),
}

impl Workspace {
    /// Storage for `method` and states of length `dim`.
    pub fn new(method: Method, dim: usize) -> Self {
        let engine = match method.tableau() {
            Some(tableau) => Engine::Pair(Stepper::new(tableau, dim)),
            None => Engine::Adams(Box::new(Adams::new(dim))),
        };
        Workspace { method, engine }
    }

    /// The method it is for.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The length of the states it is for.
    pub fn dim(&self) -> usize {
        match &self.engine {
            Engine::Pair(stepper) => stepper.dim(),
            Engine::Adams(adams) => adams.dim(),
        }
    }

    /// Says whether it is for `method` and states of length `dim`.
    pub fn check(&self, method: Method, dim: usize) -> Result<(), InvalidOptions> {
        if self.method != method {
            Err(InvalidOptions::WorkspaceMethod(self.method))
        } else if self.dim() != dim {
            Err(InvalidOptions::WorkspaceDim(self.dim()))
        } else {
            Ok(())
        }
    }
}

/// Integrates `y' = rhs(t, y)` from `t0` to `t1`, forward or backward, with `y`
/// the state at `t0` before and at [`IvpInfo::t`] after.
pub fn solve(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
) -> IvpInfo {
    drive::adaptive(rhs, (t0, t1), y, options, workspace, None, &mut || true)
}

/// [`solve`] that asks after every accepted step whether to go on. If not, the status is [`Status::Stopped`] and the
/// state that of the step.
///
/// ```
/// use std::cell::Cell;
/// use riemannian_laplace::ode::{IvpOptions, Status, Workspace, solve_while};
///
/// let (options, height, mut y) = (IvpOptions::default(), Cell::new(0.0), [1.0]);
/// let mut workspace = Workspace::new(options.method, 1);
/// let mut growth = |_: f64, y: &[f64], slope: &mut [f64]| {
///     height.set(y[0]);
///     slope[0] = y[0];
/// };
/// let info = solve_while(&mut growth, 0.0, 10.0, &mut y, &options, &mut workspace, &mut || height.get() < 20.0);
/// assert_eq!(info.status, Status::Stopped);
/// assert!(info.t < 10.0 && (y[0] - info.t.exp()).abs() < 0.1 * y[0]);
/// ```
pub fn solve_while(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
    go_on: &mut dyn FnMut() -> bool,
) -> IvpInfo {
    drive::adaptive(rhs, (t0, t1), y, options, workspace, None, go_on)
}

/// [`solve`] that also returns the path, up to where it came. The dense output
/// of `dop853` costs three more evaluations an accepted step.
pub fn solve_dense(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    options: &IvpOptions,
    workspace: &mut Workspace,
) -> (IvpInfo, DensePath) {
    let mut path = DensePath::new(options.method, t0, y);
    let info = drive::adaptive(rhs, (t0, t1), y, options, workspace, Some(&mut path), &mut || true);
    (info, path)
}

/// Integrates from `t0` to `t1` in `steps` equal steps, with no control of the
/// error; `y` as for [`solve`]. For convergence studies. It stops before a step
/// whose end is not finite; with no steps over an interval that has a length the
/// status is [`Status::StepLimit`]. For [`Method::Adams`], whose order varies, it is
/// [`Status::Invalid`].
pub fn solve_fixed(
    rhs: &mut impl FnMut(f64, &[f64], &mut [f64]),
    t0: f64,
    t1: f64,
    y: &mut [f64],
    steps: usize,
    workspace: &mut Workspace,
) -> IvpInfo {
    drive::fixed(rhs, (t0, t1), y, steps, workspace)
}
