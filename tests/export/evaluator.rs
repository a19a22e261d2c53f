//! A small evaluator of ONNX graphs in f64, written from the definitions of the operators: every value is an array, integers
//! and truth values are numbers. It knows the operators that an export writes, and nothing else.

use std::collections::HashMap;

use ndarray::{ArrayD, Axis, IxDyn, Slice, concatenate};

use super::messages::{AttributeProto, GraphProto, NodeProto, TensorProto};

pub type Values = HashMap<String, ArrayD<f64>>;

/// Evaluates a graph with these inputs.
pub fn evaluate(graph: &GraphProto, inputs: Values) -> Values {
    let mut values = inputs;
    for tensor in &graph.initializer {
        values.insert(tensor.name.clone(), read(tensor));
    }
    run(&graph.node, &mut values);
    values
}

fn run(nodes: &[NodeProto], values: &mut Values) {
    for node in nodes {
        if node.op_type == "Loop" {
            repeat(node, values);
            continue;
        }
        let inputs: Vec<&ArrayD<f64>> =
            node.input.iter().map(|name| values.get(name).unwrap_or_else(|| panic!("{name} is not there"))).collect();
        let result = apply(node, &inputs);
        values.insert(node.output[0].clone(), result);
    }
}

/// Raw bytes are little-endian: floats (1), integers (7), truth values (9) and doubles (11).
fn read(tensor: &TensorProto) -> ArrayD<f64> {
    let raw = &tensor.raw_data;
    let numbers: Vec<f64> = match tensor.data_type {
        1 => raw.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4 bytes")))).collect(),
        7 => raw.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("8 bytes")) as f64).collect(),
        9 => raw.iter().map(|byte| f64::from(*byte)).collect(),
        11 => raw.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect(),
        other => panic!("elements of type {other}"),
    };
    let shape: Vec<usize> = tensor.dims.iter().map(|length| *length as usize).collect();
    ArrayD::from_shape_vec(IxDyn(&shape), numbers).expect("as many numbers as the shape says")
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

fn integer(node: &NodeProto, name: &str, default: i64) -> i64 {
    attribute(node, name).map_or(default, |attribute| attribute.i)
}

/// An axis counted from the end where it is negative.
fn axis_of(axis: f64, rank: usize) -> usize {
    if axis < 0.0 { (rank as f64 + axis) as usize } else { axis as usize }
}

/// Both arrays in their common shape.
fn broadcast(x: &ArrayD<f64>, y: &ArrayD<f64>) -> (ArrayD<f64>, ArrayD<f64>) {
    let rank = x.ndim().max(y.ndim());
    let length =
        |array: &ArrayD<f64>, axis: usize| (axis + array.ndim()).checked_sub(rank).map_or(1, |own| array.shape()[own]);
    let common = |axis: usize| if length(x, axis) == 1 { length(y, axis) } else { length(x, axis) };
    let shape: Vec<usize> = (0..rank).map(common).collect();
    let stretch = |array: &ArrayD<f64>| array.broadcast(IxDyn(&shape)).expect("shapes that fit").to_owned();
    (stretch(x), stretch(y))
}

