//! Layers that are wide, at many points: other products of matrices, shared among threads.

use faer::Mat;
use ndarray::{Array2, Axis, Slice};
use riemannian_laplace::internals::map::{Evaluator, Jet};
use riemannian_laplace::{Activation, Architecture};

use super::common::{assert_all_close, normal_matrix, normal_vector, random_network};
use super::{bound, linear, without_bias};

const POINTS: usize = 130;
const OUTPUTS: usize = 2;

fn architecture() -> Architecture {
    use Activation::{Sin, Tanh};
    let layers =
        vec![linear(1, 300), Tanh.into(), linear(300, 310), Sin.into(), without_bias(310, 290), linear(290, OUTPUTS)];
    Architecture::of_layers(layers).expect("a chain")
}

/// All that an acceleration takes from a map, with one row at each point.
struct Found {
    jet: Jet,
    whole: Jet,
    seconds: Vec<f64>,
    product: Vec<f64>,
    gram: Mat<f64>,
}

fn found(architecture: &Architecture, inputs: &Array2<f64>, theta: &[f64], velocity: &[f64]) -> Found {
    let (map, n) = (bound(architecture, inputs), inputs.nrows());
    let mut evaluator = Evaluator::new(&map, 1);
    let (mut jet, mut whole) = (Jet::new(n, OUTPUTS), Jet::new(n, OUTPUTS));
    evaluator.jet(theta, velocity, &mut whole);
    let (mut seconds, seeds) = (vec![0.0; n], vec![1.0; n * OUTPUTS]);
    let mut rows = evaluator.partial_jet(theta, velocity, &mut jet).pull_back(&seeds, &mut seconds);
    let mut gram = Mat::zeros(n, n);
    rows.gram(&vec![0.5; map.groups().len()], gram.as_mut());
    let (mut product, weights) = (vec![0.0; theta.len()], normal_vector(n, 3));
    rows.transpose_times(&weights, &mut product);
    Found { jet, whole, seconds, product, gram }
}

#[test]
fn many_points_at_once_are_those_of_a_few_at_a_time() {
    let architecture = architecture();
    let inputs = normal_matrix(POINTS, 1, 5);
    let network = random_network(architecture.clone(), 6);
    let (theta, velocity) = (network.parameters(), normal_vector(architecture.n_params(), 7));
    let all = found(&architecture, &inputs, theta, &velocity);
    for start in (0..POINTS).step_by(13) {
        let few = found(
            &architecture,
            &inputs.slice_axis(Axis(0), Slice::from(start..start + 13)).to_owned(),
            theta,
            &velocity,
        );
        let part = |values: &[f64]| -> Vec<f64> {
            values.chunks_exact(POINTS).flat_map(|values| values[start..start + 13].to_vec()).collect()
        };
        for (name, all, few) in [
            ("outputs", &all.whole.outputs, &few.whole.outputs),
            ("slopes", &all.whole.first, &few.whole.first),
            ("seconds", &all.whole.second, &few.whole.second),
            ("slopes of a part", &all.jet.first, &few.jet.first),
            ("the rest", &all.seconds, &few.seconds),
        ] {
            let size = all.iter().fold(0.0_f64, |size, value| size.max(value.abs()));
            let scaled = |values: &[f64]| values.iter().map(|value| value / size).collect::<Vec<f64>>();
            assert_all_close(&scaled(&part(all)), &scaled(few), 1e-12, name);
        }
    }
}

#[test]
fn threads_do_not_change_a_bit_of_an_acceleration() {
    let architecture = architecture();
    let inputs = normal_matrix(POINTS, 1, 8);
    let network = random_network(architecture.clone(), 9);
    let (theta, velocity) = (network.parameters(), normal_vector(architecture.n_params(), 10));
    let find = || found(&architecture, &inputs, theta, &velocity);
    // Inside of a pool threads are not free; outside they share products and columns.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let (alone, shared) = (pool.install(find), find());
    for (alone, shared) in [(&alone.whole, &shared.whole), (&alone.jet, &shared.jet)] {
        assert_eq!(alone.outputs, shared.outputs);
        assert_eq!(alone.first, shared.first);
        assert_eq!(alone.second, shared.second);
    }
    assert_eq!(alone.seconds, shared.seconds);
    assert_eq!(alone.product, shared.product);
    assert_eq!(alone.gram, shared.gram);
}
