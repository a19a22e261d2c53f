//! Observed orders, and final states against exact solutions.

use riemannian_laplace::internals::ode::{Integrator, IvpOptions, Status, Workspace, solve_dense, solve_fixed};

use super::{distance, options, pairs, problems, run};

/// Slope of the regression line of `log error` on `log h`.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> = points.iter().map(|(h, e)| (h.ln(), e.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_y = logs.iter().map(|p| p.1).sum::<f64>() / count;
    let xy: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let xx: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    xy / xx
}

#[test]
fn observed_orders_are_the_nominal_ones() {
    let problem = problems::named("harmonic");
    let solution = problem.solution.expect("the oscillator is solved");
    for (method, tableau) in pairs() {
        // Steps for which errors are clear of rounding and of higher orders.
        let counts: &[usize] = match method {
            Integrator::Dop853 => &[12, 14, 17, 20, 24, 28],
            _ => &[100, 140, 200, 280, 400],
        };
        let mut workspace = Workspace::new(method, problem.y0.len());
        let errors: Vec<_> = counts
            .iter()
            .map(|&steps| {
                let mut y = problem.y0.clone();
                let mut rhs = problem.rhs;
                let (t0, t1) = (problem.t0, problem.t1);
                let info = solve_fixed(&mut rhs, t0, t1, &mut y, steps, &mut workspace).expect("valid options");
                assert_eq!((info.status, info.accepted, info.t), (Status::Reached, steps, t1));
                assert_eq!(info.evaluations, 1 + steps * tableau.last());
                ((t1 - t0) / steps as f64, distance(&y, &solution(t1)))
            })
            .collect();
        let observed = slope(&errors);
        println!("{method}: order {observed:.3}");
        let nominal = tableau.order as f64;
        assert!((observed - nominal).abs() < 0.2, "{method}: {observed}, {errors:?}");
    }
}

#[test]
fn observed_dense_orders_are_the_nominal_ones() {
    let problem = problems::named("harmonic");
    let solution = problem.solution.expect("the oscillator is solved");
    for (method, tableau) in pairs() {
        // One step of each size, under tolerances that accept anything.
        let loose = options(method, 1e3, 1e3);
        let mut workspace = Workspace::new(method, problem.y0.len());
        let errors: Vec<_> = [0.5, 0.4, 0.32, 0.25, 0.2]
            .iter()
            .map(|&size| {
                let h = if method == Integrator::Dop853 { size } else { size / 5.0 };
                let one = IvpOptions { first_step: Some(h), ..loose };
                let start = 1.0;
                let mut y = solution(start);
                let mut rhs = problem.rhs;
                let (info, path) =
                    solve_dense(&mut rhs, start, start + h, &mut y, &one, &mut workspace).expect("valid options");
                assert_eq!((info.status, info.accepted), (Status::Reached, 1));
                let mut out = vec![0.0; path.dim()];
                let errors = (1..20).map(|i| {
                    let t = start + h * f64::from(i) / 20.0;
                    path.at(t, &mut out);
                    distance(&out, &solution(t))
                });
                (h, errors.fold(0.0, f64::max))
            })
            .collect();
        // Order p means an error of h^(p + 1) within a step.
        let observed = slope(&errors) - 1.0;
        println!("{method}: dense order {observed:.3}");
        let nominal = tableau.dense_order as f64;
        assert!((observed - nominal).abs() < 0.2, "{method}: {observed}, {errors:?}");
    }
}

#[test]
fn final_states_are_those_of_the_exact_solutions() {
    let mut solved = 0;
    for problem in problems::all() {
        let Some(solution) = problem.solution else {
            continue;
        };
        solved += 1;
        let exact = solution(problem.t1);
        assert!(distance(&solution(problem.t0), &problem.y0) < 1e-14, "{}", problem.name);
        for method in Integrator::ALL {
            for (rtol, atol, bound) in [(1e-3, 1e-6, 0.5), (1e-6, 1e-9, 1e-4), (1e-10, 1e-12, 2e-8)] {
                let (info, y) = run(&problem, &options(method, rtol, atol));
                let error = distance(&y, &exact);
                assert_eq!((info.status, info.t), (Status::Reached, problem.t1));
                assert!(error < bound, "{} {method} {rtol:e}: {error:e}", problem.name);
            }
        }
    }
    assert_eq!(solved, 11);
}
