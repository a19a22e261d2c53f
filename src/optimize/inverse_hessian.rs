//! The inverse Hessian B ≈ (∇²f)⁻¹ of BFGS: B ← (I − ρsyᵀ) B (I − ρysᵀ) + ρssᵀ, ρ = 1/sᵀy, for step s and gradient
//! change y.
//!
//! A coordinate held at its bound has a zero row and column, so that the rest of B learns the inverse Hessian of the
//! face.

/// A dense symmetric matrix, positive definite on the free coordinates.
#[derive(Debug)]
pub(super) struct InverseHessian {
    n: usize,
    /// Row-major.
    entries: Vec<f64>,
    /// Which coordinates have a zero row and column.
    held: Vec<bool>,
}

impl InverseHessian {
    /// `scale` times the identity on the coordinates that are not held.
    pub(super) fn scaled_identity(scale: f64, held: Vec<bool>) -> Self {
        let n = held.len();
        let mut entries = vec![0.0; n * n];
        for (entry, held) in entries.iter_mut().step_by(n + 1).zip(&held) {
            *entry = if *held { 0.0 } else { scale };
        }
        Self { n, entries, held }
    }

    /// Which coordinates are held.
    pub(super) fn held(&self) -> &[bool] {
        &self.held
    }

    /// Takes coordinate i out of the matrix.
    pub(super) fn hold(&mut self, i: usize) {
        self.held[i] = true;
        for (k, row) in self.entries.chunks_exact_mut(self.n).enumerate() {
            row[i] = 0.0;
            if k == i {
                row.fill(0.0);
            }
        }
    }

    /// Lets coordinate i move again, with inverse second derivative `scale`.
    pub(super) fn release(&mut self, i: usize, scale: f64) {
        self.held[i] = false;
        self.entries[i * (self.n + 1)] = scale;
    }

    /// Writes −B g.
    pub(super) fn descend(&self, gradient: &[f64], direction: &mut [f64]) {
        for (row, d) in self.rows().zip(direction) {
            *d = -dot(row, gradient);
        }
    }

    /// The BFGS update; s and y must be zero in the held coordinates and sᵀy positive.
    pub(super) fn update(&mut self, step: &[f64], change: &[f64]) {
        let rho = 1.0 / dot(step, change);
        let product: Vec<f64> = self.rows().map(|row| dot(row, change)).collect();
        let along = rho * (1.0 + rho * dot(&product, change));
        for ((row, s_i), p_i) in self.entries.chunks_exact_mut(self.n).zip(step).zip(&product) {
            for ((entry, s_j), p_j) in row.iter_mut().zip(step).zip(&product) {
                *entry += along * s_i * s_j - rho * (p_i * s_j + s_i * p_j);
            }
        }
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.entries.chunks_exact(self.n.max(1))
    }
}

/// a·b.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
