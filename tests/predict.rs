//! Predictions: samples against closed forms, closed forms against quadrature and Monte Carlo, summaries against their
//! definitions, scores on cases small enough to compute by hand.

mod common;

#[path = "predict/links.rs"]
mod links;
#[path = "predict/mixtures.rs"]
mod mixtures;
#[path = "predict/scores.rs"]
mod scores;
#[path = "predict/tempering.rs"]
mod tempering;

use faer::{Mat, Side};
use ndarray::{Array2, Array3, ArrayView2};
use riemannian_laplace::Dataset;
use riemannian_laplace::Error;
use riemannian_laplace::Family;
use riemannian_laplace::Scores;
use riemannian_laplace::internals::predict::{LatentGaussian, Predictive};
use riemannian_laplace::{Activation, Architecture, Network};
use riemannian_laplace::{FitOptions, Laplace};
use riemannian_laplace::{FunctionModel, Model, Taylor};
use riemannian_laplace::{Link, Method, Prediction};

use common::{architecture, assert_all_close, normal_matrix, random_data, random_network};

/// A Gaussian over one output at each of several points.
fn latent(means: &[f64], variances: &[f64]) -> LatentGaussian {
    let count = means.len();
    LatentGaussian {
        mean: Array2::from_shape_fn((count, 1), |(t, _)| means[t]),
        covariance: Array3::from_shape_fn((count, 1, 1), |(t, _, _)| variances[t]),
    }
}

/// A Gaussian over several outputs at one point.
fn latent_vector(mean: &[f64], covariance: &[f64]) -> LatentGaussian {
    let size = mean.len();
    LatentGaussian {
        mean: Array2::from_shape_fn((1, size), |(_, k)| mean[k]),
        covariance: Array3::from_shape_fn((1, size, size), |(_, i, j)| covariance[i * size + j]),
    }
}

/// A posterior about which the data say nothing: at the one training input, 0, the model does not depend on its
/// weights.
fn uninformed(model: impl Model + 'static, family: &Family) -> Result<Laplace, Error> {
    let targets = Array2::zeros((1, family.likelihood().n_targets(model.n_outputs())));
    let data = Dataset::new(Array2::zeros((1, model.n_inputs())), targets)?;
    Laplace::fit(model, data, family.clone(), &FitOptions::default())
}

/// A posterior whose linearised predictive at the inputs is the given Gaussian: f(eₜ) = mₜ + Rₜθ with RₜRₜᵀ = Cₜ and
/// θ ~ N(0, I).
fn posterior_of(latent: &LatentGaussian, family: &Family) -> Result<(Laplace, Array2<f64>), Error> {
    let (points, p) = latent.mean.dim();
    let root = |t: usize| {
        let covariance = Mat::from_fn(p, p, |i, j| latent.covariance[(t, i, j)]);
        let eigen = covariance.self_adjoint_eigen(Side::Lower).expect("a finite covariance");
        Mat::from_fn(p, p, |i, j| eigen.U()[(i, j)] * eigen.S()[j].max(0.0).sqrt())
    };
    let (means, roots) = (latent.mean.clone(), (0..points).map(root).collect::<Vec<_>>());
    let function = move |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| {
        for t in (0..points).filter(|&t| x[t] != 0.0) {
            for (i, f) in f.iter_mut().enumerate() {
                let terms = theta.iter().enumerate().map(|(j, theta)| roots[t][(i, j)] * *theta);
                *f = terms.fold(Taylor::constant(means[(t, i)]), |sum, term| sum + term);
            }
        }
    };
    let model = FunctionModel::new(vec![0.0; p], points, p, function)?;
    Ok((uninformed(model, family)?, Array2::eye(points)))
}

/// The prediction of the model alone whose outputs are the Gaussian's mean, or the linearised one of the Gaussian.
fn predicted(latent: &LatentGaussian, family: &Family, method: &Method) -> Result<Prediction, Error> {
    let (laplace, inputs) = posterior_of(latent, family)?;
    let prediction = laplace.predict(&inputs, method)?;
    match prediction.predictive() {
        Predictive::Network { outputs } => assert_eq!(*outputs, latent.mean),
        Predictive::Linearized { latent: found, .. } => {
            assert_eq!(found.mean, latent.mean);
            assert_all_close(&found.covariance, &latent.covariance, 1e-15, "covariance");
        }
        Predictive::Sampled(_) | Predictive::Mixture(_) => panic!("not used here"),
    }
    Ok(prediction)
}

/// The scores of the linearised prediction.
fn scores_of(latent: &LatentGaussian, family: &Family, link: Link, targets: &Array2<f64>) -> Result<Scores, Error> {
    Scores::of(&predicted(latent, family, &Method::Glm(link))?, targets)
}

/// The prediction of networks with the given weights.
fn mixture(
    shape: &Architecture,
    family: &Family,
    weights: ArrayView2<'_, f64>,
    inputs: &Array2<f64>,
) -> Result<Prediction, Error> {
    Prediction::of_weights(&uninformed(with_zeros(shape)?, family)?, weights, inputs)
}

/// A network of that shape, for samples that bring their own weights.
fn with_zeros(shape: &Architecture) -> Result<Network, Error> {
    Network::new(shape.clone(), vec![0.0; shape.n_params()])
}

/// ∫ g(f) N(f | m, v) df, by the trapezoidal rule with 4,001 nodes on ±10 standard deviations.
fn expectation(mean: f64, variance: f64, g: impl Fn(f64) -> f64) -> f64 {
    let (nodes, range) = (4001, 10.0);
    let step = 2.0 * range / (nodes - 1) as f64;
    let term = |i: usize| {
        let x = -range + i as f64 * step;
        g(mean + variance.sqrt() * x) * (-0.5 * x * x).exp()
    };
    (0..nodes).map(term).sum::<f64>() * step / (2.0 * std::f64::consts::PI).sqrt()
}

fn sigmoid(f: f64) -> f64 {
    1.0 / (1.0 + (-f).exp())
}

/// Samples from a posterior over a linear network, where the linearised predictive is exact.
fn linear_posterior(family: Family) -> Result<(Laplace, Array2<f64>), Box<dyn std::error::Error>> {
    let outputs = if family.likelihood().name() == "categorical" { 3 } else { 2 };
    let network = random_network(architecture(&[3, outputs], &[true], Activation::Identity), 3);
    let data = random_data(&network, &family, 25, 4);
    let laplace =
        Laplace::fit(network, data, family, &FitOptions { prior_precision: 0.8.into(), ..Default::default() })?;
    Ok((laplace, normal_matrix(4, 3, 9)))
}

const SAMPLES: usize = 20_000;
