//! A prior precision that is a whole matrix: that of an earlier posterior.

use std::sync::OnceLock;

use faer::{Accum, Mat, MatMut, MatRef};

use crate::linalg::{
    Cholesky, PackedFactor, dot, mirror_lower, multiply_by_own_transpose, pack_lower, trace_of_product,
};

/// A = LLᵀ.
#[derive(Debug, Clone)]
pub struct PriorMatrix {
    factor: PackedFactor,
    /// A; computed from the factor when first needed.
    matrix: OnceLock<Mat<f64>>,
}

impl PartialEq for PriorMatrix {
    fn eq(&self, other: &Self) -> bool {
        self.packed() == other.packed()
    }
}

impl From<PackedFactor> for PriorMatrix {
    fn from(factor: PackedFactor) -> Self {
        Self { factor, matrix: OnceLock::new() }
    }
}

impl PriorMatrix {
    /// D.
    pub fn size(&self) -> usize {
        self.factor.size()
    }

    fn cholesky(&self) -> &Cholesky {
        self.factor.get()
    }

    /// The packed lower triangle of L.
    pub fn packed(&self) -> Vec<f64> {
        pack_lower(self.cholesky().lower())
    }

    /// A, both triangles.
    pub fn matrix(&self) -> MatRef<'_, f64> {
        let matrix = self.matrix.get_or_init(|| {
            let (size, factor) = (self.size(), self.cholesky().lower());
            let lower = Mat::from_fn(size, size, |i, j| if i >= j { factor[(i, j)] } else { 0.0 });
            let mut matrix = Mat::zeros(size, size);
            multiply_by_own_transpose(matrix.as_mut(), Accum::Replace, lower.as_ref());
            mirror_lower(&mut matrix);
            matrix
        });
        matrix.as_ref()
    }

    /// log det A.
    pub fn log_det(&self) -> f64 {
        self.cholesky().log_det()
    }

    /// Lᵀu.
    fn root_times(&self, vector: &[f64]) -> Vec<f64> {
        let lower = self.cholesky().lower();
        (0..self.size()).map(|j| (j..self.size()).map(|i| lower[(i, j)] * vector[i]).sum()).collect()
    }

    /// u ← A u.
    pub fn multiply(&self, vector: &mut [f64]) {
        let product: Vec<f64> =
            self.matrix().col_iter().map(|column| column.iter().zip(&*vector).map(|(a, u)| a * u).sum()).collect();
        vector.copy_from_slice(&product);
    }

    /// u ← A⁻¹ u.
    pub fn divide(&self, vector: &mut [f64]) {
        self.cholesky().solve(vector);
    }

    /// u ← L⁻ᵀ u: a standard normal vector becomes a draw from the prior.
    pub fn divide_by_root(&self, vector: &mut [f64]) {
        self.cholesky().solve_upper(vector);
    }

    /// uᵀAu = ‖Lᵀu‖².
    pub fn quadratic(&self, vector: &[f64]) -> f64 {
        let root = self.root_times(vector);
        dot(&root, &root)
    }

    /// The lower triangle of M ← M + A.
    pub fn add_to(&self, mut matrix: MatMut<'_, f64>) {
        for j in 0..self.size() {
            for i in j..self.size() {
                matrix[(i, j)] += self.matrix()[(i, j)];
            }
        }
    }

    /// tr(AM), for a symmetric matrix given by its lower triangle.
    pub fn trace_with(&self, lower: &Mat<f64>) -> f64 {
        trace_of_product(lower, &self.matrix().to_owned())
    }
}
