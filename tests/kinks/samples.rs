//! Samples of networks with kinks: what is smoothed, what is not, and what is reported.

use ndarray::Array2;
use riemannian_laplace::internals::geodesic::{
    JoinError, MetricOptions, SMOOTHING_WIDTH, exponential_map, read_samples, sample_posterior, write_samples,
};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, Family, FitOptions, GeodesicOptions, Laplace, MetricName, SamplerOptions,
    Samples, Smoothing,
};

use crate::common::{forward, normal_matrix, random_data, random_network};

fn posterior(activation: Activation, family: Family, outputs: usize) -> Laplace {
    let network = random_network(Architecture::new(&[1, 8, outputs], activation).unwrap(), 2);
    let data = random_data(&network, &family, 40, 3);
    Laplace::fit(network, data, family, &FitOptions::default()).unwrap()
}

fn relu() -> Laplace {
    posterior(Activation::Relu, Family::gaussian(0.2).unwrap(), 1)
}

fn draw(laplace: &Laplace, metric: MetricName, smoothing: Smoothing, range: std::ops::Range<usize>) -> Samples {
    let how = MetricOptions { smoothing, ..Default::default() };
    let geodesic = GeodesicOptions { max_steps: 2000, ..Default::default() };
    let options = SamplerOptions { range, seed: 4, geodesic };
    sample_posterior(laplace, metric, &how, &options, &()).unwrap()
}

#[test]
fn samples_of_a_relu_network_are_smoothed_and_certified_by_default() {
    let laplace = relu();
    for metric in [MetricName::Fisher, MetricName::EmpiricalFisher, MetricName::Monge] {
        let samples = draw(&laplace, metric, Smoothing::Default, 0..4);
        assert_eq!(samples.smoothing, Some(SMOOTHING_WIDTH));
        assert_eq!(samples.failed() + samples.uncertified(), 0, "{metric}: {:?}", samples.drift);
        assert_eq!(samples, draw(&laplace, metric, Smoothing::Width(SMOOTHING_WIDTH), 0..4));
    }
    let fisher = draw(&laplace, MetricName::Fisher, Smoothing::Default, 0..4);
    assert!(fisher.residuals.is_some_and(|residuals| !residuals.exceed_linearized()), "{:?}", fisher.residuals);
    // Unsmoothed by name: one integration each, and no certificate.
    let samples = draw(&laplace, MetricName::Fisher, Smoothing::None, 0..4);
    assert_eq!(samples.smoothing, None);
    assert!(samples.certified.iter().all(|certified| !certified), "{:?}", samples.drift);
    // Straight lines have no kinks, and a smooth network has none.
    let euclidean = draw(&laplace, MetricName::Euclidean, Smoothing::Width(0.1), 0..4);
    assert_eq!((euclidean.smoothing, euclidean.residuals), (None, None));
    let tanh = posterior(Activation::Tanh, Family::gaussian(0.2).unwrap(), 1);
    let smooth = draw(&tanh, MetricName::Fisher, Smoothing::Width(0.1), 0..4);
    assert_eq!(smooth, draw(&tanh, MetricName::Fisher, Smoothing::None, 0..4));
    assert_eq!((smooth.smoothing, smooth.residuals), (None, None));
}

#[test]
fn given_velocities_are_followed_unsmoothed_unless_asked() {
    let laplace = relu();
    let velocities = 0.3 * normal_matrix(3, laplace.parameters().len(), 6);
    let options = GeodesicOptions { max_steps: 2000, ..Default::default() };
    let follow =
        |smoothing| exponential_map(&laplace, MetricName::Fisher, smoothing, velocities.view(), options, &()).unwrap();
    assert_eq!(follow(Smoothing::Default), follow(Smoothing::None));
    let smooth = follow(Smoothing::Width(0.05));
    assert_eq!((smooth.smoothing, smooth.uncertified()), (Some(0.05), 0));
    let negative = Smoothing::Width(-0.05);
    let refused = exponential_map(&laplace, MetricName::Fisher, negative, velocities.view(), options, &());
    assert!(matches!(refused, Err(Error::SmoothingWidth(width)) if width == -0.05));
}

