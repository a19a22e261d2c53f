//! Tests of the coefficients and of the rules of step control.

use super::control::{Tolerance, factor, first_step, min_step};
use super::stepper::Stepper;
use super::tableau::{DenseRule, ErrorRule, Integrator, Tableau, UnknownIntegrator};

/// The Runge–Kutta pairs.
fn pairs() -> impl Iterator<Item = &'static Tableau> {
    Integrator::ALL.into_iter().filter_map(Integrator::tableau)
}

/// Sum of the weights of a row, each times a power of the node of its stage.
fn moment(tableau: &Tableau, row: &[(usize, f64)], power: i32) -> f64 {
    let node = |stage: usize| match stage {
        0 => 0.0,
        _ if stage < tableau.last() => tableau.stages[stage - 1].node,
        _ if stage == tableau.last() => 1.0,
        _ => match tableau.dense {
            DenseRule::Nested { extra, .. } => extra[stage - tableau.last() - 1].node,
            DenseRule::Powers(_) => f64::NAN,
        },
    };
    row.iter().map(|&(stage, weight)| weight * node(stage).powi(power)).sum()
}

#[test]
fn coefficients_satisfy_the_quadrature_conditions() {
    for tableau in pairs() {
        let method = tableau.name;
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-13, "{method}: {a} {b}");
        for (index, stage) in (1..).zip(tableau.stages) {
            assert!(stage.weights.iter().all(|(j, w)| *j < index && *w != 0.0));
            close(moment(tableau, stage.weights, 0), stage.node);
        }
        for power in 0..tableau.order as i32 {
            close(moment(tableau, tableau.solution, power), 1.0 / f64::from(power + 1));
        }
        assert!(tableau.solution.iter().all(|(stage, _)| *stage < tableau.last()));
        let (first, rows) = match tableau.error {
            ErrorRule::Single(row) => (row, vec![(row, tableau.error_order)]),
            ErrorRule::Combined { fifth, third } => (fifth, vec![(fifth, 5), (third, 3)]),
        };
        assert!((0..=tableau.last()).eq(first.iter().map(|(stage, _)| *stage)));
        for (row, order) in rows {
            for power in 0..order as i32 {
                close(moment(tableau, row, power), 0.0);
            }
            assert!(moment(tableau, row, order as i32).abs() > 1e-5, "{method}");
        }
    }
}

#[test]
fn dense_rows_satisfy_the_quadrature_conditions() {
    for tableau in pairs() {
        let method = tableau.name;
        match tableau.dense {
            // The coefficient of xʳ in the integral of t^power to x.
            DenseRule::Powers(rows) => {
                assert_eq!(rows.len(), tableau.dense_order);
                for (r, row) in (1..).zip(rows) {
                    for power in 0..tableau.dense_order as i32 {
                        let expected = if r == power + 1 { 1.0 / f64::from(r) } else { 0.0 };
                        let found = moment(tableau, row, power);
                        assert!((found - expected).abs() < 1e-13, "{method} {r} {power}");
                    }
                }
            }
            DenseRule::Nested { extra, rest } => {
                assert_eq!(rest.len() + 3, tableau.dense_order);
                for (index, stage) in (tableau.last() + 1..).zip(extra) {
                    assert!(stage.weights.iter().all(|(j, w)| *j < index && *w != 0.0));
                    assert!((moment(tableau, stage.weights, 0) - stage.node).abs() < 1e-13);
                }
                // Lines and parabolas need F₀ … F₂ only.
                for row in rest {
                    for power in 0..3 {
                        assert!(moment(tableau, row, power).abs() < 1e-11, "{method} {power}");
                    }
                }
            }
        }
    }
}

#[test]
fn names_are_parsed_and_written() {
    for method in Integrator::ALL {
        assert_eq!(method.to_string().parse(), Ok(method));
        assert_eq!(format!(" {method} ").to_uppercase().parse(), Ok(method));
    }
    assert_eq!(format!("{:<8}|", Integrator::Bosh3), "bosh3   |");
    let error = "euler".parse::<Integrator>();
    assert_eq!(error, Err(UnknownIntegrator("euler".to_owned())));
    let text = error.map_or_else(|error| error.to_string(), |method| method.to_string());
    assert_eq!(text, "unknown integrator 'euler'; use one of dopri5, dop853, bosh3, adams");
}

#[test]
fn factors_are_bounded() {
    assert_eq!(factor(0.0, 4, false), 10.0);
    assert_eq!(factor(1e-20, 4, false), 10.0);
    assert_eq!(factor(1e-20, 4, true), 1.0);
    assert_eq!(factor(1.0, 4, false), 0.9);
    assert_eq!(factor(1e20, 4, false), 0.2);
    assert_eq!(factor(f64::INFINITY, 4, true), 0.2);
    assert_eq!(factor(f64::NAN, 4, true), 0.2);
    assert_eq!(factor(32.0, 4, false), 0.9 / 2.0);
    assert_eq!(min_step(1.0, 1.0), 10.0 * f64::EPSILON);
    assert_eq!(min_step(1.0, -1.0), 5.0 * f64::EPSILON);
}

#[test]
fn first_steps_stay_within_the_interval() {
    let mut rhs = |_t: f64, y: &[f64], out: &mut [f64]| out[0] = -y[0];
    for tableau in pairs() {
        let method = tableau.name;
        for (y, span) in [(1.0, 1e-9), (1.0, 5.0), (0.0, 1e-9), (1e300, 1.0), (1e-300, 1.0)] {
            let mut stepper = Stepper::new(tableau, 1);
            stepper.start(&mut rhs, 0.0, &[y]);
            for (rtol, atol) in [(1e-3, 1e-6), (1e-12, 0.0), (0.0, 1e-300)] {
                let tolerance = Tolerance::new(rtol, atol);
                let step = first_step(stepper.probe(), &mut rhs, 0.0, 1.0, span, tableau.error_order, tolerance);
                assert!((0.0..=span).contains(&step), "{method} {y:e} {span:e}: {step:e}");
            }
        }
    }
}
