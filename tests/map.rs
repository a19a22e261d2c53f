//! The network as a map: outputs and Jacobian against candle, jets against finite differences, and every product with
//! the rows J̃ against the dense rows.

mod common;

use std::sync::Arc;

use candle_core::{DType, Device, IndexOp, Module, Tensor};
use candle_nn::VarMap;
use faer::Mat;
use ndarray::Array2;
use riemannian_laplace::Error;
use riemannian_laplace::internals::map::{Evaluator, Jet, Map, Rows, Scratch, frozen_rows, jacobian};
use riemannian_laplace::internals::network::{Mlp, NetworkMap};
use riemannian_laplace::{Activation, Architecture, Network};

use common::{Outcome, architecture, as_list, assert_all_close, forward, layer_sums, lower_as_list, normal_matrix};
use common::{normal_vector, random_network, shapes};

const POINTS: usize = 6;

/// The network of this shape at these inputs.
fn bound(architecture: &Architecture, inputs: &Array2<f64>) -> Arc<dyn Map> {
    Arc::new(NetworkMap::new(architecture.clone(), inputs.view()).expect("inputs of the right width"))
}

/// Every activation in every shape.
fn cases() -> impl Iterator<Item = (Network, Array2<f64>, Arc<dyn Map>, String)> {
    Activation::ALL.into_iter().flat_map(|activation| {
        shapes().into_iter().enumerate().map(move |(index, (sizes, biases))| {
            let architecture = architecture(&sizes, &biases, activation);
            let name = format!("{architecture}, biases {biases:?}");
            let inputs = normal_matrix(POINTS, sizes[0], 100 + index as u64);
            let map = bound(&architecture, &inputs);
            (random_network(architecture, index as u64), inputs, map, name)
        })
    })
}

/// The outputs of candle's forward pass in f64, and the module with its variables.
fn in_candle(network: &Network, inputs: &Array2<f64>) -> Result<(Mlp, VarMap, Tensor), Box<dyn std::error::Error>> {
    let variables = VarMap::new();
    let mlp = Mlp::trainable(network, &variables, DType::F64, &Device::Cpu)?;
    let inputs = Tensor::from_vec(inputs.iter().copied().collect(), inputs.dim(), &Device::Cpu)?;
    let outputs = mlp.forward(&inputs)?;
    Ok((mlp, variables, outputs))
}

/// Point-major values as the unit-major list of the library.
fn unit_major(values: &Array2<f64>) -> Vec<f64> {
    values.columns().into_iter().flat_map(|column| column.to_vec()).collect()
}

#[test]
fn outputs_are_those_of_candle() -> Outcome {
    for (network, inputs, map, name) in cases() {
        let (_, _, expected) = in_candle(&network, &inputs)?;
        let expected = Array2::from_shape_vec(expected.dims2()?, expected.flatten_all()?.to_vec1::<f64>()?)?;
        let mut outputs = vec![f64::NAN; POINTS * map.n_outputs()];
        Evaluator::new(&map, 1).outputs(network.parameters(), &mut outputs);
        // A few roundings per layer.
        assert_all_close(&outputs, &unit_major(&expected), 1e-14, &name);
        // The same from the loops of the tests, on which other tests rely.
        let plain = forward(network.architecture(), network.parameters(), &inputs);
        assert_all_close(&outputs, &unit_major(&plain), 1e-14, &name);
    }
    Ok(())
}

#[test]
fn jacobian_rows_are_candles_gradients() -> Outcome {
    for (network, inputs, map, name) in cases() {
        let (_, variables, outputs) = in_candle(&network, &inputs)?;
        let found = jacobian(&map, network.parameters());
        for n in 0..POINTS {
            for p in 0..map.n_outputs() {
                let gradients = outputs.i((n, p))?.backward()?;
                let mut expected = Vec::new();
                let table = variables.data().lock().expect("no other thread holds the variables");
                for (index, layer) in network.architecture().linear_layers().iter().enumerate() {
                    let mut names = vec![format!("{}.weight", 2 * index)];
                    names.extend(layer.bias.then(|| format!("{}.bias", 2 * index)));
                    for name in names {
                        let gradient = gradients.get(&table[&name]).ok_or("a parameter without gradient")?;
                        expected.extend(gradient.flatten_all()?.to_vec1::<f64>()?);
                    }
                }
                let row: Vec<f64> = found.row(p * POINTS + n).iter().copied().collect();
                assert_all_close(&row, &expected, 1e-13, &format!("{name}, point {n}, output {p}"));
            }
        }
    }
    Ok(())
}

