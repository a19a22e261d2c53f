//! The minimiser on functions whose minima are known: valleys, bad scaling, infinite and undefined regions, boxes.

use riemannian_laplace::internals::optimize::{
    BfgsOptions, Minimum, OptimizeError, Status, minimize, minimize_multistart,
};

type Outcome = Result<(), OptimizeError>;

/// Σ 100(x_{i+1} − x_i²)² + (1 − x_i)², minimal at (1, …, 1).
fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
    gradient.fill(0.0);
    let mut value = 0.0;
    for i in 0..x.len() - 1 {
        let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
        value += a * a + 100.0 * b * b;
        gradient[i] += -2.0 * a - 400.0 * x[i] * b;
        gradient[i + 1] += 200.0 * b;
    }
    value
}

/// ½Σ λ_i (x_i − 1)², λ from 1 to `condition`, in rotated coordinates x → Qx with Q a Householder reflection.
fn quadratic(x: &[f64], gradient: &mut [f64], condition: f64) -> f64 {
    let n = x.len();
    let last = (n - 1) as f64;
    let axis: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5).sin()).collect();
    let square: f64 = axis.iter().map(|a| a * a).sum();
    let reflect = |v: &[f64]| -> Vec<f64> {
        let along = 2.0 * v.iter().zip(&axis).map(|(v, a)| v * a).sum::<f64>() / square;
        v.iter().zip(&axis).map(|(v, a)| v - along * a).collect()
    };
    let offset: Vec<f64> = x.iter().map(|x| x - 1.0).collect();
    let weights = |i: usize| condition.powf(i as f64 / last);
    let rotated = reflect(&offset);
    let pulled: Vec<f64> = rotated.iter().enumerate().map(|(i, r)| weights(i) * r).collect();
    gradient.copy_from_slice(&reflect(&pulled));
    0.5 * rotated.iter().zip(&pulled).map(|(r, p)| r * p).sum::<f64>()
}

fn assert_at(minimum: &Minimum, expected: &[f64], tolerance: f64) {
    for (got, expected) in minimum.point.iter().zip(expected) {
        assert!((got - expected).abs() <= tolerance, "{minimum:?}");
    }
}

fn tight() -> BfgsOptions<'static> {
    BfgsOptions { gradient_tolerance: 1e-10, ..BfgsOptions::default() }
}

#[test]
fn valley_in_two_dimensions() -> Outcome {
    let minimum = minimize(&mut rosenbrock, &[-1.2, 1.0], &tight())?;
    assert_eq!(minimum.status, Status::Converged);
    assert!(minimum.gradient_norm <= 1e-10 && minimum.value < 1e-20);
    assert!(minimum.iterations < 50 && minimum.evaluations < 70, "{minimum:?}");
    assert_at(&minimum, &[1.0; 2], 1e-10);
    Ok(())
}

#[test]
fn valley_in_twenty_dimensions() -> Outcome {
    let start: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
    let minimum = minimize(&mut rosenbrock, &start, &tight())?;
    assert_eq!(minimum.status, Status::Converged);
    assert!(minimum.iterations < 200, "{} steps", minimum.iterations);
    // There is a second minimum near x_0 = −1; this start leads to the global one.
    assert_at(&minimum, &[1.0; 20], 1e-9);
    Ok(())
}

#[test]
fn badly_scaled_quadratic() -> Outcome {
    for n in [2, 10, 40] {
        let mut objective = |x: &[f64], gradient: &mut [f64]| quadratic(x, gradient, 1e8);
        let options = BfgsOptions { gradient_tolerance: 1e-7, ..BfgsOptions::default() };
        let minimum = minimize(&mut objective, &vec![0.0; n], &options)?;
        assert!(minimum.status.is_minimum(), "{n}: {minimum:?}");
        // The smallest eigenvalue is 1, so the error is at most the gradient's length.
        assert_at(&minimum, &vec![1.0; n], 1e-6);
    }
    Ok(())
}

