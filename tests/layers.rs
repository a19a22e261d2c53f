//! Networks that are not plain multilayer perceptrons: mixed activations, activations first, last and in a row, missing
//! biases; convolutions, pooling, normalisations and residual blocks. Outputs and Jacobians against candle, jets and derivatives of rows against finite differences, products
//! against dense rows, Kronecker factors against loops.

#[path = "layers/along.rs"]
mod along;
#[path = "layers/blocks.rs"]
mod blocks;
mod common;
#[path = "layers/cut.rs"]
mod cut;
#[path = "layers/descriptions.rs"]
mod descriptions;
#[path = "layers/kronecker.rs"]
mod kronecker;
#[path = "layers/partial.rs"]
mod partial;
#[path = "layers/plain.rs"]
mod plain;
#[path = "layers/wide.rs"]
mod wide;

use std::sync::Arc;

use candle_core::{DType, Device, IndexOp, Module, Tensor};
use candle_nn::VarMap;
use faer::{Accum, Mat};
use ndarray::Array2;
use riemannian_laplace::Error;
use riemannian_laplace::internals::data::DataError;
use riemannian_laplace::internals::map::{
    BlockShape, BlockSums, Evaluator, Jet, KroneckerFactors, Map, Rows, RowsAlong, Scratch, frozen_rows, jacobian,
};
use riemannian_laplace::internals::network::{Mlp, NetworkMap};
use riemannian_laplace::{Activation, Architecture, Layer, Linear, Model, Network};

use common::{Outcome, as_list, assert_all_close, lower_as_list, normal_matrix, normal_vector, random_network};

const POINTS: usize = 5;

fn linear(inputs: usize, outputs: usize) -> Layer {
    Linear::new(inputs, outputs).into()
}

fn without_bias(inputs: usize, outputs: usize) -> Layer {
    Linear::without_bias(inputs, outputs).into()
}

/// Chains of linear layers and activations other than plain perceptrons.
fn dense_chains() -> Vec<Vec<Layer>> {
    use Activation::{Elu, Gelu, Identity, LeakyRelu, Relu, Sigmoid, Silu, Sin, Softplus, Tanh};
    vec![
        vec![linear(2, 4), Tanh.into(), linear(4, 3), Relu.into(), linear(3, 2)],
        vec![linear(2, 4), Tanh.into(), without_bias(4, 3), Silu.into(), linear(3, 1)],
        vec![Sin.into(), linear(2, 3), Gelu.into(), linear(3, 2)],
        vec![linear(2, 3), Tanh.into(), linear(3, 2), Softplus.into()],
        vec![linear(3, 3), Tanh.into(), Sigmoid.into(), linear(3, 2)],
        vec![Tanh.into(), Sin.into(), without_bias(2, 4), Elu.into(), Silu.into(), linear(4, 3), Sigmoid.into()],
        vec![without_bias(3, 2), without_bias(2, 4), linear(4, 2)],
        vec![linear(1, 5), Relu.into(), linear(5, 2), LeakyRelu.into()],
        vec![without_bias(2, 1), Identity.into(), Sin.into()],
    ]
}

struct Case {
    network: Network,
    inputs: Array2<f64>,
    map: Arc<dyn Map>,
    name: String,
}

/// The network of this shape at these inputs.
fn bound(architecture: &Architecture, inputs: &Array2<f64>) -> Arc<dyn Map> {
    Arc::new(NetworkMap::new(architecture.clone(), inputs.view()).expect("inputs of the right width"))
}

fn cases() -> impl Iterator<Item = Case> {
    cases_of(dense_chains().into_iter().chain(plain::chains()))
}

fn cases_of(chains: impl Iterator<Item = Vec<Layer>>) -> impl Iterator<Item = Case> {
    chains.enumerate().map(|(index, layers)| {
        let architecture = Architecture::of_layers(layers).expect("a chain");
        let inputs = normal_matrix(POINTS, architecture.n_inputs(), 100 + index as u64);
        let map = bound(&architecture, &inputs);
        let name = architecture.to_string();
        Case { network: random_network(architecture, index as u64), inputs, map, name }
    })
}

