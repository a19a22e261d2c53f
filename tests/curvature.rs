//! The kinds of curvature: empirical Fisher and exact Hessian against their definitions, in every structure that has
//! them, with their evidence, their dependence on the noise, and what is refused.

mod common;

#[path = "common/cases.rs"]
mod cases;
#[path = "curvature/definitions.rs"]
mod definitions;
#[path = "curvature/hessian.rs"]
mod hessian;
#[path = "curvature/tuning.rs"]
mod tuning;

use riemannian_laplace::{CurvatureKind, Error, Family, FitOptions, Structure};

use cases::Case;

impl Case {
    fn new(outputs: usize, family: Family, points: usize) -> Self {
        Self::with_hidden(3, outputs, family, points, 81)
    }

    /// One of each kind of likelihood, with more and with fewer data points than parameters.
    fn all() -> Result<Vec<Self>, Error> {
        let mut cases = Vec::new();
        for points in [7, 30] {
            cases.push(Self::new(1, Family::gaussian(0.4)?, points));
            cases.push(Self::new(2, Family::gaussian(0.6)?, points));
            cases.push(Self::new(3, "categorical".parse()?, points));
            cases.push(Self::new(1, "bernoulli".parse()?, points));
            cases.push(Self::new(1, "poisson".parse()?, points));
        }
        Ok(cases)
    }
}

/// A prior that makes every Hessian of these cases positive definite.
fn options(curvature: CurvatureKind, structure: Structure) -> FitOptions {
    FitOptions {
        prior_precision: vec![40.0, 60.0].into(),
        temperature: 1.5,
        curvature,
        structure,
        ..Default::default()
    }
}

/// Every structure of every kind.
const KINDS: [(CurvatureKind, Structure); 6] = [
    (CurvatureKind::Ggn, Structure::WeightSpace),
    (CurvatureKind::EmpiricalFisher, Structure::WeightSpace),
    (CurvatureKind::EmpiricalFisher, Structure::FunctionSpace),
    (CurvatureKind::EmpiricalFisher, Structure::Diagonal),
    (CurvatureKind::EmpiricalFisher, Structure::Kronecker),
    (CurvatureKind::Hessian, Structure::WeightSpace),
];