#[test]
fn residuals_are_those_of_the_network_and_of_its_linearisation() {
    let laplace = relu();
    let samples = draw(&laplace, MetricName::Fisher, Smoothing::Default, 2..6);
    let residuals = samples.residuals.unwrap();
    let architecture = Architecture::new(&[1, 8, 1], Activation::Relu).unwrap();
    let data: &Dataset = laplace.data().unwrap();
    let rms = |outputs: &mut dyn FnMut(usize) -> Array2<f64>| {
        let squares = |index| ((data.targets() - &outputs(index)) / 0.2).mapv(|r| r * r).mean().unwrap();
        ((0..4).map(squares).sum::<f64>() / 4.0).sqrt()
    };
    let sampled = rms(&mut |index| forward(&architecture, &samples.theta.row(index).to_vec(), data.inputs()));
    assert!((residuals.sampled / sampled - 1.0).abs() < 1e-12);
    // f̂ + Jv by a difference in which no unit switches, with the draws that are θ̂ plus the velocities.
    let draws = laplace.sample(6, 4).unwrap();
    let base = laplace.parameters();
    let at_base = forward(&architecture, base, data.inputs());
    let linearized = rms(&mut |index| {
        let h = 1e-7;
        let ahead: Vec<f64> = base.iter().zip(draws.row(index + 2)).map(|(b, d)| b + h * (d - b)).collect();
        &at_base + &((forward(&architecture, &ahead, data.inputs()) - &at_base) / h)
    });
    assert!((residuals.linearized / linearized - 1.0).abs() < 1e-6, "{} {linearized}", residuals.linearized);
    assert_eq!(residuals.samples, 4);
}

#[test]
fn classes_and_counts_have_residuals_too() {
    for (name, outputs) in [("categorical", 3), ("bernoulli", 1), ("poisson", 1)] {
        let laplace = posterior(Activation::LeakyRelu, name.parse().unwrap(), outputs);
        let samples = draw(&laplace, MetricName::Fisher, Smoothing::Default, 0..4);
        assert_eq!(samples.failed() + samples.uncertified(), 0, "{name}: {:?}", samples.drift);
        let residuals = samples.residuals.unwrap();
        assert!(residuals.sampled > 0.0 && residuals.ratio().is_finite(), "{name}: {residuals:?}");
        if name != "poisson" {
            // 2·NLL, against the scores of the same samples.
            let data = laplace.data().unwrap();
            let nll = |theta: Vec<f64>| {
                let map = laplace.model().bind(data.inputs().view()).unwrap();
                let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
                map.clone().evaluate(1).outputs(&theta, &mut outputs);
                let at = |n: usize| {
                    let f: Vec<f64> = (0..map.n_outputs()).map(|p| outputs[p * map.n_points() + n]).collect();
                    -laplace.family().likelihood().log_density(&data.targets().row(n).to_vec(), &f)
                };
                (0..map.n_points()).map(at).sum::<f64>() / map.n_points() as f64
            };
            let mean = samples.theta.rows().into_iter().map(|row| nll(row.to_vec())).sum::<f64>() / 4.0;
            assert!((residuals.sampled - (2.0 * mean).sqrt()).abs() < 1e-12);
        }
    }
}

#[test]
fn the_width_is_kept_in_files_and_must_agree_in_parts() {
    let laplace = relu();
    let part = |smoothing, range| draw(&laplace, MetricName::Fisher, smoothing, range);
    let (first, second) = (part(Smoothing::Width(0.1), 0..2), part(Smoothing::Width(0.1), 2..4));
    let whole = Samples::join([first.clone(), second]).unwrap();
    let drawn = part(Smoothing::Width(0.1), 0..4);
    assert_eq!((&whole.theta, whole.smoothing), (&drawn.theta, Some(0.1)));
    let (joined, once) = (whole.residuals.unwrap(), drawn.residuals.unwrap());
    assert!((joined.sampled - once.sampled).abs() < 1e-12 && (joined.linearized - once.linearized).abs() < 1e-12);
    let other = Samples::join([first.clone(), part(Smoothing::Width(0.2), 2..4)]).unwrap_err();
    assert!(matches!(other, Error::Join(JoinError::Smoothing(..))), "{other}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.safetensors");
    write_samples(&path, &first).unwrap();
    let read = read_samples(&path).unwrap();
    assert_eq!((read.smoothing, read.theta), (Some(0.1), first.theta));
}
