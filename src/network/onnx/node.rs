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

impl Attributes for NodeProto {
    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }
}
