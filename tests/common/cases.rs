//! A small network with its data, and whether a tuned posterior of it is at an optimum of its evidence.

use riemannian_laplace::internals::evidence::{EvidenceOptimum, PriorStructure};
use riemannian_laplace::{Activation, Dataset, Error, Family, FitOptions, Laplace, Network, PriorValues};

use crate::common::{architecture, is_close, random_data, random_network};

/// A network, its data and their likelihood.
pub struct Case {
    pub network: Network,
    pub data: Dataset,
    pub family: Family,
}

impl Case {
    /// Two inputs and so many hidden units.
    pub fn with_hidden(hidden: usize, outputs: usize, family: Family, points: usize, seed: u64) -> Self {
        let network = random_network(architecture(&[2, hidden, outputs], &[true, true], Activation::Tanh), seed);
        let data = random_data(&network, &family, points, seed + 1);
        Self { network, data, family }
    }

    pub fn n_params(&self) -> usize {
        self.network.parameters().len()
    }

    pub fn fit(&self, options: &FitOptions) -> Result<Laplace, Error> {
        Laplace::fit(self.network.clone(), self.data.clone(), self.family.clone(), options)
    }

    pub fn name(&self) -> String {
        format!("{}, N = {}", self.family.likelihood().name(), self.data.len())
    }
}

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
pub fn gradient(laplace: &Laplace) -> Vec<f64> {
    let n_alpha = laplace.prior().values().len();
    let here: Vec<f64> =
        laplace.prior().values().iter().chain(laplace.family().sigma().unwrap_or_default()).copied().collect();
    let step = 1e-2;
    let derivative = |index: usize| {
        let value = |multiple: f64| {
            let mut moved = here.clone();
            moved[index] *= (multiple * step).exp();
            evidence_at(laplace, &moved[..n_alpha], &moved[n_alpha..])
        };
        (value(-2.0) - 8.0 * value(-1.0) + 8.0 * value(1.0) - value(2.0)) / (12.0 * step)
    };
    (0..here.len()).map(derivative).collect()
}

/// A tuned posterior has the evidence that its optimum says, whose derivative vanishes in every hyperparameter that is
/// not at a bound.
pub fn assert_stationary(laplace: &Laplace, optimum: &EvidenceOptimum, name: &str) {
    assert!(optimum.converged, "{name}: {optimum:?}");
    let value = laplace.log_marginal_likelihood();
    assert!(is_close(value, optimum.log_marginal_likelihood, 1e-10, 1.0), "{name}: {value}");
    let n_alpha = laplace.prior().values().len();
    for (index, derivative) in gradient(laplace).into_iter().enumerate() {
        let (parameter, place) = if index < n_alpha { ("prior precision", index) } else { ("sigma", index - n_alpha) };
        let held = optimum.at_bound.iter().any(|at| at.parameter == parameter && at.index == place);
        assert!(held || derivative.abs() < 1e-6, "{name}: {parameter} {place}: {derivative:e}");
    }
}
