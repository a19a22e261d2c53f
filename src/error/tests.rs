use super::*;

#[test]
fn work_that_failed_is_told_from_input_that_is_wrong() {
    let report = SamplingCount { requested: 10, failed: 3, uncertified: 2 };
    let bound = AtBound { parameter: "sigma", index: 0, value: 1e-10 };
    let limits = ReferenceLimits { r_hat: 1.01, bulk_ess: 400.0, divergent: 1e-3 };
    let refusal = Refusal { quantity: 0, r_hat: 2.0, bulk_ess: 5.0, divergences: 0, transitions: 0, limits };
    for failed in [
        Error::Cancelled,
        Error::NoSamples { requested: 3 },
        Error::Uncertified { report, allowed: 0.05 },
        Error::TunedToBound { bound, source: Box::new(Error::Cancelled) },
        Error::from(refusal),
        Error::from(OptimizeError::NoFiniteStart { starts: 2 }),
    ] {
        assert!(!failed.is_input(), "{failed}");
    }
    for wrong in [
        Error::PriorPrecision { position: 0, value: 0.0 },
        Error::from(NoiseError::Empty),
        Error::from(UnknownLikelihood { name: "gausian".to_string(), known: "gaussian".to_string() }),
        Error::Bounds { low: 2.0, high: 1.0 },
        Error::BatchSize { size: 0, total: 10 },
        Error::SolverTolerance(1.0),
        Error::NoProducts,
        Error::NoDraws,
        Error::QuantileLevel(1.1),
        Error::from(InvalidTraining::NoEpochs),
        Error::from(InvalidChains::NoChains),
        Error::from(InvalidProblem::FunnelSigma(0.0)),
        Error::from(InvalidOptions::NoTolerance),
    ] {
        assert!(wrong.is_input(), "{wrong}");
    }
}

#[test]
fn messages_name_the_value_and_what_it_must_be() {
    for (error, message) in [
        (
            Error::PriorPrecision { position: 1, value: -2.5 },
            "the prior precision is -2.5 (position 1); it must be positive",
        ),
        (
            NoiseError::Level { position: 1, value: 0.0 }.into(),
            "sigma is 0 (position 1); a noise level must be positive",
        ),
        (Error::Bounds { low: 2.0, high: 1.0 }, "are 2 and 1; they must be positive, finite and in order"),
        (Error::BatchSize { size: 11, total: 10 }, "11 of 10 data points; take at least one"),
        (InvalidTraining::LearningRate(f64::NAN).into(), "the learning rate is NaN; it must be positive and finite"),
        (InvalidChains::Unequal { chains: 2, draws: 3 }.into(), "2 for 3 draws; it must be a divisor"),
        (InvalidProblem::SquiggleVariances([1.0, -1.0]).into(), "[1.0, -1.0]; they must be positive and finite"),
    ] {
        assert!(error.to_string().contains(message), "{error}");
    }
}
