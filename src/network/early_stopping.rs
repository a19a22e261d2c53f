//! Training that watches rows it does not learn from: the learning rate falls when they gain nothing, and training ends.

use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarMap};
use rand::seq::SliceRandom;

use super::training::{Batches, penalized, reserve_memory};
use super::{Decay, Mlp, Network, TrainingOptions};
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result, check_size};
use crate::likelihood::Family;
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// Epochs without a gain after which the learning rate falls.
const PATIENCE: usize = 8;
/// By what it falls, and how often before training ends.
const FALL: f64 = 4.0;
const FALLS: usize = 3;
/// The relative gain of the held-out loss that counts.
const GAIN: f64 = 1e-4;
/// The place of the held-out part's order among the shuffles of epochs.
const SPLIT: u64 = u64::MAX;

/// What [`train_early_stopping`] did.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlyStopped {
    /// The network of the smallest held-out loss.
    pub network: Network,
    /// That loss.
    pub held_out_loss: f64,
    /// The epochs that were run.
    pub epochs: usize,
    /// The epoch whose network was kept.
    pub best_epoch: usize,
    /// Whether it was cancelled before its end.
    pub interrupted: bool,
}

/// The rows that are held out of training, and the others: one part in `parts`, by the seed.
pub fn held_out_rows(rows: usize, parts: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut stream(seed, Purpose::Shuffle, SPLIT));
    let count = (rows / parts.max(2)).max(1).min(rows.saturating_sub(1));
    let training = order.split_off(count);
    (order, training)
}

/// Trains a network by Adam until held-out data gain nothing more. Cancelled, it keeps the best so far.
///
/// `options.epochs` is the largest number of epochs; `progress` is told them and the held-out loss.
pub fn train_early_stopping(
    start: &Network,
    (training, held_out): (&Dataset, &Dataset),
    family: &Family,
    options: &TrainingOptions,
    progress: &dyn Progress,
) -> Result<EarlyStopped> {
    let architecture = start.architecture();
    for data in [training, held_out] {
        check_size("number of input columns", architecture.n_inputs(), data.inputs().ncols())?;
        data.check_targets(family, architecture.n_outputs())?;
    }
    if options.epochs == 0 {
        return Err(InvalidTraining::NoEpochs.into());
    }
    let _reservation = reserve_memory(architecture, training, options)?;
    let device = Device::Cpu;
    let variables = VarMap::new();
    let mlp = Mlp::trainable(start, &variables, DType::F64, &device)?;
    let batches = Batches::new(training, options, &device)?;
    let all = TrainingOptions { batch_size: None, ..options.clone() };
    let watched = Batches::new(held_out, &all, &device)?;
    let decoupled = if options.decay == Decay::Decoupled { options.weight_decay } else { 0.0 };
    let penalty = if options.decay == Decay::L2 { options.weight_decay } else { 0.0 };
    let mut rate = options.learning_rate;
    let settings = |rate: f64| ParamsAdamW { lr: rate, weight_decay: decoupled, ..Default::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), settings(rate))?;
    let mut best = Best { loss: watched.mean_loss(&mlp, family)?, epoch: 0, values: copy(&variables)? };
    let (mut falls, mut since, mut epochs, mut interrupted) = (0, 0, 0, false);
    while epochs < options.epochs && falls <= FALLS {
        if progress.is_cancelled() {
            interrupted = true;
            break;
        }
        for (inputs, targets) in batches.of_epoch(epochs as u64)? {
            let value = family.training_loss(&candle_nn::Module::forward(&mlp, &inputs)?, &targets)?;
            optimizer.backward_step(&penalized(&value, &variables, penalty)?)?;
        }
        epochs += 1;
        let loss = watched.mean_loss(&mlp, family)?;
        progress.step(epochs, loss);
        since += 1;
        if loss < best.loss - GAIN * best.loss.abs() {
            best = Best { loss, epoch: epochs, values: copy(&variables)? };
            since = 0;
        } else if since >= PATIENCE || !loss.is_finite() {
            (falls, since, rate) = (falls + 1, 0, rate / FALL);
            best.restore(&variables)?;
            optimizer = AdamW::new(variables.all_vars(), settings(rate))?;
        }
    }
    best.restore(&variables)?;
    let parameters = mlp.parameters()?;
    if !best.loss.is_finite() || parameters.iter().any(|value| !value.is_finite()) {
        return Err(Error::TrainingDiverged { epoch: epochs, loss: best.loss });
    }
    let network = Network::new(architecture.clone(), parameters)?;
    Ok(EarlyStopped { network, held_out_loss: best.loss, epochs, best_epoch: best.epoch, interrupted })
}

/// The best weights so far.
struct Best {
    loss: f64,
    epoch: usize,
    values: Vec<(String, Tensor)>,
}

impl Best {
    /// Puts the weights back.
    fn restore(&self, variables: &VarMap) -> Result<()> {
        let data = variables.data().lock().map_err(|_| Error::Cancelled)?;
        for (name, value) in &self.values {
            if let Some(variable) = data.get(name) {
                variable.set(value)?;
            }
        }
        Ok(())
    }
}

/// The weights, in an order that does not depend on chance.
fn copy(variables: &VarMap) -> Result<Vec<(String, Tensor)>> {
    let data = variables.data().lock().map_err(|_| Error::Cancelled)?;
    let mut values = Vec::with_capacity(data.len());
    for (name, variable) in data.iter() {
        values.push((name.clone(), variable.as_tensor().copy()?));
    }
    values.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(values)
}
