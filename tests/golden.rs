//! Three reference cases computed elsewhere (see `tests/golden/README.md`), through both exact solvers.

mod common;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::Link;
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{FitOptions, Laplace, Model, Structure, Weights};
use serde_json::Value;

use common::{Outcome, assert_all_close, file, is_close, read_dataset, read_numbers};

const SOLVERS: [Structure; 2] = [Structure::WeightSpace, Structure::FunctionSpace];

struct Case {
    folder: PathBuf,
    config: Value,
    expected: Value,
    tensors: TensorFile,
}

impl Case {
    fn read(name: &str) -> Result<Self, Box<dyn Error>> {
        let folder = file("tests/golden").join(name);
        let json = |name: &str| -> Result<Value, Box<dyn Error>> {
            Ok(serde_json::from_str(&std::fs::read_to_string(folder.join(name))?)?)
        };
        let (config, expected) = (json("config.json")?, json("expected.json")?);
        let tensors = TensorFile::read(&folder.join("expected.safetensors"))?;
        Ok(Self { folder, config, expected, tensors })
    }

    fn fit(&self, structure: Structure) -> Result<Laplace, Box<dyn Error>> {
        self.fit_part(structure, &Weights::All)
    }

    fn fit_part(&self, structure: Structure, weights: &Weights) -> Result<Laplace, Box<dyn Error>> {
        let activation: Activation = text(&self.config, "activation").parse()?;
        let network = Network::load(&self.folder.join("model.safetensors"), Some(activation))?;
        let data = read_dataset(&self.folder.join("train.csv"))?;
        let family = match self.config["sigma"].as_f64() {
            Some(sigma) => Family::gaussian(sigma)?,
            None => text(&self.config, "likelihood").parse()?,
        };
        let options = FitOptions {
            prior_precision: number(&self.config, "prior_precision").into(),
            structure,
            ..Default::default()
        };
        let model: Arc<dyn Model> = Arc::new(network);
        Ok(Laplace::fit_shared(weights.restrict(&model)?, data, family, &options)?)
    }

    fn tensor(&self, name: &str) -> &[f64] {
        &self.tensors.tensors[name].values
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}`"))
}

/// Runs a check on every case with both solvers.
fn for_each(check: impl Fn(&Case, Laplace, &str) -> Outcome) -> Outcome {
    for name in ["p1", "p2", "p3"] {
        let case = Case::read(name)?;
        for solver in SOLVERS {
            check(&case, case.fit(solver)?, &format!("{name}, {solver:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn fit_and_evidence() -> Outcome {
    for_each(|case, laplace, name| {
        assert_all_close(laplace.parameters(), case.tensor("theta_hat"), 0.0, name);
        assert_eq!(laplace.n_data() as u64, case.expected["n_data"].as_u64().unwrap_or_default());
        let log_det = laplace.log_det_ratio() + laplace.prior().log_det();
        for (key, found) in [
            ("log_likelihood", laplace.log_likelihood()),
            ("log_det_fisher", log_det),
            ("log_marginal_likelihood", laplace.log_marginal_likelihood()),
        ] {
            let expected = number(&case.expected, key);
            // The two programs behind the reference agree to 1e-13; condition numbers are 2e4 at most.
            assert!(is_close(found, expected, 1e-9, 0.0), "{name}: {key} is {found}, expected {expected}");
        }
        Ok(())
    })
}

#[test]
fn products_with_the_precision() -> Outcome {
    for_each(|case, laplace, name| {
        let size = laplace.parameters().len();
        let u: Vec<f64> = (0..size).map(|i| -1.0 + 2.0 * i as f64 / (size - 1) as f64).collect();
        let mut product = vec![0.0; size];
        laplace.precision().times(&u, &mut product);
        assert_all_close(&product, case.tensor("fisher_times_u"), 1e-11, name);
        Ok(())
    })
}

#[test]
fn tuned_hyperparameters() -> Outcome {
    for_each(|case, mut laplace, name| {
        let optimum = laplace.optimize(&EvidenceOptions::default())?;
        let expected = &case.expected["optimum"];
        let best = number(expected, "log_marginal_likelihood");
        assert!(optimum.converged && optimum.at_bound.is_empty(), "{name}: {optimum:?}");
        assert!(is_close(optimum.log_marginal_likelihood, best, 1e-9, 0.0), "{name}: {optimum:?}, expected {best}");
        // The optimum is determined to the square root of the evidence's rounding, 1e-7.
        let alpha = number(expected, "prior_precision");
        assert!(is_close(optimum.hyperparameters.prior_precision[0], alpha, 1e-6, 0.0), "{name}: {optimum:?}");
        assert_eq!(optimum.hyperparameters.sigma.len(), usize::from(expected["sigma"].is_f64()));
        if let (Some(found), Some(sigma)) = (optimum.hyperparameters.sigma.first(), expected["sigma"].as_f64()) {
            assert!(is_close(*found, sigma, 1e-6, 0.0), "{name}: {optimum:?}");
        }
        // The posterior was refitted with the optimum.
        assert!(is_close(laplace.log_marginal_likelihood(), best, 1e-9, 0.0), "{name}");
        Ok(())
    })
}

#[test]
fn linearised_predictive() -> Outcome {
    for_each(|case, laplace, name| {
        let inputs = read_numbers(&case.folder.join("test.csv"))?;
        let latent = laplace.linearized(&inputs)?;
        assert_all_close(&latent.mean, case.tensor("glm_f_mean"), 1e-12, &format!("mean of {name}"));
        let expected = case.tensor("glm_f_cov");
        for (index, (found, expected)) in latent.covariance.iter().zip(expected).enumerate() {
            // Entry by entry: far from the data the variance is a thousand times that near them.
            assert!(is_close(*found, *expected, 1e-7, 1e-6), "{name}: covariance {index}: {found}, not {expected}");
        }
        assert_eq!(latent.covariance.len(), expected.len());
        if case.tensors.tensors.contains_key("glm_probit") {
            let prediction = latent.moments(laplace.family(), Link::Probit)?;
            assert_all_close(&prediction.mean, case.tensor("glm_probit"), 1e-10, &format!("probit of {name}"));
        }
        Ok(())
    })
}

#[test]
fn the_approximate_posteriors_are_those_of_laplace_torch() -> Outcome {
    let structures = [
        (Structure::Diagonal, Weights::All, "diag"),
        (Structure::Kronecker, Weights::All, "kron"),
        (Structure::WeightSpace, Weights::LastLayer, "last-layer"),
        (Structure::FunctionSpace, Weights::LastLayer, "last-layer"),
    ];
    for (name, (structure, weights, word)) in
        ["p1", "p2", "p3"].iter().flat_map(|name| structures.clone().map(|s| (name, s)))
    {
        let case = Case::read(name)?;
        let laplace = case.fit_part(structure, &weights)?;
        assert_eq!(laplace.parameters().len() as f64, number(&case.expected["structures"][word], "n_params"));
        let expected = number(&case.expected["structures"][word], "log_marginal_likelihood");
        // Sums of D logarithms, computed in another order.
        assert!(is_close(laplace.log_marginal_likelihood(), expected, 1e-9, 0.0), "{name}");
        let inputs = read_numbers(&case.folder.join("test.csv"))?;
        let variances: Vec<f64> = laplace.linearized(&inputs)?.variance().iter().copied().collect();
        assert_all_close(&variances, case.tensor(&format!("glm_f_var_{}", word.replace('-', "_"))), 1e-9, name);
    }
    Ok(())
}
