//! The squiggle: a Gaussian seen through θ = φ(ψ), hence with exact samples.

use ndarray::Array2;
use riemannian_laplace::Result;
use riemannian_laplace::internals::paper::problems::Squiggle;
use riemannian_laplace::internals::random::fill_standard_normal;
use riemannian_laplace::internals::target::Target;

use super::placement::Placement;
use super::truth::{Truth, integral, log_normal, normal, planar_draws};

/// The target, and the approximation at its Hausdorff MAP, 0, where Fisher metric and negative Hessian agree.
pub fn placed(squiggle: Squiggle) -> Result<(Target, Placement)> {
    let target = squiggle.target()?;
    let placement = Placement::with_fisher(&target, vec![0.0, 0.0])?;
    Ok((target, placement))
}

/// Exact samples φ(ψ), ψ ~ N(0, S).
pub fn exact(squiggle: Squiggle, count: usize, seed: u64) -> Array2<f64> {
    planar_draws(count, seed, |generator| {
        let mut psi = [0.0; 2];
        fill_standard_normal(generator, &mut psi);
        let [first, second] = squiggle.variances.map(f64::sqrt);
        squiggle.forward([first * psi[0], second * psi[1]])
    })
}

/// N(φ⁻¹(θ) | 0, S): φ preserves volumes.
pub fn truth(squiggle: Squiggle) -> Truth {
    let [first, second] = squiggle.variances;
    let log_density = move |theta| {
        let psi = squiggle.inverse(theta);
        log_normal(psi[0], first) + log_normal(psi[1], second)
    };
    let reach = 8.0 * first.sqrt();
    let marginal = move |theta_2| {
        let joint = |theta_1| log_density([theta_1, theta_2]).exp();
        integral(-reach, reach, joint)
    };
    let along = move |theta_1| normal(theta_1, first);
    Truth { log_density: Box::new(log_density), marginals: [Box::new(along), Box::new(marginal)] }
}
