//! The data sets in `data/`, as examples, benchmarks and tests read them.
// Each of them uses its own part.
#![allow(dead_code)]

pub mod images;

use std::path::{Path, PathBuf};

use ndarray::Array2;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_distr::StandardNormal;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::{Dataset, Result, Standardize};

/// A file in the folder `data` of the repository.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file)
}

/// A classification data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Classes {
    /// 300 points in the plane, two classes.
    TwoMoons,
    /// 178 wines, 13 measurements, three cultivars.
    Wine,
    /// 569 tumours, 30 measurements, benign or malignant.
    BreastCancer,
    /// 1,797 digits of 8 × 8 pixels.
    Digits,
}

impl Classes {
    pub const ALL: [Self; 4] = [Self::TwoMoons, Self::Wine, Self::BreastCancer, Self::Digits];

    pub fn name(self) -> &'static str {
        match self {
            Self::TwoMoons => "two moons",
            Self::Wine => "wine",
            Self::BreastCancer => "breast cancer",
            Self::Digits => "digits",
        }
    }

    /// All rows, in the units of the file. Words become the classes 0, 1, … in their sorted order.
    pub fn load(self) -> Result<Dataset> {
        let (file, target) = match self {
            Self::TwoMoons => ("two_moons.csv", "moon"),
            Self::Wine => ("wine.csv", "cultivar"),
            Self::BreastCancer => ("breast_cancer.csv", "diagnosis"),
            Self::Digits => ("digits.csv", "digit"),
        };
        Table::read(&path(file))?.labelled_dataset(&[target.to_string()])
    }

    /// How many classes there are.
    pub fn count(self) -> usize {
        match self {
            Self::TwoMoons | Self::BreastCancer => 2,
            Self::Wine => 3,
            Self::Digits => 10,
        }
    }
}

/// Two interleaved half circles, one for each class, with normal noise of the given size. Each index gives a new draw.
pub fn moons(points: usize, noise: f64, index: u64) -> Result<Dataset> {
    let generator = &mut stream(1, Purpose::Data, index);
    let (mut inputs, mut targets) = (Array2::zeros((points, 2)), Array2::zeros((points, 1)));
    for (n, (mut input, mut target)) in inputs.rows_mut().into_iter().zip(targets.rows_mut()).enumerate() {
        let (sin, cos) = (std::f64::consts::PI * generator.random::<f64>()).sin_cos();
        let (x, y, class) = if n % 2 == 0 { (cos, sin, 0.0) } else { (1.0 - cos, 0.5 - sin, 1.0) };
        let mut noisy = |value: f64| value + noise * generator.sample::<f64, _>(StandardNormal);
        (input[0], input[1], target[0]) = (noisy(x), noisy(y), class);
    }
    Dataset::new(inputs, targets)
}

/// Training and test data.
#[derive(Debug, Clone)]
pub struct Split {
    /// Standardised inputs.
    pub train: Dataset,
    /// In the units of the file, as predictions take them.
    pub test: Dataset,
}

impl Split {
    /// A random `share` of the rows for training, the rest for testing; another index is another split.
    pub fn random(data: &Dataset, share: f64, index: u64) -> Result<Self> {
        let mut rows: Vec<usize> = (0..data.len()).collect();
        rows.shuffle(&mut stream(0, Purpose::Data, index));
        let (train, test) = rows.split_at((share * data.len() as f64).round() as usize);
        Ok(Self { train: data.select(train)?.standardized(Standardize::Inputs)?, test: data.select(test)? })
    }
}
