//! Conjugate gradients for a block of right-hand sides that share one space: (I + K)X = B with each column's error the least
//! over all directions that any column has found so far. Where a few hundred eigenvalues of K stand out, the shared space
//! meets them many at a time: on MNIST (784-256-10) a block of 24 takes 18 products per column for an error of 5e-3, where
//! each column alone takes 54 (and 34 with a Kronecker-factored preconditioner, which a block does not improve).
//!
//! The residuals are kept as QC with orthonormal columns Q, so that columns that become dependent, or converge early, do no
//! harm: their directions are dropped (Dubrulle 2001, "Retooling the method of block conjugate gradients").

use std::collections::VecDeque;

use faer::{Accum, Mat};

use crate::linalg::{
    Cholesky, StoppingRule, column_slice, column_slice_mut, mirror_lower, multiply, multiply_by_own_transpose,
    symmetric_eigen,
};

/// The error before the last steps is measured by what these have gained (Strakoš and Tichý 2002).
const DELAY: usize = 2;
/// A direction is dropped when its square is below this share of the largest: what is left of it is rounding.
const DEPENDENT: f64 = 1e-13;
/// A residual whose square is below this, in units of the block's own, is zero.
const VANISHED: f64 = 1e-26;

/// The solutions of (I + K)x = b, and the largest relative error ‖δx‖/‖x‖ in the norm of I + K. `times` writes K u for each
/// u. The tolerance should be no less than 1e-6.
pub(super) fn solve_as_block(
    forces: &[Vec<f64>],
    rule: StoppingRule,
    times: impl Fn(&[&[f64]]) -> Vec<Vec<f64>>,
) -> (Vec<Vec<f64>>, f64) {
    let (size, count) = (forces.first().map_or(0, Vec::len), forces.len());
    let columns = Mat::from_fn(size, count, |d, column| forces[column][d]);
    let mut solutions: Mat<f64> = Mat::zeros(size, count);
    let (mut gains, mut totals) = (VecDeque::new(), vec![0.0; count]);
    let Some((mut residuals, mut shares)) = orthonormal(&columns) else {
        return (vec![vec![f64::NAN; size]; count], f64::INFINITY);
    };
    let mut directions = residuals.clone();
    let mut worst = if directions.ncols() == 0 { 0.0 } else { f64::INFINITY };
    drop(columns);
    for _ in 0..rule.max_products {
        if directions.ncols() == 0 {
            break;
        }
        let Some(step) = Step::new(&directions, &times) else { break };
        let lengths = step.inverse_times(&shares);
        let gain: Vec<f64> =
            (0..count).map(|j| (0..shares.nrows()).map(|i| shares[(i, j)] * lengths[(i, j)]).sum()).collect();
        totals.iter_mut().zip(&gain).for_each(|(total, gain)| *total += gain);
        multiply(solutions.as_mut(), Accum::Add, directions.as_ref(), lengths.as_ref());
        gains.push_back(gain);
        if gains.len() > DELAY {
            gains.pop_front();
        }
        let error = |j: usize| match gains.iter().map(|gain: &Vec<f64>| gain[j]).sum::<f64>() / totals[j] {
            _ if totals[j] == 0.0 => 0.0,
            square if square.is_nan() => f64::INFINITY,
            square => square.max(0.0).sqrt(),
        };
        worst = (0..count).map(error).fold(0.0, f64::max);
        let identity = Mat::identity(directions.ncols(), directions.ncols());
        let back = faer::Scale(-1.0) * &step.inverse_times(&identity);
        multiply(residuals.as_mut(), Accum::Add, step.images.as_ref(), back.as_ref());
        let Some((next, turn)) = orthonormal(&residuals) else { break };
        if next.ncols() == 0 {
            worst = 0.0;
            break;
        }
        if gains.len() == DELAY && worst <= rule.tolerance {
            break;
        }
        let mut turned = next.clone();
        multiply(turned.as_mut(), Accum::Add, directions.as_ref(), turn.transpose());
        let mut next_shares = Mat::zeros(turn.nrows(), count);
        multiply(next_shares.as_mut(), Accum::Replace, turn.as_ref(), shares.as_ref());
        (residuals, directions, shares) = (next, turned, next_shares);
    }
    (solutions.col_iter().map(|column| column_slice(column).to_vec()).collect(), worst)
}

/// The images Z = (I + K)S of the directions, and the factor of SᵀZ.
struct Step {
    images: Mat<f64>,
    bends: Cholesky,
}

impl Step {
    /// None where rounding errors dominate.
    fn new(directions: &Mat<f64>, times: impl Fn(&[&[f64]]) -> Vec<Vec<f64>>) -> Option<Self> {
        let width = directions.ncols();
        let slices: Vec<&[f64]> = directions.col_iter().map(column_slice).collect();
        let mut images = directions.clone();
        for (column, image) in images.col_iter_mut().zip(times(&slices)) {
            column_slice_mut(column).iter_mut().zip(&image).for_each(|(value, image)| *value += image);
        }
        let mut product: Mat<f64> = Mat::zeros(width, width);
        multiply(product.as_mut(), Accum::Replace, directions.transpose(), images.as_ref());
        let mut bends = Cholesky::new(width);
        let mut matrix = bends.matrix_mut();
        for j in 0..width {
            for i in j..width {
                matrix[(i, j)] = 0.5 * (product[(i, j)] + product[(j, i)]);
            }
        }
        bends.factor().ok()?;
        Some(Self { images, bends })
    }

