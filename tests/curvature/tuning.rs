//! The evidence of every kind, and its optimum by finite differences.

use ndarray::array;
use riemannian_laplace::internals::evidence::PriorStructure;
use riemannian_laplace::{
    CurvatureKind, Dataset, Error, EvidenceOptions, Family, FitOptions, FunctionModel, Laplace, Taylor,
};

use crate::cases::{assert_stationary, gradient};
use crate::common::{Outcome, is_close};
use crate::{Case, KINDS, options};

#[test]
fn the_evidence_of_every_kind_is_stationary_at_its_optimum() -> Outcome {
    for case in Case::all()? {
        // Networks that were not trained to the end have Hessians whose evidence is not bounded.
        for (kind, structure) in KINDS.into_iter().filter(|(kind, _)| *kind != CurvatureKind::Hessian) {
            for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer] {
                let mut laplace = case.fit(&options(kind, structure))?;
                let tuning = EvidenceOptions { prior_structure, bounds: (1e-4, 1e4), ..Default::default() };
                let optimum = laplace.optimize(&tuning)?;
                let name = format!("{}, {kind}, {structure}, {prior_structure:?}", case.name());
                assert_stationary(&laplace, &optimum, &name);
            }
        }
    }
    Ok(())
}

/// f(x) = θ₀ exp(−θ₁x) near its best fit, at this rate.
fn decay(rate: f64) -> Result<Laplace, Error> {
    let decay = |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| f[0] = theta[0] * (-theta[1] * x[0]).exp();
    let model = FunctionModel::new(vec![2.0, rate], 1, 1, decay)?;
    let inputs = array![[0.0], [0.3], [0.6], [1.0], [1.5], [2.0], [3.0]];
    let targets = array![[2.1], [1.4], [1.15], [0.7], [0.5], [0.2], [0.15]];
    let options = FitOptions { curvature: CurvatureKind::Hessian, prior_precision: 30.0.into(), ..Default::default() };
    Laplace::fit(model, Dataset::new(inputs, targets)?, Family::gaussian(1.0)?, &options)
}

#[test]
fn the_evidence_of_the_hessian_is_stationary_at_its_optimum() -> Outcome {
    let mut laplace = decay(1.0)?;
    let optimum = laplace.optimize(&EvidenceOptions::default())?;
    assert!(optimum.converged && optimum.at_bound.is_empty(), "{optimum:?}");
    let value = laplace.log_marginal_likelihood();
    assert!(is_close(value, optimum.log_marginal_likelihood, 1e-10, 1.0), "{value}");
    for derivative in gradient(&laplace) {
        assert!(derivative.abs() < 1e-6, "{derivative:e}");
    }
    Ok(())
}

#[test]
fn a_hessian_with_negative_eigenvalues_has_no_best_evidence() -> Outcome {
    // At a rate far below the best the residuals' second derivatives outweigh the rest.
    let error = decay(-0.3)?.optimize(&EvidenceOptions::default()).expect_err("an evidence without bound");
    assert!(matches!(error, Error::UnboundedEvidence), "{error}");
    Ok(())
}
