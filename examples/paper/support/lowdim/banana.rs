//! The banana: yₙ ~ N(θ₁ + θ₂², σ²), θ ~ N(0, σ²I). Given θ₂ the posterior of θ₁ is Gaussian, which leaves
//! p(θ₂ | y) ∝ N(θ₂ | 0, σ²) N(ȳ − θ₂² | 0, σ²(1 + 1/N)): it can be sampled exactly.

use std::path::Path;

use ndarray::Array2;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use riemannian_laplace::Result;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::paper::problems::Banana;
use riemannian_laplace::internals::paper::reference::NutsOptions;
use riemannian_laplace::internals::target::Target;

use super::Size;
use super::chains::nuts_options;
use super::placement::Placement;
use super::truth::{Truth, integral, log_normal, planar_draws};

/// The maximum at which an approximation is centred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapChoice {
    /// The maximum of the density, with the negative Hessian as precision.
    Euclidean,
    /// The maximum with respect to the Fisher metric's volume, with the Fisher metric as precision.
    Hausdorff,
}

impl MapChoice {
    pub const BOTH: [Self; 2] = [Self::Euclidean, Self::Hausdorff];

    pub fn name(self) -> &'static str {
        match self {
            Self::Euclidean => "Euclidean",
            Self::Hausdorff => "Hausdorff",
        }
    }
}

/// The paper's 100 observations.
pub fn observations() -> Result<Vec<f64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/banana.csv");
    Ok(Table::read(&path)?.dataset(&["y".to_string()])?.targets().iter().copied().collect())
}

/// The approximation of the banana at one of its maxima.
pub fn placed(target: &Target, map: MapChoice) -> Result<Placement> {
    match map {
        MapChoice::Euclidean => Placement::euclidean(target),
        MapChoice::Hausdorff => Placement::hausdorff(target),
    }
}

/// The posterior in closed form, up to the normaliser of θ₂'s marginal.
#[derive(Debug, Clone, Copy)]
struct Posterior {
    count: f64,
    mean: f64,
}

impl Posterior {
    const VARIANCE: f64 = Banana::DEVIATION * Banana::DEVIATION;

    fn new(observations: &[f64]) -> Self {
        let count = observations.len() as f64;
        Self { count, mean: observations.iter().sum::<f64>() / count }
    }

    /// (ȳ − θ₂²)² / 2σ²(1 + 1/N): minus the logarithm of the evidence of θ₂, relative to its maximum.
    fn misfit(self, theta_2: f64) -> f64 {
        (self.mean - theta_2 * theta_2).powi(2) / (2.0 * Self::VARIANCE * (1.0 + 1.0 / self.count))
    }

    /// Mean and variance of θ₁ given θ₂.
    fn conditional(self, theta_2: f64) -> (f64, f64) {
        let mean = self.count * (self.mean - theta_2 * theta_2) / (self.count + 1.0);
        (mean, Self::VARIANCE / (self.count + 1.0))
    }
}

/// Exact samples of the posterior: θ₂ from its prior, accepted with probability e^(−misfit) ≤ 1; then θ₁ given θ₂.
///
/// These are independent and without the error that a Markov chain or a grid would have.
pub fn reference(observations: &[f64], count: usize, seed: u64) -> Array2<f64> {
    let posterior = Posterior::new(observations);
    planar_draws(count, seed, |generator| {
        loop {
            let standard: f64 = StandardNormal.sample(generator);
            let theta_2 = Banana::DEVIATION * standard;
            if generator.random::<f64>() < (-posterior.misfit(theta_2)).exp() {
                let (mean, variance) = posterior.conditional(theta_2);
                let standard: f64 = StandardNormal.sample(generator);
                break [mean + variance.sqrt() * standard, theta_2];
            }
        }
    })
}

/// A run of NUTS, with the paper's acceptance rate for the banana. Draws move along its arms so slowly that even small
/// runs keep only one in ten.
pub fn nuts_settings(size: Size, seed: u64) -> NutsOptions {
    let options = nuts_options(size, seed);
    let (draws, thinning) = (options.kept_per_chain() * 10, 10);
    NutsOptions { target_accept: 0.95, draws, thinning, ..options }
}

/// The posterior density.
pub fn truth(observations: &[f64]) -> Truth {
    let posterior = Posterior::new(observations);
    let unnormalised = move |theta_2: f64| log_normal(theta_2, Posterior::VARIANCE) - posterior.misfit(theta_2);
    let reach = 8.0 * Banana::DEVIATION;
    let log_evidence = integral(-reach, reach, |theta_2| unnormalised(theta_2).exp()).ln();
    let log_along = move |theta_2| unnormalised(theta_2) - log_evidence;
    let log_density = move |theta: [f64; 2]| {
        let (mean, variance) = posterior.conditional(theta[1]);
        log_along(theta[1]) + log_normal(theta[0] - mean, variance)
    };
    let marginal = move |theta_1| {
        let joint = |theta_2| log_density([theta_1, theta_2]).exp();
        integral(-reach, reach, joint)
    };
    let along = move |theta_2| log_along(theta_2).exp();
    Truth { log_density: Box::new(log_density), marginals: [Box::new(marginal), Box::new(along)] }
}
