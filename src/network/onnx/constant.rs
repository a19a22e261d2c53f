//! Constants: initialisers, and everything that is computed from them alone.

use super::messages::{NodeProto, TensorProto};
use super::node::Attributes;

/// The largest constant that is computed, as opposed to read: shapes and small tables, not weights.
const MOST_COMPUTED: usize = 1 << 24;

/// Types of elements by their numbers in `TensorProto`.
const FLOAT: i32 = 1;
const INT32: i32 = 6;
const INT64: i32 = 7;
const BOOL: i32 = 9;
const DOUBLE: i32 = 11;

/// A tensor whose values are known. Whole numbers and truth values are stored as f64 too.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    /// The name by which the graph knows it.
    pub name: String,
    /// The initialiser or node that it comes from: two constants with one origin are the same numbers.
    pub origin: String,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The values, last axis fastest.
    pub values: Vec<f64>,
    /// Whether they are whole numbers.
    pub whole: bool,
}

impl Constant {
    /// Reads a tensor; the error says why it cannot be.
    pub fn read(tensor: &TensorProto, name: &str) -> Result<Self, String> {
        if tensor.data_location != 0 {
            return Err("its values are in another file (external data); export the network into one file".to_string());
        }
        let length = |&axis: &i64| usize::try_from(axis).map_err(|_| format!("has an axis of length {axis}"));
        let shape: Vec<usize> = tensor.dims.iter().map(length).collect::<Result<_, String>>()?;
        let size = shape.iter().try_fold(1_usize, |size, axis| size.checked_mul(*axis)).ok_or("is too large")?;
        let raw = &tensor.raw_data;
        let values: Vec<f64> = match tensor.data_type {
            FLOAT if raw.is_empty() => tensor.float_data.iter().map(|&value| f64::from(value)).collect(),
            FLOAT => numbers(raw, |bytes| f64::from(f32::from_le_bytes(bytes)))?,
            DOUBLE if raw.is_empty() => tensor.double_data.clone(),
            DOUBLE => numbers(raw, f64::from_le_bytes)?,
            INT64 if raw.is_empty() => tensor.int64_data.iter().map(|&value| value as f64).collect(),
            INT64 => numbers(raw, |bytes| i64::from_le_bytes(bytes) as f64)?,
            INT32 | BOOL if raw.is_empty() => tensor.int32_data.iter().map(|&value| f64::from(value)).collect(),
            INT32 => numbers(raw, |bytes| f64::from(i32::from_le_bytes(bytes)))?,
            BOOL => numbers(raw, |[byte]: [u8; 1]| f64::from(byte))?,
            other => return Err(format!("has elements of type {other}; weights must be float (1) or double (11)")),
        };
        if values.len() != size {
            return Err(format!("has {} values, but its shape {shape:?} takes {size}", values.len()));
        }
        let whole = matches!(tensor.data_type, INT32 | INT64 | BOOL);
        Ok(Self { name: name.to_string(), origin: name.to_string(), shape, values, whole })
    }

    /// The value, if there is only one.
    pub fn scalar(&self) -> Option<f64> {
        match self.values[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Whether all entries have the same value.
    pub fn is_uniform(&self, value: f64) -> bool {
        self.values.iter().all(|entry| *entry == value)
    }

    /// The values as whole numbers.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.whole.then(|| self.values.iter().map(|&value| value as i64).collect())
    }

    /// The matrix with its axes exchanged.
    pub fn transposed(&self) -> Option<Self> {
        let [rows, columns] = self.shape[..] else { return None };
        let values = (0..columns)
            .flat_map(|j| (0..rows).map(move |i| self.values.get(i * columns + j).copied()))
            .collect::<Option<_>>()?;
        Some(Self { shape: vec![columns, rows], values, ..self.clone() })
    }

    fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        (product(&shape) == Some(self.values.len())).then(|| Self { shape, ..self.clone() })
    }

    fn named(self, name: &str) -> Self {
        Self { name: name.to_string(), ..self }
    }

    /// A list of whole numbers.
    pub fn list(name: &str, numbers: &[i64]) -> Self {
        Self {
            name: name.to_string(),
            origin: name.to_string(),
            shape: vec![numbers.len()],
            values: numbers.iter().map(|&number| number as f64).collect(),
            whole: true,
        }
    }
}

