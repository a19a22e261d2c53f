//! Settings that no integrator can work with.

use std::fmt;

/// What is wrong with the options of an integration, with the workspace for them, or with a request for equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum InvalidOptions {
    /// The relative tolerance is negative or not finite.
    RelativeTolerance(f64),
    /// The absolute tolerance is negative or not finite.
    AbsoluteTolerance(f64),
    /// Both tolerances are zero.
    NoTolerance,
    /// The first step is not a positive finite number.
    FirstStep(f64),
    /// The workspace was made for another integrator, named here.
    WorkspaceIntegrator(&'static str),
    /// The workspace was made for another number of unknowns.
    WorkspaceDim(usize),
    /// Equal steps were requested from an integrator, named here, whose order varies.
    EqualSteps(&'static str),
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
            Self::NoTolerance => f.write_str("both tolerances, rtol and atol, are zero; set one of them"),
            Self::FirstStep(step) => {
                write!(f, "first_step is {step}; it must be positive and finite, or None to have it chosen")
            }
            Self::WorkspaceIntegrator(integrator) => {
                write!(
                    f,
                    "the workspace is for {integrator}; make one with Workspace::new for the requested integrator"
                )
            }
            Self::WorkspaceDim(dim) => write!(
                f,
                "the workspace is for {dim} unknowns; make one with Workspace::new for the length of the state"
            ),
            Self::EqualSteps(integrator) => {
                write!(f, "{integrator} has no fixed order to take equal steps with; use a Runge-Kutta pair")
            }
        }
    }
}

impl std::error::Error for InvalidOptions {}