/// f(θ + tv) at the five points t = −2h … 2h, unit-major, and for every point whether a hidden sum is near its hinge.
fn along(network: &Network, velocity: &[f64], inputs: &Array2<f64>, step: f64) -> (Vec<Vec<f64>>, Vec<bool>) {
    let at = |multiple: f64| -> Vec<f64> {
        network.parameters().iter().zip(velocity).map(|(theta, v)| theta + multiple * step * v).collect()
    };
    let values = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|k| unit_major(&forward(network.architecture(), &at(k), inputs)));
    let signs = |theta: &[f64], input: &[f64]| -> Vec<bool> {
        let sums = layer_sums(network.architecture(), theta, input);
        sums[..sums.len() - 1].iter().flatten().map(|z| *z > 0.0).collect()
    };
    let (first, last) = (at(-2.0), at(2.0));
    let crosses = |input: Vec<f64>| signs(&first, &input) != signs(&last, &input);
    (values.to_vec(), inputs.rows().into_iter().map(|input| crosses(input.to_vec())).collect())
}

#[test]
fn jets_are_the_derivatives_along_a_line() {
    // Five-point formulas, with u = 1e-16: the first derivative errs by h⁴/30 f⁽⁵⁾ + u/h, the second by
    // h⁴/90 f⁽⁶⁾ + 4u/h². At h = 2e-3 both are below 3e-9 for derivatives up to 10⁴.
    let (step, tolerance) = (2e-3, 1e-8);
    let mut compared = 0;
    for (index, (network, inputs, map, name)) in cases().enumerate() {
        let has_hinge = matches!(
            network.architecture().activation(),
            Some(Activation::Relu | Activation::LeakyRelu | Activation::Elu)
        );
        let velocity: Vec<f64> = normal_vector(map.n_params(), 900 + index as u64).iter().map(|v| 0.3 * v).collect();
        let (f, crosses) = along(&network, &velocity, &inputs, step);
        let mut jet = Jet::new(POINTS, map.n_outputs());
        Evaluator::new(&map, 1).jet(network.parameters(), &velocity, &mut jet);
        assert_all_close(&jet.outputs, &f[2], 1e-14, &name);
        let (mut found, mut expected) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for i in (0..jet.outputs.len()).filter(|i| !(has_hinge && crosses[i % POINTS])) {
            found.0.push(jet.first[i]);
            found.1.push(jet.second[i]);
            expected.0.push((f[0][i] - 8.0 * f[1][i] + 8.0 * f[3][i] - f[4][i]) / (12.0 * step));
            let second = -f[0][i] + 16.0 * f[1][i] - 30.0 * f[2][i] + 16.0 * f[3][i] - f[4][i];
            expected.1.push(second / (12.0 * step * step));
        }
        assert_all_close(&found.0, &expected.0, tolerance, &format!("first derivatives of {name}"));
        if network.architecture().linear_layers().len() == 1 {
            assert!(jet.second.iter().all(|value| *value == 0.0), "{name} is linear in its weights");
        } else {
            assert_all_close(&found.1, &expected.1, tolerance, &format!("second derivatives of {name}"));
        }
        compared += found.0.len();

        // ḟ = Jv, by the backward sweep instead of the forward one.
        let rows = jacobian(&map, network.parameters());
        let product: Vec<f64> =
            rows.row_iter().map(|row| row.iter().zip(&velocity).map(|(a, b)| a * b).sum()).collect();
        assert_all_close(&jet.first, &product, 1e-13, &format!("Jv of {name}"));
    }
    assert!(compared > 800, "the hinges left only {compared} outputs to compare");
}

/// The rows of `seeds` at θ.
fn pulled_back(map: &Arc<dyn Map>, theta: &[f64], seeds: &[f64], columns: usize) -> Box<dyn Rows> {
    frozen_rows(map, theta, columns, |_| Ok(seeds.to_vec())).expect("rows")
}

