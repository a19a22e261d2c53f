//! Random graphs of all kinds of nodes: every verb against differences of the outputs or against dense rows, files, candle,
//! cuts, and an operator from outside of the crate.

mod common;
#[path = "graphs/random.rs"]
mod random;

use std::sync::Arc;

use candle_core::{DType, Device, Module, Tensor};
use faer::{Accum, Mat, MatMut, MatRef};
use ndarray::{Array2, array};
use riemannian_laplace::internals::map::{
    BlockCovariance, BlockShape, BlockSums, Evaluator, Jet, Map, Rows, Scratch, frozen_rows, identity_seeds, jacobian,
};
use riemannian_laplace::internals::network::Mlp;
use riemannian_laplace::internals::network::graph::{
    Custom, GraphBuilder, Indices, Kind, Operator, Seen, Start, Tensor as Parameters,
};
use riemannian_laplace::{Activation, Family, FitOptions, Laplace, Model, Network, Structure};

use common::{Outcome, as_list, is_close, lower_as_list, normal_matrix, normal_vector};
use random::random_graph;

const POINTS: usize = 4;
const GRAPHS: u64 = 120;

fn inputs_of(network: &Network, points: usize, seed: u64) -> Array2<f64> {
    random::inputs(network, points, seed)
}

/// Compares with an error relative to the largest entry, or to 1 where all are smaller.
fn assert_all_close(found: &[f64], expected: &[f64], tolerance: f64, name: &str) {
    let with_one = |values: &[f64]| [values, &[1.0]].concat();
    common::assert_all_close(&with_one(found), &with_one(expected), tolerance, name);
}

fn moved(theta: &[f64], velocity: &[f64], t: f64) -> Vec<f64> {
    theta.iter().zip(velocity).map(|(theta, v)| theta + t * v).collect()
}

/// The derivative at 0 by five points: truncation h⁴/30 of the fifth derivative, rounding 1e-16/h.
fn difference(function: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let h = 2e-4;
    let mut sum = vec![0.0; function(0.0).len()];
    for (multiple, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
        let values = function(multiple * h);
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value / (12.0 * h));
    }
    sum
}

fn outputs(map: &Arc<dyn Map>, theta: &[f64]) -> Vec<f64> {
    let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
    map.clone().evaluate(1).outputs(theta, &mut outputs);
    outputs
}

fn jet(map: &Arc<dyn Map>, theta: &[f64], velocity: &[f64]) -> Jet {
    let mut jet = Jet::new(map.n_points(), map.n_outputs());
    Evaluator::new(map, 1).jet(theta, velocity, &mut jet);
    jet
}

fn rows_of(map: &Arc<dyn Map>, theta: &[f64]) -> (Box<dyn Rows>, Mat<f64>) {
    let (n, p) = (map.n_points(), map.n_outputs());
    let seeds = normal_vector(n * p * 2, 77);
    let rows = frozen_rows(map, theta, 2, |_| Ok(seeds)).expect("rows");
    let mut dense = Mat::zeros(rows.n_rows(), rows.n_params());
    rows.dense(dense.as_mut());
    (rows, dense)
}

/// Calls `check` with random graphs, their inputs bound.
fn for_each_graph(check: impl Fn(&str, &Network, &Arc<dyn Map>, &[f64])) {
    for seed in 0..GRAPHS {
        let network = random_graph(seed);
        let map = network.bind(inputs_of(&network, POINTS, seed).view()).expect("a map");
        let velocity: Vec<f64> = normal_vector(network.parameters().len(), seed + 1).iter().map(|v| 0.3 * v).collect();
        let name = format!("graph {seed}, {}", network.architecture());
        check(&name, &network, &map, &velocity);
    }
}

