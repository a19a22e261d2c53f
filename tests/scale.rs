//! A network of a million parameters through the function-space solver: fitted, tuned, predicted with, sampled, and a
//! geodesic followed, in memory O(D + N·Σwidths + (N·P)²). The only test of its binary, so that the peak of the process
//! is its own.

mod common;

use std::time::Instant;

use riemannian_laplace::Dataset;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::GeodesicOptions;
use riemannian_laplace::Link;
use riemannian_laplace::internals::geodesic::ExponentialMap;
use riemannian_laplace::internals::predict::SampledPredictive;
use riemannian_laplace::{Activation, Architecture, Network};
use riemannian_laplace::{FitOptions, Laplace};

use common::{Outcome, normal_matrix};

/// The most memory the process has had, in bytes; unknown on systems without `/proc`.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kilobytes)
}

#[test]
fn a_million_parameters_need_no_matrix_that_wide() -> Outcome {
    let start = Instant::now();
    let network = Network::random(Architecture::new(&[1, 1000, 1000, 1], Activation::Tanh)?, 1);
    assert_eq!(network.parameters().len(), 1_004_001);
    let inputs = normal_matrix(200, 1, 2);
    let targets = inputs.mapv(|x| (2.0 * x).sin()) + 0.1 * normal_matrix(200, 1, 3);
    let data = Dataset::new(inputs, targets)?;

    let mut laplace = Laplace::fit(network, data, Family::gaussian(0.3)?, &FitOptions::default())?;
    assert_eq!(laplace.structure().solver(), "function-space");
    let fitted = start.elapsed();
    let optimum = laplace.optimize(&EvidenceOptions::default())?;
    assert!(optimum.converged && optimum.log_marginal_likelihood.is_finite(), "{optimum:?}");
    let effective = laplace.effective_parameters();
    assert!(effective > 0.0 && effective < 200.0, "{effective} effective parameters");
    let tuned = start.elapsed();

    let points = ndarray::array![[-1.0], [0.0], [5.0]];
    let latent = laplace.linearized(&points)?;
    let prediction = latent.moments(laplace.family(), Link::Probit)?;
    assert!(prediction.mean.iter().all(|value| value.is_finite()));
    assert!(latent.covariance.iter().all(|variance| variance.is_finite() && *variance > 0.0));
    // Far from the data the network is less certain.
    assert!(latent.covariance[(2, 0, 0)] > latent.covariance[(1, 0, 0)]);
    let predicted = start.elapsed();

    let samples = laplace.sample(2, 7)?;
    assert!(samples.iter().all(|value| value.is_finite()));
    let outputs = SampledPredictive::new(&**laplace.model(), laplace.family(), samples.view(), &points)?;
    assert!(outputs.outputs().iter().all(|value| value.is_finite()));
    let sampled = start.elapsed();

    // A hundredth of a posterior velocity: everything that a whole geodesic involves, in a few evaluations.
    let centre = laplace.parameters();
    let velocity: Vec<f64> = samples.row(0).iter().zip(centre).map(|(end, start)| 0.01 * (end - start)).collect();
    let target = laplace.target("the test")?;
    let metric = riemannian_laplace::internals::metric::fisher(&target);
    let geodesic = ExponentialMap::new(&metric, GeodesicOptions::default())?.map(centre, &velocity)?;
    assert!(geodesic.certified && geodesic.drift <= 1e-3, "drift {}", geodesic.drift);
    let bend: f64 = geodesic.velocity.iter().zip(&velocity).map(|(end, start)| (end - start).powi(2)).sum();
    assert!(bend > 0.0);
    println!(
        "fit {fitted:.1?}, tuned {tuned:.1?}, predicted {predicted:.1?}, sampled {sampled:.1?}, followed {} evaluations {:.1?}",
        geodesic.evaluations,
        start.elapsed()
    );

    // An N·P × D array alone would take 1.6 GB.
    if let Some(peak) = peak_memory() {
        println!("peak memory {:.2} GB", peak as f64 / 1e9);
        assert!(peak < 600_000_000, "peak memory {peak} bytes");
    }
    Ok(())
}
