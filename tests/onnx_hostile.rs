//! ONNX graphs from strangers: cycles, values that are used before they are computed, constants that unfold without end, long
//! chains. Each is refused, or read, in little time and memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use riemannian_laplace::internals::memory;
use riemannian_laplace::{Error, Imported, Model, Network};

/// A field of a protobuf message: bytes, or a number.
fn bytes(tag: u64, value: &[u8]) -> Vec<u8> {
    [varint(tag << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut encoded = Vec::new();
    while value >= 0x80 {
        encoded.push(value as u8 | 0x80);
        value >>= 7;
    }
    encoded.push(value as u8);
    encoded
}

fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    with_attributes(operator, inputs, outputs, &[])
}

/// A node with whole numbers as attributes.
fn with_attributes(operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, i64)]) -> Vec<u8> {
    let mut message: Vec<u8> = inputs.iter().flat_map(|name| bytes(1, name.as_bytes())).collect();
    message.extend(outputs.iter().flat_map(|name| bytes(2, name.as_bytes())));
    message.extend(bytes(4, operator.as_bytes()));
    for (name, value) in attributes {
        message.extend(bytes(5, &[bytes(1, name.as_bytes()), number(3, *value as u64), number(20, 2)].concat()));
    }
    bytes(1, &message)
}

/// An initialiser: FLOAT or INT64.
fn tensor(name: &str, lengths: &[i64], values: &[f64], whole: bool) -> Vec<u8> {
    let raw: Vec<u8> = match whole {
        true => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
        false => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
    };
    let lengths: Vec<u8> = lengths.iter().flat_map(|length| number(1, *length as u64)).collect();
    let kind = number(2, if whole { 7 } else { 1 });
    bytes(5, &[lengths, kind, bytes(8, name.as_bytes()), bytes(9, &raw)].concat())
}

/// A value `[n, lengths…]`, under the tag of inputs (11) or outputs (12).
fn value(tag: u64, name: &str, lengths: &[i64]) -> Vec<u8> {
    let dimensions = std::iter::once(0).chain(lengths.iter().copied());
    let shape: Vec<u8> = dimensions.flat_map(|length| bytes(1, &number(1, length as u64))).collect();
    let kind = bytes(1, &[number(1, 1), bytes(2, &shape)].concat());
    bytes(tag, &[bytes(1, name.as_bytes()), bytes(2, &kind)].concat())
}

/// The network W h of a value h of width 2 that the nodes compute from x of this shape.
fn read(nodes: &[Vec<u8>], tensors: &[Vec<u8>], lengths: &[i64]) -> Result<Imported, Error> {
    memory::set_limit(Some(512 << 20));
    let last = node("MatMul", &["h", "weight"], &["y"]);
    let weight = tensor("weight", &[2, 1], &[0.5, -0.25], false);
    let graph =
        [nodes.concat(), last, tensors.concat(), weight, value(11, "x", lengths), value(12, "y", &[1])].concat();
    let model = [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 17))].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("model.onnx");
    std::fs::write(&path, model).expect("a file");
    Network::from_onnx(&path)
}

/// A refusal with this word, within a few seconds (the code may be built without optimisation).
fn refuses(nodes: &[Vec<u8>], tensors: &[Vec<u8>], lengths: &[i64], word: &str) {
    let start = Instant::now();
    let error = read(nodes, tensors, lengths).expect_err("no network");
    let message = error.to_string();
    assert!(message.contains(word) || matches!(error, Error::Memory { .. }), "{message}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}: {message}", start.elapsed());
}

#[test]
fn the_graphs_of_this_test_are_read_when_they_are_right() {
    let imported = read(&[node("Relu", &["x"], &["h"])], &[], &[2]).expect("a network");
    assert_eq!((imported.network.n_params(), imported.network.n_inputs()), (2, 2));
}

