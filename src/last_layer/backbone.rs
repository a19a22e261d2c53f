//! Running a backbone: features in batches, and the probe batch by which a backbone is recognised.

use candle_core::{DType, Device, Module, Tensor};
use ndarray::{Array2, Axis};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::error::{BackboneError, Error, Result};
use crate::memory;
use crate::random::{Purpose, fill_standard_normal, stream};

/// Inputs that go through the backbone at once.
const BATCH: usize = 256;
/// Inputs in the probe batch.
const PROBES: usize = 8;
/// The seed of the probe batch.
const PROBE_SEED: u64 = 0;
/// The difference, relative to the largest feature, that rounding may cause: features are f32 as a rule, and sums of
/// thousands of products in another order, on another machine, differ by 1e-6 to 1e-5.
const TOLERANCE: f64 = 1e-4;

/// The features of all inputs, one row each, in f64. The first axis of `inputs` counts them.
pub(super) fn features(backbone: &impl Module, n_features: usize, inputs: &Tensor) -> Result<Array2<f64>> {
    let points = points(inputs)?;
    let _reservation = memory::reserve("the features", (points * n_features) as f64, "give fewer inputs at once")?;
    let mut all = Array2::zeros((points, n_features));
    for start in (0..points).step_by(BATCH) {
        let count = BATCH.min(points - start);
        let batch = backbone.forward(&inputs.narrow(0, start, count)?)?;
        if batch.dims() != [count, n_features] {
            let found = batch.dims().to_vec();
            return Err(Error::Backbone(BackboneError::Features { found, points: count, features: n_features }));
        }
        all.slice_axis_mut(Axis(0), (start..start + count).into()).assign(&matrix(&batch, (count, n_features))?);
    }
    Ok(all)
}

/// The number of inputs.
fn points(inputs: &Tensor) -> Result<usize> {
    match inputs.dims().first() {
        Some(&points) if points > 0 => Ok(points),
        _ => Err(Error::Backbone(BackboneError::Inputs(inputs.dims().to_vec()))),
    }
}

/// A tensor as a matrix of f64 on the CPU.
pub(super) fn matrix(tensor: &Tensor, shape: (usize, usize)) -> Result<Array2<f64>> {
    let values = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
    Array2::from_shape_vec(shape, values).map_err(|_| Error::Backbone(BackboneError::Targets(tensor.dims().to_vec())))
}

/// What the probe batch looks like: a few inputs of the shape and type of the training data, but none of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeInputs {
    /// The shape of one input.
    shape: Vec<usize>,
    /// The name of its type.
    dtype: String,
}

impl ProbeInputs {
    /// Probes that look like these inputs.
    pub fn like(inputs: &Tensor) -> Result<Self> {
        points(inputs)?;
        Ok(Self { shape: inputs.dims().iter().skip(1).copied().collect(), dtype: inputs.dtype().as_str().to_string() })
    }

    /// Standard normal numbers; for inputs that are integers, zeros and ones.
    fn tensor(&self, device: &Device) -> Result<Tensor> {
        let dtype: DType = self.dtype.parse().map_err(candle_core::Error::wrap)?;
        let shape: Vec<usize> = std::iter::once(PROBES).chain(self.shape.iter().copied()).collect();
        let size = shape.iter().try_fold(1, |size: usize, axis| size.checked_mul(*axis)).unwrap_or(usize::MAX);
        let _reservation = memory::reserve("the probe batch", 2.0 * size as f64, "allow more memory")?;
        let mut values = vec![0.0; size];
        let mut generator = stream(PROBE_SEED, Purpose::Data, 0);
        if dtype.is_float() {
            fill_standard_normal(&mut generator, &mut values);
        } else {
            values.iter_mut().for_each(|value| *value = f64::from(u8::from(generator.random_bool(0.5))));
        }
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?)
    }
}

/// The features of the probe batch: a fingerprint of the backbone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Probe {
    pub inputs: ProbeInputs,
    pub features: Array2<f64>,
}

impl Probe {
    /// Runs the backbone, and half of the batch once more: the features of an input must depend on nothing else.
    pub fn of(backbone: &impl Module, n_features: usize, inputs: ProbeInputs, device: &Device) -> Result<Self> {
        let batch = inputs.tensor(device)?;
        let whole = features(backbone, n_features, &batch)?;
        let half = features(backbone, n_features, &batch.narrow(0, 0, PROBES / 2)?)?;
        let difference = difference(&whole.slice_axis(Axis(0), (0..PROBES / 2).into()).to_owned(), &half);
        if difference <= TOLERANCE {
            return Ok(Self { inputs, features: whole });
        }
        Err(Error::Backbone(BackboneError::Unsteady { difference }))
    }

    /// Checks that a backbone gives the same features.
    pub fn check(&self, backbone: &impl Module, device: &Device) -> Result<()> {
        let found = Self::of(backbone, self.features.ncols(), self.inputs.clone(), device)?;
        let difference = difference(&self.features, &found.features);
        if difference <= TOLERANCE {
            return Ok(());
        }
        Err(Error::Backbone(BackboneError::OtherBackbone { difference, tolerance: TOLERANCE }))
    }
}

/// The largest difference relative to the largest entry; infinite where an entry is not a number.
fn difference(first: &Array2<f64>, second: &Array2<f64>) -> f64 {
    let largest = first.iter().chain(second).fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let differences = first.iter().zip(second).map(|(a, b)| (a - b).abs());
    differences
        .fold(0.0, |most: f64, difference| if difference.is_nan() { f64::INFINITY } else { most.max(difference) })
        / largest
}
