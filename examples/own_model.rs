//! Your own formula instead of a network: write it once, and derivatives, evidence and intervals follow.
//!
//! An enzyme turns its substrate over at the rate V·x/(K + x), where x is the substrate's concentration (Michaelis and
//! Menten). Suppose that only low concentrations have been measured: what is the rate at high ones? The formula bends,
//! and so does its posterior. The linearised interval is symmetric; the Riemannian one follows the bend, and is closer
//! to the exact one at both ends (`tests/newcomer.rs` computes that by quadrature).
//!
//! `cargo run --release --example own_model` draws `figures/own_model.png`.

#[path = "drawing/bands.rs"]
mod bands;

use std::error::Error;
use std::path::Path;

use ndarray::Array2;
use riemannian_laplace::prelude::*;

/// Concentration (ppm) and rate (counts/min²) of an enzyme treated with puromycin: Treloar 1974, in Bates & Watts,
/// *Nonlinear Regression Analysis*, 1988.
pub const MEASURED: [(f64, f64); 12] = [
    (0.02, 76.0),
    (0.02, 47.0),
    (0.06, 97.0),
    (0.06, 107.0),
    (0.11, 123.0),
    (0.11, 139.0),
    (0.22, 159.0),
    (0.22, 152.0),
    (0.56, 191.0),
    (0.56, 201.0),
    (1.10, 207.0),
    (1.10, 200.0),
];

/// f(θ, x) with θ = (log V, log K): logarithms keep V and K positive. `Taylor` numbers compute like `f64` and carry
/// derivatives along.
pub fn rate(theta: &[Taylor], x: &[f64], f: &mut [Taylor]) {
    f[0] = theta[0].exp() * x[0] / (theta[1].exp() + x[0]);
}

/// θ̂ by Gauss–Newton, θ ← θ + (JᵀJ)⁻¹Jᵀ(y − f), with the derivatives that come with the formula.
pub fn least_squares(data: &Dataset, [mut log_v, mut log_k]: [f64; 2]) -> [f64; 2] {
    for _ in 0..50 {
        let (mut vv, mut vk, mut kk, mut v, mut k) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in data.inputs().iter().zip(data.targets()) {
            let (mut by_v, mut by_k) = ([Taylor::default()], [Taylor::default()]);
            rate(&[Taylor::along(log_v, 1.0), log_k.into()], &[*x], &mut by_v);
            rate(&[log_v.into(), Taylor::along(log_k, 1.0)], &[*x], &mut by_k);
            let (residual, by_v, by_k) = (y - by_v[0].value, by_v[0].first, by_k[0].first);
            (vv, vk, kk) = (vv + by_v * by_v, vk + by_v * by_k, kk + by_k * by_k);
            (v, k) = (v + by_v * residual, k + by_k * residual);
        }
        let determinant = vv * kk - vk * vk;
        (log_v, log_k) = (log_v + (kk * v - vk * k) / determinant, log_k + (vv * k - vk * v) / determinant);
    }
    [log_v, log_k]
}

/// The measurements as a data set.
pub fn dataset(measured: &[(f64, f64)]) -> riemannian_laplace::Result<Dataset> {
    let column =
        |value: fn(&(f64, f64)) -> f64| Array2::from_shape_fn((measured.len(), 1), |(row, _)| value(&measured[row]));
    Dataset::new(column(|pair| pair.0), column(|pair| pair.1))
}

/// Fits the six lowest concentrations and predicts all. The picture goes to `figure`.
pub fn run(figure: &Path) -> Result<Laplace, Box<dyn Error>> {
    let (low, high) = MEASURED.split_at(6);
    let (train, unseen) = (dataset(low)?, dataset(high)?);

    // 1. The formula and its fitted parameters are a model, with one input and one output.
    let theta = least_squares(&train, [5.0, -3.0]);
    println!("V = {:.1}, K = {:.4} by least squares", theta[0].exp(), theta[1].exp());
    let model = FunctionModel::new(theta.to_vec(), 1, 1, rate)?;

    // 2. From here on everything is as with a network.
    let mut laplace = Laplace::fit(model, train.clone(), Family::gaussian(10.0)?, &FitOptions::default())?;
    let optimum = laplace.optimize(&EvidenceOptions::default())?;
    println!("noise σ {:.1}, log evidence {:.1}", optimum.hyperparameters.sigma[0], optimum.log_marginal_likelihood);
    let inputs = Array2::from_shape_fn((121, 1), |(row, _)| 0.01 * row as f64);
    let linearized = laplace.predict(&inputs, &Method::default())?;
    let riemannian = laplace.predict(&inputs, &Method::riemannian(1000, 0))?;

    // 3. Near the data the two agree. Far from them the linearised interval is still symmetric, and ends too low.
    println!("\n90 % intervals\n      x     measured         linearised         Riemannian");
    let ((from, to), (riemannian_from, riemannian_to)) = (linearized.interval(0.9)?, riemannian.interval(0.9)?);
    for pair in MEASURED.chunks(2) {
        let ((x, first), second, at) = (pair[0], pair[1].1, ((100.0 * pair[0].0).round() as usize, 0));
        let [a, b, c, d] = [from[at], to[at], riemannian_from[at], riemannian_to[at]];
        println!("   {x:.2}   {first:3} and {second:3}   {a:8.0} … {b:4.0}   {c:9.0} … {d:4.0}");
    }
    let labels = ["An enzyme at concentrations beyond those fitted", "concentration (ppm)", "rate (counts/min²)"];
    let points = [("measured and fitted", &train), ("measured, unseen by the fit", &unseen)];
    let both = [("linearised", linearized), ("Riemannian", riemannian)];
    bands::draw(figure, labels, &points, &inputs, &both, 0.9)?;
    Ok(laplace)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new("figures/own_model.png")).map(|_| ())
}
