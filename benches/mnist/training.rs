//! Training in candle, in f32: Adam with batches of 256 and a rate that falls to zero.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarMap, loss};
use rand::seq::SliceRandom;
use riemannian_laplace::internals::network::Mlp;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::prelude::*;

use crate::Outcome;

/// The decay λ of the mean loss + ½λ‖θ‖², which is the MAP of a prior of precision Nλ = 5.5.
const DECAY: f64 = 1e-4;
const EPOCHS: usize = 8;
const BATCH: usize = 256;
const FIRST_RATE: f64 = 2e-3;

/// Trains a network from its current parameters.
pub fn train(start: &Network, data: &Dataset) -> Outcome<Network> {
    let (device, variables) = (Device::Cpu, VarMap::new());
    let mlp = Mlp::trainable(start, &variables, DType::F32, &device)?;
    let pixels: Vec<f32> = data.inputs().iter().map(|&pixel| pixel as f32).collect();
    let inputs = Tensor::from_vec(pixels, data.inputs().dim(), &device)?;
    let labels = Tensor::from_vec(data.targets().iter().map(|&label| label as u32).collect(), data.len(), &device)?;
    let parameters = ParamsAdamW { lr: FIRST_RATE, weight_decay: 0.0, ..Default::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), parameters)?;
    let mut rows: Vec<u32> = (0..data.len() as u32).collect();
    let (mut step, steps) = (0, EPOCHS * data.len().div_ceil(BATCH));
    for epoch in 0..EPOCHS {
        rows.shuffle(&mut stream(1, Purpose::Shuffle, epoch as u64));
        let mut sum = 0.0;
        for batch in rows.chunks(BATCH) {
            optimizer.set_learning_rate(FIRST_RATE * (1.0 - step as f64 / steps as f64));
            step += 1;
            let batch = Tensor::new(batch, &device)?;
            let outputs = mlp.forward(&inputs.index_select(&batch, 0)?)?;
            let value = loss::cross_entropy(&outputs, &labels.index_select(&batch, 0)?)?;
            let mut total = value.clone();
            for variable in variables.all_vars() {
                total = (total + (variable.sqr()?.sum_all()? * (0.5 * DECAY))?)?;
            }
            optimizer.backward_step(&total)?;
            sum += f64::from(value.to_scalar::<f32>()?) * batch.dim(0)? as f64;
        }
        eprintln!("epoch {}: mean loss {:.4}", epoch + 1, sum / data.len() as f64);
    }
    Ok(Network::new(start.architecture().clone(), mlp.parameters()?)?)
}
