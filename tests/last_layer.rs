//! The last layer over a candle backbone, against closed forms and candle's own forward pass.

use std::cell::Cell;

use candle_core::{DType, Device, Module, Result as CandleResult, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear};
use ndarray::{Array2, Axis};
use rand::Rng;
use riemannian_laplace::Error;
use riemannian_laplace::internals::last_layer::BackboneError;
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::prelude::*;

/// Uniform on ±1.
fn random(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    let mut generator = stream(seed, Purpose::Data, 0);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| generator.random_range(-1.0..1.0)).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// A convolution, tanh, and the mean over each quarter of a 6 × 6 image: three channels, 12 features.
struct Convolutional(Conv2d);

impl Convolutional {
    fn new(seed: u64) -> Self {
        let config = Conv2dConfig { padding: 1, ..Default::default() };
        Self(Conv2d::new(random(seed, &[3, 1, 3, 3], DType::F32), Some(random(seed + 1, &[3], DType::F32)), config))
    }
}

impl Module for Convolutional {
    fn forward(&self, images: &Tensor) -> CandleResult<Tensor> {
        self.0.forward(images)?.tanh()?.avg_pool2d(3)?.flatten_from(1)
    }
}

/// Images, labels, and a head that takes the features.
fn classification(count: usize) -> (Tensor, Tensor, Linear) {
    let images = random(10, &[count, 1, 6, 6], DType::F32);
    let labels: Vec<u32> = (0..count as u32).map(|row| row * row % 3).collect();
    let head = Linear::new(random(11, &[3, 12], DType::F32), Some(random(12, &[3], DType::F32)));
    (images, Tensor::new(labels, &Device::Cpu).unwrap(), head)
}

fn array(tensor: &Tensor) -> Array2<f64> {
    let rows = tensor.to_dtype(DType::F64).unwrap().to_vec2::<f64>().unwrap();
    Array2::from_shape_fn((rows.len(), rows[0].len()), |(row, column)| rows[row][column])
}

fn largest(difference: Array2<f64>) -> f64 {
    difference.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()))
}

fn message<T>(result: Result<T, Error>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_gaussian_head_is_bayesian_linear_regression_on_the_features() {
    let backbone = |x: &Tensor| Tensor::cat(&[x.sin()?, x.clone()], 1);
    let (inputs, targets) = (random(1, &[30, 1], DType::F64), random(2, &[30, 1], DType::F64));
    let head = Linear::new(random(3, &[1, 2], DType::F64), None);
    let (alpha, sigma) = (0.7, 0.3);
    let options = FitOptions { prior_precision: alpha.into(), ..Default::default() };
    let last_layer = LastLayer::new(backbone, &head).unwrap();
    let posterior = last_layer.fit(&inputs, &targets, Family::gaussian(sigma).unwrap(), &options).unwrap();

    // φᵀ(αI + ΦᵀΦ/σ²)⁻¹φ, with the inverse of a 2 × 2 matrix written out.
    let phi = array(&backbone(&inputs).unwrap());
    let g = phi.t().dot(&phi) / (sigma * sigma) + alpha * Array2::<f64>::eye(2);
    let determinant = g[(0, 0)] * g[(1, 1)] - g[(0, 1)] * g[(1, 0)];
    let inverse = ndarray::array![[g[(1, 1)], -g[(0, 1)]], [-g[(1, 0)], g[(0, 0)]]] / determinant;
    let new = random(4, &[5, 1], DType::F64);
    let phi = array(&backbone(&new).unwrap());
    let expected = (&phi.dot(&inverse) * &phi).sum_axis(Axis(1)).insert_axis(Axis(1));
    let prediction = posterior.predict(&new, &Method::default()).unwrap();
    // Two ways to solve a system of condition 10.
    assert!(largest(prediction.epistemic_variance - &expected) < 1e-12 * expected.sum());
    assert!(largest(prediction.mean - array(&head.forward(&backbone(&new).unwrap()).unwrap())) < 1e-12);
}

#[test]
fn predictions_run_the_backbone_in_batches_and_agree_with_candle() {
    // More than one batch.
    let (images, labels, head) = classification(600);
    let backbone = Convolutional::new(20);
    let expected = head.forward(&backbone.forward(&images).unwrap()).unwrap();
    let expected = array(&candle_nn::ops::softmax(&expected, 1).unwrap());
    let posterior = LastLayer::new(Some(&backbone), &head)
        .unwrap()
        .fit(&images, &labels, Family::new(Categorical), &FitOptions::default())
        .unwrap();
    let map = posterior.predict(&images, &Method::Map).unwrap();
    // candle's head computes in f32.
    assert!(largest(map.mean - expected) < 1e-6);
    // In one call, and in batches of another size.
    assert!(largest(posterior.features(&images).unwrap() - array(&backbone.forward(&images).unwrap())) < 1e-6);
}

#[test]
fn every_method_works_on_the_head_and_geodesics_are_certified() {
    let (images, labels, head) = classification(60);
    let mut posterior = LastLayer::new(Convolutional::new(20), &head)
        .unwrap()
        .fit(&images, &labels, Family::new(Categorical), &FitOptions::default())
        .unwrap();
    let before = posterior.laplace().log_marginal_likelihood();
    posterior.optimize(&EvidenceOptions::default()).unwrap();
    assert!(posterior.laplace().log_marginal_likelihood() > before);
    for method in [Method::Map, Method::default(), Method::Nn(Draws::first(50, 0)), Method::riemannian(50, 0)] {
        let prediction = posterior.predict(&images, &method).unwrap();
        assert!(prediction.mean.sum_axis(Axis(1)).iter().all(|sum| (sum - 1.0).abs() < 1e-12), "{}", method.name());
        assert!(prediction.samples.is_none_or(|report| report.failed_share() == 0.0));
    }
}

#[test]
fn a_saved_posterior_predicts_the_same_with_its_backbone_and_refuses_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.safetensors");
    let (images, labels, head) = classification(60);
    let posterior = LastLayer::new(Convolutional::new(20), &head)
        .unwrap()
        .fit(&images, &labels, Family::new(Categorical), &FitOptions::default())
        .unwrap();
    for contents in [Contents::TrainingData, Contents::Curvature] {
        posterior.save(&path, contents).unwrap();
        let loaded = LastLayerPosterior::load(&path, Convolutional::new(20)).unwrap();
        for method in [Method::default(), Method::Nn(Draws::first(10, 0))] {
            let [first, second] = [&posterior, &loaded].map(|posterior| posterior.predict(&images, &method).unwrap());
            assert_eq!(first.mean, second.mean);
        }
        // The head's posterior is an ordinary one over features.
        let plain = Laplace::load(&path).unwrap().predict(&loaded.features(&images).unwrap(), &Method::default());
        assert_eq!(plain.unwrap().mean, posterior.predict(&images, &Method::default()).unwrap().mean);
    }
    let other = message(LastLayerPosterior::load(&path, Convolutional::new(21)));
    assert!(other.contains("another backbone") && other.contains("probe batch"), "{other}");
    // Another number of features.
    let wide = |images: &Tensor| images.flatten_from(1);
    let wide = message(LastLayerPosterior::load(&path, wide));
    assert!(wide.contains("[8, 36]") && wide.contains("[8, 12]"), "{wide}");
    // A change that a rounding error could have made is let through, one a hundred times as large is not.
    for (change, accepted) in [(1e-6, true), (1e-2, false)] {
        let changed = |images: &Tensor| Convolutional::new(20).forward(images)? * (1.0 + change);
        assert_eq!(LastLayerPosterior::load(&path, changed).is_ok(), accepted, "{change}");
    }
    posterior.laplace().save(&path, Contents::TrainingData).unwrap();
    let plain = message(LastLayerPosterior::load(&path, Convolutional::new(20)));
    assert!(plain.contains("not the posterior of a last layer"), "{plain}");
}

