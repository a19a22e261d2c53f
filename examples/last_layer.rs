//! A convolutional network of your own in candle, and a posterior over its last layer.
//!
//! The network is trained on 3,000 of MNIST's digits as one would without this crate. Then its last layer gets a
//! posterior, and is asked about digits it has not seen, and about clothes, which are no digits at all.
//!
//! `cargo run --release --example last_layer` takes a minute, and saves the posterior in `results/`.

#[path = "datasets/mod.rs"]
mod datasets;

use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Conv2d, Conv2dConfig, Linear, Optimizer, ParamsAdamW, VarBuilder, VarMap, loss};
use datasets::images::{SIDE, Sheet};
use ndarray::{Array2, Axis};
use rand::Rng;
use rand::seq::SliceRandom;
use riemannian_laplace::internals::evaluate::{ClassScores, auroc};
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::prelude::*;

/// Everything but the last layer: two convolutions with stride 2, and a dense layer.
#[derive(Debug, Clone)]
struct Backbone {
    first: Conv2d,
    second: Conv2d,
    dense: Linear,
}

impl Backbone {
    fn new(variables: VarBuilder<'_>) -> candle_core::Result<Self> {
        let config = Conv2dConfig { padding: 1, stride: 2, ..Default::default() };
        Ok(Self {
            first: candle_nn::conv2d(1, 8, 3, config, variables.pp("first"))?,
            second: candle_nn::conv2d(8, 16, 3, config, variables.pp("second"))?,
            dense: candle_nn::linear(16 * 7 * 7, 32, variables.pp("dense"))?,
        })
    }
}

impl Module for Backbone {
    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let hidden = self.second.forward(&self.first.forward(images)?.relu()?)?.relu()?;
        self.dense.forward(&hidden.flatten_from(1)?)?.tanh()
    }
}

/// candle's own initial weights differ from run to run; these do not.
fn initialize(variables: &VarMap) -> candle_core::Result<()> {
    let data = variables.data().lock().map_err(|_| candle_core::Error::msg("a thread panicked"))?;
    let mut names: Vec<&String> = data.keys().collect();
    names.sort();
    for (index, name) in names.into_iter().enumerate() {
        let (variable, mut random) = (&data[name], stream(1, Purpose::Initialization, index as u64));
        let fan_in: usize = variable.dims().iter().skip(1).product();
        let bound = 1.0 / (fan_in as f32).sqrt();
        let bound = if variable.rank() == 1 { 0.05 } else { bound };
        let values: Vec<f32> = (0..variable.elem_count()).map(|_| random.random_range(-bound..bound)).collect();
        variable.set(&Tensor::from_vec(values, variable.shape(), variable.device())?)?;
    }
    Ok(())
}

/// Images as [count, 1, 28, 28].
fn tensor(sheet: &Sheet) -> candle_core::Result<Tensor> {
    Tensor::from_vec(sheet.pixels.clone(), (sheet.len(), 1, SIDE, SIDE), &Device::Cpu)
}

/// Mini-batches of 50, Adam.
fn train_in_candle(images: &Tensor, labels: &Tensor, epochs: usize) -> candle_core::Result<(Backbone, Linear)> {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let backbone = Backbone::new(builder.pp("backbone"))?;
    let head = candle_nn::linear(32, 10, builder.pp("head"))?;
    initialize(&variables)?;
    let options = ParamsAdamW { lr: 2e-3, weight_decay: 1e-3, ..Default::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), options)?;
    let mut rows: Vec<u32> = (0..images.dim(0)? as u32).collect();
    for epoch in 0..epochs {
        rows.shuffle(&mut stream(1, Purpose::Shuffle, epoch as u64));
        for batch in rows.chunks(50) {
            let batch = Tensor::new(batch, &Device::Cpu)?;
            let logits = head.forward(&backbone.forward(&images.index_select(&batch, 0)?)?)?;
            optimizer.backward_step(&loss::cross_entropy(&logits, &labels.index_select(&batch, 0)?)?)?;
        }
    }
    Ok((backbone, head))
}

