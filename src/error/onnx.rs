//! An ONNX file that is not read as a network.

use std::path::PathBuf;

use super::text::{printable, shown};

/// An ONNX file that is not read as a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// An ONNX file that holds no network that can be read.
    #[error("{path}: not an ONNX network that can be read: {problem}", path = .path.display(), problem = printable(.problem))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A node of an ONNX graph that no layer represents.
    #[error("{path}: node `{node}` (operator {operator}): {problem}", path = .path.display(), node = shown(.node), operator = shown(.operator), problem = printable(.problem))]
    Node {
        /// The file.
        path: PathBuf,
        /// The node.
        node: Box<str>,
        /// Its operator.
        operator: Box<str>,
        /// Why it cannot be represented.
        problem: String,
    },
}
