//! Diagonals of the curvature and covariances in blocks, against dense rows.

use std::sync::Arc;

use faer::Mat;
use riemannian_laplace::Model;
use riemannian_laplace::internals::linalg::{Cholesky, symmetric_eigen};
use riemannian_laplace::internals::map::{
    Bases, BlockCovariance, BlockShape, MatrixCovariance, add_dense_point_covariances,
};

use super::common::{Outcome, assert_all_close, normal_matrix, normal_vector};
use super::{Case, POINTS, cases, dense, pulled_back};

fn random(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
    let values = normal_matrix(rows, columns, seed);
    Mat::from_fn(rows, columns, |i, j| values[(i, j)])
}

/// An orthogonal matrix.
fn basis(size: usize, seed: u64) -> Mat<f64> {
    let matrix = random(size, size, seed);
    symmetric_eigen((&matrix + matrix.transpose()).as_ref(), "a random matrix").expect("eigenvectors").vectors
}

fn positive(size: usize, seed: u64) -> Vec<f64> {
    normal_vector(size, seed).into_iter().map(|value| 0.1 + value * value).collect()
}

/// A random covariance of each block, and all of it as one dense matrix, from its definition entry by entry.
fn random_covariance(shapes: &[BlockShape], rotated: bool, seed: u64) -> (Vec<BlockCovariance>, Mat<f64>) {
    let size = shapes.iter().map(|shape| shape.size()).sum();
    let (mut blocks, mut whole, mut start) = (Vec::new(), Mat::zeros(size, size), 0);
    for (index, shape) in shapes.iter().enumerate() {
        let seed = seed + 10 * index as u64;
        match *shape {
            BlockShape::Matrix { outputs, inputs, bias } => {
                let (q_b, q_a) = (basis(outputs, seed), basis(inputs, seed + 1));
                let (q_b, q_a) =
                    if rotated { (q_b, q_a) } else { (Mat::identity(outputs, outputs), Mat::identity(inputs, inputs)) };
                let weights = positive(inputs * outputs, seed + 2);
                let variances = Mat::from_fn(inputs, outputs, |i, o| weights[o * inputs + i]);
                let bias = bias.then(|| positive(outputs, seed + 3));
                for (o, i) in (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i))) {
                    for (p, j) in (0..outputs).flat_map(|p| (0..inputs).map(move |j| (p, j))) {
                        let mut sum = 0.0;
                        for (b, a) in (0..outputs).flat_map(|b| (0..inputs).map(move |a| (b, a))) {
                            sum += q_b[(o, b)] * q_a[(i, a)] * variances[(a, b)] * q_b[(p, b)] * q_a[(j, a)];
                        }
                        whole[(start + o * inputs + i, start + p * inputs + j)] = sum;
                    }
                }
                let after = start + inputs * outputs;
                for (o, p) in (0..outputs).flat_map(|o| (0..outputs).map(move |p| (o, p))) {
                    if let Some(bias) = &bias {
                        let terms = (0..outputs).map(|b| q_b[(o, b)] * bias[b] * q_b[(p, b)]);
                        whole[(after + o, after + p)] = terms.sum();
                    }
                }
                let bases = rotated.then(|| Bases { outputs: Arc::new(q_b), inputs: Arc::new(q_a) });
                blocks.push(BlockCovariance::Matrix(MatrixCovariance { bases, variances, bias }));
            }
            BlockShape::Dense { size } => {
                let variances = positive(size, seed);
                (0..size).for_each(|d| whole[(start + d, start + d)] = variances[d]);
                blocks.push(BlockCovariance::Diagonal(variances));
            }
        }
        start += shape.size();
    }
    (blocks, whole)
}

#[test]
fn squares_of_rows_are_those_of_dense_rows() {
    for Case { network, map, name, .. } in cases() {
        let (theta, p) = (network.parameters(), map.n_outputs());
        let seeds = normal_vector(POINTS * p * p, 71);
        let mut sums = vec![1.0; theta.len()];
        pulled_back(&map, theta, &seeds, p).add_squares(&mut sums);
        let rows = dense(&map, theta, &seeds, p);
        let expected: Vec<f64> = rows.col_iter().map(|column| 1.0 + column.squared_norm_l2()).collect();
        assert_all_close(&sums, &expected, 1e-13, &name);
    }
}

#[test]
fn covariances_at_points_are_those_of_dense_rows_and_a_dense_covariance() {
    for Case { network, map, name, .. } in cases() {
        let (theta, p) = (network.parameters(), map.n_outputs());
        let seeds = normal_vector(POINTS * p * p, 72);
        let (pulled, rows) = (pulled_back(&map, theta, &seeds, p), dense(&map, theta, &seeds, p));
        for rotated in [false, true] {
            let (blocks, covariance) = random_covariance(&network.blocks(), rotated, 73);
            let all = &rows * &covariance * rows.transpose();
            let entry = |n: usize, k: usize, l: usize| all[(k * POINTS + n, l * POINTS + n)];
            let expected: Vec<f64> = (0..POINTS)
                .flat_map(|n| (0..p * p).map(move |index| (n, index / p, index % p)))
                .map(|(n, k, l)| 2.0 + entry(n, k, l))
                .collect();
            let mut found = vec![2.0; expected.len()];
            pulled.add_point_covariances(POINTS, &blocks, &mut found);
            assert_all_close(&found, &expected, 1e-12, &name);
            found.fill(2.0);
            add_dense_point_covariances(rows.as_ref(), POINTS, &blocks, &mut found);
            assert_all_close(&found, &expected, 1e-12, &name);
        }
    }
}

#[test]
fn a_dense_block_is_the_inverse_of_its_precision() -> Outcome {
    // G = [[2, 1], [1, 2]], so that G⁻¹ = [[2, −1], [−1, 2]]/3.
    let mut factor = Cholesky::new(2);
    let mut matrix = factor.matrix_mut();
    (matrix[(0, 0)], matrix[(1, 0)], matrix[(1, 1)]) = (2.0, 1.0, 2.0);
    factor.factor().map_err(|pivot| format!("{pivot:?}"))?;
    let rows = faer::mat![[1.0, 0.0], [1.0, 3.0]];
    let white = BlockCovariance::Dense(factor).whiten(rows.as_ref());
    let covariance = white.transpose() * &white;
    let thirds: Vec<f64> = [2.0, -1.0, -1.0, 14.0].iter().map(|value| value / 3.0).collect();
    assert_all_close(&super::as_list(&covariance), &thirds, 1e-14, "a dense block");
    Ok(())
}
