//! The posterior: both solvers against each other and against a dense computation from finite differences, samples
//! against the precision they are drawn from, files, and networks at the edge of the arithmetic.

#[path = "laplace/approximations.rs"]
mod approximations;
mod common;
#[path = "laplace/edges.rs"]
mod edges;
#[path = "laplace/files.rs"]
mod files;
#[path = "laplace/hyperparameters.rs"]
mod hyperparameters;
#[path = "laplace/low_rank.rs"]
mod low_rank;
#[path = "laplace/samples.rs"]
mod samples;
#[path = "laplace/solvers.rs"]
mod solvers;

use faer::Mat;
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{FitOptions, Laplace, Structure};

use common::{architecture, forward, jacobian_by_differences, random_data, random_network};

const SOLVERS: [Structure; 2] = [Structure::WeightSpace, Structure::FunctionSpace];

/// A network with its data, a likelihood and a prior.
struct Case {
    name: String,
    network: Network,
    data: Dataset,
    family: Family,
    prior: Vec<f64>,
}

impl Case {
    fn fit(&self, solver: Structure) -> Laplace {
        let options =
            FitOptions { prior_precision: self.prior.clone().into(), structure: solver, ..Default::default() };
        Laplace::fit(self.network.clone(), self.data.clone(), self.family.clone(), &options)
            .unwrap_or_else(|error| panic!("{}, {solver:?}: {error}", self.name))
    }

    /// α of every parameter.
    fn prior_diagonal(&self) -> Vec<f64> {
        let counts = self.network.architecture().layer_params();
        let alpha = |layer: usize| self.prior[layer.min(self.prior.len() - 1)];
        counts.iter().enumerate().flat_map(|(layer, count)| vec![alpha(layer); *count]).collect()
    }

    /// G = A + Σ JᵀHJ from the definition.
    fn dense_precision(&self) -> Mat<f64> {
        let (architecture, theta) = (self.network.architecture(), self.network.parameters());
        let jacobian = jacobian_by_differences(architecture, theta, self.data.inputs());
        let outputs = forward(architecture, theta, self.data.inputs());
        let (d, p) = (theta.len(), architecture.n_outputs());
        let mut precision = Mat::zeros(d, d);
        for (d, alpha) in self.prior_diagonal().into_iter().enumerate() {
            precision[(d, d)] = alpha;
        }
        for (n, output) in outputs.rows().into_iter().enumerate() {
            let rows = jacobian.get(n * p..(n + 1) * p, ..);
            let fisher = output_fisher(&self.family, &output.to_vec());
            precision += rows.transpose() * fisher * rows;
        }
        precision
    }
}

/// H(f), written out for each family.
fn output_fisher(family: &Family, f: &[f64]) -> Mat<f64> {
    let diagonal =
        |entry: &dyn Fn(usize) -> f64| Mat::from_fn(f.len(), f.len(), |i, j| if i == j { entry(i) } else { 0.0 });
    match family.likelihood().name() {
        "gaussian" => {
            let sigmas = family.sigma().unwrap_or_default();
            diagonal(&|i| sigmas[i % sigmas.len()].powi(-2))
        }
        "heteroscedastic" => {
            let targets = f.len() / 2;
            diagonal(&|i| if i < targets { (-f[targets + i]).exp() } else { 0.5 })
        }
        "bernoulli" => diagonal(&|i| {
            let p = 1.0 / (1.0 + (-f[i]).exp());
            p * (1.0 - p)
        }),
        "categorical" => {
            let total: f64 = f.iter().map(|f| f.exp()).sum();
            let p: Vec<f64> = f.iter().map(|f| f.exp() / total).collect();
            Mat::from_fn(f.len(), f.len(), |i, j| if i == j { p[i] - p[i] * p[i] } else { -p[i] * p[j] })
        }
        "poisson" => diagonal(&|i| f[i].exp()),
        other => panic!("{other}"),
    }
}

/// Every likelihood, with fewer and with more parameters than data, with one prior precision and with one per layer.
fn cases() -> Vec<Case> {
    let gaussian = || Family::gaussian(0.3).expect("a noise level");
    let per_output = || Family::gaussian_per_output(&[0.3, 0.8]).expect("noise levels");
    let named = |name: &str| name.parse::<Family>().expect("a family");
    type Shape<'a> = (Family, &'a [usize], &'a [bool], Activation, [usize; 2]);
    let shapes: Vec<Shape<'_>> = vec![
        (gaussian(), &[2, 5, 1], &[true, true], Activation::Tanh, [40, 10]),
        (gaussian(), &[1, 4, 3, 2], &[true, true, true], Activation::Sigmoid, [30, 8]),
        (per_output(), &[2, 4, 2], &[true, true], Activation::Silu, [30, 6]),
        (named("bernoulli"), &[3, 1], &[true], Activation::Identity, [25, 3]),
        (named("bernoulli"), &[2, 4, 3, 2], &[true, false, true], Activation::Gelu, [40, 8]),
        (named("categorical"), &[2, 5, 3], &[true, true], Activation::Softplus, [30, 7]),
        (named("poisson"), &[2, 4, 1], &[false, true], Activation::Sin, [30, 9]),
        (named("poisson"), &[2, 3, 2], &[true, true], Activation::Elu, [25, 5]),
        (named("heteroscedastic"), &[2, 4, 2], &[true, true], Activation::Tanh, [30, 5]),
        (named("heteroscedastic"), &[1, 3, 4], &[true, true], Activation::Silu, [30, 3]),
    ];
    let mut cases = Vec::new();
    for (index, (family, sizes, biases, activation, counts)) in shapes.into_iter().enumerate() {
        let architecture = architecture(sizes, biases, activation);
        let network = random_network(architecture.clone(), 40 + index as u64);
        let layered: Vec<f64> = (0..sizes.len() - 1).map(|layer| 0.4 + 1.1 * layer as f64).collect();
        for points in counts {
            for prior in [vec![0.7], layered.clone()] {
                let data = random_data(&network, &family, points, 60 + index as u64);
                let name = format!("{} {architecture}, N = {points}, A = {prior:?}", family.likelihood().name());
                cases.push(Case { name, network: network.clone(), data, family: family.clone(), prior });
            }
        }
    }
    cases
}

fn bits<'a>(values: impl IntoIterator<Item = &'a f64>) -> Vec<u64> {
    values.into_iter().map(|value| value.to_bits()).collect()
}
