//! Metrics of a part of the weights: the restriction of the whole metric, and its geodesics.

use faer::Mat;
use riemannian_laplace::internals::metric::{self, Metric, Pullback};
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{
    Activation, Family, FitOptions, Laplace, MetricName, Model, SamplerOptions, Structure, Weights,
};

use super::common::{Outcome, architecture, assert_all_close, normal_vector, random_network};
use super::{data, family, network, restricted, selections, shared};

/// The target of a model's parameters with a common prior precision.
fn target(model: &dyn Model, family: &Family) -> Result<Target, riemannian_laplace::Error> {
    let data = data(family);
    let prior = PriorPrecision::scalar(0.6, &model.group_sizes())?;
    Target::new(model.bind(data.inputs().view())?, family.shared(), data.targets().view(), Prior::gaussian(prior))
}

/// −½(∂ᵢGⱼₗ + ∂ⱼGᵢₗ − ∂ₗGᵢⱼ)vᵢvⱼ of the selected block of a metric over all parameters, by extrapolated differences.
fn christoffel_force(whole: &Pullback, at: &[f64], indices: &[usize], velocity: &[f64]) -> Vec<f64> {
    let matrix = |point: &[f64]| whole.at(point).expect("a metric").matrix().to_owned();
    let difference = |index: usize, step: f64| -> Mat<f64> {
        let mut point = at.to_vec();
        point[index] = at[index] + step;
        let plus = matrix(&point);
        point[index] = at[index] - step;
        (plus - matrix(&point)) * faer::Scale(0.5 / step)
    };
    let derivative = |&index: &usize| {
        let (wide, narrow) = (difference(index, 2e-3), difference(index, 1e-3));
        let all = &narrow * faer::Scale(4.0 / 3.0) - &wide * faer::Scale(1.0 / 3.0);
        Mat::from_fn(indices.len(), indices.len(), |i, j| all[(indices[i], indices[j])])
    };
    let derivatives: Vec<Mat<f64>> = indices.iter().map(derivative).collect();
    let mut force = vec![0.0; indices.len()];
    for (l, force) in force.iter_mut().enumerate() {
        for (i, j) in (0..indices.len()).flat_map(|i| (0..indices.len()).map(move |j| (i, j))) {
            let term = derivatives[i][(j, l)] + derivatives[j][(i, l)] - derivatives[l][(i, j)];
            *force -= 0.5 * term * velocity[i] * velocity[j];
        }
    }
    force
}

#[test]
fn the_metric_of_a_part_is_the_restricted_metric_and_its_acceleration_follows_from_it() -> Outcome {
    type Make = fn(&Target) -> Pullback;
    let metrics: [(&str, Make); 3] = [
        ("Fisher", |target| metric::fisher(target)),
        ("empirical Fisher", |target| metric::empirical_fisher(target)),
        ("Monge", |target| metric::monge(target)),
    ];
    let family: Family = "categorical".parse()?;
    for weights in selections().into_iter().step_by(2) {
        let (model, indices) = restricted(&weights);
        let velocity = normal_vector(indices.len(), 21);
        for (name, make) in metrics {
            let name = format!("{name}, {weights}");
            let part = make(&target(&*model, &family)?);
            // The Monge metric's gradient has the prior of all parameters; its restriction to the selected ones is the
            // same, as a prior of independent parameters has no terms between them.
            let whole = make(&target(&*shared(), &family)?);
            let theta = model.parameters();
            let all = network().parameters().to_vec();
            let (found, expected) = (part.at(theta)?, whole.at(&all)?);
            let size = indices.len();
            let block = |i: usize, j: usize| expected.matrix()[(indices[i], indices[j])];
            for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
                let (found, expected) = (found.matrix()[(i, j)], block(i, j));
                assert!((found - expected).abs() < 1e-11 * (1.0 + expected.abs()), "{name}: {found}, {expected}");
            }
            let force = christoffel_force(&whole, &all, &indices, &velocity);
            for solver in [Structure::WeightSpace, Structure::FunctionSpace] {
                let mut acceleration = vec![0.0; size];
                let metric = part.clone().with_structure(solver);
                metric.evaluator().acceleration(theta, &velocity, &mut acceleration);
                let lowered: Vec<f64> =
                    (0..size).map(|i| (0..size).map(|j| block(i, j) * acceleration[j]).sum()).collect();
                // Differences of G are good to 1e-7.
                assert_all_close(&lowered, &force, 1e-6, &format!("{name}, {solver}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_part_of_a_relu_network_has_its_kinks_rounded_and_its_last_layer_has_none() -> Outcome {
    let network = random_network(architecture(&[2, 4, 3, 2], &[true; 3], Activation::Relu), 5);
    let whole: std::sync::Arc<dyn Model> = std::sync::Arc::new(network);
    for (word, kinks) in [("last-layer", false), ("layers:2,4", true), ("subnetwork:12", true)] {
        let model = word.parse::<Weights>()?.restrict(&whole)?;
        assert_eq!(model.has_kinks(), kinks, "{word}");
        let laplace = Laplace::fit_shared(model, data(&family()), family(), &FitOptions::default())?;
        let samples = laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(3), &())?;
        assert_eq!(samples.smoothing.is_some(), kinks, "{word}");
        assert!(samples.certified.iter().all(|certified| *certified), "{word}: {:?}", samples.drift);
    }
    Ok(())
}

#[test]
fn riemannian_samples_of_a_part_conserve_their_speed_and_say_where_their_weights_belong() -> Outcome {
    for weights in selections().into_iter().step_by(3) {
        let (model, indices) = restricted(&weights);
        let laplace = Laplace::fit_shared(model, data(&family()), family(), &FitOptions::default())?;
        for metric in [MetricName::Fisher, MetricName::EmpiricalFisher, MetricName::Monge] {
            let options = SamplerOptions { seed: 3, ..SamplerOptions::first(3) };
            let samples = laplace.sample_riemannian(metric, &options, &())?;
            assert_eq!(samples.theta.dim(), (3, indices.len()));
            assert!(samples.certified.iter().all(|certified| *certified), "{weights}, {metric}: {:?}", samples.drift);
            assert_eq!(samples.indices.as_deref(), Some(indices.as_slice()));
        }
    }
    Ok(())
}
