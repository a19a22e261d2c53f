//! Predictions at new inputs: linearised (GLM), from samples of the weights, or from the MAP network alone.

mod density;
mod linearized;
mod links;
mod sampled;

pub use linearized::{JointGaussian, LatentGaussian};
pub use links::{Link, MonteCarlo};
pub use sampled::SampledPredictive;

use ndarray::{Array1, Array2};

use crate::error::Result;
use crate::laplace::Laplace;
use crate::laplace::curvature::outputs;
use crate::likelihood::Family;

/// A predictive distribution, summarised: one row a test point, one column an output (or class).
///
/// The variances are of the observation y (for classes: of each class's indicator): what more data would reduce
/// (epistemic), what they would not (aleatoric), and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// E(y): the mean, or the class probabilities.
    pub mean: Array2<f64>,
    /// Var E(y | θ).
    pub epistemic_variance: Array2<f64>,
    /// E Var(y | θ).
    pub aleatoric_variance: Array2<f64>,
    /// Var y.
    pub total_variance: Array2<f64>,
    /// The entropy of the class probabilities, where samples were drawn.
    pub entropy: Option<Array1<f64>>,
    /// The mutual information between class and weights, where samples were drawn.
    pub mutual_information: Option<Array1<f64>>,
}

impl Prediction {
    /// Adds the two parts of the variance.
    pub(crate) fn from_parts(mean: Array2<f64>, epistemic: Array2<f64>, aleatoric: Array2<f64>) -> Self {
        Self {
            total_variance: &epistemic + &aleatoric,
            mean,
            epistemic_variance: epistemic,
            aleatoric_variance: aleatoric,
            entropy: None,
            mutual_information: None,
        }
    }
}

impl Laplace {
    /// The network's raw outputs at θ̂, one row an input.
    pub fn outputs(&self, inputs: &Array2<f64>) -> Result<Array2<f64>> {
        outputs(&self.network, inputs)
    }

    /// The prediction of the network alone, without any uncertainty about its weights.
    pub fn predict_map(&self, inputs: &Array2<f64>) -> Result<Prediction> {
        let outputs = self.outputs(inputs)?;
        let (mean, variance) = moments(&self.family, &outputs);
        Ok(Prediction::from_parts(mean, Array2::zeros(variance.dim()), variance))
    }
}

/// E(y | f) and Var(y | f), row by row.
pub(crate) fn moments(family: &Family, outputs: &Array2<f64>) -> (Array2<f64>, Array2<f64>) {
    let likelihood = family.likelihood();
    let (mut mean, mut variance) = (Array2::zeros(outputs.dim()), Array2::zeros(outputs.dim()));
    let mut buffer = vec![0.0; outputs.ncols()];
    for (row, output) in outputs.rows().into_iter().enumerate() {
        let output = output.to_vec();
        likelihood.mean(&output, &mut buffer);
        mean.row_mut(row).iter_mut().zip(&buffer).for_each(|(slot, value)| *slot = *value);
        likelihood.variance(&output, &mut buffer);
        variance.row_mut(row).iter_mut().zip(&buffer).for_each(|(slot, value)| *slot = *value);
    }
    (mean, variance)
}

/// log Σ exp of the terms, without overflow; −∞ when all of them are.
fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let terms: Vec<f64> = terms.into_iter().collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}
