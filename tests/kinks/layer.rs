//! The layer of a smoothed network: the rounded hinge by another formula, every verb against differences of the outputs, widths
//! against loops.

use std::sync::Arc;

use candle_core::{Module, Tensor};
use faer::Mat;
use ndarray::{Array2, Axis};
use riemannian_laplace::internals::map::{Evaluator, Jet, Map, Rounding, identity_seeds, jacobian};
use riemannian_laplace::internals::network::graph::{Function, Kind};
use riemannian_laplace::internals::network::{Mlp, Residual, Rounded};
use riemannian_laplace::{Activation, Architecture, Layer, Linear, Model, Network};

use crate::common::{assert_all_close, layer_sums, normal_matrix, normal_vector, random_network};

/// Two hidden layers, of relu and leaky_relu, over widths as large as the inputs of the units, so that all of them are
/// in the rounded part, and differences with steps of 1e-3 see no kink.
fn smooth_network() -> Network {
    let smoothed = |activation, widths: &[f64]| {
        Layer::Smoothed(Rounded::new(activation, widths.to_vec()).expect("an activation with a kink"))
    };
    let layers = vec![
        Linear::new(2, 3).into(),
        smoothed(Activation::Relu, &[0.5, 1.0, 2.0]),
        Linear::new(3, 4).into(),
        smoothed(Activation::LeakyRelu, &[0.7, 0.8, 0.9, 1.5]),
        Linear::new(4, 4).into(),
        smoothed(Activation::Elu, &[0.6, 0.9, 1.2, 1.4]),
        Linear::without_bias(4, 2).into(),
    ];
    random_network(Architecture::of_layers(layers).unwrap(), 4)
}

pub fn outputs(map: &Arc<dyn Map>, theta: &[f64]) -> Vec<f64> {
    let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
    map.clone().evaluate(1).outputs(theta, &mut outputs);
    outputs
}

fn moved(theta: &[f64], velocity: &[f64], t: f64) -> Vec<f64> {
    theta.iter().zip(velocity).map(|(theta, v)| theta + t * v).collect()
}

/// The derivative at 0 by five points: truncation h⁴/30 of the fifth derivative, rounding 1e-16/h.
fn difference(h: f64, function: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let mut sum = vec![0.0; function(0.0).len()];
    for (multiple, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
        for (sum, value) in sum.iter_mut().zip(function(multiple * h)) {
            *sum += weight * value / (12.0 * h);
        }
    }
    sum
}

fn list(matrix: &Mat<f64>) -> Vec<f64> {
    (0..matrix.nrows()).flat_map(|i| (0..matrix.ncols()).map(move |j| matrix[(i, j)])).collect()
}

#[test]
fn a_rounded_kink_is_a_mean_of_both_branches_by_the_normal_distribution_function() {
    let widths = [0.3, 2.0];
    type Branch = fn(f64) -> f64;
    let cases: [(Activation, Branch); 3] =
        [(Activation::Relu, |_| 0.0), (Activation::LeakyRelu, |x| 0.01 * x), (Activation::Elu, f64::exp_m1)];
    for (activation, left) in cases {
        let smoothed = Layer::Smoothed(Rounded::new(activation, widths.to_vec()).unwrap());
        // f(x) = φ(x), twice.
        let layers = vec![Linear::new(1, 2).into(), smoothed];
        let network = Network::new(Architecture::of_layers(layers).unwrap(), vec![1.0, 1.0, 0.0, 0.0]).unwrap();
        let points = [-50.0, -3.0, -0.4, 0.0, 0.1, 1.0, 7.0, 50.0];
        let inputs = Array2::from_shape_fn((points.len(), 1), |(n, _)| points[n]);
        let found = outputs(&network.bind(inputs.view()).unwrap(), network.parameters());
        for (unit, width) in widths.iter().enumerate() {
            for (n, x) in points.iter().enumerate() {
                let probability = 0.5 * libm::erfc(-x / width / std::f64::consts::SQRT_2);
                // Far out on the right the left branch counts for nothing, and may be infinite.
                let above = 0.5 * libm::erfc(x / width / std::f64::consts::SQRT_2);
                let other = if *x > 40.0 * width { 0.0 } else { left(*x) * above };
                let expected = x * probability + other;
                let error = (found[unit * points.len() + n] - expected).abs();
                // Rounding of both formulas.
                assert!(error <= 2e-15 * x.abs().max(expected.abs()), "{activation} at {x}: {error:e}");
            }
        }
    }
    assert_eq!(Rounded::new(Activation::Tanh, vec![1.0]), None);
}

