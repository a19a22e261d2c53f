//! Graphs cut in two: what lies in front is computed once, and the rest is a network of its own.

use std::sync::Arc;

use faer::Mat;
use ndarray::Array2;
use riemannian_laplace::Model;
use riemannian_laplace::internals::map::{Evaluator, Jet, Map, jacobian};

use super::common::{Outcome, as_list, assert_all_close};
use super::{POINTS, cases, velocity};

#[test]
fn a_network_cut_in_two_is_the_same_network() -> Outcome {
    let mut cuts = 0;
    for case in cases() {
        let (theta, v) = (case.network.parameters(), velocity(&case, 61));
        let inputs = Array2::from_shape_fn((POINTS, case.inputs.ncols()), |(n, i)| case.inputs[(n, i)]);
        let whole = case.network.bind(inputs.view())?;
        let mut start = 0;
        for size in case.network.group_sizes() {
            let Some(cut) = case.network.cut(start + size / 2) else {
                start += size;
                continue;
            };
            let name = format!("{}, cut at {start}", case.name);
            assert_eq!(cut.offset, start, "{name}");
            let head: Arc<dyn Map> = cut.head.bind(cut.features.features(inputs.view())?.view())?;
            assert_eq!(head.n_params(), theta.len() - start, "{name}");
            // A velocity that leaves the front where it is.
            let mut still = v.clone();
            still[..start].fill(0.0);
            let jets =
                [(&whole, theta, &still[..]), (&head, &theta[start..], &still[start..])].map(|(map, theta, v)| {
                    let mut jet = Jet::new(POINTS, map.n_outputs());
                    Evaluator::new(map, 1).jet(theta, v, &mut jet);
                    [jet.outputs, jet.first, jet.second].concat()
                });
            assert_all_close(&jets[1], &jets[0], 1e-13, &name);
            let (all, own): (Mat<f64>, Mat<f64>) = (jacobian(&whole, theta), jacobian(&head, &theta[start..]));
            assert_all_close(&as_list(&own), &as_list(&all.get(.., start..).to_owned()), 1e-13, &name);
            cuts += 1;
            start += size;
        }
    }
    assert!(cuts > 10, "{cuts} cuts");
    Ok(())
}
