//! Max pooling with its kinks rounded: its values by another formula, every verb against differences, its widths from
//! differences of the pooled values, ends of geodesics as the width goes to zero, and samples.

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::map::Rounding;
use riemannian_laplace::internals::network::{Image, MaxPool2d};
use riemannian_laplace::{
    Activation, Architecture, Conv2d, Dataset, Family, FitOptions, Laplace, Layer, Linear, MetricName, Model, Network,
    SamplerOptions,
};

use crate::common::{draw_targets, normal_matrix, random_network};
use crate::ends;
use crate::layer::{assert_outputs_are_candles, assert_verbs, outputs, rounded};

/// Overlapping windows with padding, so that windows have two, three, four or six taps.
fn pool() -> MaxPool2d {
    MaxPool2d { stride: [1, 2], padding: [1, 0], ..MaxPool2d::new(Image::new(2, 3, 4), [2, 3]) }
}

/// A chain with smoothed max pooling over widths as large as the differences of its pixels.
fn smooth_network() -> Network {
    let input = Image::new(1, 4, 5);
    let conv = Conv2d::new(input, 2, [2, 2]);
    let size = pool().output().size();
    let layers = vec![
        conv.into(),
        pool().into(),
        Linear::new(size, 3).into(),
        Activation::Tanh.into(),
        Linear::new(3, 2).into(),
    ];
    let kinked = random_network(Architecture::of_layers(layers).expect("an architecture"), 4);
    let unit = |index: usize| 0.8 + 0.1 * (index % 7) as f64;
    let graph = kinked.architecture().graph();
    let units = graph.nodes().iter().enumerate().filter(|(_, node)| node.kind.description() == "relu");
    let widths: Vec<Vec<f64>> = units.map(|(index, _)| (0..graph.width(index)).map(unit).collect()).collect();
    let smooth = graph.rounded(widths.into_iter()).expect("one width per unit");
    Network::new(Architecture::of_graph(smooth).expect("an architecture"), kinked.parameters().to_vec()).expect("θ")
}

#[test]
fn every_verb_of_smoothed_max_pooling_agrees_with_differences() {
    assert_verbs(&smooth_network(), &normal_matrix(5, 20, 1));
}

#[test]
fn outputs_of_smoothed_max_pooling_are_candles() {
    assert_outputs_are_candles(&smooth_network(), &normal_matrix(5, 20, 1));
}

/// f(x) = max of the four linear functions below one window.
fn one_window() -> Network {
    let layers = vec![Linear::new(2, 4).into(), MaxPool2d::new(Image::new(1, 2, 2), [2, 2]).into()];
    random_network(Architecture::of_layers(layers).expect("an architecture"), 2)
}

fn linear_values(network: &Network, x: &[f64]) -> Vec<f64> {
    let theta = network.parameters();
    (0..4).map(|unit| theta[8 + unit] + theta[2 * unit] * x[0] + theta[2 * unit + 1] * x[1]).collect()
}

#[test]
fn it_is_a_chain_of_rounded_hinges_whose_widths_are_those_of_their_arguments() {
    let network = one_window();
    let (inputs, offsets) = (normal_matrix(80, 2, 3), Array2::zeros((1, 12)));
    let rounding = |width| Rounding { width, inputs: inputs.view(), offsets: offsets.view() };
    assert!(network.has_kinks());
    let smooth = network.with_rounded_kinks(&rounding(0.3)).expect("a width").expect("kinks");
    assert!(!smooth.has_kinks() && smooth.record().is_none());
    assert_eq!(rounded(&smooth).len(), 3, "{}", smooth.architecture());
    let values: Vec<Vec<f64>> = inputs.rows().into_iter().map(|x| linear_values(&network, &x.to_vec())).collect();
    // The spread of b − max of those before, over the data.
    let arguments = Array2::from_shape_fn((80, 3), |(n, hinge)| {
        values[n][hinge + 1] - values[n][..=hinge].iter().copied().fold(f64::NEG_INFINITY, f64::max)
    });
    let widths = arguments.std_axis(Axis(0), 0.0).mapv(|spread| 0.3 * spread);
    let found = outputs(&smooth.bind(inputs.view()).expect("inputs"), network.parameters());
    for (values, found) in values.iter().zip(&found) {
        let hinge = |a: f64, (b, width): (&f64, &f64)| {
            a + (b - a) * 0.5 * libm::erfc(-(b - a) / width / std::f64::consts::SQRT_2)
        };
        let expected = values[1..].iter().zip(&widths).fold(values[0], hinge);
        // Rounding of both formulas, and of sums over the data in another order.
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }
    // Over a vanishing width it is the same network.
    let narrow = network.with_rounded_kinks(&rounding(1e-9)).expect("a width").expect("kinks");
    for map in [narrow.bind(inputs.view()), network.bind(inputs.view())] {
        for (found, values) in outputs(&map.expect("inputs"), network.parameters()).iter().zip(&values) {
            assert!((found - values.iter().copied().fold(f64::NEG_INFINITY, f64::max)).abs() < 1e-8);
        }
    }
}

#[test]
fn ends_of_geodesics_converge_as_the_width_goes_to_zero() {
    // With a layer behind it, so that geodesics bend between the kinks too, and the integrator's steps stay short.
    let layers =
        vec![Linear::new(2, 4).into(), MaxPool2d::new(Image::new(1, 2, 2), [2, 2]).into(), Linear::new(1, 1).into()];
    let network = random_network(Architecture::of_layers(layers).expect("an architecture"), 2);
    let inputs = normal_matrix(6, 2, 11);
    let at = |width| ends(&network, &inputs, 0.5 * normal_matrix(4, 14, 8), width);
    let [wide, middle, narrow] = [1e-3, 1e-4, 1e-5].map(at);
    let apart = |a: &Array2<f64>, b: &Array2<f64>| (a - b).mapv(|x| x * x).sum().sqrt();
    let (first, second) = (apart(&wide, &middle), apart(&middle, &narrow));
    // Linearly: a tenth of the width, about a tenth of the distance.
    assert!(first > 1e-8 && first < 2e-2 && second < 0.2 * first, "{first:e}, then {second:e}");
}

#[test]
fn samples_of_a_network_with_max_pooling_are_certified() {
    let conv = Conv2d { padding: [1, 1], ..Conv2d::new(Image::new(1, 4, 4), 2, [3, 3]) };
    let layers = vec![
        conv.into(),
        Activation::Relu.into(),
        MaxPool2d::new(conv.output(), [2, 2]).into(),
        Layer::Flatten,
        Linear::new(8, 3).into(),
    ];
    let network = random_network(Architecture::of_layers(layers).expect("an architecture"), 2);
    let family: Family = "categorical".parse().expect("a family");
    let inputs = normal_matrix(40, 16, 3);
    let targets = draw_targets(&family, &network.outputs(inputs.view()).expect("outputs"), 4);
    let data = Dataset::new(inputs, targets).expect("data");
    let laplace = Laplace::fit(network, data, family, &FitOptions::default()).expect("a posterior");
    let samples = laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(4), &()).expect("samples");
    assert_eq!(samples.smoothing, Some(0.05));
    assert_eq!(samples.failed() + samples.uncertified(), 0, "{:?}", samples.drift);
}
