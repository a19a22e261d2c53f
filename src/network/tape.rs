//! What an evaluation leaves behind for the verbs that come after it: one [`Tape`] per layer.

use faer::Mat;

/// The memory of one layer between its verbs, at N points with M rows.
///
/// Elementwise layers work in place: their outputs and sensitivities are in the tape of the layer before them, and
/// `values` and `sensitivities` of their own tape are empty, unless they come first.
#[derive(Debug, Clone)]
pub struct Tape {
    /// 3N × outputs: the Taylor coefficients of the outputs, one below the other. A layer never reads its own: an
    /// elementwise layer after it may have replaced them.
    pub values: Mat<f64>,
    /// M × outputs: the sensitivities δ of the rows to the outputs.
    pub sensitivities: Mat<f64>,
    /// M × outputs: the derivatives δ̇ of the sensitivities along a velocity; empty until they are first requested.
    pub sensitivities_along: Mat<f64>,
    /// What else the layer needs later.
    pub kept: Kept,
}

/// What the layer itself keeps; it chooses the shapes.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What its verbs need after a forward sweep, such as slopes φ′.
    pub matrix: Mat<f64>,
    /// What they need in addition along a velocity, such as φ″z₁ or h₀ + sh₁; empty until it is first requested.
    pub along: Mat<f64>,
    /// Room for a verb to work in; nothing in it is needed after the verb.
    pub room: Mat<f64>,
    /// The tapes of the layers inside a composite layer.
    pub inner: Vec<Tape>,
}

impl Kept {
    /// Nothing.
    pub fn nothing() -> Self {
        Self::matrix(0, 0)
    }

    /// One matrix.
    pub fn matrix(rows: usize, columns: usize) -> Self {
        Self { matrix: Mat::zeros(rows, columns), along: Mat::new(), room: Mat::new(), inner: Vec::new() }
    }

    /// The same with room to work in.
    pub fn with_room(self, rows: usize, columns: usize) -> Self {
        Self { room: Mat::zeros(rows, columns), ..self }
    }
}