/// The numbers in a string of bytes.
fn numbers<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> f64) -> Result<Vec<f64>, String> {
    let (chunks, rest) = bytes.as_chunks::<SIZE>();
    if !rest.is_empty() {
        return Err(format!("has {} bytes, which is not a whole number of values", bytes.len()));
    }
    Ok(chunks.iter().map(|&chunk| number(chunk)).collect())
}

/// The output of a node whose inputs are constants (`None` where one is left out); `None` if it is not of the kind that
/// exporters leave to be computed.
pub fn fold(node: &NodeProto, inputs: &[Option<&Constant>]) -> Option<Constant> {
    let name = node.output.first()?;
    let first = inputs.first().copied().flatten();
    let second = inputs.get(1).copied().flatten();
    let folded = match node.op_type.as_str() {
        "Constant" => constant(node, name)?,
        "Identity" => first?.clone(),
        "Cast" => cast(node, first?)?,
        "ConstantOfShape" => filled(node, first?)?,
        "Transpose" => match node.ints("perm").as_deref() {
            None | Some([1, 0]) if first?.shape.len() == 2 => first?.transposed()?,
            Some(axes) if axes.iter().enumerate().all(|(index, &axis)| axis == index as i64) => first?.clone(),
            _ => return None,
        },
        "Unsqueeze" | "Squeeze" | "Flatten" | "Reshape" => {
            let axes = second.and_then(Constant::integers).or_else(|| node.ints("axes"));
            first?.reshaped(shape_after(node, &first?.shape, axes)?)?
        }
        "Concat" => concatenated(inputs)?,
        "Gather" => gathered(first?, second?)?,
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Neg" | "Sqrt" | "Reciprocal" => arithmetic(node, first?, second)?,
        _ => return None,
    };
    Some(folded.named(name))
}

fn constant(node: &NodeProto, name: &str) -> Option<Constant> {
    if let Some(tensor) = node.tensor("value") {
        return Constant::read(tensor, name).ok();
    }
    let scalar = |value: f64, whole| Constant {
        name: name.to_string(),
        origin: name.to_string(),
        shape: Vec::new(),
        values: vec![value],
        whole,
    };
    let attribute = node.attribute.first()?;
    match attribute.name.as_str() {
        "value_float" => Some(scalar(f64::from(attribute.f), false)),
        "value_int" => Some(scalar(attribute.i as f64, true)),
        "value_ints" => Some(Constant::list(name, &attribute.ints)),
        "value_floats" => {
            let values: Vec<f64> = attribute.floats.iter().map(|&value| f64::from(value)).collect();
            Some(Constant { shape: vec![values.len()], values, ..scalar(0.0, false) })
        }
        _ => None,
    }
}

fn cast(node: &NodeProto, constant: &Constant) -> Option<Constant> {
    match node.int("to").and_then(|kind| i32::try_from(kind).ok())? {
        FLOAT if !constant.whole => {
            let single = constant.values.iter().map(|&value| f64::from(value as f32)).collect();
            Some(Constant { values: single, ..constant.clone() })
        }
        FLOAT | DOUBLE => Some(Constant { whole: false, ..constant.clone() }),
        INT32 | INT64 => {
            let values = constant.values.iter().map(|value| value.trunc()).collect();
            Some(Constant { values, whole: true, ..constant.clone() })
        }
        _ => None,
    }
}

fn filled(node: &NodeProto, shape: &Constant) -> Option<Constant> {
    let lengths = shape.integers()?.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<Vec<usize>>>()?;
    let size = product(&lengths)?;
    let value = node.tensor("value").map(|tensor| Constant::read(tensor, "")).transpose().ok()?;
    let (number, whole) = value.as_ref().map_or(Some((0.0, false)), |value| Some((value.scalar()?, value.whole)))?;
    (size <= MOST_COMPUTED).then(|| Constant {
        name: shape.name.clone(),
        origin: node.first_output().to_string(),
        shape: lengths,
        values: vec![number; size],
        whole,
    })
}

