//! ONNX graphs in bytes, for tests and fuzzing: the messages of the format, and graphs that a string of bytes describes.

#![allow(dead_code)] // Every target that compiles this file uses a part of it.

/// A field of a protobuf message: bytes.
pub fn bytes(tag: u64, value: &[u8]) -> Vec<u8> {
    [varint(tag << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A field that is a number.
pub fn number(tag: u64, value: u64) -> Vec<u8> {
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

/// A node.
pub fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    with_attributes(operator, inputs, outputs, &[])
}

/// A node with whole numbers as attributes.
pub fn with_attributes(operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, i64)]) -> Vec<u8> {
    let mut message: Vec<u8> = inputs.iter().flat_map(|name| bytes(1, name.as_bytes())).collect();
    message.extend(outputs.iter().flat_map(|name| bytes(2, name.as_bytes())));
    message.extend(bytes(4, operator.as_bytes()));
    for (name, value) in attributes {
        // A number, and the same as a list.
        let value = [number(3, *value as u64), number(8, *value as u64)].concat();
        message.extend(bytes(5, &[bytes(1, name.as_bytes()), value, number(20, 2)].concat()));
    }
    bytes(1, &message)
}

/// An initialiser: FLOAT or INT64.
pub fn tensor(name: &str, lengths: &[i64], values: &[f64], whole: bool) -> Vec<u8> {
    let raw: Vec<u8> = match whole {
        true => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
        false => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
    };
    let lengths: Vec<u8> = lengths.iter().flat_map(|length| number(1, *length as u64)).collect();
    let kind = number(2, if whole { 7 } else { 1 });
    bytes(5, &[lengths, kind, bytes(8, name.as_bytes()), bytes(9, &raw)].concat())
}

/// A value `[n, lengths…]` of real numbers (1) or whole ones (7), under the tag of inputs (11) or outputs (12).
pub fn value(tag: u64, name: &str, lengths: &[i64], kind: u64) -> Vec<u8> {
    let dimensions = std::iter::once(0).chain(lengths.iter().copied());
    let shape: Vec<u8> = dimensions.flat_map(|length| bytes(1, &number(1, length as u64))).collect();
    let kind = bytes(1, &[number(1, kind), bytes(2, &shape)].concat());
    bytes(tag, &[bytes(1, name.as_bytes()), bytes(2, &kind)].concat())
}

/// The network W h of a value h of width 2 that the nodes compute from x.
pub fn model(nodes: &[Vec<u8>], tensors: &[Vec<u8>], input: Vec<u8>) -> Vec<u8> {
    let last = node("MatMul", &["h", "weight"], &["y"]);
    let weight = tensor("weight", &[2, 1], &[0.5, -0.25], false);
    let graph = [nodes.concat(), last, tensors.concat(), weight, input, value(12, "y", &[1], 1)].concat();
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 17))].concat()
}

/// Operators that a description may name by their place.
const OPERATORS: [&str; 40] = [
    "Relu",
    "Tanh",
    "Identity",
    "Add",
    "Mul",
    "Div",
    "Concat",
    "MatMul",
    "Gemm",
    "Reshape",
    "Transpose",
    "ConstantOfShape",
    "Expand",
    "Tile",
    "Slice",
    "Pad",
    "Gather",
    "Split",
    "ReduceSum",
    "ReduceMax",
    "Softmax",
    "LayerNormalization",
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "Resize",
    "LSTM",
    "GRU",
    "RNN",
    "Einsum",
    "Where",
    "Range",
    "Shape",
    "Unsqueeze",
    "Squeeze",
    "Cast",
    "OneHot",
    "CumSum",
    "Loop",
];

/// Constants by their names: weights, and lengths from plain to absurd.
fn constants() -> Vec<(&'static str, Vec<u8>)> {
    let list = |name, values: &[f64]| (name, tensor(name, &[values.len() as i64], values, true));
    let real = |name, lengths: &[i64]| {
        let count = lengths.iter().product::<i64>();
        (name, tensor(name, lengths, &(0..count).map(|i| 0.1 + 0.01 * i as f64).collect::<Vec<f64>>(), false))
    };
    vec![
        real("w", &[2, 2]),
        real("b", &[2]),
        real("number", &[]),
        real("kernel", &[1, 1, 3, 3]),
        real("cell", &[1, 8, 2]),
        list("zero", &[0.0]),
        list("one", &[1.0]),
        list("minus", &[-1.0]),
        list("pair", &[0.0, 2.0]),
        list("image", &[0.0, 1.0, 1.0, 2.0]),
        list("flat", &[-1.0, 2.0]),
        list("large", &[3e6, 2.0]),
        list("huge", &[1e12, 1e12]),
        list("negative", &[-9.3e18, -5.0]),
        ("short", tensor("short", &[7, 7], &[1.0], false)),
    ]
}

const ATTRIBUTES: [&str; 12] = [
    "axis",
    "axes",
    "keepdims",
    "hidden_size",
    "kernel_shape",
    "strides",
    "pads",
    "perm",
    "to",
    "transB",
    "group",
    "ceil_mode",
];

/// The graph that a string of bytes describes. Every instruction has six: an operator, three inputs (a value that one of the
/// last instructions or, beyond 250, a later one gives, x, or a constant), an attribute, and its value; or 255 and how often the
/// instruction before is repeated, each time on the result of the last.
pub fn described(description: &[u8]) -> Vec<u8> {
    let constants = constants();
    let (mut nodes, mut last): (Vec<Vec<u8>>, Option<[u8; 6]>) = (Vec::new(), None);
    for instruction in description.chunks_exact(6).take(200) {
        let repeated = (instruction[0] == 255).then_some(last).flatten();
        let own = repeated.unwrap_or([0, 1, 2, 3, 4, 5].map(|place| instruction[place]));
        let times = if repeated.is_some() { usize::from(instruction[1]) * 8 } else { 1 };
        for _ in 0..times.min(4_000_usize.saturating_sub(nodes.len())) {
            let count = nodes.len();
            let name = |byte: u8| match byte {
                0 => "x".to_string(),
                1..=127 => count.checked_sub(usize::from(byte)).map_or("x".to_string(), |index| format!("v{index}")),
                250..=254 => format!("v{}", count + usize::from(byte) - 250),
                255 => String::new(),
                _ => constants[usize::from(byte - 128) % constants.len()].0.to_string(),
            };
            let inputs: Vec<String> = own[1..4].iter().map(|byte| name(*byte)).collect();
            let used = inputs.iter().rposition(|name| !name.is_empty()).map_or(0, |place| place + 1);
            let inputs: Vec<&str> = inputs.iter().take(used).map(String::as_str).collect();
            let attribute = ATTRIBUTES.get(usize::from(own[4])).map(|name| (*name, i64::from(own[5] as i8)));
            let operator = OPERATORS[usize::from(own[0]) % OPERATORS.len()];
            nodes.push(with_attributes(operator, &inputs, &[&format!("v{count}")], attribute.as_slice()));
        }
        last = Some(own);
    }
    let output = nodes.len().checked_sub(1).map_or("x".to_string(), |index| format!("v{index}"));
    nodes.push(node("Identity", &[&output], &["h"]));
    let tensors: Vec<Vec<u8>> = constants.into_iter().map(|(_, tensor)| tensor).collect();
    model(&nodes, &tensors, value(11, "x", &[2], 1))
}
