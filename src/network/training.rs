//! Training with candle: Adam or AdamW on the mean negative log likelihood, full batch as in the paper, or
//! mini-batches.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarMap};
use rand::seq::SliceRandom;

use super::{Architecture, Mlp, Network};
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result, check_size};
use crate::likelihood::Family;
use crate::memory::{self, Reservation};
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// How the weights are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    /// ½λ‖θ‖² in the loss: PyTorch's `Adam(weight_decay = λ)`, the paper's choice, and the MAP of a Gaussian prior.
    L2,
    /// θ ← (1 − ηλ)θ in addition to the step: AdamW.
    Decoupled,
}

/// Settings of [`train`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOptions {
    /// Passes over the data (default 20,000, the paper's).
    pub epochs: usize,
    /// The learning rate η (default 1e-2, the paper's).
    pub learning_rate: f64,
    /// The weight decay λ (default 1e-5, the paper's).
    pub weight_decay: f64,
    /// How the decay acts (default [`Decay::L2`]).
    pub decay: Decay,
    /// Data points per step; `None` (the default) takes all of them.
    pub batch_size: Option<usize>,
    /// The seed for the order of the mini-batches.
    pub seed: u64,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self { epochs: 20_000, learning_rate: 1e-2, weight_decay: 1e-5, decay: Decay::L2, batch_size: None, seed: 0 }
    }
}

/// What training did.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// The trained network.
    pub network: Network,
    /// Its mean loss over all data, without the decay.
    pub loss: f64,
    /// The epochs that were run.
    pub epochs: usize,
    /// Whether it was cancelled before its end.
    pub interrupted: bool,
}

/// How often the loss is checked, for progress and divergence.
const LOOK_EVERY: usize = 100;

/// Trains a network from its current parameters, in f64.
///
/// The loss is the mean squared error for a Gaussian family and the mean negative log likelihood (up to constants) for
/// the others. `progress` is told the epochs done and the loss from time to time, and may cancel between epochs. A loss that is not finite ends the
/// training with an error.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Dataset;
/// use riemannian_laplace::Family;
/// use riemannian_laplace::{train, Activation, Architecture, Network, TrainingOptions};
///
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.0], [3.0], [5.0]])?;
/// let start = Network::random(Architecture::new(&[1, 1], Activation::Identity)?, 0);
/// let options = TrainingOptions { epochs: 2000, weight_decay: 0.0, ..Default::default() };
/// let trained = train(&start, &data, &Family::gaussian(1.0)?, &options, &())?;
/// assert!(trained.loss < 1e-6);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn train(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &TrainingOptions,
    progress: &dyn Progress,
) -> Result<Training> {
    let trained = train_or_stop(start, data, family, options, progress)?;
    if trained.interrupted { Err(Error::Cancelled) } else { Ok(trained) }
}

/// The same; cancelled, it returns the network as it is then.
pub fn train_or_stop(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &TrainingOptions,
    progress: &dyn Progress,
) -> Result<Training> {
    let architecture = start.architecture();
    check_size("number of input columns", architecture.n_inputs(), data.inputs().ncols())?;
    data.check_targets(family, architecture.n_outputs())?;
    check_options(options)?;
    let _reservation = reserve_memory(architecture, data, options)?;
    let device = Device::Cpu;
    let variables = VarMap::new();
    let mlp = Mlp::trainable(start, &variables, DType::F64, &device)?;
    let decoupled = if options.decay == Decay::Decoupled { options.weight_decay } else { 0.0 };
    let penalty = if options.decay == Decay::L2 { options.weight_decay } else { 0.0 };
    let parameters = ParamsAdamW { lr: options.learning_rate, weight_decay: decoupled, ..Default::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), parameters)?;
    let batches = Batches::new(data, options, &device)?;
    let mut epochs = 0;
    while epochs < options.epochs && !progress.is_cancelled() {
        let epoch = epochs;
        let look = epoch % LOOK_EVERY == 0 || epoch + 1 == options.epochs;
        let (mut sum, mut count) = (0.0, 0.0);
        for (inputs, targets) in batches.of_epoch(epoch as u64)? {
            let value = family.training_loss(&mlp.forward(&inputs)?, &targets)?;
            optimizer.backward_step(&penalized(&value, &variables, penalty)?)?;
            if look {
                let rows = inputs.dim(0)? as f64;
                sum += rows * value.to_scalar::<f64>()?;
                count += rows;
            }
        }
        if look {
            let loss = sum / count;
            if !loss.is_finite() {
                return Err(Error::TrainingDiverged { epoch: epoch + 1, loss });
            }
            progress.step(epoch + 1, loss);
        }
        epochs += 1;
    }
    // The loss after the last step: each loss above was taken before its step.
    let loss = batches.mean_loss(&mlp, family)?;
    let parameters = mlp.parameters()?;
    if !loss.is_finite() || parameters.iter().any(|value| !value.is_finite()) {
        return Err(Error::TrainingDiverged { epoch: epochs, loss });
    }
    let network = Network::new(architecture.clone(), parameters)?;
    Ok(Training { network, loss, epochs, interrupted: epochs < options.epochs })
}

