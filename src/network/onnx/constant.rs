//! Tensors of numbers as a file stores them.

use super::messages::{NodeProto, TensorProto};
use super::tensor::{Constant, Tensor, product};

/// Types of elements by their numbers in `TensorProto`.
pub const FLOAT: i32 = 1;
/// Whole numbers of 32 bits.
pub const INT32: i32 = 6;
/// Whole numbers of 64 bits.
pub const INT64: i32 = 7;
/// Truth values.
pub const BOOL: i32 = 9;
/// Real numbers of 64 bits.
pub const DOUBLE: i32 = 11;

/// Whether elements of a type are real numbers: float, float16, double or bfloat16.
pub fn is_real(kind: i32) -> bool {
    matches!(kind, FLOAT | 10 | DOUBLE | 16)
}

/// Whether elements of a type are whole numbers or truth values.
pub fn is_whole(kind: i32) -> bool {
    matches!(kind, 2..=7 | BOOL | 12 | 13)
}

/// Reads a tensor; the error says why it cannot be.
pub fn read(tensor: &TensorProto) -> Result<Tensor, String> {
    if tensor.data_location != 0 {
        return Err("its values are in another file (external data); export the network into one file".to_string());
    }
    let length = |&axis: &i64| usize::try_from(axis).map_err(|_| format!("has an axis of length {axis}"));
    let lengths: Vec<usize> = tensor.dims.iter().map(length).collect::<Result<_, String>>()?;
    let size = product(&lengths).ok_or("is too large")?;
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
        return Err(format!("has {} values, but its shape {lengths:?} takes {size}", values.len()));
    }
    let constant = Constant { values: values.into(), whole: is_whole(tensor.data_type), per_point: None };
    Ok(Tensor::constant(lengths, constant))
}

/// The numbers in a string of bytes.
fn numbers<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> f64) -> Result<Vec<f64>, String> {
    let (chunks, rest) = bytes.as_chunks::<SIZE>();
    if !rest.is_empty() {
        return Err(format!("has {} bytes, which is not a whole number of values", bytes.len()));
    }
    Ok(chunks.iter().map(|&chunk| number(chunk)).collect())
}

/// The tensor that a node Constant holds.
pub fn written(node: &NodeProto) -> Result<Tensor, String> {
    if let Some(tensor) = node.tensor("value") {
        return read(tensor);
    }
    let list = |values: Vec<f64>, whole| (vec![values.len()], values, whole);
    let (lengths, values, whole) = match node.attribute.first().map(|attribute| (attribute, attribute.name.as_str())) {
        Some((attribute, "value_float")) => (Vec::new(), vec![f64::from(attribute.f)], false),
        Some((attribute, "value_int")) => (Vec::new(), vec![attribute.i as f64], true),
        Some((attribute, "value_ints")) => list(attribute.ints.iter().map(|&value| value as f64).collect(), true),
        Some((attribute, "value_floats")) => {
            list(attribute.floats.iter().map(|&value| f64::from(value)).collect(), false)
        }
        _ => return Err("it holds no numbers".to_string()),
    };
    Ok(Tensor::constant(lengths, Constant { values: values.into(), whole, per_point: None }))
}
