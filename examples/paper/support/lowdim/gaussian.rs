//! The isotropic Gaussian N(0, I) in D dimensions, on which the Monge metric is biased.

use ndarray::Array2;
use riemannian_laplace::Result;
use riemannian_laplace::internals::paper::problems::Identity;
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::internals::target::Target;

use super::placement::Placement;
use super::truth::{Truth, log_normal, normal};

/// The target, and the approximation at its centre.
pub fn placed(dimension: usize) -> Result<(Target, Placement)> {
    let target = Identity::gaussian(&vec![1.0; dimension])?;
    let placement = Placement::with_fisher(&target, vec![0.0; dimension])?;
    Ok((target, placement))
}

/// The first seed for a dimension. With the same seed the first coordinates would be the same in every dimension.
pub fn seed(dimension: usize) -> u64 {
    1_000 * dimension as u64
}

/// The first coordinates of exact samples, N(0, 1) whatever D: distances are computed there.
pub fn exact_first(count: usize, seed: u64) -> Array2<f64> {
    let mut values = Array2::zeros((count, 1));
    for (index, mut row) in values.rows_mut().into_iter().enumerate() {
        let mut value = [0.0];
        fill_standard_normal(&mut stream(seed, Purpose::Velocity, index as u64), &mut value);
        row[0] = value[0];
    }
    values
}

/// N(0, I) in the plane.
pub fn planar_truth() -> Truth {
    let log_density = |theta: [f64; 2]| log_normal(theta[0], 1.0) + log_normal(theta[1], 1.0);
    let along = |x| normal(x, 1.0);
    Truth { log_density: Box::new(log_density), marginals: [Box::new(along), Box::new(along)] }
}
