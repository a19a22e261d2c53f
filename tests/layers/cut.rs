//! Sequences inside others, as in a composite layer.

use faer::Mat;
use riemannian_laplace::internals::map::Scratch;
use riemannian_laplace::internals::network::{Sequence, Tape};

use super::common::{Outcome, as_list, assert_all_close};
use super::{POINTS, cases, crosses, five_point, moved, velocity};

/// Copies one matrix to another of the same shape.
fn copy(source: faer::MatRef<'_, f64>, mut target: faer::MatMut<'_, f64>) {
    target.copy_from(source);
}

#[test]
fn a_chain_cut_in_two_is_the_same_chain() -> Outcome {
    // What a composite layer does: the second part has inputs that move, and must return their sensitivities.
    fn is_shared<T: Sync + Send>() {}
    is_shared::<Tape>();
    for case in cases() {
        let layers = case.network.architecture().layers().to_vec();
        let (theta, v) = (case.network.parameters(), velocity(&case, 61));
        for cut in 1..layers.len() {
            let parts = (Sequence::new(layers[..cut].to_vec()), Sequence::new(layers[cut..].to_vec()));
            let (Ok(first), Ok(second)) = parts else { continue };
            let whole = Sequence::new(layers.clone())?;
            let (p, k) = (whole.n_outputs(), 2);
            let name = format!("{}, cut at {cut}", case.name);
            let x = Mat::from_fn(POINTS, whole.n_inputs(), |n, i| case.inputs[(n, i)]);
            let seeds = Mat::from_fn(POINTS * k, p, |m, p| (m as f64 + 3.0 * p as f64).sin());
            let (at, after) = (first.n_params(), theta.len());
            let (theta1, theta2) = theta.split_at(at);
            let (v1, v2) = v.split_at(at);
            let mut tapes = whole.tapes(POINTS, k);
            let (mut tapes1, mut tapes2) = (first.tapes(POINTS, k), second.tapes(POINTS, k));

            whole.forward(theta, x.as_ref(), &mut tapes);
            first.forward(theta1, x.as_ref(), &mut tapes1);
            second.forward(theta2, first.outputs(&tapes1).get(..POINTS, ..), &mut tapes2);
            let values = |outputs: faer::MatRef<'_, f64>, rows: usize| as_list(&outputs.get(..rows, ..).to_owned());
            let same = |a: Vec<f64>, b: Vec<f64>| assert_all_close(&a, &b, 1e-14, &name);
            same(values(second.outputs(&tapes2), POINTS), values(whole.outputs(&tapes), POINTS));

            whole.jet(theta, &v, x.as_ref(), &mut tapes);
            first.jet(theta1, v1, x.as_ref(), &mut tapes1);
            second.jet(theta2, v2, first.outputs(&tapes1), &mut tapes2);
            same(values(second.outputs(&tapes2), 3 * POINTS), values(whole.outputs(&tapes), 3 * POINTS));

            let mut middle = Mat::zeros(POINTS * k, second.n_inputs());
            copy(seeds.as_ref(), whole.seeds_mut(&mut tapes));
            whole.pull_back(theta, &mut tapes, None);
            copy(seeds.as_ref(), second.seeds_mut(&mut tapes2));
            second.pull_back(theta2, &mut tapes2, Some(middle.as_mut()));
            copy(middle.as_ref(), first.seeds_mut(&mut tapes1));
            first.pull_back(theta1, &mut tapes1, None);
            let (mut rows, mut cut_rows) = (Mat::zeros(POINTS * k, after), Mat::zeros(POINTS * k, after));
            whole.rows(x.as_ref(), &tapes, rows.as_mut());
            first.rows(x.as_ref(), &tapes1, cut_rows.as_mut().get_mut(.., ..at));
            second.rows(first.outputs(&tapes1), &tapes2, cut_rows.as_mut().get_mut(.., at..));
            same(as_list(&cut_rows), as_list(&rows));

            let mut middle_along = middle.clone();
            whole.forward_along(theta, &v, x.as_ref(), &mut tapes);
            first.forward_along(theta1, v1, x.as_ref(), &mut tapes1);
            second.forward_along(theta2, v2, first.outputs(&tapes1), &mut tapes2);
            copy(seeds.as_ref(), whole.seeds_mut(&mut tapes));
            whole.pull_back_along(theta, &v, &mut tapes, None);
            copy(seeds.as_ref(), second.seeds_mut(&mut tapes2));
            second.pull_back_along(theta2, v2, &mut tapes2, Some((middle.as_mut(), middle_along.as_mut())));
            whole.rows_along(x.as_ref(), &tapes, rows.as_mut());
            second.rows_along(first.outputs(&tapes1), &tapes2, cut_rows.as_mut().get_mut(.., at..));
            let later = |rows: &Mat<f64>| as_list(&rows.get(.., at..).to_owned());
            same(later(&cut_rows), later(&rows));
            let (w, mut product) = (vec![1.0; POINTS * k], vec![f64::NAN; after - at]);
            second.transpose_times_along(&w, first.outputs(&tapes1), &tapes2, &mut Scratch::default(), &mut product);
            let sums: Vec<f64> = rows.get(.., at..).col_iter().map(|column| column.iter().sum()).collect();
            assert_all_close(&product, &sums, 1e-13, &name);
            // The derivative of the middle's sensitivities, by differences of the pull-back.
            if crosses(&case, &v, 2e-3).iter().any(|crosses| *crosses) {
                continue;
            }
            let differences = [-2.0, -1.0, 1.0, 2.0].map(|multiple| {
                let theta = moved(theta, &v, multiple * 2e-3);
                let mut middle = middle.clone();
                first.forward(&theta[..at], x.as_ref(), &mut tapes1);
                second.forward(&theta[at..], first.outputs(&tapes1).get(..POINTS, ..), &mut tapes2);
                copy(seeds.as_ref(), second.seeds_mut(&mut tapes2));
                second.pull_back(&theta[at..], &mut tapes2, Some(middle.as_mut()));
                middle
            });
            let slope = |i, j| five_point([0, 1, 2, 3].map(|k: usize| differences[k][(i, j)]), 2e-3);
            let expected = Mat::from_fn(POINTS * k, second.n_inputs(), slope);
            assert_all_close(&as_list(&middle_along), &as_list(&expected), 1e-8, &name);
        }
    }
    Ok(())
}
