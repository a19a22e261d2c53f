//! Some weights uncertain, the others at θ̂: restricted maps against the columns of the whole map, metrics against the
//! restricted metric from its definition, posteriors against the matching part of the full curvature, and files.

mod common;

#[path = "subsets/maps.rs"]
mod maps;
#[path = "subsets/metrics.rs"]
mod metrics;
#[path = "subsets/posteriors.rs"]
mod posteriors;

use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::{Activation, Dataset, Family, Model, Network, Weights};

use common::{architecture, normal_matrix, random_data, random_network};

const POINTS: usize = 6;

/// 2-4-3-2 with a layer without bias: D = 8+4, 12, 6+2 = 32.
fn network() -> Network {
    random_network(architecture(&[2, 4, 3, 2], &[true, false, true], Activation::Tanh), 5)
}

fn shared() -> Arc<dyn Model> {
    Arc::new(network())
}

/// Every kind of selection: the last layer, layers in the middle and apart, tensors, and scattered weights.
fn selections() -> Vec<Weights> {
    let words = [
        "last-layer",
        "layers:0",
        "layers:2",
        "layers:0,4",
        "layers:2,4.bias",
        "layers:4.weight",
        "layers:layer 2",
        "subnetwork:9:magnitude",
        "subnetwork:32:random",
        "subnetwork:13:random:3",
    ];
    let mut all: Vec<Weights> = words.iter().map(|word| word.parse().expect("a selection")).collect();
    all.push(Weights::Indices(vec![31, 2, 17, 11, 18]));
    all
}

/// The selected model and the indices of its parameters.
fn restricted(weights: &Weights) -> (Arc<dyn Model>, Vec<usize>) {
    let model = weights.restrict(&shared()).expect("a selection");
    let indices = model.subset().expect("a part of a model").indices.to_vec();
    assert_eq!(model.n_params(), indices.len());
    let expected: Vec<f64> = indices.iter().map(|index| network().parameters()[*index]).collect();
    assert_eq!(model.parameters(), expected);
    (model, indices)
}

fn inputs() -> Array2<f64> {
    normal_matrix(POINTS, 2, 9)
}

fn family() -> Family {
    Family::gaussian_per_output(&[0.4, 0.9]).expect("noise levels")
}

fn data(family: &Family) -> Dataset {
    random_data(&network(), family, 25, 11)
}
