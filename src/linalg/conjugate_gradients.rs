//! Preconditioned conjugate gradients for S x = b, with S symmetric positive definite and known only through its
//! products.

use super::{add_scaled, dot, norm};

/// When an iteration ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingRule {
    /// Converged when ‖b − Sx‖ ≤ tolerance · ‖b‖.
    pub tolerance: f64,
    /// The most products with S.
    pub max_products: usize,
}

/// How an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// Products with S, including that of a warm start.
    pub products: usize,
    /// ‖b − Sx‖/‖b‖ from the recursion, or the caller's own measure of the error.
    pub residual: f64,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Buffers of conjugate gradients, reused from one system to the next.
///
/// ```
/// use riemannian_laplace::internals::linalg::{ConjugateGradients, StoppingRule};
/// let (mut solver, mut x) = (ConjugateGradients::new(2), [0.0; 2]);
/// let rule = StoppingRule { tolerance: 1e-12, max_products: 10 };
/// let times = |u: &[f64], product: &mut [f64]| {
///     (product[0], product[1]) = (4.0 * u[0] + u[1], u[0] + 3.0 * u[1]);
/// };
/// let end = solver.solve(&[1.0, 2.0], &mut x, rule, times, |u, solved| solved.copy_from_slice(u));
/// assert!(end.converged && end.products == 2);
/// assert!((x[0] - 1.0 / 11.0).abs() < 1e-12 && (x[1] - 7.0 / 11.0).abs() < 1e-12);
/// ```
#[derive(Debug, Clone)]
pub struct ConjugateGradients {
    residual: Vec<f64>,
    direction: Vec<f64>,
    image: Vec<f64>,
    corrected: Vec<f64>,
}

impl ConjugateGradients {
    /// Buffers for systems of this size.
    pub fn new(size: usize) -> Self {
        let zeros = vec![0.0; size];
        Self { residual: zeros.clone(), direction: zeros.clone(), image: zeros.clone(), corrected: zeros }
    }

    /// Solves S x = b from the x that `solution` holds (zero, or a guess; a guess worse than zero is not used) until
    /// ‖b − Sx‖ ≤ tolerance · ‖b‖. Where b is not finite, neither is x. `times` writes S u, `precondition` writes P⁻¹u
    /// with P a symmetric positive definite approximation of S.
    pub fn solve(
        &mut self,
        rhs: &[f64],
        solution: &mut [f64],
        rule: StoppingRule,
        times: impl FnMut(&[f64], &mut [f64]),
        precondition: impl FnMut(&[f64], &mut [f64]),
    ) -> Convergence {
        let scale = norm(rhs);
        self.solve_by(rhs, solution, rule, times, precondition, |iterate| norm(iterate.residual) / scale)
    }

    /// The same until `error` of the iterate is at most the tolerance. That error is what is reported as the residual.
    pub fn solve_by(
        &mut self,
        rhs: &[f64],
        solution: &mut [f64],
        rule: StoppingRule,
        mut times: impl FnMut(&[f64], &mut [f64]),
        mut precondition: impl FnMut(&[f64], &mut [f64]),
        mut error: impl FnMut(Iterate<'_>) -> f64,
    ) -> Convergence {
        let Self { residual, direction, image, corrected } = self;
        let scale = norm(rhs);
        if scale == 0.0 {
            solution.fill(0.0);
            return Convergence { products: 0, residual: 0.0, converged: true };
        }
        if !scale.is_finite() {
            solution.fill(f64::NAN);
            return Convergence { products: 0, residual: f64::NAN, converged: false };
        }
        let mut products = 0;
        residual.copy_from_slice(rhs);
        if solution.iter().any(|value| *value != 0.0) {
            times(solution, image);
            products += 1;
            add_scaled(-1.0, image, residual);
            let helpful = norm(residual) < scale;
            if !helpful {
                solution.fill(0.0);
                residual.copy_from_slice(rhs);
            }
        }
        let (mut before, mut descent) = (0.0, 0.0);
        let left = loop {
            precondition(residual, corrected);
            let now = dot(residual, corrected);
            let left = error(Iterate { solution, residual, corrected: now, descent });
            if left <= rule.tolerance || products >= rule.max_products {
                break left;
            }
            let turn = if before == 0.0 { 0.0 } else { now / before };
            for (value, corrected) in direction.iter_mut().zip(&*corrected) {
                *value = corrected + turn * *value;
            }
            times(direction, image);
            products += 1;
            let bend = dot(direction, image);
            if !(now > 0.0 && bend > 0.0) {
                // Rounding errors dominate: further products tell nothing new.
                break left;
            }
            let step = now / bend;
            add_scaled(step, direction, solution);
            add_scaled(-step, image, residual);
            (before, descent) = (now, step * now);
        };
        Convergence { products, residual: left, converged: left <= rule.tolerance }
    }
}

/// Where an iteration stands.
#[derive(Debug, Clone, Copy)]
pub struct Iterate<'a> {
    /// x.
    pub solution: &'a [f64],
    /// r = b − Sx, from the recursion.
    pub residual: &'a [f64],
    /// rᵀP⁻¹r.
    pub corrected: f64,
    /// The amount by which the last step diminished the squared error (x − S⁻¹b)ᵀS(x − S⁻¹b); zero before the first.
    pub descent: f64,
}
