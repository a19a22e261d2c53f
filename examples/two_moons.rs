//! Two moons: a classifier that knows where it has seen no data.
//!
//! `cargo run --release --example two_moons` takes a few seconds and draws `figures/two_moons.png`.

#[path = "datasets/mod.rs"]
mod datasets;
#[path = "drawing/panels.rs"]
pub mod panels;

use std::error::Error;
use std::path::Path;

use datasets::{Classes, Split};
use ndarray::Array2;
use panels::Plane;
use riemannian_laplace::internals::likelihood::Bernoulli;
use riemannian_laplace::prelude::*;

/// Points far from both moons, on either side.
pub const FAR: [[f64; 2]; 2] = [[-3.0, 0.0], [4.0, 1.0]];
/// Points in the thick of each moon.
pub const NEAR: [[f64; 2]; 2] = [[0.0, 1.0], [1.0, -0.5]];

/// The uncertainty of the Riemannian prediction.
#[derive(Debug, Clone)]
pub struct Uncertainty {
    /// The mutual information between class and weights at the near points.
    pub near: [f64; 2],
    /// The same at the far points.
    pub far: [f64; 2],
}

/// From data to the picture, which goes to `figure`.
pub fn run(figure: &Path, plane: &Plane, samples: usize) -> Result<Uncertainty, Box<dyn Error>> {
    // 1. The data, split; the inputs are standardised and the data set keeps the scaling. The network has one output, the
    //    log odds of the upper moon.
    let Split { train: data, test } = Split::random(&Classes::TwoMoons.load()?, 0.5, 0)?;
    let start = Network::random(Architecture::new(&[2, 16, 16, 1], Activation::Tanh)?, 1);
    let options = TrainingOptions { epochs: 1000, weight_decay: 1e-3, ..Default::default() };
    let network = train(&start, &data, &Family::new(Bernoulli), &options, &())?.network;

    // 2. The posterior over all weights, its prior precision tuned on the marginal likelihood.
    let mut laplace = Laplace::fit(network, data.clone(), Family::new(Bernoulli), &FitOptions::default())?;
    let tuned = laplace.optimize(&EvidenceOptions::default())?.hyperparameters;
    println!("prior precision {:.3?}", tuned.prior_precision);

    // 3. Three predictions. The samples are drawn once and used for every set of inputs.
    let sampler = SamplerOptions::first(samples);
    let samples = laplace.sample_riemannian(MetricName::Fisher, &sampler, &())?;
    println!("{} samples, {} of them uncertified", samples.len(), samples.uncertified());
    let riemannian = Method::Samples(samples.into());
    let methods =
        [("network alone (MAP)", Method::Map), ("linearised", Method::default()), ("Riemannian (RLA-F)", riemannian)];

    // 4. Scores on the test data, and the probability of the upper moon where there are no data at all.
    let points =
        Array2::from_shape_fn((4, 2), |(row, axis)| NEAR.iter().chain(&FAR).nth(row).map_or(0.0, |at| at[axis]));
    println!("\n{} test points         NLL     ECE   accuracy   P(upper) at A      at B", test.len());
    let mut panels = Vec::new();
    for (name, method) in &methods {
        let scores = Scores::of(&laplace.predict(test.inputs(), method)?, test.targets())?;
        let Scores::Classes(scores) = scores else { return Err("the targets are classes".into()) };
        let far = laplace.predict(&points, method)?.mean;
        println!(
            "{name:20} {:7.3} {:7.3} {:10.3} {:15.3} {:9.3}",
            scores.nll,
            scores.ece,
            scores.accuracy,
            far[(2, 0)],
            far[(3, 0)]
        );
        panels.push((*name, laplace.predict(&plane.grid(), method)?.mean.into_raw_vec_and_offset().0));
    }

    // 5. What more data would remove: the mutual information between class and weights.
    let information = laplace.predict(&points, &methods[2].1)?.mutual_information.unwrap_or_default();
    let uncertainty = Uncertainty { near: [information[0], information[1]], far: [information[2], information[3]] };
    println!(
        "\nmutual information of class and weights: {:.3?} inside the moons, {:.3?} at A and B",
        uncertainty.near, uncertainty.far
    );
    let original = data.schema().restore_inputs(data.inputs().view())?;
    let shown = Dataset::new(original, data.targets().clone())?;
    panels::draw(figure, plane, &panels, &shown, ["lower", "upper"], &[("A", FAR[0]), ("B", FAR[1])])?;
    Ok(uncertainty)
}

fn main() -> Result<(), Box<dyn Error>> {
    let plane = Plane { x: (-4.0, 5.0), y: (-4.0, 4.5), points: (109, 103) };
    let Uncertainty { near, far } = run(Path::new("figures/two_moons.png"), &plane, 500)?;
    assert!(far.iter().all(|far| near.iter().all(|near| *far > 2.0 * near)), "uncertainty grows away from the data");
    Ok(())
}
