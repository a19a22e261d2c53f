//! The kinds of curvature: empirical Fisher and exact Hessian against their definitions, in every structure that has
//! them, with their evidence, their dependence on the noise, and what is refused.

mod common;

#[path = "curvature/definitions.rs"]
mod definitions;
#[path = "curvature/hessian.rs"]
mod hessian;
#[path = "curvature/tuning.rs"]
mod tuning;

use riemannian_laplace::{Activation, CurvatureKind, Dataset, Error, Family, FitOptions, Laplace, Network, Structure};

use common::{architecture, random_data, random_network};

/// A network, its data and their likelihood.
struct Case {
    network: Network,
    data: Dataset,
    family: Family,
}

impl Case {
    fn new(outputs: usize, family: Family, points: usize) -> Self {
        let network = random_network(architecture(&[2, 3, outputs], &[true, true], Activation::Tanh), 81);
        let data = random_data(&network, &family, points, 82);
        Self { network, data, family }
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

    fn n_params(&self) -> usize {
        self.network.parameters().len()
    }

    fn fit(&self, options: &FitOptions) -> Result<Laplace, Error> {
        Laplace::fit(self.network.clone(), self.data.clone(), self.family.clone(), options)
    }

    fn name(&self) -> String {
        format!("{}, N = {}", self.family.likelihood().name(), self.data.len())
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