/// The inputs of every layer at one point and the outputs after the last, in plain loops: the network's definition.
fn trace(architecture: &Architecture, theta: &[f64], input: &[f64]) -> Vec<Vec<f64>> {
    traced(architecture, theta, input).0
}

/// The same with the pieces that the values are on, where a layer has pieces.
fn traced(architecture: &Architecture, theta: &[f64], input: &[f64]) -> (Vec<Vec<f64>>, Vec<usize>) {
    let (mut values, mut rest, mut pieces) = (vec![input.to_vec()], theta, Vec::new());
    for layer in architecture.layers() {
        values.push(plain::outputs(layer, &mut rest, &values[values.len() - 1], &mut pieces));
    }
    assert!(rest.is_empty());
    (values, pieces)
}

/// The outputs by [`trace`], unit-major.
fn plain_outputs(case: &Case, theta: &[f64]) -> Vec<f64> {
    let architecture = case.network.architecture();
    let rows: Vec<Vec<f64>> = case
        .inputs
        .rows()
        .into_iter()
        .map(|x| trace(architecture, theta, &x.to_vec()).pop().unwrap_or_default())
        .collect();
    (0..architecture.n_outputs()).flat_map(|p| rows.iter().map(move |row| row[p])).collect()
}

/// θ + t v.
fn moved(theta: &[f64], velocity: &[f64], t: f64) -> Vec<f64> {
    theta.iter().zip(velocity).map(|(theta, v)| theta + t * v).collect()
}

/// For every point, whether a layer with pieces changes them within a step.
fn crosses(case: &Case, velocity: &[f64], step: f64) -> Vec<bool> {
    let architecture = case.network.architecture();
    let pieces = |theta: &[f64], x: &[f64]| traced(architecture, theta, x).1;
    let theta = case.network.parameters();
    let (first, last) = (moved(theta, velocity, -2.0 * step), moved(theta, velocity, 2.0 * step));
    case.inputs.rows().into_iter().map(|x| pieces(&first, &x.to_vec()) != pieces(&last, &x.to_vec())).collect()
}

fn velocity(case: &Case, seed: u64) -> Vec<f64> {
    normal_vector(case.map.n_params(), seed).iter().map(|v| 0.3 * v).collect()
}

/// The rows of `seeds` at θ.
fn pulled_back(map: &Arc<dyn Map>, theta: &[f64], seeds: &[f64], columns: usize) -> Box<dyn Rows> {
    frozen_rows(map, theta, columns, |_| Ok(seeds.to_vec())).expect("rows")
}

/// The derivatives of the rows along a velocity.
fn pulled_back_along(case: &Case, velocity: &[f64], seeds: &[f64], columns: usize) -> Box<dyn RowsAlong> {
    let rows = case.map.clone().rows_along(case.network.parameters(), velocity, seeds, columns);
    rows.expect("a network has second derivatives")
}

/// J̃ as a dense matrix.
fn dense(map: &Arc<dyn Map>, theta: &[f64], seeds: &[f64], columns: usize) -> Mat<f64> {
    let mut rows = Mat::zeros(map.n_points() * columns, map.n_params());
    pulled_back(map, theta, seeds, columns).dense(rows.as_mut());
    rows
}

/// The first derivative from values at −2h, −h, h and 2h.
fn five_point(values: [f64; 4], step: f64) -> f64 {
    (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step)
}