/// J̃ = RᵀJ from the plain Jacobian and the definition of the seeds.
fn seeded_rows(jacobian: &Mat<f64>, seeds: &[f64], points: usize, outputs: usize, columns: usize) -> Mat<f64> {
    Mat::from_fn(points * columns, jacobian.ncols(), |row, d| {
        let (k, n) = (row / points, row % points);
        (0..outputs).map(|p| seeds[(p * columns + k) * points + n] * jacobian[(p * points + n, d)]).sum()
    })
}

/// The diagonal matrix V of variances, one per layer.
fn diagonal(architecture: &Architecture, variances: &[f64]) -> Vec<f64> {
    let counts = architecture.layer_params();
    counts.iter().zip(variances).flat_map(|(count, variance)| vec![*variance; *count]).collect()
}

/// X V Yᵀ.
fn weighted_product(x: &Mat<f64>, v: &[f64], y: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(x.nrows(), y.nrows(), |i, j| (0..v.len()).map(|d| x[(i, d)] * v[d] * y[(j, d)]).sum())
}

#[test]
fn products_with_the_rows_agree_with_the_dense_rows() {
    for (index, (network, _, map, name)) in cases().enumerate() {
        let (theta, p) = (network.parameters(), map.n_outputs());
        let plain = jacobian(&map, theta);
        let variances: Vec<f64> = (0..map.groups().len()).map(|l| 0.3 + 1.7 * l as f64).collect();
        assert_eq!(map.groups(), network.architecture().layer_params());
        let v = diagonal(network.architecture(), &variances);
        for columns in [1, p] {
            let seeds = normal_vector(POINTS * p * columns, 5000 + index as u64);
            let (pulled, mut scratch) = (pulled_back(&map, theta, &seeds, columns), Scratch::default());
            let m = POINTS * columns;

            let mut rows = Mat::zeros(m, map.n_params());
            pulled.dense(rows.as_mut());
            let expected = seeded_rows(&plain, &seeds, POINTS, p, columns);
            assert_all_close(&as_list(&rows), &as_list(&expected), 1e-14, &format!("rows of {name}"));

            let direction = normal_vector(map.n_params(), 6000);
            let mut product = vec![f64::NAN; m];
            pulled.times(&direction, &mut product, &mut scratch);
            let expected: Vec<f64> =
                rows.row_iter().map(|row| row.iter().zip(&direction).map(|(a, b)| a * b).sum()).collect();
            assert_all_close(&product, &expected, 1e-13, &format!("times of {name}"));

            let weights = normal_vector(m, 7000);
            let mut product = vec![f64::NAN; map.n_params()];
            pulled.transpose_times(&weights, &mut product, &mut scratch);
            let expected: Vec<f64> =
                rows.col_iter().map(|column| column.iter().zip(&weights).map(|(a, b)| a * b).sum()).collect();
            assert_all_close(&product, &expected, 1e-13, &format!("transpose_times of {name}"));

            let mut gram = Mat::from_fn(m, m, |_, _| f64::NAN);
            pulled.gram(&variances, gram.as_mut(), &mut scratch);
            let expected = weighted_product(&rows, &v, &rows);
            assert_all_close(&lower_as_list(&gram), &as_list(&expected), 1e-13, &format!("gram of {name}"));
        }
    }
}

#[test]
fn cross_gram_agrees_with_the_dense_rows() {
    for (index, (network, _, map, name)) in cases().enumerate() {
        let (theta, p, others) = (network.parameters(), map.n_outputs(), 4);
        let inputs = normal_matrix(others, network.architecture().n_inputs(), 8000 + index as u64);
        let other = bound(network.architecture(), &inputs);
        let variances: Vec<f64> = (0..map.groups().len()).map(|l| 2.0 - 0.4 * l as f64).collect();
        let v = diagonal(network.architecture(), &variances);
        for (columns, other_columns) in [(1, p), (p, 1), (p, p)] {
            let seeds = normal_vector(POINTS * p * columns, 10);
            let other_seeds = normal_vector(others * p * other_columns, 11);
            let rows = pulled_back(&map, theta, &seeds, columns);
            let other_rows = pulled_back(&other, theta, &other_seeds, other_columns);
            let mut gram = Mat::from_fn(POINTS * columns, others * other_columns, |_, _| f64::NAN);
            rows.cross_gram(&*other_rows, &variances, gram.as_mut(), &mut Scratch::default());
            let left = seeded_rows(&jacobian(&map, theta), &seeds, POINTS, p, columns);
            let right = seeded_rows(&jacobian(&other, theta), &other_seeds, others, p, other_columns);
            let expected = weighted_product(&left, &v, &right);
            assert_all_close(&as_list(&gram), &as_list(&expected), 1e-13, &name);
        }
    }
}

