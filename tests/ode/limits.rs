//! Limits, states that are not finite and invalid input.

use riemannian_laplace::internals::ode::{
    Integrator, InvalidOptions, IvpOptions, Status, Workspace, solve, solve_dense, solve_fixed,
};

use super::{options, per_step, problems, run};

/// A right-hand side with state.
type DynRhs<'a> = dyn FnMut(f64, &[f64], &mut [f64]) + 'a;

/// x′ = x² from 1, which has its pole at t = 1.
fn square(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[0] * y[0];
}

#[test]
fn the_step_limit_counts_attempts_and_keeps_the_last_state() {
    let problem = problems::named("van_der_pol");
    for method in Integrator::ALL {
        for max_steps in [0, 1, 17] {
            let limited = IvpOptions { max_steps, ..options(method, 1e-6, 1e-9) };
            let (info, y) = run(&problem, &limited);
            assert_eq!(info.status, Status::StepLimit);
            assert_eq!(info.accepted + info.rejected, max_steps);
            assert_eq!(info.evaluations, 2 + max_steps * per_step(method));
            // The state is the one an unlimited solve has at that time.
            let mut free = problem.y0.clone();
            let mut workspace = Workspace::new(method, 2);
            let mut rhs = problem.rhs;
            let unlimited = options(method, 1e-6, 1e-9);
            let (t0, t1) = (problem.t0, problem.t1);
            let (_, path) =
                solve_dense(&mut rhs, t0, t1, &mut free, &unlimited, &mut workspace).expect("valid options");
            assert_eq!(path.times()[info.accepted], info.t);
            assert_eq!(path.state(info.accepted), y);
        }
    }
}

#[test]
fn a_pole_ends_the_solve() {
    for method in Integrator::ALL {
        for rtol in [1e-1, 1e-3, 1e-8] {
            for start in [1.0, 1e150, -1e300] {
                let mut y = [start];
                let mut workspace = Workspace::new(method, 1);
                let limited = IvpOptions { max_steps: 100_000, ..options(method, rtol, rtol * 1e-3) };
                let target = if start > 0.0 { 2.0 } else { -2.0 };
                let info = solve(&mut square, 0.0, target, &mut y, &limited, &mut workspace).expect("valid options");
                assert_ne!(info.status, Status::Reached, "{method} {rtol:e} {start:e}");
                assert!(y[0].is_finite() && info.t.is_finite());
            }
        }
    }
}

#[test]
fn what_is_not_finite_is_reported() {
    let default = IvpOptions::default();
    for method in Integrator::ALL {
        let options = IvpOptions { integrator: method, ..default };
        let mut workspace = Workspace::new(method, 2);
        let mut run = |rhs: &mut DynRhs, t0, t1, start: [f64; 2]| {
            let mut y = start;
            let mut rhs = |t: f64, y: &[f64], out: &mut [f64]| rhs(t, y, out);
            let info = solve(&mut rhs, t0, t1, &mut y, &options, &mut workspace).expect("valid options");
            (info, y)
        };
        let mut steady = |_t: f64, _y: &[f64], out: &mut [f64]| out.fill(1.0);

        // At the start: the derivative, the state, the times.
        let mut bad = |_t: f64, _y: &[f64], out: &mut [f64]| out.copy_from_slice(&[0.0, f64::NAN]);
        let (info, y) = run(&mut bad, 0.0, 1.0, [1.0, 2.0]);
        let costs = (info.evaluations, info.accepted, info.rejected);
        assert_eq!((info.status, info.t, costs), (Status::NotFinite, 0.0, (1, 0, 0)));
        assert_eq!(y, [1.0, 2.0]);
        let (info, _) = run(&mut steady, 0.0, 1.0, [1.0, f64::INFINITY]);
        assert_eq!((info.status, info.evaluations), (Status::NotFinite, 0));
        for (t0, t1) in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (-f64::MAX, f64::MAX)] {
            let (info, _) = run(&mut steady, t0, t1, [1.0, 2.0]);
            assert_eq!((info.status, info.evaluations), (Status::NotFinite, 0));
        }

        // Midway: a wall in time; the last state before it is kept.
        let mut wall = |t: f64, _y: &[f64], out: &mut [f64]| {
            out.fill(if t > 0.6 { f64::NAN } else { 1.0 });
        };
        let (info, y) = run(&mut wall, 0.0, 1.0, [0.0, 1.0]);
        assert_eq!(info.status, Status::NotFinite);
        assert!(info.t <= 0.6 && info.t > 0.6 - 1e-14, "{method}: {}", info.t);
        assert!((y[0] - info.t).abs() < 1e-14 && (y[1] - 1.0 - info.t).abs() < 1e-14);
        assert!(info.accepted + info.rejected < default.max_steps);

        // A single stage that fails is enough to reject, whichever it is.
        for failing in 0..per_step(method) {
            let mut calls = 0;
            let mut once = |_t: f64, _y: &[f64], out: &mut [f64]| {
                out.fill(if calls == failing + 2 { f64::NAN } else { 1.0 });
                calls += 1;
            };
            let (info, _) = run(&mut once, 0.0, 1.0, [0.0, 1.0]);
            assert_eq!((info.status, info.rejected), (Status::Reached, 1), "{method} {failing}");
        }
    }
}

