//! Riemannian samples: any part of a stream, and what is said when they do not end well.

use riemannian_laplace::internals::geodesic::Accuracy;
use riemannian_laplace::internals::predict::SamplingReport;
use riemannian_laplace::{
    Error, GeodesicOptions, Geodesics, Method, MetricName, Prediction, SamplerOptions, Samples, Structure,
};

use crate::common::{Outcome, normal_matrix};
use crate::{Case, STRUCTURES};

#[test]
fn parts_of_a_stream_join_to_the_whole_for_every_structure() -> Outcome {
    let case = Case::regression(15);
    for structure in STRUCTURES {
        let laplace = case.fit(structure)?;
        for metric in [MetricName::Fisher, MetricName::Monge, MetricName::Euclidean] {
            let draw = |range| {
                let options = SamplerOptions { range, seed: 13, ..Default::default() };
                laplace.sample_riemannian(metric, &options, &())
            };
            let whole = draw(0..7)?;
            // In any order, of any size, an empty one among them.
            let parts = [draw(5..7)?, draw(0..1)?, draw(1..1)?, draw(1..5)?];
            assert_eq!(Samples::join(parts)?, whole, "{structure}, {metric}");
        }
    }
    Ok(())
}

fn geodesics(geodesic: GeodesicOptions, allow_uncertified: f64) -> Method {
    let sampler = SamplerOptions { seed: 4, geodesic, ..SamplerOptions::first(12) };
    Method::Riemannian(Geodesics { sampler, allow_uncertified, ..Default::default() })
}

#[test]
fn samples_that_meet_the_step_limit_are_an_error_unless_they_are_allowed() -> Outcome {
    let inputs = normal_matrix(3, 2, 51);
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    // The first limit with which some geodesics end and some do not.
    let mut mixed = None;
    for max_steps in 1..400 {
        let geodesic = GeodesicOptions { max_steps, ..Default::default() };
        let options = SamplerOptions { seed: 4, geodesic, ..SamplerOptions::first(12) };
        let samples = laplace.sample_riemannian(MetricName::Fisher, &options, &())?;
        if (1..12).contains(&samples.failed()) {
            mixed = Some((geodesic, samples));
            break;
        }
    }
    let (geodesic, samples) = mixed.expect("a limit between the shortest and the longest geodesic");
    let counts = SamplingReport { requested: 12, failed: samples.failed(), uncertified: samples.uncertified() };
    match laplace.predict(&inputs, &geodesics(geodesic, 0.0)) {
        Err(Error::Uncertified { report, allowed }) => assert_eq!((report, allowed), (counts, 0.0)),
        other => panic!("{:?}", other.map(|prediction| prediction.samples)),
    }
    let allowed = laplace.predict(&inputs, &geodesics(geodesic, 1.0))?;
    assert_eq!(allowed.samples, Some(counts));
    // The mean is over those that reached their end.
    let reached = Prediction::of_weights(&laplace, samples.reached().view(), &inputs)?;
    assert_eq!(allowed.mean, reached.mean);
    // The share itself is allowed, a little less is not.
    let share = counts.failed_share();
    assert!(laplace.predict(&inputs, &geodesics(geodesic, share)).is_ok());
    assert!(laplace.predict(&inputs, &geodesics(geodesic, share - 1e-9)).is_err());

    let none = GeodesicOptions { max_steps: 1, ..Default::default() };
    assert!(matches!(laplace.predict(&inputs, &geodesics(none, 1.0)), Err(Error::NoSamples { requested: 12 })));
    Ok(())
}

#[test]
fn samples_that_drift_are_an_error_unless_they_are_allowed() -> Outcome {
    let inputs = normal_matrix(3, 2, 51);
    let laplace = Case::regression(15).fit(Structure::Auto)?;
    // Loose tolerances, and a drift that not even rounding meets.
    let accuracy = Accuracy::Tolerances { rtol: 1e-3, atol: 1e-6, target: 1e-16 };
    let geodesic = GeodesicOptions { accuracy, ..GeodesicOptions::with_tolerances(1e-3, 1e-6) };
    let counts = SamplingReport { requested: 12, failed: 0, uncertified: 12 };
    match laplace.predict(&inputs, &geodesics(geodesic, 0.05)) {
        Err(error @ Error::Uncertified { report, .. }) => {
            assert_eq!(report, counts);
            assert!(error.to_string().contains("of 12 samples 0 failed and 12 are uncertified"), "{error}");
        }
        other => panic!("{:?}", other.map(|prediction| prediction.samples)),
    }
    assert_eq!(laplace.predict(&inputs, &geodesics(geodesic, 1.0))?.samples, Some(counts));
    Ok(())
}
