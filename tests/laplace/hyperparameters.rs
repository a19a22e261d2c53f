//! Other hyperparameters on the same curvature.

use riemannian_laplace::Activation;
use riemannian_laplace::Family;
use riemannian_laplace::{Contents, FitOptions, Laplace, Structure};

use crate::common::{Outcome, architecture, is_close, random_data, random_network};
use crate::{Case, SOLVERS, cases};

#[test]
fn changed_hyperparameters_equal_a_new_fit() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in cases() {
        let layers = case.network.architecture().linear_layers().len();
        let prior_precision = if case.prior.len() == 1 { vec![2.5; layers] } else { vec![2.5] };
        // From one σ to one per output, and back.
        let sigma = match case.family.sigma() {
            Some([_]) => vec![0.45; case.network.architecture().n_outputs()],
            Some(_) => vec![0.45],
            None => Vec::new(),
        };
        for solver in SOLVERS {
            let mut changed = case.fit(solver);
            changed.set_hyperparameters(&prior_precision.clone().into(), &sigma)?;
            let family = if sigma.is_empty() { case.family.clone() } else { Family::gaussian_per_output(&sigma)? };
            let fresh = Case {
                name: case.name.clone(),
                network: case.network.clone(),
                data: case.data.clone(),
                family,
                prior: prior_precision.clone(),
            }
            .fit(solver);
            let (a, b) = (changed.log_marginal_likelihood(), fresh.log_marginal_likelihood());
            assert!(is_close(a, b, 1e-11, 1.0), "{}, {solver:?}: {a} and {b}", case.name);
            let (a, b) = (changed.effective_parameters(), fresh.effective_parameters());
            assert!(is_close(a, b, 1e-10, 1.0), "{}, {solver:?}: {a} and {b}", case.name);
            if solver == Structure::WeightSpace {
                // A file without data must restore all parts that the curvature has by now.
                changed.save(&path, Contents::Curvature)?;
                let loaded = Laplace::load(&path)?;
                let (a, b) = (changed.log_marginal_likelihood(), loaded.log_marginal_likelihood());
                assert_eq!(a.to_bits(), b.to_bits(), "{}", case.name);
            }
        }
    }
    Ok(())
}

#[test]
fn hyperparameters_of_the_wrong_number_are_refused() -> Outcome {
    let family = Family::gaussian_per_output(&[0.3, 0.8])?;
    let network = random_network(architecture(&[2, 4, 2], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 9, 1);
    for solver in SOLVERS {
        let options = FitOptions { structure: solver, ..Default::default() };
        let mut laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &options)?;
        let before = laplace.log_marginal_likelihood();
        for (prior_precision, sigma) in [
            (vec![1.0], vec![0.1, 0.2, 0.3]),
            (vec![1.0], vec![]),
            (vec![1.0, 2.0, 3.0], vec![0.1]),
            (vec![], vec![0.1]),
            (vec![-1.0], vec![0.1]),
            (vec![1.0], vec![f64::NAN]),
        ] {
            let outcome = laplace.set_hyperparameters(&prior_precision.clone().into(), &sigma);
            assert!(outcome.is_err(), "A = {prior_precision:?}, σ = {sigma:?} was accepted");
        }
        assert_eq!(laplace.log_marginal_likelihood().to_bits(), before.to_bits());
    }
    Ok(())
}