#[test]
fn intervals_without_length_and_empty_states_are_reached() {
    for method in Integrator::ALL {
        let options = IvpOptions { integrator: method, ..IvpOptions::default() };
        let mut y = [0.5];
        let mut workspace = Workspace::new(method, 1);
        let (info, path) = solve_dense(&mut square, 3.0, 3.0, &mut y, &options, &mut workspace).expect("valid options");
        assert_eq!((info.status, info.t, info.evaluations), (Status::Reached, 3.0, 1));
        let mut out = [0.0, 7.0];
        path.at(4.0, &mut out);
        assert_eq!((out, path.times()), ([0.5, 7.0], &[3.0][..]));
        let mut empty = Workspace::new(method, 0);
        let mut nothing = |_t: f64, _y: &[f64], _out: &mut [f64]| {};
        let info = solve(&mut nothing, 0.0, 1.0, &mut [], &options, &mut empty).expect("valid options");
        assert_eq!((info.status, info.t), (Status::Reached, 1.0));
    }
}

#[test]
fn a_workspace_leaves_no_trace_from_solve_to_solve() {
    for method in Integrator::ALL {
        let options = options(method, 1e-6, 1e-9);
        let problem = problems::named("kepler");
        let (fresh, expected) = run(&problem, &options);
        let mut workspace = Workspace::new(method, 4);
        let mut bad = |t: f64, _y: &[f64], out: &mut [f64]| out.fill(1.0 / (t - 0.3).max(0.0));
        let mut y = [1.0; 4];
        solve(&mut bad, 1.0, 0.0, &mut y, &options, &mut workspace).expect("valid options");
        let mut rhs = problem.rhs;
        for _ in 0..2 {
            y.copy_from_slice(&problem.y0);
            let (t0, t1) = (problem.t0, problem.t1);
            let info = solve(&mut rhs, t0, t1, &mut y, &options, &mut workspace).expect("valid options");
            assert_eq!((info, &y[..]), (fresh, &expected[..]));
        }
    }
}

#[test]
fn a_number_that_stays_zero_needs_no_absolute_tolerance() {
    for method in Integrator::ALL {
        let options = options(method, 1e-6, 0.0);
        let mut workspace = Workspace::new(method, 2);
        let mut rhs = |_t: f64, y: &[f64], out: &mut [f64]| out.copy_from_slice(&[-y[0], 0.0]);
        let mut y = [1.0, 0.0];
        let info = solve(&mut rhs, 0.0, 1.0, &mut y, &options, &mut workspace).expect("valid options");
        assert_eq!(info.status, Status::Reached);
        assert!((y[0] - (-1f64).exp()).abs() < 1e-5 && y[1] == 0.0);
    }
}

#[test]
fn invalid_input_is_refused_without_an_evaluation() {
    let good = IvpOptions::default();
    let with = |change: fn(&mut IvpOptions)| {
        let mut options = good;
        change(&mut options);
        options
    };
    assert_eq!(good.validate(), Ok(()));
    assert_eq!(with(|o| o.rtol = 0.0).validate(), Ok(()));
    assert_eq!(with(|o| o.atol = 0.0).validate(), Ok(()));
    let bad = [
        (with(|o| o.rtol = -1e-3), InvalidOptions::RelativeTolerance(-1e-3)),
        (with(|o| o.rtol = f64::INFINITY), InvalidOptions::RelativeTolerance(f64::INFINITY)),
        (with(|o| o.atol = -1.0), InvalidOptions::AbsoluteTolerance(-1.0)),
        (with(|o| (o.rtol, o.atol) = (0.0, 0.0)), InvalidOptions::NoTolerance),
        (with(|o| o.first_step = Some(0.0)), InvalidOptions::FirstStep(0.0)),
        (with(|o| o.first_step = Some(-1.0)), InvalidOptions::FirstStep(-1.0)),
    ];
    for (options, error) in &bad {
        assert_eq!(options.validate(), Err(*error));
        assert!(error.to_string().contains(';'), "{error}");
    }
    let mut unasked = |_t: f64, _y: &[f64], _out: &mut [f64]| panic!("evaluated");
    let nan = [with(|o| o.rtol = f64::NAN), with(|o| o.atol = f64::NAN), with(|o| o.first_step = Some(f64::NAN))];
    let other = with(|o| o.integrator = Integrator::Bosh3);
    let mut workspace = Workspace::new(good.integrator, 1);
    for options in bad.iter().map(|(options, _)| options).chain(&nan).chain([&other]) {
        let mut y = [1.0];
        assert!(solve(&mut unasked, 0.0, 0.5, &mut y, options, &mut workspace).is_err());
        assert_eq!(y, [1.0]);
    }
    let mut long = [1.0; 3];
    let short = InvalidOptions::WorkspaceDim(1);
    assert_eq!(solve(&mut unasked, 0.0, 0.5, &mut long, &good, &mut workspace), Err(short));
    assert_eq!(solve_fixed(&mut unasked, 0.0, 0.5, &mut long, 5, &mut workspace), Err(short));
    assert_eq!(solve_dense(&mut unasked, 0.0, 0.5, &mut long, &good, &mut workspace), Err(short));
    assert_eq!(workspace.check(Integrator::Bosh3, 1), Err(InvalidOptions::WorkspaceIntegrator("dopri5")));
    assert_eq!(workspace.check(Integrator::Dopri5, 3), Err(InvalidOptions::WorkspaceDim(1)));
}
