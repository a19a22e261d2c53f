//! Tests of the `ode` module: convergence orders, solutions, agreement with SciPy's `solve_ivp` (`tests/fixtures/ode`)
//! and behaviour on bad input.

#[path = "ode/adams.rs"]
mod adams;
#[path = "ode/convergence.rs"]
mod convergence;
#[path = "ode/limits.rs"]
mod limits;
#[path = "ode/problems.rs"]
mod problems;
#[path = "ode/scipy.rs"]
mod scipy;

use riemannian_laplace::internals::ode::{Integrator, IvpInfo, IvpOptions, Tableau, Workspace, solve};

use problems::Problem;

/// Largest difference of two states.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |largest, d| if d > largest || d.is_nan() { d } else { largest })
}

/// The Runge–Kutta pairs with their coefficients.
fn pairs() -> impl Iterator<Item = (Integrator, &'static Tableau)> {
    Integrator::ALL.into_iter().filter_map(|method| Some((method, method.tableau()?)))
}

/// The evaluations that a trial step costs.
fn per_step(method: Integrator) -> usize {
    method.tableau().map_or(1, Tableau::last)
}

/// Options without a limit on steps.
fn options(method: Integrator, rtol: f64, atol: f64) -> IvpOptions {
    IvpOptions { integrator: method, rtol, atol, max_steps: usize::MAX, ..IvpOptions::default() }
}

/// Solves a problem, with the outcome and the final state.
fn run(problem: &Problem, options: &IvpOptions) -> (IvpInfo, Vec<f64>) {
    let mut y = problem.y0.clone();
    let mut workspace = Workspace::new(options.integrator, y.len());
    let mut rhs = problem.rhs;
    let info = solve(&mut rhs, problem.t0, problem.t1, &mut y, options, &mut workspace).expect("valid options");
    (info, y)
}
