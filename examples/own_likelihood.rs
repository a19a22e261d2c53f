//! A likelihood of one's own: targets that are cut off at a limit of detection, so that all that is known of some is that
//! they are at least that large (a censored, or Tobit, regression).
//!
//! `cargo run --release --example own_likelihood`

use std::error::Error;

use ndarray::{Array2, Axis};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use riemannian_laplace::internals::likelihood::{Likelihood, Registered, TargetError, check_likelihood};
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::prelude::*;

const LIMIT: f64 = 1.0;
const SIGMA: f64 = 0.3;

/// y = min(f + σε, limit).
#[derive(Debug, Clone, Copy)]
struct Censored;

/// φ(z).
fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// 1 − Φ(z).
fn tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// φ(z)/(1 − Φ(z)), also far out, where both vanish.
fn hazard(z: f64) -> f64 {
    if z > 30.0 { z + 1.0 / z } else { density(z) / tail(z) }
}

/// z and the limit at outputs f.
fn limit(f: f64) -> f64 {
    (LIMIT - f) / SIGMA
}

/// σ²H = Φ − zφ + φ²/(1 − Φ) at z = (limit − f)/σ.
fn information(f: f64) -> f64 {
    let z = limit(f);
    1.0 - tail(z) - z * density(z) + density(z) * hazard(z)
}

/// Its derivative by z: φ (z − λ)², with the hazard λ. (Each term's own derivative, collected.)
fn information_slope(f: f64) -> f64 {
    let z = limit(f);
    density(z) * (z - hazard(z)).powi(2)
}

impl Likelihood for Censored {
    fn name(&self) -> &'static str {
        "censored"
    }

    fn validate(&self, target: &[f64], outputs: usize) -> Result<(), TargetError> {
        match target {
            [y] if y.is_finite() && *y <= LIMIT => Ok(()),
            [value] => Err(TargetError::Value {
                likelihood: self.name(),
                position: 0,
                value: *value,
                allowed: "a number up to the limit",
            }),
            _ => Err(TargetError::Width { likelihood: self.name(), outputs, expected: 1, found: target.len() }),
        }
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        let (y, f) = (target[0], outputs[0]);
        if y < LIMIT {
            let error = (y - f) / SIGMA;
            return -0.5 * error * error - SIGMA.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
        }
        tail(limit(f)).max(f64::MIN_POSITIVE).ln()
    }

    fn largest_log_density(&self, target: &[f64]) -> Option<f64> {
        Some(if target[0] < LIMIT { self.log_density(target, target) } else { 0.0 })
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        let (y, f) = (target[0], outputs[0]);
        gradient[0] = if y < LIMIT { (y - f) / SIGMA / SIGMA } else { hazard(limit(f)) / SIGMA };
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        fisher[0] = information(outputs[0]) / SIGMA / SIGMA;
    }

    fn observed_information(&self, target: &[f64], outputs: &[f64], information: &mut [f64]) {
        let z = limit(outputs[0]);
        let share = if target[0] < LIMIT { 1.0 } else { hazard(z) * (hazard(z) - z) };
        information[0] = share / SIGMA / SIGMA;
    }

    fn observed_quadratic(&self, target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        let mut observed = [0.0];
        self.observed_information(target, outputs, &mut observed);
        observed[0] * first[0] * first[0]
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        whitening[0] = information(outputs[0]).sqrt() / SIGMA;
    }

    /// √H f̈ + (√H)′ ḟ².
    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        let root = information(outputs[0]).sqrt();
        let slope = -0.5 * information_slope(outputs[0]) / SIGMA / root.max(f64::MIN_POSITIVE);
        force[0] = (root * second[0] + slope * first[0] * first[0]) / SIGMA;
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        information(outputs[0]) * (first[0] / SIGMA).powi(2)
    }

    /// E min(f + σε, limit) = f + σ (z (1 − Φ) − φ) + ….
    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        let z = limit(outputs[0]);
        mean[0] = outputs[0] + SIGMA * (z * tail(z) - density(z));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        let z = limit(outputs[0]);
        let (first, second) = (z * tail(z) - density(z), 1.0 - tail(z) - z * density(z) + z * z * tail(z));
        variance[0] = SIGMA * SIGMA * (second - first * first);
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        fill_standard_normal(generator, target);
        target[0] = (outputs[0] + SIGMA * target[0]).min(LIMIT);
    }

    /// What intervals and calibration need.
    fn cumulative(&self, outputs: &[f64], _: usize, value: f64) -> f64 {
        if value >= LIMIT { 1.0 } else { 1.0 - tail((value - outputs[0]) / SIGMA) }
    }
}

impl Registered for Censored {
    const HELP: &'static str = "Real targets up to a limit of detection";

    fn start() -> Self {
        Self
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Every derivative against differences, every moment against draws: at an observed and at a censored target.
    for (target, output) in [(0.4, 0.6), (LIMIT, 0.9), (LIMIT, 1.7), (-0.3, 0.1)] {
        check_likelihood(&Censored, &[target], &[output])?;
    }

    // sin(x) + 0.5 with noise, of which everything above the limit is cut off.
    let mut generator = stream(1, Purpose::Velocity, 0);
    let inputs: Array2<f64> = Array2::from_shape_fn((120, 1), |_| generator.random_range(-3.0..3.0));
    let mut targets = Array2::zeros((120, 1));
    for (x, mut target) in inputs.axis_iter(Axis(0)).zip(targets.rows_mut()) {
        let mut drawn = [0.0];
        Censored.draw(&[x[0].sin() + 0.5], &mut generator, &mut drawn);
        target[0] = drawn[0];
    }
    let censored = targets.iter().filter(|y| **y == LIMIT).count();
    let data = Dataset::new(inputs, targets)?;

    let family = Family::new(Censored);
    let start = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 1500, weight_decay: 1e-3, ..Default::default() };
    let network = train(&start, &data, &family, &options, &())?.network;
    let mut laplace = Laplace::fit(network, data, family, &FitOptions::default())?;
    let evidence = laplace.optimize(&EvidenceOptions::default())?;
    println!("{censored} of 120 targets are censored; log evidence {:.2}", evidence.log_marginal_likelihood);

    // The output is the level behind the limit; predictions of y stay below it.
    let peak = Array2::from_elem((1, 1), std::f64::consts::FRAC_PI_2);
    let behind = laplace.linearized(&peak)?;
    let deviation = behind.covariance[(0, 0, 0)].sqrt();
    println!("behind the limit at x = π/2: {:.2} ± {deviation:.2}, truth 1.50", behind.mean[(0, 0)]);
    let sampler = SamplerOptions { range: 0..20, ..Default::default() };
    for method in
        [Method::Map, Method::Glm(Link::default()), Method::Riemannian(Geodesics { sampler, ..Default::default() })]
    {
        let prediction = laplace.predict(&peak, &method)?;
        let (lower, upper) = prediction.interval(0.9)?;
        println!(
            "{:>10}: mean {:.3}, 90 % from {:.3} to {:.3}",
            method.name(),
            prediction.mean[(0, 0)],
            lower[(0, 0)],
            upper[(0, 0)]
        );
    }

    // Registered, it is read from files as any other.
    Family::register::<Censored>();
    let path = std::env::temp_dir().join(format!("censored-{}.safetensors", std::process::id()));
    laplace.save(&path, Contents::TrainingData)?;
    let again = Laplace::load(&path)?;
    std::fs::remove_file(&path)?;
    println!("read again: log evidence {:.2}", again.log_marginal_likelihood());
    Ok(())
}
