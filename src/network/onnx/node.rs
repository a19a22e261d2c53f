//! Nodes and their attributes.

use super::messages::{AttributeProto, NodeProto, TensorProto};
use super::tensor::Tensor;
use super::trouble::{Step, refuse};

/// A node whose inputs are known.
pub struct Call<'a> {
    /// The node.
    pub node: &'a NodeProto,
    /// Its number in the graph.
    pub index: usize,
    /// Its inputs; `None` where one is left out.
    pub inputs: Vec<Option<Tensor>>,
}

impl Call<'_> {
    /// An input that must be there.
    pub fn input(&self, place: usize) -> Step<&Tensor> {
        self.optional(place).ok_or_else(|| format!("its input {place} is missing").into())
    }

    /// An input that may be left out.
    pub fn optional(&self, place: usize) -> Option<&Tensor> {
        self.inputs.get(place).and_then(Option::as_ref)
    }

    /// All inputs that are there.
    pub fn all(&self) -> Vec<Tensor> {
        self.inputs.iter().flatten().cloned().collect()
    }

    /// A list of whole numbers: an input, or an attribute in older versions of the operator.
    pub fn integers(&self, place: usize, attribute: &str) -> Step<Option<Vec<i64>>> {
        let Some(tensor) = self.optional(place) else { return Ok(self.node.ints(attribute)) };
        match tensor.as_constant() {
            Some(constant) if constant.per_point.is_none() => {
                Ok(Some(constant.values.iter().map(|value| *value as i64).collect()))
            }
            _ => refuse(format!("its input {place} is computed from the data; only constants are read there")),
        }
    }
}

impl NodeProto {
    /// Whether it is of ONNX's own set of operators.
    pub fn is_standard(&self) -> bool {
        matches!(self.domain.as_str(), "" | "ai.onnx")
    }

    fn find(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.find(name).map(|attribute| attribute.i)
    }

    /// A list of whole numbers.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.find(name).map(|attribute| attribute.ints.clone())
    }

    /// A real number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.find(name).map(|attribute| f64::from(attribute.f))
    }

    /// A list of real numbers.
    pub fn floats(&self, name: &str) -> Option<Vec<f64>> {
        self.find(name).map(|attribute| attribute.floats.iter().map(|value| f64::from(*value)).collect())
    }

    /// A word; empty where there is none.
    pub fn word(&self, name: &str) -> String {
        self.find(name).map_or(String::new(), |attribute| String::from_utf8_lossy(&attribute.s).into_owned())
    }

    /// Words.
    pub fn words(&self, name: &str) -> Option<Vec<String>> {
        let words = |list: &AttributeProto| list.strings.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect();
        self.find(name).map(words)
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorProto> {
        self.find(name).and_then(|attribute| attribute.t.as_ref())
    }

    /// A number that was written as a decimal and stored as f32: the shortest decimal that rounds to it.
    pub fn decimal(&self, name: &str, default: f64) -> f64 {
        let single = self.find(name).map(|attribute| attribute.f);
        single.map_or(default, |single| single.to_string().parse().unwrap_or(default))
    }
}