#[test]
fn curvatures_by_layers_are_those_of_dense_rows() {
    // More than one tile of points and of pairs, several outputs, layers with and without bias.
    let wide =
        vec![linear(20, 24), Activation::Tanh.into(), without_bias(24, 30), Activation::Sin.into(), linear(30, 4)];
    let narrow = vec![linear(3, 2), Activation::Tanh.into(), linear(2, 3)];
    for (layers, points) in [(wide, 600), (narrow, 7)] {
        let architecture = Architecture::of_layers(layers).expect("a chain");
        let map = bound(&architecture, &normal_matrix(points, architecture.n_inputs(), 5));
        let theta = normal_vector(map.n_params(), 6);
        let (outputs, params) = (map.n_outputs(), map.n_params());
        let seeds = normal_vector(points * outputs * outputs, 7);
        let rows = frozen_rows(&map, &theta, outputs, |_| Ok(seeds)).expect("rows");
        let mut dense = Mat::zeros(points * outputs, params);
        rows.dense(dense.as_mut());
        let product = dense.transpose() * &dense;
        let scale = (0..params).fold(0.0_f64, |most, d| most.max(product[(d, d)]));
        let (mut curvature, mut scratch) = (Mat::from_fn(params, params, |_, _| f64::NAN), Scratch::default());
        rows.curvature(Accum::Replace, curvature.as_mut(), &mut scratch);
        for (accumulate, times) in [(None, 1.0), (Some(Accum::Add), 2.0)] {
            if let Some(accumulate) = accumulate {
                rows.curvature(accumulate, curvature.as_mut(), &mut scratch);
            }
            for (i, j) in (0..params).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                // Sums of 2,400 products in another order.
                let error = (curvature[(i, j)] - times * product[(i, j)]).abs();
                assert!(error < 1e-13 * scale, "{architecture}: ({i}, {j}) by {error:e} of {scale}");
            }
        }
    }
}

#[test]
fn outputs_and_jacobians_are_those_of_candle() -> Outcome {
    for case in cases() {
        let Case { network, inputs, map, name } = &case;
        let variables = VarMap::new();
        let mlp = Mlp::trainable(network, &variables, DType::F64, &Device::Cpu)?;
        assert_eq!(Network::from_mlp(&mlp)?, *network, "{name}");
        let tensor = Tensor::from_vec(inputs.iter().copied().collect(), inputs.dim(), &Device::Cpu)?;
        let in_candle = mlp.forward(&tensor)?;
        let mut outputs = vec![f64::NAN; POINTS * map.n_outputs()];
        Evaluator::new(map, 1).outputs(network.parameters(), &mut outputs);
        // A few roundings per layer.
        assert_all_close(&outputs, &in_candle.t()?.flatten_all()?.to_vec1::<f64>()?, 1e-14, name);
        assert_all_close(&outputs, &plain_outputs(&case, network.parameters()), 1e-14, name);

        let found = jacobian(map, network.parameters());
        let names: Vec<String> =
            network.architecture().parameter_groups().into_iter().map(|group| group.name).collect();
        for n in 0..POINTS {
            for p in 0..map.n_outputs() {
                let gradients = in_candle.i((n, p))?.backward()?;
                let table = variables.data().lock().expect("no other thread holds the variables");
                let mut expected = Vec::new();
                for name in &names {
                    let gradient = gradients.get(&table[name]).ok_or("a parameter without gradient")?;
                    expected.extend(gradient.flatten_all()?.to_vec1::<f64>()?);
                }
                let row: Vec<f64> = found.row(p * POINTS + n).iter().copied().collect();
                assert_all_close(&row, &expected, 1e-13, &format!("{name}, point {n}, output {p}"));
            }
        }
    }
    Ok(())
}

