//! Exactness for polynomials, agreement with the first-order method, and bits that depend on neither threads nor foresight.

use super::*;
use crate::ode::{Integrator, Workspace, solve_watched};

fn go_on(_: crate::ode::Trial, _: f64, _: &mut dyn Present) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// At order k a step is exact for accelerations of degree k in t, in velocities and in positions.
#[test]
fn polynomials_are_integrated_exactly() {
    let sizes = [1.0, 1.7, 0.6, 1.1, 2.0, 0.9];
    for order in 1..=8 {
        for degree in 0..=order {
            let power = degree as i32;
            let mut rhs = |t: f64, _: &[f64], _: &[f64], out: &mut [f64]| out[0] = t.powi(power);
            let (mut system, mut t) = (SecondOrder::new(1), 0.0);
            system.start(&mut rhs, 0.0, &[0.0, 0.0]);
            for step in 1..30 {
                system.order = order.min(step);
                let before = system.corrected().to_vec();
                let end = t + 0.05 * sizes[step % 6];
                system.attempt(&mut rhs, end);
                system.accept(end);
                if system.order == order && step > order + 1 {
                    let integral = |n: i32, t: f64| t.powi(power + n);
                    let p = f64::from(power);
                    let velocity = (integral(1, end) - integral(1, t)) / (p + 1.0);
                    let from_zero = (integral(2, end) - integral(2, t)) / ((p + 1.0) * (p + 2.0));
                    let position = from_zero + (before[1] - integral(1, t) / (p + 1.0)) * (end - t);
                    let after = system.corrected();
                    assert!((after[1] - before[1] - velocity).abs() < 1e-12, "order {order}, degree {degree}");
                    assert!((after[0] - before[0] - position).abs() < 1e-12, "order {order}, degree {degree}");
                }
                t = end;
            }
        }
    }
}

/// The forces of springs of different stiffness with friction.
fn springs(dim: usize) -> impl Fn(&[f64], &[f64], &mut [f64]) {
    let stiffness = move |d: usize| 1.0 + 30.0 * (d as f64 / dim as f64);
    move |theta: &[f64], velocity: &[f64], out: &mut [f64]| {
        for (d, out) in out.iter_mut().enumerate() {
            *out = -stiffness(d) * theta[d] - 0.5 * velocity[d];
        }
    }
}

/// Where they start.
fn start_of(dim: usize) -> Vec<f64> {
    (0..2 * dim).map(|d| (1.0 + d as f64).sin()).collect()
}

#[test]
fn it_agrees_with_the_first_order_method_and_costs_as_many_evaluations() -> Result<(), InvalidOptions> {
    let dim = 5;
    let (force, start) = (springs(dim), start_of(dim));
    for rtol in [1e-3, 1e-6, 1e-9] {
        let options = IvpOptions { integrator: Integrator::Adams, rtol, atol: 1e-3 * rtol, ..IvpOptions::default() };
        let (mut first, mut second, mut precise) = (start.clone(), start.clone(), start.clone());
        let mut rhs = |_: f64, y: &[f64], out: &mut [f64]| {
            let (theta, velocity) = y.split_at(dim);
            out[..dim].copy_from_slice(velocity);
            force(theta, velocity, &mut out[dim..]);
        };
        let mut workspace = Workspace::new(Integrator::Adams, 2 * dim);
        let info = solve_watched(&mut rhs, 0.0, 2.0, &mut first, &options, &mut workspace, &mut go_on)?;
        let exact = IvpOptions { rtol: 1e-13, atol: 1e-14, max_steps: 100_000, ..options };
        solve_watched(&mut rhs, 0.0, 2.0, &mut precise, &exact, &mut workspace, &mut go_on)?;
        let mut acceleration = |_: f64, theta: &[f64], velocity: &[f64], out: &mut [f64]| force(theta, velocity, out);
        let mut workspace = SecondOrder::new(dim);
        let other =
            solve_second_order(&mut acceleration, (0.0, 2.0), &mut second, &options, &mut workspace, &mut go_on)?;
        let off = |state: &[f64]| {
            let squares = state.iter().zip(&precise).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            squares.sqrt()
        };
        // Stiffness up to 31 over two units of time: errors grow by less than a hundred.
        assert!(off(&second) < 100.0 * rtol && off(&second) < 20.0 * off(&first) + 1e-12, "{rtol}: {}", off(&second));
        let (expected, found) = (info.evaluations as f64, other.evaluations as f64);
        assert!(found < 1.5 * expected, "{rtol}: {found} evaluations, {expected}");
    }
    Ok(())
}

/// Measured by the norm of velocities, the error at the end falls with the bound as it does with tolerances.
#[test]
fn the_norm_of_velocities_bounds_the_error_too() -> Result<(), InvalidOptions> {
    let dim = 5;
    let (force, start) = (springs(dim), start_of(dim));
    let mut acceleration = |_: f64, theta: &[f64], velocity: &[f64], out: &mut [f64]| force(theta, velocity, out);
    let options = IvpOptions {
        integrator: Integrator::Adams,
        max_steps: 100_000,
        rtol: 1e-13,
        atol: 1e-14,
        ..Default::default()
    };
    let (mut workspace, mut precise) = (SecondOrder::new(dim), start.clone());
    solve_second_order(&mut acceleration, (0.0, 2.0), &mut precise, &options, &mut workspace, &mut go_on)?;
    for bound in [1e-3, 1e-6, 1e-9] {
        let mut state = start.clone();
        workspace.measure_by(ErrorNorm::Velocity(bound));
        solve_second_order(&mut acceleration, (0.0, 2.0), &mut state, &options, &mut workspace, &mut go_on)?;
        let squares = state.iter().zip(&precise).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        // A hundred steps or so, and errors that grow by less than a hundred.
        assert!(squares.sqrt() < 100.0 * bound, "{bound}: {}", squares.sqrt());
    }
    // Errors that are allowed less on the way are those of a bound that was less from there on.
    let error = |at: f64| -> Result<f64, InvalidOptions> {
        let (mut state, mut tightened) = (start.clone(), false);
        workspace.measure_by(ErrorNorm::Velocity(1e-3));
        let mut tighten = |_: crate::ode::Trial, t: f64, present: &mut dyn Present| {
            if t > at && !std::mem::replace(&mut tightened, true) {
                present.tighten(1e6);
            }
            ControlFlow::<()>::Continue(())
        };
        solve_second_order(&mut acceleration, (0.0, 2.0), &mut state, &options, &mut workspace, &mut tighten)?;
        Ok(state.iter().zip(&precise).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
    };
    let [never, late, soon] = [3.0, 1.0, 0.0].map(error);
    assert!(never? > 1e-5 && late? > 1e-6 && soon? < 1e-6);
    Ok(())
}

#[test]
fn threads_change_nothing() -> Result<(), InvalidOptions> {
    let dim = 100_000;
    let (force, start) = (springs(dim), start_of(dim));
    let options = IvpOptions { integrator: Integrator::Adams, rtol: 1e-4, atol: 1e-7, ..IvpOptions::default() };
    let solve = || {
        let mut acceleration = |_: f64, theta: &[f64], velocity: &[f64], out: &mut [f64]| force(theta, velocity, out);
        let (mut workspace, mut state) = (SecondOrder::new(dim), start.clone());
        solve_second_order(&mut acceleration, (0.0, 0.5), &mut state, &options, &mut workspace, &mut go_on)?;
        Ok::<_, InvalidOptions>(state)
    };
    let here = solve()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let alone = pool.map_or_else(|_| Ok(here.clone()), |pool| pool.install(solve))?;
    assert!(here.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()));
    Ok(())
}
