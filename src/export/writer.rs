//! ONNX operators and constants, one call each.

use std::collections::HashMap;

use super::Precision;
use crate::network::onnx::messages::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::network::onnx::messages::{DimensionProto, TensorShapeProto, TensorTypeProto, TypeProto};

/// Types of elements by their numbers in `TensorProto`.
const FLOAT: i32 = 1;
const INT64: i32 = 7;
const BOOL: i32 = 9;
pub(super) const DOUBLE: i32 = 11;

/// The name of a value.
pub(super) type Name = String;

/// The nodes and constants of a graph while it is put together.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) precision: Precision,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    count: usize,
    /// Single numbers and lists of integers that are there already.
    known: HashMap<String, Name>,
}

/// An axis of an input or an output: a length, or the number of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Axis {
    Rows,
    Length(usize),
}

impl Writer {
    pub(super) fn new(precision: Precision) -> Self {
        Self { precision, nodes: Vec::new(), initializers: Vec::new(), count: 0, known: HashMap::new() }
    }

    /// The type of real numbers.
    pub(super) fn real(&self) -> i32 {
        match self.precision {
            Precision::F32 => FLOAT,
            Precision::F64 => DOUBLE,
        }
    }

    /// The nodes and the constants.
    pub(super) fn finish(self) -> (Vec<NodeProto>, Vec<TensorProto>) {
        (self.nodes, self.initializers)
    }

    fn name(&mut self) -> Name {
        self.count += 1;
        format!("v{}", self.count)
    }

    // Constants.

