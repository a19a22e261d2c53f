//! The last layer over any candle backbone: f(x) = W φ(x) + b, with a posterior over W and b alone.
//!
//! The backbone φ stays as it is: any candle module, with inputs of any rank (images, sequences). Its features are
//! computed once and are the data of a linear network, the head, for which everything in this crate is exact: the
//! evidence, the linearised predictive (the head is linear in its weights, so nothing is lost), and geodesics of the
//! Fisher metric. Predictions run the backbone first.

mod backbone;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Module, Tensor};
use ndarray::Array2;

use crate::data::Dataset;
pub use crate::error::BackboneError;
use crate::error::{Error, Result, TensorError, check_size};
use crate::evidence::{self, EvidenceOptimum, EvidenceOptions};
use crate::laplace::{Attachment, Contents, FitOptions, Laplace, SavedTensor};
use crate::likelihood::Family;
use crate::network::{Activation, Architecture, Network};
use crate::predict::{self, Method, Prediction};
use crate::progress::Progress;
use crate::tensors::TensorFile;

use backbone::{Probe, ProbeInputs, features, matrix};

/// The tensor with the features of the probe batch.
const PROBE_FEATURES: &str = "probe.features";
/// The metadata entry that describes the probe batch.
const PROBE_INPUTS: &str = "probe";

/// A candle backbone and its linear head, before anything is known about the head's weights.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use riemannian_laplace::internals::likelihood::Bernoulli;
/// use riemannian_laplace::prelude::*;
///
/// // Any module is a backbone; so is a function of a tensor.
/// let backbone = |x: &Tensor| Tensor::cat(&[x.sin()?, x.cos()?], 1);
/// let weight = Tensor::new(&[[2.0f64, -1.0]], &Device::Cpu)?;
/// let head = candle_nn::Linear::new(weight, None);
///
/// let inputs = Tensor::new(&[[-1.0f64], [-0.5], [0.5], [1.0], [1.5]], &Device::Cpu)?;
/// let targets = Tensor::new(&[0.0f64, 1.0, 0.0, 1.0, 1.0], &Device::Cpu)?;
/// let last_layer = LastLayer::new(backbone, &head)?;
/// let mut posterior = last_layer.fit(&inputs, &targets, Family::new(Bernoulli), &FitOptions::default())?;
/// posterior.optimize(&EvidenceOptions::default())?;
/// for method in [Method::default(), Method::riemannian(20, 0)] {
///     assert!(posterior.predict(&inputs, &method)?.mean[(4, 0)] > 0.5);
/// }
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LastLayer<B> {
    backbone: B,
    head: Network,
}

impl<B: Module> LastLayer<B> {
    /// A backbone that gives [points, features], and the trained head that takes them.
    pub fn new(backbone: B, head: &candle_nn::Linear) -> Result<Self> {
        let values = |tensor: &Tensor| -> Result<Vec<f64>> {
            Ok(tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?)
        };
        let (weight, bias) = (head.weight(), head.bias());
        let (outputs, inputs) = match (weight.dims(), bias.map(Tensor::dims)) {
            (&[outputs, inputs], None) => (outputs, inputs),
            (&[outputs, inputs], Some(bias)) if bias == [outputs] => (outputs, inputs),
            (weight, bias) => {
                let bias = bias.map(<[usize]>::to_vec);
                return Err(Error::Backbone(BackboneError::Head { weight: weight.to_vec(), bias }));
            }
        };
        let architecture = Architecture::with_biases(&[inputs, outputs], &[bias.is_some()], Activation::Identity)?;
        let mut parameters = values(weight)?;
        parameters.extend(bias.map(values).transpose()?.unwrap_or_default());
        Ok(Self { backbone, head: Network::new(architecture, parameters)? })
    }

    /// Computes the features of all inputs and fits the head's posterior to them.
    ///
    /// The first axis of `inputs` counts data points. `targets` have one row per point, as the likelihood takes them; a
    /// vector is a single column.
    pub fn fit(
        self,
        inputs: &Tensor,
        targets: &Tensor,
        family: Family,
        options: &FitOptions,
    ) -> Result<LastLayerPosterior<B>> {
        let n_features = self.head.architecture().n_inputs();
        let device = inputs.device().clone();
        let probe = Probe::of(&self.backbone, n_features, ProbeInputs::like(inputs)?, &device)?;
        let features = features(&self.backbone, n_features, inputs)?;
        let shape = match *targets.dims() {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            _ => return Err(Error::Backbone(BackboneError::Targets(targets.dims().to_vec()))),
        };
        let data = Dataset::new(features, matrix(targets, shape)?)?;
        let laplace = Laplace::fit(self.head, data, family, options)?;
        Ok(LastLayerPosterior { backbone: self.backbone, laplace, probe })
    }
}

