//! Why a state dict cannot be read as a chain of layers.

/// What keeps a tensor of a state dict from having a place in a chain of linear layers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateDictProblem {
    /// It belongs to a layer that a chain of linear layers does not have.
    #[error("belongs to {what}, and a state dict does not say where that acts; export the network as ONNX, which does")]
    Foreign {
        /// What it belongs to.
        what: &'static str,
    },
    /// Its name has no number, or another prefix than the others.
    #[error(
        "is not numbered as in an nn.Sequential (`<number>.weight`, with one common prefix), and a state dict does not \
         say how its tensors are connected; state the chain of layers ({}) with their activations, or export the \
         network as ONNX, which says it all", .layers.join(", ")
    )]
    Unnumbered {
        /// The names of all layers in the file.
        layers: Vec<String>,
    },
    /// Numbers that leave room for an activation between some layers only.
    #[error(
        "directly follows another layer, but not all do (the numbers are {numbers:?}), so one activation between all \
         layers would be wrong; state the chain of layers with their activations, or export the network as ONNX"
    )]
    Numbering {
        /// The numbers of the layers.
        numbers: Vec<u64>,
    },
    /// No stated layer uses it.
    #[error(
        "is used by none of the stated layers ({}); a chain must use every tensor, and what is no chain of linear layers \
         can be read from ONNX", .layers.join(", ")
    )]
    Unused {
        /// The stated layers.
        layers: Vec<String>,
    },
}

impl StateDictProblem {
    /// Whether stating the chain of layers could help.
    pub fn takes_layers(&self) -> bool {
        matches!(self, Self::Unnumbered { .. } | Self::Numbering { .. })
    }
}
