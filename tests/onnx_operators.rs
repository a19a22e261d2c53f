//! Operators of ONNX by themselves, and networks exported from other frameworks than PyTorch: outputs agree with onnxruntime's,
//! and derivatives with differences. The script that made the fixtures is beside them.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use riemannian_laplace::internals::map::{Evaluator, Jet};
use riemannian_laplace::{Model, Network};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    inputs: Vec<Vec<f64>>,
    outputs: Vec<Vec<f64>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/onnx/operators")
}

fn cases(part: &str) -> Vec<(Case, Network)> {
    let text = fs::read_to_string(folder().join(format!("{part}.json"))).expect("a fixture");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("a list of cases");
    let read = |case: Case| {
        let imported = Network::from_onnx(&folder().join(format!("{}.onnx", case.name)));
        let imported = imported.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert!(imported.link.is_none(), "{}", case.name);
        (case, imported.network)
    };
    cases.into_iter().map(read).collect()
}

fn matrix(rows: &[Vec<f64>]) -> Array2<f64> {
    Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).expect("rows of one length")
}

fn outputs_agree(part: &str, least: usize) {
    let cases = cases(part);
    assert!(cases.len() >= least, "{} cases", cases.len());
    for (case, network) in cases {
        let found = network.outputs(matrix(&case.inputs).view()).expect("inputs that fit");
        let expected = matrix(&case.outputs);
        let largest = expected.iter().fold(0.0, |most: f64, value| value.abs().max(most));
        let error = (&found - &expected).iter().fold(0.0, |most: f64, value| value.abs().max(most)) / largest;
        // They compute in f32.
        assert!(error < 3e-6, "{}: outputs differ by {error:e} of the largest", case.name);
    }
}

#[test]
fn operators_agree_with_onnxruntime() {
    outputs_agree("operators", 39);
}

#[test]
fn networks_exported_by_tf2onnx_agree_with_onnxruntime() {
    outputs_agree("tensorflow", 10);
}

#[test]
fn networks_exported_by_jax2onnx_agree_with_onnxruntime() {
    outputs_agree("jax", 7);
}

/// f(θ + tv) at three t gives ḟ and f̈ by central differences.
#[test]
fn jets_through_every_operator_agree_with_differences() {
    const STEP: f64 = 1e-4;
    for (case, network) in cases("operators") {
        let map = network.bind(matrix(&case.inputs).view()).expect("inputs that fit");
        let theta = network.parameters();
        let velocity: Vec<f64> = (0..theta.len()).map(|index| (1.0 + index as f64).sin()).collect();
        let size = map.n_points() * map.n_outputs();
        let at = |t: f64| {
            let moved: Vec<f64> = theta.iter().zip(&velocity).map(|(theta, v)| theta + t * v).collect();
            let mut outputs = vec![0.0; size];
            Evaluator::new(&map, 1).outputs(&moved, &mut outputs);
            outputs
        };
        let mut jet = Jet::new(map.n_points(), map.n_outputs());
        Evaluator::new(&map, 1).jet(theta, &velocity, &mut jet);
        let (before, here, after) = (at(-STEP), at(0.0), at(STEP));
        let scale = jet.first.iter().chain(&jet.second).chain(&here).fold(1.0, |most: f64, v| v.abs().max(most));
        for place in 0..size {
            let first = (after[place] - before[place]) / (2.0 * STEP);
            let second = (after[place] - 2.0 * here[place] + before[place]) / (STEP * STEP);
            assert!((jet.first[place] - first).abs() < 1e-6 * scale, "{}: {} {first}", case.name, jet.first[place]);
            // Rounding leaves 1e-16/STEP² of the outputs.
            assert!((jet.second[place] - second).abs() < 1e-5 * scale, "{}: {} {second}", case.name, jet.second[place]);
        }
    }
}
