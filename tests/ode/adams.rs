//! The Adams method: error against tolerance, cost against the pairs, limits of its interface.

use riemannian_laplace::internals::ode::{
    Integrator, InvalidOptions, IvpOptions, Status, Workspace, solve_dense, solve_fixed,
};

use super::{distance, options, problems, run};

/// The error follows the tolerance over six decades, at up to ninety times its value (Kepler's orbit, whose period
/// errors add up).
#[test]
fn errors_follow_the_tolerance() {
    for name in ["harmonic", "kepler"] {
        let problem = problems::named(name);
        let exact = problem.solution.expect("it is solved")(problem.t1);
        let errors: Vec<f64> = (3..=9)
            .map(|exponent| {
                let rtol = 10f64.powi(-exponent);
                let (info, y) = run(&problem, &options(Integrator::Adams, rtol, 1e-3 * rtol));
                let error = distance(&y, &exact);
                assert_eq!(info.status, Status::Reached);
                assert!(error < 150.0 * rtol, "{name} {rtol:e}: {error:e}");
                error
            })
            .collect();
        assert!(errors[0] > 1e5 * errors[6], "{name}: {errors:?}");
    }
}

/// For the same error, at a tolerance ten times smaller, less than half of the evaluations of Dormand and Prince's
/// pair.
#[test]
fn fewer_evaluations_than_the_pair_of_order_five() {
    let problem = problems::named("harmonic");
    let exact = problem.solution.expect("it is solved")(problem.t1);
    let solved = |method, rtol: f64| {
        let (info, y) = run(&problem, &options(method, rtol, 1e-3 * rtol));
        (info.evaluations, distance(&y, &exact))
    };
    for rtol in [1e-6, 1e-8] {
        let (ours, error) = solved(Integrator::Adams, 0.1 * rtol);
        let (theirs, allowed) = solved(Integrator::Dopri5, rtol);
        assert!(error < 2.0 * allowed && 2 * ours < theirs, "{ours} {error:e}, {theirs} {allowed:e}");
    }
}

/// The path meets the states at the ends of the steps and is about as accurate between them.
#[test]
fn the_path_is_accurate_between_steps() {
    let problem = problems::named("harmonic");
    let solution = problem.solution.expect("it is solved");
    let options = options(Integrator::Adams, 1e-6, 1e-9);
    let mut y = problem.y0.clone();
    let mut workspace = Workspace::new(Integrator::Adams, y.len());
    let mut rhs = problem.rhs;
    let (info, path) =
        solve_dense(&mut rhs, problem.t0, problem.t1, &mut y, &options, &mut workspace).expect("valid options");
    assert_eq!((info.status, path.times().len()), (Status::Reached, info.accepted + 1));
    assert_eq!(path.state(info.accepted), y);
    let mut out = vec![0.0; path.dim()];
    let mut worst = 0.0f64;
    for i in 0..=500 {
        let t = problem.t0 + (problem.t1 - problem.t0) * f64::from(i) / 500.0;
        path.at(t, &mut out);
        worst = worst.max(distance(&out, &solution(t)));
    }
    // Ten times the error at the end: cubics over steps of a tenth.
    assert!(worst < 1e-4, "{worst:e}");
}

#[test]
fn equal_steps_are_refused() {
    let problem = problems::named("harmonic");
    let mut y = problem.y0.clone();
    let mut workspace = Workspace::new(Integrator::Adams, y.len());
    let mut rhs = |_t: f64, _y: &[f64], _out: &mut [f64]| panic!("evaluated");
    let refused = solve_fixed(&mut rhs, 0.0, 1.0, &mut y, 10, &mut workspace);
    assert_eq!((refused, y), (Err(InvalidOptions::EqualSteps("adams")), problem.y0));
    assert_eq!(IvpOptions { integrator: Integrator::Adams, ..IvpOptions::default() }.validate(), Ok(()));
}
