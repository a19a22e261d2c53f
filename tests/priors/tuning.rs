//! Tuning: derivatives of the evidence vanish at the optimum, by finite differences.

use riemannian_laplace::internals::evidence::{Free, PriorStructure};
use riemannian_laplace::{EvidenceOptions, FitOptions, Laplace, PriorValues};

use crate::common::{Outcome, is_close};
use crate::{Case, STRUCTURES};

/// The evidence at other hyperparameters.
fn evidence_at(laplace: &Laplace, alphas: &[f64], sigma: &[f64]) -> f64 {
    let prior = match laplace.prior().structure() {
        PriorStructure::Scalar => PriorValues::Shared(alphas[0]),
        PriorStructure::PerLayer => PriorValues::PerGroup(alphas.to_vec()),
        PriorStructure::PerWeight => PriorValues::PerWeight(alphas.to_vec()),
    };
    let mut moved = laplace.clone();
    moved.set_hyperparameters(&prior, sigma).expect("valid hyperparameters");
    moved.log_marginal_likelihood()
}

/// ∂ log evidence/∂ log h of the hyperparameters, prior precisions first, by five-point differences with steps of 1e-2:
/// truncation h⁴/30 fifth derivatives ≈ 3e-10, rounding 1e-16·100/h ≈ 1e-12.
fn gradient(laplace: &Laplace) -> Vec<f64> {
    let alphas = laplace.prior().values().to_vec();
    let sigma = laplace.family().sigma().unwrap_or_default().to_vec();
    let step = 1e-2;
    let derivative = |index: usize| {
        let value = |multiple: f64| {
            let (mut alphas, mut sigma) = (alphas.clone(), sigma.clone());
            let entry = if index < alphas.len() {
                &mut alphas[index]
            } else {
                &mut sigma[index - laplace.prior().values().len()]
            };
            *entry *= (multiple * step).exp();
            evidence_at(laplace, &alphas, &sigma)
        };
        (value(-2.0) - 8.0 * value(-1.0) + 8.0 * value(1.0) - value(2.0)) / (12.0 * step)
    };
    (0..alphas.len() + sigma.len()).map(derivative).collect()
}

#[test]
fn the_evidence_is_stationary_at_every_optimum() -> Outcome {
    for case in Case::all()? {
        for (choice, options) in case.choices() {
            for structure in STRUCTURES {
                for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer, PriorStructure::PerWeight] {
                    let mut laplace = case.fit(&FitOptions { structure, ..options.clone() })?;
                    let tuning = EvidenceOptions { prior_structure, bounds: (1e-6, 1e6), ..Default::default() };
                    let optimum = laplace.optimize(&tuning)?;
                    let name = format!("{}, {choice}, {structure}, {prior_structure:?}", case.name());
                    assert!(optimum.converged, "{name}: {optimum:?}");
                    assert_eq!(laplace.prior().structure(), prior_structure, "{name}");
                    let value = laplace.log_marginal_likelihood();
                    assert!(is_close(value, optimum.log_marginal_likelihood, 1e-10, 1.0), "{name}: {value}");
                    let n_alpha = laplace.prior().values().len();
                    for (index, derivative) in gradient(&laplace).into_iter().enumerate() {
                        let (parameter, place) =
                            if index < n_alpha { ("prior precision", index) } else { ("sigma", index - n_alpha) };
                        let held = optimum.at_bound.iter().any(|at| at.parameter == parameter && at.index == place);
                        assert!(held || derivative.abs() < 1e-6, "{name}: {parameter} {place}: {derivative:e}");
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_precision_for_each_weight_is_held_while_sigma_is_tuned() -> Outcome {
    let case = Case::new(1, riemannian_laplace::Family::gaussian(0.4)?, 30);
    let (_, options) = case.choices().swap_remove(3);
    for structure in STRUCTURES {
        let mut laplace = case.fit(&FitOptions { structure, ..options.clone() })?;
        let before = laplace.prior().clone();
        let optimum = laplace.optimize(&EvidenceOptions { prior: Free::Held, ..Default::default() })?;
        assert!(optimum.converged && optimum.at_bound.is_empty(), "{structure}: {optimum:?}");
        assert_eq!(*laplace.prior(), before);
        let derivative = gradient(&laplace)[before.values().len()];
        assert!(derivative.abs() < 1e-6, "{structure}: {derivative:e}");
    }
    Ok(())
}
