//! What the design promises at its seams: posteriors shared among threads, models that are formulas, data that are read
//! in pieces, sums whose bits depend on the data alone, priors that must fit, predictions in the units of the data, and
//! files that hold all of it.

mod common;

#[path = "seams/batches.rs"]
mod batches;
#[path = "seams/blocks.rs"]
mod blocks;
#[path = "seams/draws.rs"]
mod draws;
#[path = "seams/files.rs"]
mod files;
#[path = "seams/formulas.rs"]
mod formulas;
#[path = "seams/maps.rs"]
mod maps;
#[path = "seams/mixtures.rs"]
mod mixtures;
#[path = "seams/priors.rs"]
mod priors;
#[path = "seams/quantiles.rs"]
mod quantiles;
#[path = "seams/samples.rs"]
mod samples;
#[path = "seams/scaling.rs"]
mod scaling;
#[path = "seams/threads.rs"]
mod threads;

use riemannian_laplace::{
    Activation, Dataset, Draws, Error, Family, FitOptions, Laplace, Link, Method, Network, Prediction, Structure,
};

use common::{architecture, random_data, random_network};

/// Every structure.
const STRUCTURES: [Structure; 5] = [
    Structure::WeightSpace,
    Structure::FunctionSpace,
    Structure::Kronecker,
    Structure::Diagonal,
    Structure::LowRank(3),
];

/// A small tanh network with data that it did not produce itself, and a prior precision for each layer.
struct Case {
    network: Network,
    data: Dataset,
    family: Family,
}

impl Case {
    /// Two inputs, four hidden units and as many outputs as asked for.
    fn new(family: Family, outputs: usize, points: usize) -> Self {
        let network = random_network(architecture(&[2, 4, outputs], &[true, true], Activation::Tanh), 11);
        let data = random_data(&network, &family, points, 12);
        Self { network, data, family }
    }

    /// One output with Gaussian noise.
    fn regression(points: usize) -> Self {
        Self::new(gaussian(0.3), 1, points)
    }

    /// Three classes.
    fn classes(points: usize) -> Self {
        Self::new(named("categorical"), 3, points)
    }

    fn fit(&self, structure: Structure) -> Result<Laplace, Error> {
        Laplace::fit(self.network.clone(), self.data.clone(), self.family.clone(), &options(structure))
    }
}

fn options(structure: Structure) -> FitOptions {
    FitOptions { prior_precision: vec![0.7, 1.3].into(), structure, ..Default::default() }
}

fn gaussian(sigma: f64) -> Family {
    Family::gaussian(sigma).expect("a noise level")
}

fn named(name: &str) -> Family {
    name.parse().expect("a family")
}

/// One of each way to predict, with few samples.
fn methods() -> [Method; 4] {
    [Method::Map, Method::Glm(Link::Probit), Method::Nn(Draws::first(6, 3)), Method::riemannian(4, 3)]
}

fn bits<'a>(values: impl IntoIterator<Item = &'a f64>) -> Vec<u64> {
    values.into_iter().map(|value| value.to_bits()).collect()
}

/// The bits of a prediction's moments and of some draws.
fn prediction_bits(prediction: &Prediction) -> Result<Vec<u64>, Error> {
    let Prediction { mean, epistemic_variance, aleatoric_variance, total_variance, .. } = prediction;
    let draws = prediction.draws(3, 5)?;
    let moments = [mean, epistemic_variance, aleatoric_variance, total_variance].into_iter().flatten();
    Ok(bits(moments.chain(&draws)))
}

/// The bits of the evidence and of everything that the factor is made of.
fn fit_bits(laplace: &Laplace) -> Vec<u64> {
    let saved = laplace.precision().save();
    let numbers = [laplace.log_marginal_likelihood(), laplace.effective_parameters()];
    bits(numbers.iter().chain(saved.iter().flat_map(|tensor| &tensor.values)))
}
