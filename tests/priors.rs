//! Priors with one precision per weight and a mean of their own, and tempered likelihoods: against matrices written out
//! from their definitions, between the solvers, through files, and in the evidence.

mod common;

#[path = "common/cases.rs"]
mod cases;
#[path = "priors/definitions.rs"]
mod definitions;
#[path = "priors/files.rs"]
mod files;
#[path = "priors/metrics.rs"]
mod metrics;
#[path = "priors/tuning.rs"]
mod tuning;

use faer::Mat;
use riemannian_laplace::internals::map::jacobian;
use riemannian_laplace::internals::prior::PriorMean;
use riemannian_laplace::{Error, Family, FitOptions, Laplace, Model, PriorValues, Structure};

use cases::Case;
use common::normal_vector;

/// Every structure.
const STRUCTURES: [Structure; 3] = [Structure::WeightSpace, Structure::FunctionSpace, Structure::Diagonal];

impl Case {
    fn new(outputs: usize, family: Family, points: usize) -> Self {
        Self::with_hidden(4, outputs, family, points, 71)
    }

    /// One of each kind of likelihood, with more and with fewer rows than parameters.
    fn all() -> Result<Vec<Self>, Error> {
        let mut cases = Vec::new();
        for points in [5, 30] {
            cases.push(Self::new(1, Family::gaussian(0.4)?, points));
            cases.push(Self::new(2, Family::gaussian_per_output(&[0.3, 0.8])?, points));
            cases.push(Self::new(3, "categorical".parse()?, points));
            cases.push(Self::new(1, "bernoulli".parse()?, points));
        }
        Ok(cases)
    }

    /// A different precision for each weight, between 0.3 and 3.
    fn weights_precisions(&self) -> Vec<f64> {
        (0..self.n_params())
            .map(|d| 0.3 * 10f64.powf((d * 7 % self.n_params()) as f64 / self.n_params() as f64))
            .collect()
    }

    /// A mean for each weight.
    fn means(&self) -> Vec<f64> {
        normal_vector(self.n_params(), 73).iter().map(|value| 0.5 * value).collect()
    }

    /// Every choice that this file is about, alone and together.
    fn choices(&self) -> Vec<(&'static str, FitOptions)> {
        let usual = FitOptions { prior_precision: vec![0.7, 1.3].into(), ..Default::default() };
        let weights = PriorValues::PerWeight(self.weights_precisions());
        let mean = PriorMean::from(self.means());
        vec![
            ("per weight", FitOptions { prior_precision: weights.clone(), ..usual.clone() }),
            ("one mean", FitOptions { prior_mean: 0.4.into(), ..usual.clone() }),
            ("cold", FitOptions { temperature: 0.3, ..usual.clone() }),
            ("all", FitOptions { prior_precision: weights, prior_mean: mean, temperature: 2.5, ..usual }),
        ]
    }

    /// Σₙ JₙᵀHₙJₙ from Jacobians and output Fisher matrices, in loops.
    fn curvature(&self) -> Result<Mat<f64>, Error> {
        let (n, d) = (self.data.len(), self.n_params());
        let map = self.network.bind(self.data.inputs().view())?;
        let (p, jacobian) = (map.n_outputs(), jacobian(&map, self.network.parameters()));
        let outputs = common::forward(self.network.architecture(), self.network.parameters(), self.data.inputs());
        let (mut curvature, mut fisher) = (Mat::zeros(d, d), vec![0.0; p * p]);
        for point in 0..n {
            self.family.likelihood().fisher(&outputs.row(point).to_vec(), &mut fisher);
            for (a, b) in (0..p).flat_map(|a| (0..p).map(move |b| (a, b))) {
                for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
                    curvature[(i, j)] +=
                        jacobian[(a * n + point, i)] * fisher[a * p + b] * jacobian[(b * n + point, j)];
                }
            }
        }
        Ok(curvature)
    }

    /// Σₙ log p(yₙ | fₙ), in a loop.
    fn log_likelihood(&self) -> f64 {
        let outputs = common::forward(self.network.architecture(), self.network.parameters(), self.data.inputs());
        let rows = outputs.rows().into_iter().zip(self.data.targets().rows());
        rows.map(|(f, y)| self.family.likelihood().log_density(&y.to_vec(), &f.to_vec())).sum()
    }
}

/// α of every weight, in the order of θ̂.
fn alphas(laplace: &Laplace) -> Vec<f64> {
    let mut alphas = vec![0.0; laplace.model().n_params()];
    laplace.prior().for_each_group(|range, alpha| alphas[range].fill(alpha));
    alphas
}

/// log det of a positive definite matrix by Gaussian elimination.
fn log_det(matrix: &Mat<f64>) -> f64 {
    let (mut rest, mut sum) = (matrix.clone(), 0.0);
    for k in 0..rest.nrows() {
        sum += rest[(k, k)].ln();
        for i in k + 1..rest.nrows() {
            let factor = rest[(i, k)] / rest[(k, k)];
            for j in k..rest.ncols() {
                rest[(i, j)] -= factor * rest[(k, j)];
            }
        }
    }
    sum
}
