//! The Lanczos process with full reorthogonalisation: from a start z, an orthonormal basis V of span{z, Kz, …} with
//! KV = VT + βv₊eᵀ and T tridiagonal, whose eigenvalues λᵢ and weights (first entries of the eigenvectors, squared) are a
//! Gauss quadrature: zᵀf(K)z ≈ ‖z‖² Σᵢ τᵢ² f(λᵢ), exact for polynomials of degree 2k − 1 (Golub and Meurant 1994).

use faer::Mat;

use crate::linalg::{SymmetricEigen, add_scaled, dot, norm, symmetric_eigen};

/// An off-diagonal entry below this share of the largest entry means that the space is exhausted.
const EXHAUSTED: f64 = 1e-13;

/// One start's basis and tridiagonal matrix.
#[derive(Debug, Clone)]
pub(super) struct Krylov {
    /// V, and v₊ after it unless the space is exhausted.
    basis: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    /// β of each step, the last one that of v₊.
    off_diagonal: Vec<f64>,
    largest: f64,
    is_exhausted: bool,
}

impl Krylov {
    /// From a start z ≠ 0.
    pub(super) fn new(mut start: Vec<f64>) -> Self {
        let length = norm(&start);
        start.iter_mut().for_each(|value| *value /= length);
        Self { basis: vec![start], diagonal: Vec::new(), off_diagonal: Vec::new(), largest: 0.0, is_exhausted: false }
    }

    /// Steps taken.
    pub(super) fn steps(&self) -> usize {
        self.diagonal.len()
    }

    /// The vector whose image the next step needs; none where the space is exhausted.
    pub(super) fn next(&self) -> Option<&[f64]> {
        if self.is_exhausted { None } else { self.basis.last().map(Vec::as_slice) }
    }

    /// Takes a step with the image Kv of [`next`](Self::next).
    pub(super) fn step(&mut self, mut image: Vec<f64>) {
        let last = self.basis.len() - 1;
        let entry = dot(&self.basis[last], &image);
        // Twice is enough (Kahan; Parlett 1980).
        for _ in 0..2 {
            for vector in &self.basis {
                add_scaled(-dot(vector, &image), vector, &mut image);
            }
        }
        let length = norm(&image);
        self.diagonal.push(entry);
        self.off_diagonal.push(length);
        self.largest = self.largest.max(entry.abs()).max(length);
        if length <= EXHAUSTED * self.largest || self.basis.len() == image.len() || !length.is_finite() {
            self.is_exhausted = true;
            return;
        }
        image.iter_mut().for_each(|value| *value /= length);
        self.basis.push(image);
    }

    /// V.
    pub(super) fn basis(&self) -> Vec<&[f64]> {
        self.basis.iter().take(self.steps()).map(Vec::as_slice).collect()
    }

    /// Column j of KV, from the recursion.
    pub(super) fn image(&self, j: usize) -> Vec<f64> {
        let mut image = vec![0.0; self.basis[0].len()];
        if j > 0 {
            add_scaled(self.off_diagonal[j - 1], &self.basis[j - 1], &mut image);
        }
        add_scaled(self.diagonal[j], &self.basis[j], &mut image);
        if let Some(after) = self.basis.get(j + 1) {
            add_scaled(self.off_diagonal[j], after, &mut image);
        }
        image
    }

    /// The eigenvalues and eigenvectors of T after the first `steps` steps; none where T is not finite.
    pub(super) fn eigen(&self, steps: usize) -> Option<SymmetricEigen> {
        let steps = steps.min(self.steps());
        let entry = |i: usize, j: usize| match i.abs_diff(j) {
            0 => self.diagonal[i],
            1 => self.off_diagonal[i.min(j)],
            _ => 0.0,
        };
        symmetric_eigen(Mat::from_fn(steps, steps, entry).as_ref(), "the tridiagonal matrix of Lanczos").ok()
    }

    /// The quadrature's nodes λ ≥ 0 and weights τ² after the first `steps` steps.
    pub(super) fn nodes(&self, steps: usize) -> Vec<(f64, f64)> {
        match self.eigen(steps) {
            Some(eigen) => {
                let node = |(i, value): (usize, &f64)| (value.max(0.0), eigen.vectors[(0, i)].powi(2));
                eigen.values.iter().enumerate().map(node).collect()
            }
            None => vec![(f64::NAN, 1.0)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_process_is_the_eigendecomposition() {
        // K = diag(0, 0, 1, 2, 5): four different eigenvalues, so four steps exhaust the space.
        let values = [0.0, 0.0, 1.0, 2.0, 5.0];
        let mut krylov = Krylov::new(vec![1.0, -1.0, 1.0, 1.0, -1.0]);
        while let Some(vector) = krylov.next() {
            let image = vector.iter().zip(values).map(|(entry, value)| entry * value).collect();
            krylov.step(image);
        }
        assert_eq!(krylov.steps(), 4);
        let nodes = krylov.nodes(4);
        for ((node, weight), (value, share)) in nodes.iter().zip([(0.0, 0.4), (1.0, 0.2), (2.0, 0.2), (5.0, 0.2)]) {
            assert!((node - value).abs() < 1e-13 && (weight - share).abs() < 1e-13, "{nodes:?}");
        }
    }

    #[test]
    fn k_steps_integrate_polynomials_of_degree_two_k_minus_one() {
        let values: Vec<f64> = (0..30).map(|d| (f64::from(d) / 7.0).exp()).collect();
        let start: Vec<f64> = (0..30).map(|d| 1.0 + (3.0 * f64::from(d)).sin()).collect();
        let mut krylov = Krylov::new(start.clone());
        for _ in 0..4 {
            let image = krylov.next().map(|v| v.iter().zip(&values).map(|(v, value)| v * value).collect());
            krylov.step(image.unwrap_or_default());
        }
        for degree in 0..8 {
            let exact: f64 = start.iter().zip(&values).map(|(z, value)| z * z * value.powi(degree)).sum();
            let found: f64 = krylov.nodes(4).iter().map(|(node, weight)| weight * node.powi(degree)).sum();
            assert!((found * dot(&start, &start) / exact - 1.0).abs() < 1e-12, "{degree}");
        }
    }
}
