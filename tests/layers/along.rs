//! Derivatives of the rows along a velocity.

use faer::Mat;
use riemannian_laplace::internals::map::{Evaluator, Jet, Scratch};

use super::common::{assert_all_close, normal_vector};
use super::{Case, POINTS, cases, crosses, dense, five_point, moved, pulled_back, pulled_back_along, velocity};

#[test]
fn derivatives_of_rows_are_differences_of_jacobians() {
    // As for the first derivative of a jet: rows are analytic to a few roundings.
    let (step, tolerance) = (2e-3, 1e-8);
    let mut compared = 0;
    for case in cases() {
        let Case { network, map, name, .. } = &case;
        let (theta, p, d) = (network.parameters(), map.n_outputs(), map.n_params());
        let velocity = velocity(&case, 31);
        let crosses = crosses(&case, &velocity, step);
        for columns in [1, p] {
            let m = POINTS * columns;
            let seeds = normal_vector(m * p, 32);
            let rows_along = pulled_back_along(&case, &velocity, &seeds, columns);
            let mut along = Mat::from_fn(m, d, |_, _| f64::NAN);
            rows_along.dense(along.as_mut());
            let at = [-2.0, -1.0, 1.0, 2.0].map(|k| dense(map, &moved(theta, &velocity, k * step), &seeds, columns));
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for row in (0..m).filter(|row| !crosses[row % POINTS]) {
                found.extend(along.row(row).iter().copied());
                expected.extend((0..d).map(|j| five_point([0, 1, 2, 3].map(|k| at[k][(row, j)]), step)));
            }
            assert_all_close(&found, &expected, tolerance, &format!("rows_along of {name}"));
            compared += found.len();

            let w = normal_vector(m, 33);
            let mut product = vec![f64::NAN; d];
            rows_along.transpose_times(&w, &mut product, &mut Scratch::default());
            let sums: Vec<f64> = along.col_iter().map(|c| c.iter().zip(&w).map(|(a, b)| a * b).sum()).collect();
            assert_all_close(&product, &sums, 1e-13, &format!("transpose_times_along of {name}"));
        }
    }
    assert!(compared > 1500, "the hinges left only {compared} entries to compare");
}

#[test]
fn products_with_the_sum_of_hessians_are_symmetric_and_differences_of_gradients() {
    let step = 2e-3;
    for case in cases() {
        let Case { network, map, name, .. } = &case;
        let (theta, d) = (network.parameters(), map.n_params());
        let r = normal_vector(POINTS * map.n_outputs(), 41);
        let ones = vec![1.0; POINTS];
        // One row at each point: the gradient of Σₚ r(n, p) fₚ. Its derivative along v, summed over the points, is
        // Σ r∇²f v.
        let hessian_times = |v: &[f64]| {
            let mut product = vec![f64::NAN; d];
            pulled_back_along(&case, v, &r, 1).transpose_times(&ones, &mut product, &mut Scratch::default());
            product
        };
        let (u, w) = (velocity(&case, 42), velocity(&case, 43));
        let (hu, hw) = (hessian_times(&u), hessian_times(&w));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scale = dot(&hu, &hu).sqrt() * dot(&w, &w).sqrt();
        assert!((dot(&u, &hw) - dot(&w, &hu)).abs() <= 1e-13 * scale.max(1e-300), "{name} is not symmetric");

        // uᵀ(Σ r∇²f)u = Σ r f̈, by the forward sweep.
        let mut jet = Jet::new(POINTS, map.n_outputs());
        Evaluator::new(map, 1).jet(theta, &u, &mut jet);
        let terms: f64 = jet.second.iter().zip(&r).map(|(f, r)| (f * r).abs()).sum();
        assert!((dot(&u, &hu) - dot(&jet.second, &r)).abs() <= 1e-13 * terms.max(scale), "{name}");

        if crosses(&case, &u, step).iter().any(|crosses| *crosses) {
            continue;
        }
        let gradients = [-2.0, -1.0, 1.0, 2.0].map(|k| {
            let mut gradient = vec![0.0; d];
            let rows = pulled_back(map, &moved(theta, &u, k * step), &r, 1);
            rows.transpose_times(&ones, &mut gradient, &mut Scratch::default());
            gradient
        });
        let expected: Vec<f64> = (0..d).map(|j| five_point([0, 1, 2, 3].map(|k| gradients[k][j]), step)).collect();
        assert_all_close(&hu, &expected, 1e-8, name);
    }
}