fn zip(x: &ArrayD<f64>, y: &ArrayD<f64>, f: impl Fn(f64, f64) -> f64) -> ArrayD<f64> {
    let (x, y) = broadcast(x, y);
    ndarray::Zip::from(&x).and(&y).map_collect(|x, y| f(*x, *y))
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn apply(node: &NodeProto, inputs: &[&ArrayD<f64>]) -> ArrayD<f64> {
    let x = inputs[0];
    let each = |f: fn(f64) -> f64| x.mapv(f);
    match node.op_type.as_str() {
        "Identity" => x.clone(),
        // To integers nothing is cast here, to truth values neither.
        "Cast" => x.clone(),
        "Neg" => each(|x| -x),
        "Abs" => each(f64::abs),
        "Exp" => each(f64::exp),
        "Log" => each(f64::ln),
        "Sqrt" => each(f64::sqrt),
        "Reciprocal" => each(|x| 1.0 / x),
        "Tanh" => each(f64::tanh),
        "Sigmoid" => each(|x| 1.0 / (1.0 + (-x).exp())),
        "Relu" => each(|x| x.max(0.0)),
        "Sin" => each(f64::sin),
        "Cos" => each(f64::cos),
        "Atan" => each(f64::atan),
        "Erf" => each(libm::erf),
        "Add" => zip(x, inputs[1], |x, y| x + y),
        "Sub" => zip(x, inputs[1], |x, y| x - y),
        "Mul" => zip(x, inputs[1], |x, y| x * y),
        "Div" => zip(x, inputs[1], |x, y| x / y),
        "Pow" => zip(x, inputs[1], f64::powf),
        "Max" => zip(x, inputs[1], f64::max),
        "Min" => zip(x, inputs[1], f64::min),
        "Greater" => zip(x, inputs[1], |x, y| truth(x > y)),
        "Less" => zip(x, inputs[1], |x, y| truth(x < y)),
        "And" => zip(x, inputs[1], |x, y| truth(x != 0.0 && y != 0.0)),
        "Equal" => zip(x, inputs[1], |x, y| truth(x == y)),
        "Where" => {
            let (a, b) = broadcast(inputs[1], inputs[2]);
            let (condition, a) = broadcast(x, &a);
            let (_, b) = broadcast(x, &b);
            ndarray::Zip::from(&condition).and(&a).and(&b).map_collect(|c, a, b| if *c != 0.0 { *a } else { *b })
        }
        "MatMul" => matmul(x, inputs[1]),
        "Einsum" => {
            einsum(&String::from_utf8_lossy(&attribute(node, "equation").expect("an equation").s), x, inputs[1])
        }
        "Reshape" => reshape(x, inputs[1]),
        "Transpose" => {
            let order: Vec<usize> =
                attribute(node, "perm").expect("an order").ints.iter().map(|i| *i as usize).collect();
            x.view().permuted_axes(IxDyn(&order)).as_standard_layout().into_owned()
        }
        "Unsqueeze" => x.clone().insert_axis(Axis(axis_of(inputs[1][[0]], x.ndim() + 1))),
        "Squeeze" => x.clone().remove_axis(Axis(axis_of(inputs[1][[0]], x.ndim()))),
        "Shape" => ArrayD::from_shape_fn(IxDyn(&[x.ndim()]), |at| x.shape()[at[0]] as f64),
        "Expand" => {
            let shape: Vec<usize> = inputs[1].iter().map(|length| *length as usize).collect();
            broadcast(x, &ArrayD::zeros(IxDyn(&shape))).0
        }
        "Concat" => {
            let axis = axis_of(integer(node, "axis", 0) as f64, x.ndim());
            let views: Vec<_> = inputs.iter().map(|input| input.view()).collect();
            concatenate(Axis(axis), &views).expect("shapes that fit")
        }
        "Slice" => {
            let axis = axis_of(inputs[3][[0]], x.ndim());
            let range = Slice::from(inputs[1][[0]] as isize..inputs[2][[0]] as isize);
            x.slice_axis(Axis(axis), range).to_owned()
        }
        "Gather" => {
            let axis = axis_of(integer(node, "axis", 0) as f64, x.ndim());
            let indices: Vec<usize> = inputs[1].iter().map(|index| *index as usize).collect();
            x.select(Axis(axis), &indices)
        }
        "ReduceSum" => match inputs.get(1) {
            None => ArrayD::from_elem(IxDyn(&[]), x.sum()),
            Some(axes) => {
                let axis = Axis(axis_of(axes[[0]], x.ndim()));
                keep(x.sum_axis(axis), axis, node)
            }
        },
        "ReduceMax" => {
            let axis = match inputs.get(1) {
                Some(axes) => axes[[0]],
                None => attribute(node, "axes").expect("axes").ints[0] as f64,
            };
            let axis = Axis(axis_of(axis, x.ndim()));
            keep(x.fold_axis(axis, f64::NEG_INFINITY, |most, x| most.max(*x)), axis, node)
        }
        "Softmax" => {
            let axis = Axis(axis_of(integer(node, "axis", -1) as f64, x.ndim()));
            let top = x.fold_axis(axis, f64::NEG_INFINITY, |most, x| most.max(*x)).insert_axis(axis);
            let powers = zip(x, &top, |x, top| (x - top).exp());
            let sums = powers.sum_axis(axis).insert_axis(axis);
            zip(&powers, &sums, |x, sum| x / sum)
        }
        other => panic!("the evaluator has no {other}"),
    }
}

fn keep(reduced: ArrayD<f64>, axis: Axis, node: &NodeProto) -> ArrayD<f64> {
    if integer(node, "keepdims", 1) == 1 { reduced.insert_axis(axis) } else { reduced }
}

/// Zero keeps a length, −1 is what is left.
fn reshape(x: &ArrayD<f64>, lengths: &ArrayD<f64>) -> ArrayD<f64> {
    let mut shape: Vec<usize> = Vec::new();
    for (place, length) in lengths.iter().enumerate() {
        shape.push(if *length == 0.0 { x.shape()[place] } else { length.max(0.0) as usize });
    }
    if let Some(place) = lengths.iter().position(|length| *length < 0.0) {
        let known: usize = shape.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, l)| l).product();
        shape[place] = x.len() / known.max(1);
    }
    x.as_standard_layout().into_owned().into_shape_with_order(IxDyn(&shape)).expect("as many entries")
}