    /// An array of real numbers, last axis fastest.
    pub(super) fn numbers(&mut self, shape: &[usize], values: &[f64]) -> Name {
        let raw_data = match self.precision {
            Precision::F32 => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
            Precision::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        let kind = self.real();
        self.initializer(shape, kind, raw_data)
    }

    /// The same in double precision, whatever the graph's.
    pub(super) fn doubles(&mut self, shape: &[usize], values: &[f64]) -> Name {
        self.initializer(shape, DOUBLE, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn initializer(&mut self, shape: &[usize], data_type: i32, raw_data: Vec<u8>) -> Name {
        let name = self.name();
        let dims = shape.iter().map(|length| *length as i64).collect();
        self.initializers.push(TensorProto { dims, data_type, raw_data, name: name.clone(), ..Default::default() });
        name
    }

    /// One number.
    pub(super) fn number(&mut self, value: f64) -> Name {
        self.remembered(format!("n{:x}", value.to_bits()), |writer| writer.numbers(&[], &[value]))
    }

    /// A list of integers.
    pub(super) fn integers(&mut self, values: &[i64]) -> Name {
        self.remembered(format!("i{values:?}"), |writer| writer.integer_array(&[values.len()], values))
    }

    /// One integer.
    pub(super) fn integer(&mut self, value: i64) -> Name {
        self.remembered(format!("j{value}"), |writer| writer.integer_array(&[], &[value]))
    }

    fn integer_array(&mut self, shape: &[usize], values: &[i64]) -> Name {
        self.initializer(shape, INT64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The truth value true.
    pub(super) fn truth(&mut self) -> Name {
        self.remembered("true".to_string(), |writer| writer.initializer(&[], BOOL, vec![1]))
    }

    fn remembered(&mut self, key: String, make: impl FnOnce(&mut Self) -> Name) -> Name {
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let name = make(self);
        self.known.insert(key, name.clone());
        name
    }

    // Nodes.

    /// A node with one output.
    pub(super) fn op(&mut self, operator: &str, inputs: &[&Name], attribute: Vec<AttributeProto>) -> Name {
        let output = self.name();
        self.op_to(operator, inputs, attribute, &[&output]);
        output
    }

    fn op_to(&mut self, operator: &str, inputs: &[&Name], attribute: Vec<AttributeProto>, outputs: &[&Name]) {
        let list = |names: &[&Name]| names.iter().map(|name| (*name).clone()).collect();
        let (input, output) = (list(inputs), list(outputs));
        self.nodes.push(NodeProto { input, output, op_type: operator.to_string(), attribute, ..Default::default() });
    }

    /// Gives a value the name of an output.
    pub(super) fn output(&mut self, value: &Name, name: &str) {
        self.op_to("Identity", &[value], Vec::new(), &[&name.to_string()]);
    }

    pub(super) fn unary(&mut self, operator: &str, x: &Name) -> Name {
        self.op(operator, &[x], Vec::new())
    }

    pub(super) fn binary(&mut self, operator: &str, x: &Name, y: &Name) -> Name {
        self.op(operator, &[x, y], Vec::new())
    }

    pub(super) fn add(&mut self, x: &Name, y: &Name) -> Name {
        self.binary("Add", x, y)
    }

    pub(super) fn subtract(&mut self, x: &Name, y: &Name) -> Name {
        self.binary("Sub", x, y)
    }

    pub(super) fn multiply(&mut self, x: &Name, y: &Name) -> Name {
        self.binary("Mul", x, y)
    }

    pub(super) fn divide(&mut self, x: &Name, y: &Name) -> Name {
        self.binary("Div", x, y)
    }

    /// The product of matrices in the last two axes.
    pub(super) fn matmul(&mut self, x: &Name, y: &Name) -> Name {
        self.binary("MatMul", x, y)
    }

    /// An operator with a number: `x op number`.
    pub(super) fn with(&mut self, operator: &str, x: &Name, number: f64) -> Name {
        let number = self.number(number);
        self.binary(operator, x, &number)
    }

    pub(super) fn square(&mut self, x: &Name) -> Name {
        self.multiply(x, x)
    }

    /// Where the condition holds x, else y.
    pub(super) fn choose(&mut self, condition: &Name, x: &Name, y: &Name) -> Name {
        self.op("Where", &[condition, x, y], Vec::new())
    }

    /// The first `lead` axes as they are, then these lengths.
    pub(super) fn reshape(&mut self, x: &Name, lead: usize, lengths: &[usize]) -> Name {
        let shape: Vec<i64> = std::iter::repeat_n(0, lead).chain(lengths.iter().map(|length| *length as i64)).collect();
        let shape = self.integers(&shape);
        self.op("Reshape", &[x, &shape], Vec::new())
    }

    pub(super) fn transpose(&mut self, x: &Name, order: &[usize]) -> Name {
        self.op("Transpose", &[x], vec![integers("perm", order)])
    }

    /// Exchanges the last two of so many axes.
    pub(super) fn exchange_last(&mut self, x: &Name, rank: usize) -> Name {
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 1, rank - 2);
        self.transpose(x, &order)
    }

    /// Entries of an axis, counted from the end where it is negative.
    pub(super) fn gather(&mut self, x: &Name, indices: &[usize], axis: i64) -> Name {
        let consecutive = indices.windows(2).all(|pair| matches!(pair, [a, b] if a + 1 == *b));
        if let (Some(first), true) = (indices.first(), consecutive) {
            let place = |index: usize| [index as i64];
            let (start, end) = (self.integers(&place(*first)), self.integers(&place(first + indices.len())));
            let axis = self.integers(&[axis]);
            return self.op("Slice", &[x, &start, &end, &axis], Vec::new());
        }
        let indices: Vec<i64> = indices.iter().map(|index| *index as i64).collect();
        let indices = self.integer_array(&[indices.len()], &indices);
        self.op("Gather", &[x, &indices], vec![integer("axis", axis)])
    }

    pub(super) fn concat(&mut self, parts: &[Name], axis: i64) -> Name {
        match parts {
            [only] => only.clone(),
            _ => self.op("Concat", &parts.iter().collect::<Vec<_>>(), vec![integer("axis", axis)]),
        }
    }

    /// Sums over an axis, which stays with length 1 or goes.
    pub(super) fn sum(&mut self, x: &Name, axis: i64, keep: bool) -> Name {
        let axes = self.integers(&[axis]);
        self.op("ReduceSum", &[x, &axes], vec![integer("keepdims", i64::from(keep))])
    }

    /// The mean over an axis of this length, which goes.
    pub(super) fn mean(&mut self, x: &Name, axis: i64, length: usize) -> Name {
        let sum = self.sum(x, axis, false);
        self.with("Mul", &sum, 1.0 / length as f64)
    }

    /// The largest along an axis, which stays with length 1. (Axes became an input with version 18.)
    pub(super) fn largest(&mut self, x: &Name, axis: i64, opset: i64) -> Name {
        self.reduce_max(x, axis, true, opset)
    }

    /// The largest over the first axis, which goes.
    pub(super) fn largest_over_first(&mut self, x: &Name, opset: i64) -> Name {
        self.reduce_max(x, 0, false, opset)
    }

    fn reduce_max(&mut self, x: &Name, axis: i64, keep: bool, opset: i64) -> Name {
        let keep = integer("keepdims", i64::from(keep));
        if opset < 18 {
            let axes = AttributeProto { name: "axes".to_string(), ints: vec![axis], r#type: 7, ..Default::default() };
            return self.op("ReduceMax", &[x], vec![axes, keep]);
        }
        let axes = self.integers(&[axis]);
        self.op("ReduceMax", &[x, &axes], vec![keep])
    }

    /// The sum of all entries.
    pub(super) fn sum_of_all(&mut self, x: &Name) -> Name {
        self.op("ReduceSum", &[x], vec![integer("keepdims", 0)])
    }

    /// `[rows, width]` as `[1, rows, width]`.
    pub(super) fn reshape_front(&mut self, x: &Name, width: usize) -> Name {
        let shape = self.integers(&[1, -1, width as i64]);
        self.op("Reshape", &[x, &shape], Vec::new())
    }

    pub(super) fn softmax(&mut self, x: &Name, axis: i64) -> Name {
        self.op("Softmax", &[x], vec![integer("axis", axis)])
    }

    pub(super) fn einsum(&mut self, equation: &str, x: &Name, y: &Name) -> Name {
        let equation = AttributeProto {
            name: "equation".to_string(),
            s: equation.as_bytes().to_vec(),
            r#type: 3,
            ..Default::default()
        };
        self.op("Einsum", &[x, y], vec![equation])
    }

    pub(super) fn cast(&mut self, x: &Name, to: i32) -> Name {
        self.op("Cast", &[x], vec![integer("to", i64::from(to))])
    }

    /// The constants, as often as another value has rows and columns.
    pub(super) fn expand_like(&mut self, x: &Name, like: &Name) -> Name {
        let shape = self.unary("Shape", like);
        self.binary("Expand", x, &shape)
    }

    /// Repeats a step while the last value that it gives first holds, at most so often. The step takes the number of the
    /// iteration and the values, and gives the condition and their successors.
    pub(super) fn repeat(
        &mut self,
        most: i64,
        values: &[(Name, i32)],
        step: impl FnOnce(&mut Self, &Name, &[Name]) -> (Name, Vec<Name>),
    ) -> Vec<Name> {
        let outer = std::mem::take(&mut self.nodes);
        let (iteration, condition) = (self.name(), self.name());
        let inner: Vec<Name> = values.iter().map(|_| self.name()).collect();
        let (goes_on, next) = step(self, &iteration, &inner);
        // Outputs of a body are values of nodes in it.
        let results: Vec<Name> =
            std::iter::once(&goes_on).chain(&next).map(|value| self.unary("Identity", value)).collect();
        let nodes = std::mem::replace(&mut self.nodes, outer);
        let kinds = || values.iter().map(|(_, kind)| *kind);
        let known = |name: &Name, kind: i32, scalar: bool| value_info(name, kind, scalar.then_some(&[][..]));
        let mut input = vec![known(&iteration, INT64, true), known(&condition, BOOL, true)];
        input.extend(inner.iter().zip(kinds()).map(|(name, kind)| known(name, kind, false)));
        let output_kinds = std::iter::once(BOOL).chain(kinds());
        let output = results.iter().zip(output_kinds).enumerate();
        let output = output.map(|(place, (name, kind))| known(name, kind, place == 0)).collect();
        let body = GraphProto { node: nodes, name: "body".to_string(), input, output, ..Default::default() };
        let body = AttributeProto { name: "body".to_string(), g: Some(body), r#type: 5, ..Default::default() };
        let (most, truth) = (self.integer(most), self.truth());
        let inputs: Vec<&Name> = [&most, &truth].into_iter().chain(values.iter().map(|(name, _)| name)).collect();
        let outputs: Vec<Name> = values.iter().map(|_| self.name()).collect();
        self.op_to("Loop", &inputs, vec![body], &outputs.iter().collect::<Vec<_>>());
        outputs
    }
}

pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: name.to_string(), i: value, r#type: 2, ..Default::default() }
}

pub(super) fn integers(name: &str, values: &[usize]) -> AttributeProto {
    let ints = values.iter().map(|value| *value as i64).collect();
    AttributeProto { name: name.to_string(), ints, r#type: 7, ..Default::default() }
}

/// The name, the type and, where it is known, the shape of a value.
pub(super) fn value_info(name: &str, elem_type: i32, axes: Option<&[Axis]>) -> ValueInfoProto {
    let dimension = |axis: &Axis| match axis {
        Axis::Rows => DimensionProto { dim_param: "rows".to_string(), ..Default::default() },
        Axis::Length(length) => DimensionProto { dim_value: *length as i64, ..Default::default() },
    };
    let shape = axes.map(|axes| TensorShapeProto { dim: axes.iter().map(dimension).collect() });
    let kind = TypeProto { tensor_type: Some(TensorTypeProto { elem_type, shape }) };
    ValueInfoProto { name: name.to_string(), r#type: Some(kind), ..Default::default() }
}