/// How much work to do.
#[derive(Debug, Clone)]
pub struct Size {
    /// Images of each digit to train on, and at most as many to test on.
    pub per_digit: usize,
    /// Passes over them.
    pub epochs: usize,
    /// Riemannian samples.
    pub samples: usize,
}

/// What a method scored on digits, and how well its entropy tells clothes from digits.
#[derive(Debug, Clone)]
pub struct Found {
    /// Scores on digits.
    pub digits: ClassScores,
    /// The area under the curve, clothes against digits.
    pub auroc: f64,
}

/// The entropy of the predicted classes.
fn entropies(prediction: &Prediction) -> Vec<f64> {
    let entropy = |p: &f64| if *p > 0.0 { -p * p.ln() } else { 0.0 };
    prediction.mean.map_axis(Axis(1), |row| row.iter().map(entropy).sum()).to_vec()
}

/// Trains, fits, saves to `folder`, loads, and scores each method: the network alone, linearised, Riemannian.
pub fn run(folder: &Path, size: &Size) -> Result<Vec<Found>, Box<dyn Error>> {
    // 1. Images and labels, and a network trained in candle.
    let digits = Sheet::read("mnist_train.png", size.per_digit)?;
    let (unseen, clothes) =
        (Sheet::read("mnist_test.png", size.per_digit)?, Sheet::read("fashion.png", size.per_digit)?);
    let labels: Vec<u32> = digits.rows.iter().map(|&digit| digit as u32).collect();
    let (images, labels) = (tensor(&digits)?, Tensor::new(labels, &Device::Cpu)?);
    let (backbone, head) = train_in_candle(&images, &labels, size.epochs)?;

    // 2. The posterior of its last layer. The backbone runs once over the training images.
    let last_layer = LastLayer::new(backbone.clone(), &head)?;
    let mut posterior = last_layer.fit(&images, &labels, Family::new(Categorical), &FitOptions::default())?;
    let tuned = posterior.optimize(&EvidenceOptions::default())?.hyperparameters;
    println!("{} weights, prior precision {:.3?}", posterior.laplace().parameters().len(), tuned.prior_precision);

    // 3. Saved and loaded: the file knows its backbone by the features of a few random images, and refuses another.
    std::fs::create_dir_all(folder)?;
    let path = folder.join("last_layer.safetensors");
    posterior.save(&path, Contents::TrainingData)?;
    let posterior = LastLayerPosterior::load(&path, backbone)?;

    // 4. Digits that were not seen, and clothes. A network that knows what it does not know is unsure about clothes.
    let targets = Array2::from_shape_fn((unseen.len(), 1), |(row, _)| unseen.rows[row] as f64);
    let (unseen, clothes) = (tensor(&unseen)?, tensor(&clothes)?);
    println!("\n                       accuracy     NLL     ECE   AUROC, clothes from digits");
    let drawn = posterior.laplace().sample_riemannian(MetricName::Fisher, &SamplerOptions::first(size.samples), &())?;
    let methods = [
        ("network alone (MAP)", Method::Map),
        ("linearised", Method::default()),
        ("Riemannian (RLA-F)", Method::Samples(drawn.into())),
    ];
    let mut found = Vec::new();
    for (name, method) in methods {
        let [known, foreign] = [&unseen, &clothes].map(|images| posterior.predict(images, &method));
        let (known, foreign) = (known?, foreign?);
        let Scores::Classes(digits) = Scores::of(&known, &targets)? else {
            return Err("the targets are classes".into());
        };
        let auroc = auroc(&entropies(&known), &entropies(&foreign))?;
        println!("{name:20} {:10.3} {:7.3} {:7.3} {:10.3}", digits.accuracy, digits.nll, digits.ece, auroc);
        found.push(Found { digits, auroc });
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new("results"), &Size { per_digit: 300, epochs: 15, samples: 50 }).map(|_| ())
}
