//! Attributes of nodes.

use super::messages::{AttributeProto, NodeProto, TensorProto};

/// Reads attributes by name.
pub trait Attributes {
    /// The attribute itself.
    fn attribute(&self, name: &str) -> Option<&AttributeProto>;

    /// A whole number.
    fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|attribute| attribute.i)
    }

    /// A list of whole numbers.
    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints.clone())
    }

    /// A real number.
    fn float(&self, name: &str) -> Option<f64> {
        self.attribute(name).map(|attribute| f64::from(attribute.f))
    }

    /// A word.
    fn word(&self, name: &str) -> Option<String> {
        self.attribute(name).map(|attribute| String::from_utf8_lossy(&attribute.s).into_owned())
    }

    /// A tensor.
    fn tensor(&self, name: &str) -> Option<&TensorProto> {
        self.attribute(name).and_then(|attribute| attribute.t.as_ref())
    }
}

impl NodeProto {
    /// The name of the first input; empty if there is none.
    pub fn first_input(&self) -> &str {
        self.input.first().map_or("", String::as_str)
    }

    /// The name of the first output; empty if there is none.
    pub fn first_output(&self) -> &str {
        self.output.first().map_or("", String::as_str)
    }
}

impl Attributes for NodeProto {
    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }
}
