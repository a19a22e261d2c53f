//! Tuning: derivatives of the evidence vanish at the optimum, by finite differences.

use riemannian_laplace::internals::evidence::{Free, PriorStructure};
use riemannian_laplace::{EvidenceOptions, FitOptions};

use crate::cases::{assert_stationary, gradient};
use crate::common::Outcome;
use crate::{Case, STRUCTURES};

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
                    assert_eq!(laplace.prior().structure(), prior_structure, "{name}");
                    assert_stationary(&laplace, &optimum, &name);
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