/// A candle backbone with the posterior of its head.
#[derive(Debug, Clone)]
pub struct LastLayerPosterior<B> {
    backbone: B,
    laplace: Laplace,
    probe: Probe,
}

impl<B: Module> LastLayerPosterior<B> {
    /// The features of inputs, one row each: the data of [`laplace`](Self::laplace).
    pub fn features(&self, inputs: &Tensor) -> Result<Array2<f64>> {
        features(&self.backbone, self.laplace.model().n_inputs(), inputs)
    }

    /// Maximises the log marginal likelihood over prior precision and σ, and refits with the optimum.
    pub fn optimize(&mut self, options: &EvidenceOptions) -> Result<EvidenceOptimum> {
        evidence::optimize(&mut self.laplace, options, &())
    }

    /// Predicts at inputs with any of the methods.
    pub fn predict(&self, inputs: &Tensor, method: &Method) -> Result<Prediction> {
        self.predict_with(inputs, method, &())
    }

    /// The same with a progress, which is told about the samples and may cancel them.
    pub fn predict_with(&self, inputs: &Tensor, method: &Method, progress: &dyn Progress) -> Result<Prediction> {
        predict::predict(&self.laplace, &self.features(inputs)?, method, progress)
    }

    /// The head's posterior over features, with all its verbs: samples, geodesics, the evidence.
    pub fn laplace(&self) -> &Laplace {
        &self.laplace
    }

    /// The same, to be changed.
    pub fn laplace_mut(&mut self) -> &mut Laplace {
        &mut self.laplace
    }

    /// The backbone.
    pub fn backbone(&self) -> &B {
        &self.backbone
    }

    /// Writes the head's posterior, and the features of a probe batch by which its backbone is recognised. The backbone
    /// itself is saved as any candle module is. [`Contents::TrainingData`] are the features and targets.
    pub fn save(&self, path: &Path, contents: Contents) -> Result<()> {
        let probe = serde_json::to_string(&self.probe.inputs).map_err(|error| Error::Metadata {
            path: path.to_path_buf(),
            key: PROBE_INPUTS,
            problem: format!("cannot be written: {error}"),
        })?;
        let features = &self.probe.features;
        let attachment = Attachment {
            metadata: BTreeMap::from([(PROBE_INPUTS.to_string(), probe)]),
            tensors: vec![SavedTensor {
                name: PROBE_FEATURES.to_string(),
                shape: vec![features.nrows(), features.ncols()],
                values: features.iter().copied().collect(),
            }],
        };
        self.laplace.save_with(path, contents, attachment)
    }

    /// Reads a posterior for a backbone on the CPU, which must give the same features as the one it was fitted with.
    pub fn load(path: &Path, backbone: B) -> Result<Self> {
        Self::load_on(path, backbone, &Device::Cpu)
    }

    /// The same for a backbone on any device.
    pub fn load_on(path: &Path, backbone: B, device: &Device) -> Result<Self> {
        let laplace = Laplace::load(path)?;
        let mut file = TensorFile::read_where(path, |name| name == PROBE_FEATURES)?;
        let invalid = |problem: String| Error::Metadata { path: path.to_path_buf(), key: PROBE_INPUTS, problem };
        let inputs = file.metadata.get(PROBE_INPUTS).ok_or_else(|| {
            invalid("is missing: this is not the posterior of a last layer; load it as a plain posterior".to_string())
        })?;
        let inputs: ProbeInputs =
            serde_json::from_str(inputs).map_err(|error| invalid(format!("cannot be read: {error}")))?;
        let tensor = file.take(path, PROBE_FEATURES)?;
        let (&[rows, columns], values) = (&tensor.shape[..], tensor.values) else {
            return Err(Error::Tensor(TensorError::Shape {
                path: path.to_path_buf(),
                tensor: PROBE_FEATURES.to_string(),
                found: tensor.shape,
                expected: "expected one row per input of the probe batch".into(),
            }));
        };
        check_size("number of features of the probe batch", laplace.model().n_inputs(), columns)?;
        let features = Array2::from_shape_vec((rows, columns), values).map_err(|error| invalid(error.to_string()))?;
        let probe = Probe { inputs, features };
        probe.check(&backbone, device)?;
        Ok(Self { backbone, laplace, probe })
    }
}