/// Everything that an evaluator can compute at θ, in the order of a geodesic's evaluation.
fn everything(map: &dyn Map, theta: &[f64], velocity: &[f64], columns: usize, evaluator: &mut Evaluator) -> Vec<f64> {
    let (m, d) = (POINTS * columns, map.n_params());
    let mut jet = Jet::new(POINTS, map.n_outputs());
    let evaluated = evaluator.jet(theta, velocity, &mut jet);
    let mut pulled = evaluated.pull_back(&normal_vector(m * map.n_outputs(), 3));
    let mut all = [jet.outputs, jet.first, jet.second].concat();
    let mut rows = Mat::zeros(m, d);
    pulled.dense(rows.as_mut());
    all.extend(as_list(&rows));
    let mut product = vec![0.0; m];
    pulled.times(velocity, &mut product);
    let mut gradient = vec![0.0; d];
    pulled.transpose_times(&product, &mut gradient);
    let mut gram = Mat::zeros(m, m);
    pulled.gram(&vec![0.7; map.groups().len()], gram.as_mut());
    all.extend([product, gradient, lower_as_list(&gram)].concat());
    all
}

#[test]
fn a_used_evaluator_gives_the_bits_of_a_fresh_one() {
    for (network, _, map, name) in cases() {
        let velocity = normal_vector(map.n_params(), 1);
        let elsewhere = normal_vector(map.n_params(), 2);
        for columns in [1, map.n_outputs()] {
            let mut used = Evaluator::new(&map, columns);
            let mut outputs = vec![0.0; POINTS * map.n_outputs()];
            everything(&*map, &elsewhere, network.parameters(), columns, &mut used);
            used.outputs(&velocity, &mut outputs);
            let again = everything(&*map, network.parameters(), &velocity, columns, &mut used);
            let mut new = Evaluator::new(&map, columns);
            let fresh = everything(&*map, network.parameters(), &velocity, columns, &mut new);
            assert!(again.iter().zip(&fresh).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
        }
    }
}

#[test]
fn rows_are_the_same_after_outputs_and_after_a_jet() {
    for (network, _, map, name) in cases() {
        let (theta, p) = (network.parameters(), map.n_outputs());
        let seeds = normal_vector(POINTS * p * p, 4);
        let mut after_outputs = Mat::zeros(POINTS * p, map.n_params());
        pulled_back(&map, theta, &seeds, p).dense(after_outputs.as_mut());
        let mut evaluator = Evaluator::new(&map, p);
        let mut jet = Jet::new(POINTS, p);
        let velocity = normal_vector(map.n_params(), 5);
        let pulled = evaluator.jet(theta, &velocity, &mut jet).pull_back(&seeds);
        let mut after_jet = Mat::zeros(POINTS * p, map.n_params());
        pulled.dense(after_jet.as_mut());
        assert_all_close(&as_list(&after_outputs), &as_list(&after_jet), 1e-14, &name);
    }
}

#[test]
fn inputs_are_checked() {
    let architecture = architecture(&[2, 3, 1], &[true, true], Activation::Tanh);
    let wide = normal_matrix(4, 3, 0);
    assert!(matches!(
        NetworkMap::new(architecture.clone(), wide.view()),
        Err(Error::Size { expected: 2, found: 3, .. })
    ));
    let mut bad = normal_matrix(4, 2, 0);
    bad[(3, 1)] = f64::INFINITY;
    assert!(matches!(NetworkMap::new(architecture, bad.view()), Err(Error::NotFinite { row: 3, column: 1, .. })));
}