#[test]
fn noise_in_the_value_does_not_stop_the_gradient() -> Outcome {
    // A large constant hides all but the first digits of the valley, and rounding errors of a hundred ulp, as in long
    // sums, move the value up and down; the gradient still falls to the tolerance.
    let mut objective = |x: &[f64], gradient: &mut [f64]| {
        let noise = 100.0 * f64::EPSILON * (1e15 * (x[0] + x[1])).sin();
        1e6 * (1.0 + noise) + rosenbrock(x, gradient)
    };
    let minimum = minimize(&mut objective, &[-1.2, 1.0], &tight())?;
    assert_eq!(minimum.status, Status::Converged);
    assert_at(&minimum, &[1.0; 2], 1e-9);
    Ok(())
}

/// x − µ log x, +∞ (or NaN) for x ≤ 0, minimal at x = µ.
fn barrier(x: &[f64], gradient: &mut [f64], weight: f64, outside: f64) -> f64 {
    let mut value = 0.0;
    for (x, g) in x.iter().zip(gradient.iter_mut()) {
        if *x <= 0.0 {
            *g = f64::NAN;
            value += outside;
        } else {
            *g = 1.0 - weight / x;
            value += x - weight * x.ln();
        }
    }
    value
}

#[test]
fn infinite_and_undefined_regions_are_stepped_back_from() -> Outcome {
    for outside in [f64::INFINITY, f64::NAN, f64::NEG_INFINITY] {
        for weight in [1.0, 1e-3, 1e-6] {
            let mut objective = |x: &[f64], g: &mut [f64]| barrier(x, g, weight, outside);
            let minimum = minimize(&mut objective, &[3.0, 0.5, 40.0], &BfgsOptions::default())?;
            assert_eq!(minimum.status, Status::Converged, "{weight} {minimum:?}");
            // The second derivative is 1/µ: a gradient of 1e-8 is an error of 1e-8 µ.
            assert_at(&minimum, &[weight; 3], 1e-7 * weight);
        }
    }
    Ok(())
}

#[test]
fn values_up_to_overflow() -> Outcome {
    // Σ 2 cosh(x_i − 3i) from far out: one coordinate after another dominates by a hundred orders of magnitude.
    let mut objective = |x: &[f64], gradient: &mut [f64]| {
        let offsets = x.iter().enumerate().map(|(i, x)| x - 3.0 * i as f64);
        gradient.iter_mut().zip(offsets.clone()).for_each(|(g, offset)| *g = 2.0 * offset.sinh());
        offsets.map(|offset| 2.0 * offset.cosh()).sum()
    };
    let minimum = minimize(&mut objective, &[500.0, -600.0, 300.0], &BfgsOptions::default())?;
    assert_eq!(minimum.status, Status::Converged);
    assert_at(&minimum, &[0.0, 3.0, 6.0], 1e-8);
    Ok(())
}

#[test]
fn start_without_a_value() -> Outcome {
    for outside in [f64::INFINITY, f64::NAN] {
        let mut objective = |x: &[f64], g: &mut [f64]| barrier(x, g, 1.0, outside);
        let minimum = minimize(&mut objective, &[-1.0], &BfgsOptions::default())?;
        assert_eq!((minimum.status, minimum.iterations, minimum.evaluations), (Status::NotFinite, 0, 1));
    }
    let minimum = minimize(&mut rosenbrock, &[f64::NAN, 0.0], &BfgsOptions::default())?;
    assert_eq!(minimum.status, Status::NotFinite);
    Ok(())
}

#[test]
fn flat_minimum() -> Outcome {
    // The Hessian vanishes at the minimum: convergence is linear, but the gradient 4x³ still reaches the tolerance.
    let mut quartic = |x: &[f64], gradient: &mut [f64]| {
        gradient.iter_mut().zip(x).for_each(|(g, x)| *g = 4.0 * x.powi(3));
        x.iter().map(|x| x.powi(4)).sum()
    };
    let minimum = minimize(&mut quartic, &[1.0, -3.0, 0.2], &tight())?;
    assert_eq!(minimum.status, Status::Converged);
    assert_at(&minimum, &[0.0; 3], 1e-3);

    let mut constant = |_: &[f64], gradient: &mut [f64]| {
        gradient.fill(0.0);
        7.0
    };
    let minimum = minimize(&mut constant, &[1.0, 2.0], &tight())?;
    assert_eq!((minimum.status, minimum.evaluations), (Status::Converged, 1));
    Ok(())
}