#[test]
fn jets_are_derivatives_along_a_line() {
    for_each_graph(|name, network, map, velocity| {
        let theta = network.parameters();
        let found = jet(map, theta, velocity);
        assert_all_close(&found.outputs, &outputs(map, theta), 1e-14, name);
        let first = difference(|t| outputs(map, &moved(theta, velocity, t)));
        // Steps of 2e-4 in functions of this roughness leave errors of 1e-9.
        assert_all_close(&found.first, &first, 1e-8, name);
        let second = difference(|t| jet(map, &moved(theta, velocity, t), velocity).first);
        assert_all_close(&found.second, &second, 1e-8, name);
    });
}

#[test]
fn a_jet_whose_rest_comes_with_the_pull_back_is_the_whole_jet() {
    for_each_graph(|name, network, map, velocity| {
        let (n, p, theta) = (map.n_points(), map.n_outputs(), network.parameters());
        let whole = jet(map, theta, velocity);
        let mut evaluator = map.clone().evaluate(1);
        let mut partial = Jet::new(n, p);
        evaluator.partial_jet(theta, velocity, &mut partial);
        let seeds = normal_vector(n * p, 5);
        let weigh = |values: &[f64]| -> Vec<f64> {
            (0..n).map(|point| (0..p).map(|q| seeds[q * n + point] * values[q * n + point]).sum()).collect()
        };
        let mut found = weigh(&partial.second);
        evaluator.pull_back_with_rest(theta, &seeds, &mut found);
        assert_all_close(&found, &weigh(&whole.second), 1e-12, name);
    });
}

#[test]
fn rows_are_differences_and_their_derivatives_are_too() {
    for_each_graph(|name, network, map, velocity| {
        let (n, p, theta) = (map.n_points(), map.n_outputs(), network.parameters());
        let rows = jacobian(map, theta);
        let direction: Vec<f64> = normal_vector(theta.len(), 8).iter().map(|v| 0.3 * v).collect();
        let expected = difference(|t| outputs(map, &moved(theta, &direction, t)));
        // Steps of 2e-4 in functions of this roughness leave errors of 1e-9.
        let found: Vec<f64> = (0..n * p).map(|m| (0..theta.len()).map(|d| rows[(m, d)] * direction[d]).sum()).collect();
        assert_all_close(&found, &expected, 1e-8, name);
        let along = map.clone().rows_along(theta, velocity, &identity_seeds(n, p), p).expect("second derivatives");
        let mut found = Mat::zeros(n * p, theta.len());
        along.dense(found.as_mut());
        let expected = difference(|t| as_list(&jacobian(map, &moved(theta, velocity, t))));
        assert_all_close(&as_list(&found), &expected, 1e-7, name);
        let (weights, mut product) = (normal_vector(n * p, 3), vec![f64::NAN; theta.len()]);
        along.transpose_times(&weights, &mut product, &mut Scratch::default());
        let sums: Vec<f64> =
            found.col_iter().map(|column| column.iter().zip(&weights).map(|(x, w)| x * w).sum()).collect();
        assert_all_close(&product, &sums, 1e-12, name);
    });
}