/// Products of the matrices in the last two axes; the others are repeated where they differ.
fn matmul(x: &ArrayD<f64>, y: &ArrayD<f64>) -> ArrayD<f64> {
    let letters =
        |count: usize| "abcdefgh".chars().rev().take(count).collect::<String>().chars().rev().collect::<String>();
    let rank = x.ndim().max(y.ndim()) - 2;
    let lead = |array: &ArrayD<f64>| -> Vec<usize> {
        let own = &array.shape()[..array.ndim() - 2];
        std::iter::repeat_n(1, rank - own.len()).chain(own.iter().copied()).collect()
    };
    let common: Vec<usize> = lead(x).iter().zip(lead(y)).map(|(a, b)| if *a == 1 { b } else { *a }).collect();
    let stretch = |array: &ArrayD<f64>| {
        let shape: Vec<usize> =
            common.iter().copied().chain(array.shape()[array.ndim() - 2..].iter().copied()).collect();
        array.broadcast(IxDyn(&shape)).expect("shapes that fit").to_owned()
    };
    let lead = letters(rank);
    einsum(&format!("{lead}XY,{lead}YZ->{lead}XZ"), &stretch(x), &stretch(y))
}

/// The definition: a loop over all letters.
fn einsum(equation: &str, x: &ArrayD<f64>, y: &ArrayD<f64>) -> ArrayD<f64> {
    let (inputs, output) = equation.split_once("->").expect("an arrow");
    let (left, right) = inputs.split_once(',').expect("two inputs");
    let mut lengths: Vec<(char, usize)> = Vec::new();
    for (letter, length) in left.chars().zip(x.shape()).chain(right.chars().zip(y.shape())) {
        match lengths.iter().find(|(known, _)| *known == letter) {
            Some((_, known)) => assert_eq!(known, length, "{equation}"),
            None => lengths.push((letter, *length)),
        }
    }
    let place = |letter: char| lengths.iter().position(|(known, _)| *known == letter).expect("a letter of an input");
    let places = |letters: &str| letters.chars().map(place).collect::<Vec<usize>>();
    let (left, right, out) = (places(left), places(right), places(output));
    let mut result = ArrayD::zeros(IxDyn(&out.iter().map(|place| lengths[*place].1).collect::<Vec<_>>()));
    let at = |index: &[usize], places: &[usize]| IxDyn(&places.iter().map(|place| index[*place]).collect::<Vec<_>>());
    let all: Vec<usize> = lengths.iter().map(|(_, length)| *length).collect();
    for index in ndarray::indices(IxDyn(&all)) {
        let index: Vec<usize> = (0..all.len()).map(|axis| index[axis]).collect();
        result[at(&index, &out)] += x[at(&index, &left)] * y[at(&index, &right)];
    }
    result
}

/// The body sees the values around it.
fn repeat(node: &NodeProto, values: &mut Values) {
    let body = node.attribute[0].g.as_ref().expect("a body");
    let most = values[&node.input[0]].sum() as usize;
    let mut state: Vec<ArrayD<f64>> = node.input[2..].iter().map(|name| values[name].clone()).collect();
    let mut goes_on = values[&node.input[1]].sum() != 0.0;
    for iteration in 0..most {
        if !goes_on {
            break;
        }
        // Names are used once, so that the body can write beside the values around it.
        values.insert(body.input[0].name.clone(), ArrayD::from_elem(IxDyn(&[]), iteration as f64));
        for (input, value) in body.input[2..].iter().zip(state) {
            values.insert(input.name.clone(), value);
        }
        run(&body.node, values);
        goes_on = values[&body.output[0].name].sum() != 0.0;
        state = body.output[1..].iter().map(|output| values[&output.name].clone()).collect();
    }
    for (name, value) in node.output.iter().zip(state) {
        values.insert(name.clone(), value);
    }
}