#[test]
fn every_verb_of_a_smoothed_network_agrees_with_differences() {
    assert_verbs(&smooth_network(), &normal_matrix(5, 2, 1));
}

/// Jets, the Jacobian and its derivative along a velocity against differences, at five points with two outputs.
pub fn assert_verbs(network: &Network, inputs: &Array2<f64>) {
    let map = network.bind(inputs.view()).unwrap();
    let theta = network.parameters();
    let velocity: Vec<f64> = normal_vector(theta.len(), 2).iter().map(|v| 0.3 * v).collect();

    let mut jet = Jet::new(5, 2);
    Evaluator::new(&map, 2).jet(theta, &velocity, &mut jet);
    assert_all_close(&jet.outputs, &outputs(&map, theta), 1e-15, "values");
    let first = difference(1e-3, |t| outputs(&map, &moved(theta, &velocity, t)));
    assert_all_close(&jet.first, &first, 1e-10, "first derivatives");
    let second = difference(1e-3, |t| {
        let mut jet = Jet::new(5, 2);
        Evaluator::new(&map, 2).jet(&moved(theta, &velocity, t), &velocity, &mut jet);
        jet.first
    });
    assert_all_close(&jet.second, &second, 1e-10, "second derivatives");

    let rows = jacobian(&map, theta);
    for d in 0..theta.len() {
        let mut direction = vec![0.0; theta.len()];
        direction[d] = 1.0;
        let column = difference(1e-3, |t| outputs(&map, &moved(theta, &direction, t)));
        let found: Vec<f64> = (0..rows.nrows()).map(|row| rows[(row, d)]).collect();
        assert_all_close(&found, &column, 1e-9, "the Jacobian");
    }

    let along = map.clone().rows_along(theta, &velocity, &identity_seeds(5, 2), 2).expect("second derivatives");
    let mut found = Mat::zeros(10, theta.len());
    along.dense(found.as_mut());
    let expected = difference(1e-3, |t| list(&jacobian(&map, &moved(theta, &velocity, t))));
    assert_all_close(&list(&found), &expected, 1e-9, "derivatives of the rows");
}

#[test]
fn widths_are_measured_from_the_data_and_the_draws() {
    let architecture = Architecture::new(&[2, 3, 4, 1], Activation::Relu).unwrap();
    let network = random_network(architecture.clone(), 7);
    // More than one row block.
    let inputs = normal_matrix(200, 2, 3);
    let offsets = 0.1 * normal_matrix(3, network.parameters().len(), 5);
    let rounding = Rounding { width: 0.2, inputs: inputs.view(), offsets: offsets.view() };
    let smooth = network.with_rounded_kinks(&rounding).unwrap().expect("relu has kinks");
    assert_eq!(smooth.parameters(), network.parameters());
    assert!(!smooth.has_kinks() && smooth.record().is_none());

    // z of both hidden layers at one input, in plain loops; its motion by differences.
    let sums = |theta: &[f64], x: &[f64]| layer_sums(&architecture, theta, x)[..2].concat();
    let values: Vec<Vec<f64>> = inputs.rows().into_iter().map(|x| sums(network.parameters(), &x.to_vec())).collect();
    let values = Array2::from_shape_fn((200, 7), |(n, j)| values[n][j]);
    let variance = values.var_axis(Axis(0), 0.0);
    let mut motion = [0.0; 7];
    for x in inputs.rows() {
        for offset in offsets.rows() {
            // Short enough that hardly any unit switches, and these switch at values of 1e-6.
            let h = 1e-6;
            let ahead = sums(&moved(network.parameters(), &offset.to_vec(), h), &x.to_vec());
            let behind = sums(&moved(network.parameters(), &offset.to_vec(), -h), &x.to_vec());
            for j in 0..7 {
                motion[j] += ((ahead[j] - behind[j]) / (2.0 * h)).powi(2) / 600.0;
            }
        }
    }
    let expected: Vec<f64> = (0..7).map(|j| 0.2 * (variance[j] + motion[j]).sqrt()).collect();
    let found: Vec<f64> = rounded(&smooth).into_iter().flatten().collect();
    assert_all_close(&found, &expected, 1e-6, "widths");
}

