//! ONNX graphs from strangers: cycles, values that are used before they are computed, constants that unfold without end, long
//! chains. Each is refused, or read, in little time and memory.

#[path = "common/onnx_graph.rs"]
mod onnx_graph;

use std::path::Path;
use std::time::{Duration, Instant};

use onnx_graph::{described, model, node, tensor, value, with_attributes};
use riemannian_laplace::internals::memory;
use riemannian_laplace::{Error, Imported, Model, Network};

/// The network W h of a value h of width 2 that the nodes compute from x of this shape.
fn read(nodes: &[Vec<u8>], tensors: &[Vec<u8>], lengths: &[i64]) -> Result<Imported, Error> {
    read_bytes(&model(nodes, tensors, value(11, "x", lengths, 1)))
}

fn read_bytes(bytes: &[u8]) -> Result<Imported, Error> {
    memory::set_limit(Some(512 << 20));
    Network::from_onnx_bytes(bytes, Path::new("model.onnx"))
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

fn chain(operator: &str, count: usize) -> Vec<Vec<u8>> {
    let names: Vec<String> = (0..count).map(|index| format!("v{index}")).collect();
    let mut nodes = vec![node(operator, &["x"], &["v0"])];
    nodes.extend(names.windows(2).map(|pair| node(operator, &[&pair[0]], &[&pair[1]])));
    nodes.push(node("Identity", &[names.last().expect("names")], &["h"]));
    nodes
}

/// Counted before they are decoded, so that they take neither time nor memory.
#[test]
fn a_million_nodes_are_refused_at_once() {
    for operator in ["Relu", "Identity", "Softsign"] {
        refuses(&chain(operator, 1_000_000), &[], &[2], "at most 262144 are read");
    }
    refuses(&[node("Sum", &vec!["x"; 1_000_000], &["h"])], &[], &[2], "at most 262144 are read");
}

#[test]
fn a_hundred_thousand_nodes_are_read_in_linear_time() {
    let start = Instant::now();
    assert_eq!(read(&chain("Relu", 100_000), &[], &[2]).expect("a network").network.n_params(), 2);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
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
    // One window over a large image is a maximum of very many.
    let attributes = [("kernel_shape", 1000), ("strides", 1)];
    let shape = tensor("image", &[4], &[0.0, 1.0, 1000.0, 1000.0], true);
    let nodes = [
        node("Reshape", &["x", "image"], &["u"]),
        with_attributes("MaxPool", &["u"], &["p"], &attributes),
        node("Flatten", &["p"], &["f"]),
        with_attributes("Concat", &["f", "f"], &["h"], &[("axis", 1)]),
    ];
    refuses(&nodes, &[shape], &[1_000_000], "");
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

/// Nested blocks: every value is added again on the way out.
#[test]
fn thousands_of_nested_blocks_are_read_in_linear_time() {
    let depth = 10_000;
    let name = |index: usize| if index == 0 { "x".to_string() } else { format!("t{index}") };
    let mut nodes: Vec<Vec<u8>> = (0..depth).map(|index| node("Tanh", &[&name(index)], &[&name(index + 1)])).collect();
    let mut last = name(depth);
    for index in (0..depth).rev() {
        let sum = format!("s{index}");
        nodes.push(node("Add", &[&last, &name(index)], &[&sum]));
        last = sum;
    }
    nodes.push(node("Identity", &[&last], &["h"]));
    let start = Instant::now();
    assert_eq!(read(&nodes, &[], &[2]).expect("a network").network.n_params(), 2);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn initialisers_that_are_not_what_they_say_are_refused_with_the_reason() {
    let layer = [node("MatMul", &["x", "w"], &["h"])];
    for (lengths, word) in [
        (vec![3, 2], "takes 3 inputs, but has 2"),
        (vec![2, 3], "its shape [2, 3] takes 6"),
        (vec![-2, 2], "an axis of length -2"),
        (vec![1 << 40, 1 << 40], "is too large"),
        (vec![], "`w` has 4 values"),
    ] {
        let count = if lengths == [3, 2] { 6 } else { 4 };
        refuses(&layer, &[tensor("w", &lengths, &vec![0.5; count], false)], &[2], word);
    }
    refuses(&layer, &[], &[2], "`w` is not computed before it");
    // Values in another file are never looked for, wherever it is said to be.
    for place in ["../../etc/passwd", "/dev/zero", "weights.bin"] {
        let location = [onnx_graph::bytes(1, b"location"), onnx_graph::bytes(2, place.as_bytes())].concat();
        let fields = [onnx_graph::number(1, 2), onnx_graph::number(1, 2), onnx_graph::number(2, 1)].concat();
        let outside =
            [onnx_graph::bytes(8, b"w"), onnx_graph::bytes(13, &location), onnx_graph::number(14, 1)].concat();
        refuses(&layer, &[onnx_graph::bytes(5, &[fields, outside].concat())], &[2], "external data");
    }
}

#[test]
fn pads_that_leave_nothing_are_refused() {
    for pads in [[0, i64::MIN, 0, i64::MIN], [0, -2, 0, -1], [0, i64::MAX, 0, i64::MAX]] {
        let list: Vec<u8> = pads.iter().flat_map(|pad| pad.to_le_bytes()).collect();
        let fields = [onnx_graph::number(1, 4), onnx_graph::number(2, 7), onnx_graph::bytes(8, b"pads")].concat();
        let list = onnx_graph::bytes(5, &[fields, onnx_graph::bytes(9, &list)].concat());
        refuses(&[node("Pad", &["x", "pads"], &["h"])], &[list], &[2], "");
    }
}

#[test]
fn control_flow_is_refused_by_node_and_operator_with_the_ways_out() {
    for operator in ["If", "Loop", "Scan"] {
        refuses(&[node(operator, &["x"], &["h"])], &[], &[2], &format!("(operator {operator})"));
        refuses(&[node(operator, &["x"], &["h"])], &[], &[2], "fit the last layer alone");
    }
}

/// The seeds of the fuzz target describe what their names say.
#[test]
fn descriptions_become_the_graphs_that_they_describe() {
    let seed = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/onnx").join(name);
        read_bytes(&described(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))))
    };
    for name in ["layers.graph", "deep.graph", "residual.graph"] {
        let read = seed(name);
        assert!(read.is_ok(), "{name}: {read:?}");
    }
    for (name, word) in [
        ("cycle.graph", "is not computed before it"),
        ("doubled.graph", ""),
        ("constants.graph", ""),
        ("short.graph", "has 1 values"),
        ("loop.graph", "control flow"),
    ] {
        let error = seed(name).expect_err(name).to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
}