#[test]
fn integer_inputs_have_a_probe_batch_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.safetensors");
    let embed = |seed: u64| {
        let table = random(seed, &[5, 4], DType::F32);
        move |tokens: &Tensor| table.index_select(&tokens.flatten_all()?, 0)?.reshape((tokens.dim(0)?, 3, 4))?.mean(1)
    };
    let tokens = Tensor::from_vec((0..60u32).map(|token| token * token % 5).collect(), (20, 3), &Device::Cpu).unwrap();
    let head = Linear::new(random(31, &[1, 4], DType::F32), None);
    let targets = random(32, &[20], DType::F32);
    let last_layer = LastLayer::new(embed(30), &head).unwrap();
    let posterior = last_layer.fit(&tokens, &targets, Family::gaussian(1.0).unwrap(), &FitOptions::default()).unwrap();
    posterior.save(&path, Contents::TrainingData).unwrap();
    assert!(LastLayerPosterior::load(&path, embed(30)).is_ok());
    assert!(message(LastLayerPosterior::load(&path, embed(33))).contains("another backbone"));
}

#[test]
fn a_backbone_whose_features_depend_on_more_than_the_input_is_refused() {
    let (images, labels, head) = classification(20);
    let fit = |backbone: &dyn Fn(&Tensor) -> CandleResult<Tensor>| {
        let family = Family::new(Categorical);
        LastLayer::new(backbone, &head).unwrap().fit(&images, &labels, family, &FitOptions::default()).map(drop)
    };
    let steady = Convolutional::new(20);
    assert!(fit(&|images| steady.forward(images)).is_ok());
    // As dropout does: other features in every call.
    let calls = Cell::new(0.0);
    let noisy = |images: &Tensor| {
        calls.set(calls.get() + 1.0);
        steady.forward(images)? * calls.get()
    };
    // As a normalisation in training mode does: features that depend on the batch.
    let batch = |images: &Tensor| {
        let features = steady.forward(images)?;
        features.broadcast_sub(&features.mean_keepdim(0)?)
    };
    for backbone in [&noisy as &dyn Fn(&Tensor) -> CandleResult<Tensor>, &batch] {
        let refused = fit(backbone);
        assert!(matches!(refused, Err(Error::Backbone(BackboneError::Unsteady { .. }))), "{refused:?}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let (images, labels, head) = classification(20);
    let family = || Family::new(Categorical);
    let fit = |images: &Tensor, labels: &Tensor, head: &Linear| {
        let last_layer = LastLayer::new(Convolutional::new(20), head)?;
        last_layer.fit(images, labels, family(), &FitOptions::default()).map(drop)
    };
    let narrow = Linear::new(random(1, &[3, 5], DType::F32), None);
    assert!(message(fit(&images, &labels, &narrow)).contains("the head needs [8, 5]"));
    let few = labels.narrow(0, 0, 10).unwrap();
    assert!(message(fit(&images, &few, &head)).contains("expected 20, found 10"));
    let cube = labels.reshape((20, 1, 1)).unwrap();
    assert!(message(fit(&images, &cube, &head)).contains("[20, 1, 1]"));
    let none = Tensor::zeros((), DType::F32, &Device::Cpu).unwrap();
    assert!(message(fit(&none, &labels, &head)).contains("at least one data point"));
    let crooked = Linear::new(random(1, &[3, 12], DType::F32), Some(random(1, &[4], DType::F32)));
    assert!(message(fit(&images, &labels, &crooked)).contains("a bias of shape [4]"));
}