#[test]
fn unreachable_tolerance_is_reported_as_rounding() -> Outcome {
    let options = BfgsOptions { gradient_tolerance: 0.0, ..BfgsOptions::default() };
    let mut objective = |x: &[f64], g: &mut [f64]| 3.0 + quadratic(x, g, 1e3);
    let minimum = minimize(&mut objective, &[0.3; 7], &options)?;
    assert!(minimum.status.is_minimum(), "{minimum:?}");
    assert!(minimum.evaluations < 500, "{minimum:?}");
    Ok(())
}

#[test]
fn wrong_gradient_is_reported() -> Outcome {
    let mut wrong = |x: &[f64], gradient: &mut [f64]| {
        gradient[0] = -2.0 * x[0]; // the sign is wrong
        x[0] * x[0]
    };
    let minimum = minimize(&mut wrong, &[1.0], &BfgsOptions::default())?;
    assert_eq!(minimum.status, Status::LineSearchFailed { gradient_is_small: false });
    Ok(())
}

#[test]
fn kink_is_reported() -> Outcome {
    let mut kink = |x: &[f64], gradient: &mut [f64]| {
        gradient[0] = if x[0] > 0.3 { 1.0 } else { -2.0 };
        if x[0] > 0.3 { x[0] - 0.3 } else { 0.6 - 2.0 * x[0] }
    };
    let minimum = minimize(&mut kink, &[1.0], &BfgsOptions::default())?;
    assert!(!minimum.status.is_minimum());
    assert_at(&minimum, &[0.3], 1e-6);
    Ok(())
}

#[test]
fn iteration_limit() -> Outcome {
    let options = BfgsOptions { max_iterations: 3, ..BfgsOptions::default() };
    let minimum = minimize(&mut rosenbrock, &[-1.2, 1.0], &options)?;
    assert_eq!((minimum.status, minimum.iterations), (Status::IterationLimit, 3));
    assert!(minimum.value < 24.2);
    Ok(())
}