#[test]
fn values_are_computed_once_and_before_they_are_used() {
    refuses(&[node("Relu", &["h"], &["h"])], &[], &[2], "`h` is not computed before it");
    refuses(
        &[node("Add", &["x", "b"], &["a"]), node("Relu", &["a"], &["b"]), node("Relu", &["b"], &["h"])],
        &[],
        &[2],
        "`b` is not",
    );
    refuses(&[node("Relu", &["nothing"], &["h"])], &[], &[2], "`nothing` is not computed");
    refuses(&[node("Relu", &["x"], &["h"]), node("Tanh", &["x"], &["h"])], &[], &[2], "computed twice");
    refuses(&[node("Identity", &["h"], &["g"]), node("Identity", &["g"], &["h"])], &[], &[2], "`h` is not");
}

#[test]
fn a_million_nodes_are_read_in_linear_time() {
    let names: Vec<String> = (0..1_000_000).map(|index| format!("v{index}")).collect();
    let mut nodes = vec![node("Relu", &["x"], &["v0"])];
    nodes.extend(names.windows(2).map(|pair| node("Relu", &[&pair[0]], &[&pair[1]])));
    nodes.push(node("Relu", &[names.last().expect("names")], &["h"]));
    let start = Instant::now();
    let read = read(&nodes, &[], &[2]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(matches!(&read, Ok(_) | Err(Error::Onnx(_) | Error::Memory { .. })), "{read:?}");
}

#[test]
fn thousands_of_residual_blocks_are_read_in_linear_time() {
    let mut nodes = Vec::new();
    let mut last = "x".to_string();
    for block in 0..10_000 {
        let (inner, sum) = (format!("t{block}"), format!("s{block}"));
        nodes.push(node("Tanh", &[&last], &[&inner]));
        nodes.push(node("Add", &[&last, &inner], &[&sum]));
        last = sum;
    }
    nodes.push(node("Identity", &[&last], &["h"]));
    let start = Instant::now();
    assert_eq!(read(&nodes, &[], &[2]).expect("a network").network.n_params(), 2);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn what_unfolds_without_end_is_refused() {
    // Every node doubles.
    let names: Vec<String> = (0..60).map(|index| format!("c{index}")).collect();
    for start in ["x", "list"] {
        let mut nodes = vec![with_attributes("Concat", &[start, start], &["c0"], &[("axis", -1)])];
        nodes.extend(
            names.windows(2).map(|pair| with_attributes("Concat", &[&pair[0], &pair[0]], &[&pair[1]], &[("axis", -1)])),
        );
        nodes.push(node("Add", &["x", "c59"], &["h"]));
        refuses(&nodes, &[tensor("list", &[1, 2], &[1.0, 2.0], true)], &[2], "numbers");
    }
    // Many large constants.
    let mut nodes = Vec::new();
    let mut last = "x".to_string();
    for index in 0..200 {
        let (constant, product, sum) = (format!("k{index}"), format!("p{index}"), format!("s{index}"));
        nodes.push(node("ConstantOfShape", &["lengths"], &[&constant]));
        nodes.push(node("MatMul", &[&last, &constant], &[&product]));
        nodes.push(node("MatMul", &[&product, &constant], &[&sum]));
        last = sum;
    }
    nodes.push(node("Identity", &[&last], &["h"]));
    refuses(&nodes, &[tensor("lengths", &[2], &[3e6, 2.0], true)], &[3_000_000], "");
    // Lengths beyond any memory.
    for lengths in [[1 << 40, 2], [-3, 2], [1 << 30, 1 << 30]] {
        let list = tensor("lengths", &[2], &lengths.map(|length: i64| length as f64), true);
        refuses(&[node("Expand", &["x", "lengths"], &["h"])], &[list], &[2], "");
    }
    refuses(&[node("Relu", &["x"], &["h"])], &[], &[1 << 62, 1 << 62], "shape");
    refuses(&[node("Relu", &["x"], &["h"])], &[], &[-1, 2], "shape");
}

#[test]
fn long_chains_of_arithmetic_are_read_in_linear_time() {
    let mut nodes = Vec::new();
    let mut last = "x".to_string();
    for index in 0..20_000 {
        let next = format!("a{index}");
        nodes.push(node(if index % 2 == 0 { "Add" } else { "Mul" }, &[&last, "number"], &[&next]));
        last = next;
    }
    nodes.push(node("Identity", &[&last], &["h"]));
    let start = Instant::now();
    assert!(read(&nodes, &[tensor("number", &[], &[1.0001], false)], &[2]).is_ok());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