/// The loss plus ½λ‖θ‖².
pub(super) fn penalized(loss: &Tensor, variables: &VarMap, penalty: f64) -> candle_core::Result<Tensor> {
    let mut total = loss.clone();
    if penalty > 0.0 {
        for variable in variables.all_vars() {
            total = (total + (variable.sqr()?.sum_all()? * (0.5 * penalty))?)?;
        }
    }
    Ok(total)
}

/// The numbers that training keeps at once for each weight: the weight, the gradients of every node of the graph that has
/// its shape, the moments, and what a step of the optimiser leaves behind until its end. Measured: 23 to 26.
pub const NUMBERS_PER_WEIGHT: f64 = 30.0;

/// Reserves memory for what belongs to the weights, for the data as tensors, and for each row of a batch: what it leaves behind
/// in every layer, which is about what a tape holds; its way back, twice as much; and the terms of the loss. (Of 400,000 rows
/// and hidden widths W, 20 + 10·W numbers per row were measured with one layer, 20 + 6·W with three.)
pub(super) fn reserve_memory(
    architecture: &Architecture,
    data: &Dataset,
    options: &TrainingOptions,
) -> Result<Reservation> {
    let batch = options.batch_size.unwrap_or(data.len()).min(data.len());
    let numbers = NUMBERS_PER_WEIGHT * architecture.n_params() as f64
        + 2.0 * (data.inputs().len() + data.targets().len()) as f64
        + batch as f64 * (3.0 * architecture.graph().tape_size(1, 1) + 24.0);
    let advice = "choose narrower hidden layers, or smaller batches";
    memory::reserve(&format!("training a {architecture} network"), numbers, advice)
}

fn check_options(options: &TrainingOptions) -> std::result::Result<(), InvalidTraining> {
    if !(options.learning_rate > 0.0 && options.learning_rate.is_finite()) {
        return Err(InvalidTraining::LearningRate(options.learning_rate));
    }
    if !(options.weight_decay >= 0.0 && options.weight_decay.is_finite()) {
        return Err(InvalidTraining::WeightDecay(options.weight_decay));
    }
    if options.epochs == 0 {
        return Err(InvalidTraining::NoEpochs);
    }
    if options.batch_size == Some(0) {
        return Err(InvalidTraining::EmptyBatch);
    }
    Ok(())
}

/// The data as tensors, and the order in which they are used.
pub(super) struct Batches {
    inputs: Tensor,
    targets: Tensor,
    batch_size: Option<usize>,
    seed: u64,
}

impl Batches {
    pub(super) fn new(data: &Dataset, options: &TrainingOptions, device: &Device) -> Result<Self> {
        let (rows, columns) = data.inputs().dim();
        let inputs = Tensor::from_vec(data.inputs().iter().copied().collect(), (rows, columns), device)?;
        let targets = Tensor::from_vec(data.targets().iter().copied().collect(), data.targets().dim(), device)?;
        let batch_size = options.batch_size.filter(|&size| size < rows);
        Ok(Self { inputs, targets, batch_size, seed: options.seed })
    }

    /// The mean loss over all data.
    pub(super) fn mean_loss(&self, mlp: &Mlp, family: &Family) -> Result<f64> {
        let (mut sum, mut count) = (0.0, 0.0);
        for (inputs, targets) in self.of_epoch(0)? {
            let rows = inputs.dim(0)? as f64;
            sum += rows * family.training_loss(&mlp.forward(&inputs)?, &targets)?.to_scalar::<f64>()?;
            count += rows;
        }
        Ok(sum / count)
    }

    /// The batches of one epoch: all data at once, or a fresh shuffle cut into pieces.
    pub(super) fn of_epoch(&self, epoch: u64) -> Result<Vec<(Tensor, Tensor)>> {
        let Some(size) = self.batch_size else {
            return Ok(vec![(self.inputs.clone(), self.targets.clone())]);
        };
        let mut order: Vec<u32> = (0..self.inputs.dim(0)? as u32).collect();
        order.shuffle(&mut stream(self.seed, Purpose::Shuffle, epoch));
        let pick = |rows: &[u32]| -> Result<(Tensor, Tensor)> {
            let rows = Tensor::from_vec(rows.to_vec(), rows.len(), self.inputs.device())?;
            Ok((self.inputs.index_select(&rows, 0)?, self.targets.index_select(&rows, 0)?))
        };
        order.chunks(size).map(pick).collect()
    }
}
