//! What an evaluation leaves behind for the verbs that come after it: one [`Tape`] for each layer.

use faer::{Mat, MatMut};

use crate::linalg::column_slice_mut;

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
    /// M × outputs: the derivatives δ̇ of the sensitivities along a velocity; empty until they are first asked for.
    pub sensitivities_along: Mat<f64>,
    /// What else the layer needs later.
    pub kept: Kept,
}

/// What a layer itself keeps; the shapes are its own affair.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What its verbs need after a forward sweep, such as slopes φ′.
    pub matrix: Mat<f64>,
    /// What they need in addition along a velocity, such as φ″z₁; empty until it is first asked for.
    pub along: Mat<f64>,
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
        Self { matrix: Mat::zeros(rows, columns), along: Mat::new(), inner: Vec::new() }
    }
}

/// Buffers of the verbs that only read the tapes, one for each thread that calls them.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// One column, which faer aligns for vector loads.
    numbers: Mat<f64>,
    /// N × N products of layer inputs and of sensitivities; empty until a Gram matrix is first asked for.
    input_products: Mat<f64>,
    sensitivity_products: Mat<f64>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Scratch {
    /// Buffers with room for so many numbers; they grow when needed.
    pub fn new(numbers: usize) -> Self {
        Self { numbers: Mat::zeros(numbers, 1), input_products: Mat::new(), sensitivity_products: Mat::new() }
    }

    /// A matrix of any contents.
    pub fn matrix(&mut self, rows: usize, columns: usize) -> MatMut<'_, f64> {
        let size = rows * columns;
        if self.numbers.nrows() < size {
            self.numbers = Mat::zeros(size, 1);
        }
        MatMut::from_column_major_slice_mut(&mut column_slice_mut(self.numbers.col_mut(0))[..size], rows, columns)
    }

    /// Two matrices of any contents.
    pub fn products(&mut self, rows: usize, columns: usize) -> (&mut Mat<f64>, &mut Mat<f64>) {
        for matrix in [&mut self.input_products, &mut self.sensitivity_products] {
            resize(matrix, rows, columns);
        }
        (&mut self.input_products, &mut self.sensitivity_products)
    }
}

/// Gives a matrix this shape; its contents are kept only if it has it already.
pub(super) fn resize(matrix: &mut Mat<f64>, rows: usize, columns: usize) {
    if (matrix.nrows(), matrix.ncols()) != (rows, columns) {
        *matrix = Mat::zeros(rows, columns);
    }
}

/// The two sums of which the Kronecker approximation of a weight matrix's curvature is made.
///
/// With the inputs hₙ of the layer at the N points and the sensitivities δₘ of its outputs for the M rows, these are
/// Σₙ hₙhₙᵀ and Σₘ δₘδₘᵀ: sums, not means, and without a 1 for the bias in h. The block Σₘ (∂rowₘ)(∂rowₘ)ᵀ of the
/// weights [outputs, inputs], row by row, is approximated by N⁻¹ Σδδᵀ ⊗ Σhhᵀ, and that of the bias is Σδδᵀ exactly.
#[derive(Debug, Clone)]
pub struct KroneckerFactors {
    /// Σₙ hₙhₙᵀ, inputs × inputs: the lower triangle.
    pub inputs: Mat<f64>,
    /// Σₘ δₘδₘᵀ, outputs × outputs: the lower triangle.
    pub sensitivities: Mat<f64>,
}

impl KroneckerFactors {
    /// Sums of nothing.
    pub fn zeros(inputs: usize, outputs: usize) -> Self {
        Self { inputs: Mat::zeros(inputs, inputs), sensitivities: Mat::zeros(outputs, outputs) }
    }
}