#[test]
fn products_grams_and_curvatures_are_those_of_dense_rows() {
    for_each_graph(|name, network, map, _| {
        let theta = network.parameters();
        let (rows, dense) = rows_of(map, theta);
        let (m, d) = (rows.n_rows(), rows.n_params());
        let mut scratch = Scratch::default();
        let (u, w) = (normal_vector(d, 1), normal_vector(m, 2));
        let (mut image, mut product) = (vec![f64::NAN; m], vec![f64::NAN; d]);
        let times = |u: &[f64]| -> Vec<f64> { (0..m).map(|i| (0..d).map(|j| dense[(i, j)] * u[j]).sum()).collect() };
        let back = |w: &[f64]| -> Vec<f64> { (0..d).map(|j| (0..m).map(|i| dense[(i, j)] * w[i]).sum()).collect() };
        rows.times(&u, &mut image, &mut scratch);
        assert_all_close(&image, &times(&u), 1e-12, name);
        rows.transpose_times(&w, &mut product, &mut scratch);
        assert_all_close(&product, &back(&w), 1e-12, name);
        rows.normal_times(&u, &mut image, &mut product, &mut scratch);
        assert_all_close(&product, &back(&times(&u)), 1e-11, name);
        let sizes = network.group_sizes();
        let variances: Vec<f64> = (0..sizes.len()).map(|group| 0.5 + group as f64).collect();
        let scales: Vec<f64> =
            sizes.iter().zip(&variances).flat_map(|(size, variance)| std::iter::repeat_n(*variance, *size)).collect();
        let expected =
            Mat::from_fn(m, m, |i, j| (0..d).map(|k| dense[(i, k)] * scales[k] * dense[(j, k)]).sum::<f64>());
        let mut gram = Mat::zeros(m, m);
        rows.gram(&variances, gram.as_mut(), &mut scratch);
        assert_all_close(&lower_as_list(&gram), &lower_as_list(&expected), 1e-11, name);
        rows.cross_gram(&*rows, &variances, gram.as_mut(), &mut scratch);
        assert_all_close(&as_list(&gram), &as_list(&expected), 1e-11, name);
        let expected = Mat::from_fn(d, d, |i, j| (0..m).map(|k| dense[(k, i)] * dense[(k, j)]).sum::<f64>());
        let mut curvature = Mat::zeros(d, d);
        rows.curvature(Accum::Replace, curvature.as_mut(), &mut scratch);
        assert_all_close(&lower_as_list(&curvature), &lower_as_list(&expected), 1e-11, name);
        let some: Vec<usize> = (0..d).filter(|index| index % 3 == 1).collect();
        let mut columns = Mat::zeros(m, some.len());
        rows.columns(&some, columns.as_mut());
        assert_all_close(
            &as_list(&columns),
            &as_list(&Mat::from_fn(m, some.len(), |i, j| dense[(i, some[j])])),
            1e-13,
            name,
        );
    });
}

#[test]
fn blocks_squares_and_point_covariances_are_those_of_dense_rows() {
    for_each_graph(|name, network, map, _| {
        let (rows, dense) = rows_of(map, network.parameters());
        let (m, d) = (rows.n_rows(), rows.n_params());
        let mut squares = vec![0.0; d];
        rows.add_squares(&mut squares);
        let expected: Vec<f64> = (0..d).map(|j| (0..m).map(|i| dense[(i, j)].powi(2)).sum()).collect();
        assert_all_close(&squares, &expected, 1e-12, name);
        let shapes = network.blocks();
        assert_eq!(shapes.iter().map(|shape| shape.size()).sum::<usize>(), d, "{name}");
        let mut start = 0;
        for (shape, sums) in shapes.iter().zip(rows.kronecker(&[])) {
            let range = start..start + shape.size();
            start = range.end;
            match (shape, sums) {
                (BlockShape::Dense { size }, BlockSums::Dense(found)) => {
                    let entry = |i: usize, j: usize| {
                        (0..m).map(|k| dense[(k, range.start + i)] * dense[(k, range.start + j)]).sum::<f64>()
                    };
                    let expected = Mat::from_fn(*size, *size, entry);
                    assert_all_close(&lower_as_list(&found), &lower_as_list(&expected), 1e-11, name);
                }
                // The trace of a Kronecker product with one tap is that of the block, if the inputs have one length.
                (BlockShape::Matrix { .. }, BlockSums::Matrix(factors)) => {
                    assert!(factors.count >= POINTS as f64 && factors.count.is_finite(), "{name}");
                }
                _ => panic!("{name}: sums of another shape"),
            }
        }
        let variances = normal_vector(d, 6).iter().map(|v| v * v).collect::<Vec<f64>>();
        let mut rest = variances.as_slice();
        let blocks: Vec<BlockCovariance> = shapes
            .iter()
            .map(|shape| {
                let (own, others) = rest.split_at(shape.size());
                rest = others;
                BlockCovariance::Diagonal(own.to_vec())
            })
            .collect();
        let mut found = vec![0.0; POINTS * 4];
        rows.add_point_covariances(POINTS, &blocks, &mut found);
        let entry = |n: usize, k: usize, l: usize| -> f64 {
            (0..d).map(|j| dense[(k * POINTS + n, j)] * variances[j] * dense[(l * POINTS + n, j)]).sum()
        };
        let expected: Vec<f64> = (0..POINTS * 4).map(|index| entry(index / 4, index / 2 % 2, index % 2)).collect();
        assert_all_close(&found, &expected, 1e-11, name);
    });
}