#[test]
fn jets_are_the_derivatives_along_a_line() {
    // Five-point formulas err by h⁴/30 f⁽⁵⁾ + u/h and h⁴/90 f⁽⁶⁾ + 4u/h²: below 3e-9 for derivatives up to 10⁴.
    let (step, tolerance) = (2e-3, 1e-8);
    let mut compared = 0;
    for case in cases() {
        let (theta, velocity) = (case.network.parameters(), velocity(&case, 900));
        let crosses = crosses(&case, &velocity, step);
        let f = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|k| plain_outputs(&case, &moved(theta, &velocity, k * step)));
        let mut jet = Jet::new(POINTS, case.map.n_outputs());
        Evaluator::new(&case.map, 1).jet(theta, &velocity, &mut jet);
        assert_all_close(&jet.outputs, &f[2], 1e-14, &case.name);
        let (mut found, mut expected) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for i in (0..jet.outputs.len()).filter(|i| !crosses[i % POINTS]) {
            found.0.push(jet.first[i]);
            found.1.push(jet.second[i]);
            expected.0.push(five_point([f[0][i], f[1][i], f[3][i], f[4][i]], step));
            let second = -f[0][i] + 16.0 * f[1][i] - 30.0 * f[2][i] + 16.0 * f[3][i] - f[4][i];
            expected.1.push(second / (12.0 * step * step));
        }
        assert_all_close(&found.0, &expected.0, tolerance, &format!("first derivatives of {}", case.name));
        assert_all_close(&found.1, &expected.1, tolerance, &format!("second derivatives of {}", case.name));
        compared += found.0.len();
    }
    assert!(compared > 70, "the hinges left only {compared} outputs to compare");
}

#[test]
fn products_agree_with_the_dense_rows() {
    for (index, case) in cases().enumerate() {
        let Case { network, map, name, .. } = &case;
        let (theta, p) = (network.parameters(), map.n_outputs());
        let variances: Vec<f64> = (0..map.groups().len()).map(|l| 0.3 + 1.7 * l as f64).collect();
        let v: Vec<f64> = map.groups().iter().zip(&variances).flat_map(|(count, v)| vec![*v; *count]).collect();
        assert_eq!(v.len(), theta.len());
        let others = normal_matrix(3, network.architecture().n_inputs(), 77);
        let other = bound(network.architecture(), &others);
        for columns in [1, p] {
            let m = POINTS * columns;
            let seeds = normal_vector(m * p, 5000 + index as u64);
            let (pulled, mut scratch) = (pulled_back(map, theta, &seeds, columns), Scratch::default());
            let rows = dense(map, theta, &seeds, columns);

            let u = normal_vector(map.n_params(), 6);
            let mut product = vec![f64::NAN; m];
            pulled.times(&u, &mut product, &mut scratch);
            let expected: Vec<f64> = rows.row_iter().map(|row| row.iter().zip(&u).map(|(a, b)| a * b).sum()).collect();
            assert_all_close(&product, &expected, 1e-13, &format!("times of {name}"));

            let w = normal_vector(m, 7);
            let mut product = vec![f64::NAN; map.n_params()];
            pulled.transpose_times(&w, &mut product, &mut scratch);
            let expected: Vec<f64> = rows.col_iter().map(|row| row.iter().zip(&w).map(|(a, b)| a * b).sum()).collect();
            assert_all_close(&product, &expected, 1e-13, &format!("transpose_times of {name}"));

            let weighted = |x: &Mat<f64>, y: &Mat<f64>| -> Mat<f64> {
                Mat::from_fn(x.nrows(), y.nrows(), |i, j| (0..v.len()).map(|d| x[(i, d)] * v[d] * y[(j, d)]).sum())
            };
            let mut gram = Mat::from_fn(m, m, |_, _| f64::NAN);
            pulled.gram(&variances, gram.as_mut(), &mut scratch);
            let expected = weighted(&rows, &rows);
            assert_all_close(&lower_as_list(&gram), &as_list(&expected), 1e-13, &format!("gram of {name}"));

            let other_seeds = normal_vector(3 * p * p, 8);
            let other_rows = pulled_back(&other, theta, &other_seeds, p);
            let mut gram = Mat::from_fn(m, 3 * p, |_, _| f64::NAN);
            pulled.cross_gram(&*other_rows, &variances, gram.as_mut(), &mut scratch);
            let expected = weighted(&rows, &dense(&other, theta, &other_seeds, p));
            assert_all_close(&as_list(&gram), &as_list(&expected), 1e-13, &format!("cross_gram of {name}"));
        }
    }
}

