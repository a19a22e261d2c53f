//! Jets of which a part is left to the sweep back.

use riemannian_laplace::internals::map::{Evaluator, Jet};
use riemannian_laplace::{Activation, Layer, Residual};

use super::common::{assert_all_close, normal_vector};
use super::{POINTS, cases, cases_of, dense, linear, velocity, without_bias};

/// Layers wide enough to leave second derivatives with up to two rows at each point, alone, in a row and around layers that
/// do not leave theirs.
fn wide_chains() -> Vec<Vec<Layer>> {
    use Activation::{Silu, Sin, Tanh};
    let branch = vec![linear(16, 20), Tanh.into(), linear(20, 16)];
    vec![
        vec![linear(1, 9), Tanh.into(), linear(9, 17), Silu.into(), linear(17, 1)],
        vec![linear(2, 16), Tanh.into(), without_bias(16, 24), Sin.into(), linear(24, 16), Tanh.into(), linear(16, 2)],
        vec![Tanh.into(), linear(2, 16), linear(16, 16), Tanh.into(), linear(16, 2), Sin.into()],
        vec![
            linear(2, 16),
            Tanh.into(),
            Residual::new(branch, vec![]).expect("a block").into(),
            linear(16, 18),
            Tanh.into(),
            linear(18, 2),
        ],
    ]
}

#[test]
fn what_a_partial_jet_leaves_out_is_what_the_sweep_back_adds() {
    let mut left = 0;
    for case in cases_of(wide_chains().into_iter()).chain(cases()) {
        let (theta, outputs) = (case.network.parameters(), case.map.n_outputs());
        let velocity = velocity(&case, 31);
        for columns in [1, 2, outputs] {
            let seeds = normal_vector(POINTS * outputs * columns, 32);
            let mut evaluator = Evaluator::new(&case.map, columns);
            let mut whole = Jet::new(POINTS, outputs);
            evaluator.jet(theta, &velocity, &mut whole);
            let mut part = Jet::new(POINTS, outputs);
            let evaluated = evaluator.partial_jet(theta, &velocity, &mut part);
            assert_eq!((&part.outputs, &part.first), (&whole.outputs, &whole.first), "{}", case.name);
            left += usize::from(part.second != whole.second);

            let whitened = |second: &[f64]| {
                let mut product = vec![0.0; POINTS * columns];
                for p in 0..outputs {
                    for (row, product) in product.iter_mut().enumerate() {
                        *product += seeds[p * columns * POINTS + row] * second[p * POINTS + row % POINTS];
                    }
                }
                product
            };
            let mut found = whitened(&part.second);
            let rows = evaluated.pull_back(&seeds, &mut found);
            assert_all_close(&found, &whitened(&whole.second), 1e-12, &case.name);
            let mut pulled = faer::Mat::zeros(POINTS * columns, theta.len());
            rows.dense(pulled.as_mut());
            assert_eq!(pulled, dense(&case.map, theta, &seeds, columns), "{}", case.name);
        }
    }
    assert!(left >= 4, "only {left} jets left something out");
}
