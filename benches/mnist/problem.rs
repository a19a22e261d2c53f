//! The network and its data: 55,000 of MNIST's training images, 10,000 to test on, and clothes as foreign images.

use std::path::Path;

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::prelude::*;

use crate::Outcome;
use crate::images::{images, labels};
use crate::training::train;

/// The rows that networks are trained on; the last 5,000 are held out, as is usual.
const TRAINED: usize = 55_000;
/// What every row of the table works with.
pub struct Problem {
    pub train: Dataset,
    /// Training images that no network is trained on.
    pub held_out: Dataset,
    pub test: Dataset,
    /// Fashion-MNIST's test images.
    pub foreign: Array2<f64>,
}

impl Problem {
    pub fn read(folder: &Path) -> Outcome<Self> {
        let (pixels, digits) = (images(folder, "mnist-train")?, labels(folder, "mnist-train")?);
        let rows = TRAINED.min(pixels.nrows());
        let (images_of, labels_of) = (pixels.view().split_at(Axis(0), rows), digits.view().split_at(Axis(0), rows));
        let train = Dataset::new(images_of.0.to_owned(), labels_of.0.to_owned())?;
        let held_out = Dataset::new(images_of.1.to_owned(), labels_of.1.to_owned())?;
        drop(pixels);
        let test = Dataset::new(images(folder, "mnist-t10k")?, labels(folder, "mnist-t10k")?)?;
        Ok(Self { train, held_out, test, foreign: images(folder, "fashion-t10k")? })
    }

    pub fn family() -> Family {
        Family::new(Categorical)
    }

    /// The network of an earlier run, or a new one.
    pub fn network(&self, file: &Path) -> Outcome<Network> {
        if file.exists() {
            return Ok(Network::load(file, None)?);
        }
        let start = Network::random(Architecture::new(&[784, 200, 200, 10], Activation::Tanh)?, 1);
        let network = train(&start, &self.train)?;
        let unfinished = file.with_extension("tmp");
        network.save(&unfinished)?;
        std::fs::rename(unfinished, file)?;
        Ok(network)
    }
}