/// The factors of the blocks that are weight matrices.
fn matrices(blocks: &[BlockSums]) -> Vec<KroneckerFactors> {
    let factors = |block: &BlockSums| match block {
        BlockSums::Matrix(factors) => Some(factors.clone()),
        BlockSums::Dense(_) => None,
    };
    blocks.iter().filter_map(factors).collect()
}

#[test]
fn kronecker_factors_are_sums_over_points_and_rows() {
    for case in cases_of(dense_chains().into_iter()) {
        let Case { network, inputs, map, name } = &case;
        let (architecture, theta, p) = (network.architecture(), network.parameters(), map.n_outputs());
        let (m, seeds) = (POINTS * p, normal_vector(POINTS * p * p, 51));
        let blocks = pulled_back(map, theta, &seeds, p).kronecker(&[]);
        let shapes: Vec<BlockShape> = architecture
            .linear_layers()
            .iter()
            .map(|place| BlockShape::Matrix { outputs: place.outputs, inputs: place.inputs, bias: place.bias })
            .collect();
        assert_eq!(network.blocks(), shapes, "{name}");
        let factors = matrices(&blocks);
        assert!(factors.iter().all(|factors| factors.count == POINTS as f64), "{name}");
        let rows = dense(map, theta, &seeds, p);
        let traces: Vec<Vec<Vec<f64>>> =
            inputs.rows().into_iter().map(|x| trace(architecture, theta, &x.to_vec())).collect();
        let places = architecture.layers().iter().enumerate().filter(|(_, layer)| matches!(layer, Layer::Linear(_)));
        for (((index, _), linear), found) in places.zip(architecture.linear_layers()).zip(&factors) {
            let h = Mat::from_fn(POINTS, linear.inputs, |n, i| traces[n][index][i]);
            // The gradient with respect to W is δhᵀ, so that its product with h is δ‖h‖².
            let delta = Mat::from_fn(m, linear.outputs, |row, o| {
                let entry = |i: usize| rows[(row, linear.offset + o * linear.inputs + i)];
                let (mut sum, mut square) = (0.0, 0.0);
                for i in 0..linear.inputs {
                    sum += entry(i) * h[(row % POINTS, i)];
                    square += h[(row % POINTS, i)].powi(2);
                }
                sum / square
            });
            let squares = |x: &Mat<f64>| -> Mat<f64> {
                Mat::from_fn(x.ncols(), x.ncols(), |i, j| (0..x.nrows()).map(|n| x[(n, i)] * x[(n, j)]).sum())
            };
            let close = |found: &Mat<f64>, expected: &Mat<f64>| {
                assert_all_close(&lower_as_list(found), &lower_as_list(expected), 1e-12, name);
            };
            close(&found.inputs, &squares(&h));
            close(&found.sensitivities, &squares(&delta));
        }

        // The factors of two parts of the points add up to those of all.
        let mut parts = Vec::new();
        for range in [0..2, 2..POINTS] {
            let part = map.at_points(&range.clone().collect::<Vec<usize>>()).expect("points of the map");
            let seeds: Vec<f64> = seeds.chunks(POINTS).flat_map(|column| column[range.clone()].to_vec()).collect();
            parts.push(pulled_back(&part, theta, &seeds, p).kronecker(&[]));
        }
        let mut sums = parts[0].clone();
        sums.iter_mut().zip(&parts[1]).for_each(|(sum, part)| sum.add(part));
        for (sum, all) in matrices(&sums).into_iter().zip(&factors) {
            assert_all_close(&lower_as_list(&sum.inputs), &lower_as_list(&all.inputs), 1e-13, name);
            assert_all_close(&lower_as_list(&sum.sensitivities), &lower_as_list(&all.sensitivities), 1e-13, name);
            assert_eq!(sum.count, all.count, "{name}");
        }
        assert!(matches!(
            map.at_points(&[0, POINTS]),
            Err(Error::Data(DataError::Row { row: POINTS, n_rows: POINTS }))
        ));
    }
}
