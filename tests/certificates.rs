//! The two words of a certificate: *path* and *law*.

mod common;

use std::error::Error;

use common::normal_vector;
use ndarray::Array2;
use riemannian_laplace::internals::geodesic::{
    Accuracy, Certificate, END_BOUND, EndCheck, ExponentialMap, read_samples, write_samples,
};
use riemannian_laplace::internals::metric;
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::{
    Activation, Architecture, Dataset, Family, FitOptions, GeodesicOptions, Laplace, MetricName, Network,
    SamplerOptions,
};

type Outcome = Result<(), Box<dyn Error>>;

/// A posterior of a random network, 1-W-W-1, on a sine.
fn posterior(width: usize, rows: usize) -> Result<Laplace, Box<dyn Error>> {
    let network = Network::random(Architecture::new(&[1, width, width, 1], Activation::Tanh)?, 5);
    let inputs = Array2::from_shape_fn((rows, 1), |(n, _)| 4.0 * n as f64 / rows as f64 - 2.0);
    let data = Dataset::new(inputs.clone(), inputs.mapv(|x| (2.0 * x).sin()))?;
    Ok(Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?)
}

/// Neighbouring geodesics of a network of width 300 part faster than a tolerance can follow: the law is certified by default,
/// and where ends are compared, the word path is refused to ends that differ.
#[test]
fn the_law_of_a_wide_network_is_certified_and_never_its_path() -> Outcome {
    let laplace = posterior(300, 25)?;
    let samples = laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(2), &())?;
    println!("{:?} {:?} {:?}", samples.certificate, samples.off_graph, samples.evaluations);
    for row in 0..samples.len() {
        assert_eq!(samples.certificate[row], Some(Certificate::Law), "{:?}", samples.off_graph);
        assert!(samples.certified[row] && samples.end_error[row].is_infinite());
    }
    assert_eq!((samples.path_certified(), samples.max_end_error()), (0, None));
    Ok(())
}

/// Far velocities, at tolerances as loose as those that certified ends which were wrong by a noise level.
#[test]
fn an_end_that_depends_on_the_tolerance_is_not_certified_as_a_path() -> Outcome {
    let laplace = posterior(12, 25)?;
    let metric = metric::fisher(&laplace.target("a test")?);
    let (mut refused, mut accepted) = (0, 0);
    for seed in 0..6 {
        let far: Vec<f64> = normal_vector(laplace.parameters().len(), seed).iter().map(|entry| 0.6 * entry).collect();
        for rtol in [1e-1, 1e-6] {
            let accuracy = Accuracy::Tolerances { rtol, atol: 1e-3 * rtol, target: 1e3 };
            let options = GeodesicOptions { accuracy, integrator: Integrator::Dopri5, ..Default::default() };
            let end = ExponentialMap::new(&metric, options)?.map(laplace.parameters(), &far)?;
            let close = end.end_error <= END_BOUND && end.off_graph.is_some_and(|off| off <= 0.1);
            assert_eq!(
                end.certificate == Some(Certificate::Path),
                close,
                "{rtol}: {} {:?}",
                end.end_error,
                end.off_graph
            );
            *if close { &mut accepted } else { &mut refused } += 1;
            assert!(end.check_evaluations > 0 || end.end_error.is_infinite());
        }
    }
    assert!(refused > 0 && accepted > 0, "{refused} refused, {accepted} accepted");
    Ok(())
}

#[test]
fn without_a_comparison_of_ends_only_the_law_is_certified_and_the_same_samples_cost_less() -> Outcome {
    let laplace = posterior(5, 20)?;
    let draw = |end_check| {
        let geodesic = GeodesicOptions { end_check, ..Default::default() };
        let options = SamplerOptions { geodesic, ..SamplerOptions::first(6) };
        laplace.sample_riemannian(MetricName::Fisher, &options, &())
    };
    let (with, without) = (draw(EndCheck::Auto)?, draw(EndCheck::Never)?);
    assert!(without.certificate.iter().all(|certificate| *certificate == Some(Certificate::Law)));
    assert_eq!(without.mean_check_evaluations(), 0.0);
    assert_eq!(with.path_certified(), 6, "{:?}", with.end_error);
    assert!(with.mean_check_evaluations() < with.mean_evaluations(), "{}", with.mean_check_evaluations());
    for row in (0..6).filter(|row| with.attempts[*row] == without.attempts[*row]) {
        assert_eq!(with.theta.row(row), without.theta.row(row));
    }
    Ok(())
}

#[test]
fn certificates_survive_their_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s.safetensors");
    let laplace = posterior(4, 15)?;
    let samples = laplace.sample_riemannian(MetricName::Monge, &SamplerOptions::first(3), &())?;
    write_samples(&path, &samples)?;
    let read = read_samples(&path)?;
    assert_eq!((&read.certificate, &read.end_error), (&samples.certificate, &samples.end_error));
    assert_eq!((&read.attempts, &read.residual), (&samples.attempts, &samples.residual));
    Ok(())
}