#[test]
fn minimum_on_bounds_satisfies_the_optimality_conditions() -> Outcome {
    let n = 12;
    let some = |i: usize| [(f64::NEG_INFINITY, f64::INFINITY), (1.2, 3.0), (-3.0, 0.4), (0.5, 0.5)][i % 4];
    let narrow = |i: usize| (0.5 + 0.2 * ((7 * i) % 5) as f64, 1.0 + 0.2 * ((7 * i) % 5) as f64);
    for bounds in [(0..n).map(some).collect::<Vec<_>>(), (0..n).map(narrow).collect()] {
        for condition in [1.0, 1e2, 1e5] {
            let mut objective = |x: &[f64], g: &mut [f64]| quadratic(x, g, condition);
            let options = BfgsOptions { bounds: Some(&bounds), ..BfgsOptions::default() };
            let minimum = minimize(&mut objective, &vec![0.0; n], &options)?;
            assert_eq!(minimum.status, Status::Converged);
            assert!(minimum.evaluations < 100, "{condition}: {minimum:?}");
            let mut gradient = vec![0.0; n];
            quadratic(&minimum.point, &mut gradient, condition);
            for (i, (&(lower, upper), x)) in bounds.iter().zip(&minimum.point).enumerate() {
                assert!(lower <= *x && *x <= upper);
                assert_eq!(minimum.at_bound.contains(&i), *x == lower || *x == upper);
                assert!(*x == lower || gradient[i] <= 1e-8, "{i}: {gradient:?}");
                assert!(*x == upper || gradient[i] >= -1e-8, "{i}: {gradient:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn bounded_valley() -> Outcome {
    // On the face x₀ = ½ the minimum is x₁ = ¼; in (−∞, −½] it is at the corner that the valley's floor reaches.
    for (upper, start) in [(0.5, [-1.2, 1.0]), (-0.5, [-1.2, 1.0]), (0.5, [9.0, 9.0])] {
        let bounds = [(f64::NEG_INFINITY, upper), (f64::NEG_INFINITY, f64::INFINITY)];
        let options = BfgsOptions { bounds: Some(&bounds), ..tight() };
        let minimum = minimize(&mut rosenbrock, &start, &options)?;
        assert_eq!(minimum.status, Status::Converged);
        assert_eq!(minimum.at_bound, [0]);
        assert_at(&minimum, &[upper, 0.25], 1e-11);
    }
    Ok(())
}

#[test]
fn a_coordinate_may_leave_its_bound_again() -> Outcome {
    // The start lies on a bound, and the first steps run along others; the minimum is inside.
    let bounds = [(-1.2, 2.0); 8];
    let options = BfgsOptions { bounds: Some(&bounds), ..tight() };
    let start = [-1.2, 2.0, -1.2, 2.0, 2.0, 2.0, -1.2, -1.2];
    let minimum = minimize(&mut rosenbrock, &start, &options)?;
    assert_eq!(minimum.status, Status::Converged);
    assert!(minimum.at_bound.is_empty() && minimum.evaluations < 150, "{minimum:?}");
    Ok(())
}

#[test]
fn many_bounds_at_once() -> Outcome {
    // A separable problem whose solution is known coordinate by coordinate: x_i = clamp(c_i, 0, 1).
    let n = 200;
    let centre = |i: usize| 3.0 * (i as f64).sin();
    let mut objective = |x: &[f64], gradient: &mut [f64]| {
        let mut value = 0.0;
        for i in 0..n {
            let offset = x[i] - centre(i);
            gradient[i] = (1.0 + i as f64) * offset;
            value += 0.5 * (1.0 + i as f64) * offset * offset;
        }
        value
    };
    let bounds = vec![(0.0, 1.0); n];
    let options = BfgsOptions { bounds: Some(&bounds), ..BfgsOptions::default() };
    let minimum = minimize(&mut objective, &vec![0.5; n], &options)?;
    assert_eq!(minimum.status, Status::Converged);
    let expected: Vec<f64> = (0..n).map(|i| centre(i).clamp(0.0, 1.0)).collect();
    assert_at(&minimum, &expected, 1e-8);
    assert!(minimum.evaluations < 600, "{}", minimum.evaluations);
    Ok(())
}

#[test]
fn bounds_are_checked() {
    let run = |bounds: &[(f64, f64)]| {
        let options = BfgsOptions { bounds: Some(bounds), ..BfgsOptions::default() };
        minimize(&mut rosenbrock, &[0.0, 0.0], &options)
    };
    assert_eq!(run(&[(0.0, 1.0)]), Err(OptimizeError::BoundsLength { bounds: 1, coordinates: 2 }));
    let swapped = OptimizeError::EmptyBounds { coordinate: 1, lower: 2.0, upper: 1.0 };
    assert_eq!(run(&[(0.0, 1.0), (2.0, 1.0)]), Err(swapped));
    assert!(run(&[(f64::NAN, 1.0), (0.0, 1.0)]).is_err());
    assert!(run(&[(f64::INFINITY, f64::INFINITY), (0.0, 1.0)]).is_err());
}

#[test]
fn no_coordinates() -> Outcome {
    let minimum = minimize(&mut |_: &[f64], _: &mut [f64]| 2.0, &[], &BfgsOptions::default())?;
    assert_eq!((minimum.status, minimum.value), (Status::Converged, 2.0));
    Ok(())
}

#[test]
fn multistart_keeps_the_best_and_lists_the_finite() -> Outcome {
    // sin(3x) + x²/20 for x > −4, undefined elsewhere: minima near every −π/6 + 2πk/3, the global one near −0.52.
    let mut objective = |x: &[f64], gradient: &mut [f64]| {
        gradient[0] = 3.0 * (3.0 * x[0]).cos() + 0.1 * x[0];
        if x[0] > -4.0 { (3.0 * x[0]).sin() + 0.05 * x[0] * x[0] } else { f64::NAN }
    };
    let starts = [vec![3.4], vec![-5.0], vec![-0.2], vec![1.2]];
    let found = minimize_multistart(&mut objective, &starts, &BfgsOptions::default())?;
    assert_eq!(found.best_start, 2);
    assert_eq!(found.minima.iter().map(|(start, _)| *start).collect::<Vec<_>>(), [0, 2, 3]);
    assert!(found.minima.iter().all(|(_, minimum)| minimum.value >= found.best.value));
    assert!((found.best.point[0] + 0.5178).abs() < 1e-3, "{found:?}");

    let none = minimize_multistart(&mut objective, &[vec![-9.0]], &BfgsOptions::default());
    assert_eq!(none, Err(OptimizeError::NoFiniteStart { starts: 1 }));
    assert!(minimize_multistart(&mut objective, &[], &BfgsOptions::default()).is_err());
    Ok(())
}
