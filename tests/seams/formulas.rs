//! A model that is a formula against the network that computes the same: two implementations of every derivative.

use riemannian_laplace::internals::laplace::PosteriorError;
use riemannian_laplace::internals::ode::Integrator;
use riemannian_laplace::{
    Dataset, Error, EvidenceOptions, Family, FitOptions, FunctionModel, GeodesicOptions, Laplace, MetricName, Model,
    Network, SamplerOptions, Structure, Taylor,
};

use crate::common::{Outcome, assert_all_close, is_close, normal_matrix};
use crate::{Case, gaussian};

const EXACT: [Structure; 2] = [Structure::WeightSpace, Structure::FunctionSpace];

/// The tanh network with one hidden layer, written out.
fn formula(network: &Network) -> Result<impl Model + use<>, Error> {
    let (inputs, outputs) = (network.n_inputs(), network.n_outputs());
    let hidden = (network.n_params() - outputs) / (inputs + 1 + outputs);
    let function = move |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| {
        let (weights, rest) = theta.split_at(hidden * inputs);
        let (biases, rest) = rest.split_at(hidden);
        let (top, top_biases) = rest.split_at(outputs * hidden);
        let unit = |j: usize| {
            let terms = (0..inputs).map(|i| weights[j * inputs + i] * x[i]);
            terms.fold(biases[j], |sum, term| sum + term).tanh()
        };
        let units: Vec<Taylor> = (0..hidden).map(unit).collect();
        for (k, f) in f.iter_mut().enumerate() {
            let terms = units.iter().enumerate().map(|(j, unit)| top[k * hidden + j] * *unit);
            *f = terms.fold(top_biases[k], |sum, term| sum + term);
        }
    };
    FunctionModel::new(network.parameters().to_vec(), inputs, outputs, function)
}

/// The same posterior of the network and of the formula. A formula has one group of parameters, so the prior is shared.
fn both(case: &Case, structure: Structure) -> Result<[Laplace; 2], Error> {
    let options = FitOptions { prior_precision: 0.8.into(), structure, ..Default::default() };
    let (data, family): (Dataset, Family) = (case.data.clone(), case.family.clone());
    let network = Laplace::fit(case.network.clone(), data.clone(), family.clone(), &options)?;
    Ok([network, Laplace::fit(formula(&case.network)?, data, family, &options)?])
}

fn cases() -> [Case; 3] {
    [Case::regression(12), Case::new(gaussian(0.4), 2, 10), Case::classes(14)]
}

#[test]
fn a_formula_has_the_evidence_and_the_covariance_of_its_network() -> Outcome {
    let inputs = normal_matrix(6, 2, 21);
    for case in cases() {
        for structure in EXACT {
            let [network, formula] = both(&case, structure)?;
            let name = format!("{}, {structure}", case.family.likelihood().name());
            assert_eq!((network.structure(), formula.structure()), (structure, structure));
            let (a, b) = (network.log_marginal_likelihood(), formula.log_marginal_likelihood());
            // A dozen rounding errors of log determinants and sums over a dozen points.
            assert!(is_close(a, b, 1e-12, 1.0), "{name}: {a} and {b}");
            let (a, b) = (network.linearized(&inputs)?, formula.linearized(&inputs)?);
            assert_all_close(&b.mean, &a.mean, 1e-13, &name);
            assert_all_close(&b.covariance, &a.covariance, 1e-10, &name);
        }
    }
    Ok(())
}

#[test]
fn a_formula_is_tuned_to_the_hyperparameters_of_its_network() -> Outcome {
    let inputs = normal_matrix(6, 2, 21);
    for case in cases() {
        for structure in EXACT {
            let [mut network, mut formula] = both(&case, structure)?;
            let name = format!("{}, {structure}", case.family.likelihood().name());
            let options = EvidenceOptions::default();
            let (a, b) = (network.optimize(&options)?, formula.optimize(&options)?);
            assert!(a.converged && b.converged, "{name}");
            assert!(is_close(a.log_marginal_likelihood, b.log_marginal_likelihood, 1e-11, 1.0), "{name}");
            // Both stop where the gradient is zero up to rounding; the evidence is curved by about 1 per log value.
            let (a, b) = (a.hyperparameters, b.hyperparameters);
            for (a, b) in a.prior_precision.iter().chain(&a.sigma).zip(b.prior_precision.iter().chain(&b.sigma)) {
                assert!(is_close(*a, *b, 1e-7, 0.0), "{name}: {a} and {b}");
            }
            // The covariance moves with them.
            let (a, b) = (network.linearized(&inputs)?, formula.linearized(&inputs)?);
            assert_all_close(&b.covariance, &a.covariance, 1e-6, &name);
        }
    }
    Ok(())
}

#[test]
fn geodesics_of_a_formula_end_where_those_of_its_network_do() -> Outcome {
    // Far below what the comparison asks for: what remains is rounding, which the flow amplifies.
    let tolerances = GeodesicOptions::with_tolerances(1e-10, 1e-12);
    let geodesic = GeodesicOptions { integrator: Integrator::Dop853, ..tolerances };
    let sampler = SamplerOptions { seed: 5, geodesic, ..SamplerOptions::first(2) };
    for case in cases() {
        for structure in EXACT {
            let [network, formula] = both(&case, structure)?;
            let name = format!("{}, {structure}", case.family.likelihood().name());
            assert_all_close(&formula.sample(2, 5)?, &network.sample(2, 5)?, 1e-11, &name);
            // Velocities alone depend on the structure.
            let metrics = match structure {
                Structure::WeightSpace => &[MetricName::Fisher, MetricName::EmpiricalFisher, MetricName::Monge][..],
                _ => &[MetricName::Fisher],
            };
            for &metric in metrics {
                let a = network.sample_riemannian(metric, &sampler, &())?;
                let b = formula.sample_riemannian(metric, &sampler, &())?;
                assert_eq!((a.failed(), b.failed()), (0, 0), "{name}, {metric}");
                assert_all_close(&b.theta, &a.theta, 1e-7, &format!("{name}, {metric}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_formula_cannot_be_saved_and_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let [_, formula] = both(&Case::regression(12), Structure::WeightSpace)?;
    let error = formula.save(&path, Default::default()).expect_err("a formula");
    assert!(
        matches!(&error, Error::Posterior(PosteriorError::NotSavable { model }) if model.contains("17 parameters")),
        "{error}"
    );
    assert!(!path.exists());
    Ok(())
}