/// The widths of every rounded kink.
pub fn rounded(network: &Network) -> Vec<Vec<f64>> {
    let nodes = network.architecture().graph().nodes().iter();
    let widths = nodes.filter_map(|node| match &node.kind {
        Kind::Elementwise(Function::Rounded(rounded)) => Some(rounded.widths().to_vec()),
        _ => None,
    });
    widths.collect()
}

#[test]
fn what_cannot_be_rounded_is_said() {
    let smooth = random_network(Architecture::new(&[2, 3, 1], Activation::Tanh).unwrap(), 1);
    let kinked = random_network(Architecture::new(&[2, 3, 1], Activation::Relu).unwrap(), 1);
    let (inputs, offsets) = (normal_matrix(4, 2, 1), Array2::zeros((1, 13)));
    let rounding = |width| Rounding { width, inputs: inputs.view(), offsets: offsets.view() };
    assert!(smooth.smoothed(&rounding(0.1)).unwrap().is_none());
    for width in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = kinked.smoothed(&rounding(width)).unwrap_err().to_string();
        assert!(error.contains("positive and finite"), "{error}");
    }
    // A hinge before the first parameters is not a kink in the parameters, and stays.
    let layers = vec![Activation::Relu.into(), Linear::new(2, 3).into(), Activation::Relu.into()];
    let network = random_network(Architecture::of_layers(layers).unwrap(), 2);
    let offsets = Array2::zeros((1, 9));
    let rounding = Rounding { width: 0.1, inputs: inputs.view(), offsets: offsets.view() };
    let rounded = network.with_rounded_kinks(&rounding).unwrap().unwrap();
    assert_eq!(rounded.architecture().to_string(), "relu, linear 2 → 3, smoothed relu");
}

#[test]
fn outputs_of_a_smoothed_network_are_candles() {
    assert_outputs_are_candles(&smooth_network(), &normal_matrix(5, 2, 1));
}

/// The outputs at five points are those of the same layers in candle.
pub fn assert_outputs_are_candles(network: &Network, inputs: &Array2<f64>) {
    let (dtype, device) = (candle_core::DType::F64, candle_core::Device::Cpu);
    let mlp = Mlp::trainable(network, &candle_nn::VarMap::new(), dtype, &device).unwrap();
    let values: Vec<f64> = inputs.iter().copied().collect();
    let candles = mlp.forward(&Tensor::from_vec(values, inputs.dim(), &device).unwrap()).unwrap();
    let candles: Vec<f64> = candles.t().unwrap().flatten_all().unwrap().to_vec1().unwrap();
    let found = outputs(&network.bind(inputs.view()).unwrap(), network.parameters());
    // candle's erf has an error of a few ulp.
    assert_all_close(&found, &candles, 1e-13, "outputs");
}

#[test]
fn kinks_inside_residual_blocks_are_rounded_too() {
    // Both branches, a leading relu that moves with what is before the block, and a block first of all whose leading
    // relu does not move.
    let relu = || Layer::from(Activation::Relu);
    let body = || vec![relu(), Linear::new(3, 3).into(), relu(), Linear::new(3, 3).into()];
    let first = Residual::new(body(), vec![Linear::new(3, 3).into(), Activation::LeakyRelu.into()]).unwrap();
    let second = Residual::new(body(), Vec::new()).unwrap();
    let layers = vec![first.into(), second.into(), relu(), Linear::new(3, 1).into()];
    let network = random_network(Architecture::of_layers(layers).unwrap(), 3);
    let inputs = normal_matrix(100, 3, 4);
    let offsets = 0.1 * normal_matrix(2, network.parameters().len(), 5);
    let rounding = |width| Rounding { width, inputs: inputs.view(), offsets: offsets.view() };
    let smooth = network.with_rounded_kinks(&rounding(0.1)).unwrap().expect("kinks");
    let relus = |network: &Network| {
        let nodes = network.architecture().graph().nodes().iter();
        nodes.filter(|node| node.kind.description() == "relu").count()
    };
    assert_eq!((rounded(&smooth).len(), relus(&smooth)), (5, 1), "{}", smooth.architecture());
    // Over a vanishing width it is the same network.
    let narrow = network.with_rounded_kinks(&rounding(1e-9)).unwrap().expect("kinks");
    let at = |network: &Network| outputs(&network.bind(inputs.view()).unwrap(), network.parameters());
    assert_all_close(&at(&narrow), &at(&network), 1e-8, "outputs");
    let apart = at(&smooth).iter().zip(at(&network)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart > 1e-3, "{apart}");
}