#[test]
fn graphs_come_back_from_their_description_and_candle_computes_the_same() {
    for_each_graph(|name, network, map, _| {
        let record = network.record().expect("a description");
        let back = Network::from_record(&record, network.parameters().to_vec()).expect("the same network");
        assert_eq!(&back, network, "{name}");
        assert_eq!(back.fingerprint(), network.fingerprint(), "{name}");
        let seed = name.split([' ', ',']).nth(1).and_then(|seed| seed.parse().ok()).expect("a seed");
        let inputs = inputs_of(network, POINTS, seed);
        let values: Vec<f64> = inputs.iter().copied().collect();
        let mlp = Mlp::trainable(network, &candle_nn::VarMap::new(), DType::F64, &Device::Cpu).expect("a module");
        let tensor = Tensor::from_vec(values, inputs.dim(), &Device::Cpu).expect("a tensor");
        let candles = mlp.forward(&tensor).and_then(|outputs| outputs.t()?.flatten_all()?.to_vec1::<f64>());
        assert_all_close(&candles.expect("outputs"), &outputs(map, network.parameters()), 1e-11, name);
    });
}

#[test]
fn a_graph_cut_in_two_is_the_same_graph() {
    let mut cuts = 0;
    for seed in 0..GRAPHS {
        let network = random_graph(seed);
        let inputs = inputs_of(&network, POINTS, seed);
        let expected = outputs(&network.bind(inputs.view()).expect("a map"), network.parameters());
        for parameter in 0..network.parameters().len() {
            let Some(cut) = network.cut(parameter) else { continue };
            let features = cut.features.features(inputs.view()).expect("features");
            let head = cut.head.bind(features.view()).expect("a map");
            let found = outputs(&head, &network.parameters()[cut.offset..]);
            assert_all_close(&found, &expected, 1e-13, &format!("graph {seed}"));
            cuts += 1;
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
}

#[test]
fn evidence_and_variances_agree_between_weight_and_function_space() -> Outcome {
    for seed in 0..30 {
        let network = random_graph(seed);
        let data = {
            let inputs = inputs_of(&network, 12, seed);
            let targets = Array2::from_shape_fn((12, network.n_outputs()), |(n, p)| ((n + 2 * p) as f64).sin());
            riemannian_laplace::Dataset::new(inputs, targets)?
        };
        let fitted = [Structure::WeightSpace, Structure::FunctionSpace].map(|structure| {
            let options = FitOptions {
                structure,
                prior_precision: riemannian_laplace::PriorValues::Shared(0.7),
                ..FitOptions::default()
            };
            Laplace::fit(network.clone(), data.clone(), Family::gaussian(0.3).expect("a noise"), &options)
        });
        let [weight, function] = fitted;
        let (weight, function) = (weight?, function?);
        let (a, b) = (weight.log_marginal_likelihood(), function.log_marginal_likelihood());
        assert!(is_close(a, b, 1e-9, 1.0), "graph {seed}: {a} against {b}");
    }
    Ok(())
}

/// z ↦ z³/(1 + Σz²): an operator that the crate does not have.
#[derive(Debug)]
struct Squashed;

impl Squashed {
    /// Σz² and its first two Taylor coefficients at a point, from those of the entries.
    fn norm(z: &[[f64; 3]]) -> [f64; 3] {
        let mut sum = [1.0, 0.0, 0.0];
        for [a, b, c] in z {
            sum[0] += a * a;
            sum[1] += 2.0 * a * b;
            sum[2] += 2.0 * a * c + b * b;
        }
        sum
    }

    /// Coefficients of x/y.
    fn quotient([a, b, c]: [f64; 3], [p, q, r]: [f64; 3]) -> [f64; 3] {
        let first = a / p;
        let second = (b - first * q) / p;
        [first, second, (c - second * q - first * r) / p]
    }

    /// The coefficients of every entry at a point.
    fn entries(points: usize, input: MatRef<'_, f64>, point: usize) -> Vec<[f64; 3]> {
        let entry = |row: usize, column: usize| if row < input.nrows() { input[(row, column)] } else { 0.0 };
        (0..input.ncols()).map(|j| [0, 1, 2].map(|order| entry(order * points + point, j))).collect()
    }

    /// ∂(output i)/∂(entry j) with its first coefficient.
    fn slope(z: &[[f64; 3]], i: usize, j: usize) -> [f64; 3] {
        let norm = Self::norm(z);
        let [a, b, _] = z[i];
        let [c, d, _] = z[j];
        let own = if i == j { Self::quotient([3.0 * a * a, 6.0 * a * b, 0.0], norm) } else { [0.0; 3] };
        let square = [norm[0] * norm[0], 2.0 * norm[0] * norm[1], 0.0];
        let rest = Self::quotient([2.0 * a * a * a * c, 2.0 * (3.0 * a * a * b * c + a * a * a * d), 0.0], square);
        [own[0] - rest[0], own[1] - rest[1], 0.0]
    }
}

impl Operator for Squashed {
    fn description(&self) -> String {
        "squashed".to_string()
    }

    fn width(&self, inputs: &[usize]) -> Result<usize, String> {
        inputs.first().copied().ok_or_else(|| "needs an input".to_string())
    }

    fn forward(&self, points: usize, inputs: &[MatRef<'_, f64>], mut outputs: MatMut<'_, f64>) {
        for point in 0..points {
            let z = Self::entries(points, inputs[0], point);
            for (j, [a, b, c]) in z.iter().enumerate() {
                let cube = [a * a * a, 3.0 * a * a * b, 3.0 * a * a * c + 3.0 * a * b * b];
                let values = Self::quotient(cube, Self::norm(&z));
                for order in 0..outputs.nrows() / points {
                    outputs[(order * points + point, j)] = values[order];
                }
            }
        }
    }

    fn pull_back(&self, _: usize, order: usize, seen: &Seen<'_>, deltas: MatRef<'_, f64>, mut target: MatMut<'_, f64>) {
        for row in 0..deltas.nrows() {
            let z = Self::entries(seen.points, seen.inputs[0], row % seen.points);
            for (i, j) in (0..z.len()).flat_map(|i| (0..z.len()).map(move |j| (i, j))) {
                target[(row, j)] += deltas[(row, i)] * Self::slope(&z, i, j)[order];
            }
        }
    }
}

#[test]
fn an_operator_from_outside_of_the_crate_has_all_derivatives_and_samples() -> Outcome {
    let mut graph = GraphBuilder::new();
    let x = graph.input(&[2]);
    let first = graph.parameter("first.weight", &[3, 2], normal_vector(6, 1))?;
    let bias = graph.parameter("first.bias", &[3], normal_vector(3, 2))?;
    let second = graph.parameter("second.weight", &[1, 3], normal_vector(3, 3))?;
    let h = graph.linear(x, &first, Some(&bias))?;
    let h = graph.node(Kind::Custom(Custom(Arc::new(Squashed))), &[h], &[3])?;
    let out = graph.linear(h, &second, None)?;
    let network = graph.finish(out)?;
    assert!(network.record().is_none(), "a file cannot hold a stranger's code");
    let (theta, velocity) = (network.parameters().to_vec(), normal_vector(12, 9));
    let map = network.bind(normal_matrix(POINTS, 2, 4).view())?;
    let found = jet(&map, &theta, &velocity);
    assert_all_close(&found.first, &difference(|t| outputs(&map, &moved(&theta, &velocity, t))), 1e-9, "first");
    let second = difference(|t| jet(&map, &moved(&theta, &velocity, t), &velocity).first);
    assert_all_close(&found.second, &second, 1e-9, "second");
    let along = map.clone().rows_along(&theta, &velocity, &identity_seeds(POINTS, 1), 1).expect("second derivatives");
    let mut rows = Mat::zeros(POINTS, 12);
    along.dense(rows.as_mut());
    let expected = difference(|t| as_list(&jacobian(&map, &moved(&theta, &velocity, t))));
    assert_all_close(&as_list(&rows), &expected, 1e-8, "rows along");
    let family = Family::gaussian(0.3)?;
    let inputs = normal_matrix(20, 2, 5);
    let targets = common::draw_targets(&family, &network.outputs(inputs.view())?, 5);
    let data = riemannian_laplace::Dataset::new(inputs, targets)?;
    let laplace = Laplace::fit(network, data, family, &FitOptions::default())?;
    let options = riemannian_laplace::SamplerOptions::first(3);
    let samples = laplace.sample_riemannian(riemannian_laplace::MetricName::Fisher, &options, &())?;
    assert_eq!(samples.failed() + samples.uncertified(), 0);
    Ok(())
}

#[test]
fn a_weight_used_twice_is_one_parameter() -> Outcome {
    // f(x) = Wᵀ tanh(W x): the derivative by W has both terms.
    let mut graph = GraphBuilder::new();
    let x = graph.input(&[2]);
    let weight = graph.parameter("w", &[3, 2], normal_vector(6, 1))?;
    let h = graph.linear(x, &weight, None)?;
    let h = graph.function(h, Activation::Tanh)?;
    let back = graph.linear(h, &weight.transposed()?, None)?;
    let network = graph.finish(back)?;
    let w = network.parameters().to_vec();
    assert_eq!(w.len(), 6);
    let input = array![[0.3, -0.7]];
    let map = network.bind(input.view())?;
    let rows = jacobian(&map, &w);
    for (o, i) in (0..3).flat_map(|o| (0..2).map(move |i| (o, i))) {
        let h = |unit: usize| (w[2 * unit] * 0.3 - w[2 * unit + 1] * 0.7).tanh();
        let slope = 1.0 - h(o) * h(o);
        for p in 0..2 {
            let outer = if p == i { h(o) } else { 0.0 };
            let expected = outer + w[2 * o + p] * slope * input[(0, i)];
            assert!((rows[(p, 2 * o + i)] - expected).abs() < 1e-14, "output {p}, weight ({o}, {i})");
        }
    }
    Ok(())
}

#[test]
fn categories_outside_of_the_table_are_refused_by_row_and_column() -> Outcome {
    let mut graph = GraphBuilder::new();
    let x = graph.input(&[2]);
    let hot = graph.node(Kind::OneHot(3), &[x], &[2, 3])?;
    let table = graph.parameter("table", &[3, 2], normal_vector(6, 1))?;
    let h = graph.linear(hot, &table.transposed()?, None)?;
    let network = graph.finish(h)?;
    assert_eq!(network.outputs(array![[0.0, 2.0]].view())?.len(), 4);
    for (inputs, words) in [
        (array![[0.0, 1.0], [3.0, 0.0]], "row 2, input column 1: 3 is not one of the categories 0 to 2"),
        (array![[0.0, -1.0]], "row 1, input column 2: -1"),
        (array![[0.5, 1.0]], "row 1, input column 1: 0.5"),
    ] {
        let error = network.outputs(inputs.view()).expect_err("a category").to_string();
        assert!(error.contains(words), "{error}");
    }
    Ok(())
}

#[test]
fn a_graph_that_makes_no_sense_is_refused_and_never_a_panic() {
    let tensors = r#"[{"name":"w","shape":[2,2],"owner":0}]"#;
    let node = |kind: &str, inputs: &str| format!(r#"{{"kind":{kind},"inputs":{inputs}}}"#);
    let affine = |inputs: usize, places: &str, taps: &str| {
        format!(r#"{{"affine":{{"inputs":{inputs},"outputs":2,"weight":{{"parameters":{places}}},"taps":{taps}}}}}"#)
    };
    let good = affine(2, "[[0,1,4]]", r#"{"blocks":1}"#);
    let input = node(r#"{"input":2}"#, "[]");
    let parse = |nodes: &[String], output: usize| {
        let text = format!(r#"{{"nodes":[{}],"tensors":{tensors},"output":{output}}}"#, nodes.join(","));
        Network::from_record(&text, vec![0.5; 4])
    };
    assert!(parse(&[input.clone(), node(&good, "[0]")], 1).is_ok());
    let wrong = [
        (vec![input.clone(), node(&good, "[1]")], 1, "a node that takes itself"),
        (vec![input.clone(), node(&good, "[7]")], 1, "a node that does not exist"),
        (vec![input.clone(), node(&good, "[0]")], 2, "no output"),
        (vec![input.clone(), node(&affine(2, "[[1,1,4]]", r#"{"blocks":1}"#), "[0]")], 1, "weights beyond θ"),
        (vec![input.clone(), node(&affine(2, "[[0,0,99999999999]]", r#"{"blocks":1}"#), "[0]")], 1, "too many weights"),
        (vec![input.clone(), node(&affine(2, "[[0,1,4]]", r#"{"blocks":3}"#), "[0]")], 1, "taps beyond the input"),
        (vec![input.clone(), node(r#"{"softmax":{"outer":1,"length":3,"inner":1}}"#, "[0]")], 1, "another width"),
        (vec![input.clone(), node(r#"{"elementwise":"exp"}"#, "[0]")], 1, "no parameters"),
        (
            vec![input.clone(), node(r#"{"bilinear":{"sizes":[9],"left":[1],"right":[1],"out":[1]}}"#, "[0,0]")],
            1,
            "beyond",
        ),
        (vec![node(r#"{"input":0}"#, "[]"), node(&good, "[0]")], 1, "no inputs"),
    ];
    for (nodes, output, what) in wrong {
        assert!(parse(&nodes, output).is_err(), "{what}");
    }
}

#[test]
fn declared_tensors_start_as_they_say_and_indices_are_compact() -> Outcome {
    let mut graph = GraphBuilder::new();
    let x = graph.input(&[3]);
    let start = Start::Uniform(0.5);
    let tensor = |name: &str, shape: Vec<usize>, start| Parameters { name: name.to_string(), shape, owner: 0, start };
    let weight = graph.declare(tensor("0.weight", vec![4, 3], start))?;
    let scale = graph.declare(tensor("1.weight", vec![4], Start::One))?;
    let h = graph.linear(x, &weight, None)?;
    let out = graph.scale_shift(h, Some(&scale), None)?;
    let architecture = riemannian_laplace::Architecture::of_graph(graph.graph(out)?)?;
    let network = Network::random(architecture, 3);
    assert!(network.parameters()[..12].iter().all(|value| value.abs() <= 0.5 && *value != 0.0));
    assert_eq!(network.parameters()[12..], [1.0; 4]);
    let text = serde_json::to_string(&Indices::from((0..1_000_000).map(|i| 2 * i).collect::<Vec<usize>>()))?;
    assert_eq!(text, "[[0,2,1000000]]");
    Ok(())
}
