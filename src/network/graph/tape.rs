//! What an evaluation leaves behind for the verbs that come after it.

use faer::Mat;

/// The memory of an evaluator at N points with K rows each; every list has one entry per node.
#[derive(Debug, Clone)]
pub struct Tapes {
    /// N.
    pub points: usize,
    /// 3N × width: the Taylor coefficients of values, one below the other. Empty for nodes that do not move, and for those that
    /// work in place on the value of another.
    pub values: Vec<Mat<f64>>,
    /// M × width: the sensitivities δ of the rows to the values.
    pub sensitivities: Vec<Mat<f64>>,
    /// M × width: the derivatives δ̇ of the sensitivities along a velocity; empty until they are first requested.
    pub along: Vec<Mat<f64>>,
    /// What else the nodes need later.
    pub kept: Vec<Kept>,
}

/// What a node keeps for itself; it chooses the shapes.
#[derive(Debug, Clone)]
pub struct Kept {
    /// φ′ of an elementwise node.
    pub slopes: Mat<f64>,
    /// Its φ″z₁; empty until it is first requested.
    pub bends: Mat<f64>,
    /// h₀ + sh₁ and W + sV of a jet in three products.
    pub mixed: Mat<f64>,
    /// See `mixed`.
    pub sums: Mat<f64>,
    /// Room for vectors below a window, and for the outputs there.
    pub vectors: Mat<f64>,
    /// See `vectors`.
    pub outputs: Mat<f64>,
    /// Weights in the order of the matrix, where θ has another.
    pub weights: [Vec<f64>; 2],
}

impl Kept {
    /// Nothing yet.
    pub fn nothing() -> Self {
        let empty = Mat::new;
        Self {
            slopes: empty(),
            bends: empty(),
            mixed: empty(),
            sums: empty(),
            vectors: empty(),
            outputs: empty(),
            weights: [Vec::new(), Vec::new()],
        }
    }
}
