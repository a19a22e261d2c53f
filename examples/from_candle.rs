//! A residual convolutional network of your own in candle, and a posterior over all its weights.
//!
//! The network is trained on images of zeros, ones and twos as one would without this crate. Then it becomes a `Network`,
//! a line for each line of its forward function, is compared with the module it came from, and says how sure it is.
//!
//! `cargo run --release --example from_candle` takes a few seconds.

use std::error::Error;

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Conv2d, Conv2dConfig, Linear, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use candle_nn::{conv2d, linear, loss, ops};
use ndarray::{Array2, Axis, Slice};
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::prelude::*;

/// Zeros, ones and twos.
const CLASSES: usize = 3;

/// The precision of the weights' prior.
const PRIOR: f64 = 1.0;

/// Two convolutions, the second with a shortcut, and a linear layer.
struct Classifier {
    first: Conv2d,
    second: Conv2d,
    head: Linear,
}

impl Classifier {
    fn new(variables: VarBuilder<'_>) -> candle_core::Result<Self> {
        let halved = Conv2dConfig { padding: 1, stride: 2, ..Default::default() };
        let same = Conv2dConfig { padding: 1, ..Default::default() };
        Ok(Self {
            first: conv2d(1, 8, 3, halved, variables.pp("first"))?,
            second: conv2d(8, 8, 3, same, variables.pp("second"))?,
            head: linear(128, CLASSES, variables.pp("head"))?,
        })
    }
}

impl Module for Classifier {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let h = self.first.forward(x)?.silu()?;
        let h = (self.second.forward(&h)?.tanh()? + h)?;
        self.head.forward(&h.flatten_from(1)?)
    }
}

/// Images of 8 × 8 pixels between −½ and ½, and their digits.
fn digits() -> Result<Dataset, Box<dyn Error>> {
    let text = std::fs::read_to_string("data/digits.csv")?;
    let parse = |line: &str| line.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let rows: Vec<Vec<f64>> = text.lines().skip(1).map(parse).collect::<Result<_, _>>()?;
    let rows: Vec<Vec<f64>> = rows.into_iter().filter(|row| row[64] < CLASSES as f64).collect();
    let inputs = Array2::from_shape_fn((rows.len(), 64), |(n, j)| rows[n][j] / 16.0 - 0.5);
    Ok(Dataset::new(inputs, Array2::from_shape_fn((rows.len(), 1), |(n, _)| rows[n][64]))?)
}

fn images(inputs: &Array2<f64>) -> candle_core::Result<Tensor> {
    let pixels: Vec<f32> = inputs.iter().map(|value| *value as f32).collect();
    Tensor::from_vec(pixels, (inputs.nrows(), 1, 8, 8), &Device::Cpu)
}

/// The whole way from the user's module to its uncertainty; the scores of each method on images it has not seen.
pub fn run() -> Result<Vec<(&'static str, Scores)>, Box<dyn Error>> {
    let all = digits()?;
    let part = |rows: std::ops::Range<usize>| {
        let pick = |values: &Array2<f64>| values.slice_axis(Axis(0), Slice::from(rows.clone())).to_owned();
        Dataset::new(pick(all.inputs()), pick(all.targets()))
    };
    let (data, test) = (part(0..150)?, part(150..all.len())?);

    // 1. Training, as always.
    let variables = VarMap::new();
    let module = Classifier::new(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    let mut optimizer =
        AdamW::new(variables.all_vars(), ParamsAdamW { lr: 5e-3, weight_decay: 0.0, ..Default::default() })?;
    let labels: Vec<u32> = data.targets().iter().map(|label| *label as u32).collect();
    let (inputs, labels) = (images(data.inputs())?, Tensor::new(labels, &Device::Cpu)?);
    for _ in 0..300 {
        let outputs = module.forward(&inputs)?;
        let mut objective = loss::nll(&ops::log_softmax(&outputs, 1)?, &labels)?;
        // −log of the prior N(0, 1/PRIOR), per data point: so that the weights end at a mode of the posterior.
        for variable in variables.all_vars() {
            objective = (objective + (variable.sqr()?.sum_all()? * (0.5 * PRIOR / data.len() as f64))?)?;
        }
        optimizer.backward_step(&objective)?;
    }

    // 2. The same network here: a line for each line of `forward`. The comparison refuses what was forgotten.
    let network = Network::builder([1, 8, 8])
        .conv2d(&module.first)
        .activation(Activation::Silu)
        .residual(|block| block.conv2d(&module.second).activation(Activation::Tanh))
        .flatten()
        .linear(&module.head)
        .build()?;
    let difference = network.verify(&module, &images(test.inputs())?, 1e-5)?;
    println!("{}\ndiffers from the candle module by {difference:.0e} at most", network.architecture());

    // 3. The exact posterior over all its weights, and what each way of using it makes of new images.
    let options = FitOptions { prior_precision: PriorValues::Shared(PRIOR), ..Default::default() };
    let laplace = Laplace::fit(network, data, Family::new(Categorical), &options)?;
    println!("log marginal likelihood {:.2}\n", laplace.log_marginal_likelihood());
    let methods = [
        ("network alone", Method::Map),
        ("linearised", Method::default()),
        ("along geodesics", Method::riemannian(40, 0)),
    ];
    let mut scores = Vec::new();
    for (name, method) in methods {
        let prediction = laplace.predict(test.inputs(), &method)?;
        let score = Scores::of(&prediction, test.targets())?;
        println!("{name:16} {score:.3?}");
        scores.push((name, score));
    }
    Ok(scores)
}

fn main() -> Result<(), Box<dyn Error>> {
    run().map(|_| ())
}