    /// (SᵀZ)⁻¹M.
    fn inverse_times(&self, matrix: &Mat<f64>) -> Mat<f64> {
        let mut solved = matrix.clone();
        solved.col_iter_mut().for_each(|column| self.bends.solve(column_slice_mut(column)));
        solved
    }
}

/// R = QC with orthonormal columns Q, as many as R has independent ones; none where R is not finite.
fn orthonormal(columns: &Mat<f64>) -> Option<(Mat<f64>, Mat<f64>)> {
    let (size, width) = (columns.nrows(), columns.ncols());
    let mut gram = Mat::zeros(width, width);
    multiply_by_own_transpose(gram.as_mut(), Accum::Replace, columns.transpose());
    mirror_lower(&mut gram);
    let eigen = symmetric_eigen(gram.as_ref(), "the products of a block of residuals").ok()?;
    if !eigen.values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let largest = eigen.values.iter().copied().fold(0.0, f64::max);
    let kept: Vec<usize> = (0..width).filter(|i| eigen.values[*i] > (DEPENDENT * largest).max(VANISHED)).collect();
    let root = |k: usize| eigen.values[kept[k]].sqrt();
    let scaled = Mat::from_fn(width, kept.len(), |i, k| eigen.vectors[(i, kept[k])] / root(k));
    let mut basis = Mat::zeros(size, kept.len());
    multiply(basis.as_mut(), Accum::Replace, columns.as_ref(), scaled.as_ref());
    Some((basis, Mat::from_fn(kept.len(), width, |k, j| root(k) * eigen.vectors[(j, kept[k])])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::dot;

    /// A diagonal K, whose solutions are known: a few eigenvalues stand out from many small ones.
    fn diagonal(size: usize) -> Vec<f64> {
        (0..size).map(|d| if d < 30 { 2000.0 / (1 + d) as f64 } else { 3.0 * d as f64 / size as f64 }).collect()
    }

    fn solve(forces: &[Vec<f64>], tolerance: f64) -> (Vec<Vec<f64>>, f64, usize) {
        let values = diagonal(forces[0].len());
        let count = std::cell::Cell::new(0);
        let rule = StoppingRule { tolerance, max_products: 200 };
        let (solutions, worst) = solve_as_block(forces, rule, |directions| {
            count.set(count.get() + directions.len());
            directions.iter().map(|u| u.iter().zip(&values).map(|(u, value)| u * value).collect()).collect()
        });
        (solutions, worst, count.get())
    }

    fn force(index: usize, size: usize) -> Vec<f64> {
        (0..size).map(|d| (1.0 + (d * (3 * index + 1)) as f64).sin()).collect()
    }

    /// ‖δx‖²/‖x‖² in the norm of I + K.
    fn error(solution: &[f64], force: &[f64]) -> f64 {
        let values = diagonal(force.len());
        let exact: Vec<f64> = force.iter().zip(&values).map(|(b, value)| b / (1.0 + value)).collect();
        let square = |x: &[f64]| x.iter().zip(&values).map(|(x, value)| x * x * (1.0 + value)).sum::<f64>();
        let off: Vec<f64> = solution.iter().zip(&exact).map(|(a, b)| a - b).collect();
        (square(&off) / square(&exact)).sqrt()
    }

    #[test]
    fn errors_are_within_the_tolerance_and_a_block_takes_fewer_products() {
        let forces: Vec<Vec<f64>> = (0..6).map(|index| force(index, 300)).collect();
        let (solutions, worst, products) = solve(&forces, 1e-3);
        assert!(worst <= 1e-3);
        for (solution, force) in solutions.iter().zip(&forces) {
            assert!(error(solution, force) < 1e-3, "{}", error(solution, force));
        }
        let alone: usize = forces.iter().map(|force| solve(std::slice::from_ref(force), 1e-3).2).sum();
        assert!(2 * products < alone, "{products}, {alone}");
    }

    #[test]
    fn dependent_columns_and_zeros_do_no_harm() {
        let (one, other) = (force(0, 40), force(1, 40));
        let sum: Vec<f64> = one.iter().zip(&other).map(|(a, b)| a + 2.0 * b).collect();
        let forces = [one, vec![0.0; 40], other, sum];
        let (solutions, worst, _) = solve(&forces, 1e-5);
        assert!(worst <= 1e-5);
        assert!(solutions[1].iter().all(|value| value.abs() < 1e-12));
        for index in [0, 2, 3] {
            assert!(error(&solutions[index], &forces[index]) < 1e-5, "{index}");
        }
        assert_eq!(solve(&[vec![0.0; 5]], 1e-3).2, 0);
        // More columns than dimensions: one step finds them all.
        let many: Vec<Vec<f64>> = (0..9).map(|index| force(index, 4)).collect();
        let (solutions, _, products) = solve(&many, 1e-6);
        assert!(products <= 8);
        assert!(many.iter().zip(&solutions).all(|(force, solution)| error(solution, force) < 1e-6));
    }

    #[test]
    fn what_is_not_finite_never_converges() {
        let (solutions, worst, _) = solve(&[vec![f64::NAN, 1.0]], 1e-3);
        assert!(worst.is_infinite() && !dot(&solutions[0], &solutions[0]).is_finite());
    }
}