/// The shape after an operator that keeps the values in their order.
pub fn shape_after(node: &NodeProto, shape: &[usize], argument: Option<Vec<i64>>) -> Option<Vec<usize>> {
    let rank = shape.len() as i64;
    let place = |axis: i64, rank: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
    match node.op_type.as_str() {
        "Unsqueeze" => {
            let axes = argument?;
            let whole = rank + axes.len() as i64;
            let places: Vec<usize> = axes.iter().map(|&axis| place(axis, whole)).collect::<Option<_>>()?;
            let mut rest = shape.iter();
            let lengths =
                (0..whole as usize).map(|index| if places.contains(&index) { Some(1) } else { rest.next().copied() });
            lengths.collect()
        }
        "Squeeze" => match argument {
            None => Some(shape.iter().copied().filter(|&length| length != 1).collect()),
            Some(axes) => {
                let places: Vec<usize> = axes.iter().map(|&axis| place(axis, rank)).collect::<Option<_>>()?;
                if places.iter().any(|&index| shape.get(index) != Some(&1)) {
                    return None;
                }
                let kept = shape.iter().enumerate().filter(|(index, _)| !places.contains(index));
                Some(kept.map(|(_, &length)| length).collect())
            }
        },
        "Flatten" => {
            let axis = place(node.int("axis").unwrap_or(1), rank)?;
            let (before, after) = shape.split_at_checked(axis)?;
            Some(vec![product(before)?, product(after)?])
        }
        "Reshape" => {
            let size = product(shape)?;
            let zero_is_zero = node.int("allowzero") == Some(1);
            let target = argument?;
            let known = |(index, &length): (usize, &i64)| match length {
                -1 => Some(1),
                0 if !zero_is_zero => shape.get(index).copied(),
                _ => usize::try_from(length).ok(),
            };
            let mut lengths: Vec<usize> = target.iter().enumerate().map(known).collect::<Option<_>>()?;
            if let Some(free) = target.iter().position(|&length| length == -1) {
                *lengths.get_mut(free)? = size.checked_div(product(&lengths)?)?;
            }
            (product(&lengths)? == size).then_some(lengths)
        }
        _ => None,
    }
}

/// The number of entries of an array of this shape, where it is one.
fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |size, axis| size.checked_mul(*axis))
}

/// Lists joined end to end.
fn concatenated(inputs: &[Option<&Constant>]) -> Option<Constant> {
    let parts: Vec<&Constant> = inputs.iter().copied().collect::<Option<_>>()?;
    if parts.iter().any(|part| part.shape.len() != 1) {
        return None;
    }
    let values: Vec<f64> = parts.iter().flat_map(|part| part.values.iter().copied()).collect();
    Some(Constant { shape: vec![values.len()], values, ..(*parts.first()?).clone() })
}

/// Entries of a list by their indices.
fn gathered(list: &Constant, indices: &Constant) -> Option<Constant> {
    if list.shape.len() != 1 {
        return None;
    }
    let length = list.values.len() as i64;
    let entry = |index: i64| {
        let index = if index < 0 { index + length } else { index };
        list.values.get(usize::try_from(index).ok()?).copied()
    };
    let values = indices.integers()?.into_iter().map(entry).collect::<Option<Vec<f64>>>()?;
    Some(Constant { shape: indices.shape.clone(), values, ..list.clone() })
}

/// Arithmetic with numbers, or with arrays of one shape.
fn arithmetic(node: &NodeProto, first: &Constant, second: Option<&Constant>) -> Option<Constant> {
    let apply = |a: f64, b: f64| match node.op_type.as_str() {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" if first.whole => (a / b).trunc(),
        "Div" => a / b,
        "Pow" => a.powf(b),
        "Neg" => -a,
        "Sqrt" => a.sqrt(),
        _ => a.recip(),
    };
    let origin = node.first_output().to_string();
    let Some(second) = second else {
        let values = first.values.iter().map(|&a| apply(a, 0.0)).collect();
        return matches!(node.op_type.as_str(), "Neg" | "Sqrt" | "Reciprocal").then(|| Constant {
            values,
            origin,
            ..first.clone()
        });
    };
    let (shape, values) = match (first.scalar(), second.scalar()) {
        _ if first.shape == second.shape => {
            (&first.shape, first.values.iter().zip(&second.values).map(|(&a, &b)| apply(a, b)).collect())
        }
        (_, Some(b)) if second.shape.len() <= first.shape.len() => {
            (&first.shape, first.values.iter().map(|&a| apply(a, b)).collect())
        }
        (Some(a), _) if first.shape.len() <= second.shape.len() => {
            (&second.shape, second.values.iter().map(|&b| apply(a, b)).collect())
        }
        _ => return None,
    };
    Some(Constant { shape: shape.clone(), values, origin, ..first.clone() })
}
