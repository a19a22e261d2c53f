//! Neal's funnel: a Gaussian seen through θ = φ(ψ), hence with exact samples.

use ndarray::Array2;
use riemannian_laplace::Result;
use riemannian_laplace::internals::paper::problems::Funnel;
use riemannian_laplace::internals::random::fill_standard_normal;
use riemannian_laplace::internals::target::Target;

use super::placement::Placement;
use super::truth::{Truth, integral, log_normal, normal, planar_draws};

/// The target, and the approximation at its Hausdorff MAP, 0, with the Fisher metric diag(1, 1/σ²) as precision.
pub fn placed(funnel: Funnel) -> Result<(Target, Placement)> {
    let target = funnel.target()?;
    let placement = Placement::with_fisher(&target, vec![0.0, 0.0])?;
    Ok((target, placement))
}

/// Exact samples φ(ψ), ψ ~ N(0, I).
pub fn exact(funnel: Funnel, count: usize, seed: u64) -> Array2<f64> {
    planar_draws(count, seed, |generator| {
        let mut psi = [0.0; 2];
        fill_standard_normal(generator, &mut psi);
        funnel.forward(psi)
    })
}

/// N(θ₂ | 0, σ²) N(θ₁ | 0, e^θ₂).
pub fn truth(funnel: Funnel) -> Truth {
    let variance = funnel.sigma * funnel.sigma;
    let log_density = move |theta: [f64; 2]| log_normal(theta[1], variance) + log_normal(theta[0], theta[1].exp());
    let reach = 10.0 * funnel.sigma;
    let marginal = move |theta_1| {
        let joint = |theta_2| log_density([theta_1, theta_2]).exp();
        integral(-reach, reach, joint)
    };
    let along = move |theta_2| normal(theta_2, variance);
    Truth { log_density: Box::new(log_density), marginals: [Box::new(marginal), Box::new(along)] }
}
