//! Files keep the prior of each weight, the mean and the temperature, and say nothing of what is as usual.

use riemannian_laplace::internals::prior::PriorMean;
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Contents, FitOptions, Laplace, Structure};

use crate::Case;
use crate::common::{Outcome, normal_matrix};

#[test]
fn a_loaded_posterior_has_the_same_prior_and_temperature() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in Case::all()? {
        for (choice, options) in case.choices() {
            for (structure, contents) in [
                (Structure::WeightSpace, Contents::TrainingData),
                (Structure::FunctionSpace, Contents::TrainingData),
                (Structure::Diagonal, Contents::Curvature),
            ] {
                let name = format!("{}, {choice}, {structure}", case.name());
                let laplace = case.fit(&FitOptions { structure, ..options.clone() })?;
                laplace.save(&path, contents)?;
                let loaded = Laplace::load(&path)?;
                assert_eq!(loaded.prior(), laplace.prior(), "{name}");
                assert_eq!(loaded.prior_mean(), laplace.prior_mean(), "{name}");
                assert_eq!(loaded.temperature(), laplace.temperature(), "{name}");
                assert_eq!(loaded.log_marginal_likelihood(), laplace.log_marginal_likelihood(), "{name}");
                let inputs = normal_matrix(4, 2, 6);
                assert_eq!(loaded.linearized(&inputs)?.covariance, laplace.linearized(&inputs)?.covariance, "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_as_usual_leaves_no_trace_in_a_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let [usual, explicit] = ["usual", "explicit"].map(|name| folder.path().join(name));
    let case = Case::new(3, "categorical".parse()?, 12);
    case.fit(&FitOptions::default())?.save(&usual, Contents::TrainingData)?;
    let zeros = PriorMean::from(vec![0.0; case.n_params()]);
    let options = FitOptions { prior_mean: zeros, temperature: 1.0, ..Default::default() };
    case.fit(&options)?.save(&explicit, Contents::TrainingData)?;
    assert_eq!(std::fs::read(&usual)?, std::fs::read(&explicit)?);
    let file = TensorFile::read(&usual)?;
    assert!(!file.metadata.contains_key("temperature"));
    assert!(!file.tensors.keys().any(|name| name.starts_with("prior.")));
    Ok(())
}
